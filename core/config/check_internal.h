/* Shared between the parts of schema_check(): sections and options (check.c), stages (check_stage.c), and addresses,
 * certificates, names (check_net.c). */
#ifndef PEPSI_CONFIG_CHECK_INTERNAL_H
#define PEPSI_CONFIG_CHECK_INTERNAL_H

#include "config_internal.h"
#include "schema.h"

struct check {
	const struct config *c;
	schema_module_fn module;
	void *arg;
	struct config_faults *faults;
	const char **stages; /* names without "stage-", for references and suggestions */
	size_t n_stages;
};

/* A finding at an option's place, or at the section's. */
void check_fault(struct check *k, const struct config_section *s, const struct config_entry *e, bool warning, const char *fmt,
    ...) __attribute__((format(printf, 5, 6)));
const struct config_entry *check_entry(const struct config_section *s, const char *option);
/* "; did you mean X?" into out, or nothing. */
void check_suggest(struct buf *out, const char *name, const char *const *names, size_t n);

bool check_is_stage(const struct config_section *s);
/* The module of a stage's PROGRAM, or NULL where it is not known. */
const struct module_info *check_module(const struct check *k, const struct config_section *s);
const struct config_section *check_stage_section(const struct check *k, const char *stage);
/* A reference to a stage: a fault when there is no such stage. */
void check_stage_reference(struct check *k, const struct config_section *s, const struct config_entry *e);
/* What belongs to one stage, and then to all of them together. */
void check_stage(struct check *k, const struct config_section *s);
void check_stages(struct check *k);
/* No stage that changes messages behind one that signs them; aliases and return addresses where senders are rewritten. */
void check_order(struct check *k);
/* BEFORE_ACCEPT of a listener: the stages it names, and whether their modules can be used there. */
void check_before_accept(struct check *k, const struct config_section *listener);
/* RECIPIENTS of [pepsi] or of a [domain-NAME]: the stage it names. */
void check_recipients(struct check *k, const struct config_section *s);

/* What a value is doubtful in, well-formed or (good is false) only in part. */
void check_net_value(struct check *k, const struct config_section *s, const struct config_entry *e,
    const struct pepsi_option *o, bool good);
void check_listener(struct check *k, const struct config_section *s);
void check_addresses(struct check *k);
void check_token(struct check *k, const struct config_section *s);
void check_signin(struct check *k, const struct config_section *s);
/* BACKENDS of a listener: some of those of [pepsi-signin]. */
void check_signin_listener(struct check *k, const struct config_section *listener);

#endif
