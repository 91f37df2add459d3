/* One pass: one message through one hook of a module. A pass works on a row in memory and knows no database: what the
 * module decided comes out as store operations, which somebody else commits. So a pass runs as well in a test, or over a
 * file (`pepsi stage run`).
 *
 *     pass_begin(env, item)      the row, from the dispatcher's datagram or from a SELECT
 *     pass_run(msg)              the hook; then the rules of <pepsi/stage.h>: what it returned, which terminal it called
 *     msg->pass                  the operations; commit them
 *     pass_end(msg)              forget everything
 *
 * Fusion. When the hook moved the row on, and env->successor() says that the next stage can run here, the pass goes on there
 * (pass_next): it is another *hop* of the same pass. For the module of a hop everything is as if the row had been written
 * and loaded again: what earlier hops changed is what it finds (mail_from0 … body0, base_*), its own changes are counted
 * from there, the rules hold for it alone. For the database nothing has happened yet; in the end the pass is one operation
 * that takes the row from the stage of the first hop to where the last one left it. An error of a later hop is that hop's own:
 * the row is written as the hops before left it, paused or failed at the stage that had the error.
 */
#ifndef PEPSI_WORKER_PASS_H
#define PEPSI_WORKER_PASS_H

#include "base/arena.h"
#include "base/log.h"
#include "conf.h"
#include "proto/wire/wire.h"
#include "store/worker.h"

struct json_object;
struct steer_list; /* steer.h */
struct net_dns_group;
struct pending;

enum {
	PASS_ARENA_MAX = 256 * 1024 * 1024, /* what a module may make the host hold for one message: two bodies of the usual limit */
	PASS_CLONES_MAX = 100000,           /* rows made out of one; as many as a message may have recipients */
	PASS_ADDRESS_MAX = 1000,            /* octets; RFC 5321 §4.5.3.1 allows 64 + 1 + 255 */
	PASS_STAGE_MAX = 100,
	PASS_HOPS_MAX = 32,                 /* stages in one pass; a longer chain goes through the queue in between */
};

/* What is the same for all passes of a worker. */
struct worker_env {
	const struct worker_module *mod;
	const struct pepsi_conf *conf;
	void *state;          /* the module's own, from open() */
	const char *stage;
	const char *next;     /* NEXT_STAGE or NULL */
	const char *bounce;   /* BOUNCE_STAGE or NULL */
	uint32_t *runs;       /* hops that ended well in this process; NULL: not counted */
	int64_t lifetime_s;   /* MAX_LIFETIME */
	int64_t runtime_ms;   /* MAX_RUNTIME */
	bool success_dsn;     /* ORIGINATE_SUCCESS_DSN */
	const struct steer_list *steer; /* rules of an operator that can matter here; NULL: none */
	bool any_stage;       /* no configuration to hold stage names against */
	int (*more)(void *arg); /* are there further messages? NULL: no */
	void *more_arg;
	/* Can msg, which its hop has moved on to `stage`, go on there in this pass? The environment of that stage; NULL: it
	 * cannot, commit. No function: no fusion. */
	const struct worker_env *(*successor)(void *arg, struct pepsi_msg *msg, const char *stage);
	void *successor_arg;
};

/* A hop that is over, for log and statistics. */
struct pass_hop {
	const struct worker_env *env;
	int64_t us;
	size_t n_rcpts;
	const char *reason; /* or NULL */
};

enum pass_end_kind { END_NONE, END_MOVE, END_PAUSE, END_FAIL, END_FINISH };

struct pepsi_msg {
	const struct worker_env *env; /* of this hop */
	struct arena *a;
	struct log_ctx log;
	int64_t began_us, hop_began_us;
	uint32_t loaded;              /* PEPSI_LOAD_*: what of the row is in memory, whatever the hop's module declared */
	uint64_t caps;                /* of all hops */

	/* the row as this hop found it: as it was loaded, or as the hops before left it */
	int64_t id, received_at;
	struct str mail_from0, headers0, body0;
	const struct str *rcpts0;
	size_t n_rcpts0;
	struct str state0;              /* as it was loaded, also for later hops: what they found is this and base_merge */

	/* what the hops before decided and nobody has written yet */
	const struct worker_env *env0;  /* of the first hop: where the row is in the database */
	struct pass_hop *hops;          /* PASS_HOPS_MAX, from the arena; NULL: this is the first */
	size_t n_hops;
	unsigned base_touched;          /* STORE_SET_*, values in …0 */
	struct json_object *base_merge; /* merged into the row's state; NULL: nothing */
	struct json_object *base_state; /* the whole state, after clear_state(); NULL: not cleared */
	size_t base_injects;            /* of injects */

	/* as it is now */
	struct str mail_from, headers, body;
	const struct str *rcpts;
	size_t n_rcpts;
	unsigned touched;               /* STORE_SET_* */
	struct json_object *state;      /* parsed when first needed; merges applied */
	struct json_object *merge;      /* what is to be merged; nulls kept. NULL: nothing */
	struct str state_text;          /* of state; .p NULL: make it anew */
	bool state_cleared;

