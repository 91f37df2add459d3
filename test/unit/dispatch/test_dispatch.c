/* The dispatcher against a fake store, fake workers (the other ends of socketpairs) and a fake clock: claims, hand-offs,
 * answers, crashes, overruns, cool-downs, stop. No database, no process, no sleep. */
#include "dispatch/dispatch_internal.h"

#include "base/clock.h"
#include "proto/wire/page.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the clock: interposed */
static int64_t now_us = 1000 * US_PER_S;

int64_t clock_mono_us(void)
{
	return now_us;
}

int64_t clock_wall_us(void)
{
	return now_us;
}

/* ---- the store: what was asked last, and the callback to answer it with */
static struct {
	unsigned claims, releases, release_all, stills, blames, dues, flushes, orphans;
	char claim_stage[8][32];
	int32_t claim_limit[8];
	size_t claim_n, n_book;
	struct store_claim_book book;
	store_claim_fn claim_fn;
	void *claim_arg;
	int64_t ids[64];
	size_t n_ids;
	store_count_fn release_fn;
	void *release_arg;
	store_still_fn still_fn;
	void *still_arg;
	store_blame_fn blame_fn;
	void *blame_arg;
	int64_t blame_id;
	bool blame_overrun;
	char report[8192];
	struct store_stage_delta delta;
} db;

static bool another_holds_the_lock;
static unsigned notified;

void store_notify(struct store_conn *c, store_done_fn fn, void *arg)
{
	(void)c;
	notified++;
	fn(arg, STORE_OK, NULL);
}

void store_lock_dispatcher(struct store_conn *c, store_lock_fn fn, void *arg)
{
	(void)c;
	fn(arg, STORE_OK, !another_holds_the_lock);
}

void store_claim(struct store_conn *c, const struct store_claim_stage *stages, size_t n, const struct store_claim_book *book,
    size_t n_book, store_claim_fn fn, void *arg)
{
	(void)c;
	db.claims++;
	db.claim_n = n;
	db.n_book = n_book;
	db.book = n_book ? book[0] : (struct store_claim_book){ 0 };
	for (size_t i = 0; i < n && i < 8; i++) {
		snprintf(db.claim_stage[i], sizeof db.claim_stage[i], "%s", stages[i].stage);
		db.claim_limit[i] = stages[i].limit;
	}
	db.claim_fn = fn;
	db.claim_arg = arg;
}

void store_requeue_due(struct store_conn *c, store_due_fn fn, void *arg)
{
	(void)c;
	(void)fn;
	(void)arg;
	db.dues++;
}

void store_release(struct store_conn *c, const int64_t *ids, size_t n, store_count_fn fn, void *arg)
{
	(void)c;
	if (!n)
		db.release_all++;
	db.releases++;
	for (size_t i = 0; i < n; i++)
		db.ids[db.n_ids++ % 64] = ids[i];
	db.release_fn = fn;
	db.release_arg = arg;
}

void store_release_orphans(struct store_conn *c, const int64_t *known, size_t n, int64_t older_us, store_count_fn fn, void *arg)
{
	(void)c;
	(void)known;
	(void)n;
	(void)older_us;
	db.orphans++;
	fn(arg, STORE_OK, 0);
}

void store_still_running(struct store_conn *c, const char *stage, const int64_t *ids, size_t n, store_still_fn fn, void *arg)
{
	(void)c;
	(void)stage;
	db.stills++;
	db.n_ids = n;
	for (size_t i = 0; i < n; i++)
		db.ids[i] = ids[i];
	db.still_fn = fn;
	db.still_arg = arg;
}

void store_blame(struct store_conn *c, int64_t id, bool overrun, unsigned limit, const char *report, store_blame_fn fn, void *arg)
{
	(void)c;
	assert_int_equal(limit, 3);
	db.blames++;
	db.blame_id = id;
	db.blame_overrun = overrun;
	snprintf(db.report, sizeof db.report, "%s", report);
	db.blame_fn = fn;
	db.blame_arg = arg;
}

void store_flush_stats(struct store_conn *c, const struct store_stage_delta *d, size_t n, int64_t failed, int64_t ser,
    store_done_fn fn, void *arg)
{
	(void)c;
	(void)failed;
	(void)ser;
	db.flushes++;
	if (n)
		db.delta = d[0];
	fn(arg, STORE_OK, NULL);
}

/* ---- the spawner */
static struct {
	unsigned starts, kills;
	uint32_t token[64];
	char stage[64][32];
	pid_t killed;
} sp;

static void fake_start(void *arg, uint32_t token, const char *stage)
{
	(void)arg;
	snprintf(sp.stage[sp.starts % 64], 32, "%s", stage);
	sp.token[sp.starts++ % 64] = token;
}

static void fake_kill(void *arg, pid_t pid, int sig)
{
	(void)arg;
	assert_int_equal(sig, SIGKILL);
	sp.kills++;
	sp.killed = pid;
}

/* ---- one test's world */
static struct event_base *base;
static struct dispatch *d;
static struct config *conf;
static pid_t next_pid;

