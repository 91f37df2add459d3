/* Private keys and the records of their public halves, on OpenSSL (private.h). Asks for no pass phrase, reads no file. */
#include "private.h"
#include "proto/sasl/base64.h"
#include "tags.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { RECORD_MAX = 2048, ED25519_OCTETS = 32, DIGEST_OCTETS = 32 };

struct dkim_private {
	EVP_PKEY *key;
	enum dkim_algorithm algorithm;
	unsigned bits;
};

/* Instead of a question on the terminal. */
static int no_phrase(char *out, int size, int writing, void *asked)
{
	(void)out;
	(void)size;
	(void)writing;
	*(bool *)asked = true;
	return -1;
}

/* Takes over key. */
static int judge(EVP_PKEY *key, unsigned bits_min, struct dkim_private **ret, const char **why)
{
	struct dkim_private k = { .key = key, .bits = (unsigned)EVP_PKEY_get_bits(key) };
	int rc = -1;
	if (EVP_PKEY_is_a(key, "ED25519")) {
		k.algorithm = DKIM_ALG_ED25519;
		k.bits = 256;
		rc = 0;
	} else if (!EVP_PKEY_is_a(key, "RSA")) {
		*why = "neither an RSA key nor an Ed25519 key";
	} else if (k.bits < bits_min) {
		*why = "an RSA key of fewer than 2048 bits";
	} else if (k.bits > DKIM_SIGN_BITS_MAX) {
		*why = "an RSA key of more than 4096 bits";
	} else {
		k.algorithm = DKIM_ALG_RSA;
		rc = 0;
	}
	struct dkim_private *p = rc ? NULL : malloc(sizeof *p);
	if (!p) {
		if (!rc)
			*why = "out of memory";
		EVP_PKEY_free(key);
		return -1;
	}
	*p = k;
	*ret = p;
	return 0;
}

static int read_pem(struct str pem, unsigned bits_min, struct dkim_private **ret, const char **why)
{
	bool asked = false;
	if (!pem.n || pem.n > DKIM_PEM_MAX) {
		*why = pem.n ? "longer than any key" : "empty";
		return -1;
	}
	BIO *b = BIO_new_mem_buf(pem.p, (int)pem.n);
	EVP_PKEY *key = b ? PEM_read_bio_PrivateKey(b, NULL, no_phrase, &asked) : NULL;
	BIO_free(b);
	if (!key) {
		*why = !b ? "out of memory" : asked ? "encrypted with a pass phrase" : "no private key in PEM";
		return -1;
	}
	return judge(key, bits_min, ret, why);
}

int dkim_private_read(struct str pem, struct dkim_private **ret, const char **why)
{
	return read_pem(pem, DKIM_SIGN_BITS_MIN, ret, why);
}

int dkim_private_read_old(struct str pem, struct dkim_private **ret, const char **why)
{
	return read_pem(pem, 512, ret, why);
}

int dkim_private_make(const char *kind, struct dkim_private **ret, const char **why)
{
	EVP_PKEY *key = NULL;
	if (!strcmp(kind, "ed25519"))
		key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	else if (!strcmp(kind, "rsa2048") || !strcmp(kind, "rsa3072") || !strcmp(kind, "rsa4096"))
		key = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)strtoul(kind + 3, NULL, 10));
	else {
		*why = "an algorithm is rsa2048, rsa3072, rsa4096 or ed25519";
		return -1;
	}
	if (!key) {
		*why = "OpenSSL makes no key";
		return -1;
	}
	return judge(key, DKIM_SIGN_BITS_MIN, ret, why);
}

void dkim_private_free(struct dkim_private *k)
{
	if (!k)
		return;
	EVP_PKEY_free(k->key); /* clears the secret parts */
	free(k);
}

enum dkim_algorithm dkim_private_algorithm(const struct dkim_private *k)
{
	return k->algorithm;
}

unsigned dkim_private_bits(const struct dkim_private *k)
{
	return k->bits;
}

void dkim_private_kind(const struct dkim_private *k, char out[16])
{
	if (k->algorithm == DKIM_ALG_ED25519)
		snprintf(out, 16, "ed25519");
	else
		snprintf(out, 16, "rsa%u", k->bits);
}

