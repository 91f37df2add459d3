/* A worker's blocking connection: connect, run a transaction through the pipeline, load rows. See worker.h. */
#include "store/worker_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <pepsi/stage.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

struct store_worker {
	struct store_params params; /* strings owned */
	PGconn *pg;
	struct module_link module;
	store_wait_fn wait; /* NULL: poll() */
	void *wait_arg;
	bool prepared[STMT_N];
	struct store_worker_counts counts;
};

struct params *stmt_list_add(struct stmt_list *l, enum stmt_id id)
{
	static struct params nowhere;

	if (l->n == l->cap) {
		unsigned cap = l->cap ? l->cap * 2 : 8;
		struct call_stmt *more = realloc(l->v, cap * sizeof(*more));

		if (!more) {
			l->failed = true;
			params_init(&nowhere);
			nowhere.failed = true;
			return &nowhere;
		}
		l->v = more;
		l->cap = cap;
	}
	l->v[l->n].id = id;
	params_init(&l->v[l->n].params);
	return &l->v[l->n++].params;
}

void stmt_list_free(struct stmt_list *l)
{
	for (unsigned i = 0; i < l->n; i++)
		params_free(&l->v[i].params);
	free(l->v);
	*l = (struct stmt_list){ .v = NULL };
}

static bool copy(const char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return !from || *to;
}

struct store_worker *store_worker_new(const struct store_params *p, bool durable)
{
	struct store_worker *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->params.async_commit = !durable;
	if (!copy(&w->params.conninfo, p->conninfo) || !copy(&w->params.role, p->role) ||
	    !copy(&w->params.set_role, p->set_role) || !copy(&w->params.name, p->name)) {
		store_worker_free(w);
		return NULL;
	}
	return w;
}

static void drop(struct store_worker *w)
{
	if (w->pg)
		PQfinish(w->pg);
	w->pg = NULL;
	memset(w->prepared, 0, sizeof(w->prepared));
}

void store_worker_free(struct store_worker *w)
{
	if (!w)
		return;
	drop(w);
	module_link_done(&w->module);
	free((char *)w->params.conninfo);
	free((char *)w->params.role);
	free((char *)w->params.set_role);
	free((char *)w->params.name);
	free(w);
}

uint64_t store_worker_retries(const struct store_worker *w)
{
	return w->counts.retries;
}

struct store_worker_counts store_worker_count(const struct store_worker *w)
{
	return w->counts;
}

struct pg_conn *store_worker_module_db(struct store_worker *w)
{
	return module_link_get(&w->module, &w->params);
}

void store_worker_live(struct store_worker *w, struct event_base *base, store_wait_fn wait, void *arg)
{
	w->wait = base ? wait : NULL;
	w->wait_arg = arg;
	module_link_live(&w->module, base);
}

/* --- waiting, connecting --- */

