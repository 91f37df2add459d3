/* Workers that drive many messages at once (PEPSI_CAP_CONCURRENT): they get all they may hold, answer by id, and mostly wait for others'
 * machines. So three things differ. Time: a message costs what the worker had of time, divided by what ran beside it. Places: messages to
 * one domain come to one worker, which knows the domain and keeps its connections; a worker more is begun only when there is work for
 * its slot. Blame: of a crowd nobody is named for, parts are tried again, and parts of those. Suspects do not wait for a
 * worker to run empty, which may take minutes: they have one beside the others. */
#include "dispatch_internal.h"

#include "base/clock.h"
#include "proto/wire/page.h"

#include <signal.h>
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
	for (; at < rcpt.n; at++)
		h = (h ^ (unsigned char)ascii_lower(rcpt.p[at])) * 16777619u;
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

/* The one for suspects: never a slot's own, for which all mail of the slot would wait as long as the suspect does. */
static struct worker *empty_worker(const struct stage *st)
{
	struct worker *w = at_slot(st, MANY_SPARE);
	return w && w->state == WORKER_READY && !w->n_flights && flight_room(st, w) ? w : NULL;
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
	for (w = TAILQ_FIRST(&st->workers); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->n_sent < w->n_flights)
			flight_send(d, w);
		/* it has had all it may have: while it ends them, its successor begins */
		if (w->state == WORKER_READY && st->max_messages && w->served + w->n_flights >= st->max_messages && w->n_sent == w->n_flights)
			pool_retire(d, w);
	}
	if (st->n_backlog)
		pool_grow(d, st);
}

bool many_wants(const struct stage *st, int *ret_slot)
{
	const struct flight *f;
	unsigned missing = 0;
	if (st->n_workers >= 2 * st->parallelism + MANY_BESIDE)
		return false;
	for (unsigned i = 0; i < st->parallelism; i++)
		missing += !at_slot(st, (int)i);
	if (missing)
		TAILQ_FOREACH(f, &st->backlog, link)
			if (!at_slot(st, *ret_slot = slot_of(st, f)))
				return true;
	*ret_slot = MANY_SPARE;
	return !TAILQ_EMPTY(&st->suspects) && !at_slot(st, MANY_SPARE);
}

/* --- leaving and dying */

/* A module whose workers always end before they have done anything is no better than one that crashes. */
static bool often(struct stage *st, bool idle)
{
	st->left_unasked = idle ? st->left_unasked + 1 : 0;
	return st->left_unasked >= EARLY_KILLS_MAX;
}

bool many_left(struct worker *w)
{
	struct wire_page_copy c = { .steady = false };
	int status = w->exit_status;
	if (!w->by_id)
		return false;
	if (WIFEXITED(status))
		return w->left && (!WEXITSTATUS(status) || WEXITSTATUS(status) == WIRE_EXIT_LEFT) && !often(w->stage, w->unasked && !w->served);
	/* Somebody killed it while it waited: no code of the module was running, and no message had anything to do with it. */
	if (w->page)
		wire_page_read(w->page, &c);
	return WTERMSIG(status) == SIGKILL && !w->killed_for_overrun && c.steady && !c.id && !c.since && !often(w->stage, !w->served);
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
