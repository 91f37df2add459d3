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
	bool patient, trickles;
	bool ended;           /* the last reading ended a line */
	uint8_t tiny;         /* readings in a row that were; the first of them at tiny_us */
	uint8_t pause, left;  /* of looks */
	int64_t tiny_us;
	bool read_needs_write, write_needs_read; /* TLS: what a blocked call waits for */
};

enum { NET_INPUT = 64 * 1024, NET_TURNS = 4 }; /* octets per read, reads per turn of the loop */

enum {
	NET_TINY = 16,             /* octets of a reading; a TLS record that is not complete counts as none */
	NET_TRICKLE_READS = 4,     /* gaps between readings in a row; a segmented line or handshake has fewer */
	NET_TRICKLE_GAP_US = 100000, /* on average at least; writing octet by octet at full speed is bad manners only */
	NET_TRICKLE_WAKE = 64,
	NET_TRICKLE_PAUSE = 4,     /* seconds between looks, at most */
};

/* One result of reading or writing, plain or TLS. */
enum net_io { NET_IO_OK, NET_IO_AGAIN, NET_IO_EOF, NET_IO_BROKEN };

enum net_io net_tls_read(struct net_conn *c, char *p, size_t size, size_t *ret_n);
enum net_io net_tls_write(struct net_conn *c, const char *p, size_t n, size_t *ret_n);
/* Goes on with the handshake. OK: done. */
enum net_io net_tls_handshake(struct net_conn *c);
void net_tls_end(struct net_conn *c);
/* What the last TLS failure was; lives until the next call. */
const char *net_tls_why(void);
/* A reading brought these octets of the peer's: does it trickle? */
void net_conn_weigh(struct net_conn *c, const char *p, size_t n);
/* Arms the read and write events for what is wanted now. */
void net_conn_arm(struct net_conn *c);

#endif
