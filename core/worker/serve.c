/* The loop of a worker whose module drives many messages at once (concurrent.h): channel, commits and leaving beside the module's own events.
 * Nothing waits here: passes that are over gather for RUN_HOLD_US and are committed together. While a commit or a load waits for the database, the loop
 * turns on (wait_for(): that is why neither is begun in a callback), so that a server that says nothing holds up what is to be written and no
 * session; when it is away, both are tried again now and then, more seldom the longer a try takes. Answers carry the id and come in the order of
 * the commits.
 *
 * Leaving, told: the channel's end says that no more comes (reload, MAX_MESSAGES, idle). What is here is begun, hears stop(YIELD) and may go on for DRAIN_US;
 * then, or at once on SIGTERM, the dispatcher is told ("3"), stop(LEAVE) is called for each pending message, and
 * CONCURRENT_GRACE_US later the process ends whatever is left; what was done is committed first. A message that has had MAX_RUNTIME in spite
 * of stop(RUNTIME) ends the worker the same way, so that its neighbours can end well, and is named in the page. */
#include "run.h"

#include "base/clock.h"
#include "concurrent.h"
#include "measure.h"
#include "page.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	TICK_US = 250 * 1000,
	DRAIN_US = 60 * 1000 * 1000,
	BEGIN_MAX = 32,                /* messages begun before the loop looks at what else there is */
	OCTETS_MAX = 256 * 1024 * 1024, /* content of messages that are pending or read ahead; above it nothing more is read */
	RETRY_MS = 50,
	RETRY_MAX_MS = 5000,
	SILENT_US = 3 * 1000 * 1000,   /* a database that took so long is worth a line */
};

struct work {
	TAILQ_ENTRY(work) link;
	struct pepsi_msg msg;
	struct pending pending;
	struct item *item;
	size_t octets;
	int64_t took_us;
};
TAILQ_HEAD(work_list, work);

struct serve {
	struct run *r;
	struct concurrent *c;
	struct event *channel, *stop, *tick, *commit;
	bool channel_on, channel_is_file;
	struct work_list spare, busy, done, writing; /* free; the module's; over; in a slot of the run's */
	size_t n_work, n_done, octets, limit, octets_max;
	int64_t retry_at;       /* no database before; 0: it is there */
	int retry_ms;
	bool commit_due;        /* the loop's next turn is to commit */
	bool loading;           /* within run_load(): the items read ahead are not to be touched */
	short answered;         /* what the database's descriptor said; 0: nothing yet */
	int64_t asked_at;       /* the database is waited for since then; 0: it is not */
	bool silent;            /* that was said */
	struct pepsi_metric *silences;
	int64_t drain_until;    /* the channel has ended; 0: it has not */
	int64_t leave_until;    /* 0: not leaving */
	struct work *overdue;   /* this one has had its time; NULL: none has */
	int64_t overdue_id;
	bool over;              /* nothing more is begun: the last things are written */
	bool gone;              /* the dispatcher, or the channel is unusable */
	bool broken;
};

static struct work *work_of(struct pepsi_msg *m)
{
	return (struct work *)(void *)((char *)m - offsetof(struct work, msg));
}

/* --- passes */

/* Memory of messages is never given back: see struct pending. The oldest goes first, so that it is long before one is another's. */
static struct work *work_new(struct serve *s, struct item *it)
{
	struct work *w = TAILQ_FIRST(&s->spare);
	if (w)
		TAILQ_REMOVE(&s->spare, w, link);
	else if (!(w = calloc(1, sizeof *w)))
		return NULL;
	w->item = it;
	w->octets = it->w.headers.n + it->w.body_size;
	s->octets += w->octets;
	s->n_work++;
	TAILQ_INSERT_TAIL(&s->busy, w, link);
	return w;
}

