/* The dispatcher against a fake store, fake workers (the other ends of socketpairs) and a fake clock: claims, hand-offs,
 * answers, crashes, overruns, cool-downs, stop. No database, no process, no sleep. */
#include "fake.h"

static void test_hand_off(void **state)
{
	struct arena *a = arena_new(1 << 20);
	struct wire_item it;
	int64_t ids[8];
	(void)state;
	assert_true(hand(7));
	spin();
	assert_int_equal(sp.starts, 1);
	assert_string_equal(sp.stage[0], "init");
	int w = worker_up(0);
	assert_int_equal(got(w, ids, 8, &it, a), 1);
	assert_int_equal(ids[0], 7);
	assert_true(it.has_content);
	assert_true(str_eq(it.body, STR("hello\r\n")));
	assert_int_equal(init_stage()->in_flight, 1);
	say(w, "0 {\"outcome\":\"finish\"}\n");
	assert_int_equal(init_stage()->in_flight, 0);
	assert_int_equal(init_stage()->done, 1);
	close(w);
	arena_free(a);
}

static void test_no_reserve_over_waiting_rows(void **state)
{
	struct sender *crowd = fair_sender(&init_stage()->book, "crowd");
	(void)state;
	fair_charge(crowd, 1e6); /* has had a second more than anybody */
	dispatch_wake(d, "init");
	assert_false(dispatch_reserve(d, "init", "crowd", 100)); /* those in the database come first */
	assert_false(dispatch_reserve(d, "nowhere", "crowd", 100));
	assert_true(dispatch_reserve(d, "init", "newcomer", 100)); /* but not before one who has had nothing */
	dispatch_unreserve(d, "init", "newcomer", 100);
	spin();
	assert_int_equal(db.n_book, 1);
	assert_string_equal(db.book.key, "crowd");
	db.claim_fn(db.claim_arg, STORE_OK, NULL, 0);
	for (int i = 0; i < 8 + HAND_OFF_EXTRA; i++)
		assert_true(dispatch_reserve(d, "init", "crowd", 100));
	assert_false(dispatch_reserve(d, "init", "crowd", 100));
	assert_true(dispatch_reserve(d, "init", "newcomer", 100)); /* finds a place all the same */
	dispatch_unreserve(d, "init", "newcomer", 100);
	dispatch_unreserve(d, "init", "crowd", 100);
	assert_true(dispatch_reserve(d, "init", "crowd", 100));
}

/* Two pepsids on one database: the second claims nothing and promises nothing until the first is gone. */
static void test_only_one_dispatcher(void **state)
{
	(void)state;
	unsigned claims = db.claims;
	dispatch_database(d, false);
	another_holds_the_lock = true;
	dispatch_database(d, true);
	spin();
	dispatch_wake(d, NULL);
	spin();
	assert_int_equal(db.claims, claims);
	assert_false(dispatch_reserve(d, "init", "k", 1));
	assert_false(dispatch_ready(d));
	assert_int_equal(notified, 0);
	now_us += 4 * US_PER_S;
	event_active(d->lock, 0, 0);
	spin();
	dispatch_wake_sink(d, "init"); /* the other one is told of rows that come in here */
	assert_int_equal(notified, 1);
	another_holds_the_lock = false;
	event_active(d->lock, 0, 0);
	spin();
	assert_true(dispatch_ready(d));
	assert_int_equal(db.claims, claims + 1);
}

/* A sender whose row was left to the database does not overtake it with the next. */
static void test_no_overtaking_of_ones_own(void **state)
{
	(void)state;
	for (int i = 0; i < 8 + HAND_OFF_EXTRA; i++)
		assert_true(dispatch_reserve(d, "init", "many", 1));
	assert_false(dispatch_reserve(d, "init", "many", 1)); /* this one goes to the database */
	dispatch_wake(d, "init");
	for (int i = 0; i < 8 + HAND_OFF_EXTRA; i++)
		dispatch_unreserve(d, "init", "many", 1);
	assert_false(dispatch_reserve(d, "init", "many", 1));
	spin();
	db.claim_fn(db.claim_arg, STORE_OK, NULL, 0); /* the database has been seen empty */
	assert_true(dispatch_reserve(d, "init", "many", 1));
}

