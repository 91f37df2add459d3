/* Which stages can follow in the same pass (requirement C8), and their modules, loaded when first needed. A stage is run in
 * another stage's worker when
 *   - [pepsi] ALLOW_FUSION is on, and [stage-x] ALLOW_FUSION of the one that would follow;
 *   - its account and groups are those of the worker's stage, its MEMORY_LIMIT is not larger, and its module needs no rights
 *     that this worker gave up (PEPSI_CAP_HELPER);
 *   - what its module loads is in memory; its can_fuse() says 1, if it has one;
 *   - it did not run in this pass before (a loop goes through the queue, where others get their turn), and the chain is shorter
 *     than PASS_HOPS_MAX;
 *   - nothing bad is known: the row never cost a worker its life (state.dispatch_error), and the dispatcher has not seen that
 *     stage, or the worker's own, crash or overrun lately;
 *   - it did not run MAX_MESSAGES times here: then this worker is worn, and asks to be replaced;
 *   - it is quick here: one that takes FUSE_SLOW_US on average is left to its own workers for FUSE_REST_US, so that a next
 *     hop which answers slowly keeps its own PARALLELISM busy and not that of the stages before it.
 * In every other case the row is written, and the queue brings it there. */
#ifndef PEPSI_WORKER_FUSE_H
#define PEPSI_WORKER_FUSE_H

#include "config/overlay.h"
#include "pass.h"

enum {
	FUSE_SLOW_US = 100 * 1000,
	FUSE_REST_US = 10 * 1000 * 1000,
	FUSE_STAGES_MAX = 256,
};

struct fuse_setup {
	struct config *c;
	struct pg_conn *(*database)(void *arg); /* for modules with PEPSI_CAP_DB */
	void *database_arg;
	const volatile int *stop;               /* set: go on with nothing */
	/* Called before a hop begins; false: the chain ends here. */
	bool (*before)(void *arg, const struct worker_env *hop);
	void *before_arg;
	const struct config_overlay *overlay;   /* laid over the section of a stage when its module is known; or NULL */
	const struct steer *steer;              /* an operator's rules; or NULL */
};

struct fuse;
/* env is the worker's own stage; its successor function is set. NULL: memory, or ALLOW_FUSION is off: there is none then. */
struct fuse *fuse_new(struct worker_env *env, const struct fuse_setup *setup);
/* A pass is over: how long its hops took. */
void fuse_learn(struct fuse *f, const struct pepsi_msg *msg);
/* Did a stage run here as often as its MAX_MESSAGES says? */
bool fuse_worn(const struct fuse *f);
/* close()s what was opened. Accepts NULL. */
void fuse_free(struct fuse *f);

/* The environment of a stage out of its section; state, more and successor are the caller's. */
void fuse_env(struct worker_env *env, const struct config *c, const struct worker_module *mod, const struct pepsi_conf *conf);
/* Options of a section that do not parse, for conf_init(): logs each. arg: struct fuse_fault_ctx. */
struct fuse_fault_ctx {
	const struct config *c;
	const char *section;
};
void fuse_log_fault(void *arg, const char *option, const char *text);
/* Lays the overlay over the section of a stage; what is refused is logged and left out. o: or NULL. */
void fuse_overlay(struct config *c, const struct config_overlay *o, const char *section, const struct worker_module *mod);

#endif
