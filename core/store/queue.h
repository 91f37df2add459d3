/* Typed asynchronous calls on the queue, for the reactor: admission, claims, recovery, statistics, and the operator's
 * views. The SQL behind them is in queue_*.c and db/procedures.sql. Everything passed in is copied before return. */
#ifndef PEPSI_STORE_QUEUE_H
#define PEPSI_STORE_QUEUE_H

#include "store/conn.h"

typedef void (*store_done_fn)(void *arg, enum store_rc rc, const char *err);

/* --- admission (connection of role pepsi-ingress, synchronous commit) --- */

/* Reserves n consecutive-or-not queue ids; ids is valid during the call back. Bodies take the id of the message that
 * brought them, from the same sequence. */
typedef void (*store_ids_fn)(void *arg, enum store_rc rc, const int64_t *ids, size_t n);
void store_reserve_ids(struct store_conn *c, unsigned n, store_ids_fn fn, void *arg);

struct store_message {
	int64_t id;
	const char *stage;
	bool running;          /* handed to a worker right after the commit: inserted `running`, else `pending` */
	int64_t received_at;   /* microseconds */
	struct str mail_from;
	const struct str *rcpts;
	size_t n_rcpts;
	struct str state;      /* JSON object */
	struct str headers, body;
	struct str once;       /* "": none. Else: STORE_REPEAT when a message with this key was taken within a week */
};
/* One pipelined batch closed by one sync: one commit. rcs[i] is valid for each message: STORE_OK only after the commit. When
 * the batch fails for a reason of one row (not STORE_AWAY), the rows are retried one by one inside, so that a bad one does
 * not fail its neighbours. The bodies must stay where they are until fn was called; everything else is copied. 1 <= n <=
 * STORE_ADMIT_MAX; bound a batch in octets too, a few MiB, one larger message alone. state must be a JSON object; addresses valid UTF-8. sender_key
 * comes from state.origin.account, else state.origin.ip. */
enum { STORE_ADMIT_MAX = 1024 };
typedef void (*store_admit_fn)(void *arg, const enum store_rc *rcs, size_t n);
void store_admit(struct store_conn *c, const struct store_message *msgs, size_t n, store_admit_fn fn, void *arg);

/* --- dispatcher (role pepsi) --- */

/* Makes this connection the dispatcher's, for as long as it lives: there is exactly one per database. got is false when another
 * connection is. */
typedef void (*store_lock_fn)(void *arg, enum store_rc rc, bool got);
void store_lock_dispatcher(struct store_conn *c, store_lock_fn fn, void *arg);

/* What a claim asks for one stage: up to `limit` pending rows become running, of these up to `fifo` simply the oldest, the
 * others by fair share: the row whose sender would be furthest behind comes first. A sender's account is that of the
 * book, else floor_us; each row taken counts cost_us ahead. */
struct store_claim_stage {
	const char *stage;
	int32_t limit, fifo;
	double floor_us, cost_us;
	bool domain;            /* wanted */
};
struct store_claim_book {
	unsigned stage; /* index into the stages of the call */
	const char *key;
	double time_us;
};
struct store_claimed {
	int64_t id;
	unsigned stage;         /* index into the stages of the call */
	const char *sender_key; /* lives during the callback */
	const char *domain;     /* of the first recipient, in lower case; "": it was not asked for. Lives as long */
};
/* One statement for all stages. */
typedef void (*store_claim_fn)(void *arg, enum store_rc rc, const struct store_claimed *rows, size_t n);
void store_claim(struct store_conn *c, const struct store_claim_stage *stages, size_t n, const struct store_claim_book *book,
    size_t n_book, store_claim_fn fn, void *arg);