static void test_least_served_is_next(void **state)
{
	static const int64_t rows[] = { 1, 2, 3, 4, 5, 6 };
	struct arena *a = arena_new(1 << 20);
	struct str rcpt = STR("b@example.net");
	struct wire_item it = { .id = 100, .has_content = true, .mail_from = STR("a@x"), .rcpts = &rcpt, .n_rcpts = 1,
		.state = STR("{}"), .headers = STR("A: b\r\n"), .body = STR("x\r\n"), .body_size = 3 };
	int64_t ids[8];
	(void)state;
	claim_gives(rows, 6); /* all of sender "crowd" */
	int w = worker_up(0);
	assert_int_equal(got(w, ids, 8, NULL, a), 2); /* 1 and 2 */
	assert_true(dispatch_reserve(d, "init", "other", 1));
	dispatch_hand_off(d, "init", "other", &it, -1);
	now_us += 20000;
	say(w, "0\n0\n"); /* 10 ms each: one at a time from here */
	assert_int_equal(got(w, ids, 8, NULL, a), 1);
	assert_int_equal(ids[0], 100); /* not 3, though 3 has waited longer */
	now_us += 10000;
	say(w, "0\n");
	assert_int_equal(got(w, ids, 8, NULL, a), 1);
	assert_int_equal(ids[0], 3);
	close(w);
	arena_free(a);
}

static void test_suspect_does_not_hold_up_others(void **state)
{
	static const int64_t rows[] = { 1, 2, 3, 4 };
	struct arena *a = arena_new(1 << 20);
	int64_t ids[8], still[] = { 1, 2 };
	(void)state;
	claim_gives(rows, 4);
	unsigned starts = sp.starts;
	assert_int_equal(starts, 2); /* PARALLELISM */
	int w0 = worker_up(0);
	assert_int_equal(got(w0, ids, 8, NULL, a), 2);
	pid_t pid0 = next_pid;
	int w1 = worker_up(1);
	assert_int_equal(got(w1, ids, 8, NULL, a), 2); /* 3 and 4, which take long */
	close(w0);
	dispatch_worker_exited(d, pid0, SIGSEGV);
	spin();
	still_gives(STORE_OK, still, 2);
	spin();
	assert_int_equal(init_stage()->n_suspects, 2);
	assert_int_equal(sp.starts, 3); /* a fresh worker for them */
	w0 = worker_up(2);
	assert_int_equal(got(w0, ids, 8, NULL, a), 1);
	say(w0, "0\n");
	assert_int_equal(got(w0, ids, 8, NULL, a), 1);
	say(w0, "0\n");
	assert_int_equal(init_stage()->n_suspects, 0);
	assert_int_equal(init_stage()->n_backlog, 0);
	close(w0);
	close(w1);
	arena_free(a);
}

/* The books alone: shares come out even whatever the order and size of the demands; leads decay; no credit for idling. */
static void test_fair_books(void **state)
{
	static struct fair_book b;
	static struct flight f[3];
	struct sender *s[3];
	unsigned served[3] = { 0 };
	bool by_age;
	(void)state;
	fair_init(&b);
	for (int i = 0; i < 3; i++) {
		char key[8];
		snprintf(key, sizeof key, "s%d", i);
		s[i] = fair_sender(&b, key);
		assert_ptr_equal(s[i], fair_sender(&b, key));
	}
	fair_hold(&b, s[0]);
	fair_put(&b, s[0], &f[0], false);
	for (int i = 0; i < 100; i++) /* alone for a while */
		fair_charge(fair_next(&b, &by_age), 10000);
	for (int i = 1; i < 3; i++) {
		fair_hold(&b, s[i]);
		fair_put(&b, s[i], &f[i], false);
	}
	for (int i = 0; i < 300; i++) {
		struct sender *next = fair_next(&b, &by_age);
		assert_false(by_age); /* no FIFO share is set */
		for (int j = 0; j < 3; j++)
			served[j] += next == s[j];
		fair_charge(next, next == s[2] ? 20000 : 10000); /* s2's messages take twice as long */
	}
	assert_in_range(served[0], 115, 125);
	assert_in_range(served[1], 115, 125);
	assert_in_range(served[2], 55, 65); /* half as many, the same time */

	double lead;
	fair_charge(s[1], 1e6);
	lead = s[1]->time_us - b.floor_us;
	fair_decay(&b, 600e6, 600e6);
	assert_true(s[1]->time_us - b.floor_us < lead * 0.51 && s[1]->time_us - b.floor_us > lead * 0.49);

	b.fifo_percent = 10;
	unsigned aged = 0;
	for (int i = 0; i < 100; i++) {
		fair_next(&b, &by_age);
		aged += by_age;
	}
	assert_int_equal(aged, 10);

	/* gone for an hour, it comes back level, not ahead */
	fair_take(&b, s[2], &f[2]);
	fair_release(&b, s[2]);
	for (int i = 0; i < 1000; i++)
		fair_charge(fair_next(&b, &by_age), 10000);
	s[2] = fair_sender(&b, "s2");
	fair_hold(&b, s[2]);
	assert_true(s[2]->time_us >= b.floor_us);
	fair_release(&b, s[2]);

	/* many strangers: the book stays bounded, and forgets who says nothing any more */
	for (unsigned i = 0; i < FAIR_SENDERS_MAX + 5000; i++) {
		char key[16];
		snprintf(key, sizeof key, "n%u", i);
		assert_non_null(fair_sender(&b, key));
	}
	assert_in_range(b.n, FAIR_SENDERS_MAX, FAIR_SENDERS_MAX + 1);
	fair_decay(&b, 1, 600e6);
	assert_in_range(b.n, 1, 4);
	fair_done(&b);
}

