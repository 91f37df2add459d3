/* The server side, message by message: the examples of the RFCs, and what is refused and why. */
#include "proto/sasl/server.h"

#include "proto/sasl/base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NONCE "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
#define KEY "0123456789abcdef0123456789abcdef"
#define VERIFIER "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="

static struct sasl_server *begin(enum sasl_mech m)
{
	struct sasl_server_conf conf = { .mech = m, .nonce = STR(NONCE), .dummy_key = STR(KEY) };
	conf.bindings[0] = (struct sasl_binding){ STR("tls-exporter"), STR("\x01\x02\x03\x04") };
	conf.bindings[1] = (struct sasl_binding){ STR("tls-server-end-point"), STR("\xff\xfe") };
	conf.n_bindings = m == SASL_SCRAM_SHA_256_PLUS ? 2 : 0;
	struct sasl_server *s = sasl_server_make(&conf);
	assert_non_null(s);
	return s;
}

static void wants(struct str got, const char *want)
{
	if (!str_eq(got, str_from(want)))
		fail_msg("got \"%.*s\", want \"%s\"", STR_ARG(got), want);
}

static void plain_rfc4616(void **state)
{
	struct sasl_server *s = begin(SASL_PLAIN);
	(void)state;
	assert_int_equal(sasl_server_feed(s, true, STR("\0tim\0tanstaaftanstaaf")), SASL_NEED_PASSWORD);
	wants(sasl_server_name(s), "tim");
	wants(sasl_server_password(s), "tanstaaftanstaaf");
	assert_int_equal(sasl_server_answer(s, SASL_YES, STR_NULL), SASL_OK);
	wants(sasl_server_account(s), "tim");
	assert_int_equal(sasl_server_password(s).n, 0); /* gone */
	sasl_server_free(s);
	/* the client begins by request */
	s = begin(SASL_PLAIN);
	assert_int_equal(sasl_server_feed(s, false, STR_NULL), SASL_CHALLENGE);
	assert_int_equal(sasl_server_challenge(s).n, 0);
	assert_int_equal(sasl_server_feed(s, true, STR("Kurt\0Kurt\0xipj3plmq")), SASL_NEED_PASSWORD);
	assert_int_equal(sasl_server_answer(s, SASL_NO, STR_NULL), SASL_FAIL);
	assert_int_equal(sasl_server_failure(s), SASL_F_CREDENTIALS);
	sasl_server_free(s);
	/* nobody signs in for another */
	s = begin(SASL_PLAIN);
	assert_int_equal(sasl_server_feed(s, true, STR("Ursel\0Kurt\0xipj3plmq")), SASL_FAIL);
	assert_int_equal(sasl_server_failure(s), SASL_F_IDENTITY);
	sasl_server_free(s);
	s = begin(SASL_PLAIN);
	sasl_server_feed(s, true, STR("\0a\0b"));
	assert_int_equal(sasl_server_answer(s, SASL_LATER, STR_NULL), SASL_FAIL);
	assert_int_equal(sasl_server_failure(s), SASL_F_LATER);
	sasl_server_free(s);
	/* the backend knows the account by another name; the raw password is at hand, the prepared one too */
	s = begin(SASL_PLAIN);
	assert_int_equal(sasl_server_feed(s, true, STR("\0\xe2\x85\xa8\0I\xc2\xadX")), SASL_NEED_PASSWORD);
	wants(sasl_server_name(s), "IX");
	wants(sasl_server_password(s), "IX");
	wants(sasl_server_password_raw(s), "I\xc2\xadX");
	assert_int_equal(sasl_server_answer(s, SASL_YES, STR("ix@example.test")), SASL_OK);
	wants(sasl_server_account(s), "ix@example.test");
	sasl_server_free(s);
}

