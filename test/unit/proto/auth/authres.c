/* Authentication-Results: reading, writing, forged ones, cost. */
#include "proto/auth/authres.h"

#include "proto/mail/header.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

static void show(const struct authres *a, struct buf *out)
{
	buf_addf(out, "%.*s/%u%s", STR_ARG(a->id), a->version, a->none ? " none" : "");
	for (size_t i = 0; i < a->n; i++) {
		const struct authres_result *r = &a->result[i];
		buf_addf(out, "; %.*s/%u=%.*s", STR_ARG(r->method), r->version, STR_ARG(r->result));
		if (r->reason.p)
			buf_addf(out, " <%.*s>", STR_ARG(r->reason));
		for (size_t k = 0; k < r->n_props; k++)
			buf_addf(out, " %.*s.%.*s=[%.*s]", STR_ARG(r->prop[k].ptype), STR_ARG(r->prop[k].name), STR_ARG(r->prop[k].value));
	}
	if (a->bad)
		buf_addz(out, " BAD");
}

static void test_parse(void **state)
{
	static const struct {
		const char *value, *want;
	} cases[] = {
		{ " a.example; none", "a.example/1 none" },
		{ "a.example 1; none (really)", "a.example/1 none" },
		{ "(c) \"a b\" (d) 2 (e) ; none", "a b/2 none" },
		{ "a;spf=pass smtp.mailfrom=x@y", "a/1; spf/1=pass smtp.mailfrom=[x@y]" },
		{ "a; SPF / 1 = pass reason = \"be;cause\" smtp . helo = b", "a/1; SPF/1=pass <be;cause> smtp.helo=[b]" },
		{ "a; dkim=pass (x;y (z)) header.i=@b header.b=\"a/b=\"", "a/1; dkim/1=pass header.i=[@b] header.b=[a/b=]" },
		{ "a; spf=pass smtp.mailfrom=\"a b\"@c", "a/1; spf/1=pass smtp.mailfrom=[\"a b\"@c]" },
		{ "a; iprev=pass policy.iprev=2001:db8::1", "a/1; iprev/1=pass policy.iprev=[2001:db8::1]" },
		{ "a; spf=pass; ; dkim=fail", "a/1; spf/1=pass; dkim/1=fail BAD" },
		{ "a; spf=pass x=y; dkim=fail", "a/1; spf/1=pass; dkim/1=fail BAD" },
		{ "a; none; spf=pass", "a/1; spf/1=pass BAD" },
		{ "a; spf=", "a/1 BAD" },
		{ "a", "a/1 BAD" },
		{ "", "/1 BAD" },
		{ "; spf=pass", "/1; spf/1=pass BAD" },
		{ "a (b; spf=pass", "a/1 BAD" },
		{ "a; spf=pass smtp.mailfrom=\"x", "a/1; spf/1=pass BAD" },
		{ "a b; spf=pass", "a/1; spf/1=pass BAD" },
		{ "m\xc3\xb8x; spf=pass", "m\xc3\xb8x/1; spf/1=pass" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct authres a;
		struct buf b = BUF_INIT(4096);
		assert_int_equal(authres_parse(&a, str_from(cases[i].value)), 0);
		show(&a, &b);
		assert_string_equal(buf_z(&b), cases[i].want);
		authres_free(&a);
		buf_free(&b);
	}
}

static void test_claims(void **state)
{
	static const struct {
		const char *value;
		bool claims;
	} cases[] = {
		{ "mx.example.org; spf=pass", true },
		{ " MX.Example.ORG;none", true },
		{ "mx.example.org.; none", true },
		{ "mx.example.org..; none", true },
		{ "\r\n\tmx.example.org\r\n\t(x)\r\n 1; none", true },
		{ "(a (b) \\) c) mx.example.org (d); none", true },
		{ "\"mx.example.org\"; none", true },
		{ "\"mx.exam\\ple.org\" 1; none", true },
		{ "mx.example.org 999; none", true },
		{ "mx.example.org/1; none", true },
		{ "mx.example.org x; none", true },
		{ "mx.example.org=; none", true },
		{ "= mx.example.org; none", true },
		{ "x@mx.example.org; none", true },
		{ "(mx.example.org; spf=pass", true },
		{ "\"mx.example.org; spf=pass", true },
		{ "=?us-ascii?q?mx.example.org?=; spf=pass", true },
		{ "mx.example.org", true },
		{ "mx.example.com; none", false },
		{ "x.mx.example.org; none", false },
		{ "example.org; none", false },
		{ "other.example; spf=pass smtp.helo=mx.example.org", false },
		{ "other.example (mx.example.org); none", false },
		{ "", false },
		{ "; spf=pass", false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (authres_claims(str_from(cases[i].value), STR("mx.example.org")) != cases[i].claims)
			print_error("case %zu\n", i);
		assert_int_equal(authres_claims(str_from(cases[i].value), STR("mx.example.org")), cases[i].claims);
	}
	assert_true(authres_claims(STR("m\xc3\xb8x.example; none"), STR("xn--mx-lka.example")));
	assert_true(authres_claims(STR("XN--MX-LKA.example; none"), STR("m\xc3\xb8x.example")));
}

static void test_strip(void **state)
{
	static const char block[] = "Received: x\r\nAuthentication-Results: mx.a; spf=pass\r\nauthentication-results :\r\n mx.a.; dkim=pass\r\n"
				    "Authentication-Results: other; spf=pass\r\nno field\r\nAUTHENTICATION-RESULTS: (x) \"mx.b\" 1; none\r\n"
				    "X-Authentication-Results: mx.a; none\r\n";
	static const struct str ids[] = { STR_INIT("mx.a"), STR_INIT("MX.B") };
	struct buf b = BUF_INIT(4096);
	size_t removed = 99;
	(void)state;
	assert_int_equal(authres_strip(&b, str_from(block), ids, 2, &removed), 0);
	assert_int_equal(removed, 3);
	assert_string_equal(buf_z(&b), "Received: x\r\nAuthentication-Results: other; spf=pass\r\nno field\r\nX-Authentication-Results: mx.a; none\r\n");
	buf_reset(&b);
	assert_int_equal(authres_strip(&b, str_from(block), NULL, 0, NULL), 0);
	assert_string_equal(buf_z(&b), block);
	buf_free(&b);
	b = BUF_INIT(10);
	assert_int_equal(authres_strip(&b, str_from(block), ids, 2, &removed), -1);
	buf_free(&b);
}

static void test_write(void **state)
{
	const struct authres_result r[] = {
		{ .method = STR("iprev"), .result = STR("pass"), .prop = { { STR("policy"), STR("iprev"), STR("2001:db8::1") } }, .n_props = 1 },
		{ .method = STR("spf"), .result = STR("fail"), .comment = STR("a) b\\"), .reason = STR("no \"way\""),
		    .prop = { { STR("smtp"), STR("mailfrom"), STR("a@b.example") }, { STR("smtp"), STR("helo"), STR("x\r\nX: y") } }, .n_props = 2 },
		{ .method = STR("dkim"), .version = 2, .result = STR("pass"), .prop = { { STR("header"), STR("i"), STR("@b") },
		    { STR("header"), STR("b"), STR("ab/=") }, { STR("header"), STR("d"), STR("\xc3\xb8.example") } }, .n_props = 3 },
	};
	struct buf b = BUF_INIT(4096);
	(void)state;
	assert_int_equal(authres_write(&b, STR("mx.a"), r, 3, false), 0);
	assert_string_equal(buf_z(&b), "Authentication-Results: mx.a;\r\n"
				       "\tiprev=pass policy.iprev=\"2001:db8::1\";\r\n"
				       "\tspf=fail (a\\) b\\\\) reason=\"no \\\"way\\\"\" smtp.mailfrom=a@b.example\r\n"
				       "\tsmtp.helo=\"x??X: y\";\r\n"
				       "\tdkim/2=pass header.i=@b header.b=\"ab/=\" header.d=\"??.example\"\r\n");
	assert_true(mail_headers_sendable(buf_str(&b)));
	buf_reset(&b);
	assert_int_equal(authres_write(&b, STR("mx.a"), NULL, 0, false), 0);
	assert_string_equal(buf_z(&b), "Authentication-Results: mx.a; none\r\n");
	buf_reset(&b);
	buf_addz(&b, "X: y\r\n");
	assert_int_equal(authres_write(&b, STR("mx a"), NULL, 0, false), -1);
	assert_int_equal(authres_write(&b, STR("m\xc3\xb8x"), NULL, 0, false), -1);
	const struct authres_result bad = { .method = STR("s\npf"), .result = STR("pass") };
	assert_int_equal(authres_write(&b, STR("mx.a"), &bad, 1, false), -1);
	assert_string_equal(buf_z(&b), "X: y\r\n");
	buf_free(&b);
}

static double cost(const char *unit, size_t n)
{
	struct buf b = BUF_INIT(1 << 22);
	struct timespec t0, t1;
	double best = 1e9;
	buf_addz(&b, "a; ");
	for (size_t i = 0; i < n / strlen(unit); i++)
		buf_addz(&b, unit);
	for (int k = 0; k < 5; k++) {
		struct authres a;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
		assert_int_equal(authres_parse(&a, buf_str(&b)), 0);
		assert_false(authres_claims(buf_str(&b), STR("mx.example.org")));
		authres_free(&a);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
		double s = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9;
		best = s < best ? s : best;
	}
	buf_free(&b);
	return best;
}

static void test_cost(void **state)
{
	static const char *const units[] = { "spf=pass;", ";", "(", "()", "\"", "\"\\", "a.b=c ", "spf=pass a.b=c ", "=", "a/", "none;", "\r\n " };
	(void)state;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		bool fine = false;
		for (int attempt = 0; attempt < 5 && !fine; attempt++) {
			double one = cost(units[i], 262144), two = cost(units[i], 524288);
			fine = two < 0.001 || two < 2.5 * one;
		}
		if (!fine)
			print_error("%s\n", units[i]);
		assert_true(fine);
	}
	struct buf b = BUF_INIT(1 << 16); /* bounds */
	struct authres a;
	buf_addz(&b, "a");
	for (int i = 0; i < AUTHRES_RESULTS_MAX + 1; i++)
		buf_addz(&b, "; spf=pass");
	assert_int_equal(authres_parse(&a, buf_str(&b)), 0);
	assert_int_equal(a.n, AUTHRES_RESULTS_MAX);
	assert_true(a.bad);
	authres_free(&a);
	buf_reset(&b);
	buf_addz(&b, "a; spf=pass");
	for (int i = 0; i < AUTHRES_PROPS_MAX + 1; i++)
		buf_addz(&b, " a.b=c");
	assert_int_equal(authres_parse(&a, buf_str(&b)), 0);
	assert_int_equal(a.result[0].n_props, AUTHRES_PROPS_MAX);
	assert_true(a.bad);
	authres_free(&a);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_claims),
		cmocka_unit_test(test_strip),
		cmocka_unit_test(test_write),
		cmocka_unit_test(test_cost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
