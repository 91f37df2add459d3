/* What both sides of SASL compute: base64 (RFC 4648 §10), SASLprep (RFC 4013 §3), keys and verifiers of SCRAM (RFC 7677 §3). */
#include "proto/sasl/base64.h"
#include "proto/sasl/mech.h"
#include "proto/sasl/prep.h"
#include "proto/sasl/scram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void base64_vectors(void **state)
{
	static const struct {
		struct str plain, text;
	} t[] = {
		{ STR_INIT(""), STR_INIT("") },
		{ STR_INIT("f"), STR_INIT("Zg==") },
		{ STR_INIT("fo"), STR_INIT("Zm8=") },
		{ STR_INIT("foo"), STR_INIT("Zm9v") },
		{ STR_INIT("foob"), STR_INIT("Zm9vYg==") },
		{ STR_INIT("fooba"), STR_INIT("Zm9vYmE=") },
		{ STR_INIT("foobar"), STR_INIT("Zm9vYmFy") },
		{ STR_INIT("\xfb\xff\xbf\x00"), STR_INIT("+/+/AA==") },
	};
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct buf b = BUF_INIT(64);
		assert_int_equal(sasl_base64_encode(t[i].plain, &b), 0);
		assert_true(str_eq(buf_str(&b), t[i].text));
		buf_reset(&b);
		assert_int_equal(sasl_base64_decode(t[i].text, &b), 0);
		assert_true(str_eq(buf_str(&b), t[i].plain));
		buf_free(&b);
	}
}

static void base64_round(void **state)
{
	unsigned char all[256];
	(void)state;
	for (unsigned i = 0; i < 256; i++)
		all[i] = (unsigned char)(i * 167 + 13);
	for (size_t n = 0; n <= sizeof all; n++) {
		struct buf text = BUF_INIT(400), back = BUF_INIT(400);
		assert_int_equal(sasl_base64_encode(str_n((char *)all, n), &text), 0);
		assert_int_equal(text.n, SASL_BASE64_SIZE(n));
		assert_int_equal(sasl_base64_decode(buf_str(&text), &back), 0);
		assert_true(str_eq(buf_str(&back), str_n((char *)all, n)));
		buf_free(&text);
		buf_free(&back);
	}
}

static void base64_refused(void **state)
{
	static const char *const t[] = { "Z", "Zg", "Zg=", "Zg==\n", "Zg==Zg==", "=", "====", "Z===", "Zh==", "Zm9=", "Zm 9v", "Zm9v\r\n",
		"Zm-_", "=Zg=", "Zg=g", "Zm9v====", "\x80m9v", "Zm9vZg=A" };
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct buf b = BUF_INIT(64);
		if (!sasl_base64_decode(str_from(t[i]), &b))
			fail_msg("taken: %s", t[i]);
		buf_free(&b);
	}
	struct buf small = BUF_INIT(2);
	assert_int_equal(sasl_base64_decode(STR("Zm9v"), &small), -1);
	assert_int_equal(sasl_base64_encode(STR("foo"), &small), -1);
	buf_free(&small);
	/* every octet in every place: only the 64 are taken */
	for (unsigned c = 0; c < 256; c++)
		for (unsigned at = 0; at < 4; at++) {
			char q[] = "AAAA";
			struct buf b = BUF_INIT(8);
			q[at] = (char)c;
			bool letter = (c | 32) >= 'a' && (c | 32) <= 'z' && c < 128;
			bool ok = letter || (c >= '0' && c <= '9') || c == '+' || c == '/' || (c == '=' && at == 3);
			assert_int_equal(sasl_base64_decode(str_n(q, 4), &b), ok ? 0 : -1);
			buf_free(&b);
		}
}

static void prep_table(void **state)
{
	static const struct {
		struct str in;
		const char *out; /* NULL: refused */
	} t[] = {
		/* RFC 4013 §3 */
		{ STR_INIT("I\xc2\xadX"), "IX" },
		{ STR_INIT("user"), "user" },
		{ STR_INIT("USER"), "USER" },
		{ STR_INIT("\xc2\xaa"), "a" },
		{ STR_INIT("\xe2\x85\xa8"), "IX" },
		{ STR_INIT("\x07"), NULL },
		{ STR_INIT("\xd8\xa7\x31"), NULL },
		/* more */
		{ STR_INIT("\xd8\xa7\x31\xd8\xa8"), "\xd8\xa7\x31\xd8\xa8" },
		{ STR_INIT("\xd8\xa7""a\xd8\xa8"), NULL },
		{ STR_INIT("a\xc2\xa0""b"), "a b" },
		{ STR_INIT("a\xe3\x80\x80""b"), "a b" },
		{ STR_INIT("e\xcc\x81"), "\xc3\xa9" },
		{ STR_INIT("\xef\xbc\xa1"), "A" },
		{ STR_INIT("\xf0\x9f\x94\x91"), "\xf0\x9f\x94\x91" }, /* not in Unicode 3.2 */
		{ STR_INIT(" pass word "), " pass word " },
		{ STR_INIT(""), NULL },
		{ STR_INIT("\xc2\xad"), NULL },
		{ STR_INIT("a\0b"), NULL },
		{ STR_INIT("a\x7f"), NULL },
		{ STR_INIT("\xc2\x85"), NULL },
		{ STR_INIT("\xee\x80\x80"), NULL },     /* private use */
		{ STR_INIT("\xef\xbf\xbd"), NULL },     /* U+FFFD */
		{ STR_INIT("\xe2\x80\xae""abc"), NULL },  /* RLO */
		{ STR_INIT("\xff"), NULL },
		{ STR_INIT("\xc0\x80"), NULL },
		{ STR_INIT("\xed\xa0\x80"), NULL },
	};
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct buf b = BUF_INIT(64);
		int r = sasl_prep(t[i].in, &b);
		if ((r == 0) != (t[i].out != NULL) || (t[i].out && !str_eq(buf_str(&b), str_from(t[i].out))))
			fail_msg("case %zu: %d \"%s\"", i, r, buf_z(&b));
		buf_free(&b);
	}
}

