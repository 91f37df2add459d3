/* Whose fault it was: a worker dies, or is killed for an overrun, with several messages before it. What its page names is blamed
 * alone, if it can be true; the others are tried again uncounted and in their order; what cannot be true leads to the slow way, one
 * at a time. */
#include "fake.h"

static const int64_t rows[] = { 11, 12, 13, 14 };

/* A worker with four messages before it, and its page. */
static int crowd(struct wire_page **page)
{
	struct arena *a = arena_new(1 << 20);
	int64_t ids[8];
	init_stage()->avg_us = 100;
	init_stage()->max_messages = 0;
	init_stage()->parallelism = 1;
	claim_gives(rows, 4);
	assert_int_equal(sp.starts, 1);
	int w = worker_with_page(0, page, true);
	assert_int_equal(got(w, ids, 8, NULL, a), 4);
	arena_free(a);
	return w;
}

static void dies(int w, int status)
{
	pid_t pid = TAILQ_FIRST(&init_stage()->workers)->pid;
	close(w);
	dispatch_worker_exited(d, pid, status);
	spin();
}

static void booked(enum store_rc rc, enum store_blamed how)
{
	store_blame_fn fn = db.blame_fn;
	db.blame_fn = NULL;
	fn(db.blame_arg, rc, how);
	spin();
}

static void test_culprit_is_named(void **state)
{
	struct wire_page *page;
	struct arena *a = arena_new(1 << 20);
	int64_t ids[8], still[] = { 13, 14 };
	(void)state;
	int w = crowd(&page);
	wire_page_hop(page, 12, 0, now_us, "init", "pepsi-stage-x", "2.1");
	now_us += 50;
	dies(w, SIGSEGV);
	assert_int_equal(db.blames, 1);
	assert_int_equal(db.blame_id, 12);
	assert_non_null(strstr(db.report, "\"held\":4,\"found\":\"page\""));
	assert_int_equal(db.stills, 1); /* at once, not after the blame */
	assert_int_equal(db.n_ids, 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_not_equal(db.ids[i], 12);
	still_gives(STORE_OK, still, 2); /* 11 was committed just before */
	spin();
	assert_int_equal(init_stage()->n_suspects, 0);
	assert_int_equal(init_stage()->done, 1);
	assert_int_equal(init_stage()->named, 1);
	assert_int_equal(init_stage()->separated, 0);
	/* the innocent ones go on before the blame is booked, together, in their order */
	w = worker_up(sp.starts - 1);
	assert_int_equal(got(w, ids, 8, NULL, a), 2);
	assert_int_equal(ids[0], 13);
	assert_int_equal(ids[1], 14);
	booked(STORE_OK, STORE_BLAMED);
	assert_int_equal(init_stage()->in_flight, 2);
	assert_int_equal(d->failed_total, 0);

	/* from now on the culprit travels alone: it waits for a worker without others */
	static const int64_t again[] = { 12, 15 };
	claim_gives(again, 2);
	assert_int_equal(init_stage()->n_suspects, 1);
	size_t n = got(w, ids, 8, NULL, a);
	for (size_t i = 0; i < n; i++)
		assert_int_not_equal(ids[i], 12);
	say(w, "0\n0\n");
	n = got(w, ids, 8, NULL, a);
	if (n == 1 && ids[0] == 15) {
		say(w, "0\n");
		n = got(w, ids, 8, NULL, a);
	}
	assert_int_equal(n, 1);
	assert_int_equal(ids[0], 12);
	say(w, "0 {\"outcome\":\"finish\"}\n"); /* it got past the stage: forgiven */
	assert_int_equal(init_stage()->n_suspects, 0);
	assert_int_equal(d->marked.n, 0);
	munmap(page, WIRE_PAGE_SIZE);
	close(w);
	arena_free(a);
}

static void test_culprit_of_a_fused_stage(void **state)
{
	struct wire_page *page;
	(void)state;
	int w = crowd(&page);
	wire_page_hop(page, 13, 1, now_us, "bounce", "pepsi-stage-y", "1.5");
	dies(w, SIGABRT);
	assert_int_equal(db.blame_id, 13);
	assert_non_null(strstr(db.report, "\"stage\":\"bounce\",\"worker_stage\":\"init\",\"program\":\"pepsi-stage-y\",\"version\":\"1.5\""));
	booked(STORE_OK, STORE_BLAMED);
	/* it is marked for bounce: getting past init alone is not enough */
	assert_ptr_equal(map_get(&d->marked, 13), dispatch_stage_find(d, "bounce"));
	repair_passed(d, 13, init_stage());
	assert_true(repair_marked(d, 13));
	repair_passed(d, 13, dispatch_stage_find(d, "bounce"));
	assert_false(repair_marked(d, 13));
	munmap(page, WIRE_PAGE_SIZE);
}

/* What the page says cannot be: nobody is blamed, all are separated. */
static void lie(void (*tell)(struct wire_page *page))
{
	struct wire_page *page;
	int w = crowd(&page);
	wire_page_hop(page, 12, 0, now_us, "init", "m", "1");
	tell(page);
	dies(w, SIGSEGV);
	assert_int_equal(db.blames, 0);
	assert_int_equal(db.stills, 1);
	assert_int_equal(db.n_ids, 4);
	assert_int_equal(init_stage()->n_suspects, 4);
	assert_int_equal(init_stage()->separated, 4);
	assert_int_equal(init_stage()->named, 0);
	munmap(page, WIRE_PAGE_SIZE);
}

static void a_stranger(struct wire_page *p) { wire_page_hop(p, 99, 0, now_us, NULL, NULL, NULL); }
static void nothing(struct wire_page *p) { wire_page_hop(p, 0, 0, now_us, NULL, NULL, NULL); }
static void negative(struct wire_page *p) { wire_page_hop(p, -12, 0, now_us, NULL, NULL, NULL); }
static void future(struct wire_page *p) { wire_page_hop(p, 12, 0, now_us + 5 * US_PER_S, NULL, NULL, NULL); }
static void no_time(struct wire_page *p) { wire_page_hop(p, 12, 0, INT64_MIN, NULL, NULL, NULL); }
static void far_hop(struct wire_page *p) { wire_page_hop(p, 12, PAGE_HOPS_MAX, now_us, NULL, NULL, NULL); }
static void no_stage(struct wire_page *p) { wire_page_hop(p, 12, 1, now_us, "nowhere", "m", "1"); }
static void not_home(struct wire_page *p) { wire_page_hop(p, 12, 0, now_us, "bounce", "m", "1"); }
static void torn(struct wire_page *p) { p->seq |= 1; }
static void unmade(struct wire_page *p) { p->magic = 1; }

static void test_lies(void **state)
{
	static void (*const lies[])(struct wire_page *) = { a_stranger, nothing, negative, future, no_time, far_hop, no_stage, not_home, torn, unmade };
	(void)state;
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		if (i) {
			teardown(NULL);
			setup(NULL);
		}
		lie(lies[i]);
	}
}

