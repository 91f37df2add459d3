/* The worker's blocking calls against a real server: loading by class, every kind of outcome, folded batches, bad passes among good
 * ones, clones at most once, serialization failures. */
#include "live.h"

#include "base/clock.h"
#include "store/worker.h"

#include <arpa/inet.h>
#include <pepsi/stage.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct store_worker *w;
static struct arena *arena;

static int setup(void **state)
{
	struct store_params p = live_params("pepsi");

	if (live_setup(state) < 0)
		return -1;
	w = store_worker_new(&p, false);
	arena = arena_new(64 * 1024 * 1024);
	return w && arena ? 0 : -1;
}

static int teardown(void **state)
{
	store_worker_free(w);
	arena_free(arena);
	return live_teardown(state);
}

/* A running row with three recipients at stage "s". */
static int64_t add(void)
{
	return live_sql_int("SELECT pepsi.workqueue_add(nextval('pepsi.workqueue_id_seq'), 's', true, '2020-01-01 00:00:00+00', 'from@x',"
		" '{r0@x,r1@x,r2@x}', '{\"k\":1,\"dispatch_error\":{\"crashes\":2},\"dsn\":{\"ret\":\"HDRS\",\"rcpt\":[{\"n\":0},{\"n\":1},{\"n\":2}]}}', 'H: 1\r\n', 'body')");
}

static void wipe(void)
{
	live_sql("DELETE FROM pepsi.workqueue");
	arena_reset(arena);
}

static const char *row(int64_t id, const char *what)
{
	char sql[400];

	snprintf(sql, sizeof(sql), "SELECT coalesce((%s)::text, 'null') FROM pepsi.workqueue WHERE id = %lld", what, (long long)id);
	return live_sql(sql);
}

static long long flow(const char *column)
{
	char sql[100];

	snprintf(sql, sizeof(sql), "SELECT sum(%s) FROM pepsi.flow_stats", column);
	return live_sql_int(sql);
}

static struct store_pass pass_of(int64_t id, const struct store_op *ops, size_t n)
{
	return (struct store_pass){ .id = id, .ops = ops, .n_ops = n, .rc = STORE_AWAY };
}

static enum store_rc commit_one(int64_t id, const struct store_op *ops, size_t n)
{
	struct store_pass p = pass_of(id, ops, n);

	assert_int_equal(store_worker_commit(w, &p, 1), STORE_OK);
	return p.rc;
}

static void test_load(void **state)
{
	int64_t ids[3];
	struct store_row *rows;
	size_t n;

	(void)state;
	wipe();
	ids[0] = add();
	ids[1] = 999999999;
	ids[2] = add();
	assert_int_equal(store_worker_load(w, arena, ids, 3, PEPSI_LOAD_METADATA, &rows, &n), STORE_OK);
	assert_int_equal(n, 2);
	assert_int_equal(rows[0].n_rcpts, 3);
	assert_string_equal(rows[0].rcpts[2].p, "r2@x");
	assert_string_equal(rows[0].status.p, "running");
	assert_int_equal(rows[0].received_at, INT64_C(1577836800000000));
	assert_null(rows[0].headers.p);
	assert_int_equal(store_worker_load(w, arena, ids, 3, PEPSI_LOAD_HEADERS, &rows, &n), STORE_OK);
	assert_string_equal(rows[0].headers.p, "H: 1\r\n");
	assert_null(rows[0].body.p);
	assert_int_equal(store_worker_load(w, arena, ids, 3, PEPSI_LOAD_FULL, &rows, &n), STORE_OK);
	assert_string_equal(rows[1].body.p, "body");
	assert_int_equal(rows[1].body_id, rows[1].id);
	/* No room: said so, not cut. */
	struct arena *small = arena_new(64);
	assert_int_equal(store_worker_load(w, small, ids, 3, PEPSI_LOAD_FULL, &rows, &n), STORE_FULL);
	arena_free(small);
	assert_int_equal(store_worker_load(w, arena, ids, 0, PEPSI_LOAD_FULL, &rows, &n), STORE_OK);
	assert_int_equal(n, 0);
}

