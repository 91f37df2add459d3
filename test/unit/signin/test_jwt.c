/* Tokens: those made here by the book are taken, each altered one is refused, and for the reason that is meant. Keys are made anew in
 * each run; nothing depends on the clock. */
#include "signin/jwt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>
#include <openssl/ec.h>

#define NOW 1700000000
#define CLAIMS "{\"iss\":\"https://id.example.test\",\"aud\":[\"other\",\"mail\"],\"exp\":1700000300,\"nbf\":1699999000," \
	"\"scope\":\"openid mail.send\",\"email\":\"Alice@example.test\",\"email_verified\":true,\"sub\":\"4711\"}"

static EVP_PKEY *rsa, *other_rsa, *small_rsa, *ec, *ed;
static struct buf set = { .max = 65536 };

static void b64(struct buf *out, const void *p, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	const unsigned char *in = p;
	uint32_t acc = 0;
	unsigned bits = 0;
	for (size_t i = 0; i < n; i++) {
		acc = acc << 8 | in[i];
		for (bits += 8; bits >= 6; bits -= 6)
			buf_addc(out, digits[acc >> (bits - 6) & 63]);
	}
	if (bits)
		buf_addc(out, digits[acc << (6 - bits) & 63]);
}

static void b64_bn(struct buf *out, EVP_PKEY *key, const char *name, int pad)
{
	BIGNUM *bn = NULL;
	unsigned char o[1024];
	assert_int_equal(EVP_PKEY_get_bn_param(key, name, &bn), 1);
	int n = pad ? BN_bn2binpad(bn, o, pad) : BN_bn2bin(bn, o);
	b64(out, o, (size_t)n);
	BN_free(bn);
}

static void put_rsa(EVP_PKEY *key, const char *kid, const char *more)
{
	buf_addf(&set, "{\"kty\":\"RSA\",\"kid\":\"%s\"%s,\"n\":\"", kid, more);
	b64_bn(&set, key, OSSL_PKEY_PARAM_RSA_N, 0);
	buf_addz(&set, "\",\"e\":\"");
	b64_bn(&set, key, OSSL_PKEY_PARAM_RSA_E, 0);
	buf_addz(&set, "\"}");
}

static int make_keys(void **st)
{
	unsigned char raw[32];
	size_t n = sizeof raw;
	(void)st;
	rsa = EVP_RSA_gen(2048);
	other_rsa = EVP_RSA_gen(2048);
	small_rsa = EVP_RSA_gen(1024);
	ec = EVP_EC_gen("P-256");
	ed = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	assert_true(rsa && other_rsa && small_rsa && ec && ed);
	buf_addz(&set, "{\"keys\":[");
	put_rsa(rsa, "r1", ",\"alg\":\"RS256\",\"use\":\"sig\"");
	buf_addc(&set, ',');
	put_rsa(other_rsa, "enc", ",\"use\":\"enc\"");
	buf_addc(&set, ',');
	put_rsa(small_rsa, "small", "");
	buf_addz(&set, ",{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"e1\",\"x\":\"");
	b64_bn(&set, ec, OSSL_PKEY_PARAM_EC_PUB_X, 32);
	buf_addz(&set, "\",\"y\":\"");
	b64_bn(&set, ec, OSSL_PKEY_PARAM_EC_PUB_Y, 32);
	buf_addz(&set, "\"},{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"d1\",\"x\":\"");
	assert_int_equal(EVP_PKEY_get_raw_public_key(ed, raw, &n), 1);
	b64(&set, raw, n);
	buf_addz(&set, "\"}]}");
	assert_false(set.failed);
	return 0;
}

static int drop_keys(void **st)
{
	(void)st;
	EVP_PKEY_free(rsa);
	EVP_PKEY_free(other_rsa);
	EVP_PKEY_free(small_rsa);
	EVP_PKEY_free(ec);
	EVP_PKEY_free(ed);
	buf_free(&set);
	return 0;
}

