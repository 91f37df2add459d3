/* The statements' way; see known.h. One is on its way at a time; its descriptor stands in the host's loop. Answers go through a list of their own, so that
 * nobody is called back from within a call. */
#include "known.h"

#include "base/log.h"
#include "count.h"
#include "say.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>

enum {
	LOOK_MS = 20,                  /* is the connection there? */
	TOLD_AGAIN_MS = 60 * 1000,
	VALUES_MAX = 16,
};

struct ask {
	TAILQ_ENTRY(ask) link;
	const char *sql;
	int n;
	char *values[VALUES_MAX];
	known_fn fn;
	void *arg;
	int64_t asked_ms;
	PGresult *res;                 /* the answer; NULL: none */
};
TAILQ_HEAD(asks, ask);

struct known {
	const struct pepsi_host *host;
	const struct pepsi_conf *conf;
	struct pepsi_metric *metric;
	struct asks waiting, done;     /* the first of waiting is on its way while db is set */
	size_t n_waiting;
	PGconn *db;
	int64_t until_ms;              /* its time */
	struct pepsi_event *socket;    /* of db */
	struct pepsi_event *timer;     /* something is to be done: answers, the next statement */
	int64_t rest_until_ms, rest_ms;
	PGresult *res;                 /* of it, so far */
	int64_t told_ms;               /* when it was last said that something is wrong; 0: never */
	bool told;                     /* and that it is well again is to be said */
};

static void on_socket(void *arg, uint32_t what);

static int64_t now_of(const struct known *k)
{
	return k->host->mono_ms();
}

/* -- asks */

static void free_ask(struct ask *a)
{
	for (int i = 0; i < a->n; i++)
		free(a->values[i]);
	PQclear(a->res);
	free(a);
}

/* The first one has its answer, or will have none. */
static void over(struct known *k, PGresult *res, const char *what)
{
	struct ask *a = TAILQ_FIRST(&k->waiting);
	TAILQ_REMOVE(&k->waiting, a, link);
	k->n_waiting--;
	a->res = res;
	count_add(k->host, k->metric, what, 1);
	TAILQ_INSERT_TAIL(&k->done, a, link);
}

static void soon(struct known *k, int64_t ms)
{
	k->host->event_arm(k->timer, 0, ms);
}

/* loop: from a callback of the loop, not from open() or close(). */
static void deliver(struct known *k, bool loop)
{
	struct ask *a;
	while ((a = TAILQ_FIRST(&k->done))) {
		TAILQ_REMOVE(&k->done, a, link);
		if (loop)
			k->host->in_hand(NULL);
		if (a->fn)
			a->fn(a->arg, a->res);
		free_ask(a);
	}
}

/* -- a database that is not well */

static void tell(struct known *k, struct str why)
{
	int64_t now = now_of(k);
	ptrdiff_t nl = str_chr(why, '\n');
	if (k->told_ms && now - k->told_ms <= TOLD_AGAIN_MS)
		return;
	k->told_ms = now;
	k->told = true;
	if (nl >= 0)
		why.n = (size_t)nl;
	say(k->host, NULL, PEPSI_LOG_WARN, "event=destinations-database reason=%s hint=\"what is known of destinations is neither read nor kept meanwhile\"", log_q(why));
}

static void leave(struct known *k)
{
	k->host->event_free(k->socket);
	k->socket = NULL;
	k->db = NULL;
	PQclear(k->res);
	k->res = NULL;
}

/* Nobody who waits gets an answer, and for a while nobody asks. */
static void rest(struct known *k, const char *why, const char *what)
{
	leave(k);
	k->rest_ms = !k->rest_ms ? KNOWN_REST_FIRST_MS : k->rest_ms * 2 > KNOWN_REST_MOST_MS ? KNOWN_REST_MOST_MS : k->rest_ms * 2;
	k->rest_until_ms = now_of(k) + k->rest_ms;
	tell(k, str_from(why));
	for (; !TAILQ_EMPTY(&k->waiting); what = "away")
		over(k, NULL, what);
}

bool known_rests(const struct known *k)
{
	return now_of(k) < k->rest_until_ms;
}

