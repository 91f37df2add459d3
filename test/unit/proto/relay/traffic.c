/* The engine of shaping, call by call: what one destination gets, and what the caller may rely on. Crowds are in traffic_crowd.c. */
#include "proto/relay/traffic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct shape_name named(const char *key, const struct shape *shape)
{
	struct shape_name n = { .shape = shape ? shape : &shape_default };
	snprintf(n.key, sizeof n.key, "%s", key);
	return n;
}

static struct traffic *engine(unsigned slots, unsigned workers, unsigned sessions)
{
	struct traffic_conf conf = { .slots = slots, .workers = workers, .sessions = sessions, .seed = 11 };
	struct traffic *t = traffic_new(&conf);
	assert_non_null(t);
	return t;
}

static const struct smtp_result good = { .outcome = SMTP_OUT_OK, .phase = SMTP_PHASE_DOT, .code = 250, .status = "2.0.0" };
static const struct smtp_result dead = { .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_CONNECT, .text = STR_INIT("connection timed out") };
static const struct smtp_result lost_dot = { .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_DOT };
static const struct smtp_result lost_mail = { .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_MAIL };
static const struct smtp_result many = { .outcome = SMTP_OUT_TRANSIENT, .phase = SMTP_PHASE_BANNER, .code = 421, .status = "4.7.0",
	.text = STR_INIT("Too many connections\x01 from you") };
static const struct smtp_result grey = { .outcome = SMTP_OUT_TRANSIENT, .phase = SMTP_PHASE_RCPT, .code = 450, .status = "4.7.1",
	.text = STR_INIT("Greylisted") };
static const struct smtp_result unknown = { .outcome = SMTP_OUT_PERMANENT, .phase = SMTP_PHASE_RCPT, .code = 550, .status = "5.1.1" };

enum { M = 64 };
static struct traffic_item item[M];
static struct traffic_link line[M];
static unsigned n_items, n_links;

static void fresh(void)
{
	memset(item, 0, sizeof item);
	memset(line, 0, sizeof line);
	n_items = n_links = 0;
}

static struct traffic_item *kept(struct traffic *t, int64_t now, const struct shape_name *n, uint64_t tag)
{
	struct traffic_back back;
	struct traffic_item *i = &item[n_items++];
	i->owner = i;
	assert_int_equal(traffic_add(t, now, n, tag, i, &back), TRAFFIC_KEPT);
	return i;
}

static unsigned back(struct traffic *t, int64_t now, const struct shape_name *n, const char *why)
{
	struct traffic_back b = { 0 };
	struct traffic_item i = { 0 };
	assert_int_equal(traffic_add(t, now, n, 0, &i, &b), TRAFFIC_BACK);
	assert_string_equal(b.why, why);
	assert_true(b.seconds >= 1);
	return b.seconds;
}

static struct traffic_todo expect(struct traffic *t, int64_t now, enum traffic_what what)
{
	struct traffic_todo todo;
	assert_int_equal(traffic_next(t, now, &todo), what);
	assert_int_equal(todo.what, what);
	return todo;
}

static struct traffic_link *start(struct traffic *t, int64_t now, struct traffic_item *want)
{
	struct traffic_todo todo = expect(t, now, TRAFFIC_START);
	struct traffic_link *k = &line[n_links++];
	if (want)
		assert_ptr_equal(todo.item, want);
	k->owner = k;
	traffic_begin(t, now, k, todo.item);
	return k;
}

static void no_more(struct traffic *t, int64_t now)
{
	expect(t, now, TRAFFIC_NOTHING);
}

static struct traffic_view view(struct traffic *t, int64_t now, const char *key)
{
	struct traffic_view v;
	for (const void *pos = NULL; traffic_view(t, now, &pos, &v);)
		if (!strcmp(v.key, key))
			return v;
	fail_msg("no %s", key);
	return v;
}

