/* xtext, ORCPT and enhanced status codes: what decodes, what does not, and limits. */
#include "check.h"
#include "proto/smtp/status.h"
#include "proto/smtp/xtext.h"

#include <stdio.h>

static void test_xtext(void **state)
{
	static const struct {
		struct str in;
		const char *out; /* NULL: refused */
	} cases[] = {
		{ STR_INIT("abc"), "abc" },
		{ STR_INIT("a+2Bb+3Dc+20d"), "a+b=c d" },
		{ STR_INIT("+7E"), "~" },
		{ STR_INIT(""), NULL },
		{ STR_INIT("a b"), NULL },
		{ STR_INIT("a=b"), NULL },
		{ STR_INIT("a+"), NULL },
		{ STR_INIT("a+4"), NULL },
		{ STR_INIT("a+4x"), NULL },
		{ STR_INIT("a+2b"), NULL }, /* upper case only */
		{ STR_INIT("a+0Ab"), NULL }, /* CVE-2020-28021 */
		{ STR_INIT("a+0Db"), NULL },
		{ STR_INIT("a+00b"), NULL },
		{ STR_INIT("a+1Fb"), NULL },
		{ STR_INIT("a+7Fb"), NULL },
		{ STR_INIT("a+80b"), NULL },
		{ STR_INIT("a+FFb"), NULL },
		{ STR_INIT("a\x7f"), NULL },
		{ STR_INIT("a\xc3\xa9"), NULL },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf out = BUF_INIT(100);
		int r = smtp_xtext_decode(cases[i].in, &out);
		CHECK(!r == !!cases[i].out, "%.*s", STR_ARG(cases[i].in));
		assert_int_equal(smtp_xtext_decode(cases[i].in, NULL), r);
		if (!r)
			assert_string_equal(buf_z(&out), cases[i].out);
		buf_free(&out);
	}
}

static void test_xtext_encode(void **state)
{
	char all[256];
	struct buf enc = BUF_INIT(1000), dec = BUF_INIT(1000);
	(void)state;
	for (size_t i = 0; i < sizeof all; i++)
		all[i] = (char)i;
	assert_int_equal(smtp_xtext_encode(STR("a+b=c d\r"), &enc), 0);
	assert_string_equal(buf_z(&enc), "a+2Bb+3Dc+20d+0D");
	buf_reset(&enc);
	assert_int_equal(smtp_xtext_encode(str_n(all + 32, 95), &enc), 0); /* all that may be decoded */
	assert_int_equal(smtp_xtext_decode(buf_str(&enc), &dec), 0);
	assert_true(str_eq(buf_str(&dec), str_n(all + 32, 95)));
	for (size_t i = 0; i < sizeof all; i++) {
		buf_reset(&enc);
		assert_int_equal(smtp_xtext_encode(str_n(all + i, 1), &enc), 0);
		assert_int_equal(!smtp_xtext_decode(buf_str(&enc), NULL), i >= 32 && i < 127);
	}
	buf_free(&enc);
	buf_free(&dec);
}

