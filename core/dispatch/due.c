/* Paused rows: when to look for those whose time has come, where to go on looking, and the server's clock. Decides nothing about single rows; of which
 * domains only some come is crowd.c's. */
#include "dispatch_internal.h"

#include "base/clock.h"

#include <stdlib.h>

enum {
	DUE_COALESCE_US = 50 * 1000,
	DUE_PAUSED_US = 400 * 1000,       /* a row that was paused just now is due in a second, or later */
	DUE_OPEN_US = 5 * 1000,           /* answers of several domains make one statement */
	DUE_AGAIN_US = 5 * 1000 * 1000,   /* with rows left behind, between two looks from the beginning: at least so long, and … */
	DUE_AGAIN_PART = 10,              /* … so many times as long as such a look takes */
	DUE_STAGES_MAX = 256,
	DUE_DOMAINS_MAX = 10000,
};

struct due_call {
	unsigned n;
	struct stage *stage[DUE_STAGES_MAX];
	struct store_due_stage ask[DUE_STAGES_MAX];
	struct store_due_domain domain[DUE_DOMAINS_MAX];
	bool looks;
};

/* Whichever is sooner: pauses that come one after the other must not put a look off. */
static void arm(struct dispatch *d)
{
	int64_t now = clock_mono_us(), at = d->look_at < d->open_at ? d->look_at : d->open_at, in = at - now < 1000 ? 1000 : at - now;
	if (d->due_running || d->stopping || at == INT64_MAX || (event_pending(d->due, EV_TIMEOUT, NULL) && d->due_at <= at))
		return;
	d->due_at = now + in;
	struct timeval tv = { .tv_sec = in / US_PER_S, .tv_usec = in % US_PER_S };
	event_add(d->due, &tv);
}

static void look_in(struct dispatch *d, int64_t us)
{
	int64_t at = clock_mono_us() + us;
	if (at < d->look_at)
		d->look_at = at;
	arm(d);
}

void due_answered(struct dispatch *d, struct stage *st, uint32_t place, int64_t paused_us)
{
	int64_t at = clock_mono_us() + DUE_OPEN_US;
	if (!crowd_answered(d, st, place, paused_us) || d->open_at <= at)
		return;
	d->open_at = at;
	arm(d);
}

static void brought_forward(void *arg, enum store_rc rc, unsigned n)
{
	struct dispatch *d = arg;
	if (rc == STORE_OK && n)
		log_warn(NULL, "event=due-earlier rows=%u hint=\"paused before the clock went back\"", n);
	d->behind = false;
	dispatch_due_soon(d);
}

/* A message that waits ten minutes is not to wait for hours because the server's clock was wrong when it was paused. Earlier
 * than meant does no harm, so a clock that went forward is left alone. */
static void watch_clock(struct dispatch *d, int64_t db_us)
{
	int64_t now = clock_mono_us(), back = d->db_clock_us + (now - d->db_clock_at) - db_us;
	if (d->db_clock_us && back > CLOCK_STEP_US) {
		log_warn(NULL, "event=clock-went-back by_s=%lld hint=\"the database server's; paused messages are due so much earlier\"",
		    (long long)(back / US_PER_S));
		store_due_earlier(d->db, back, brought_forward, d);
	}
	d->db_clock_us = db_us;
	d->db_clock_at = now;
}

/* Where the next look begins, and when. */
static void looked(struct dispatch *d, const struct store_due *got, int64_t now)
{
	bool more = got->wait_us == 1;
	d->behind = got->looked;
	d->after_us = got->upto_us;
	d->after_id = got->upto_id;
	if (d->anew && !more) {
		int64_t took = now - d->began_at;
		d->anew = false;
		d->again_at = now + (took * DUE_AGAIN_PART > DUE_AGAIN_US ? took * DUE_AGAIN_PART : DUE_AGAIN_US);
	}
	d->mid = more;
	d->look_at = now + (more ? 0 : d->poll_interval_us);
}

