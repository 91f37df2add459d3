/* What people see of the stage: how sessions went, and every five seconds, while something happens, the destinations of this worker (relay_measure.h) and
 * gauges. Only looks. */
#include "internet.h"

#include "count.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	FIRST_MS = 1000, EVERY_MS = 5000,
};

struct outlook {
	struct worker *w;
	struct pepsi_event *timer;
	struct pepsi_metric *held, *open, *sources;
	int64_t told_at;
	bool armed;
};

/* -- sessions */

void measure_session(const struct line *l, bool go)
{
	const struct relay_measure *m = &l->w->measure;
	relay_measure_session(m, l->reused ? "reused" : "opened");
	if (l->reused)
		return;
	relay_measure_tls(m, !go ? "refused" : !session_facts(l->s)->tls ? "plain" : !strcmp(l->verified, "mta-sts") ? "sts" :
	    !strcmp(l->verified, "no") ? "opportunistic" : l->verified);
}

/* -- destinations */

/* A domain that is being looked up, or cannot be, stands among them as ?DOMAIN; once its exchangers are known they are what people want to see. */
static bool is_over(const struct traffic_view *v)
{
	return v->key[0] == '?' && !v->waiting && !v->working && !v->idle && !v->backoff_ms;
}

/* All of them, and domains that are left alone; the caller frees. NULL: none, or memory. */
static struct traffic_view *all(const struct outlook *o, size_t *ret_n)
{
	struct traffic_totals n;
	const void *pos = NULL;
	int64_t now = o->w->host->mono_ms();
	*ret_n = 0;
	traffic_totals(queue_traffic(o->w->queue), &n);
	size_t most = n.destinations + safety_view(o->w->safety, now, NULL, 0);
	struct traffic_view *v = most ? calloc(most, sizeof *v) : NULL;
	while (v && *ret_n < n.destinations && traffic_view(queue_traffic(o->w->queue), now, &pos, &v[*ret_n]))
		*ret_n += !is_over(&v[*ret_n]);
	if (v)
		*ret_n += safety_view(o->w->safety, now, v + *ret_n, most - *ret_n);
	return v;
}

/* Returns whether one is suspended: it is told of until it is not. */
static bool sources(const struct outlook *o)
{
	const struct source *s;
	const char *option;
	int64_t of[2] = { 0 }, now = o->w->host->mono_ms();
	for (size_t i = 0; o->w->set.sources && sources_at(o->w->set.sources, i, &option, &s); i++)
		of[source_suspended(s, now)]++;
	count_add(o->w->host, o->sources, "usable", of[0]);
	count_add(o->w->host, o->sources, "suspended", of[1]);
	return of[1];
}

/* Returns whether there is one about which the next look may say something else. */
static bool gauges(const struct outlook *o, const struct traffic_view *v, size_t n)
{
	const struct pepsi_host *h = o->w->host;
	struct traffic_totals t;
	bool moves = false;
	for (size_t i = 0; i < n; i++)
		moves |= v[i].working || v[i].idle || v[i].waiting || v[i].backoff_ms;
	traffic_totals(queue_traffic(o->w->queue), &t);
	count_add(h, o->held, NULL, t.held);
	count_add(h, o->open, "working", t.sessions - t.idle);
	count_add(h, o->open, "idle", t.idle);
	return sources(o) || moves;
}

static void arm(struct outlook *o, int64_t ms)
{
	o->armed = o->w->host->event_arm(o->timer, 0, ms) == PEPSI_OK;
}

static void look(void *arg, uint32_t what)
{
	struct outlook *o = arg;
	size_t n;
	(void)what;
	o->w->host->in_hand(NULL);
	struct traffic_view *v = all(o, &n);
	o->armed = false;
	o->told_at = o->w->host->mono_ms();
	relay_measure_destinations(&o->w->measure, v, n);
	if (gauges(o, v, n))
		arm(o, EVERY_MS);
	free(v);
}

void outlook_soon(struct outlook *o)
{
	if (!o || o->armed)
		return;
	int64_t wait = o->told_at ? o->told_at + EVERY_MS - o->w->host->mono_ms() : 0;
	arm(o, wait > FIRST_MS ? wait : FIRST_MS);
}

struct outlook *outlook_new(struct worker *w)
{
	struct outlook *o = calloc(1, sizeof *o);
	if (!o)
		return NULL;
	o->w = w;
	o->timer = w->host->event_new(w->conf, -1, look, o);
	if (!o->timer) {
		free(o);
		return NULL;
	}
	o->held = count_new(w->host, w->conf, PEPSI_METRIC_GAUGE, "held", NULL, NULL, "Messages that wait for a session or are on their way.");
	o->open = count_new(w->host, w->conf, PEPSI_METRIC_GAUGE, "open_sessions", "state", "working idle", "Sessions that are open.");
	if (w->set.sources)
		o->sources = count_new(w->host, w->conf, PEPSI_METRIC_GAUGE, "sources", "state", "usable suspended", "Addresses that mail leaves from; suspended: not on this machine.");
	return o;
}

void outlook_free(struct outlook *o)
{
	if (!o)
		return;
	o->w->host->event_free(o->timer);
	free(o);
}