/* One message after the other over one session; the session leaves when it has had nothing to do. */
static void test_reuse(void **state)
{
	struct traffic *t = engine(100, 1, 0);
	struct shape shape = shape_default;
	struct shape_name n = named("mx.example", &shape);
	(void)state;
	fresh();
	shape.per_connection = 3;
	struct traffic_item *a = kept(t, 1000, &n, 0), *b = kept(t, 1000, &n, 0);
	struct traffic_link *k = start(t, 1000, a);
	no_more(t, 1000); /* nothing is known of it: one session to begin with */
	assert_string_equal(traffic_state_name(view(t, 1000, "mx.example").state), "new");
	traffic_ready(t, 1100, k);
	struct traffic_link *k2 = start(t, 1100, b);
	traffic_ready(t, 1200, k2);
	assert_int_equal(traffic_sent(t, 1300, k, &good), TRAFFIC_YOURS);
	assert_int_equal(traffic_end(t, 1300, k2, NULL, TROUBLE_NONE), TRAFFIC_KEPT); /* nothing was said of its message */
	assert_ptr_equal(expect(t, 1300, TRAFFIC_REUSE).item, b);
	assert_int_equal(traffic_sent(t, 1400, k, &unknown), TRAFFIC_YOURS);
	struct traffic_item *c = kept(t, 1400, &n, 0);
	struct traffic_todo todo = expect(t, 1400, TRAFFIC_REUSE);
	assert_ptr_equal(todo.item, c);
	assert_ptr_equal(todo.link, k);
	traffic_sent(t, 1500, k, &good);
	assert_ptr_equal(expect(t, 1500, TRAFFIC_CLOSE).link, k); /* three messages */
	no_more(t, 1500);
	struct traffic_view v = view(t, 1500, "mx.example");
	assert_int_equal(v.sent, 2);
	assert_int_equal(v.refused, 1);
	assert_int_equal(v.state, TRAFFIC_GOOD);
	/* idle for long enough */
	struct traffic_item *d = kept(t, 2000, &n, 0);
	k = start(t, 2000, d);
	traffic_ready(t, 2000, k);
	traffic_sent(t, 2100, k, &good);
	no_more(t, 2100);
	assert_int_equal(traffic_wait(t, 2100), 10000);
	no_more(t, 12099);
	assert_ptr_equal(expect(t, 12100, TRAFFIC_CLOSE).link, k);
	no_more(t, 12100);
	assert_int_equal(traffic_wait(t, 12100), -1);
	traffic_free(t);
}

/* What one domain demands and a host does not keep pauses nobody, however often; and it shows that a host is back. */
static void test_unsafe(void **state)
{
	static const struct smtp_result unsafe = { .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_STARTTLS, .status = "4.7.4", .text = STR_INIT("no TLS") };
	struct traffic *t = engine(100, 1, 0);
	struct shape_name n = named("mx.example", NULL);
	(void)state;
	fresh();
	for (int i = 0; i < 10; i++) {
		struct traffic_link *k = start(t, 1000 + i, kept(t, 1000 + i, &n, 1));
		assert_int_equal(traffic_end(t, 1000 + i, k, &unsafe, TROUBLE_TLS), TRAFFIC_YOURS);
	}
	struct traffic_view v = view(t, 1010, "mx.example");
	assert_true(!v.backoff_ms && v.window > 1);
	assert_string_equal(trouble_name(v.trouble), "tls");
	struct traffic_link *k = start(t, 2000, kept(t, 2000, &n, 2));
	traffic_end(t, 2000, k, &dead, TROUBLE_NONE);
	int64_t later = 2000 + view(t, 2000, "mx.example").backoff_ms;
	assert_true(later > 2000);
	k = start(t, later, kept(t, later, &n, 1));
	assert_int_equal(view(t, later, "mx.example").state, TRAFFIC_PROBING);
	traffic_end(t, later, k, &unsafe, TROUBLE_TLS);
	v = view(t, later, "mx.example");
	assert_true(v.state == TRAFFIC_GOOD && !v.backoff_ms);
	traffic_free(t);
}

/* A session that does not fit the message is not used for it; and the first in line is not passed for ever. */
static void test_tags(void **state)
{
	struct traffic *t = engine(100, 1, 0);
	struct shape shape = shape_default;
	struct shape_name n = named("mx.example", &shape);
	struct traffic_todo todo;
	unsigned reused = 0;
	(void)state;
	fresh();
	shape.concurrency = shape.initial = 1;
	struct traffic_item *a = kept(t, 1000, &n, 1);
	struct traffic_link *k = start(t, 1000, a);
	traffic_ready(t, 1000, k);
	traffic_sent(t, 1000, k, &good);
	no_more(t, 1000);
	struct traffic_item *other = kept(t, 1000, &n, 2);
	assert_ptr_equal(expect(t, 1000, TRAFFIC_CLOSE).link, k); /* the one session there may be does not fit the one message there is */
	k = start(t, 1000, other);
	traffic_ready(t, 1000, k);
	for (int i = 0; i < 20; i++)
		kept(t, 1000, &n, i == 0 ? 3 : 2);
	traffic_sent(t, 1000, k, &good);
	while (traffic_next(t, 1000, &todo) == TRAFFIC_REUSE) {
		assert_int_equal(todo.item->tag, 2);
		traffic_sent(t, 1000, k, &good);
		reused++;
	}
	assert_int_equal(reused, 8);
	assert_int_equal(todo.what, TRAFFIC_CLOSE);
	todo = expect(t, 1000, TRAFFIC_START);
	assert_int_equal(todo.item->tag, 3);
	traffic_drop(t, 1000, todo.item); /* it could not even be begun */
	start(t, 1000, NULL);
	traffic_free(t);
}

