/* Domains of which more is due than they are given: the first row of each goes to a worker, and the others stay in the database as they are, neither
 * changed nor claimed, until that one is answered. So thousands of rows for hosts that are slow or dead are in nobody's way when they become due
 * at once; workqueue_due in db/procedures.sql is the other half. Decides how many of a domain come next, never what becomes of a row: what is
 * left behind stays due, and all that is kept here can be lost.
 *
 * Told: 2000 rows become due, a hundred for each of twenty domains. Twenty are claimed. One is delivered: its domain is open, its 99 others
 * become pending at once. One is paused: five seconds later, or as soon as it is back itself, two more are tried, or the worker has put the
 * others off. Of a third nothing is heard: after four seconds two more are tried, eight seconds later four; it may be one large message that keeps a good host busy. */
#include "dispatch_internal.h"

#include "base/clock.h"

#include <stdlib.h>

enum {
	CROWD_MAX = 10000,       /* domains; while there are more, new ones get all they have due */
	CROWD_ROWS = 1000,       /* of one come next, at most: a statement, which a claim has to wait for, goes on with the next domain below that */
	CROWD_SILENT_US = 4 * 1000 * 1000,      /* no answer for so long: more of it are tried */
	CROWD_SILENT_MOST_US = 60 * 1000 * 1000,
	/* … and so long after one that was paused. Where the host is to blame the others are put off with those that come then (workqueue_put_off leaves alone
	 * what is due since a moment ago: while all that is well is on its way, the rest is not to be written). */
	CROWD_PAUSED_US = 5 * 1000 * 1000,
	CROWD_BEHIND_US = 100 * 1000, /* … unless it is back sooner, because there was no room for it: the next ones come so long after it would */
};

struct crowd {
	struct stage *st;
	unsigned more, asked;    /* rows that come next; under way */
	bool begun, unheard, open;      /* its first has come; no answer yet */
	int64_t next, wait;      /* when they come at the latest; until those behind them */
	char name[];
};

static uint64_t key_of(const struct stage *st, uint32_t place)
{
	return (uint64_t)st->number << 32 | place;
}

static struct crowd *find(const struct dispatch *d, const struct stage *st, const char *name)
{
	struct crowd *c = map_get(&d->crowds, key_of(st, many_place(str_from(name))));
	return c && !strcmp(c->name, name) ? c : NULL; /* else it shares its place with another one, which is there already */
}

/* Before the first worker of a stage is ready, nobody knows whether it drives many messages at once; then it is found out with few. */
static bool wanted(const struct stage *st)
{
	return !st->removed && (st->many || !st->known);
}

/* A worker has half of its places for destinations that it knows nothing of, and a quarter for those that are slow (proto/relay/traffic.h, "Room"): it would
 * give back what is beyond that, and does not grow impatient with the slow ones as long as there is less. */
int crowd_firsts(const struct dispatch *d, const struct stage *st)
{
	uint64_t most = (uint64_t)st->queue_limit * st->parallelism * 3 / 4;
	if (!wanted(st) || d->crowds.n >= CROWD_MAX)
		return -1;
	if (most > INT32_MAX)
		most = INT32_MAX;
	return most > st->unheard ? (int)(most - st->unheard) : !st->unheard;
}

/* The first is on its way, and counts until it was heard of, or ought to have been. */
static void begin(struct crowd *c, int64_t now)
{
	c->begun = c->unheard = true;
	c->st->unheard++;
	c->more = 2;
	c->next = now + CROWD_SILENT_US;
	c->wait = 2 * CROWD_SILENT_US;
}

static void heard(struct crowd *c)
{
	if (c->unheard)
		c->st->unheard--;
	c->unheard = false;
}

