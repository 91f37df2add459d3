/* Client against server, all mechanisms, and a client against servers that lie. */
#include "proto/sasl/client.h"
#include "proto/sasl/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NONCE_C "rOprNGfwEbeRWgbNEkqO"
#define NONCE_S "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"

/* The backend: knows "user,=\xc3\xa9" with password "pencil", and token "tok". */
static const struct str user = STR_INIT("user,=\xc3\xa9");

static enum sasl_server_state decide(struct sasl_server *s)
{
	struct scram_verifier v;
	bool known = str_eq(sasl_server_name(s), user);
	switch (sasl_server_state(s)) {
	case SASL_NEED_PASSWORD:
		return sasl_server_answer(s, known && str_eq(sasl_server_password(s), STR("pencil")) ? SASL_YES : SASL_NO, STR_NULL);
	case SASL_NEED_VERIFIER:
		assert_int_equal(scram_verifier_make(STR("pencil"), STR("saltsaltsaltsalt"), 4096, &v), 0);
		return sasl_server_verifier(s, known ? &v : NULL);
	case SASL_NEED_TOKEN:
		return sasl_server_answer(s, str_eq(sasl_server_token(s), STR("tok")) ? SASL_YES : SASL_NO, user);
	case SASL_NEED_CERTIFICATE:
	case SASL_NEED_ACCOUNT:
		return sasl_server_answer(s, SASL_YES, user);
	default:
		return sasl_server_state(s);
	}
}

/* Runs the exchange to its end. 1: success that the client believes, 0: failure, -1: the client gave up. */
static int run(const struct sasl_client_conf *cc, const struct sasl_server_conf *sc, bool initial)
{
	struct sasl_client *c = sasl_client_make(cc);
	struct sasl_server *s = sasl_server_make(sc);
	struct buf out = BUF_INIT(SASL_BLOB_MAX);
	enum sasl_server_state st;
	int r = 0;
	assert_non_null(c);
	assert_non_null(s);
	if (initial)
		initial = sasl_client_first(c, &out) == 1;
	st = sasl_server_feed(s, initial, buf_str(&out));
	for (unsigned i = 0; i < 20; i++) {
		if (st == SASL_OK || st == SASL_FAIL)
			break;
		if (st == SASL_CHALLENGE) {
			struct buf ch = BUF_INIT(SASL_BLOB_MAX);
			buf_adds(&ch, sasl_server_challenge(s));
			buf_reset(&out);
			r = sasl_client_answer(c, buf_str(&ch), &out);
			buf_free(&ch);
			if (r)
				break;
			st = sasl_server_feed(s, true, buf_str(&out));
		} else {
			st = decide(s);
		}
	}
	if (!r)
		r = st == SASL_OK;
	if (r == 1) {
		assert_true(sasl_client_over(c));
		assert_true(str_eq(sasl_server_account(s), user));
	}
	buf_free(&out);
	sasl_client_free(c);
	sasl_server_free(s);
	return r;
}

static void every_mechanism(void **state)
{
	(void)state;
	for (unsigned m = 0; m < SASL_MECHS; m++)
		for (unsigned how = 0; how < 8; how++) {
			bool initial = how & 1, right = !(how & 2), same = !(how & 4);
			struct sasl_client_conf cc = { .mech = (enum sasl_mech)m, .name = user, .nonce = STR(NONCE_C),
				.password = right ? STR("pencil") : STR("pencils"), .token = right ? STR("tok") : STR("tik"),
				.binding = { STR("tls-exporter"), same ? STR("channel") : STR("channel2") },
				.host = STR("mx.example.test"), .port = 587 };
			struct sasl_server_conf sc = { .mech = (enum sasl_mech)m, .nonce = STR(NONCE_S), .dummy_key = STR("0123456789abcdef"),
				.bindings = { { STR("tls-server-end-point"), STR("x") }, { STR("tls-exporter"), STR("channel") } },
				.n_bindings = 2 };
			bool want = m == SASL_EXTERNAL || (right && (same || m != SASL_SCRAM_SHA_256_PLUS));
			int got = run(&cc, &sc, initial);
			if (got != want)
				fail_msg("%s how %u: %d", sasl_mech_name((enum sasl_mech)m), how, got);
			cc.name = STR("nobody");
			if (m != SASL_EXTERNAL && m != SASL_OAUTHBEARER && m != SASL_XOAUTH2)
				assert_int_equal(run(&cc, &sc, initial), 0);
		}
}

