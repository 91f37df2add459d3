/* The life of an asynchronous connection against a server that goes away, comes back, refuses and notifies; and that what was
 * acknowledged is there afterwards. */
#include "live.h"

#include <stdio.h>
#include <stdlib.h>

static const struct str one_rcpt[] = { STR_INIT("bob@example.test") };

struct told {
	unsigned calls;
	bool up, heard;
	char err[300], channel[64], payload[64];
};

static void on_state(void *arg, struct store_conn *c, bool up, const char *err)
{
	struct told *t = arg;

	(void)c;
	t->calls++;
	t->up = up;
	snprintf(t->err, sizeof(t->err), "%s", err);
}

static void on_notify(void *arg, const char *channel, const char *payload)
{
	struct told *t = arg;

	t->heard = true;
	snprintf(t->channel, sizeof(t->channel), "%s", channel);
	snprintf(t->payload, sizeof(t->payload), "%s", payload);
}

/* One call's answer, and in which order it came. */
struct answer {
	bool done;
	enum store_rc rc;
	unsigned order;
	struct store_conn *close; /* closed from inside the callback */
	int64_t id;
};
static unsigned order;

static void on_count(void *arg, enum store_rc rc, unsigned n)
{
	struct answer *a = arg;

	(void)n;
	assert_false(a->done);
	a->done = true;
	a->rc = rc;
	a->order = ++order;
	if (a->close)
		store_conn_close(a->close);
}

static void on_ids(void *arg, enum store_rc rc, const int64_t *ids, size_t n)
{
	struct answer *a = arg;

	a->rc = rc;
	a->id = rc == STORE_OK && n > 0 ? ids[0] : 0;
	a->done = true;
}

static void on_admit(void *arg, const enum store_rc *rcs, size_t n)
{
	struct answer *a = arg;

	assert_false(a->done);
	a->rc = rcs[0];
	for (size_t i = 1; i < n; i++)
		assert_int_equal(rcs[i], rcs[0]);
	a->done = true;
}

static struct store_message message(int64_t id)
{
	return (struct store_message){ .id = id, .stage = "init", .received_at = 1, .mail_from = STR("a@b"), .rcpts = one_rcpt, .n_rcpts = 1,
		.state = STR("{}"), .headers = STR("A: b\r\n"), .body = STR("x") };
}

static int64_t reserve(struct store_conn *c)
{
	struct answer a = { .done = false };

	store_reserve_ids(c, 1, on_ids, &a);
	live_until(&a.done);
	assert_int_equal(a.rc, STORE_OK);
	return a.id;
}

static enum store_rc admit(struct store_conn *c, int64_t id)
{
	struct answer a = { .done = false };
	struct store_message m = message(id);

	store_admit(c, &m, 1, on_admit, &a);
	live_until(&a.done);
	return a.rc;
}

static void test_order(void **state)
{
	struct store_conn *c = live_open("pepsi", true);
	struct answer a[50] = { { .done = false } };

	(void)state;
	for (int i = 0; i < 50; i++)
		store_release(c, (const int64_t[]){ 1 }, 1, on_count, &a[i]);
	assert_true(store_conn_pending(c) >= 50);
	live_until(&a[49].done);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(a[i].rc, STORE_OK);
		assert_int_equal(a[i].order, a[0].order + (unsigned)i);
	}
	assert_int_equal(store_conn_pending(c), 0);
	store_conn_close(c);
	store_conn_close(NULL);
}

