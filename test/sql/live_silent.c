/* A server that takes a request and never answers (its backend is stopped): the call is given up as unknown, both on the
 * asynchronous connection and on a worker's, and both find their way back. So does a module's, and a worker with a loop of its own goes on with it
 * meanwhile. Linked with a patience of one second. */
#include "live.h"

#include "base/clock.h"
#include "query.h"
#include "store/worker.h"

#include <event2/event.h>
#include <pepsi/stage.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

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

/* A worker's loop: something is to be done every 10 ms. */
struct loop {
	struct event_base *base;
	unsigned ticks;
	short answered;
};

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct loop *l = arg;

	(void)fd;
	(void)what;
	l->ticks++;
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	struct loop *l = arg;

	(void)fd;
	l->answered = what;
}

static int turn(void *arg, int fd, bool to_read, bool to_write, int ms)
{
	struct loop *l = arg;
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	l->answered = 0;
	assert_int_equal(event_base_once(l->base, fd, (short)((to_read ? EV_READ : 0) | (to_write ? EV_WRITE : 0)), on_answer, l, &tv), 0);
	while (!l->answered)
		event_base_loop(l->base, EVLOOP_ONCE);
	return l->answered != EV_TIMEOUT;
}

static void test_loop(void **state)
{
	struct store_params p = live_params("pepsi");
	struct loop l = { .base = event_base_new() };
	struct timeval tick = { .tv_usec = 10 * 1000 };
	struct event *ev = event_new(l.base, -1, EV_PERSIST, on_tick, &l);
	struct store_worker *w;
	struct arena *a = arena_new(100000);
	struct store_op op = { .kind = STORE_OP_FINISH, .id = 1, .outcome = "delivered" };
	struct store_pass pass = { .id = 1, .ops = &op, .n_ops = 1 };
	struct store_row *rows;
	struct pg_conn *db = NULL;
	int64_t id = 1, begun;
	size_t n;
	pid_t pid;

	(void)state;
	event_add(ev, &tick);
	p.name = "pepsi loop";
	w = store_worker_new(&p, false);
	store_worker_live(w, l.base, turn, &l);
	/* connecting, loading, committing: by the loop; and it goes on while nobody answers */
	assert_int_equal(store_worker_load(w, a, &id, 1, PEPSI_LOAD_FULL, &rows, &n), STORE_OK);
	assert_int_equal(store_worker_commit(w, &pass, 1), STORE_OK);
	pid = backend("pepsi loop");
	assert_true(pid > 1);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	l.ticks = 0;
	assert_int_equal(store_worker_commit(w, &pass, 1), STORE_AWAY);
	kill(pid, SIGCONT);
	assert_true(l.ticks >= 20);
	assert_int_equal(store_worker_commit(w, &pass, 1), STORE_OK);
	/* the module's connection is made beside the loop: nobody waits */
	begun = clock_mono_us();
	assert_null(store_worker_module_db(w));
	while (!(db = store_worker_module_db(w)) && clock_mono_us() - begun < 60 * US_PER_S)
		event_base_loop(l.base, EVLOOP_ONCE);
	assert_non_null(db);
	assert_ptr_equal(store_worker_module_db(w), db);
	pid = backend("pepsi loop module");
	assert_true(pid > 1);
	/* a module that shut it down gets another one, and another when the loop is over */
	shutdown(PQsocket(db), SHUT_RDWR);
	PQconsumeInput(db);
	assert_null(store_worker_module_db(w));
	while (!(db = store_worker_module_db(w)) && clock_mono_us() - begun < 60 * US_PER_S)
		event_base_loop(l.base, EVLOOP_ONCE);
	assert_non_null(db);
	shutdown(PQsocket(db), SHUT_RDWR);
	PQconsumeInput(db);
	assert_null(store_worker_module_db(w)); /* on its way */
	store_worker_live(w, NULL, NULL, NULL);
	assert_non_null(store_worker_module_db(w));
	store_worker_free(w);
	arena_free(a);
	event_free(ev);
	event_base_free(l.base);
}

/* A module that waits for its statement does so for a while. */
static void test_query(void **state)
{
	static const char *const values[] = { "7" };
	struct store_params p = live_params("pepsi");
	struct store_worker *w;
	struct buf why = BUF_INIT(1000);
	char code[6];
	int64_t begun;
	pid_t pid;

	(void)state;
	p.name = "pepsi query";
	w = store_worker_new(&p, false);
	PGresult *res = query_ask(store_worker_module_db(w), "SELECT $1::integer + 1", 1, values, &why, code);
	assert_non_null(res);
	assert_string_equal(PQgetvalue(res, 0, 0), "8");
	PQclear(res);
	assert_null(query_ask(store_worker_module_db(w), "SELECT 1 / ($1::integer - 7)", 1, values, &why, code));
	assert_string_equal(code, "22012");
	assert_non_null(strstr(buf_z(&why), "division by zero"));
	pid = backend("pepsi query module");
	assert_true(pid > 1);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	begun = clock_mono_us();
	buf_reset(&why);
	assert_null(query_ask(store_worker_module_db(w), "SELECT $1::integer + 1", 1, values, &why, code));
	kill(pid, SIGCONT);
	assert_in_range(clock_mono_us() - begun, US_PER_S, 10 * US_PER_S);
	assert_string_equal(buf_z(&why), "the database does not answer");
	assert_string_equal(code, "");
	res = query_ask(store_worker_module_db(w), "SELECT $1::integer + 1", 1, values, &why, code);
	assert_non_null(res);
	PQclear(res);
	buf_reset(&why);
	assert_null(query_ask(NULL, "SELECT 1", 0, NULL, &why, NULL));
	assert_string_equal(buf_z(&why), "the database is away");
	buf_free(&why);
	store_worker_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_reactor), cmocka_unit_test(test_worker), cmocka_unit_test(test_loop), cmocka_unit_test(test_query) };

	return cmocka_run_group_tests(tests, live_setup, live_teardown);
}
