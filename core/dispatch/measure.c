/* What modules count and report, as their workers tell it (proto/metrics, worker/measure.h): held against what the worker may speak of, added up per stage,
 * shown. It comes from processes with code that is not ours: a worker speaks for its own stage, and for those that the configuration lets
 * share its process, for nothing of the core's, within bounds of memory and time. Counters are kept for the life of the reactor; gauges and
 * reports are the worker's, and end with it. */
#include "dispatch_internal.h"

#include "base/clock.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* What a worker says of itself at one stage. */
struct part {
	struct part *next;
	struct stage *stage; /* stages are never freed before their workers */
	struct metrics_set gauges;
	struct buf report;   /* empty: none */
	int64_t report_at;
};

struct measured {
	struct part *parts;
	struct metrics_budget budget; /* what it may still say */
	bool said;           /* that something was refused */
};

/* --- may it? */

static bool on(const struct config *c, const char *section, const char *option)
{
	return config_get(c, section, option) ? config_int(c, section, option) : config_int(c, "pepsi", option);
}

static bool same(const struct config *c, const char *a, const char *b, const char *option, const char *other)
{
	const char *x = config_str(c, a, option), *y = config_str(c, b, option);
	x = x ? x : other;
	y = y ? y : other;
	return x == y || (x && y && !strcmp(x, y));
}

/* Can a worker of st run the module of `guest` in its process? What the configuration says of it (worker/fuse.h); the rest only the worker knows. */
static bool may_host(const struct dispatch *d, const struct worker *w, const struct stage *guest)
{
	char own[160], section[160];
	const struct config *c = d->config;
	if (guest == w->stage)
		return true;
	if (w->by_id || guest->removed || !config_int(c, "pepsi", "ALLOW_FUSION"))
		return false;
	snprintf(own, sizeof own, "stage-%.100s", w->stage->name);
	snprintf(section, sizeof section, "stage-%.100s", guest->name);
	return on(c, section, "ALLOW_FUSION") && same(c, own, section, "USER", config_str(c, "pepsi", "USER")) && same(c, own, section, "GROUPS", "");
}

/* --- taking it in */

static struct measured *of(struct worker *w)
{
	if (!w->measured)
		w->measured = calloc(1, sizeof *w->measured);
	return w->measured;
}

static struct part *part_of(struct measured *m, struct stage *st)
{
	struct part *p;
	for (p = m->parts; p; p = p->next)
		if (p->stage == st)
			return p;
	if (!(p = calloc(1, sizeof *p)))
		return NULL;
	p->stage = st;
	p->gauges.weight_max = MEASURE_GAUGES_MAX;
	p->report = BUF_INIT(WIRE_REPORT_MAX);
	p->next = m->parts;
	m->parts = p;
	return p;
}

static struct stage *stage_of(struct dispatch *d, const struct worker *w, struct str name)
{
	char z[METRICS_STAGE_MAX + 1];
	memcpy(z, name.p, name.n);
	z[name.n] = 0;
	struct stage *st = strlen(z) == name.n ? dispatch_stage_find(d, z) : NULL;
	return st && may_host(d, w, st) ? st : NULL;
}

static int take_metric(struct dispatch *d, struct worker *w, struct measured *m, struct str text)
{
	struct metrics_line line;
	struct part *p = NULL;
	if (metrics_line_get(text, &line))
		return -1;
	struct stage *st = stage_of(d, w, line.stage);
	if (!st || (line.kind == METRICS_GAUGE && !(p = part_of(m, st))))
		return -1;
	if (p && metrics_apply(&p->gauges, &line))
		return -1;
	return metrics_apply(&st->metrics, &line); /* of a gauge: that there is one; levels are added up when they are asked for */
}

static int take_report(struct dispatch *d, struct worker *w, struct measured *m, struct str text, int64_t now)
{
	struct str name, json;
	size_t kept = 0;
	if (metrics_report_get(text, &name, &json) || json.n > WIRE_REPORT_MAX || json_object_fault(json))
		return -1;
	struct stage *st = stage_of(d, w, name);
	struct part *p = st ? part_of(m, st) : NULL;
	if (!p)
		return -1;
	for (const struct part *x = m->parts; x; x = x->next)
		kept += x != p ? x->report.n : 0;
	buf_free(&p->report);
	p->report_at = now;
	if (json.n <= 2)
		return 0; /* nothing any more */
	if (kept + json.n > MEASURE_REPORTS_KEPT)
		return -1;
	buf_adds(&p->report, json);
	return p->report.failed ? -1 : 0;
}

