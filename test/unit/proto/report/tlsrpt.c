/* TLS reports: what is written is read back the same, whatever octets went in; what others write is read; what should not be is refused; the
 * record, and messages around reports. */
#include "proto/mail/header.h"
#include "proto/mail/split.h"
#include "proto/report/mail.h"
#include "proto/report/pack.h"
#include "proto/report/tlsrpt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct str strings[] = { STR_INIT("version: STSv1"), STR_INIT("mode: enforce"), STR_INIT("mx: *.example.org") };
static const struct str mx[] = { STR_INIT("*.example.org") };
static const struct tlsrpt_failure failures[] = {
	{ .result = TLSRPT_CERTIFICATE_EXPIRED, .sending_ip = STR_INIT("2001:db8::1"), .receiving_ip = STR_INIT("192.0.2.1"),
	    .mx_host = STR_INIT("mx1.example.org"), .mx_helo = STR_INIT("mx1"), .count = 100, .info = STR_INIT("a \"b\" \\ c\n"), .code = STR_INIT("X") },
	{ .result = TLSRPT_STARTTLS_NOT_SUPPORTED, .sending_ip = STR_INIT("2001:db8::1"), .count = 3 },
};
static const struct tlsrpt_policy policies[] = {
	{ .type = TLSRPT_STS, .string = strings, .n_strings = 3, .domain = STR_INIT("example.org"), .mx = mx, .n_mx = 1, .successes = 5326, .failures = 103,
	    .failure = failures, .n_failures = 2 },
	{ .type = TLSRPT_NO_POLICY, .domain = STR_INIT("example.org"), .successes = 7 },
};

static struct tlsrpt sample(void)
{
	return (struct tlsrpt){ .org = STR("Reporter & Sons"), .contact = STR("postmaster@here.test"), .id = STR("0123@here.test"), .begin = 1796000000,
		.end = 1796086399, .policy = policies, .n_policies = 2 };
}

static void same(struct str a, struct str b)
{
	if (!str_eq(a, b))
		fail_msg("\"%.*s\" is not \"%.*s\"", STR_ARG(a), STR_ARG(b));
}

static void same_policy(const struct tlsrpt_policy *a, const struct tlsrpt_policy *b)
{
	assert_int_equal(a->type, b->type);
	same(a->domain, b->domain);
	assert_int_equal(a->n_strings, b->n_strings);
	assert_int_equal(a->n_mx, b->n_mx);
	for (size_t i = 0; i < a->n_strings; i++)
		same(a->string[i], b->string[i]);
	assert_true(a->successes == b->successes && a->failures == b->failures && a->n_failures == b->n_failures);
	for (size_t i = 0; i < a->n_failures; i++) {
		const struct tlsrpt_failure *f = &a->failure[i], *g = &b->failure[i];
		assert_true(f->result == g->result && f->count == g->count);
		same(f->sending_ip, g->sending_ip);
		same(f->receiving_ip, g->receiving_ip);
		same(f->mx_host, g->mx_host);
		same(f->mx_helo, g->mx_helo);
		same(f->info, g->info);
		same(f->code, g->code);
	}
}

static void there_and_back(void **state)
{
	struct tlsrpt r = sample(), back;
	struct buf json = BUF_INIT(1 << 20), gz = BUF_INIT(1 << 20), again = BUF_INIT(1 << 20);
	struct arena *a = arena_new(TLSRPT_MEMORY_MAX);
	const char *why;
	(void)state;
	assert_int_equal(tlsrpt_write(&r, &json), 0);
	assert_int_equal(report_gzip(buf_str(&json), &gz), 0);
	assert_int_equal(tlsrpt_unpack(buf_str(&gz), &again, &why), 0);
	same(buf_str(&json), buf_str(&again));
	assert_int_equal(tlsrpt_read(buf_str(&again), a, &back, &why), 0);
	same(r.org, back.org);
	same(r.contact, back.contact);
	same(r.id, back.id);
	assert_true(back.begin == r.begin && back.end == r.end && back.n_policies == 2 && !back.policies_cut && !back.failures_cut);
	for (size_t i = 0; i < 2; i++)
		same_policy(&r.policy[i], &back.policy[i]);
	buf_free(&json);
	buf_free(&gz);
	buf_free(&again);
	arena_free(a);
}

