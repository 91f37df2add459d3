/* schema_check(): each section and option against the tables and the modules' own options. Everything is reported, in
 * the order of the configuration; what needs several sections at once is in check_stage.c and check_net.c. */
#include "check_internal.h"

#include <stdio.h>
#include <stdlib.h>

void check_fault(struct check *k, const struct config_section *s, const struct config_entry *e, bool warning, const char *fmt, ...)
{
	char text[2048];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	config_fault_add(k->faults, e ? e->v.file : s->file, e ? e->v.line : s->line, warning, "%s", text);
}

const struct config_entry *check_entry(const struct config_section *s, const char *option)
{
	for (size_t i = 0; i < s->n; i++)
		if (str_ieq(str_from(s->e[i].option), str_from(option)))
			return &s->e[i];
	return NULL;
}

void check_suggest(struct buf *out, const char *name, const char *const *names, size_t n)
{
	const char *near = str_nearest(str_from(name), names, n);
	if (near)
		buf_addf(out, "; did you mean %s?", near);
}

/* [stge-init]: nearest to "stage-*" with the star replaced by what follows the dash. */
static void unknown_section(struct check *k, const struct config_section *s)
{
	char made[8][CONFIG_NAME_MAX * 2];
	const char *names[32], *dash = strchr(s->name, '-');
	size_t n, n_names = 0, n_made = 0;
	const struct schema_section *all = schema_sections(&n);
	struct buf near = BUF_INIT(512);
	for (size_t i = 0; i < n && n_names < 32; i++) {
		size_t len = strlen(all[i].name);
		if (all[i].name[len - 1] != '*') {
			names[n_names++] = all[i].name;
		} else if (n_made < 8) {
			snprintf(made[n_made], sizeof made[0], "%.*s%s", (int)len - 1, all[i].name, dash && dash[1] ? dash + 1 : "NAME");
			names[n_names++] = made[n_made++];
		}
	}
	const char *nearest = str_nearest(str_from(s->name), names, n_names);
	if (nearest)
		buf_addf(&near, "; did you mean [%s]?", nearest);
	/* "listener" is far from "listener-NAME" by letters only */
	for (size_t i = 0; i < n && !near.n; i++)
		if (str_istarts(str_from(all[i].name), str_from(s->name)) && strchr(all[i].name, '*'))
			buf_addf(&near, "; did you mean [%.*sNAME]?", (int)strlen(all[i].name) - 1, all[i].name);
	check_fault(k, s, NULL, false, "unknown section [%s]%s", s->name, buf_z(&near));
	buf_free(&near);
}

/* The option of the section's table or of its module; *ret_sure is false where an unknown one may be right (the
 * module is not known). */
static const struct pepsi_option *find_option(const struct check *k, const struct config_section *s, const char *name,
    bool *ret_sure)
{
	const struct pepsi_option *o = schema_option(s->name, name);
	*ret_sure = true;
	if (o || !check_is_stage(s))
		return o;
	const struct module_info *m = check_module(k, s);
	*ret_sure = m && !m->error;
	for (size_t i = 0; *ret_sure && i < m->n_options; i++)
		if (schema_covers(&m->options[i], name))
			return &m->options[i];
	return NULL;
}

/* The sections whose tables have an option of this name: people know what an option is called before they know where it stands. */
static void suggest_section(struct buf *out, const char *option)
{
	size_t n, found = 0;
	const struct schema_section *all = schema_sections(&n);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < all[i].n_options; j++) {
			if (!str_ieq(str_from(all[i].options[j].name), str_from(option)))
				continue;
			size_t len = strlen(all[i].name);
			bool any = all[i].name[len - 1] == '*';
			buf_addf(out, "%s[%.*s%s]", found++ ? " or " : "; it belongs to ", (int)(any ? len - 1 : len), all[i].name, any ? "NAME" : "");
		}
}

static void unknown_option(struct check *k, const struct config_section *s, const struct config_entry *e)
{
	const struct schema_section *t = schema_find(s->name);
	const struct module_info *m = check_is_stage(s) ? check_module(k, s) : NULL;
	size_t n = t->n_options + (m ? m->n_options : 0), n_names = 0;
	const char **names = calloc(n ? n : 1, sizeof *names);
	struct buf near = BUF_INIT(512);
	for (size_t i = 0; names && i < n; i++)
		names[n_names++] = i < t->n_options ? t->options[i].name : m->options[i - t->n_options].name;
	suggest_section(&near, e->option);
	if (!near.n)
		check_suggest(&near, e->option, names, n_names);
	if (m)
		check_fault(k, s, e, false, "unknown option %s in [%s] (neither of stages nor of %s)%s", e->option, s->name,
		    m->name ? m->name : "its module", buf_z(&near));
	else
		check_fault(k, s, e, false, "unknown option %s in [%s]%s", e->option, s->name, buf_z(&near));
	free(names);
	buf_free(&near);
}

