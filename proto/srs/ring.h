/* The keys of SRS as a small secret text: one makes addresses, the one before it still takes them back.
 *
 *     # written by pepsi-keys: secret
 *     k20261130 active 1796074800 4d1f…            (64 hexadecimal digits)
 *     k20260601 retired 1780000000 90ab…
 *
 * A rotation, told: a new key becomes active and the active one retired; what the retired one made goes on being taken back until its addresses
 * have expired or it is removed. There are never more than these two, as the engine looks at two. Reads no file, knows no clock; whoever holds a
 * ring wipes it (srs_ring_wipe). */
#ifndef PROTO_SRS_RING_H
#define PROTO_SRS_RING_H

#include "base/buf.h"
#include "base/str.h"

#define SRS_RING_FILE "keys" /* its name in KEY_DIR */

enum {
	SRS_RING_MAX = 2,
	SRS_RING_KEY = 32,         /* octets: what HMAC-SHA-256 has room for */
	SRS_RING_ID_MAX = 31,
	SRS_RING_TEXT_MAX = 4096,
};

struct srs_ring_key {
	char id[SRS_RING_ID_MAX + 1];
	bool retired;
	int64_t since;             /* seconds since 1970, when it got into this state */
	unsigned char key[SRS_RING_KEY];
};
struct srs_ring {
	struct srs_ring_key key[SRS_RING_MAX]; /* the active one first, where there is one */
	size_t n;
};

/* Returns 0, or -1 and *why (a constant, nothing of the text in it) with *line (from 1): a text nobody of ours wrote. */
int srs_ring_parse(struct str text, struct srs_ring *ret, const char **why, unsigned *line);
/* Appended; out is best given room beforehand, for what grows leaves copies behind. 0, or -1: memory. */
int srs_ring_write(const struct srs_ring *r, struct buf *out);
/* NULL: none. */
const struct srs_ring_key *srs_ring_active(const struct srs_ring *r);
const struct srs_ring_key *srs_ring_retired(const struct srs_ring *r);
const struct srs_ring_key *srs_ring_find(const struct srs_ring *r, struct str id);
/* Lower case letters, digits, hyphens. */
bool srs_ring_id_ok(struct str id);
/* A new key becomes active; what was active retires, what was retired goes. 0, or -1: the id is no id, or is there. */
int srs_ring_rotate(struct srs_ring *r, struct str id, const unsigned char key[SRS_RING_KEY], int64_t now);
/* Takes it out, wiped. False: there is none of that id. */
bool srs_ring_remove(struct srs_ring *r, struct str id);
void srs_ring_wipe(struct srs_ring *r);

#endif
