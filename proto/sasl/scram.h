/* The arithmetic of SCRAM-SHA-256 (RFC 5802 §3, RFC 7677) and the text form of its verifiers, as RFC 5803 has it and
 * PostgreSQL and others write it:
 *
 *     SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>       the last three in Base64
 *
 * A verifier does not give the password away, but lets whoever has it try passwords, and act as the server: a secret. */
#ifndef PROTO_SASL_SCRAM_H
#define PROTO_SASL_SCRAM_H

#include "base/buf.h"

enum {
	SCRAM_KEY = 32,                    /* octets of a SHA-256 */
	SCRAM_SALT_MIN = 8,
	SCRAM_SALT_MAX = 64,
	SCRAM_SALT = 16,                   /* octets of a new salt */
	SCRAM_ITERATIONS_MIN = 4096,       /* RFC 7677 §4 */
	SCRAM_ITERATIONS_MAX = 10000000,
	SCRAM_ITERATIONS = 10000,          /* of a new verifier: what a phone does in well under 100 ms at each sign-in */
	SCRAM_VERIFIER_TEXT_MAX = 256,
};

struct scram_verifier {
	unsigned iterations;
	size_t salt_n;
	unsigned char salt[SCRAM_SALT_MAX];
	unsigned char stored_key[SCRAM_KEY], server_key[SCRAM_KEY];
};

/* Makes one from a password (any UTF-8; sasl_prep() is done here) and a salt of the caller's, random. Takes as long as the
 * iterations do. 0; or -1: password not preparable, salt or iterations out of bounds, or the library failed. */
int scram_verifier_make(struct str password, struct str salt, unsigned iterations, struct scram_verifier *ret);
/* One for an account there is not: the same name gives the same salt each time (RFC 5802 §9: who asks twice must not learn
 * more), no password fits. key: a secret that lives as long as the salts are to be stable. 0 or -1 (library). */
int scram_verifier_dummy(struct str key, struct str name, unsigned iterations, struct scram_verifier *ret);
int scram_verifier_parse(struct str text, struct scram_verifier *ret); /* 0, or -1: malformed */
int scram_verifier_write(const struct scram_verifier *v, struct buf *out); /* 0 or -1 */
/* Is this the password? For mechanisms that send it (PLAIN). 1, 0, or -1: the library failed. Takes as long as the
 * iterations do. */
int scram_verifier_check(const struct scram_verifier *v, struct str password);
void scram_verifier_wipe(struct scram_verifier *v);

/* Both sides. auth_message: RFC 5802 §3. Each 0, or -1 (library). */
/* ClientKey from a prepared password. */
int scram_client_keys(struct str prepared, struct str salt, unsigned iterations, unsigned char *ret_client_key,
    unsigned char *ret_stored_key, unsigned char *ret_server_key);
int scram_client_proof(const unsigned char *client_key, const unsigned char *stored_key, struct str auth_message,
    unsigned char *ret_proof);
int scram_server_signature(const unsigned char *server_key, struct str auth_message, unsigned char *ret_signature);
/* 1: the proof belongs to the stored key; 0: it does not; -1: library. */
int scram_proof_check(const unsigned char *stored_key, struct str auth_message, const unsigned char *proof);

#endif
