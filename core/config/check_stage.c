/* schema_check(), stages: their modules, the references between them, and the graph these make. */
#include "check_internal.h"

#include <stdio.h>
#include <stdlib.h>

bool check_is_stage(const struct config_section *s)
{
	return str_istarts(str_from(s->name), STR("stage-")) && s->name[strlen("stage-")];
}

const struct module_info *check_module(const struct check *k, const struct config_section *s)
{
	const struct config_entry *e = check_entry(s, "PROGRAM");
	return e && e->v.value[0] && k->module ? k->module(k->arg, e->v.value) : NULL;
}

const struct config_section *check_stage_section(const struct check *k, const char *stage)
{
	for (size_t i = 0; i < k->c->n; i++)
		if (check_is_stage(&k->c->s[i]) && str_ieq(str_from(k->c->s[i].name + strlen("stage-")), str_from(stage)))
			return &k->c->s[i];
	return NULL;
}

void check_stage_reference(struct check *k, const struct config_section *s, const struct config_entry *e)
{
	struct buf near = BUF_INIT(512);
	if (!check_stage_section(k, e->v.value)) {
		check_suggest(&near, e->v.value, k->stages, k->n_stages);
		check_fault(k, s, e, false, "%s = %s: there is no [stage-%s]%s", e->option, e->v.value, e->v.value, buf_z(&near));
	}
	buf_free(&near);
}

/* Does this stage make bounces, or is it unknown what it does? */
static bool makes_bounces(struct check *k, const struct config_section *target)
{
	const struct config_entry *program = check_entry(target, "PROGRAM");
	const struct module_info *m = check_module(k, target);
	return !program || str_ieq(str_from(program->v.value), STR("pepsi-stage-bounce")) || (m && (m->error || m->caps & PEPSI_CAP_BOUNCE));
}

/* BOUNCE_STAGE of a stage or of the failure bouncer: does what it names make bounces, or stand in front of what does (to learn from them)? */
static void check_bounce_target(struct check *k, const struct config_section *s, const struct config_entry *e)
{
	const struct config_section *target = check_stage_section(k, e->v.value);
	const struct config_entry *program = target ? check_entry(target, "PROGRAM") : NULL;
	const struct config_entry *next = target ? check_entry(target, "NEXT_STAGE") : NULL;
	const struct config_section *behind = next ? check_stage_section(k, next->v.value) : NULL;
	if (!program || makes_bounces(k, target) ||
	    (behind && str_ieq(str_from(program->v.value), STR("pepsi-stage-suppression")) && makes_bounces(k, behind)))
		return;
	check_fault(k, s, e, true, "BOUNCE_STAGE = %s: [%s] runs %s, which makes no bounces (pepsi-stage-bounce does)", e->v.value,
	    target->name, program->v.value);
}

/* A module that cannot be used: why, and which of those that come with Pepsi may be meant. */
static void check_module_error(struct check *k, const struct config_section *s, const struct config_entry *program,
    const char *error)
{
	/* compared behind the prefix, which is most of the name and says nothing */
	static const char prefix[] = "pepsi-stage-";
	static const char *const shipped[] = { "aliases", "bounce", "discard", "dkim-sign", "if", "relay-to-internet", "relay-to-lmtp",
		"relay-to-maildir", "relay-to-smarthost", "route", "srs", "suppression" };
	struct str name = str_from(program->v.value);
	bool prefixed = str_istarts(name, str_from(prefix));
	const char *near = str_nearest(prefixed ? str_skip(name, sizeof prefix - 1) : name, shipped, sizeof shipped / sizeof *shipped);
	bool other = near && !(prefixed && str_eq(str_skip(name, sizeof prefix - 1), str_from(near)));
	check_fault(k, s, program, false, "PROGRAM = %s: %s%s%s%s%s", program->v.value, error, other ? "; did you mean " : "",
	    other ? prefix : "", other ? near : "", other ? "?" : "");
}

