/* The resolving child (`[pepsi-dns] BACKEND = libunbound`): a process that resolves from the root and validates DNSSEC, for sites without a
 * resolver that does. It listens on STATE/run/dns.sock (SOCK_SEQPACKET): a message is one DNS query, the reply is one DNS message with
 * AD where libunbound found it secure, SERVFAIL where it is bogus or cannot be had; one question at a time on a connection. The clients are
 * net/dns.h of reactor, workers and tools, which cache, count and give up on their own: to them it is one more server. */
#ifndef RECURSOR_RECURSOR_H
#define RECURSOR_RECURSOR_H

#include "base/str.h"

#include <sys/types.h>

#define RECURSOR_SOCKET "run/dns.sock" /* below STATE */

enum { RECURSOR_CLIENTS_MAX = 300 }; /* accounts that may ask */

struct recursor_params {
	struct str blob;          /* the flat configuration */
	const char *state_dir;
	int log_level;
	const uid_t *clients;     /* accounts that may ask, besides root and our own */
	size_t n_clients;
	int (*become)(void *arg); /* gives root up; the socket is bound before */
	void *arg;
};

/* Runs until SIGTERM. Exit status. */
int recursor_main(const struct recursor_params *p);

/* NULL, or why this program has no such child. */
const char *recursor_missing(void);

#endif
