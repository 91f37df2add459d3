/* A signer for the tests of proto/dkim: the templates of signature fields filled in, keys, records, a zone. It shares only the
 * canonicalisation with the verifier, which has tests and vectors of its own. */
#ifndef TEST_UNIT_PROTO_DKIM_LAB_H
#define TEST_UNIT_PROTO_DKIM_LAB_H

#include "base/buf.h"
#include "proto/dkim/dkim.h"

#include <openssl/evp.h>

/* Keys made once: "rsa2048", "rsa1024", "rsa1016", "rsa512", "rsa4096", "ed25519". */
EVP_PKEY *lab_key(const char *name);
/* "p=…" of a key; NUL-terminated, never freed. RSA as SubjectPublicKeyInfo. */
const char *lab_p(const char *key);
/* The same as bare RSAPublicKey. */
const char *lab_p_pkcs1(const char *key);
void lab_end(void);

/* Puts a field "NAME: TEMPLATE" in front of a message (headers, CRLF, body) after filling in @BH@ and @B@, which must come last:
 * nothing but blanks and ";" may follow. header, body: 's' or 'r'; hash: 256 or 1; limit: octets of the canonical body
 * hashed, SIZE_MAX: all. names: h= as in the template. */
struct lab_sign {
	const char *field, *key, *names, *tmpl;
	char header, body;
	int hash;
	size_t limit;
};
void lab_sign(struct buf *message, const struct lab_sign *how);

/* An ARC-Seal with template "…; b=@B@" over the sets of the message so far plus AAR and AMS already in front; instance n. */
void lab_seal(struct buf *message, unsigned n, const char *key, const char *tmpl);

/* One zone: lines "name record"; a record "!" fails, "-" does not exist; two lines of one name are two records. */
struct dkim *lab_verify(struct str message, const struct dkim_policy *p, const char *zone, size_t piece);

#endif
