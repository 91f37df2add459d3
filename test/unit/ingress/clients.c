/* Connections per client address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ingress/clients.h"

#include <arpa/inet.h>
#include <string.h>

static struct net_addr addr(const char *text)
{
	struct net_addr a;
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
		net_addr_from(&a, (struct sockaddr *)&v4, sizeof v4);
		return a;
	}
	assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	net_addr_from(&a, (struct sockaddr *)&v6, sizeof v6);
	return a;
}

static void test_counts(void **state)
{
	(void)state;
	struct clients c;
	struct net_addr a = addr("192.0.2.1"), b = addr("192.0.2.2"), n1 = addr("2001:db8::1"),
	                n2 = addr("2001:db8::ffff"), other = addr("2001:db8:0:1::1");
	clients_init(&c);
	assert_true(clients_enter(&c, &a, 2));
	assert_true(clients_enter(&c, &a, 2));
	assert_false(clients_enter(&c, &a, 2));
	assert_true(clients_enter(&c, &a, 0)); /* no limit */
	assert_int_equal(clients_now(&c, &a), 3);
	assert_true(clients_enter(&c, &b, 2));
	assert_true(clients_enter(&c, &n1, 1));
	assert_false(clients_enter(&c, &n2, 1)); /* the same /64 */
	assert_true(clients_enter(&c, &other, 1));
	for (unsigned i = 0; i < 3; i++)
		clients_leave(&c, &a);
	assert_int_equal(clients_now(&c, &a), 0);
	assert_true(clients_enter(&c, &a, 1));
	assert_int_equal(clients_now(&c, &b), 1);
	clients_done(&c);
}

static void test_many(void **state)
{
	(void)state;
	struct clients c;
	clients_init(&c);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 5000; i++) {
			struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000000 + i) };
			struct net_addr a;
			net_addr_from(&a, (struct sockaddr *)&v4, sizeof v4);
			assert_true(clients_enter(&c, &a, 1));
		}
		for (unsigned i = 0; i < 5000; i++) {
			struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000000 + i) };
			struct net_addr a;
			net_addr_from(&a, (struct sockaddr *)&v4, sizeof v4);
			clients_leave(&c, &a);
		}
	}
	assert_int_equal(c.map.n, 0);
	clients_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_counts), cmocka_unit_test(test_many) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
