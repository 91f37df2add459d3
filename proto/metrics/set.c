/* Names, series and values of metrics, and their limits; see metrics.h. */
#include "metrics.h"

#include <stdlib.h>

const int64_t metrics_bounds[METRICS_BOUNDS] = { 10000, 50000, 100000, 500000, 1000000, 5000000, 10000000, 30000000, 60000000, 300000000, 1800000000,
	7200000000 };

static const char OTHER[] = "other";

/* --- grammar */

static bool is_word(struct str s, size_t min, size_t max)
{
	if (s.n < min || s.n > max || s.p[0] < 'a' || s.p[0] > 'z')
		return false;
	for (size_t i = 0; i < s.n; i++)
		if ((s.p[i] < 'a' || s.p[i] > 'z') && s.p[i] != '_')
			return false;
	return true;
}

bool metrics_name_ok(struct str name)
{
	/* with these a counter "x" and a gauge "x_total" would be one */
	static const char *const ends[] = { "_total", "_seconds", "_bucket", "_sum", "_count" };
	if (!is_word(name, 2, METRICS_NAME_MAX))
		return false;
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (str_iends(name, str_from(ends[i])))
			return false;
	return true;
}

bool metrics_label_ok(struct str label)
{
	static const char *const taken[] = { "stage", "le", "quantile", "job", "instance" };
	if (!is_word(label, 1, METRICS_LABEL_MAX))
		return false;
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		if (str_eq(label, str_from(taken[i])))
			return false;
	return true;
}

bool metrics_help_ok(struct str help)
{
	if (help.n > METRICS_HELP_MAX)
		return false;
	for (size_t i = 0; i < help.n; i++)
		if (help.p[i] < ' ' || help.p[i] > '~' || help.p[i] == '\\' || help.p[i] == '"')
			return false;
	return true;
}

static bool value_octet(char c)
{
	return ascii_is_alnum(c) || (c && strchr("_.:/@+-", c));
}

void metrics_value_clean(const char *value, char out[METRICS_VALUE_MAX + 1])
{
	size_t n = 0;
	for (; value && value[n] && n < METRICS_VALUE_MAX; n++)
		out[n] = value_octet(value[n]) ? value[n] : '_';
	if (!n) {
		memcpy(out, "none", sizeof "none");
		return;
	}
	out[n] = 0;
}

/* --- metrics */

static void copy(char *to, struct str s)
{
	if (s.n)
		memcpy(to, s.p, s.n);
	to[s.n] = 0;
}

struct metrics_metric *metrics_define(struct metrics_set *s, enum metrics_kind kind, struct str name, struct str label, struct str help)
{
	struct metrics_metric *m;
	if (kind < METRICS_COUNTER || kind > METRICS_TIMING || !metrics_name_ok(name) || (label.n && !metrics_label_ok(label)) || !metrics_help_ok(help))
		return NULL;
	for (m = s->first; m; m = m->next)
		if (m->kind == kind && str_eq(str_from(m->name), name) && str_eq(str_from(m->label), label)) {
			if (help.n && !m->help[0]) {
				copy(m->help, help);
				m->untold = s->changed = true;
			}
			return m;
		}
	if (s->n >= METRICS_MAX || !(m = calloc(1, sizeof *m)))
		return NULL;
	m->set = s;
	m->kind = kind;
	copy(m->name, name);
	copy(m->label, label);
	copy(m->help, help);
	m->untold = s->changed = true;
	if (s->last)
		s->last->next = m;
	else
		s->first = m;
	s->last = m;
	s->n++;
	return m;
}

static struct metrics_series *add(struct metrics_metric *m, const char *value)
{
	struct metrics_series *x = calloc(1, sizeof *x);
	if (!x)
		return NULL;
	copy(x->value, str_from(value));
	if (m->last)
		m->last->next = x;
	else
		m->first = x;
	m->last = x;
	return x;
}

