/* Private keys of who signs: a PEM text read and judged, and the record (RFC 6376 §3.6.1, RFC 8463 §4) that tells others the public half. No files,
 * no DNS: texts in, texts out.
 *
 *     struct dkim_private *k;
 *     if (!dkim_private_read(pem, &k, &why))
 *             dkim_private_record(k, &out);      // v=DKIM1; k=ed25519; p=…
 *     dkim_private_free(k);                      // wiped */
#ifndef PROTO_DKIM_PRIVATE_H
#define PROTO_DKIM_PRIVATE_H

#include "base/buf.h"

enum {
	DKIM_PEM_MAX = 8192,         /* octets of a key file; one of 4096 bits has 3300 */
	DKIM_SIGN_BITS_MIN = 2048,   /* RFC 8301 §3.2: signers SHOULD use at least so many */
	DKIM_SIGN_BITS_MAX = 4096,   /* what verifiers must take at most */
	DKIM_STRING_MAX = 255,       /* octets of one character-string of a TXT record (RFC 1035 §3.3) */
};

enum dkim_algorithm { DKIM_ALG_RSA, DKIM_ALG_ED25519 };

struct dkim_private;
/* Unencrypted PEM, PKCS #8 or PKCS #1, one key. Returns 0, or -1 and *why: a constant text (no key, encrypted, another kind, fewer than
 * DKIM_SIGN_BITS_MIN bits or more than DKIM_SIGN_BITS_MAX, memory). */
int dkim_private_read(struct str pem, struct dkim_private **ret, const char **why);
/* The same for old suites, whose RSA keys have as few as 512 bits. Nobody signs mail with such a key. */
int dkim_private_read_old(struct str pem, struct dkim_private **ret, const char **why);
/* A new one, by OpenSSL's generator: "rsa2048", "rsa3072", "rsa4096", "ed25519". Same return values. */
int dkim_private_make(const char *kind, struct dkim_private **ret, const char **why);
/* Accepts NULL. */
void dkim_private_free(struct dkim_private *k);

enum dkim_algorithm dkim_private_algorithm(const struct dkim_private *k);
unsigned dkim_private_bits(const struct dkim_private *k);  /* 256: ed25519 */
/* "rsa2048", "ed25519": as dkim_private_make() takes it; another size likewise. out has room for 16. */
void dkim_private_kind(const struct dkim_private *k, char out[16]);

/* PKCS #8, unencrypted, appended; free the buffer with buf_free_secret(). Returns 0, or -1. */
int dkim_private_pem(const struct dkim_private *k, struct buf *out);
/* The record's text appended. Returns 0, or -1: full, memory. */
int dkim_private_record(const struct dkim_private *k, struct buf *out);

/* The signature of a SHA-256 digest as b= has it, raw octets appended (RFC 6376 §3.3.2: PKCS #1 v1.5; RFC 8463 §3: PureEdDSA over the digest).
 * Returns 0, or -1: OpenSSL would not, or full. */
int dkim_private_sign(const struct dkim_private *k, const unsigned char digest[32], struct buf *out);

/* A record's text as a zone file wants it: character-strings of DKIM_STRING_MAX octets at most, quoted, '"' and '\' escaped, with blanks
 * between. Returns 0, or -1: full, or an octet that is not printable ASCII. */
int dkim_record_strings(struct str text, struct buf *out);
/* Do two records name the same public key: k= (default rsa) and p= without white space? Tags beside these may differ. */
bool dkim_record_same_key(struct str a, struct str b);

#endif