static void test_orcpt(void **state)
{
	static const struct {
		const char *in;
		bool utf8;
		const char *type, *out; /* NULL: refused */
	} cases[] = {
		{ "rfc822;b@example.net", false, "rfc822", "b@example.net" },
		{ "RFC822;b+2Bc@example.net", false, "RFC822", "b+c@example.net" },
		{ "x400;/C=DE", false, "x400", NULL },
		{ "x400;/C+3DDE", false, "x400", "/C=DE" },
		{ "rfc822;", false, "rfc822", NULL },
		{ ";b@example.net", false, "", NULL },
		{ "b@example.net", false, "", NULL },
		{ "rfc 822;b", false, "", NULL },
		{ "rfc(822);b", false, "", NULL },
		{ "rfc822;b+0A@example.net", false, "", NULL },
		{ "rfc822;b\xc3\xa9@example.net", true, "", NULL },
		{ "rfc822;+C3+A9b+2B@example.net", true, "utf-8", "\xc3\xa9" "b+@example.net" }, /* Postfix 3.7 */
		{ "rfc822;+C3+A9b+2B@example.net", false, "", NULL },
		{ "RFC822;b+2B@example.net", true, "RFC822", "b+@example.net" },
		{ "rfc822;+C3b@example.net", true, "", NULL },
		{ "rfc822;+C2+85@example.net", true, "", NULL },
		{ "rfc822;+C3+A9+0A@example.net", true, "", NULL },
		{ "x400;+C3+A9b@example.net", true, "", NULL },
		{ "utf-8;b\xc3\xa9@example.net", true, "utf-8", "b\xc3\xa9@example.net" },
		{ "utf-8;b\xc3\xa9@example.net", false, "utf-8", NULL },
		{ "UTF-8;b\\x{E9}@example.net", false, "UTF-8", "b\xc3\xa9@example.net" },
		{ "utf-8;\\x{20AC}\\x{1F600}\\x{10FFFF}", false, "utf-8", "\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf" },
		{ "utf-8;a\\x{2B}b\\x{3D}c\\x{5C}d\\x{20}", false, "utf-8", "a+b=c\\d " },
		{ "utf-8;a+2Bb", false, "utf-8", NULL },
		{ "utf-8;a\\b", false, "utf-8", NULL },
		{ "utf-8;a\\x{}", false, "utf-8", NULL },
		{ "utf-8;a\\x{9}", false, "utf-8", NULL },
		{ "utf-8;a\\x{0A}", false, "utf-8", NULL },
		{ "utf-8;a\\x{7F}", false, "utf-8", NULL },
		{ "utf-8;a\\x{85}", false, "utf-8", NULL },
		{ "utf-8;a\\x{0E9}", false, "utf-8", NULL },
		{ "utf-8;a\\x{D800}", false, "utf-8", NULL },
		{ "utf-8;a\\x{DFFF}", false, "utf-8", NULL },
		{ "utf-8;a\\x{D7FF}", false, "utf-8", "a\xed\x9f\xbf" },
		{ "utf-8;a\\x{110000}", false, "utf-8", NULL },
		{ "utf-8;a\\x{1000000}", false, "utf-8", NULL },
		{ "utf-8;a\\x{E9", false, "utf-8", NULL },
		{ "utf-8;a\\x{EG}", false, "utf-8", NULL },
		{ "utf-8;\xc2\x85", true, "utf-8", NULL },
		{ "utf-8;\xed\xa0\x80", true, "utf-8", NULL },
		{ "utf-8;", true, "utf-8", NULL },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf out = BUF_INIT(100);
		struct str type = STR_NULL;
		int r = smtp_orcpt_decode(str_from(cases[i].in), cases[i].utf8, &type, &out);
		CHECK(!r == !!cases[i].out, "%s", cases[i].in);
		assert_int_equal(smtp_orcpt_decode(str_from(cases[i].in), cases[i].utf8, NULL, NULL), r);
		if (!r) {
			assert_string_equal(buf_z(&out), cases[i].out);
			assert_true(str_eq(type, str_from(cases[i].type)));
		} else {
			assert_null(type.p);
		}
		buf_free(&out);
	}
}

static void test_status(void **state)
{
	static const struct {
		const char *in;
		int used; /* -1: refused */
	} cases[] = {
		{ "2.0.0", 5 }, { "5.1.1 No such user", 5 }, { "4.999.999", 9 }, { "5.7.27\tx", 6 }, { "2.1.10", 6 },
		{ "", -1 }, { "5", -1 }, { "5.1", -1 }, { "5.1.", -1 }, { "5..1", -1 }, { "3.1.1", -1 }, { "6.1.1", -1 },
		{ "5.1.1x", -1 }, { "5.1.1.1", -1 }, { "5.1000.1", -1 }, { "5.1.1000", -1 }, { "5.01.1", -1 },
		{ "5.1.00", -1 }, { "5,1,1", -1 }, { " 5.1.1", -1 }, { "5.1.1-x", -1 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct smtp_status st = { 9, 9, 9 };
		size_t used = 0;
		int r = smtp_status_parse(str_from(cases[i].in), &st, &used);
		CHECK((r ? -1 : (int)used) == cases[i].used, "%s", cases[i].in);
		if (r)
			assert_int_equal(st.class, 9);
	}
	struct smtp_status st;
	assert_int_equal(smtp_status_parse(STR("4.12.345"), &st, NULL), 0);
	assert_true(st.class == 4 && st.subject == 12 && st.detail == 345);
	assert_true(smtp_status_fits("5.1.1", 550));
	assert_false(smtp_status_fits("5.1.1", 450));
	assert_false(smtp_status_fits("5.1.1 x", 550));
	assert_false(smtp_status_fits(NULL, 550));
	assert_false(smtp_status_fits("", 550));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_xtext),
		cmocka_unit_test(test_xtext_encode),
		cmocka_unit_test(test_orcpt),
		cmocka_unit_test(test_status),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
