/* The books of caps: what fits goes, what does not is scheduled into windows that have room, a restart changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "ingress/quota.h"

#include <stdio.h>
#include <string.h>

enum { T = 1800000000, HOUR = 3600, DAY = 86400 };

/* When it goes out: 0 now, else seconds from T; -1 refused. */
static long take(struct quota *q, const char *who, struct quota_caps caps, unsigned rcpts, long at, bool *tell)
{
	struct quota_verdict v;
	assert_true(quota_take(q, str_from(who), &caps, rcpts, T + at, &v));
	if (tell)
		*tell = v.tell;
	assert_true(!v.until == !v.cap);
	return v.refuse ? -1 : v.until ? (long)(v.until - T) : 0;
}

static void test_hour(void **state)
{
	struct quota *q = quota_new(10);
	struct quota_caps three = { .messages_hour = 3 };
	bool tell;
	(void)state;
	for (long i = 0; i < 3; i++)
		assert_int_equal(take(q, "a", three, 9, i, NULL), 0);
	assert_int_equal(take(q, "b", three, 1, 3, NULL), 0); /* somebody else's */
	assert_int_equal(take(q, "a", three, 1, 10, &tell), HOUR);
	assert_true(tell);
	assert_int_equal(take(q, "a", three, 1, 10, &tell), HOUR);
	assert_false(tell);
	assert_int_equal(take(q, "a", three, 1, 10, NULL), HOUR);
	assert_int_equal(take(q, "a", three, 1, 10, NULL), 2 * HOUR);
	/* the next hour has its three and one more already: two places in the one after */
	assert_int_equal(take(q, "a", three, 1, HOUR + 1, &tell), 2 * HOUR);
	assert_true(tell);
	assert_int_equal(take(q, "a", three, 1, HOUR + 2, NULL), 2 * HOUR);
	assert_int_equal(take(q, "a", three, 1, HOUR + 2, NULL), 3 * HOUR);
	/* long after: all is forgotten, and the window begins anew */
	assert_int_equal(take(q, "a", three, 1, 10 * HOUR + 100, NULL), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(take(q, "a", three, 1, 10 * HOUR + 100, NULL), 0);
	assert_int_equal(take(q, "a", three, 1, 10 * HOUR + 100, NULL), 11 * HOUR + 100);
	/* the clock goes back: no harm */
	assert_true(take(q, "a", three, 1, 5, NULL) > 0);
	quota_free(q);
}

/* However much is handed in: no window lets out more than the cap. */
static void test_bound(void **state)
{
	struct quota *q = quota_new(10);
	struct quota_caps caps = { .messages_hour = 7, .messages_day = 50, .recipients_hour = 20 };
	unsigned out[8 * 24] = { 0 }, day[8] = { 0 }, rcpts_out[8 * 24] = { 0 };
	unsigned refused = 0;
	(void)state;
	for (long i = 0; i < 2000; i++) {
		unsigned rcpts = 1 + (unsigned)(i % 4);
		long at = i * 30, when = take(q, "a", caps, rcpts, at, NULL);
		if (when < 0) {
			refused++;
			continue;
		}
		when = when ? when : at;
		out[when / HOUR]++;
		day[when / DAY]++;
		rcpts_out[when / HOUR] += rcpts;
	}
	for (unsigned i = 0; i < 8 * 24; i++) {
		assert_true(out[i] <= 7 + 50); /* a day's backlog comes at its beginning, at most */
		if (i % 24)
			assert_true(out[i] <= 7 && rcpts_out[i] <= 20 + 3);
	}
	for (unsigned i = 0; i < 8; i++)
		assert_true(day[i] <= 50);
	assert_true(refused > 0);
	quota_free(q);
}

static void test_recipients(void **state)
{
	struct quota *q = quota_new(10);
	struct quota_caps five = { .recipients_day = 5 };
	(void)state;
	assert_int_equal(take(q, "a", five, 5, 0, NULL), 0);
	assert_int_equal(take(q, "a", five, 1, 1, NULL), DAY);
	quota_return(q, STR("a"), 1);
	assert_int_equal(take(q, "a", five, 1, 2, NULL), DAY);
	assert_int_equal(take(q, "a", five, 1000, 2, NULL), -1);
	assert_int_equal(take(q, "nobody", (struct quota_caps){ 0 }, 1000, 2, NULL), 0);
	assert_int_equal(quota_accounts(q), 1);
	quota_free(q);
}

static void test_restart(void **state)
{
	struct quota *q = quota_new(10), *next = quota_new(10);
	struct quota_caps three = { .messages_hour = 3 };
	struct quota_use lines[4];
	(void)state;
	for (int i = 0; i < 4; i++)
		take(q, "a", three, 1, i, NULL);
	assert_int_equal(quota_changed(q, lines, 4), 1);
	assert_int_equal(quota_changed(q, lines + 1, 3), 0);
	quota_again(q, lines, 1);
	assert_int_equal(quota_changed(q, lines, 4), 1);
	assert_string_equal(lines[0].name, "a");
	take(next, "a", three, 1, 100, NULL); /* before the books were read */
	quota_restore(next, lines);
	assert_int_equal(take(next, "a", three, 1, 101, NULL), HOUR);
	assert_int_equal(take(next, "a", three, 1, 101, NULL), 2 * HOUR);
	quota_free(q);
	quota_free(next);
}

static void test_bounded(void **state)
{
	struct quota *q = quota_new(100);
	struct quota_caps one = { .messages_hour = 1 };
	char name[16];
	(void)state;
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "u%d", i);
		take(q, name, one, 1, i, NULL);
	}
	assert_int_equal(quota_accounts(q), 100);
	assert_int_equal(take(q, "u999", one, 1, 1000, NULL), 999 + HOUR);
	assert_int_equal(take(q, "u1", one, 1, 1000, NULL), 0);
	quota_free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_hour), cmocka_unit_test(test_bound), cmocka_unit_test(test_recipients),
		cmocka_unit_test(test_restart), cmocka_unit_test(test_bounded) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
