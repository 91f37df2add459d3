/* What is known of destinations, in the database: constant statements that call functions of the contract (db/README.md), one after the other over the
 * host's connection, beside the loop: a database that says nothing holds up nobody's session. One for all that a worker knows, since they share the
 * connection. For modules with PEPSI_CAP_CONCURRENT and PEPSI_CAP_DB.
 *
 *     open():     w->known = known_new(host, conf);
 *     loop:       known_ask(w->known, "SELECT …", n, values, on_answer, thing);
 *     on_answer(thing, res)                     // later, from the loop; res NULL: it is not known now
 *     close():    known_settle(w->known);       // waits for what is under way, ANSWER_MS at most: each of the things does so before it goes
 *                 known_free(w->known);
 *
 * A statement that has no answer within KNOWN_ANSWER_MS is given up with its connection, and all that wait behind it; nothing is asked then for a while
 * (KNOWN_REST_FIRST_MS, twice as long each time up to KNOWN_REST_MOST_MS), nor where there is no connection. What would have been learned meanwhile is
 * kept by those who learn it. A line in the log when it begins (event=destinations-database) and ends (…-back), and the metric "destination_statements". */
#ifndef COMMON_KNOWN_H
#define COMMON_KNOWN_H

#include "base/buf.h"

#include <libpq-fe.h>
#include <pepsi/stage.h>

enum {
	KNOWN_ANSWER_MS = 5000,
	KNOWN_CONNECT_MS = 1000,      /* a connection that is on its way is waited for so long */
	KNOWN_REST_FIRST_MS = 10 * 1000,
	KNOWN_REST_MOST_MS = 160 * 1000,
	KNOWN_WAITING_MAX = 2000,     /* statements; more are not known at once */
};

struct known;
typedef void (*known_fn)(void *arg, const PGresult *res);

struct known *known_new(const struct pepsi_host *host, const struct pepsi_conf *conf); /* NULL: no memory */
/* Everybody has settled. Accepts NULL. */
void known_free(struct known *k);
/* values: text form, copied; sql is not. fn (NULL: nobody wants to know) is called once, from the loop or known_settle(), never from within this. 0; -1: not
 * now (it rests, memory, too many wait): fn is not called. */
int known_ask(struct known *k, const char *sql, int n, const char *const *values, known_fn fn, void *arg);
/* The answer at once, for what cannot go on without: waits up to ms, and the whole worker with it, so that it is to be asked seldom and briefly. The result,
 * to be cleared; NULL: not known now. No callback comes from within. */
PGresult *known_now(struct known *k, const char *sql, int n, const char *const *values, int ms);
/* Waits until nothing is under way, calling back. In open() and close(). */
void known_settle(struct known *k);
/* Nothing is asked now. */
bool known_rests(const struct known *k);
/* A number in a field; 0 where there is none. */
int64_t known_number(const PGresult *res, int row, int column);

/* Array literals, grown element by element: KNOWN_ARRAY, known_add…, and known_end(), which gives the text or NULL (no memory). */
#define KNOWN_ARRAY ((struct buf)BUF_INIT(1 << 20))
void known_add(struct buf *b, struct str s);
void known_add_number(struct buf *b, int64_t n);
const char *known_end(struct buf *b);

#endif
