/* The health of one address of a mail exchanger: when to connect to it, when to leave it alone, and which of several comes first. Pure; the
 * memory is its caller's (modules/common/address_health.h, pepsi.dns_address).
 *
 * An address that fails is left alone for a while, twice as long with each failure in a row; when that is over one connection is tried (a probe),
 * and only when it succeeds do others follow. */
#ifndef PROTO_RELAY_HEALTH_H
#define PROTO_RELAY_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HEALTH_PAUSE_FIRST = 30,        /* seconds after one failure: it may have been chance */
	HEALTH_PAUSE_MOST = 30 * 60,
	HEALTH_PROBE_S = 120,           /* a probe whose outcome nobody told is over then */
	HEALTH_FORGET = 7 * 86400,      /* nothing known that is older counts */
};

struct health {
	int64_t ok_at;      /* seconds since 1970: the last success; 0: none */
	int64_t failed_at;  /* the last failure; 0: none */
	unsigned failures;  /* in a row */
	int64_t until;      /* left alone until then; 0: not */
	int64_t probe_at;   /* a probe began then and is not over; 0: none. Not kept beyond the process */
};

enum health_state {
	HEALTH_GOOD,     /* it worked last time */
	HEALTH_NEW,      /* nothing is known */
	HEALTH_DUE,      /* it failed, its pause is over: one may try */
	HEALTH_PAUSED,   /* it failed lately */
	HEALTH_PROBED,   /* somebody is trying */
};
/* "good", "new", "due", "paused", "probed" */
const char *health_state_name(enum health_state s);
enum health_state health_state(const struct health *h, int64_t now);

void health_succeeded(struct health *h, int64_t now);
/* seed: chance, so that pauses of many do not end together. */
void health_failed(struct health *h, int64_t now, uint64_t seed);
/* One is about to try it. */
void health_probe(struct health *h, int64_t now);

/* The order to try: order gets the indices of those that may be tried now, in the order given, but good and new ones before those that are due;
 * of these at most one (a message pays for one probe, not for five), and not first when a good one is there. Returns how many; 0: none, and
 * *ret_when the earliest time that one may be tried. h: n pointers, NULL for nothing known. */
size_t health_order(const struct health *const *h, size_t n, int64_t now, unsigned char *order, int64_t *ret_when);

#endif
