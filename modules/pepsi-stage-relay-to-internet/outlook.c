/* What people see of the stage: how sessions went, and every five seconds, while something happens, the destinations of this worker, worst first, as
 * host->status_report() and as gauges. Names of destinations stand in the report alone: as labels of metrics they would be without end. Only looks. */
#include "internet.h"

#include "base/json.h"
#include "count.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	FIRST_MS = 1000, EVERY_MS = 5000,
	REPORT_MAX = 48 * 1024, /* octets: <pepsi/stage.h> */
	ROW_MAX = 1500,         /* of one destination: a name, an error text, numbers */
	STATES = TRAFFIC_PROBING + 1,
};

struct outlook {
	struct worker *w;
	struct pepsi_event *timer;
	struct pepsi_metric *destinations, *held, *open;
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

/* How much it is in want of somebody's look. */
static uint64_t badness(const struct traffic_view *v)
{
	static const unsigned char of_state[] = { [TRAFFIC_NEW] = 1, [TRAFFIC_GOOD] = 0, [TRAFFIC_POOR] = 2, [TRAFFIC_WAITING] = 4, [TRAFFIC_PROBING] = 3 };
	return (uint64_t)of_state[v->state] << 48 | (uint64_t)(v->waiting & 0xffffff) << 24 | ((v->working + v->idle) & 0xffffff);
}

static int worse_first(const void *a, const void *b)
{
	uint64_t x = badness(a), y = badness(b);
	return x < y ? 1 : x > y ? -1 : strcmp(((const struct traffic_view *)a)->key, ((const struct traffic_view *)b)->key);
}

/* A domain that is being looked up, or cannot be, stands among them as ?DOMAIN; once its exchangers are known they are what people want to see. */
static bool is_over(const struct traffic_view *v)
{
	return v->key[0] == '?' && !v->waiting && !v->working && !v->idle && !v->backoff_ms;
}

/* All of them, in that order; the caller frees. NULL: none, or memory. */
static struct traffic_view *all(const struct outlook *o, size_t *ret_n)
{
	struct traffic_totals n;
	const void *pos = NULL;
	*ret_n = 0;
	traffic_totals(queue_traffic(o->w->queue), &n);
	struct traffic_view *v = n.destinations ? calloc(n.destinations, sizeof *v) : NULL;
	while (v && *ret_n < n.destinations && traffic_view(queue_traffic(o->w->queue), o->w->host->mono_ms(), &pos, &v[*ret_n]))
		*ret_n += !is_over(&v[*ret_n]);
	if (*ret_n)
		qsort(v, *ret_n, sizeof *v, worse_first);
	return v;
}

static void report(const struct outlook *o, const struct traffic_view *v, size_t n)
{
	struct buf b = BUF_INIT(REPORT_MAX);
	size_t i = 0;
	buf_addz(&b, "{\"destinations\":[");
	for (; i < n && b.n + ROW_MAX < REPORT_MAX; i++) {
		if (i)
			buf_addc(&b, ',');
		traffic_view_json(&v[i], &b);
	}
	buf_addf(&b, "],\"known\":%zu,\"listed\":%zu}", n, i);
	if (!b.failed && PEPSI_HAS(o->w->host, status_report))
		o->w->host->status_report(o->w->conf, buf_z(&b));
	buf_free(&b);
}

/* Returns whether there is one about which the next look may say something else. */
static bool gauges(const struct outlook *o, const struct traffic_view *v, size_t n)
{
	const struct pepsi_host *h = o->w->host;
	unsigned of[STATES] = { 0 };
	struct traffic_totals t;
	bool moves = false;
	for (size_t i = 0; i < n; i++) {
		of[v[i].state]++;
		moves |= v[i].working || v[i].idle || v[i].waiting || v[i].backoff_ms;
	}
	for (unsigned i = 0; i < STATES; i++)
		count_add(h, o->destinations, traffic_state_name((enum traffic_state)i), of[i]);
	traffic_totals(queue_traffic(o->w->queue), &t);
	count_add(h, o->held, NULL, t.held);
	count_add(h, o->open, "working", t.sessions - t.idle);
	count_add(h, o->open, "idle", t.idle);
	return moves;
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
	report(o, v, n);
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
	o->destinations = count_new(w->host, w->conf, PEPSI_METRIC_GAUGE, "destinations", "state", "new good slow backoff probe",
	    "Destinations that are known: untried, well, at a low rate, left alone, tried by one message.");
	o->held = count_new(w->host, w->conf, PEPSI_METRIC_GAUGE, "held", NULL, NULL, "Messages that wait for a session or are on their way.");
	o->open = count_new(w->host, w->conf, PEPSI_METRIC_GAUGE, "open_sessions", "state", "working idle", "Sessions that are open.");
	return o;
}

void outlook_free(struct outlook *o)
{
	if (!o)
		return;
	o->w->host->event_free(o->timer);
	free(o);
}
