/* What is known of destinations, in the database: constant statements that call functions of the contract (db/README.md), over the host's connection.
 * A database that is away costs what would have been learned, and a line in the log once a minute; never a message. */
#ifndef COMMON_KNOWN_H
#define COMMON_KNOWN_H

#include "base/buf.h"

#include <libpq-fe.h>
#include <pepsi/stage.h>

struct known_db {
	const struct pepsi_host *host;
	const struct pepsi_conf *conf;
	int64_t told_ms;       /* when it was last said that the database is away; 0: never */
};
/* The result, to be cleared; NULL: it failed (told). values: text form. */
PGresult *known_ask(struct known_db *k, const char *sql, int n, const char *const *values);
/* A number in a field; 0 where there is none. */
int64_t known_number(const PGresult *res, int row, int column);

/* Array literals, grown element by element: KNOWN_ARRAY, known_add…, and known_end(), which gives the text or NULL (no memory). */
#define KNOWN_ARRAY ((struct buf)BUF_INIT(1 << 20))
void known_add(struct buf *b, struct str s);
void known_add_number(struct buf *b, int64_t n);
const char *known_end(struct buf *b);

#endif
