/* TLS for listeners: certificates and the rules of our side. TLS 1.2 or newer, no renegotiation, no compression, no
 * early data. Several pairs are told apart by the name the client asks for (SNI); the first is the default. A set is
 * immutable and counted, so sessions keep theirs over a reload. Files are the caller's business: certificates and
 * keys come in as PEM text, so that whoever may read them can be another process. */
#ifndef NET_TLS_H
#define NET_TLS_H

#include "base/str.h"
#include "net/tickets.h"

#include <openssl/ssl.h>
#include <stddef.h>
#include <stdint.h>

struct net_tls;

struct net_tls_pair {
	const char *cert_name, *key_name; /* file names, for messages */
	struct str cert, key;             /* PEM: certificate chain, leaf first; private key without passphrase */
};

enum net_tls_client { NET_TLS_CLIENT_NONE, NET_TLS_CLIENT_ASK, NET_TLS_CLIENT_REQUIRE };

struct net_tls_conf {
	const struct net_tls_pair *pairs;
	size_t n;
	bool no_tls12, no_tls13;
	const char *ciphers;      /* TLS 1.2, OpenSSL's names with ':' between; NULL: NET_TLS_CIPHERS; "": no TLS 1.2 at all */
	const char *suites;       /* TLS 1.3; NULL: OpenSSL's own; "": no TLS 1.3 at all */
	const char *groups;       /* key exchange, "X25519:P-256"; NULL: NET_TLS_GROUPS */
	struct net_tickets *tickets; /* NULL: no resumption; a reference is taken */
	const char *context;      /* a session is resumed only where this is the same: the listener's name */
	/* client certificates: asked for when client_ca holds PEM text and client is not NONE */
	enum net_tls_client client;
	struct str client_ca;
	const char *client_ca_name;
};
/* Forward secrecy and AEAD only. */
#define NET_TLS_CIPHERS                                                                                                \
	"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"                     \
	"ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
#define NET_TLS_GROUPS "X25519:P-256:P-384"

/* NULL with a sentence in err that names the file or the list at fault. */
struct net_tls *net_tls_new(const struct net_tls_conf *conf, char *err, size_t err_size);
struct net_tls *net_tls_ref(struct net_tls *t);
void net_tls_unref(struct net_tls *t); /* accepts NULL */
/* The server's side of a new connection, or NULL. */
SSL *net_tls_session(struct net_tls *t);

/* What the i-th certificate says of itself; false behind the last. */
struct net_tls_cert {
	const char *file;       /* cert_name; lives as long as the set */
	int64_t not_after_s;    /* seconds since the epoch; 0: not readable */
};
bool net_tls_cert(const struct net_tls *t, size_t i, struct net_tls_cert *ret);
/* Is any of the certificates valid for this host name? */
bool net_tls_names(const struct net_tls *t, const char *host);

#endif
