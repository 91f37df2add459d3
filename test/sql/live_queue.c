/* The asynchronous queue calls against a real server: admission, claims, requeueing, recovery, statistics, views. */
#include "live.h"

#include "store/worker.h"

#include <pepsi/stage.h>
#include <stdio.h>
#include <stdlib.h>

static struct store_conn *in, *db;

static int setup(void **state)
{
	if (live_setup(state) < 0)
		return -1;
	in = live_open("pepsi-ingress", false);
	db = live_open("pepsi", true);
	return 0;
}

static int teardown(void **state)
{
	store_conn_close(in);
	store_conn_close(db);
	return live_teardown(state);
}

/* Where a callback leaves what it was given. */
struct got {
	bool done;
	enum store_rc rc;
	size_t n;
	char domain[64];
	int64_t ids[2000], wait_us, now_us, total;
	struct store_due due;
	size_t n_left, n_none, n_named;
	enum store_rc rcs[2000];
	unsigned stages[2000];
	struct store_counts counts;
	struct store_changed changed;
	int64_t rule;
	enum store_blamed blamed;
	char text[65536];
};

static void on_ids(void *arg, enum store_rc rc, const int64_t *ids, size_t n)
{
	struct got *g = arg;

	g->rc = rc;
	g->n = n;
	for (size_t i = 0; i < n; i++)
		g->ids[i] = ids[i];
	g->done = true;
}

static void on_admit(void *arg, const enum store_rc *rcs, size_t n)
{
	struct got *g = arg;

	assert_false(g->done);
	memcpy(g->rcs, rcs, n * sizeof(*rcs));
	g->n = n;
	g->done = true;
}

static void on_claim(void *arg, enum store_rc rc, const struct store_claimed *rows, size_t n)
{
	struct got *g = arg;

	g->rc = rc;
	g->n = n;
	for (size_t i = 0; i < n; i++) {
		g->ids[i] = rows[i].id;
		g->stages[i] = rows[i].stage;
		snprintf(g->domain, sizeof g->domain, "%s", rows[i].domain);
	}
	g->done = true;
}

static void on_due(void *arg, enum store_rc rc, const struct store_due *due)
{
	struct got *g = arg;

	g->rc = rc;
	g->n = due->requeued;
	g->due = *due;
	g->n_left = g->n_none = g->n_named = 0;
	for (size_t i = 0; i < due->n_domains; i++) {
		snprintf(g->domain, sizeof g->domain, "%s", due->domains[i].domain);
		g->stages[0] = due->domains[i].stage;
		if (due->domains[i].n < 0)
			g->n_left++;
		if (due->domains[i].n == STORE_DUE_NONE)
			g->n_none++;
		if (due->domains[i].n > 0)
			g->n_named += (size_t)due->domains[i].n;
	}
	g->wait_us = due->wait_us;
	g->now_us = due->now_us;
	g->done = true;
}

static void on_count(void *arg, enum store_rc rc, unsigned n)
{
	struct got *g = arg;

	g->rc = rc;
	g->n = n;
	g->done = true;
}

static void on_blame(void *arg, enum store_rc rc, enum store_blamed how)
{
	struct got *g = arg;

	g->rc = rc;
	g->blamed = how;
	g->done = true;
}

static void on_done(void *arg, enum store_rc rc, const char *err)
{
	struct got *g = arg;

	(void)err;
	g->rc = rc;
	g->done = true;
}

static void on_counts(void *arg, enum store_rc rc, const struct store_counts *counts)
{
	struct got *g = arg;

	g->rc = rc;
	g->counts = *counts;
	g->done = true;
}

static void on_change(void *arg, enum store_rc rc, const struct store_changed *n, const char *err)
{
	struct got *g = arg;

	(void)err;
	g->rc = rc;
	g->changed = *n;
	g->done = true;
}

static void on_rule(void *arg, enum store_rc rc, int64_t n, const char *err)
{
	struct got *g = arg;

	(void)err;
	g->rc = rc;
	g->rule = n;
	g->done = true;
}

static void on_json(void *arg, enum store_rc rc, const char *json, const char *err)
{
	struct got *g = arg;

	(void)err;
	g->rc = rc;
	snprintf(g->text, sizeof(g->text), "%s", json ? json : "");
	g->done = true;
}

static void on_data(void *arg, enum store_rc rc, struct str data, int64_t total)
{
	struct got *g = arg;

	g->rc = rc;
	g->n = data.n;
	g->total = total;
	assert_true(data.n < sizeof(g->text));
	memcpy(g->text, data.p ? data.p : "", data.n);
	g->text[data.n] = '\0';
	g->done = true;
}

static struct got got; /* of the call made last */

#define CALL(call)                                                                                                     \
	do {                                                                                                             \
		memset(&got, 0, sizeof(got));                                                                              \
		call;                                                                                                        \
		assert_false(got.done); /* never from inside */                                                            \
		live_until(&got.done);                                                                                     \
	} while (0)

static void reserve(int64_t *ids, unsigned n)
{
	CALL(store_reserve_ids(in, n, on_ids, &got));
	assert_int_equal(got.rc, STORE_OK);
	assert_int_equal(got.n, n);
	memcpy(ids, got.ids, n * sizeof(*ids));
}

