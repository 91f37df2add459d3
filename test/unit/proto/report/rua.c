/* Where reports may go: what each address of a record is worth, over small zones, and mailto URIs. */
#include "proto/report/rua.h"

#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct zone_line {
	const char *name, *txt; /* "!": no answer */
};

static struct dns_answer *answer(const struct zone_line *zone, struct str name, enum dns_type type)
{
	struct dns_rr rr[4] = { 0 };
	size_t n = 0;
	for (; zone->name; zone++) {
		bool star = zone->name[0] == '*' && str_iends(name, str_from(zone->name + 1));
		if (!star && !str_eq(name, str_from(zone->name)))
			continue;
		if (!strcmp(zone->txt, "!"))
			return dns_answer_fail(name, type, "no answer in time");
		rr[n++].data = str_from(zone->txt);
	}
	return dns_answer_new(name, type, n ? DNS_OK : DNS_NXDOMAIN, rr, n, 60, false);
}

static void expect(const struct zone_line *zone, const char *want)
{
	struct rua_check c = { .domain = "example.org" };
	struct dns_answers *set = dns_answers_new();
	struct buf got = BUF_INIT(8192);
	struct str name;
	enum dns_type type;
	while (rua_evaluate(&c, set) == DNS_MORE) {
		assert_true(dns_answers_n_missing(set) > 0);
		while (dns_answers_missing(set, 0, &name, &type))
			assert_int_equal(dns_answers_put(set, answer(zone, name, type)), 0);
	}
	assert_true(dns_answers_n(set) <= RUA_QUERIES);
	dns_answers_free(set);
	buf_addz(&got, c.state == RUA_FOUND ? "" : c.state == RUA_NONE ? "none" : "tempfail");
	for (size_t i = 0; i < c.n; i++) {
		buf_addf(&got, "%s%s %s%s", i ? ", " : "", rua_verdict_name(c.target[i].verdict), c.target[i].address, c.target[i].external ? " ext" : "");
		if (c.target[i].max)
			buf_addf(&got, " %llu", (unsigned long long)c.target[i].max);
	}
	assert_string_equal(buf_z(&got), want);
	buf_free(&got);
}

#define ZONE(...) (const struct zone_line[]){ __VA_ARGS__, { NULL, NULL } }
#define OWN "_dmarc.example.org"

static void inside(void **state)
{
	(void)state;
	expect(ZONE({ "_dmarc.other.test", "v=DMARC1" }), "none");
	expect(ZONE({ OWN, "!" }), "tempfail");
	expect(ZONE({ OWN, "v=DMARC1; p=none" }), "none");
	/* two records are none (RFC 9989 §4.10) */
	expect(ZONE({ OWN, "v=DMARC1; p=none; rua=mailto:a@example.org" }, { OWN, "v=DMARC1; p=none; rua=mailto:b@example.org" }), "none");
	expect(ZONE({ OWN, "v=DMARC1; p=none; rua=mailto:a@example.org" }), "send a@example.org");
	expect(ZONE({ OWN, "v=DMARC1; p=none; rua=mailto:a@sub.example.org!10m" }), "send a@sub.example.org 10485760");
	expect(ZONE({ OWN, "v=DMARC1; p=none; rua=https://example.org/r,MAILTO:A@Example.Org, mailto:a@example.org" }),
	    "scheme , send A@Example.Org, repeated a@example.org");
	expect(ZONE({ OWN, "v=DMARC1; p=none; rua=mailto:a@[192.0.2.1],mailto:nobody,mailto:x%2cy@example.org" }), "address , address , address ");
}

