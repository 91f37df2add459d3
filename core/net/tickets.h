/* Keys of TLS session tickets (RFC 5077, RFC 8446 §4.6.1): made in memory, never stored, replaced by time. The newest
 * seals; it and the one before open. Counted, so that sets of certificates that follow each other over a reload share
 * them; wiped with the last reference. */
#ifndef NET_TICKETS_H
#define NET_TICKETS_H

#include <openssl/ssl.h>
#include <stdint.h>

enum { NET_TICKETS_LIFE_S = 12 * 3600 }; /* a key seals so long; a ticket lives at most that long */

struct net_tickets;

/* NULL: no memory or no random octets. */
struct net_tickets *net_tickets_new(void);
struct net_tickets *net_tickets_ref(struct net_tickets *t);
void net_tickets_unref(struct net_tickets *t); /* accepts NULL */
/* A new key at once, whatever the time: what the one before last sealed is void. 0, or -1: no random octets. */
int net_tickets_rotate(struct net_tickets *t);
/* Tickets of ctx's sessions are sealed with the keys that net_tickets_bind() gives each session. */
void net_tickets_use(SSL_CTX *ctx);
/* For this session; t outlives it. */
void net_tickets_bind(struct net_tickets *t, SSL *ssl);

#endif
