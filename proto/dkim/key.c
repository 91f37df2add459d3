/* Key records, and the one place where a signature meets a key. A record is outside input that arrives whole; what it may
 * cost is bounded before OpenSSL sees any of it. */
#include "dkim_internal.h"

#include <openssl/core_names.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>
#include <stdlib.h>

enum {
	KEY_OCTETS_MAX = 4096,     /* DER of a key of 16k bits and more: enough to name it */
	EXPONENT_OCTETS_MAX = 8,   /* a longer one makes verifying as dear as signing */
};

static void refuse(struct dkim_key *k, enum dkim_result r, const char *why)
{
	k->result = r;
	k->why = why;
}

static unsigned count_bits(struct str number)
{
	unsigned bits = number.n ? ((unsigned)number.n - 1) * 8 : 0;
	for (unsigned char top = number.n ? (unsigned char)number.p[0] : 0; top; top >>= 1)
		bits++;
	return bits;
}

static EVP_PKEY *make_rsa(struct str modulus, struct str exponent)
{
	EVP_PKEY *pkey = NULL;
	BIGNUM *n = BN_bin2bn((const unsigned char *)modulus.p, (int)modulus.n, NULL);
	BIGNUM *e = BN_bin2bn((const unsigned char *)exponent.p, (int)exponent.n, NULL);
	OSSL_PARAM_BLD *bld = OSSL_PARAM_BLD_new();
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
	OSSL_PARAM *params = NULL;
	if (n && e && bld && ctx && OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_N, n) &&
	    OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_E, e) && (params = OSSL_PARAM_BLD_to_param(bld)) &&
	    EVP_PKEY_fromdata_init(ctx) == 1 && EVP_PKEY_fromdata(ctx, &pkey, EVP_PKEY_PUBLIC_KEY, params) != 1)
		pkey = NULL;
	OSSL_PARAM_free(params);
	EVP_PKEY_CTX_free(ctx);
	OSSL_PARAM_BLD_free(bld);
	BN_free(n);
	BN_free(e);
	return pkey;
}

/* The lengths that count, of a key that was read now or before (RFC 8301 §3.2). */
static bool length_counts(struct dkim_key *k, const struct dkim_policy *p)
{
	unsigned min = p->rsa_min ? p->rsa_min : DKIM_RSA_BITS_MIN, max = p->rsa_max ? p->rsa_max : DKIM_RSA_BITS_MAX;
	if (k->bits < min)
		refuse(k, DKIM_POLICY, "the key is too short");
	else if (k->bits > max)
		refuse(k, DKIM_POLICY, "the key is too long");
	return k->bits >= min && k->bits <= max;
}

static void read_rsa(struct dkim_key *k, const unsigned char *der, size_t n, const struct dkim_policy *p)
{
	struct str modulus, exponent;
	if (dkim_key_rsa(der, n, &modulus, &exponent)) {
		refuse(k, DKIM_PERMERROR, "the key is no RSA key");
		return;
	}
	k->bits = count_bits(modulus);
	if (!length_counts(k, p))
		return;
	if (exponent.n > EXPONENT_OCTETS_MAX || !(exponent.p[exponent.n - 1] & 1) || count_bits(exponent) < 2 ||
	    !(modulus.p[modulus.n - 1] & 1)) {
		refuse(k, DKIM_PERMERROR, "the key's numbers are not those of an RSA key");
		return;
	}
	k->pkey = dkim_pkey_new(make_rsa(modulus, exponent));
	if (!k->pkey)
		refuse(k, DKIM_PERMERROR, "the key is not usable");
}

static void read_public(struct dkim_key *k, struct str text, enum dkim_method alg, const struct dkim_policy *p)
{
	bool ed25519 = alg == DKIM_ED25519_SHA256;
	if ((k->pkey = dkim_keys_get(p->keys, text, ed25519, &k->bits))) {
		if (!ed25519 && !length_counts(k, p))
			dkim_key_free(k);
		return;
	}
	unsigned char *octets = malloc(KEY_OCTETS_MAX);
	if (!octets) {
		refuse(k, DKIM_TEMPERROR, "out of memory");
		return;
	}
	long n = dkim_base64(text, octets, KEY_OCTETS_MAX);
	if (n < 0) {
		refuse(k, DKIM_PERMERROR, "the key record has a p= that is no key");
	} else if (ed25519) {
		/* RFC 8463 §4: the 32 octets themselves */
		k->bits = 256;
		k->pkey = n == 32 ? dkim_pkey_new(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, octets, 32)) : NULL;
		if (!k->pkey)
			refuse(k, DKIM_PERMERROR, "the key is no Ed25519 key");
	} else {
		read_rsa(k, octets, (size_t)n, p);
	}
	free(octets);
	if (k->pkey)
		dkim_keys_put(p->keys, text, ed25519, k->bits, k->pkey);
}

