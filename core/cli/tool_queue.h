/* Shared by the files of pepsi queue. */
#ifndef CLI_TOOL_QUEUE_H
#define CLI_TOOL_QUEUE_H

#include "cli_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	QUEUE_LIMIT_MAX = 1000000,
	QUEUE_WHY_MAX = 64 * 1024, /* octets: an answer of the control socket has no longer texts */
};

/* The options that select, as arguments of a request; NULL after a message: they contradict each other. */
struct json_object *queue_filters(const struct cli *c);
/* --limit. 0: not given. -1 after a message. */
int64_t queue_limit(const struct cli *c);

/* Why a row of the list waits, for people: what held it, else its last error; empty where there is neither. */
void queue_row_why(struct json_object *row, struct buf *ret);

/* tool_queue_change.c. A command on messages that ids or filters select; what: what they were, "deleted". */
int queue_change(struct cli *c, const char *cmd, const char *const *ids, size_t n_ids, const char *to, const char *what);

#endif
