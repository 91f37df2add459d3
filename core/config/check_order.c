/* schema_check(), order of stages: nothing may change a message behind a stage that signs it, no alias may lead outside behind the stage that rewrites
 * senders. Every way is followed that the configuration names: NEXT_STAGE and the options of modules that are stages. A stage that makes bounces ends a
 * way: what leaves it is another message. */
#include "check_internal.h"

#include <stdlib.h>

enum { NAMED_MAX = 63 };

struct walk {
	struct check *k;
	const struct config_section *from;
	/* What is said of a stage behind `from`. */
	void (*met)(struct check *k, const struct config_section *from, const struct config_section *s, const struct module_info *m, uint64_t caps);
	bool *seen;    /* of each section */
	size_t *stack, n;
};

static size_t index_of(const struct walk *w, const struct config_section *s)
{
	return (size_t)(s - w->k->c->s);
}

static void visit(struct walk *w, const char *name)
{
	const struct config_section *s = check_stage_section(w->k, name);
	if (!s || w->seen[index_of(w, s)])
		return;
	w->seen[index_of(w, s)] = true;
	w->stack[w->n++] = index_of(w, s);
}

/* A word of a MULTI option (route's "PATTERN… STAGE"), if it names a stage. */
static void visit_words(struct walk *w, const char *value)
{
	struct str rest = str_from(value), word;
	char name[NAMED_MAX + 1];
	while (str_word(&rest, " \t,", &word)) {
		if (word.n > NAMED_MAX)
			continue;
		memcpy(name, word.p, word.n);
		name[word.n] = 0;
		visit(w, name);
	}
}

/* Where a message may go from here. */
static void visit_exits(struct walk *w, const struct config_section *s, const struct module_info *m)
{
	const struct config_entry *next = check_entry(s, "NEXT_STAGE");
	if (next)
		visit(w, next->v.value);
	for (size_t i = 0; m && !m->error && i < m->n_options; i++)
		for (size_t j = 0; j < s->n; j++) {
			const struct pepsi_option *o = &m->options[i];
			if (schema_option(s->name, s->e[j].option) || !schema_covers(o, s->e[j].option))
				continue;
			if (o->type == PEPSI_OPT_STAGE)
				visit(w, s->e[j].v.value);
			else if (o->type == PEPSI_OPT_MULTI)
				visit_words(w, s->e[j].v.value);
		}
}

static void walk(struct walk *w)
{
	memset(w->seen, 0, w->k->c->n * sizeof *w->seen);
	visit_exits(w, w->from, check_module(w->k, w->from));
	while (w->n) {
		const struct config_section *s = &w->k->c->s[w->stack[--w->n]];
		const struct module_info *m = check_module(w->k, s);
		uint64_t caps = m && !m->error ? m->caps : 0;
		if (caps & PEPSI_CAP_BOUNCE)
			continue;
		if (s != w->from)
			w->met(w->k, w->from, s, m, caps);
		visit_exits(w, s, m);
	}
}

static bool runs(const struct config_section *s, const char *module)
{
	const struct config_entry *e = check_entry(s, "PROGRAM");
	return e && str_ieq(str_from(e->v.value), str_from(module));
}

static void behind_signing(struct check *k, const struct config_section *signer, const struct config_section *s, const struct module_info *m, uint64_t caps)
{
	if (caps & PEPSI_CAP_REWRITES)
		check_fault(k, s, check_entry(s, "PROGRAM"), false, "[%s] runs %s, which may change messages, but [%s] has signed them by then: what is changed "
		    "behind a signature breaks it; put [%s] last, before delivery", s->name, m->name ? m->name : "a module", signer->name, signer->name);
}

static void behind_srs(struct check *k, const struct config_section *srs, const struct config_section *s, const struct module_info *m, uint64_t caps)
{
	(void)m;
	(void)caps;
	if (runs(s, "pepsi-stage-aliases"))
		check_fault(k, s, check_entry(s, "PROGRAM"), true, "[%s] is behind [%s]: what its aliases lead outside leaves with its sender as it is, and fails SPF; put "
		    "[%s] behind the aliases", s->name, srs->name, srs->name);
}

/* Does a list of RECIPIENTS name the stage? */
static bool names_stage(const struct config_section *s, const char *stage)
{
	const struct config_entry *e = s ? check_entry(s, "RECIPIENTS") : NULL;
	struct str rest = e ? str_from(e->v.value) : STR_NULL, word;
	while (str_word(&rest, " \t,", &word))
		if (str_istarts(word, STR("stage:")) && str_ieq(str_skip(word, 6), str_from(stage)))
			return true;
	return false;
}

/* Are its return addresses judged at RCPT? */
static void check_srs_domain(struct check *k, const struct config_section *srs)
{
	const struct config_entry *e = check_entry(srs, "DOMAIN");
	const char *stage = srs->name + strlen("stage-");
	bool own = false, named = false;
	for (size_t i = 0; e && i < k->c->n; i++) {
		const struct config_section *s = &k->c->s[i];
		if (!str_istarts(str_from(s->name), STR("domain-")))
			continue;
		struct config_domains *d = config_domains_new(s->name + strlen("domain-"));
		bool mine = d && config_domains_has(d, str_from(e->v.value)) && check_entry(s, "RECIPIENTS");
		own |= mine;
		named |= mine && names_stage(s, stage);
		config_domains_free(d);
	}
	if (e && !named && (own || !names_stage(config_section_find(k->c, "pepsi"), stage)))
		check_fault(k, srs, e, true, "[domain-%s] has no RECIPIENTS = stage:%s: forged and expired return addresses are accepted and lost, instead of refused", e->v.value,
		    stage);
}

void check_order(struct check *k)
{
	struct walk w = { .k = k };
	size_t n = k->c->n ? k->c->n : 1;
	w.seen = calloc(n, sizeof *w.seen);
	w.stack = calloc(n, sizeof *w.stack);
	for (size_t i = 0; w.seen && w.stack && i < k->c->n; i++) {
		const struct config_section *s = w.from = &k->c->s[i];
		const struct module_info *m = check_is_stage(s) ? check_module(k, s) : NULL;
		if (!m || m->error)
			continue;
		if (m->caps & PEPSI_CAP_SIGNS) {
			w.met = behind_signing;
			walk(&w);
		}
		if (runs(s, "pepsi-stage-srs")) {
			check_srs_domain(k, s);
			w.met = behind_srs;
			walk(&w);
		}
	}
	free(w.seen);
	free(w.stack);
}