static void test_wake_during_claim_is_kept(void **state)
{
	(void)state;
	dispatch_wake(d, "init");
	spin();
	assert_int_equal(db.claims, 2);
	dispatch_wake(d, "init"); /* a row came after the statement's snapshot */
	db.claim_fn(db.claim_arg, STORE_OK, NULL, 0);
	spin();
	assert_int_equal(db.claims, 3);
}

static void test_next_stage_is_claimed_at_once(void **state)
{
	(void)state;
	assert_true(hand(1));
	spin();
	int w = worker_up(0);
	say(w, "0 {\"outcome\":\"move\",\"to\":\"bounce\"}\n");
	assert_int_equal(db.claims, 2);
	assert_int_equal(db.claim_n, 1);
	assert_string_equal(db.claim_stage[0], "bounce");
	close(w);
}

/* The row's move is committed and claimed for the next stage before the status line that tells of it is read. */
static void test_claimed_before_its_answer(void **state)
{
	struct store_claimed row = { .id = 1, .sender_key = "k" };
	int64_t ids[8];
	struct arena *a = arena_new(1 << 20);
	(void)state;
	assert_true(hand(1));
	spin();
	int w = worker_up(0);
	assert_int_equal(got(w, ids, 8, NULL, a), 1);
	dispatch_wake(d, "bounce");
	spin();
	assert_string_equal(db.claim_stage[0], "bounce");
	db.claim_fn(db.claim_arg, STORE_OK, &row, 1);
	spin();
	assert_int_equal(sp.starts, 1); /* one flight per row at a time */
	say(w, "0 {\"outcome\":\"move\",\"to\":\"bounce\"}\n");
	assert_int_equal(init_stage()->in_flight, 0);
	assert_int_equal(dispatch_stage_find(d, "bounce")->in_flight, 1);
	assert_int_equal(sp.starts, 2);
	assert_string_equal(sp.stage[1], "bounce");
	int b = worker_up(1);
	assert_int_equal(got(b, ids, 8, NULL, a), 1);
	assert_int_equal(ids[0], 1);
	say(b, "0 {\"outcome\":\"finish\"}\n");
	assert_int_equal(dispatch_stage_find(d, "bounce")->in_flight, 0);
	assert_int_equal(d->flights.n, 0);
	close(w);
	close(b);
	arena_free(a);
}

/* The same, but the worker dies before its line: the look-up finds the row elsewhere, and it goes on there. */
static void test_claimed_before_its_worker_died(void **state)
{
	struct store_claimed row = { .id = 2, .sender_key = "k" };
	int64_t ids[8];
	struct arena *a = arena_new(1 << 20);
	(void)state;
	assert_true(hand(1));
	assert_true(hand(2));
	spin();
	int w = worker_up(0);
	assert_int_equal(got(w, ids, 8, NULL, a), 2);
	dispatch_wake(d, "bounce");
	spin();
	db.claim_fn(db.claim_arg, STORE_OK, &row, 1);
	spin();
	close(w);
	spin();
	dispatch_worker_exited(d, next_pid, SIGSEGV);
	spin();
	assert_int_equal(db.stills, 1);
	int64_t still = 1;
	still_gives(STORE_OK, &still, 1);
	spin();
	assert_int_equal(init_stage()->in_flight, 1);
	assert_int_equal(dispatch_stage_find(d, "bounce")->in_flight, 1);
	arena_free(a);
}

