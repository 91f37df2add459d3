/* DMARC: records, authors, and evaluations over small zones: the examples of RFC 9989 appendix B.4, and what an attacker would try. */
#include "proto/auth/dmarc_authres.h"
#include "proto/auth/dmarc_psl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct zone_line {
	const char *name, *txt; /* txt NULL: the name has an address; "!": no answer */
};

static struct dns_answer *answer(const struct zone_line *zone, struct str name, enum dns_type type)
{
	struct dns_rr rr[4] = { 0 };
	size_t n = 0;
	bool exists = false;
	for (; zone->name; zone++) {
		if (!str_eq(name, str_from(zone->name)))
			continue;
		exists = true;
		if (zone->txt && !strcmp(zone->txt, "!"))
			return dns_answer_fail(name, type, "no answer in time");
		if (zone->txt && type == DNS_TXT)
			rr[n++].data = str_from(zone->txt);
		if (!zone->txt && type == DNS_A)
			rr[n++].data = STR("\xc0\x00\x02\x01");
	}
	return dns_answer_new(name, type, n ? DNS_OK : exists ? DNS_NODATA : DNS_NXDOMAIN, rr, n, 60, false);
}

static void run(dns_evaluate_fn fn, void *arg, const struct zone_line *zone, size_t *ret_questions)
{
	struct dns_answers *set = dns_answers_new();
	struct str name;
	enum dns_type type;
	while (fn(arg, set) == DNS_MORE) {
		assert_true(dns_answers_n_missing(set) > 0);
		while (dns_answers_missing(set, 0, &name, &type))
			assert_int_equal(dns_answers_put(set, answer(zone, name, type)), 0);
	}
	*ret_questions = dns_answers_n(set);
	dns_answers_free(set);
}

/* "result policy disposition org", and "spf"/"dkim" where aligned */
static void expect(const char *from, const char *spf, const char *dkim, const struct zone_line *zone, const char *want)
{
	char headers[512], got[1024];
	struct dmarc_author author;
	struct dmarc_id id[2] = { { .domain = str_from(spf), .spf = true, .pass = spf != NULL },
		{ .domain = str_from(dkim), .pass = dkim != NULL } };
	struct dmarc_check c = { .author = &author, .id = id, .n_ids = 2 };
	size_t questions;
	snprintf(headers, sizeof headers, "Subject: x\r\nFrom: %s\r\n", from);
	dmarc_author(str_from(headers), &author);
	run(dmarc_evaluate, &c, zone, &questions);
	assert_true(questions <= DMARC_WALK_MAX * 3 + 1);
	assert_non_null(c.reason);
	snprintf(got, sizeof got, "%s %s %s %s%s%s%s", dmarc_result_name(c.result), dmarc_policy_name(c.policy),
	    dmarc_policy_name(c.disposition), c.walk.org, c.spf_aligned ? " spf" : "", c.dkim_aligned ? " dkim" : "",
	    c.testing ? " testing" : "");
	if (strcmp(got, want) != 0)
		print_error("%s: %s\n", from, c.reason);
	assert_string_equal(got, want);
}

static const struct zone_line simple[] = {
	{ "_dmarc.example.com", "v=DMARC1; p=reject" },
	{ "_dmarc.signing.example.com", "v=DMARC1; p=none" },
	{ "mail.example.com", NULL },
	{ 0 },
};
static const struct zone_line bank[] = {
	{ "_dmarc.bank.example", "v=DMARC1; p=reject; psd=y; np=quarantine" },
	{ "_dmarc.giant.bank.example", "v=DMARC1; p=quarantine; sp=none; np=reject" },
	{ "there.giant.bank.example", NULL },
	{ "mega.bank.example", NULL },
	{ 0 },
};
static const struct zone_line odd[] = {
	{ "_dmarc.t.example", "v=DMARC1; p=reject; t=y" },
	{ "_dmarc.two.example", "v=DMARC1; p=reject" },
	{ "_dmarc.two.example", "v=DMARC1; p=none" },
	{ "_dmarc.strict.example", "v=DMARC1; p=reject; adkim=s; aspf=s" },
	{ "_dmarc.dead.example", "!" },
	{ "_dmarc.nop.example", "v=DMARC1; sp=reject" },
	{ "_dmarc.rua.example", "v=DMARC1; p=what; rua=mailto:a@b" },
	{ "_dmarc.np.example", "v=DMARC1; p=reject; np=none" },
	{ "gone.np.example", "!" },
	{ "_dmarc.q.example", "v=DMARC1; p=quarantine" },
	{ "_dmarc.r.example", "v=DMARC1; p=reject" },
	{ "_dmarc.sub.r.example", "!" },
	{ "_dmarc.b.n.example", "v=DMARC1; p=reject; psd=n" },
	{ "_dmarc.n.example", "v=DMARC1; p=none" },
	{ 0 },
};

