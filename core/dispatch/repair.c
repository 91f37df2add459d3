/* Repairs: what to do with the rows a dead worker had not answered. The database is asked which of them are still
 * running at that stage: the others were finished just before the end and are done. Who is to blame: the one that was alone with
 * its worker; else the one that the worker's page says was in hand, if it can be true; else nobody yet, and they are tried
 * again one at a time. Whoever is blamed travels alone from then on. Nothing here is lost when the database is away: repairs
 * wait in their list. */
#include "dispatch_internal.h"

#include "base/clock.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/* One look-up under way. */
struct repair {
	struct dispatch *d;
	struct stage *stage;
	size_t n;
	int64_t ids[];
};

void repair_add(struct dispatch *d, struct flight *f)
{
	struct stage *st = f->stage;
	flight_to_backlog(d, f, false); /* off its worker; the backlog is where the counts are right */
	flight_leave_backlog(f);
	buf_free(&f->record); /* what is tried again is read from the database */
	f->octets = 0;
	f->asked = false;
	TAILQ_INSERT_TAIL(&st->repairs, f, link);
	st->n_repairs++;
}

static void unrepair(struct dispatch *d, struct flight *f, bool again)
{
	struct stage *st = f->stage;
	TAILQ_REMOVE(&st->repairs, f, link);
	st->n_repairs--;
	flight_wait(f, true); /* they were before all that waits */
	if (again)
		f->then = NULL; /* if it was claimed anew, then for this very stage: once is enough */
	else
		flight_over(d, f);
}

static void suspect(struct flight *f)
{
	f->stage->n_suspects += !f->suspect;
	f->suspect = true;
}