/* A row that another worker holds, or that this one has answered, is not this one's. */
static void test_anothers_row(void **state)
{
	static const int64_t more[] = { 21, 22, 23, 24 };
	struct wire_page *page, *second;
	(void)state;
	int w = crowd(&page);
	say(w, "0\n");
	init_stage()->avg_us = 100;
	init_stage()->parallelism = 2;
	claim_gives(more, 4);
	assert_int_equal(sp.starts, 2);
	int v = worker_with_page(1, &second, true);
	wire_page_hop(second, 13, 0, now_us, "init", "m", "1"); /* the first one's */
	wire_page_hop(page, 11, 0, now_us, "init", "m", "1");   /* answered */
	dies(w, SIGSEGV);
	dies(v, SIGSEGV);
	assert_int_equal(db.blames, 0);
	munmap(page, WIRE_PAGE_SIZE);
	munmap(second, WIRE_PAGE_SIZE);
}

static void test_overrun_in_a_crowd(void **state)
{
	struct wire_page *page;
	(void)state;
	int w = crowd(&page);
	now_us += 9 * US_PER_S; /* it waited for the database so long; then 12 began */
	wire_page_hop(page, 12, 0, now_us, "init", "m", "1");
	now_us += 9 * US_PER_S;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 0); /* 12 had 9 s, not 18 */
	now_us += US_PER_S;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 1);
	dies(w, SIGKILL);
	assert_int_equal(db.blames, 1);
	assert_int_equal(db.blame_id, 12);
	assert_true(db.blame_overrun);
	assert_int_equal(db.n_ids, 3);
	assert_int_equal(init_stage()->n_suspects, 0);
	munmap(page, WIRE_PAGE_SIZE);
}

/* It ended in the moment before the kill, and another was begun: that one did nothing. */
static void test_overrun_over_at_the_kill(void **state)
{
	struct wire_page *page;
	(void)state;
	int w = crowd(&page);
	wire_page_hop(page, 12, 0, now_us, "init", "m", "1");
	now_us += 11 * US_PER_S;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 1);
	wire_page_hop(page, 13, 0, now_us, NULL, NULL, NULL);
	dies(w, SIGKILL);
	assert_int_equal(db.blames, 0);
	assert_int_equal(init_stage()->n_suspects, 4);
	munmap(page, WIRE_PAGE_SIZE);
}

/* The pass was committed in the moment before the worker died: nobody is to blame, and the message waits at another stage, so
 * every stage is looked at anew. */
