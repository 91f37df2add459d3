/* What is known of destinations: the datagrams of the fetching child, addresses that are none of the public Internet, the ratchet, health. */
#include "base/str.h"
#include "proto/relay/health.h"
#include "proto/relay/outside.h"
#include "proto/relay/ratchet.h"
#include "proto/relay/sts_wire.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <openssl/x509_vfy.h>

#define T INT64_C(1800000000)
#define DAY 86400

static void test_request(void **state)
{
	static const struct {
		const char *in, *domain; /* NULL: refused */
		bool fresh;
	} cases[] = {
		{ "STS1 example.org\n", "example.org", false }, { "STS1 example.org fresh\n", "example.org", true }, { "STS1 example.org\r\n", NULL, false },
		{ "STS1 example.org", NULL, false }, { "STS1 Example.org\n", NULL, false }, { "STS1 example.org.\n", NULL, false }, { "STS1  example.org\n", NULL, false },
		{ "STS1 example.org  fresh\n", NULL, false }, { "STS1 example.org fresh \n", NULL, false }, { "STS1 [192.0.2.1]\n", NULL, false }, { "STS1 \n", NULL, false },
		{ "STS1 a/b\n", NULL, false }, { "STS1 a@b\n", NULL, false }, { "STS1 a:443\n", NULL, false }, { "STS1 a..b\n", NULL, false }, { "STS1 -a.b\n", NULL, false },
		{ "STS2 example.org\n", NULL, false }, { "", NULL, false }, { "\n", NULL, false }, { "STS1 a\nSTS1 b\n", NULL, false }, { "STS1 xn--bcher-kva.example\n", "xn--bcher-kva.example", false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char domain[DNS_NAME_MAX + 1] = "untouched";
		bool fresh = false;
		int rc = sts_wire_request_get(str_from(cases[i].in), domain, &fresh);
		if (!cases[i].domain) {
			assert_int_equal(rc, -1);
			assert_string_equal(domain, "untouched");
			continue;
		}
		assert_int_equal(rc, 0);
		assert_string_equal(domain, cases[i].domain);
		assert_int_equal(fresh, cases[i].fresh);
		struct buf out = BUF_INIT(STS_WIRE_REQUEST_MAX);
		assert_int_equal(sts_wire_request_put(&out, str_from(domain), fresh), 0);
		assert_string_equal(buf_z(&out), cases[i].in);
		buf_free(&out);
	}
	struct buf out = BUF_INIT(STS_WIRE_REQUEST_MAX);
	assert_int_equal(sts_wire_request_put(&out, STR("Bücher.example"), false), 0);
	assert_string_equal(buf_z(&out), "STS1 xn--bcher-kva.example\n");
	assert_int_equal(sts_wire_request_put(&out, STR("a b"), false), -1);
	assert_int_equal(sts_wire_request_put(&out, STR("[192.0.2.1]"), false), -1);
	buf_free(&out);
}

static void test_answer(void **state)
{
	struct sts_wire_answer a;
	struct buf out = BUF_INIT(STS_WIRE_ANSWER_MAX);
	char *large = malloc(STS_POLICY_MAX + 1);
	(void)state;
	assert_non_null(large);
	memset(large, 'x', STS_POLICY_MAX + 1);
	assert_int_equal(sts_wire_answer_put(&out, STS_WIRE_OK, str_n(large, STS_POLICY_MAX)), 0);
	assert_int_equal(sts_wire_answer_get(buf_str(&out), &a), 0);
	assert_true(a.class == STS_WIRE_OK && a.text.n == STS_POLICY_MAX);
	buf_reset(&out);
	assert_int_equal(sts_wire_answer_put(&out, STS_WIRE_OK, str_n(large, STS_POLICY_MAX + 1)), -1);
	buf_reset(&out);
	assert_int_equal(sts_wire_answer_put(&out, STS_WIRE_FAILED, STR("a\nb\x80")), 0);
	assert_string_equal(buf_z(&out), "failed\na?b?");
	buf_reset(&out);
	assert_int_equal(sts_wire_answer_put(&out, STS_WIRE_BUSY, str_n(large, 5000)), 0);
	assert_int_equal(sts_wire_answer_get(buf_str(&out), &a), 0);
	assert_true(a.class == STS_WIRE_BUSY && a.text.n == STS_WIRE_WHY_MAX);
	assert_int_equal(sts_wire_answer_get(STR("ok\n"), &a), 0);
	assert_int_equal(a.text.n, 0);
	static const char *const bad[] = { "", "ok", "\n", "maybe\nx", "failed\na\nb", "OK\nx", "ok \nx" };
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(sts_wire_answer_get(str_from(bad[i]), &a), -1);
	assert_int_equal(sts_wire_result(STS_WIRE_WEBPKI), TLSRPT_STS_WEBPKI_INVALID);
	assert_int_equal(sts_wire_result(STS_WIRE_FAILED), TLSRPT_STS_POLICY_FETCH_ERROR);
	buf_free(&out);
	free(large);
}

static void test_outside(void **state)
{
	static const struct {
		const char *ip, *word; /* NULL: outside */
	} cases[] = {
		{ "8.8.8.8", NULL }, { "9.255.255.255", NULL }, { "10.0.0.0", "private" }, { "10.255.255.255", "private" }, { "11.0.0.0", NULL }, { "100.63.255.255", NULL },
		{ "100.64.0.0", "shared (CGNAT)" }, { "100.127.255.255", "shared (CGNAT)" }, { "100.128.0.0", NULL }, { "126.255.255.255", NULL }, { "127.0.0.1", "loopback" },
		{ "127.255.255.255", "loopback" }, { "128.0.0.0", NULL }, { "169.253.255.255", NULL }, { "169.254.169.254", "link-local" }, { "172.15.255.255", NULL },
		{ "172.16.0.0", "private" }, { "172.31.255.255", "private" }, { "172.32.0.0", NULL }, { "192.0.0.1", "special-purpose" }, { "192.0.1.0", NULL }, { "192.0.2.1", "documentation" },
		{ "192.88.99.1", "6to4 relay" }, { "192.167.255.255", NULL }, { "192.168.0.0", "private" }, { "192.169.0.0", NULL }, { "198.17.255.255", NULL }, { "198.18.0.0", "benchmarking" },
		{ "198.19.255.255", "benchmarking" }, { "198.20.0.0", NULL }, { "198.51.100.1", "documentation" }, { "203.0.113.1", "documentation" }, { "223.255.255.255", NULL },
		{ "224.0.0.0", "multicast" }, { "239.255.255.255", "multicast" }, { "240.0.0.0", "reserved" }, { "255.255.255.255", "reserved" }, { "0.0.0.0", "this network" }, { "1.0.0.0", NULL },
		{ "2606:4700::1", NULL }, { "2a00::1", NULL }, { "::", "unspecified" }, { "::1", "loopback" }, { "::2", "unspecified" }, { "::127.0.0.1", "IPv4-compatible" },
		{ "::ffff:8.8.8.8", "IPv4-mapped" }, { "::ffff:127.0.0.1", "IPv4-mapped" }, { "64:ff9b::808:808", "translated (NAT64)" }, { "64:ff9b:1::1", "translated (NAT64)" },
		{ "100::1", "reserved" }, { "2001::1", "special-purpose" }, { "2001:1ff:ffff::1", "special-purpose" }, { "2001:200::1", NULL }, { "2001:db8::1", "documentation" },
		{ "2001:db9::1", NULL }, { "2002:7f00:1::", "6to4" }, { "2003::1", NULL }, { "3fff:fff::1", "documentation" }, { "3fff:1000::1", NULL }, { "4000::1", "reserved" },
		{ "5f00::1", "reserved" }, { "fc00::1", "unique local" }, { "fdff::1", "unique local" }, { "fe80::1", "link-local" }, { "febf::1", "link-local" }, { "fec0::1", "site-local" },
		{ "ff02::1", "multicast" }, { "::ffff:0:1.2.3.4", "reserved" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		unsigned char ip[16];
		size_t n = inet_pton(AF_INET, cases[i].ip, ip) == 1 ? 4 : 16;
		assert_true(n == 4 || inet_pton(AF_INET6, cases[i].ip, ip) == 1);
		const char *word = outside_refused(ip, n);
		if (!cases[i].word != !word || (word && strcmp(word, cases[i].word)))
			fail_msg("%s: %s, not %s", cases[i].ip, word ? word : "outside", cases[i].word ? cases[i].word : "outside");
	}
	assert_non_null(outside_refused((const unsigned char *)"abc", 3));
	assert_non_null(outside_refused(NULL, 0));
}

static void test_level(void **state)
{
	struct tls_seen tls = { .starttls = true, .tls = true, .dane = DANE_MATCHED, .pkix_error = X509_V_OK }, plain = { .starttls = false };
	struct tls_verdict yes = { .go = true, .authenticated = true }, no = { .go = true };
	static const struct {
		struct tls_rules rules;
		bool authenticated;
		enum ratchet_level want;
	} cases[] = {
		{ { .dane = DANE_USABLE, .mx_secure = true }, true, RATCHET_DANE },
		{ { .dane = DANE_USABLE, .mx_secure = true, .sts = STS_ENFORCE, .sts_covers = true }, true, RATCHET_DANE },
		{ { .dane = DANE_USABLE, .mx_secure = false, .sts = STS_ENFORCE, .sts_covers = true }, true, RATCHET_STS },
		{ { .dane = DANE_USABLE, .mx_secure = false }, false, RATCHET_AUTHENTICATED },
		{ { .sts = STS_ENFORCE, .sts_covers = true }, true, RATCHET_STS },
		{ { .sts = STS_TESTING, .sts_covers = true }, false, RATCHET_AUTHENTICATED },
		{ { .sts = STS_TESTING }, false, RATCHET_TLS },
		{ { .sts = STS_NONE }, false, RATCHET_TLS },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(ratchet_level(&cases[i].rules, &tls, cases[i].authenticated ? &yes : &no), cases[i].want);
	assert_int_equal(ratchet_level(&cases[0].rules, &plain, &no), RATCHET_PLAIN);
	assert_int_equal(ratchet_level(&cases[0].rules, NULL, &no), RATCHET_PLAIN);
	for (unsigned l = RATCHET_UNKNOWN; l <= RATCHET_DANE; l++) {
		enum ratchet_level back;
		assert_int_equal(ratchet_level_parse(str_from(ratchet_level_name((enum ratchet_level)l)), &back), 0);
		assert_int_equal(back, l);
	}
}

static void test_ratchet(void **state)
{
	struct ratchet r = { 0 };
	static const struct {
		int64_t at;
		enum ratchet_level level;
		enum ratchet_event want;
		enum ratchet_level best;
	} steps[] = {
		{ 0, RATCHET_TLS, RATCHET_STRONGER, RATCHET_TLS },
		{ 1, RATCHET_TLS, RATCHET_SAME, RATCHET_TLS },
		{ 2, RATCHET_DANE, RATCHET_STRONGER, RATCHET_DANE },
		{ 3, RATCHET_STS, RATCHET_WEAKER, RATCHET_DANE },
		{ 4, RATCHET_STS, RATCHET_SAME, RATCHET_DANE },      /* told already */
		{ 5, RATCHET_PLAIN, RATCHET_WEAKER, RATCHET_DANE },  /* weaker still */
		{ 6, RATCHET_TLS, RATCHET_SAME, RATCHET_DANE },
		{ 7, RATCHET_PLAIN, RATCHET_SAME, RATCHET_DANE },    /* hosts that differ take turns: no flood */
		{ 5 + RATCHET_AGAIN, RATCHET_TLS, RATCHET_WEAKER, RATCHET_DANE },
		{ 6 + RATCHET_AGAIN, RATCHET_TLS, RATCHET_SAME, RATCHET_DANE },
		{ 7 + RATCHET_AGAIN, RATCHET_DANE, RATCHET_RECOVERED, RATCHET_DANE },
		{ 8 + RATCHET_AGAIN, RATCHET_DANE, RATCHET_SAME, RATCHET_DANE },
		{ 9 + RATCHET_AGAIN, RATCHET_TLS, RATCHET_WEAKER, RATCHET_DANE },
		/* what was seen last so long ago is forgotten */
		{ 10 + RATCHET_AGAIN + RATCHET_KEEP, RATCHET_TLS, RATCHET_SAME, RATCHET_TLS },
		{ 11 + RATCHET_AGAIN + RATCHET_KEEP, RATCHET_PLAIN, RATCHET_WEAKER, RATCHET_TLS },
		/* a clock that was set back warns once more, no worse */
		{ 0, RATCHET_PLAIN, RATCHET_WEAKER, RATCHET_TLS },
		{ 1, RATCHET_PLAIN, RATCHET_SAME, RATCHET_TLS },
	};
	(void)state;
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		enum ratchet_event e = ratchet_note(&r, steps[i].level, T + steps[i].at);
		if (e != steps[i].want || r.best != steps[i].best || r.last != steps[i].level)
			fail_msg("step %zu: event %d, best %s", i, e, ratchet_level_name(r.best));
	}
	struct ratchet a = { .best = RATCHET_TLS, .best_at = 5, .last = RATCHET_PLAIN, .last_at = 9 }, b = { .best = RATCHET_DANE, .best_at = 1, .last = RATCHET_DANE, .last_at = 1 };
	ratchet_merge(&a, &b);
	assert_true(a.best == RATCHET_DANE && a.best_at == 1 && a.last == RATCHET_PLAIN && a.last_at == 9);
}

static void test_health(void **state)
{
	struct health h = { 0 };
	(void)state;
	assert_int_equal(health_state(NULL, T), HEALTH_NEW);
	assert_int_equal(health_state(&h, T), HEALTH_NEW);
	health_succeeded(&h, T);
	assert_int_equal(health_state(&h, T + 100), HEALTH_GOOD);
	assert_int_equal(health_state(&h, T + HEALTH_FORGET + 1), HEALTH_NEW);
	/* pauses: 30, 60, … to half an hour, and up to a quarter more */
	int64_t now = T;
	for (unsigned i = 0; i < 20; i++) {
		int64_t least = i < 6 ? HEALTH_PAUSE_FIRST << i : HEALTH_PAUSE_MOST;
		health_probe(&h, now);
		health_failed(&h, now, i * 977);
		assert_int_equal(h.failures, i + 1);
		assert_in_range(h.until - now, least, least + least / 4);
		assert_int_equal(health_state(&h, now + 1), HEALTH_PAUSED);
		/* others that were open fall, too: one failure */
		health_failed(&h, now + 1, 0);
		assert_int_equal(h.failures, i + 1);
		now = h.until;
		assert_int_equal(health_state(&h, now), HEALTH_DUE);
	}
	health_probe(&h, now);
	assert_int_equal(health_state(&h, now + 1), HEALTH_PROBED);
	assert_int_equal(health_state(&h, now + HEALTH_PROBE_S), HEALTH_DUE); /* nobody told how it went */
	assert_int_equal(health_state(&h, T - 1000000), HEALTH_DUE); /* a clock set back */
	assert_int_equal(health_state(&h, h.failed_at + HEALTH_FORGET + 1), HEALTH_NEW);
	health_succeeded(&h, now);
	assert_true(h.failures == 0 && h.until == 0 && health_state(&h, now) == HEALTH_GOOD);
}

static void test_order(void **state)
{
	struct health good = { .ok_at = T }, due = { .failed_at = T - 100, .failures = 1, .until = T - 1 }, paused = { .failed_at = T, .failures = 1, .until = T + 30 },
		      later = { .failed_at = T, .failures = 2, .until = T + 60 }, probed = { .failed_at = T - 100, .failures = 1, .until = T - 50, .probe_at = T - 1 };
	const struct health *all[] = { &due, &paused, NULL, &good, &due, &probed }, *none[] = { &later, &paused, &probed }, *one[] = { &paused, &due };
	unsigned char order[6];
	int64_t when = -1;
	(void)state;
	assert_int_equal(health_order(all, 6, T, order, &when), 3);
	assert_true(order[0] == 2 && order[1] == 3 && order[2] == 0 && when == -1); /* new, good, and one that is due */
	assert_int_equal(health_order(none, 3, T, order, &when), 0);
	assert_int_equal(when, T + 30);
	assert_int_equal(health_order(one, 2, T, order, &when), 1);
	assert_int_equal(order[0], 1);
	assert_int_equal(health_order(NULL, 0, T, order, &when), 0);
	assert_int_equal(when, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request), cmocka_unit_test(test_answer), cmocka_unit_test(test_outside), cmocka_unit_test(test_level),
		cmocka_unit_test(test_ratchet), cmocka_unit_test(test_health), cmocka_unit_test(test_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
