/* Throttling of guesses: buckets, their refill, bounds, and that no owner is locked out. */
#include "ingress/guess.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define S INT64_C(1000000)

static struct net_addr addr(const char *text)
{
	struct net_addr a = { 0 };
	if (strchr(text, ':')) {
		a.family = AF_INET6;
		assert_int_equal(inet_pton(AF_INET6, text, a.ip), 1);
	} else {
		a.family = AF_INET;
		assert_int_equal(inet_pton(AF_INET, text, a.ip), 1);
	}
	return a;
}

static struct guesses *books(unsigned account, unsigned network, unsigned remembered)
{
	struct guess_limits l = { account, network, 60 * S, 10 * S, remembered };
	struct guesses *g = guesses_new(&l);
	assert_non_null(g);
	return g;
}

static void account_bucket(void **state)
{
	struct guesses *g = books(3, 100, 100);
	struct net_addr a = addr("192.0.2.1"), b = addr("198.51.100.1");
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_false(guess_account_spent(g, STR("alice"), 1000 * S));
		guess_failed(g, STR("alice"), i % 2 ? &a : &b, 1000 * S); /* wherever they come from */
	}
	assert_true(guess_account_spent(g, STR("alice"), 1000 * S));
	assert_false(guess_account_spent(g, STR("bob"), 1000 * S));
	assert_false(guess_account_spent(g, STR_NULL, 1000 * S));
	assert_true(guess_account_spent(g, STR("alice"), 1059 * S));
	assert_false(guess_account_spent(g, STR("alice"), 1060 * S)); /* one came back */
	guess_failed(g, STR("alice"), &a, 1061 * S);
	assert_true(guess_account_spent(g, STR("alice"), 1119 * S));
	assert_false(guess_account_spent(g, STR("alice"), 1120 * S));
	/* going on does not make it longer */
	for (unsigned i = 0; i < 50; i++)
		guess_failed(g, STR("alice"), &a, 2000 * S);
	assert_true(guess_account_spent(g, STR("alice"), 2059 * S));
	assert_false(guess_account_spent(g, STR("alice"), 2060 * S));
	/* a clock that goes back harms nobody */
	assert_false(guess_account_spent(g, STR("alice"), 10 * S));
	guesses_free(g);
}

static void networks(void **state)
{
	static const struct {
		const char *a, *b;
		bool same;
	} t[] = {
		{ "192.0.2.1", "192.0.2.254", true },
		{ "192.0.2.1", "192.0.3.1", false },
		{ "2001:db8:1:2::1", "2001:db8:1:2:ffff::", true },
		{ "2001:db8:1:2::1", "2001:db8:1:3::1", false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct guesses *g = books(3, 2, 100);
		struct net_addr a = addr(t[i].a), b = addr(t[i].b);
		guess_failed(g, STR_NULL, &a, 0);
		assert_false(guess_network_spent(g, &a, 0));
		guess_failed(g, STR("x"), &a, 0);
		assert_true(guess_network_spent(g, &a, 0));
		assert_int_equal(guess_network_spent(g, &b, 0), t[i].same);
		assert_false(guess_network_spent(g, &a, 10 * S));
		guess_succeeded(g, STR("x"), &a, 0);
		assert_int_equal(guess_network_known(g, &b), t[i].same);
		assert_int_equal(guess_account_known(g, STR("x"), &b), t[i].same);
		assert_false(guess_account_known(g, STR("y"), &a));
		guesses_free(g);
	}
}

static void levels(void **state)
{
	struct guesses *g = books(4, 100, 100);
	struct net_addr a = addr("192.0.2.1");
	static const unsigned want[] = { 0, 0, 1, 1, 2, 2 };
	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(guess_level(g, STR("alice"), &a, 0), want[i]);
		guess_failed(g, STR("alice"), &a, 0);
	}
	assert_int_equal(guess_level(g, STR("bob"), &a, 0), 0);
	assert_int_equal(guess_level(g, STR_NULL, &a, 0), 0);
	guesses_free(g);
}

static void bounds(void **state)
{
	struct guesses *g = books(1, 1, 10);
	struct net_addr a = addr("192.0.2.1"), many = addr("10.0.0.1");
	char name[32];
	(void)state;
	guess_succeeded(g, STR("alice"), &a, 0);
	for (unsigned i = 0; i < 1000; i++) {
		many.ip[1] = (unsigned char)(i >> 8);
		many.ip[2] = (unsigned char)i;
		snprintf(name, sizeof name, "user%u", i);
		guess_failed(g, str_from(name), &many, 0);
		assert_true(guess_buckets(g) <= 10);
	}
	/* failures push out failures, not the places of owners */
	assert_int_equal(guess_places(g), 2);
	assert_true(guess_account_known(g, STR("alice"), &a));
	/* the newest are still there */
	assert_true(guess_account_spent(g, str_from(name), 0));
	assert_false(guess_account_spent(g, STR("user0"), 0));
	struct guess_limits small = { 1, 1, S, S, 1 };
	guesses_limits(g, &small);
	assert_int_equal(guess_buckets(g), 1);
	assert_int_equal(guess_places(g), 1);
	/* no limits, no books */
	struct guess_limits none = { 0, 0, S, S, 0 };
	guesses_limits(g, &none);
	guess_failed(g, STR("alice"), &a, 0);
	guess_succeeded(g, STR("alice"), &a, 0);
	assert_int_equal(guess_buckets(g) + guess_places(g), 0);
	assert_false(guess_account_spent(g, STR("alice"), 0));
	assert_false(guess_network_spent(g, &a, 0));
	guesses_free(g);
	guesses_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(account_bucket),
		cmocka_unit_test(networks),
		cmocka_unit_test(levels),
		cmocka_unit_test(bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
