/* What the stage keeps in the database, by its stored functions (section srs of db/procedures.sql): senders that do not fit into an address, and how many
 * bounces were taken back within the hour. Constant statements with bound parameters; knows nothing of messages. */
#ifndef STAGE_SRS_BOOKS_H
#define STAGE_SRS_BOOKS_H

#include "base/buf.h"
#include "base/str.h"

struct pg_conn;

enum { BOOKS_REFERENCE = 26 }; /* characters: 130 bits of base32 */

/* The reference of a sender: the same for the same sender, told by a hash. out: BOOKS_REFERENCE and NUL. 0, or -1: the library failed. */
int books_reference(struct str sender, char out[BOOKS_REFERENCE + 1]);
/* Keeps it for some seconds. 1: kept; 0: there are `most` already; -1: the database is away, or refused (one line in why). */
int books_keep(struct pg_conn *db, const char *reference, struct str sender, int64_t seconds, int64_t most, struct buf *why);
/* The sender kept under a reference, appended to out. 1; 0: none; -1. */
int books_kept(struct pg_conn *db, struct str reference, struct buf *out, struct buf *why);
/* May a bounce go to each of these now? lower case, each once. count: and write it down. *ret_wait: seconds till then, or 0: yes. 0, or -1. */
int books_take(struct pg_conn *db, const struct str *targets, size_t n, int64_t each, int64_t all, bool count, int *ret_wait, struct buf *why);

#endif