/* Many passes of every kind that can be folded, in one transaction. */
static void test_folded(void **state)
{
	enum { N = 30 };
	int64_t ids[N];
	struct store_op ops[N];
	struct store_pass passes[N];
	long long delivered = flow("delivered"), discarded = flow("discarded"), bounced = flow("bounced");

	(void)state;
	wipe();
	discarded = flow("discarded");
	for (int i = 0; i < N; i++) {
		ids[i] = add();
		ops[i] = (struct store_op){ .kind = i % 6 < 3 ? STORE_OP_FINISH : i % 6 == 5 ? STORE_OP_PAUSE : STORE_OP_MOVE, .id = ids[i] };
		ops[i].outcome = i % 6 == 0 ? "delivered" : i % 6 == 1 ? "discarded" : "bounced";
		ops[i].stage = i % 6 == 3 ? "next" : NULL;
		if (i % 6 == 4) {
			ops[i].touched = STORE_STATE_MERGE;
			ops[i].state = "{\"k\":null,\"new\":\"v\"}";
			ops[i].status = STORE_FAILED;
		}
		if (i % 6 == 5) {
			ops[i].pause_s = 60;
			ops[i].state = i % 12 == 5 ? "{\"attempts\":1}" : NULL;
		}
		passes[i] = pass_of(ids[i], &ops[i], 1);
	}
	assert_int_equal(store_worker_commit(w, passes, N), STORE_OK);
	for (int i = 0; i < N; i++)
		assert_int_equal(passes[i].rc, STORE_OK);
	assert_int_equal(flow("delivered") - delivered, 5);
	assert_int_equal(flow("discarded") - discarded, 5);
	assert_int_equal(flow("bounced") - bounced, 5);
	assert_string_equal(row(ids[3], "stage || ' ' || status || ' ' || (state ->> 'k')"), "next pending 1");
	assert_string_equal(row(ids[4], "stage || ' ' || status || ' ' || (state ? 'k') || (state ->> 'new') || (state ? 'failed_at')"), "s failed falsevtrue");
	assert_string_equal(row(ids[5], "status || ' ' || (timeout BETWEEN now() + '50 s' AND now() + '60 s') || (state ->> 'attempts')"), "paused true1");
	assert_string_equal(row(ids[11], "status || ' ' || (state ? 'attempts')"), "paused false");
	assert_int_equal(live_sql_int("SELECT count(DISTINCT xmin::text) FROM pepsi.workqueue WHERE status <> 'failed'"), 1);
	live_check_books();
	/* Again: nobody is running any more, so nothing happens and nothing is wrong. */
	assert_int_equal(store_worker_commit(w, passes, N), STORE_OK);
	for (int i = 0; i < N; i++)
		assert_int_equal(passes[i].rc, STORE_OK);
	assert_int_equal(flow("delivered") - delivered, 5);
	live_check_books();
}

