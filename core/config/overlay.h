/* What pepsi.config_override says of stages, to be laid over the configuration that came from files. Held to the same option tables;
 * a row that they refuse is told and left out, and the file's value stands. Only options of [stage-…] can be overridden: of the
 * daemon's own those with SCHEMA_F_OVERLAY, of a module's all but paths, secrets and those with PEPSI_OPTF_FILE_ONLY. Reads no
 * database: rows come from whoever has a connection. */
#ifndef PEPSI_CONFIG_OVERLAY_H
#define PEPSI_CONFIG_OVERLAY_H

#include "schema.h"

enum {
	CONFIG_OVERLAY_ROWS_MAX = 10000,
	CONFIG_OVERLAY_VALUE_MAX = 4096, /* octets: it travels in datagrams of the admin child */
};
/* `file` of values that come from here. */
extern const char config_overlay_file[];

struct config_overlay {
	struct config_overlay_row {
		char *section, *option, *value;
	} *rows;
	size_t n, cap;
};
void config_overlay_free(struct config_overlay *o); /* empty afterwards */
/* 0, or -1: memory, or more rows than anybody needs. */
int config_overlay_add(struct config_overlay *o, struct str section, struct str option, struct str value);

/* May this row be laid over c? m: the module of the section's PROGRAM, or NULL where it is not known: then options that only it could
 * know pass. 0, or -1 with the reason appended to why. *ret (may be NULL): the option, NULL where nobody here knows it. */
int config_overlay_check(const struct config *c, const struct module_info *m, const char *section, const char *option, const char *value,
    const struct pepsi_option **ret, struct buf *why);
/* Lays the rows of one section over it; fault() is called for each that is refused. Returns how many are in force now. Pointers got from
 * c for these options before are dead afterwards. */
typedef void (*config_overlay_fault_fn)(void *arg, const struct config_overlay_row *row, const char *why);
size_t config_overlay_lay(struct config *c, const struct config_overlay *o, const struct module_info *m, const char *section,
    config_overlay_fault_fn fault, void *arg);

#endif
