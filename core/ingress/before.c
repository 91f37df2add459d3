/* Jobs: a message on its way through the stages of BEFORE_ACCEPT, and the reply at its end. See before.h. */
#include "before_internal.h"

#include "base/clock.h"
#include "net/conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TICK_MS = 250, TEXT_MAX = 400 };

const char *const before_failure_names[BEFORE_FAILURES] = { "timeout", "crash", "no-worker", "overload", "misuse", "content" };
static const char *const judgement_names[] = { "", "pass", "reject", "defer", "discard", "fault" };

static void on_kick(evutil_socket_t fd, short what, void *arg);
static void on_tick(evutil_socket_t fd, short what, void *arg);
static int record(const struct before_job *job, struct buf *out, int *ret_fd);
static void judged(struct before_job *job, const struct wire_verdict *v, int body_fd);
static void failed(struct before_job *job, enum before_failure kind, const char *why);
static const struct before_kind messages = { record, judged, failed };

struct before *before_new(struct ingress *in, const struct ingress_spawner *sp)
{
	struct before *b = calloc(1, sizeof *b);
	struct timeval often = { 0, TICK_MS * 1000 };
	if (!b)
		return NULL;
	b->in = in;
	b->sp = *sp;
	TAILQ_INIT(&b->pools);
	TAILQ_INIT(&b->jobs);
	TAILQ_INIT(&b->fresh);
	TAILQ_INIT(&b->asks);
	TAILQ_INIT(&b->fresh_asks);
	b->kick = event_new(in->base, -1, 0, on_kick, b);
	b->tick = event_new(in->base, -1, EV_PERSIST, on_tick, b);
	if (!b->kick || !b->tick || event_add(b->tick, &often)) {
		before_free(b);
		return NULL;
	}
	return b;
}

void before_free(struct before *b)
{
	struct before_pool *p;
	if (!b)
		return;
	while ((p = TAILQ_FIRST(&b->pools)))
		before_pool_free(p);
	if (b->kick)
		event_free(b->kick);
	if (b->tick)
		event_free(b->tick);
	free(b);
}

/* --- a job's way */

static int record(const struct before_job *job, struct buf *out, int *ret_fd)
{
	const struct message *m = &job->s->message;
	struct wire_item item;
	*ret_fd = -1;
	message_item(m, &item);
	item.id = item.body_id = job->id;
	item.received_at = clock_wall_us();
	item.headers = buf_str(&m->spool.head);
	if (item.body_in_fd && (*ret_fd = spool_body_fd(&m->spool)) < 0)
		return -1;
	if (wire_job_put(out, before_pool_ms(job), &item) == 0)
		return 0;
	if (*ret_fd >= 0)
		close(*ret_fd);
	*ret_fd = -1;
	return -1;
}

static void end(struct before_job *job)
{
	struct before *b = job->s->in->before;
	before_pool_leave(job);
	TAILQ_REMOVE(job->fresh ? &b->fresh : &b->jobs, job, all);
	job->s->before = NULL;
	free(job);
}

/* The client is told, the message is over. May free the session. */
static void answer(struct before_job *job, const struct smtp_reply *r)
{
	struct session *s = job->s;
	end(job);
	if (s->conn && r->code < 300)
		smtp_server_accept(s->engine, r);
	else if (s->conn)
		smtp_server_reject(s->engine, r);
	session_settled(s);
}

static bool client_gone(const struct session *s)
{
	/* what it sent behind its message says that it wants to hear the answer (QUIT, most often) */
	return !s->conn || (!smtp_server_pipelined(s->engine) && (s->eof || net_conn_gone(s->conn)));
}

/* Without a reply, and without keeping anything: it will come again. */
void before_drop(struct session *s)
{
	struct before_job *job = s->before;
	s->in->before->clients_gone++;
	log_info(&s->log, "event=before-accept before=%lld verdict=dropped reason=\"the client is gone\" from=%s rcpts=%zu", (long long)job->id,
	    log_q(s->message.mail_from), s->message.n_rcpts);
	end(job);
}

