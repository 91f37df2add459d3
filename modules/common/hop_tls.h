/* TLS for the client side, without sockets: ciphertext in and out of memory, so that all socket calls (and their
 * signals, deadlines and errors) stay in hop.c. */
#ifndef COMMON_HOP_TLS_H
#define COMMON_HOP_TLS_H

#include "base/buf.h"

struct hop_tls_conf; /* what sessions share: trust anchors, versions */
struct hop_tls;      /* one session */

/* verify: the peer's certificate must chain to ca_file (NULL: the system's anchors) and name the host. Without it the certificate is
 * looked at all the same (hop_tls_verified()), and anchors that cannot be read are none. NULL: reason appended to why. */
struct hop_tls_conf *hop_tls_conf_new(bool verify, const char *ca_file, struct buf *why);
/* The certificate and key to show, PEM. 0, or -1: reason appended to why. */
int hop_tls_conf_identity(struct hop_tls_conf *c, const char *cert, const char *key, struct buf *why);
void hop_tls_conf_free(struct hop_tls_conf *c);

/* Is the chain that a peer showed valid, by the authorities of c, for one of these names ("a.example,.example.org", the latter for all below
 * it)? X509_V_OK or X509_V_ERR_…. */
struct stack_st_X509;
int hop_tls_chain_error(const struct hop_tls_conf *c, const struct stack_st_X509 *chain, const char *names);

/* host: name (sent as SNI) or numeric address, for verification. NULL: out of memory. */
struct hop_tls *hop_tls_new(struct hop_tls_conf *c, const char *host);
void hop_tls_free(struct hop_tls *t);
/* Before the handshake: the name asked for (SNI), and the name that the certificate is held against, where they are others than the host's. NULL:
 * as it is. */
void hop_tls_names(struct hop_tls *t, const char *sni, const char *cert_name);

/* Ciphertext that arrived. Returns 0, or -1: out of memory. */
int hop_tls_feed(struct hop_tls *t, const char *p, size_t n);
/* Ciphertext to send; consume what was written. */
struct buf *hop_tls_out(struct hop_tls *t);

/* 1: done. 0: needs input (write hop_tls_out() first). -1: failed, reason appended to why. */
int hop_tls_handshake(struct hop_tls *t, struct buf *why);
/* Plaintext that has arrived: octets read into p; 0: none now; -1: the session is over (close_notify or a broken record). */
int hop_tls_read(struct hop_tls *t, char *p, size_t n);
/* Encrypts up to n octets into hop_tls_out(); returns how many, -1: the session is over. */
int hop_tls_write(struct hop_tls *t, const char *p, size_t n);
/* Queues close_notify. */
void hop_tls_bye(struct hop_tls *t);
/* Did the peer show a certificate that chains to an anchor and names the host? After the handshake. */
bool hop_tls_verified(const struct hop_tls *t);
/* X509_V_OK when it did, else X509_V_ERR_…: why not. After the handshake. */
int hop_tls_error(const struct hop_tls *t);
/* The certificates it showed, its own first; NULL: none. They live until the
 * next hop_tls_read(): a ticket makes OpenSSL copy its session. For dane_check() (proto/relay/dane.h). */
struct stack_st_X509;
const struct stack_st_X509 *hop_tls_chain(const struct hop_tls *t);
/* Did it ask for our certificate and get it? */
bool hop_tls_showed(const struct hop_tls *t);
enum { HOP_TLS_BINDING = 32 };
/* The binding "tls-exporter" (RFC 9266) of this session. False: there is none below TLS 1.3. */
bool hop_tls_binding(const struct hop_tls *t, char ret[HOP_TLS_BINDING]);
/* "TLSv1.3 TLS_AES_256_GCM_SHA384" */
const char *hop_tls_describe(const struct hop_tls *t);

#endif