static void test_depth_is_small_until_known(void **state)
{
	static const int64_t rows[] = { 1, 2, 3, 4, 5, 6 };
	struct arena *a = arena_new(1 << 20);
	int64_t ids[8];
	(void)state;
	claim_gives(rows, 6);
	int w = worker_up(0);
	assert_int_equal(got(w, ids, 8, NULL, a), DEPTH_UNKNOWN);
	now_us += 100;
	say(w, "0\n0\n"); /* fast: now up to QUEUE_LIMIT at once, MAX_MESSAGES allows three more */
	assert_int_equal(got(w, ids, 8, NULL, a), 3);
	assert_int_equal(ids[0], 3);
	close(w);
	arena_free(a);
}

static void test_lone_crash_is_blamed(void **state)
{
	static const int64_t row = 41;
	(void)state;
	claim_gives(&row, 1);
	int w = worker_up(0);
	close(w);
	spin();
	assert_int_equal(db.blames, 0); /* not before its status is known */
	dispatch_worker_exited(d, next_pid, SIGSEGV);
	spin();
	assert_int_equal(db.blames, 1);
	assert_int_equal(db.blame_id, 41);
	assert_false(db.blame_overrun);
	assert_non_null(strstr(db.report, "\"signal\":11"));
	assert_int_equal(init_stage()->crashes, 1);
	db.blame_fn(db.blame_arg, STORE_OK, STORE_BLAMED_ENDED);
	db.blame_fn = NULL;
	assert_int_equal(init_stage()->in_flight, 0);
	assert_int_equal(d->failed_total, 1);
}

static void test_exit_zero_in_mid_message_is_a_crash(void **state)
{
	static const int64_t row = 42;
	(void)state;
	claim_gives(&row, 1);
	int w = worker_up(0);
	close(w);
	dispatch_worker_exited(d, next_pid, 0);
	spin();
	assert_int_equal(db.blames, 1);
}

static void test_crowd_is_not_blamed_but_separated(void **state)
{
	static const int64_t rows[] = { 1, 2, 3 };
	struct arena *a = arena_new(1 << 20);
	int64_t ids[8], still[] = { 2, 3 };
	(void)state;
	claim_gives(rows, 3);
	int w = worker_up(0);
	now_us += 100;
	assert_int_equal(got(w, ids, 8, NULL, a), 2);
	close(w);
	dispatch_worker_exited(d, next_pid, SIGABRT);
	spin();
	assert_int_equal(db.blames, 0);
	assert_int_equal(db.stills, 1);
	assert_int_equal(db.n_ids, 2);
	still_gives(STORE_OK, still, 1); /* 1 was finished just before */
	spin();
	assert_int_equal(init_stage()->done, 1);
	assert_int_equal(init_stage()->n_suspects, 1);
	unsigned before = sp.starts;
	assert_true(before >= 2);
	w = worker_up(before - 1);
	size_t n = got(w, ids, 8, NULL, a);
	/* 3 was never sent and 2 is a suspect: whichever comes, the suspect is alone */
	assert_true(n >= 1);
	for (size_t i = 0; i < n; i++)
		if (ids[i] == 2)
			assert_int_equal(n, 1);
	close(w);
	arena_free(a);
}

static void test_overrun(void **state)
{
	static const int64_t row = 9;
	(void)state;
	claim_gives(&row, 1);
	int w = worker_up(0);
	now_us += 9 * US_PER_S;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 0);
	now_us += 2 * US_PER_S;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 1);
	assert_int_equal(sp.killed, next_pid);
	close(w);
	dispatch_worker_exited(d, next_pid, SIGKILL);
	spin();
	assert_int_equal(db.blames, 1);
	assert_true(db.blame_overrun);
	assert_int_equal(init_stage()->kills, 1);
	assert_int_equal(init_stage()->crashes, 0);
}

static void test_no_overrun_without_database(void **state)
{
	static const int64_t row = 9;
	(void)state;
	claim_gives(&row, 1);
	int w = worker_up(0);
	dispatch_database(d, false);
	now_us += 600 * US_PER_S;
	pool_tick(d, now_us);
	dispatch_database(d, true);
	now_us += 9 * US_PER_S;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 0);
	now_us += 2 * US_PER_S;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 1);
	close(w);
}

