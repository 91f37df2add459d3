/* The keys of one domain, as a small text beside them says: which sign, which wait until their record is seen, which are on their way out. The
 * text is rewritten as a whole; a key whose file is there but that no line names is no key (its making was cut off).
 *
 *     # written by pepsi-keys
 *     s2026a rsa2048 active 1796074800
 *     s2026b rsa2048 waiting 1796161200 replaces s2026a
 *
 * A rotation, told: `waiting` is made beside `active`; once every authoritative server tells its record, the new one becomes active and the one it
 * replaces `retired`: it signs no more, but its record stays, for mail is still under way; after the time that its caller gives it is
 * `revoked`: its private half is gone, its record should say p= (RFC 6376 §3.6.1), and later nothing. Reads no file, knows no clock. */
#ifndef PROTO_DKIM_RING_H
#define PROTO_DKIM_RING_H

#include "base/buf.h"

enum {
	DKIM_RING_MAX = 32,        /* keys of one domain, all states together */
	DKIM_RING_TEXT_MAX = 8192,
	DKIM_SELECTOR_MAX = 63,
};

enum dkim_key_state { DKIM_KEY_WAITING, DKIM_KEY_ACTIVE, DKIM_KEY_RETIRED, DKIM_KEY_REVOKED };
/* "waiting", … */
const char *dkim_key_state_name(enum dkim_key_state s);

struct dkim_ring_key {
	char selector[DKIM_SELECTOR_MAX + 1];
	char kind[16];              /* "rsa2048": what its maker said; the key itself decides */
	enum dkim_key_state state;
	int64_t since;              /* seconds since 1970, when it got into this state */
	char replaces[DKIM_SELECTOR_MAX + 1]; /* waiting: which one it retires; "": none */
};

struct dkim_ring {
	struct dkim_ring_key key[DKIM_RING_MAX];
	size_t n;
};

/* Lower case letters, digits, hyphens and dots in labels: a selector that can be a file's name, too. */
bool dkim_selector_ok(struct str s);

/* Returns 0, or -1 and *why (a constant) with *line (from 1): a text nobody of ours wrote. */
int dkim_ring_parse(struct str text, struct dkim_ring *ret, const char **why, unsigned *line);
int dkim_ring_write(const struct dkim_ring *r, struct buf *out);

/* NULL: there is none. */
struct dkim_ring_key *dkim_ring_find(struct dkim_ring *r, struct str selector);
/* Adds one. Returns 0, or -1: full, or the selector is there. */
int dkim_ring_add(struct dkim_ring *r, struct str selector, const char *kind, enum dkim_key_state state, int64_t now, struct str replaces);
/* Takes it out; nothing when it is not there. */
void dkim_ring_remove(struct dkim_ring *r, struct str selector);
/* The record of a waiting key is seen everywhere: it becomes active, and what it replaces retired. False: it was not waiting. */
bool dkim_ring_switch(struct dkim_ring *r, struct str selector, int64_t now);
/* Retired keys whose time (seconds since they retired) is over become revoked. How many did. */
size_t dkim_ring_expire(struct dkim_ring *r, int64_t now, int64_t after);

#endif
