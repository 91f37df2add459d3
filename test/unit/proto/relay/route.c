/* Mail exchangers: order, null MX, implicit MX, aliases, loops, address literals, limits; and what each failure is called. */
#include "zone.h"

#include "proto/relay/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct str own_names[] = { STR_INIT("us.example"), STR_INIT("alias-of-us.example") };
static const struct route_own own_ips[] = { { { 192, 0, 2, 99 }, 4 } };

static struct route route_of(const char *domain)
{
	return (struct route){ .domain = str_from(domain), .ipv4 = true, .ipv6 = true, .own = own_names, .n_own = 2, .own_ip = own_ips,
		.n_own_ip = 1, .seed = 1 };
}

static void run(struct route *r, zone_lines zone)
{
	struct dns_answers *set = dns_answers_new();
	assert_true(zone_run(route_evaluate, r, set, zone) <= ROUTE_QUERIES);
	dns_answers_free(set);
	assert_true((r->state == ROUTE_FOUND) == (r->n_addresses > 0));
	assert_true((r->state == ROUTE_FOUND) == (r->reason == NULL));
	if (r->state != ROUTE_FOUND)
		assert_int_equal(r->status[0], r->state == ROUTE_PERMANENT ? '5' : '4');
	for (size_t i = 0; i < r->n_addresses; i++) {
		const struct route_host *h = &r->host[r->address[i].host];
		assert_true(h->state == ROUTE_HOST_USED && i >= h->first && i < h->first + h->n);
	}
}

static void expect(const char *domain, zone_lines zone, const char *want)
{
	struct route r = route_of(domain);
	struct buf got = BUF_INIT(65536);
	run(&r, zone);
	assert_int_equal(route_text(&r, &got), 0);
	assert_string_equal(buf_z(&got), want);
	buf_free(&got);
}

static void test_order(void **state)
{
	(void)state;
	expect("Example.ORG.", ZONE("+example.org MX 20 b.example.org", "+example.org MX 10 a.example.net", "+b.example.org A 192.0.2.2",
	    "a.example.net AAAA 2001:db8::1", "a.example.net A 192.0.2.1"),
	    "example.org (secure): 10 a.example.net 2001:db8::1 192.0.2.1; 20 b.example.org (secure) 192.0.2.2");
	/* a host without addresses, one that fails, names that are none: the others do */
	expect("x.example", ZONE("x.example MX 1 none.example", "x.example MX 2 fails.example", "x.example MX 3 192.0.2.7", "x.example MX 4 .",
	    "x.example MX 5 good.example", "none.example -", "fails.example !", "good.example A 192.0.2.5"),
	    "x.example: 1 none.example (none); 2 fails.example (tempfail); 3 192.0.2.7 (not-a-name); 4 . (not-a-name); "
	    "5 good.example 192.0.2.5");
	/* one family fails, the other does */
	expect("x.example", ZONE("x.example MX 1 a.example", "a.example AAAA !", "a.example A 192.0.2.5"), "x.example: 1 a.example 192.0.2.5");
	/* U-labels */
	expect("b\xc3\xbc" "cher.example", ZONE("xn--bcher-kva.example MX 1 a.example", "a.example A 192.0.2.5"),
	    "xn--bcher-kva.example: 1 a.example 192.0.2.5");
}

static void test_failures(void **state)
{
	(void)state;
	expect("x.example", ZONE("x.example MX 0 ."), "x.example: 5.1.10 the domain takes no mail (null MX)");
	expect("x.example", ZONE("x.example !"), "x.example: 4.4.3 its mail exchangers cannot be looked up now");
	expect("x.example", ZONE("y.example -"), "x.example: 5.1.2 the domain does not exist");
	expect("x.example", ZONE("x.example -"), "x.example: 5.4.4 the host has no address that mail can be sent to");
	expect("x.example", ZONE("x.example MX 1 a.example", "x.example MX 2 b.example", "a.example -"),
	    "x.example: 5.4.4 none of its mail exchangers has an address that mail can be sent to");
	expect("x.example", ZONE("x.example MX 1 a.example", "x.example MX 2 b.example", "a.example !"),
	    "x.example: 4.4.3 the addresses of its mail exchangers cannot be looked up now");
	expect("x.example", ZONE("x.example A !"), "x.example: 4.4.3 the addresses of its mail exchangers cannot be looked up now");
	expect("a..b", ZONE("x.example -"), "?: 5.1.2 not a domain name");
	expect("", ZONE("x.example -"), "?: 5.1.2 not a domain name");
	expect("192.0.2.1", ZONE("x.example -"), "?: 5.1.2 not a domain name");
	/* nobody is sent to himself by a stranger's records */
	expect("x.example", ZONE("x.example MX 1 a.example", "a.example A 127.0.0.1", "a.example AAAA ::1", "a.example AAAA ::ffff:127.0.0.1",
	    "a.example AAAA fe80::1", "a.example A 0.0.0.0", "a.example A 224.0.0.1", "a.example A 255.255.255.255", "a.example AAAA 64:ff9b::7f00:1",
	    "a.example AAAA 2002:7f00:1::1", "a.example AAAA ff02::1", "a.example A 169.254.169.254"),
	    "x.example: 5.4.4 it names only addresses that mail from outside must not be sent to");
}