int dkim_private_pem(const struct dkim_private *k, struct buf *out)
{
	BIO *b = BIO_new(BIO_s_secmem());
	char *p = NULL;
	int rc = -1;
	if (b && PEM_write_bio_PKCS8PrivateKey(b, k->key, NULL, NULL, 0, NULL, NULL) == 1) {
		long n = BIO_get_mem_data(b, &p);
		rc = n > 0 ? buf_add(out, p, (size_t)n) : -1;
		if (n > 0)
			OPENSSL_cleanse(p, (size_t)n);
	}
	BIO_free(b);
	return rc;
}

int dkim_private_record(const struct dkim_private *k, struct buf *out)
{
	unsigned char raw[ED25519_OCTETS], *der = NULL;
	size_t n = sizeof raw;
	int rc;
	if (k->algorithm == DKIM_ALG_ED25519) {
		if (EVP_PKEY_get_raw_public_key(k->key, raw, &n) != 1 || buf_addz(out, "v=DKIM1; k=ed25519; p="))
			return -1;
		return sasl_base64_encode(str_n((const char *)raw, n), out);
	}
	int len = i2d_PUBKEY(k->key, &der); /* SubjectPublicKeyInfo: what verifiers in use expect (RFC 6376 erratum 3017) */
	rc = len <= 0 || buf_addz(out, "v=DKIM1; k=rsa; p=") || sasl_base64_encode(str_n((const char *)der, (size_t)len), out) ? -1 : 0;
	OPENSSL_free(der);
	return rc;
}

static bool sign_ed25519(EVP_PKEY *key, const unsigned char *digest, unsigned char *sig, size_t *n)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = ctx && EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) == 1 && EVP_DigestSign(ctx, sig, n, digest, DIGEST_OCTETS) == 1;
	EVP_MD_CTX_free(ctx);
	return ok;
}

static bool sign_rsa(EVP_PKEY *key, const unsigned char *digest, unsigned char *sig, size_t *n)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
	bool ok = ctx && EVP_PKEY_sign_init(ctx) == 1 && EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) == 1 &&
	    EVP_PKEY_CTX_set_signature_md(ctx, EVP_sha256()) == 1 && EVP_PKEY_sign(ctx, sig, n, digest, DIGEST_OCTETS) == 1;
	EVP_PKEY_CTX_free(ctx);
	return ok;
}

int dkim_private_sign(const struct dkim_private *k, const unsigned char digest[32], struct buf *out)
{
	unsigned char sig[DKIM_SIGN_BITS_MAX / 8];
	size_t n = sizeof sig;
	bool ok = k->algorithm == DKIM_ALG_ED25519 ? sign_ed25519(k->key, digest, sig, &n) : sign_rsa(k->key, digest, sig, &n);
	return ok ? buf_add(out, sig, n) : -1;
}

int dkim_record_strings(struct str text, struct buf *out)
{
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		if (c < ' ' || c > '~')
			return -1;
		if (i % DKIM_STRING_MAX == 0 && buf_addz(out, i ? "\" \"" : "\""))
			return -1;
		if (((c == '"' || c == '\\') && buf_addc(out, '\\')) || buf_addc(out, c))
			return -1;
	}
	return buf_addz(out, text.n ? "\"" : "\"\"");
}

static int key_of(struct str record, struct str *kind, unsigned char *key, long *n)
{
	struct dkim_tags t;
	const char *why;
	if (record.n > RECORD_MAX || dkim_tags_parse(record, &t, &why))
		return -1;
	const struct dkim_tag *k = dkim_tags_get(&t, "k"), *p = dkim_tags_get(&t, "p");
	*kind = k ? k->value : STR("rsa");
	*n = p ? dkim_base64(p->value, key, RECORD_MAX) : -1;
	return *n < 0 ? -1 : 0;
}

bool dkim_record_same_key(struct str a, struct str b)
{
	unsigned char pa[RECORD_MAX], pb[RECORD_MAX];
	struct str ka, kb;
	long na, nb;
	return !key_of(a, &ka, pa, &na) && !key_of(b, &kb, pb, &nb) && str_eq(ka, kb) && na == nb && !memcmp(pa, pb, (size_t)na);
}
