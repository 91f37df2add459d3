/* Writing encoded content and encoded fields: what comes out is legal, and read back it is what went in. */
#include "proto/mail/encoded.h"
#include "proto/mail/header.h"
#include "proto/mail/transfer.h"

#include <stdlib.h>

#include "mail_test.h"

static void check_qp(struct str in)
{
	struct buf out = BUF_INIT(1 << 20), back = BUF_INIT(1 << 20);
	assert_int_equal(mail_transfer_encode_qp(in, &out), 0);
	size_t column = 0;
	for (size_t i = 0; i < out.n; i++) {
		unsigned char c = (unsigned char)out.p[i];
		if (c == '\r') {
			assert_true(i + 1 < out.n && out.p[i + 1] == '\n');
			assert_false(i && (out.p[i - 1] == ' ' || out.p[i - 1] == '\t'));
			column = 0;
			i++;
			continue;
		}
		assert_true((c >= 32 && c < 127) || c == '\t');
		assert_true(++column <= 76);
	}
	assert_int_equal(mail_transfer_decode(MAIL_TRANSFER_QP, buf_str(&out), &back), 0);
	assert_str(buf_str(&back), in);
	buf_free(&out);
	buf_free(&back);
}

static void test_qp(void **state)
{
	static const struct str cases[] = { STR_INIT(""), STR_INIT("plain\r\n"), STR_INIT("a=b\r\n"), STR_INIT("blank \r\ntab\t\r\n"),
		STR_INIT("bare\rcr bare\nlf\r\r\n"), STR_INIT("nul\0 and \x80\xff\r\n"), STR_INIT("ends in blank "), STR_INIT(" \r\n \r\n"), STR_INIT("\r\n\r\n"),
		STR_INIT("gr\xc3\xbc\xc3\x9f" "e an alle, und noch etwas mehr, damit die Zeile l\xc3\xa4nger wird als sie sein darf; ja\r\n") };
	char text[600];
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		check_qp(cases[i]);
	srand(1);
	for (int round = 0; round < 2000; round++) {
		size_t n = (size_t)rand() % sizeof text;
		for (size_t i = 0; i < n; i++)
			text[i] = (char)(round & 1 ? rand() : "ab =\t\r\n\xc3"[rand() % 8]);
		check_qp(str_n(text, n));
	}
	struct buf small = BUF_INIT(10);
	assert_int_equal(mail_transfer_encode_qp(STR("longer than ten"), &small), -1);
	buf_free(&small);
}

static void test_field(void **state)
{
	static const struct {
		struct str text;
		bool utf8;
		int want;
	} cases[] = { { STR_INIT("plain"), false, 0 }, { STR_INIT("gr\xc3\xbc\xc3\x9f" "e"), false, 0 }, { STR_INIT("gr\xc3\xbc\xc3\x9f" "e"), true, 0 },
		{ STR_INIT("=?utf-8?q?no?= \xc3\xa9"), false, 0 }, { STR_INIT("a\r\nX: y"), false, -1 }, { STR_INIT("\xc3\xa9\r\nX: y"), false, -1 },
		{ STR_INIT("\xc3\xa9\r\nX: y"), true, -1 }, { STR_INIT("\xe9"), false, -1 }, { STR_INIT("\xe9"), true, -1 },
		{ STR_INIT("Une phrase tr\xc3\xa8s longue, qui ne tient pas dans un seul mot cod\xc3\xa9, et qui doit pourtant revenir telle quelle"), false, 0 } };
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf out = BUF_INIT(4096), back = BUF_INIT(4096);
		struct mail_field f;
		assert_int_equal(mail_encoded_field(&out, STR("Subject"), cases[i].text, cases[i].utf8), cases[i].want);
		if (!cases[i].want) {
			assert_true(mail_headers_sendable(buf_str(&out)));
			assert_true(cases[i].utf8 || str_is_ascii(buf_str(&out)));
			assert_int_equal(mail_field_find(buf_str(&out), STR("Subject"), 0, &f), 0);
			assert_int_equal(mail_encoded_decode(f.value, &back), 0);
			assert_str(buf_str(&back), cases[i].text);
		}
		buf_free(&out);
		buf_free(&back);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_qp), cmocka_unit_test(test_field) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
