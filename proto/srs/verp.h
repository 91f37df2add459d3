/* Return addresses that prove which message a bounce is about: mail of ours for one recipient leaves with an envelope sender of its own,
 *
 *     ann@ours for bob@far   ->  SRS0=tag=day=ours=xxxxxxxx-ann@domain
 *
 * an SRS address (srs.h) of a domain kept for that. xxxxxxxx are 40 bits of an HMAC of the recipient, the tag covers them with author and day. So
 * whoever shows the address was sent the mail, or had it from one who was, within max_age days; and it speaks of that one recipient only: who got mail
 * himself learns nothing that would fit another. Keys are made of those of the ring for this purpose alone: no address of SRS is one of these, and the
 * other way round, whoever shares the ring.
 *
 * Limits: a local part has 64 octets, 35 of them are ours. No I/O, no clock, no state. */
#ifndef PROTO_SRS_VERP_H
#define PROTO_SRS_VERP_H

#include "srs.h"

enum { VERP_BIND = 8 }; /* characters */

struct verp {
	char bind[VERP_BIND + 1];
};
/* A recipient as addresses may have him bound: by either key of the ring. */
struct verp_recipient {
	char bind[2][VERP_BIND + 1];
	size_t n;
};

/* s: as for srs_forward(); its keys are the ring's. sender: local@domain of ours, its local part a dot-string (RFC 5321 §4.1.2). Appends the return
 * address. As srs_forward(): SRS_OK, SRS_TOO_LONG, SRS_BAD_ADDRESS, … */
int verp_make(const struct srs *s, struct str sender, struct str recipient, int64_t now, struct buf *out);
/* The address of a bounce: SRS_OK: the sender it belongs to appended to out, and what it says of the recipient; else as srs_reverse(). */
int verp_read(const struct srs *s, struct str address, int64_t now, struct buf *out, struct verp *ret);
/* The arithmetic for a recipient: once for each, however many addresses he is held against. Letter case does not count. 0, or SRS_MEMORY. */
int verp_recipient(const struct srs *s, struct str recipient, struct verp_recipient *ret);
/* Was the mail that the address was made for sent to him? v: as verp_read() gave it. */
bool verp_is_for(const struct verp *v, const struct verp_recipient *r);
/* Both at once, for one address. */
bool verp_fits(const struct srs *s, const struct verp *v, struct str recipient);

#endif