/* The connection is the host's, which makes another one where this one is at its end. */
static void silent(struct known *k)
{
	if (k->db) {
		shutdown(PQsocket(k->db), SHUT_RDWR);
		PQconsumeInput(k->db);
	}
	rest(k, "no answer in time", "silent");
}

/* -- a statement */

static void watch(struct known *k, bool unsent)
{
	int64_t left = k->until_ms - now_of(k);
	if (k->host->event_arm(k->socket, PEPSI_IO_READ | (unsent ? PEPSI_IO_WRITE : 0), left < 0 ? 0 : left) != PEPSI_OK)
		silent(k);
}

/* The first one has what there is: the last result counts, as with PQexec(). */
static void conclude(struct known *k)
{
	ExecStatusType s = PQresultStatus(k->res);
	bool good = s == PGRES_TUPLES_OK || s == PGRES_COMMAND_OK, broken = PQstatus(k->db) != CONNECTION_OK;
	PGresult *res = good ? k->res : NULL;
	if (!good) {
		tell(k, str_trim(str_from(k->res ? PQresultErrorMessage(k->res) : PQerrorMessage(k->db))));
	} else {
		if (k->told)
			say(k->host, NULL, PEPSI_LOG_INFO, "event=destinations-database-back");
		k->told = false;
		k->rest_ms = 0;
		k->res = NULL;
	}
	leave(k);
	over(k, res, good ? "ok" : broken ? "away" : "failed");
}

/* What the descriptor has. */
static void receive(struct known *k)
{
	PGresult *res;
	bool lost = !PQconsumeInput(k->db);
	int unsent = lost ? -1 : PQflush(k->db);
	while (!PQisBusy(k->db)) {
		if (!(res = PQgetResult(k->db))) {
			conclude(k);
			return;
		}
		PQclear(k->res);
		k->res = res;
	}
	if (lost)
		conclude(k);
	else
		watch(k, unsent > 0);
}

/* Begins the first one. False: not now. */
static bool begin(struct known *k, bool wait)
{
	struct ask *a = TAILQ_FIRST(&k->waiting);
	PGconn *db = k->host->database(k->conf);
	if (db && (!PQconsumeInput(db) || PQstatus(db) != CONNECTION_OK)) /* it ended while nobody asked */
		db = k->host->database(k->conf);
	if (!db) {
		if (wait || now_of(k) - a->asked_ms >= KNOWN_CONNECT_MS)
			rest(k, "no connection", "away");
		else
			soon(k, LOOK_MS);
		return false;
	}
	k->db = db;
	k->until_ms = now_of(k) + KNOWN_ANSWER_MS;
	k->socket = k->host->event_new(k->conf, PQsocket(db), on_socket, k);
	if (!k->socket || PQsetnonblocking(db, 1) || !PQsendQueryParams(db, a->sql, a->n, NULL, (const char *const *)a->values, NULL, NULL, 0)) {
		tell(k, str_trim(str_from(PQerrorMessage(db))));
		leave(k);
		over(k, NULL, "away");
		return true;
	}
	watch(k, PQflush(db) > 0);
	return k->db != NULL;
}

/* What can be begun is. */
static void next(struct known *k)
{
	while (!k->db && !TAILQ_EMPTY(&k->waiting))
		if (!begin(k, false))
			break;
	if (!TAILQ_EMPTY(&k->done))
		soon(k, 0);
}

static void on_socket(void *arg, uint32_t what)
{
	struct known *k = arg;
	k->host->in_hand(NULL);
	if (!(what & (PEPSI_IO_READ | PEPSI_IO_WRITE)))
		silent(k);
	else
		receive(k);
	next(k);
}

static void on_timer(void *arg, uint32_t what)
{
	struct known *k = arg;
	(void)what;
	deliver(k, true);
	k->host->in_hand(NULL);
	next(k);
}

/* -- for everybody */

static struct ask *put(struct known *k, const char *sql, int n, const char *const *values, known_fn fn, void *arg)
{
	struct ask *a = n <= VALUES_MAX && k->n_waiting < KNOWN_WAITING_MAX && !known_rests(k) ? calloc(1, sizeof *a) : NULL;
	if (!a)
		return NULL;
	*a = (struct ask){ .sql = sql, .fn = fn, .arg = arg, .asked_ms = now_of(k) };
	for (; a->n < n; a->n++)
		if (!(a->values[a->n] = str_dupz(str_from(values[a->n])))) {
			free_ask(a);
			return NULL;
		}
	TAILQ_INSERT_TAIL(&k->waiting, a, link);
	k->n_waiting++;
	return a;
}

