/* Signed tokens: cutting them up, choosing a key, checking the signature. What the claims must be is claims.c's. See jwt.h. */
#include "jwt.h"

#include "jwt_internal.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

enum { RSA_BITS_MIN = 2048, RSA_BITS_MAX = 8192, HEADER_DEPTH = 8, SET_DEPTH = 8 };

enum alg { ALG_RS256, ALG_ES256, ALG_EDDSA, ALG_N };
static const struct {
	const char *name, *kty, *crv;
} algs[ALG_N] = { { "RS256", "RSA", NULL }, { "ES256", "EC", "P-256" }, { "EdDSA", "OKP", "Ed25519" } };

int jwt_base64url(struct str in, struct buf *out)
{
	uint32_t acc = 0;
	unsigned bits = 0;
	if (in.n % 4 == 1)
		return -1;
	for (size_t i = 0; i < in.n; i++) {
		char c = in.p[i];
		uint32_t v;
		if (c >= 'A' && c <= 'Z')
			v = (uint32_t)(c - 'A');
		else if (c >= 'a' && c <= 'z')
			v = (uint32_t)(c - 'a') + 26;
		else if (c >= '0' && c <= '9')
			v = (uint32_t)(c - '0') + 52;
		else if (c == '-' || c == '_')
			v = c == '-' ? 62 : 63;
		else
			return -1;
		acc = (acc << 6 | v) & 0xffff;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			if (buf_addc(out, (char)(acc >> bits & 0xff)))
				return -1;
		}
	}
	return acc & ((1u << bits) - 1) ? -1 : 0; /* bits set that encode nothing */
}

struct json_object *jwt_json(struct str text, int depth)
{
	struct json_tokener *tok = text.n && text.n <= JWT_KEYS_MAX ? json_tokener_new_ex(depth) : NULL;
	struct json_object *o = NULL;
	if (!tok)
		return NULL;
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(tok, text.p, (int)text.n);
	bool bad = json_tokener_get_error(tok) != json_tokener_success || json_tokener_get_parse_end(tok) != text.n ||
	    !json_object_is_type(o, json_type_object);
	json_tokener_free(tok);
	if (bad) {
		json_object_put(o);
		return NULL;
	}
	return o;
}

struct str jwt_text(struct json_object *o, const char *key)
{
	struct json_object *v;
	if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_string))
		return STR_NULL;
	return str_n(json_object_get_string(v), (size_t)json_object_get_string_len(v));
}

static EVP_PKEY *from_params(const char *type, OSSL_PARAM *params)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
	EVP_PKEY *key = NULL;
	if (ctx && params && EVP_PKEY_fromdata_init(ctx) == 1 && EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
		key = NULL;
	EVP_PKEY_CTX_free(ctx);
	return key;
}

static EVP_PKEY *rsa_key(struct str n, struct str e)
{
	BIGNUM *bn = BN_bin2bn((const unsigned char *)n.p, (int)n.n, NULL), *be = BN_bin2bn((const unsigned char *)e.p, (int)e.n, NULL);
	OSSL_PARAM_BLD *b = OSSL_PARAM_BLD_new();
	OSSL_PARAM *params = NULL;
	EVP_PKEY *key = NULL;
	if (bn && be && b && BN_num_bits(bn) >= RSA_BITS_MIN && BN_num_bits(bn) <= RSA_BITS_MAX && BN_num_bits(be) <= 64 && BN_is_odd(be) &&
	    OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_N, bn) && OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_E, be) &&
	    (params = OSSL_PARAM_BLD_to_param(b)))
		key = from_params("RSA", params);
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(b);
	BN_free(bn);
	BN_free(be);
	return key;
}

static EVP_PKEY *ec_key(struct str x, struct str y)
{
	unsigned char point[65] = { 4 };
	char group[] = "prime256v1";
	if (x.n != 32 || y.n != 32)
		return NULL;
	memcpy(point + 1, x.p, 32);
	memcpy(point + 33, y.p, 32);
	OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
		OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point), OSSL_PARAM_construct_end() };
	return from_params("EC", params); /* checks that the point lies on the curve */
}

