/* The configuration in force as text or JSON: values from the files and defaults, where each comes from, secrets
 * masked. What it prints as text can be read by config_load() again (but for the masks). */
#include "config_internal.h"
#include "overlay.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#define MASK "********"

/* One line to be shown. */
struct shown {
	const char *name, *value, *source;
	const char *file;
	unsigned line;
	bool secret;
};

/* Where a section's lines go: text, or an array of JSON objects. */
struct sink {
	struct buf *out;
	json_object *options; /* NULL: text */
	bool failed;
};

/* The password of a connection string: "scheme://user:password@host", or "password=…" as a word; all of the value is
 * masked when either is in it and cannot be told apart. A copy, or NULL when memory is out. */
static char *mask_conninfo(const char *value)
{
	const char *scheme = strstr(value, "://"), *at, *colon;
	if (strcasestr(value, "password"))
		return strdup(MASK);
	if (!scheme || !(at = strrchr(scheme + 3, '@')) || !(colon = memchr(scheme + 3, ':', (size_t)(at - scheme - 3))))
		return strdup(value);
	char *ret = NULL;
	return asprintf(&ret, "%.*s:" MASK "%s", (int)(colon - value), value, at) < 0 ? NULL : ret;
}

static int add(json_object *to, const char *key, json_object *value)
{
	if (value && json_object_object_add(to, key, value) == 0)
		return 0;
	json_object_put(value);
	return -1;
}

static void show_json(struct sink *sink, const struct shown *s, const char *value)
{
	json_object *o = json_object_new_object();
	if (!o || add(o, "name", json_object_new_string(s->name)) || add(o, "value", json_object_new_string(value)) ||
	    add(o, "source", json_object_new_string(s->source)) ||
	    (s->file[0] && (add(o, "file", json_object_new_string(s->file)) || add(o, "line", json_object_new_int64(s->line)))) ||
	    add(o, "secret", json_object_new_boolean(s->secret)) || json_object_array_add(sink->options, o)) {
		json_object_put(o);
		sink->failed = true;
	}
}

static void show_text(struct sink *sink, const struct shown *s, const char *value)
{
	struct buf *out = sink->out;
	size_t from = out->n;
	buf_addf(out, "%s = ", s->name);
	config_value_quote(str_from(value), out);
	do
		buf_addc(out, ' ');
	while (!out->failed && out->n - from < 44);
	if (s->file[0])
		buf_addf(out, "# %s:%u\n", s->file, s->line);
	else
		buf_addf(out, "# %s\n", s->source);
}

static void show(struct sink *sink, const struct shown *s, const struct pepsi_option *o, bool own)
{
	char *masked = NULL;
	const char *value = s->value;
	if (s->secret)
		value = MASK;
	else if (o && own && o->flags & SCHEMA_F_CONNINFO)
		value = masked = mask_conninfo(s->value);
	if (!value)
		sink->failed = true;
	else if (sink->options)
		show_json(sink, s, value);
	else
		show_text(sink, s, value);
	free(masked);
}

static const struct pepsi_option *covering(const struct pepsi_option *options, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (schema_covers(&options[i], name))
			return &options[i];
	return NULL;
}

static bool is_set(const struct config_section *s, const char *name)
{
	for (size_t i = 0; s && i < s->n; i++)
		if (str_ieq(str_from(s->e[i].option), str_from(name)))
			return true;
	return false;
}

static void show_defaults(struct sink *sink, const struct config_section *s, const struct pepsi_option *options, size_t n, bool own)
{
	for (size_t i = 0; i < n; i++)
		if (options[i].def && !(own && options[i].flags & SCHEMA_F_NO_EFFECT) && options[i].type != PEPSI_OPT_MULTI && !is_set(s, options[i].name))
			show(sink, &(struct shown){ .name = options[i].name, .value = options[i].def, .source = "default", .file = "",
					.secret = options[i].type == PEPSI_OPT_SECRET }, &options[i], own);
}

/* s is NULL for a section the files do not have. */
static void show_section(struct sink *sink, const struct schema_section *t, const struct config_section *s,
    const struct module_info *m)
{
	/* Which options of a stage are secrets only its module knows: where that was not asked, or cannot tell, all of its own are. And so is what nobody
	 * knows: a secret whose name has a letter too many is one all the same. */
	for (size_t i = 0; s && i < s->n; i++) {
		const struct config_entry *e = &s->e[i];
		const struct pepsi_option *own = t ? covering(t->options, t->n_options, e->option) : NULL,
					  *o = own ? own : m ? covering(m->options, m->n_options, e->option) : NULL;
		bool laid = !strcmp(e->v.file, config_overlay_file);
		show(sink, &(struct shown){ .name = o && o->type != PEPSI_OPT_MULTI ? o->name : e->option, .value = e->v.value,
				.source = !e->v.file[0] ? "set" : laid ? "overlay" : "file", .file = laid ? "" : e->v.file, .line = e->v.line,
				.secret = e->secret || !o || o->type == PEPSI_OPT_SECRET }, o, own != NULL);
	}
	if (t)
		show_defaults(sink, s, t->options, t->n_options, true);
	if (m)
		show_defaults(sink, s, m->options, m->n_options, false);
}

static void one_section(json_object *sections, struct buf *out, const char *name, const struct schema_section *t,
    const struct config_section *s, const struct module_info *m, bool *failed)
{
	struct sink sink = { .out = out };
	if (!sections) {
		buf_addf(out, "%s[%s]\n", out->n ? "\n" : "", name);
		show_section(&sink, t, s, m);
		*failed |= sink.failed;
		return;
	}
	json_object *section = json_object_new_object();
	sink.options = json_object_new_array();
	if (sink.options)
		show_section(&sink, t, s, m);
	if (!section || !sink.options || sink.failed || add(section, "name", json_object_new_string(name))) {
		json_object_put(section);
		json_object_put(sink.options);
		*failed = true;
	} else if (add(section, "options", sink.options) || json_object_array_add(sections, section)) {
		json_object_put(section);
		*failed = true;
	}
}

int config_show(const struct config *c, schema_module_fn module, void *arg, bool json, struct buf *out)
{
	json_object *root = NULL, *sections = NULL;
	bool failed = false;
	size_t n;
	const struct schema_section *known = schema_sections(&n);
	if (json && (!(root = json_object_new_object()) || !(sections = json_object_new_array()))) {
		json_object_put(root);
		return -1;
	}
	for (size_t i = 0; i < n; i++)
		if (!strchr(known[i].name, '*'))
			one_section(sections, out, known[i].name, &known[i], config_section_find(c, known[i].name), NULL, &failed);
	for (size_t i = 0; i < c->n; i++) {
		const struct config_section *s = &c->s[i];
		const struct schema_section *t = schema_find(s->name);
		if (t && !strchr(t->name, '*'))
			continue; /* shown above */
		const struct config_value *program = config_get(c, s->name, "PROGRAM");
		bool stage = t && strcmp(t->name, "stage-*") == 0;
		const struct module_info *m = stage && program && module ? module(arg, program->value) : NULL;
		one_section(sections, out, s->name, t, s, m && !m->error ? m : NULL, &failed);
	}
	if (json) {
		const char *text = NULL;
		if (add(root, "sections", sections) || !(text = json_object_to_json_string_ext(root, JSON_C_TO_STRING_NOSLASHESCAPE)))
			failed = true;
		else
			buf_addz(out, text);
		json_object_put(root);
	}
	return failed || out->failed ? -1 : 0;
}