static void requeued(void *arg, enum store_rc rc, const struct store_due *got)
{
	struct dispatch *d = arg;
	struct due_call *c = d->due_call;
	int64_t now = clock_mono_us();
	d->due_running = false;
	if (rc != STORE_OK) {
		d->behind = d->mid = false;
		d->look_at = now + d->poll_interval_us;
	} else {
		size_t before = d->crowds.n;
		d->requeued_total += got->requeued;
		for (size_t i = 0; i < got->n_domains; i++)
			if (got->domains[i].stage < c->n)
				crowd_got(d, c->stage[got->domains[i].stage], got->domains[i].domain, got->domains[i].n, now);
		if (!before && d->crowds.n)
			log_info(NULL, "event=crowd domains=%zu hint=\"more is due than they are given at once: one message of each goes first\"", d->crowds.n);
		else if (before && !d->crowds.n)
			log_info(NULL, "event=crowd-over domains_so_far=%llu", (unsigned long long)d->crowds_total);
		if (c->looks)
			looked(d, got, now);
		if (!d->mid && got->wait_us > 1 && got->wait_us < d->look_at - now)
			d->look_at = now + (got->wait_us < DUE_COALESCE_US ? DUE_COALESCE_US : got->wait_us);
		if (!d->mid && d->crowds.n && d->again_at < d->look_at)
			d->look_at = d->again_at;
		if (got->requeued)
			dispatch_wake(d, NULL);
		watch_clock(d, got->now_us);
	}
	d->open_at = crowd_next(d);
	if (d->open_at <= now)
		d->open_at = now + (rc == STORE_OK ? DUE_OPEN_US : US_PER_S);
	if (d->due_wanted) {
		d->due_wanted = false;
		look_in(d, DUE_PAUSED_US);
	}
	arm(d);
}

static void on_due(evutil_socket_t fd, short what, void *arg)
{
	struct dispatch *d = arg;
	struct due_call *c = d->due_call;
	struct stage *st;
	int64_t now = clock_mono_us();
	(void)fd;
	(void)what;
	if (!d->db_up || d->due_running || d->stopping)
		return;
	c->looks = d->mid || now >= d->look_at || now < d->open_at;
	c->n = 0;
	TAILQ_FOREACH(st, &d->stages, link) {
		if (c->n == DUE_STAGES_MAX)
			break;
		st->firsts = crowd_firsts(d, st);
		c->stage[c->n++] = st; /* in the order of their numbers: they are never taken away */
	}
	if (c->looks && !d->mid && (!d->crowds.n || now >= d->again_at))
		d->behind = false;
	if (c->looks && !d->behind) {
		d->anew = true;
		d->began_at = now;
	}
	size_t n_domains = crowd_ask(d, now, c->looks, c->n, c->domain, DUE_DOMAINS_MAX);
	for (unsigned i = 0; i < c->n; i++)
		c->ask[i] = (struct store_due_stage){ c->stage[i]->name, c->stage[i]->firsts };
	struct store_due_ask ask = { .stages = c->ask, .n_stages = c->n, .look = c->looks, .behind = d->behind, .after_us = d->after_us,
		.after_id = d->after_id, .domains = c->domain, .n_domains = n_domains };
	d->due_running = true;
	store_requeue_due(d->db, &ask, requeued, d);
}

/* A row was paused: its time may be the next one. */
void dispatch_due_soon(struct dispatch *d)
{
	if (d->due_running)
		d->due_wanted = true;
	else if (!d->stopping)
		look_in(d, DUE_PAUSED_US);
}

void dispatch_due_sink(void *arg)
{
	dispatch_due_soon(arg);
}

void due_begin(struct dispatch *d)
{
	d->behind = d->mid = d->due_wanted = false;
	d->look_at = INT64_MAX;
	dispatch_due_soon(d);
}

int due_init(struct dispatch *d)
{
	d->look_at = d->open_at = INT64_MAX;
	d->due = event_new(d->base, -1, 0, on_due, d);
	d->due_call = calloc(1, sizeof *d->due_call);
	return d->due && d->due_call ? 0 : -1;
}

void due_done(struct dispatch *d)
{
	if (d->due)
		event_free(d->due);
	free(d->due_call);
	crowd_done(d);
}
