/* The dispatcher's calls: claims, requeueing, recovery, statistics. See queue.h. */
#include "store/queue.h"

#include "store/conn_internal.h"

#include <stdlib.h>

/* One call of any kind here: the rows of its result are kept until the commit is known. */
struct queue_call {
	struct call call;
	union {
		store_done_fn done;
		store_claim_fn claim;
		store_due_fn due;
		store_count_fn count;
		store_still_fn still;
		store_blame_fn blame;
		store_lock_fn lock;
		store_expire_fn expire;
	} fn;
	void *arg;
	void *rows;
	size_t n;
	int64_t a;
	struct store_due due;
	bool full;
};

enum { DUE_LOOK = 1000 }; /* rows in one statement, which a claim has to wait for */

static struct queue_call *queue_call_new(void (*done)(struct call *, enum store_rc, const char *),
    void (*result)(struct call *, unsigned, const PGresult *), void *arg)
{
	struct queue_call *q = call_new(sizeof(*q), done);

	if (q) {
		q->call.result = result;
		q->arg = arg;
	}
	return q;
}

/* --- one dispatcher --- */

static void lock_result(struct call *call, unsigned stmt, const PGresult *res)
{
	(void)stmt;
	((struct queue_call *)call)->a = PQntuples(res) == 1 && result_bool(res, 0, 0);
}

static void lock_done(struct call *call, enum store_rc rc, const char *err)
{
	struct queue_call *q = (struct queue_call *)call;

	(void)err;
	q->fn.lock(q->arg, rc, rc == STORE_OK && q->a);
}

void store_lock_dispatcher(struct store_conn *c, store_lock_fn fn, void *arg)
{
	struct queue_call *q = queue_call_new(lock_done, lock_result, arg);

	if (!q) {
		fn(arg, STORE_FULL, false);
		return;
	}
	q->fn.lock = fn;
	call_add(&q->call, STMT_LOCK_DISPATCHER);
	call_send(c, &q->call);
}

/* --- claim --- */

/* The rows and, behind them in the same block, their sender keys and domains. */
static void claim_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct queue_call *q = (struct queue_call *)call;
	size_t n = (size_t)PQntuples(res), octets = 0;
	struct store_claimed *rows;
	char *key;

	(void)stmt;
	for (size_t i = 0; i < n; i++)
		octets += (size_t)PQgetlength(res, (int)i, 2) + 1 + (size_t)PQgetlength(res, (int)i, 3) + 1;
	rows = calloc(1, (n + 1) * sizeof(*rows) + octets);
	free(q->rows); /* of an attempt before */
	q->rows = rows;
	q->n = rows ? n : 0;
	q->full = !rows;
	key = rows ? (char *)(rows + n + 1) : NULL;
	for (size_t i = 0; i < q->n; i++) {
		size_t len = (size_t)PQgetlength(res, (int)i, 2);

		rows[i].id = result_int8(res, (int)i, 0);
		rows[i].stage = (unsigned)result_int4(res, (int)i, 1) - 1;
		rows[i].sender_key = memcpy(key, PQgetvalue(res, (int)i, 2), len);
		key += len + 1; /* zeroed */
		len = (size_t)PQgetlength(res, (int)i, 3);
		rows[i].domain = memcpy(key, PQgetvalue(res, (int)i, 3), len);
		key += len + 1;
	}
}

static void claim_done(struct call *call, enum store_rc rc, const char *err)
{
	struct queue_call *q = (struct queue_call *)call;

	(void)err;
	if (rc == STORE_OK && q->full)
		rc = STORE_FULL; /* claimed and not told: like after a lost answer, a release brings them back */
	q->fn.claim(q->arg, rc, rc == STORE_OK ? q->rows : NULL, rc == STORE_OK ? q->n : 0);
	free(q->rows);
}

