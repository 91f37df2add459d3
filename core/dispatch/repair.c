/* Repairs: what to do with the rows a dead worker had not answered. The database is asked which of them are still
 * running at that stage: the others were finished just before the end and are done. Of those left, one that was alone with
 * its worker carries the blame; several are tried again one at a time. Nothing here is lost when the database is away:
 * repairs wait in their list. */
#include "dispatch_internal.h"

#include "base/clock.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/* One look-up or blame under way. */
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
	TAILQ_INSERT_TAIL(&st->repairs, f, link);
	st->n_repairs++;
}

static void unrepair(struct dispatch *d, struct flight *f, bool again)
{
	struct stage *st = f->stage;
	TAILQ_REMOVE(&st->repairs, f, link);
	st->n_repairs--;
	flight_wait(f, false);
	if (again)
		f->then = NULL; /* if it was claimed anew, then for this very stage: once is enough */
	else
		flight_over(d, f);
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

struct blame {
	struct dispatch *d;
	struct stage *stage;
	int64_t id;
	bool overrun;
};

static void blamed(void *arg, enum store_rc rc, bool ended)
{
	struct blame *b = arg;
	struct flight *f = map_get(&b->d->flights, (uint64_t)b->id);
	b->d->repairs_running--;
	if (rc == STORE_OK) {
		if (ended) {
			b->d->failed_total++;
			b->d->d_failed++;
			log_error(NULL, "id=%lld stage=%s event=given-up status=%s", (long long)b->id, b->stage->name,
			    b->overrun ? "timeout" : "failed");
		} else {
			dispatch_wake(b->d, b->stage->name);
		}
		if (f)
			unrepair(b->d, f, false);
	} else if (f) {
		/* not booked: let it run again as a suspect rather than forget it */
		log_warn(NULL, "id=%lld stage=%s event=blame-not-booked rc=%d", (long long)b->id, b->stage->name, rc);
		if (!f->suspect) {
			f->suspect = true;
			b->stage->n_suspects++;
		}
		unrepair(b->d, f, true);
		dispatch_turn_soon(b->d);
	}
	free(b);
}

static void blame(struct dispatch *d, struct stage *st, int64_t id, const char *report, bool overrun)
{
	struct blame *b = malloc(sizeof *b);
	if (!b)
		return; /* stays in repairs; the next look-up comes by again */
	*b = (struct blame){ d, st, id, overrun };
	d->repairs_running++;
	store_blame(d->db, id, overrun, d->max_crashes, report, blamed, b);
}

/* The worker of w died. Its flights become repairs; a lone one is blamed. */
void repair_crash(struct dispatch *d, struct worker *w, int status)
{
	struct stage *st = w->stage;
	struct flight *f;
	char what[160];
	bool alone = w->n_flights == 1, overrun = w->killed_for_overrun;

	describe(what, sizeof what, status, overrun);
	st->crashes += !overrun;
	st->d_crashes += !overrun;
	log_error(NULL, "stage=%s pid=%d event=worker-died reason=%s held=%u", st->name, (int)w->pid, log_qz(what), w->n_flights);
	page_log(w);
	page_blame(d, w);

	f = TAILQ_FIRST(&w->flights);
	if (alone && f->sent && d->db_up) {
		json_object *o = page_report(w, what, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
		repair_add(d, f);
		/* store_blame leaves a row alone that is no longer running */
		blame(d, st, f->id, json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN), overrun);
		json_object_put(o);
		return;
	}
	while ((f = TAILQ_LAST(&w->flights, flight_list))) {
		if (!f->sent) {
			flight_to_backlog(d, f, true);
			continue;
		}
		if (!f->suspect) {
			f->suspect = true;
			st->n_suspects++;
		}
		repair_add(d, f);
	}
	repair_run(d, st);
}

static void looked_up(void *arg, enum store_rc rc, const int64_t *ids, size_t n)
{
	struct repair *r = arg;
	struct dispatch *d = r->d;
	d->repairs_running--;
	if (rc == STORE_OK) {
		for (size_t i = 0; i < r->n; i++) {
			struct flight *f = map_get(&d->flights, (uint64_t)r->ids[i]);
			bool still = false;
			for (size_t j = 0; j < n && !still; j++)
				still = ids[j] == r->ids[i];
			if (!f)
				continue;
			if (!still) {
				r->stage->done++;
				r->stage->d_messages++;
			}
			unrepair(d, f, still);
		}
		dispatch_wake(d, NULL); /* those that moved on are pending somewhere */
		dispatch_due_soon(d);
	} else if (rc != STORE_AWAY) {
		log_error(NULL, "stage=%s event=lookup-failed rc=%d", r->stage->name, rc);
	}
	free(r);
}

/* Looks up the repairs of a stage, one round at a time; called again when the database is back and by the tick. */
void repair_run(struct dispatch *d, struct stage *st)
{
	if (!st->n_repairs || !d->db_up || d->repairs_running)
		return;
	struct repair *r = malloc(sizeof *r + st->n_repairs * sizeof *r->ids);
	struct flight *f;
	if (!r)
		return;
	*r = (struct repair){ .d = d, .stage = st };
	TAILQ_FOREACH(f, &st->repairs, link)
		r->ids[r->n++] = f->id;
	d->repairs_running++;
	store_still_running(d->db, st->name, r->ids, r->n, looked_up, r);
}