static void lying_servers(void **state)
{
	static const char *const bad[] = { "", "v=abc", "r=" NONCE_C ",s=c2FsdHNhbHQ=,i=4096", "r=other" NONCE_S ",s=c2FsdHNhbHQ=,i=4096",
		"r=" NONCE_C "x,s=c2FsdHNhbHQ=,i=4095", "r=" NONCE_C "x,s=c2FsdHNhbHQ=,i=1000000000", "r=" NONCE_C "x,s=,i=4096",
		"r=" NONCE_C "x,s=*,i=4096", "r=" NONCE_C "x,s=c2FsdHNhbHQ=", "m=x,r=" NONCE_C "x,s=c2FsdHNhbHQ=,i=4096" };
	struct sasl_client_conf cc = { .mech = SASL_SCRAM_SHA_256, .name = STR("user"), .password = STR("pencil"), .nonce = STR(NONCE_C) };
	struct buf out = BUF_INIT(4096);
	struct sasl_client *c;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		c = sasl_client_make(&cc);
		sasl_client_first(c, &out);
		if (sasl_client_answer(c, str_from(bad[i]), &out) != -1)
			fail_msg("taken: %s", bad[i]);
		assert_true(sasl_client_error(c).n > 0);
		assert_false(sasl_client_over(c));
		sasl_client_free(c);
	}
	/* RFC 7677 §3, and a success before the server has proved anything */
	c = sasl_client_make(&cc);
	buf_reset(&out);
	assert_int_equal(sasl_client_first(c, &out), 1);
	assert_string_equal(buf_z(&out), "n,,n=user,r=" NONCE_C);
	buf_reset(&out);
	assert_int_equal(sasl_client_answer(c, STR("r=" NONCE_C NONCE_S ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"), &out), 0);
	assert_string_equal(buf_z(&out), "c=biws,r=" NONCE_C NONCE_S ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
	assert_false(sasl_client_over(c));
	assert_int_equal(sasl_client_answer(c, STR("v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), &out), -1);
	sasl_client_free(c);
	c = sasl_client_make(&cc);
	sasl_client_first(c, &out);
	sasl_client_answer(c, STR("r=" NONCE_C NONCE_S ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"), &out);
	buf_reset(&out);
	assert_int_equal(sasl_client_answer(c, STR("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), &out), 0);
	assert_int_equal(out.n, 0);
	assert_true(sasl_client_over(c));
	assert_int_equal(sasl_client_answer(c, STR(""), &out), -1);
	sasl_client_free(c);
	buf_free(&out);
}

static void unfit(void **state)
{
	static const struct sasl_client_conf t[] = {
		{ .mech = SASL_PLAIN, .name = STR_INIT("a") },
		{ .mech = SASL_PLAIN, .password = STR_INIT("a") },
		{ .mech = SASL_PLAIN, .name = STR_INIT("a\0b"), .password = STR_INIT("p") },
		{ .mech = SASL_SCRAM_SHA_256, .name = STR_INIT("a"), .password = STR_INIT("p") },
		{ .mech = SASL_SCRAM_SHA_256, .name = STR_INIT("a\x01"), .password = STR_INIT("p"), .nonce = STR_INIT(NONCE_C) },
		{ .mech = SASL_SCRAM_SHA_256_PLUS, .name = STR_INIT("a"), .password = STR_INIT("p"), .nonce = STR_INIT(NONCE_C) },
		{ .mech = SASL_OAUTHBEARER, .name = STR_INIT("a") },
		{ .mech = SASL_OAUTHBEARER, .token = STR_INIT("a\x01") },
		{ .mech = SASL_XOAUTH2, .token = STR_INIT("a") },
	};
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++)
		assert_null(sasl_client_make(&t[i]));
	sasl_client_free(NULL);
}

static void choice(void **state)
{
	static const struct {
		const char *offer;
		bool password, token, binding, external;
		int want; /* -1: none */
		bool could;
	} t[] = {
		{ "PLAIN LOGIN", true, false, false, false, SASL_PLAIN, false },
		{ "LOGIN CRAM-MD5", true, false, false, false, SASL_LOGIN, false },
		{ "plain SCRAM-SHA-256", true, false, false, false, SASL_SCRAM_SHA_256, false },
		{ "PLAIN SCRAM-SHA-256 SCRAM-SHA-256-PLUS", true, false, true, false, SASL_SCRAM_SHA_256_PLUS, false },
		{ "PLAIN SCRAM-SHA-256 SCRAM-SHA-256-PLUS", true, false, false, false, SASL_SCRAM_SHA_256, false },
		{ "PLAIN SCRAM-SHA-256", true, false, true, false, SASL_SCRAM_SHA_256, true },
		{ "PLAIN XOAUTH2 OAUTHBEARER", false, true, false, false, SASL_OAUTHBEARER, false },
		{ "PLAIN EXTERNAL", true, false, false, true, SASL_EXTERNAL, false },
		{ "PLAIN EXTERNAL", false, false, false, false, -1, false },
		{ "", true, true, true, true, -1, false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		enum sasl_mech m = SASL_MECHS;
		bool could = false;
		int r = sasl_client_choose(str_from(t[i].offer), t[i].password, t[i].token, t[i].binding, t[i].external, &m, &could);
		assert_int_equal(r ? -1 : (int)m, t[i].want);
		assert_int_equal(could, t[i].could);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_mechanism),
		cmocka_unit_test(lying_servers),
		cmocka_unit_test(unfit),
		cmocka_unit_test(choice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
