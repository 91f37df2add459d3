/* The aliases stage: maps (a text file, or pepsi.alias_map in the database) and the expansion over them. */
#ifndef STAGE_ALIASES_H
#define STAGE_ALIASES_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"

#include <pepsi/stage.h>

enum {
	ALIAS_FILE_MAX = 32 * 1024 * 1024,
	ALIAS_TARGETS_MAX = 1000,  /* of one message, after expansion; and of one alias */
	ALIAS_DEPTH_MAX = 10,      /* aliases of aliases */
	ALIAS_ADDRESS_MAX = 320,
};

/* A looked-up name and what it stands for. */
struct alias_hit {
	bool found;
	const struct str *targets; /* may be none: the name is known and goes nowhere */
	size_t n;
};

/* Something names can be looked up in. Names are lower case: "local@domain", "local", "@domain". */
struct alias_source {
	void *arg;
	/* Fills hits[i] for names[i]; memory from a or longer-lived. 0, or -1: not reachable now, why says more. */
	int (*find)(void *arg, struct arena *a, const struct str *names, size_t n, struct alias_hit *hits, struct buf *why);
};

/* --- file.c: "name: target, target", # comments, continuation lines */
struct alias_file;
/* Parses text. NULL: memory. Malformed lines are told to fn (line number and text) and skipped. */
typedef void (*alias_fault_fn)(void *arg, unsigned line, const char *text);
struct alias_file *alias_file_parse(struct str text, alias_fault_fn fn, void *arg);
void alias_file_free(struct alias_file *f);
int alias_file_find(void *file, struct arena *a, const struct str *names, size_t n, struct alias_hit *hits, struct buf *why);
size_t alias_file_names(const struct alias_file *f);
/* NULL, or why the word cannot be a target. */
const char *alias_target_wrong(struct str target);

/* --- table.c: pepsi.alias_lookup() */
struct alias_table {
	struct pg_conn *db;
};
int alias_table_find(void *table, struct arena *a, const struct str *names, size_t n, struct alias_hit *hits, struct buf *why);

/* --- expand.c */
/* Is the domain one of these? */
bool alias_local(const char *local_domains, struct str domain);
struct alias_result {
	struct str address;
	size_t origin; /* index of the recipient it came from */
	size_t order;
};
struct alias_expansion {
	struct alias_result *r;
	size_t n;
	bool changed;      /* differs from the recipients given */
	bool too_many;     /* ALIAS_TARGETS_MAX reached: nothing of it may be used */
	size_t looped;     /* recipients whose aliases lead only to each other; they are kept as they were */
};
/* Expands recipients. local_domains: blank-separated; bare names are looked up for, and bare targets get, these. delimiters: octets
 * such as "+", or NULL: what is not known as it stands is looked up without what stands behind them. 0, or -1: source not
 * reachable or memory (why). Order follows the recipients; an address appears once, from its first origin. */
int alias_expand(const struct alias_source *src, struct arena *a, const struct str *rcpts, size_t n, const char *local_domains,
    const char *delimiters, struct alias_expansion *ret, struct buf *why);

#endif
