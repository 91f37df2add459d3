/* Warm-up plans: how many messages a new source address may send to each destination on each day of its first weeks, so that providers get to
 * know it slowly. Options WARMUP_1, WARMUP_2, … of a stage:
 *
 *     WARMUP_1 = 192.0.2.11 2001:db8::11 start=2026-12-01 steps=50,100,200,500,1000,2000,5000
 *     WARMUP_2 = 192.0.2.12 start=2026-12-01 first=50 factor=1.5 last=20000
 *
 * Each step is a day's allowance for one destination (the key of shape.h: a provider, or a set of exchangers), the first that of the day `start`; behind
 * the last one the plan is over and the address is like any other. first=, factor= and last= write the steps: each is the one before times the factor,
 * the last is `last`. Before `start` the address sends nothing. Days are those of UTC: workers, nodes and providers are in many zones.
 *
 * The numbers of a plan only; who counts what was sent is the caller. No clock, no I/O; bounded memory. */
#ifndef PROTO_RELAY_WARMUP_H
#define PROTO_RELAY_WARMUP_H

#include "base/buf.h"
#include "base/str.h"

enum {
	WARMUP_PLANS_MAX = 64,
	WARMUP_ADDRESSES_MAX = 16,  /* of one plan */
	WARMUP_STEPS_MAX = 120,     /* days */
};
#define WARMUP_FREE (-1)            /* of warmups_allowance(): as much as there is */
#define WARMUP_MOST INT64_C(100000000)

struct warmups;

struct warmups *warmups_new(void); /* NULL: no memory */
void warmups_free(struct warmups *w); /* accepts NULL */
/* Adds the plan of one option. Returns 0; 1 with the reason appended to why; -1: no memory. An address may stand in one plan only. */
int warmups_add(struct warmups *w, const char *option, struct str value, struct buf *why);
size_t warmups_count(const struct warmups *w);
/* The i-th address of all plans, from 0, for who checks that each is a source; false behind the last. *ret_n: 4 or 16. */
bool warmups_at(const struct warmups *w, size_t i, const char **ret_option, const unsigned char **ret_ip, unsigned *ret_n);

/* How many messages this address may send to one destination on that day (days since 1970-01-01 UTC); WARMUP_FREE: there is no plan for it, or it
 * is over. */
int64_t warmups_allowance(const struct warmups *w, const unsigned char *ip, unsigned n, int64_t day);
/* What is taken of a day's allowance at once, where several share it: a small part, at least 1, so that little is left over where another could
 * have used it. */
int64_t warmup_share(int64_t allowance);

#endif
