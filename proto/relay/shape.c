/* The operator's lines about destinations: reading them, and what is doubtful in them; see shape.h. */
#include "proto/relay/shape_internal.h"

#include <stdlib.h>

const struct shape shape_default = { .concurrency = 20, .initial = 3, .rate_ms = 60000, .per_connection = 100, .idle_ms = 10000,
	.backoff_first_ms = 30000, .backoff_most_ms = 30 * 60000 };
const struct shape shape_of_lookups = { .concurrency = SHAPE_CONCURRENCY_MAX, .initial = 20, .rate_ms = 60000, .per_connection = 1000000,
	.idle_ms = 1000, .backoff_first_ms = 30000, .backoff_most_ms = 10 * 60000 };

struct shapes *shapes_new(void)
{
	return calloc(1, sizeof(struct shapes));
}

void shapes_free(struct shapes *s)
{
	for (size_t i = 0; s && i < s->n; i++) {
		patterns_done(&s->rule[i]->patterns);
		free(s->rule[i]);
	}
	free(s);
}

static int number(struct str s, uint64_t min, uint64_t max, unsigned *ret, struct str word, struct buf *why)
{
	uint64_t v;
	if (str_u64(s, max, &v) || v < min) {
		buf_addf(why, "\"%.*s\": a number from %llu to %llu belongs behind \"=\"", STR_ARG(word), (unsigned long long)min, (unsigned long long)max);
		return 1;
	}
	*ret = (unsigned)v;
	return 0;
}

static int duration(struct str s, int64_t *ret_ms, struct str word, struct buf *why)
{
	static const struct { const char *name; int64_t ms; } units[] = { { "s", 1000 }, { "min", 60000 }, { "h", 3600000 } };
	size_t digits = 0;
	uint64_t v;
	while (digits < s.n && s.p[digits] >= '0' && s.p[digits] <= '9')
		digits++;
	if (!str_u64(str_n(s.p, digits), SHAPE_TIME_MAX_S, &v))
		for (size_t i = 0; i < sizeof units / sizeof *units; i++)
			if (str_ieq(str_skip(s, digits), str_from(units[i].name)) && v && (int64_t)v * units[i].ms <= SHAPE_TIME_MAX_S * INT64_C(1000)) {
				*ret_ms = (int64_t)v * units[i].ms;
				return 0;
			}
	buf_addf(why, "\"%.*s\": a time such as 30s, 5min or 1h belongs there, at most a day", STR_ARG(word));
	return 1;
}

static int rate(struct str s, struct shape *ret, struct str word, struct buf *why)
{
	static const struct { const char *name; int64_t ms; } units[] = { { "s", 1000 }, { "min", 60000 }, { "h", 3600000 }, { "d", 86400000 } };
	ptrdiff_t slash = str_chr(s, '/');
	uint64_t v;
	if (str_eq(s, STR("0"))) {
		ret->rate = 0;
		return 0;
	}
	if (slash > 0 && !str_u64(str_n(s.p, (size_t)slash), SHAPE_RATE_MAX, &v) && v)
		for (size_t i = 0; i < sizeof units / sizeof *units; i++)
			if (str_ieq(str_skip(s, (size_t)slash + 1), str_from(units[i].name))) {
				ret->rate = (unsigned)v;
				ret->rate_ms = units[i].ms;
				return 0;
			}
	buf_addf(why, "\"%.*s\": messages in a time, such as 10/s, 600/min, 1000/h or 5000/d, or 0 for no limit; at most %d", STR_ARG(word), SHAPE_RATE_MAX);
	return 1;
}

static int backoff(struct str s, struct shape *ret, struct str word, struct buf *why)
{
	const char *dots = s.n ? memmem(s.p, s.n, "..", 2) : NULL;
	struct str first = dots ? str_n(s.p, (size_t)(dots - s.p)) : s, most = dots ? str_skip(s, first.n + 2) : s;
	int64_t a, b;
	if (duration(first, &a, word, why) || duration(most, &b, word, why))
		return 1;
	if (a > b) {
		buf_addf(why, "\"%.*s\": the shorter time belongs first", STR_ARG(word));
		return 1;
	}
	ret->backoff_first_ms = a;
	ret->backoff_most_ms = b;
	return 0;
}