/* A dead host: one tries, the others go back; then again one. */
static void test_dead(void **state)
{
	struct traffic *t = engine(100, 1, 0);
	struct shape_name n = named("dead.example", NULL);
	int64_t now = 1000, pause;
	(void)state;
	fresh();
	struct traffic_item *a = kept(t, now, &n, 0);
	kept(t, now, &n, 0);
	struct traffic_link *k = start(t, now, a);
	no_more(t, now);
	now += 30000;
	assert_int_equal(traffic_end(t, now, k, &dead, TROUBLE_NONE), TRAFFIC_YOURS); /* this was its attempt */
	struct traffic_todo todo = expect(t, now, TRAFFIC_RETURN);
	assert_string_equal(todo.back.why, "backoff");
	assert_string_equal(todo.back.text, "connection timed out");
	pause = view(t, now, n.key).backoff_ms;
	assert_in_range(pause, 30000, 37500);
	assert_in_range(todo.back.seconds, pause / 1000, pause / 1000 + 3); /* it is called when the pause is over */
	assert_true(back(t, now, &n, "backoff") >= pause / 1000 + 30);       /* … and the others when its outcome is known */
	assert_int_equal(view(t, now, n.key).state, TRAFFIC_WAITING);
	/* shortly before the end one may wait here; another may not */
	struct traffic_item *c = kept(t, now + pause - 5000, &n, 0);
	back(t, now + pause - 5000, &n, "backoff");
	no_more(t, now + pause - 5000);
	now += pause;
	k = start(t, now, c);
	assert_int_equal(view(t, now, n.key).state, TRAFFIC_PROBING);
	back(t, now, &n, "backoff");
	no_more(t, now + 1000);
	now += 30000;
	assert_int_equal(traffic_end(t, now, k, &dead, TROUBLE_NONE), TRAFFIC_YOURS);
	assert_in_range(view(t, now, n.key).backoff_ms, 60000, 75000);
	/* and longer, up to half an hour */
	for (int i = 0; i < 10; i++) {
		now += view(t, now, n.key).backoff_ms;
		c = kept(t, now, &n, 0);
		k = start(t, now, c);
		assert_int_equal(traffic_end(t, now, k, &dead, TROUBLE_NONE), TRAFFIC_YOURS);
		assert_true(view(t, now, n.key).backoff_ms <= 30 * 60000 * 5 / 4);
	}
	assert_true(view(t, now, n.key).backoff_ms >= 30 * 60000);
	/* back: the window opens from one */
	now += view(t, now, n.key).backoff_ms;
	n_items = n_links = 0;
	fresh();
	c = kept(t, now, &n, 0);
	k = start(t, now, c);
	traffic_ready(t, now, k);
	struct traffic_item *d = kept(t, now, &n, 0);
	no_more(t, now);
	traffic_sent(t, now, k, &good);
	assert_ptr_equal(expect(t, now, TRAFFIC_REUSE).item, d);
	kept(t, now, &n, 0);
	kept(t, now, &n, 0);
	start(t, now, NULL); /* two */
	no_more(t, now);
	assert_int_equal(view(t, now, n.key).state, TRAFFIC_GOOD);
	traffic_free(t);
}