/* To the stage it is at; behind the last, to admission. */
static void enter(struct before_job *job)
{
	struct session *s = job->s;
	struct before *b = s->in->before;
	const struct terms *t = s->terms;
	if (client_gone(s)) {
		session_drop(s);
		return;
	}
	if (job->at >= t->n_before) {
		end(job);
		admit_submit(s->in->admit, &s->message);
		return;
	}
	struct before_pool *p = before_pool_find(b, t->before[job->at]);
	job->pool = p;
	job->stage_us = clock_mono_us();
	if (!p) { /* memory */
		failed(job, BEFORE_NO_WORKER, "out of memory");
		return;
	}
	if (!before_pool_add(p, job))
		failed(job, BEFORE_OVERLOAD, "too many messages wait for this stage (QUEUE_LIMIT, PARALLELISM)");
}

static void log_verdict(const struct before_job *job, const char *verdict, const char *more, struct str why)
{
	const struct session *s = job->s;
	log_info(&s->log, "event=before-accept before=%lld stage=%s verdict=%s%s ms=%lld from=%s rcpts=%zu size=%llu%s%s", (long long)job->id,
	    s->terms->before[job->at], verdict, more, (long long)((clock_mono_us() - job->stage_us) / 1000), log_q(s->message.mail_from),
	    s->message.n_rcpts, (unsigned long long)s->message.spool.size, why.n ? " reason=" : "", why.n ? log_q(why) : "");
}

static void count_time(struct before_pool *p, int64_t us)
{
	unsigned i = 0;
	while (i < BEFORE_TIMES - 1 && us > (int64_t)BEFORE_TIME_FIRST_US << i)
		i++;
	p->time_le[i]++;
	p->times++;
	p->time_us += us > 0 ? (uint64_t)us : 0;
}

static void failed(struct before_job *job, enum before_failure kind, const char *why)
{
	struct session *s = job->s;
	static const char *const policy_names[] = { " policy=accept", " policy=tempfail", " policy=reject" };
	enum before_policy policy = s->terms->before_policy;
	before_pool_leave(job);
	if (job->pool)
		job->pool->failures[kind]++;
	char name[40];
	snprintf(name, sizeof name, "failed kind=%s", before_failure_names[kind]);
	log_verdict(job, name, policy_names[policy], str_from(why));
	if (policy == BEFORE_ACCEPTS) {
		job->at = kind == BEFORE_TIMEOUT && clock_mono_us() >= job->deadline_us ? s->terms->n_before : job->at + 1;
		enter(job); /* as often as there are stages */
		return;
	}
	struct smtp_reply later = { 451, "4.7.1", "The message could not be examined; try again later" };
	struct smtp_reply never = { 550, "5.7.1", "The message could not be examined" };
	s->in->rejected[REFUSED_BEFORE]++;
	answer(job, policy == BEFORE_REJECTS ? &never : &later);
}

/* Where a module that named a stage goes: further down the list, or out of it, with that stage as the message's first. */
static void go_to(struct before_job *job, struct str stage)
{
	const struct terms *t = job->s->terms;
	struct message *m = &job->s->message;
	for (unsigned i = job->at + 1; i < t->n_before; i++)
		if (str_ieq(stage, str_from(t->before[i]))) {
			job->at = i;
			return;
		}
	job->at = t->n_before;
	snprintf(m->stage, sizeof m->stage, "%.*s", STR_ARG(stage));
	ascii_lower_z(m->stage); /* as all names of stages are */
}

static void refuse(struct before_job *job, const struct wire_verdict *v)
{
	bool reject = v->what == WIRE_REJECT;
	char text[TEXT_MAX], enhanced[12];
	snprintf(enhanced, sizeof enhanced, "%.*s", STR_ARG(v->enhanced));
	before_reply_text(v->text, reject, text, sizeof text, enhanced);
	struct smtp_reply r = { reject ? 550 : 451, enhanced[0] ? enhanced : reject ? "5.7.1" : "4.7.1", text };
	if (!text[0])
		r.text = reject ? "The message is refused" : "The message cannot be taken at the moment; try again later";
	job->s->in->rejected[REFUSED_BEFORE]++;
	if (reject)
		vet_settled(job->s->in, &job->s->message);
	answer(job, &r);
}

