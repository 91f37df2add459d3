/* One connection of ours on the event loop, plain or, from some point on, TLS: octets in by a callback, octets
 * out from the caller's buffer. A reactor's connection must be cheap: no buffer of its own while idle, one
 * recv() and one send() per exchange, no timer (deadlines are the owner's).
 *
 * A session, told: net_conn_new() with the accepted descriptor; net_conn_write() the banner; input() brings a
 * command group; its replies go out by one net_conn_write(); on STARTTLS the owner writes its 220 and, when
 * that is out, calls net_conn_starttls(): secured() says that the handshake is done, and everything from there
 * on is TLS. What the peer sent in plaintext behind its STARTTLS is taken for a handshake and ends the
 * connection (RFC 3207 §6).
 *
 * TLS runs on the same descriptor through OpenSSL directly, not through a bufferevent: no plaintext buffer
 * exists that it could inherit. */
#ifndef NET_CONN_H
#define NET_CONN_H

#include "base/buf.h"
#include "net/tls.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

struct net_conn;

/* In each of these the connection may be freed. */
struct net_conn_calls {
	/* Octets arrived; they live during the call. Those of a TLS session are overwritten behind it. */
	void (*input)(void *arg, const char *p, size_t n);
	/* The peer closed its side; it may still be reading ours. Comes once. */
	void (*eof)(void *arg);
	/* net_conn_write() had to leave something: try again now. */
	void (*writable)(void *arg);
	/* The TLS handshake is done. */
	void (*secured)(void *arg);
	/* The connection is dead; free it. why: a constant or a text that lives during the call. */
	void (*broken)(void *arg, const char *why);
};

/* Takes fd (closed by net_conn_free), which is non-blocking. Reading is on. NULL when memory is out; fd is
 * closed then too. calls and arg live as long as the connection. */
struct net_conn *net_conn_new(struct event_base *base, int fd, const struct net_conn_calls *calls, void *arg);
/* Closes; within TLS with close_notify. Accepts NULL. */
void net_conn_free(struct net_conn *c);
/* For an end in the middle of the peer's talk: takes what it has sent so far, so that closing does not answer
 * it with a reset that would overtake our last reply. Only net_conn_free() may follow. */
void net_conn_drain(struct net_conn *c);
/* Reading on or off (the peer then feels back-pressure). Cheap when nothing changes. */
void net_conn_read(struct net_conn *c, bool on);
/* Peers that trickle. Who sends an octet now and then makes us wake up, ask the kernel and run the engine for nothing, and thousands
 * of them cost what mail would need. A connection whose owner is patient puts up with few of its readings: when some in a row were
 * tiny, slow, and ended no line, the kernel wakes us only once NET_TRICKLE_WAKE octets are there (SO_RCVLOWAT), or the end of the
 * peer's side; the rest is fetched by net_conn_look(), which the owner calls once a second. Nothing is lost, and whoever sends
 * 16 octets at a time, or two whole lines, is heard at once again. Deadlines, being the owner's, do not depend on it. */
void net_conn_patient(struct net_conn *c);
/* Is it one of those? */
bool net_conn_trickles(const struct net_conn *c);
/* Once a second: fetches after 1, 2, 4, 4, … calls; at once with now (before the owner gives it up: what came in time counts).
 * True: it has asked; the callbacks were called, and c may be gone. */
bool net_conn_look(struct net_conn *c, bool now);
/* Writes what it can from the front of out and takes it off. 1: all of it. 0: some is left, writable() will come.
 * -1: the connection is broken (broken() is not called). */
int net_conn_write(struct net_conn *c, struct buf *out);
/* Asked while nobody reads: has the peer gone, so that nothing said to it would arrive? A peer that closed its side alone counts
 * as there while something it sent before is unread; within TLS, where that cannot be seen, as gone. */
bool net_conn_gone(const struct net_conn *c);
/* Begins the handshake as server. Returns 0, or -1: no memory. */
int net_conn_starttls(struct net_conn *c, struct net_tls *tls);
/* In a handshake that is not over yet? */
bool net_conn_securing(const struct net_conn *c);
/* "TLSv1.3", "TLS_AES_256_GCM_SHA384", 256; NULL and 0 without TLS, or while the handshake is not over. */
const char *net_conn_tls_protocol(const struct net_conn *c);
const char *net_conn_tls_cipher(const struct net_conn *c);
int net_conn_tls_bits(const struct net_conn *c);
/* The name the client asked for (SNI), or NULL. */
const char *net_conn_tls_server_name(const struct net_conn *c);
/* Was an earlier session taken up by a ticket? */
bool net_conn_tls_resumed(const struct net_conn *c);

/* Channel bindings for SASL. "tls-exporter" (RFC 9266): 32 octets. 0, or -1: no TLS, or a TLS 1.2 session that it does not
 * bind (no extended master secret). */
int net_conn_tls_exporter(const struct net_conn *c, uint8_t out[32]);
/* "tls-server-end-point" (RFC 5929 §4): the hash of our certificate, 32 to 64 octets. 0, or -1: none. */
int net_conn_tls_server_end_point(const struct net_conn *c, uint8_t out[64], size_t *ret_n);

/* The client's certificate, verified against TLS_CLIENT_CA and in its time. Texts are UTF-8 without NUL; what does not fit
 * is left empty (the certificate is not taken when that is the subject). */
struct net_tls_identity {
	char subject[512];      /* RFC 2253: "CN=alice,O=Example" */
	char fingerprint[65];   /* SHA-256, lower-case hex */
	char email[256];        /* first mail address in subjectAltName, or "" */
	char common_name[256];  /* the only CN, or "" */
};
/* NULL: no certificate was sent or asked for. Lives as long as the TLS session. */
const struct net_tls_identity *net_conn_tls_client_identity(struct net_conn *c);

#endif
