/* Shared by before*.c. */
#ifndef INGRESS_BEFORE_INTERNAL_H
#define INGRESS_BEFORE_INTERNAL_H

#include "before.h"
#include "ingress_internal.h"
#include "proto/metrics/metrics.h"
#include "proto/wire/verdict.h"

#include <sys/queue.h>

/* Why a stage gave no verdict; the label of pepsi_before_accept_failures_total. */
enum before_failure {
	BEFORE_TIMEOUT,   /* the deadline of the message, or MAX_RUNTIME of the stage */
	BEFORE_CRASH,     /* the worker died under it */
	BEFORE_NO_WORKER, /* none can be started */
	BEFORE_OVERLOAD,  /* the queue is full */
	BEFORE_MISUSE,    /* it did what cannot be done before acceptance, or broke the ABI */
	BEFORE_CONTENT,   /* what it made of the message cannot be kept: memory, limits, form */
	BEFORE_FAILURES
};
extern const char *const before_failure_names[BEFORE_FAILURES];
extern const char *const before_told_names[BEFORE_TOLD];

struct before_job;
/* What a job is: a message (before.c), or a question about a recipient (before_ask.c). */
struct before_kind {
	/* The record of a job for the worker. 0, or -1: no memory. *ret_fd: the body, or -1. */
	int (*record)(const struct before_job *job, struct buf *out, int *ret_fd);
	/* Its worker's verdict, with the body's descriptor (taken) or -1. The job may be gone afterwards, as after failed(). */
	void (*judged)(struct before_job *job, const struct wire_verdict *v, int body_fd);
	/* There will be none. why: for the log. */
	void (*failed)(struct before_job *job, enum before_failure kind, const char *why);
};

enum { BEFORE_TIMES = 12, BEFORE_TIME_FIRST_US = 1000 }; /* within 1, 2, 4, … ms; the last: all */

struct before_job {
	TAILQ_ENTRY(before_job) all;  /* of before.jobs, or of before.fresh; questions: of before.asks, or of before.fresh_asks */
	TAILQ_ENTRY(before_job) wait; /* of pool.waiting, while waiting is set */
	const struct before_kind *kind;
	struct session *s;            /* NULL: a question */
	int64_t id;
	unsigned at;                  /* in terms->before */
	int64_t patience_us;          /* that a worker has for it at most */
	bool fresh, waiting;
	struct before_worker *w;      /* or NULL */
	struct before_pool *pool;     /* of the stage it is at */
	int64_t began_us, stage_us, deadline_us;
};
TAILQ_HEAD(before_jobs, before_job);

struct before_worker {
	TAILQ_ENTRY(before_worker) link;
	struct before_pool *pool;
	uint32_t token;
	pid_t pid;                    /* 0: asked for */
	int fd;                       /* -1: its channel has ended */
	struct event *ev;
	bool ready, busy, leaving, killed, exited;
	struct before_job *job;       /* NULL though busy: nobody waits for its verdict any more */
	int64_t job_id;
	int64_t since_us, until_us;   /* of what it does; of its being idle or leaving */
	uint64_t served;
	struct metrics_budget told;   /* of what its module counts */
};
TAILQ_HEAD(before_workers, before_worker);

struct before_pool {
	TAILQ_ENTRY(before_pool) link;
	struct before *b;
	char stage[64];
	unsigned parallelism, queue_max;
	uint64_t max_messages;
	int64_t runtime_us, idle_us, pause_us; /* pause: after a worker could not start */
	bool listed;                  /* a listener names it, or RECIPIENTS */
	int64_t cool_until;
	struct before_workers workers;
	unsigned n_workers, n_starting;
	struct before_jobs waiting;
	unsigned n_waiting;
	uint64_t asked[BEFORE_TOLD];  /* questions about recipients, by what was told */
	uint64_t verdicts[WIRE_FAULT + 1], failures[BEFORE_FAILURES], time_le[BEFORE_TIMES], times, time_us;
};
TAILQ_HEAD(before_pools, before_pool);

struct before {
	struct ingress *in;
	struct ingress_spawner sp;
	struct before_pools pools;
	struct before_jobs jobs, fresh, asks, fresh_asks;
	struct event *kick, *tick;
	uint32_t next_token;
	int64_t next_id;
	uint64_t clients_gone;
};

/* --- before_pool.c */
struct before_pool *before_pool_find(struct before *b, const char *stage);
/* Gives waiting jobs to workers, and asks for more of these. */
void before_pool_deal(struct before_pool *p);
/* Deadlines of workers. */
void before_pool_tick(struct before *b, int64_t now);
void before_pool_free(struct before_pool *p);
void before_worker_kill(struct before_worker *w);
/* In line for a worker of p; may end the job at once (kind->failed). False: too many wait already, nothing was done. */
bool before_pool_add(struct before_pool *p, struct before_job *job);
/* Off all lists of pools; its worker may go on, but nobody listens. */
void before_pool_leave(struct before_job *job);
/* The time a worker has for the job, in milliseconds: what is left till its deadline, MAX_RUNTIME at most. */
uint32_t before_pool_ms(const struct before_job *job);

/* --- before_ask.c */
/* Sends what was asked in this turn; ends what waited too long. */
void before_ask_kick(struct before *b);
void before_ask_tick(struct before *b, int64_t now);

/* --- before_apply.c: the message as the stage left it. NULL, or what is wrong with it (static, or in room): nothing has changed then but
 * what is harmless. body_fd is taken. */
enum { WHY_MAX = 160 };
const char *before_apply(struct session *s, const struct wire_verdict *v, int body_fd, char room[WHY_MAX]);
/* Text of a stage for an SMTP reply: one line of printable ASCII without a code of its own in front. *enhanced (11 octets and NUL at
 * most) is filled from that code where it was empty. */
void before_reply_text(struct str in, bool reject, char *text, size_t size, char enhanced[12]);

#endif