enum { PROVIDER, CONCURRENCY, INITIAL, RATE, BURST, PER_CONNECTION, IDLE, BACKOFF, SOURCES, N_WORDS };
static const char *const words[N_WORDS + 1] = { "provider", "concurrency", "initial", "rate", "burst", "per_connection", "idle", "backoff",
	"sources", NULL };

static int setting(struct str word, struct shape *s, unsigned *seen, struct buf *why)
{
	ptrdiff_t eq = str_chr(word, '=');
	struct str name = eq < 0 ? word : str_n(word.p, (size_t)eq), value = eq < 0 ? STR_NULL : str_skip(word, (size_t)eq + 1);
	unsigned i = 0;
	while (i < N_WORDS && !str_ieq(name, str_from(words[i])))
		i++;
	if (eq < 0 || i == N_WORDS) {
		const char *near = str_nearest(name, words, N_WORDS);
		buf_addf(why, "\"%.*s\" is not known here%s%s%s", STR_ARG(word), near ? ": is \"" : "", near ? near : "", near ? "=\" meant?" : "");
		if (!near)
			buf_addz(why, ": patterns are joined by commas, without blanks, and settings have the form name=value");
		return 1;
	}
	if (*seen & 1u << i) {
		buf_addf(why, "\"%s\" is said twice", words[i]);
		return 1;
	}
	*seen |= 1u << i;
	switch (i) {
	case PROVIDER:
	case SOURCES:
		if (pattern_label(value, SHAPE_NAME_MAX, i == PROVIDER ? s->provider : s->sources))
			return 0;
		buf_addf(why, "\"%.*s\": a name of at most %d letters, digits, - and _ belongs behind \"=\"", STR_ARG(word), SHAPE_NAME_MAX);
		return 1;
	case CONCURRENCY:
		return number(value, 1, SHAPE_CONCURRENCY_MAX, &s->concurrency, word, why);
	case INITIAL:
		return number(value, 1, SHAPE_CONCURRENCY_MAX, &s->initial, word, why);
	case RATE:
		return rate(value, s, word, why);
	case BURST:
		return number(value, 1, SHAPE_RATE_MAX, &s->burst, word, why);
	case PER_CONNECTION:
		return number(value, 1, SHAPE_RATE_MAX, &s->per_connection, word, why);
	case IDLE:
		return duration(value, &s->idle_ms, word, why);
	default:
		return backoff(value, s, word, why);
	}
}

static int parse(struct str value, struct shape_rule *r, struct buf *why)
{
	struct str rest = str_trim(value), word;
	unsigned seen = 0;
	int rc;
	if (!str_word(&rest, " \t", &word)) {
		buf_addz(why, "a pattern is needed, such as *.example.org or @example.org");
		return 1;
	}
	if (str_chr(word, '=') >= 0) {
		buf_addf(why, "a pattern belongs before \"%.*s\", such as *.example.org or @example.org", STR_ARG(word));
		return 1;
	}
	if ((rc = patterns_parse(word, &r->patterns, why)))
		return rc;
	r->shape = shape_default;
	while (str_word(&rest, " \t", &word))
		if (setting(word, &r->shape, &seen, why))
			return 1;
	if (!(seen & 1u << INITIAL) && r->shape.initial > r->shape.concurrency)
		r->shape.initial = r->shape.concurrency;
	if (r->shape.initial > r->shape.concurrency) {
		buf_addf(why, "initial=%u is more than concurrency=%u", r->shape.initial, r->shape.concurrency);
		return 1;
	}
	if (seen & 1u << BURST && !r->shape.rate) {
		buf_addz(why, "burst= has no meaning without rate=");
		return 1;
	}
	if (!seen) {
		buf_addz(why, "nothing is said of the destinations: a setting is needed, such as concurrency=5");
		return 1;
	}
	return 0;
}

