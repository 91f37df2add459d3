/* Parsing and evaluating one condition. Evaluation only reads, and takes time linear in recipients times patterns. */
#include "condition.h"

#include <stdlib.h>

enum { WORDS_MAX = 1000 };

static const struct {
	const char *word;
	enum condition_kind kind;
	bool domains_only;
} verbs[] = {
	{ "null-sender", COND_NULL_SENDER, false },
	{ "sender", COND_SENDER, false },
	{ "sender-domain", COND_SENDER, true },
	{ "recipient", COND_RECIPIENT, false },
	{ "recipient-domain", COND_RECIPIENT, true },
	{ "every-recipient", COND_EVERY_RECIPIENT, false },
	{ "state", COND_STATE, false },
};

static int add_pattern(struct condition *c, struct str word, bool domains_only, struct buf *why)
{
	struct pattern *more = realloc(c->patterns, (c->n_patterns + 1) * sizeof *more);
	if (!more)
		return -1;
	c->patterns = more;
	if (pattern_parse(word, &more[c->n_patterns]) || (domains_only && more[c->n_patterns].kind != PATTERN_DOMAIN &&
							     more[c->n_patterns].kind != PATTERN_BELOW)) {
		buf_addf(why, "%.*s is no %s", STR_ARG(word), domains_only ? "domain" : "address pattern");
		return -1;
	}
	c->n_patterns++;
	return 0;
}

static int add_value(struct condition *c, struct str word)
{
	char **more = realloc(c->values, (c->n_values + 1) * sizeof *more);
	if (!more)
		return -1;
	c->values = more;
	return (more[c->n_values] = str_dupz(word)) ? (c->n_values++, 0) : -1;
}

static int parse_rest(struct condition *c, struct str rest, size_t verb, struct buf *why)
{
	struct str word;
	if (c->kind == COND_STATE && (!str_word(&rest, " \t", &word) || !(c->path = str_dupz(word)))) {
		buf_addz(why, "state wants a path, such as origin.listener");
		return -1;
	}
	while (str_word(&rest, " \t", &word)) {
		if (c->kind == COND_NULL_SENDER) {
			buf_addz(why, "null-sender takes no words");
			return -1;
		}
		if (c->n_patterns + c->n_values >= WORDS_MAX) {
			buf_addf(why, "more than %d words", WORDS_MAX);
			return -1;
		}
		if (c->kind == COND_STATE ? add_value(c, word) : add_pattern(c, word, verbs[verb].domains_only, why))
			return -1;
	}
	if (c->kind != COND_NULL_SENDER && c->kind != COND_STATE && !c->n_patterns) {
		buf_addf(why, "%s wants at least one pattern", verbs[verb].word);
		return -1;
	}
	return 0;
}

int condition_parse(const char *text, struct condition *ret, struct buf *why)
{
	struct condition c = { .kind = COND_NULL_SENDER };
	struct str rest = str_from(text), word = STR_NULL;
	const char *names[sizeof verbs / sizeof *verbs];
	size_t i;
	bool got = str_word(&rest, " \t", &word);
	if (got && str_ieq(word, STR("not"))) {
		c.negated = true;
		got = str_word(&rest, " \t", &word);
	}
	if (!got) {
		buf_addz(why, "an empty condition");
		return -1;
	}
	for (i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		names[i] = verbs[i].word;
		if (str_ieq(word, str_from(verbs[i].word)))
			break;
	}
	if (i == sizeof verbs / sizeof *verbs) {
		const char *near = str_nearest(word, names, i);
		buf_addf(why, "unknown condition %.*s%s%s", STR_ARG(word), near ? "; did you mean " : "", near ? near : "");
		return -1;
	}
	c.kind = verbs[i].kind;
	if (parse_rest(&c, rest, i, why)) {
		condition_done(&c);
		return -1;
	}
	*ret = c;
	return 0;
}

void condition_done(struct condition *c)
{
	for (size_t i = 0; i < c->n_values; i++)
		free(c->values[i]);
	free(c->values);
	free(c->path);
	free(c->patterns);
	*c = (struct condition){ .kind = COND_NULL_SENDER };
}

/* An address that cannot be taken apart matches nothing but "*". */
static bool matches(const struct condition *c, struct pepsi_str addr)
{
	struct pattern_address a;
	bool bad = pattern_address(str_n(addr.p, addr.n), &a);
	for (size_t i = 0; i < c->n_patterns; i++)
		if (bad ? c->patterns[i].kind == PATTERN_ANY : pattern_match(&c->patterns[i], &a))
			return true;
	return false;
}

static bool holds(const struct condition *c, const struct pepsi_host *h, struct pepsi_msg *m)
{
	size_t n = h->n_rcpt(m);
	struct pepsi_str s;
	switch (c->kind) {
	case COND_NULL_SENDER:
		return h->mail_from(m).n == 0;
	case COND_SENDER:
		return h->mail_from(m).n && matches(c, h->mail_from(m));
	case COND_RECIPIENT:
		for (size_t i = 0; i < n; i++)
			if (matches(c, h->rcpt(m, i)))
				return true;
		return false;
	case COND_EVERY_RECIPIENT:
		for (size_t i = 0; i < n; i++)
			if (!matches(c, h->rcpt(m, i)))
				return false;
		return n > 0;
	case COND_STATE:
		if (h->state_get(m, c->path, &s) != PEPSI_OK)
			return false;
		for (size_t i = 0; i < c->n_values; i++)
			if (str_eq(str_n(s.p, s.n), str_from(c->values[i])))
				return true;
		return c->n_values == 0;
	}
	return false;
}

bool condition_holds(const struct condition *c, const struct pepsi_host *h, struct pepsi_msg *m)
{
	return holds(c, h, m) != c->negated;
}