/* header.claims.signature, signed with key; NULL: HMAC with the text of the key set's RSA modulus as secret, the classic confusion. */
static void make(struct buf *out, const char *header, const char *claims, EVP_PKEY *key)
{
	unsigned char sig[1024], raw[64];
	size_t n = sizeof sig;
	buf_reset(out);
	b64(out, header, strlen(header));
	buf_addc(out, '.');
	b64(out, claims, strlen(claims));
	if (!key) {
		unsigned len = sizeof sig;
		HMAC(EVP_sha256(), set.p, 64, (unsigned char *)out->p, out->n, sig, &len);
		n = len;
	} else {
		EVP_MD_CTX *ctx = EVP_MD_CTX_new();
		assert_int_equal(EVP_DigestSignInit(ctx, NULL, key == ed ? NULL : EVP_sha256(), NULL, key), 1);
		assert_int_equal(EVP_DigestSign(ctx, sig, &n, (unsigned char *)out->p, out->n), 1);
		EVP_MD_CTX_free(ctx);
	}
	if (key == ec) {
		const unsigned char *at = sig;
		ECDSA_SIG *es = d2i_ECDSA_SIG(NULL, &at, (long)n);
		BN_bn2binpad(ECDSA_SIG_get0_r(es), raw, 32);
		BN_bn2binpad(ECDSA_SIG_get0_s(es), raw + 32, 32);
		ECDSA_SIG_free(es);
		memcpy(sig, raw, 64);
		n = 64;
	}
	buf_addc(out, '.');
	b64(out, sig, n);
}

static struct jwt_policy policy(void)
{
	return (struct jwt_policy){ .issuer = STR("https://id.example.test"), .audiences = STR("mail smtp"), .scope = STR("mail.send"),
		.name_claim = STR("email"), .algorithms = STR("RS256 ES256 EdDSA"), .now = NOW };
}

static const char *check(struct str token, const struct jwt_policy *p, char *name, size_t size)
{
	struct jwt_result r = { .name = BUF_INIT(300) };
	const char *bad = jwt_verify(token, buf_str(&set), p, &r);
	if (name)
		snprintf(name, size, "%s", buf_z(&r.name));
	if (!bad)
		assert_int_equal(r.expires, 1700000300);
	buf_free(&r.name);
	return bad;
}

static void good(void **st)
{
	struct jwt_policy p = policy();
	struct buf t = BUF_INIT(JWT_TOKEN_MAX);
	const struct {
		const char *header;
		EVP_PKEY *key;
	} of[] = { { "{\"alg\":\"RS256\",\"kid\":\"r1\",\"typ\":\"at+jwt\"}", rsa }, { "{\"alg\":\"RS256\"}", rsa },
		{ "{\"alg\":\"ES256\",\"kid\":\"e1\"}", ec }, { "{\"alg\":\"EdDSA\",\"kid\":\"d1\"}", ed }, { "{\"alg\":\"EdDSA\"}", ed } };
	char name[300];
	(void)st;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		make(&t, of[i].header, CLAIMS, of[i].key);
		const char *bad = check(buf_str(&t), &p, name, sizeof name);
		if (bad)
			fail_msg("%s: %s", of[i].header, bad);
		assert_string_equal(name, "Alice@example.test");
		/* every octet of it counts */
		for (size_t at = 0; at < t.n; at++) {
			char was = t.p[at];
			t.p[at] = was == 'A' ? 'B' : was == '.' ? 'A' : 'A';
			if (t.p[at] != was && !check(buf_str(&t), &p, NULL, 0))
				fail_msg("%s: octet %zu does not matter", of[i].header, at);
			t.p[at] = was;
		}
	}
	p.name_claim = STR("sub");
	assert_null(check(buf_str(&t), &p, name, sizeof name));
	assert_string_equal(name, "4711");
	p.issuer = p.audiences = p.scope = STR_NULL;
	assert_null(check(buf_str(&t), &p, NULL, 0));
	buf_free(&t);
}

