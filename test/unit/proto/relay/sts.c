/* MTA-STS: records, policies, matches, and what becomes of a cached policy. */
#include "zone.h"

#include "proto/relay/sts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_record(void **state)
{
	static const struct {
		const char *txt, *id; /* NULL: not valid */
	} cases[] = {
		{ "v=STSv1;id=a", "a" }, { "v=STSv1; id=20160831085700Z;", "20160831085700Z" }, { "v=STSv1 \t;\tid=A9 ;", "A9" },
		{ "v=STSv1; x=1; id=a; y.z-_=~", "a" }, { "v=STSv1; id=a;;", NULL }, { "v=STSv1; id=a; ;", NULL }, { "v=STSv1", NULL },
		{ "v=STSv1;", NULL }, { "v=STSv1; x=1", NULL }, { "v=stsv1; id=a", NULL }, { " v=STSv1; id=a", NULL }, { "v=STSv1; ID=a", NULL },
		{ "v=STSv1; id=", NULL }, { "v=STSv1; id=a b", NULL }, { "v=STSv1; id=a; id=b", NULL }, { "v=STSv1; id=a; id", NULL },
		{ "v=STSv1; id=a; =b", NULL }, { "v=STSv1; id=a; .x=b", NULL }, { "v=STSv1; id=a; x=a=b", NULL }, { "v=STSv1; id=a ", NULL },
		{ "v=STSv1; id=12345678901234567890123456789012", "12345678901234567890123456789012" },
		{ "v=STSv1; id=123456789012345678901234567890123", NULL }, { "v=STSv1, id=a", NULL }, { "v=STSv1; id=a\n", NULL }, { "", NULL },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct str id = STR_NULL;
		const char *why = NULL;
		int rc = sts_record_parse(str_from(cases[i].txt), &id, &why);
		if ((rc == 0) != (cases[i].id != NULL) || (rc == 0 && !str_eq(id, str_from(cases[i].id))))
			fail_msg("\"%s\": %d", cases[i].txt, rc);
		assert_true(rc == 0 || why);
	}
}

static void expect_lookup(const char *domain, zone_lines zone, enum sts_txt want, const char *id)
{
	struct sts_lookup l = { .domain = str_from(domain) };
	struct dns_answers *set = dns_answers_new();
	assert_true(zone_run(sts_evaluate, &l, set, zone) <= STS_QUERIES);
	dns_answers_free(set);
	assert_int_equal(l.state, want);
	assert_string_equal(l.id, id);
	assert_true((l.reason == NULL) == (want == STS_TXT_FOUND));
}

static void test_lookup(void **state)
{
	(void)state;
	expect_lookup("X.example.", ZONE("_mta-sts.x.example TXT v=STSv1; id=1;"), STS_TXT_FOUND, "1");
	expect_lookup("x.example", ZONE("_mta-sts.x.example TXT v=STSv1; id=1;", "_mta-sts.x.example TXT something else"), STS_TXT_FOUND, "1");
	expect_lookup("x.example", ZONE("_mta-sts.x.example TXT v=STSv1; id=1;", "_mta-sts.x.example TXT v=STSv1; id=1;"), STS_TXT_NONE, "");
	expect_lookup("x.example", ZONE("_mta-sts.x.example TXT v=STSv1; id=?;"), STS_TXT_NONE, "");
	expect_lookup("x.example", ZONE("_mta-sts.x.example !"), STS_TXT_UNKNOWN, "");
	expect_lookup("x.example", ZONE("x.example -"), STS_TXT_NONE, "");
	expect_lookup("[192.0.2.1]", ZONE("x.example -"), STS_TXT_NONE, "");
	/* the record may be an alias: a provider's */
	expect_lookup("x.example", ZONE("_mta-sts.x.example CNAME p.example", "p.example TXT v=STSv1; id=7"), STS_TXT_FOUND, "7");
}

