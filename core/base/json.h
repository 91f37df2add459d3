/* Writing JSON objects that need no tree (workqueue.state, results of authentication), on hot paths. What a
 * peer sent may hold any octet; what comes out is always valid JSON that PostgreSQL takes as jsonb. */
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

#endif
