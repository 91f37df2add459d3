/* Many messages at once in one process: what stands between a module with PEPSI_CAP_CONCURRENT and the event loop. Here is which
 * messages are pending, whose turn a callback is, when stop() is due, and the host functions of the block "Concurrency" of
 * <pepsi/stage.h>; events (events.c) and questions (ask.c) belong to it. It knows neither rows nor commits: that is its owner's, the
 * worker's loop (serve.c) or a trial.
 *
 *     c = concurrent_new(env, &owner, &host)  the base is made; from here on host->event_new() and its kin work
 *     open()                                  with concurrent_table()
 *     concurrent_begin(c, msg, &pending)     process(): owner.over() at once, or the message is pending
 *     event_base_loop(concurrent_base(c))    callbacks; a complete() brings owner.over()
 *     concurrent_stop_near(c, now)           now and then
 *     concurrent_free(c)
 *
 * One per process, since host functions without a message know nothing else to find it by. */
#ifndef PEPSI_WORKER_CONCURRENT_H
#define PEPSI_WORKER_CONCURRENT_H

#include "pass.h"

#include <event2/event.h>
#include <sys/queue.h>

enum {
	/* stop() comes so long before MAX_RUNTIME, or at half of it where that is shorter; and so long is waited after it when the worker
	 * is to leave: <pepsi/stage.h> says ten seconds. */
	CONCURRENT_GRACE_US = 10 * 1000 * 1000,
};

enum pending_life {
	PENDING_OVER,   /* complete, or never begun: host functions refuse it */
	PENDING_BEGUN,  /* process() is running */
	PENDING_WAITS,
};

LIST_HEAD(query_list, pepsi_query);

/* What a message has besides its pass. Its memory (and that of the message) stays where it is for as long as the process lives, so that a
 * module which uses a message behind its end is told so, and no other message suffers. */
struct pending {
	TAILQ_ENTRY(pending) link;
	struct pepsi_msg *msg;
	enum pending_life life;
	uint32_t stops;           /* PEPSI_STOP_* that it was told */
	uint64_t serial;
	/* ask.c: a message's questions under way, and what is left to it. Only time with one under way counts. */
	struct query_list queries;
	unsigned n_queries, dns_left;
	int64_t dns_left_us, dns_since;
};

struct concurrent_owner {
	void *arg;
	/* The pass is to be concluded with rc: process() returned it, or complete() brought it. Not from within a hook of another message's
	 * in any way that matters: nothing of the module may be called in it. */
	void (*over)(void *arg, struct pepsi_msg *m, int32_t rc);
	/* Code of the module runs since then (monotonic, microseconds), for this message (NULL: for nobody in particular). since 0: none
	 * runs. */
	void (*hand)(void *arg, const struct pepsi_msg *m, int64_t since);
};

struct concurrent;

/* NULL: memory, or there is one already. env->state may be filled in later. host: what the functions of the module's table come down to. */
struct concurrent *concurrent_new(const struct worker_env *env, const struct concurrent_owner *owner, const struct pepsi_host *host);
/* Frees what the module has left of events and questions, and the process's resolver. Accepts NULL. */
void concurrent_free(struct concurrent *c);
struct event_base *concurrent_base(const struct concurrent *c);
/* The one of this process, or NULL. */
struct concurrent *concurrent_here(void);

/* Puts guards before the functions of *h that take a message: none is called for one that is complete; and resolve(), which waits, for none
 * at all. guard.c */
void concurrent_host(struct pepsi_host *h);
/* The table for the module's hooks; valid until concurrent_free(). */
const struct pepsi_host *concurrent_table(void);
/* Tells the author of the module, in the log (misuse.h). */
void concurrent_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* May host functions be called for it? */
bool concurrent_alive(const struct pepsi_msg *m);

/* msg was begun by pass_begin(). Calls process(); over() comes here or later. */
void concurrent_begin(struct concurrent *c, struct pepsi_msg *msg, struct pending *p);
/* How many are pending. */
size_t concurrent_pending(const struct concurrent *c);
/* Calls stop(RUNTIME) for those that are near MAX_RUNTIME; not within a callback. Returns one that has had all of it; NULL: none. */
struct pepsi_msg *concurrent_stop_near(struct concurrent *c, int64_t now);
/* Calls stop(LEAVE), or stop(YIELD) where the module knows it, for all that have not heard it yet. */
void concurrent_stop_all(struct concurrent *c);
void concurrent_yield_all(struct concurrent *c);

/* For events.c and ask.c: around each call of the module's code. m: whose it is known to be, or NULL. */
void concurrent_enter(struct concurrent *c, const struct pepsi_msg *m);
void concurrent_leave(struct concurrent *c);
/* May the module call the functions of the block? Says so in the log when not. what: the function. */
bool concurrent_usable(const struct pepsi_conf *conf, const char *what);
/* events.c: frees what is left. */
void events_free(struct concurrent *c);
TAILQ_HEAD(event_list, pepsi_event);
struct event_list *concurrent_events(struct concurrent *c);
/* ask.c: the message is over: its questions are forgotten. */
void ask_end(struct pepsi_msg *m);
void ask_end_all(void); /* those that are no message's */
void ask_begin(struct pepsi_msg *m);

/* The host functions. */
struct pepsi_event *host_event_new(const struct pepsi_conf *conf, int fd, pepsi_event_fn fn, void *arg);
int32_t host_event_arm(struct pepsi_event *e, uint32_t what, int64_t timeout_ms);
void host_event_free(struct pepsi_event *e);
struct pepsi_query *host_ask(const struct pepsi_conf *conf, struct pepsi_msg *m, const char *name, uint32_t type, pepsi_dns_fn fn, void *arg);
void host_ask_cancel(struct pepsi_query *q);
int32_t host_complete(struct pepsi_msg *m, int32_t rc);
void host_in_hand(struct pepsi_msg *m);
int64_t host_mono_ms(void);

#endif