void dkim_key_read(struct str record, enum dkim_method alg, const struct dkim_policy *p, struct dkim_key *k)
{
	struct dkim_tags tags;
	const struct dkim_tag *t;
	const char *why;
	*k = (struct dkim_key){ .result = DKIM_PASS };
	if (dkim_tags_parse(record, &tags, &why)) {
		refuse(k, DKIM_PERMERROR, "the key record is no tag list");
		return;
	}
	if ((t = dkim_tags_get(&tags, "v")) && (t != tags.tag || !str_eq(t->value, STR("DKIM1")))) {
		refuse(k, DKIM_PERMERROR, "the key record is of another version");
		return;
	}
	k->is_key = t || dkim_tags_get(&tags, "p");
	if ((t = dkim_tags_get(&tags, "t"))) { /* unknown flags are ignored */
		k->testing = dkim_tags_lists(t->value, STR("y"));
		k->strict = dkim_tags_lists(t->value, STR("s"));
	}
	if ((t = dkim_tags_get(&tags, "g")) && p->historic)
		k->granularity = t->value;
	struct str type = (t = dkim_tags_get(&tags, "k")) ? t->value : STR("rsa");
	if (!str_eq(type, alg == DKIM_ED25519_SHA256 ? STR("ed25519") : STR("rsa")))
		refuse(k, DKIM_PERMERROR, "the key is of another type than the signature");
	else if ((t = dkim_tags_get(&tags, "h")) && !dkim_tags_lists(t->value, alg == DKIM_RSA_SHA1 ? STR("sha1") : STR("sha256")))
		refuse(k, DKIM_PERMERROR, "the key is not for this hash");
	else if ((t = dkim_tags_get(&tags, "s")) && !dkim_tags_lists(t->value, STR("*")) && !dkim_tags_lists(t->value, STR("email")))
		refuse(k, DKIM_PERMERROR, "the key is not for mail");
	else if (!(t = dkim_tags_get(&tags, "p")))
		refuse(k, DKIM_PERMERROR, "the key record has no p=");
	else if (!t->value.n)
		refuse(k, DKIM_PERMERROR, "the key is revoked");
	else
		read_public(k, t->value, alg, p);
}

void dkim_key_free(struct dkim_key *k)
{
	dkim_pkey_unref(k->pkey);
	k->pkey = NULL;
}

static EVP_PKEY_CTX *prepare_rsa(EVP_PKEY *key, const EVP_MD *md)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
	if (ctx && EVP_PKEY_verify_init(ctx) == 1 && EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) == 1 &&
	    EVP_PKEY_CTX_set_signature_md(ctx, md) == 1)
		return ctx;
	EVP_PKEY_CTX_free(ctx);
	return NULL;
}

bool dkim_key_verify(struct dkim_pkey *pkey, enum dkim_method alg, const unsigned char *digest, size_t n_digest,
    const unsigned char *sig, size_t n_sig)
{
	bool ok = false;
	if (alg == DKIM_ED25519_SHA256) { /* PureEdDSA over the hash (RFC 8463 §3) */
		EVP_MD_CTX *ctx = EVP_MD_CTX_new();
		ok = ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pkey->key) == 1 &&
		     EVP_DigestVerify(ctx, sig, n_sig, digest, n_digest) == 1;
		EVP_MD_CTX_free(ctx);
		return ok;
	}
	bool sha1 = alg == DKIM_RSA_SHA1;
	EVP_PKEY_CTX *ctx = !sha1 && pkey->prepared ? pkey->prepared : prepare_rsa(pkey->key, sha1 ? EVP_sha1() : EVP_sha256());
	ok = ctx && EVP_PKEY_verify(ctx, sig, n_sig, digest, n_digest) == 1;
	if (sha1)
		EVP_PKEY_CTX_free(ctx);
	else
		pkey->prepared = ctx;
	return ok;
}