int measure_line(struct dispatch *d, struct worker *w, const struct wire_status *line, int64_t now)
{
	struct measured *m = of(w);
	if (!m)
		return 0;
	if (!metrics_afford(&m->budget, line->json.n + 3, now))
		return -1;
	if (line->status == WIRE_METRIC ? take_metric(d, w, m, line->json) : take_report(d, w, m, line->json, now)) {
		d->metrics_refused++;
		if (!m->said)
			log_warn(NULL, "stage=%s pid=%d event=metric-refused line=%s hint=\"no more of this is said about this worker\"", w->stage->name, (int)w->pid,
			    log_q(str_n(line->json.p, line->json.n < 200 ? line->json.n : 200)));
		m->said = true;
	}
	return 0;
}

/* Of workers before acceptance, which are the ingress's: it has looked at how much they say. They have no gauges here. */
void dispatch_measure_sink(void *arg, const char *stage, struct str text)
{
	struct dispatch *d = arg;
	struct metrics_line line;
	struct stage *st;
	if (metrics_line_get(text, &line) || !str_ieq(line.stage, str_from(stage))) {
		d->metrics_refused++;
		return;
	}
	TAILQ_FOREACH(st, &d->stages, link)
		if (!strcasecmp(st->name, stage))
			break;
	if (st && line.kind != METRICS_GAUGE && metrics_apply(&st->metrics, &line))
		d->metrics_refused++;
}

void measure_drop(struct worker *w)
{
	struct measured *m = w->measured;
	struct part *p;
	if (!m)
		return;
	while ((p = m->parts)) {
		m->parts = p->next;
		metrics_set_done(&p->gauges);
		buf_free(&p->report);
		free(p);
	}
	free(m);
	w->measured = NULL;
}

/* --- showing it */

/* Levels of a stage are the sums over the workers there are. */
static void add_levels(struct dispatch *d, struct stage *of)
{
	struct stage *st;
	const struct worker *w;
	const struct part *p;
	metrics_level_zero(&of->metrics);
	TAILQ_FOREACH(st, &d->stages, link)
		TAILQ_FOREACH(w, &st->workers, link)
			for (p = w->measured ? w->measured->parts : NULL; p; p = p->next)
				if (p->stage == of)
					metrics_level_add(&of->metrics, &p->gauges);
}

void measure_status(struct stage *st, struct buf *json)
{
	add_levels(st->d, st);
	buf_addz(json, "\"metrics\":");
	metrics_json(&st->metrics, json);
}

void measure_metrics(struct dispatch *d, struct buf *text)
{
	struct stage *st;
	size_t n = 0;
	unsigned left_out = 0;
	TAILQ_FOREACH(st, &d->stages, link)
		n++;
	struct metrics_stage *all = calloc(n + 1, sizeof *all);
	n = 0;
	TAILQ_FOREACH(st, &d->stages, link)
		if (all && st->metrics.first) {
			add_levels(d, st);
			all[n++] = (struct metrics_stage){ str_from(st->name), &st->metrics };
		}
	if (all)
		left_out = metrics_show(all, n, text, MEASURE_SHOW_MAX);
	free(all);
	buf_addf(text, "# HELP pepsi_dispatch_metrics_refused_total Lines of workers about metrics or reports that cannot be.\n"
		       "# TYPE pepsi_dispatch_metrics_refused_total counter\npepsi_dispatch_metrics_refused_total %llu\n"
		       "# HELP pepsi_dispatch_metrics_left_out Names of modules' metrics for which there is no room here.\n"
		       "# TYPE pepsi_dispatch_metrics_left_out gauge\npepsi_dispatch_metrics_left_out %u\n",
	    (unsigned long long)d->metrics_refused, left_out);
}

void dispatch_reports(struct dispatch *d, const char *stage, struct buf *json)
{
	const struct stage *st;
	const struct worker *w;
	const struct part *p;
	int64_t now = clock_mono_us();
	size_t end = json->n + MEASURE_REPORTS_MAX;
	const char *sep = "";
	buf_addc(json, '[');
	TAILQ_FOREACH(st, &d->stages, link)
		TAILQ_FOREACH(w, &st->workers, link)
			for (p = w->measured ? w->measured->parts : NULL; p; p = p->next) {
				if (!p->report.n || (stage && strcasecmp(stage, p->stage->name) != 0) || json->n + p->report.n + 512 > end)
					continue;
				buf_addf(json, "%s{\"stage\":", sep);
				sep = ",";
				json_put_str(json, str_from(p->stage->name));
				buf_addf(json, ",\"pid\":%d,\"age_s\":%lld,\"report\":", (int)w->pid, (long long)((now - p->report_at) / US_PER_S));
				buf_adds(json, buf_str(&p->report));
				buf_addc(json, '}');
			}
	buf_addc(json, ']');
}
