/* pepsi-keys; dkim, shared by its parts: making, showing and removing keys (tool_keys.c), changing them in time (tool_keys_rotate.c). */
#ifndef CLI_TOOL_KEYS_H
#define CLI_TOOL_KEYS_H

#include "dkim_ask.h"
#include "dkim_dir.h"

/* Makes a key and its line in the ring; selector NULL: one of the day. Prints nothing; *ret_selector is what it is called. 0, or an exit status. */
int keys_make(const struct cli *c, struct dkim_domain *d, const char *selector, const char *kind, enum dkim_key_state state, const char *replaces,
    char ret_selector[DKIM_SELECTOR_MAX + 1]);
/* The record of a key as it goes into a zone: "s._domainkey.example.test. IN TXT …". 0, or CLI_FAILED. */
int keys_print_record(struct dkim_domain *d, const struct dkim_ring_key *k);
/* A key as an object: selector, algorithm, state, since. */
struct json_object *keys_json(const struct dkim_domain *d, const struct dkim_ring_key *k);

int keys_rotate(struct cli *c, const struct config *conf, struct dkim_dir *dir);
int keys_check(struct cli *c, const struct config *conf, struct dkim_dir *dir);

enum { KEYS_VERBS_MAX = 8 };
struct keys_verb {
	const char *name;
	size_t min, max;   /* operands with the verb itself */
	bool create;       /* the folder is made where it is not there */
	const char *takes; /* for the usage: "a domain" */
};
/* The verb of the command line ("add"), with as many operands as it takes: 0 and *ret; or an exit status after a message. what: "dkim". */
int keys_verb(const struct cli *c, const char *what, const struct keys_verb *verbs, size_t n, size_t *ret);

int tool_keys_dkim(struct cli *c);
/* tool_keys_srs.c: the keys of pepsi-stage-srs. */
int tool_keys_srs(struct cli *c);

#endif
