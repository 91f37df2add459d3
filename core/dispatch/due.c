/* Paused rows: asks the database to make pending again what is due, at the moment when the next one is. Notices a server's clock that went
 * back, by which they would wait too long; decides no row's time itself, and reads no wall clock of this machine. */
#include "dispatch_internal.h"

#include "base/clock.h"

enum {
	DUE_COALESCE_US = 50 * 1000,
	DUE_PAUSED_US = 400 * 1000, /* a row that was paused just now is due in a second, or later */
};

/* In so long, or when it was to look anyhow, if that is sooner: pauses that come one after the other must not put it off. */
static void due_timer(struct dispatch *d, int64_t in_us)
{
	int64_t now = clock_mono_us();
	if (in_us < 1000)
		in_us = 1000;
	if (event_pending(d->due, EV_TIMEOUT, NULL) && d->due_at <= now + in_us)
		return;
	d->due_at = now + in_us;
	struct timeval tv = { .tv_sec = in_us / US_PER_S, .tv_usec = in_us % US_PER_S };
	event_add(d->due, &tv);
}

static void brought_forward(void *arg, enum store_rc rc, unsigned n)
{
	struct dispatch *d = arg;
	if (rc == STORE_OK && n)
		log_warn(NULL, "event=due-earlier rows=%u hint=\"paused before the clock went back\"", n);
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

static void requeued(void *arg, enum store_rc rc, unsigned n, int64_t wait_us, int64_t db_us)
{
	struct dispatch *d = arg;
	int64_t wait = d->poll_interval_us;
	d->due_running = false;
	if (rc == STORE_OK) {
		d->requeued_total += n;
		if (n)
			dispatch_wake(d, NULL);
		if (wait_us && wait_us < wait)
			wait = wait_us < DUE_COALESCE_US ? DUE_COALESCE_US : wait_us;
		watch_clock(d, db_us);
	}
	if (d->due_wanted) {
		d->due_wanted = false;
		wait = wait < DUE_PAUSED_US ? wait : DUE_PAUSED_US;
	}
	if (!d->stopping)
		due_timer(d, wait);
}

static void on_due(evutil_socket_t fd, short what, void *arg)
{
	struct dispatch *d = arg;
	(void)fd;
	(void)what;
	if (!d->db_up || d->due_running || d->stopping)
		return;
	d->due_running = true;
	store_requeue_due(d->db, requeued, d);
}

void dispatch_due_soon(struct dispatch *d)
{
	if (d->due_running)
		d->due_wanted = true;
	else if (!d->stopping)
		due_timer(d, DUE_PAUSED_US);
}

void dispatch_due_sink(void *arg)
{
	dispatch_due_soon(arg);
}

int due_init(struct dispatch *d)
{
	d->due = event_new(d->base, -1, 0, on_due, d);
	return d->due ? 0 : -1;
}
