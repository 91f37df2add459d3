/* The lines that tell metrics: words with one blank between them, a stage's name with its length before it (it may hold blanks). Written whole or not at
 * all, read strictly. */
#include "metrics.h"

#include "proto/wire/wire.h"

#include <inttypes.h>
#include <stdio.h>

static const char NONE[] = "-"; /* no label, and then no value; no help */

static char kind_letter(enum metrics_kind k)
{
	return k == METRICS_COUNTER ? 'c' : k == METRICS_GAUGE ? 'g' : 't';
}

/* --- reading */

/* "5:relay " off the front. */
static int take_stage(struct str *rest, struct str *ret)
{
	ptrdiff_t colon = str_chr(*rest, ':');
	uint64_t n;
	if (colon < 1 || rest->p[0] == '0' || str_u64(str_n(rest->p, (size_t)colon), METRICS_STAGE_MAX, &n) || !n)
		return -1;
	struct str s = str_skip(*rest, (size_t)colon + 1);
	if (s.n <= n || s.p[n] != ' ')
		return -1;
	*ret = str_n(s.p, n);
	*rest = str_skip(s, n + 1);
	return 0;
}

/* Up to the next blank, or all. There is one more word behind that blank. */
static int take_word(struct str *rest, struct str *ret)
{
	ptrdiff_t end = str_chr(*rest, ' ');
	if (!rest->n || !end || (end > 0 && (size_t)end + 1 == rest->n))
		return -1;
	*ret = str_n(rest->p, end < 0 ? rest->n : (size_t)end);
	*rest = str_skip(*rest, ret->n + 1);
	return 0;
}

/* One way to write each number: no zeros in front. */
static int take_number(struct str *rest, uint64_t max, uint64_t *ret)
{
	struct str w;
	return take_word(rest, &w) || (w.n > 1 && w.p[0] == '0') || str_u64(w, max, ret) ? -1 : 0;
}

static int take_values(struct str *rest, struct metrics_line *l)
{
	uint64_t n;
	bool minus = l->kind == METRICS_GAUGE && rest->n > 1 && rest->p[0] == '-' && rest->p[1] != '0';
	if (l->kind != METRICS_TIMING) {
		*rest = str_skip(*rest, minus);
		if (take_number(rest, INT64_MAX, &n))
			return -1;
		l->n = minus ? -(int64_t)n : (int64_t)n;
		return 0;
	}
	if (take_number(rest, INT64_MAX, &l->us))
		return -1;
	for (unsigned i = 0; i <= METRICS_BOUNDS; i++)
		if (take_number(rest, INT64_MAX, &l->in[i]))
			return -1;
	return 0;
}

static bool value_ok(struct str s)
{
	char z[METRICS_VALUE_MAX + 1], clean[METRICS_VALUE_MAX + 1];
	if (!s.n || s.n > METRICS_VALUE_MAX || memchr(s.p, 0, s.n))
		return false;
	memcpy(z, s.p, s.n);
	z[s.n] = 0;
	metrics_value_clean(z, clean);
	return !strcmp(z, clean);
}

int metrics_line_get(struct str text, struct metrics_line *ret)
{
	struct metrics_line l = { .definition = false };
	struct str kind, none = str_from(NONE);
	if (take_stage(&text, &l.stage) || take_word(&text, &kind) || kind.n > 2 || (kind.n == 2 && kind.p[1] != '?') || take_word(&text, &l.name) ||
	    take_word(&text, &l.label) || !metrics_name_ok(l.name))
		return -1;
	l.kind = kind.p[0] == 'c' ? METRICS_COUNTER : kind.p[0] == 'g' ? METRICS_GAUGE : kind.p[0] == 't' ? METRICS_TIMING : 0;
	l.definition = kind.n == 2;
	if (str_eq(l.label, none))
		l.label = STR_NULL;
	else if (!metrics_label_ok(l.label))
		return -1;
	if (!l.kind)
		return -1;
	if (l.definition) {
		l.help = str_eq(text, none) ? STR_NULL : text;
		if (!text.n || !metrics_help_ok(text))
			return -1;
		*ret = l;
		return 0;
	}
	if (take_word(&text, &l.value) || (l.label.n ? !value_ok(l.value) : !str_eq(l.value, none)) || take_values(&text, &l) || text.n)
		return -1;
	if (!l.label.n)
		l.value = STR_NULL;
	*ret = l;
	return 0;
}

