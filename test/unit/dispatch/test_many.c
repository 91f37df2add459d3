/* Workers that drive many messages at once: answers by id, time that is shared, places by domain, leaving without blame, and crowds of which
 * one took the worker along. */
#include "fake.h"

enum { LEFT = WIRE_EXIT_LEFT << 8, OVERRAN = WIRE_EXIT_OVERRUN << 8 };

static void hand_to(int64_t id, const char *address)
{
	struct str rcpt = str_from(address);
	struct wire_item it = { .id = id, .has_content = true, .mail_from = STR("a@example.org"), .rcpts = &rcpt, .n_rcpts = 1, .state = STR("{}") };
	assert_true(dispatch_reserve(d, "init", "k", 100));
	dispatch_hand_off(d, "init", "k", &it, -1);
	spin();
}

static size_t ids_at(int w, int64_t *ids)
{
	struct arena *a = arena_new(1 << 20);
	size_t n = got(w, ids, 16, NULL, a);
	arena_free(a);
	return n;
}

/* A worker with n messages, 11 and up, and its page. */
static int crowd(size_t n, struct wire_page **page)
{
	static const int64_t rows[] = { 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26 };
	int64_t ids[16];
	struct stage *st = init_stage();
	ready_line = "2 ids\n";
	st->max_messages = 0;
	st->parallelism = 1;
	limit_to(st, 16);
	claim_gives(rows, n);
	assert_int_equal(sp.starts, 1);
	int w = worker_with_page(0, page, true);
	assert_true(st->many);
	assert_int_equal(ids_at(w, ids), n); /* all at once: no rule of 40 ms */
	return w;
}

static void dies(int w, int status)
{
	pid_t pid = TAILQ_FIRST(&init_stage()->workers)->pid;
	close(w);
	dispatch_worker_exited(d, pid, status);
	spin();
}

static void booked(void)
{
	store_blame_fn fn = db.blame_fn;
	db.blame_fn = NULL;
	fn(db.blame_arg, STORE_OK, STORE_BLAMED);
	spin();
}

static void test_any_order(void **state)
{
	struct wire_page *page;
	struct stage *st = init_stage();
	int64_t t0 = now_us;
	(void)state;
	int w = crowd(4, &page);
	now_us += 4000;
	say(w, "0 13 {\"outcome\":\"finish\"}\n");
	now_us += 3000;
	say(w, "0 11\n1 14 {\"error\":\"x\"}\n");
	assert_int_equal(st->done, 2);
	assert_int_equal(st->errors, 1);
	assert_null(map_get(&d->flights, 13));
	assert_non_null(map_get(&d->flights, 12));
	now_us += 5000;
	say(w, "0 12\n");
	/* each was charged for its share of the time: 4000 / 4, and 3000 / 3, and 5000 */
	assert_in_range(st->d_time_us, now_us - t0 - 10, now_us - t0);
	assert_int_equal(st->in_flight, 0);
	assert_int_equal(sp.kills, 0);
	munmap(page, WIRE_PAGE_SIZE);
	close(w);
}

static void test_answers_to_nothing(void **state)
{
	static const char *const lines[] = { "0 99\n", "0\n", "0 11\n0 11\n", "2 ids\n", "0 11 x\n" };
	(void)state;
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		struct wire_page *page;
		if (i) {
			teardown(state);
			setup(state);
		}
		int w = crowd(2, &page);
		say(w, lines[i]);
		assert_int_equal(sp.kills, 1);
		munmap(page, WIRE_PAGE_SIZE);
		close(w);
	}
	/* and one that answers in order has no ids, and does not leave */
	for (int i = 0; i < 2; i++) {
		static const int64_t rows[] = { 11, 12 };
		teardown(state);
		setup(state);
		ready_line = "2\n";
		claim_gives(rows, 2);
		int w = worker_up(0);
		say(w, i ? "3\n" : "0 11\n");
		assert_int_equal(sp.kills, 1);
		close(w);
	}
}