static void outside(void **state)
{
	(void)state;
	const char *to = "v=DMARC1; p=none; rua=mailto:r@far.test";
	expect(ZONE({ OWN, to }), "not-agreed r@far.test ext");
	expect(ZONE({ OWN, to }, { "example.org._report._dmarc.far.test", "v=DMARC1" }), "send r@far.test ext");
	expect(ZONE({ OWN, to }, { "*._report._dmarc.far.test", "v=DMARC1;" }), "send r@far.test ext");
	expect(ZONE({ OWN, to }, { "example.org._report._dmarc.far.test", "v=spf1 -all" }), "not-agreed r@far.test ext");
	expect(ZONE({ OWN, to }, { "example.org._report._dmarc.far.test", "hello" }, { "example.org._report._dmarc.far.test", "v=DMARC1" }),
	    "send r@far.test ext");
	expect(ZONE({ OWN, to }, { "example.org._report._dmarc.far.test", "!" }), "later r@far.test ext");
	/* somebody else's agreement is none */
	expect(ZONE({ OWN, to }, { "example.net._report._dmarc.far.test", "v=DMARC1" }), "not-agreed r@far.test ext");
	/* one organisation by a record further up: psd=n makes sub.far.test its own */
	expect(ZONE({ OWN, "v=DMARC1; p=none; rua=mailto:r@sub.example.org" }, { "_dmarc.sub.example.org", "v=DMARC1; p=none; psd=n" }),
	    "not-agreed r@sub.example.org ext");
}

static void overriding(void **state)
{
	(void)state;
	const char *to = "v=DMARC1; p=none; rua=mailto:r@far.test!5k";
#define AGREED "example.org._report._dmarc.far.test"
	expect(ZONE({ OWN, to }, { AGREED, "v=DMARC1; rua=mailto:other@far.test" }), "replaced r@far.test ext 5120, send other@far.test ext 5120");
	expect(ZONE({ OWN, to }, { AGREED, "v=DMARC1; rua=mailto:r@far.test" }), "send r@far.test ext 5120, repeated r@far.test ext 5120");
	expect(ZONE({ OWN, to }, { AGREED, "v=DMARC1; rua=mailto:victim@third.test" }), "override r@far.test ext 5120");
	/* one good and one third party: nothing to either */
	expect(ZONE({ OWN, to }, { AGREED, "v=DMARC1; rua=mailto:other@far.test,mailto:v@third.test" }), "override r@far.test ext 5120");
}

static void many(void **state)
{
	char text[2000] = "v=DMARC1; p=none; rua=";
	(void)state;
	for (int i = 0; i < 20; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%smailto:a@h%d.a.b.c.d.e.f.g.h.i.j.test", i ? "," : "", i);
	struct rua_check c = { .domain = "example.org" };
	struct dns_answers *set = dns_answers_new();
	struct str name;
	enum dns_type type;
	while (rua_evaluate(&c, set) == DNS_MORE)
		while (dns_answers_missing(set, 0, &name, &type))
			assert_int_equal(dns_answers_put(set, answer(ZONE({ OWN, text }), name, type)), 0);
	assert_int_equal(c.n, DMARC_URIS_MAX);
	assert_true(dns_answers_n(set) <= RUA_QUERIES);
	dns_answers_free(set);
}

static void mailto(void **state)
{
	static const struct {
		const char *uri;
		int rc;
		const char *want;
	} cases[] = {
		{ "mailto:a@b.test", 0, "a@b.test" }, { "mailto:a%2Bb@c.test?subject=x", 0, "a+b@c.test" }, { "http://a@b.test", -1, NULL },
		{ "mailto:", -2, NULL }, { "mailto:a@b.test,c@d.test", -2, NULL }, { "mailto:a%0d%0a@b.test", -2, NULL }, { "mailto:a%@b.test", -2, NULL },
		{ "mailto:\"a b\"@c.test", -2, NULL }, { "mailto:%22a%22@c.test", -2, NULL }, { "mailto:%00@c.test", -2, NULL }, { "mailto:<a@b.test>", -2, NULL },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char address[321] = "";
		assert_int_equal(rua_mailto(str_from(cases[i].uri), address), cases[i].rc);
		if (cases[i].want)
			assert_string_equal(address, cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(inside), cmocka_unit_test(outside), cmocka_unit_test(overriding),
		cmocka_unit_test(many), cmocka_unit_test(mailto) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