static void plain_refused(void **state)
{
	char name[300], password[1100];
	static const struct {
		struct str blob;
		enum sasl_failure why;
	} t[] = {
		{ STR_INIT(""), SASL_F_MALFORMED },
		{ STR_INIT("tim"), SASL_F_MALFORMED },
		{ STR_INIT("\0tim"), SASL_F_MALFORMED },
		{ STR_INIT("\0\0"), SASL_F_CREDENTIALS },
		{ STR_INIT("\0tim\0"), SASL_F_CREDENTIALS },
		{ STR_INIT("\0tim\0a\0"), SASL_F_MALFORMED },
		{ STR_INIT("\0t\rim\0a"), SASL_F_CREDENTIALS },
		{ STR_INIT("\0t\xff\0a"), SASL_F_CREDENTIALS },
		{ STR_INIT("\0tim\0a\n"), SASL_F_CREDENTIALS },
		{ STR_INIT("\x7f\0tim\0a"), SASL_F_IDENTITY },
	};
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct sasl_server *s = begin(SASL_PLAIN);
		assert_int_equal(sasl_server_feed(s, true, t[i].blob), SASL_FAIL);
		if (sasl_server_failure(s) != t[i].why)
			fail_msg("case %zu: %s", i, sasl_server_reason(s));
		assert_true(*sasl_server_reason(s));
		sasl_server_free(s);
	}
	memset(name, 'n', sizeof name);
	memset(password, 'p', sizeof password);
	for (size_t over = 0; over < 2; over++) {
		struct buf b = BUF_INIT(4096);
		struct sasl_server *s = begin(SASL_PLAIN);
		buf_addc(&b, 0);
		buf_add(&b, name, SASL_NAME_MAX + over);
		buf_addc(&b, 0);
		buf_addc(&b, 'p');
		assert_int_equal(sasl_server_feed(s, true, buf_str(&b)), over ? SASL_FAIL : SASL_NEED_PASSWORD);
		sasl_server_free(s);
		buf_reset(&b);
		buf_add(&b, "\0n", 3);
		buf_add(&b, password, SASL_PASSWORD_MAX + over);
		s = begin(SASL_PLAIN);
		assert_int_equal(sasl_server_feed(s, true, buf_str(&b)), over ? SASL_FAIL : SASL_NEED_PASSWORD);
		sasl_server_free(s);
		buf_free(&b);
	}
}

static void login(void **state)
{
	struct sasl_server *s = begin(SASL_LOGIN);
	(void)state;
	assert_int_equal(sasl_server_feed(s, false, STR_NULL), SASL_CHALLENGE);
	wants(sasl_server_challenge(s), "Username:");
	assert_int_equal(sasl_server_feed(s, true, STR("tim")), SASL_CHALLENGE);
	wants(sasl_server_challenge(s), "Password:");
	assert_int_equal(sasl_server_feed(s, true, STR("secret")), SASL_NEED_PASSWORD);
	wants(sasl_server_password(s), "secret");
	assert_int_equal(sasl_server_answer(s, SASL_YES, STR_NULL), SASL_OK);
	sasl_server_free(s);
	s = begin(SASL_LOGIN); /* the name as initial response */
	assert_int_equal(sasl_server_feed(s, true, STR("tim")), SASL_CHALLENGE);
	wants(sasl_server_challenge(s), "Password:");
	assert_int_equal(sasl_server_feed(s, true, STR("")), SASL_FAIL);
	sasl_server_free(s);
}

static void external(void **state)
{
	struct sasl_server *s = begin(SASL_EXTERNAL);
	(void)state;
	assert_int_equal(sasl_server_feed(s, true, STR("")), SASL_NEED_CERTIFICATE);
	assert_int_equal(sasl_server_name(s).n, 0);
	assert_int_equal(sasl_server_answer(s, SASL_YES, STR("fred@example.test")), SASL_OK);
	wants(sasl_server_account(s), "fred@example.test");
	sasl_server_free(s);
	s = begin(SASL_EXTERNAL);
	assert_int_equal(sasl_server_feed(s, true, STR("fred")), SASL_NEED_CERTIFICATE);
	wants(sasl_server_name(s), "fred");
	assert_int_equal(sasl_server_answer(s, SASL_NO, STR_NULL), SASL_FAIL);
	sasl_server_free(s);
	s = begin(SASL_EXTERNAL);
	assert_int_equal(sasl_server_feed(s, true, STR("fr\0ed")), SASL_FAIL);
	sasl_server_free(s);
	/* a yes without any name is none */
	s = begin(SASL_EXTERNAL);
	sasl_server_feed(s, true, STR(""));
	assert_int_equal(sasl_server_answer(s, SASL_YES, STR_NULL), SASL_FAIL);
	sasl_server_free(s);
}