static void judged(struct before_job *job, const struct wire_verdict *v, int body_fd)
{
	struct session *s = job->s;
	struct before_pool *p = job->pool;
	const char *why = NULL;
	char to[WIRE_STAGE_MAX + 8] = "", room[WHY_MAX];
	before_pool_leave(job);
	count_time(p, clock_mono_us() - job->stage_us);
	if (v->what == WIRE_PASS)
		why = before_apply(s, v, body_fd, room);
	else if (body_fd >= 0)
		close(body_fd);
	if (why || v->what == WIRE_FAULT) {
		char text[WIRE_TEXT_MAX + 1];
		snprintf(text, sizeof text, "%.*s", STR_ARG(why ? str_from(why) : v->detail));
		failed(job, why ? BEFORE_CONTENT : BEFORE_MISUSE, text);
		return;
	}
	p->verdicts[v->what]++;
	if (v->stage.n)
		snprintf(to, sizeof to, " to=%.*s", STR_ARG(v->stage));
	log_verdict(job, judgement_names[v->what], to, v->detail);
	switch (v->what) {
	case WIRE_PASS:
		session_charge(s, 2 * s->before_envelope + s->message.state.cap + s->message.text.cap);
		if (v->stage.n)
			go_to(job, v->stage);
		else
			job->at++;
		enter(job);
		return;
	case WIRE_DISCARD: /* as good as any other to the client; never a row, so never counted as accepted */
		answer(job, &(struct smtp_reply){ 250, "2.0.0", "Ok" });
		return;
	case WIRE_REJECT:
	case WIRE_DEFER:
	case WIRE_FAULT:
		break;
	}
	refuse(job, v);
}

/* --- from outside */

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
	struct before *b = arg;
	struct before_job *job;
	(void)fd;
	(void)what;
	while ((job = TAILQ_FIRST(&b->fresh))) {
		TAILQ_REMOVE(&b->fresh, job, all);
		TAILQ_INSERT_TAIL(&b->jobs, job, all);
		job->fresh = false;
		enter(job);
	}
	before_ask_kick(b);
}

int before_submit(struct before *b, struct session *s)
{
	struct before_job *job = calloc(1, sizeof *job);
	if (!job || message_state(&s->message)) {
		free(job);
		return -1;
	}
	job->kind = &messages;
	job->s = s;
	job->id = ++b->next_id;
	job->began_us = clock_mono_us();
	job->patience_us = s->terms->before_us;
	job->deadline_us = job->began_us + s->terms->before_us;
	job->fresh = true;
	s->before = job;
	s->before_envelope = s->envelope / 2;
	s->awaiting = true;
	/* not now: we are inside the engine's turn, and an answer would begin another */
	TAILQ_INSERT_TAIL(&b->fresh, job, all);
	event_active(b->kick, EV_TIMEOUT, 0);
	return 0;
}

void before_cancel(struct session *s)
{
	end(s->before);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct before *b = arg;
	struct before_job *job, *next;
	int64_t now = clock_mono_us();
	(void)fd;
	(void)what;
	before_pool_tick(b, now);
	before_ask_tick(b, now);
	for (job = TAILQ_FIRST(&b->jobs); job; job = next) {
		next = TAILQ_NEXT(job, all);
		if (now >= job->deadline_us)
			failed(job, BEFORE_TIMEOUT, job->w ? "the stage gave no verdict in time (BEFORE_ACCEPT_TIMEOUT)"
							   : "no worker of the stage was free in time (BEFORE_ACCEPT_TIMEOUT)");
		else if (client_gone(job->s))
			session_drop(job->s);
	}
}
