/* Look-ups of a relay that blocks, over host->resolve(): evaluators of proto/dns run to their end, the TLSA records of a next hop, what
 * it shows against them. For modules that are CONCURRENT there is lookup.h. Decides nothing about mail. */
#ifndef COMMON_HOP_DANE_H
#define COMMON_HOP_DANE_H

#include "base/buf.h"
#include "proto/relay/dane.h"

#include <pepsi/stage.h>

/* Runs it over answers of the host until it is done. What cannot be had is a temporary failure in the set. DNS_DONE, or below 0: no memory. */
int hop_evaluate(const struct pepsi_host *host, struct pepsi_msg *msg, dns_evaluate_fn fn, void *arg, struct dns_answers *set);

/* What is known of one host. */
struct hop_dane {
	struct dns_answers *set;
	struct dane_lookup look; /* .base: what SNI must say */
};
/* 0: there are usable records, and they are validated; or -1: reason appended to why, and the host must not be used. hop_dane_done() in either
 * case. host must live until then. */
int hop_dane_look(const struct pepsi_host *h, struct pepsi_msg *msg, const char *host, int port, struct hop_dane *ret, struct buf *why);
void hop_dane_done(struct hop_dane *d);

struct stack_st_X509;
/* 0: what the host shows matches; or -1: reason appended to why. now: seconds since 1970. */
int hop_dane_match(const struct hop_dane *d, const struct stack_st_X509 *chain, int64_t now, struct buf *why);

#endif
