/* Feedback reports: what is said of each kind, values that are none, limits, and messages that are no reports. */
#include "proto/mail/split.h"
#include "proto/report/arf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define HEAD "From: fbl@provider.test\r\nSubject: complaint about message from 192.0.2.7\r\nContent-Type: multipart/report; boundary=b\r\n\r\n"
#define PART "--b\r\nContent-Type: message/feedback-report\r\n\r\n"
#define NEEDED "Feedback-Type: abuse\r\nUser-Agent: x/1\r\nVersion: 1\r\n"
#define ORIGINAL "\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nFrom: c@d.test\r\nMessage-ID: <1@d.test>\r\n\r\nsecret\r\n--b--\r\n"

static int read_z(const char *z, struct arena **ret_a, struct arf *ret, const char **why)
{
	struct mail_split s;
	*ret_a = arena_new(ARF_MEMORY_MAX);
	mail_split(str_from(z), &s);
	return arf_read(s.headers, s.body, *ret_a, ret, why);
}

static void same(struct str got, const char *want)
{
	if (!str_eq(got, str_from(want)))
		print_error("\"%.*s\" is not \"%s\"\n", STR_ARG(got), want);
	assert_true(str_eq(got, str_from(want)));
}

static void complaint(void **state)
{
	struct arena *a;
	struct arf r;
	const char *why = "";
	(void)state;
	assert_int_equal(read_z(HEAD PART NEEDED "Original-Mail-From: <s@d.test>\r\nOriginal-Rcpt-To: <u@e.test>\r\nOriginal-Rcpt-To: v@e.test\r\n"
				"Arrival-Date: Thu, 8 Mar 2005 14:00:00 EDT\r\nReporting-MTA: dns; mx.e.test\r\nSource-IP: [IPv6:2001:DB8::1] (host)\r\n"
				"Source-Port: 2525\r\nIncidents: 12\r\nReported-Domain: D.TEST; e.test\r\nReported-Domain: not a domain.\x01\r\n"
				"Reported-URI: mailto:u@e.test\r\nAuthentication-Results: mx;\r\n\tspf=fail\r\n" ORIGINAL, &a, &r, &why), 0);
	assert_int_equal(r.kind, ARF_ABUSE);
	assert_null(r.flaw);
	same(r.mail_from, "s@d.test");
	assert_int_equal(r.rcpt_to.n, 2);
	same(r.rcpt_to.item[1], "v@e.test");
	assert_true(r.has_arrival && r.arrival == 1110304800);
	same(r.reporting_mta, "mx.e.test");
	same(r.source_ip, "2001:db8::1");
	assert_int_equal(r.source_port, 2525);
	assert_int_equal(r.incidents, 12);
	same(r.domain.item[0], "d.test");
	same(r.domain.item[1], "e.test");
	same(r.uri.item[0], "mailto:u@e.test");
	same(r.auth_results.item[0], "mx; spf=fail");
	assert_true(r.original.there && r.original.whole);
	same(r.original.from, "d.test");
	same(r.original.message_id, "<1@d.test>");
	same(r.original.headers, "From: c@d.test\r\nMessage-ID: <1@d.test>\r\n");
	arena_free(a);
}

static void failure(void **state)
{
	static const struct {
		const char *said, *read;
	} alignments[] = { { "dkim, spf", "dkim,spf" }, { "SPF", "spf" }, { "none", "none" }, { "what", "" } };
	struct arena *a;
	struct arf r;
	const char *why = "";
	(void)state;
	for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
		char z[2000];
		snprintf(z, sizeof z, HEAD PART "Version: 1\r\nFeedback-Type: Auth-Failure\r\nUser-Agent: x\r\nAuth-Failure: DMARC\r\nDelivery-Result: Policy\r\n"
			 "Identity-Alignment: %s\r\nDKIM-Domain: d.test\r\nDKIM-Identity: @d.test\r\nDKIM-Selector: s\r\nOriginal-Mail-From: <>\r\n" ORIGINAL, alignments[i].said);
		assert_int_equal(read_z(z, &a, &r, &why), 0);
		assert_int_equal(r.kind, ARF_AUTH_FAILURE);
		same(r.auth_failure, "dmarc");
		same(r.delivery_result, "policy");
		same(r.alignment, alignments[i].read);
		same(r.dkim_domain, "d.test");
		same(r.dkim_identity, "@d.test");
		assert_true(r.has_mail_from && !r.mail_from.n);
		arena_free(a);
	}
}