/* What is said of a message is no trouble of the destination; what it says of itself is, after a few times. */
static void test_refusals(void **state)
{
	struct traffic *t = engine(100, 1, 0);
	struct shape_name n = named("mx.example", NULL);
	struct smtp_result sick = { .outcome = SMTP_OUT_TRANSIENT, .phase = SMTP_PHASE_RCPT, .code = 451, .status = "4.3.0" };
	struct traffic_link *k;
	(void)state;
	fresh();
	kept(t, 1000, &n, 0);
	k = start(t, 1000, NULL);
	traffic_ready(t, 1000, k);
	traffic_sent(t, 1000, k, &grey);
	for (int i = 0; i < 20; i++) {
		kept(t, 1000, &n, 0);
		expect(t, 1000, TRAFFIC_REUSE);
		traffic_sent(t, 1000, k, i % 2 ? &grey : &unknown);
	}
	assert_int_equal(view(t, 1000, n.key).backoff_ms, 0);
	assert_int_equal(view(t, 1000, n.key).state, TRAFFIC_GOOD);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(view(t, 1000, n.key).backoff_ms, 0);
		kept(t, 1000, &n, 0);
		expect(t, 1000, TRAFFIC_REUSE);
		traffic_sent(t, 1000, k, &sick);
	}
	assert_true(view(t, 1000, n.key).backoff_ms >= 30000);
	assert_string_equal(trouble_name(view(t, 1000, n.key).trouble), "system");
	traffic_free(t);
}

/* A reused session that the other side had closed: the message goes again, but not for ever; one that is lost behind the dot does not. */
static void test_closed_idle(void **state)
{
	struct traffic *t = engine(100, 1, 0);
	struct shape_name n = named("mx.example", NULL);
	struct traffic_link *k;
	struct traffic_item *i;
	(void)state;
	fresh();
	kept(t, 1000, &n, 0);
	k = start(t, 1000, NULL);
	traffic_ready(t, 1000, k);
	assert_int_equal(traffic_sent(t, 1000, k, &lost_mail), TRAFFIC_YOURS); /* its first message: that says something of it */
	traffic_end(t, 1000, k, &lost_mail, TROUBLE_NONE);
	i = kept(t, 2000, &n, 0);
	for (int round = 0; round < 3; round++) {
		struct traffic_item *j = round ? NULL : i;
		k = start(t, 3000, j);
		traffic_ready(t, 3000, k);
		if (!round)
			traffic_sent(t, 3000, k, &good);
		if (!round)
			i = kept(t, 3000, &n, 0);
		if (round) { /* make it one that was used before */
			k->messages = 1;
		} else {
			assert_ptr_equal(expect(t, 3000, TRAFFIC_REUSE).item, i);
		}
		assert_int_equal(traffic_sent(t, 3000, k, &lost_mail), round < 2 ? TRAFFIC_KEPT : TRAFFIC_YOURS);
		traffic_end(t, 3000, k, &lost_mail, TROUBLE_NONE);
	}
	assert_int_equal(view(t, 3000, n.key).backoff_ms, 0);
	i = kept(t, 9000, &n, 0);
	k = start(t, 9000, i);
	traffic_ready(t, 9000, k);
	traffic_sent(t, 9000, k, &good);
	i = kept(t, 9000, &n, 0);
	expect(t, 9000, TRAFFIC_REUSE);
	assert_int_equal(traffic_sent(t, 9000, k, &lost_dot), TRAFFIC_YOURS); /* it may have been delivered */
	traffic_free(t);
}

/* "Too many connections": what was open is what it takes; the message is not the worse for it. */
static void test_connections(void **state)
{
	struct traffic *t = engine(100, 1, 0);
	struct shape_name n = named("mx.example", NULL);
	struct traffic_link *k[3];
	(void)state;
	fresh();
	kept(t, 1000, &n, 0);
	k[0] = start(t, 1000, NULL);
	traffic_ready(t, 1000, k[0]);
	for (int i = 0; i < 4; i++)
		kept(t, 1000, &n, 0);
	k[1] = start(t, 1000, NULL);
	k[2] = start(t, 1000, NULL);
	no_more(t, 1000);
	traffic_ready(t, 1100, k[1]);
	assert_int_equal(traffic_end(t, 1100, k[2], &many, TROUBLE_NONE), TRAFFIC_KEPT);
	no_more(t, 1100);
	assert_int_equal(view(t, 1100, n.key).window, 2);
	assert_string_equal(view(t, 1100, n.key).error, "421 4.7.0 Too many connections  from you"); /* no control characters */
	traffic_sent(t, 1200, k[1], &good);
	expect(t, 1200, TRAFFIC_REUSE);
	no_more(t, 3000);
	/* ten minutes later one more is tried: three */
	traffic_sent(t, 3000, k[0], &good);
	traffic_sent(t, 3000, k[1], &good);
	while (n_links < M) {
		struct traffic_todo todo;
		if (traffic_next(t, 3000, &todo) != TRAFFIC_REUSE)
			break;
		traffic_sent(t, 3000, todo.link, &good);
	}
	expect(t, 599000, TRAFFIC_CLOSE);
	expect(t, 599000, TRAFFIC_CLOSE);
	for (int i = 0; i < 4; i++)
		kept(t, 600000, &n, 0);
	start(t, 600000, NULL);
	start(t, 600000, NULL);
	no_more(t, 600000);
	start(t, 601100, NULL);
	no_more(t, 601100);
	traffic_free(t);
}