/* Sender and recipients of many rows in one statement; ragged lists, and rows that keep theirs. */
static void test_folded_envelope(void **state)
{
	enum { N = 5 };
	static const struct str lists[] = { STR_INIT("n1@x"), STR_INIT("n2@x"), STR_INIT("n3@x") };
	int64_t ids[N];
	struct store_op ops[N];
	struct store_pass passes[N];
	struct store_worker_counts before, after;

	(void)state;
	wipe();
	for (int i = 0; i < N; i++) {
		ids[i] = add();
		ops[i] = (struct store_op){ .kind = STORE_OP_MOVE, .id = ids[i], .stage = "t", .from_stage = "s",
			.touched = i % 2 ? STORE_SET_RCPT_TO : STORE_SET_MAIL_FROM, .mail_from = i ? STR("new@x") : STR(""), .rcpts = lists, .n_rcpts = (size_t)i };
		passes[i] = pass_of(ids[i], &ops[i], 1);
	}
	ops[4].touched |= STORE_SET_RCPT_TO | STORE_STATE_MERGE;
	ops[4].n_rcpts = 2;
	ops[4].state = "{\"k\":2}";
	before = store_worker_count(w);
	assert_int_equal(store_worker_commit(w, passes, N), STORE_OK);
	after = store_worker_count(w);
	assert_int_equal(after.writes - before.writes, 1);
	assert_int_equal(after.trips - before.trips, 1);
	assert_string_equal(row(ids[0], "stage || status || ' [' || mail_from || '] ' || array_to_string(rcpt_to, ',')"), "tpending [] r0@x,r1@x,r2@x");
	assert_string_equal(row(ids[1], "mail_from || ' ' || array_to_string(rcpt_to, ',')"), "from@x n1@x");
	assert_string_equal(row(ids[2], "mail_from || ' ' || array_to_string(rcpt_to, ',')"), "new@x r0@x,r1@x,r2@x");
	assert_string_equal(row(ids[3], "mail_from || ' ' || array_to_string(rcpt_to, ',')"), "from@x n1@x,n2@x,n3@x");
	assert_string_equal(row(ids[4], "mail_from || ' ' || array_to_string(rcpt_to, ',') || (state ->> 'k')"), "new@x n1@x,n2@x2");
	live_check_books();
}

/* What a commit that is tried again may not do to a row which is running already at its next stage. */
static void test_from_stage(void **state)
{
	const struct str to[] = { STR_INIT("side@x") };
	struct store_clone c = { .stage = "s2", .indices = (const uint32_t[]){ 1 }, .n = 1, .token = "t-from" };
	int64_t id;

	(void)state;
	wipe();
	id = add();
	const struct store_op stale[] = { { .kind = STORE_OP_MOVE, .stage = "x" }, { .kind = STORE_OP_MOVE, .stage = "x", .touched = STORE_STATE_MERGE, .state = "{\"k\":9}" },
		{ .kind = STORE_OP_MOVE, .stage = "x", .touched = STORE_SET_MAIL_FROM, .mail_from = STR("y@x") },
		{ .kind = STORE_OP_MOVE, .stage = "x", .touched = STORE_SET_HEADERS, .headers = STR("H: 2\r\n") },
		{ .kind = STORE_OP_MOVE, .stage = "x", .touched = STORE_SET_BODY, .body = STR("other") },
		{ .kind = STORE_OP_FINISH, .outcome = "delivered" }, { .kind = STORE_OP_FINISH, .outcome = "delivered", .clones = &c, .n_clones = 1 },
		{ .kind = STORE_OP_PAUSE, .pause_s = 5 }, { .kind = STORE_OP_PAUSE, .pause_s = 5, .clones = &c, .n_clones = 1 },
		{ .kind = STORE_OP_SPLIT, .clones = &c, .n_clones = 1 },
		{ .kind = STORE_OP_INJECT, .stage = "s2", .mail_from = STR(""), .rcpts = to, .n_rcpts = 1, .headers = STR("H: 1\r\n"), .body = STR("b") } };
	for (size_t i = 0; i < sizeof(stale) / sizeof(*stale); i++) {
		struct store_op op = stale[i];

		op.id = id;
		op.from_stage = "before";
		assert_int_equal(commit_one(id, &op, 1), STORE_OK);
		if (strcmp(row(id, "stage || status || mail_from || cardinality(rcpt_to) || (state ->> 'k')"), "srunningfrom@x31") != 0 ||
		    live_sql_int("SELECT count(*) FROM pepsi.workqueue") != 1)
			fail_msg("case %zu: a stale commit did something", i);
	}
	/* At its stage, spelled in another case; through another stage, with clones of the row as it is there. */
	const struct store_op ops[] = { { .kind = STORE_OP_FINISH, .id = id, .from_stage = "mid", .outcome = "discarded", .clones = &c, .n_clones = 1 },
		{ .kind = STORE_OP_MOVE, .id = id, .from_stage = "S", .stage = "mid", .status = STORE_RUNNING, .touched = STORE_SET_MAIL_FROM | STORE_STATE_MERGE,
			.mail_from = STR("mid@x"), .state = "{\"k\":7}" } };
	assert_int_equal(commit_one(id, ops, 2), STORE_OK);
	assert_string_equal(live_sql("SELECT stage || status || mail_from || (state ->> 'k') FROM pepsi.workqueue"), "s2pendingmid@x7");
	live_check_books();
}

