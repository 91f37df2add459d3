/* Connections of proxies (PROXY_FROM) between accept() and the end of their PROXY header, which says who the client is.
 * Not a session yet: no banner, no engine, a deadline of its own. */
#ifndef INGRESS_PROXIED_H
#define INGRESS_PROXIED_H

#include "net/addr.h"

#include <stdint.h>

struct ingress;
struct listening;

/* What the proxy said beside the address; kept with the session, shown in state.origin. */
struct proxy_info {
	struct net_addr addr;       /* of the proxy */
	bool unknown;               /* it does not know its client's address, so nothing may follow from its own */
	char authority[256];        /* host name the client asked the proxy for, or "" */
	char alpn[64];              /* or "" */
	char tls_version[32], tls_cipher[64]; /* of TLS that the proxy ended, or "" */
};

/* Takes fd; waits for the header. */
void proxied_begin(struct listening *l, int fd, const struct net_addr *proxy);
/* Ends those beyond their deadline. */
void proxied_sweep(struct ingress *in, int64_t now_us);
void proxied_free_all(struct ingress *in);

#endif