static void check_option(struct check *k, const struct config_section *s, const struct config_entry *e)
{
	bool sure, own = schema_option(s->name, e->option) != NULL;
	const struct pepsi_option *o = find_option(k, s, e->option, &sure);
	struct buf why = BUF_INIT(1024);
	int64_t number;
	if (!o) {
		if (sure)
			unknown_option(k, s, e);
		return;
	}
	bool good = schema_value(k->c, o, e->v.value, &number, &why) == 0;
	if (!good) {
		/* what the value looks like is nobody's business where it is secret */
		check_fault(k, s, e, false, "%s: %s", e->option, e->secret ? "the value is not of the kind this option takes" : buf_z(&why));
	} else {
		if (own && o->flags & SCHEMA_F_NO_EFFECT)
			check_fault(k, s, e, true, "%s has no effect yet in this version", o->name);
		if (o->type == PEPSI_OPT_STAGE)
			check_stage_reference(k, s, e);
	}
	if (own)
		check_net_value(k, s, e, o, good);
	buf_free(&why);
}

/* Occurrences by name, then by place in the section. */
static int by_name(const void *a, const void *b)
{
	const struct config_entry *x = *(const struct config_entry *const *)a, *y = *(const struct config_entry *const *)b;
	int d = strcasecmp(x->option, y->option);
	return d ? d : (x > y) - (x < y);
}

static void check_duplicates(struct check *k, const struct config_section *s)
{
	const struct config_entry **sorted = calloc(s->n ? s->n : 1, sizeof *sorted), *first = NULL;
	if (!sorted) {
		check_fault(k, s, NULL, false, "memory is out");
		return;
	}
	for (size_t i = 0; i < s->n; i++)
		sorted[i] = &s->e[i];
	qsort(sorted, s->n, sizeof *sorted, by_name);
	for (size_t i = 0; i < s->n; i++) {
		bool sure;
		if (!first || strcasecmp(first->option, sorted[i]->option) != 0) {
			first = sorted[i];
			continue;
		}
		const struct pepsi_option *o = find_option(k, s, first->option, &sure);
		bool own = schema_option(s->name, first->option) != NULL;
		if (!o || o->type == PEPSI_OPT_MULTI || (own && o->flags & SCHEMA_F_REPEAT))
			continue;
		if (first->v.file[0])
			check_fault(k, s, sorted[i], false, "%s is set again; it stands at %s:%u already", sorted[i]->option, first->v.file,
			    first->v.line);
		else
			check_fault(k, s, sorted[i], false, "%s is set again; it was set on the command line already", sorted[i]->option);
	}
	free(sorted);
}

static void check_required(struct check *k, const struct config_section *s, const struct pepsi_option *options, size_t n,
    const char *whose)
{
	for (size_t i = 0; i < n; i++) {
		const struct pepsi_option *o = &options[i];
		bool there = false;
		if (!(o->flags & PEPSI_OPTF_REQUIRED))
			continue;
		for (size_t j = 0; j < s->n && !there; j++)
			there = schema_covers(o, s->e[j].option);
		if (!there)
			check_fault(k, s, NULL, false, "[%s] needs %s%s%s%s", s->name, o->name, whose ? " (for " : "", whose ? whose : "",
			    whose ? ")" : "");
	}
}

static void check_section(struct check *k, const struct config_section *s)
{
	const struct schema_section *t = schema_find(s->name);
	if (!t) {
		unknown_section(k, s);
		return;
	}
	check_required(k, s, t->options, t->n_options, NULL);
	if (check_is_stage(s)) {
		const struct module_info *m = check_module(k, s);
		if (m && !m->error)
			check_required(k, s, m->options, m->n_options, m->name);
	}
	for (size_t i = 0; i < s->n; i++)
		check_option(k, s, &s->e[i]);
	check_duplicates(k, s);
	if (check_is_stage(s))
		check_stage(k, s);
	if (str_istarts(str_from(s->name), STR("listener-")))
		check_listener(k, s);
	if (str_ieq(str_from(s->name), STR("pepsi")) || str_istarts(str_from(s->name), STR("domain-")))
		check_recipients(k, s);
	if (str_ieq(str_from(s->name), STR("pepsi-signin")))
		check_signin(k, s);
	if (str_istarts(str_from(s->name), STR("token-")))
		check_token(k, s);
}

void schema_check(const struct config *c, schema_module_fn module, void *arg, struct config_faults *faults)
{
	struct check k = { .c = c, .module = module, .arg = arg, .faults = faults };
	if (c->unread) /* which has been said; that everything is missing, too, says nothing */
		return;
	k.stages = calloc(c->n ? c->n : 1, sizeof *k.stages);
	if (!k.stages) {
		config_fault_add(faults, "", 0, false, "memory is out");
		return;
	}
	for (size_t i = 0; i < c->n; i++)
		if (check_is_stage(&c->s[i]))
			k.stages[k.n_stages++] = c->s[i].name + strlen("stage-");
	for (size_t i = 0; i < c->n; i++)
		check_section(&k, &c->s[i]);
	check_addresses(&k);
	check_stages(&k);
	free(k.stages);
}