int metrics_report_get(struct str text, struct str *ret_stage, struct str *ret_json)
{
	struct str stage;
	if (take_stage(&text, &stage) || !text.n)
		return -1;
	*ret_stage = stage;
	*ret_json = text;
	return 0;
}

/* --- writing */

int metrics_line_put(struct buf *out, const struct metrics_line *l)
{
	struct buf b = BUF_INIT(METRICS_LINE_MAX);
	struct str none = str_from(NONE);
	int bad = -1;
	buf_addf(&b, "%d %zu:%.*s %c%s %.*s %.*s ", WIRE_METRIC, l->stage.n, STR_ARG(l->stage), kind_letter(l->kind), l->definition ? "?" : "", STR_ARG(l->name),
	    STR_ARG(l->label.n ? l->label : none));
	if (l->definition) {
		buf_adds(&b, l->help.n ? l->help : none);
	} else {
		buf_adds(&b, l->value.n ? l->value : none);
		if (l->kind == METRICS_TIMING) {
			buf_addf(&b, " %" PRIu64, l->us);
			for (unsigned i = 0; i <= METRICS_BOUNDS; i++)
				buf_addf(&b, " %" PRIu64, l->in[i]);
		} else {
			buf_addf(&b, " %" PRId64, l->n);
		}
	}
	buf_addc(&b, '\n');
	if (!b.failed && l->stage.n && l->stage.n <= METRICS_STAGE_MAX && out->n + b.n <= out->max)
		bad = buf_adds(out, buf_str(&b));
	buf_free(&b);
	return bad;
}

int metrics_report_put(struct buf *out, struct str stage, struct str json)
{
	size_t at = out->n;
	if (!stage.n || stage.n > METRICS_STAGE_MAX || json.n > WIRE_REPORT_MAX || memchr(json.p, '\n', json.n) || at + json.n + stage.n + 16 > out->max)
		return -1;
	buf_addf(out, "%d %zu:%.*s ", WIRE_REPORT, stage.n, STR_ARG(stage));
	buf_adds(out, json);
	if (!buf_addc(out, '\n'))
		return 0;
	return -1;
}

static void line_of(const struct metrics_metric *m, const struct metrics_series *x, struct str stage, struct metrics_line *l)
{
	*l = (struct metrics_line){ .stage = stage, .name = str_from(m->name), .label = str_from(m->label), .kind = m->kind };
	if (!x) {
		l->definition = true;
		l->help = str_from(m->help);
		return;
	}
	l->value = str_from(x->value);
	l->n = m->kind == METRICS_GAUGE ? x->level == INT64_MIN ? -INT64_MAX : x->level : (int64_t)(x->n < INT64_MAX ? x->n : INT64_MAX);
	l->us = x->us < INT64_MAX ? x->us : INT64_MAX;
	if (m->kind == METRICS_TIMING)
		memcpy(l->in, x->in, sizeof l->in);
}

bool metrics_tell(struct metrics_set *s, struct str stage, struct buf *out, size_t room)
{
	struct metrics_line l;
	size_t end = out->n + room;
	if (!s->changed)
		return false;
	for (struct metrics_metric *m = s->first; m; m = m->next) {
		if (out->n + METRICS_LINE_MAX > end)
			return true;
		if (m->untold) {
			line_of(m, NULL, stage, &l);
			m->telling = metrics_line_put(out, &l) == 0;
		}
		for (struct metrics_series *x = m->first; x; x = x->next) {
			if (!x->changed)
				continue;
			if (out->n + METRICS_LINE_MAX > end)
				return true;
			line_of(m, x, stage, &l);
			x->telling = metrics_line_put(out, &l) == 0;
		}
	}
	return false;
}

/* A gauge keeps its level; what grows begins anew. */
static void forget(const struct metrics_metric *m, struct metrics_series *x)
{
	x->changed = false;
	if (m->kind == METRICS_GAUGE)
		return;
	x->n = x->us = 0;
	memset(x->in, 0, sizeof x->in);
}

void metrics_told(struct metrics_set *s, bool sent)
{
	bool left = false;
	for (struct metrics_metric *m = s->first; m; m = m->next) {
		m->untold &= !(m->telling && sent);
		m->telling = false;
		left |= m->untold;
		for (struct metrics_series *x = m->first; x; x = x->next) {
			if (x->telling && sent)
				forget(m, x);
			x->telling = false;
			left |= x->changed;
		}
	}
	s->changed = left;
}