static void test_codes(void **state)
{
	struct route r = route_of("x.example");
	(void)state;
	run(&r, ZONE("x.example MX 0 ."));
	assert_int_equal(r.code, 556); /* RFC 7504, RFC 7505 §4.2 */
	run(&r, ZONE("x.example !"));
	assert_int_equal(r.code, 451);
	run(&r, ZONE("y.example -"));
	assert_int_equal(r.code, 550);
}

static void test_implicit_and_aliases(void **state)
{
	struct route r = route_of("x.example");
	(void)state;
	run(&r, ZONE("+x.example A 192.0.2.1"));
	assert_true(r.implicit && r.mx_secure && r.host[0].secure && !r.n_listed);
	/* the domain is an alias: the MX records of where it leads (§5.1) */
	run(&r, ZONE("+x.example CNAME y.example", "+y.example MX 5 m.example", "+m.example CNAME n.example", "n.example A 192.0.2.1"));
	assert_string_equal(r.name, "x.example");
	assert_string_equal(r.canonical, "y.example");
	assert_true(r.mx_secure && !r.implicit);
	assert_string_equal(r.host[0].name, "m.example");
	assert_string_equal(r.host[0].canonical, "n.example");
	assert_false(r.host[0].secure);
	/* to a domain that takes no mail */
	run(&r, ZONE("x.example CNAME y.example", "y.example MX 0 ."));
	assert_string_equal(r.status, "5.1.10");
	/* aliases in a circle */
	run(&r, ZONE("x.example CNAME y.example", "y.example CNAME x.example"));
	assert_string_equal(r.status, "4.4.3");
	r.no_mx = true;
	run(&r, ZONE("x.example MX 0 .", "x.example A 192.0.2.4"));
	assert_int_equal(r.n_addresses, 1);
	assert_true(r.state == ROUTE_FOUND && r.mx_secure && !r.host[0].secure);
}

static void test_loops(void **state)
{
	struct route r = route_of("x.example");
	(void)state;
	/* ourselves in the middle: only what is better is left */
	expect("x.example", ZONE("x.example MX 10 a.example", "x.example MX 20 US.example", "x.example MX 20 c.example", "x.example MX 30 d.example",
	    "a.example A 192.0.2.1", "c.example A 192.0.2.3", "d.example A 192.0.2.4"),
	    "x.example: 10 a.example 192.0.2.1; 20 us.example (loop); 20 c.example (loop); 30 d.example (loop)");
	/* ourselves first */
	expect("x.example", ZONE("x.example MX 10 us.example", "x.example MX 20 c.example", "c.example A 192.0.2.3"),
	    "x.example: 5.4.6 we are its most preferred mail exchanger ourselves: mail would loop");
	/* by alias, by address */
	run(&r, ZONE("x.example MX 10 m.example", "m.example CNAME alias-of-us.example", "alias-of-us.example A 192.0.2.8"));
	assert_string_equal(r.status, "5.4.6");
	run(&r, ZONE("x.example MX 10 a.example", "x.example MX 20 b.example", "x.example MX 30 c.example", "a.example A 192.0.2.1",
	    "b.example A 192.0.2.2", "b.example A 192.0.2.99", "c.example A 192.0.2.3"));
	assert_int_equal(r.n_addresses, 1);
	assert_true(r.looped);
	/* what is better fails for now: it may come back, so the mail waits */
	run(&r, ZONE("x.example MX 10 a.example", "x.example MX 20 us.example", "a.example !"));
	assert_string_equal(r.status, "4.4.3");
	/* no MX, but the name is ours */
	run(&r, ZONE("x.example AAAA ::ffff:192.0.2.99", "x.example A 192.0.2.1"));
	assert_int_equal(r.state, ROUTE_PERMANENT); /* ours in another spelling */
	assert_string_equal(r.status, "5.4.6");
	run(&r, ZONE("x.example A 192.0.2.99"));
	assert_string_equal(r.status, "5.4.6");
}

