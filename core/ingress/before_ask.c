/* Questions about recipients to a stage, over the workers of before_pool.c: an envelope goes there, what the stage would do with it is the answer. No
 * message, no session; whoever asks waits at RCPT. Bounded: one question a session, and the queue of the pool. */
#include "before_internal.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATIENCE_US = 20 * 1000 * 1000, TEXT_MAX = 400 };
#define STATE "{\"question\":\"recipient\"}"

struct before_ask {
	struct before_job job; /* first */
	struct before *b;
	const struct log_ctx *log;
	before_ask_fn fn;
	void *arg;
	char stage[64];
	struct str sender, recipient;
	char strings[];
};

const char *const before_told_names[BEFORE_TOLD] = { "known", "refused", "later", "silent" };

static struct before_ask *ask_of(const struct before_job *job)
{
	return (struct before_ask *)(uintptr_t)job;
}

static int record(const struct before_job *job, struct buf *out, int *ret_fd)
{
	struct before_ask *a = ask_of(job);
	struct wire_item item = { .id = job->id, .has_content = true, .received_at = clock_wall_us(), .body_id = job->id, .mail_from = a->sender,
		.rcpts = &a->recipient, .n_rcpts = 1, .state = STR(STATE), .headers = STR(""), .body = STR("") };
	*ret_fd = -1;
	return wire_job_put(out, before_pool_ms(job), &item);
}

static void end(struct before_ask *a)
{
	before_pool_leave(&a->job);
	TAILQ_REMOVE(a->job.fresh ? &a->b->fresh_asks : &a->b->asks, &a->job, all);
	free(a);
}

/* Frees a. */
static void tell(struct before_ask *a, enum before_told told, const char *enhanced, const char *text, struct str why)
{
	before_ask_fn fn = a->fn;
	void *arg = a->arg;
	if (a->job.pool)
		a->job.pool->asked[told]++;
	log_info(a->log, "event=recipient-asked stage=%s answer=%s ms=%lld from=%s to=%s%s%s", a->stage, before_told_names[told],
	    (long long)((clock_mono_us() - a->job.began_us) / 1000), log_q(a->sender), log_q(a->recipient), why.n ? " reason=" : "", why.n ? log_q(why) : "");
	end(a);
	fn(arg, told, enhanced, text);
}

static void failed(struct before_job *job, enum before_failure kind, const char *why)
{
	struct before_ask *a = ask_of(job);
	if (job->pool)
		job->pool->failures[kind]++;
	tell(a, BEFORE_LATER, "", "", str_from(why));
}

static bool same_recipient(const struct before_ask *a, const struct wire_verdict *v)
{
	return !(v->changed & WIRE_CHANGED_RCPTS) || (v->n_rcpts == 1 && str_eq(v->rcpts[0], a->recipient));
}

static void judged(struct before_job *job, const struct wire_verdict *v, int body_fd)
{
	struct before_ask *a = ask_of(job);
	char text[TEXT_MAX] = "", enhanced[WIRE_ENHANCED_MAX + 1] = "", why[WIRE_TEXT_MAX + 1];
	enum before_told told = BEFORE_LATER;
	if (body_fd >= 0)
		close(body_fd);
	before_pool_leave(job);
	snprintf(why, sizeof why, "%.*s", STR_ARG(v->detail));
	switch (v->what) {
	case WIRE_FAULT:
		failed(job, BEFORE_MISUSE, why);
		return;
	case WIRE_PASS:
		told = same_recipient(a, v) ? BEFORE_SILENT : BEFORE_KNOWS;
		break;
	case WIRE_DISCARD:
		told = BEFORE_KNOWS;
		break;
	case WIRE_REJECT:
	case WIRE_DEFER:
		told = v->what == WIRE_REJECT ? BEFORE_REFUSES : BEFORE_LATER;
		snprintf(enhanced, sizeof enhanced, "%.*s", STR_ARG(v->enhanced));
		before_reply_text(v->text, v->what == WIRE_REJECT, text, sizeof text, enhanced);
		break;
	}
	tell(a, told, enhanced, text, str_from(why));
}

static const struct before_kind questions = { record, judged, failed };

struct before_ask *before_ask(struct before *b, const struct log_ctx *log, const char *stage, struct str sender, struct str recipient, before_ask_fn fn, void *arg)
{
	struct before_ask *a = calloc(1, sizeof *a + sender.n + recipient.n + 1);
	if (!a)
		return NULL;
	if (sender.n)
		memcpy(a->strings, sender.p, sender.n);
	memcpy(a->strings + sender.n, recipient.p, recipient.n);
	a->sender = str_n(a->strings, sender.n);
	a->recipient = str_n(a->strings + sender.n, recipient.n);
	a->b = b;
	a->log = log;
	a->fn = fn;
	a->arg = arg;
	snprintf(a->stage, sizeof a->stage, "%s", stage);
	a->job.kind = &questions;
	a->job.id = ++b->next_id;
	a->job.fresh = true;
	a->job.began_us = clock_mono_us();
	a->job.patience_us = PATIENCE_US;
	a->job.deadline_us = a->job.began_us + PATIENCE_US;
	/* not now: whoever asks is inside a call that an answer would begin again */
	TAILQ_INSERT_TAIL(&b->fresh_asks, &a->job, all);
	event_active(b->kick, EV_TIMEOUT, 0);
	return a;
}

void before_ask_cancel(struct before_ask *a)
{
	if (a)
		end(a);
}

void before_ask_kick(struct before *b)
{
	struct before_job *job;
	while ((job = TAILQ_FIRST(&b->fresh_asks))) {
		TAILQ_REMOVE(&b->fresh_asks, job, all);
		TAILQ_INSERT_TAIL(&b->asks, job, all);
		job->fresh = false;
		struct before_pool *p = before_pool_find(b, ask_of(job)->stage);
		if (!p)
			failed(job, BEFORE_NO_WORKER, "out of memory");
		else if (!before_pool_add(p, job))
			failed(job, BEFORE_OVERLOAD, "too many questions wait for this stage (QUEUE_LIMIT, PARALLELISM)");
	}
}

void before_ask_tick(struct before *b, int64_t now)
{
	struct before_job *job, *next;
	for (job = TAILQ_FIRST(&b->asks); job; job = next) {
		next = TAILQ_NEXT(job, all);
		if (now >= job->deadline_us)
			failed(job, BEFORE_TIMEOUT, job->w ? "the stage gave no answer in time" : "no worker of the stage was free in time");
	}
}