static void bad_headers(void **st)
{
	const struct {
		const char *header;
		EVP_PKEY *key;
		const char *why;
	} of[] = {
		{ "{\"alg\":\"none\"}", rsa, "not allowed" },
		{ "{\"alg\":\"None\"}", rsa, "not allowed" },
		{ "{\"alg\":\"HS256\",\"kid\":\"r1\"}", NULL, "not allowed" },
		{ "{\"alg\":\"RS512\"}", rsa, "not allowed" },
		{ "{\"alg\":\"PS256\"}", rsa, "not allowed" },
		{ "{\"alg\":[\"RS256\"]}", rsa, "not allowed" },
		{ "{}", rsa, "not allowed" },
		{ "{\"alg\":\"RS256\",\"crit\":[\"b64\"],\"b64\":false}", rsa, "extension" },
		{ "{\"alg\":\"RS256\",\"kid\":\"r2\"}", rsa, "no key" },
		{ "{\"alg\":\"RS256\",\"kid\":\"e1\"}", rsa, "no key" },       /* a key of another kind */
		{ "{\"alg\":\"ES256\",\"kid\":\"r1\"}", ec, "no key" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"e1\"}", ed, "no key" },
		{ "{\"alg\":\"RS256\",\"kid\":\"enc\"}", other_rsa, "no key" }, /* not for signatures */
		{ "{\"alg\":\"RS256\",\"kid\":\"small\"}", small_rsa, "signature" }, /* too small a key is none */
		{ "{\"alg\":\"RS256\",\"kid\":\"r1\"}", other_rsa, "signature" },
		{ "{\"alg\":\"RS256\",\"kid\":\"r1\",\"jwk\":{}}", other_rsa, "signature" }, /* a key in the token is nobody's */
		{ "{\"alg\":\"EdDSA\",\"kid\":\"d1\"}", ec, "signature" },
		{ "[]", rsa, "header" },
		{ "{\"alg\":\"RS256\"", rsa, "header" },
		{ "{\"alg\":\"RS256\"} x", rsa, "header" },
		{ "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":1}}}}}}}}}", rsa, "header" },
	};
	struct jwt_policy p = policy();
	struct buf t = BUF_INIT(JWT_TOKEN_MAX);
	(void)st;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		make(&t, of[i].header, CLAIMS, of[i].key);
		const char *bad = check(buf_str(&t), &p, NULL, 0);
		if (!bad || !strstr(bad, of[i].why))
			fail_msg("%s: %s", of[i].header, bad ? bad : "taken");
	}
	p.algorithms = STR("ES256");
	make(&t, "{\"alg\":\"RS256\",\"kid\":\"r1\"}", CLAIMS, rsa);
	assert_non_null(strstr(check(buf_str(&t), &p, NULL, 0), "not allowed"));
	/* an unsigned one, and other shapes */
	static const char *const shapes[] = { "", ".", "..", "a.b", "a.b.c.d", "eyJhbGciOiJub25lIn0.e30.", "eyJhbGciOiJSUzI1NiJ9.e30.",
		"eyJhbGciOiJSUzI1NiJ9.e30.A", "eyJhbGciOiJSUzI1NiJ9.e30.AB=", "eyJhbGciOiJSUzI1NiJ9.e30.A+B/" };
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		assert_non_null(check(str_from(shapes[i]), &p, NULL, 0));
	buf_free(&t);
}