static void describe(char *out, size_t size, int status, bool overrun)
{
	if (overrun)
		snprintf(out, size, "exceeded MAX_RUNTIME and was killed");
	else if (WIFSIGNALED(status))
		snprintf(out, size, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(out, size, "exited with status %d without answering", WEXITSTATUS(status));
}

/* ---- rows that cost a worker its life: alone until they got past the stage that did it */

void repair_mark(struct dispatch *d, int64_t id, struct stage *at)
{
	if (d->marked.n >= MARKED_MAX) { /* a hint: who is forgotten is found again */
		map_done(&d->marked);
		d->marked = (struct map){ .n = 0 };
	}
	map_put(&d->marked, (uint64_t)id, at);
}

bool repair_marked(const struct dispatch *d, int64_t id)
{
	return d->marked.n && map_get(&d->marked, (uint64_t)id);
}

void repair_passed(struct dispatch *d, int64_t id, const struct stage *st)
{
	if (d->marked.n && map_get(&d->marked, (uint64_t)id) == st)
		map_del(&d->marked, (uint64_t)id);
}

/* ---- blame */

struct blame {
	struct dispatch *d;
	struct stage *stage, *at; /* where the row is; whose module it was */
	int64_t id;
	bool overrun;
};

/* Its worker's commit had gone through before it died: it moved on, is pending somewhere, or over. */
static void moved_on(struct dispatch *d, struct stage *st, struct flight *f)
{
	st->done++;
	st->d_messages++;
	unrepair(d, f, false);
}

static void look_everywhere(struct dispatch *d)
{
	dispatch_wake(d, NULL);
	dispatch_due_soon(d);
}

static void blamed(void *arg, enum store_rc rc, enum store_blamed how)
{
	struct blame *b = arg;
	struct flight *f = map_get(&b->d->flights, (uint64_t)b->id);
	if (rc == STORE_OK && how == STORE_BLAMED_NOT) {
		log_info(NULL, "id=%lld stage=%s event=not-to-blame hint=\"its pass was committed before the worker died\"", (long long)b->id,
		    b->stage->name);
		if (f)
			moved_on(b->d, b->stage, f);
		look_everywhere(b->d);
	} else if (rc == STORE_OK) {
		if (how == STORE_BLAMED_ENDED) {
			b->d->failed_total++;
			b->d->d_failed++;
			map_del(&b->d->marked, (uint64_t)b->id);
			log_error(NULL, "id=%lld stage=%s event=given-up status=%s", (long long)b->id, b->stage->name,
			    b->overrun ? "timeout" : "failed");
		} else {
			repair_mark(b->d, b->id, b->at);
			dispatch_wake(b->d, b->stage->name);
		}
		if (f)
			unrepair(b->d, f, false);
	} else if (f) {
		/* Booked or not, that is unknown: it stays among the repairs, is looked up, and runs again as a suspect. */
		log_warn(NULL, "id=%lld stage=%s event=blame-not-booked rc=%d", (long long)b->id, b->stage->name, rc);
		suspect(f);
		f->asked = false;
	}
	free(b);
}

static void blame(struct dispatch *d, struct flight *f, struct stage *at, const char *report, bool overrun)
{
	struct blame *b = malloc(sizeof *b);
	if (!b)
		return; /* stays in repairs; the next look-up comes by again */
	*b = (struct blame){ d, f->stage, at, f->id, overrun };
	f->asked = true;
	store_blame(d->db, f->id, f->stage->name, overrun, d->max_crashes, report, blamed, b); /* a row that is no longer running here is left alone */
}

/* Whom the page names, if the dead worker was sent that row and has not answered it; an overrun must have been this one's, too: it
 * may have ended in the moment before the kill. */
static struct flight *named(struct dispatch *d, const struct worker *w)
{
	struct page_hand hand;
	if (!page_in_hand(d, w, clock_mono_us(), &hand))
		return NULL;
	if (w->killed_for_overrun && (hand.id != w->overrun_id || hand.since != w->overrun_since))
		return NULL;
	return hand.flight;
}

static void book(struct dispatch *d, struct worker *w, struct flight *f, const char *what, int status, bool alone)
{
	bool overrun = w->killed_for_overrun || w->overran;
	struct stage *st = w->stage, *at = page_stage(d, w);
	unsigned held = w->n_sent;
	/* Whose it was also pays for the worker that it took, and for the next one's start. */
	int64_t now = clock_mono_us();
	double cost = (double)((w->by_id ? many_cost(w, f, now) : now - f->since) + w->start_us);
	json_object *o = page_report(w, what, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	json_object_object_add(o, "held", json_object_new_int64(held));
	json_object_object_add(o, "found", json_object_new_string(alone ? "alone" : "page"));
	if (!alone)
		st->named++;
	log_error(NULL, "id=%lld stage=%s pid=%d event=culprit found=%s in=%s innocent=%u", (long long)f->id, st->name, (int)w->pid,
	    alone ? "alone" : "page", at->name, held - 1);
	repair_add(d, f);
	fair_charge(f->from, cost);
	blame(d, f, at, json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN), overrun);
	json_object_put(o);
}

void repair_leave(struct dispatch *d, struct worker *w)
{
	struct stage *st = w->stage;
	struct flight *f;
	bool killed = WIFSIGNALED(w->exit_status);
	st->crashes += killed;
	st->d_crashes += killed;
	log_line(killed ? LOG_LV_ERROR : LOG_LV_INFO, NULL, "stage=%s pid=%d event=worker-left served=%llu held=%u killed=%s hint=\"these go again\"", st->name,
	    (int)w->pid, (unsigned long long)w->served, w->n_flights, killed ? "yes" : "no");
	while ((f = TAILQ_LAST(&w->flights, flight_list)))
		if (f->sent)
			repair_add(d, f);
		else
			flight_to_backlog(d, f, true);
	repair_run(d, st);
}

/* The worker of w died. Its flights become repairs; the one whose doing it was is blamed. */
void repair_crash(struct dispatch *d, struct worker *w, int status)
{
	struct stage *st = w->stage;
	struct flight *f, *guilty;
	struct page_hand hand;
	char what[160];
	w->overran = w->by_id && WIFEXITED(status) && WEXITSTATUS(status) == WIRE_EXIT_OVERRUN && page_in_hand(d, w, clock_mono_us(), &hand);
	if (w->overran) {
		st->kills++;
		st->d_kills++;
	}
	bool overrun = w->killed_for_overrun || w->overran, alone = w->n_sent == 1;

	describe(what, sizeof what, status, overrun);
	st->crashes += !overrun;
	st->d_crashes += !overrun;
	log_error(NULL, "stage=%s pid=%d event=worker-died reason=%s held=%u", st->name, (int)w->pid, log_qz(what), w->n_flights);
	page_log(w);
	page_blame(d, w);

	guilty = alone ? TAILQ_FIRST(&w->flights) : named(d, w); /* what was sent comes first */
	if (guilty && d->db_up) {
		book(d, w, guilty, what, status, alone);
	} else if (guilty) { /* cannot be booked now; but it can be kept from others */
		suspect(guilty);
		repair_add(d, guilty);
	}
	if (!guilty && w->by_id)
		many_part(w);
	while ((f = TAILQ_LAST(&w->flights, flight_list))) {
		if (!f->sent) {
			flight_to_backlog(d, f, true);
			continue;
		}
		if (!guilty) {
			suspect(f);
			st->separated++;
		}
		repair_add(d, f);
	}
	repair_run(d, st);
}

static void looked_up(void *arg, enum store_rc rc, const int64_t *ids, size_t n)
{
	struct repair *r = arg;
	struct dispatch *d = r->d;
	for (size_t i = 0; i < r->n; i++) { /* added last first, put back at the front one by one: their order is kept */
		struct flight *f = map_get(&d->flights, (uint64_t)r->ids[i]);
		bool still = false;
		if (!f)
			continue;
		f->asked = false;
		if (rc != STORE_OK)
			continue; /* when the database is back, or with the next tick */
		for (size_t j = 0; j < n && !still; j++)
			still = ids[j] == r->ids[i];
		if (still)
			unrepair(d, f, true);
		else
			moved_on(d, r->stage, f);
	}
	if (rc == STORE_OK)
		look_everywhere(d);
	else if (rc != STORE_AWAY)
		log_error(NULL, "stage=%s event=lookup-failed rc=%d", r->stage->name, rc);
	free(r);
}

/* Looks up the repairs of a stage about which nothing was asked yet; called again when the database is back and by the tick. */
void repair_run(struct dispatch *d, struct stage *st)
{
	if (!st->n_repairs || !d->db_up)
		return;
	struct repair *r = malloc(sizeof *r + st->n_repairs * sizeof *r->ids);
	struct flight *f;
	if (!r)
		return;
	*r = (struct repair){ .d = d, .stage = st };
	TAILQ_FOREACH(f, &st->repairs, link)
		if (!f->asked) {
			f->asked = true;
			r->ids[r->n++] = f->id;
		}
	if (!r->n) {
		free(r);
		return;
	}
	store_still_running(d->db, st->name, r->ids, r->n, looked_up, r);
}
