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
	/* A hop with effects outside (RUN_EFFECT) can stall for as long as MAX_RUNTIME lets it, and any hop can crash. Before one
	 * begins, outcomes with effects are committed when they have waited this long; and at once when they are another module's,
	 * until this one has run RUN_PROVEN times here without harm. So what a stall holds up, and a crash repeats, is what was
	 * done within so many microseconds, however fast the passes are, and nothing where a module is new. */
	RUN_PROVEN = 200,
	RUN_HOLD_EFFECT_US = 4 * 1000,
};
#define RUN_EFFECT (PEPSI_CAP_DELIVER | PEPSI_CAP_NET | PEPSI_CAP_FILES | PEPSI_CAP_HELPER)

/* Everything a run needs besides the passes; the functions make it testable without a database. */
struct run_store {
	void *arg;
	/* store_worker_load() and store_worker_commit() */
	enum store_rc (*load)(void *arg, struct arena *a, const int64_t *ids, size_t n, uint32_t load, struct store_row **ret_rows,
	    size_t *ret_n);
	enum store_rc (*commit)(void *arg, struct store_pass *passes, size_t n);
	/* store_worker_live(), for serve.c; may be NULL: the two above wait by themselves */
	void (*live)(void *arg, struct event_base *base, store_wait_fn wait, void *wait_arg);
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
	struct fuse *fuse;   /* or NULL: nothing is fused */
	bool by_id;          /* answers carry the id, in any order; nothing waits for a database that is away: serve.c */
	/* serve.c: the pass is committed and answered. NULL: it goes back to those below. */
	void (*release)(struct run *r, struct pepsi_msg *m);
	void *release_arg;

	/* private to run.c */
	struct pepsi_msg msgs[RUN_BATCH], *spare[RUN_BATCH];
	size_t n_spare;
	bool begun;
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
	uint64_t caps;       /* of all hops in the slots */
	const struct worker_env *effect; /* whose hops among them had effects outside; NULL: nobody's */
	bool effects_mixed;  /* several stages' */
	bool worn_said;
	int64_t first_us;
	int64_t unwritten_since; /* run_try() found no database since then; 0: it did */
	bool lost;           /* a commit within a pass found nobody to be answered */
};

/* Runs until the input ends, the limit is reached or stop is set. 0: orderly, 1: the channel is unusable (logged). */
int run_loop(struct run *r);
void run_done(struct run *r);

/* The same for a module that drives many messages at once, over an engine that was made already (the module was opened with it). Returns
 * the exit status; *ret_left: ids are left that nobody answers, messages are perhaps still pending: the process is to end without close().
 * serve.c */
struct concurrent_owner;
struct serve;
struct serve *serve_new(struct run *r);
/* What concurrent_new() wants. */
struct concurrent_owner serve_owner(struct serve *s);
struct concurrent;
int serve_loop(struct serve *s, struct concurrent *c, bool *ret_left);
void serve_free(struct serve *s); /* after concurrent_free(); accepts NULL */

/* For struct fuse_setup: commits what this hop could endanger. arg: the run. false: nobody is there to be answered. */
bool run_before_hop(void *arg, const struct worker_env *hop);
/* batch.c: runs the ready items at the head of the queue through process_batch(). */
void run_batch(struct run *r);
/* run.c, for batch.c: a message that is free, begun over the item (NULL: memory); its place among the answers, when its pass
 * is over. */
struct pepsi_msg *run_begin(struct run *r, struct item *it);
void run_over(struct run *r, struct item *it, struct pepsi_msg *m);
/* run.c, for the others: a place among the answers (there are RUN_BATCH); a pass that is over put into it; a message that is answered without
 * a pass; content that a pass holds for its commit; is the dispatcher gone? */
struct run_slot *run_slot_new(struct run *r, int64_t id);
void run_take(struct run *r, struct run_slot *s, struct pepsi_msg *m);
void run_refuse(struct run *r, struct item *it);
size_t run_octets_held(const struct pepsi_msg *m);
bool run_nobody_there(const struct run *r);
/* load.c: loads the first bare items of the queue. 0; -1: nobody is there to be answered; 1: by_id, and the database is away. */
int run_load(struct run *r);
/* commit.c: tells the dispatcher that the module is open, and gives it the page (-1: none). 0, -1: nobody is there. */
int run_ready(struct run *r, int page_fd);
/* commit.c: settles all slots (retrying as long as it makes sense), writes the log and the status lines. 0, -1: nobody
 * is there to be answered. */
int run_commit(struct run *r);
/* The same, one try. 0: all is answered; 1: the database is away, come again with the same slots; -1: nobody is there. */
int run_try(struct run *r);
/* by_id: says that nothing more will be begun. */
int run_leaving(struct run *r);

#endif
