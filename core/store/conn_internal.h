/* The inside of a connection: calls. A call is one or more statements closed by one sync, hence one transaction; it is
 * made with call_new(), filled by call_add(), and given away with call_send(), which always leads to exactly one done().
 *
 * One claim, told: call_new() with the caller's done function; call_add(STMT_CLAIM) and its two arrays; call_send() puts it into
 * libpq's output, behind the PREPARE if this connection has not met the statement; the rows arrive in result(), which
 * copies them into the call's own memory; the sync arrives and done() gives them to the dispatcher. If the connection breaks in
 * between, done() comes with STORE_AWAY. */
#ifndef PEPSI_STORE_CONN_INTERNAL_H
#define PEPSI_STORE_CONN_INTERNAL_H

#include "store/conn.h"
#include "store/connect.h"
#include "store/params.h"
#include "store/stmt.h"

enum {
	CALL_STMTS_MAX = 2048,
	/* Parameters of all calls that are not answered: what the output buffer can hold at most. */
	CONN_PENDING_OCTETS = 256 * 1024 * 1024,
	/* After a statement larger than this the next one waits until libpq has written it: its output buffer is moved as a
	 * whole at each write, so that what is long in it costs the square of its length. */
	CONN_LARGE_STMT = 64 * 1024,
};

struct call_stmt {
	enum stmt_id id;
	struct params params;
};

struct call {
	struct call *next;
	struct store_conn *c;
	/* One statement answered without error; stmt counts from 0. Optional. The transaction is not committed yet. */
	void (*result)(struct call *, unsigned stmt, const PGresult *res);
	/* The transaction is over; err is "" when rc is STORE_OK. The call is freed afterwards. */
	void (*done)(struct call *, enum store_rc rc, const char *err);
	bool once;           /* no retry inside: parameters are freed as soon as they are sent */
	/* the rest belongs to conn*.c */
	struct call_stmt *stmts;
	unsigned n_stmts, cap_stmts, at, tries;
	unsigned fed;        /* statements given to libpq */
	int prepares;        /* a PREPARE of its own: the statement's number; else -1 */
	size_t octets;
	int64_t sent_us;
	enum store_rc rc;
	bool failed;         /* could not be filled */
	bool again;          /* serialization failure or deadlock */
	char err[STORE_ERR_MAX];
};

struct call_list {
	struct call *head, **tail;
};

enum conn_state { CONN_WAITING, CONN_CONNECTING, CONN_SETUP, CONN_UP };

struct store_conn {
	struct event_base *base;
	struct store_params params; /* strings owned */
	store_state_fn state_fn;
	void *state_arg;
	store_notify_fn notify_fn;
	void *notify_arg;
	enum stmt_id listens[4];
	size_t n_listens;

	enum conn_state state;
	PGconn *pg;
	struct event *ev_read, *ev_write; /* on the socket */
	struct event *timer;  /* next attempt, end of an attempt, or watch over unanswered calls */
	struct event *kick;   /* what may not happen inside a caller's call */
	struct call_list queued; /* not begun: the output is blocked */
	struct call_list sent, late; /* in the pipeline; to be failed from the event loop */
	struct call *feeding; /* the last of sent, when its statements are not all in libpq yet */
	unsigned owed;        /* results that libpq still owes us: more must not be asked of it */
	bool blocked;         /* libpq holds what the socket did not take */
	unsigned n_pending;
	uint64_t retries;     /* 40001 and 40P01 so far */
	size_t pending_octets;
	int64_t heard_us;     /* when the server last sent anything */
	int64_t backoff_us;
	bool prepared[STMT_N];
	enum store_rc prepare_rc; /* of the last PREPARE, and why */
	char prepare_err[STORE_ERR_MAX];
	bool told, broken;    /* told: the first attempt's end is known; broken: libpq refused a call: drop from the event loop */
	unsigned busy;        /* inside callbacks */
	bool closed;          /* by a callback: freed when busy is over */
	char why[STORE_ERR_MAX];
};

/* size: of a struct that begins with a struct call, zeroed. NULL when memory is out. */
void *call_new(size_t size, void (*done)(struct call *, enum store_rc, const char *));
/* The parameters of one more statement, to be filled in order. Never NULL: out of memory is remembered. */
struct params *call_add(struct call *call, enum stmt_id id);
/* Gives the call away. done() is never called from inside here. */
void call_send(struct store_conn *c, struct call *call);
/* A call that was never sent. */
void call_free(struct call *call);

/* --- between conn.c and conn_io.c --- */

void call_list_init(struct call_list *l);
void call_list_put(struct call_list *l, struct call *call);
struct call *call_list_take(struct call_list *l);
/* Ends a call: done(), then frees it. */
void call_end(struct store_conn *c, struct call *call, enum store_rc rc, const char *err);
/* Ends all calls of `late`, with what was noted in each. */
void conn_end_late(struct store_conn *c);
/* Puts a call into the pipeline, as far as there is room; the rest follows from conn_flush(). */
void conn_put(struct store_conn *c, struct call *call);
/* Writes what libpq holds, and what waits behind that; keeps the write event right. */
void conn_flush(struct store_conn *c);
/* Reads what has come, answers calls, delivers notifications. Sets c->broken when the connection is no more. */
void conn_receive(struct store_conn *c);
/* The connection is no more: calls are answered with STORE_AWAY, the next attempt is planned. */
void conn_drop(struct store_conn *c, const char *why);
/* Frees the connection if a callback closed it. True: it is gone. */
bool conn_reap(struct store_conn *c);

#endif
