/* Option tables of the daemon's own sections, and the check that holds a configuration against them. One table gives
 * parsing, validation, `pepsi config show` and the reference page. Stage modules describe their options themselves
 * (struct module_info, from the describe child). May not do I/O. */
#ifndef PEPSI_CONFIG_SCHEMA_H
#define PEPSI_CONFIG_SCHEMA_H

#include "config/config.h"

#include <pepsi/stage.h>

struct schema_section {
	const char *name;                    /* "pepsi", "listener-*", "stage-*" */
	const struct pepsi_option *options;  /* the types of <pepsi/stage.h>; DURATION_US values say so in their help */
	size_t n_options;
	const char *help;
};
/* All sections the daemon and its tools know; *ret_n of them. */
const struct schema_section *schema_sections(size_t *ret_n);
/* The section's table (pattern matched), or NULL. */
const struct schema_section *schema_find(const char *section);
const struct pepsi_option *schema_option(const char *section, const char *option);

/* What the describe child learnt of a module; owned by whoever holds it. */
struct module_info {
	char *name, *version, *license, *summary, *path;
	uint16_t abi_major, abi_minor;
	uint32_t load_class;
	uint64_t caps;
	struct pepsi_option *options; /* strings owned too */
	size_t n_options;
	char *error; /* not NULL: it could not be loaded, and why */
};
void module_info_free(struct module_info *m);

/* Modules by PROGRAM name, as far as they could be described; may return NULL: unknown to the caller, not checked. */
typedef const struct module_info *(*schema_module_fn)(void *arg, const char *program);

/* Reports every fault in one run: unknown sections and options (with the nearest known name), values that do not
 * parse or leave their range, stages that name no stage, loops without way out, listeners without BIND, two listeners on one address, … */
void schema_check(const struct config *c, schema_module_fn module, void *arg, struct config_faults *faults);

#endif
