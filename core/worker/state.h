/* The state object (pepsi.state(7)) as JSON text and tree: merging, looking up, and keeping dsn.rcpt parallel to the
 * recipients. Over json-c, with the limits and checks that json-c does not make itself. No I/O, no logging. */
#ifndef PEPSI_WORKER_STATE_H
#define PEPSI_WORKER_STATE_H

#include "base/arena.h"
#include "base/str.h"

struct json_object;

enum { STATE_MAX = 4 * 1024 * 1024 }; /* octets of the text: the largest message metadata anybody writes, many times over */

/* Parses one JSON object. NULL: why says what is wrong (static text). The caller puts it. */
struct json_object *state_parse(struct str text, const char **why);
/* The text, from the arena, NUL-terminated. .p is NULL when memory is out. */
struct str state_text(struct arena *a, struct json_object *o);
/* Top-level keys of `more` replace those of `into`; null removes, or stays as null when keep_null (a merge that is to
 * be merged again). Shares values. 0 or -1. */
int state_merge(struct json_object *into, struct json_object *more, bool keep_null);
/* The value at a dotted path ("dsn.rcpt.0.notify"), or NULL: absent or null. Borrowed. */
struct json_object *state_at(struct json_object *o, const char *path);
/* A copy of dsn for new recipients: those that stood among the old ones (ASCII case folded) keep their entry, the
 * others get {}. NULL when there is no dsn.rcpt, or memory is out. The caller puts it. */
struct json_object *state_dsn_match(struct json_object *state, const struct str *old, size_t n_old, const struct str *now,
    size_t n_now);
/* dsn.rcpt[i].notify ("SUCCESS,FAILURE", or a list) as DSN_NOTIFY_* of proto/dsn/notify.h; 0: it says nothing. */
unsigned state_notify(struct json_object *state, size_t i);
/* Text as the inside of a JSON string: escaped, cut at max octets of input, never invalid UTF-8. */
char *state_escape(struct arena *a, struct str s, size_t max);

#endif
