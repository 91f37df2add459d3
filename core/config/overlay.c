/* The overlay: which options it may name, and laying it over a configuration; see overlay.h. May not do I/O. */
#include "overlay.h"

#include "config_internal.h"

#include <stdio.h>
#include <stdlib.h>

const char config_overlay_file[] = "(overlay)";

void config_overlay_free(struct config_overlay *o)
{
	for (size_t i = 0; i < o->n; i++) {
		free(o->rows[i].section);
		free(o->rows[i].option);
		free(o->rows[i].value);
	}
	free(o->rows);
	*o = (struct config_overlay){ .n = 0 };
}

int config_overlay_add(struct config_overlay *o, struct str section, struct str option, struct str value)
{
	if (o->n == CONFIG_OVERLAY_ROWS_MAX)
		return -1;
	if (o->n == o->cap) {
		size_t cap = o->cap ? o->cap * 2 : 16;
		struct config_overlay_row *more = realloc(o->rows, cap * sizeof *more);
		if (!more)
			return -1;
		o->rows = more;
		o->cap = cap;
	}
	struct config_overlay_row r = { str_dupz(section), str_dupz(option), str_dupz(value) };
	if (!r.section || !r.option || !r.value) {
		free(r.section);
		free(r.option);
		free(r.value);
		return -1;
	}
	o->rows[o->n++] = r;
	return 0;
}

static const struct pepsi_option *module_option(const struct module_info *m, const char *option)
{
	for (size_t i = 0; m && i < m->n_options; i++)
		if (schema_covers(&m->options[i], option))
			return &m->options[i];
	return NULL;
}

static bool has_stage(const struct config *c, const char *name)
{
	char section[CONFIG_NAME_MAX + 8];
	return snprintf(section, sizeof section, "stage-%s", name) < (int)sizeof section && config_section_find(c, section);
}

/* "Names no option of this module": with the nearest one that may be overridden. */
static int unknown(const struct module_info *m, const char *option, struct buf *why)
{
	const char *names[128];
	size_t n = 0;
	for (size_t i = 0; i < m->n_options && n < 128; i++)
		names[n++] = m->options[i].name;
	const char *near = str_nearest(str_from(option), names, n);
	buf_addf(why, near ? "unknown option; did you mean %s?" : "unknown option", near);
	return -1;
}

int config_overlay_check(const struct config *c, const struct module_info *m, const char *section, const char *option, const char *value,
    const struct pepsi_option **ret, struct buf *why)
{
	const struct pepsi_option *own = schema_option("stage-x", option), *o = own ? own : module_option(m, option);
	int64_t number;
	size_t at;
	if (ret)
		*ret = NULL;
	if (!str_istarts(str_from(section), STR("stage-"))) {
		buf_addz(why, "only options of stages can be overridden");
		return -1;
	}
	if (!config_section_find(c, section)) {
		buf_addz(why, "there is no such section in the configuration");
		return -1;
	}
	if (config_option_name_wrong(str_from(option)) || config_text_wrong(str_from(value), &at) || strlen(value) > CONFIG_OVERLAY_VALUE_MAX) {
		buf_addf(why, "no line of a configuration could hold it, or it is longer than %d octets", CONFIG_OVERLAY_VALUE_MAX);
		return -1;
	}
	if ((own && !(own->flags & SCHEMA_F_OVERLAY)) ||
	    (!own && o && (o->flags & PEPSI_OPTF_FILE_ONLY || o->type == PEPSI_OPT_PATH || o->type == PEPSI_OPT_SECRET))) {
		buf_addz(why, "it can only be set in the file");
		return -1;
	}
	if (!o)
		return m ? unknown(m, option, why) : 0;
	if (schema_value(c, o, value, &number, why))
		return -1;
	if (o->type == PEPSI_OPT_STAGE && !has_stage(c, value)) {
		buf_addf(why, "there is no section [stage-%s]", value);
		return -1;
	}
	if (ret)
		*ret = o;
	return 0;
}

size_t config_overlay_lay(struct config *c, const struct config_overlay *o, const struct module_info *m, const char *section,
    config_overlay_fault_fn fault, void *arg)
{
	struct buf why = BUF_INIT(4096);
	size_t n = 0;
	for (size_t i = 0; i < o->n; i++) {
		const struct config_overlay_row *r = &o->rows[i];
		if (!str_ieq(str_from(r->section), str_from(section)))
			continue;
		buf_reset(&why);
		if (config_overlay_check(c, m, r->section, r->option, r->value, NULL, &why))
			fault(arg, r, buf_z(&why));
		else if (config_set_from(c, r->section, r->option, r->value, config_overlay_file))
			fault(arg, r, "out of memory, or more options than a configuration may have");
		else
			n++;
	}
	buf_free(&why);
	return n;
}