	/* fan-out; indices are those of the row as loaded */
	bool *gone;                     /* n_rcpts0; NULL: nobody */
	size_t n_gone;
	struct store_clone *clones;     /* of fan-out and terminal */
	size_t n_clones, cap_clones;
	bool fanned;
	struct store_op *injects;
	size_t n_injects, cap_injects;

	/* the terminal */
	enum pass_end_kind end;
	const char *end_stage;
	uint32_t end_secs;
	bool end_held;                  /* END_PAUSE by a rule of an operator: no deadline shortens it */
	const uint32_t *end_keep;       /* pause_with; NULL: all that are not gone */
	size_t end_n_keep;
	const struct store_put_off *put_off; /* pause_others(); NULL: none */

	struct net_dns_group *dns;      /* of host->resolve() or ask(); NULL: not asked yet */
	struct pending *pending;        /* a concurrent module's (concurrent.h); NULL: any other's */
	char misuse[256];               /* the first broken rule; empty: none */
	char last_log[256];             /* the last warning or error the module logged */

	/* the result of pass_run() */
	struct store_pass pass;        
	const char *json;               /* for the status line */
	const char *event;              /* for the log: delivered, moved, … */
	const char *reason;             /* or NULL */
	bool refused;                   /* the database said no already; this is the pass that tells so */
	size_t n_done;                  /* recipients the event is about */
	enum log_level event_level;
};

/* A pass over the row in *it, whose memory must live until pass_end(). msg is filled in; msg->a may be an arena of
 * an earlier pass (it is reset) or NULL. Returns 0, or -1: memory. */
int pass_begin(struct pepsi_msg *msg, const struct worker_env *env, const struct wire_item *it);
/* Runs process() and turns what happened into msg->pass and the rest of the result. Never fails: trouble is an outcome. */
void pass_run(struct pepsi_msg *msg);
/* Records what the hook broke by returning rc: no terminal, or none of the values there are. The first part of pass_conclude(). */
void pass_rules(struct pepsi_msg *msg, int32_t rc);
/* The part behind the hook, for hooks that were run elsewhere: rc is what process() returned. */
void pass_conclude(struct pepsi_msg *msg, int32_t rc);
/* Replaces the operations by one that makes the row `failed`: for a commit that the database refused for good. */
void pass_refused(struct pepsi_msg *msg, const char *why);
/* The hook is done and returned rc: goes on through the successors as long as it can, then concludes. */
void pass_go_on(struct pepsi_msg *msg, int32_t rc);
/* Frees what is outside the arena; the arena stays for the next pass. */
void pass_end(struct pepsi_msg *msg);
/* And the arena. */
void pass_free(struct pepsi_msg *msg);

/* The host functions, filled with everything that this version has. */
extern const struct pepsi_host worker_host;

/* --- shared among pass*.c and host*.c --- */

/* Ends this hop, which moved the row to next's stage, and begins the next one. 0; or -1: memory, nothing has changed. */
int pass_next(struct pepsi_msg *msg, const struct worker_env *next);
/* Did hops before this one decide anything but where the row goes? */
bool pass_has_base(const struct pepsi_msg *msg);
/* Forgets what this hop asked for. */
void pass_forget(struct pepsi_msg *msg);
/* A row that goes to `to` does not take this stage's retry counter along: the next stage counts its own. 0 or -1. */
int pass_drop_pad(struct pepsi_msg *msg, const char *to);
/* Text that jsonb takes, whatever a module said: cut, in the arena; NULL: memory. */
char *pass_text(struct pepsi_msg *msg, struct str s);
/* Why the row goes where it goes, for log and status line; arena or static, or NULL. */
const char *pass_reason(struct pepsi_msg *msg);

