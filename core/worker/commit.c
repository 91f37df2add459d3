/* Settling a batch: one commit for all passes, patience with a database that is away, then the answers in order.
 *
 * A pass that has delivered something must not be forgotten: its commit is tried until it works or the dispatcher is
 * gone, because giving the row back would deliver it twice. Passes that only moved a row may be given back. A worker that has
 * more to do than to wait (serve.c) tries once, and comes again. */
#include "base/clock.h"
#include "base/fds.h"
#include "fuse.h"
#include "measure.h"
#include "run.h"
#include "state.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKOFF_MS = 50, BACKOFF_MAX_MS = 5000, STOP_GRACE_US = 5 * 1000 * 1000, UP_MAX = 64 * 1024 };

static void log_event(const struct run_slot *s)
{
	const struct pepsi_msg *m = s->msg;
	long us = (long)s->took_us;
	char to[PASS_STAGE_MAX + 16] = "";
	if (m->event_level > log_max())
		return;
	if (m->end == END_MOVE && m->end_stage)
		snprintf(to, sizeof to, " to=%s", m->end_stage);
	else if (m->end == END_PAUSE)
		snprintf(to, sizeof to, " retry_s=%u", m->end_secs);
	if (m->reason)
		log_line(m->event_level, &m->log, "event=%s%s rcpts=%zu us=%ld reason=%s", m->event, to, m->n_done, us,
		    log_qz(m->reason));
	else
		log_line(m->event_level, &m->log, "event=%s%s rcpts=%zu us=%ld", m->event, to, m->n_done, us);
}

/* A move to the bounce stage is news, any other one detail: as build_move() has it. */
static void log_hops(const struct pepsi_msg *m)
{
	for (size_t i = 0; i < m->n_hops; i++) {
		const struct pass_hop *h = &m->hops[i];
		const char *to = i + 1 < m->n_hops ? m->hops[i + 1].env->stage : m->env->stage;
		enum log_level lv = h->reason ? LOG_LV_INFO : LOG_LV_DEBUG;
		struct log_ctx ctx;
		if (lv > log_max())
			continue;
		log_ctx_set(&ctx, NULL, "id=%lld stage=%s", (long long)m->id, h->env->stage);
		if (h->reason)
			log_line(lv, &ctx, "event=moved to=%s rcpts=%zu us=%ld fused=yes reason=%s", to, h->n_rcpts, (long)h->us, log_qz(h->reason));
		else
			log_line(lv, &ctx, "event=moved to=%s rcpts=%zu us=%ld fused=yes", to, h->n_rcpts, (long)h->us);
	}
}

static void settle(struct run_slot *s, int status, const char *error)
{
	s->settled = true;
	s->status = status;
	if (error) {
		struct arena *a = arena_new(16384);
		char *text = a ? state_escape(a, str_from(error), 90) : NULL;
		snprintf(s->json, sizeof s->json, "{\"error\":\"%s\"}", text ? text : "out of memory");
		arena_free(a);
	}
}

/* One try over all slots that are not settled. Returns how many remain; *ret_changed: some of them say something else
 * now, so that the next try need not wait. */
static size_t attempt(struct run *r, const char **why, bool *ret_changed)
{
	struct store_pass passes[RUN_BATCH];
	struct run_slot *of[RUN_BATCH];
	size_t n = 0, left = 0;
	for (size_t i = 0; i < r->n_slots; i++) {
		struct run_slot *s = &r->slots[i];
		if (s->settled)
			continue;
		of[n] = s;
		passes[n++] = s->msg->pass;
	}
	if (!n)
		return 0;
	enum store_rc all = r->store.commit(r->store.arg, passes, n);
	for (size_t i = 0; i < n; i++) {
		enum store_rc rc = all != STORE_OK ? all : passes[i].rc;
		struct run_slot *s = of[i];
		snprintf(s->msg->pass.err, sizeof s->msg->pass.err, "%s", passes[i].err);
		if (rc == STORE_OK) {
			settle(s, 0, NULL);
		} else if (rc == STORE_REFUSED && !s->msg->refused) {
			log_error(&s->msg->log, "event=refused error=%s", log_qz(passes[i].err));
			pass_refused(s->msg, passes[i].err);
			s->msg->refused = *ret_changed = true;
			left++;
		} else if (rc == STORE_REFUSED) {
			settle(s, 1, passes[i].err[0] ? passes[i].err : "the database refuses to change this row");
		} else {
			left++;
			*why = s->msg->pass.err;
		}
	}
	return left;
}

/* Waits ms; 0, or -1: the dispatcher is gone. */
static int wait_ms(struct run *r, int ms)
{
	struct pollfd p = { .fd = r->by_hand ? -1 : r->in.fd, .events = 0 };
	int64_t until = clock_mono_us() + ms * INT64_C(1000);
	do {
		int k = poll(&p, 1, (int)((until - clock_mono_us()) / 1000) + 1);
		if (k > 0 && p.revents & (POLLHUP | POLLERR))
			return -1;
	} while (clock_mono_us() < until);
	return 0;
}

static void give_up_on(struct run *r, const char *why)
{
	for (size_t i = 0; i < r->n_slots; i++)
		if (!r->slots[i].settled)
			settle(&r->slots[i], 1, why[0] ? why : "the database is away");
}