static void test_literals(void **state)
{
	(void)state;
	expect("[192.0.2.1]", ZONE("x -"), "address literal: 192.0.2.1");
	expect("[IPv6:2001:db8::1]", ZONE("x -"), "address literal: 2001:db8::1");
	expect("[192.0.2.99]", ZONE("x -"), "address literal: 5.4.6 the address is our own");
	expect("[IPv6:::ffff:192.0.2.99]", ZONE("x -"), "address literal: 5.4.6 the address is our own");
	expect("[IPv6:64:ff9b::192.0.2.99]", ZONE("x -"), "address literal: 5.4.6 the address is our own");
	expect("[127.0.0.1]", ZONE("x -"), "address literal: 5.4.4 no mail can be sent to that address");
	expect("[192.0.2.1", ZONE("x -"), "address literal: 5.1.2 not an address literal");
	expect("[]", ZONE("x -"), "address literal: 5.1.2 not an address literal");
	expect("[x.example]", ZONE("x -"), "address literal: 5.1.2 not an address literal");
	struct route r = route_of("[127.0.0.1]");
	r.local_ok = true;
	run(&r, ZONE("x -"));
	assert_int_equal(r.state, ROUTE_FOUND);
	r.ipv4 = false;
	run(&r, ZONE("x -"));
	assert_string_equal(r.status, "5.4.4");
}

/* What strangers name is connected to where it is of the public Internet, or the operator says so. */
static void test_public(void **state)
{
	static const struct {
		const char *type, *ip, *word; /* NULL: used */
	} cases[] = {
		{ "A", "9.9.9.9", NULL }, { "AAAA", "2620:fe::fe", NULL }, { "A", "10.1.2.3", "private" }, { "A", "172.31.0.1", "private" }, { "A", "172.32.0.1", NULL },
		{ "A", "192.168.7.7", "private" }, { "A", "127.0.0.1", "loopback" }, { "A", "0.0.0.0", "this network" }, { "A", "169.254.169.254", "link-local" },
		{ "A", "100.64.0.1", "shared (CGNAT)" }, { "A", "224.0.0.1", "multicast" }, { "A", "255.255.255.255", "reserved" }, { "AAAA", "::1", "loopback" },
		{ "AAAA", "::", "unspecified" }, { "AAAA", "fe80::1", "link-local" }, { "AAAA", "fd12::1", "unique local" }, { "AAAA", "ff02::1", "multicast" },
		{ "AAAA", "::ffff:10.0.0.1", "private" }, { "AAAA", "::ffff:127.0.0.1", "loopback" }, { "AAAA", "::ffff:9.9.9.9", NULL },
		{ "AAAA", "64:ff9b::10.0.0.1", "private" }, { "AAAA", "64:ff9b::9.9.9.9", NULL }, { "AAAA", "2002:a00:1::1", "private" },
		{ "AAAA", "2002:909:909::1", NULL }, { "AAAA", "::10.0.0.1", "IPv4-compatible" }, { "A", "10.9.0.1", NULL }, { "AAAA", "::ffff:10.9.255.1", NULL },
		{ "AAAA", "fd99::1", NULL }, { "AAAA", "64:ff9b:1::1", "translated (NAT64)" },
	};
	struct outside_net allow[3];
	(void)state;
	assert_int_equal(outside_net_parse(STR("10.9.0.0/16"), &allow[0]), 0);
	assert_int_equal(outside_net_parse(STR("fd99::/20"), &allow[1]), 0);
	assert_int_equal(outside_net_parse(STR("192.0.2.1"), &allow[2]), 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char mail[100], literal[100];
		snprintf(mail, sizeof mail, "mx.example %s %s", cases[i].type, cases[i].ip);
		snprintf(literal, sizeof literal, "[%s%s]", cases[i].type[1] ? "IPv6:" : "", cases[i].ip);
		for (int k = 0; k < 2; k++) {
			struct route r = route_of(k ? literal : "x.example");
			r.public_only = true;
			r.allow = allow;
			r.n_allow = 3;
			run(&r, ZONE("x.example MX 1 mx.example", mail));
			if ((r.state == ROUTE_FOUND) != !cases[i].word || (cases[i].word && (!r.refused || strcmp(r.refused, cases[i].word) != 0)))
				fail_msg("%s: %s, %s", k ? literal : mail, r.status ? r.status : "found", r.refused ? r.refused : "-");
			if (cases[i].word)
				assert_string_equal(r.status, "5.4.4");
		}
	}
	/* one of several is left out, no more */
	struct route r = route_of("x.example");
	r.public_only = true;
	run(&r, ZONE("x.example MX 1 a.example", "x.example MX 2 b.example", "a.example A 10.0.0.1", "b.example A 9.9.9.9"));
	assert_true(r.state == ROUTE_FOUND && r.n_addresses == 1 && r.address[0].ip[0] == 9 && !strcmp(r.refused, "private"));
	static const char *const wrong[] = { "", "10", "10.0.0.0/33", "10.0.0.0/", "/8", "fd00::/129", "10.0.0.0/8 ", "mx.example", "::/-1", "private" };
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(outside_net_parse(str_from(wrong[i]), &allow[0]), -1);
}