static void work_free(struct serve *s, struct work_list *from, struct work *w)
{
	TAILQ_REMOVE(from, w, link);
	s->n_work--;
	s->octets -= w->octets;
	item_free(w->item);
	w->item = NULL;
	if (w->msg.a && arena_used(w->msg.a) > 64 * 1024) { /* a large one leaves nothing behind */
		arena_free(w->msg.a);
		w->msg.a = NULL;
	}
	TAILQ_INSERT_TAIL(&s->spare, w, link);
}

static void commit_within(struct serve *s, int64_t us)
{
	struct timeval tv = { .tv_usec = us };
	if (!us)
		event_active(s->commit, EV_TIMEOUT, 0);
	else if (!event_pending(s->commit, EV_TIMEOUT, NULL))
		event_add(s->commit, &tv);
}

static void over(void *arg, struct pepsi_msg *m, int32_t rc)
{
	struct serve *s = arg;
	struct work *w = work_of(m);
	pass_conclude(m, rc);
	w->took_us = clock_mono_us() - m->began_us;
	TAILQ_REMOVE(&s->busy, w, link);
	TAILQ_INSERT_TAIL(&s->done, w, link);
	s->n_done++;
	commit_within(s, s->n_done >= RUN_BATCH || run_octets_held(m) >= RUN_OCTETS_MAX ? 0 : RUN_HOLD_US);
}

static void hand(void *arg, const struct pepsi_msg *m, int64_t since)
{
	const struct serve *s = arg;
	if (since)
		page_hop(m ? m->id : 0, 0, s->r->env, since);
	else
		page_idle();
}

/* --- the database */

/* How long the try took counts: two thirds of the time are the module's, even where it is a name that nobody answers to. */
static void away(struct serve *s, int64_t began)
{
	int64_t now = clock_mono_us(), wait;
	s->retry_ms = !s->retry_ms ? RETRY_MS : s->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : s->retry_ms * 2;
	wait = s->retry_ms * INT64_C(1000);
	if (wait < 2 * (now - began))
		wait = 2 * (now - began);
	s->retry_at = now + wait;
}

/* The database was waited for, and said what it said. */
static void answered(struct serve *s)
{
	if (s->silent)
		log_info(NULL, "event=database-spoke stage=%s seconds=%lld pending=%zu", s->r->env->stage, (long long)((clock_mono_us() - s->asked_at) / US_PER_S),
		    concurrent_pending(s->c));
	s->asked_at = 0;
	s->silent = false;
}

static void look_at_silence(struct serve *s, int64_t now)
{
	if (!s->asked_at || s->silent || now - s->asked_at < SILENT_US)
		return;
	s->silent = true;
	if (s->silences)
		host_measure(s->silences, NULL, 1);
	log_warn(NULL, "event=database-silent stage=%s seconds=%lld pending=%zu unwritten=%zu hint=\"sessions go on; nothing is written before it answers\"",
	    s->r->env->stage, (long long)((now - s->asked_at) / US_PER_S), concurrent_pending(s->c), s->n_done + s->r->n_slots);
}

static void gather(struct serve *s)
{
	struct run *r = s->r;
	struct work *w;
	while (r->n_slots < RUN_BATCH && r->held < RUN_OCTETS_MAX && (w = TAILQ_FIRST(&s->done))) {
		TAILQ_REMOVE(&s->done, w, link);
		TAILQ_INSERT_TAIL(&s->writing, w, link);
		s->n_done--;
		struct run_slot *slot = run_slot_new(r, w->msg.id);
		run_take(r, slot, &w->msg);
		slot->took_us = w->took_us;
	}
}

static void commit(struct serve *s)
{
	int64_t began = clock_mono_us();
	if (began < s->retry_at)
		return;
	gather(s);
	int k = run_try(s->r);
	answered(s);
	if (k < 0) {
		log_error(NULL, "event=commit-lost stage=%s hint=\"the dispatcher is gone; what was just done may be handled again\"", s->r->env->stage);
		s->gone = true;
	} else if (k > 0) {
		away(s, began);
	} else {
		s->retry_at = s->retry_ms = 0;
		if (s->n_done)
			commit_within(s, 0);
	}
}