static void unwritable(void **state)
{
	struct buf json = BUF_INIT(1 << 20);
	struct tlsrpt r = sample();
	struct tlsrpt_policy p = policies[0];
	struct tlsrpt_failure f = failures[0];
	(void)state;
	r.id = STR("");
	assert_int_equal(tlsrpt_write(&r, &json), -1);
	r = sample();
	r.n_policies = 0;
	assert_int_equal(tlsrpt_write(&r, &json), -1);
	r = sample();
	r.end = r.begin - 1;
	assert_int_equal(tlsrpt_write(&r, &json), -1);
	r = sample();
	r.policy = &p;
	r.n_policies = 1;
	p.type = TLSRPT_OTHER_TYPE;
	assert_int_equal(tlsrpt_write(&r, &json), -1);
	p = policies[0];
	p.failure = &f;
	p.n_failures = 1;
	f.result = TLSRPT_OTHER_RESULT;
	assert_int_equal(tlsrpt_write(&r, &json), -1);
	assert_int_equal(json.n, 0);
	buf_free(&json);
}

#define RANGE "\"date-range\":{\"start-datetime\":\"2016-04-01T00:00:00Z\",\"end-datetime\":\"2016-04-01T23:59:59Z\"}"
#define REST "\"organization-name\":\"x\",\"report-id\":\"1\","
static void others(void **state)
{
	static const struct {
		const char *json;
		bool ok;
	} cases[] = {
		{ "{" REST RANGE ",\"policies\":[{\"policy\":{}}]}", true }, { "\xef\xbb\xbf {" REST RANGE ",\"policies\":[{\"policy\":{}},7,null,{}]}\r\n ", true },
		{ "{" REST RANGE ",\"policies\":[]}", false }, { "{" REST RANGE ",\"policies\":[7]}", false }, { "{" REST RANGE ",\"policies\":{}}", false },
		{ "{" REST RANGE "}", false }, { "{" REST "\"policies\":[{\"policy\":{}}]}", false }, { "{" RANGE ",\"policies\":[{\"policy\":{}}]}", false },
		{ "{" REST RANGE ",\"policies\":[{\"policy\":{}}]} x", false }, { "{" REST RANGE ",\"policies\":[{\"policy\":{}}]", false }, { "", false },
		{ "[]", false }, { "7", false }, { "null", false }, { "{\"organization-name\":7," RANGE ",\"report-id\":\"1\",\"policies\":[{\"policy\":{}}]}", false },
		{ "{" REST "\"date-range\":{\"start-datetime\":\"2016-04-02T00:00:00Z\",\"end-datetime\":\"2016-04-01T23:59:59Z\"},\"policies\":[{\"policy\":{}}]}",
		    false },
	};
	const char *why;
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct arena *a = arena_new(TLSRPT_MEMORY_MAX);
		struct tlsrpt r;
		why = NULL;
		if ((tlsrpt_read(str_from(cases[i].json), a, &r, &why) == 0) != cases[i].ok)
			fail_msg("case %zu: %s", i, why ? why : "");
		assert_true(cases[i].ok || why);
		arena_free(a);
	}
	struct arena *a = arena_new(TLSRPT_MEMORY_MAX);
	struct tlsrpt r;
	assert_int_equal(tlsrpt_read(STR("{" REST RANGE ",\"policies\":[{\"policy\":{\"policy-type\":\"STS\",\"mx-host\":\"a\",\"policy-string\":[\"b\",7]},\"summary\":{"
					 "\"total-successful-session-count\":\"12\",\"total-failure-session-count\":-5},\"failure-details\":[7,{\"result-type\":\"new-one\","
					 "\"failed-session-count\":99999999999999999999}]}]}"), a, &r, &why), 0);
	assert_true(r.policy[0].type == TLSRPT_STS && r.policy[0].n_mx == 1 && r.policy[0].n_strings == 1 && r.policy[0].successes == 12 &&
	    r.policy[0].failures == 0 && r.policy[0].n_failures == 1 && r.policy[0].failure[0].count == TLSRPT_COUNT_MAX &&
	    r.policy[0].failure[0].result == TLSRPT_OTHER_RESULT);
	same(r.policy[0].failure[0].word, STR("new-one"));
	arena_free(a);
}

