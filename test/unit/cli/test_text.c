/* Hostile text towards a terminal, tables, readable numbers. */
#include "text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_safe(void **state)
{
	static const struct {
		struct str in;
		size_t max;
		const char *out;
		size_t columns;
	} cases[] = {
		{ STR_INIT("plain"), 0, "plain", 5 },
		{ STR_INIT("gr\xc3\xbc\xc3\x9f"), 0, "gr\xc3\xbc\xc3\x9f", 4 },
		{ STR_INIT("\xe6\x97\xa5\xf0\x9f\x93\xa7"), 0, "\xe6\x97\xa5\xf0\x9f\x93\xa7", 2 },
		{ STR_INIT("\x1b[2J\x1b]0;x\x07"), 0, "\\x1b[2J\\x1b]0;x\\x07", 19 },
		{ STR_INIT("a\0b\tc\r\nd"), 0, "a\\x00b\\x09c\\x0d\\x0ad", 20 },
		{ STR_INIT("\x7f"), 0, "\\x7f", 4 },
		{ STR_INIT("\xc2\x9b" "31m"), 0, "\\u{9b}31m", 9 },       /* CSI as one character */
		{ STR_INIT("a\xe2\x80\xae" "b"), 0, "a\\u{202e}b", 10 },   /* right-to-left override */
		{ STR_INIT("\xe2\x80\x8b\xef\xbb\xbf"), 0, "\\u{200b}\\u{feff}", 16 },
		{ STR_INIT("\xe2\x81\xa6"), 0, "\\u{2066}", 8 },
		{ STR_INIT("\xff\xc3\xe2\x82"), 0, "\\xff\\xc3\\xe2\\x82", 16 },
		{ STR_INIT("\xed\xa0\x80"), 0, "\\xed\\xa0\\x80", 12 },     /* surrogate */
		{ STR_INIT("a\\x1b"), 0, "a\\\\x1b", 6 },                   /* cannot pretend to be escaped */
		{ STR_INIT("12345"), 5, "12345", 5 },
		{ STR_INIT("123456"), 5, "1234\xe2\x80\xa6", 5 },
		{ STR_INIT("123\x1b"), 5, "123\xe2\x80\xa6", 4 },           /* an escape is not cut in half */
		{ STR_INIT("\xc3\xbc\xc3\xbc\xc3\xbc"), 2, "\xc3\xbc\xe2\x80\xa6", 2 },
		{ STR_INIT(""), 5, "", 0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf b = BUF_INIT(1000);
		size_t n = cli_text_safe(&b, cases[i].in, cases[i].max);
		assert_string_equal(buf_z(&b), cases[i].out);
		assert_int_equal(n, cases[i].columns);
		buf_free(&b);
	}
	/* whatever one or two octets come, no control octet leaves */
	for (unsigned v = 0; v < 65536; v++) {
		char two[2] = { (char)(v >> 8), (char)v };
		struct buf b = BUF_INIT(100);
		cli_text_safe(&b, str_n(two, 2), 0);
		for (size_t i = 0; i < b.n; i++) {
			unsigned char c = (unsigned char)b.p[i];
			if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)b.p[i + 1] < 0xa0))
				fail_msg("octets %04x let %02x through", v, c);
		}
		assert_true(str_is_utf8(buf_str(&b)));
		buf_free(&b);
	}
}

static char *printed(void (*print)(FILE *f))
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	assert_non_null(f);
	print(f);
	fclose(f);
	return text;
}

static void print_table(FILE *f)
{
	struct cli_table t = { .heads = { "ID", "FROM", "WHY" }, .max = { 0, 6, 0 }, .right = { true }, .n = 3 };
	for (unsigned row = 0; row < 2; row++) {
		cli_table_cellf(&t, "%u", row ? 1234u : 7u);
		cli_table_cell(&t, row ? STR("\xc3\xbc@b") : STR("long@example"));
		cli_table_cell(&t, row ? STR("") : STR("no\nway"));
	}
	cli_table_print(&t, f);
}

static void print_json(FILE *f)
{
	cli_text_print_json(f, "{\"a\":\"\xc3\xbc\x7f\xc2\x9b\"}");
}

static void test_print(void **state)
{
	(void)state;
	char *text = printed(print_table);
	assert_string_equal(text, "  ID  FROM    WHY\n   7  long@\xe2\x80\xa6  no\\x0away\n1234  \xc3\xbc@b     \n");
	free(text);
	text = printed(print_json);
	assert_string_equal(text, "{\"a\":\"\xc3\xbc\\u007f\\u009b\"}\n");
	free(text);
}

static void test_numbers(void **state)
{
	char text[80];
	(void)state;
#define IS(call, want) (call, assert_string_equal(text, want))
	IS(cli_text_duration(text, sizeof text, -5), "0 s");
	IS(cli_text_duration(text, sizeof text, 59), "59 s");
	IS(cli_text_duration(text, sizeof text, 61), "1 min 1 s");
	IS(cli_text_duration(text, sizeof text, 7260), "2 h 1 min");
	IS(cli_text_duration(text, sizeof text, 200000), "2 d 7 h");
	IS(cli_text_octets(text, sizeof text, 1023), "1023 B");
	IS(cli_text_octets(text, sizeof text, 1536), "1.5 KiB");
	IS(cli_text_octets(text, sizeof text, INT64_C(5) << 30), "5.0 GiB");
	IS(cli_text_time(text, sizeof text, STR("2026-11-30T11:26:28.123456+00:00")), "2026-11-30 11:26:28");
	IS(cli_text_time(text, sizeof text, STR("soon")), "soon");
	IS(cli_text_time(text, sizeof text, STR_NULL), "");
#undef IS
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_safe),
		cmocka_unit_test(test_print),
		cmocka_unit_test(test_numbers),
	};
	return cmocka_run_group_tests_name("cli/text", tests, NULL, NULL);
}
