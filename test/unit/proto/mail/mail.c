/* Splitting, header fields and dates: tables of cases. */
#include "proto/mail/date.h"
#include "proto/mail/header.h"
#include "proto/mail/split.h"

#include "mail_test.h"

static void test_split(void **state)
{
	static const struct {
		struct str raw, headers, body;
		bool separated, unterminated;
	} cases[] = {
		{ STR_INIT("A: 1\r\n\r\nbody\r\n"), STR_INIT("A: 1\r\n"), STR_INIT("body\r\n"), true, false },
		{ STR_INIT("A: 1\r\n\r\n"), STR_INIT("A: 1\r\n"), STR_INIT(""), true, false },
		{ STR_INIT("\r\nbody"), STR_INIT(""), STR_INIT("body"), true, false },
		{ STR_INIT("\r\n"), STR_INIT(""), STR_INIT(""), true, false },
		{ STR_INIT("\r\n\r\n"), STR_INIT(""), STR_INIT("\r\n"), true, false },
		{ STR_INIT("A: 1\r\n\r\n\r\nx"), STR_INIT("A: 1\r\n"), STR_INIT("\r\nx"), true, false },
		/* a line that is no field before the empty line does not move the cut */
		{ STR_INIT("A: 1\r\nno field\r\n\r\nx\r\n"), STR_INIT("A: 1\r\nno field\r\n"), STR_INIT("x\r\n"), true, false },
		/* no empty line at all */
		{ STR_INIT(""), STR_INIT(""), STR_INIT(""), false, false },
		{ STR_INIT("A: 1\r\nB: 2\r\n"), STR_INIT("A: 1\r\nB: 2\r\n"), STR_INIT(""), false, false },
		{ STR_INIT("A: 1\r\n fold\r\nhello world\r\nC: 3\r\n"), STR_INIT("A: 1\r\n fold\r\n"),
		    STR_INIT("hello world\r\nC: 3\r\n"), false, false },
		{ STR_INIT("hello world\r\n"), STR_INIT(""), STR_INIT("hello world\r\n"), false, false },
		{ STR_INIT(" blank first\r\n"), STR_INIT(""), STR_INIT(" blank first\r\n"), false, false },
		{ STR_INIT("A: 1"), STR_INIT("A: 1"), STR_INIT(""), false, true },
		{ STR_INIT("A: 1\n\nx"), STR_INIT("A: 1\n\nx"), STR_INIT(""), false, true },
		{ STR_INIT("A:"), STR_INIT("A:"), STR_INIT(""), false, true },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct mail_split s;
		mail_split(cases[i].raw, &s);
		assert_str(s.headers, cases[i].headers);
		assert_str(s.body, cases[i].body);
		assert_int_equal(s.separated, cases[i].separated);
		assert_int_equal(s.unterminated, cases[i].unterminated);
		if (s.separated)
			assert_int_equal(s.headers.n + 2 + s.body.n, cases[i].raw.n);
	}
}

static void test_fields(void **state)
{
	struct str h = STR("Received: one\r\n\tmore\r\nno field here\r\n going on\r\nSubject : a\r\n\tb\r\nreceived:two\r\n"
			   ": nameless\r\nX:\r\n");
	static const char *const seen[] = { "Received|one\r\n\tmore", "-", "Subject|a\r\n\tb", "received|two", "-", "X|" };
	struct str rest = h;
	struct mail_field f;
	size_t n = 0;
	int r;
	(void)state;
	while ((r = mail_field_next(&rest, &f))) {
		char got[200];
		assert_true(n < sizeof seen / sizeof *seen);
		struct str v = str_trim(f.value);
		snprintf(got, sizeof got, r < 0 ? "-" : "%.*s|%.*s", STR_ARG(f.name), STR_ARG(v));
		assert_string_equal(got, seen[n]);
		n++;
	}
	assert_int_equal(n, 6);
	assert_int_equal(mail_field_count(h, STR("RECEIVED"), 0), 2);
	assert_int_equal(mail_field_count(h, STR("Received"), 1), 1);
	assert_int_equal(mail_field_find(h, STR("Received"), 1, &f), 0);
	assert_str(str_trim(f.value), STR("two"));
	assert_int_equal(mail_field_find(h, STR("Received"), 2, &f), -1);
	assert_int_equal(mail_field_find(h, STR("Sub"), 0, &f), -1);
	assert_int_equal(mail_field_find(h, STR("subject"), 0, &f), 0);
	assert_str(f.all, STR("Subject : a\r\n\tb\r\n"));
}

