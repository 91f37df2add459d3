/* The sender rewriting scheme. Mail that is forwarded keeps its author but gets an envelope sender of ours, so that SPF holds and
 * bounces come to us; a bounce to such an address is taken back to the sender it was made of.
 *
 *     user@host            ->  SRS0=tag=day=host=user@ours         (forwarded by us)
 *     SRS0=rest@other      ->  SRS1=tag+day=other==rest@ours       (another forwarder's: a bounce goes straight to him)
 *     SRS1=…=host=…@other  ->  SRS1=tag+day=host=…@ours            (and a third in the chain adds nothing)
 *     a kept sender        ->  SRS0=tag=day==reference@ours        (what does not fit: the caller keeps it, see below)
 *
 * The tag is 16 characters of base32: 80 bits of HMAC-SHA-256. The day stamp, two characters of base32, is the day modulo 1024; the HMAC
 * covers the full day, so that an address does not come back to life after 1024 days. SRS1 carries its stamp inside the tag's field,
 * which other forwarders do not look into; theirs carries none.
 *
 * Letter case: relays that fold a whole local part to one case do no harm. Any other change of case of prefix, tag, day or host
 * is a forgery, and so is one of the user where the sender wrote it in lower case.
 *
 * Limits: a local part has 64 octets (RFC 5321 §4.5.3.1.1), 26 of them are ours. Where host and user take more than 38, which senders
 * of mass mail often do, and in most chains, the caller stores the sender under a reference of its own and writes that (srs_forward_kept).
 *
 * No I/O, no clock, no state. */
#ifndef PROTO_SRS_SRS_H
#define PROTO_SRS_SRS_H

#include "base/buf.h"
#include "base/str.h"

enum {
	SRS_MAX_AGE = 21,      /* days a reversal works, unless the caller says otherwise */
	SRS_MAX_AGE_MAX = 512, /* half of what the stamp can tell apart */
	SRS_KEY_MIN = 16,      /* octets of a key */
	SRS_REFERENCE_MAX = 38,
};

struct srs {
	struct str domain;  /* ours, of the addresses made; A-labels */
	struct str keys[2]; /* [0] makes and checks; [1], the one before it, only checks; empty: there is none */
	unsigned max_age;   /* days; 0: SRS_MAX_AGE */
	char separator;     /* the first one, '=', '+' or '-'; 0: '='. Reading takes all three */
	/* Tags as the first implementations make them: four characters of base64 of HMAC-SHA-1, letter case ignored. About 20 bits, which can be
	 * guessed by trying: only to take over another program's addresses while they still come back. */
	bool weak;
};

enum srs_result {
	SRS_OK = 0,
	SRS_UNCHANGED = 1,    /* forward: the null sender, or an address of our domain: use it as it is */
	SRS_KEPT = 2,         /* reverse: a kept sender; out holds the caller's reference */
	SRS_NOT_SRS = -1,     /* reverse: not an SRS address of our domain */
	SRS_BAD_ADDRESS = -2, /* forward: not an address, or not a reference */
	SRS_TOO_LONG = -3,    /* forward: more than a local part, or a mailbox, holds: keep the sender */
	SRS_MALFORMED = -4,   /* reverse: begins as SRS, but parts are missing */
	SRS_FORGED = -5,      /* reverse: no key made that tag */
	SRS_EXPIRED = -6,     /* reverse: we made it, more than max_age days ago */
	SRS_KEY = -7,         /* a key is too short, there is none, or an option is out of range */
	SRS_MEMORY = -8,      /* no memory, or the library failed: try again */
};

/* Each appends an address (local@domain, without <>) to out and returns an enum srs_result; below 0, out is as it was. now: seconds
 * since the epoch. */

/* sender: as in MAIL FROM, without <>; may be internationalized. */
int srs_forward(const struct srs *s, struct str sender, int64_t now, struct buf *out);
/* reference: 1 to SRS_REFERENCE_MAX of a-z, 0-9 and '-', naming a sender that the caller keeps for max_age days and a bit. */
int srs_forward_kept(const struct srs *s, struct str reference, int64_t now, struct buf *out);
/* address: a recipient. Only for mail from the null sender, else anyone who saw an address has a relay through us. */
int srs_reverse(const struct srs *s, struct str address, int64_t now, struct buf *out);

/* Does it look like an SRS address of that domain (valid or not)? For the question whether a recipient is ours to judge. */
bool srs_is(struct str address, struct str domain);

/* One clause for the log; never NULL. */
const char *srs_result_text(int result);

#endif
