/* The DATA automaton against the plain definition: all short inputs over the octets that matter, cut in every way; and the
 * writer against the reader. */
#include "check.h"
#include "data_reference.h"
#include "proto/smtp/data.h"
#include "proto/smtp/scan.h"

#include <stdio.h>
#include <stdlib.h>

struct result {
	char text[64 * 1024];
	size_t n, end;
	char fault;
};

static char fault_letter(enum smtp_data_fault f)
{
	return f == SMTP_DATA_BARE_CR ? 'R' : f == SMTP_DATA_BARE_LF ? 'L' : f == SMTP_DATA_NUL ? 'Z' : 0;
}

/* cuts: bit i set: a new feed begins behind octet i */
static void read_cut(const char *in, size_t n, unsigned cuts, struct result *r)
{
	struct smtp_data d = { 0 };
	size_t at = 0;
	r->n = r->end = 0;
	while (at < n && d.state != SMTP_DATA_END) {
		size_t to = at + 1;
		while (to < n && !(to <= 32 && cuts & 1u << (to - 1)))
			to++;
		while (at < to && d.state != SMTP_DATA_END) {
			struct str chunk;
			size_t used = smtp_data_feed(&d, in + at, to - at, &chunk);
			assert_true(used >= 1 && used <= to - at);
			assert_true(d.state != SMTP_DATA_END || !chunk.n);
			assert_true(!chunk.n || (chunk.p >= in + at && chunk.p + chunk.n <= in + at + used));
			if (chunk.n)
				memcpy(r->text + r->n, chunk.p, chunk.n);
			r->n += chunk.n;
			at += used;
		}
	}
	r->end = d.state == SMTP_DATA_END ? at : 0;
	r->fault = fault_letter(d.fault);
	assert_int_equal(d.size, r->n);
}

static struct result got;

static void compare(const char *in, size_t n, unsigned cuts)
{
	char text[64];
	size_t text_n;
	char fault;
	size_t end = data_reference(in, n, text, &text_n, &fault);
	read_cut(in, n, cuts, &got);
	bool same = got.end == end && got.fault == fault;
	if (same && !fault && end)
		same = got.n == text_n && !memcmp(got.text, text, text_n);
	if (same && !fault && !end) /* a dot held back may be the end's */
		same = got.n <= text_n && text_n - got.n <= 2 && !memcmp(got.text, text, got.n);
	if (!same) {
		for (size_t i = 0; i < n; i++)
			print_error("%02x ", (unsigned char)in[i]);
		print_error("cuts %x: end %zu/%zu fault %c/%c\n", cuts, got.end, end, got.fault + !got.fault * '-',
		    fault + !fault * '-');
	}
	assert_true(same);
}

static void test_all_short(void **state)
{
	static const char octets[] = { '\r', '\n', '.', 'a', 0 };
	(void)state;
	for (size_t n = 1; n <= 6; n++) {
		size_t all = 1;
		for (size_t i = 0; i < n; i++)
			all *= sizeof octets;
		for (size_t v = 0; v < all; v++) {
			char in[8];
			for (size_t i = 0, rest = v; i < n; i++, rest /= sizeof octets)
				in[i] = octets[rest % sizeof octets];
			for (unsigned cuts = 0; cuts < 1u << (n - 1); cuts++)
				compare(in, n, cuts);
		}
	}
}

/* all longer ones uncut and octet by octet */
static void test_longer(void **state)
{
	static const char octets[] = { '\r', '\n', '.', 'a' };
	(void)state;
	for (unsigned v = 0; v < 1u << 18; v++) {
		char in[9];
		for (size_t i = 0; i < sizeof in; i++)
			in[i] = octets[v >> 2 * i & 3];
		compare(in, sizeof in, 0);
		compare(in, sizeof in, ~0u);
	}
}

/* a run of text is one chunk, not a chunk per line or octet */
static void test_runs(void **state)
{
	static const char in[] = "Subject: x\r\n\r\nfirst line\r\nsecond\tline\r\n..third\r\nfourth\r\n.\r\nQUIT\r\n";
	struct smtp_data d = { 0 };
	struct str chunk;
	(void)state;
	size_t used = smtp_data_feed(&d, in, sizeof in - 1, &chunk);
	assert_int_equal(chunk.n, strlen("Subject: x\r\n\r\nfirst line\r\nsecond\tline\r\n"));
	assert_ptr_equal(chunk.p, in);
	used += smtp_data_feed(&d, in + used, sizeof in - 1 - used, &chunk);
	assert_int_equal(chunk.n, strlen(".third\r\nfourth\r\n"));
	used += smtp_data_feed(&d, in + used, sizeof in - 1 - used, &chunk);
	assert_int_equal(d.state, SMTP_DATA_END);
	assert_string_equal(in + used, "QUIT\r\n");
	assert_int_equal(smtp_data_feed(&d, in + used, 6, &chunk), 0);
}