static void bad_claims(void **st)
{
#define BASE "\"iss\":\"https://id.example.test\",\"aud\":\"mail\",\"exp\":1700000300,\"scope\":\"mail.send\""
#define UNSTATED ",\"email\":\"a@example.test\""
#define MAIL UNSTATED ",\"email_verified\":true"
	static const struct {
		const char *claims, *why; /* NULL: taken */
	} of[] = {
		{ "{" BASE MAIL "}", NULL },
		{ "{" BASE MAIL ",\"nbf\":1700000059}", NULL },
		{ "{" BASE MAIL ",\"nbf\":1700000061}", "not valid yet" },
		{ "{" BASE MAIL ",\"nbf\":9223372036854775807}", "not valid yet" },
		{ "{" BASE MAIL ",\"nbf\":-9223372036854775808}", NULL },
		{ "{" BASE MAIL ",\"nbf\":\"soon\"}", "no number" },
		{ "{" BASE MAIL ",\"email_verified\":true}", NULL },
		{ "{" BASE MAIL ",\"email_verified\":false}", "not verified" },
		{ "{" BASE MAIL ",\"email_verified\":\"true\"}", "not verified" },
		{ "{" BASE MAIL ",\"email_verified\":null}", "not verified" },
		{ "{" BASE MAIL ",\"email_verified\":1}", "not verified" },
		{ "{" BASE UNSTATED "}", "does not say" },
		{ "{" BASE ",\"email_verified\":true}", "whose" },
		{ "{" BASE ",\"email_verified\":true,\"email\":\"\"}", "whose" },
		{ "{" BASE ",\"email_verified\":true,\"email\":7}", "whose" },
		{ "{\"aud\":\"mail\",\"exp\":1700000300,\"scope\":\"mail.send\"" MAIL "}", "issuer" },
		{ "{\"iss\":\"https://id.example.test/\",\"aud\":\"mail\",\"exp\":1700000300,\"scope\":\"mail.send\"" MAIL "}", "issuer" },
		{ "{\"iss\":\"https://id.example.test\",\"exp\":1700000300,\"scope\":\"mail.send\"" MAIL "}", "audience" },
		{ "{\"iss\":\"https://id.example.test\",\"aud\":\"mail2\",\"exp\":1700000300,\"scope\":\"mail.send\"" MAIL "}", "audience" },
		{ "{\"iss\":\"https://id.example.test\",\"aud\":\"mail smtp\",\"exp\":1700000300,\"scope\":\"mail.send\"" MAIL "}", "audience" },
		{ "{\"iss\":\"https://id.example.test\",\"aud\":[\"x\",[\"mail\"]],\"exp\":1700000300,\"scope\":\"mail.send\"" MAIL "}", "audience" },
		{ "{\"iss\":\"https://id.example.test\",\"aud\":\"mail\",\"scope\":\"mail.send\"" MAIL "}", "end of its time" },
		{ "{\"iss\":\"https://id.example.test\",\"aud\":\"mail\",\"exp\":1699999941,\"scope\":\"mail.send\"" MAIL "}", NULL },
		{ "{\"iss\":\"https://id.example.test\",\"aud\":\"mail\",\"exp\":1699999940,\"scope\":\"mail.send\"" MAIL "}", "expired" },
		{ "{\"iss\":\"https://id.example.test\",\"aud\":\"mail\",\"exp\":0,\"scope\":\"mail.send\"" MAIL "}", "expired" },
		{ "{\"iss\":\"https://id.example.test\",\"aud\":\"mail\",\"exp\":-5,\"scope\":\"mail.send\"" MAIL "}", "expired" },
		{ "{\"iss\":\"https://id.example.test\",\"aud\":\"mail\",\"exp\":\"1700000300\",\"scope\":\"mail.send\"" MAIL "}", "no number" },
		{ "{\"iss\":\"https://id.example.test\",\"aud\":\"mail\",\"exp\":1e400,\"scope\":\"mail.send\"" MAIL "}", "no number" },
		{ "{\"iss\":\"https://id.example.test\",\"aud\":\"mail\",\"exp\":1.7000003e9,\"scope\":\"mail.send\"" MAIL "}", NULL },
		{ "{\"iss\":\"https://id.example.test\",\"aud\":\"mail\",\"exp\":1700000300,\"scope\":\"mail.sender\"" MAIL "}", "scope" },
		{ "{\"iss\":\"https://id.example.test\",\"aud\":\"mail\",\"exp\":1700000300" MAIL "}", "scope" },
		{ "{\"iss\":\"https://id.example.test\",\"aud\":\"mail\",\"exp\":1700000300,\"scp\":[\"mail.send\"]" MAIL "}", NULL },
		{ "[]", "claims" },
		{ "{" BASE MAIL, "claims" },
	};
	struct jwt_policy p = policy();
	struct buf t = BUF_INIT(JWT_TOKEN_MAX);
	(void)st;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct jwt_result r = { .name = BUF_INIT(300) };
		make(&t, "{\"alg\":\"EdDSA\",\"kid\":\"d1\"}", of[i].claims, ed);
		const char *bad = jwt_verify(buf_str(&t), buf_str(&set), &p, &r);
		if ((bad == NULL) != (of[i].why == NULL) || (bad && !strstr(bad, of[i].why)))
			fail_msg("%s: %s", of[i].claims, bad ? bad : "taken");
		buf_free(&r.name);
	}
	buf_free(&t);
}

