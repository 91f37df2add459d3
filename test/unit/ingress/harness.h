/* A whole ingress on ephemeral loopback ports without a database: the admission backend is a script in the
 * test's hand, the dispatcher a recorder, clients are sockets driven step by step in the same thread. Nothing
 * sleeps: the loop is turned until what is waited for has come, a bounded number of times. */
#ifndef TEST_INGRESS_HARNESS_H
#define TEST_INGRESS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "ingress/ingress_internal.h"

enum { FAKE_ROWS = 64, FAKE_HANDED = 64 };

struct fake_row {
	int64_t id;
	bool running;
	char *mail_from, *rcpts, *state; /* recipients joined by blanks */
	struct buf headers, body;
};

struct fake {
	/* the database */
	bool no_memory;             /* calls are answered from inside with STORE_FULL */
	bool hold_ids;              /* requests for ids wait for fake_give_ids() */
	store_ids_fn ids_fn;
	void *ids_arg;
	unsigned ids_n, ids_asked;
	int64_t next_id;
	store_admit_fn admit_fn;    /* not NULL: a batch waits for fake_commit() */
	void *admit_arg;
	struct {
		store_admit_fn fn;  /* not NULL: a batch of large ones waits for fake_commit_large() */
		void *arg;
		size_t n;
	} large[ADMIT_LARGE_MAX];
	size_t n_batch, batches;    /* rows of the waiting batch; batches so far */
	struct fake_row rows[FAKE_ROWS]; /* all rows ever sent */
	size_t n_rows;
	/* the dispatcher */
	const char *sender;         /* sender_key that is expected; NULL: the address */
	unsigned places;            /* reserve() says yes so often */
	unsigned reserved, unreserved, wakes, dues, n_handed;
	struct {
		int64_t id;
		bool has_content, in_fd;
		struct buf body;
		bool writable_fd;
	} handed[FAKE_HANDED];
};

struct world {
	char measured[400]; /* what the sink was told last */
	struct event_base *base;
	struct ingress *in;
	struct config *conf;
	struct fake fake;
	char dir[64];
};

/* Options beyond the harness's own, "section", "option", "value", …, NULL. The database is up. */
struct world *world_new(const char *const *options);
/* The same with a backend that has so many ways of its own for large messages. */
struct world *world_new_ways(const char *const *options, unsigned ways);
void world_free(struct world *w);
void world_turn(struct world *w);

void fake_give_ids(struct world *w, enum store_rc rc);
/* Answers the waiting batch: rcs NULL means all OK. */
void fake_commit_large(struct world *w, unsigned way);
void fake_commit(struct world *w, const enum store_rc *rcs);
void fake_commit_all(struct world *w, enum store_rc rc);

/* Rows seen so far are of no more interest. */
void fake_forget_rows(struct world *w);

struct client {
	struct world *w;
	int fd;
	struct buf in;
	bool closed;
};
struct client client_new(struct world *w);
struct client client_new_at(struct world *w, unsigned port); /* of another listener */
void client_free(struct client *c);
void client_send(struct client *c, const char *text);
void client_send_n(struct client *c, const char *p, size_t n);
/* Next whole reply (all its lines); fails the test when none comes. The text lives until the next call. */
const char *client_reply(struct client *c);
/* The reply begins so. */
void client_expect(struct client *c, const char *begin);
/* One turn of the loop; what has come is in c->in. */
void client_pull(struct client *c);
/* Nothing has been said. */
void client_quiet(struct client *c);
/* The server closed the connection. */
void client_closed(struct client *c);
/* Banner, EHLO. */
void client_hello(struct client *c);
/* MAIL, RCPT (to local), DATA up to the 354. */
void client_envelope(struct client *c);

#endif
