/* The cache, with a clock of the test's own; and the settings: addresses of servers and resolv.conf. */
#include "net/dns.h"
#include "net/dns_cache.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { S = 1000000 };

static void put(struct dns_cache *c, const char *name, enum dns_type type, uint32_t ttl, int64_t now)
{
	struct dns_answer *a = dns_answer_new(str_from(name), type, DNS_NXDOMAIN, NULL, 0, ttl, false);
	dns_cache_put(c, a, ttl, now);
	dns_answer_unref(a);
}

static int64_t left(struct dns_cache *c, const char *name, enum dns_type type, int64_t now)
{
	uint32_t ttl = 0;
	struct dns_answer *a = dns_cache_get(c, str_from(name), type, now, &ttl);
	dns_answer_unref(a);
	return a ? (int64_t)ttl : -1;
}

static void times(void **st)
{
	struct dns_cache *c = dns_cache_new(100, 1 << 20, 7);
	(void)st;
	put(c, "a.test", DNS_A, 60, 0);
	assert_int_equal(left(c, "a.test", DNS_A, 0), 60);
	assert_int_equal(left(c, "a.test", DNS_AAAA, 0), -1);
	assert_int_equal(left(c, "b.test", DNS_A, 0), -1);
	assert_int_equal(left(c, "a.test", DNS_A, 59 * S + 1), 1);
	assert_int_equal(left(c, "a.test", DNS_A, 60 * S), -1);
	assert_int_equal(dns_cache_entries(c), 0); /* and gone */
	assert_int_equal(dns_cache_octets(c), 0);
	put(c, "a.test", DNS_A, 0, 0);
	assert_int_equal(left(c, "a.test", DNS_A, 0), -1);
	put(c, "a.test", DNS_A, 10, 0);
	put(c, "a.test", DNS_A, 100, 0); /* the later one counts */
	assert_int_equal(left(c, "a.test", DNS_A, 0), 100);
	assert_int_equal(dns_cache_entries(c), 1);
	put(c, "a.test", DNS_A, 0, 0); /* and ends the former */
	assert_int_equal(dns_cache_entries(c), 0);
	/* an answer that somebody holds outlives its entry */
	uint32_t ttl;
	put(c, "b.test", DNS_A, 10, 0);
	struct dns_answer *a = dns_cache_get(c, STR("b.test"), DNS_A, 0, &ttl);
	dns_cache_flush(c);
	assert_string_equal(a->name.p, "b.test");
	dns_answer_unref(a);
	dns_cache_free(c);
	dns_cache_free(NULL);
}

static void bounds(void **st)
{
	struct dns_cache *c = dns_cache_new(3, 1 << 20, 7);
	char name[300];
	(void)st;
	put(c, "a", DNS_A, 60, 0);
	put(c, "b", DNS_A, 60, 0);
	put(c, "c", DNS_A, 60, 0);
	assert_int_equal(left(c, "a", DNS_A, 0), 60); /* used: b is the oldest now */
	put(c, "d", DNS_A, 60, 0);
	assert_int_equal(left(c, "b", DNS_A, 0), -1);
	assert_int_equal(left(c, "a", DNS_A, 0), 60);
	assert_int_equal(dns_cache_evicted(c), 1);
	dns_cache_limits(c, 1, 1 << 20);
	assert_int_equal(dns_cache_entries(c), 1);
	assert_int_equal(left(c, "a", DNS_A, 0), 60);
	dns_cache_limits(c, 0, 0);
	put(c, "x", DNS_A, 60, 0); /* switched off */
	assert_int_equal(dns_cache_entries(c), 0);
	/* octets */
	dns_cache_limits(c, 100000, 20000);
	for (unsigned i = 0; i < 2000; i++) {
		snprintf(name, sizeof name, "n%u.test", i);
		put(c, name, DNS_A, 60, 0);
		assert_true(dns_cache_octets(c) <= 20000);
	}
	assert_true(dns_cache_entries(c) > 10);
	/* what would take a large part of it is not kept at all */
	static char big[60000];
	struct dns_rr rr = { .data = str_n(big, sizeof big) };
	struct dns_answer *a = dns_answer_new(STR("big"), DNS_TXT, DNS_OK, &rr, 1, 60, false);
	size_t n = dns_cache_entries(c);
	dns_cache_put(c, a, 60, 0);
	dns_answer_unref(a);
	assert_int_equal(dns_cache_entries(c), n);
	dns_cache_free(c);
	/* few buckets: chains are cut, not endless */
	c = dns_cache_new(64, 1 << 24, 7);
	dns_cache_limits(c, 1000000, 1 << 24);
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(name, sizeof name, "n%u.test", i);
		put(c, name, DNS_A, 60, 0);
	}
	assert_true(dns_cache_entries(c) <= 64 * 16 && dns_cache_evicted(c) >= 5000 - 64 * 16);
	dns_cache_free(c);
}

