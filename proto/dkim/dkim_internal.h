/* What the files of proto/dkim share: the index of header fields, keys, signatures, body hashes, the ARC chain. Not for others. */
#ifndef PROTO_DKIM_INTERNAL_H
#define PROTO_DKIM_INTERNAL_H

#include "canon.h"
#include "dkim.h"
#include "tags.h"

#include "base/arena.h"

#include <openssl/evp.h>

/* -- fields.c: header fields by name, from the bottom up (RFC 6376 §5.4.2), in O(log n) a look-up */

struct dkim_field {
	struct str name, value; /* value: behind the colon, without the last CRLF */
	struct str all;
};

struct dkim_fields {
	struct dkim_field *field; /* in the order of the message */
	size_t n;
	bool too_many;            /* DKIM_FIELDS_MAX or DKIM_HEADERS_MAX was exceeded: n is 0 */
	uint32_t *order;          /* indices, sorted by name; equal names from the last field to the first */
	struct dkim_group *group; /* one for each name, sorted */
	size_t n_groups;
	uint32_t round;
	size_t left;              /* of DKIM_HASHED_MAX */
};
struct dkim_group {
	struct str name;
	uint32_t begin, end; /* in order[] */
	uint32_t next;       /* in order[], if round is the present one */
	uint32_t round;
};

/* Everything is from the arena. Returns 0, or -1: memory. */
int dkim_fields_index(struct dkim_fields *f, struct arena *a, struct str headers);
/* Begins a new selection. */
void dkim_fields_begin(struct dkim_fields *f);
/* The next field of that name not yet selected, from the bottom, but not field number `own`; NULL: none is left. */
const struct dkim_field *dkim_fields_next(struct dkim_fields *f, struct str name, size_t own);
size_t dkim_fields_count(const struct dkim_fields *f, struct str name);

/* -- key.c: key records (RFC 6376 §3.6.1) */

enum dkim_method { DKIM_RSA_SHA1, DKIM_RSA_SHA256, DKIM_ED25519_SHA256 };

/* A public key as OpenSSL has it, counted; and what it prepared for RSA with SHA-256 when that was first wanted: half of what such a try
 * costs beside the arithmetic. One thread's. */
struct dkim_pkey {
	unsigned refs;
	EVP_PKEY *key;
	EVP_PKEY_CTX *prepared;
};
/* Takes key over (NULL: NULL). One reference; NULL: memory. */
struct dkim_pkey *dkim_pkey_new(EVP_PKEY *key);
struct dkim_pkey *dkim_pkey_ref(struct dkim_pkey *k);
void dkim_pkey_unref(struct dkim_pkey *k); /* accepts NULL */

struct dkim_key {
	enum dkim_result result; /* PASS: usable; else what the signature gets */
	const char *why;         /* a constant, unless PASS */
	struct dkim_pkey *pkey;
	unsigned bits;
	bool testing, strict;    /* t=y, t=s */
	bool is_key;             /* it was a key record at all, however unusable */
	struct str granularity;  /* g= (historic); .p NULL: none */
};

/* Reads one record for a signature of that algorithm. Free with dkim_key_free() whatever the result. */
void dkim_key_read(struct str record, enum dkim_method alg, const struct dkim_policy *p, struct dkim_key *ret);
void dkim_key_free(struct dkim_key *k);
/* key_cache.c. A reference to the key of this p=, or NULL; keys may be NULL. */
struct dkim_pkey *dkim_keys_get(struct dkim_keys *keys, struct str text, bool ed25519, unsigned *ret_bits);
void dkim_keys_put(struct dkim_keys *keys, struct str text, bool ed25519, unsigned bits, struct dkim_pkey *pkey);
/* key_der.c. An RSA public key out of SubjectPublicKeyInfo or RSAPublicKey, by a reader of our own that knows no other kind of
 * key. Returns 0 and its numbers, big endian without leading zeros, or -1. */
int dkim_key_rsa(const unsigned char *der, size_t n, struct str *ret_modulus, struct str *ret_exponent);
/* Does the digest (of the signed header fields) bear this signature? */
bool dkim_key_verify(struct dkim_pkey *pkey, enum dkim_method alg, const unsigned char *digest, size_t n_digest,
    const unsigned char *sig, size_t n_sig);

/* -- body.c: the body hashes */

struct dkim_hash {
	enum dkim_canon canon;
	bool sha1, limited;
	uint64_t length; /* l=, if limited */
	uint64_t left;
	EVP_MD_CTX *ctx;
	unsigned char digest[32];
	size_t n_digest; /* 0: not finished */
};

