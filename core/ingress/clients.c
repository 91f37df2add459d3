/* Connection counts per client address. The count itself is the map's value, so no entry needs memory of its own. */
#include "clients.h"

#include "limits.h"

#include <sys/random.h>

void clients_init(struct clients *c)
{
	*c = (struct clients){ 0 };
	if (getrandom(&c->salt, sizeof c->salt, GRND_NONBLOCK) != (ssize_t)sizeof c->salt)
		c->salt = UINT64_C(0x9e3779b97f4a7c15);
}

void clients_done(struct clients *c)
{
	map_done(&c->map);
}

static uint64_t key(const struct clients *c, const struct net_addr *a)
{
	struct net_addr of = c->by_network ? limits_network(a) : *a;
	/* one to one, so that two clients never share a count */
	return (net_addr_key(&of) ^ c->salt) * UINT64_C(0xff51afd7ed558ccd);
}

unsigned clients_now(const struct clients *c, const struct net_addr *a)
{
	return (unsigned)(uintptr_t)map_get(&c->map, key(c, a));
}

bool clients_enter(struct clients *c, const struct net_addr *a, unsigned max)
{
	unsigned n = clients_now(c, a);
	if (max && n >= max)
		return false;
	return map_put(&c->map, key(c, a), (void *)(uintptr_t)(n + 1)) == 0;
}

void clients_leave(struct clients *c, const struct net_addr *a)
{
	unsigned n = clients_now(c, a);
	if (n > 1)
		map_put(&c->map, key(c, a), (void *)(uintptr_t)(n - 1)); /* replaces: needs no memory */
	else
		map_del(&c->map, key(c, a));
}