/* Our own failures blame nobody, and do not spin. */
static void test_local(void **state)
{
	struct traffic *t = engine(100, 1, 0);
	struct shape_name n = named("mx.example", NULL);
	int64_t now = 1000;
	(void)state;
	fresh();
	kept(t, now, &n, 0);
	for (int i = 0; i < 3; i++) {
		struct traffic_link *k = start(t, now, NULL);
		assert_int_equal(traffic_end(t, now, k, NULL, TROUBLE_LOCAL), i < 2 ? TRAFFIC_KEPT : TRAFFIC_YOURS);
		no_more(t, now);
		if (i < 2) {
			assert_int_equal(traffic_wait(t, now), 1000);
			now += 1000;
		}
	}
	assert_int_equal(view(t, now, n.key).backoff_ms, 0);
	assert_int_equal(view(t, now, n.key).state, TRAFFIC_NEW);
	traffic_free(t);
}

/* Others that could begin meanwhile are not forgotten when it has passed. */
static void test_local_others(void **state)
{
	struct traffic *t = engine(100, 1, 0);
	struct shape_name a = named("a.example", NULL), b = named("b.example", NULL);
	struct traffic_link *k;
	(void)state;
	fresh();
	kept(t, 1000, &a, 0);
	k = start(t, 1000, NULL);
	kept(t, 1000, &b, 0);
	item[0].tries = 100; /* this was its last */
	assert_int_equal(traffic_end(t, 1000, k, NULL, TROUBLE_LOCAL), TRAFFIC_YOURS);
	no_more(t, 1000);
	assert_int_equal(traffic_wait(t, 1000), 1000);
	no_more(t, 1999);
	start(t, 2000, &item[1]);
	traffic_free(t);
}

/* Four workers: a quarter each, and never less than one. */
static void test_workers(void **state)
{
	static const struct {
		unsigned concurrency, workers, rate, want, want_rate;
	} cases[] = { { 20, 4, 600, 5, 150 }, { 3, 4, 60, 1, 15 }, { 1, 8, 1, 1, 0 }, { 7, 2, 7, 3, 3 }, { 20, 1, 0, 20, 0 } };
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct traffic *t = engine(1000, cases[i].workers, 0);
		struct shape shape = shape_default;
		struct shape_name n = named("mx.example", &shape);
		fresh();
		shape.concurrency = cases[i].concurrency;
		shape.rate = cases[i].rate;
		kept(t, 1000, &n, 0);
		assert_int_equal(view(t, 1000, n.key).concurrency, cases[i].want);
		assert_int_equal(view(t, 1000, n.key).rate, cases[i].want_rate);
		traffic_free(t);
	}
}

/* More sessions than may be: idle ones of others go. */
static void test_sessions(void **state)
{
	struct traffic *t = engine(100, 1, 2);
	struct shape_name a = named("a.example", NULL), b = named("b.example", NULL), c = named("c.example", NULL);
	struct traffic_link *k;
	(void)state;
	fresh();
	kept(t, 1000, &a, 0);
	k = start(t, 1000, NULL);
	traffic_ready(t, 1000, k);
	traffic_sent(t, 1001, k, &good);
	kept(t, 1002, &b, 0);
	traffic_ready(t, 1002, start(t, 1002, NULL));
	kept(t, 1003, &c, 0);
	assert_ptr_equal(expect(t, 1003, TRAFFIC_CLOSE).link, k);
	start(t, 1003, NULL);
	kept(t, 1004, &a, 0);
	no_more(t, 1004);
	traffic_free(t);
}

