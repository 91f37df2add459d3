/* What all connections of the program have in common: the parameters given to libpq, the session's settings, and how
 * an SQLSTATE becomes an enum store_rc. Inside core/store only. */
#ifndef PEPSI_STORE_CONNECT_H
#define PEPSI_STORE_CONNECT_H

#include "store/conn.h"

#include <libpq-fe.h>

#ifndef STORE_ANSWER_S /* a test has less patience */
#define STORE_ANSWER_S 30    /* a server that does not answer for so long is given up */
#endif
enum {
	STORE_CONNECT_S = 10,    /* one attempt to connect */
	STORE_STATEMENT_MS = 25000, /* statement_timeout: the server gives up before we do, with a clear error */
	STORE_TRIES = 5,         /* of a transaction that met a serialization failure or deadlock */
	STORE_ERR_MAX = 256,     /* one line of error text */
};

/* Keyword arrays for PQconnect*Params (expand_dbname = 1); they point into p and stay valid as long as it does. */
struct connect_words {
	const char *keys[16], *values[16];
};
/* database: overrides the one of the conninfo; NULL: no. */
void connect_words_set(struct connect_words *w, const struct store_params *p, const char *database);

/* The statement that sets up a session, with its two parameters: set_role or "", "on" or "off" (async_commit). */
extern const char connect_setup_sql[];
#define CONNECT_SETUP_PARAMS(p) { (p)->set_role ? (p)->set_role : "", (p)->async_commit ? "on" : "off" }

/* sqlstate NULL or "": the connection broke. */
enum store_rc connect_rc(const char *sqlstate);
/* Is the session itself unfit after this error (statements forgotten, server turned read-only)? */
bool connect_rc_session_lost(const char *sqlstate);
/* libpq's text as one line without trailing blanks, at most size - 1 octets. */
void connect_one_line(char *out, size_t size, const char *text);
/* The same for a failed result: primary message and detail. Detail is left out for constraint violations, since it
 * quotes the row. */
void connect_result_error(char *out, size_t size, const PGresult *res);
/* Notices of the server: dropped, but for warnings, which are logged at debug level. For PQsetNoticeReceiver. */
void connect_notice(void *arg, const PGresult *res);

#endif