#define VECTOR "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="

static void verifier(void **state)
{
	struct scram_verifier v, w;
	struct buf salt = BUF_INIT(64), out = BUF_INIT(400);
	(void)state;
	sasl_base64_decode(STR("W22ZaJ0SNY7soEsUEjb6gQ=="), &salt);
	assert_int_equal(scram_verifier_make(STR("pencil"), buf_str(&salt), 4096, &v), 0);
	assert_int_equal(scram_verifier_write(&v, &out), 0);
	assert_string_equal(buf_z(&out), VECTOR);
	assert_int_equal(scram_verifier_parse(buf_str(&out), &w), 0);
	assert_memory_equal(&v, &w, sizeof v.stored_key);
	assert_int_equal(scram_verifier_check(&w, STR("pencil")), 1);
	assert_int_equal(scram_verifier_check(&w, STR("pen\xc2\xad""cil")), 1); /* prepared */
	assert_int_equal(scram_verifier_check(&w, STR("pencils")), 0);
	assert_int_equal(scram_verifier_check(&w, STR("")), 0);
	assert_int_equal(scram_verifier_check(&w, STR("\x01")), 0);
	assert_int_equal(scram_verifier_make(STR("pencil"), STR("short"), 4096, &v), -1);
	assert_int_equal(scram_verifier_make(STR("pencil"), buf_str(&salt), 4095, &v), -1);
	assert_int_equal(scram_verifier_make(STR("pen\x01"), buf_str(&salt), 4096, &v), -1);
	scram_verifier_wipe(&w);
	for (size_t i = 0; i < sizeof w.stored_key; i++)
		assert_int_equal(w.stored_key[i], 0);
	buf_free(&salt);
	buf_free(&out);
}

static void verifier_refused(void **state)
{
#define KEYS "$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
	static const char *const t[] = {
		"", "SCRAM-SHA-256", "SCRAM-SHA-1$4096:W22ZaJ0SNY7soEsUEjb6gQ==" KEYS, "SCRAM-SHA-256$4095:W22ZaJ0SNY7soEsUEjb6gQ==" KEYS,
		"SCRAM-SHA-256$-1:W22ZaJ0SNY7soEsUEjb6gQ==" KEYS, "SCRAM-SHA-256$99999999999:W22ZaJ0SNY7soEsUEjb6gQ==" KEYS,
		"SCRAM-SHA-256$4096:" KEYS, "SCRAM-SHA-256$4096:W22Z" KEYS, "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ=" KEYS,
		"SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d:wfPL", VECTOR "x", VECTOR "\n",
		"scram-sha-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==" KEYS,
	};
	struct scram_verifier v;
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++)
		if (!scram_verifier_parse(str_from(t[i]), &v))
			fail_msg("taken: %s", t[i]);
}

static void dummies(void **state)
{
	struct str key = STR("0123456789abcdef0123456789abcdef");
	struct scram_verifier a, b, c, d;
	(void)state;
	assert_int_equal(scram_verifier_dummy(key, STR("alice"), 10000, &a), 0);
	assert_int_equal(scram_verifier_dummy(key, STR("alice"), 10000, &b), 0);
	assert_int_equal(scram_verifier_dummy(key, STR("alicf"), 10000, &c), 0);
	assert_int_equal(scram_verifier_dummy(STR("another key here"), STR("alice"), 10000, &d), 0);
	assert_int_equal(a.salt_n, SCRAM_SALT);
	assert_memory_equal(a.salt, b.salt, SCRAM_SALT);
	assert_memory_equal(a.stored_key, b.stored_key, SCRAM_KEY);
	assert_memory_not_equal(a.salt, c.salt, SCRAM_SALT);
	assert_memory_not_equal(a.salt, d.salt, SCRAM_SALT);
	assert_memory_not_equal(a.stored_key, a.server_key, SCRAM_KEY);
}

static void mechanisms(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SASL_MECHS; i++) {
		enum sasl_mech m;
		assert_int_equal(sasl_mech_parse(str_from(sasl_mech_name((enum sasl_mech)i)), &m), 0);
		assert_int_equal(m, i);
	}
	enum sasl_mech m;
	assert_int_equal(sasl_mech_parse(STR("plain"), &m), 0);
	assert_int_equal(sasl_mech_parse(STR("CRAM-MD5"), &m), -1);
	assert_int_equal(sasl_mech_parse(STR(""), &m), -1);
	assert_true(sasl_nonce_ok(STR("abcdefghijklmnopqr")));
	assert_false(sasl_nonce_ok(STR("abcdefghijklmnopq")));
	assert_false(sasl_nonce_ok(STR("abcdefghijklmnopq,")));
	assert_false(sasl_nonce_ok(STR("abcdefghijklmnopq ")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(base64_vectors),
		cmocka_unit_test(base64_round),
		cmocka_unit_test(base64_refused),
		cmocka_unit_test(prep_table),
		cmocka_unit_test(verifier),
		cmocka_unit_test(verifier_refused),
		cmocka_unit_test(dummies),
		cmocka_unit_test(mechanisms),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
