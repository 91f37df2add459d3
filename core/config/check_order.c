/* schema_check(), order of stages: nothing may change a message behind a stage that signs it. Every way is followed that the configuration names:
 * NEXT_STAGE and the options of modules that are stages. A stage that makes bounces ends a way: what leaves it is another message. */
#include "check_internal.h"

#include <stdlib.h>

enum { NAMED_MAX = 63 };

struct walk {
	struct check *k;
	const struct config_section *signer;
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
	visit_exits(w, w->signer, check_module(w->k, w->signer));
	while (w->n) {
		const struct config_section *s = &w->k->c->s[w->stack[--w->n]];
		const struct module_info *m = check_module(w->k, s);
		uint64_t caps = m && !m->error ? m->caps : 0;
		if (caps & PEPSI_CAP_BOUNCE)
			continue;
		if (caps & PEPSI_CAP_REWRITES && s != w->signer)
			check_fault(w->k, s, check_entry(s, "PROGRAM"), false, "[%s] runs %s, which may change messages, but [%s] has signed them by then: what is changed "
			    "behind a signature breaks it; put [%s] last, before delivery", s->name, m->name ? m->name : "a module", w->signer->name, w->signer->name);
		visit_exits(w, s, m);
	}
}

void check_order(struct check *k)
{
	struct walk w = { .k = k };
	size_t n = k->c->n ? k->c->n : 1;
	w.seen = calloc(n, sizeof *w.seen);
	w.stack = calloc(n, sizeof *w.stack);
	for (size_t i = 0; w.seen && w.stack && i < k->c->n; i++) {
		const struct config_section *s = &k->c->s[i];
		const struct module_info *m = check_is_stage(s) ? check_module(k, s) : NULL;
		if (!m || m->error || !(m->caps & PEPSI_CAP_SIGNS))
			continue;
		w.signer = s;
		memset(w.seen, 0, n * sizeof *w.seen);
		walk(&w);
	}
	free(w.seen);
	free(w.stack);
}