/* fd can be read, or written where that is wanted: 1; 0: the time is over. */
static int wait_fd(const struct worker_wait *by, int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n;

	if (by->fn)
		return by->fn(by->arg, fd, events & POLLIN, events & POLLOUT, ms);
	do
		n = poll(&p, 1, ms);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

int worker_await(const struct worker_wait *by, PGconn *pg)
{
	for (;;) {
		int unsent = PQflush(pg);

		if (unsent < 0)
			return PQconsumeInput(pg) && !PQisBusy(pg) ? 0 : -1; /* the server's last words may be there */
		if (!PQisBusy(pg))
			return 0;
		if (!wait_fd(by, PQsocket(pg), unsent > 0 ? POLLIN | POLLOUT : POLLIN, STORE_ANSWER_S * 1000))
			return -1;
		if (!PQconsumeInput(pg) && PQisBusy(pg))
			return -1;
	}
}

/* libpq's own waiting knows a time for each of several hosts; step by step there is one for all, as the daemon's connections have it. */
static PGconn *connect_by(const struct worker_wait *by, const struct connect_words *words, const char **ret_why)
{
	int64_t until = clock_mono_us() + STORE_CONNECT_S * US_PER_S;
	PGconn *pg = by->fn ? PQconnectStartParams(words->keys, words->values, 1) : PQconnectdbParams(words->keys, words->values, 1);
	PostgresPollingStatusType s = PGRES_POLLING_WRITING;

	while (by->fn && pg && PQstatus(pg) != CONNECTION_BAD && s != PGRES_POLLING_OK && s != PGRES_POLLING_FAILED) {
		int64_t left = until - clock_mono_us();

		if (left <= 0 || !wait_fd(by, PQsocket(pg), s == PGRES_POLLING_READING ? POLLIN : POLLOUT, (int)(left / 1000) + 1)) {
			*ret_why = "the database did not answer in time while connecting";
			break;
		}
		s = PQconnectPoll(pg);
	}
	return pg;
}

PGconn *worker_connect(const struct worker_wait *by, const struct store_params *params, char *err, size_t err_size)
{
	const char *values[2] = CONNECT_SETUP_PARAMS(params), *why = NULL;
	struct connect_words words;
	PGresult *res = NULL;
	PGconn *pg;

	connect_words_set(&words, params, NULL);
	pg = connect_by(by, &words, &why);
	if (!pg || why || PQstatus(pg) != CONNECTION_OK) {
		connect_one_line(err, err_size, why ? why : pg ? PQerrorMessage(pg) : "out of memory");
		PQfinish(pg);
		return NULL;
	}
	PQsetNoticeReceiver(pg, connect_notice, NULL);
	if (PQsendQueryParams(pg, connect_setup_sql, 2, NULL, values, NULL, NULL, 1) && worker_await(by, pg) == 0)
		res = PQgetResult(pg);
	if (PQresultStatus(res) != PGRES_TUPLES_OK || worker_await(by, pg) || PQgetResult(pg)) {
		if (res && PQresultStatus(res) != PGRES_TUPLES_OK)
			connect_result_error(err, err_size, res);
		else
			connect_one_line(err, err_size, *PQerrorMessage(pg) ? PQerrorMessage(pg) : "the database does not answer");
		PQclear(res);
		PQfinish(pg);
		return NULL;
	}
	PQclear(res);
	return pg;
}

/* --- one transaction --- */

static int send_all(struct store_worker *w, const struct stmt_list *l, unsigned *ret_prepares)
{
	*ret_prepares = 0;
	/* PREPAREs first, each with a sync of its own: an error of one is told by its sync, not by those behind. */
	for (unsigned i = 0; i < l->n; i++) {
		enum stmt_id id = l->v[i].id;

		if (w->prepared[id])
			continue;
		if (!PQsendPrepare(w->pg, stmts[id].name, stmts[id].sql, 0, NULL) || !PQpipelineSync(w->pg))
			return -1;
		w->prepared[id] = true;
		++*ret_prepares;
	}
	for (unsigned i = 0; i < l->n; i++) {
		struct params_libpq q;

		if (!params_get(&l->v[i].params, &q) ||
		    !PQsendQueryPrepared(w->pg, stmts[l->v[i].id].name, (int)l->v[i].params.n, q.values, q.lengths, q.formats, 1))
			return -1;
		if (l->v[i].id >= STMT_LOAD_METADATA && l->v[i].id <= STMT_LOAD_FULL)
			w->counts.selects++;
		else if (l->v[i].id != STMT_OVERLAY_LOAD)
			w->counts.writes++;
	}
	w->counts.trips++;
	return PQpipelineSync(w->pg) == 1 ? 0 : -1;
}

static bool list_ok(const struct stmt_list *l)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->v[i].params.failed || l->v[i].params.b.failed)
			return false;
	return !l->failed;
}

enum store_rc worker_run(struct store_worker *w, const struct stmt_list *l, worker_result_fn fn, void *arg, char *err,
    size_t err_size, bool *again)
{
	enum store_rc rc = STORE_OK;
	const struct worker_wait by = { w->wait, w->wait_arg };
	unsigned syncs, at = 0, empty = 0;
	bool lost = false;

	*again = false;
	err[0] = '\0';
	if (!list_ok(l)) {
		connect_one_line(err, err_size, "out of memory, or more than a statement can hold");
		return STORE_FULL;
	}
	if (!w->pg) {
		w->pg = worker_connect(&by, &w->params, err, err_size);
		if (!w->pg)
			return STORE_AWAY;
		if (PQsetnonblocking(w->pg, 1) < 0 || !PQenterPipelineMode(w->pg))
			goto gone;
	}
	if (send_all(w, l, &syncs) < 0)
		goto gone;
	for (syncs++; syncs > 0;) {
		PGresult *res;
		const char *state;

		if (worker_await(&by, w->pg) < 0)
			goto gone;
		res = PQgetResult(w->pg);
		if (!res) {
			if (++empty > 2)
				goto gone;
			continue;
		}
		empty = 0;
		switch (PQresultStatus(res)) {
		case PGRES_PIPELINE_SYNC:
			syncs--;
			break;
		case PGRES_COMMAND_OK:
		case PGRES_TUPLES_OK:
			if (syncs == 1 && rc == STORE_OK) { /* before that: PREPAREs */
				if (fn)
					fn(arg, at, res);
				at++;
			}
			break;
		case PGRES_PIPELINE_ABORTED:
			break;
		default:
			if (rc != STORE_OK)
				break;
			state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
			rc = connect_rc(state);
			*again = state && !strncmp(state, "40", 2);
			lost = connect_rc_session_lost(state) || syncs > 1; /* a refused PREPARE: begin anew next time */
			connect_result_error(err, err_size, res);
		}
		PQclear(res);
		if (PQstatus(w->pg) != CONNECTION_OK)
			goto gone;
	}
	if (lost)
		drop(w);
	return rc;
gone:
	if (!err[0])
		connect_one_line(err, err_size, *PQerrorMessage(w->pg) ? PQerrorMessage(w->pg) : "the database does not answer");
	drop(w);
	return rc == STORE_OK || rc == STORE_AWAY ? STORE_AWAY : rc;
}