#define FIRST "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
#define SERVER_FIRST "r=rOprNGfwEbeRWgbNEkqO" NONCE ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
#define FINAL_BARE "c=biws,r=rOprNGfwEbeRWgbNEkqO" NONCE
#define FINAL FINAL_BARE ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="

static enum sasl_server_state answer_first(struct sasl_server *s, const char *first)
{
	struct scram_verifier v;
	assert_int_equal(scram_verifier_parse(STR(VERIFIER), &v), 0);
	assert_int_equal(sasl_server_feed(s, true, str_from(first)), SASL_NEED_VERIFIER);
	return sasl_server_verifier(s, &v);
}

static void scram_rfc7677(void **state)
{
	struct sasl_server *s = begin(SASL_SCRAM_SHA_256);
	(void)state;
	assert_int_equal(answer_first(s, FIRST), SASL_CHALLENGE);
	wants(sasl_server_name(s), "user");
	wants(sasl_server_challenge(s), SERVER_FIRST);
	assert_int_equal(sasl_server_feed(s, true, STR(FINAL)), SASL_NEED_ACCOUNT);
	assert_int_equal(sasl_server_answer(s, SASL_YES, STR("user")), SASL_CHALLENGE);
	wants(sasl_server_challenge(s), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
	assert_int_equal(sasl_server_feed(s, true, STR("")), SASL_OK);
	wants(sasl_server_account(s), "user");
	sasl_server_free(s);
	/* the proof was right, the account is switched off */
	s = begin(SASL_SCRAM_SHA_256);
	answer_first(s, FIRST);
	assert_int_equal(sasl_server_feed(s, true, STR(FINAL)), SASL_NEED_ACCOUNT);
	assert_int_equal(sasl_server_answer(s, SASL_NO, STR_NULL), SASL_FAIL);
	sasl_server_free(s);
	s = begin(SASL_SCRAM_SHA_256);
	answer_first(s, FIRST);
	sasl_server_feed(s, true, STR(FINAL));
	sasl_server_answer(s, SASL_YES, STR("user"));
	assert_int_equal(sasl_server_feed(s, true, STR("x")), SASL_FAIL);
	sasl_server_free(s);
}

static void scram_unknown(void **state)
{
	char first[2][256];
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct sasl_server *s = begin(SASL_SCRAM_SHA_256);
		assert_int_equal(sasl_server_feed(s, true, STR("n,,n=nobody,r=rOprNGfwEbeRWgbNEkqO")), SASL_NEED_VERIFIER);
		assert_int_equal(sasl_server_verifier(s, NULL), SASL_CHALLENGE);
		snprintf(first[i], sizeof first[i], "%.*s", STR_ARG(sasl_server_challenge(s)));
		assert_int_equal(sasl_server_feed(s, true, STR(FINAL)), SASL_FAIL);
		assert_int_equal(sasl_server_failure(s), SASL_F_CREDENTIALS);
		sasl_server_free(s);
	}
	assert_string_equal(first[0], first[1]);
	/* "nobody" written in another way, of which the backend knows that it is the same name */
	struct sasl_server *other = begin(SASL_SCRAM_SHA_256);
	sasl_server_feed(other, true, STR("n,,n=NoBody,r=rOprNGfwEbeRWgbNEkqO"));
	assert_int_equal(sasl_server_one_form(other, STR("nobody")), 0);
	assert_int_equal(sasl_server_verifier(other, NULL), SASL_CHALLENGE);
	wants(sasl_server_challenge(other), first[0]);
	sasl_server_free(other);
	struct sasl_server *s = begin(SASL_SCRAM_SHA_256);
	sasl_server_feed(s, true, STR(FIRST));
	assert_int_equal(sasl_server_answer(s, SASL_LATER, STR_NULL), SASL_FAIL);
	assert_int_equal(sasl_server_failure(s), SASL_F_LATER);
	sasl_server_free(s);
}

