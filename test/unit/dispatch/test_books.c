/* What the dispatcher keeps straight over time: rows whose claim or hand-off got lost, clocks that are set, and the statistics with
 * their rules: about once a minute, when idle, at stop, nothing lost when the database refuses. */
#include "fake.h"

static void tick(void)
{
	event_active(d->tick, EV_TIMEOUT, 0);
	spin();
	if (d->claiming) { /* the heartbeat asks: there is nothing */
		db.claim_fn(db.claim_arg, STORE_OK, NULL, 0);
		spin();
	}
}

static void orphans_are(const int64_t *ids, size_t n)
{
	store_still_fn fn = db.orphan_fn;
	assert_non_null(fn);
	db.orphan_fn = NULL;
	fn(db.orphan_arg, STORE_OK, ids, n);
	spin();
}

/* With nothing promised and nothing claimed, a row that is nobody's is an orphan, at once. Whatever any clock says. */
static void test_orphans_at_once(void **state)
{
	static const int64_t lost[] = { 70, 71, 72 };
	(void)state;
	now_us += ORPHAN_SWEEP_US + 1;
	tick();
	assert_int_equal(db.orphans, 1);
	assert_false(dispatch_reserve(d, "init", "k", 1)); /* nothing new gets on its way meanwhile */
	dispatch_wake(d, "init");
	spin();
	unsigned claims = db.claims;
	db.n_ids = 0;
	orphans_are(lost, 3);
	assert_int_equal(db.releases, 2); /* the first one was the start's */
	assert_int_equal(db.n_ids, 3);
	assert_true(dispatch_reserve(d, "init", "k", 1) || db.claims > claims);
}

/* Rows that are ours, though their claim was answered after the statement's snapshot, are not. */
static void test_orphans_but_ours(void **state)
{
	static const int64_t lost[] = { 1, 50 };
	(void)state;
	assert_true(hand(1));
	spin();
	now_us += ORPHAN_SWEEP_US + 1;
	tick();
	assert_int_equal(db.n_known, 1);
	assert_int_equal(db.known[0], 1);
	db.n_ids = 0;
	orphans_are(lost, 2);
	assert_int_equal(db.n_ids, 1);
	assert_int_equal(db.ids[0], 50);
}

/* A place is promised: it is waited for a moment; when it stays, a row must have been nobody's for longer than any answer takes. */
static void test_orphans_beside_promises(void **state)
{
	static const int64_t first[] = { 50, 60 }, second[] = { 60, 80 };
	(void)state;
	assert_true(dispatch_reserve(d, "init", "k", 1));
	now_us += ORPHAN_SWEEP_US + 1;
	tick();
	assert_int_equal(db.orphans, 0);
	assert_false(dispatch_reserve(d, "init", "k", 1));
	now_us += SWEEP_DRAIN_US;
	tick();
	assert_int_equal(db.orphans, 1);
	assert_true(dispatch_reserve(d, "init", "k", 1)); /* it goes on */
	orphans_are(first, 2);
	assert_int_equal(db.releases, 1);
	now_us += ORPHAN_AGE_US + 1;
	tick();
	now_us += SWEEP_DRAIN_US;
	tick();
	assert_int_equal(db.orphans, 2);
	db.n_ids = 0;
	orphans_are(second, 2);
	assert_int_equal(db.releases, 2);
	assert_int_equal(db.n_ids, 1);
	assert_int_equal(db.ids[0], 60);
}

/* The same, and the promise is kept in time: then all is sure. */
static void test_orphans_behind_a_promise(void **state)
{
	static const int64_t lost[] = { 50 };
	(void)state;
	assert_true(dispatch_reserve(d, "init", "k", 1));
	now_us += ORPHAN_SWEEP_US + 1;
	tick();
	assert_int_equal(db.orphans, 0);
	dispatch_unreserve(d, "init", "k", 1);
	tick();
	assert_int_equal(db.orphans, 1);
	orphans_are(lost, 1);
	assert_int_equal(db.releases, 2);
}

static void due(int64_t wait, int64_t db_clock)
{
	store_due_fn fn = db.due_fn;
	event_active(d->due, EV_TIMEOUT, 0);
	spin();
	fn = db.due_fn;
	assert_non_null(fn);
	fn(db.due_arg, STORE_OK, &(const struct store_due){ .wait_us = wait, .now_us = db_clock });
	spin();
}