/* Records a broken rule and returns PEPSI_MISUSE. */
int32_t pass_misuse(struct pepsi_msg *msg, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The state as a tree, merges applied; never NULL unless memory is out or the row's state is no JSON (recorded). */
struct json_object *pass_state(struct pepsi_msg *msg);
/* Applies a JSON object to the state and remembers it for the commit. what: the function, for messages. */
int32_t pass_merge(struct pepsi_msg *msg, const char *what, const char *json);
int32_t pass_merge_object(struct pepsi_msg *msg, struct json_object *o);
/* Merges one key; takes the value over. 0 or -1. */
int pass_merge_key(struct pepsi_msg *msg, const char *key, struct json_object *value);
/* NULL, or what is wrong with an address; empty is allowed for senders. */
const char *pass_address_wrong(struct str addr, bool sender);
/* A copy of the stage's name when there is such a stage; NULL (and the misuse recorded) when not. */
const char *pass_stage(struct pepsi_msg *msg, const char *what, const char *stage);
/* May the pass still change, i.e. no terminal yet? PEPSI_OK or PEPSI_MISUSE. */
int32_t pass_open(struct pepsi_msg *msg, const char *what);
/* Indices checked (range, no repeats, not gone unless gone_too) and copied; NULL and *bad when not. n may be 0. */
const uint32_t *pass_indices(struct pepsi_msg *msg, const char *what, const uint32_t *indices, size_t n, bool gone_too,
    bool *bad);
/* Appends clones of the module's making. */
int32_t pass_clones(struct pepsi_msg *msg, const char *what, const struct pepsi_clone *clones, size_t n, bool gone_too);
/* Appends one clone of recipients by index; state: merged into the clone's (NULL: nothing; borrowed). */
int32_t pass_clone_add(struct pepsi_msg *msg, const char *stage, const uint32_t *indices, size_t n, struct json_object *state);
/* The recipients this row still has (indices as loaded). */
const uint32_t *pass_left(struct pepsi_msg *msg, size_t *ret_n);

/* deadline.c. When the message's lifetime begins (microseconds): its arrival, or the end of its hold. */
int64_t pass_life_began(struct pepsi_msg *msg);
/* A pause of so many seconds, cut short at the end of the message's lifetime, and at the sender's deadline, while these lie ahead. */
uint32_t pass_pause_cap(struct pepsi_msg *msg, uint32_t secs);
/* A delivery stage is about to have a message whose sender wants it back by now: the terminal is set (BOUNCE_STAGE, or failed), and process()
 * is not to run. */
bool pass_expired(struct pepsi_msg *msg);
/* A delivery stage pauses a message beyond the time its sender wants to hear of: adds a report of delay, once. 0 or -1. */
int pass_tell_late(struct pepsi_msg *msg);

/* host_read.c, host_set.c, host_end.c, host_fan.c */
int64_t host_id(struct pepsi_msg *m);
int64_t host_received_at(struct pepsi_msg *m);
struct pepsi_str host_mail_from(struct pepsi_msg *m);
size_t host_n_rcpt(struct pepsi_msg *m);
struct pepsi_str host_rcpt(struct pepsi_msg *m, size_t i);
struct pepsi_str host_state(struct pepsi_msg *m);
int32_t host_state_get(struct pepsi_msg *m, const char *path, struct pepsi_str *ret);
const char *host_next_stage(struct pepsi_msg *m);
const char *host_bounce_stage(struct pepsi_msg *m);
int64_t host_lifetime_left(struct pepsi_msg *m);
int64_t host_runtime_left_ms(struct pepsi_msg *m);
int32_t host_headers(struct pepsi_msg *m, struct pepsi_str *ret);
int32_t host_body(struct pepsi_msg *m, struct pepsi_str *ret);
void host_log(struct pepsi_msg *m, int32_t level, const char *text);
int32_t host_more_waiting(struct pepsi_msg *m);
int32_t host_set_headers(struct pepsi_msg *m, struct pepsi_str s);
int32_t host_set_body(struct pepsi_msg *m, struct pepsi_str s);
int32_t host_set_mail_from(struct pepsi_msg *m, struct pepsi_str s);
int32_t host_set_rcpt_to(struct pepsi_msg *m, const struct pepsi_str *r, size_t n);
int32_t host_merge_state(struct pepsi_msg *m, const char *json);
int32_t host_clear_state(struct pepsi_msg *m);
int32_t host_advance(struct pepsi_msg *m);
int32_t host_advance_to(struct pepsi_msg *m, const char *stage);
int32_t host_reroute(struct pepsi_msg *m, const char *stage, const char *state);
int32_t host_pause(struct pepsi_msg *m, const char *state, uint32_t secs);
int32_t host_pause_with(struct pepsi_msg *m, const char *merge, uint32_t secs, const uint32_t *keep, size_t n_keep,
    const struct pepsi_clone *clones, size_t n_clones);
int32_t host_pause_others(struct pepsi_msg *m, uint32_t first_s, uint32_t each_ms, const char *why);
int32_t host_fail(struct pepsi_msg *m, const char *state);
int32_t host_finish(struct pepsi_msg *m);
int32_t host_finish_with(struct pepsi_msg *m, const struct pepsi_clone *clones, size_t n_clones);
int32_t host_advance_or_finish(struct pepsi_msg *m);
int32_t host_complete_success(struct pepsi_msg *m, const uint32_t *indices, size_t n, uint32_t dsn_here);
int32_t host_tell_success(struct pepsi_msg *m, const uint32_t *indices, size_t n, uint32_t what, uint8_t *ret_told);
int32_t host_rewrite_recipients(struct pepsi_msg *m, const char *const *rcpts, size_t n, const char *state);
int32_t host_split_off_recipients(struct pepsi_msg *m, const uint32_t *indices, size_t n, const char *stage);
int32_t host_split_to_one_per_row(struct pepsi_msg *m);
int32_t host_fan_out(struct pepsi_msg *m, const struct pepsi_clone *groups, size_t n_groups, const uint32_t *keep,
    size_t n_keep);
int32_t host_enqueue_new(struct pepsi_msg *m, const char *stage, struct pepsi_str mail_from, const char *const *rcpts,
    size_t n, struct pepsi_str headers, struct pepsi_str body, const char *state);
/* Appends why the text could not be stored or sent; 0: it could. */
int pass_headers_wrong(struct str s, const char **why);
int pass_body_wrong(struct str s, const char **why);

static inline struct pepsi_str host_str(struct str s)
{
	return (struct pepsi_str){ s.p, s.n };
}

#endif