static void scram_first_refused(void **state)
{
	static const struct {
		const char *blob;
		enum sasl_failure why;
	} t[] = {
		{ "", SASL_F_MALFORMED },
		{ "n", SASL_F_MALFORMED },
		{ "n,", SASL_F_MALFORMED },
		{ "n,,", SASL_F_MALFORMED },
		{ "n,,n=user", SASL_F_MALFORMED },
		{ "n,,n=user,r=", SASL_F_MALFORMED },
		{ "n,,r=abc,n=user", SASL_F_MALFORMED },
		{ "n,,m=x,n=user,r=abc", SASL_F_MALFORMED },
		{ "N,,n=user,r=abc", SASL_F_MALFORMED },
		{ "F,n,,n=user,r=abc", SASL_F_MALFORMED },
		{ "nn,,n=user,r=abc", SASL_F_MALFORMED },
		{ "n,b=user,n=user,r=abc", SASL_F_MALFORMED },
		{ "n,a=,n=user,r=abc", SASL_F_MALFORMED },
		{ "n,,n=,r=abc", SASL_F_CREDENTIALS },
		{ "n,,n=us=er,r=abc", SASL_F_MALFORMED },
		{ "n,,n=us=2cer,r=abc", SASL_F_MALFORMED },
		{ "n,,n=us=2,r=abc", SASL_F_MALFORMED },
		{ "n,,n=us\x01""er,r=abc", SASL_F_CREDENTIALS },
		{ "n,,n=user,r=a\x7f", SASL_F_MALFORMED },
		{ "n,,n=user,r=a b", SASL_F_MALFORMED },
		{ "n,a=other,n=user,r=abc", SASL_F_IDENTITY },
		{ "p=tls-exporter,,n=user,r=abc", SASL_F_BINDING },
		{ "p=,,n=user,r=abc", SASL_F_MALFORMED },
	};
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct sasl_server *s = begin(SASL_SCRAM_SHA_256);
		if (sasl_server_feed(s, true, str_from(t[i].blob)) != SASL_FAIL || sasl_server_failure(s) != t[i].why)
			fail_msg("case %zu \"%s\": %s", i, t[i].blob, sasl_server_reason(s));
		sasl_server_free(s);
	}
	/* names with the escapes, an authorization identity that is the name, unknown extensions: taken */
	static const char *const ok[][2] = { { "n,,n=a=2Cb=3Dc,r=abc,x=1", "a,b=c" }, { "n,a=a=2Cb,n=a=2Cb,r=abc", "a,b" },
		{ "y,,n=user,r=abc", "user" } };
	for (size_t i = 0; i < sizeof ok / sizeof *ok; i++) {
		struct sasl_server *s = begin(SASL_SCRAM_SHA_256);
		assert_int_equal(sasl_server_feed(s, true, str_from(ok[i][0])), SASL_NEED_VERIFIER);
		wants(sasl_server_name(s), ok[i][1]);
		sasl_server_free(s);
	}
}

