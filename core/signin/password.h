/* Passwords: what one may be, and their digests. Argon2id (RFC 9106) as a PHC string, "$argon2id$v=19$m=19456,t=2,p=1$salt$hash":
 * 19 MiB and two passes, about 43 ms. Computing is for job processes; the rest may be used anywhere. */
#ifndef SIGNIN_PASSWORD_H
#define SIGNIN_PASSWORD_H

#include "base/buf.h"

enum { PASSWORD_MEMORY_KIB = 19456, PASSWORD_PASSES = 2, PASSWORD_LANES = 1, PASSWORD_PHC_MAX = 512 };

/* NULL: may be a password. Else why not, as a clause: "it is empty". */
const char *password_fault(struct str password);
/* Prepared as SASLprep (RFC 4013) wants it: the form that is hashed. Appended. 0, or -1. */
int password_prepare(struct str password, struct buf *out);
/* PHC string of a prepared password with a new random salt, appended. 0, or -1 (memory). */
int password_hash(struct str prepared, struct buf *out);
/* The SCRAM-SHA-256 verifier of a password, as text, with a new random salt, appended. 0, or -1. */
int password_scram(struct str password, struct buf *out);
/* 1: it is the password; 0: it is not; -1: no digest we would compute (unknown kind, or parameters that cost too much), or
 * memory is out. */
int password_verify(struct str phc, struct str prepared);
/* A digest that no password fits, with the cost of a new one: for accounts that there are not. out has PASSWORD_PHC_MAX octets.
 * 0, or -1 (no randomness). */
int password_dummy(char *out);

#endif
