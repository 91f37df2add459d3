/* Peer addresses: text, counting key, fairness key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "net/addr.h"

#include <arpa/inet.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *in, *text, *sender_key;
	int family;
} cases[] = {
	{ "192.0.2.1", "192.0.2.1", "192.0.2.1", AF_INET },
	{ "255.255.255.255", "255.255.255.255", "255.255.255.255", AF_INET },
	{ "2001:db8::1", "2001:db8::1", "2001:db8::/64", AF_INET6 },
	{ "2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", AF_INET6 },
	{ "::1", "::1", "::/64", AF_INET6 },
	{ "::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1", AF_INET },
};

static struct net_addr make(const char *text)
{
	struct net_addr a;
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(2525) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(2525) };
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
		net_addr_from(&a, (struct sockaddr *)&v4, sizeof v4);
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
		net_addr_from(&a, (struct sockaddr *)&v6, sizeof v6);
	}
	return a;
}

static void test_forms(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct net_addr a = make(cases[i].in);
		char key[NET_SENDER_KEY_SIZE];
		assert_string_equal(a.text, cases[i].text);
		assert_int_equal(a.family, cases[i].family);
		assert_int_equal(a.port, 2525);
		net_addr_sender_key(&a, key);
		assert_string_equal(key, cases[i].sender_key);
	}
}

static void test_keys(void **state)
{
	(void)state;
	struct net_addr a = make("192.0.2.1"), mapped = make("::ffff:192.0.2.1"), b = make("192.0.2.2"),
	                n1 = make("2001:db8::1"), n2 = make("2001:db8::2"), other = make("2001:db8:0:1::1");
	assert_true(net_addr_key(&a) == net_addr_key(&mapped));
	assert_true(net_addr_key(&a) != net_addr_key(&b));
	assert_true(net_addr_key(&n1) == net_addr_key(&n2));
	assert_true(net_addr_key(&n1) != net_addr_key(&other));
}

static void test_strange(void **state)
{
	(void)state;
	struct net_addr a;
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	const struct sockaddr unix_sa = { .sa_family = AF_UNIX };
	net_addr_from(&a, &unix_sa, sizeof unix_sa);
	assert_int_equal(a.family, AF_UNIX);
	assert_string_equal(a.text, "unix");
	assert_false(net_addr_is_ip(&a));
	assert_false(a.uid_known);
	net_addr_from(&a, (struct sockaddr *)&v4, 0);
	assert_int_equal(a.family, AF_UNSPEC);
	assert_string_equal(a.text, "unknown");
	net_addr_from(&a, (struct sockaddr *)&v4, 4); /* cut short */
	assert_int_equal(a.family, AF_UNSPEC);
}

static void test_parse(void **state)
{
	(void)state;
	struct net_addr a, local;
	const struct sockaddr unix_sa = { .sa_family = AF_UNIX };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct net_addr b = make(cases[i].in);
		assert_int_equal(net_addr_parse(&a, str_from(cases[i].in), 2525), 0);
		assert_memory_equal(&a, &b, sizeof a);
	}
	static const char *const wrong[] = { "", "unix", "192.0.2", "192.0.2.1 ", "[::1]", "fe80::1%lo", "mx.example.test" };
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(net_addr_parse(&a, str_from(wrong[i]), 25), -1);
	assert_int_equal(net_addr_parse(&a, str_n("::1\0x", 5), 25), -1);
	/* nobody else is counted as a client of a unix socket */
	net_addr_from(&local, &unix_sa, sizeof unix_sa);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		a = make(cases[i].in);
		assert_true(net_addr_key(&a) != net_addr_key(&local));
	}
}

/* Users at the other end of unix sockets are clients of their own; so is whoever is not known. */
static void test_users(void **state)
{
	(void)state;
	const struct sockaddr unix_sa = { .sa_family = AF_UNIX };
	struct net_addr nobody, a, b, v4 = make("0.0.3.232"), v6 = make("::");
	int sv[2];
	net_addr_from(&nobody, &unix_sa, sizeof unix_sa);
	a = b = nobody;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	net_addr_user(&a, sv[0]);
	assert_true(a.uid_known);
	assert_int_equal(a.uid, geteuid());
	net_addr_user(&v4, sv[0]); /* no unix socket: the kernel is not believed about it */
	assert_false(v4.uid_known);
	close(sv[0]);
	close(sv[1]);
	net_addr_user(&b, sv[0]);
	assert_false(b.uid_known);
	a.uid = 1000;
	b.uid_known = true;
	b.uid = 1001;
	const struct net_addr *of[] = { &nobody, &a, &b, &v4, &v6 };
	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		for (size_t k = 0; k < sizeof of / sizeof *of; k++)
			assert_true((net_addr_key(of[i]) == net_addr_key(of[k])) == (i == k));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_forms), cmocka_unit_test(test_keys),
		cmocka_unit_test(test_strange), cmocka_unit_test(test_users), cmocka_unit_test(test_parse) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