static void test_cool_down(void **state)
{
	static const int64_t row = 5;
	(void)state;
	claim_gives(&row, 1);
	int w = worker_begins(0);
	close(w);
	dispatch_worker_exited(d, next_pid, 3 << 8);
	spin();
	unsigned starts = sp.starts;
	assert_false(dispatch_reserve(d, "init", "k", 1));
	dispatch_wake(d, "init");
	spin();
	assert_int_equal(sp.starts, starts);
	assert_int_equal(init_stage()->in_flight, 0);
	assert_int_equal(d->n_sour, 1); /* pending again with the next tick */
	assert_true(init_stage()->trouble[0]);
	now_us += 6 * US_PER_S;
	unsigned claims = db.claims;
	pool_tick(d, now_us);
	spin();
	assert_int_equal(db.claims, claims + 1);
}

/* The same exit status behind the ready line is a message's doing. */
static void test_exit_status_of_a_module(void **state)
{
	static const int64_t row = 5;
	(void)state;
	claim_gives(&row, 1);
	int w = worker_up(0);
	close(w);
	dispatch_worker_exited(d, next_pid, 3 << 8);
	spin();
	assert_int_equal(db.blames, 1);
	assert_int_equal(db.blame_id, 5);
	assert_int_equal(init_stage()->cooldown_until, 0);
	db.blame_fn(db.blame_arg, STORE_OK, STORE_BLAMED);
	db.blame_fn = NULL;
}

static void test_killed_before_ready(void **state)
{
	static const int64_t row = 5;
	(void)state;
	claim_gives(&row, 1);
	for (unsigned i = 0; i < EARLY_KILLS_MAX; i++) {
		assert_int_equal(init_stage()->cooldown_until, 0);
		close(worker_begins(sp.starts - 1));
		dispatch_worker_exited(d, next_pid, SIGKILL);
		spin();
	}
	assert_true(init_stage()->cooldown_until > now_us);
	assert_int_equal(db.blames, 0);
}

/* Told to go while their modules are still opening: that they were killed in the end is no fault of the module. */
static void test_retired_before_ready(void **state)
{
	(void)state;
	assert_true(hand(1));
	spin();
	for (unsigned i = 0; i < EARLY_KILLS_MAX + 1; i++) {
		dispatch_reload(d, conf);
		close(worker_begins(sp.starts - 1)); /* the end of the test's side is not seen: the process lives */
		now_us += LEAVE_US;
		pool_tick(d, now_us);
		assert_int_equal(sp.kills, i + 1);
		dispatch_worker_exited(d, next_pid, SIGKILL);
		spin();
		assert_int_equal(init_stage()->cooldown_until, 0);
	}
	assert_int_equal(init_stage()->crashes, 0);
	assert_int_equal(init_stage()->n_backlog, 1);
}

/* One that has still to answer is not on its way out, however long ago it was told to go: only MAX_RUNTIME ends it. */
static void test_retired_with_work(void **state)
{
	(void)state;
	config_set(conf, "stage-init", "MAX_RUNTIME", "300 s");
	dispatch_reload(d, conf);
	for (int64_t i = 1; i <= 2; i++)
		assert_true(hand(i));
	spin();
	int w = worker_up(0);
	dispatch_reload(d, conf);
	assert_int_equal(pool_leaving(init_stage()), 0);
	now_us += 2 * LEAVE_US;
	pool_tick(d, now_us);
	say(w, "0\n"); /* the other is still there */
	now_us += 2 * LEAVE_US;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 0);
	say(w, "0\n"); /* from here, it only has to close its module */
	assert_int_equal(pool_leaving(init_stage()), 1);
	now_us += LEAVE_US - 1;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 0);
	now_us += 1;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 1);
	close(w);
}

/* A process that the dead worker forked holds its channel: nobody waits for that one. */
static void test_channel_held_by_another(void **state)
{
	static const int64_t row = 5;
	(void)state;
	claim_gives(&row, 1);
	int w = worker_up(0);
	dispatch_worker_exited(d, next_pid, 0);
	spin();
	assert_int_equal(db.blames, 1);
	assert_int_equal(init_stage()->n_workers, 0);
	db.blame_fn(db.blame_arg, STORE_OK, STORE_BLAMED);
	db.blame_fn = NULL;
	close(w);
}

