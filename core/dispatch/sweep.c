/* Rows that are running in the database without being under way here: those a worker could not write, released after a pause, and
 * orphans, found by comparing what runs with what this process holds. Never judges a message; it only becomes pending again. */
#include "dispatch_internal.h"

#include "base/clock.h"

#include <stdlib.h>

enum { SOUR_BATCH = 256 }; /* rows released by one statement; the rest with the next tick */

/* ---- rows whose worker could not write their outcome: released after a pause */

void dispatch_sour_add(struct dispatch *d, struct stage *st, int64_t id, int64_t delay_us)
{
	if (d->n_sour == d->cap_sour) {
		size_t cap = d->cap_sour ? d->cap_sour * 2 : 64;
		struct sour *more = realloc(d->sour, cap * sizeof *more);
		if (!more) {
			log_error(NULL, "id=%lld event=out-of-memory hint=\"stays running until the next sweep\"", (long long)id);
			return;
		}
		d->sour = more;
		d->cap_sour = cap;
	}
	d->sour[d->n_sour++] = (struct sour){ clock_mono_us() + delay_us, id, st };
}

static void released(void *arg, enum store_rc rc, unsigned n)
{
	(void)n;
	if (rc == STORE_OK)
		dispatch_wake(arg, NULL);
}

void dispatch_release(struct dispatch *d, const int64_t *ids, size_t n)
{
	store_release(d->db, ids, n, released, d);
}

void sour_run(struct dispatch *d, int64_t now)
{
	int64_t ids[SOUR_BATCH];
	size_t n = 0, left = 0;
	if (!d->n_sour || !d->db_up)
		return;
	for (size_t i = 0; i < d->n_sour; i++) {
		if (n < SOUR_BATCH && d->sour[i].due <= now)
			ids[n++] = d->sour[i].id;
		else
			d->sour[left++] = d->sour[i];
	}
	d->n_sour = left;
	if (n)
		dispatch_release(d, ids, n);
}

/* ---- orphans: rows that are running but that nobody holds (a commit whose answer was lost) */

static bool ours(const struct dispatch *d, int64_t id)
{
	bool sour = false;
	for (size_t i = 0; i < d->n_sour && !sour; i++)
		sour = d->sour[i].id == id;
	return sour || map_get(&d->flights, (uint64_t)id);
}

static bool among(const int64_t *ids, size_t n, int64_t id)
{
	size_t lo = 0, hi = n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (ids[mid] == id)
			return true;
		if (ids[mid] < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return false;
}

static void swept(void *arg, enum store_rc rc, unsigned n)
{
	struct dispatch *d = arg;
	if (rc == STORE_OK && n) {
		log_warn(NULL, "event=orphans-released rows=%u", n);
		dispatch_wake(d, NULL);
	}
}

/* No clock decides whether a row is an orphan: it is when nothing could be on its way to us, or when it was nobody's at the sweep
 * before already, longer ago than any answer is waited for. */
static void orphans(void *arg, enum store_rc rc, const int64_t *ids, size_t n)
{
	struct dispatch *d = arg;
	bool sure = d->sweeping;
	d->sweeping = false;
	if (rc == STORE_OK) {
		int64_t *go = malloc((n + 1) * sizeof *go), *stay = malloc((n + 1) * sizeof *stay);
		size_t n_go = 0, n_stay = 0;
		for (size_t i = 0; go && stay && i < n; i++) {
			if (ours(d, ids[i]))
				continue;
			if (sure || among(d->lost, d->n_lost, ids[i]))
				go[n_go++] = ids[i];
			else
				stay[n_stay++] = ids[i];
		}
		if (n_go)
			store_release(d->db, go, n_go, swept, d);
		free(go);
		free(d->lost);
		d->lost = stay;
		d->n_lost = n_stay;
		if (n_stay) /* a second look, soon */
			d->last_sweep = clock_mono_us() - ORPHAN_SWEEP_US + ORPHAN_AGE_US;
	}
	dispatch_turn_soon(d);
}

void sweep_run(struct dispatch *d, int64_t now)
{
	size_t pos = 0, n = 0;
	uint64_t id;
	struct stage *st;
	bool promised = false;
	if (!d->db_up || !d->recovered || d->claiming || d->sweeping || d->stopping)
		return;
	TAILQ_FOREACH(st, &d->stages, link)
		promised |= st->reserved > 0;
	if (promised && now - d->last_sweep < ORPHAN_SWEEP_US + SWEEP_DRAIN_US) {
		d->draining = true; /* no more promises for a moment: it is not long from one to the hand-off */
		return;
	}
	int64_t *known = malloc((d->flights.n + d->n_sour + 1) * sizeof *known);
	if (!known)
		return;
	while (map_next(&d->flights, &pos, &id))
		known[n++] = (int64_t)id;
	for (size_t i = 0; i < d->n_sour; i++)
		known[n++] = d->sour[i].id;
	d->draining = false;
	d->last_sweep = now;
	/* With no place promised, nothing is on its way from a commit to its hand-off, and meanwhile nothing is claimed or promised. */
	d->sweeping = !promised;
	store_orphans(d->db, known, n, orphans, d);
	free(known);
}