static void servers(void **st)
{
	static const struct {
		const char *in, *out; /* out NULL: none */
		bool loopback;
	} cases[] = {
		{ "192.0.2.1", "192.0.2.1:53", false },
		{ "127.0.0.53", "127.0.0.53:53", true },
		{ "127.0.0.1:5353", "127.0.0.1:5353", true },
		{ "::1", "[::1]:53", true },
		{ "2001:DB8::1", "[2001:db8::1]:53", false },
		{ "[2001:db8::1]", "[2001:db8::1]:53", false },
		{ "[::1]:5353", "[::1]:5353", true },
		{ "[192.0.2.1]:53", NULL, false },
		{ "192.0.2.1:", NULL, false },
		{ "192.0.2.1:0", NULL, false },
		{ "192.0.2.1:65536", NULL, false },
		{ "[::1", NULL, false },
		{ "[::1]x", NULL, false },
		{ "[]:53", NULL, false },
		{ "fe80::1%eth0", NULL, false },
		{ "resolver.test", NULL, false },
		{ "", NULL, false },
		{ "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18.19.20.21.22.23.24.25", NULL, false },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct net_dns_server s;
		int rc = net_dns_server_parse(str_from(cases[i].in), &s);
		if (rc != (cases[i].out ? 0 : -1) || (!rc && (strcmp(s.text, cases[i].out) != 0 || s.loopback != cases[i].loopback)))
			fail_msg("%s: %d %s", cases[i].in, rc, rc ? "" : s.text);
	}
}

static void resolv(void **st)
{
	static const struct {
		const char *text, *servers;
		int64_t timeout_us;
		unsigned attempts;
	} cases[] = {
		{ "nameserver 192.0.2.1\n", "192.0.2.1:53", 0, 0 },
		{ "# nameserver 192.0.2.9\n; nameserver 192.0.2.8\nsearch a.test\n\tnameserver\t192.0.2.1  # x\r\nnameserver ::1\nnameserver 192.0.2.1\n",
		    "192.0.2.1:53 [::1]:53", 0, 0 },
		{ "options ndots:1 timeout:3 attempts:4 trust-ad\nnameserver 127.0.0.1", "127.0.0.1:53", 3 * S, 4 },
		{ "options timeout:9999 attempts:99\n", "", 0, 5 },
		{ "options timeout:600 attempts:600\n", "", 10 * S, 5 },
		{ "options timeout: attempts:-1 timeout:0\nnameserver x\nnameserver\nnameservers 192.0.2.1\n", "", 0, 0 },
		{ "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4\nnameserver 192.0.2.5\nnameserver 192.0.2.6\n"
		  "nameserver 192.0.2.7\nnameserver 192.0.2.8\nnameserver 192.0.2.9\n",
		    "192.0.2.1:53 192.0.2.2:53 192.0.2.3:53 192.0.2.4:53 192.0.2.5:53 192.0.2.6:53 192.0.2.7:53 192.0.2.8:53", 0, 0 },
		{ "", "", 0, 0 },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct net_dns_settings s = { .n_servers = 0 };
		char got[600] = "";
		net_dns_resolv_parse(str_from(cases[i].text), &s);
		for (unsigned k = 0; k < s.n_servers; k++)
			snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", k ? " " : "", s.server[k].text);
		if (strcmp(got, cases[i].servers) != 0 || s.timeout_us != cases[i].timeout_us || s.attempts != cases[i].attempts)
			fail_msg("case %zu: %s %lld %u", i, got, (long long)s.timeout_us, s.attempts);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(times), cmocka_unit_test(bounds), cmocka_unit_test(servers), cmocka_unit_test(resolv) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
