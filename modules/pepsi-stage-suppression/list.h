/* The list of suppressed recipients in the database (pepsi.suppression), by its stored functions: constant statements with bound
 * parameters. Knows nothing of messages. */
#ifndef SUPPRESSION_LIST_H
#define SUPPRESSION_LIST_H

#include "base/buf.h"
#include "base/str.h"

struct pg_conn;

struct list_hit {
	bool found;
	char class[16], status[20], since[40];
	char reply[520];
};
/* hits[i] for rcpts[i] (lower case). 0, or -1 with one line in why: the database is away, or refused. */
int list_lookup(struct pg_conn *db, const struct str *rcpts, size_t n, struct list_hit *hits, struct buf *why);

struct list_lesson {
	struct str recipient, status; /* UTF-8 without NUL */
	struct str reply;             /* any octets */
};
/* Learns; *ret_new: how many were not there. */
int list_learn(struct pg_conn *db, const struct list_lesson *l, size_t n, int64_t source_id, int64_t seconds, int64_t most, int *ret_new, struct buf *why);

#endif
