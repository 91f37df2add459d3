/* A worker's own blocking connection: load rows by id, commit what modules decided. One sync, one implicit
 * transaction, for a whole batch of passes; when the batch fails, pass by pass, so that each stands for itself.
 * Serialization failures and deadlocks (40001, 40P01) are retried inside and counted. */
#ifndef PEPSI_STORE_WORKER_H
#define PEPSI_STORE_WORKER_H

#include "base/arena.h"
#include "base/str.h"
#include "store/conn.h"

struct store_worker;
struct pg_conn;

/* Connects lazily, at the first need. durable: transitions wait for the disk (DURABLE_COMPLETION). */
struct store_worker *store_worker_new(const struct store_params *params, bool durable);
void store_worker_free(struct store_worker *w);
/* The libpq connection for modules that declared PEPSI_CAP_DB (a second one, in autocommit, so that a module cannot
 * disturb the queue's transaction state); NULL when the database is away. After a try that took long none is made for some time. */
struct pg_conn *store_worker_module_db(struct store_worker *w);

/* A worker with a loop of its own does not stand still while the database is silent. wait: until fd can be read or written, as wanted (1), or ms are
 * over (0), while the loop turns; it may call anything but functions of this worker that wait (store_worker_module_db() is none of them then). And the
 * module's connection is made beside the loop: store_worker_module_db() returns NULL until it is there. base NULL: as before. */
struct event_base;
typedef int (*store_wait_fn)(void *arg, int fd, bool to_read, bool to_write, int ms);
void store_worker_live(struct store_worker *w, struct event_base *base, store_wait_fn wait, void *arg);

struct store_row {
	int64_t id, body_id, received_at;
	struct str stage, status, mail_from, state;
	struct str *rcpts;
	size_t n_rcpts;
	struct str headers, body; /* as far as loaded */
};
/* Loads the rows with these ids (any order, missing ones are skipped; whatever their status, which the caller checks) in one SELECT.
 * load: PEPSI_LOAD_*. All memory from the arena, texts NUL-terminated. *ret_rows has *ret_n entries. */
enum store_rc store_worker_load(struct store_worker *w, struct arena *a, const int64_t *ids, size_t n, uint32_t load,
    struct store_row **ret_rows, size_t *ret_n);

/* Which columns a pass touched. */
#define STORE_SET_HEADERS 1u
#define STORE_SET_BODY 2u
#define STORE_SET_MAIL_FROM 4u
#define STORE_SET_RCPT_TO 8u
#define STORE_STATE_MERGE 16u  /* state || $new, then null-valued top-level keys removed */
#define STORE_STATE_REPLACE 32u /* state = $new: the bounce stage. Counts the old message as bounced and the new one as accepted */

/* STORE_RUNNING: a MOVE to a stage at which the same pass goes on (it is the first op then); see from_stage. */
enum store_status { STORE_PENDING, STORE_PAUSED, STORE_FAILED, STORE_RUNNING };

#define STORE_PAUSE_ENDLESS UINT32_MAX

struct store_clone { /* PEPSI_CLONE_* of <pepsi/stage.h> */
	const char *stage;
	uint32_t status;
	uint32_t retry_s;
	bool fresh_rcpts;          /* rcpts below; else indices into the row's rcpt_to as loaded */
	const uint32_t *indices;
	const struct str *rcpts;
	size_t n;
	const char *state;         /* or NULL */
	const struct str *mail_from; /* NULL: same */
	char token[33];            /* hex; set by the caller, unique per clone: makes it at most once */
};

enum store_op_kind {
	STORE_OP_MOVE,    /* new stage/status and touched columns: one UPDATE of exactly these */
	STORE_OP_PAUSE,   /* workqueue_pause: keep indices, state merge, timeout, clones */
	STORE_OP_FINISH,  /* DELETE, with clones: workqueue_finish_with_clones */
	STORE_OP_SPLIT,   /* workqueue_split: siblings from groups, this row keeps `keep`; followed by another op of the same pass */
	STORE_OP_INJECT,  /* workqueue_inject: a side message */
};

struct store_op {
	enum store_op_kind kind;
	int64_t id;               /* the row (for INJECT: the row of the pass it belongs to) */
	const char *from_stage;   /* act only while the row is at this stage (case folded); NULL: at any. Makes a commit that is
	                           * tried again after a lost answer harmless: the row may be running at its next stage by then */
	uint32_t touched;         /* MOVE: STORE_SET_* */
	const char *stage;        /* MOVE (NULL: stays), INJECT */
	enum store_status status; /* MOVE */
	uint32_t pause_s;         /* PAUSE; MOVE with STORE_PAUSED. STORE_PAUSE_ENDLESS: until somebody resumes it */
	struct str headers, body, mail_from;
	const struct str *rcpts;
	size_t n_rcpts;
	const char *state;        /* JSON object to merge or to set (MOVE: as `touched` says); NULL: none */
	const uint32_t *keep;     /* PAUSE, SPLIT: indices; NULL: all. SPLIT: not NULL with n_keep 0: none, when a FINISH follows */
	size_t n_keep;
	const struct store_clone *clones;
	size_t n_clones;
	const char *outcome;      /* FINISH: "delivered", "discarded" or "bounced" */
};

/* What else waits at this stage for this domain is put off, too (workqueue_put_off in db/procedures.sql): due one after the other. */
struct store_put_off {
	const char *stage;
	struct str domain;
	uint32_t first_s, each_ms;
	const char *error;        /* for state.last_error */
	int64_t life_s;           /* MAX_LIFETIME there */
};

/* The ops of one pass, in order; committed together or not at all. */
struct store_pass {
	int64_t id;
	const struct store_op *ops;
	size_t n_ops;
	const struct store_put_off *put_off; /* NULL: nothing. Done with the pass where it can be; left out where the database refuses it */
	enum store_rc rc;         /* filled in */
	char err[200];            /* when rc is not STORE_OK: one line */
};
/* Commits passes in one pipelined transaction, or one by one after an error. Each id at most once. An op whose row is no
 * longer running at from_stage (somebody deleted it) does nothing and is no error. MOVEs to STORE_RUNNING are done first, then
 * SPLIT and INJECT, then the other ops of a pass. Single FINISHes without clones, MOVEs that touch neither headers nor body nor
 * replace the state, and PAUSEs without keep and clones become one statement per kind for the whole batch. Returns STORE_OK
 * when the connection worked, whatever the single results. After STORE_AWAY nobody knows what happened, and the row may be another worker's by now: do not commit
 * the pass again; answer with an error and let the dispatcher find out with store_still_running(). */
enum store_rc store_worker_commit(struct store_worker *w, struct store_pass *passes, size_t n);
/* Serialization retries so far. */
uint64_t store_worker_retries(const struct store_worker *w);

/* What this connection cost the server so far, tries included. */
struct store_worker_counts {
	uint64_t selects; /* statements that load rows */
	uint64_t writes;  /* statements that change rows: an array UPDATE for fifty rows is one */
	uint64_t trips;   /* round trips: transactions waited for */
	uint64_t retries; /* 40001 and 40P01 */
	uint64_t put_off; /* rows put off with another one */
};
struct store_worker_counts store_worker_count(const struct store_worker *w);

#endif