static void test_scan(void **state)
{
	char *p = malloc(70);
	(void)state;
	for (size_t n = 0; n <= 70; n++)
		for (size_t at = 0; at <= n; at++)
			for (const char *special = "\r\n"; ; special++) { /* CR, LF, and the NUL behind them */
				memset(p, 0x80, 70);
				for (size_t i = 0; i < n; i++)
					p[i] = "a\t\x0b\x0e\xff\x8d\x8a~"[i % 8];
				if (at < n)
					p[at] = *special;
				assert_int_equal(smtp_scan_special(p, n), at);
				if (!*special)
					break;
			}
	free(p);
}

static const struct {
	struct str message;
	const char *wire; /* NULL: refused */
} writes[] = {
	{ STR_INIT(""), ".\r\n" },
	{ STR_INIT("."), "..\r\n.\r\n" },
	{ STR_INIT("a"), "a\r\n.\r\n" },
	{ STR_INIT("a\r\n"), "a\r\n.\r\n" },
	{ STR_INIT(".\r\n..\r\na.\r\n.b"), "..\r\n...\r\na.\r\n..b\r\n.\r\n" },
	{ STR_INIT("\r\n\r\n"), "\r\n\r\n.\r\n" },
	{ STR_INIT("a\r"), NULL },
	{ STR_INIT("\r"), NULL },
	{ STR_INIT("a\rb\r\n"), NULL },
	{ STR_INIT("a\r\r\n"), NULL },
	{ STR_INIT("\n"), NULL },
	{ STR_INIT("a\nb\r\n"), NULL },
	{ STR_INIT("a\0b\r\n"), NULL },
	{ STR_INIT("\r\0"), NULL },
};

static int write_cut(struct str m, size_t cut, struct buf *out)
{
	struct smtp_data_out d = { 0 };
	buf_reset(out);
	return smtp_data_write(&d, m.p, cut, out) || smtp_data_write(&d, m.p + cut, m.n - cut, out) || smtp_data_finish(&d, out);
}

static void test_write(void **state)
{
	struct buf out = BUF_INIT(1000);
	(void)state;
	for (size_t i = 0; i < COUNT(writes); i++)
		for (size_t cut = 0; cut <= writes[i].message.n; cut++) {
			int r = write_cut(writes[i].message, cut, &out);
			CHECK(!r == !!writes[i].wire, "%zu cut at %zu", i, cut);
			if (!r)
				assert_string_equal(buf_z(&out), writes[i].wire);
		}
	buf_free(&out);
	struct buf small = BUF_INIT(4);
	struct smtp_data_out d = { 0 };
	assert_int_equal(smtp_data_write(&d, "abcde", 5, &small), -1);
	buf_free(&small);
}

/* what was written is read back, whatever was in it */
static void test_round_trip(void **state)
{
	struct buf out = BUF_INIT(1000);
	(void)state;
	for (unsigned v = 0; v < 1u << 12; v++) {
		static const char *const parts[] = { "\r\n", ".", "a", "..\r\n" };
		char m[64];
		size_t n = 0;
		for (unsigned i = 0; i < 6; i++)
			n += (size_t)snprintf(m + n, sizeof m - n, "%s", parts[v >> 2 * i & 3]);
		if (n < 2 || memcmp(m + n - 2, "\r\n", 2)) {
			memcpy(m + n, "\r\n", 3);
			n += 2;
		}
		assert_int_equal(write_cut(str_n(m, n), 0, &out), 0);
		read_cut(out.p, out.n, 0, &got);
		assert_int_equal(got.end, out.n);
		assert_int_equal(got.fault, 0);
		assert_int_equal(got.n, n);
		assert_memory_equal(got.text, m, n);
	}
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_short), cmocka_unit_test(test_longer),     cmocka_unit_test(test_runs),
		cmocka_unit_test(test_scan),      cmocka_unit_test(test_write),      cmocka_unit_test(test_round_trip),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
