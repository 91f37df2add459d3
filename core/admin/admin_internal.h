/* Shared by the two doors: one kind of connection with input, output, a deadline and an orderly end; the list of who
 * waits for the database; small writers. Nobody outside core/admin includes it. */
#ifndef ADMIN_INTERNAL_H
#define ADMIN_INTERNAL_H

#include "admin/admin.h"
#include "base/buf.h"
#include "base/map.h"
#include "net/conn.h"
#include "net/listener.h"

#include <sys/types.h>

enum {
	ADMIN_HTTP_MAX = 64,             /* HTTP connections; a scraper needs one */
	ADMIN_HTTP_PER_ADDRESS = 32,     /* loopback is one address for all local clients */
	ADMIN_CONTROL_MAX = 64,          /* control connections */
	ADMIN_STORE_PENDING_MAX = 1000,  /* unanswered database requests above which nothing new is asked */
	ADMIN_BIND_MAX = 16,
};

struct admin_peer;
struct admin_peer_calls {
	void (*input)(struct admin_peer *p);   /* p->in holds something */
	void (*eof)(struct admin_peer *p);     /* nothing more will come */
	void (*drained)(struct admin_peer *p); /* p->out is written, not called within admin_peer_send() */
	void (*expired)(struct admin_peer *p); /* the deadline passed */
	void (*release)(struct admin_peer *p); /* frees what contains p */
};

/* One connection. It is never freed inside a call into this file: closing marks it dead, and the loop frees it. */
struct admin_peer {
	struct admin *a;
	const struct admin_peer_calls *calls;
	struct net_conn *conn;
	struct buf in, out;
	struct event *timer;
	uint64_t id;     /* its key in a->peers */
	uint64_t waits;  /* number of the answer it waits for; a late one carries another number */
	int fd;
	bool eof, lingering, dead;
	unsigned *count; /* of its kind; decremented at the end */
};

/* Takes fd. in_max, out_max: bounds of the buffers. 0, or -1 (fd is closed, release not called, *count untouched). */
int admin_peer_init(struct admin_peer *p, struct admin *a, int fd, const struct admin_peer_calls *calls, size_t in_max,
    size_t out_max, unsigned *count);
/* One timer, so a new deadline replaces the former. 0: none. */
void admin_peer_deadline(struct admin_peer *p, unsigned ms);
void admin_peer_read(struct admin_peer *p, bool on);
/* Writes what can be written. True: all of it is out. A broken connection becomes dead. */
bool admin_peer_send(struct admin_peer *p);
/* Everything is sent: says so to the other side and waits a moment for its close, so that what it still sends does not
 * turn our last answer into a reset. */
void admin_peer_finish(struct admin_peer *p);
void admin_peer_close(struct admin_peer *p);

/* A question to the database whose answer may come after its asker, or after the admin itself, is gone. */
struct admin_ticket {
	struct admin *a;
	struct admin_ticket *prev, *next;
	uint64_t peer, waits;
};
/* NULL when memory is out. The peer then waits for this answer and no other. */
struct admin_ticket *admin_ticket_new(struct admin_peer *p);
/* Frees the ticket; returns the asker if it still waits, else NULL. */
struct admin_peer *admin_ticket_redeem(struct admin_ticket *t);

/* Asks for the counts in one snapshot taken after this call; fn comes once, with NULL when the database did not answer,
 * unless admin_counts_forget() came first. Many askers share one query. */
typedef void (*admin_counts_fn)(struct admin_peer *p, const struct store_counts *counts);
int admin_counts_ask(struct admin_peer *p, admin_counts_fn fn);
void admin_counts_forget(struct admin_peer *p);

struct admin_waiter {
	struct admin_waiter *next;
	uint64_t peer;
	admin_counts_fn fn;
};

struct admin {
	struct event_base *base;
	struct store_conn *db;
	struct admin_source source;
	struct map peers;
	uint64_t last_id;
	struct admin_ticket *tickets;
	bool counting;                         /* a query is on its way */
	struct admin_waiter *counted, *to_count; /* who gets its answer; who came too late for it */
	int64_t started;                       /* monotonic */
	bool embedded;

	int http_fds[ADMIN_BIND_MAX];
	struct net_listener *http[ADMIN_BIND_MAX];
	size_t n_http;
	char *hosts;
	unsigned http_peers;
	uint64_t http_requests, http_refused, http_evicted;

	int control_fd;
	struct net_listener *control;
	char control_path[108];
	dev_t control_dev;
	ino_t control_ino;
	uid_t owner_uid;
	gid_t owner_gid;
	unsigned control_peers;
	uint64_t control_requests;
	bool reloading;
	struct control_lookup *lookups; /* control_dns.c */
};

bool admin_db_up(const struct admin *a);
/* Why mail is not accepted, or true. */
bool admin_healthy(const struct admin *a, char *reason, size_t size);

/* http.c */
int admin_http_bind(struct admin *a, const struct config *c, struct config_faults *faults);
int admin_http_start(struct admin *a);
/* metrics.c; counts NULL: the database is away. */
void admin_metrics_write(struct admin *a, const struct store_counts *counts, struct buf *out);
/* status.c */
void admin_status_write(struct admin *a, const struct store_counts *counts, struct buf *out);
/* control.c */
int admin_control_bind(struct admin *a, const char *state_dir, struct config_faults *faults);
int admin_control_start(struct admin *a);
void admin_control_unlink(struct admin *a);

#endif