void store_claim(struct store_conn *c, const struct store_claim_stage *stages, size_t n, const struct store_claim_book *book,
    size_t n_book, store_claim_fn fn, void *arg)
{
	struct queue_call *q = queue_call_new(claim_done, claim_result, arg);
	struct params *p;

	if (!q) {
		fn(arg, STORE_FULL, NULL, 0);
		return;
	}
	q->fn.claim = fn;
	p = call_add(&q->call, STMT_CLAIM);
#define COLUMN(type, put, count, value)                                                                         \
	params_array(p, type);                                                                                         \
	for (size_t i = 0; i < (count); i++)                                                                           \
		put(p, value);                                                                                         \
	params_array_end(p)
	COLUMN(PARAMS_TEXT, params_el_octets, n, str_from(stages[i].stage));
	COLUMN(PARAMS_INT4, params_el_int4, n, stages[i].limit > 0 ? stages[i].limit : 0);
	COLUMN(PARAMS_INT4, params_el_int4, n, stages[i].fifo > 0 ? stages[i].fifo : 0);
	COLUMN(PARAMS_INT8, params_el_int8, n, (int64_t)stages[i].floor_us);
	COLUMN(PARAMS_INT8, params_el_int8, n, (int64_t)stages[i].cost_us);
	COLUMN(PARAMS_INT4, params_el_int4, n_book, (int32_t)book[i].stage + 1);
	COLUMN(PARAMS_TEXT, params_el_octets, n_book, str_from(book[i].key));
	COLUMN(PARAMS_INT8, params_el_int8, n_book, (int64_t)book[i].time_us);
	COLUMN(PARAMS_INT4, params_el_int4, n, stages[i].domain);
#undef COLUMN
	call_send(c, &q->call);
}

/* --- requeueing --- */

/* The last row is the sum, the others are domains; these and, behind them in the same block, their names. */
static void due_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct queue_call *q = (struct queue_call *)call;
	size_t n = (size_t)PQntuples(res), octets = 0;
	int last = (int)n - 1;
	struct store_due_domain *d;
	char *name;

	(void)stmt;
	for (size_t i = 0; i < n; i++)
		octets += (size_t)PQgetlength(res, (int)i, 1) + 1;
	d = calloc(1, (n + 1) * sizeof(*d) + octets);
	free(q->rows); /* of an attempt before */
	q->rows = d;
	q->n = 0;
	q->full = !d;
	memset(&q->due, 0, sizeof(q->due));
	name = d ? (char *)(d + n + 1) : NULL;
	for (int i = 0; d && i < last; i++) {
		struct str s = result_str(res, i, 1);

		d[q->n].stage = (unsigned)result_int4(res, i, 0) - 1;
		d[q->n].n = result_int4(res, i, 2);
		d[q->n++].domain = s.n ? memcpy(name, s.p, s.n) : name;
		name += s.n + 1; /* zeroed */
	}
	if (last < 0)
		return;
	q->due.requeued = (unsigned)result_int4(res, last, 2);
	q->due.wait_us = result_int8(res, last, 3);
	q->due.now_us = result_time(res, last, 4);
	q->due.looked = !PQgetisnull(res, last, 5);
	q->due.upto_us = result_time(res, last, 5);
	q->due.upto_id = result_int8(res, last, 6);
}

static void due_done(struct call *call, enum store_rc rc, const char *err)
{
	struct queue_call *q = (struct queue_call *)call;

	(void)err;
	q->due.domains = q->rows;
	q->due.n_domains = q->n;
	if (rc == STORE_OK && q->full)
		rc = STORE_FULL; /* what was left behind is met again at the next look from the beginning */
	q->fn.due(q->arg, rc, &q->due);
	free(q->rows);
}

