/* The keys that a stage signs or seals with, as they lie in KEY_DIR:
 *
 *     KEY_DIR/example.test/s2026a.pem     a private key, readable by the stage's account alone
 *     KEY_DIR/example.test/keys           which of them sign (proto/dkim/ring.h); without this file all *.pem do
 *
 * Kept in memory, looked at again once a second, wiped when they go. A key that anybody else could read or change is refused: whoever had it could
 * write in the domain's name. */
#ifndef SIGNING_KEYDIR_H
#define SIGNING_KEYDIR_H

#include "proto/dkim/private.h"
#include "proto/dkim/ring.h"

enum {
	KEYDIR_KEYS_MAX = 8,      /* that sign for one domain */
	KEYDIR_DOMAINS_MAX = 256, /* kept; the least recently used gives way */
	KEYDIR_DOMAIN_MAX = 253,
};

struct keydir_key {
	char selector[DKIM_SELECTOR_MAX + 1];
	enum dkim_algorithm algorithm;
	char kind[16];
	struct buf pem;    /* NUL-terminated; secret */
	struct dkim_private *key; /* what it says */
	struct buf record; /* of its public half */
};

struct keydir_domain {
	char name[KEYDIR_DOMAIN_MAX + 1];
	struct keydir_key key[KEYDIR_KEYS_MAX];
	size_t n;
};

enum keydir_found {
	KEYDIR_OK,   /* n > 0 */
	KEYDIR_NONE, /* no folder, or nothing in it that signs */
	KEYDIR_BAD,  /* there should be keys, and none can be used: why */
};

struct keydir;
/* Does not look at the folder yet. NULL: memory. */
struct keydir *keydir_new(const char *path);
/* Accepts NULL. */
void keydir_free(struct keydir *d);

/* domain: A-labels, lower case. *ret lives until KEYDIR_DOMAINS_MAX other domains were asked for, or this one again. faults: what is wrong with
 * single keys while others can be used, or why none can; filled only when it was read anew, but always for KEYDIR_BAD. */
enum keydir_found keydir_get(struct keydir *d, const char *domain, int64_t now_us, const struct keydir_domain **ret, struct buf *faults);

/* The same of the domain, or, with above, of the nearest one above it that has keys; never of a top level. */
enum keydir_found keydir_nearest(struct keydir *d, const char *domain, bool above, int64_t now_us, const struct keydir_domain **ret, struct buf *faults);

#endif