void check_stage(struct check *k, const struct config_section *s)
{
	const struct config_entry *program = check_entry(s, "PROGRAM"), *bounce = check_entry(s, "BOUNCE_STAGE"),
				  *next = check_entry(s, "NEXT_STAGE");
	const struct module_info *m = check_module(k, s);
	const char *name = s->name + strlen("stage-");
	if (program && (strchr(program->v.value, '/') || !program->v.value[0]))
		check_fault(k, s, program, false, "PROGRAM takes the name of a module, found \"%s\"; folders are listed in MODULE_PATH",
		    program->v.value);
	else if (program && m && m->error)
		check_module_error(k, s, program, m->error);
	if (bounce && str_ieq(str_from(bounce->v.value), str_from(name)))
		check_fault(k, s, bounce, false, "BOUNCE_STAGE = %s names the stage itself", bounce->v.value);
	else if (bounce)
		check_bounce_target(k, s, bounce);
	if (!m || m->error)
		return;
	if (m->caps & PEPSI_CAP_DELIVER && !bounce)
		check_fault(k, s, NULL, true, "[%s] delivers but has no BOUNCE_STAGE: undeliverable mail becomes failed and its sender "
		    "hears nothing", s->name);
	if (m->caps & PEPSI_CAP_BOUNCE && !next)
		check_fault(k, s, NULL, true, "[%s] makes bounces but has no NEXT_STAGE for them", s->name);
}

/* Has the stage another way on than NEXT_STAGE: an option of its module that names stages, one by one or as a map? */
static bool other_exit(const struct check *k, const struct config_section *s)
{
	const struct module_info *m = check_module(k, s);
	if (!m || m->error)
		return !m; /* unknown: it may have */
	for (size_t i = 0; i < m->n_options; i++)
		for (size_t j = 0; j < s->n; j++)
			if ((m->options[i].type == PEPSI_OPT_STAGE || m->options[i].type == PEPSI_OPT_MULTI) &&
			    !schema_option(s->name, s->e[j].option) && schema_covers(&m->options[i], s->e[j].option))
				return true;
	return false;
}

static const struct config_section *next_of(const struct check *k, const struct config_section *s)
{
	const struct config_entry *e = s ? check_entry(s, "NEXT_STAGE") : NULL;
	return e ? check_stage_section(k, e->v.value) : NULL;
}

/* Reports the loop that begins and ends at `start`, once: at its first stage in the file. */
static void report_loop(struct check *k, const struct config_section *start)
{
	struct buf path = BUF_INIT(1024);
	bool way_out = false;
	const struct config_section *s = start;
	do {
		if (s < start) { /* reported there */
			buf_free(&path);
			return;
		}
		if (buf_addf(&path, "%s → ", s->name + strlen("stage-"))) {
			buf_reset(&path);
			buf_addz(&path, "… → ");
		}
		way_out |= other_exit(k, s);
		s = next_of(k, s);
	} while (s != start);
	if (way_out)
		check_fault(k, start, check_entry(start, "NEXT_STAGE"), true, "a loop of NEXT_STAGEs, unless a message leaves it: %s%s",
		    buf_z(&path), start->name + strlen("stage-"));
	else
		check_fault(k, start, check_entry(start, "NEXT_STAGE"), false, "a loop of NEXT_STAGEs without a way out: %s%s",
		    buf_z(&path), start->name + strlen("stage-"));
	buf_free(&path);
}

enum { BEFORE_MAX = 16, STAGE_NAME_MAX = 63 };

