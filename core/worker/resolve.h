/* Name resolution outside the reactor: [pepsi-dns] as the settings of a resolver, and host->resolve(), with a resolver of the
 * process's own, made when a module asks for the first time. It waits: a worker has nothing else to do meanwhile (one that has asks otherwise: ask.c). */
#ifndef PEPSI_WORKER_RESOLVE_H
#define PEPSI_WORKER_RESOLVE_H

#include "net/dns.h"
#include "pass.h"

/* 0, or -1 with the reason in err. */
int resolve_settings(const struct config *c, struct net_dns_settings *ret, char *err, size_t err_size);

/* The host function. What it gives lives in the pass's arena. */
const struct pepsi_dns *host_resolve(struct pepsi_msg *msg, const char *name, uint32_t type);
/* For ask.c: the resolver of this process, what is wrong with a question (or NULL), and an answer as modules see it, in the arena (NULL:
 * memory). */
struct net_dns *resolve_dns(const struct config *c);
const char *resolve_wrong(const char *name, uint32_t type);
struct pepsi_dns *resolve_copy(struct arena *a, const struct dns_answer *from);
/* Ends the resolver; all groups must be gone. */
void resolve_done(void);
/* The pass is over: its group of questions goes. */
void resolve_end(struct pepsi_msg *msg);

#endif