/* What else waits for the destination goes with the pause, in one transaction; and what cannot be said of others is no fault of the message's. */
static void test_put_off(void **state)
{
	struct store_put_off o = { .stage = "s", .domain = STR("x"), .first_s = 30, .each_ms = 100, .error = "x: not now", .life_s = INT32_MAX };
	struct store_op ops[3];
	struct store_pass p[3];
	uint64_t before = store_worker_count(w).put_off;
	int64_t id, other;

	(void)state;
	wipe();
	for (int i = 0; i < 3; i++) {
		ops[i] = (struct store_op){ .kind = STORE_OP_PAUSE, .id = add(), .pause_s = 5 };
		p[i] = (struct store_pass){ .id = ops[i].id, .ops = &ops[i], .n_ops = 1, .put_off = i == 1 ? NULL : &o };
	}
	id = add();
	other = live_sql_int("SELECT pepsi.workqueue_add(nextval('pepsi.workqueue_id_seq'), 's', false, now(), 'from@x', '{a@y}', '{}', 'H: 1\r\n', 'b')");
	live_sql("UPDATE pepsi.workqueue SET status = 'pending' WHERE status = 'running' AND id = (SELECT max(id) FROM pepsi.workqueue WHERE rcpt_to[1] = 'r0@x')");
	assert_int_equal(store_worker_commit(w, p, 3), STORE_OK);
	for (int i = 0; i < 3; i++)
		assert_int_equal(p[i].rc, STORE_OK);
	assert_string_equal(row(id, "status || ' ' || (state ->> 'last_error') || (timeout BETWEEN now() + '28 s' AND now() + '31 s')"), "paused x: not nowtrue");
	assert_string_equal(row(other, "status"), "pending");
	assert_string_equal(row(ops[0].id, "status || ' ' || (timeout <= now() + '5 s')"), "paused true");
	assert_int_equal(store_worker_count(w).put_off - before, 1);
	/* text that the database does not take */
	o.error = "\xff\xfe";
	live_sql("UPDATE pepsi.workqueue SET status = CASE WHEN id = (SELECT min(id) FROM pepsi.workqueue) THEN 'running' ELSE 'pending' END::pepsi.workqueue_status");
	assert_int_equal(store_worker_commit(w, p, 1), STORE_OK);
	assert_int_equal(p[0].rc, STORE_OK);
	assert_string_equal(row(ops[0].id, "status"), "paused");
	assert_string_equal(row(id, "status"), "pending");
	live_check_books();
}

