/* A server that takes a request and never answers (its backend is stopped): the call is given up as unknown, both on the
 * asynchronous connection and on a worker's, and both find their way back. Linked with a patience of one second. */
#include "live.h"

#include "base/clock.h"
#include "store/worker.h"

#include <pepsi/stage.h>
#include <signal.h>
#include <stdio.h>

struct answer {
	bool done;
	enum store_rc rc;
};

static void on_count(void *arg, enum store_rc rc, unsigned n)
{
	struct answer *a = arg;

	(void)n;
	a->rc = rc;
	a->done = true;
}

static pid_t backend(const char *name)
{
	char sql[200];

	snprintf(sql, sizeof(sql), "SELECT pid FROM pg_stat_activity WHERE usename = 'pepsi' AND application_name = '%s'", name);
	return (pid_t)live_sql_int(sql);
}

static void test_reactor(void **state)
{
	bool up;
	struct store_conn *c = live_open_later("pepsi", &up);
	struct answer a = { .done = false };
	int64_t begun;
	pid_t pid;

	(void)state;
	live_until(&up);
	pid = backend("pepsi test");
	assert_true(pid > 1);
	live_run_ms(1500); /* being idle is not being silent */
	assert_true(up);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	begun = clock_mono_us();
	store_release(c, NULL, 0, on_count, &a);
	live_until(&a.done);
	kill(pid, SIGCONT);
	assert_int_equal(a.rc, STORE_AWAY);
	assert_in_range(clock_mono_us() - begun, US_PER_S, 5 * US_PER_S);
	live_until(&up);
	a.done = false;
	store_release(c, NULL, 0, on_count, &a);
	live_until(&a.done);
	assert_int_equal(a.rc, STORE_OK);
	store_conn_close(c);
}

static void test_worker(void **state)
{
	struct store_params p = live_params("pepsi");
	struct store_worker *w;
	struct arena *a = arena_new(100000);
	struct store_op op = { .kind = STORE_OP_FINISH, .id = 1, .outcome = "delivered" };
	struct store_pass pass = { .id = 1, .ops = &op, .n_ops = 1 };
	struct store_row *rows;
	int64_t id = 1;
	size_t n;
	pid_t pid;

	(void)state;
	p.name = "pepsi worker";
	w = store_worker_new(&p, false);
	assert_int_equal(store_worker_load(w, a, &id, 1, PEPSI_LOAD_FULL, &rows, &n), STORE_OK);
	pid = backend("pepsi worker");
	assert_true(pid > 1);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(store_worker_commit(w, &pass, 1), STORE_AWAY);
	kill(pid, SIGCONT);
	assert_int_equal(pass.rc, STORE_AWAY);
	assert_int_equal(store_worker_commit(w, &pass, 1), STORE_OK);
	store_worker_free(w);
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_reactor), cmocka_unit_test(test_worker) };

	return cmocka_run_group_tests(tests, live_setup, live_teardown);
}
