/* What the engine of shaping says of messages that are not here, when it gives one back: they come behind those given back one by one, and only
 * where what is known will last. No crowds: those are in traffic_crowd.c. */
#include "proto/relay/traffic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct smtp_result good = { .outcome = SMTP_OUT_OK, .phase = SMTP_PHASE_DOT, .code = 250, .status = "2.0.0" };
static const struct smtp_result dead = { .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_CONNECT, .text = STR_INIT("connection timed out") };

static struct shape_name named(const char *key, const struct shape *shape)
{
	struct shape_name n = { .shape = shape ? shape : &shape_default };
	snprintf(n.key, sizeof n.key, "%s", key);
	return n;
}

static struct traffic *engine(unsigned slots)
{
	struct traffic_conf conf = { .slots = slots, .workers = 1, .seed = 11 };
	struct traffic *t = traffic_new(&conf);
	assert_non_null(t);
	return t;
}

/* A message and the session for it. */
static void begin(struct traffic *t, int64_t now, const struct shape_name *n, struct traffic_item *i, struct traffic_link *k)
{
	struct traffic_back b;
	struct traffic_todo todo;
	*i = (struct traffic_item){ .owner = i };
	*k = (struct traffic_link){ .owner = k };
	assert_int_equal(traffic_add(t, now, n, 0, i, &b), TRAFFIC_KEPT);
	assert_int_equal(traffic_next(t, now, &todo), TRAFFIC_START);
	assert_ptr_equal(todo.item, i);
	traffic_begin(t, now, k, i);
}

static void test_dead(void **state)
{
	struct traffic *t = engine(100);
	struct shape_name n = named("dead.example", NULL);
	struct traffic_item i = { 0 };
	struct traffic_link k;
	struct traffic_back b = { 0 };
	struct traffic_view v;
	const void *pos = NULL;
	(void)state;
	begin(t, 1000, &n, &i, &k);
	assert_int_equal(traffic_end(t, 2000, &k, &dead, TROUBLE_NONE), TRAFFIC_YOURS);
	assert_true(traffic_view(t, 2000, &pos, &v));
	unsigned left = (unsigned)(v.backoff_ms / 1000), first;
	assert_true(left >= 29);
	assert_int_equal(traffic_add(t, 2000, &n, 0, &i, &b), TRAFFIC_BACK);
	assert_string_equal(b.why, "backoff");
	assert_string_equal(b.text, "connection timed out");
	assert_int_equal(b.each_ms, 100);
	first = b.others_s;
	assert_in_range(first, left + 2, left + 4); /* this one is the probe; the others wait until its outcome is known */
	for (unsigned n_more = 0; n_more < 50; n_more++)
		assert_int_equal(traffic_add(t, 2000, &n, 0, &i, &b), TRAFFIC_BACK);
	assert_in_range(b.others_s, first + 4, first + 6); /* fifty stand in line, one in 100 ms */
	traffic_free(t);
}

/* Nothing is known but that the first session takes long: the others wait for what becomes of it. */
static void test_late(void **state)
{
	struct traffic *t = engine(100);
	struct shape_name n = named("silent.example", NULL);
	struct traffic_item i, many[20];
	struct traffic_link k;
	struct traffic_back b = { 0 };
	unsigned kept = 0;
	(void)state;
	begin(t, 1000, &n, &i, &k);
	for (int64_t now = 1100; now <= 1500; now += 400) {
		int r;
		do {
			many[kept] = (struct traffic_item){ .owner = NULL };
			r = traffic_add(t, now, &n, 0, &many[kept], &b);
			kept += r == TRAFFIC_KEPT;
		} while (r == TRAFFIC_KEPT && kept < 20);
		assert_int_equal(r, TRAFFIC_BACK);
		assert_string_equal(b.why, "window");
		assert_int_equal(b.each_ms, now == 1100 ? 0 : 20);
		assert_int_equal(b.others_s, now == 1100 ? 0 : 2); /* TRAFFIC_TRIAL_MS from 1000 on */
	}
	while (kept)
		traffic_drop(t, 1500, &many[--kept]);
	traffic_ready(t, 1600, &k);
	traffic_drop(t, 1600, &i);
	traffic_free(t);
}

/* The operator's rate lasts; that a host which is well takes no more just now does not: it may get faster. */
static void test_well(void **state)
{
	struct shape rate = shape_default;
	rate.rate = 1;
	rate.rate_ms = 2000;
	rate.burst = 1;
	struct shape_name names[] = { named("limited.example", &rate), named("well.example", NULL) };
	(void)state;
	for (unsigned w = 0; w < 2; w++) {
		static struct traffic_item many[2000];
		struct traffic *t = engine(2000);
		struct traffic_link k;
		struct traffic_back b = { 0 };
		unsigned n = 0;
		begin(t, 1000, &names[w], &many[0], &k);
		traffic_ready(t, 1400, &k);
		traffic_sent(t, 1500, &k, &good);
		for (; n < 2000; n++) {
			many[n] = (struct traffic_item){ .owner = &many[n] };
			if (traffic_add(t, 1500, &names[w], 0, &many[n], &b) == TRAFFIC_BACK)
				break;
		}
		assert_in_range(n, 5, 1999);
		assert_string_equal(b.why, w ? "window" : "rate");
		assert_int_equal(b.each_ms, w ? 0 : 2000);
		if (!w)
			assert_in_range(b.others_s, 2 * n, 2 * n + 4);
		for (unsigned i = 0; i < n; i++)
			traffic_drop(t, 1500, &many[i]);
		traffic_free(t);
	}
}

/* Want of room says nothing of anybody else's messages. */
static void test_full(void **state)
{
	struct traffic *t = engine(1);
	struct shape_name n = named("first.example", NULL), m = named("other.example", NULL);
	struct traffic_item i, j = { 0 };
	struct traffic_link k;
	struct traffic_back b = { 0 };
	(void)state;
	begin(t, 1000, &n, &i, &k);
	assert_int_equal(traffic_add(t, 1000, &m, 0, &j, &b), TRAFFIC_BACK);
	assert_string_equal(b.why, "full");
	assert_int_equal(b.each_ms, 0);
	traffic_drop(t, 1000, &i);
	traffic_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_dead), cmocka_unit_test(test_late), cmocka_unit_test(test_well), cmocka_unit_test(test_full) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