static void test_families(void **state)
{
	struct route r = route_of("x.example");
	zone_lines zone = ZONE("x.example MX 1 a.example", "a.example A 192.0.2.1", "a.example A 192.0.2.2", "a.example A 192.0.2.3",
	    "a.example AAAA 2001:db8::1");
	(void)state;
	run(&r, zone);
	assert_int_equal(r.n_addresses, 4);
	assert_int_equal(r.address[0].n, 16);
	assert_int_equal(r.address[1].n, 4);
	r.ipv6 = false;
	run(&r, zone);
	assert_int_equal(r.n_addresses, 3);
	r.ipv6 = true;
	r.ipv4 = false;
	run(&r, zone);
	assert_int_equal(r.n_addresses, 1);
}

/* Equals come in every order, groups stay apart, and the same seed gives the same. */
static void test_shuffle(void **state)
{
	static const char *const zone[] = { "x.example MX 10 a.example", "x.example MX 10 b.example", "x.example MX 10 c.example",
		"x.example MX 5 z.example", "a.example A 192.0.2.1", "b.example A 192.0.2.2", "c.example A 192.0.2.3", "z.example A 192.0.2.9", NULL };
	unsigned first[3] = { 0 };
	(void)state;
	for (uint64_t seed = 0; seed < 300; seed++) {
		struct route r = route_of("x.example"), again = r;
		r.seed = again.seed = seed;
		run(&r, zone);
		run(&again, zone);
		assert_int_equal(r.n_addresses, 4);
		assert_int_equal(r.address[0].ip[3], 9);
		for (size_t i = 0; i < 4; i++)
			assert_int_equal(r.address[i].ip[3], again.address[i].ip[3]);
		first[r.address[1].ip[3] - 1]++;
	}
	for (size_t i = 0; i < 3; i++)
		assert_true(first[i] > 60 && first[i] < 140);
}

static void test_limits(void **state)
{
	static char lines[50][2][64];
	const char *zone[101];
	struct route r = route_of("x.example");
	(void)state;
	for (int i = 0; i < 50; i++) {
		snprintf(lines[i][0], sizeof lines[i][0], "x.example MX %d m%d.example", 50 - i, i);
		snprintf(lines[i][1], sizeof lines[i][1], "m%d.example A 192.0.2.%d", i, i);
		zone[2 * i] = lines[i][0];
		zone[2 * i + 1] = lines[i][1];
	}
	zone[100] = NULL;
	run(&r, zone);
	assert_int_equal(r.n_hosts, ROUTE_HOSTS_MAX);
	assert_int_equal(r.n_listed, 50);
	assert_string_equal(r.host[0].name, "m49.example");
	for (int i = 0; i < 50; i++) {
		snprintf(lines[i][0], sizeof lines[i][0], "x.example MX 1 m%d.example", i % 25);
		snprintf(lines[i][1], sizeof lines[i][1], "m%d.example A 192.0.2.%d", i % 2, i);
	}
	run(&r, zone);
	for (size_t i = 0; i < r.n_hosts; i++)
		assert_true(r.host[i].n <= ROUTE_HOST_ADDRESSES_MAX);
	assert_true(r.n_addresses <= ROUTE_ADDRESSES_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order), cmocka_unit_test(test_failures), cmocka_unit_test(test_codes),
		cmocka_unit_test(test_implicit_and_aliases), cmocka_unit_test(test_loops), cmocka_unit_test(test_literals),
		cmocka_unit_test(test_public), cmocka_unit_test(test_families), cmocka_unit_test(test_shuffle), cmocka_unit_test(test_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