static void check_before_stage(struct check *k, const struct config_section *listener, const struct config_entry *e, struct str name)
{
	char z[STAGE_NAME_MAX + 1];
	struct buf near = BUF_INIT(512);
	snprintf(z, sizeof z, "%.*s", (int)(name.n < STAGE_NAME_MAX ? name.n : STAGE_NAME_MAX), name.p);
	const struct config_section *s = name.n <= STAGE_NAME_MAX ? check_stage_section(k, z) : NULL;
	const struct module_info *m = s ? check_module(k, s) : NULL;
	if (!s) {
		check_suggest(&near, z, k->stages, k->n_stages);
		check_fault(k, listener, e, false, "%s: there is no [stage-%s]%s", e->option, z, buf_z(&near));
	} else if (str_ieq(str_from(z), STR("init"))) {
		check_fault(k, listener, e, false, "%s: init is where accepted mail begins; make a section of its own with the same PROGRAM", e->option);
	} else if (m && !m->error && m->caps & (PEPSI_CAP_DELIVER | PEPSI_CAP_BOUNCE)) {
		check_fault(k, listener, e, false, "%s: [stage-%s] runs %s, which %s: nothing may be sent before the message is accepted",
		    e->option, z, m->name ? m->name : "a module", m->caps & PEPSI_CAP_DELIVER ? "delivers" : "makes bounces");
	} else if (m && !m->error && m->caps & PEPSI_CAP_CONCURRENT) {
		check_fault(k, listener, e, false, "%s: [stage-%s] runs %s, which drives many messages at once: a client waits for one",
		    e->option, z, m->name ? m->name : "a module");
	}
	buf_free(&near);
}

void check_recipients(struct check *k, const struct config_section *s)
{
	const struct config_entry *e = check_entry(s, "RECIPIENTS");
	struct str rest = e ? str_from(e->v.value) : STR_NULL, w;
	unsigned n = 0;
	while (str_word(&rest, " \t,", &w)) {
		if (!str_istarts(w, STR("stage:")) || w.n == 6)
			continue;
		check_before_stage(k, s, e, str_skip(w, 6));
		if (++n == 2)
			check_fault(k, s, e, false, "%s names several stages; one is asked", e->option);
	}
}

void check_before_accept(struct check *k, const struct config_section *listener)
{
	static const char *const others[] = { "BEFORE_ACCEPT_TIMEOUT", "BEFORE_ACCEPT_FAILURE", "BEFORE_ACCEPT_AUTHENTICATED" };
	const struct config_entry *e = check_entry(listener, "BEFORE_ACCEPT"), *other;
	struct str rest = e ? str_from(e->v.value) : STR_NULL, seen[BEFORE_MAX], w;
	size_t n = 0;
	while (str_word(&rest, " \t,", &w)) {
		for (size_t i = 0; i < n; i++)
			if (str_ieq(seen[i], w)) {
				check_fault(k, listener, e, false, "%s names %.*s twice", e->option, STR_ARG(w));
				return;
			}
		if (n == BEFORE_MAX) {
			check_fault(k, listener, e, false, "%s names more than %d stages", e->option, BEFORE_MAX);
			return;
		}
		seen[n++] = w;
		check_before_stage(k, listener, e, w);
	}
	for (size_t i = 0; i < sizeof others / sizeof *others && !n; i++)
		if ((other = check_entry(listener, others[i])))
			check_fault(k, listener, other, true, "%s has no effect without BEFORE_ACCEPT", others[i]);
}

void check_stages(struct check *k)
{
	const char *file = k->c->n_files ? k->c->files[0] : "";
	const struct config_section *bouncer = config_section_find(k->c, "pepsi-failure-bouncer");
	const struct config_entry *e = bouncer ? check_entry(bouncer, "BOUNCE_STAGE") : NULL;
	if (!check_stage_section(k, "init"))
		config_fault_add(k->faults, file, 0, false, "there is no [stage-init], where all mail begins");
	if (e)
		check_bounce_target(k, bouncer, e);
	for (size_t i = 0; i < k->c->n; i++) {
		const struct config_section *start = &k->c->s[i], *s = check_is_stage(start) ? next_of(k, start) : NULL;
		/* as many steps as there are stages: back at the start, or this one is on no loop */
		for (size_t steps = 0; s && s != start && steps < k->n_stages; steps++)
			s = next_of(k, s);
		if (s == start)
			report_loop(k, start);
	}
	check_order(k);
}
