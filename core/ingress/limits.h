/* How much each client address and each network has sent lately: connections, messages, recipients, and recipients that do not
 * exist. An address is one of IPv4 or a /64 of IPv6, a network the /24 of IPv4 around it; for IPv6 the two are the same. Two books
 * with a bounded number of entries, what was used least recently is forgotten first: a flood from everywhere costs memory for as
 * many entries as are allowed, never more. Knows no socket and no clock. */
#ifndef INGRESS_LIMITS_H
#define INGRESS_LIMITS_H

#include "net/addr.h"

enum limit_kind { LIMIT_CONNECTIONS, LIMIT_MESSAGES, LIMIT_RECIPIENTS, LIMIT_QUERIES, LIMIT_KINDS };

/* Of one address; 0: no limit. A network may have network_factor times as much (0: as much as it likes). */
struct limit_rates {
	unsigned per_minute[LIMIT_KINDS], per_hour[LIMIT_KINDS];
	unsigned network_factor;
	unsigned unknown_per_hour; /* recipients that do not exist, of a network; 0: no limit */
};

struct limits;

struct limits *limits_new(unsigned remembered); /* entries in each book; NULL: no memory */
void limits_free(struct limits *l);             /* accepts NULL */
void limits_remember(struct limits *l, unsigned remembered);
/* May there be one more? Counts it if so; what is refused counts for nothing, so the way back does not get longer. Out of memory:
 * yes. */
bool limits_take(struct limits *l, const struct limit_rates *r, const struct net_addr *a, enum limit_kind kind, int64_t now_us);
/* The same in two steps, for what is known only afterwards: may there be more; and so many there were. */
bool limits_may(struct limits *l, const struct limit_rates *r, const struct net_addr *a, enum limit_kind kind, int64_t now_us);
void limits_add(struct limits *l, const struct limit_rates *r, const struct net_addr *a, enum limit_kind kind, unsigned n, int64_t now_us);
/* A recipient that does not exist was named from there. */
void limits_unknown(struct limits *l, const struct net_addr *a, int64_t now_us);
/* Has that network named too many of them? */
bool limits_harvests(struct limits *l, const struct limit_rates *r, const struct net_addr *a, int64_t now_us);
/* A message from there was accepted; and has one been, as far as is remembered? */
void limits_good(struct limits *l, const struct net_addr *a);
bool limits_known(struct limits *l, const struct net_addr *a);
/* Entries now, of both books. */
unsigned limits_entries(const struct limits *l);
/* The network of an address, as an address. */
struct net_addr limits_network(const struct net_addr *a);

#endif