static void test_worker_that_does_not_leave(void **state)
{
	(void)state;
	assert_true(hand(1));
	spin();
	int w = worker_up(0);
	say(w, "0\n");
	now_us += 100 * US_PER_S; /* idle: retired */
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 0);
	now_us += 10 * US_PER_S;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 0);
	now_us += 10 * US_PER_S;
	pool_tick(d, now_us);
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 1);
	close(w);
	dispatch_worker_exited(d, next_pid, SIGKILL);
	assert_int_equal(init_stage()->n_workers, 0);
	assert_int_equal(init_stage()->crashes, 0);
}

static void test_ready_twice(void **state)
{
	(void)state;
	assert_true(hand(1));
	spin();
	int w = worker_up(0);
	say(w, "2\n");
	assert_int_equal(sp.kills, 1);
	close(w);
}

/* However many workers are wanted, only so many requests are under way. */
static void test_starts_are_bounded(void **state)
{
	static int64_t rows[16];
	(void)state;
	config_set(conf, "stage-init", "PARALLELISM", "500");
	dispatch_reload(d, conf);
	init_stage()->avg_us = US_PER_S;
	for (int64_t i = 0; i < 16; i++)
		rows[i] = i + 1;
	for (unsigned k = 0; k < 6; k++) {
		claim_gives(rows, 16);
		for (int64_t i = 0; i < 16; i++)
			rows[i] += 16;
	}
	assert_int_equal(init_stage()->n_backlog, 96);
	assert_int_equal(sp.starts, STARTING_MAX);
	dispatch_worker_failed(d, sp.token[0]);
	assert_int_equal(d->n_starting, STARTING_MAX - 1);
}

static void test_worn_out_and_idle_workers_leave(void **state)
{
	char byte;
	(void)state;
	for (int64_t i = 1; i <= 5; i++) {
		assert_true(hand(i));
		spin();
		if (i == 1)
			next_pid = 200;
	}
	int w = worker_up(0);
	say(w, "0\n0\n");
	say(w, "0\n0\n0\n");
	assert_int_equal(init_stage()->done, 5);
	recv(w, &byte, 1, MSG_DONTWAIT);
	while (recv(w, &byte, 1, MSG_DONTWAIT) > 0)
		;
	assert_int_equal(recv(w, &byte, 1, MSG_DONTWAIT), 0); /* MAX_MESSAGES: the end of its channel */
	close(w);
	dispatch_worker_exited(d, next_pid, 0);
	spin();
	assert_int_equal(init_stage()->crashes, 0);
}

/* close() of the module hangs: nothing more is dealt to such a worker, its successor comes at once, and processes stay bounded. */
static void test_successors_of_workers_that_stay(void **state)
{
	int w[4];
	int64_t ids[16], id = 1;
	struct arena *a = arena_new(1 << 20);
	struct stage *st = init_stage();
	(void)state;
	for (unsigned n = 0; n < 4; n++) {
		assert_true(hand(id++));
		spin();
		assert_int_equal(sp.starts, n + 1);
		w[n] = worker_up(n);
		say(w[n], "0\n");
		for (unsigned i = 1; i < 5; i++) {
			assert_true(hand(id++));
			spin();
			say(w[n], "0\n");
		}
		assert_int_equal(st->done, 5 * (n + 1));
		assert_int_equal(got(w[n], ids, 16, NULL, a), 5); /* MAX_MESSAGES, and not one more */
		assert_int_equal(pool_leaving(st), n + 1);
	}
	/* PARALLELISM 2: with four of them on their way out a message waits, for a while */
	int64_t last = id;
	assert_true(hand(id++));
	spin();
	assert_int_equal(sp.starts, 4);
	assert_int_equal(st->n_backlog, 1);
	for (unsigned n = 0; n < 4; n++)
		assert_int_equal(got(w[n], ids, 16, NULL, a), 0);
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 0);
	now_us += LEAVE_PRESSED_US;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 4);
	for (pid_t pid = next_pid - 3; pid <= next_pid; pid++)
		dispatch_worker_exited(d, pid, SIGKILL);
	spin();
	assert_int_equal(st->crashes, 0);
	assert_int_equal(sp.starts, 5);
	int fresh = worker_up(4);
	assert_int_equal(got(fresh, ids, 16, NULL, a), 1);
	assert_int_equal(ids[0], last);
	say(fresh, "0\n");
	assert_int_equal(st->in_flight, 0);
	arena_free(a);
	close(fresh);
	for (unsigned n = 0; n < 4; n++)
		close(w[n]);
}