void store_requeue_due(struct store_conn *c, const struct store_due_ask *ask, store_due_fn fn, void *arg)
{
	struct queue_call *q = queue_call_new(due_done, due_result, arg);
	struct params *p;

	if (!q) {
		fn(arg, STORE_FULL, &(const struct store_due){ .requeued = 0 });
		return;
	}
	q->fn.due = fn;
	p = call_add(&q->call, STMT_DUE);
	PARAMS_EACH(p, PARAMS_TEXT, ask->n_stages, params_el_octets(p, str_from(ask->stages[i].stage)));
	PARAMS_EACH(p, PARAMS_INT4, ask->n_stages, params_el_int4(p, ask->stages[i].firsts));
	if (ask->behind) {
		params_time(p, ask->after_us);
		params_int8(p, ask->after_id);
	} else {
		params_null(p);
		params_null(p);
	}
	PARAMS_EACH(p, PARAMS_INT4, ask->n_domains, params_el_int4(p, (int32_t)ask->domains[i].stage + 1));
	PARAMS_EACH(p, PARAMS_TEXT, ask->n_domains, params_el_octets(p, str_from(ask->domains[i].domain)));
	PARAMS_EACH(p, PARAMS_INT4, ask->n_domains, params_el_int4(p, ask->domains[i].n));
	params_int4(p, ask->look ? DUE_LOOK : 0);
	call_send(c, &q->call);
}

/* --- counts of rows --- */

static void count_result(struct call *call, unsigned stmt, const PGresult *res)
{
	(void)stmt;
	if (PQntuples(res) == 1)
		((struct queue_call *)call)->a = result_int4(res, 0, 0);
}

static void count_done(struct call *call, enum store_rc rc, const char *err)
{
	struct queue_call *q = (struct queue_call *)call;

	(void)err;
	q->fn.count(q->arg, rc, rc == STORE_OK ? (unsigned)q->a : 0);
}

void store_release(struct store_conn *c, const int64_t *ids, size_t n, store_count_fn fn, void *arg)
{
	struct queue_call *q = queue_call_new(count_done, count_result, arg);

	if (!q) {
		fn(arg, STORE_FULL, 0);
		return;
	}
	q->fn.count = fn;
	if (n > 0)
		params_int8s(call_add(&q->call, STMT_RELEASE), ids, n);
	else
		call_add(&q->call, STMT_RELEASE_ALL);
	call_send(c, &q->call);
}

void store_due_earlier(struct store_conn *c, int64_t us, store_count_fn fn, void *arg)
{
	struct queue_call *q = queue_call_new(count_done, count_result, arg);

	if (!q) {
		fn(arg, STORE_FULL, 0);
		return;
	}
	q->fn.count = fn;
	params_int8(call_add(&q->call, STMT_DUE_EARLIER), us);
	call_send(c, &q->call);
}

void store_body_gc(struct store_conn *c, store_count_fn fn, void *arg)
{
	struct queue_call *q = queue_call_new(count_done, count_result, arg);

	if (!q) {
		fn(arg, STORE_FULL, 0);
		return;
	}
	q->fn.count = fn;
	call_add(&q->call, STMT_BODY_GC);
	call_send(c, &q->call);
}

void store_body_rotate(struct store_conn *c, store_count_fn fn, void *arg)
{
	struct queue_call *q = queue_call_new(count_done, count_result, arg);

	if (!q) {
		fn(arg, STORE_FULL, 0);
		return;
	}
	q->fn.count = fn;
	call_add(&q->call, STMT_BODY_ROTATE);
	call_send(c, &q->call);
}

void store_rule_sweep(struct store_conn *c, store_count_fn fn, void *arg)
{
	struct queue_call *q = queue_call_new(count_done, count_result, arg);

	if (!q) {
		fn(arg, STORE_FULL, 0);
		return;
	}
	q->fn.count = fn;
	call_add(&q->call, STMT_RULE_SWEEP);
	call_send(c, &q->call);
}

/* --- lifetimes --- */

static struct str keep(char **at, const PGresult *res, int row, int col)
{
	struct str s = result_str(res, row, col);
	char *to = *at;

