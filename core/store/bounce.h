/* The sweeps of pepsi-failure-bouncer over a connection of role pepsi: messages that ended in failed or timeout and
 * waited long enough go to the bounce stage, or away. What happens to which message is decided by pepsi.failure_bounce()
 * (db/procedures.sql), in one transaction per batch.
 *
 * One sweep, told: the tool calls store_failure_bounce() with after 0; the server finds two messages, moves one to the bounce
 * stage, deletes a list's copy; row() is called for each while the transaction is still open, and logs it; the commit
 * and done() says that 2 were touched, fewer than the limit, so that the sweep is over. store_failure_wait() then
 * tells when to look again. */
#ifndef PEPSI_STORE_BOUNCE_H
#define PEPSI_STORE_BOUNCE_H

#include "store/conn.h"

struct store_bounce_rule {
	const char *stage;          /* BOUNCE_STAGE */
	bool failed, timeout;       /* which of the two are looked at */
	int64_t min_age_us;         /* since state.failed_at */
	bool unauthenticated;       /* bounce what a stranger claims to have sent, too; else it is dropped */
	const struct str *networks; /* RELAY_NETWORKS, word by word: their clients are no strangers */
	size_t n_networks;
};

enum store_bounce_action {
	STORE_BOUNCE_MOVED,   /* pending at the bounce stage */
	STORE_BOUNCE_DELETED, /* a mailing list's copy */
	STORE_BOUNCE_DROPPED, /* its sender is not authenticated */
	STORE_BOUNCE_ACTIONS
};

struct store_bounce_row {
	int64_t id;
	enum store_bounce_action action;
	struct str mail_from, stage, status, error, failed_at; /* as it failed; error.p NULL: none is recorded */
};
/* Called before the commit, so that nothing is done that was not logged: when the commit then fails, the message is told of
 * again by the next sweep. The strings are valid during the call. */
typedef void (*store_bounce_row_fn)(void *arg, const struct store_bounce_row *row);

/* One batch: at most limit messages with ids above after (0: a sweep begins). The strings of the rule are copied. done gets
 * how many were touched (fewer than limit: the sweep is over) and the last one's id, to go on behind; err: one line. */
typedef void (*store_bounce_done_fn)(void *arg, enum store_rc rc, unsigned n, int64_t last_id, const char *err);
void store_failure_bounce(struct store_conn *c, const struct store_bounce_rule *rule, int64_t after, unsigned limit,
    store_bounce_row_fn row, store_bounce_done_fn done, void *arg);

/* waiting: messages that are not old enough yet (or that somebody held while the sweep came by); next_us: until the first of
 * them is, maybe negative; 0 when none waits. */
typedef void (*store_bounce_wait_fn)(void *arg, enum store_rc rc, int64_t waiting, int64_t next_us, const char *err);
void store_failure_wait(struct store_conn *c, const struct store_bounce_rule *rule, store_bounce_wait_fn fn, void *arg);

#endif
