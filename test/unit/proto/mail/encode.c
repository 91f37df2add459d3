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

/* The size that is told beforehand is that of what is written, to the octet, and so is the word about its last line; in whatever steps it is written. */
static void check_size(enum mail_encode how, struct str in)
{
	struct buf out = BUF_INIT(1 << 20);
	struct mail_encoder e;
	bool open = false, untouched = true;
	uint64_t size = mail_encode_size(how, in, &open);
	mail_encode_size(how, in, &untouched);
	mail_encoder_init(&e, how, in);
	for (size_t want = 1; mail_encoder_next(&e, &out, want); want = want * 3 % 101 + 1)
		;
	if (size != out.n)
		fail_msg("encoding %d: %llu octets are told, %zu are written for %zu", (int)how, (unsigned long long)size, out.n, in.n);
	assert_int_equal(open, out.n && (out.n < 2 || memcmp(out.p + out.n - 2, "\r\n", 2) != 0));
	assert_true(out.n ? untouched == open : untouched);
	buf_free(&out);
}

static void test_size(void **state)
{
	static const char *const alphabets[] = { "ab =\t\r\n\xc3", "a-=\r\n", "=3D \r\n", "-", "ABC=+/ \r\n!", "\r\n", "\xc3\xbc" };
	enum { ALPHABETS = sizeof alphabets / sizeof *alphabets };
	char text[700];
	(void)state;
	srand(2);
	for (int round = 0; round < 14000; round++) {
		const char *from = alphabets[round % ALPHABETS];
		size_t n = (size_t)rand() % (round % 3 ? 90 : sizeof text), k = strlen(from);
		for (size_t i = 0; i < n; i++)
			text[i] = round % 11 ? from[(size_t)rand() % k] : (char)rand();
		if (round % 5 == 0) /* lines that are just full, or just not */
			for (size_t i = 0; i + 1 < n; i++)
				text[i] = i % 78 == 76 ? '\r' : i % 78 == 77 ? '\n' : text[i] == '\r' || text[i] == '\n' ? 'x' : text[i];
		for (int how = MAIL_ENCODE_NONE; how <= MAIL_ENCODE_QP_MEND; how++)
			check_size((enum mail_encode)how, str_n(text, n));
	}
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
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_qp), cmocka_unit_test(test_size), cmocka_unit_test(test_field) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