int known_ask(struct known *k, const char *sql, int n, const char *const *values, known_fn fn, void *arg)
{
	if (!put(k, sql, n, values, fn, arg))
		return -1;
	next(k);
	return 0;
}

/* One step of waiting by ourselves. */
static void step(struct known *k, int64_t until_ms)
{
	if (!k->db) {
		begin(k, true);
		return;
	}
	int64_t now = now_of(k), last = until_ms < k->until_ms ? until_ms : k->until_ms;
	struct pollfd p = { .fd = PQsocket(k->db), .events = PQflush(k->db) > 0 ? POLLIN | POLLOUT : POLLIN };
	if (now >= last)
		silent(k);
	else if (poll(&p, 1, (int)(last - now)) > 0)
		receive(k);
}

PGresult *known_now(struct known *k, const char *sql, int n, const char *const *values, int ms)
{
	int64_t until = now_of(k) + ms;
	struct ask *a = k->db || k->host->database(k->conf) ? put(k, sql, n, values, NULL, NULL) : NULL, *d = NULL;
	while (a && !d) {
		step(k, until);
		TAILQ_FOREACH(d, &k->done, link)
			if (d == a)
				break;
	}
	PGresult *res = a ? a->res : NULL;
	if (a) {
		TAILQ_REMOVE(&k->done, a, link);
		a->res = NULL;
		free_ask(a);
	}
	next(k);
	return res;
}

void known_settle(struct known *k)
{
	while (!TAILQ_EMPTY(&k->waiting) || !TAILQ_EMPTY(&k->done)) {
		while (!TAILQ_EMPTY(&k->waiting))
			step(k, INT64_MAX);
		deliver(k, false);
	}
	k->host->event_arm(k->timer, 0, -1);
}

struct known *known_new(const struct pepsi_host *host, const struct pepsi_conf *conf)
{
	struct known *k = calloc(1, sizeof *k);
	if (!k)
		return NULL;
	k->host = host;
	k->conf = conf;
	TAILQ_INIT(&k->waiting);
	TAILQ_INIT(&k->done);
	k->timer = host->event_new(conf, -1, on_timer, k);
	if (!k->timer) {
		free(k);
		return NULL;
	}
	(void)host->database(conf); /* made here, where nobody has to wait for it */
	k->metric = count_new(host, conf, PEPSI_METRIC_COUNTER, "destination_statements", "result", "ok failed silent away",
	    "Statements about destinations: answered, refused by the database, given up after five seconds, without a connection.");
	return k;
}

void known_free(struct known *k)
{
	if (!k)
		return;
	known_settle(k);
	leave(k);
	k->host->event_free(k->timer);
	free(k);
}

int64_t known_number(const PGresult *res, int row, int column)
{
	int64_t n = 0;
	bool minus = false;
	for (const char *p = PQgetvalue(res, row, column); *p; p++)
		if (*p == '-')
			minus = true;
		else if (*p >= '0' && *p <= '9' && n < INT64_MAX / 10 - 10)
			n = n * 10 + (*p - '0');
	return minus ? -n : n;
}

void known_add(struct buf *b, struct str s)
{
	buf_addz(b, b->n ? ",\"" : "{\"");
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '"' || s.p[i] == '\\')
			buf_addc(b, '\\');
		/* text columns take no NUL, and what is no UTF-8 would cost the whole batch */
		buf_addc(b, (unsigned char)s.p[i] >= ' ' && (unsigned char)s.p[i] < 0x7f ? s.p[i] : '?');
	}
	buf_addc(b, '"');
}

void known_add_number(struct buf *b, int64_t n)
{
	buf_addf(b, "%s%lld", b->n ? "," : "{", (long long)n);
}

const char *known_end(struct buf *b)
{
	buf_addz(b, b->n ? "}" : "{}");
	return b->failed ? NULL : buf_z(b);
}
