/* One asynchronous database connection of the reactor, driven by libevent: libpq pipeline mode, prepared statements,
 * reconnect with decorrelated backoff. Typed calls on it are in queue.h; SQL text stays inside core/store.
 *
 * Calls made while the connection is away fail at once with STORE_AWAY through their callback (never re-entrantly: from
 * the event loop; only a caller for whom no memory is left at all is answered with STORE_FULL from inside the call). Each
 * call is a transaction of its own; callbacks come in the order of the calls, but for those that met a serialization
 * failure and were sent again. No explicit BEGIN is ever sent. A server that leaves a call unanswered for 30 s is
 * given up; statements end after 25 s. A host name in the conninfo is resolved by libpq, which blocks: give
 * hostaddr=, or a name that is in /etc/hosts. */
#ifndef PEPSI_STORE_CONN_H
#define PEPSI_STORE_CONN_H

#include "base/str.h"

#include <event2/event.h>

struct store_conn;

enum store_rc {
	STORE_OK = 0,
	STORE_REPEAT = 1,   /* admission: taken before (struct store_message once); nothing was made, and all is well */
	STORE_AWAY = -1,    /* no connection, or it broke before the answer: whether it happened is unknown */
	STORE_REFUSED = -2, /* the database said no (constraint, grant, bad text); not done */
	STORE_RETRY = -3,   /* serialization failure or deadlock after all retries, or a statement's time was up; not done */
	STORE_FULL = -4,    /* disk full, I/O error, out of memory (there or here), too many connections; not done */
};

struct store_params {
	const char *conninfo; /* libpq connection string or URI ("postgres://" too) */
	const char *role;     /* user to connect as when conninfo names none; NULL: libpq's default */
	const char *set_role; /* SET ROLE after connecting, where the server grants it; NULL: no */
	const char *name;     /* application_name, "pepsi dispatch" */
	unsigned answer_s;    /* a server that does not answer for so long is given up; 0: the default, 30 s, which is the most */
	bool async_commit;    /* synchronous_commit = off for this connection (never for admission) */
};

/* Called on each change; up is false with err (libpq's text, one line) when it went away, and once when the first attempt
 * fails. Calls that were pending have been answered by then. */
typedef void (*store_state_fn)(void *arg, struct store_conn *c, bool up, const char *err);
/* LISTEN notifications of this connection. */
typedef void (*store_notify_fn)(void *arg, const char *channel, const char *payload);

/* Begins to connect; params are copied. NULL when memory is out. */
struct store_conn *store_conn_open(struct event_base *base, const struct store_params *params, store_state_fn state, void *arg);
/* Pending callbacks are called with STORE_AWAY before it returns. May be called from a callback. Accepts NULL. */
void store_conn_close(struct store_conn *c);
bool store_conn_up(const struct store_conn *c);
/* Requests sent and not yet answered. */
unsigned store_conn_pending(const struct store_conn *c);
/* Serialization failures and deadlocks (40001, 40P01) so far, each of which was tried again; over all reconnects. */
uint64_t store_conn_retries(const struct store_conn *c);
/* LISTEN on channels (n of workqueue, config_changed, workqueue_failed, recipient_changed), again after each reconnect. Such a connection should
 * serve nothing else. Best called right after store_conn_open(). -1: an unknown channel. */
int store_conn_listen(struct store_conn *c, const char *const *channels, size_t n, store_notify_fn fn, void *arg);

#endif