static void test_evaluate(void **state)
{
	(void)state;
	/* B.4.1, B.4.2 */
	expect("a@example.com", "example.com", "signing.example.com", simple, "pass reject none example.com spf dkim");
	expect("a@a.b.c.d.e.f.g.h.i.j.k.example.com", "example.com", "signing.example.com", simple, "pass reject none example.com spf dkim");
	/* B.4.3 */
	expect("a@giant.bank.example", "mail.giant.bank.example", "mail.mega.bank.example", bank, "pass quarantine none giant.bank.example spf");
	expect("a@giant.bank.example", NULL, "mail.mega.bank.example", bank, "fail quarantine quarantine giant.bank.example");
	expect("a@there.giant.bank.example", NULL, NULL, bank, "fail none none giant.bank.example");
	expect("a@not.giant.bank.example", NULL, NULL, bank, "fail reject reject giant.bank.example");
	expect("a@mega.bank.example", NULL, "bank.example", bank, "fail reject reject mega.bank.example");
	expect("a@nobody.bank.example", NULL, NULL, bank, "fail quarantine quarantine nobody.bank.example");
	expect("a@bank.example", "bank.example", NULL, bank, "pass reject none bank.example spf");
	expect("a@mail.example.com", NULL, "example.com", simple, "pass reject none example.com dkim");
	expect("a@EXAMPLE.com.", NULL, NULL, simple, "permerror none reject "); /* a dot at the end is no address */
	expect("a@example.net", "example.net", NULL, simple, "none none none example.net");
	expect("a@t.example", NULL, NULL, odd, "fail reject none t.example testing");
	expect("a@two.example", NULL, NULL, odd, "none none none two.example");
	expect("a@strict.example", "x.strict.example", "x.strict.example", odd, "fail reject reject strict.example");
	expect("a@strict.example", "strict.example", "STRICT.example", odd, "pass reject none strict.example spf dkim");
	expect("a@dead.example", NULL, NULL, odd, "temperror none none ");
	expect("a@nop.example", NULL, NULL, odd, "none none none nop.example");
	expect("a@rua.example", NULL, NULL, odd, "fail none none rua.example");
	expect("a@gone.np.example", NULL, NULL, odd, "temperror reject none np.example");
	expect("a@gone.np.example", NULL, "np.example", odd, "pass reject none np.example dkim");
	expect("a@a.b.n.example", NULL, "n.example", odd, "fail reject reject b.n.example");
	/* who signs with a domain that does not answer fails; the owner's own names may be temporarily unknown */
	expect("a@r.example", NULL, "dead.example", odd, "fail reject reject r.example");
	expect("a@r.example", NULL, "sub.r.example", odd, "temperror reject none r.example");
	/* an A-label and a U-label are one domain */
	expect("a@m\xc3\xb6x.example", NULL, "xn--mx-fka.example",
	    (const struct zone_line[]){ { "_dmarc.xn--mx-fka.example", "v=DMARC1; p=reject" }, { 0 } },
	    "pass reject none xn--mx-fka.example dkim");
}

static void test_unsure(void **state)
{
	(void)state;
	expect("a@q.example, b@q.example", "q.example", NULL, odd, "pass quarantine none q.example spf");
	expect("a@q.example, b@r.example", "q.example", "r.example", odd, "fail reject reject q.example");
	expect("a@x.example, b@q.example", NULL, NULL, odd, "fail quarantine quarantine x.example");
	expect("a@q.example\r\nfrom: b@q.example", "q.example", NULL, odd, "fail quarantine quarantine q.example");
	expect("a@x.example\r\nX: y\r\nFROM: b@r.example", "x.example", NULL, odd, "fail reject reject x.example");
	expect("<a@q.example> <b@q.example>", "q.example", NULL, odd, "fail quarantine quarantine q.example");
	expect("a@r.example@q.example", "q.example", NULL, odd, "permerror none reject ");
	expect("a@r.example@q.example, b@x.example", "x.example", NULL, odd, "fail none quarantine x.example");
	expect("a@1.e, a@2.e, a@3.e, a@4.e, a@5.e", NULL, NULL, odd, "fail none reject ");
	expect("a@1.e, a@2.e, a@3.e, a@4.e", NULL, NULL, odd, "fail none none 1.e");
	expect("a@a.b.c.d.e.f.g.h.i.1.e, a@a.b.c.d.e.f.g.h.i.2.e", NULL, NULL, odd, "fail none none a.b.c.d.e.f.g.h.i.1.e");
	expect("a@a.b.c.d.e.f.g.h.i.1.e, a@a.b.c.d.e.f.g.h.i.2.e, a@3.e", NULL, NULL, odd, "fail none reject ");
	expect("a@1.e\r\nFrom: a@2.e\r\nFrom: a@3.e", NULL, NULL, odd, "fail none reject ");
	expect("a@1.e\r\nFrom: a@1.e\r\nFrom: a@1.e", NULL, NULL, odd, "fail none reject ");
	expect("a@r.example@q.example\r\nFrom: a@2.e\r\nFrom: a@r.example", NULL, NULL, odd, "fail none reject ");
	expect("a@[192.0.2.1]", NULL, NULL, odd, "none none none ");
	expect("undisclosed:;", NULL, NULL, odd, "none none none ");
	expect("\"r@r.example\" <a@q.example> (b@r.example)", "q.example", NULL, odd, "pass quarantine none q.example spf");
}

