/* What a worker knows of the addresses of mail exchangers (requirement B3, pepsi.dns_address): health of each, by address, shared by all hosts and
 * domains behind it. In memory; loaded from the table when it is made, written back in batches, so that a message costs no statement and a
 * new worker does not begin with dead hosts. The rules: proto/relay/health.h. For modules with PEPSI_CAP_CONCURRENT and PEPSI_CAP_DB.
 *
 *     open():     w->health = address_health_new(host, conf, w->known, &why);     // known.h
 *     route:      n = address_health_order(w->health, route.address, route.n_addresses, order, &when);   // of proto/relay/route.h
 *                 n == 0: none may be tried before `when`. A name whose addresses are all paused is to be looked up anew when
 *                 its TTL is over, no sooner: the resolver does so by itself
 *     connect:    address_health_try(w->health, &route.address[order[0]]);     // a probe is marked, so that one only is made
 *     outcome:    address_health_good(w->health, mx_name, address, ttl);       // the host spoke SMTP: its greeting came
 *                 address_health_bad(w->health, mx_name, address, ttl, "connection timed out");   // refused, silent, gone before the greeting
 *                 Neither for what a host says of a message: a 4xx is no illness.
 *     close():    address_health_free(w->health);                                // writes what is left */
#ifndef COMMON_ADDRESS_HEALTH_H
#define COMMON_ADDRESS_HEALTH_H

#include "base/buf.h"
#include "proto/relay/health.h"
#include "proto/relay/route.h"

#include <pepsi/stage.h>

enum {
	ADDRESS_HEALTH_KEPT = 20000,      /* addresses in memory; the longest unused go */
	ADDRESS_HEALTH_LOADED = 5000,     /* read at the start: those that failed last */
	ADDRESS_HEALTH_FLUSH_MS = 5000,   /* what changed is written so much later, together */
	ADDRESS_HEALTH_BATCH = 500,       /* addresses in one statement; a full batch is written at once */
	ADDRESS_HEALTH_WHY_MAX = 120,
};

struct address_health;
struct known;

/* NULL: no memory. A database that is away is no failure: nothing is known then, and what is learned is kept for later. */
struct address_health *address_health_new(const struct pepsi_host *host, const struct pepsi_conf *conf, struct known *known, struct buf *why);
void address_health_free(struct address_health *a); /* accepts NULL */

/* health_order() of these; order: n octets of room. */
size_t address_health_order(struct address_health *a, const struct route_address *ips, size_t n, unsigned char *order, int64_t *ret_when);
/* Do all of them fail? Then the DNS may know others by now. */
bool address_health_none(struct address_health *a, const struct route_address *ips, size_t n);
/* One of them. */
enum health_state address_health_state(struct address_health *a, const struct route_address *ip);
/* A connection is about to be made to it. */
void address_health_try(struct address_health *a, const struct route_address *ip);
/* mx: the host's name ("" of an address literal); ttl: of the answer that gave the address, seconds. */
void address_health_good(struct address_health *a, const char *mx, const struct route_address *ip, uint32_t ttl);
void address_health_bad(struct address_health *a, const char *mx, const struct route_address *ip, uint32_t ttl, const char *why);
/* The last error of an address, for a DSN or a log line when none may be tried; "" when there was none. Until the next call. */
const char *address_health_why(struct address_health *a, const struct route_address *ip);

#endif
