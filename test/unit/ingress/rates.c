/* The books of rates, with a clock in the test's hand. */
#include "ingress/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define S INT64_C(1000000)
enum { BEGIN_S = 7200 };

static struct net_addr at(const char *text)
{
	struct net_addr a;
	assert_int_equal(net_addr_parse(&a, str_from(text), 25), 0);
	return a;
}

static unsigned take(struct limits *l, const struct limit_rates *r, const char *from, enum limit_kind k, int64_t now_us, unsigned tries)
{
	struct net_addr a = at(from);
	unsigned n = 0;
	while (tries--)
		n += limits_take(l, r, &a, k, now_us);
	return n;
}

static void test_windows(void **state)
{
	const struct limit_rates r = { .per_minute = { [LIMIT_MESSAGES] = 10 }, .per_hour = { [LIMIT_MESSAGES] = 25 } };
	struct limits *l = limits_new(100);
	int64_t t = BEGIN_S * S;
	(void)state;
	assert_int_equal(take(l, &r, "192.0.2.1", LIMIT_MESSAGES, t + 59 * S, 20), 10);
	/* no second burst behind the turn of the minute: the share of the former one shrinks */
	assert_int_equal(take(l, &r, "192.0.2.1", LIMIT_MESSAGES, t + 60 * S, 20), 0);
	assert_int_equal(take(l, &r, "192.0.2.1", LIMIT_MESSAGES, t + 90 * S, 20), 5);
	assert_int_equal(take(l, &r, "192.0.2.1", LIMIT_MESSAGES, t + 300 * S, 20), 10);
	assert_int_equal(take(l, &r, "192.0.2.1", LIMIT_MESSAGES, t + 600 * S, 20), 0); /* 25 in the hour */
	assert_int_equal(take(l, &r, "192.0.2.1", LIMIT_MESSAGES, t + 3 * 3600 * S, 20), 10);
	/* what has no limit is not counted, and takes no entry */
	assert_int_equal(limits_entries(l), 1);
	assert_int_equal(take(l, &r, "192.0.2.2", LIMIT_RECIPIENTS, t, 100), 100);
	assert_int_equal(limits_entries(l), 1);
	limits_free(l);
}

static void test_networks(void **state)
{
	const struct limit_rates r = { .per_minute = { 2, 0, 0 }, .network_factor = 3 };
	struct limits *l = limits_new(100);
	int64_t t = BEGIN_S * S;
	(void)state;
	assert_int_equal(take(l, &r, "192.0.2.1", LIMIT_CONNECTIONS, t, 5), 2);
	assert_int_equal(take(l, &r, "192.0.2.2", LIMIT_CONNECTIONS, t, 5), 2);
	assert_int_equal(take(l, &r, "192.0.2.3", LIMIT_CONNECTIONS, t, 5), 2);
	assert_int_equal(take(l, &r, "192.0.2.4", LIMIT_CONNECTIONS, t, 5), 0); /* six of the network */
	assert_int_equal(take(l, &r, "192.0.3.4", LIMIT_CONNECTIONS, t, 5), 2);
	assert_int_equal(take(l, &r, "2001:db8::1", LIMIT_CONNECTIONS, t, 1), 1);
	assert_int_equal(take(l, &r, "2001:db8::ffff", LIMIT_CONNECTIONS, t, 5), 1); /* one /64 */
	assert_int_equal(take(l, &r, "2001:db8:0:1::1", LIMIT_CONNECTIONS, t, 5), 2);
	limits_free(l);
}

/* A flood from everywhere: memory stays, and who is not part of it is remembered as long as it comes. */
static void test_bounded(void **state)
{
	const struct limit_rates r = { .per_minute = { 1, 0, 0 }, .network_factor = 4 };
	struct limits *l = limits_new(64);
	char text[32];
	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		snprintf(text, sizeof text, "10.%u.%u.1", i / 256, i % 256);
		assert_int_equal(take(l, &r, text, LIMIT_CONNECTIONS, BEGIN_S * S, 2), 1);
		if (i % 30 == 0)
			assert_int_equal(take(l, &r, "192.0.2.1", LIMIT_CONNECTIONS, BEGIN_S * S, 1), i == 0);
	}
	assert_true(limits_entries(l) <= 128);
	limits_remember(l, 10);
	assert_true(limits_entries(l) <= 20);
	limits_free(l);
}

static void test_unknown(void **state)
{
	const struct limit_rates r = { .unknown_per_hour = 3 };
	struct limits *l = limits_new(100);
	struct net_addr a = at("192.0.2.1"), b = at("192.0.2.200"), c = at("192.0.3.1");
	int64_t t = BEGIN_S * S;
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_false(limits_harvests(l, &r, &b, t));
		limits_unknown(l, &a, t);
	}
	assert_true(limits_harvests(l, &r, &b, t));
	assert_false(limits_harvests(l, &r, &c, t));
	assert_true(limits_harvests(l, &r, &a, t + 3600 * S));
	assert_false(limits_harvests(l, &r, &a, t + 2 * 3600 * S));
	assert_false(limits_known(l, &a));
	limits_good(l, &a);
	assert_true(limits_known(l, &a) && !limits_known(l, &b));
	limits_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_networks),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_unknown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
