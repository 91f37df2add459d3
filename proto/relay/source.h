/* From which of our addresses, and under which name, mail goes out: options SOURCES_1, SOURCES_2, … of a stage, one pool each:
 *
 *     SOURCES_1 = from=@news.example.org 192.0.2.10=out1.example.org*3 192.0.2.11=out2.example.org [2001:db8::10]=out1.example.org
 *     SOURCES_2 = to=*.google.com,@example.net pool=google 192.0.2.20=g.example.org
 *     SOURCES_3 = 192.0.2.1 2001:db8::1
 *
 * A word is an address (IPv6 in brackets or not), with the name for EHLO behind "=" (else the stage's HELO) and its weight behind "*" (1).
 * from=: senders' domains; to=: mail exchangers, or with @ recipients' domains, patterns as in shape.h; pool=: a name that SHAPE lines may use.
 * All conditions of a line must be met, the first line that fits counts, a pool named by the destination's SHAPE line before all others.
 * Where none fits the system chooses the address.
 *
 * The choice is weighted and sticky: the same destination gets the same address as long as it can be used, so that connections are reused;
 * over many destinations the weights hold. An address that could not be bound is left out for a while, and those that had it, only those, move to
 * others. Without clock, chance and I/O; bounded memory.
 *
 *     n = source_choose(s, &ask, now, &source)          ask: sender, destination, family
 *     bind(source->ip), connect …                       EADDRNOTAVAIL: source_failed(s, source, now); choose again
 *     source_ok(s, source)                              bound */
#ifndef PROTO_RELAY_SOURCE_H
#define PROTO_RELAY_SOURCE_H

#include "base/buf.h"
#include "proto/relay/route.h"

enum {
	SOURCE_POOLS_MAX = 64,
	SOURCE_MAX = 64,               /* addresses of one pool */
	SOURCE_WEIGHT_MAX = 100,
	SOURCE_PAUSE_FIRST_MS = 30000, /* an address that could not be bound: then twice as long, … */
	SOURCE_PAUSE_MOST_MS = 15 * 60000,
};

struct source {
	unsigned char ip[16];
	unsigned char n;               /* 4 or 16 */
	unsigned weight;
	const char *helo;              /* NULL: the stage's */
	/* private */
	int64_t until;
	unsigned failures;
};
struct sources;

struct sources *sources_new(void);
void sources_free(struct sources *s); /* accepts NULL */
/* As shapes_add(). An empty `value` is an error. */
int sources_add(struct sources *s, const char *option, struct str value, struct buf *why);
/* An address as it stands in a pool, without brackets or within. *ret_n: 4 or 16. False: it is none. */
bool source_address(struct str s, unsigned char ip[16], unsigned char *ret_n);
/* Is there a pool of that name? For the validator of SHAPE lines. */
bool sources_has(const struct sources *s, const char *pool);

/* A warm-up plan's word on one message more from this address to this destination. One that may go FIRST is taken before all others, or the new
 * address would send only to those destinations that fall to it by chance; NOT: it has had today's share, and another one of the pool is taken; if all
 * say so, the one that would have been taken without plans. Not a booking. See warmup.h. */
enum source_allowed { SOURCE_NOT, SOURCE_MAY, SOURCE_FIRST };
typedef enum source_allowed (*source_allow_fn)(void *arg, const struct source *source, const char *destination);

struct source_ask {
	const char *sender;            /* domain of the envelope sender, folded; "" for the null sender */
	const char *pool;              /* of shape.sources; "" */
	const struct route *route;     /* may be NULL: a look-up by domain only */
	const char *domain;            /* the recipient's, folded */
	const char *key;               /* of shape_find(): what the choice sticks to */
	unsigned char family;          /* 4 or 16: octets of the address to connect to */
	source_allow_fn allow;         /* NULL: no plans */
	void *allow_arg;
};
enum source_found {
	SOURCE_SYSTEM,                 /* no pool fits: no bind(), the stage's HELO */
	SOURCE_FOUND,
	SOURCE_NO_FAMILY,              /* the pool that fits has no address of this family: leave such addresses of the destination out */
	SOURCE_SUSPENDED,              /* all addresses of the pool are: not now; *ret_when is the time when one may be tried again */
};
/* Which pool fits: a number above 0, or 0: none. Sessions of different pools do not carry each other's mail. */
unsigned source_pool(const struct sources *s, const struct source_ask *ask);
enum source_found source_choose(struct sources *s, const struct source_ask *ask, int64_t now, struct source **ret, int64_t *ret_when);
/* It could not be bound (EADDRNOTAVAIL) at this time, or could; true: which is news. */
bool source_failed(struct source *source, int64_t now);
bool source_ok(struct source *source);
/* Left out now, since it could not be bound. */
bool source_suspended(const struct source *source, int64_t now);
/* For status: the i-th address of all pools, from 0; false behind the last. */
bool sources_at(const struct sources *s, size_t i, const char **ret_option, const struct source **ret);

#endif