/* Two members of a key, decoded. */
static EVP_PKEY *make_key(struct json_object *k, enum alg a)
{
	static const char *const members[ALG_N][2] = { { "n", "e" }, { "x", "y" }, { "x", NULL } };
	struct buf one = BUF_INIT(2048), two = BUF_INIT(2048);
	EVP_PKEY *key = NULL;
	if (jwt_base64url(jwt_text(k, members[a][0]), &one) == 0 && one.n &&
	    (!members[a][1] || (jwt_base64url(jwt_text(k, members[a][1]), &two) == 0 && two.n))) {
		if (a == ALG_RS256)
			key = rsa_key(buf_str(&one), buf_str(&two));
		else if (a == ALG_ES256)
			key = ec_key(buf_str(&one), buf_str(&two));
		else if (one.n == 32)
			key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, (const unsigned char *)one.p, 32);
	}
	buf_free(&one);
	buf_free(&two);
	return key;
}

/* Does the key say of itself that it is for this algorithm, and for signatures? */
static bool key_fits(struct json_object *k, enum alg a)
{
	struct str alg = jwt_text(k, "alg"), use = jwt_text(k, "use");
	return str_eq(jwt_text(k, "kty"), str_from(algs[a].kty)) && (!algs[a].crv || str_eq(jwt_text(k, "crv"), str_from(algs[a].crv))) &&
	    (!alg.n || str_eq(alg, str_from(algs[a].name))) && (!use.n || str_eq(use, STR("sig")));
}

static bool signature_ok(EVP_PKEY *key, enum alg a, struct str signed_part, struct str sig)
{
	unsigned char der[128], *at = der;
	const unsigned char *s = (const unsigned char *)sig.p;
	size_t n = sig.n;
	bool ok = false;
	if (a == ALG_ES256) { /* RFC 7518 §3.4: r and s, 32 octets each */
		ECDSA_SIG *es = n == 64 ? ECDSA_SIG_new() : NULL;
		BIGNUM *r = es ? BN_bin2bn(s, 32, NULL) : NULL, *v = es ? BN_bin2bn(s + 32, 32, NULL) : NULL;
		if (!r || !v || ECDSA_SIG_set0(es, r, v) != 1) {
			BN_free(r);
			BN_free(v);
			ECDSA_SIG_free(es);
			return false;
		}
		int len = i2d_ECDSA_SIG(es, &at);
		ECDSA_SIG_free(es);
		if (len <= 0)
			return false;
		s = der;
		n = (size_t)len;
	}
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	if (ctx && EVP_DigestVerifyInit(ctx, NULL, a == ALG_EDDSA ? NULL : EVP_sha256(), NULL, key) == 1)
		ok = EVP_DigestVerify(ctx, s, n, (const unsigned char *)signed_part.p, signed_part.n) == 1;
	EVP_MD_CTX_free(ctx);
	ERR_clear_error();
	return ok;
}

static bool listed(struct str words, struct str w)
{
	struct str one;
	while (str_word(&words, " \t,", &one))
		if (str_eq(one, w))
			return true;
	return false;
}

/* NULL: one of the set's keys has made this signature. */
static const char *check_signature(struct json_object *set, enum alg a, struct str kid, struct str signed_part, struct str sig,
    struct jwt_result *r)
{
	struct json_object *keys, *k;
	unsigned tries = 0;
	if (!json_object_object_get_ex(set, "keys", &keys) || !json_object_is_type(keys, json_type_array))
		return "the key set has no \"keys\"";
	for (size_t i = 0; i < json_object_array_length(keys) && i < JWT_KEYS && tries < JWT_TRIES; i++) {
		k = json_object_array_get_idx(keys, i);
		if (!json_object_is_type(k, json_type_object) || !key_fits(k, a) || (kid.n && !str_eq(jwt_text(k, "kid"), kid)))
			continue;
		EVP_PKEY *key = make_key(k, a);
		tries++;
		bool ok = key && signature_ok(key, a, signed_part, sig);
		EVP_PKEY_free(key);
		if (ok)
			return NULL;
	}
	r->unknown_key = tries == 0;
	return tries ? "the token's signature is wrong" : "no key of the key set fits the token";
}

