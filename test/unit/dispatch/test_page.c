/* Fused hops and the pages that workers show: what is counted, how long a hop may take, what a crash report says, and that
 * nothing in a page is believed further than it can do harm. */
#include "fake.h"

/* Hops of a fused pass are booked at their stages; what they took is not the worker's own stage's time. */
static void test_fused_hops_are_counted(void **state)
{
	(void)state;
	struct stage *st = init_stage(), *b = dispatch_stage_find(d, "bounce");
	st->max_messages = 0;
	assert_true(hand(1));
	spin();
	int w = worker_up(0);
	now_us += 1000;
	say(w, "0 {\"outcome\":\"finish\",\"fused\":[{\"stage\":\"bounce\",\"us\":300},{\"stage\":\"nobody\",\"us\":1},{\"stage\":\"bounce\",\"us\":100}]}\n");
	assert_int_equal(st->done, 1);
	assert_int_equal(st->d_time_us, 1000 - 401);
	assert_int_equal(b->done, 2);
	assert_int_equal(b->fused, 2);
	assert_int_equal(b->d_messages, 2);
	assert_int_equal(b->d_time_us, 400);
	/* what is no such list counts as far as it is one, and harms nobody */
	static const char *const odd[] = { "0 {\"fused\":[{\"stage\":\"bounce\"}]}\n", "0 {\"fused\":[{\"stage\":\"bounce\",\"us\":-4}]}\n",
		"0 {\"fused\":[{\"stage\":\"bounce\",\"us\":99999999999999999999}]}\n", "0 {\"fused\":[}\n", "0 {\"fused\":[{\"stage\":\"}\n" };
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		assert_true(hand(10 + (int64_t)i));
		spin();
		say(w, odd[i]);
	}
	assert_int_equal(b->done, 2);
	assert_int_equal(st->done, 6);
	/* worn: no more for this one, and it is retired when it holds nothing */
	assert_true(hand(20));
	assert_true(hand(21));
	spin();
	say(w, "0 {\"outcome\":\"finish\",\"fused\":[{\"stage\":\"bounce\",\"us\":1}],\"worn\":true}\n");
	unsigned starts = sp.starts;
	assert_true(hand(22));
	spin();
	assert_int_equal(sp.starts, starts + 1);
	say(w, "0 {\"outcome\":\"finish\"}\n");
	char c;
	struct arena *a = arena_new(1 << 20);
	int64_t ids[8];
	got(w, ids, 8, NULL, a);
	assert_int_equal(recv(w, &c, 1, MSG_DONTWAIT), 0);
	arena_free(a);
	close(w);
}

static void test_overrun_of_a_fused_stage(void **state)
{
	static const int64_t row = 9;
	struct wire_page *page;
	(void)state;
	dispatch_stage_find(d, "bounce")->max_runtime_us = 30 * US_PER_S;
	claim_gives(&row, 1);
	int w = worker_with_page(0, &page, true);
	wire_page_hop(page, 9, 1, now_us + 5 * US_PER_S, "bounce", "pepsi-stage-b", "1.5");
	page->selects = 7;
	now_us += 20 * US_PER_S; /* longer than init's 10 s: it is at bounce, since 15 s */
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 0);
	now_us += 16 * US_PER_S;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 1);
	close(w);
	dispatch_worker_exited(d, next_pid, SIGKILL);
	spin();
	assert_true(db.blame_overrun);
	assert_non_null(strstr(db.report, "\"stage\":\"bounce\",\"worker_stage\":\"init\",\"program\":\"pepsi-stage-b\",\"version\":\"1.5\""));
	assert_int_equal(d->gone.selects, 7);
	/* and that stage runs in its own workers for a while: the next one is told */
	unsigned n = sp.starts;
	static const int64_t next = 10;
	claim_gives(&next, 1);
	assert_int_equal(sp.starts, n + 1);
	munmap(page, WIRE_PAGE_SIZE);
	w = worker_with_page(n, &page, true);
	assert_true(wire_page_avoids(page, "bounce"));
	assert_false(wire_page_avoids(page, "init"));
	now_us += 601 * US_PER_S;
	dispatch_stage_find(d, "init")->max_runtime_us = INT64_MAX;
	pool_tick(d, now_us);
	assert_false(wire_page_avoids(page, "bounce"));
	munmap(page, WIRE_PAGE_SIZE);
	close(w);
}