static void test_places(void **state)
{
	int64_t ids[16];
	char to[40];
	struct stage *st = init_stage();
	int home[2] = { -1, -1 };
	(void)state;
	ready_line = "2 ids\n";
	st->max_messages = 0;
	limit_to(st, 16);
	hand_to(1, "x@one.test");
	int w = worker_up(0);
	assert_int_equal(ids_at(w, ids), 1);
	/* a worker more only when there is something for its slot */
	for (int i = 0; i < 8; i++)
		hand_to(10 + i, i % 2 ? "x@one.test" : "y@ONE.test");
	unsigned starts = sp.starts;
	assert_in_range(starts, 1, 2);
	int v = starts == 2 ? worker_up(1) : -1; /* the first came before anything was known: one.test may be at home elsewhere */
	for (int i = 0; v < 0 && i < 20; i++) {
		snprintf(to, sizeof to, "x@d%d.test", i);
		hand_to(50 + i, to);
		if (sp.starts == 2)
			v = worker_up(1);
	}
	assert_int_equal(sp.starts, 2);
	ids_at(w, ids);
	ids_at(v, ids);
	/* all of a domain come to one worker, and the domains are spread */
	for (int k = 0; k < 3; k++)
		for (int i = 0; i < 8; i++) {
			snprintf(to, sizeof to, "%d@m%d.test", k, i);
			hand_to(100 + 8 * k + i, to);
			size_t n = ids_at(w, ids), m = ids_at(v, ids);
			assert_int_equal(n + m, 1);
			if (k == 0)
				home[m] |= 1 << i;
			else
				assert_true(home[m] & 1 << i);
			snprintf(to, sizeof to, "0 %d\n", 100 + 8 * k + i);
			say(m ? v : w, to);
		}
	assert_int_equal(sp.kills, 0);
	close(w);
	close(v);
}

static void test_leaving(void **state)
{
	struct wire_page *page;
	struct stage *st = init_stage();
	int64_t ids[16], still[] = { 12, 13, 14 };
	(void)state;
	int w = crowd(4, &page);
	say(w, "0 11\n3\n");
	assert_int_equal(TAILQ_FIRST(&st->workers)->state, WORKER_RETIRING);
	static const int64_t more[] = { 31 };
	claim_gives(more, 1);
	assert_int_equal(sp.starts, 2); /* its successor begins beside it */
	int v = worker_up(1);
	assert_int_equal(ids_at(v, ids), 1);
	dies(w, LEFT);
	assert_int_equal(db.blames, 0);
	still_gives(STORE_OK, still, 3);
	spin();
	assert_int_equal(st->crashes, 0);
	assert_int_equal(st->n_suspects, 0);
	assert_int_equal(ids_at(v, ids), 3);
	assert_int_equal(ids[0], 12);
	/* a stop says more than the end of the channel */
	dispatch_stop(d, 5, NULL, NULL);
	assert_int_equal(sp.terms, 1);
	munmap(page, WIRE_PAGE_SIZE);
	close(v);
}

static void test_leaves_before_it_works(void **state)
{
	struct stage *st = init_stage();
	int64_t ids[16], still[] = { 11, 12 };
	struct wire_page *page;
	(void)state;
	int w = crowd(2, &page);
	munmap(page, WIRE_PAGE_SIZE);
	for (unsigned i = 1; i < EARLY_KILLS_MAX; i++) {
		say(w, "3\n");
		dies(w, LEFT);
		still_gives(STORE_OK, still, 2);
		spin();
		assert_int_equal(st->n_suspects, 0);
		w = worker_up(i);
		assert_int_equal(ids_at(w, ids), 2);
	}
	say(w, "3\n");
	dies(w, LEFT);
	assert_int_equal(st->crashes, 1);
	assert_int_equal(st->n_suspects, 2);
}

static void test_killed_from_outside(void **state)
{
	struct wire_page *page;
	(void)state;
	int w = crowd(4, &page);
	dies(w, SIGKILL);
	assert_int_equal(init_stage()->crashes, 1);
	assert_int_equal(init_stage()->n_suspects, 0);
	/* but not when the module's code was running */
	teardown(state);
	setup(state);
	munmap(page, WIRE_PAGE_SIZE);
	w = crowd(4, &page);
	wire_page_hop(page, 0, 0, now_us, "init", "m", "1");
	now_us++;
	dies(w, SIGKILL);
	assert_int_equal(init_stage()->n_suspects, 4);
	munmap(page, WIRE_PAGE_SIZE);
}