static const char *check_header(struct str encoded, const struct jwt_policy *p, enum alg *ret_alg, struct buf *kid)
{
	struct buf text = BUF_INIT(JWT_TOKEN_MAX);
	struct json_object *h = jwt_base64url(encoded, &text) == 0 ? jwt_json(buf_str(&text), HEADER_DEPTH) : NULL;
	const char *bad = NULL;
	unsigned a = 0;
	buf_free(&text);
	if (!h)
		return "the token's header is no JSON object";
	struct str alg = jwt_text(h, "alg");
	while (a < ALG_N && !str_eq(alg, str_from(algs[a].name)))
		a++;
	if (json_object_object_get_ex(h, "crit", NULL))
		bad = "the token demands an extension"; /* RFC 7515 §4.1.11: not understood, so refused */
	else if (a == ALG_N || !listed(p->algorithms, alg)) /* "none" and HS256 with a public key as secret end here (RFC 8725 §2.1) */
		bad = "the token is signed with an algorithm that is not allowed";
	else if (buf_adds(kid, jwt_text(h, "kid")))
		bad = "the token's key id is too long";
	*ret_alg = (enum alg)a;
	json_object_put(h);
	return bad;
}

const char *jwt_verify(struct str token, struct str key_set, const struct jwt_policy *p, struct jwt_result *r)
{
	struct buf kid = BUF_INIT(256), sig = BUF_INIT(2048), text = BUF_INIT(JWT_TOKEN_MAX);
	ptrdiff_t one = str_chr(token, '.'), two = one < 0 ? -1 : str_chr(str_skip(token, (size_t)one + 1), '.');
	struct json_object *set = NULL, *claims = NULL;
	const char *bad;
	enum alg a;
	if (token.n > JWT_TOKEN_MAX || two < 0)
		return "the token is no signed JWT";
	two += one + 1;
	struct str head = str_n(token.p, (size_t)one), body = str_n(token.p + one + 1, (size_t)(two - one - 1));
	if ((bad = check_header(head, p, &a, &kid)))
		goto out;
	if (jwt_base64url(str_skip(token, (size_t)two + 1), &sig) || !sig.n) {
		bad = "the token's signature is not base64url";
		goto out;
	}
	if (!(set = jwt_json(key_set, SET_DEPTH))) {
		bad = "the key set is no JSON object";
		goto out;
	}
	/* nothing of the claims is looked at before the signature is known to be good */
	if ((bad = check_signature(set, a, buf_str(&kid), str_n(token.p, (size_t)two), buf_str(&sig), r)))
		goto out;
	if (jwt_base64url(body, &text) || !(claims = jwt_json(buf_str(&text), JWT_CLAIMS_DEPTH))) {
		bad = "the token's claims are no JSON object";
		goto out;
	}
	bad = jwt_claims(claims, p, true, r);
out:
	json_object_put(set);
	json_object_put(claims);
	buf_free(&kid);
	buf_free(&sig);
	buf_free(&text);
	return bad;
}

const char *jwt_key_set_fault(struct str key_set)
{
	struct json_object *set = jwt_json(key_set, SET_DEPTH), *keys;
	const char *bad = "it has no key of a kind that is known here (RSA from 2048 bits, EC P-256, Ed25519)";
	if (!set)
		return "it is no JSON object";
	if (!json_object_object_get_ex(set, "keys", &keys) || !json_object_is_type(keys, json_type_array))
		bad = "it has no list \"keys\"";
	else
		for (size_t i = 0; bad && i < json_object_array_length(keys) && i < JWT_KEYS; i++) {
			struct json_object *k = json_object_array_get_idx(keys, i);
			for (unsigned a = 0; bad && a < ALG_N && json_object_is_type(k, json_type_object); a++) {
				EVP_PKEY *key = key_fits(k, (enum alg)a) ? make_key(k, (enum alg)a) : NULL;
				if (key)
					bad = NULL;
				EVP_PKEY_free(key);
			}
		}
	ERR_clear_error();
	json_object_put(set);
	return bad;
}