void worker_retry_wait(struct store_worker *w, unsigned tries)
{
	struct timespec ts = { .tv_sec = 0 };
	uint32_t r = 0;

	w->counts.retries++;
	(void)!getrandom(&r, sizeof(r), GRND_NONBLOCK);
	ts.tv_nsec = (long)(r % (2000000u << (tries < 5 ? tries : 5)));
	nanosleep(&ts, NULL);
}

void worker_put_off(struct store_worker *w, uint64_t n)
{
	w->counts.put_off += n;
}

/* --- loading --- */

struct load {
	struct arena *a;
	uint32_t class;
	struct store_row *rows;
	size_t n;
	bool full;
};

static bool load_text(struct load *ld, const PGresult *res, int row, int col, struct str *ret)
{
	*ret = arena_str(ld->a, result_str(res, row, col));
	return ret->p != NULL;
}

static bool load_rcpts(struct load *ld, const PGresult *res, int row, int col, struct store_row *r)
{
	struct str rest, one;
	ptrdiff_t n = result_texts_begin(result_str(res, row, col), &rest);

	r->rcpts = n >= 0 ? arena_calloc(ld->a, (size_t)n + 1, sizeof(*r->rcpts)) : NULL;
	if (!r->rcpts)
		return false;
	for (; r->n_rcpts < (size_t)n; r->n_rcpts++) {
		if (!result_texts_next(&rest, &one))
			return false;
		r->rcpts[r->n_rcpts] = arena_str(ld->a, one);
		if (!r->rcpts[r->n_rcpts].p)
			return false;
	}
	return true;
}

static void load_result(void *arg, unsigned stmt, const PGresult *res)
{
	struct load *ld = arg;
	int n = PQntuples(res);

	(void)stmt;
	ld->n = 0;
	ld->rows = arena_calloc(ld->a, (size_t)n + 1, sizeof(*ld->rows));
	ld->full = !ld->rows;
	for (int i = 0; i < n && !ld->full; i++) {
		struct store_row *r = &ld->rows[ld->n];

		r->id = result_int8(res, i, 0);
		r->body_id = result_int8(res, i, 1);
		r->received_at = result_time(res, i, 2);
		if (!load_text(ld, res, i, 3, &r->stage) || !load_text(ld, res, i, 4, &r->status) ||
		    !load_text(ld, res, i, 5, &r->mail_from) || !load_rcpts(ld, res, i, 6, r) ||
		    !load_text(ld, res, i, 7, &r->state) || (ld->class >= PEPSI_LOAD_HEADERS && !load_text(ld, res, i, 8, &r->headers)))
			ld->full = true;
		if (ld->class >= PEPSI_LOAD_FULL && PQgetisnull(res, i, 9)) {
			/* Never to be delivered without its body: as if it were not there, and told. */
			log_error(NULL, "body-missing id=%lld body_id=%lld", (long long)r->id, (long long)r->body_id);
			memset(r, 0, sizeof(*r));
			continue;
		}
		if (ld->class >= PEPSI_LOAD_FULL && !load_text(ld, res, i, 9, &r->body))
			ld->full = true;
		ld->n++;
	}
}

enum store_rc store_worker_load(struct store_worker *w, struct arena *a, const int64_t *ids, size_t n, uint32_t class,
    struct store_row **ret_rows, size_t *ret_n)
{
	struct load ld = { .a = a, .class = class };
	struct stmt_list l = { .v = NULL };
	char err[STORE_ERR_MAX];
	enum store_rc rc = STORE_AWAY;
	bool again = false;

	params_int8s(stmt_list_add(&l, class >= PEPSI_LOAD_FULL ? STMT_LOAD_FULL :
		class == PEPSI_LOAD_HEADERS ? STMT_LOAD_HEADERS : STMT_LOAD_METADATA), ids, n);
	for (unsigned tries = 0; tries < STORE_TRIES; tries++) {
		bool had = w->pg != NULL;

		rc = worker_run(w, &l, load_result, &ld, err, sizeof(err), &again);
		if (again)
			worker_retry_wait(w, tries);
		else if (rc != STORE_AWAY || !had) /* a connection that died unnoticed: reading may simply be tried anew */
			break;
	}
	stmt_list_free(&l);
	if (rc == STORE_OK && ld.full)
		rc = STORE_FULL;
	if (rc != STORE_OK) {
		log_warn(NULL, "load-failed rows=%zu err=%s", n, ld.full ? "\"too large\"" : log_qz(err));
		return rc;
	}
	*ret_rows = ld.rows;
	*ret_n = ld.n;
	return STORE_OK;
}