static void scram_final_refused(void **state)
{
	static const struct {
		const char *blob;
		enum sasl_failure why;
	} t[] = {
		{ "", SASL_F_MALFORMED },
		{ FINAL_BARE, SASL_F_MALFORMED },
		{ FINAL_BARE ",p=", SASL_F_MALFORMED },
		{ FINAL_BARE ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ", SASL_F_MALFORMED },
		{ FINAL ",x=1", SASL_F_MALFORMED },
		{ FINAL_BARE ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVA=", SASL_F_CREDENTIALS },
		{ FINAL_BARE ",x=1,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", SASL_F_CREDENTIALS },
		{ "c=biws,r=rOprNGfwEbeRWgbNEkqO,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", SASL_F_CREDENTIALS },
		{ "c=eSws,r=rOprNGfwEbeRWgbNEkqO" NONCE ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", SASL_F_BINDING },
		{ "r=rOprNGfwEbeRWgbNEkqO" NONCE ",c=biws,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", SASL_F_MALFORMED },
	};
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct sasl_server *s = begin(SASL_SCRAM_SHA_256);
		answer_first(s, FIRST);
		if (sasl_server_feed(s, true, str_from(t[i].blob)) != SASL_FAIL || sasl_server_failure(s) != t[i].why)
			fail_msg("case %zu \"%s\": %s", i, t[i].blob, sasl_server_reason(s));
		sasl_server_free(s);
	}
}

static void scram_binding(void **state)
{
	static const char *const bad[] = { "n,,n=user,r=abc", "y,,n=user,r=abc", "p=tls-unique,,n=user,r=abc", "p=tls_x,,n=user,r=abc" };
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct sasl_server *s = begin(SASL_SCRAM_SHA_256_PLUS);
		assert_int_equal(sasl_server_feed(s, true, str_from(bad[i])), SASL_FAIL);
		assert_int_equal(sasl_server_failure(s), i == 3 ? SASL_F_MALFORMED : SASL_F_BINDING);
		sasl_server_free(s);
	}
	/* downgrade: -PLUS was on offer, the client was told it was not */
	struct sasl_server_conf conf = { .mech = SASL_SCRAM_SHA_256, .nonce = STR(NONCE), .dummy_key = STR(KEY), .plus_offered = true };
	struct sasl_server *s = sasl_server_make(&conf);
	assert_int_equal(sasl_server_feed(s, true, STR("y,,n=user,r=abc")), SASL_FAIL);
	assert_int_equal(sasl_server_failure(s), SASL_F_BINDING);
	sasl_server_free(s);
	s = sasl_server_make(&conf);
	assert_int_equal(sasl_server_feed(s, true, STR("n,,n=user,r=abc")), SASL_NEED_VERIFIER); /* cannot bind: its right */
	sasl_server_free(s);
	conf.nonce = STR("short");
	assert_null(sasl_server_make(&conf));
	conf.nonce = STR(NONCE);
	conf.dummy_key = STR("short");
	assert_null(sasl_server_make(&conf));
}

static void bearer_rfc7628(void **state)
{
	struct sasl_server *s = begin(SASL_OAUTHBEARER);
	(void)state;
	/* §4.1 */
	assert_int_equal(sasl_server_feed(s, true,
			     STR("n,a=user@example.com,\1host=server.example.com\1port=143\1auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\1\1")),
	    SASL_NEED_TOKEN);
	wants(sasl_server_name(s), "user@example.com");
	wants(sasl_server_token(s), "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==");
	assert_int_equal(sasl_server_answer(s, SASL_YES, STR("user@example.com")), SASL_OK);
	assert_int_equal(sasl_server_token(s).n, 0);
	sasl_server_free(s);
	/* §4.3: refused; the client answers the error with ^A */
	struct sasl_server_conf conf = { .mech = SASL_OAUTHBEARER, .scope = STR("mail \"x\""), .openid_configuration = STR("https://id.example.test/") };
	s = sasl_server_make(&conf);
	assert_int_equal(sasl_server_feed(s, true, STR("n,,\1auth=bearer  abc\1\1")), SASL_NEED_TOKEN);
	assert_int_equal(sasl_server_name(s).n, 0);
	assert_int_equal(sasl_server_answer(s, SASL_NO, STR_NULL), SASL_CHALLENGE);
	wants(sasl_server_challenge(s),
	    "{\"status\":\"invalid_token\",\"scope\":\"mail \\\"x\\\"\",\"openid-configuration\":\"https://id.example.test/\"}");
	assert_int_equal(sasl_server_feed(s, true, STR("\1")), SASL_FAIL);
	assert_int_equal(sasl_server_failure(s), SASL_F_CREDENTIALS);
	sasl_server_free(s);
	/* a valid token behind the refusal does not help */
	s = begin(SASL_XOAUTH2);
	assert_int_equal(sasl_server_feed(s, true, STR("user=someuser@example.com\1auth=Bearer vF9dft4qmTc2\1\1")), SASL_NEED_TOKEN);
	wants(sasl_server_name(s), "someuser@example.com");
	assert_int_equal(sasl_server_answer(s, SASL_NO, STR_NULL), SASL_CHALLENGE);
	wants(sasl_server_challenge(s), "{\"status\":\"401\",\"schemes\":\"bearer\"}");
	assert_int_equal(sasl_server_feed(s, true, STR("user=someuser@example.com\1auth=Bearer vF9dft4qmTc2\1\1")), SASL_FAIL);
	sasl_server_free(s);
}

static void bearer_refused(void **state)
{
	static const char *const t[] = { "", "n,,", "n,,\1\1", "n,,\1auth=Bearer a\1", "n,,\1auth=Bearer \1\1", "n,,\1auth=Basic abc\1\1",
		"n,,\1auth=Bearer a b\1\1", "n,,\1auth=Bearer a\1auth=Bearer b\1\1", "n,,\1auth=Bearer a\1\1x", "p=tls-exporter,,\1auth=Bearer a\1\1",
		"n,a=b", "n,a=us\2er,\1auth=Bearer a\1\1", "n,,x\1auth=Bearer a\1\1", "n,,\1=v\1auth=Bearer a\1\1", "n,,\1auth=Bearer a=b\1\1",
		"n,,\1a-b=v\1auth=Bearer a\1\1", "n,,\1host\1auth=Bearer a\1\1", "n,,\1auth=Bearer =\1\1" };
	static const char *const x[] = { "", "user=", "user=a", "user=a\1", "user=a\1\1", "user=\1auth=Bearer a\1\1", "auth=Bearer a\1user=a\1\1" };
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct sasl_server *s = begin(SASL_OAUTHBEARER);
		if (sasl_server_feed(s, true, str_from(t[i])) != SASL_FAIL)
			fail_msg("taken: %zu %s", i, t[i]);
		sasl_server_free(s);
	}
	for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
		struct sasl_server *s = begin(SASL_XOAUTH2);
		if (sasl_server_feed(s, true, str_from(x[i])) != SASL_FAIL)
			fail_msg("taken: %zu %s", i, x[i]);
		sasl_server_free(s);
	}
}