static int persist(struct run *r)
{
	bool keep = r->caps & RUN_EFFECT;
	int64_t began = clock_mono_us(), stopped = 0;
	const char *why = "";
	int ms = 0;
	for (;;) {
		bool changed = false;
		size_t left = attempt(r, &why, &changed);
		if (!left)
			return 0;
		if (changed)
			continue;
		int64_t now = clock_mono_us();
		if (*r->stop && !stopped)
			stopped = now;
		if ((!keep && now - began > r->patience_s * US_PER_S) || (stopped && now - stopped > STOP_GRACE_US)) {
			give_up_on(r, why);
			return 0;
		}
		if (!ms)
			log_warn(NULL, "event=commit-waits messages=%zu error=%s", left, log_qz(why));
		else if (wait_ms(r, ms)) {
			log_error(NULL, "event=commit-lost messages=%zu hint=\"the dispatcher is gone; these may be handled again\"",
			    left);
			return -1;
		}
		ms = ms ? ms * 2 : BACKOFF_MS;
		if (ms > BACKOFF_MAX_MS)
			ms = BACKOFF_MAX_MS;
	}
}

static int send_up(struct run *r, struct str s)
{
	while (s.n) {
		ssize_t k = r->by_hand ? write(r->out_fd, s.p, s.n) : send(r->out_fd, s.p, s.n, MSG_NOSIGNAL);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno == EAGAIN) {
			struct pollfd p = { .fd = r->out_fd, .events = POLLOUT };
			poll(&p, 1, 1000);
			continue;
		}
		if (k < 0)
			return -1;
		s = str_skip(s, (size_t)k);
	}
	return 0;
}

static int answer(struct run *r)
{
	struct buf b = BUF_INIT(UP_MAX);
	int bad = 0;
	for (size_t i = 0; i < r->n_slots && !bad; i++) {
		struct run_slot *s = &r->slots[i];
		struct wire_status st = { .status = s->status, .json = str_from(s->json), .id = r->by_id ? s->id : 0 };
		if (s->status == 0 && s->msg)
			st.json = r->by_hand && !s->msg->n_hops ? STR_NULL : str_from(s->msg->json);
		if (s->status)
			r->failed_some = true;
		char worn[WIRE_LINE_MAX];
		if (fuse_worn(r->fuse) && !r->worn_said && st.json.n > 2 && !r->by_hand &&
		    snprintf(worn, sizeof worn, "%.*s,\"worn\":true}", (int)st.json.n - 1, st.json.p) < (int)sizeof worn - 4) {
			r->worn_said = true;
			st.json = str_from(worn);
		}
		if (b.n + WIRE_LINE_MAX > UP_MAX) {
			bad = send_up(r, buf_str(&b));
			buf_reset(&b);
		}
		if (!bad && wire_status_put(&b, &st)) { /* a line that cannot be said is said without its explanation */
			st.json = STR_NULL;
			bad = wire_status_put(&b, &st);
		}
	}
	if (!bad && b.n)
		bad = send_up(r, buf_str(&b));
	buf_free(&b);
	return bad;
}

int run_ready(struct run *r, int page_fd)
{
	union fds_room ctl;
	struct buf b = BUF_INIT(16);
	if (wire_status_put(&b, &(struct wire_status){ .status = WIRE_READY, .by_id = r->by_id }))
		return -1;
	struct iovec v = { b.p, b.n };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	fds_attach_one(&m, &ctl, page_fd);
	ssize_t k;
	do /* the first datagram of a new socket: there is room */
		k = sendmsg(r->out_fd, &m, MSG_NOSIGNAL);
	while (k < 0 && errno == EINTR);
	buf_free(&b);
	return k < 0 ? -1 : 0;
}

int run_leaving(struct run *r)
{
	return r->by_hand ? 0 : send_up(r, STR("3\n"));
}

static void prepare(struct run *r)
{
	for (size_t i = 0; i < r->n_slots; i++)
		if (!r->slots[i].settled && !r->slots[i].msg->pass.n_ops)
			settle(&r->slots[i], 1, "out of memory");
}

/* All is settled, or nobody is there (bad). */
static int finish(struct run *r, int bad)
{
	if (!bad) {
		for (size_t i = 0; i < r->n_slots; i++)
			if (r->slots[i].msg && r->slots[i].status == 0) {
				log_hops(r->slots[i].msg);
				log_event(&r->slots[i]);
			}
		bad = answer(r);
		if (!bad)
			measure_tell(r->by_hand ? -1 : r->out_fd, false);
	}
	for (size_t i = 0; i < r->n_slots; i++) {
		struct pepsi_msg *m = r->slots[i].msg;
		if (!m)
			continue;
		pass_end(m);
		if (r->release)
			r->release(r, m);
		else
			r->spare[r->n_spare++] = m;
	}
	r->n_slots = 0;
	r->held = 0;
	r->caps = 0;
	r->effect = NULL;
	r->effects_mixed = false;
	r->first_us = 0;
	return bad;
}

int run_commit(struct run *r)
{
	if (!r->n_slots)
		return 0;
	prepare(r);
	return finish(r, persist(r));
}

int run_try(struct run *r)
{
	const char *why = "";
	bool changed;
	size_t left;
	if (!r->n_slots)
		return 0;
	prepare(r);
	do {
		changed = false;
		left = attempt(r, &why, &changed);
	} while (left && changed);
	int64_t now = clock_mono_us();
	if (left && (r->caps & RUN_EFFECT || !r->unwritten_since || now - r->unwritten_since < r->patience_s * US_PER_S)) {
		if (!r->unwritten_since) {
			r->unwritten_since = now;
			log_warn(NULL, "event=commit-waits messages=%zu error=%s", left, log_qz(why));
		}
		return 1;
	}
	if (left)
		give_up_on(r, why);
	else
		r->unwritten_since = 0;
	return finish(r, 0);
}