static void test_a_page_is_not_believed(void **state)
{
	static const int64_t row = 9;
	struct wire_page *page;
	(void)state;
	/* one that could be cut under our feet is not looked at */
	claim_gives(&row, 1);
	int w = worker_with_page(0, &page, false);
	assert_null(TAILQ_FIRST(&init_stage()->workers)->page);
	munmap(page, WIRE_PAGE_SIZE);
	close(w);
	dispatch_worker_exited(d, next_pid, 0);
	spin();
	db.blame_fn(db.blame_arg, STORE_OK, STORE_BLAMED);
	db.blame_fn = NULL;
	/* ever new hops: killed all the same */
	dispatch_stage_find(d, "bounce")->max_runtime_us = 30 * US_PER_S;
	claim_gives(&row, 1);
	w = worker_with_page(sp.starts - 1, &page, true);
	int kills = (int)sp.kills;
	for (unsigned i = 1; i < 2000 && (int)sp.kills == kills; i++) {
		now_us += US_PER_S;
		wire_page_hop(page, 9, i, now_us, "bounce", "m", "1");
		pool_tick(d, now_us);
	}
	assert_int_equal(sp.kills, kills + 1);
	/* garbage in the report: cut, cleaned, quoted */
	memset(page->stage, 0xff, sizeof page->stage);
	memset(page->module, '"', sizeof page->module);
	memset((char *)page + WIRE_PAGE_TRACE, '\n', WIRE_PAGE_SIZE - WIRE_PAGE_TRACE);
	page->signal = 11;
	close(w);
	dispatch_worker_exited(d, next_pid, SIGKILL);
	spin();
	assert_non_null(strstr(db.report, "\"worker_stage\":\"init\""));
	munmap(page, WIRE_PAGE_SIZE);
}

/* A stage whose own module did harm shares no process: others' workers avoid it, its own go on with nothing. */
static void test_harm_at_home_ends_fusion(void **state)
{
	static const int64_t row = 41;
	struct wire_page *page;
	(void)state;
	claim_gives(&row, 1);
	int w = worker_with_page(0, &page, true);
	wire_page_hop(page, 41, 0, now_us, "init", "pepsi-stage-x", "2.1");
	munmap(page, WIRE_PAGE_SIZE);
	close(w);
	dispatch_worker_exited(d, next_pid, SIGSEGV);
	spin();
	db.blame_fn(db.blame_arg, STORE_OK, STORE_BLAMED);
	db.blame_fn = NULL;
	claim_gives(&row, 1);
	w = worker_with_page(sp.starts - 1, &page, true);
	assert_true(wire_page_avoids(page, "bounce"));
	assert_true(wire_page_avoids(page, "init"));
	munmap(page, WIRE_PAGE_SIZE);
	close(w);
}

static void test_backtrace_in_the_report(void **state)
{
	static const int64_t row = 41;
	struct wire_page *page;
	(void)state;
	claim_gives(&row, 1);
	int w = worker_with_page(0, &page, true);
	wire_page_hop(page, 41, 0, now_us, "init", "pepsi-stage-x", "2.1");
	page->signal = SIGSEGV;
	snprintf((char *)page + WIRE_PAGE_TRACE, WIRE_PAGE_TRACE_MAX, "/a.so(f+0x1)[0x2]\n/b.so(+0x3)[0x4]\n");
	close(w);
	dispatch_worker_exited(d, next_pid, SIGSEGV);
	spin();
	assert_int_equal(db.blames, 1);
	if (!strstr(db.report, "\"version\":\"2.1\",\"signal\":11,\"backtrace\":[\"\\/a.so(f+0x1)[0x2]\",\"\\/b.so(+0x3)[0x4]\"]"))
		fail_msg("%s", db.report);
	munmap(page, WIRE_PAGE_SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_fused_hops_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overrun_of_a_fused_stage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_page_is_not_believed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_harm_at_home_ends_fusion, setup, teardown),
		cmocka_unit_test_setup_teardown(test_backtrace_in_the_report, setup, teardown),
	};
	log_setup(LOG_LV_ERROR, "test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