static void release(struct run *r, struct pepsi_msg *m)
{
	struct serve *s = r->release_arg;
	work_free(s, &s->writing, work_of(m));
}

/* Not here: a commit waits, and the loop is to turn meanwhile. */
static void commit_soon(struct serve *s)
{
	s->commit_due = true;
	event_base_loopbreak(concurrent_base(s->c));
}

static void on_commit(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	commit_soon(arg);
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	struct serve *s = arg;
	(void)fd;
	s->answered = what;
	event_base_loopbreak(concurrent_base(s->c));
}

static void begin_meanwhile(struct serve *s);

/* A store_wait_fn: the loop turns until the database's descriptor says something. What came with its content is begun, too. */
static int wait_for(void *arg, int fd, bool to_read, bool to_write, int ms)
{
	struct serve *s = arg;
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	struct event *ev = event_new(concurrent_base(s->c), fd, (short)((to_read ? EV_READ : 0) | (to_write ? EV_WRITE : 0)), on_answer, s);
	s->answered = 0;
	if (!ev || event_priority_set(ev, 0) || event_add(ev, &tv)) { /* no memory: as if it were silent; it is tried again */
		if (ev)
			event_free(ev);
		return 0;
	}
	if (!s->asked_at)
		s->asked_at = clock_mono_us();
	while (!s->answered) {
		begin_meanwhile(s);
		event_base_loop(concurrent_base(s->c), EVLOOP_ONCE);
	}
	event_free(ev);
	return (s->answered & (EV_READ | EV_WRITE)) != 0;
}

/* --- the channel */

static bool may_read(const struct serve *s)
{
	const struct run *r = s->r;
	return !s->leave_until && !s->gone && !r->in.ended && s->n_work + r->in.n < s->limit && s->octets + r->in.octets < s->octets_max &&
	    (!r->max_messages || r->in.taken < r->max_messages);
}

/* Nobody reads just now: what lies there would wake the loop for nothing. read_some() turns it on again. */
static void channel_off(struct serve *s)
{
	if (s->channel_on && !s->channel_is_file) {
		s->channel_on = false;
		event_del(s->channel);
	}
}

static void read_some(struct serve *s)
{
	struct run *r = s->r;
	char err[256] = "";
	int got = 0;
	while (may_read(s) && (got = input_fill(&r->in, 0, -1, err, sizeof err)) > 0)
		;
	if (got < 0) {
		log_error(NULL, "event=channel-broken stage=%s error=%s", r->env->stage, log_qz(err));
		s->gone = s->broken = true;
	}
	bool want = may_read(s);
	if (want != s->channel_on && !s->channel_is_file) {
		s->channel_on = want;
		if (want)
			event_add(s->channel, NULL);
		else
			event_del(s->channel);
	}
	if (r->in.ended && !r->by_hand && !s->drain_until)
		s->drain_until = clock_mono_us() + DRAIN_US;
}

static int more(void *arg)
{
	const struct serve *s = arg;
	return s->r->in.head || input_readable(&s->r->in);
}

static void begin(struct serve *s, struct item *it)
{
	struct work *w = NULL;
	if (it->st == ITEM_READY && !item_map(it) && !item_own(it) && (w = work_new(s, it)) && !pass_begin(&w->msg, s->r->env, &it->w)) {
		concurrent_begin(s->c, &w->msg, &w->pending);
		return;
	}
	if (it->st == ITEM_READY) {
		it->st = ITEM_REFUSED;
		snprintf(it->why, sizeof it->why, "out of memory");
	}
	run_refuse(s->r, it);
	if (w)
		work_free(s, &s->busy, w); /* and the item */
	else
		item_free(it);
	commit_within(s, 0);
}

