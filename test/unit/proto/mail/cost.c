/* What reading hostile messages costs: header blocks and the structure of parts. test/unit/cost.h says what is asked for; the parser of parts counts
 * the octets it looks at, too. Address lists: addrlist.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../cost.h"

#include "proto/mail/downgrade.h"
#include "proto/mail/header.h"
#include "proto/mail/mime.h"
#include "proto/mail/split.h"

/* -- header blocks: everything that is done with them */

static void read_headers(struct str raw)
{
	struct mail_split s;
	struct mail_field f;
	struct buf out = BUF_INIT((size_t)256 << 20);
	mail_split(raw, &s);
	struct str rest = s.headers;
	for (int r; (r = mail_field_next(&rest, &f)); ) {
		buf_reset(&out);
		if (r > 0)
			assert_int_equal(mail_field_unfold(&out, f.value), 0);
	}
	(void)mail_field_count(s.headers, STR("x"), 0);
	(void)mail_field_find(s.headers, STR("x"), SIZE_MAX, &f);
	(void)mail_headers_sendable(s.headers);
	buf_reset(&out);
	(void)mail_field_write(&out, STR("X"), raw);
	buf_free(&out);
}

static void headers(void **state)
{
	(void)state;
	enum { MOST = 4 << 20 };
#ifdef PEPSI_SANITIZED /* its memmem() looks at the whole rest of the block for each line: not linear, and not ours */
	skip();
#endif
	static const struct cost all[] = {
		{ .unit = "x: y\r\n", .most = MOST }, { .unit = "x:\r\n", .most = MOST }, { .unit = "\r\n ", .most = MOST }, { .unit = "x: a\r\n\t\r\n \r\n", .most = MOST },
		{ .unit = "no field\r\n", .most = MOST }, { .unit = "x", .most = MOST }, { .unit = "x ", .most = MOST }, { .unit = ":", .most = MOST }, { .unit = "\r", .most = MOST },
		{ .unit = "\n", .most = MOST }, { .unit = "\r\r\n", .most = MOST }, { .unit = " ", .most = MOST }, { .unit = "x:\n\n y\r\n", .most = MOST },
		{ .unit = "x : \xff\r\n", .most = MOST }, { .unit = "word word ", .most = MOST },
	};
	cost_linear(all, sizeof all / sizeof *all, read_headers);
}

/* -- parts */

static void many_parts(struct buf *out, size_t n)
{
	buf_addz(out, "Content-Type: multipart/mixed; boundary=a\r\n\r\n");
	while (out->n < n)
		buf_addz(out, "--a\r\n\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n");
}

static void deep_prefixes(struct buf *out, size_t n)
{
	char b[60];
	memset(b, 'a', sizeof b);
	for (int i = 1; i <= 49; i++)
		buf_addf(out, "Content-Type: multipart/mixed; boundary=%.*sb\r\n\r\n--%.*sb\r\n", i, b, i, b);
	buf_addz(out, "\r\n");
	while (out->n < n)
		buf_addf(out, "--%.*s\r\n", 55, b);
}

static void dashes(struct buf *out, size_t n)
{
	buf_addz(out, "Content-Type: multipart/mixed; boundary=\"----------------------------------\"\r\n\r\n");
	while (out->n < n)
		buf_addz(out, "-----------------------------------\n");
}

static void one_line(struct buf *out, size_t n)
{
	buf_addz(out, "Content-Type: multipart/mixed; boundary=\"a\"\r\n\r\n");
	while (out->n < n)
		buf_addz(out, "--a--a--a--a--a--a\n\n\n");
}

static void long_head(struct buf *out, size_t n)
{
	buf_addz(out, "Content-Type: text/plain\r\n");
	while (out->n < n)
		buf_addz(out, "Content-Type: multipart/mixed; boundary=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n");
	buf_addz(out, "\r\n");
}

static void nested_messages(struct buf *out, size_t n)
{
	for (int i = 0; i < 45; i++)
		buf_addz(out, "Content-Type: message/rfc822\r\n\r\n");
	while (out->n < n)
		buf_addz(out, "no field, --a, and no more of it than what this line has\r\n");
}

/* fields with as many parameters as are read; more are a limit */
static void many_parameters(struct buf *out, size_t n)
{
	buf_addz(out, "Content-Type: multipart/mixed; boundary=a\r\n\r\n");
	while (out->n < n) {
		buf_addz(out, "--a\r\nContent-Type: multipart/mixed");
		for (int i = 0; i < 40; i++)
			buf_addf(out, ";\r\n boundary*%d*=us-ascii''%%41; x*%d=\"\\\"\"", i, i);
		buf_addz(out, "\r\n\r\n");
	}
}

