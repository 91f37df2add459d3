/* The command line reader: every result, at the limits and one beyond, and cut anywhere. */
#include "check.h"
#include "proto/smtp/line.h"

#include <stdio.h>
#include <stdlib.h>

/* Results of all lines of in, fed in pieces of `step` behind a first one of `first`, as text. */
static void read_all(struct str in, size_t first, size_t step, char *out, size_t size)
{
	static const char *const names[] = { "more", "ok", "long", "flood", "cr", "lf", "nul" };
	struct smtp_line l = { 0 };
	size_t at = 0, have = first < in.n ? first : in.n, len = 0;
	out[0] = 0;
	for (;;) {
		size_t used;
		struct str line;
		enum smtp_line_result r = smtp_line_next(&l, in.p + at, have - at, &used, &line);
		assert_true(used <= have - at);
		at += used;
		if (r == SMTP_LINE_MORE) {
			if (have == in.n)
				return;
			have += step < in.n - have ? step : in.n - have;
			continue;
		}
		if (r == SMTP_LINE_OK && line.n < 40)
			len += (size_t)snprintf(out + len, size - len, "%s(%.*s) ", names[r], (int)line.n, line.p);
		else
			len += (size_t)snprintf(out + len, size - len, "%s ", names[r]);
		assert_true(len < size);
		if (r != SMTP_LINE_OK && r != SMTP_LINE_TOO_LONG)
			return;
	}
}

static void check_all(struct str in, const char *expect)
{
	char out[512];
	for (size_t first = 0; first <= in.n; first++) {
		read_all(in, first, in.n, out, sizeof out);
		assert_string_equal(out, expect);
	}
	for (size_t step = 1; step <= 3; step++) {
		read_all(in, 0, step, out, sizeof out);
		assert_string_equal(out, expect);
	}
}

static void test_lines(void **state)
{
	static const struct {
		struct str in;
		const char *expect;
	} cases[] = {
		{ STR_INIT(""), "" },
		{ STR_INIT("NOOP"), "" },
		{ STR_INIT("NOOP\r"), "" },
		{ STR_INIT("NOOP\r\n"), "ok(NOOP) " },
		{ STR_INIT("\r\n\r\n"), "ok() ok() " },
		{ STR_INIT("A\r\nB C\r\nD"), "ok(A) ok(B C) " },
		{ STR_INIT("A\nB\r\n"), "lf " },
		{ STR_INIT("\nB\r\n"), "lf " },
		{ STR_INIT("A\r\n\nB\r\n"), "ok(A) lf " },
		{ STR_INIT("A\rB\r\n"), "cr " },
		{ STR_INIT("A\r\r\n"), "cr " },
		{ STR_INIT("A\r\0"), "cr " },
		{ STR_INIT("A\0B\r\n"), "nul " },
		{ STR_INIT("A\tB\xff\r\n"), "ok(A\tB\xff) " },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		check_all(cases[i].in, cases[i].expect);
}

static void check_length(size_t n, const char *tail, const char *expect)
{
	size_t more = strlen(tail);
	char *p = malloc(n + more), out[512];
	memset(p, 'x', n);
	memcpy(p + n, tail, more);
	struct str in = str_n(p, n + more);
	static const size_t steps[] = { 1, 7, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20 };
	for (size_t i = 0; i < COUNT(steps); i++) {
		read_all(in, 0, steps[i], out, sizeof out);
		CHECK(!strcmp(out, expect), "%zu x and tail, step %zu: %s", n, steps[i], out);
	}
	free(p);
}

static void test_limits(void **state)
{
	(void)state;
	check_length(SMTP_LINE_MAX, "\r\nQUIT\r\n", "ok ok(QUIT) ");
	check_length(SMTP_LINE_MAX + 1, "\r\nQUIT\r\n", "long ok(QUIT) ");
	check_length(SMTP_LINE_MAX + 1, "\nQUIT\r\n", "lf ");
	check_length(SMTP_LINE_MAX + 1, "\rQUIT\r\n", "cr ");
	check_length(3 * SMTP_LINE_MAX, "\r\nQUIT\r\n", "long ok(QUIT) ");
	check_length(SMTP_LINE_SKIP_MAX, "\r\nQUIT\r\n", "long ok(QUIT) ");
	check_length(SMTP_LINE_SKIP_MAX + 1, "\r\nQUIT\r\n", "flood ");
	check_length(SMTP_LINE_SKIP_MAX + 1, "\nQUIT\r\n", "flood ");
	check_length(SMTP_LINE_SKIP_MAX + 1, "", "flood ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