static void limits(void **state)
{
	struct buf b = BUF_INIT(TLSRPT_JSON_MAX + 100);
	struct arena *a = arena_new(TLSRPT_MEMORY_MAX);
	struct tlsrpt r;
	const char *why = NULL;
	(void)state;
	/* deep */
	for (int i = 0; i < 100000; i++)
		buf_addc(&b, '[');
	assert_int_equal(tlsrpt_read(buf_str(&b), a, &r, &why), -1);
	/* many */
	buf_reset(&b);
	buf_addz(&b, "{" REST RANGE ",\"policies\":[");
	for (size_t i = 0; i < TLSRPT_POLICIES_MAX + 3; i++)
		buf_addf(&b, "%s{\"policy\":{\"policy-domain\":\"d%zu\"},\"failure-details\":[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]}", i ? "," : "", i);
	buf_addz(&b, "]}");
	assert_int_equal(tlsrpt_read(buf_str(&b), a, &r, &why), 0);
	assert_int_equal(r.n_policies, TLSRPT_POLICIES_MAX);
	assert_int_equal(r.policies_cut, 3);
	assert_int_equal(r.failures_cut, TLSRPT_POLICIES_MAX * 26 - TLSRPT_FAILURES_MAX);
	/* long: cut between characters */
	buf_reset(&b);
	buf_addz(&b, "{\"organization-name\":\"x");
	for (int i = 0; i < 2000; i++)
		buf_addz(&b, "\xc3\xa4");
	buf_addz(&b, "\",\"report-id\":\"1\"," RANGE ",\"policies\":[{\"policy\":{}}]}");
	assert_int_equal(tlsrpt_read(buf_str(&b), a, &r, &why), 0);
	assert_true(str_is_utf8(r.org) && r.org.n == TLSRPT_TEXT_MAX - 1);
	/* large */
	buf_reset(&b);
	while (b.n <= TLSRPT_JSON_MAX)
		buf_addz(&b, "          ");
	assert_int_equal(tlsrpt_read(buf_str(&b), a, &r, &why), -1);
	buf_free(&b);
	arena_free(a);
	/* an arena that is too small */
	a = arena_new(16);
	assert_int_equal(tlsrpt_read(STR("{" REST RANGE ",\"policies\":[{\"policy\":{}}]}"), a, &r, &why), -1);
	arena_free(a);
}

static void times(void **state)
{
	static const struct {
		const char *s;
		int64_t t; /* -1: not valid */
	} cases[] = { { "2016-04-01T00:00:00Z", 1459468800 }, { "1970-01-01t00:00:00z", 0 }, { "2016-04-01T02:00:00+02:00", 1459468800 },
		{ "2016-03-31T23:30:00.125-00:30", 1459468800 }, { "2016-04-01 00:00:00", 1459468800 }, { "2024-02-29T00:00:00Z", 1709164800 },
		{ "2016-04-01", -1 }, { "2016-13-01T00:00:00Z", -1 }, { "2016-00-01T00:00:00Z", -1 }, { "2016-04-31T00:00:00Z", -1 },
		{ "2016-04-01T24:00:00Z", -1 }, { "2016-04-01T00:00:00+1", -1 }, { "x", -1 }, { "", -1 }, { "20160401T000000Z", -1 } };
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int64_t t = -1;
		int rc = tlsrpt_time_parse(str_from(cases[i].s), &t);
		if ((rc == 0) != (cases[i].t >= 0) || t != cases[i].t)
			fail_msg("%s: %lld", cases[i].s, (long long)t);
	}
}

