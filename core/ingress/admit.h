/* Admission by group commit. While one commit is in flight finished messages gather; then they go together,
 * bounded in rows and octets. Queue ids are reserved in blocks ahead, so that the Received field can carry
 * them.
 *
 * Told: admit_submit() puts a message into a gather list and asks for a run at the end of this turn of the
 * event loop (all sessions that were readable have been served by then). The run gives each message its id,
 * composes it, asks the dispatcher for a place, and sends one batch. With the database's answer the next batch
 * is sent first, so that it works while we talk to the clients, and then done() is called with the messages and
 * what became of each.
 *
 * Bodies above ADMIT_LARGE go in batches of their own, beside the small ones when the backend has ways of its own for them,
 * so that small mail does not wait for large; else taking turns. Knows no SMTP. */
#ifndef INGRESS_ADMIT_H
#define INGRESS_ADMIT_H

#include "ingress.h"
#include "message.h"

enum {
	ADMIT_LARGE = 256 * 1024,
	ADMIT_IDS_LOW = 1000,   /* fewer in hand: more are fetched */
	ADMIT_IDS_BLOCK = 2000,
	ADMIT_IDS_MAX = 8000,
	ADMIT_ROWS_MAX = 10000,
	ADMIT_LARGE_MAX = 2,    /* ways for large messages: while one waits for the disk, the other inserts */
};

/* The database as the admission sees it (store/queue.h; tests put a scripted one here). A callback comes from the
 * event loop, or, when memory is out, from inside the call. */
struct admission_backend {
	void (*reserve_ids)(void *ctx, unsigned n, store_ids_fn fn, void *arg);
	void (*admit)(void *ctx, const struct store_message *msgs, size_t n, store_admit_fn fn, void *arg);
	void *ctx;
	/* The same for large messages: ways independent of the other and of each other, 0 to n_large - 1, ADMIT_LARGE_MAX at most. */
	void (*admit_large)(void *ctx, unsigned way, const struct store_message *msgs, size_t n, store_admit_fn fn, void *arg);
	unsigned n_large;
};

/* STORE_OK: committed. n <= ADMIT_ROWS_MAX. The messages belong to the callee again. */
typedef void (*admit_done_fn)(void *arg, struct message *const *msgs, const enum store_rc *rcs, size_t n);

enum { ADMIT_BUCKETS = 12 };
struct admit_stats {
	uint64_t batches, rows, failed_rows;
	uint64_t rows_le[ADMIT_BUCKETS];    /* batches of at most 1, 2, 4, … rows; the last: all */
	uint64_t time_le[ADMIT_BUCKETS];    /* batches within 0.5, 1, 2, … ms; the last: all */
	int64_t time_us;
	unsigned waiting, in_flight, ids;   /* now */
};

struct admit;

struct admit *admit_new(struct event_base *base, const struct admission_backend *be, const struct ingress_sink *sink,
    admit_done_fn done, void *arg);
/* Answers that come later find nobody. Messages still inside are forgotten, not freed; the backend must not be at work on
 * them any more when they are (close its connection first). Accepts NULL. */
void admit_free(struct admit *a);
void admit_limits(struct admit *a, unsigned rows, size_t octets);
/* The database came (ids in hand are thrown away: another server may not know that they were given out) or went
 * (messages not yet sent fail with STORE_AWAY). */
void admit_database(struct admit *a, bool up);
void admit_submit(struct admit *a, struct message *m);
void admit_stats(const struct admit *a, struct admit_stats *ret);

#endif