/* Immediate shutdown while a batch waits for a lock: away, not OK; nothing of it is there; all comes back by itself. */
static void test_shutdown_in_batch(void **state)
{
	struct store_params p = live_params("pepsi-ingress");
	struct told t = { .up = false };
	struct store_conn *c = store_conn_open(live_base, &p, on_state, &t);
	struct answer a = { .done = false }, late = { .done = false };
	struct store_message m[20];
	int64_t kept;

	(void)state;
	assert_non_null(c);
	live_until(&t.up);
	live_sql("DELETE FROM pepsi.workqueue");
	kept = reserve(c);
	assert_int_equal(admit(c, kept), STORE_OK);
	for (int i = 0; i < 20; i++)
		m[i] = message(reserve(c));
	live_sql("BEGIN");
	live_sql("LOCK TABLE pepsi.workqueue IN EXCLUSIVE MODE");
	store_admit(c, m, 20, on_admit, &a);
	live_run_ms(100);
	assert_false(a.done);
	live_server("stop -m immediate");
	live_until(&a.done);
	assert_int_equal(a.rc, STORE_AWAY);
	assert_false(store_conn_up(c));
	assert_int_equal(t.calls, 2);
	assert_false(t.up);
	assert_true(t.err[0] != '\0' && !strchr(t.err, '\n'));
	/* While it is away: answered from the loop, at once. */
	store_admit(c, m, 20, on_admit, &late);
	assert_false(late.done);
	live_run_ms(20);
	assert_true(late.done);
	assert_int_equal(late.rc, STORE_AWAY);
	live_run_ms(300);
	assert_int_equal(t.calls, 2); /* failed attempts are not told one by one */
	live_server("start");
	live_until(&t.up);
	assert_int_equal(t.calls, 3);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue"), 1);
	assert_int_equal(live_sql_int("SELECT id FROM pepsi.workqueue"), kept);
	live_check_books();
	/* The sequence went on by what was logged ahead: new ids are new. */
	assert_true(reserve(c) > kept);
	assert_int_equal(admit(c, reserve(c)), STORE_OK);
	store_conn_close(c);
	live_check_books();
}

static void test_backend_killed(void **state)
{
	bool up;
	struct store_conn *c = live_open_later("pepsi", &up);
	struct answer a = { .done = false };

	(void)state;
	live_until(&up);
	live_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'pepsi'");
	live_run_ms(50);
	live_until(&up);
	store_release(c, NULL, 0, on_count, &a);
	live_until(&a.done);
	assert_int_equal(a.rc, STORE_OK);
	store_conn_close(c);
}

static void test_listen(void **state)
{
	static const char *const channels[] = { "workqueue", "config_changed" }, *const wrong[] = { "workqueue; DROP TABLE" };
	struct store_params p = live_params("pepsi");
	struct told t = { .up = false };
	struct store_conn *c = store_conn_open(live_base, &p, on_state, &t);

	(void)state;
	assert_int_equal(store_conn_listen(c, wrong, 1, on_notify, &t), -1);
	assert_int_equal(store_conn_listen(c, channels, 2, on_notify, &t), 0);
	live_until(&t.up);
	live_sql("INSERT INTO pepsi.config_override VALUES ('global', 'pepsi', 'HOSTNAME', 'x')");
	live_until(&t.heard);
	assert_string_equal(t.channel, "config_changed");
	live_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'pepsi'");
	live_run_ms(50);
	live_until(&t.up);
	t.heard = false;
	live_sql("SELECT pg_notify('workqueue', 'p')");
	live_until(&t.heard);
	assert_string_equal(t.channel, "workqueue");
	assert_string_equal(t.payload, "p");
	store_conn_close(c);
}

static void test_refused(void **state)
{
	struct store_params p = live_params("nobody-at-all"), q = live_params("pepsi-ingress");
	struct told t = { .up = false }, u = { .up = false };
	struct store_conn *c = store_conn_open(live_base, &p, on_state, &t), *d;

	(void)state;
	live_run_ms(400);
	assert_int_equal(t.calls, 1); /* the first failure, once */
	assert_false(t.up);
	assert_non_null(strstr(t.err, "nobody-at-all"));
	store_conn_close(c);
	q.set_role = "pepsi"; /* which it may not become */
	d = store_conn_open(live_base, &q, on_state, &u);
	live_run_ms(400);
	assert_int_equal(u.calls, 1);
	assert_non_null(strstr(u.err, "permission denied"));
	store_conn_close(d);
}

static void test_close_inside(void **state)
{
	struct store_conn *c = live_open("pepsi", true);
	struct answer a[10] = { { .done = false } };

	(void)state;
	a[3].close = c;
	for (int i = 0; i < 10; i++)
		store_release(c, (const int64_t[]){ 1 }, 1, on_count, &a[i]);
	live_until(&a[9].done);
	for (int i = 0; i < 10; i++)
		assert_int_equal(a[i].rc, i <= 3 ? STORE_OK : STORE_AWAY);
	live_run_ms(20);
	/* Before it is up, too. */
	bool up;
	memset(a, 0, sizeof(a));
	c = live_open_later("pepsi", &up);
	a[0].close = c;
	store_release(c, NULL, 0, on_count, &a[0]);
	store_release(c, NULL, 0, on_count, &a[1]);
	live_until(&a[1].done);
	assert_int_equal(a[0].rc, STORE_AWAY);
	assert_int_equal(a[1].rc, STORE_AWAY);
	live_run_ms(20);
}

