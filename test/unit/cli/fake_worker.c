/* Stands in for core/worker: modules that are only names. "pepsi-stage-broken" cannot be loaded. */
#include "worker/worker.h"

#include <stdio.h>
#include <stdlib.h>

int worker_main(struct config *c, const char *stage, int channel)
{
	(void)c;
	printf("worker %s %d\n", stage, channel);
	return 0;
}

char *worker_module_path(const struct config *c, const char *program)
{
	(void)c;
	char path[256];
	if (!str_starts(str_from(program), STR("pepsi-stage-")))
		return NULL;
	snprintf(path, sizeof path, "/modules/%s.so", program);
	return str_dupz(str_from(path));
}

void worker_describe(const char *program, const char *path, void (*drop)(void *arg), void *arg, struct module_info *ret)
{
	(void)drop;
	(void)arg;
	*ret = (struct module_info){ .name = str_dupz(str_from(program)), .path = str_dupz(str_from(path)),
		.version = str_dupz(STR("1.0")), .license = str_dupz(STR("Apache-2.0")),
		.summary = str_dupz(STR("a \x1b[31mred\xff one")), .abi_major = 1, .load_class = PEPSI_LOAD_FULL,
		.caps = PEPSI_CAP_NET };
	if (!strcmp(program, "pepsi-stage-broken"))
		ret->error = str_dupz(STR("no descriptor"));
}

void worker_validate(const struct config *c, const char *stage, const char *path, void (*drop)(void *arg), void *arg,
    struct config_faults *faults)
{
	(void)path;
	(void)drop;
	(void)arg;
	char section[128];
	snprintf(section, sizeof section, "stage-%s", stage);
	const struct config_value *v = config_get(c, section, "PROGRAM");
	if (!strcmp(stage, "picky"))
		config_fault_add(faults, v->file, v->line, false, "[%s] I do not like this", section);
}