static void test_content(void **state)
{
	const struct str rcpts[] = { STR_INIT("n1@x"), STR_INIT("n2@x") };
	struct store_clone sibling = { .stage = "s", .indices = (const uint32_t[]){ 1 }, .n = 1, .token = "t-content" };
	int64_t id, twin;

	(void)state;
	wipe();
	id = add();
	/* A sibling that shares the body must not see the rewrite. */
	assert_int_equal(commit_one(id, (const struct store_op[]){ { .kind = STORE_OP_SPLIT, .id = id, .clones = &sibling, .n_clones = 1 },
		{ .kind = STORE_OP_MOVE, .id = id, .stage = "t", .touched = STORE_SET_BODY | STORE_SET_HEADERS | STORE_SET_MAIL_FROM | STORE_SET_RCPT_TO |
		STORE_STATE_MERGE, .headers = STR("N: 2\r\n"), .body = STR("new"), .mail_from = STR(""), .rcpts = rcpts, .n_rcpts = 2, .state = "{\"z\":1}" } }, 2), STORE_OK);
	twin = live_sql_int("SELECT id FROM pepsi.workqueue WHERE token IS NOT NULL");
	assert_string_equal(row(id, "encode(headers, 'hex')"), "4e3a20320d0a");
	assert_string_equal(row(id, "mail_from || rcpt_to::text || stage || status || (state ->> 'z') || (SELECT encode(body, 'escape') FROM pepsi.workqueue_body b WHERE b.id = body_id)"),
	    "{n1@x,n2@x}tpending1new");
	assert_string_equal(row(twin, "rcpt_to::text || (SELECT encode(body, 'escape') FROM pepsi.workqueue_body b WHERE b.id = body_id)"), "{r1@x}body");
	live_check_books();
	/* The twin rewrites it, too: the old body goes. */
	live_sql("UPDATE pepsi.workqueue SET status = 'running'");
	assert_int_equal(commit_one(twin, &(struct store_op){ .kind = STORE_OP_MOVE, .id = twin, .touched = STORE_SET_BODY, .body = STR("") }, 1), STORE_OK);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue_body"), 2);
	live_check_books();
}

/* The same with bodies that are cut: small to large and back, shared, and of a side message. */
static void test_large_content(void **state)
{
	enum { SIZE = 3000001 };
	struct store_clone sibling = { .stage = "s", .indices = (const uint32_t[]){ 1 }, .n = 1, .token = "t-large" };
	char *big = malloc(SIZE);
	struct str body = str_n(big, SIZE);
	int64_t id;

	(void)state;
	for (size_t i = 0; i < SIZE; i++)
		big[i] = (char)(i * 7 + i / 8120);
	wipe();
	id = add();
	assert_int_equal(commit_one(id, &(struct store_op){ .kind = STORE_OP_MOVE, .id = id, .touched = STORE_SET_BODY, .body = body }, 1), STORE_OK);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue_body WHERE size = 3000001"), 1);
	live_sql("UPDATE pepsi.workqueue SET status = 'running'");
	assert_int_equal(commit_one(id, (const struct store_op[]){ { .kind = STORE_OP_SPLIT, .id = id, .clones = &sibling, .n_clones = 1 },
		{ .kind = STORE_OP_INJECT, .id = id, .stage = "u", .mail_from = STR(""), .rcpts = (const struct str[]){ STR_INIT("x@y") }, .n_rcpts = 1,
		.headers = STR("A: b\r\n"), .body = str_n(big, SIZE - 1) },
		{ .kind = STORE_OP_MOVE, .id = id, .touched = STORE_SET_BODY, .body = STR("small again") } }, 3), STORE_OK);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue_body"), 3);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue w JOIN pepsi.workqueue_body b ON b.id = body_id WHERE token IS NOT NULL AND size = 3000001"
		" AND octet_length(pepsi.workqueue_body_get(b.id)) = size"), 1);
	assert_string_equal(row(id, "(SELECT convert_from(pepsi.workqueue_body_get(body_id), 'UTF8'))"), "small again");
	live_check_books();
	wipe();
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue_body"), 0);
	free(big);
}

static void test_bounce_in_place(void **state)
{
	long long accepted, bounced;
	int64_t id;

	(void)state;
	wipe();
	id = add();
	accepted = flow("accepted");
	bounced = flow("bounced");
	assert_int_equal(commit_one(id, &(struct store_op){ .kind = STORE_OP_MOVE, .id = id, .stage = "init", .touched = STORE_STATE_REPLACE | STORE_SET_BODY,
		.body = STR("report"), .state = "{\"report\":true}" }, 1), STORE_OK);
	assert_string_equal(row(id, "state::text || (received_at > '2021-01-01')"), "{\"report\": true}true");
	assert_int_equal(flow("accepted") - accepted, 1);
	assert_int_equal(flow("bounced") - bounced, 1);
	live_check_books();
}