	if (s.n)
		memcpy(to, s.p, s.n);
	*at += s.n;
	return str_n(to, s.n);
}

/* The rows and, behind them in the same block, their texts. */
static void expire_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct queue_call *q = (struct queue_call *)call;
	size_t n = (size_t)PQntuples(res), octets = 0;
	struct store_expired *rows;
	char *text;

	(void)stmt;
	for (size_t i = 0; i < n; i++)
		for (int col = 1; col < 4; col++)
			octets += (size_t)PQgetlength(res, (int)i, col);
	rows = calloc(1, (n + 1) * sizeof(*rows) + octets);
	free(q->rows); /* of an attempt before */
	q->rows = rows;
	q->n = rows ? n : 0;
	text = rows ? (char *)(rows + n + 1) : NULL;
	for (size_t i = 0; i < q->n; i++) {
		rows[i].id = result_int8(res, (int)i, 0);
		rows[i].stage = keep(&text, res, (int)i, 1);
		rows[i].to = keep(&text, res, (int)i, 2);
		rows[i].error = keep(&text, res, (int)i, 3);
	}
}

static void expire_done(struct call *call, enum store_rc rc, const char *err)
{
	struct queue_call *q = (struct queue_call *)call;

	(void)err;
	q->fn.expire(q->arg, rc, rc == STORE_OK ? q->rows : NULL, rc == STORE_OK ? q->n : 0);
	free(q->rows);
}

void store_expire(struct store_conn *c, const struct store_expire_stage *stages, size_t n, int64_t default_s, unsigned limit, store_expire_fn fn,
    void *arg)
{
	struct queue_call *q = queue_call_new(expire_done, expire_result, arg);
	struct params *p;

	if (!q) {
		fn(arg, STORE_FULL, NULL, 0);
		return;
	}
	q->fn.expire = fn;
	p = call_add(&q->call, STMT_EXPIRE);
	params_array(p, PARAMS_TEXT);
	for (size_t i = 0; i < n; i++)
		params_el_octets(p, str_from(stages[i].stage));
	params_array_end(p);
	params_array(p, PARAMS_INT8);
	for (size_t i = 0; i < n; i++)
		params_el_int8(p, stages[i].life_s);
	params_array_end(p);
	params_array(p, PARAMS_TEXT);
	for (size_t i = 0; i < n; i++)
		params_el_octets(p, str_from(stages[i].bounce));
	params_array_end(p);
	params_array(p, PARAMS_BOOL);
	for (size_t i = 0; i < n; i++)
		params_el_bool(p, stages[i].down);
	params_array_end(p);
	params_int8(p, default_s);
	params_int4(p, (int32_t)limit);
	call_send(c, &q->call);
}

/* --- what a dead worker left --- */

static void still_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct queue_call *q = (struct queue_call *)call;
	size_t n = (size_t)PQntuples(res);
	int64_t *ids = calloc(n + 1, sizeof(*ids));

	(void)stmt;
	free(q->rows);
	q->rows = ids;
	q->n = ids ? n : 0;
	q->full = !ids;
	for (size_t i = 0; i < q->n; i++)
		ids[i] = result_int8(res, (int)i, 0);
}

static void still_done(struct call *call, enum store_rc rc, const char *err)
{
	struct queue_call *q = (struct queue_call *)call;

	(void)err;
	if (rc == STORE_OK && q->full)
		rc = STORE_FULL;
	q->fn.still(q->arg, rc, rc == STORE_OK ? q->rows : NULL, rc == STORE_OK ? q->n : 0);
	free(q->rows);
}

void store_still_running(struct store_conn *c, const char *stage, const int64_t *ids, size_t n, store_still_fn fn, void *arg)
{
	struct queue_call *q = queue_call_new(still_done, still_result, arg);
	struct params *p;

	if (!q) {
		fn(arg, STORE_FULL, NULL, 0);
		return;
	}
	q->fn.still = fn;
	p = call_add(&q->call, STMT_STILL_RUNNING);
	params_int8s(p, ids, n);
	params_text(p, stage);
	call_send(c, &q->call);
}