struct metrics_series *metrics_series(struct metrics_metric *m, const char *value)
{
	struct metrics_set *s = m->set;
	unsigned weight = m->kind == METRICS_TIMING ? METRICS_WEIGHT_TIMING : 1, max = s->weight_max ? s->weight_max : METRICS_WEIGHT_MAX;
	struct metrics_series *x;
	if (!m->label[0])
		value = "";
	for (x = m->first; x; x = x->next)
		if (!strcmp(x->value, value))
			return x;
	/* the only one of a metric without a label is no more than its "other" would be */
	if (m->label[0] && strcmp(value, OTHER) != 0 && s->weight + weight <= max) {
		if ((x = add(m, value)))
			s->weight += weight;
		return x;
	}
	if (!m->other)
		m->other = add(m, m->label[0] ? OTHER : "");
	return m->other;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static int64_t level_plus(int64_t a, int64_t b)
{
	int64_t sum;
	return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

int metrics_measure(struct metrics_metric *m, const char *value, int64_t n)
{
	char clean[METRICS_VALUE_MAX + 1];
	unsigned i = 0;
	metrics_value_clean(value, clean);
	struct metrics_series *x = n < 0 && m->kind != METRICS_GAUGE ? NULL : metrics_series(m, clean);
	if (!x)
		return -1;
	switch (m->kind) {
	case METRICS_COUNTER:
		x->n = plus(x->n, (uint64_t)n);
		break;
	case METRICS_GAUGE:
		if (x->level == n)
			return 0;
		x->level = n;
		break;
	case METRICS_TIMING:
		while (i < METRICS_BOUNDS && n > metrics_bounds[i])
			i++;
		x->in[i] = plus(x->in[i], 1);
		x->us = plus(x->us, (uint64_t)n);
		x->n = plus(x->n, 1);
		break;
	}
	x->changed = m->set->changed = true;
	return 0;
}

int metrics_apply(struct metrics_set *s, const struct metrics_line *line)
{
	struct metrics_metric *m = metrics_define(s, line->kind, line->name, line->label, line->definition ? line->help : STR_NULL);
	char value[METRICS_VALUE_MAX + 1];
	struct metrics_series *x;
	if (!m || line->value.n > METRICS_VALUE_MAX)
		return -1;
	if (line->definition)
		return !m->label[0] && !metrics_series(m, "") ? -1 : 0; /* what has one series has it from the beginning, at nothing */
	copy(value, line->value);
	if (!(x = metrics_series(m, value)))
		return -1;
	if (line->kind == METRICS_COUNTER)
		x->n = plus(x->n, line->n < 0 ? 0 : (uint64_t)line->n);
	else if (line->kind == METRICS_GAUGE)
		x->level = line->n;
	x->us = plus(x->us, line->us);
	for (unsigned i = 0; i <= METRICS_BOUNDS; i++) {
		x->in[i] = plus(x->in[i], line->in[i]);
		x->n = plus(x->n, line->in[i]);
	}
	x->changed = s->changed = true;
	return 0;
}

void metrics_level_zero(struct metrics_set *s)
{
	for (struct metrics_metric *m = s->first; m; m = m->next)
		for (struct metrics_series *x = m->first; x; x = x->next)
			x->level = 0;
}

void metrics_level_add(struct metrics_set *s, const struct metrics_set *of)
{
	for (const struct metrics_metric *m = of->first; m; m = m->next) {
		struct metrics_metric *mine = m->kind == METRICS_GAUGE
		    ? metrics_define(s, m->kind, str_from(m->name), str_from(m->label), str_from(m->help)) : NULL;
		for (const struct metrics_series *x = m->first; mine && x; x = x->next) {
			struct metrics_series *sum = metrics_series(mine, x->value);
			if (sum)
				sum->level = level_plus(sum->level, x->level);
		}
	}
}

void metrics_set_done(struct metrics_set *s)
{
	struct metrics_metric *m;
	struct metrics_series *x;
	while ((m = s->first)) {
		s->first = m->next;
		while ((x = m->first)) {
			m->first = x->next;
			free(x);
		}
		free(m);
	}
	*s = (struct metrics_set){ .weight_max = s->weight_max };
}

bool metrics_afford(struct metrics_budget *b, size_t octets, int64_t now)
{
	int64_t came = !b->at || now - b->at > INT64_C(100000000) ? METRICS_OCTETS_MAX : (now - b->at) * METRICS_OCTETS_S / 1000000;
	if (came > 0) {
		b->octets = b->octets + came > METRICS_OCTETS_MAX ? METRICS_OCTETS_MAX : b->octets + came;
		b->at = now;
	}
	b->octets -= (int64_t)octets;
	return b->octets >= 0;
}
