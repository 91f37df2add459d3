/* Certificates against TLSA records; see dane.h. The signature path of usage 2 is OpenSSL's: what a record matches is the only thing trusted
 * in it, wherever it stands in the path. */
#include "proto/relay/dane.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

const char *dane_verdict_name(enum dane_verdict v)
{
	static const char *const names[] = { "matched", "mismatch", "untrusted", "expired", "name", "no-certificate", "failed" };
	return (unsigned)v < sizeof names / sizeof *names ? names[v] : "";
}

/* -- records */

static X509 *whole_cert(const struct dns_rr *rr)
{
	const unsigned char *p = (const unsigned char *)rr->data.p;
	X509 *x = d2i_X509(NULL, &p, (long)rr->data.n);
	if (x && (p != (const unsigned char *)rr->data.p + rr->data.n || !X509_get0_pubkey(x))) {
		X509_free(x);
		x = NULL;
	}
	ERR_clear_error();
	return x;
}

static EVP_PKEY *whole_key(const struct dns_rr *rr)
{
	const unsigned char *p = (const unsigned char *)rr->data.p;
	EVP_PKEY *k = d2i_PUBKEY(NULL, &p, (long)rr->data.n);
	if (k && p != (const unsigned char *)rr->data.p + rr->data.n) {
		EVP_PKEY_free(k);
		k = NULL;
	}
	ERR_clear_error();
	return k;
}

bool dane_record_usable(const struct dns_rr *rr)
{
	if ((rr->usage != DANE_TA && rr->usage != DANE_EE) || (rr->selector != DANE_CERT && rr->selector != DANE_SPKI))
		return false;
	if (rr->matching == DANE_SHA256 || rr->matching == DANE_SHA512)
		return rr->data.n == (rr->matching == DANE_SHA256 ? 32 : 64);
	if (rr->matching != DANE_FULL || !rr->data.n || rr->data.n > 65535)
		return false;
	X509 *x = rr->selector == DANE_CERT ? whole_cert(rr) : NULL;
	EVP_PKEY *k = rr->selector == DANE_SPKI ? whole_key(rr) : NULL;
	bool ok = x || k;
	X509_free(x);
	EVP_PKEY_free(k);
	return ok;
}

bool dane_record_counts(const struct dns_rr *rr, size_t n_rr, size_t i)
{
	if (!dane_record_usable(&rr[i]))
		return false;
	for (size_t k = 0; rr[i].matching == DANE_SHA256 && k < n_rr; k++)
		if (rr[k].matching == DANE_SHA512 && rr[k].usage == rr[i].usage && rr[k].selector == rr[i].selector && dane_record_usable(&rr[k]))
			return false;
	return true;
}

bool dane_record_matches(const struct dns_rr *rr, X509 *cert)
{
	unsigned char *der = NULL, digest[EVP_MAX_MD_SIZE];
	unsigned size = 0;
	int n = -1;
	bool ok = false;
	if (rr->selector == DANE_CERT)
		n = i2d_X509(cert, &der);
	else if (rr->selector == DANE_SPKI)
		n = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(cert), &der);
	if (n >= 0 && rr->matching == DANE_FULL)
		ok = str_eq(rr->data, str_n((char *)der, (size_t)n));
	else if (n >= 0 && (rr->matching == DANE_SHA256 || rr->matching == DANE_SHA512))
		ok = EVP_Digest(der, (size_t)n, digest, &size, rr->matching == DANE_SHA256 ? EVP_sha256() : EVP_sha512(), NULL) == 1 &&
		    str_eq(rr->data, str_n((char *)digest, size));
	OPENSSL_free(der);
	ERR_clear_error();
	return ok;
}

/* -- usage 2: the anchors */

struct anchors {
	X509_STORE *store;
	size_t n, whole, keys;
	bool failed;
};

static void trust(struct anchors *a, X509 *x)
{
	a->failed |= X509_STORE_add_cert(a->store, x) != 1;
	a->n++;
}

/* Those of the certificates shown that the record names; one that it holds itself; those shown that its key signed (RFC 7671 §5.2.2,
 * §5.2.3). The host's own is no anchor: that is what usage 3 is for. */
static void find_anchors(struct anchors *a, const struct dns_rr *rr, const STACK_OF(X509) *chain, int n)
{
	size_t before = a->n;
	for (int k = 1; k < n; k++)
		if (dane_record_matches(rr, sk_X509_value(chain, k)))
			trust(a, sk_X509_value(chain, k));
	if (rr->matching != DANE_FULL || a->n > before)
		return;
	if (rr->selector == DANE_CERT && a->whole++ < DANE_ANCHORS_MAX) {
		X509 *x = whole_cert(rr);
		if (x && X509_cmp(x, sk_X509_value(chain, 0)) != 0)
			trust(a, x);
		X509_free(x);
	} else if (rr->selector == DANE_SPKI && a->keys++ < DANE_KEYS_MAX) {
		EVP_PKEY *key = whole_key(rr);
		for (int k = 0; key && k < n; k++)
			if (X509_verify(sk_X509_value(chain, k), key) == 1)
				trust(a, sk_X509_value(chain, k));
		EVP_PKEY_free(key);
		ERR_clear_error();
	}
}