/* Nobody waits for their place: they have their time. */
static void test_time_to_leave(void **state)
{
	(void)state;
	for (int64_t i = 1; i <= 5; i++)
		assert_true(hand(i));
	spin();
	int w = worker_up(0);
	say(w, "0\n0\n");
	say(w, "0\n0\n0\n");
	assert_int_equal(pool_leaving(init_stage()), 1);
	now_us += LEAVE_US - 1;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 0);
	now_us += 1;
	pool_tick(d, now_us);
	assert_int_equal(sp.kills, 1);
	close(w);
}

static void test_garbage_kills_the_worker(void **state)
{
	static const int64_t row = 5;
	(void)state;
	claim_gives(&row, 1);
	int w = worker_up(0);
	say(w, "hello\n");
	assert_int_equal(sp.kills, 1);
	dispatch_worker_exited(d, next_pid, SIGKILL);
	spin();
	assert_int_equal(db.blames, 1);
	close(w);
}

static void test_error_line_is_released_later(void **state)
{
	static const int64_t row = 6;
	(void)state;
	claim_gives(&row, 1);
	int w = worker_up(0);
	say(w, "1 {\"error\":\"database away\"}\n");
	assert_int_equal(init_stage()->errors, 1);
	assert_int_equal(d->n_sour, 1);
	assert_int_equal(init_stage()->in_flight, 0);
	close(w);
}

static bool stopped;

static void on_stopped(void *arg)
{
	(void)arg;
	stopped = true;
}

static void test_stop(void **state)
{
	static const int64_t rows[] = { 1, 2, 3 };
	(void)state;
	claim_gives(rows, 3);
	int w = worker_up(0);
	now_us += 100;
	db.n_ids = 0;
	stopped = false;
	dispatch_stop(d, 5, on_stopped, NULL);
	spin();
	assert_int_equal(db.n_ids, 1); /* the one not sent is pending again */
	assert_int_equal(db.ids[0], 3);
	assert_false(stopped);
	say(w, "0\n0\n");
	close(w);
	spin();
	dispatch_worker_exited(d, next_pid, 0);
	for (unsigned i = 1; i < sp.starts; i++)
		dispatch_worker_failed(d, sp.token[i]);
	spin();
	assert_true(stopped);
	assert_int_equal(db.flushes, 1);
	assert_int_equal(db.delta.messages, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_hand_off, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_reserve_over_waiting_rows, setup, teardown),
		cmocka_unit_test_setup_teardown(test_only_one_dispatcher, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_overtaking_of_ones_own, setup, teardown),
		cmocka_unit_test_setup_teardown(test_least_served_is_next, setup, teardown),
		cmocka_unit_test_setup_teardown(test_suspect_does_not_hold_up_others, setup, teardown),
		cmocka_unit_test(test_fair_books),
		cmocka_unit_test_setup_teardown(test_wake_during_claim_is_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_next_stage_is_claimed_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_claimed_before_its_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_claimed_before_its_worker_died, setup, teardown),
		cmocka_unit_test_setup_teardown(test_depth_is_small_until_known, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lone_crash_is_blamed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_exit_zero_in_mid_message_is_a_crash, setup, teardown),
		cmocka_unit_test_setup_teardown(test_crowd_is_not_blamed_but_separated, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overrun, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_overrun_without_database, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cool_down, setup, teardown),
		cmocka_unit_test_setup_teardown(test_exit_status_of_a_module, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed_before_ready, setup, teardown),
		cmocka_unit_test_setup_teardown(test_retired_before_ready, setup, teardown),
		cmocka_unit_test_setup_teardown(test_retired_with_work, setup, teardown),
		cmocka_unit_test_setup_teardown(test_channel_held_by_another, setup, teardown),
		cmocka_unit_test_setup_teardown(test_worker_that_does_not_leave, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ready_twice, setup, teardown),
		cmocka_unit_test_setup_teardown(test_starts_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_worn_out_and_idle_workers_leave, setup, teardown),
		cmocka_unit_test_setup_teardown(test_successors_of_workers_that_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_time_to_leave, setup, teardown),
		cmocka_unit_test_setup_teardown(test_garbage_kills_the_worker, setup, teardown),
		cmocka_unit_test_setup_teardown(test_error_line_is_released_later, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stop, setup, teardown),
	};
	log_setup(LOG_LV_ERROR, "test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