typedef void (*store_count_fn)(void *arg, enum store_rc rc, unsigned n);
/* A domain at a stage, by the index into the call's stages. */
struct store_due_domain {
	unsigned stage;
	const char *domain; /* of the first recipient, in lower case */
	int n;
};
/* At such a stage a domain gets one row, so many domains do (-1: everything goes); the others stay paused, due as they are, until their domain is named. */
struct store_due_stage {
	const char *stage;
	int firsts;
};
enum { STORE_DUE_SOME = -1, STORE_DUE_NONE = -2 };
struct store_due_ask {
	const struct store_due_stage *stages;
	size_t n_stages;
	bool look;              /* false: nothing but the domains that are named */
	bool behind;            /* look behind this row, by (timeout, id); false: from the beginning */
	int64_t after_us, after_id;
	/* Named: n rows of it become pending, those that are due first; 0: it is passed by. */
	const struct store_due_domain *domains;
	size_t n_domains;
};
struct store_due {
	unsigned requeued;
	int64_t wait_us;        /* until the earliest still to come, or 0 when there is none; 1 when this look found as many as it may: more behind upto */
	int64_t now_us;         /* the server's clock: only that one counts, which may be another than ours */
	bool looked;            /* upto: the last row that was looked at, by (timeout, id) */
	int64_t upto_us, upto_id;
	/* STORE_DUE_SOME: it got one row, and there are more, or may be; STORE_DUE_NONE: it got none; those named with n > 0: how many became pending (less than n: there are no more). Live during the
	 * callback. */
	const struct store_due_domain *domains;
	size_t n_domains;
};
/* Paused rows whose timeout has come become pending: of the 1000 that are due first. */
typedef void (*store_due_fn)(void *arg, enum store_rc rc, const struct store_due *got);
void store_requeue_due(struct store_conn *c, const struct store_due_ask *ask, store_due_fn fn, void *arg);
/* The server's clock went back by so much: paused rows that wait for a time are due so much earlier. count: rows. */
void store_due_earlier(struct store_conn *c, int64_t us, store_count_fn fn, void *arg);
/* running → pending: these ids (n > 0), or all that are left from a former life (n = 0). */
void store_release(struct store_conn *c, const int64_t *ids, size_t n, store_count_fn fn, void *arg);
typedef void (*store_still_fn)(void *arg, enum store_rc rc, const int64_t *ids, size_t n);
/* Running rows that are not among the n known ids (10,000 at most, in order): their hand-off or claim was lost with the answer to a
 * commit, or is under way. */
void store_orphans(struct store_conn *c, const int64_t *known, size_t n, store_still_fn fn, void *arg);
/* Which of these rows still exist and are still running at that stage: what a dead worker left unanswered. */
void store_still_running(struct store_conn *c, const char *stage, const int64_t *ids, size_t n, store_still_fn fn, void *arg);
/* Books a crash or an overrun on a running row in state.dispatch_error {kind, stage, crashes, overruns, at, report}; at the
 * limit-th of its kind it becomes `failed` (crash) or `timeout` (overrun), before that it is pending again. ENDED: it reached
 * the end. A row that is not running at this stage any more is left alone: its worker had committed before it died, and the row is
 * pending somewhere, or gone. report_json: {"error":"…"} is what the queue list shows; NULL: none. */
enum store_blamed { STORE_BLAMED_NOT, STORE_BLAMED, STORE_BLAMED_ENDED };
typedef void (*store_blame_fn)(void *arg, enum store_rc rc, enum store_blamed how);
void store_blame(struct store_conn *c, int64_t id, const char *stage, bool overrun, unsigned limit, const char *report_json, store_blame_fn fn, void *arg);

/* What the dispatcher knows of a stage, for store_expire(). */
struct store_expire_stage {
	const char *stage, *bounce; /* bounce: BOUNCE_STAGE, "" or NULL: none */
	int64_t life_s;             /* MAX_LIFETIME */
	bool down;                  /* it has had no worker for so long that none is to be expected */
};
struct store_expired {
	int64_t id;
	struct str stage, to, error; /* where it was; the bounce stage, or "": failed; why. All live during the call back */
};
/* MAX_LIFETIME where no worker enforces it: rows paused without a time, rows at stages that are down or are not in the list any more
 * (default_s counts for these); and rows that are to wait beyond their end become due there. At most `limit` rows of each kind. */
typedef void (*store_expire_fn)(void *arg, enum store_rc rc, const struct store_expired *rows, size_t n);
void store_expire(struct store_conn *c, const struct store_expire_stage *stages, size_t n, int64_t default_s, unsigned limit, store_expire_fn fn,
    void *arg);
/* Rules of an operator (below) that are over go, and what a rule holds that is gone is let go, 1000 rows at most: count. */
void store_rule_sweep(struct store_conn *c, store_count_fn fn, void *arg);

struct store_stage_delta {
	const char *stage;
	int64_t messages, time_us, kills, crashes;
};
/* Adds to stage_stats and dispatch_stats, in one transaction. */
void store_flush_stats(struct store_conn *c, const struct store_stage_delta *d, size_t n, int64_t messages_failed,
    int64_t serialization_failures, store_done_fn fn, void *arg);
/* NOTIFY workqueue, for writers outside the dispatcher. */
void store_notify(struct store_conn *c, store_done_fn fn, void *arg);
/* Sweeps bodies that no row refers to, 10,000 at most; count says how many. Every few minutes is enough. */
void store_body_gc(struct store_conn *c, store_count_fn fn, void *arg);
/* Keeps the tables of large bodies going (db/README.md): to be called about every 16 MiB of accepted mail, and once a
 * minute. count: tables given back to the file system. */
void store_body_rotate(struct store_conn *c, store_count_fn fn, void *arg);

/* --- views and repairs for the operator (role pepsi) --- */