static void mails(void **state)
{
	struct tlsrpt r = sample();
	struct buf json = BUF_INIT(1 << 20), gz = BUF_INIT(1 << 20), h = BUF_INIT(1 << 20), b = BUF_INIT(1 << 20), back = BUF_INIT(1 << 20);
	struct tlsrpt_mail m;
	struct mail_field f;
	const char *why;
	(void)state;
	assert_int_equal(tlsrpt_write(&r, &json) | report_gzip(buf_str(&json), &gz), 0);
	struct report_mail out = { .submitter = STR("here.test"), .domain = STR("example.org"), .id = STR("0123"), .begin = r.begin, .end = r.end,
		.now_us = 1796086400000000, .from = STR("tlsrpt@here.test"), .to = STR("reports@example.org"), .packed = buf_str(&gz),
		.text = STR("A report.\r\n"), .tls = true };
	assert_int_equal(report_mail_write(&out, &h, &b), 0);
	assert_true(mail_headers_sendable(buf_str(&h)));
	assert_int_equal(mail_field_find(buf_str(&h), STR("Content-Type"), 0, &f), 0);
	assert_true(str_istarts(str_trim(f.value), STR("multipart/report; report-type=\"tlsrpt\";")));
	assert_int_equal(mail_field_find(buf_str(&h), STR("TLS-Required"), 0, &f), 0);
	assert_int_equal(mail_field_find(buf_str(&h), STR("Subject"), 0, &f), 0);
	assert_true(str_iends(f.value, STR("Report-ID: <0123@here.test>")));
	assert_non_null(strstr(buf_z(&b), "Content-Type: application/tlsrpt+gzip\r\n"));
	assert_non_null(strstr(buf_z(&b), "filename=\"here.test!example.org!1796000000!1796086399!0123.json.gz\""));
	tlsrpt_mail_read(buf_str(&h), buf_str(&b), 1 << 20, &m);
	assert_true(m.found);
	assert_string_equal(m.from, "here.test");
	assert_string_equal(m.domain, "example.org");
	assert_string_equal(m.submitter, "here.test");
	assert_int_equal(tlsrpt_unpack(buf_str(&m.data), &back, &why), 0);
	same(buf_str(&back), buf_str(&json));
	tlsrpt_mail_done(&m);
	/* too large, nothing there */
	tlsrpt_mail_read(buf_str(&h), buf_str(&b), 20, &m);
	assert_false(m.found);
	tlsrpt_mail_done(&m);
	tlsrpt_mail_read(STR("From: a@b.example\r\nTLS-Report-Domain: ??\r\n"), STR("hello\r\n"), 1 << 20, &m);
	assert_true(!m.found && m.why);
	tlsrpt_mail_done(&m);
	/* bare JSON */
	tlsrpt_mail_read(STR("Content-Type: application/tlsrpt+json\r\n"), buf_str(&json), 1 << 20, &m);
	assert_true(m.found);
	tlsrpt_mail_done(&m);
	buf_free(&json);
	buf_free(&gz);
	buf_free(&h);
	buf_free(&b);
	buf_free(&back);
}

/* -- the record */

