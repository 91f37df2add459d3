/* The worker's loop: take what is there, load what did not come along, run passes, commit them together, answer in order. */
#ifndef PEPSI_WORKER_RUN_H
#define PEPSI_WORKER_RUN_H

#include "input.h"
#include "pass.h"

enum {
	RUN_BATCH = 50,                     /* passes in one commit */
	RUN_OCTETS_MAX = 8 * 1024 * 1024,   /* content read ahead, and content held for one commit */
	RUN_HOLD_US = 20 * 1000,            /* an outcome waits no longer than this for others: a crash would repeat it */
	RUN_SLOW_US = 5 * 1000,             /* a module that takes longer is committed at once: waiting gains nothing there */
};

/* Everything a run needs besides the passes; the functions make it testable without a database. */
struct run_store {
	void *arg;
	/* store_worker_load() and store_worker_commit() */
	enum store_rc (*load)(void *arg, struct arena *a, const int64_t *ids, size_t n, uint32_t load, struct store_row **ret_rows,
	    size_t *ret_n);
	enum store_rc (*commit)(void *arg, struct store_pass *passes, size_t n);
};

struct run {
	struct worker_env *env;
	const struct config *c;
	struct run_store store;
	struct input in;
	int out_fd;          /* status lines */
	bool by_hand;
	uint64_t max_messages;
	const volatile int *stop; /* SIGTERM came */
	int stop_fd;         /* readable then */
	unsigned patience_s; /* how long to wait for a database that is away before a batch is given back */
	bool failed_some;    /* by hand: a row was refused */

	/* private to run.c */
	struct pepsi_msg msgs[RUN_BATCH];
	struct run_slot {
		int64_t id;
		struct pepsi_msg *msg; /* NULL: answered without a pass */
		int status;
		char json[640];
		int64_t took_us;
		bool settled;
	} slots[RUN_BATCH];
	size_t n_slots, chunk;
	size_t held;
	int64_t first_us;
};

/* Runs until the input ends, the limit is reached or stop is set. 0: orderly, 1: the channel is unusable (logged). */
int run_loop(struct run *r);
void run_done(struct run *r);

/* commit.c: tells the dispatcher that the module is open. 0, -1: nobody is there. */
int run_ready(struct run *r);
/* commit.c: settles all slots (retrying as long as it makes sense), writes the log and the status lines. 0, -1: nobody
 * is there to be answered. */
int run_commit(struct run *r);

#endif
