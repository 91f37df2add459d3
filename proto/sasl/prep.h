/* How names and passwords are prepared before they are compared or hashed: SASLprep (RFC 4013), the profile that PLAIN
 * (RFC 4616) and SCRAM (RFC 5802 §5.1) name, and the one other implementations use; its successor (RFC 8265) differs only
 * in characters of which NFKC makes others, and a verifier made by one must match what a client makes by the other.
 *
 * One difference from the letter: a code point that Unicode 3.2 did not know is let through as it is, also in stored
 * strings. Its normal form has been stable since it was assigned, so that both sides agree on it. */
#ifndef PROTO_SASL_PREP_H
#define PROTO_SASL_PREP_H

#include "base/buf.h"

/* Octets of what may be prepared. */
#define SASL_PREP_MAX 4096u

/* Appends the prepared form of UTF-8 text to out. 0; or -1: not UTF-8, a prohibited character (controls, private use, …),
 * mixed directions, nothing left of it, or it does not fit. Scratch memory is wiped. */
int sasl_prep(struct str in, struct buf *out);

#endif
