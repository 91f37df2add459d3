/* Typed getters over the option tables: the configured value where it parses, else the table's default. */
#include "config_internal.h"
#include "schema.h"

#include <stdlib.h>
#include <unistd.h>

enum { CONFIG_QUEUE_ONE = 50, CONFIG_QUEUE_MANY = 1000, CONFIG_RUNTIME_MANY_S = 40 * 60 }; /* as the help of the options says */

/* What an option without a value falls back to: a stage's MAX_RUNTIME is the dispatcher's. */
static const struct pepsi_option *default_of(const char *section, const char *option, const struct pepsi_option *o)
{
	if (o && !o->def && str_istarts(str_from(section), STR("stage-")) && str_ieq(str_from(option), STR("MAX_RUNTIME")))
		return schema_option("pepsi-dispatch", option);
	return o;
}

const char *config_str(const struct config *c, const char *section, const char *option)
{
	const struct config_value *v = config_get(c, section, option);
	const struct pepsi_option *o = schema_option(section, option);
	int64_t number;
	if (v && (!o || schema_value(c, o, v->value, &number, NULL) == 0))
		return v->value;
	return o ? o->def : NULL;
}

int64_t config_int(const struct config *c, const char *section, const char *option)
{
	const struct config_value *v = config_get(c, section, option);
	const struct pepsi_option *o = schema_option(section, option), *d = default_of(section, option, o);
	int64_t ret = 0;
	if (o && v && schema_value(c, o, v->value, &ret, NULL) == 0)
		return ret;
	if (d && d != o)
		return config_int(c, "pepsi-dispatch", option);
	if (o && o->def && schema_value(c, o, o->def, &ret, NULL) == 0)
		return ret;
	return 0;
}

unsigned config_queue_limit(const struct config *c, const char *section, bool many)
{
	int64_t n = config_int(c, section, "QUEUE_LIMIT");
	return n > 0 ? (unsigned)n : many ? CONFIG_QUEUE_MANY : CONFIG_QUEUE_ONE;
}

/* 40 minutes hold a whole attempt of a relay that keeps to the time-outs of RFC 5321 4.5.3.2 (WHOLE_TIMEOUT and some). */
int64_t config_max_runtime(const struct config *c, const char *section, bool many)
{
	bool said = config_get(c, section, "MAX_RUNTIME") || config_get(c, "pepsi-dispatch", "MAX_RUNTIME");
	int64_t s = config_int(c, section, "MAX_RUNTIME");
	return many && !said ? CONFIG_RUNTIME_MANY_S : s > 0 ? s : CONFIG_RUNTIME_MANY_S;
}

char *config_hostname(const struct config *c)
{
	char host[256];
	const char *set = config_str(c, "pepsi", "HOSTNAME");
	if (set)
		return strdup(set);
	if (gethostname(host, sizeof host))
		return strdup("localhost");
	host[sizeof host - 1] = 0;
	return strdup(host);
}