static void test_unfold(void **state)
{
	static const struct {
		struct str in, out;
	} cases[] = {
		{ STR_INIT(" a\r\n\tb\r\n  c "), STR_INIT("a\tb  c") },
		{ STR_INIT("a\rb\nc"), STR_INIT("a b c") },
		{ STR_INIT("a\0b"), STR_INIT("a b") },
		{ STR_INIT("a\r\nb"), STR_INIT("a  b") },
		{ STR_INIT("  "), STR_INIT("") },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf b = BUF_INIT(100);
		assert_int_equal(mail_field_unfold(&b, cases[i].in), 0);
		assert_str(buf_str(&b), cases[i].out);
		buf_free(&b);
	}
	struct buf small = BUF_INIT(2);
	assert_int_equal(mail_field_unfold(&small, STR("abc")), -1);
	buf_free(&small);
}

static void test_sendable(void **state)
{
	static const struct {
		struct str h;
		bool ok;
	} cases[] = {
		{ STR_INIT(""), true },
		{ STR_INIT("A: 1\r\nB: 2\r\n"), true },
		{ STR_INIT("A: 1\r\n x\r\n"), true },
		{ STR_INIT("A: 1"), false },
		{ STR_INIT("A: 1\n"), false },
		{ STR_INIT("A: 1\r"), false },
		{ STR_INIT("A: 1\r\n\r\n"), false },
		{ STR_INIT("\r\n"), false },
		{ STR_INIT("A: \r1\r\n"), false },
		{ STR_INIT("A: \n1\r\n"), false },
		{ STR_INIT("A: \r\r\n"), false },
		{ STR_INIT("A: \0\r\n"), false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(mail_headers_sendable(cases[i].h), cases[i].ok);
}

static void test_write(void **state)
{
	static const struct {
		struct str name, value, out; /* out empty: refused */
	} cases[] = {
		{ STR_INIT("Subject"), STR_INIT("hello"), STR_INIT("Subject: hello\r\n") },
		{ STR_INIT("Subject"), STR_INIT(""), STR_INIT("Subject:\r\n") },
		{ STR_INIT("S"), STR_INIT("a\r\nB: c"), STR_INIT("") },
		{ STR_INIT("S"), STR_INIT("a\nc"), STR_INIT("") },
		{ STR_INIT("S"), STR_INIT("a\0c"), STR_INIT("") },
		{ STR_INIT("S"), STR_INIT("a\x7f"), STR_INIT("") },
		{ STR_INIT("S:"), STR_INIT("a"), STR_INIT("") },
		{ STR_INIT("S x"), STR_INIT("a"), STR_INIT("") },
		{ STR_INIT(""), STR_INIT("a"), STR_INIT("") },
		{ STR_INIT("Words"),
		    STR_INIT("0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 012345 789 x"),
		    STR_INIT("Words: 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789\r\n"
			     "\t012345 789 x\r\n") },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf b = BUF_INIT(400);
		buf_addz(&b, "before");
		assert_int_equal(mail_field_write(&b, cases[i].name, cases[i].value), cases[i].out.n ? 0 : -1);
		assert_str(str_n(b.p, 6), STR("before"));
		assert_str(str_skip(buf_str(&b), 6), cases[i].out);
		buf_free(&b);
	}
}

static void test_date(void **state)
{
	static const struct {
		int64_t s;
		int off;
		const char *out;
	} cases[] = {
		{ 0, 0, "Thu, 1 Jan 1970 00:00:00 +0000" },
		{ -1, 0, "Wed, 31 Dec 1969 23:59:59 +0000" },
		{ 951782400, 0, "Tue, 29 Feb 2000 00:00:00 +0000" },
		{ 951868800, 0, "Wed, 1 Mar 2000 00:00:00 +0000" },
		{ 1057049557, 120, "Tue, 1 Jul 2003 10:52:37 +0200" },
		{ -27723426, -210, "Thu, 13 Feb 1969 23:32:54 -0330" },
		{ INT64_C(4107542399), 0, "Sun, 28 Feb 2100 23:59:59 +0000" },
		{ INT64_C(4107542400), 0, "Mon, 1 Mar 2100 00:00:00 +0000" },
		{ INT64_C(253402300799), 0, "Fri, 31 Dec 9999 23:59:59 +0000" },
		{ INT64_C(9000000000000), 0, "Fri, 31 Dec 9999 23:59:59 +0000" },
		{ INT64_C(-9000000000000), 0, "Mon, 1 Jan 1900 00:00:00 +0000" },
		{ 0, 100000, "Thu, 1 Jan 1970 00:00:00 +0000" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf b = BUF_INIT(MAIL_DATE_SIZE);
		assert_int_equal(mail_date_write(&b, cases[i].s * 1000000, cases[i].off), 0);
		assert_string_equal(buf_z(&b), cases[i].out);
		buf_free(&b);
	}
	struct buf b = BUF_INIT(MAIL_DATE_SIZE);
	mail_date_write(&b, -500000, 0); /* half a second before the epoch is still the second before */
	assert_string_equal(buf_z(&b), "Wed, 31 Dec 1969 23:59:59 +0000");
	mail_date_write(&b, INT64_MAX, 0);
	buf_free(&b);
}

static void test_date_read(void **state)
{
	static const struct {
		const char *in;
		int64_t s;
	} cases[] = {
		{ "Thu, 1 Jan 1970 00:00:00 +0000", 0 }, { "Tue, 29 Feb 2000 00:00:00 +0000", 951782400 }, { "Tue, 1 Jul 2003 10:52:37 +0200", 1057049557 },
		{ "Thu, 13 Feb 1969 23:32:54 -0330", -27723426 }, { "Thu, 8 Mar 2005 14:00:00 EDT", 1110304800 }, { "8 mar 05 14:00 EDT", 1110304800 },
		{ " Wed, (day) 14 Apr 2010\r\n 12:15:31 -0700 (PD\\)T (x))", 1271272531 }, { "1 Jan 70 00 : 00 : 00 GMT", 0 }, { "1 Jan 1970 00:00:60", 60 },
		{ "1 Jan 104 0:0 Z", INT64_C(1072915200) }, { "Fri, 31 Dec 9999 23:59:59 +0000", INT64_C(253402300799) }, { "31 Dec 1899 00:00 +0000", INT64_MIN },
		{ "", INT64_MIN }, { "Thu", INT64_MIN }, { "30 Feb 2000 00:00 +0000", INT64_MIN }, { "29 Feb 1900 00:00 +0000", INT64_MIN }, { "0 Jan 2000 00:00 Z", INT64_MIN },
		{ "1 Jan 2000 24:00 Z", INT64_MIN }, { "1 Jan 2000 00:60 Z", INT64_MIN }, { "1 Jan 2000 00:00 +00", INT64_MIN }, { "1 Jan 2000 00:00 +0060", INT64_MIN },
		{ "1 Jan 2000 (00:00", INT64_MIN }, { "1 Foo 2000 00:00 Z", INT64_MIN }, { "2000-01-01T00:00:00Z", INT64_MIN },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int64_t got = INT64_MIN;
		int r = mail_date_read(str_from(cases[i].in), &got);
		if (got != cases[i].s || (r == 0) != (cases[i].s != INT64_MIN))
			print_error("%s: %lld\n", cases[i].in, (long long)got);
		assert_true(got == cases[i].s && (r == 0) == (got != INT64_MIN));
	}
	/* whatever is written is read */
	for (int64_t t = INT64_C(-2208988800); t < INT64_C(253402300799); t += INT64_C(86400 * 97 + 12345)) {
		struct buf b = BUF_INIT(MAIL_DATE_SIZE);
		int64_t got = 0;
		assert_int_equal(mail_date_write(&b, t * 1000000, (int)(t % 1440)), 0);
		assert_int_equal(mail_date_read(buf_str(&b), &got), 0);
		if (t > INT64_C(-2208988800) + 86400 && t < INT64_C(253402300799) - 86400)
			assert_true(got == t);
		buf_free(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_unfold),
		cmocka_unit_test(test_sendable),
		cmocka_unit_test(test_write),
		cmocka_unit_test(test_date),
		cmocka_unit_test(test_date_read),
		cmocka_unit_test(test_received),
		cmocka_unit_test(test_received_hostile),
		cmocka_unit_test(test_received_read),
		cmocka_unit_test(test_received_width),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
