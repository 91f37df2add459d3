/* The ratchet: how well mail to a domain was protected so far, and whether it is less so now. It warns and never holds anything up: a domain may
 * take DANE away for good reasons, an attacker would like to. Pure functions on a struct the caller keeps (pepsi.destination_security).
 *
 *     struct ratchet r = { 0 };                                         // or what was kept
 *     switch (ratchet_note(&r, ratchet_level(&rules, &seen, &verdict), now)) {
 *     case RATCHET_WEAKER:    warn: ratchet_level_name(r.best), r.best_at, ratchet_level_name(r.last)
 *     case RATCHET_RECOVERED: say so
 *     case RATCHET_STRONGER: case RATCHET_SAME: keep r (that is all) */
#ifndef PROTO_RELAY_RATCHET_H
#define PROTO_RELAY_RATCHET_H

#include "proto/relay/tls.h"

enum ratchet_level {
	RATCHET_UNKNOWN,       /* nothing was delivered yet */
	RATCHET_PLAIN,         /* no TLS */
	RATCHET_TLS,           /* encrypted, whoever it was */
	RATCHET_AUTHENTICATED, /* and a certificate valid for the host's name, though nobody asked for it */
	RATCHET_STS,           /* as an enforced policy of MTA-STS demands */
	RATCHET_DANE,          /* as TLSA records demand */
};
/* "unknown", "plain", "tls", "authenticated", "sts-enforce", "dane" */
const char *ratchet_level_name(enum ratchet_level l);
int ratchet_level_parse(struct str s, enum ratchet_level *ret);

/* What a session was worth over which mail went (verdict->go). */
enum ratchet_level ratchet_level(const struct tls_rules *rules, const struct tls_seen *seen, const struct tls_verdict *verdict);

enum {
	RATCHET_KEEP = 60 * 86400,  /* seconds: the best of so long ago is forgotten, unless seen again */
	RATCHET_AGAIN = 7 * 86400,  /* a domain that stays weaker is told again so much later */
};
struct ratchet {
	enum ratchet_level best, last;
	int64_t best_at, last_at;   /* seconds since 1970: when they were seen last */
	enum ratchet_level told;    /* while it is weaker: the lowest that was warned of; else RATCHET_UNKNOWN */
	int64_t told_at;
};
enum ratchet_event {
	RATCHET_SAME,
	RATCHET_STRONGER,  /* better than ever */
	RATCHET_WEAKER,    /* to be told: weaker than the best, for the first time, or weaker still, or after RATCHET_AGAIN */
	RATCHET_RECOVERED, /* it was told to be weaker, and is as good as before */
};
/* Hosts of one domain may differ: as long as one of them is worse, it is weaker, but that is told once, not for each message. */
enum ratchet_event ratchet_note(struct ratchet *r, enum ratchet_level now_level, int64_t now);
/* Of two workers' knowledge of a domain: one. */
void ratchet_merge(struct ratchet *into, const struct ratchet *other);

#endif