/* OAUTH_EMAIL_UNSTATED: silence is taken, a no never; and another claim needs nobody's word for an address. */
static void unstated(void **st)
{
	static const struct {
		const char *json, *claim;
		bool relaxed;
		const char *why;
	} of[] = {
		{ "{\"active\":true," BASE UNSTATED "}", "email", true, NULL },
		{ "{\"active\":true," BASE UNSTATED "}", "email", false, "does not say" },
		{ "{\"active\":true," BASE UNSTATED ",\"email_verified\":false}", "email", true, "not verified" },
		{ "{\"active\":true," BASE UNSTATED ",\"email_verified\":\"yes\"}", "email", true, "not verified" },
		{ "{\"active\":true," BASE UNSTATED ",\"email_verified\":null}", "email", true, "not verified" },
		{ "{\"active\":true," BASE ",\"sub\":\"4711\",\"email_verified\":false}", "sub", false, NULL },
	};
	(void)st;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct jwt_policy p = policy();
		struct jwt_result r = { .name = BUF_INIT(300) };
		p.name_claim = str_from(of[i].claim);
		p.unstated = of[i].relaxed;
		const char *bad = jwt_introspection(str_from(of[i].json), &p, &r);
		if ((bad == NULL) != (of[i].why == NULL) || (bad && !strstr(bad, of[i].why)))
			fail_msg("%zu %s: %s", i, of[i].json, bad ? bad : "taken");
		buf_free(&r.name);
	}
}

static void introspection(void **st)
{
	static const struct {
		const char *json, *why;
	} of[] = {
		{ "{\"active\":true," BASE MAIL "}", NULL },
		{ "{\"active\":true,\"iss\":\"https://id.example.test\",\"aud\":\"mail\",\"scope\":\"mail.send\"" MAIL "}", NULL }, /* exp is optional */
		{ "{\"active\":true," BASE UNSTATED "}", "does not say" },
		{ "{\"active\":false," BASE MAIL "}", "not active" },
		{ "{\"active\":\"true\"," BASE MAIL "}", "\"active\"" },
		{ "{\"active\":1," BASE MAIL "}", "\"active\"" },
		{ "{" BASE MAIL "}", "\"active\"" },
		{ "{\"active\":true,\"exp\":1600000000" MAIL "}", "expired" },
		{ "", "no JSON" }, { "null", "no JSON" }, { "<html>", "no JSON" }, { "{\"active\":true}{}", "no JSON" },
	};
	struct jwt_policy p = policy();
	(void)st;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct jwt_result r = { .name = BUF_INIT(300) };
		const char *bad = jwt_introspection(str_from(of[i].json), &p, &r);
		if ((bad == NULL) != (of[i].why == NULL) || (bad && !strstr(bad, of[i].why)))
			fail_msg("%s: %s", of[i].json, bad ? bad : "taken");
		buf_free(&r.name);
	}
}

static void key_sets(void **st)
{
	static const char *const bad[] = { "", "[]", "{}", "{\"keys\":{}}", "{\"keys\":[]}", "{\"keys\":[7,null,\"x\"]}",
		"{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}", "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}",
		"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAA\",\"y\":\"AAAA\"}]}",
		/* not on the curve */
		"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\",\"y\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE\"}]}",
		"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed448\",\"x\":\"AAAA\"}]}", "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}]}" };
	(void)st;
	assert_null(jwt_key_set_fault(buf_str(&set)));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (!jwt_key_set_fault(str_from(bad[i])))
			fail_msg("%s: taken", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(good), cmocka_unit_test(bad_headers), cmocka_unit_test(bad_claims),
		cmocka_unit_test(unstated), cmocka_unit_test(introspection), cmocka_unit_test(key_sets) };
	return cmocka_run_group_tests(tests, make_keys, drop_keys);
}