/* Everything in one snapshot, so that accepted = delivered + bounced + discarded + total holds at any moment. */
struct store_counts {
	int64_t total, pending, running, paused, failed, timeout;
	int64_t accepted, delivered, bounced, discarded; /* since the database was made; accepted counts every row that
	                                                    came into being: mail in, reports, splits, side messages */
	int64_t received;                                /* of these, through admission */
	int64_t held;                                    /* of the paused ones: by an operator */
	int64_t hold_rules, reroute_rules;
	/* known of other domains: policies of MTA-STS that hold, of these enforced, domains whose policy cannot be fetched; domains that mail is less
	 * protected to than before; addresses of mail exchangers that fail */
	int64_t sts_policies, sts_enforced, sts_failing, destinations_weaker, addresses_failing;
	int64_t tlsrpt_waiting, tlsrpt_received, tlsrpt_failures; /* TLS reports: to be sent; of others within two days, and sessions that failed by them */
};
typedef void (*store_counts_fn)(void *arg, enum store_rc rc, const struct store_counts *counts);
void store_counts(struct store_conn *c, store_counts_fn fn, void *arg);

/* Answers are JSON text: list gives an array of {id, stage, status, mail_from, rcpt_to (the first 50), rcpt_count, received_at,
 * next_attempt_at, last_error, hold, held}; show one such object with attempts, sender_key, body_id, headers_size, body_size, all_rcpt_to and
 * state besides. json is valid during the call back, NULL on an error. */
typedef void (*store_json_fn)(void *arg, enum store_rc rc, const char *json, const char *err);
struct store_filter {
	const char *stage, *status, *sender, *recipient; /* NULL: any; addresses without case; "@example.org": the whole domain; a sender of
	                                                  * "<>": the null sender; a status of "held" is those paused ones */
	const int64_t *ids;                              /* these and no others; the filters above do not count then */
	size_t n_ids;                                    /* 0: any */
	int64_t after_id;                                /* paging: only larger ids */
	unsigned limit;                                  /* rows; 0: 1000. The list has 10,000 at most */
};
void store_queue_list(struct store_conn *c, const struct store_filter *f, store_json_fn fn, void *arg);
void store_queue_show(struct store_conn *c, int64_t id, store_json_fn fn, void *arg); /* "null": no such row */
/* The raw message (headers, CRLF, body) from octet `offset`, at most `limit` octets, in data (not JSON); n 0 at the end. total
 * < 0: no such row. */
typedef void (*store_data_fn)(void *arg, enum store_rc rc, struct str data, int64_t total);
void store_queue_cat(struct store_conn *c, int64_t id, int64_t offset, int32_t limit, store_data_fn fn, void *arg);
/* One batch of an operator's command: one transaction over f->limit rows at most. None touches a running row. Deleted ones count as
 * discarded; retry (of paused, failed and timeout rows that are not held) and set-stage forget the record of crashes; held rows leave
 * by release alone, which lets them past the rules there are. Whatever makes rows pending notifies `workqueue`. */
enum store_change { STORE_ROWS_DELETE, STORE_ROWS_RETRY, STORE_ROWS_SET_STAGE, STORE_ROWS_HOLD, STORE_ROWS_RELEASE };
struct store_changed {
	unsigned matched; /* rows that the filter found; fewer than the limit: there are no more */
	unsigned changed; /* of these: changed; when only asked, those that would be */
	int64_t last_id;  /* to go on behind */
};
typedef void (*store_change_fn)(void *arg, enum store_rc rc, const struct store_changed *n, const char *err);
/* to: the stage of STORE_ROWS_SET_STAGE, the reason of STORE_ROWS_HOLD. dry: change nothing. */
void store_queue_change(struct store_conn *c, enum store_change what, const struct store_filter *f, const char *to, bool dry,
    store_change_fn fn, void *arg);

/* --- rules that hold or reroute mail (pepsi.queue_rule) --- */

typedef void (*store_rule_fn)(void *arg, enum store_rc rc, int64_t n, const char *err);
/* rule: {"action", "sender", "recipient", "client", "stage", "to_stage", "reason", "made_by", "for": seconds}. n: its id. */
void store_rule_add(struct store_conn *c, const char *rule, store_rule_fn fn, void *arg);
/* n: 1, or 0: there is none with this id. */
void store_rule_remove(struct store_conn *c, int64_t id, store_rule_fn fn, void *arg);
/* action NULL: all. */
void store_rule_list(struct store_conn *c, const char *action, store_json_fn fn, void *arg);
/* One batch of what rule `id` does to mail in the queue behind after_id. id 0: what `rule` would do; dry then. */
void store_rule_apply(struct store_conn *c, int64_t id, const char *rule, bool dry, int64_t after_id, unsigned limit, store_change_fn fn, void *arg);
/* Lets go what it holds, one batch; n: rows. */
void store_rule_release(struct store_conn *c, int64_t id, unsigned limit, store_rule_fn fn, void *arg);

/* stage_stats and dispatch_stats as JSON. */
void store_stats(struct store_conn *c, store_json_fn fn, void *arg);

#endif
