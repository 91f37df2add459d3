/* A stage's configuration as its module sees it: parsing by the module's table, and the conf_* functions of the host
 * table. May not do I/O; reports faults through a function and never logs. */
#include "conf.h"

#include "config/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

bool conf_has_stage(const struct config *c, const char *stage)
{
	char want[160];
	if (!stage || !stage[0] || snprintf(want, sizeof want, "stage-%s", stage) >= (int)sizeof want)
		return false;
	const char *name;
	for (size_t i = 0; (name = config_section(c, i)); i++)
		if (!strcasecmp(name, want))
			return true;
	return false;
}

int64_t conf_host_bool(const struct config *c, const char *section, const char *option, int64_t def)
{
	const struct config_value *v = config_get(c, section, option);
	if (!v)
		v = config_get(c, "pepsi", option);
	int64_t n = def;
	if (v && config_parse_bool(str_from(v->value), &n))
		return def;
	return n;
}

static int take(struct pepsi_conf *conf, const struct pepsi_option *o, const char *value, struct conf_value *ret,
    struct buf *why)
{
	int64_t num = 0;
	char *text;
	if (schema_value(conf->c, o, value, &num, why))
		return -1;
	if (o->type == PEPSI_OPT_PATH)
		text = config_expand(conf->c, value, why);
	else
		text = str_dupz(str_from(value));
	if (!text) {
		if (!why->n)
			buf_addz(why, "out of memory");
		return -1;
	}
	schema_value_fold(o, text);
	if (o->type == PEPSI_OPT_STAGE && !conf_has_stage(conf->c, text)) {
		buf_addf(why, "there is no section [stage-%s]", text);
		free(text);
		return -1;
	}
	free(ret->text);
	*ret = (struct conf_value){ text, num };
	return 0;
}

int conf_init(struct pepsi_conf *ret, const struct config *c, const char *stage, const struct worker_module *m,
    conf_fault_fn fn, void *arg)
{
	int faults = 0;
	struct buf why = BUF_INIT(1024);
	*ret = (struct pepsi_conf){ .c = c, .m = m };
	if (snprintf(ret->section, sizeof ret->section, "stage-%s", stage) >= (int)sizeof ret->section)
		return -1;
	ret->stage = ret->section + strlen("stage-");
	ret->v = calloc(m->n_options ? m->n_options : 1, sizeof *ret->v);
	if (!ret->v)
		return -1;
	for (size_t i = 0; i < m->n_options; i++) {
		const struct pepsi_option *o = &m->options[i];
		if (o->type == PEPSI_OPT_MULTI) {
			const char *n, *v;
			if (o->flags & PEPSI_OPTF_REQUIRED && host_conf_multi(ret, o->name, 0, &n, &v) == PEPSI_NONE) {
				fn(arg, o->name, "is required and not set");
				faults++;
			}
			continue;
		}
		const struct config_value *cv = config_get(c, ret->section, o->name);
		buf_reset(&why);
		if (o->def && take(ret, o, o->def, &ret->v[i], &why)) {
			fn(arg, o->name, why.n ? buf_z(&why) : "the module's own default does not parse");
			faults++;
			buf_reset(&why);
		}
		if (cv && take(ret, o, cv->value, &ret->v[i], &why)) {
			fn(arg, o->name, buf_z(&why));
			faults++;
		} else if (!cv && !o->def && o->flags & PEPSI_OPTF_REQUIRED) {
			fn(arg, o->name, "is required and not set");
			faults++;
		}
	}
	buf_free(&why);
	return faults;
}

void conf_done(struct pepsi_conf *conf)
{
	for (size_t i = 0; conf->v && i < conf->m->n_options; i++) {
		if (conf->v[i].text && conf->m->options[i].type == PEPSI_OPT_SECRET)
			explicit_bzero(conf->v[i].text, strlen(conf->v[i].text));
		free(conf->v[i].text);
	}
	free(conf->v);
	conf->v = NULL;
}

static const struct conf_value *find(const struct pepsi_conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->m->n_options; i++)
		if (!strcasecmp(conf->m->options[i].name, name))
			return &conf->v[i];
	return NULL;
}

const char *host_conf_str(const struct pepsi_conf *conf, const char *name)
{
	const struct conf_value *v = find(conf, name);
	return v ? v->text : config_str(conf->c, conf->section, name);
}

int64_t host_conf_int(const struct pepsi_conf *conf, const char *name)
{
	const struct conf_value *v = find(conf, name);
	return v ? v->num : config_int(conf->c, conf->section, name);
}

int32_t host_conf_multi(const struct pepsi_conf *conf, const char *name, size_t at, const char **ret_name,
    const char **ret_value)
{
	const struct pepsi_option *o = NULL;
	struct config_value v;
	const char *option;
	for (size_t i = 0; i < conf->m->n_options && !o; i++)
		if (!strcasecmp(conf->m->options[i].name, name) && conf->m->options[i].type == PEPSI_OPT_MULTI)
			o = &conf->m->options[i];
	for (size_t i = 0; o && (option = config_option(conf->c, conf->section, i, &v)); i++) {
		if (!schema_covers(o, option) || at-- > 0)
			continue;
		*ret_name = option;
		*ret_value = v.value;
		return PEPSI_OK;
	}
	return PEPSI_NONE;
}

const char *host_conf_stage_name(const struct pepsi_conf *conf)
{
	return conf->stage;
}

const char *host_conf_global(const struct pepsi_conf *conf, const char *section, const char *option)
{
	return config_str(conf->c, section, option);
}

void host_report(struct pepsi_report *r, const char *option, const char *text)
{
	r->fn(r->arg, option, text ? text : "");
}
