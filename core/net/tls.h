/* TLS for listeners: certificates and the rules of our side (TLS 1.2 or newer, no renegotiation, no session
 * tickets, so no ticket keys that would have to rotate). Several pairs are told apart by the name the client
 * asks for (SNI); the first is the default. A set is immutable and counted, so sessions keep theirs over a
 * reload. */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <openssl/ssl.h>
#include <stddef.h>

struct net_tls;

/* Reads n pairs of PEM files: certificate chain and private key. NULL with a sentence in err that names the file. */
struct net_tls *net_tls_new(const char *const *certs, const char *const *keys, size_t n, char *err, size_t err_size);
struct net_tls *net_tls_ref(struct net_tls *t);
void net_tls_unref(struct net_tls *t); /* accepts NULL */
/* The server's side of a new connection, or NULL. */
SSL *net_tls_session(struct net_tls *t);

#endif