/* A value that is none costs only itself. */
static void bad_values(void **state)
{
	struct arena *a;
	struct arf r;
	const char *why = "";
	(void)state;
	assert_int_equal(read_z(HEAD PART NEEDED "Feedback-Type: fraud\r\nVersion: 2\r\nArrival-Date: yesterday\r\nSource-IP: 192.0.2.300\r\nSource-Port: 70000\r\n"
				"Incidents: -4\r\nno field\r\nOriginal-Mail-From: <broken\r\nReported-Domain: ..\r\nUser-Agent: y \xff\x1b[2J\r\nDKIM-Selector: \xff\x1b[2J\r\n" ORIGINAL,
			     &a, &r, &why), 0);
	assert_int_equal(r.kind, ARF_ABUSE); /* the first */
	assert_non_null(r.flaw);
	same(r.version, "1");
	assert_false(r.has_arrival);
	assert_int_equal(r.source_ip.n + r.source_port + r.mail_from.n + r.domain.n, 0);
	assert_int_equal(r.incidents, 1);
	same(r.user_agent, "x/1");
	assert_true(r.dkim_selector.n && str_is_utf8(r.dkim_selector) && !memchr(r.dkim_selector.p, 0x1b, r.dkim_selector.n));
	arena_free(a);
	assert_int_equal(read_z(HEAD PART "Feedback-Type: vote\r\nUser-Agent: x\r\nVersion: 1\r\n\r\n--b--\r\n", &a, &r, &why), 0);
	assert_int_equal(r.kind, ARF_OTHER);
	same(r.type, "vote");
	assert_non_null(strstr(r.flaw, "no message"));
	assert_false(r.original.there);
	arena_free(a);
}

static void limits(void **state)
{
	struct buf z = BUF_INIT(8 << 20);
	struct arena *a;
	struct arf r;
	const char *why = "";
	(void)state;
	buf_addz(&z, HEAD PART NEEDED);
	for (int i = 0; i < 100; i++)
		buf_addf(&z, "Reported-URI: http://d.test/%d\r\n", i);
	buf_addz(&z, "DKIM-Selector-DNS: ");
	for (int i = 0; i < 20000; i++)
		buf_addz(&z, "\xe2\x82\xac");
	buf_addz(&z, "\r\n");
	for (int i = 0; i < 5000; i++)
		buf_addz(&z, "Incidents: 7\r\n");
	buf_addz(&z, "\r\n--b\r\nContent-Type: text/rfc822-headers\r\n\r\nFrom: a@b.test\r\n");
	for (int i = 0; i < 20000; i++)
		buf_addf(&z, "X-%d: y\r\n", i);
	buf_addz(&z, "\r\n--b--\r\n");
	assert_int_equal(read_z(buf_z(&z), &a, &r, &why), 0);
	assert_int_equal(r.uri.n, ARF_LIST_MAX);
	assert_int_equal(r.uri.cut, 100 - ARF_LIST_MAX);
	assert_true(r.dkim_selector_dns.n <= ARF_TEXT_MAX && r.dkim_selector_dns.n > ARF_TEXT_MAX - 4 && str_is_utf8(r.dkim_selector_dns));
	assert_true(r.original.there && !r.original.whole);
	assert_true(r.original.headers.n <= ARF_HEADERS_MAX && r.original.headers.n > ARF_HEADERS_MAX - 20);
	assert_true(str_iends(r.original.headers, STR("\r\n")));
	same(r.original.from, "b.test");
	arena_free(a);
	buf_free(&z);
}

static void others(void **state)
{
	static const char *const none[] = { "Subject: hello\r\n\r\nhello\r\n", HEAD "--b\r\n\r\ntext\r\n--b--\r\n", HEAD PART "User-Agent: x\r\n" ORIGINAL,
		/* not a part, but the message */ "Content-Type: message/feedback-report\r\n\r\n" NEEDED,
		/* somebody forwards one */ "Content-Type: multipart/mixed; boundary=outer\r\n\r\n--outer\r\nContent-Type: message/rfc822\r\n\r\n" HEAD PART NEEDED ORIGINAL
		"\r\n--outer--\r\n" };
	struct arena *a;
	struct arf r;
	const char *why;
	(void)state;
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		why = NULL;
		assert_int_equal(read_z(none[i], &a, &r, &why), -1);
		assert_non_null(why);
		arena_free(a);
	}
	/* Outlook.com's */
	assert_int_equal(read_z(HEAD "--b\r\nContent-Type: message/rfc822\r\n\r\nX-HmXmrOriginalRecipient: u@e.test\r\nFrom: a@b.test\r\n\r\nhi\r\n--b--\r\n", &a, &r, &why), 0);
	assert_true(r.loose && r.kind == ARF_ABUSE);
	same(r.source_ip, "192.0.2.7");
	same(r.rcpt_to.item[0], "u@e.test");
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(complaint), cmocka_unit_test(failure), cmocka_unit_test(bad_values), cmocka_unit_test(limits),
		cmocka_unit_test(others) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