/* 40001 inside an asynchronous call is tried again; the call answers once. */
static void test_serialization(void **state)
{
	struct store_conn *c = live_open("pepsi", true), *in = live_open("pepsi-ingress", false);
	struct answer a = { .done = false };

	(void)state;
	live_sql("DELETE FROM pepsi.workqueue");
	live_sql("CREATE SEQUENCE public.tries; GRANT ALL ON SEQUENCE public.tries TO PUBLIC;"
		 "CREATE FUNCTION public.trip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF nextval(''public.tries'') % 3 <> 0 THEN RAISE EXCEPTION"
		 " ''not now'' USING ERRCODE = ''40001''; END IF; RETURN NULL; END';"
		 "CREATE TRIGGER trip AFTER UPDATE OR INSERT ON pepsi.workqueue FOR EACH STATEMENT EXECUTE FUNCTION public.trip()");
	assert_int_equal(admit(in, reserve(in)), STORE_OK);
	store_release(c, NULL, 0, on_count, &a);
	live_until(&a.done);
	assert_int_equal(a.rc, STORE_OK);
	live_sql("DROP TRIGGER trip ON pepsi.workqueue");
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue"), 1);
	live_check_books();
	store_conn_close(c);
	store_conn_close(in);
}

/* Much more than the socket and libpq take at once, with calls before, between and behind: everything is answered, in
 * order; an error in the midst of it costs the batch its own messages only. */
static void test_much_at_once(void **state)
{
	enum { N = 6, SIZE = 3 * 1024 * 1024 + 5 };
	struct store_conn *in = live_open("pepsi-ingress", false);
	struct answer big[3] = { 0 }, small[4] = { 0 }, ids = { 0 };
	struct store_message m[3][N];
	char *octets = malloc(SIZE);

	(void)state;
	live_sql("DELETE FROM pepsi.workqueue");
	for (size_t i = 0; i < SIZE; i++)
		octets[i] = (char)(i * 131 + i / 4096);
	for (unsigned k = 0; k < 3; k++) {
		for (unsigned i = 0; i < N; i++) {
			m[k][i] = message(live_sql_int("SELECT nextval('pepsi.workqueue_id_seq')"));
			m[k][i].body = str_n(octets, SIZE - i);
		}
		if (k == 1)
			m[k][2].state = STR("[]"); /* refused: the others are sent again, one by one */
	}
	store_admit(in, m[0], N, on_admit, &big[0]);
	store_reserve_ids(in, 1, on_ids, &small[0]);
	assert_true(store_conn_pending(in) > 0);
	store_admit(in, m[1], 2, on_admit, &big[1]);
	store_admit(in, &m[1][3], N - 3, on_admit, &big[2]);
	store_reserve_ids(in, 1, on_ids, &ids);
	live_until(&big[0].done);
	live_until(&ids.done);
	assert_int_equal(big[0].rc, STORE_OK);
	assert_int_equal(small[0].rc, STORE_OK);
	assert_int_equal(ids.rc, STORE_OK);
	assert_true(big[1].done && big[2].done);
	store_admit(in, &m[1][2], 1, on_admit, &small[1]);
	live_until(&small[1].done);
	assert_int_equal(small[1].rc, STORE_REFUSED);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue"), N + 2 + N - 3);
	live_check_books();
	/* the server goes while most of it is still here */
	store_admit(in, m[2], N, on_admit, &small[2]);
	store_reserve_ids(in, 1, on_ids, &small[3]);
	live_server("stop -m immediate");
	live_until(&small[3].done);
	assert_true(small[2].done);
	assert_int_equal(small[2].rc, STORE_AWAY);
	assert_int_equal(small[3].rc, STORE_AWAY);
	live_server("start");
	live_check_books();
	live_sql("DELETE FROM pepsi.workqueue");
	store_conn_close(in);
	free(octets);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order), cmocka_unit_test(test_listen), cmocka_unit_test(test_refused), cmocka_unit_test(test_close_inside),
		cmocka_unit_test(test_serialization), cmocka_unit_test(test_backend_killed), cmocka_unit_test(test_shutdown_in_batch), cmocka_unit_test(test_much_at_once),
	};

	return cmocka_run_group_tests(tests, live_setup, live_teardown);
}