static void test_clones(void **state)
{
	const struct str fresh[] = { STR_INIT("new@y"), STR_INIT("q\"\\\x01@y") }, sender = STR_INIT("other@z");
	struct store_clone c[] = {
		{ .stage = "bounce", .status = PEPSI_CLONE_PENDING, .indices = (const uint32_t[]){ 2, 0 }, .n = 2, .state = "{\"bounce\":{\"kind\":\"delay\"}}", .token = "t-1" },
		{ .stage = "s", .status = PEPSI_CLONE_RETRY, .retry_s = 100, .fresh_rcpts = true, .rcpts = fresh, .n = 2, .mail_from = &sender, .token = "t-2" },
		{ .stage = "s", .status = PEPSI_CLONE_FAILED, .indices = (const uint32_t[]){ 1 }, .n = 1, .token = "t-3" },
	};
	struct store_op op = { .kind = STORE_OP_PAUSE, .pause_s = 5, .keep = (const uint32_t[]){ 1 }, .n_keep = 1, .clones = c, .n_clones = 3, .state = "{\"attempts\":2}" };
	int64_t id;

	(void)state;
	wipe();
	op.id = id = add();
	assert_int_equal(commit_one(id, &op, 1), STORE_OK);
	assert_string_equal(row(id, "status || rcpt_to::text || (state #>> '{dsn,rcpt}') || (state ->> 'attempts')"), "paused{r1@x}[{\"n\": 1}]2");
	assert_string_equal(live_sql("SELECT status || ' ' || rcpt_to::text || ' ' || (state #>> '{dsn,rcpt}') || (state #>> '{bounce,kind}') || (state ? 'dispatch_error') || (received_at > '2021-01-01') FROM pepsi.workqueue WHERE token = 't-1'"),
	    "pending {r2@x,r0@x} [{\"n\": 2}, {\"n\": 0}]delayfalsetrue");
	assert_string_equal(live_sql("SELECT status || ' ' || rcpt_to::text || mail_from || (state -> 'dsn' ? 'rcpt') || (state #>> '{dsn,ret}') || (received_at < '2021-01-01') || (timeout > now()) FROM pepsi.workqueue WHERE token = 't-2'"),
	    "paused {new@y,\"q\\\"\\\\\x01@y\"}other@zfalseHDRStruetrue");
	assert_string_equal(live_sql("SELECT status || ' ' || (state ? 'failed_at') FROM pepsi.workqueue WHERE token = 't-3'"), "failed true");
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue_body"), 1);
	live_check_books();
	/* The same call again (its answer was lost, and the row was running again): the clones are there once. */
	live_sql("UPDATE pepsi.workqueue SET status = 'running', rcpt_to = '{r0@x,r1@x,r2@x}' WHERE token IS NULL");
	assert_int_equal(commit_one(id, &op, 1), STORE_OK);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue"), 4);
	live_check_books();
	/* finish_with: the row goes, its clone keeps the body. */
	wipe();
	op.id = id = add();
	op.kind = STORE_OP_FINISH;
	op.keep = NULL;
	op.outcome = "delivered";
	op.n_clones = 1;
	assert_int_equal(commit_one(id, &op, 1), STORE_OK);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE body_id <> id"), 1);
	live_check_books();
	wipe();
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue_body"), 0);
}

