/* Name resolution outside the reactor: [pepsi-dns] as the settings of a resolver, and a resolver of its own for a process that may
 * wait: a worker's, made when its module asks for the first time. */
#ifndef PEPSI_WORKER_RESOLVE_H
#define PEPSI_WORKER_RESOLVE_H

#include "config/config.h"
#include "net/dns.h"

/* 0, or -1 with the reason in err. */
int resolve_settings(const struct config *c, struct net_dns_settings *ret, char *err, size_t err_size);

#endif
