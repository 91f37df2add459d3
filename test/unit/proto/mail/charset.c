/* Charsets with several octets a character: what they hold, what is broken, and that a character cut in two swallows nothing. Those of one octet
 * are in addrlist.c, by encoded words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/mail/charset.h"
#include "proto/mail/encoded.h"

static const struct {
	const char *charset, *octets, *text;
} table[] = {
	{ "ISO-2022-JP", "a\x1b$B$\"\x1b(Bb", "aあb" }, { "iso-2022-jp", "\x1b$@F|K\\\x1b(J.", "日本." }, { "iso-2022-jp", "\x1b(I1\x1b(B1", "ｱ1" },
	{ "iso-2022-jp", "\x1b$B$\"\n$\"", "あ $\"" }, /* a line begins in ASCII */
	{ "iso-2022-jp", "\x1b$B$\" x", "あ �" }, { "iso-2022-jp", "\x1b$B~~\x1b(B\xa4", "��" }, { "iso-2022-jp", "\x1b$(D0!\x1b(B.", "�." },
	{ "iso-2022-jp", "\x1bX\x1b", " X " }, { "iso-2022-jp", "\x1b$B$", "�" }, { "iso-2022-jp", "\x1b(I`\x1b(", "� ｨ" },
	{ "Shift_JIS", "\x93\xfa\x96{ \xb1" "A", "日本 ｱA" }, { "sjis", "\x83\x5c\x83\x7e", "ソミ" }, { "cp932", "\x87\x40", "①" }, { "shift_jis", "\x93", "�" },
	{ "shift_jis", "\x93<a@b>", "�<a@b>" }, { "shift_jis", "\xa0\xff\x80", "���" }, { "shift_jis", "\xfc\x4b", "�" },
	{ "euc-jp", "\xc6\xfc\xcb\xdc \x8e\xb1", "日本 ｱ" }, { "euc-jp", "\x8f\xb0\xa1x\x8f\xb0", "�x��" }, { "eucJP", "\xc6<\xff\xa1", "�<��" },
	{ "gb2312", "\xd3\xc3\xbb\xa7", "用户" }, { "GBK", "\x80\xe9\x46", "€镕" }, { "gb18030", "\x94\x39\xfc\x36", "😀" }, { "gb18030", "\x81\x30\x81\x30.", "�." },
	{ "gb18030", "\xe3\x32\x9a\x36.", "�." }, { "gb18030", "\xd3\x30<", "�0<" }, { "gb2312", "\xd3>\xff", "�>�" }, { "gbk", "\xd3", "�" },
	{ "Big5", "\xa8\xcf\xa5\xce\xaa\xcc", "使用者" }, { "big5", "\xa8\"\x81\x40", "�\"�" }, { "big5", "\xff\xa8", "��" },
	{ "gbk", "a\tb\x01" "\x7f", "a b  " }, { "euc-jp", "", "" },
};

static void characters(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct buf b = BUF_INIT(100);
		assert_int_equal(mail_charset_to_utf8(str_from(table[i].charset), str_from(table[i].octets), &b), 0);
		if (!str_eq(buf_str(&b), str_from(table[i].text)))
			fail_msg("case %zu: \"%s\" instead of \"%s\"", i, buf_z(&b), table[i].text);
		buf_free(&b);
	}
}

static void bounds(void **state)
{
	struct buf b = BUF_INIT(5);
	(void)state;
	assert_int_equal(mail_charset_to_utf8(STR("gbk"), STR("\xd3\xc3\xbb\xa7"), &b), -1);
	buf_free(&b);
	b = BUF_INIT(5);
	assert_int_equal(mail_charset_to_utf8(STR("iso-2022-kr"), STR("x"), &b), 1);
	assert_int_equal(b.n, 0);
	buf_free(&b);
	/* every pair of octets in every charset: valid UTF-8, and ASCII in second place is never lost where the two are no character */
	static const char *const names[] = { "iso-2022-jp", "shift_jis", "euc-jp", "gb18030", "big5" };
	for (size_t k = 0; k < sizeof names / sizeof *names; k++)
		for (unsigned i = 0; i < 65536; i++) {
			char pair[2] = { (char)(i >> 8), (char)i };
			b = BUF_INIT(8);
			assert_int_equal(mail_charset_to_utf8(str_from(names[k]), str_n(pair, 2), &b), 0);
			assert_true(b.n && str_is_utf8(buf_str(&b)));
			if ((i & 0xff) < 0x40 && (i & 0xff) >= 0x20)
				assert_int_equal(b.p[b.n - 1], pair[1]);
			buf_free(&b);
		}
}

/* Where they are met most: in encoded words. */
static void words(void **state)
{
	struct buf b = BUF_INIT(100);
	(void)state;
	assert_int_equal(mail_encoded_decode(STR("=?ISO-2022-JP?B?GyRCRnxLXBsoQg==?= =?gb2312?Q?=D3=C3=BB=A7?="), &b), 0);
	assert_string_equal(buf_z(&b), "日本用户");
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(characters), cmocka_unit_test(bounds), cmocka_unit_test(words) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