static void test_split_and_inject(void **state)
{
	struct store_clone c[] = { { .stage = "s", .indices = (const uint32_t[]){ 0 }, .n = 1, .token = "s-1" },
		{ .stage = "u", .indices = (const uint32_t[]){ 1, 2 }, .n = 2, .token = "s-2" } };
	const struct str to[] = { STR_INIT("side@x") };
	struct store_op ops[3];
	long long received = flow("received");
	int64_t id;

	(void)state;
	wipe();
	id = add();
	received = flow("received");
	/* The terminal may stand anywhere; it is done last. */
	ops[0] = (struct store_op){ .kind = STORE_OP_FINISH, .id = id, .outcome = "discarded" };
	ops[1] = (struct store_op){ .kind = STORE_OP_SPLIT, .id = id, .keep = (const uint32_t[]){ 0 }, .n_keep = 0, .clones = c, .n_clones = 2 };
	ops[2] = (struct store_op){ .kind = STORE_OP_INJECT, .id = id, .stage = "init", .mail_from = STR(""), .rcpts = to, .n_rcpts = 1,
		.headers = STR("A: b\r\n"), .body = STR("side") };
	assert_int_equal(commit_one(id, ops, 3), STORE_OK);
	assert_string_equal(live_sql("SELECT string_agg(stage || rcpt_to::text, ' ' ORDER BY id) FROM pepsi.workqueue"), "s{r0@x} u{r1@x,r2@x} init{side@x}");
	assert_int_equal(flow("received") - received, 0);
	live_check_books();
	assert_int_equal(commit_one(id, ops, 3), STORE_OK); /* the row is gone: no second side message */
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue"), 3);
}

static void test_bad_pass(void **state)
{
	struct store_clone out_of_range = { .stage = "s", .indices = (const uint32_t[]){ 3 }, .n = 1, .token = "b-1" };
	struct store_clone no_rcpt = { .stage = "s", .indices = (const uint32_t[]){ 0 }, .n = 0, .token = "b-2" };
	struct store_clone bad_state = { .stage = "s", .indices = (const uint32_t[]){ 0 }, .n = 1, .token = "b-3", .state = "[1]" };
	struct store_op ops[8] = { { .kind = STORE_OP_MOVE, .stage = "n" },
		{ .kind = STORE_OP_MOVE, .stage = "n", .touched = STORE_STATE_MERGE, .state = "{broken" },
		{ .kind = STORE_OP_FINISH, .outcome = "vanished" },
		{ .kind = STORE_OP_FINISH, .outcome = "delivered", .clones = &out_of_range, .n_clones = 1 },
		{ .kind = STORE_OP_FINISH, .outcome = "delivered", .clones = &no_rcpt, .n_clones = 1 },
		{ .kind = STORE_OP_PAUSE, .clones = &bad_state, .n_clones = 1 },
		{ .kind = STORE_OP_MOVE, .stage = "" },
		{ .kind = STORE_OP_FINISH, .outcome = "delivered" } };
	struct store_pass passes[8];

	(void)state;
	wipe();
	for (int i = 0; i < 8; i++) {
		ops[i].id = add();
		passes[i] = pass_of(ops[i].id, &ops[i], 1);
	}
	assert_int_equal(store_worker_commit(w, passes, 8), STORE_OK);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(passes[i].rc, i == 0 || i == 7 ? STORE_OK : STORE_REFUSED);
		assert_true(i == 0 || i == 7 ? passes[i].err[0] == '\0' : passes[i].err[0] != '\0');
	}
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE status = 'running'"), 6);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue"), 7);
	live_check_books();
}

