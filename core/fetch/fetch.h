/* The fetching child: a process of its own that fetches the policies of MTA-STS (RFC 8461 §3.3) for relay workers, who must not speak HTTPS to
 * strangers beside mail and a database. It listens on STATE/run/sts.sock (proto/relay/sts_wire.h); resolves by [pepsi-dns]; connects to nothing
 * that is not the public Internet, unless [pepsi-mta-sts] ALLOW_NETWORKS says so. Unprivileged, no database, no secrets. */
#ifndef FETCH_FETCH_H
#define FETCH_FETCH_H

#include "net/dns.h"

#include <sys/types.h>

struct fetch_params {
	struct str blob;          /* the flat configuration */
	const char *state_dir;
	int log_level;
	const uid_t *clients;     /* accounts that may ask, besides root and our own */
	size_t n_clients;
	const struct net_dns_settings *dns;
	int (*become)(void *arg); /* gives root up; the socket is bound before */
	void *arg;
};

/* Runs until SIGTERM. Exit status. */
int fetch_main(const struct fetch_params *p);

/* NULL, or why this program has no such child. */
const char *fetch_missing(void);

#endif
