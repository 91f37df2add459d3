/* What is learnt of a destination: how many connections, how many messages, whether it is well; see traffic.h, "How it decides". */
#include "proto/relay/traffic_internal.h"

static unsigned part(unsigned of, unsigned workers, bool up)
{
	unsigned n = up ? (of + workers - 1) / workers : of / workers;
	return n ? n : 1;
}

void learn_limits(struct traffic_destination *d, const struct shape *s, unsigned workers)
{
	int64_t minute;
	d->concurrency = part(s->concurrency, workers, false);
	d->initial = part(s->initial, workers, true);
	if (d->initial > d->concurrency)
		d->initial = d->concurrency;
	d->per_connection = s->per_connection;
	d->idle_ms = s->idle_ms;
	d->backoff_first = s->backoff_first_ms;
	d->backoff_most = s->backoff_most_ms;
	d->failed_ms = FAILED_TIME_MS;
	if (!s->rate)
		return;
	d->interval_us = s->rate_ms * 1000 * workers / s->rate;
	if (!d->interval_us)
		d->interval_us = 1;
	minute = INT64_C(60000000) / d->interval_us; /* of this worker */
	d->burst = s->burst ? part(s->burst, workers, false) : minute >= 20 ? (unsigned)(minute / 10) : 1;
	d->credit_us = d->interval_us * d->burst;
}

/* -- messages in a time */

static int64_t interval(struct traffic_destination *d, int64_t now)
{
	while (d->learnt_us && now - d->learnt_at >= 60000) { /* bounded: it ends below a millisecond */
		d->learnt_us = d->learnt_us * 10 / 11;
		d->learnt_at += 60000;
		if (d->learnt_us < 1000)
			d->learnt_us = 0;
	}
	return d->learnt_us > d->interval_us ? d->learnt_us : d->interval_us;
}

int64_t learn_rate_wait(struct traffic_destination *d, int64_t now)
{
	int64_t each = interval(d, now), most = each * (d->burst && each == d->interval_us ? d->burst : 1), since = now - d->credit_at;
	if (!each)
		return 0;
	d->credit_at = now;
	/* a long time is as good as what fills the bucket */
	if (since >= most / 1000 + 1 || d->credit_us + since * 1000 > most)
		d->credit_us = most;
	else
		d->credit_us += since * 1000;
	return d->credit_us >= each ? 0 : now + (each - d->credit_us + 999) / 1000;
}

void learn_rate_take(struct traffic_destination *d, int64_t now)
{
	int64_t each = interval(d, now);
	d->credit_us -= each < d->credit_us ? each : d->credit_us;
}

static void minute(struct traffic_destination *d, int64_t now)
{
	int64_t m = now / 60000;
	if (m != d->minute) {
		d->before_minute = m == d->minute + 1 ? d->in_minute : 0;
		d->in_minute = 0;
		d->minute = m;
	}
}

/* "Too fast": four fifths of what it took lately, and never less than a message in ten seconds for that alone. */
static void slower(struct traffic_destination *d, int64_t now)
{
	unsigned lately;
	minute(d, now);
	lately = (d->before_minute > d->in_minute ? d->before_minute : d->in_minute) * 4 / 5;
	if (lately < 6)
		lately = 6;
	int64_t each = INT64_C(60000000) / lately;
	if (d->learnt_us && now - d->learnt_at < 10000)
		return; /* several sessions heard the same */
	d->learnt_us = d->learnt_us && d->learnt_us * 5 / 4 > each ? d->learnt_us * 5 / 4 : each;
	if (d->learnt_us > 10000000)
		d->learnt_us = 10000000;
	d->learnt_at = now;
	if (d->credit_us > d->learnt_us)
		d->credit_us = d->learnt_us;
}

/* -- connections at once */

unsigned learn_window(struct traffic_destination *d, int64_t now)
{
	unsigned w;
	if (d->ceiling && now >= d->ceiling_until) {
		if (d->window >= d->ceiling++ * WINDOW_ONE)
			d->window += WINDOW_ONE;
		d->ceiling_until = now + d->ceiling_ms;
		if (d->ceiling >= d->concurrency)
			d->ceiling = 0;
	}
	w = d->window / WINDOW_ONE;
	if (d->ceiling && w > d->ceiling)
		w = d->ceiling;
	if (w > d->concurrency)
		w = d->concurrency;
	return w && !d->probe ? w : 1;
}

static void halve(struct traffic_destination *d)
{
	d->window /= 2;
	if (d->window < WINDOW_ONE)
		d->window = WINDOW_ONE;
	d->steady = true;
}

