/* Workers that drive many messages at once (PEPSI_CAP_CONCURRENT): they get all they may hold, answer by id, and mostly wait for others'
 * machines. So three things differ. Time: a message costs what the worker had of time, divided by what ran beside it. Places: messages to
 * one domain come to one worker, which knows the domain and keeps its connections; a worker more is begun only when there is work for
 * its slot. Blame: of a crowd nobody is named for, parts are tried again, and parts of those. Suspects do not wait for a
 * worker to run empty, which may take minutes: they have one beside the others. */
#include "dispatch_internal.h"

#include "base/clock.h"

#include <string.h>
#include <sys/wait.h>

/* --- time */

void many_clock(struct worker *w, int64_t now)
{
	if (w->n_sent && w->clock_at && now > w->clock_at)
		w->clock += (double)(now - w->clock_at) / w->n_sent;
	w->clock_at = now;
}

int64_t many_cost(struct worker *w, const struct flight *f, int64_t now)
{
	many_clock(w, now);
	double us = w->clock - f->clock0;
	return us < 1 ? 1 : (int64_t)us;
}

struct flight *many_find(const struct dispatch *d, const struct worker *w, int64_t id)
{
	struct flight *f = id > 0 ? map_get(&d->flights, (uint64_t)id) : NULL;
	return f && f->worker == w && f->sent ? f : NULL;
}

/* --- places */

/* FNV-1a over the domain, ASCII letters folded. Not against those who want to meet in a slot: all they gain is each other's company. */
uint32_t many_place(struct str rcpt)
{
	uint32_t h = 2166136261u;
	size_t at = rcpt.n;
	while (at && rcpt.p[at - 1] != '@')
		at--;
	for (; at < rcpt.n; at++) {
		unsigned char c = (unsigned char)rcpt.p[at];
		h = (h ^ (c >= 'A' && c <= 'Z' ? c + 32u : c)) * 16777619u;
	}
	return h ? h : 1;
}

/* Rendezvous hashing: the slot whose mixture with the place is largest. With another PARALLELISM most places stay where they are. */
static int slot_of(const struct stage *st, const struct flight *f)
{
	uint64_t most = 0;
	int best = 0;
	for (unsigned i = 0; i < st->parallelism; i++) {
		uint64_t x = ((uint64_t)f->place << 32 | (i + 1)) * 0x9e3779b97f4a7c15u;
		x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
		x ^= x >> 29;
		if (x >= most) {
			most = x;
			best = (int)i;
		}
	}
	return best;
}

static struct worker *at_slot(const struct stage *st, int slot)
{
	struct worker *w;
	TAILQ_FOREACH(w, &st->workers, link)
		if (w->slot == slot && w->state != WORKER_RETIRING)
			return w;
	return NULL;
}

static bool has_suspect(const struct worker *w)
{
	const struct flight *first = TAILQ_FIRST(&w->flights);
	return first && first->suspect;
}

static struct worker *home_of(const struct stage *st, const struct flight *f)
{
	struct worker *w = at_slot(st, slot_of(st, f));
	return w && flight_room(st, w) && !has_suspect(w) ? w : NULL;
}

/* --- dealing */

/* The oldest flight of a sender whose worker has room. */
static struct flight *of_sender(const struct stage *st, const struct sender *s, struct worker **ret)
{
	struct flight *f;
	unsigned n = 0;
	TAILQ_FOREACH(f, &s->flights, mine)
		if ((*ret = home_of(st, f)))
			return f;
		else if (++n == MANY_SCAN_MAX)
			break;
	return NULL;
}

/* Fair share as everywhere (fair_next()), among those whose worker has room. */
static struct flight *next_flight(struct stage *st, struct worker **ret)
{
	bool by_age;
	struct sender *s = fair_next(&st->book, &by_age), *least = NULL;
	struct flight *f = TAILQ_FIRST(&st->backlog), *found = NULL;
	struct worker *w;
	if (by_age && f && (*ret = home_of(st, f)))
		return f;
	if (s && (f = of_sender(st, s, ret)))
		return f;
	TAILQ_FOREACH(s, &st->book.waiting, waiting_link)
		if ((!least || s->time_us < least->time_us) && (f = of_sender(st, s, &w))) {
			least = s;
			found = f;
			*ret = w;
		}
	return found;
}

static bool any_room(const struct stage *st)
{
	const struct worker *w;
	TAILQ_FOREACH(w, &st->workers, link)
		if (w->slot >= 0 && flight_room(st, w) && !has_suspect(w))
			return true;
	return false;
}

static struct worker *empty_worker(const struct stage *st)
{
	struct worker *w, *found = NULL;
	TAILQ_FOREACH(w, &st->workers, link)
		if (w->state == WORKER_READY && !w->n_flights && flight_room(st, w) && (!found || w->slot == MANY_SPARE))
			found = w;
	return found;
}

static void deal_suspects(struct stage *st)
{
	struct flight *f, *next;
	struct worker *w;
	while ((f = TAILQ_FIRST(&st->suspects)) && (w = empty_worker(st))) {
		uint32_t group = f->group;
		for (; f && (w->n_flights == 0 || flight_room(st, w)); f = next) {
			next = TAILQ_NEXT(f, link);
			if (!w->n_flights || (group && f->group == group))
				flight_give(f, w);
		}
	}
}

void many_deal(struct dispatch *d, struct stage *st)
{
	struct worker *w, *next;
	struct flight *f;
	deal_suspects(st);
	while (!TAILQ_EMPTY(&st->backlog) && any_room(st) && (f = next_flight(st, &w)))
		flight_give(f, w);
	if (st->n_backlog)
		pool_grow(d, st);
	for (w = TAILQ_FIRST(&st->workers); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->n_sent < w->n_flights)
			flight_send(d, w);
		/* it has had all it may have: while it ends them, its successor begins */
		if (w->state == WORKER_READY && st->max_messages && w->served + w->n_flights >= st->max_messages && w->n_sent == w->n_flights)
			pool_retire(d, w);
	}
}

bool many_wants(const struct stage *st, int *ret_slot)
{
	const struct flight *f;
	unsigned missing = 0;
	if (st->n_workers >= 2 * st->parallelism)
		return false;
	for (unsigned i = 0; i < st->parallelism; i++)
		missing += !at_slot(st, (int)i);
	if (missing)
		TAILQ_FOREACH(f, &st->backlog, link)
			if (!at_slot(st, *ret_slot = slot_of(st, f)))
				return true;
	*ret_slot = MANY_SPARE;
	return !TAILQ_EMPTY(&st->suspects) && !at_slot(st, MANY_SPARE) && !empty_worker(st);
}

/* --- leaving and dying */

bool many_left(struct worker *w)
{
	struct stage *st = w->stage;
	int status = w->exit_status;
	if (!w->by_id || !w->left || !WIFEXITED(status) || (WEXITSTATUS(status) && WEXITSTATUS(status) != WIRE_EXIT_LEFT))
		return false;
	/* A module that always leaves before it has done anything is no better than one that crashes. */
	st->left_unasked = w->unasked && !w->served ? st->left_unasked + 1 : 0;
	return st->left_unasked < EARLY_KILLS_MAX;
}

void many_part(struct worker *w)
{
	struct stage *st = w->stage;
	struct flight *f;
	unsigned each = (w->n_sent + MANY_GROUPS - 1) / MANY_GROUPS, n = 0;
	TAILQ_FOREACH(f, &w->flights, link) {
		if (!f->sent)
			continue;
		if (n++ % each == 0 && !++st->last_group)
			st->last_group = 1;
		f->group = each > 1 ? st->last_group : 0;
	}
}