int shapes_add(struct shapes *s, const char *option, struct str value, struct buf *why)
{
	struct str name = str_from(option);
	size_t digits = 0, at;
	uint64_t number = 0;
	int rc;
	while (digits < name.n && name.p[name.n - 1 - digits] >= '0' && name.p[name.n - 1 - digits] <= '9')
		digits++;
	if (s->n == SHAPE_RULES_MAX) {
		buf_addf(why, "more than %d lines", SHAPE_RULES_MAX);
		return 1;
	}
	if (name.n >= sizeof s->rule[0]->option || str_u64(str_skip(name, name.n - digits), UINT32_MAX, &number)) {
		buf_addz(why, "a number belongs behind the option's name, as in SHAPE_1: the lines count in the order of their numbers");
		return 1;
	}
	if (!str_is_ascii(value) && !str_is_utf8(value)) {
		buf_addz(why, "not valid UTF-8");
		return 1;
	}
	struct shape_rule *r = calloc(1, sizeof *r);
	if (!r)
		return -1;
	memcpy(r->option, name.p, name.n);
	r->number = (uint32_t)number;
	rc = parse(value, r, why);
	if (rc) {
		patterns_done(&r->patterns);
		free(r);
		return rc;
	}
	for (at = s->n; at && s->rule[at - 1]->number > r->number; at--)
		s->rule[at] = s->rule[at - 1];
	s->rule[at] = r;
	s->n++;
	return 0;
}

static bool same_limits(const struct shape *a, const struct shape *b)
{
	return a->concurrency == b->concurrency && a->initial == b->initial && a->rate == b->rate && (!a->rate || a->rate_ms == b->rate_ms) &&
	    a->burst == b->burst && a->per_connection == b->per_connection && a->idle_ms == b->idle_ms &&
	    a->backoff_first_ms == b->backoff_first_ms && a->backoff_most_ms == b->backoff_most_ms && !strcmp(a->sources, b->sources);
}

static bool covered(const struct patterns *by, const struct pattern *p)
{
	for (size_t i = 0; i < by->n; i++)
		if (pattern_covers(&by->one[i], p))
			return true;
	return false;
}

/* Is rule i wrong beside an earlier one? */
static bool doubt_beside(const struct shapes *s, size_t i, struct buf *why)
{
	const struct shape_rule *r = s->rule[i];
	for (size_t k = 0; k < i; k++) {
		const struct shape_rule *e = s->rule[k];
		size_t n = 0;
		if (r->shape.provider[0] && !strcmp(r->shape.provider, e->shape.provider) && !same_limits(&r->shape, &e->shape)) {
			buf_addf(why, "provider \"%s\" has other limits in %s: all its destinations are one, and those apply to the first of them", r->shape.provider,
			    e->option);
			return true;
		}
		while (n < r->patterns.n && covered(&e->patterns, &r->patterns.one[n]))
			n++;
		if (n == r->patterns.n) {
			buf_addf(why, "never used: %s fits all that this line does, and comes first", e->option);
			return true;
		}
	}
	return false;
}

bool shapes_doubt(const struct shapes *s, unsigned workers, size_t i, const char **ret_option, struct buf *why)
{
	for (size_t k = 0; s && k < s->n; k++) {
		const struct shape_rule *r = s->rule[k];
		size_t before = why->n;
		bool doubt = doubt_beside(s, k, why);
		if (!doubt && r->shape.concurrency < workers) {
			buf_addf(why, "concurrency=%u is below PARALLELISM: each of the %u workers allows one connection. Mail for one domain goes to one worker and "
			    "keeps the limit; what several domains share can have up to %u", r->shape.concurrency, workers, workers);
			doubt = true;
		}
		if (doubt && !i--) {
			*ret_option = r->option;
			return true;
		}
		if (doubt) { /* not this one: forget its text */
			why->n = before;
			if (why->p)
				why->p[before] = 0;
		}
	}
	return false;
}

bool shapes_pool(const struct shapes *s, size_t i, const char **ret_option, const char **ret_pool)
{
	for (size_t k = 0; s && k < s->n; k++)
		if (s->rule[k]->shape.sources[0] && !i--) {
			*ret_option = s->rule[k]->option;
			*ret_pool = s->rule[k]->shape.sources;
			return true;
		}
	return false;
}
