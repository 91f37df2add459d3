/* The claim: the one statement that makes pending rows running, asked for all stages with room at once, with the books
 * of fair share along. Its answer becomes flights. Decides how much to ask for, never what becomes of a row. */
#include "dispatch_internal.h"

#include <stdlib.h>

enum { CLAIM_STAGES_MAX = 256 };
enum { BOOK_MAX = 4000 }; /* accounts that go along with a claim; the others count as level with the floor */

struct claim_call {
	unsigned n;
	struct stage *stage[CLAIM_STAGES_MAX];
	struct store_claim_stage ask[CLAIM_STAGES_MAX];
	uint64_t wakes[CLAIM_STAGES_MAX];
	unsigned got[CLAIM_STAGES_MAX];
	size_t n_book;
	struct store_claim_book book[BOOK_MAX];
};

static unsigned capacity(const struct stage *st)
{
	unsigned all = st->parallelism * st->queue_limit, used = st->in_flight + st->reserved;
	const struct worker *w;
	TAILQ_FOREACH(w, &st->workers, link) /* what is on its way out for minutes takes no place of its successor's */
		if (w->by_id && w->state == WORKER_RETIRING)
			used -= w->n_flights;
	return used < all ? all - used : 0;
}

/* ---- claiming */

static void claimed(void *arg, enum store_rc rc, const struct store_claimed *rows, size_t n)
{
	struct dispatch *d = arg;
	struct claim_call *c = d->claim;
	d->claiming = false;
	if (rc != STORE_OK) {
		if (rc != STORE_AWAY)
			log_error(NULL, "event=claim-failed rc=%d", rc);
		return; /* maybe_pending stays: the next wake-up tries again */
	}
	d->claims_total++;
	d->claimed_total += n;
	for (size_t i = 0; i < n; i++) {
		if (rows[i].stage >= c->n)
			continue;
		struct stage *st = c->stage[rows[i].stage];
		struct flight *f;
		uint32_t place = rows[i].domain && *rows[i].domain ? many_place(str_from(rows[i].domain)) : 0;
		c->got[rows[i].stage]++;
		st->claims++;
		if ((f = map_get(&d->flights, (uint64_t)rows[i].id))) {
			f->then_place = place;
			f->then = st; /* its worker has committed; the status line is still on its way */
			continue;
		}
		f = flight_new(d, st, rows[i].id, rows[i].sender_key);
		if (!f) {
			dispatch_sour_add(d, st, rows[i].id, SOUR_DELAY_US);
			continue;
		}
		f->place = place;
		flight_wait(f, false);
	}
	for (unsigned i = 0; i < c->n; i++)
		if (c->got[i] < (unsigned)c->ask[i].limit && c->stage[i]->wakes == c->wakes[i]) {
			c->stage[i]->maybe_pending = false;
			c->stage[i]->book.epoch++;
		}
	dispatch_turn_soon(d);
}

/* The accounts of a stage that differ from the floor. */
static void put_book(struct claim_call *c, const struct stage *st, unsigned index)
{
	for (size_t i = 0; i < FAIR_BUCKETS; i++) {
		const struct sender *s;
		SLIST_FOREACH(s, &st->book.buckets[i], chain)
			if (s->time_us > st->book.floor_us && c->n_book < BOOK_MAX)
				c->book[c->n_book++] = (struct store_claim_book){ index, s->key, s->time_us };
	}
}

/* Is there so much room that a claim is worth its while? One for every place that falls free would cost more than the
 * work itself; while the workers have enough before them, places gather. */
static bool worth_a_claim(const struct stage *st, unsigned room)
{
	return room && (st->n_backlog < st->parallelism || room >= st->parallelism * st->queue_limit / 4);
}

/* Places given by age alone. What is less than a place is saved up for the next claims: with few places at a time, rounding it up would
 * leave none for the fair share, and rounding it down none for age. */
static unsigned fifo_share(struct stage *st, unsigned room, unsigned percent)
{
	unsigned credit = st->fifo_credit + room * percent, n = credit / 100;
	if (n > room)
		n = room;
	st->fifo_credit = credit - n * 100 < 100 ? credit - n * 100 : 99;
	return n;
}

void dispatch_claim(struct dispatch *d)
{
	struct claim_call *c = d->claim;
	struct stage *st;
	if (!d->db_up || !d->recovered || d->claiming || d->stopping || d->sweeping)
		return;
	c->n = 0;
	c->n_book = 0;
	TAILQ_FOREACH(st, &d->stages, link) {
		unsigned room = capacity(st);
		if (!st->maybe_pending || !worth_a_claim(st, room) || st->removed || c->n == CLAIM_STAGES_MAX || st->cooldown_until)
			continue;
		c->stage[c->n] = st;
		c->ask[c->n] = (struct store_claim_stage){ .stage = st->name, .limit = (int32_t)room,
			.fifo = (int32_t)fifo_share(st, room, d->fifo_percent), .floor_us = st->book.floor_us,
			.cost_us = st->avg_us ? (double)st->avg_us : 1000, .domain = st->many || !st->known };
		c->wakes[c->n] = st->wakes;
		put_book(c, st, c->n);
		c->got[c->n++] = 0;
	}
	if (!c->n)
		return;
	d->claiming = true;
	store_claim(d->db, c->ask, c->n, c->book, c->n_book, claimed, d);
}

int dispatch_claim_init(struct dispatch *d)
{
	d->claim = calloc(1, sizeof *d->claim);
	return d->claim ? 0 : -1;
}