static void records(void **state)
{
	static const struct {
		const char *txt;
		int n; /* -1: not valid */
	} cases[] = { { "v=TLSRPTv1;rua=mailto:a@b.example", 1 }, { "v=TLSRPTv1; rua=mailto:a@b.example , https://c.example/x?y=z ;", 2 },
		{ "v=TLSRPTv1; rua=mailto:a@b.example; x=y", 1 }, { "v=TLSRPTv1; rua=mailto:a@b.example; rua=mailto:c@d.example", -1 },
		{ "v=TLSRPTv1; rua=mailto:a@b.example,", -1 }, { "v=TLSRPTv1; rua=,mailto:a@b.example", -1 }, { "v=TLSRPTv1; rua=mailto:", -1 },
		{ "v=TLSRPTv1; rua=1a:b", -1 }, { "v=TLSRPTv1; rua=a:b%2", -1 }, { "v=TLSRPTv1; rua=a:b%zz", -1 }, { "v=TLSRPTv1; rua=a:<b>", -1 },
		{ "v=TLSRPTv1; rua=gopher://x", 1 }, { "v=TLSRPTv1; x=y", -1 }, { "v=tlsrptv1; rua=mailto:a@b.example", -1 },
		{ "v=TLSRPTv1; rua=a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9", 8 } };
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tlsrpt_record r;
		const char *why = NULL;
		int rc = tlsrpt_record_parse(str_from(cases[i].txt), &r, &why);
		if ((rc == 0) != (cases[i].n >= 0) || (rc == 0 && (int)r.n != cases[i].n))
			fail_msg("%s: %d", cases[i].txt, rc);
		assert_true(rc == 0 || why);
	}
}

static void lookup(const char *domain, const char *txt, enum dns_status status, size_t copies, const char *want)
{
	struct tlsrpt_lookup l = { .domain = str_from(domain) };
	struct dns_answers *set = dns_answers_new();
	struct dns_rr rr[2] = { { .data = str_from(txt) }, { .data = str_from(txt) } };
	struct str name;
	enum dns_type type;
	char got[2000] = "";
	while (tlsrpt_evaluate(&l, set) == DNS_MORE)
		while (dns_answers_missing(set, 0, &name, &type)) {
			same(name, STR("_smtp._tls.x.example"));
			dns_answers_put(set, status == DNS_TEMPFAIL ? dns_answer_fail(name, type, "x") : dns_answer_new(name, type, status, rr, copies, 1, false));
		}
	for (size_t i = 0; i < l.n; i++)
		snprintf(got + strlen(got), sizeof got - strlen(got), "%s ", l.target[i].scheme == TLSRPT_MAILTO ? l.target[i].address : l.target[i].uri);
	assert_int_equal(l.state, l.n ? TLSRPT_TXT_FOUND : status == DNS_TEMPFAIL ? TLSRPT_TXT_UNKNOWN : TLSRPT_TXT_NONE);
	assert_true((l.reason == NULL) == (l.n > 0));
	assert_string_equal(got, want);
	dns_answers_free(set);
}

static void lookups(void **state)
{
	(void)state;
	lookup("X.example", "v=TLSRPTv1;rua=mailto:a@b.example,https://c.example/x,MAILTO:A@b.example,gopher://x,https://u@c.example/,mailto:nobody", DNS_OK, 1,
	    "a@b.example https://c.example/x ");
	lookup("x.example", "v=TLSRPTv1;rua=mailto:a%21b@b.example?subject=x", DNS_OK, 1, "a!b@b.example ");
	lookup("x.example", "v=TLSRPTv1;rua=mailto:a@b.example", DNS_OK, 2, "");
	lookup("x.example", "v=spf1 -all", DNS_OK, 1, "");
	lookup("x.example", "", DNS_NXDOMAIN, 0, "");
	lookup("x.example", "", DNS_TEMPFAIL, 0, "");
	lookup("[192.0.2.1]", "", DNS_NXDOMAIN, 0, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back), cmocka_unit_test(unwritable), cmocka_unit_test(others), cmocka_unit_test(limits),
		cmocka_unit_test(times), cmocka_unit_test(mails), cmocka_unit_test(records), cmocka_unit_test(lookups),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
