/* Option tables of the daemon's own sections, and the check that holds a configuration against them. One table gives
 * parsing, validation, `pepsi config show` and the reference page. Stage modules describe their options themselves
 * (struct module_info, from the describe child). May not do I/O. */
#ifndef PEPSI_CONFIG_SCHEMA_H
#define PEPSI_CONFIG_SCHEMA_H

#include "config/config.h"

#include <pepsi/stage.h>

/* Flags of our own tables beside PEPSI_OPTF_*: what a value is beyond its type. Modules cannot set them. */
#define SCHEMA_F_US (1u << 16)        /* DURATION in microseconds: "5 ms" is allowed, config_int() gives microseconds */
#define SCHEMA_F_NO_EFFECT (1u << 17) /* known, but does nothing in this version: a warning when it is set */
#define SCHEMA_F_REPEAT (1u << 18)    /* may stand several times in a section */
#define SCHEMA_F_NETWORKS (1u << 19)  /* LIST of networks */
#define SCHEMA_F_DOMAINS (1u << 20)   /* LIST of domains */
#define SCHEMA_F_BIND (1u << 21)      /* LIST of ADDRESS:PORT */
#define SCHEMA_F_HOSTNAME (1u << 22)  /* STRING: a host name */
#define SCHEMA_F_CONNINFO (1u << 23)  /* STRING: a libpq connection string; its password is masked when shown */
#define SCHEMA_F_SOCKETS (1u << 24)   /* with SCHEMA_F_BIND: also unix:/PATH and systemd:NAME */
#define SCHEMA_F_SERVERS (1u << 25)   /* LIST of numeric addresses, each with or without a port */
#define SCHEMA_F_RECIPIENTS (1u << 26) /* LIST of sources of recipients */
#define SCHEMA_F_DNSBL (1u << 27)     /* LIST of block lists in the DNS */
#define SCHEMA_F_DNSWL (1u << 28)     /* … of allow lists */
#define SCHEMA_F_OVERLAY (1u << 29)   /* an option of a stage that the database may override: overlay.h */
#define SCHEMA_F_MAILBOX (1u << 30)   /* STRING: local@domain, ASCII */
#define SCHEMA_F_ALL 0xffff0000u

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
/* Does the option's name (which may be NAME* for PEPSI_OPT_MULTI) cover this one? Without case. */
bool schema_covers(const struct pepsi_option *o, const char *name);

/* Parses one value as its option's type says and holds it against its range and choices: for schema_check, the overlay
 * and the options of modules alike. Numbers go to *ret (seconds, octets, 0/1; microseconds with SCHEMA_F_US), texts
 * leave it. Returns 0, or -1 with the reason appended to why ("expected a duration such as …"). c is for the
 * variables of PATH options. References to stages are not followed here. */
int schema_value(const struct config *c, const struct pepsi_option *o, const char *value, int64_t *ret, struct buf *why);
/* Turns a value into the form in which it is compared, in place: lower case for CHOICE and STAGE. config_get() gives
 * values of our own tables in this form already. */
void schema_value_fold(const struct pepsi_option *o, char *value);

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

/* The configuration in force, for `pepsi config show`: every section the file has or that has defaults, each option
 * with its value, its default and where it stands; secrets masked, and whatever no table has: a misspelt
 * option, and where `module` is NULL or knows nothing of a stage's module, all options of that module. Text that config_load() would read again, or JSON:
 * {"sections":[{"name","options":[{"name","value","source":"file"|"default"|"set"|"overlay","file","line","secret"}]}]}.
 * Returns 0, or -1 when memory or out's limit is exceeded. */
int config_show(const struct config *c, schema_module_fn module, void *arg, bool json, struct buf *out);

#endif
