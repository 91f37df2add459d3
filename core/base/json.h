/* Writing JSON objects that need no tree (workqueue.state, results of authentication), on hot paths. What a
 * peer sent may hold any octet; what comes out is always valid JSON that PostgreSQL takes as jsonb. And a look at
 * objects that others made (json_check.c). */
#ifndef PEPSI_BASE_JSON_H
#define PEPSI_BASE_JSON_H

#include "buf.h"

/* "s" quoted and escaped. Octets that are no valid UTF-8 become \u00XX; NUL, which jsonb cannot hold, U+FFFD. */
void json_put_str(struct buf *out, struct str s);
/* Begins a member: a comma unless it is the first of its object, then "key":. key needs no escape. */
void json_put_key(struct buf *out, const char *key);
/* The same with a value. */
void json_put_member(struct buf *out, const char *key, struct str value);
void json_put_bool(struct buf *out, const char *key, bool value);

enum { JSON_DEPTH_MAX = 31 }; /* objects and arrays within each other; the workers' reader has no more (core/worker/state.c) */
/* NULL: one JSON object (RFC 8259) that PostgreSQL takes as jsonb and a worker reads again: valid UTF-8, no NUL however it is written, no
 * half surrogate pairs, numbers below 1e307, not nested deeper than that. Else why not: a constant. Time is linear in text.n. */
const char *json_object_fault(struct str text);

#endif
