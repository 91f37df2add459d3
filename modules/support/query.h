/* A statement over host->database(), for stages that work at one message at a time: waited for, but not without end. A server that says nothing (stopped, or
 * behind a firewall that forgot the connection) is given up with its connection, which the host makes anew; nobody knows then whether the statement was done. */
#ifndef SUPPORT_QUERY_H
#define SUPPORT_QUERY_H

#include "base/buf.h"

#include <libpq-fe.h>

#ifndef QUERY_ANSWER_MS /* a test has less patience */
#define QUERY_ANSWER_MS (10 * 1000)
#endif

/* The result of rows, to be cleared; NULL: the first line of the reason is appended to why, and the SQLSTATE stands in state (six octets; NULL: not wanted; ""
 * where the server had no say). db NULL: the database is away. sql is constant; values in text form. */
PGresult *query_ask(PGconn *db, const char *sql, int n, const char *const *values, struct buf *why, char *state);

#endif
