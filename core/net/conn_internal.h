/* Shared by conn.c (events, plain sockets), conn_tls.c (OpenSSL) and conn_peer.c (who the peer is); nobody else includes it. */
#ifndef NET_CONN_INTERNAL_H
#define NET_CONN_INTERNAL_H

#include "conn.h"

#include <event2/event_struct.h>

struct net_conn {
	struct event rd, wr;
	const struct net_conn_calls *calls;
	void *arg;
	SSL *ssl;
	struct net_tls *tls;
	struct net_tls_identity *identity; /* of the client's certificate, made when asked for */
	int fd;
	unsigned depth;       /* callbacks of ours on the stack */
	bool dead;            /* freed from inside a callback: go as soon as depth is 0 */
	bool reading;         /* the owner wants input */
	bool eof;             /* told */
	bool want_writable;   /* net_conn_write() left something */
	bool securing;        /* handshake under way */
	bool read_needs_write, write_needs_read; /* TLS: what a blocked call waits for */
};

enum { NET_INPUT = 64 * 1024, NET_TURNS = 4 }; /* octets per read, reads per turn of the loop */

/* One result of reading or writing, plain or TLS. */
enum net_io { NET_IO_OK, NET_IO_AGAIN, NET_IO_EOF, NET_IO_BROKEN };

enum net_io net_tls_read(struct net_conn *c, char *p, size_t size, size_t *ret_n);
enum net_io net_tls_write(struct net_conn *c, const char *p, size_t n, size_t *ret_n);
/* Goes on with the handshake. OK: done. */
enum net_io net_tls_handshake(struct net_conn *c);
void net_tls_end(struct net_conn *c);
/* What the last TLS failure was; lives until the next call. */
const char *net_tls_why(void);
/* Arms the read and write events for what is wanted now. */
void net_conn_arm(struct net_conn *c);

#endif
