/* Name resolution outside the reactor: [pepsi-dns] as the settings of a resolver, and host->resolve(), with a resolver of the
 * process's own, made when a module asks for the first time. It waits: a worker has nothing else to do meanwhile. */
#ifndef PEPSI_WORKER_RESOLVE_H
#define PEPSI_WORKER_RESOLVE_H

#include "net/dns.h"
#include "pass.h"

/* 0, or -1 with the reason in err. */
int resolve_settings(const struct config *c, struct net_dns_settings *ret, char *err, size_t err_size);

/* The host function. What it gives lives in the pass's arena. */
const struct pepsi_dns *host_resolve(struct pepsi_msg *msg, const char *name, uint32_t type);
/* The pass is over: its group of questions goes. */
void resolve_end(struct pepsi_msg *msg);

#endif
