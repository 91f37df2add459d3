/* struct pepsi_conf of the stage ABI: one [stage-x] section read through its module's option table, values parsed once. */
#ifndef PEPSI_WORKER_CONF_H
#define PEPSI_WORKER_CONF_H

#include "config/config.h"
#include "module.h"

struct conf_value {
	char *text;  /* NULL: neither set nor with a default */
	int64_t num;
};

struct pepsi_conf {
	const struct config *c;
	char section[160]; /* "stage-init" */
	const char *stage; /* "init", inside section */
	const struct worker_module *m;
	struct conf_value *v; /* one per option of the table */
	struct pg_conn *(*database)(void *arg); /* for PEPSI_CAP_DB; NULL: none here */
	void *database_arg;
};

/* Called for each fault; option may be NULL. */
typedef void (*conf_fault_fn)(void *arg, const char *option, const char *text);

/* Reads the section. Returns the number of faults (each told to fn, and its option left at the default), or -1: memory. */
int conf_init(struct pepsi_conf *ret, const struct config *c, const char *stage, const struct worker_module *m,
    conf_fault_fn fn, void *arg);
void conf_done(struct pepsi_conf *conf);
/* An option of the stage's section, else of [pepsi], else def: for the host's own switches. */
int64_t conf_host_bool(const struct config *c, const char *section, const char *option, int64_t def);
/* Is there a [stage-NAME]? */
bool conf_has_stage(const struct config *c, const char *stage);

/* The host functions of the table. */
struct pepsi_report {
	conf_fault_fn fn;
	void *arg;
};
const char *host_conf_str(const struct pepsi_conf *conf, const char *name);
int64_t host_conf_int(const struct pepsi_conf *conf, const char *name);
int32_t host_conf_multi(const struct pepsi_conf *conf, const char *name, size_t i, const char **ret_name,
    const char **ret_value);
const char *host_conf_stage_name(const struct pepsi_conf *conf);
const char *host_conf_global(const struct pepsi_conf *conf, const char *section, const char *option);
void host_report(struct pepsi_report *r, const char *option, const char *text);

#endif