static long due_in_ms(void)
{
	struct timeval tv, now;
	assert_true(event_pending(d->due, EV_TIMEOUT, &tv));
	evutil_gettimeofday(&now, NULL);
	return (tv.tv_sec - now.tv_sec) * 1000 + (tv.tv_usec - now.tv_usec) / 1000;
}

/* How long until the next paused row is due is the database's word; ours may be hours off. */
static void test_due_by_the_databases_clock(void **state)
{
	(void)state;
	due(7 * US_PER_S, 5);
	assert_in_range(due_in_ms(), 6000, 7500);
	due(1, 5);
	assert_in_range(due_in_ms(), 0, 300);
	due(0, 5);
	assert_in_range(due_in_ms(), 25000, 31000); /* POLL_INTERVAL */
	due(3600 * US_PER_S, 5);
	assert_in_range(due_in_ms(), 25000, 31000);
}

/* Its clock is set back by two hours: paused rows come so much earlier. Forward, or a little back: nothing. */
static void test_the_databases_clock_is_set(void **state)
{
	const int64_t hour = 3600 * US_PER_S;
	int64_t clock = 1000000 * US_PER_S;
	(void)state;
	due(0, clock);
	now_us += 20 * US_PER_S;
	due(0, clock += 20 * US_PER_S);
	assert_int_equal(db.earlier_us, 0);
	now_us += 20 * US_PER_S;
	due(0, clock += 20 * US_PER_S + 5 * hour);
	assert_int_equal(db.earlier_us, 0);
	now_us += 20 * US_PER_S;
	due(0, clock += 5 * US_PER_S); /* slewed */
	assert_int_equal(db.earlier_us, 0);
	now_us += 20 * US_PER_S;
	due(0, clock += 20 * US_PER_S - 2 * hour);
	assert_int_equal(db.earlier_us, 2 * hour);
	now_us += 20 * US_PER_S;
	due(0, clock += 20 * US_PER_S);
	assert_int_equal(db.earlier_us, 2 * hour);
}

/* One message after the other, so that it is never idle: nothing for a minute, then once; when idle, soon. */
static void test_flush_rules(void **state)
{
	(void)state;
	init_stage()->max_messages = 0;
	assert_true(hand(1));
	assert_true(hand(2));
	spin();
	int w = worker_up(0);
	int64_t id = 3;
	for (int s = 0; s < 59; s++) {
		now_us += US_PER_S;
		assert_true(hand(id++));
		say(w, "0\n");
		tick();
		assert_int_equal(db.flushes, 0);
	}
	now_us += 2 * US_PER_S;
	assert_true(hand(id++));
	say(w, "0\n");
	tick();
	assert_int_equal(db.flushes, 1);
	assert_int_equal(db.delta.messages, 60);
	tick();
	assert_int_equal(db.flushes, 1);
	say(w, "0\n");
	say(w, "0\n");
	tick();
	assert_int_equal(db.flushes, 1); /* not within the second */
	now_us += US_PER_S + 1;
	tick();
	assert_int_equal(db.flushes, 2);
	assert_int_equal(db.delta.messages, 2);
	now_us += 100 * US_PER_S;
	tick();
	assert_int_equal(db.flushes, 2); /* nothing new, nothing written */
	close(w);
}

static bool stopped;

static void on_stopped(void *arg)
{
	(void)arg;
	stopped = true;
}

/* What could not be written is written with the next; a database that always refuses holds up no stop. */
static void test_flush_refused(void **state)
{
	(void)state;
	assert_true(hand(1));
	spin();
	int w = worker_up(0);
	say(w, "0\n");
	dispatch_retries(d, 4);
	db.flush_rc = STORE_REFUSED;
	now_us += 2 * US_PER_S;
	tick();
	assert_int_equal(db.flushes, 1);
	assert_int_equal(db.serialization, 0);
	db.flush_rc = STORE_OK;
	now_us += 2 * US_PER_S;
	tick();
	assert_int_equal(db.flushes, 2);
	assert_int_equal(db.delta.messages, 1);
	assert_int_equal(db.serialization, 4);
	dispatch_retries(d, 4);
	dispatch_retries(d, 3);
	dispatch_retries(d, 6);
	db.flush_rc = STORE_REFUSED;
	stopped = false;
	dispatch_stop(d, 5, on_stopped, NULL);
	close(w);
	dispatch_worker_exited(d, next_pid, 0);
	for (int i = 0; i < 5; i++)
		spin();
	assert_true(stopped);
	assert_in_range(db.flushes, 3, 2 + STOP_FLUSHES_MAX);
	assert_int_equal(d->retries_total, 6);
}