/* -- usage 2: the path */

static bool end(struct dane_check *c, enum dane_verdict verdict, int error, const char *reason)
{
	c->verdict = verdict;
	c->error = error;
	c->reason = reason;
	ERR_clear_error();
	return verdict == DANE_MATCHED;
}

/* §3.2.3: a wildcard stands for the whole leftmost label; a common name counts only where there are no other names (OpenSSL's rule). */
static bool names_ok(const struct dane_check *c, X509 *leaf)
{
	for (size_t i = 0; i < c->n_names && i < DANE_NAMES_MAX; i++)
		if (c->name[i] && *c->name[i] && X509_check_host(leaf, c->name[i], 0, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1)
			return true;
	return false;
}

static bool path_failed(struct dane_check *c, int error)
{
	switch (error) {
	case X509_V_ERR_CERT_HAS_EXPIRED:
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return end(c, DANE_EXPIRED, error, "a certificate is not valid at this time");
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY: /* what matches is no part of the path */
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
		return end(c, DANE_MISMATCH, X509_V_ERR_DANE_NO_MATCH, "no certificate above the host's matches a TLSA record");
	case X509_V_ERR_OUT_OF_MEM:
		return end(c, DANE_FAILED, error, "out of memory");
	default:
		return end(c, DANE_UNTRUSTED, error, "the path from a certificate that matches to the host's is not valid");
	}
}

static bool check_path(struct dane_check *c, struct anchors *a, X509 *leaf, STACK_OF(X509) *shown)
{
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	bool ok = false;
	if (!ctx || X509_STORE_CTX_init(ctx, a->store, leaf, shown) != 1 || X509_STORE_CTX_set_default(ctx, "ssl_server") != 1) {
		X509_STORE_CTX_free(ctx);
		return end(c, DANE_FAILED, X509_V_ERR_OUT_OF_MEM, "out of memory");
	}
	X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(ctx);
	X509_VERIFY_PARAM_set_time(param, (time_t)c->now);
	X509_VERIFY_PARAM_set_depth(param, DANE_CHAIN_MAX);
	X509_VERIFY_PARAM_set_auth_level(param, 1); /* no MD5, no SHA-1, no short keys, whoever signed with them */
	X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN);
	if (X509_verify_cert(ctx) != 1) {
		path_failed(c, X509_STORE_CTX_get_error(ctx));
	} else {
		c->depth = sk_X509_num(X509_STORE_CTX_get0_chain(ctx)) - 1;
		ok = names_ok(c, leaf) ? end(c, DANE_MATCHED, X509_V_OK, "its certificate is of an issuer in its TLSA records") :
					 end(c, DANE_NAME, X509_V_ERR_HOSTNAME_MISMATCH, "none of the names it may have is in its certificate");
	}
	X509_STORE_CTX_free(ctx);
	return ok;
}

static bool check_anchors(struct dane_check *c, X509 *leaf, int n)
{
	struct anchors a = { .store = X509_STORE_new() };
	STACK_OF(X509) *shown = sk_X509_new_null();
	bool ok = false;
	a.failed = !a.store || !shown;
	for (int k = 0; !a.failed && k < n; k++)
		a.failed = !sk_X509_push(shown, sk_X509_value(c->chain, k));
	for (size_t i = 0; !a.failed && i < c->n_rr; i++)
		if (c->rr[i].usage == DANE_TA && dane_record_counts(c->rr, c->n_rr, i))
			find_anchors(&a, &c->rr[i], c->chain, n);
	if (a.failed)
		end(c, DANE_FAILED, X509_V_ERR_OUT_OF_MEM, "out of memory");
	else if (!a.n)
		end(c, DANE_MISMATCH, X509_V_ERR_DANE_NO_MATCH, "no certificate matches a TLSA record");
	else
		ok = check_path(c, &a, leaf, shown);
	sk_X509_free(shown);
	X509_STORE_free(a.store);
	return ok;
}

bool dane_check(struct dane_check *c)
{
	int n = c->chain ? sk_X509_num(c->chain) : 0;
	c->depth = -1;
	if (n <= 0)
		return end(c, DANE_NO_CERT, X509_V_ERR_DANE_NO_MATCH, "it showed no certificate");
	if (n > DANE_CHAIN_MAX)
		n = DANE_CHAIN_MAX;
	X509 *leaf = sk_X509_value(c->chain, 0);
	/* usage 3 first: it asks for nothing else (RFC 7672 §3.1.1) */
	for (size_t i = 0; i < c->n_rr; i++)
		if (c->rr[i].usage == DANE_EE && dane_record_counts(c->rr, c->n_rr, i) && dane_record_matches(&c->rr[i], leaf)) {
			c->depth = 0;
			return end(c, DANE_MATCHED, X509_V_OK, "its certificate is in its TLSA records");
		}
	return check_anchors(c, leaf, n);
}
