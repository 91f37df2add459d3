/* How many connections each client address, or each network, has now. IPv6 counts by /64. */
#ifndef INGRESS_CLIENTS_H
#define INGRESS_CLIENTS_H

#include "base/map.h"
#include "net/addr.h"

#include <stdbool.h>

struct clients {
	struct map map;
	bool by_network; /* IPv4 counts by /24 */
	uint64_t salt; /* random: a peer that owns many networks cannot aim for one slot */
};

void clients_init(struct clients *c);
void clients_done(struct clients *c);
/* Counts one more unless there are max already (0: no limit). False: refused (or memory is out). */
bool clients_enter(struct clients *c, const struct net_addr *a, unsigned max);
void clients_leave(struct clients *c, const struct net_addr *a);
unsigned clients_now(const struct clients *c, const struct net_addr *a);

#endif