/* It takes `open` connections and no more. */
static void ceiling(struct traffic_destination *d, int64_t now, unsigned open)
{
	if (!open)
		open = 1;
	/* what is known already, and was tried again: believed for longer; what several heard at once is one */
	if (d->ceiling && open + 1 >= d->ceiling && now - (d->ceiling_until - d->ceiling_ms) > 10000)
		d->ceiling_ms = d->ceiling_ms * 2 < CEILING_MOST_MS ? d->ceiling_ms * 2 : CEILING_MOST_MS;
	else if (!d->ceiling)
		d->ceiling_ms = CEILING_FIRST_MS;
	d->ceiling = open;
	d->ceiling_until = now + d->ceiling_ms;
	d->window = open * WINDOW_ONE;
	d->steady = true;
	d->reopen_at = now + REOPEN_MS;
}

/* -- health */

/* Nobody goes there for a while, `times` as long as a failure would cost. */
static void pause_it(struct traffic *t, struct traffic_destination *d, int64_t now, unsigned times, bool probe)
{
	int64_t length;
	if (d->until > now)
		return; /* what began before the pause ends within it, and says nothing new */
	d->backoff = !d->backoff ? d->backoff_first : d->backoff * 2 < d->backoff_most ? d->backoff * 2 : d->backoff_most;
	length = d->backoff * times < d->backoff_most ? d->backoff * times : d->backoff_most;
	d->until = now + length + (int64_t)(route_mix(&t->chance) % (uint64_t)(length / 4 + 1));
	d->probe = d->probe || probe;
	d->called = false;
	dest_shed(t, d);
	dest_news(t, d);
}

static void fail(struct traffic *t, struct traffic_destination *d, int64_t now)
{
	if (d->until <= now)
		d->failures++;
	d->window = WINDOW_ONE;
	d->steady = false;
	d->sour = 0;
	pause_it(t, d, now, 1, true);
}

void learn_alive(struct traffic *t, struct traffic_destination *d, int64_t now)
{
	if (d->probe) {
		dest_news(t, d);
		d->probe = false;
		d->until = 0;
		d->turn = now; /* who comes now may stay */
	} else if (!d->proven) {
		d->window = d->initial * WINDOW_ONE;
	}
	d->failures = 0;
	d->proven = true;
}

void learn_time(struct traffic *t, struct traffic_destination *d, int64_t ms)
{
	int64_t slow = slow_ms(t);
	usual(&t->typical, ms);
	d->mean = d->mean ? d->mean + (ms - d->mean) / 4 : ms;
	if (d->mean < 1)
		d->mean = 1;
	d->slow = d->mean >= slow || (d->slow && d->mean >= slow * 2 / 3);
	d->suspect = false;
}

void learn_accepted(struct traffic_destination *d, int64_t now)
{
	unsigned most = d->ceiling ? d->ceiling : d->concurrency;
	minute(d, now);
	d->in_minute++;
	d->sent++;
	d->sour = 0;
	if (d->until <= now)
		d->backoff = 0;
	d->window += d->steady ? WINDOW_ONE * WINDOW_ONE / d->window : WINDOW_ONE;
	if (d->window > most * WINDOW_ONE)
		d->window = most * WINDOW_ONE;
}

void learn_trouble(struct traffic *t, struct traffic_destination *d, int64_t now, enum trouble what, const struct smtp_result *r, bool early,
    unsigned alive)
{
	if ((unsigned)what < TROUBLE_N)
		t->totals.trouble[what]++;
	if (what == TROUBLE_NONE)
		return;
	d->trouble = what;
	d->trouble_at = now;
	if (r)
		trouble_text(r, d->error);
	if (what == TROUBLE_LOCAL) {
		t->local_until = now + LOCAL_MS;
		return;
	}
	if (!trouble_is_destination(what)) { /* it answered, and may have meant just this message */
		d->sour = 0;
		return;
	}
	d->sour++;
	switch (what) {
	case TROUBLE_CONNECTIONS:
		if (alive)
			ceiling(d, now, alive);
		else if (early) /* not even one: others use it up, or ours are not forgotten yet */
			pause_it(t, d, now, 1, true);
		else
			halve(d);
		return;
	case TROUBLE_RATE:
		halve(d);
		slower(d, now);
		if (early || (r && r->code == 421) || d->sour >= SOUR_MAX)
			pause_it(t, d, now, 1, false);
		return;
	case TROUBLE_BLOCKED:
		halve(d);
		if (early || d->sour >= SOUR_MAX)
			pause_it(t, d, now, 4, early);
		return;
	default:
		if (alive && d->sour < SOUR_MAX) {
			halve(d);
			d->reopen_at = now + (early ? 4 * REOPEN_MS : 0);
		} else if (early || d->sour >= SOUR_MAX) {
			fail(t, d, now);
		} else {
			halve(d);
		}
		return;
	}
}