#define HEAD "version: STSv1\nmode: enforce\n"
static void test_policy(void **state)
{
	static const struct {
		const char *body;
		int mode; /* -1: not valid */
		unsigned age, n_mx;
	} cases[] = {
		{ HEAD "mx: a.example\nmax_age: 1\n", STS_ENFORCE, 1, 1 }, { "mode:testing\r\nmax_age:9\r\nmx:*.a.example\r\nversion:STSv1", STS_TESTING, 9, 1 },
		{ "version: STSv1\nmode: none\nmax_age: 86400", STS_NONE, 86400, 0 }, { HEAD "mx: a.example\nmax_age: 9999999999\n", STS_ENFORCE, STS_AGE_MAX, 1 },
		{ HEAD "mx: a.example\nmax_age: 99999999999\n", -1, 0, 0 }, { HEAD "mx: a.example\nmax_age: -1\n", -1, 0, 0 },
		/* the first of a key counts (§3.2) */
		{ HEAD "mode: none\nmx: a.example\nmax_age: 5\nmax_age: 6\nversion: STSv2\n", STS_ENFORCE, 5, 1 },
		{ HEAD "mx: a\nmx: b\nmx: a\nmax_age: 5\n", STS_ENFORCE, 5, 3 }, { HEAD "max_age: 5\n", -1, 0, 0 },
		{ HEAD "mx: a.example\n", -1, 0, 0 }, { HEAD "mx: a.example\nmax_age: 5\n\n", -1, 0, 0 }, { "", -1, 0, 0 }, { "\n", -1, 0, 0 },
		{ HEAD "mx: -a.example\nmax_age: 5", -1, 0, 0 }, { HEAD "mx: a..b\nmax_age: 5", -1, 0, 0 }, { HEAD "mx: a.example.\nmax_age: 5", -1, 0, 0 },
		{ HEAD "mx: *\nmax_age: 5", -1, 0, 0 }, { HEAD "mx: *.\nmax_age: 5", -1, 0, 0 }, { HEAD "mx: a.*.example\nmax_age: 5", -1, 0, 0 },
		{ HEAD "mx: a\nmax_age: 5\nx: y z\n", STS_ENFORCE, 5, 1 }, { HEAD "mx: a\nmax_age: 5\nx: \n", -1, 0, 0 },
		{ HEAD "mx: a\nmax_age: 5\n x: y\n", -1, 0, 0 }, { HEAD "mx: a\nmax_age: 5\nx: \x01\n", -1, 0, 0 },
		{ HEAD "mx: a\nmax_age: 5\nx: gr\xc3\xbc\xc3\x9f\n", STS_ENFORCE, 5, 1 }, { HEAD "mx: a\nmax_age: 5\nx: \xc3\n", -1, 0, 0 },
		{ "Version: STSv1\nmode: none\nmax_age: 5", -1, 0, 0 }, { "version: STSv1\nmode: Enforce\nmx: a\nmax_age: 5", -1, 0, 0 },
		{ "<html>\n<body>", -1, 0, 0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sts_policy p;
		const char *why = NULL;
		int rc = sts_policy_parse(str_from(cases[i].body), &p, &why);
		if ((rc == 0) != (cases[i].mode >= 0))
			fail_msg("case %zu: %s", i, why ? why : "");
		assert_true((rc == 0) == (why == NULL));
		if (rc == 0)
			assert_true((int)p.mode == cases[i].mode && p.max_age == cases[i].age && p.n_mx == cases[i].n_mx);
	}
}

static void test_policy_bounds(void **state)
{
	struct buf b = BUF_INIT(1 << 20);
	struct sts_policy p;
	const char *why;
	(void)state;
	buf_addz(&b, HEAD "max_age: 5\n");
	for (size_t i = 0; i < STS_MX_MAX; i++)
		buf_addf(&b, "mx: m%zu.example\n", i);
	assert_int_equal(sts_policy_parse(buf_str(&b), &p, &why), 0);
	assert_int_equal(p.n_mx, STS_MX_MAX);
	buf_addz(&b, "mx: more.example\n");
	assert_int_equal(sts_policy_parse(buf_str(&b), &p, &why), -1);
	buf_reset(&b);
	buf_addz(&b, HEAD "max_age: 5\nmx: a\n");
	while (b.n < STS_POLICY_MAX - 4)
		buf_addz(&b, "x:y\n");
	assert_int_equal(sts_policy_parse(buf_str(&b), &p, &why), 0);
	buf_addz(&b, "x:y\nx:y\n");
	assert_int_equal(sts_policy_parse(buf_str(&b), &p, &why), -1);
	buf_free(&b);
}

static void test_match(void **state)
{
	struct sts_policy p = { .mx = { STR("a.example"), STR("*.b.example") }, .n_mx = 2 };
	(void)state;
	assert_true(sts_policy_covers(&p, STR("A.example.")) && sts_policy_covers(&p, STR("x.B.example")));
	assert_false(sts_policy_covers(&p, STR("b.example")) || sts_policy_covers(&p, STR("x.y.b.example")) || sts_policy_covers(&p, STR("")));
	assert_false(sts_policy_covers(&p, STR(".b.example")) || sts_policy_covers(&p, STR(".")) || sts_policy_covers(&p, STR("*.a.example")));
}

static void test_http(void **state)
{
	char url[DNS_NAME_MAX + 64];
	(void)state;
	assert_null(sts_http_fault(200, STR("text/plain")));
	assert_null(sts_http_fault(200, STR("Text/Plain ; charset=utf-8")));
	assert_non_null(sts_http_fault(200, STR("text/html")));
	assert_non_null(sts_http_fault(200, STR("")));
	assert_non_null(sts_http_fault(301, STR("text/plain")));
	assert_non_null(sts_http_fault(404, STR("text/plain")));
	assert_int_equal(sts_url(STR("Example.org."), url, sizeof url), 0);
	assert_string_equal(url, "https://mta-sts.example.org/.well-known/mta-sts.txt");
	assert_int_equal(sts_url(STR("a/b@c"), url, sizeof url), -1);
	assert_int_equal(sts_url(STR("example.org:80"), url, sizeof url), -1);
	assert_int_equal(sts_url(STR("[::1]"), url, sizeof url), -1);
}

/* -- the cache */

enum { T = 1796000000, WEEK = 7 * 86400 };

static void expect_plan(const struct sts_cached *c, enum sts_txt txt, const char *id, int64_t now, const char *want)
{
	struct sts_lookup l = { .state = txt };
	struct sts_plan p;
	char got[64];
	snprintf(l.id, sizeof l.id, "%s", id);
	sts_plan(c, &l, now, &p);
	assert_non_null(p.reason);
	assert_true(p.fetch || !p.wait);
	snprintf(got, sizeof got, "%s%s%s%s", p.use ? "use " : "", p.fetch ? "fetch " : "", p.wait ? "wait " : "", p.forget ? "forget " : "");
	if (strcmp(got, want))
		fail_msg("\"%s\", not \"%s\": %s", got, want, p.reason);
}

static void test_due(void **state)
{
	struct sts_cached c = { .known = true, .fetched = T, .max_age = 7 * 86400 };
	(void)state;
	assert_int_equal(sts_due(&c), T + STS_REFRESH);
	c.max_age = 7200;
	assert_int_equal(sts_due(&c), T + 3600);
	sts_failed(&c, T + 3590);
	assert_int_equal(sts_due(&c), T + 3590 + STS_RETRY_FIRST);
	sts_failed(&c, T + 3900);
	assert_int_equal(sts_due(&c), T + 3900 + 2 * STS_RETRY_FIRST);
	c = (struct sts_cached){ 0 };
	assert_int_equal(sts_due(&c), 0);
}

/* Who asks the DNS by other means comes to the same. */
static void test_lookup_records(void **state)
{
	static const struct str two[] = { { "v=STSv1; id=a", 13 }, { "v=STSv1; id=b", 13 } }, other[] = { { "v=spf1 -all", 11 }, { "v=STSv1; id=a", 13 } };
	struct sts_lookup l = { 0 };
	char name[DNS_NAME_MAX + 16];
	(void)state;
	sts_lookup_records(&l, two, 2);
	assert_true(l.state == STS_TXT_NONE && l.reason && !l.id[0]);
	sts_lookup_records(&l, other, 2);
	assert_true(l.state == STS_TXT_FOUND && !strcmp(l.id, "a") && !l.reason);
	sts_lookup_records(&l, NULL, 0);
	assert_true(l.state == STS_TXT_NONE && l.reason && !l.id[0]);
	assert_int_equal(sts_lookup_name(STR("Example.ORG."), name, sizeof name), 0);
	assert_string_equal(name, "_mta-sts.example.org");
	assert_int_equal(sts_lookup_name(STR("[192.0.2.1]"), name, sizeof name), -1);
	assert_int_equal(sts_lookup_name(STR("example.org"), name, 10), -1);
}

static void test_cache(void **state)
{
	struct sts_cached c = { 0 };
	struct sts_policy p = { .mode = STS_ENFORCE, .max_age = WEEK };
	(void)state;
	expect_plan(&c, STS_TXT_NONE, "", T, "");
	expect_plan(&c, STS_TXT_UNKNOWN, "", T, "");
	expect_plan(&c, STS_TXT_FOUND, "a", T, "fetch wait ");
	/* not again and again */
	sts_failed(&c, T);
	expect_plan(&c, STS_TXT_FOUND, "a", T + STS_RETRY_FIRST - 1, "");
	expect_plan(&c, STS_TXT_FOUND, "a", T + STS_RETRY_FIRST, "fetch wait ");
	sts_failed(&c, T + STS_RETRY_FIRST);
	expect_plan(&c, STS_TXT_FOUND, "a", T + 2 * STS_RETRY_FIRST, "");
	for (int i = 0; i < 2000; i++)
		sts_failed(&c, T);
	expect_plan(&c, STS_TXT_FOUND, "a", T + STS_RETRY_MOST - 1, "");
	expect_plan(&c, STS_TXT_FOUND, "a", T + STS_RETRY_MOST, "fetch wait ");
	expect_plan(&c, STS_TXT_FOUND, "a", T - 1, "fetch wait ");
	/* one that holds */
	sts_fetched(&c, "a", &p, T);
	assert_int_equal(c.failures, 0);
	assert_int_equal(sts_expires(&c), T + WEEK);
	expect_plan(&c, STS_TXT_FOUND, "a", T + 1, "use ");
	expect_plan(&c, STS_TXT_FOUND, "a", T + STS_REFRESH, "use fetch ");
	expect_plan(&c, STS_TXT_FOUND, "b", T + 1, "use fetch wait ");
	/* a record that is gone or blocked ends nothing */
	expect_plan(&c, STS_TXT_NONE, "", T + WEEK - 1, "use ");
	expect_plan(&c, STS_TXT_UNKNOWN, "", T + WEEK - 1, "use ");
	/* nor does a fetch that fails */
	sts_failed(&c, T + 1);
	expect_plan(&c, STS_TXT_FOUND, "b", T + 2, "use ");
	expect_plan(&c, STS_TXT_FOUND, "b", T + WEEK - 1, "use fetch wait ");
	/* but its time does */
	expect_plan(&c, STS_TXT_FOUND, "a", T + WEEK, "fetch wait ");
	expect_plan(&c, STS_TXT_NONE, "", T + WEEK, "forget ");
	expect_plan(&c, STS_TXT_UNKNOWN, "", T + WEEK, "");
	/* max_age 0: for the mail that fetched it, and no longer */
	p.max_age = 0;
	sts_fetched(&c, "a", &p, T);
	expect_plan(&c, STS_TXT_FOUND, "a", T, "fetch wait ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record), cmocka_unit_test(test_lookup), cmocka_unit_test(test_policy), cmocka_unit_test(test_policy_bounds),
		cmocka_unit_test(test_match), cmocka_unit_test(test_http), cmocka_unit_test(test_due), cmocka_unit_test(test_lookup_records), cmocka_unit_test(test_cache),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
