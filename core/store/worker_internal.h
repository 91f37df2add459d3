/* Shared by worker.c and worker_commit.c: the worker's connection and a list of statements for one transaction. */
#ifndef PEPSI_STORE_WORKER_INTERNAL_H
#define PEPSI_STORE_WORKER_INTERNAL_H

#include "store/conn_internal.h"
#include "store/worker.h"

struct stmt_list {
	struct call_stmt *v;
	unsigned n, cap;
	bool failed; /* out of memory */
};
/* The parameters of one more statement. Never NULL: a failure is remembered in the list. */
struct params *stmt_list_add(struct stmt_list *l, enum stmt_id id);
void stmt_list_free(struct stmt_list *l);

/* Runs the statements as one transaction and waits for its end. fn gets each statement's result (may be NULL). err: one
 * line. *again: it was a serialization failure or deadlock. Connects when there is no connection; after STORE_AWAY there
 * is none. */
typedef void (*worker_result_fn)(void *arg, unsigned stmt, const PGresult *res);
enum store_rc worker_run(struct store_worker *w, const struct stmt_list *l, worker_result_fn fn, void *arg, char *err,
    size_t err_size, bool *again);
/* Counts one retry and waits a moment, longer with each try, never the same. */
void worker_retry_wait(struct store_worker *w, unsigned tries);

/* Counts rows that were put off with others. */
void worker_put_off(struct store_worker *w, uint64_t n);

/* How to wait; fn NULL: in poll(). */
struct worker_wait {
	store_wait_fn fn;
	void *arg;
};
/* A connection that is set up, or NULL with one line in err. Waits. */
PGconn *worker_connect(const struct worker_wait *by, const struct store_params *params, char *err, size_t err_size);
/* Waits until a result can be taken without blocking, writing what is still to be written. 0, or -1: connection gone or
 * silent for too long. */
int worker_await(const struct worker_wait *by, PGconn *pg);

/* worker_module.c: the module's connection. */
struct module_link {
	PGconn *pg;                /* NULL: there is none */
	int64_t rest_us;           /* none is tried before */
	struct event_base *base;   /* NULL: it is waited for */
	PGconn *coming;            /* on its way, in the loop */
	struct event *ev;
	bool setup;                /* it is there, its settings are under way */
	int64_t began_us;
	struct store_params params; /* of the worker, with a name of its own */
	char name[64];
};
PGconn *module_link_get(struct module_link *m, const struct store_params *params);
void module_link_live(struct module_link *m, struct event_base *base);
void module_link_done(struct module_link *m);

/* Appends the clones as the JSON array that workqueue_clone() takes. */
int clone_json(struct buf *out, const struct store_clone *clones, size_t n);

#endif