void store_orphans(struct store_conn *c, const int64_t *known, size_t n, store_still_fn fn, void *arg)
{
	struct queue_call *q = queue_call_new(still_done, still_result, arg);

	if (!q) {
		fn(arg, STORE_FULL, NULL, 0);
		return;
	}
	q->fn.still = fn;
	params_int8s(call_add(&q->call, STMT_ORPHANS), known, n);
	call_send(c, &q->call);
}

static void blame_result(struct call *call, unsigned stmt, const PGresult *res)
{
	(void)stmt;
	if (PQntuples(res) == 1 && !PQgetisnull(res, 0, 0))
		((struct queue_call *)call)->a = result_bool(res, 0, 0) ? STORE_BLAMED_ENDED : STORE_BLAMED;
}

static void blame_done(struct call *call, enum store_rc rc, const char *err)
{
	struct queue_call *q = (struct queue_call *)call;

	(void)err;
	q->fn.blame(q->arg, rc, rc == STORE_OK ? (enum store_blamed)q->a : STORE_BLAMED_NOT);
}

void store_blame(struct store_conn *c, int64_t id, const char *stage, bool overrun, unsigned limit, const char *report_json, store_blame_fn fn, void *arg)
{
	struct queue_call *q = queue_call_new(blame_done, blame_result, arg);
	struct params *p;

	if (!q) {
		fn(arg, STORE_FULL, STORE_BLAMED_NOT);
		return;
	}
	q->fn.blame = fn;
	p = call_add(&q->call, STMT_BLAME);
	params_int8(p, id);
	params_text(p, stage);
	params_bool(p, overrun);
	params_int4(p, limit > INT32_MAX ? INT32_MAX : (int32_t)limit);
	params_text(p, report_json);
	call_send(c, &q->call);
}

/* --- statistics, notification --- */

static void plain_done(struct call *call, enum store_rc rc, const char *err)
{
	struct queue_call *q = (struct queue_call *)call;

	q->fn.done(q->arg, rc, err);
}

void store_flush_stats(struct store_conn *c, const struct store_stage_delta *d, size_t n, int64_t messages_failed,
    int64_t serialization_failures, store_done_fn fn, void *arg)
{
	struct queue_call *q = queue_call_new(plain_done, NULL, arg);
	int64_t passes = 0;
	struct params *p;

	if (!q) {
		fn(arg, STORE_FULL, "out of memory");
		return;
	}
	q->fn.done = fn;
	if (n > 0) {
		p = call_add(&q->call, STMT_FLUSH_STAGES);
		params_array(p, PARAMS_TEXT);
		for (size_t i = 0; i < n; i++)
			params_el_octets(p, str_from(d[i].stage));
		params_array_end(p);
		for (unsigned k = 0; k < 4; k++) {
			params_array(p, PARAMS_INT8);
			for (size_t i = 0; i < n; i++)
				params_el_int8(p, k == 0 ? d[i].messages : k == 1 ? d[i].time_us : k == 2 ? d[i].kills : d[i].crashes);
			params_array_end(p);
		}
		for (size_t i = 0; i < n; i++)
			passes += d[i].messages;
	}
	p = call_add(&q->call, STMT_FLUSH_TOTALS);
	params_int8(p, passes);
	params_int8(p, messages_failed);
	params_int8(p, serialization_failures);
	call_send(c, &q->call);
}

void store_notify(struct store_conn *c, store_done_fn fn, void *arg)
{
	struct queue_call *q = queue_call_new(plain_done, NULL, arg);

	if (!q) {
		fn(arg, STORE_FULL, "out of memory");
		return;
	}
	q->fn.done = fn;
	call_add(&q->call, STMT_NOTIFY);
	call_send(c, &q->call);
}