static void spin(void)
{
	for (int i = 0; i < 5; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
}

static int setup(void **state)
{
	static const struct dispatch_spawner ops = { NULL, fake_start, fake_kill };
	struct config_faults *faults = config_faults_new();
	(void)state;
	memset(&db, 0, sizeof db);
	memset(&sp, 0, sizeof sp);
	next_pid = 100000;
	conf = config_load("/dev/null", faults);
	config_faults_free(faults);
	assert_non_null(conf);
	config_set(conf, "stage-init", "PROGRAM", "pepsi-stage-x");
	config_set(conf, "stage-init", "PARALLELISM", "2");
	config_set(conf, "stage-init", "QUEUE_LIMIT", "4");
	config_set(conf, "stage-init", "MAX_MESSAGES", "5");
	config_set(conf, "stage-init", "MAX_RUNTIME", "10 s");
	config_set(conf, "stage-bounce", "PROGRAM", "pepsi-stage-y");
	base = event_base_new();
	d = dispatch_new(base, conf, &ops);
	assert_non_null(d);
	assert_int_equal(dispatch_start(d, NULL), 0);
	dispatch_database(d, true);
	assert_int_equal(db.release_all, 1);
	db.release_fn(db.release_arg, STORE_OK, 0);
	spin();
	/* the first claim finds nothing: both stages are known to be empty then */
	assert_int_equal(db.claims, 1);
	assert_int_equal(db.claim_n, 2);
	assert_int_equal(db.claim_limit[0], 8);
	db.claim_fn(db.claim_arg, STORE_OK, NULL, 0);
	spin();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (db.blame_fn) /* as store_conn_close() would */
		db.blame_fn(db.blame_arg, STORE_AWAY, false);
	dispatch_free(d);
	event_base_free(base);
	config_free(conf);
	return 0;
}

static void say(int fd, const char *lines)
{
	assert_int_equal(send(fd, lines, strlen(lines), 0), strlen(lines));
	spin();
}

/* Answers the n-th request for a worker; returns the worker's end. */
static int worker_begins(unsigned n)
{
	int sv[2];
	assert_true(n < sp.starts);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	dispatch_worker_started(d, sp.token[n], ++next_pid, sv[0]);
	spin();
	return sv[1];
}

/* The same, and it says that its module is open. */
static int worker_up(unsigned n)
{
	int w = worker_begins(n);
	say(w, "2\n");
	return w;
}

/* Ids (and contents) that wait at the worker's end. */
static size_t got(int fd, int64_t *ids, size_t max, struct wire_item *last, struct arena *a)
{
	static char data[WIRE_DATAGRAM_MAX];
	size_t n = 0;
	ssize_t r;
	while ((r = recv(fd, data, sizeof data, MSG_DONTWAIT)) > 0) {
		struct str in = str_n(data, (size_t)r);
		struct wire_item it;
		while (wire_get(&in, a, &it) > 0) {
			assert_true(n < max);
			ids[n++] = it.id;
			if (last)
				*last = it;
		}
	}
	return n;
}

static bool hand(int64_t id)
{
	struct str rcpt = STR("b@example.net");
	struct wire_item it = { .id = id, .has_content = true, .mail_from = STR("a@example.org"), .rcpts = &rcpt, .n_rcpts = 1,
		.state = STR("{}"), .headers = STR("Subject: x\r\n"), .body = STR("hello\r\n"), .body_size = 7 };
	if (!dispatch_reserve(d, "init", "k", 100))
		return false;
	dispatch_hand_off(d, "init", "k", &it, -1);
	return true;
}

static struct stage *init_stage(void)
{
	return dispatch_stage_find(d, "init");
}

static void claim_gives(const int64_t *ids, size_t n)
{
	struct store_claimed rows[16];
	for (size_t i = 0; i < n; i++)
		rows[i] = (struct store_claimed){ ids[i], 0, "crowd" };
	dispatch_wake(d, "init");
	spin();
	db.claim_fn(db.claim_arg, STORE_OK, rows, n);
	spin();
}

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

/* A sender whose row was left to the database does not overtake it with the next. */
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
	db.still_fn(db.still_arg, STORE_OK, still, 2);
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
	struct store_claimed row = { 1, 0, "k" };
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
	struct store_claimed row = { 2, 0, "k" };
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
	db.still_fn(db.still_arg, STORE_OK, &still, 1);
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
	db.blame_fn(db.blame_arg, STORE_OK, true);
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
	db.still_fn(db.still_arg, STORE_OK, still, 1); /* 1 was finished just before */
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
	db.blame_fn(db.blame_arg, STORE_OK, false);
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
	db.blame_fn(db.blame_arg, STORE_OK, false);
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

/* A worker that shows a page. */
static int worker_with_page(unsigned n, struct wire_page **ret, bool sealed)
{
	int w = worker_begins(n), fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} ctl = { .space = { 0 } };
	struct iovec v = { "2\n", 2 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof ctl };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	assert_int_equal(ftruncate(fd, WIRE_PAGE_SIZE), 0);
	if (sealed)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	*ret = mmap(NULL, WIRE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(*ret != MAP_FAILED);
	(*ret)->magic = WIRE_PAGE_MAGIC;
	assert_int_equal(sendmsg(w, &m, 0), 2);
	close(fd);
	spin();
	return w;
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
	assert_int_equal(d->selects, 7);
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
	db.blame_fn(db.blame_arg, STORE_OK, false);
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
	db.blame_fn(db.blame_arg, STORE_OK, false);
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
		cmocka_unit_test_setup_teardown(test_channel_held_by_another, setup, teardown),
		cmocka_unit_test_setup_teardown(test_worker_that_does_not_leave, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ready_twice, setup, teardown),
		cmocka_unit_test_setup_teardown(test_starts_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_worn_out_and_idle_workers_leave, setup, teardown),
		cmocka_unit_test_setup_teardown(test_garbage_kills_the_worker, setup, teardown),
		cmocka_unit_test_setup_teardown(test_error_line_is_released_later, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fused_hops_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overrun_of_a_fused_stage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_page_is_not_believed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_harm_at_home_ends_fusion, setup, teardown),
		cmocka_unit_test_setup_teardown(test_backtrace_in_the_report, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stop, setup, teardown),
	};
	log_setup(LOG_LV_ERROR, "test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