/* Returns whether there is more to begin at once. */
static bool begin_some(struct serve *s)
{
	struct run *r = s->r;
	for (unsigned n = 0; r->in.head && !s->leave_until && !s->gone; n++) {
		if (n == BEGIN_MAX)
			return true;
		if (r->n_slots == RUN_BATCH) /* those that wait for the database: there is no room for a refusal before the next commit */
			return false;
		if (r->in.head->st == ITEM_BARE) {
			int64_t began = clock_mono_us();
			if (began < s->retry_at)
				return false;
			s->loading = true;
			int k = run_load(r);
			s->loading = false;
			answered(s);
			if (k > 0) {
				away(s, began);
				if (s->retry_ms == RETRY_MS) /* once */
					log_warn(NULL, "event=load-waits stage=%s ids=%zu error=\"the database is away\"", r->env->stage, r->in.n);
				return false;
			}
		}
		begin(s, input_take(&r->in));
	}
	return false;
}

/* While the database is waited for: what needs nothing of it. What cannot be begun is refused, which needs room among the answers. */
static void begin_meanwhile(struct serve *s)
{
	struct run *r = s->r;
	if (s->loading || s->over || s->leave_until || s->gone) {
		channel_off(s);
		return;
	}
	read_some(s);
	for (unsigned n = 0; n < BEGIN_MAX && r->in.head && r->in.head->st == ITEM_READY && r->n_slots < RUN_BATCH; n++)
		begin(s, input_take(&r->in));
}

/* --- the end */

static void leave(struct serve *s, const char *why)
{
	if (s->leave_until)
		return;
	s->leave_until = clock_mono_us() + CONCURRENT_GRACE_US;
	log_info(NULL, "event=leaving stage=%s reason=%s pending=%zu", s->r->env->stage, log_qz(why), concurrent_pending(s->c));
	if (run_leaving(s->r))
		s->gone = true;
	concurrent_stop_all(s->c);
}

static void on_stop(evutil_socket_t fd, short what, void *arg)
{
	struct serve *s = arg;
	(void)fd;
	(void)what;
	event_del(s->stop);
	leave(s, "SIGTERM");
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct serve *s = arg;
	int64_t now = clock_mono_us();
	(void)fd;
	(void)what;
	if (!s->r->by_hand && s->r->in.ended && run_nobody_there(s->r))
		s->gone = true;
	measure_tell(s->r->by_hand ? -1 : s->r->out_fd, false);
	struct pepsi_msg *m = concurrent_stop_near(s->c, now);
	if (m && !s->overdue) {
		s->overdue = work_of(m);
		s->overdue_id = m->id;
		log_error(&m->log, "event=overdue max_runtime_ms=%lld hint=\"its module did not end it after stop()\"", (long long)s->r->env->runtime_ms);
		leave(s, "a message has had MAX_RUNTIME");
	}
	if (s->drain_until && now >= s->drain_until)
		leave(s, "the time to drain is over");
	else if (s->drain_until && !s->leave_until)
		concurrent_yield_all(s->c);
	if (s->leave_until)
		concurrent_stop_all(s->c); /* for whom there was no memory before */
	look_at_silence(s, now);
	if (s->retry_at && now >= s->retry_at)
		commit_soon(s);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	(void)fd; /* the loop's turn reads */
	(void)what;
	(void)arg;
}

static bool idle(const struct serve *s)
{
	return !s->n_work && !s->r->n_slots;
}

static bool finished(struct serve *s)
{
	const struct run *r = s->r;
	if (s->gone)
		return true;
	if (idle(s) && (s->leave_until || (!r->in.head && (r->in.ended || (r->max_messages && r->in.taken >= r->max_messages)))))
		return true;
	if (!s->leave_until || clock_mono_us() < s->leave_until)
		return false;
	/* What is done is written first, unless whoever sent SIGTERM has no more time for that. */
	bool written = !s->n_done && !r->n_slots;
	return written || *r->stop;
}

static void flush(struct serve *s)
{
	s->retry_at = 0;
	s->over = true;
	for (size_t before = 0; (s->n_done || s->r->n_slots) && before != s->n_done + s->r->n_slots + 1;) {
		before = s->n_done + s->r->n_slots + 1;
		commit(s);
	}
}