static void test_committed_before_the_end(void **state)
{
	struct wire_page *page;
	(void)state;
	int w = crowd(&page);
	wire_page_hop(page, 12, 0, now_us, "init", "m", "1");
	dies(w, SIGSEGV);
	still_gives(STORE_OK, NULL, 0);
	while (db.claim_fn) {
		store_claim_fn fn = db.claim_fn;
		db.claim_fn = NULL;
		fn(db.claim_arg, STORE_OK, NULL, 0);
		spin();
	}
	unsigned claims = db.claims;
	uint64_t done = init_stage()->done;
	booked(STORE_OK, STORE_BLAMED_NOT);
	assert_int_equal(init_stage()->n_repairs, 0);
	assert_int_equal(init_stage()->done, done + 1);
	assert_int_equal(db.claims, claims + 1);
	assert_int_equal(db.claim_n, 2);
	munmap(page, WIRE_PAGE_SIZE);
}

/* The answer to the blame is lost: the row is looked up with the next connection, and runs alone if it is still there. */
static void test_blame_is_lost(void **state)
{
	struct wire_page *page;
	int64_t still[] = { 12 };
	(void)state;
	int w = crowd(&page);
	wire_page_hop(page, 12, 0, now_us, "init", "m", "1");
	dies(w, SIGSEGV);
	still_gives(STORE_AWAY, NULL, 0);
	booked(STORE_AWAY, STORE_BLAMED_NOT);
	assert_int_equal(init_stage()->n_repairs, 4);
	dispatch_database(d, false);
	dispatch_database(d, true);
	spin();
	assert_int_equal(db.stills, 2);
	assert_int_equal(db.n_ids, 4);
	still_gives(STORE_OK, still, 1);
	spin();
	assert_int_equal(init_stage()->n_repairs, 0);
	assert_int_equal(init_stage()->n_suspects, 1);
	assert_int_equal(init_stage()->in_flight, 1);
	munmap(page, WIRE_PAGE_SIZE);
}

/* Away already when the worker dies: the culprit is kept from the others, and nobody is counted. */
static void test_crash_without_a_database(void **state)
{
	struct wire_page *page;
	(void)state;
	int w = crowd(&page);
	wire_page_hop(page, 12, 0, now_us, "init", "m", "1");
	dispatch_database(d, false);
	dies(w, SIGSEGV);
	assert_int_equal(db.blames, 0);
	assert_int_equal(init_stage()->n_repairs, 4);
	assert_int_equal(init_stage()->n_suspects, 1);
	munmap(page, WIRE_PAGE_SIZE);
}

/* One more that was to be sent is not in the way of knowing who it was. */
static void test_alone_beside_one_unsent(void **state)
{
	static const int64_t first = 11;
	struct store_claimed second = { .id = 12, .sender_key = "crowd" };
	(void)state;
	init_stage()->avg_us = 100;
	init_stage()->parallelism = 1;
	claim_gives(&first, 1);
	int w = worker_up(0);
	struct worker *p = TAILQ_FIRST(&init_stage()->workers);
	dispatch_wake(d, "init");
	spin();
	event_add(p->ev_write, NULL); /* as when the socket is full: what comes next stays here */
	db.claim_fn(db.claim_arg, STORE_OK, &second, 1);
	flight_deal(d, init_stage());
	assert_int_equal(p->n_flights, 2);
	assert_int_equal(p->n_sent, 1);
	dies(w, SIGSEGV);
	assert_int_equal(db.blames, 1);
	assert_int_equal(db.blame_id, 11);
	assert_int_equal(init_stage()->n_suspects, 0);
}

/* Whose message costs workers pays for them: its sender comes later than others. */
static void test_culprits_pay(void **state)
{
	struct wire_page *page;
	(void)state;
	int w = crowd(&page);
	struct sender *s = fair_sender(&init_stage()->book, "crowd");
	wire_page_hop(page, 12, 0, now_us, "init", "m", "1");
	TAILQ_FIRST(&init_stage()->workers)->start_us = 30000;
	double before = s->time_us;
	now_us += 5000;
	dies(w, SIGSEGV);
	/* the four estimates of 100 us are given back, what it took is charged */
	assert_int_equal((int64_t)(s->time_us - before), 35000 - 400);
	munmap(page, WIRE_PAGE_SIZE);
}

/* The memory for culprits is bounded. */
static void test_marks_are_bounded(void **state)
{
	(void)state;
	for (int64_t i = 1; i < 3 * MARKED_MAX; i++)
		repair_mark(d, i, init_stage());
	assert_true(d->marked.n <= MARKED_MAX);
	assert_true(repair_marked(d, 3 * MARKED_MAX - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_culprit_is_named, setup, teardown),
		cmocka_unit_test_setup_teardown(test_culprit_of_a_fused_stage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_anothers_row, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overrun_in_a_crowd, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overrun_over_at_the_kill, setup, teardown),
		cmocka_unit_test_setup_teardown(test_committed_before_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_blame_is_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(test_crash_without_a_database, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alone_beside_one_unsent, setup, teardown),
		cmocka_unit_test_setup_teardown(test_culprits_pay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_marks_are_bounded, setup, teardown),
	};
	log_setup(LOG_LV_ERROR, "test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