static const struct str one_rcpt[] = { STR_INIT("bob@example.test") };

static struct store_message message(int64_t id, const char *stage)
{
	return (struct store_message){ .id = id, .stage = stage, .received_at = INT64_C(1700000000123456), .mail_from = STR("ann@example.org"),
		.rcpts = one_rcpt, .n_rcpts = 1, .state = STR("{\"origin\":{\"ip\":\"192.0.2.1\"}}"), .headers = STR("Subject: x\r\n"),
		.body = STR("body\r\n") };
}

static void wipe(void)
{
	live_sql("UPDATE pepsi.workqueue SET status = 'pending'");
	live_sql("DELETE FROM pepsi.workqueue");
}

static void test_admit(void **state)
{
	static const struct str three[] = { STR_INIT("a@b"), STR_INIT(""), STR_INIT("\xc3\xa9@d") };
	struct store_message m[3];
	char *big = malloc(3000000);
	int64_t ids[3];

	(void)state;
	wipe();
	reserve(ids, 3);
	for (int i = 0; i < 3; i++)
		m[i] = message(ids[i], "init");
	m[0].running = true;
	m[1].rcpts = three;
	m[1].n_rcpts = 3;
	m[1].headers = STR("\x00\xff\r\n");
	m[1].body = STR("");
	for (size_t i = 0; i < 3000000; i++)
		big[i] = (char)(i * 7);
	m[2].body = str_n(big, 3000000); /* a statement of its own in the same transaction */
	m[2].mail_from = STR_NULL;
	CALL(store_admit(in, m, 3, on_admit, &got));
	assert_int_equal(got.n, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(got.rcs[i], STORE_OK);
	assert_string_equal(live_sql("SELECT string_agg(status || ' ' || mail_from || ' ' || rcpt_to::text || ' ' || coalesce(octet_length(body), size) || ' ' || (w.id = b.id), E'\\n' ORDER BY w.id) FROM pepsi.workqueue w JOIN pepsi.workqueue_body b ON b.id = body_id"),
	    "running ann@example.org {bob@example.test} 6 true\npending ann@example.org {a@b,\"\",\xc3\xa9@d} 0 true\n"
	    "pending  {bob@example.test} 3000000 true");
	assert_string_equal(live_sql("SELECT encode(headers, 'hex') FROM pepsi.workqueue ORDER BY id OFFSET 1 LIMIT 1"), "00ff0d0a");
	assert_string_equal(live_sql("SELECT (extract(epoch FROM received_at) * 1000000)::bigint || ' ' || sender_key FROM pepsi.workqueue LIMIT 1"),
	    "1700000000123456 192.0.2.1");
	assert_int_equal(live_sql_int("SELECT count(DISTINCT xmin::text) FROM pepsi.workqueue"), 1); /* one commit */
	live_check_books();
	free(big);
}

/* Bodies of every size around the limits: inline, cut, in pieces. Each comes out of the worker's load and the operator's view as it
 * went in, and takes part in a batch with small ones; one that fails takes only itself along. */
static void test_admit_large(void **state)
{
	static const size_t sizes[] = { 65535, 65536, 65537, 8120 * 9, 256 * 8120 - 1, 256 * 8120, 256 * 8120 + 1, 512 * 8120, 6000000, 10 };
	enum { N = sizeof(sizes) / sizeof(*sizes) };
	struct store_params params = live_params("pepsi");
	struct store_worker *w = store_worker_new(&params, false);
	struct arena *a = arena_new(64 * 1024 * 1024);
	char *big = malloc(6000000);
	struct store_row *rows;
	struct store_message m[N];
	int64_t ids[N];
	size_t n = 0;

	(void)state;
	wipe();
	reserve(ids, N);
	for (size_t i = 0; i < 6000000; i++)
		big[i] = (char)(i * 131 + i / 8120 + i / 1000000);
	for (size_t i = 0; i < N; i++) {
		m[i] = message(ids[i], "init");
		m[i].body = str_n(big, sizes[i]);
	}
	CALL(store_admit(in, m, N, on_admit, &got));
	for (size_t i = 0; i < N; i++)
		assert_int_equal(got.rcs[i], STORE_OK);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue_body WHERE part IS NOT NULL"), N - 3);
	for (size_t i = 0; i < N; i++) {
		arena_reset(a);
		assert_int_equal(store_worker_load(w, a, &ids[i], 1, PEPSI_LOAD_FULL, &rows, &n), STORE_OK);
		assert_int_equal(n, 1);
		assert_int_equal(rows[0].body.n, sizes[i]);
		assert_memory_equal(rows[0].body.p, big, sizes[i]);
	}
	for (size_t off = 0; off < 6000000; off += 777777) {
		size_t head = m[8].headers.n + 2;

		CALL(store_queue_cat(db, ids[8], (int64_t)(head + off), 50000, on_data, &got));
		assert_int_equal(got.total, 6000000 + head);
		assert_int_equal(got.n, off + 50000 > 6000000 ? 6000000 - off : 50000);
		assert_memory_equal(got.text, big + off, got.n);
	}
	CALL(store_queue_show(db, ids[8], on_json, &got));
	assert_non_null(strstr(got.text, "\"body_size\" : 6000000"));
	live_check_books();

	wipe();
	reserve(ids, N);
	for (size_t i = 0; i < N; i++)
		m[i].id = ids[i];
	m[5].state = STR("[]");
	m[8].mail_from = STR("\xff"); /* in pieces: they go, too */
	CALL(store_admit(in, m, N, on_admit, &got));
	for (size_t i = 0; i < N; i++)
		assert_int_equal(got.rcs[i], i == 5 || i == 8 ? STORE_REFUSED : STORE_OK);
	live_check_books();
	/* the tables they were in are given back */
	wipe();
	live_sql("SELECT pepsi.workqueue_body_rotate(1, 1, '0')");
	CALL(store_body_rotate(db, on_count, &got));
	assert_int_equal(got.rc, STORE_OK);
	assert_int_equal(got.n, 1);
	assert_int_equal(live_sql_int("SELECT sum(pg_relation_size(oid)) FROM pg_class WHERE relname LIKE 'workqueue_chunk__'"), 0);
	store_worker_free(w);
	arena_free(a);
	free(big);
}

static void test_admit_bad_row(void **state)
{
	struct store_message m[40];
	int64_t ids[40];
	long long received = live_sql_int("SELECT sum(received) FROM pepsi.flow_stats");
	static const struct str nul[] = { STR_INIT("a\0b@c") };

	(void)state;
	wipe();
	reserve(ids, 40);
	for (int i = 0; i < 40; i++)
		m[i] = message(ids[i], "init");
	m[7].state = STR("{not json");
	m[8].state = STR("[1]");
	m[9].mail_from = STR("\xff@x");
	m[10].rcpts = nul;
	m[11].stage = "";
	m[39].id = m[38].id;
	CALL(store_admit(in, m, 40, on_admit, &got));
	for (int i = 0; i < 40; i++)
		assert_int_equal(got.rcs[i], (i >= 7 && i <= 11) || i == 39 ? STORE_REFUSED : STORE_OK);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue"), 34);
	assert_int_equal(live_sql_int("SELECT sum(received) FROM pepsi.flow_stats") - received, 34);
	live_check_books();
	/* A batch of one that fails is answered once, too. */
	CALL(store_admit(in, &m[7], 1, on_admit, &got));
	assert_int_equal(got.rcs[0], STORE_REFUSED);
}

static void test_admit_many(void **state)
{
	static struct store_message m[1000];
	static int64_t ids[1000];

	(void)state;
	wipe();
	reserve(ids, 1000);
	for (int i = 0; i < 1000; i++)
		m[i] = message(ids[i], "init");
	CALL(store_admit(in, m, 1000, on_admit, &got));
	for (int i = 0; i < 1000; i++)
		assert_int_equal(got.rcs[i], STORE_OK);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue"), 1000);
	live_check_books();
}

static void add(const char *stage, int64_t *id)
{
	struct store_message m;

	reserve(id, 1);
	m = message(*id, stage);
	CALL(store_admit(in, &m, 1, on_admit, &got));
	assert_int_equal(got.rcs[0], STORE_OK);
}

static void test_claim(void **state)
{
	struct store_claim_stage ask[] = { { .stage = "none", .limit = 5, .fifo = 1, .floor_us = 0, .cost_us = 1 }, { .stage = "b", .limit = 1, .fifo = 1, .floor_us = 0, .cost_us = 1 }, { .stage = "a", .limit = 2, .fifo = 1, .floor_us = 0, .cost_us = 1 } };
	int64_t a[3], b[2];

	(void)state;
	wipe();
	for (int i = 0; i < 3; i++)
		add("a", &a[i]);
	for (int i = 0; i < 2; i++)
		add("b", &b[i]);
	CALL(store_claim(db, ask, 3, NULL, 0, on_claim, &got));
	assert_int_equal(got.rc, STORE_OK);
	assert_int_equal(got.n, 3);
	for (size_t i = 0; i < 3; i++)
		assert_true((got.stages[i] == 1 && got.ids[i] == b[0]) || (got.stages[i] == 2 && (got.ids[i] == a[0] || got.ids[i] == a[1])));
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE status = 'running'"), 3);
	assert_string_equal(got.domain, "");
	ask[1].limit = 0;
	ask[2].domain = true;
	CALL(store_claim(db, ask, 3, NULL, 0, on_claim, &got));
	assert_int_equal(got.n, 1);
	assert_int_equal(got.ids[0], a[2]);
	assert_string_equal(got.domain, strchr(one_rcpt[0].p, '@') + 1);

	/* What a dead worker left, and release. */
	CALL(store_still_running(db, "a", (const int64_t[]){ a[0], b[0], b[1], a[2], 999999999 }, 5, on_ids, &got));
	assert_int_equal(got.n, 2);
	assert_int_equal(got.ids[0], a[0]);
	assert_int_equal(got.ids[1], a[2]);
	CALL(store_release(db, (const int64_t[]){ a[0], b[1], 999999999 }, 3, on_count, &got));
	assert_int_equal(got.n, 1);
	CALL(store_release(db, NULL, 0, on_count, &got));
	assert_int_equal(got.n, 3);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE status = 'pending'"), 5);
	live_check_books();
}

/* Rows of each sender at a stage; sender i is 192.0.2.i. */
static void crowd(unsigned sender, unsigned n)
{
	char sql[400];

	snprintf(sql, sizeof(sql), "INSERT INTO pepsi.workqueue (body_id, stage, mail_from, rcpt_to, headers, state)"
		" SELECT 0, 'a', 'x@y', '{z@y}', '', jsonb_build_object('origin', jsonb_build_object('ip', '192.0.2.%u'))"
		" FROM generate_series(1, %u)", sender, n);
	live_sql(sql);
}

static int64_t taken(unsigned sender)
{
	char sql[200];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM pepsi.workqueue WHERE status = 'running' AND sender_key = '192.0.2.%u'", sender);
	return live_sql_int(sql);
}

static void on_keys(void *arg, enum store_rc rc, const struct store_claimed *rows, size_t n)
{
	struct got *g = arg;

	g->rc = rc;
	g->n = n;
	for (size_t i = 0; i < n; i++)
		assert_memory_equal(rows[i].sender_key, "192.0.2.", 8);
	g->done = true;
}

static void test_fair_claim(void **state)
{
	struct store_claim_stage ask = { .stage = "a", .limit = 30, .fifo = 3, .floor_us = 1000, .cost_us = 100 };
	const struct store_claim_book ahead = { 0, "192.0.2.1", 1000000 };

	(void)state;
	wipe();
	crowd(1, 2000); /* the oldest, and many */
	crowd(2, 2000);
	crowd(3, 5);

	/* nobody has had anything: equal parts, and the three oldest besides; whoever has less leaves the rest to the others */
	CALL(store_claim(db, &ask, 1, NULL, 0, on_keys, &got));
	assert_int_equal(got.n, 30);
	assert_int_equal(taken(3), 5);
	assert_in_range(taken(1), 13, 15); /* three of them for their age */
	assert_in_range(taken(2), 10, 12);

	/* 1 is far ahead: it gets the FIFO share alone */
	live_sql("UPDATE pepsi.workqueue SET status = 'pending'");
	CALL(store_claim(db, &ask, 1, &ahead, 1, on_keys, &got));
	assert_int_equal(taken(3), 5);
	assert_in_range(taken(2), 21, 22); /* at most about twice an equal part at a time */
	assert_in_range(taken(1), 3, 4);

	/* a book for another stage of the call is nobody's here */
	live_sql("UPDATE pepsi.workqueue SET status = 'pending'");
	CALL(store_claim(db, &ask, 1, &(const struct store_claim_book){ 1, "192.0.2.1", 1000000 }, 1, on_keys, &got));
	assert_in_range(taken(1), 13, 15);

	/* alone it gets everything, whatever the book says */
	live_sql("DELETE FROM pepsi.workqueue WHERE sender_key <> '192.0.2.1'");
	live_sql("UPDATE pepsi.workqueue SET status = 'pending'");
	CALL(store_claim(db, &ask, 1, &ahead, 1, on_keys, &got));
	assert_int_equal(got.n, 30);
	wipe();
}

static void test_due(void **state)
{
	const struct store_due_ask look = { .look = true };
	int64_t id[3];

	(void)state;
	wipe();
	CALL(store_requeue_due(db, &look, on_due, &got));
	assert_int_equal(got.n, 0);
	assert_int_equal(got.wait_us, 0);
	for (int i = 0; i < 3; i++)
		add("a", &id[i]);
	live_sql("UPDATE pepsi.workqueue SET status = 'paused', timeout = '2001-01-01' WHERE id = (SELECT min(id) FROM pepsi.workqueue)");
	live_sql("UPDATE pepsi.workqueue SET status = 'paused', timeout = '2100-01-01 00:00:00+00' WHERE id = (SELECT max(id) FROM pepsi.workqueue)");
	CALL(store_requeue_due(db, &look, on_due, &got));
	assert_int_equal(got.rc, STORE_OK);
	assert_int_equal(got.n, 1);
	assert_true(llabs(got.wait_us - (INT64_C(4102444800000000) - got.now_us)) < 1000000);
	assert_true(llabs(got.now_us / 1000000 - live_sql_int("SELECT extract(epoch FROM now())::bigint")) < 60);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE status = 'pending' AND timeout IS NULL"), 2);
	/* the clock was set back: who waits for a time is due so much earlier, who waits for nobody stays */
	live_sql("UPDATE pepsi.workqueue SET status = 'paused', timeout = CASE WHEN id = (SELECT min(id) FROM pepsi.workqueue) THEN NULL ELSE timestamptz 'infinity' END"
		 " WHERE id <> (SELECT max(id) FROM pepsi.workqueue)");
	CALL(store_due_earlier(db, INT64_C(3600000000), on_count, &got));
	assert_int_equal(got.n, 1);
	assert_string_equal(live_sql("SELECT max(timeout) FILTER (WHERE timeout < 'infinity') AT TIME ZONE 'UTC' FROM pepsi.workqueue"), "2099-12-31 23:00:00");
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE timeout = 'infinity' OR timeout IS NULL"), 2);
	CALL(store_requeue_due(db, &look, on_due, &got));
	assert_int_equal(got.n, 0);
	assert_true(got.wait_us > 0);
}

/* Where more is due of a domain than one row, the others stay as they are until they are named; a look goes on behind the last one. */
static void test_due_by_domain(void **state)
{
	const struct store_due_stage stages[] = { { "other", 1 }, { "s", 100 } }, few[] = { { "s", 2 } };
	const struct store_due_domain named[] = { { 1, "d1.test", 4 }, { 1, "d2.test", 0 }, { 1, "d3.test", 100 }, { 1, "none.test", 7 } };
	struct store_due_ask ask = { .stages = stages, .n_stages = 2, .look = true };

	(void)state;
	wipe();
	live_sql("INSERT INTO pepsi.workqueue_body VALUES (-1, '')");
	live_sql("INSERT INTO pepsi.workqueue (id, body_id, stage, status, timeout, mail_from, rcpt_to, headers) SELECT 100 + i, -1, CASE i % 7 WHEN 0 THEN 'free' ELSE 's' END,"
		 " 'paused', now() - interval '1 hour' + i * interval '1 s', 'a@b', ARRAY['x@D' || i % 5 || '.Test'], '' FROM generate_series(1, 1500) i");
	CALL(store_requeue_due(db, &ask, on_due, &got));
	assert_int_equal(got.rc, STORE_OK);
	assert_int_equal(got.n, 142 + 5); /* of 1000: all at stage free, and one each of five domains */
	assert_int_equal(got.n_left, 5);
	assert_int_equal(got.stages[0], 1);
	assert_int_equal(got.wait_us, 1);
	assert_true(got.due.looked);
	assert_int_equal(got.due.upto_id, 1100);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE status = 'pending' AND stage = 's' AND id IN (101, 102, 103, 104, 105)"), 5);
	/* what is named gets as much as was asked for, and no more when the others are looked at */
	ask.behind = true;
	ask.after_us = got.due.upto_us;
	ask.after_id = got.due.upto_id;
	ask.domains = named;
	ask.n_domains = 4;
	CALL(store_requeue_due(db, &ask, on_due, &got));
	assert_int_equal(got.n_named, 4 + 100);
	assert_int_equal(got.n, 104 + 72 + 2); /* 500 are left: all at stage free, and one each of d0 and d4 */
	assert_int_equal(got.n_left, 2);
	assert_int_equal(got.due.upto_id, 1600);
	assert_int_equal(got.wait_us, 0);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE status = 'pending' AND rcpt_to[1] = 'x@D2.Test' AND stage = 's'"), 1);
	/* named ones alone, until less comes than was asked for */
	ask.look = false;
	ask.domains = &(const struct store_due_domain){ 1, "d2.test", 1000 };
	ask.n_domains = 1;
	CALL(store_requeue_due(db, &ask, on_due, &got));
	assert_int_equal(got.n, live_sql_int("SELECT count(*) - 1 FROM generate_series(1, 1500) i WHERE i % 5 = 2 AND i % 7 <> 0"));
	assert_int_equal(got.n_named, got.n);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE status = 'paused' AND rcpt_to[1] = 'x@D2.Test'"), 0);
	/* only two domains get a row, of the others it is told that they got none; with 0 none does */
	live_sql("DELETE FROM pepsi.workqueue");
	live_sql("INSERT INTO pepsi.workqueue (id, body_id, stage, status, timeout, mail_from, rcpt_to, headers) SELECT 100 + i, -1, 's',"
		 " 'paused', now() - interval '1 hour' + i * interval '1 s', 'a@b', ARRAY['x@d' || i % 5 || '.test'], '' FROM generate_series(1, 1500) i");
	ask = (struct store_due_ask){ .stages = few, .n_stages = 1, .look = true };
	CALL(store_requeue_due(db, &ask, on_due, &got));
	assert_int_equal(got.n, 2);
	assert_int_equal(got.n_left, 5);
	assert_int_equal(got.n_none, 3);
	ask.stages = &(const struct store_due_stage){ "s", 0 };
	CALL(store_requeue_due(db, &ask, on_due, &got));
	assert_int_equal(got.n, 0);
	assert_int_equal(got.n_none, 5);
	ask.stages = &(const struct store_due_stage){ "s", -1 };
	CALL(store_requeue_due(db, &ask, on_due, &got));
	assert_int_equal(got.n, 1000);
	assert_int_equal(got.n_left, 0);
	/* where there is no more to look at, one row alone is no crowd */
	live_sql("DELETE FROM pepsi.workqueue WHERE id NOT IN (1598, 1599, 1600, 1595)");
	ask.stages = few;
	CALL(store_requeue_due(db, &ask, on_due, &got));
	assert_int_equal(got.n, 2);
	assert_int_equal(got.n_left, 2);
	assert_int_equal(got.n_none, 1);
	/* those that do not wait for others: a deadline, the end of an operator's hold; and what is held stays so */
	live_sql("DELETE FROM pepsi.workqueue");
	live_sql("INSERT INTO pepsi.workqueue (id, body_id, stage, status, timeout, mail_from, rcpt_to, headers, state) SELECT 100 + i, -1, 's', 'paused',"
		 " CASE WHEN i < 90 THEN now() - i * interval '1 s' END, 'a@b', '{x@d.test}', '', CASE i % 3 WHEN 0 THEN '{}' WHEN 1 THEN '{\"deliver_by\":{\"at\":9,\"mode\":\"R\"}}'"
		 " ELSE '{\"held\":{\"rule\":0,\"since\":9}}' END::jsonb FROM generate_series(1, 120) i");
	ask = (struct store_due_ask){ .stages = stages, .n_stages = 2, .look = true };
	CALL(store_requeue_due(db, &ask, on_due, &got));
	assert_int_equal(got.n, 60 + 1);
	assert_int_equal(got.n_left, 1);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE status = 'paused' AND pepsi.is_held(status, state) AND timeout IS NULL"), 10);
	wipe();
}

static void test_blame(void **state)
{
	const struct store_claim_stage ask = { .stage = "a", .limit = 1, .fifo = 1, .floor_us = 0, .cost_us = 1 };
	int64_t id;

	(void)state;
	wipe();
	add("a", &id);
	for (unsigned i = 1; i <= 3; i++) {
		CALL(store_claim(db, &ask, 1, NULL, 0, on_claim, &got));
		assert_int_equal(got.n, 1);
		CALL(store_blame(db, id, "a", false, 3, "{\"what\":\"signal 11\"}", on_blame, &got));
		assert_int_equal(got.rc, STORE_OK);
		assert_int_equal(got.blamed, i == 3 ? STORE_BLAMED_ENDED : STORE_BLAMED);
	}
	assert_string_equal(live_sql("SELECT status || ' ' || (state ->> 'failed_at' > '2020') || ' ' || (state #>> '{dispatch_error,crashes}')"
		" || pepsi.last_error(state) FROM pepsi.workqueue"), "failed true 3worker crash at stage a: signal 11");
	/* Not running: nothing. */
	CALL(store_blame(db, id, "a", true, 1, NULL, on_blame, &got));
	assert_int_equal(got.rc, STORE_OK);
	assert_int_equal(got.blamed, STORE_BLAMED_NOT);
	live_sql("UPDATE pepsi.workqueue SET status = 'running'");
	CALL(store_blame(db, id, "a", true, 1, NULL, on_blame, &got));
	assert_int_equal(got.blamed, STORE_BLAMED_ENDED);
	assert_string_equal(live_sql("SELECT status FROM pepsi.workqueue"), "timeout");
	/* Running, but at another stage: its worker had moved it on before it died, and it was claimed anew. That pass is not to blame. */
	live_sql("UPDATE pepsi.workqueue SET status = 'running', stage = 'b'");
	CALL(store_blame(db, id, "a", true, 1, NULL, on_blame, &got));
	assert_int_equal(got.rc, STORE_OK);
	assert_int_equal(got.blamed, STORE_BLAMED_NOT);
	assert_string_equal(live_sql("SELECT status FROM pepsi.workqueue"), "running");
	live_sql("UPDATE pepsi.workqueue SET stage = 'a'");
	/* A report that is no JSON is refused, not taken apart. */
	live_sql("UPDATE pepsi.workqueue SET status = 'running'");
	CALL(store_blame(db, id, "a", true, 1, "'; DROP TABLE", on_blame, &got));
	assert_int_equal(got.rc, STORE_REFUSED);
	/* Whatever stands in the book, the blame is booked: a row that cannot be blamed would crash workers for ever. */
	static const char *const books[] = { "{\"crashes\": 1e30}", "{\"crashes\": -1e30}", "{\"crashes\": \"x\"}", "{\"crashes\": [1]}", "7",
		"null", "[{}]", "{\"overruns\": 4294967296, \"crashes\": 0.5}" };
	for (size_t i = 0; i < sizeof(books) / sizeof(*books); i++) {
		char sql[256];
		snprintf(sql, sizeof(sql), "UPDATE pepsi.workqueue SET status = 'running', state = jsonb_build_object('dispatch_error', '%s'::jsonb)",
		    books[i]);
		live_sql(sql);
		CALL(store_blame(db, id, "a", false, 1, "{}", on_blame, &got));
		assert_int_equal(got.rc, STORE_OK);
		assert_int_equal(got.blamed, STORE_BLAMED_ENDED);
	}
}

static void test_views(void **state)
{
	struct store_filter any = { .limit = 0 };
	int64_t id[3];

	(void)state;
	wipe();
	for (int i = 0; i < 3; i++)
		add(i ? "b" : "a", &id[i]);
	live_sql("UPDATE pepsi.workqueue SET status = 'paused', timeout = '2100-01-01', state = state || '{\"last_error\":\"450 \\\"later\\\"\"}' WHERE stage = 'a'");
	CALL(store_counts(db, on_counts, &got));
	assert_int_equal(got.rc, STORE_OK);
	assert_int_equal(got.counts.total, 3);
	assert_int_equal(got.counts.pending, 2);
	assert_int_equal(got.counts.paused, 1);
	assert_int_equal(got.counts.running, 0);
	assert_int_equal(got.counts.accepted, got.counts.delivered + got.counts.bounced + got.counts.discarded + 3);
	CALL(store_queue_list(db, &any, on_json, &got));
	assert_int_equal(got.rc, STORE_OK);
	assert_non_null(strstr(got.text, "\"last_error\" : \"450 \\\"later\\\"\""));
	assert_non_null(strstr(got.text, "\"next_attempt_at\" : \"2100-01-01T00:00:00.000Z\""));
	assert_non_null(strstr(got.text, "\"rcpt_to\" : [\"bob@example.test\"]"));
	CALL(store_queue_list(db, &(struct store_filter){ .sender = "@EXAMPLE.org", .recipient = "Bob@example.test", .stage = "b", .status = "pending",
		.after_id = id[1] }, on_json, &got));
	assert_non_null(strstr(got.text, "\"id\" : "));
	assert_null(strstr(got.text + 10, "}, {"));
	CALL(store_queue_list(db, &(struct store_filter){ .sender = "@ample.org" }, on_json, &got));
	assert_string_equal(got.text, "[]");
	CALL(store_queue_list(db, &(struct store_filter){ .status = "nonsense' OR 1=1" }, on_json, &got));
	assert_string_equal(got.text, "[]");
	CALL(store_queue_show(db, id[0], on_json, &got));
	assert_non_null(strstr(got.text, "\"body_size\" : 6"));
	CALL(store_queue_show(db, 999999999, on_json, &got));
	assert_string_equal(got.text, "null");
	/* The raw message, from every offset and in every length. */
	static const char raw[] = "Subject: x\r\n\r\nbody\r\n";
	for (size_t off = 0; off <= sizeof(raw); off++)
		for (int32_t len = 0; len < 24; len += 5) {
			size_t left = off < sizeof(raw) - 1 ? sizeof(raw) - 1 - off : 0, want = left < (size_t)len ? left : (size_t)len;

			CALL(store_queue_cat(db, id[0], (int64_t)off, len, on_data, &got));
			assert_int_equal(got.total, sizeof(raw) - 1);
			assert_int_equal(got.n, want);
			assert_memory_equal(got.text, raw + (off < sizeof(raw) - 1 ? off : 0), want);
		}
	CALL(store_queue_cat(db, 999999999, 0, 10, on_data, &got));
	assert_int_equal(got.rc, STORE_OK);
	assert_int_equal(got.total, -1);
}

static void test_repairs(void **state)
{
	struct store_filter any = { .limit = 0 }, first;
	int64_t id[4];
	long long gone = live_sql_int("SELECT sum(discarded) FROM pepsi.flow_stats");

	(void)state;
	wipe();
	for (int i = 0; i < 4; i++)
		add("a", &id[i]);
	gone = live_sql_int("SELECT sum(discarded) FROM pepsi.flow_stats");
	live_sql("UPDATE pepsi.workqueue SET status = 'running' WHERE id = (SELECT max(id) FROM pepsi.workqueue)");
	live_sql("UPDATE pepsi.workqueue SET status = 'failed', state = state || '{\"dispatch_error\":{}}' WHERE id = (SELECT min(id) FROM pepsi.workqueue)");
	first = (struct store_filter){ .ids = id, .n_ids = 1 };
	CALL(store_queue_change(db, STORE_ROWS_DELETE, &any, NULL, true, on_change, &got));
	assert_int_equal(got.changed.matched, 4);
	assert_int_equal(got.changed.changed, 3);
	CALL(store_queue_change(db, STORE_ROWS_RETRY, &any, NULL, false, on_change, &got));
	assert_int_equal(got.changed.changed, 1);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE state ?| '{failed_at,dispatch_error}'"), 0);
	CALL(store_queue_change(db, STORE_ROWS_SET_STAGE, &first, "z", false, on_change, &got));
	assert_int_equal(got.changed.changed, 1);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE stage = 'z' AND status = 'pending'"), 1);
	/* held: what waits; retry leaves it alone, set-stage keeps it held, release lets it go past the rules there are */
	CALL(store_queue_change(db, STORE_ROWS_HOLD, &first, "a \"look\"", false, on_change, &got));
	assert_int_equal(got.changed.changed, 1);
	CALL(store_queue_change(db, STORE_ROWS_RETRY, &first, NULL, false, on_change, &got));
	assert_int_equal(got.changed.matched, 1);
	assert_int_equal(got.changed.changed, 0);
	CALL(store_queue_change(db, STORE_ROWS_SET_STAGE, &first, "y", false, on_change, &got));
	CALL(store_queue_list(db, &(struct store_filter){ .status = "held" }, on_json, &got));
	assert_non_null(strstr(got.text, "\"reason\": \"a \\\"look\\\"\""));
	assert_non_null(strstr(got.text, "\"hold\" : \"operator\""));
	CALL(store_counts(db, on_counts, &got));
	assert_int_equal(got.counts.held, 1);
	CALL(store_queue_change(db, STORE_ROWS_RELEASE, &(struct store_filter){ .status = "held" }, NULL, false, on_change, &got));
	assert_int_equal(got.changed.changed, 1);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE stage = 'y' AND status = 'pending' AND (state #>> '{held,released}')::bigint > 0"), 1);
	/* a rule, through its life */
	CALL(store_rule_add(db, "{\"action\":\"hold\",\"recipient\":\"@EXAMPLE.test\",\"made_by\":\"uid:0\",\"for\":3600}", on_rule, &got));
	assert_int_equal(got.rc, STORE_OK);
	int64_t rule = got.rule;
	assert_true(rule > 0);
	CALL(store_rule_apply(db, 0, "{\"action\":\"hold\",\"recipient\":\"@example.test\"}", true, 0, 100, on_change, &got));
	int64_t dry = got.changed.changed;
	CALL(store_rule_apply(db, rule, NULL, false, 0, 100, on_change, &got));
	assert_int_equal(got.changed.changed, live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE status = 'paused' AND state #>> '{held,rule}' IS NOT NULL"));
	assert_true(dry > 0 && got.changed.changed >= 1);
	CALL(store_rule_list(db, "hold", on_json, &got));
	assert_non_null(strstr(got.text, "\"recipient\": \"@example.test\""));
	CALL(store_rule_remove(db, rule, on_rule, &got));
	assert_int_equal(got.rule, 1);
	CALL(store_rule_remove(db, rule, on_rule, &got));
	assert_int_equal(got.rule, 0);
	CALL(store_rule_release(db, rule, 100, on_rule, &got));
	assert_true(got.rule > 0);
	CALL(store_rule_add(db, "{\"action\":\"hold\",\"client\":\"nowhere\"}", on_rule, &got));
	assert_int_equal(got.rc, STORE_REFUSED);
	CALL(store_queue_change(db, STORE_ROWS_DELETE, &any, NULL, false, on_change, &got));
	assert_int_equal(got.changed.changed, 3); /* not the running one */
	assert_int_equal(live_sql_int("SELECT sum(discarded) FROM pepsi.flow_stats") - gone, 3);
	live_check_books();
}

static void test_stats(void **state)
{
	struct store_stage_delta d[] = { { "init", 10, 500, 1, 2 }, { "out", 1, 2, 3, 4 }, { "init", 1, 1, 1, 1 } };

	(void)state;
	for (int i = 0; i < 2; i++) {
		CALL(store_flush_stats(db, d, 3, 5, 6, on_done, &got));
		assert_int_equal(got.rc, STORE_OK);
	}
	CALL(store_flush_stats(db, NULL, 0, 0, 0, on_done, &got));
	assert_string_equal(live_sql("SELECT messages || ' ' || time_us || ' ' || kills || ' ' || crashes FROM pepsi.stage_stats WHERE stage = 'init'"),
	    "22 1002 4 6");
	assert_string_equal(live_sql("SELECT stages || ' ' || messages_failed || ' ' || serialization_failures FROM pepsi.dispatch_stats"), "24 10 12");
	CALL(store_stats(db, on_json, &got));
	assert_non_null(strstr(got.text, "\"messages_failed\" : 10"));
}

/* Running rows nobody knows of. */
static void test_orphans(void **state)
{
	int64_t id[4];

	(void)state;
	wipe();
	for (int i = 0; i < 4; i++)
		add("a", &id[i]);
	live_sql("UPDATE pepsi.workqueue SET status = 'running' WHERE id <> (SELECT max(id) FROM pepsi.workqueue)");
	CALL(store_orphans(db, &id[0], 1, on_ids, &got));
	assert_int_equal(got.rc, STORE_OK);
	assert_int_equal(got.n, 2);
	assert_int_equal(got.ids[0], id[1]);
	assert_int_equal(got.ids[1], id[2]);
	CALL(store_orphans(db, NULL, 0, on_ids, &got));
	assert_int_equal(got.n, 3);
	CALL(store_orphans(db, id, 4, on_ids, &got));
	assert_int_equal(got.n, 0);
}

/* A role that may not gets a refusal, and its connection goes on. */
static void test_not_allowed(void **state)
{
	(void)state;
	CALL(store_release(in, NULL, 0, on_count, &got));
	assert_int_equal(got.rc, STORE_REFUSED);
	CALL(store_reserve_ids(in, 1, on_ids, &got));
	assert_int_equal(got.rc, STORE_OK);
}

static void test_gc(void **state)
{
	(void)state;
	live_sql("INSERT INTO pepsi.workqueue_body SELECT nextval('pepsi.workqueue_id_seq'), 'x' FROM generate_series(1, 3)");
	CALL(store_body_gc(db, on_count, &got));
	assert_int_equal(got.n, 3);
	live_check_books();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_admit), cmocka_unit_test(test_admit_large), cmocka_unit_test(test_admit_bad_row), cmocka_unit_test(test_admit_many),
		cmocka_unit_test(test_claim), cmocka_unit_test(test_fair_claim), cmocka_unit_test(test_due), cmocka_unit_test(test_due_by_domain), cmocka_unit_test(test_blame), cmocka_unit_test(test_views),
		cmocka_unit_test(test_repairs), cmocka_unit_test(test_stats), cmocka_unit_test(test_not_allowed), cmocka_unit_test(test_orphans), cmocka_unit_test(test_gc),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
