/* Reply lines: whatever the text, only whole lines with the code in front come out. */
#include "check.h"
#include "proto/smtp/reply.h"

#include <stdio.h>

static void test_reply_octets(void **state)
{
	static const struct {
		unsigned code;
		const char *status;
		struct str text;
		const char *out;
	} cases[] = {
		{ 250, "2.1.0", STR_INIT("Ok"), "250 2.1.0 Ok\r\n" },
		{ 354, NULL, STR_INIT("Go"), "354 Go\r\n" },
		{ 250, NULL, STR_INIT(""), "250 \r\n" },
		{ 550, "5.1.1", STR_INIT("one\ntwo\n"), "550-5.1.1 one\r\n550 5.1.1 two\r\n" },
		{ 550, "5.1.1", STR_INIT("\n\nx"), "550-5.1.1 \r\n550-5.1.1 \r\n550 5.1.1 x\r\n" },
		{ 550, "5.1.1", STR_INIT("a\rb\0c\td\x7f"), "550 5.1.1 a?b?c?d?\r\n" },
		{ 550, NULL, STR_INIT("gr\xc3\xbc\xc3\x9f"), "550 gr\xc3\xbc\xc3\x9f\r\n" },
		{ 550, NULL, STR_INIT("\xc3"), "550 ?\r\n" },
		{ 550, NULL, STR_INIT("\xc3x\xff\xc2\x85\xed\xa0\x80"), "550 ?x?" "??" "???" "\r\n" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf out = BUF_INIT(1000);
		assert_int_equal(smtp_reply_write(&out, cases[i].code, cases[i].status, cases[i].text), 0);
		assert_string_equal(buf_z(&out), cases[i].out);
		buf_free(&out);
	}
}

static void test_reply_limits(void **state)
{
	char text[2048];
	struct buf out = BUF_INIT(100000);
	(void)state;
	memset(text, 'x', sizeof text);
	assert_int_equal(smtp_reply_write(&out, 250, "2.0.0", str_n(text, sizeof text)), 0);
	assert_int_equal(out.n, SMTP_REPLY_LINE_MAX);
	assert_memory_equal(out.p + out.n - 2, "\r\n", 2);
	buf_reset(&out);
	for (size_t i = 0; i + 1 < sizeof text; i += 2) /* not cut within a character */
		memcpy(text + i, "\xc3\xbc", 2);
	assert_int_equal(smtp_reply_write(&out, 250, "2.0.00", str_n(text, sizeof text)), 0);
	assert_true(out.n >= SMTP_REPLY_LINE_MAX - 1 && out.n <= SMTP_REPLY_LINE_MAX);
	assert_true(str_is_utf8(buf_str(&out)));
	buf_reset(&out);
	memset(text, '\n', 100);
	assert_int_equal(smtp_reply_write(&out, 250, NULL, str_n(text, 100)), 0);
	size_t lines = 0;
	for (size_t i = 0; i < out.n; i++)
		lines += out.p[i] == '\n';
	assert_int_equal(lines, SMTP_REPLY_LINES_MAX);
	assert_memory_equal(out.p + out.n - 6, "250 \r\n", 6);
	buf_free(&out);
	struct buf small = BUF_INIT(8);
	assert_int_equal(smtp_reply_write(&small, 250, NULL, STR("too long for it")), -1);
	buf_free(&small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reply_octets),
		cmocka_unit_test(test_reply_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