static void add(struct dispatch *d, struct stage *st, const char *name, bool begun, int64_t now)
{
	size_t n = strlen(name) + 1;
	uint64_t key = key_of(st, many_place(str_from(name)));
	struct crowd *c;
	if (map_get(&d->crowds, key) || d->crowds.n >= CROWD_MAX || !(c = calloc(1, sizeof *c + n)))
		return; /* met again at the next look from the beginning */
	*c = (struct crowd){ .st = st, .more = 1 };
	memcpy(c->name, name, n);
	if (map_put(&d->crowds, key, c)) {
		free(c);
		return;
	}
	d->crowds_total++;
	if (begun)
		begin(c, now);
	else
		st->unbegun++;
}

static void drop(struct dispatch *d, struct crowd *c)
{
	heard(c);
	if (!c->begun)
		c->st->unbegun--;
	free(map_del(&d->crowds, key_of(c->st, many_place(str_from(c->name)))));
}

bool crowd_answered(struct dispatch *d, struct stage *st, uint32_t place, int64_t paused_us)
{
	struct crowd *c = place && d->crowds.n ? map_get(&d->crowds, key_of(st, place)) : NULL;
	int64_t at = clock_mono_us() + (paused_us < CROWD_PAUSED_US ? paused_us + CROWD_BEHIND_US : CROWD_PAUSED_US);
	if (!c)
		return false;
	heard(c);
	c->open |= !paused_us;
	if (paused_us && c->begun && (c->next > at || c->more == 2)) /* the first answer counts more than the first silence */
		c->next = at;
	return c->open || st->unbegun;
}

size_t crowd_ask(struct dispatch *d, int64_t now, bool all, unsigned n_stages, struct store_due_domain *out, size_t max)
{
	struct crowd *c;
	size_t pos = d->crowd_pos, n = 0, first = SIZE_MAX;
	/* the walk begins behind the first that was wanted the last time, so that one with very many rows does not keep the others waiting */
	for (size_t i = 0; i < d->crowds.n && n < max; i++) {
		if (!(c = map_next(&d->crowds, &pos, NULL))) {
			pos = 0;
			c = map_next(&d->crowds, &pos, NULL);
		}
		bool open = c->open || !wanted(c->st);
		c->asked = c->st->number >= n_stages ? 0 : open ? CROWD_ROWS : c->begun ? (c->next <= now ? c->more : 0) : c->st->firsts != 0;
		if (c->asked && !open && !c->begun && c->st->firsts > 0)
			c->st->firsts--;
		if (c->asked && first == SIZE_MAX)
			first = pos;
		if (c->asked || all)
			out[n++] = (struct store_due_domain){ c->st->number, c->name, (int)c->asked };
	}
	d->crowd_pos = first == SIZE_MAX ? pos : first;
	return n;
}

void crowd_got(struct dispatch *d, struct stage *st, const char *name, int n, int64_t now)
{
	struct crowd *c = find(d, st, name);
	if (n < 0) {
		add(d, st, name, n == STORE_DUE_SOME, now);
		return;
	}
	if (!c || !c->asked)
		return;
	if ((unsigned)n < c->asked) { /* all that is due of it is on its way */
		drop(d, c);
		return;
	}
	c->asked = 0;
	if (!c->begun) {
		st->unbegun--;
		begin(c, now);
		return;
	}
	heard(c); /* silence, too, says something */
	if (c->more < CROWD_ROWS)
		c->more *= 2;
	c->next = now + c->wait;
	c->wait = c->wait < CROWD_SILENT_MOST_US / 2 ? c->wait * 2 : CROWD_SILENT_MOST_US;
}

int64_t crowd_next(const struct dispatch *d)
{
	const struct crowd *c;
	int64_t next = INT64_MAX;
	size_t pos = 0;
	while ((c = map_next(&d->crowds, &pos, NULL)))
		if (c->open || !wanted(c->st) || (!c->begun && crowd_firsts(d, c->st)))
			return 0;
		else if (c->begun && c->next < next)
			next = c->next;
	return next;
}

void crowd_done(struct dispatch *d)
{
	size_t pos = 0;
	struct crowd *c;
	while ((c = map_next(&d->crowds, &pos, NULL)))
		free(c);
	map_done(&d->crowds);
}