struct dkim_bodies {
	struct dkim_hash hash[DKIM_HASHES_MAX];
	size_t n;
	struct dkim_canon_body canon[2]; /* by enum dkim_canon */
	uint64_t total[2];               /* canonical octets */
	bool used[2], failed;
};

void dkim_bodies_init(struct dkim_bodies *b);
void dkim_bodies_free(struct dkim_bodies *b);
/* The hash with these parameters, a new one or one that is there; -1: no more are computed. */
int dkim_bodies_want(struct dkim_bodies *b, enum dkim_canon c, bool sha1, bool limited, uint64_t length);
void dkim_bodies_add(struct dkim_bodies *b, const char *p, size_t n);
void dkim_bodies_end(struct dkim_bodies *b);

/* -- signature.c: one signature, from its field to its result */

enum dkim_kind { DKIM_SIGNATURE, DKIM_ARC_MESSAGE, DKIM_ARC_SEAL };

struct dkim_sig {
	struct dkim_signature pub;
	enum dkim_kind kind;
	enum dkim_method alg;
	enum dkim_canon header_canon, body_canon;
	struct str signature, body_hash; /* b= and bh=, decoded */
	struct str names;                /* h=, in the header block: only valid within dkim_headers() */
	size_t cut, cut_end;             /* b= in the value of its field */
	uint64_t length;                 /* l=, if pub.has_length */
	struct str identity_local, identity_domain;
	struct str key_name;             /* selector._domainkey.domain */
	unsigned char digest[32];        /* of the header fields */
	size_t n_digest;
	int hash;                        /* body hash, or -1 */
	bool settled;                    /* pub.result is final */
	bool keyed;                      /* the key was there, and verified is known */
	bool verified;                   /* the signature is one of digest */
	const char *policy_why;          /* will be POLICY if all else passes */
	unsigned instance;               /* i= of ARC */
	enum dkim_result cv;             /* of a seal; FAIL, PASS, NONE */
	bool old;                        /* an ARC-Message-Signature that only matters for the oldest pass */
};

/* Settles it; reason as printf. */
void dkim_sig_settle(struct dkim_sig *s, enum dkim_result r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Reads the field. Not usable: it is settled. Returns 0, or -1: memory. */
int dkim_sig_parse(struct dkim_sig *s, enum dkim_kind kind, struct str value, const struct dkim_policy *p, struct arena *a);
/* What must hold between signature and message before any arithmetic: From. Of an ARC-Message-Signature: who signs one From signs all. */
void dkim_sig_check_from(struct dkim_sig *s, const struct dkim_fields *f);
/* Computes digest of the fields h= selects and of the signature's own field; settles it where that is more than is hashed. Returns 0, or -1:
 * memory. */
int dkim_sig_hash_fields(struct dkim_sig *s, struct dkim_fields *f, size_t own);
/* Asks for the key. *tries: how often keys may still be tried. False: not there yet. */
bool dkim_sig_key(struct dkim_sig *s, const struct dkim_policy *p, struct dns_answers *set, unsigned *tries);
/* Once keyed, and the body has ended. */
void dkim_sig_finish(struct dkim_sig *s, const struct dkim_bodies *b, const struct dkim_policy *p);

/* A digest of canonicalised fields. */
struct dkim_digest {
	EVP_MD_CTX *ctx;
	struct dkim_out out;
};
void dkim_digest_sink(void *arg, const char *p, size_t n);
EVP_MD_CTX *dkim_digest_new(bool sha1);

/* -- arc.c */

struct dkim_chain {
	unsigned n;                       /* instances */
	struct dkim_sig *message, *seal;  /* n of each, by instance */
	struct arc_set *set;
	struct arc_result result;
	bool settled;
};
/* Reads the chain out of the indexed fields and computes the digests. Returns 0, or -1: memory. */
int dkim_chain_read(struct dkim_chain *c, struct dkim_fields *f, struct dkim_bodies *b, const struct dkim_policy *p, struct arena *a);
/* "i=N;" before the payload of an ARC-Authentication-Results (RFC 8617 §4.1.1). Returns N, 1 to ARC_SETS_MAX, and what stands behind; or 0. */
unsigned dkim_results_instance(struct str value, struct str *ret_rest);
bool dkim_chain_keys(struct dkim_chain *c, const struct dkim_policy *p, struct dns_answers *set, unsigned *tries);
void dkim_chain_finish(struct dkim_chain *c, const struct dkim_bodies *b, const struct dkim_policy *p);

#endif