static void many_tails(struct buf *out, size_t n) /* each closes what is not open any more */
{
	buf_addz(out, "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n");
	while (out->n < n)
		buf_addz(out, "--b--\r\n--a \t\r\n\r\n--a--\r\n");
}

static const struct cost parts[] = {
	{ .name = "many parts", .make = many_parts, .most = 200000 }, { .name = "deep prefixes", .make = deep_prefixes, .most = 200000 },
	{ .name = "dashes", .make = dashes, .most = 200000 }, { .name = "one line", .make = one_line, .most = 200000 },
	{ .name = "long head", .make = long_head, .most = 200000 }, { .name = "nested messages", .make = nested_messages, .most = 200000 },
	{ .name = "many parameters", .make = many_parameters, .most = 200000 }, { .name = "many tails", .make = many_tails, .most = 200000 },
};

static void read_parts(struct str raw)
{
	struct mail_mime m;
	struct buf out = BUF_INIT(raw.n + 1);
	if (!mail_mime_parse(&m, raw, false)) {
		assert_int_equal(mail_mime_write(&m, NULL, NULL, &out), 0);
		assert_int_equal(out.n, raw.n);
	}
	mail_mime_free(&m);
	buf_free(&out);
}

static void mime(void **state)
{
	(void)state;
	cost_linear(parts, sizeof parts / sizeof *parts, read_parts);
}

/* To plan how a large message is made fit stops a loop of many sessions: it costs a fraction of the writing, which is done piece by piece. */
static void plan_and_write(void **state)
{
	static const char head[] = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n";
	static const char *const lines[] = { ("Gr\xc3\xbc\xc3\x9f" "e und eine lange Zeile Text mit Umlauten: \xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f, bis sie voll ist.\r\n"),
		"una l\xc3\xadnea corta\r\n", "mostly plain text, as most of it is, with one sign that is not: \xe2\x82\xac\r\n" };
	enum { OCTETS = 20000000 };
	(void)state;
#ifdef PEPSI_SANITIZED
	skip(); /* two paces that sanitizers slow down differently: the release build of this test decides */
#endif
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		double plan = 0, all = 0;
		struct buf body = BUF_INIT(OCTETS + 200), out = BUF_INIT(1 << 20);
		while (body.n < OCTETS)
			buf_addz(&body, lines[i]);
		for (int attempt = 0; attempt < COST_ATTEMPTS && (!attempt || plan > all / 2); attempt++) {
			struct mail_downgrade d;
			struct mail_downgrade_reader r;
			struct timespec t[3];
			uint64_t n = 0;
			clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t[0]);
			assert_int_equal(mail_downgrade_plan(&d, str_from(head), buf_str(&body), MAIL_LACKS_8BIT), 0);
			clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t[1]);
			mail_downgrade_begin(&d, &r);
			for (; mail_downgrade_next(&r, &out, 16384); buf_reset(&out))
				n += out.n;
			clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t[2]);
			assert_true(d.parts == 1 && n == d.size);
			mail_downgrade_free(&d);
			/* both of one attempt: the least of each would be of different moments of a machine that does other work */
			plan = (double)(t[1].tv_sec - t[0].tv_sec) + (double)(t[1].tv_nsec - t[0].tv_nsec) / 1e9;
			all = (double)(t[2].tv_sec - t[1].tv_sec) + (double)(t[2].tv_nsec - t[1].tv_nsec) / 1e9;
		}
		print_message("%d octets: %.0f ms to plan, %.0f ms to write\n", OCTETS, plan * 1000, all * 1000);
		assert_true(plan < all / 2);
		buf_free(&body);
		buf_free(&out);
	}
}

/* The same in octets looked at, which no machine's load changes. */
static void mime_steps(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		uint64_t steps[2];
		for (unsigned k = 0; k < 2; k++) {
			struct buf b = BUF_INIT(1 << 20);
			struct mail_mime m;
			parts[i].make(&b, 100000u << k);
			if (mail_mime_parse(&m, buf_str(&b), false))
				fail_msg("%s: %s", parts[i].name, m.limit);
			steps[k] = m.steps;
			mail_mime_free(&m);
			buf_free(&b);
		}
		if (steps[0] < 100000 || (double)steps[1] / (double)steps[0] >= 2.5)
			fail_msg("%s: %llu, then %llu octets", parts[i].name, (unsigned long long)steps[0], (unsigned long long)steps[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(headers), cmocka_unit_test(mime), cmocka_unit_test(mime_steps), cmocka_unit_test(plan_and_write) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