static int last_two(void *arg, const char *domain, char ret[DNS_NAME_MAX + 1])
{
	const char *dot = strrchr(domain, '.');
	(void)arg;
	while (dot && dot > domain && dot[-1] != '.')
		dot--;
	snprintf(ret, DNS_NAME_MAX + 1, "%s", dot ? dot : domain);
	return 0;
}

static void test_fallback(void **state)
{
	static const struct zone_line zone[] = { { "_dmarc.a.old.example", "v=DMARC1; p=reject" }, { 0 } };
	struct dmarc_author author;
	struct dmarc_id id = { .domain = STR("b.old.example"), .pass = true };
	struct dmarc_check c = { .author = &author, .id = &id, .n_ids = 1 };
	size_t questions;
	(void)state;
	dmarc_author(STR("From: x@a.old.example\r\n"), &author);
	run(dmarc_evaluate, &c, zone, &questions);
	assert_int_equal(c.result, DMARC_RESULT_FAIL);
	assert_int_equal(questions, 3); /* nothing is asked of a domain that cannot align */
	c.fallback = last_two;
	run(dmarc_evaluate, &c, zone, &questions);
	assert_int_equal(c.result, DMARC_RESULT_PASS);
}

static void test_walk(void **state)
{
	static const char *const want[] = { "a.b.c.d.e.f.g.example.com", "d.e.f.g.example.com" };
	struct dmarc_author author;
	struct dmarc_check c = { .author = &author };
	size_t questions;
	(void)state;
	dmarc_author(STR("From: x@a.b.c.d.e.f.g.example.com\r\n"), &author);
	run(dmarc_evaluate, &c, simple, &questions);
	assert_int_equal(c.walk.n_queries, 8);
	assert_string_equal(c.walk.queries[0], want[0]);
	assert_string_equal(c.walk.queries[1], "c.d.e.f.g.example.com");
	assert_string_equal(c.walk.queries[2], want[1]);
	assert_string_equal(c.walk.queries[7], "com");
	dmarc_author(STR("From: x@b.c.d.e.f.example.com\r\n"), &author);
	run(dmarc_evaluate, &c, simple, &questions);
	assert_int_equal(c.walk.n_queries, 7);
}