/* 16 of which one crashes for nobody in particular: eighths, then one by one. */
static void test_parts(void **state)
{
	struct wire_page *page;
	struct stage *st = init_stage();
	int64_t ids[16], still[16];
	(void)state;
	int w = crowd(16, &page);
	wire_page_hop(page, 0, 0, now_us, "init", "m", "1");
	munmap(page, WIRE_PAGE_SIZE);
	dies(w, SIGSEGV);
	for (int i = 0; i < 16; i++)
		still[i] = 11 + i;
	still_gives(STORE_OK, still, 16);
	spin();
	assert_int_equal(st->n_suspects, 16);
	w = worker_up(1); /* the spare one */
	assert_int_equal(ids_at(w, ids), 2);
	/* new mail has a worker of its own meanwhile */
	static const int64_t more[] = { 31 };
	claim_gives(more, 1);
	assert_int_equal(sp.starts, 3);
	int v = worker_up(2);
	assert_int_equal(ids_at(v, still), 1);
	assert_int_equal(still[0], 31);
	char both[64];
	snprintf(both, sizeof both, "0 %lld\n0 %lld\n", (long long)ids[1], (long long)ids[0]);
	say(w, both); /* an innocent pair */
	assert_int_equal(st->n_suspects, 14);
	assert_int_equal(ids_at(w, ids), 2);
	dies(w, SIGSEGV); /* the guilty pair */
	still[0] = ids[0];
	still[1] = ids[1];
	still_gives(STORE_OK, still, 2);
	spin();
	assert_int_equal(sp.starts, 4);
	w = worker_up(3);
	assert_int_equal(ids_at(w, still), 1);
	assert_true(still[0] == ids[0] || still[0] == ids[1]);
	dies(w, SIGSEGV);
	assert_int_equal(db.blames, 1);
	assert_int_equal(db.blame_id, still[0]);
	booked();
	close(v);
}

static void test_hangs(void **state)
{
	struct wire_page *page;
	(void)state;
	int w = crowd(3, &page);
	init_stage()->max_runtime_us = 300 * US_PER_S;
	wire_page_hop(page, 12, 0, now_us, "init", "m", "1");
	now_us += MANY_CALL_US - 1;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 0);
	now_us++;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 1);
	dies(w, SIGKILL);
	assert_int_equal(db.blames, 1);
	assert_int_equal(db.blame_id, 12);
	assert_true(db.blame_overrun);
	booked();
	munmap(page, WIRE_PAGE_SIZE);
}

/* Messages may be pending as long as MAX_RUNTIME lets them, whatever the sum; but it must end them itself. */
static void test_silent(void **state)
{
	struct wire_page *page;
	(void)state;
	int w = crowd(3, &page);
	now_us += 10 * US_PER_S;
	pool_tick(d, now_us);
	say(w, "0 12\n");
	now_us += 10 * US_PER_S + MANY_SILENT_US - 1;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 0);
	now_us++;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 1);
	dies(w, SIGKILL);
	assert_int_equal(db.blames, 0);
	assert_int_equal(init_stage()->n_suspects, 2);
	munmap(page, WIRE_PAGE_SIZE);
}

static void test_overdue(void **state)
{
	struct wire_page *page;
	(void)state;
	int w = crowd(3, &page);
	say(w, "3\n");
	wire_page_hop(page, 13, 0, now_us, "init", "m", "1");
	now_us++;
	dies(w, OVERRAN);
	assert_int_equal(db.blames, 1);
	assert_int_equal(db.blame_id, 13);
	assert_true(db.blame_overrun);
	assert_int_equal(init_stage()->kills, 1);
	assert_int_equal(init_stage()->crashes, 0);
	assert_int_equal(init_stage()->n_suspects, 0);
	booked();
	munmap(page, WIRE_PAGE_SIZE);
}

static void test_max_messages(void **state)
{
	int64_t ids[16];
	static const int64_t rows[] = { 11, 12, 13, 14, 15, 16, 17 };
	(void)state;
	ready_line = "2 ids\n";
	init_stage()->parallelism = 1;
	limit_to(init_stage(), 16);
	claim_gives(rows, 7);
	int w = worker_up(0);
	assert_int_equal(ids_at(w, ids), 5);
	assert_int_equal(TAILQ_FIRST(&init_stage()->workers)->state, WORKER_RETIRING);
	assert_int_equal(sp.starts, 2); /* while the first ends its five */
	int v = worker_up(1);
	assert_int_equal(ids_at(v, ids), 2);
	say(w, "0 11\n0 12\n0 13\n0 14\n0 15\n");
	dies(w, 0);
	assert_int_equal(init_stage()->crashes, 0);
	close(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_any_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answers_to_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_places, setup, teardown),
		cmocka_unit_test_setup_teardown(test_leaving, setup, teardown),
		cmocka_unit_test_setup_teardown(test_leaves_before_it_works, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed_from_outside, setup, teardown),
		cmocka_unit_test_setup_teardown(test_parts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hangs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_silent, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overdue, setup, teardown),
		cmocka_unit_test_setup_teardown(test_max_messages, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
