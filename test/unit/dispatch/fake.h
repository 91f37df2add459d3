/* What the tests of the dispatcher share: a fake store, fake workers (the other ends of socketpairs) and a fake clock, which
 * stand before the real ones. Included by one test program each. */
#ifndef TEST_DISPATCH_FAKE_H
#define TEST_DISPATCH_FAKE_H

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

#pragma GCC diagnostic ignored "-Wunused-function" /* each program uses some of it */

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
	struct {
		store_still_fn fn;
		void *arg;
	} still[16]; /* look-ups that are not answered yet */
	size_t n_still;
	store_blame_fn blame_fn;
	void *blame_arg;
	int64_t blame_id;
	bool blame_overrun;
	char report[8192];
	unsigned expires;
	size_t expire_n, n_expired;
	struct store_expire_stage expire[8];
	const struct store_expired *expired;
	store_due_fn due_fn;
	void *due_arg;
	struct store_due_ask due; /* its pointers do not live */
	int due_firsts;           /* of the first stage */
	struct store_due_domain named[16];
	char named_domain[16][64];
	size_t n_named;
	int64_t earlier_us;
	int64_t known[64];
	size_t n_known;
	store_still_fn orphan_fn;
	void *orphan_arg;
	struct store_stage_delta delta;
	int64_t serialization;
	enum store_rc flush_rc;
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

void store_requeue_due(struct store_conn *c, const struct store_due_ask *ask, store_due_fn fn, void *arg)
{
	(void)c;
	db.dues++;
	db.due = *ask;
	db.n_named = ask->n_domains;
	for (size_t i = 0; i < ask->n_domains && i < 16; i++) {
		db.named[i] = ask->domains[i];
		snprintf(db.named_domain[i], sizeof db.named_domain[i], "%s", ask->domains[i].domain);
		db.named[i].domain = db.named_domain[i];
	}
	db.due_firsts = ask->n_stages ? ask->stages[0].firsts : 0;
	db.due_fn = fn;
	db.due_arg = arg;
}

void store_due_earlier(struct store_conn *c, int64_t us, store_count_fn fn, void *arg)
{
	(void)c;
	(void)fn;
	(void)arg;
	db.earlier_us += us;
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

void store_expire(struct store_conn *c, const struct store_expire_stage *stages, size_t n, int64_t default_s, unsigned limit, store_expire_fn fn,
    void *arg)
{
	(void)c;
	(void)default_s;
	(void)limit;
	db.expires++;
	db.expire_n = n;
	for (size_t i = 0; i < n && i < 8; i++) {
		db.expire[i] = stages[i];
	}
	fn(arg, STORE_OK, db.expired, db.n_expired);
	db.n_expired = 0;
}

void store_rule_sweep(struct store_conn *c, store_count_fn fn, void *arg)
{
	(void)c;
	fn(arg, STORE_OK, 0);
}

void store_orphans(struct store_conn *c, const int64_t *known, size_t n, store_still_fn fn, void *arg)
{
	(void)c;
	db.orphans++;
	db.n_known = n;
	for (size_t i = 0; i < n && i < 64; i++)
		db.known[i] = known[i];
	db.orphan_fn = fn;
	db.orphan_arg = arg;
}

void store_still_running(struct store_conn *c, const char *stage, const int64_t *ids, size_t n, store_still_fn fn, void *arg)
{
	(void)c;
	(void)stage;
	db.stills++;
	db.n_ids = n;
	for (size_t i = 0; i < n; i++)
		db.ids[i] = ids[i];
	assert_in_range(db.n_still, 0, 15);
	db.still[db.n_still].fn = fn;
	db.still[db.n_still++].arg = arg;
}

/* Answers the newest look-up. */
static void still_gives(enum store_rc rc, const int64_t *ids, size_t n)
{
	assert_in_range(db.n_still, 1, 16);
	db.n_still--;
	db.still[db.n_still].fn(db.still[db.n_still].arg, rc, ids, n);
}

void store_blame(struct store_conn *c, int64_t id, const char *stage, bool overrun, unsigned limit, const char *report, store_blame_fn fn, void *arg)
{
	(void)c;
	assert_int_equal(limit, 3);
	assert_non_null(stage);
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
	db.flushes++;
	if (n)
		db.delta = d[0];
	if (!db.flush_rc)
		db.serialization += ser;
	fn(arg, db.flush_rc, db.flush_rc ? "no" : NULL);
}

/* ---- the spawner */
static struct {
	unsigned starts, kills, terms;
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
	assert_true(sig == SIGKILL || sig == SIGTERM);
	sp.kills += sig == SIGKILL;
	sp.terms += sig == SIGTERM;
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
	/* what is not answered, as store_conn_close() would */
	if (db.blame_fn)
		db.blame_fn(db.blame_arg, STORE_AWAY, false);
	while (db.n_still)
		still_gives(STORE_AWAY, NULL, 0);
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

static const char *ready_line = "2\n";

/* The same, and it says that its module is open. */
static int worker_up(unsigned n)
{
	int w = worker_begins(n);
	say(w, ready_line);
	return w;
}

/* A worker that shows a page. */
static int worker_with_page(unsigned n, struct wire_page **ret, bool sealed)
{
	int w = worker_begins(n), fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} ctl = { .space = { 0 } };
	struct iovec v = { (char *)(uintptr_t)ready_line, strlen(ready_line) };
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
	assert_int_equal(sendmsg(w, &m, 0), v.iov_len);
	close(fd);
	spin();
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

/* QUEUE_LIMIT, whatever kind of worker it turns out to have. */
static void limit_to(struct stage *st, unsigned n)
{
	st->queue_limit = st->limits[0].queue = st->limits[1].queue = n;
}

static void claim_gives(const int64_t *ids, size_t n)
{
	struct store_claimed rows[16];
	for (size_t i = 0; i < n; i++)
		rows[i] = (struct store_claimed){ .id = ids[i], .sender_key = "crowd" };
	dispatch_wake(d, "init");
	spin();
	db.claim_fn(db.claim_arg, STORE_OK, rows, n);
	spin();
}

#endif