static int status(struct serve *s, bool *ret_left)
{
	*ret_left = s->n_work || s->r->in.head;
	if (s->broken)
		return 1;
	if (s->overdue && s->overdue->pending.life == PENDING_WAITS && s->overdue->msg.id == s->overdue_id) {
		page_hop(s->overdue_id, 0, s->r->env, clock_mono_us());
		return WIRE_EXIT_OVERRUN;
	}
	return *ret_left ? WIRE_EXIT_LEFT : 0;
}

/* In time for the base to be freed. */
static void no_events(struct serve *s)
{
	struct event **ev[] = { &s->channel, &s->stop, &s->tick, &s->commit };
	for (size_t i = 0; i < sizeof ev / sizeof *ev; i++) {
		if (*ev[i])
			event_free(*ev[i]);
		*ev[i] = NULL;
	}
}

int serve_loop(struct serve *s, struct concurrent *c, bool *ret_left)
{
	struct run *r = s->r;
	struct event_base *base = concurrent_base(c);
	struct timeval tv = { .tv_usec = TICK_US };
	*ret_left = false;
	s->c = c;
	r->env->more = more;
	r->env->more_arg = s;
	s->limit = config_queue_limit(r->c, r->env->conf->section, true);
	s->channel = event_new(base, r->in.fd, EV_READ | EV_PERSIST, on_wake, s);
	s->stop = event_new(base, r->stop_fd, EV_READ | EV_PERSIST, on_stop, s);
	s->tick = event_new(base, -1, EV_PERSIST, on_tick, s);
	s->commit = event_new(base, -1, 0, on_commit, s);
	if (!s->channel || !s->stop || !s->tick || !s->commit || event_priority_set(s->commit, 0) || event_priority_set(s->stop, 0) ||
	    event_priority_set(s->tick, 0) || event_add(s->stop, NULL) || event_add(s->tick, &tv)) {
		log_error(NULL, "event=cannot-start stage=%s error=\"no event loop\"", r->env->stage);
		no_events(s);
		return 1;
	}
	if (event_add(s->channel, NULL)) /* by hand, ids may come from a file, which is always readable */
		s->channel_is_file = true;
	s->channel_on = true;
	if (r->store.live) {
		s->silences = host_metric(r->env->conf, PEPSI_METRIC_COUNTER, "database_silences", NULL,
		    "Times that the database took three seconds or longer to answer a worker with many messages at once.");
		if (s->silences)
			host_measure(s->silences, NULL, 0);
		r->store.live(r->store.arg, base, wait_for, s);
	}
	for (;;) {
		read_some(s);
		bool again = begin_some(s) || (s->channel_is_file && may_read(s));
		if (s->commit_due) {
			s->commit_due = false;
			commit(s);
			again = true;
		}
		if (finished(s))
			break;
		event_base_loop(base, EVLOOP_ONCE | (again ? EVLOOP_NONBLOCK : 0));
	}
	flush(s);
	if (r->store.live)
		r->store.live(r->store.arg, NULL, NULL, NULL);
	no_events(s);
	return status(s, ret_left);
}

struct serve *serve_new(struct run *r)
{
	struct serve *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->r = r;
	s->limit = 1;
	s->octets_max = OCTETS_MAX;
	TAILQ_INIT(&s->spare);
	TAILQ_INIT(&s->busy);
	TAILQ_INIT(&s->done);
	TAILQ_INIT(&s->writing);
	r->by_id = true;
	r->release = release;
	r->release_arg = s;
	return s;
}

struct concurrent_owner serve_owner(struct serve *s)
{
	return (struct concurrent_owner){ s, over, hand };
}

void serve_free(struct serve *s)
{
	struct work *w;
	if (!s)
		return;
	struct work_list *all[] = { &s->spare, &s->busy, &s->done, &s->writing };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		while ((w = TAILQ_FIRST(all[i]))) {
			TAILQ_REMOVE(all[i], w, link);
			item_free(w->item);
			pass_free(&w->msg);
			free(w);
		}
	free(s);
}