/* A trigger that fails the first two attempts with 40001: retried inside and counted. */
static void test_serialization(void **state)
{
	uint64_t before = store_worker_retries(w);
	int64_t id;

	(void)state;
	wipe();
	id = add();
	live_sql("CREATE SEQUENCE public.tries; GRANT ALL ON SEQUENCE public.tries TO PUBLIC;"
		 "CREATE FUNCTION public.trip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF nextval(''public.tries'') < 3 THEN RAISE EXCEPTION"
		 " ''not now'' USING ERRCODE = ''40001''; END IF; RETURN NULL; END';"
		 "CREATE TRIGGER trip AFTER UPDATE ON pepsi.workqueue FOR EACH STATEMENT EXECUTE FUNCTION public.trip()");
	assert_int_equal(commit_one(id, &(struct store_op){ .kind = STORE_OP_MOVE, .id = id, .stage = "n" }, 1), STORE_OK);
	assert_int_equal(store_worker_retries(w) - before, 2);
	assert_string_equal(row(id, "stage"), "n");
	live_sql("ALTER SEQUENCE public.tries MINVALUE -1000 RESTART -1000");
	live_sql("DROP TRIGGER trip ON pepsi.workqueue; UPDATE pepsi.workqueue SET status = 'running';"
		 "CREATE TRIGGER trip AFTER UPDATE ON pepsi.workqueue FOR EACH STATEMENT EXECUTE FUNCTION public.trip()");
	assert_int_equal(commit_one(id, &(struct store_op){ .kind = STORE_OP_MOVE, .id = id, .stage = "m" }, 1), STORE_RETRY);
	live_sql("DROP TRIGGER trip ON pepsi.workqueue");
	assert_string_equal(row(id, "stage"), "n");
	assert_int_equal(commit_one(id, &(struct store_op){ .kind = STORE_OP_MOVE, .id = id, .stage = "m" }, 1), STORE_OK);
	assert_string_equal(row(id, "stage"), "m");
}

static void test_server_restart(void **state)
{
	struct store_op op;
	struct store_pass p;
	struct store_row *rows;
	struct pg_conn *module_db = store_worker_module_db(w);
	size_t n;
	int64_t id;

	(void)state;
	wipe();
	id = add();
	assert_non_null(module_db);
	live_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'pepsi'");
	/* Reading is tried anew over a fresh connection. */
	assert_int_equal(store_worker_load(w, arena, &id, 1, PEPSI_LOAD_METADATA, &rows, &n), STORE_OK);
	assert_int_equal(n, 1);
	live_server("stop -m immediate");
	op = (struct store_op){ .kind = STORE_OP_MOVE, .id = id, .stage = "later" };
	p = pass_of(id, &op, 1);
	assert_int_equal(store_worker_commit(w, &p, 1), STORE_AWAY);
	assert_int_equal(p.rc, STORE_AWAY);
	assert_true(p.err[0] != '\0');
	assert_int_equal(store_worker_load(w, arena, &id, 1, PEPSI_LOAD_METADATA, &rows, &n), STORE_AWAY);
	live_server("start");
	assert_int_equal(commit_one(id, &op, 1), STORE_OK);
	assert_string_equal(row(id, "stage"), "later");
	module_db = store_worker_module_db(w);
	PQclear(PQexec(module_db, "SELECT 1")); /* notices that it is gone */
	module_db = store_worker_module_db(w);
	assert_non_null(module_db);
	assert_int_equal(PQstatus(module_db), CONNECTION_OK);
	live_check_books();
}

/* A host that takes connections and says nothing costs one time-out, not one per question of a module. */
static void test_silent_server(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(at);
	char conninfo[120];
	struct store_params p = { .conninfo = conninfo };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int64_t began, first, second;

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
	snprintf(conninfo, sizeof(conninfo), "host=127.0.0.1 port=%d dbname=x user=x connect_timeout=2", ntohs(at.sin_port));
	struct store_worker *silent = store_worker_new(&p, false);
	began = clock_mono_us();
	assert_null(store_worker_module_db(silent));
	first = clock_mono_us() - began;
	assert_true(first >= US_PER_S);
	began = clock_mono_us();
	for (int i = 0; i < 100; i++)
		assert_null(store_worker_module_db(silent));
	second = clock_mono_us() - began;
	assert_true(second < first);
	store_worker_free(silent);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_load), cmocka_unit_test(test_folded), cmocka_unit_test(test_folded_envelope), cmocka_unit_test(test_from_stage),
		cmocka_unit_test(test_put_off), cmocka_unit_test(test_content), cmocka_unit_test(test_large_content), cmocka_unit_test(test_bounce_in_place),
		cmocka_unit_test(test_clones), cmocka_unit_test(test_split_and_inject), cmocka_unit_test(test_bad_pass),
		cmocka_unit_test(test_serialization), cmocka_unit_test(test_server_restart), cmocka_unit_test(test_silent_server),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
