/* Metrics of stages for Prometheus (text format 0.0.4) and for `pepsi status`. What comes out of a set needs no escaping; stage names do. */
#include "metrics.h"

#include <inttypes.h>

/* The name as it is shown. No two metrics of different kinds have the same one: metrics_name_ok(). */
static const char *ending(enum metrics_kind k)
{
	return k == METRICS_COUNTER ? "_total" : k == METRICS_TIMING ? "_seconds" : "";
}

static bool same_name(const struct metrics_metric *a, const struct metrics_metric *b)
{
	return a->kind == b->kind && !strcmp(a->name, b->name);
}

/* {stage="…",label="…" without the closing brace. */
static void labels(struct buf *b, struct str stage, const struct metrics_metric *m, const struct metrics_series *x)
{
	buf_addz(b, "{stage=\"");
	for (size_t i = 0; i < stage.n; i++) {
		if (stage.p[i] == '"' || stage.p[i] == '\\')
			buf_addc(b, '\\');
		buf_addc(b, stage.p[i] == '\n' ? ' ' : stage.p[i]);
	}
	buf_addc(b, '"');
	if (m->label[0])
		buf_addf(b, ",%s=\"%s\"", m->label, x->value);
}

static void show_timing(struct buf *b, struct str stage, const struct metrics_metric *m, const struct metrics_series *x)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i <= METRICS_BOUNDS; i++) {
		sum += x->in[i];
		buf_addf(b, "pepsi_module_%s_seconds_bucket", m->name);
		labels(b, stage, m, x);
		if (i < METRICS_BOUNDS)
			buf_addf(b, ",le=\"%g\"} %" PRIu64 "\n", (double)metrics_bounds[i] / 1e6, sum);
		else
			buf_addf(b, ",le=\"+Inf\"} %" PRIu64 "\n", sum);
	}
	buf_addf(b, "pepsi_module_%s_seconds_sum", m->name);
	labels(b, stage, m, x);
	buf_addf(b, "} %.6f\n", (double)x->us / 1e6);
	buf_addf(b, "pepsi_module_%s_seconds_count", m->name);
	labels(b, stage, m, x);
	buf_addf(b, "} %" PRIu64 "\n", sum);
}

static void show_metric(struct buf *b, struct str stage, const struct metrics_metric *m)
{
	for (const struct metrics_series *x = m->first; x; x = x->next) {
		if (m->kind == METRICS_TIMING) {
			show_timing(b, stage, m, x);
			continue;
		}
		buf_addf(b, "pepsi_module_%s%s", m->name, ending(m->kind));
		labels(b, stage, m, x);
		if (m->kind == METRICS_GAUGE)
			buf_addf(b, "} %" PRId64 "\n", x->level);
		else
			buf_addf(b, "} %" PRIu64 "\n", x->n);
	}
}

/* Everything of one name, whoever has it. */
static void show_name(const struct metrics_stage *stages, size_t n, const struct metrics_metric *like, struct buf *b)
{
	static const char *const types[] = { [METRICS_COUNTER] = "counter", [METRICS_GAUGE] = "gauge", [METRICS_TIMING] = "histogram" };
	const char *help = like->help;
	for (size_t i = 0; i < n; i++)
		for (const struct metrics_metric *m = stages[i].set->first; m && !help[0]; m = m->next)
			if (same_name(m, like))
				help = m->help;
	buf_addf(b, "# HELP pepsi_module_%s%s %s\n# TYPE pepsi_module_%s%s %s\n", like->name, ending(like->kind), help[0] ? help : "-", like->name, ending(like->kind),
	    types[like->kind]);
	for (size_t i = 0; i < n; i++)
		for (const struct metrics_metric *m = stages[i].set->first; m; m = m->next)
			if (same_name(m, like))
				show_metric(b, stages[i].name, m);
}

/* Did it come already, before metric m of stage i? */
static bool shown(const struct metrics_stage *stages, size_t i, const struct metrics_metric *m)
{
	for (size_t k = 0; k <= i; k++)
		for (const struct metrics_metric *x = stages[k].set->first; x; x = x->next) {
			if (x == m)
				return false;
			if (x->first && same_name(x, m))
				return true;
		}
	return false;
}

unsigned metrics_show(const struct metrics_stage *stages, size_t n, struct buf *out, size_t max)
{
	unsigned left_out = 0;
	struct buf b = BUF_INIT(max);
	for (size_t i = 0; i < n; i++)
		for (const struct metrics_metric *m = stages[i].set->first; m; m = m->next) {
			if (!m->first || shown(stages, i, m)) /* nothing to show yet, or shown already */
				continue;
			buf_reset(&b);
			show_name(stages, n, m, &b);
			if (b.failed || b.n > max) {
				left_out++;
				continue;
			}
			max -= b.n;
			buf_adds(out, buf_str(&b));
		}
	buf_free(&b);
	return left_out;
}

static void json_value(const struct metrics_metric *m, const struct metrics_series *x, struct buf *out)
{
	if (m->kind == METRICS_TIMING)
		buf_addf(out, "{\"count\":%" PRIu64 ",\"seconds\":%.6f}", x->n, (double)x->us / 1e6);
	else if (m->kind == METRICS_GAUGE)
		buf_addf(out, "%" PRId64, x->level);
	else /* JSON's readers have 63 bits */
		buf_addf(out, "%" PRIu64, x->n < INT64_MAX ? x->n : (uint64_t)INT64_MAX);
}

void metrics_json(const struct metrics_set *s, struct buf *out)
{
	static const char *const kinds[] = { [METRICS_COUNTER] = "counter", [METRICS_GAUGE] = "gauge", [METRICS_TIMING] = "timing" };
	const char *sep = "";
	buf_addc(out, '[');
	for (const struct metrics_metric *m = s->first; m; m = m->next) {
		if (!m->first)
			continue;
		buf_addf(out, "%s{\"name\":\"%s\",\"kind\":\"%s\"", sep, m->name, kinds[m->kind]);
		sep = ",";
		if (!m->label[0]) {
			buf_addz(out, ",\"value\":");
			json_value(m, m->first, out);
			buf_addc(out, '}');
			continue;
		}
		buf_addf(out, ",\"label\":\"%s\",\"values\":{", m->label);
		for (const struct metrics_series *x = m->first; x; x = x->next) {
			buf_addf(out, x == m->first ? "\"%s\":" : ",\"%s\":", x->value);
			json_value(m, x, out);
		}
		buf_addz(out, "}}");
	}
	buf_addc(out, ']');
}