/* Serialization failures of workers come by their pages: what is new since the last look, and no fancy numbers. */
static void test_retries_of_workers(void **state)
{
	struct wire_page *page;
	(void)state;
	assert_true(hand(1));
	spin();
	int w = worker_with_page(0, &page, true);
	page->retries = 3;
	tick();
	assert_int_equal(d->retries_total, 3);
	tick();
	assert_int_equal(d->retries_total, 3);
	page->retries = UINT64_MAX;
	tick();
	page->retries = 5; /* and back */
	tick();
	assert_int_equal(d->retries_total, 3);
	struct buf b = BUF_INIT(1 << 20);
	dispatch_metrics(d, &b);
	assert_non_null(strstr(buf_z(&b), "\npepsi_serialization_failures_total 3\n"));
	buf_free(&b);
	say(w, "0\n");
	now_us += 2 * US_PER_S;
	tick();
	assert_int_equal(db.serialization, 3);
	munmap(page, WIRE_PAGE_SIZE);
	close(w);
}

/* Times in a status line are added up: none may be so large that a sum could run over. */
static void test_no_sum_runs_over(void **state)
{
	char line[200];
	(void)state;
	assert_true(hand(1));
	spin();
	int w = worker_up(0);
	snprintf(line, sizeof line, "0 {\"fused\":[{\"stage\":\"bounce\",\"us\":%lld}]}\n", (long long)FUSED_US_MAX + 1);
	say(w, line);
	assert_int_equal(dispatch_stage_find(d, "bounce")->d_time_us, 0);
	close(w);
}

/* What is over where no worker has it is looked for once a minute, or more often where lifetimes are short; a stage counts as down when it
 * had no worker for ten minutes or a lifetime, and is up again with the first that is ready. */
static void test_expire(void **state)
{
	static const struct store_expired gone[] = { { 5, STR_INIT("init"), STR_INIT("bounce"), STR_INIT("over") }, { 6, STR_INIT("old"), STR_INIT(""), STR_INIT("over") } };
	struct stage *st = init_stage();
	(void)state;
	tick();
	unsigned before = db.expires;
	st->life_s = 100000;
	now_us += 59 * US_PER_S;
	tick();
	assert_int_equal(db.expires, before);
	now_us += 2 * US_PER_S;
	db.expired = gone;
	db.n_expired = 2;
	uint64_t failed = d->failed_total;
	tick();
	assert_int_equal(db.expires, before + 1);
	assert_int_equal(d->expired_total, 2);
	assert_int_equal(d->failed_total, failed + 1);
	assert_false(db.expire[0].down);
	st->down_since = now_us;
	now_us += 601 * US_PER_S;
	tick();
	assert_true(db.expire[0].down);
	st->down_since = 0;
	st->life_s = 8; /* every two seconds */
	before = db.expires;
	now_us += 2 * US_PER_S;
	tick();
	assert_int_equal(db.expires, before + 1);
	st->down_since = now_us;
	now_us += 9 * US_PER_S;
	tick();
	assert_true(db.expire[0].down);
	st->down_since = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_orphans_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_orphans_but_ours, setup, teardown),
		cmocka_unit_test_setup_teardown(test_orphans_beside_promises, setup, teardown),
		cmocka_unit_test_setup_teardown(test_orphans_behind_a_promise, setup, teardown),
		cmocka_unit_test_setup_teardown(test_due_by_the_databases_clock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_databases_clock_is_set, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flush_rules, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flush_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_retries_of_workers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_sum_runs_over, setup, teardown),
	};
	log_setup(LOG_LV_ERROR, "test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