static void bounds(void **state)
{
	struct sasl_server *s = begin(SASL_PLAIN);
	char *big = calloc(1, SASL_BLOB_MAX + 1);
	(void)state;
	assert_int_equal(sasl_server_feed(s, true, str_n(big, SASL_BLOB_MAX + 1)), SASL_FAIL);
	assert_int_equal(sasl_server_failure(s), SASL_F_MALFORMED);
	/* the end is the end */
	assert_int_equal(sasl_server_feed(s, true, STR("\0a\0b")), SASL_FAIL);
	assert_int_equal(sasl_server_answer(s, SASL_YES, STR("a")), SASL_FAIL);
	assert_int_equal(sasl_server_verifier(s, NULL), SASL_FAIL);
	sasl_server_free(s);
	/* no response where one is due */
	s = begin(SASL_LOGIN);
	sasl_server_feed(s, true, STR("tim"));
	assert_int_equal(sasl_server_feed(s, false, STR_NULL), SASL_FAIL);
	sasl_server_free(s);
	/* an answer nobody asked for changes nothing */
	s = begin(SASL_LOGIN);
	assert_int_equal(sasl_server_answer(s, SASL_YES, STR("root")), SASL_CHALLENGE);
	sasl_server_free(s);
	sasl_server_free(NULL);
	free(big);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_rfc4616),
		cmocka_unit_test(plain_refused),
		cmocka_unit_test(login),
		cmocka_unit_test(external),
		cmocka_unit_test(scram_rfc7677),
		cmocka_unit_test(scram_unknown),
		cmocka_unit_test(scram_first_refused),
		cmocka_unit_test(scram_final_refused),
		cmocka_unit_test(scram_binding),
		cmocka_unit_test(bearer_rfc7628),
		cmocka_unit_test(bearer_refused),
		cmocka_unit_test(bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