/* No more destinations are remembered than may be, whatever names come; those in use stay. */
static void test_bounded(void **state)
{
	struct traffic *t = engine(100, 1, 0);
	struct shape_name n = named("kept.example", NULL);
	struct traffic_totals totals;
	(void)state;
	fresh();
	kept(t, 1000, &n, 0);
	struct traffic_link *k = start(t, 1000, NULL);
	for (unsigned i = 0; i < TRAFFIC_DESTINATIONS_MAX + 5000; i++) {
		struct traffic_item one = { 0 };
		struct traffic_back b;
		char key[32];
		snprintf(key, sizeof key, "mx%u.example", i);
		struct shape_name m = named(key, NULL);
		assert_int_equal(traffic_add(t, 1000 + i, &m, 0, &one, &b), TRAFFIC_KEPT);
		traffic_drop(t, 1000 + i, &one);
		traffic_drop(t, 1000 + i, &one); /* twice is as good */
	}
	traffic_totals(t, &totals);
	assert_int_equal(totals.destinations, TRAFFIC_DESTINATIONS_MAX);
	assert_true(totals.forgotten >= 5000);
	assert_int_equal(view(t, 30000, n.key).working, 1);
	traffic_end(t, 30000, k, &dead, TROUBLE_NONE);
	traffic_free(t);
}

/* The slots are never exceeded, whatever comes. */
static void test_slots(void **state)
{
	static struct traffic_item many_items[1000];
	struct traffic *t = engine(10, 1, 0);
	struct traffic_totals totals;
	struct traffic_back b;
	unsigned taken = 0;
	(void)state;
	memset(many_items, 0, sizeof many_items);
	for (unsigned i = 0; i < 1000; i++) {
		char key[32];
		snprintf(key, sizeof key, "mx%u.example", i);
		struct shape_name n = named(key, NULL);
		struct traffic_back w;
		int would = traffic_would(t, 1000, &n, &w);
		int added = traffic_add(t, 1000, &n, 0, &many_items[i], &b);
		taken += added == TRAFFIC_KEPT;
		if (added == TRAFFIC_BACK)
			assert_true(b.seconds >= 1 && b.seconds <= TRAFFIC_BACK_MOST_S + 1);
		(void)would;
	}
	traffic_totals(t, &totals);
	assert_int_equal(totals.held, taken);
	assert_int_equal(taken, 7); /* all are new: half, and the quarter of the poor that nobody has */
	traffic_free(t);
	t = engine(1, 1, 0); /* one slot is somebody's */
	struct shape_name n = named("mx.example", NULL);
	fresh();
	kept(t, 1000, &n, 0);
	back(t, 1000, &n, "full");
	start(t, 1000, NULL);
	traffic_free(t);
}

static void test_worse(void **state)
{
	(void)state;
	assert_ptr_equal(traffic_worse(&good, &unknown), &unknown);
	assert_ptr_equal(traffic_worse(&unknown, &good), &unknown);
	assert_ptr_equal(traffic_worse(&unknown, &many), &many);
	assert_ptr_equal(traffic_worse(&lost_dot, &many), &lost_dot);
	assert_ptr_equal(traffic_worse(&good, &good), &good);
}

static void test_json(void **state)
{
	struct traffic *t = engine(10, 1, 0);
	struct shape_name n = named("mx\".example", NULL);
	struct buf out = BUF_INIT(4096);
	(void)state;
	fresh();
	kept(t, 1000, &n, 0);
	struct traffic_link *k = start(t, 1000, NULL);
	traffic_end(t, 2000, k, &dead, TROUBLE_NONE);
	struct traffic_view v = view(t, 2500, n.key);
	traffic_view_json(&v, &out);
	assert_non_null(strstr(buf_z(&out), "{\"destination\":\"mx\\\".example\",\"state\":\"backoff\",\"window\":0,\"concurrency\":20,"));
	assert_non_null(strstr(buf_z(&out), "\"trouble\":\"unreachable\",\"trouble_ago_ms\":500,\"error\":\"connection timed out\"}"));
	buf_free(&out);
	traffic_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reuse), cmocka_unit_test(test_unsafe), cmocka_unit_test(test_tags), cmocka_unit_test(test_dead), cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_closed_idle), cmocka_unit_test(test_connections), cmocka_unit_test(test_local), cmocka_unit_test(test_local_others), cmocka_unit_test(test_workers),
		cmocka_unit_test(test_sessions), cmocka_unit_test(test_bounded), cmocka_unit_test(test_slots), cmocka_unit_test(test_worse),
		cmocka_unit_test(test_json),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