static void test_record(void **state)
{
	static const struct {
		const char *text;
		int parsed;
		bool usable;
		const char *want; /* p sp np psd t adkim aspf fo n_rua n_ruf */
		unsigned faults;
	} records[] = {
		{ "v=DMARC1; p=reject", 0, true, "reject reject reject u 0 0 0 1 0 0", 0 },
		{ "v=DMARC1;p=none;sp=quarantine", 0, true, "none quarantine quarantine u 0 0 0 1 0 0", 0 },
		{ "v=DMARC1; p=none; np=reject; psd=N; t=Y; adkim=S; aspf=s; fo=1:d:s", 0, true, "none none reject n 1 1 1 14 0 0", 0 },
		{ " v=DMARC1; p=reject", -1, false, NULL, 0 },
		{ "v=DMARC1x; p=reject", -1, false, NULL, 0 },
		{ "v=dmarc1; p=reject", -1, false, NULL, 0 },
		{ "p=reject; v=DMARC1", -1, false, NULL, 0 },
		{ "", -1, false, NULL, 0 },
		{ "v=DMARC1", 0, false, "none none none u 0 0 0 1 0 0", 0 },
		{ "v=DMARC1;;p=reject;", 0, true, "reject reject reject u 0 0 0 1 0 0", DMARC_FAULT_SYNTAX },
		{ "v=DMARC1; p=reject; junk", 0, true, "reject reject reject u 0 0 0 1 0 0", DMARC_FAULT_SYNTAX },
		{ "v=DMARC1; p=reject; psd=x; t=z; fo=9", 0, true, "reject reject reject u 0 0 0 1 0 0",
		    DMARC_FAULT(DMARC_TAG_PSD) | DMARC_FAULT(DMARC_TAG_T) | DMARC_FAULT(DMARC_TAG_FO) },
		{ "v=DMARC1; p=reject; adkim=s; adkim=s", 0, true, "reject reject reject u 0 0 0 1 0 0", DMARC_FAULT(DMARC_TAG_ADKIM) },
		{ "v=DMARC1; p=reject; sp=bad; rua=mailto:a@b", 0, true, "none none none u 0 0 0 1 1 0", DMARC_FAULT(DMARC_TAG_SP) },
		{ "v=DMARC1; p=none; rua=mailto:a@b!10m, https://x/y ,bad; ruf=mailto:c@d", 0, true, "none none none u 0 0 0 1 2 1",
		    DMARC_FAULT(DMARC_TAG_RUA) },
		{ "v=DMARC1; p=none\x01", 0, false, "none none none u 0 0 0 1 0 0", DMARC_FAULT(DMARC_TAG_P) },
	};
	(void)state;
	for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
		struct dmarc_record r;
		char got[128];
		assert_int_equal(dmarc_record_parse(str_from(records[i].text), &r), records[i].parsed);
		if (records[i].parsed)
			continue;
		snprintf(got, sizeof got, "%s %s %s %c %d %d %d %u %zu %zu", dmarc_policy_name(r.p), dmarc_policy_name(r.sp),
		    dmarc_policy_name(r.np), r.psd, r.t, r.adkim_strict, r.aspf_strict, r.fo, r.n_rua, r.n_ruf);
		assert_string_equal(got, records[i].want);
		assert_int_equal(r.usable, records[i].usable);
		assert_int_equal(r.faults, records[i].faults);
	}
	struct dmarc_record r;
	assert_int_equal(dmarc_record_parse(STR("v=DMARC1;p=none;rua=mailto:a@b!3k,mailto:c@d"), &r), 0);
	assert_int_equal(r.rua[0].max, 3072);
	assert_true(str_eq(r.rua[0].uri, STR("mailto:a@b")) && str_eq(r.rua[1].uri, STR("mailto:c@d")));
}

static void test_authres(void **state)
{
	static const struct {
		const char *headers, *want;
	} cases[] = {
		{ "From: a@q.example\r\n", "dmarc=fail (p=quarantine dis=quarantine) header.from=q.example\r\n" },
		{ "From: a@t.example\r\n", "dmarc=fail (p=reject dis=none t=y) header.from=t.example\r\n" },
		{ "From: a@none.example\r\n", "dmarc=none header.from=none.example\r\n" },
		{ "From: a@gone.np.example\r\n", "dmarc=temperror (p=reject dis=none) header.from=gone.np.example\r\n" },
		{ "Subject: x\r\n", "dmarc=none\r\n" },
		{ "From: a@q.example, b@r.example\r\n", "dmarc=fail (the From field has addresses of several domains dis=reject)\r\n"
							"\theader.from=q.example header.from=r.example\r\n" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct dmarc_author author;
		struct dmarc_check c = { .author = &author };
		struct dmarc_authres a;
		struct buf b = BUF_INIT(4096), want = BUF_INIT(4096);
		size_t questions;
		dmarc_author(str_from(cases[i].headers), &author);
		run(dmarc_evaluate, &c, odd, &questions);
		dmarc_authres(&c, &a);
		assert_int_equal(authres_write(&b, STR("mx"), &a.result, 1, false), 0);
		buf_addf(&want, "Authentication-Results: mx;\r\n\t%s", cases[i].want);
		assert_string_equal(buf_z(&b), buf_z(&want));
		buf_free(&b);
		buf_free(&want);
	}
}

static void test_psl(void **state)
{
	static const char text[] = "// a list\ncom\nco.uk\nuk\n*.ck\n!www.ck\n";
	static const char *const names[][2] = { { "a.b.example.com", "example.com" }, { "EXAMPLE.com", "example.com" }, { "x.y.co.uk", "y.co.uk" },
		{ "co.uk", NULL }, { "com", NULL }, { "www.ck", "www.ck" }, { "b.test.ck", "b.test.ck" }, { "", NULL }, { ".x.com", NULL } };
	(void)state;
	if (!dmarc_psl_available())
		skip();
	struct dmarc_psl *p = dmarc_psl_new(str_from(text));
	char org[DNS_NAME_MAX + 1];
	assert_non_null(p);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		assert_int_equal(dmarc_psl_org(p, names[i][0], org), names[i][1] ? 0 : -1);
		if (names[i][1])
			assert_string_equal(org, names[i][1]);
	}
	dmarc_psl_free(p);
	assert_null(dmarc_psl_new(STR("\n")));
	dmarc_psl_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_evaluate),
		cmocka_unit_test(test_unsure),
		cmocka_unit_test(test_fallback),
		cmocka_unit_test(test_walk),
		cmocka_unit_test(test_record),
		cmocka_unit_test(test_authres),
		cmocka_unit_test(test_psl),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
