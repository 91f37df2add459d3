/* The rules that hold and reroute mail (pepsi.queue_rule), as a worker reads them when it starts. How operators make and remove them is in
 * queue.h. */
#ifndef PEPSI_STORE_RULE_H
#define PEPSI_STORE_RULE_H

#include "store/worker.h"

enum { STORE_RULES_MAX = 1000 };

/* What is not wanted has a NULL pointer; a sender of n 0 is the null sender. Addresses are lower case, "@domain" is everybody there. */
struct store_rule {
	int64_t id;
	bool hold;                  /* else: reroute */
	struct str sender, recipient, client, stage;
	struct str to_stage, reason;
	int64_t created_us, expires_us; /* since 1970; expires 0: no end */
};
/* r lives during the call. */
typedef void (*store_rule_row_fn)(void *arg, const struct store_rule *r);
/* Blocks, on the worker's connection: those in force, the newest first, STORE_RULES_MAX at most. err: one line. */
enum store_rc store_worker_rules(struct store_worker *w, store_rule_row_fn row, void *arg, char *err, size_t err_size);

#endif
