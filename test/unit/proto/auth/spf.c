/* SPF: syntax, macros, every limit at its last allowed value and one beyond, and records that mean harm. */
#include "proto/auth/spf_authres.h"

#include "proto/mail/header.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

/* "name TYPE value" lines; "name ! " is one whose look-ups fail, "name -" one that has no records. */
typedef const char *const *zone_lines;

static struct dns_answer *answer(zone_lines zone, struct str name, enum dns_type type)
{
	struct dns_rr rr[32] = { 0 };
	char octets[32][16];
	size_t n = 0;
	bool exists = false;
	for (; *zone && n < 32; zone++) {
		struct str rest = str_from(*zone), owner, kind;
		enum dns_type is;
		if (!str_word(&rest, " ", &owner) || !str_ieq(owner, name) || !str_word(&rest, " ", &kind))
			continue;
		exists = true;
		if (str_eq(kind, STR("!")))
			return dns_answer_fail(name, type, "no answer in time");
		if (dns_type_parse(kind, &is) || is != type)
			continue;
		rr[n].data = rest.n && rest.p[0] == ' ' ? str_skip(rest, 1) : rest;
		rr[n].preference = (uint16_t)n;
		if (type == DNS_A || type == DNS_AAAA) {
			assert_int_equal(inet_pton(type == DNS_A ? AF_INET : AF_INET6, rr[n].data.p, octets[n]), 1);
			rr[n].data = str_n(octets[n], type == DNS_A ? 4 : 16);
		}
		n++;
	}
	return dns_answer_new(name, type, n ? DNS_OK : exists ? DNS_NODATA : DNS_NXDOMAIN, rr, n, 60, false);
}

typedef struct dns_answer *answer_fn(zone_lines zone, struct str name, enum dns_type type);

/* Runs it to its end; returns how many questions it asked. */
static size_t run(struct spf_check *c, answer_fn *fn, zone_lines zone)
{
	struct dns_answers *set = dns_answers_new();
	struct str name;
	enum dns_type type;
	while (spf_evaluate(c, set) == DNS_MORE) {
		assert_true(dns_answers_n_missing(set) > 0);
		while (dns_answers_missing(set, 0, &name, &type))
			assert_int_equal(dns_answers_put(set, fn(zone, name, type)), 0);
	}
	size_t n = dns_answers_n(set);
	dns_answers_free(set);
	assert_non_null(c->reason);
	return n;
}

static size_t address(const char *text, unsigned char ip[16])
{
	bool six = strchr(text, ':') != NULL;
	assert_int_equal(inet_pton(six ? AF_INET6 : AF_INET, text, ip), 1);
	return six ? 16 : 4;
}

static void expect(const char *ip_text, const char *sender, zone_lines zone, const char *want)
{
	unsigned char ip[16];
	struct spf_check c = { .ip = ip, .ip_n = address(ip_text, ip), .helo = STR("mail.example.net"), .sender = str_from(sender),
		.explain = true };
	run(&c, answer, zone);
	if (strcmp(spf_result_name(c.result), want))
		fail_msg("%s from %s: %s (%s), not %s", sender, ip_text, spf_result_name(c.result), c.reason, want);
}

/* -- syntax */

static void test_records(void **state)
{
	static const struct {
		const char *terms;
		bool ok;
	} cases[] = {
		{ "", true }, { "  ", true }, { "-all", true }, { "ALL", true }, { "all:x.org", false },
		{ "all/8", false }, { "all.", false },
		{ "-", false }, { "--all", false }, { "\tall", false }, { "all\n", false }, { "\xc3\xa9", false },
		{ "a", true }, { "a:", false }, { "a:x", false }, { "a:x.org", true }, { "a:x.org.", true },
		{ "a:x.org..", false },
		{ "a:x.1", false }, { "a:x.1a", true }, { "a:x.-a", false }, { "a:x.a-", false }, { "a:x.a-b", true },
		{ "a:x.org:25", false },
		{ "a/0", true }, { "a/32", true }, { "a/33", false }, { "a/032", false }, { "a/", false },
		{ "a//0", true }, { "a//128", true },
		{ "a//129", false }, { "a/32//128", true }, { "a/32/128", false }, { "a//64/24", false },
		{ "a:x.org/24//64", true },
		{ "a:x/y.org/24", true }, { "a:x.org/a", false }, { "mx", true }, { "mx:%{d}", true }, { "mx:%{d}x", false },
		{ "ptr", true }, { "ptr:x.org", true }, { "ptr/24", false }, { "exists", false },
		{ "exists:%{i}.x.org", true },
		{ "exists:x.org/24", false }, { "include", false }, { "include:x.org", true }, { "include:x.org/24", false },
		{ "ip4:1.2.3.4", true }, { "ip4:1.2.3.4/32", true }, { "ip4:1.2.3.4/33", false },
		{ "ip4:1.2.3", false }, { "ip4:1.2.3.04", false },
		{ "ip4:1.2.3.4/", false }, { "ip4", false }, { "ip4:", false }, { "ip4:::1", false },
		{ "ip4:1.2.3.4//32", false },
		{ "ip6:::1", true }, { "ip6:::1/128", true }, { "ip6:::1/129", false }, { "ip6:1.2.3.4", false },
		{ "ip6:::1/0", true },
		{ "redirect=x.org", true }, { "redirect=", false }, { "redirect=x.org redirect=x.org", false },
		{ "?redirect=x.org", false },
		{ "REDIRECT=x.org Redirect=y.org", false }, { "exp=x.org", true }, { "exp=x.org exp=y.org", false },
		{ "exp=", false },
		{ "exp=%{c}", false }, { "other=", true }, { "other=%%", true }, { "other=%", false },
		{ "o-_.9=x", true }, { "9o=x", false },
		{ "=x", false }, { "other=1 other=2", true }, { "other=\xc3\xa9", false }, { "moo", false },
		{ "ipv4:1.2.3.4", false },
		{ "a:%{s}", true }, { "a:%{x}", false }, { "a:%{S}", true }, { "a:%{c}", false },
		{ "a:%{d0}", false }, { "a:%{d00}", false },
		{ "a:%{d1}", true }, { "a:%{d99999999999999999999}", true }, { "a:%{dr}", true }, { "a:%{dR}", true },
		{ "a:%{d1r.-+,/_=}", true },
		{ "a:%{dr1}", false }, { "a:%{d", false }, { "a:%{", false }, { "a:%", false }, { "a:%{}", false },
		{ "a:%{d!}", false },
		{ "a:%(d)", false }, { "a:x%%y%_z%-", true }, { "a:x%20y.org", false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[256];
		struct spf_record r;
		snprintf(text, sizeof text, "v=spf1 %s", cases[i].terms);
		if ((spf_record_parse(str_from(text), &r) == 0) != cases[i].ok)
			fail_msg("%s: %s", text, r.why ? r.why : "valid");
		assert_true(cases[i].ok == !r.why);
	}
	assert_true(spf_record_is(STR("v=spf1")) && spf_record_is(STR("V=SPF1 x")));
	assert_false(spf_record_is(STR("v=spf10")) || spf_record_is(STR(" v=spf1")) || spf_record_is(STR("v=spf1\t")) || spf_record_is(STR("")));
}

/* -- macros */

static const struct spf_values values = { .s = STR_INIT("strong-bad@email.example.com"), .l = STR_INIT("strong-bad"),
	.o = STR_INIT("email.example.com"), .d = STR_INIT("email.example.com"), .i = STR_INIT("192.0.2.3"), .p = STR_INIT("mx.example.org"),
	.v = STR_INIT("in-addr"), .h = STR_INIT("mx.example.org"), .c = STR_INIT("192.0.2.3"), .r = STR_INIT("us.example"), .t = STR_INIT("12") };

static void test_macros(void **state)
{
	static const struct {
		const char *spec, *want;
	} cases[] = { /* the examples of §7.4 */
		{ "%{s}", "strong-bad@email.example.com" }, { "%{o}", "email.example.com" }, { "%{d}", "email.example.com" },
		{ "%{d4}", "email.example.com" }, { "%{d3}", "email.example.com" }, { "%{d2}", "example.com" },
		{ "%{d1}", "com" },
		{ "%{dr}", "com.example.email" }, { "%{d2r}", "example.email" }, { "%{l}", "strong-bad" },
		{ "%{l-}", "strong.bad" },
		{ "%{lr}", "strong-bad" }, { "%{lr-}", "bad.strong" }, { "%{l1r-}", "strong" },
		{ "%{ir}.%{v}._spf.%{d2}", "3.2.0.192.in-addr._spf.example.com" },
		{ "%{lr-}.lp._spf.%{d2}", "bad.strong.lp._spf.example.com" },
		{ "%{lr-}.lp.%{ir}.%{v}._spf.%{d2}", "bad.strong.lp.3.2.0.192.in-addr._spf.example.com" },
		{ "%{ir}.%{v}.%{l1r-}.lp._spf.%{d2}", "3.2.0.192.in-addr.strong.lp._spf.example.com" },
		{ "%{d2}.trusted-domains.example.net", "example.com.trusted-domains.example.net" },
		{ "%{p}.%{h}", "mx.example.org.mx.example.org" }, { "%{S}", "strong-bad%40email.example.com" },
		{ "%%%_%-", "% %20" },
		{ "%{L-}x.", "strong.badx" }, { "%{d9999999999}", "email.example.com" }, { "%{s@}", NULL },
		{ "%{d,}", "email.example.com" },
	};
	char out[DNS_NAME_MAX + 1];
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int n = spf_expand_domain(str_from(cases[i].spec), &values, out);
		assert_int_equal(n, cases[i].want ? (int)strlen(cases[i].want) : -1);
		assert_string_equal(out, cases[i].want ? cases[i].want : "");
	}
	char text[64];
	assert_int_equal(spf_expand_text(STR("%{c} %{r} %{t} a b"), &values, text, sizeof text), 0);
	assert_string_equal(text, "192.0.2.3 us.example 12 a b");
	assert_int_equal(spf_expand_text(STR("%{s}%{s}%{s}%{s}%{s}"), &values, text, sizeof text), 0);
	assert_int_equal(strlen(text), sizeof text - 1);
	assert_int_equal(spf_expand_text(STR("a\nb"), &values, text, sizeof text), -1);
	struct spf_values foreign = values;
	foreign.l = STR("\xc3\xa9\r\n");
	assert_int_equal(spf_expand_text(STR("x %{l}"), &foreign, text, sizeof text), -1);
	assert_string_equal(text, "");
	assert_int_equal(spf_expand_text(STR("x %{L}"), &foreign, text, sizeof text), 0);
	assert_string_equal(text, "x %C3%A9%0D%0A");
}

/* §7.3: labels are dropped on the left until 253 octets are left. */
static void test_truncation(void **state)
{
	char spec[400], out[DNS_NAME_MAX + 1];
	(void)state;
	for (size_t n = 240; n < 280; n++) {
		memset(spec, 'b', n);
		for (size_t i = n - 2; i > 3; i -= i > 13 ? 10 : i)
			spec[i] = '.';
		spec[n] = 0;
		int got = spf_expand_domain(str_from(spec), &values, out);
		assert_true(got > 0 && got <= DNS_NAME_MAX && (n <= DNS_NAME_MAX ? got == (int)n : got > DNS_NAME_MAX - 16));
		assert_string_equal(out, spec + n - (size_t)got);
		assert_true((size_t)got == n || spec[n - (size_t)got - 1] == '.');
	}
	memset(spec, 'b', 300);
	assert_int_equal(spf_expand_domain(str_n(spec, 300), &values, out), -1); /* one label: no name */
}

/* -- results */

static const char *const zone[] = {
	"example.org TXT v=spf1 a mx ip4:192.0.2.0/28 -all", "example.org TXT something else", "example.org A 198.51.100.1",
	"example.org AAAA 2001:db8::1", "example.org MX mx.example.org", "mx.example.org A 198.51.100.2", "mx.example.org AAAA 2001:db8::2",
	"fail.org ! ", "two.org TXT v=spf1 -all", "two.org TXT v=spf1 +all", "bad.org TXT v=spf1 +all moo", "nodata.org -",
	"inc.org TXT v=spf1 include:example.org ~all", "inc.org A 1.1.1.1", "neg.org TXT v=spf1 -include:example.org +all",
	"incnone.org TXT v=spf1 include:nodata.org +all", "incfail.org TXT v=spf1 include:fail.org +all",
	"redir.org TXT v=spf1 redirect=example.org", "redirnone.org TXT v=spf1 redirect=none.example",
	"self.org TXT v=spf1 redirect=self.org", "selfinc.org TXT v=spf1 include:selfinc.org -all",
	"afail.org TXT v=spf1 a:fail.org +all", "mxfail.org TXT v=spf1 mx +all", "mxfail.org MX fail.org",
	"mxlater.org TXT v=spf1 mx +all", "mxlater.org MX mx.example.org", "mxlater.org MX fail.org",
	"ptrfail.org TXT v=spf1 ptr -all", "9.2.0.192.in-addr.arpa ! ", "exists.org TXT v=spf1 exists:%{l}.u.example.org -all",
	"joe.u.example.org A 127.0.0.2", "six.u.example.org AAAA 2001:db8::1",
	"exp.org TXT v=spf1 -all exp=e.%{d}", "e.exp.org TXT %{i} may not send for %{o}", "xn--bcher-kva.example TXT v=spf1 +all",
	"ptr.org TXT v=spf1 ptr -all", "8.2.0.192.in-addr.arpa PTR liar.ptr.org", "8.2.0.192.in-addr.arpa PTR m.ptr.org",
	"m.ptr.org A 192.0.2.8", "liar.ptr.org A 192.0.2.7", "notptr.org TXT v=spf1 ptr:tr.org -all", NULL,
};

static void test_results(void **state)
{
	static const char *const cases[][3] = {
		{ "198.51.100.1", "a@example.org", "pass" }, { "198.51.100.2", "a@example.org", "pass" },
		{ "192.0.2.15", "a@example.org", "pass" },
		{ "192.0.2.16", "a@example.org", "fail" }, { "2001:db8::1", "a@example.org", "pass" },
		{ "2001:db8::2", "a@EXAMPLE.org.", "pass" },
		{ "2001:db8::3", "a@example.org", "fail" }, { "::ffff:192.0.2.1", "a@example.org", "pass" },
		{ "::ffff:192.0.2.1", "@example.org", "pass" },
		{ "1.1.1.1", "a@none.example", "none" }, { "1.1.1.1", "a@nodata.org", "none" },
		{ "1.1.1.1", "a@fail.org", "temperror" },
		{ "1.1.1.1", "a@two.org", "permerror" }, { "1.1.1.1", "a@bad.org", "permerror" },
		{ "1.1.1.1", "a@org", "none" },
		{ "1.1.1.1", "a@[1.1.1.1]", "none" }, { "1.1.1.1", "a@a..org", "none" }, { "1.1.1.1", "a@", "none" },
		{ "192.0.2.1", "a@inc.org", "pass" }, { "1.1.1.1", "a@inc.org", "softfail" },
		{ "192.0.2.1", "a@neg.org", "fail" },
		{ "1.1.1.1", "a@neg.org", "pass" }, { "1.1.1.1", "a@incnone.org", "permerror" },
		{ "1.1.1.1", "a@incfail.org", "temperror" },
		{ "192.0.2.1", "a@redir.org", "pass" }, { "1.1.1.1", "a@redirnone.org", "permerror" },
		{ "1.1.1.1", "a@self.org", "permerror" },
		{ "1.1.1.1", "a@selfinc.org", "permerror" }, { "1.1.1.1", "a@afail.org", "temperror" },
		{ "1.1.1.1", "a@mxfail.org", "temperror" },
		{ "198.51.100.2", "a@mxlater.org", "pass" }, { "1.1.1.1", "a@mxlater.org", "temperror" },
		{ "192.0.2.9", "a@ptrfail.org", "fail" },
		{ "1.1.1.1", "joe@exists.org", "pass" }, { "2001:db8::1", "joe@exists.org", "pass" },
		{ "2001:db8::1", "six@exists.org", "fail" },
		{ "1.1.1.1", "a@b\xc3\xbc" "cher.example", "pass" }, { "192.0.2.8", "a@ptr.org", "pass" },
		{ "192.0.2.7", "a@ptr.org", "fail" },
		{ "192.0.2.8", "a@notptr.org", "fail" }, { "1.1.1.1", "j\xc3\xb6" "e@exists.org", "fail" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		expect(cases[i][0], cases[i][1], zone, cases[i][2]);
}

static void test_identities(void **state)
{
	unsigned char ip[] = { 192, 0, 2, 1 };
	struct spf_check c = { .ip = ip, .ip_n = 4, .identity = SPF_HELO, .helo = STR("Example.ORG"), .sender = STR("a@two.org") };
	(void)state;
	run(&c, answer, zone);
	assert_true(c.result == SPF_PASS && c.by_helo);
	assert_string_equal(c.domain, "example.org");
	c.identity = SPF_MAILFROM;
	c.sender = STR("");
	run(&c, answer, zone);
	assert_true(c.result == SPF_PASS && c.by_helo);
	c.helo = STR("[192.0.2.1]");
	run(&c, answer, zone);
	assert_int_equal(c.result, SPF_NONE);
	c.helo = STR("");
	run(&c, answer, zone);
	assert_int_equal(c.result, SPF_NONE);
	char longer[1000]; /* what SMTP does not allow must not evade the check */
	memset(longer, 'x', sizeof longer);
	memcpy(longer + sizeof longer - 12, "@incnone.org", 12);
	c.helo = c.sender = str_n(longer, sizeof longer);
	run(&c, answer, zone);
	assert_int_equal(c.result, SPF_PERMERROR);
	c.sender = STR("x");
	run(&c, answer, zone);
	assert_int_equal(c.result, SPF_NONE);
	c.ip_n = 0;
	run(&c, answer, zone);
	assert_int_equal(c.result, SPF_NONE);
}

/* -- explanations */

static void explained(const char *text, const char *want)
{
	char line[SPF_RECORD_MAX];
	const char *const lines[] = { "x.org TXT v=spf1 exp=e.x.org -all", line, NULL };
	unsigned char ip[] = { 192, 0, 2, 1 };
	struct spf_check c = { .ip = ip, .ip_n = 4, .helo = STR("h.example"), .sender = STR("Joe@X.org"), .explain = true, .now = 77 };
	snprintf(line, sizeof line, "e.x.org TXT %s", text);
	run(&c, answer, lines);
	assert_int_equal(c.result, SPF_FAIL);
	assert_string_equal(c.explanation, want);
	c.explain = false;
	assert_int_equal(run(&c, answer, lines), 1);
	assert_string_equal(c.explanation, "");
}

static void test_explanations(void **state)
{
	char text[1000], want[SPF_EXPLANATION_MAX + 1];
	(void)state;
	explained("See %{i} %{s} %{h} %{t} %{r}", "See 192.0.2.1 Joe@X.org h.example 77 unknown");
	/* RFC 7208 §6.2, §7.2, §7.4 */
	explained("See http://%{d}/why.html?s=%{S}&i=%{I}", "See http://X.org/why.html?s=Joe%40X.org&i=192.0.2.1");
	explained("%{c} is not one of %{d}'s designated mail servers, says %{r} at %{t}.", "192.0.2.1 is not one of X.org's designated mail servers, says unknown at 77.");
	explained("%%%_%-", "% %20");
	explained("bad %{x}", "");
	explained("bad %", "");
	explained("b\xc3\xa9", "");
	explained("two\r\nlines", "");
	explained("%{p}", "unknown");
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = 0;
	memset(want, 'x', sizeof want - 1);
	want[sizeof want - 1] = 0;
	explained(text, want);
}

/* -- limits: n things, and what n leads to */

static struct dns_answer *answer_limits(zone_lines unused, struct str name, enum dns_type type)
{
	struct dns_rr rr[20] = { 0 };
	static const char wanted[] = "\xc0\x00\x02\x01", other[] = "\xc0\x00\x02\x02";
	char names[20][32], text[2048] = "v=spf1";
	unsigned n = 0;
	(void)unused;
	if (type == DNS_TXT && sscanf(name.p, "terms%u.org", &n) == 1) {
		for (unsigned i = 0; i < n; i++)
			snprintf(text + strlen(text), sizeof text - strlen(text), " a:no.host.org");
		strncat(text, " +all", sizeof text - strlen(text) - 1);
	} else if (type == DNS_TXT && sscanf(name.p, "chain%u.org", &n) == 1) {
		if (n > 0)
			snprintf(text, sizeof text, "v=spf1 include:chain%u.org -all", n - 1);
		else
			snprintf(text, sizeof text, "v=spf1 +all");
	} else if (type == DNS_TXT && sscanf(name.p, "redir%u.org", &n) == 1) {
		if (n > 0)
			snprintf(text, sizeof text, "v=spf1 redirect=redir%u.org", n - 1);
		else
			snprintf(text, sizeof text, "v=spf1 +all");
	} else if (type == DNS_TXT && sscanf(name.p, "void%u.org", &n) == 1) {
		for (unsigned i = 0; i < n; i++)
			snprintf(text + strlen(text), sizeof text - strlen(text), " %s:nothing%u.org", i % 2 ? "exists" : "mx", i);
		strncat(text, " +all", sizeof text - strlen(text) - 1);
	} else if (type == DNS_TXT && sscanf(name.p, "mx%u.org", &n) == 1) {
		strncat(text, " mx -all", sizeof text - strlen(text) - 1);
	} else if (type == DNS_TXT && str_eq(name, STR("p.org"))) { /* %{p} takes one of the ten */
		for (unsigned i = 0; i < 9; i++)
			strncat(text, " a:no.host.org", sizeof text - strlen(text) - 1);
		strncat(text, " exists:%{p}.%{p}.host.org +all", sizeof text - strlen(text) - 1);
	} else if (type == DNS_TXT && str_eq(name, STR("ptr.org"))) {
		strncat(text, " ptr:good.org -all", sizeof text - strlen(text) - 1);
	} else if (type == DNS_MX && sscanf(name.p, "mx%u.org", &n) == 1) {
		for (unsigned i = 0; i < n; i++) {
			snprintf(names[i], sizeof names[i], "%s.host.org", i + 1 == n && n % 2 ? "yes" : "no");
			rr[i] = (struct dns_rr){ .data = str_from(names[i]), .preference = (uint16_t)i };
		}
		return dns_answer_new(name, type, DNS_OK, rr, n, 60, false);
	} else if (type == DNS_PTR) { /* the client's last octet says which of its names is good */
		sscanf(name.p, "%u", &n);
		for (unsigned i = 1; i <= 15; i++) {
			snprintf(names[i], sizeof names[i], "%s%u.%s.org", i == n ? "yes" : "no", i, i == n ? "good" : "host");
			rr[i - 1].data = str_from(names[i]);
		}
		return dns_answer_new(name, type, DNS_OK, rr, 15, 60, false);
	} else if (type == DNS_A && str_starts(name, STR("yes"))) {
		char client[4] = "\xc0\x00\x02";
		unsigned host = 1;
		sscanf(name.p, "yes%u", &host);
		client[3] = (char)host;
		rr[0].data = str_n(name.p[3] == '.' ? wanted : client, 4);
		return dns_answer_new(name, type, DNS_OK, rr, 1, 60, false);
	} else if (type == DNS_A && (str_starts(name, STR("no.")) || str_iends(name, STR("host.org")))) {
		rr[0].data = str_n(other, 4);
		return dns_answer_new(name, type, DNS_OK, rr, 1, 60, false);
	} else {
		return dns_answer_new(name, type, DNS_NXDOMAIN, NULL, 0, 60, false);
	}
	rr[0].data = str_from(text);
	return dns_answer_new(name, type, DNS_OK, rr, 1, 60, false);
}

static void test_limits(void **state)
{
	static const struct {
		const char *sender;
		unsigned char host;
		const char *want;
		unsigned terms, voids;
	} cases[] = {
		{ "a@terms10.org", 1, "pass", 10, 0 }, { "a@terms11.org", 1, "permerror", 11, 0 },
		{ "a@chain10.org", 1, "pass", 10, 0 }, { "a@chain11.org", 1, "permerror", 11, 0 },
		{ "a@chain4000000000.org", 1, "permerror", 11, 0 },
		{ "a@redir10.org", 1, "pass", 10, 0 }, { "a@redir11.org", 1, "permerror", 11, 0 },
		{ "a@void2.org", 1, "pass", 2, 2 }, { "a@void3.org", 1, "permerror", 3, 3 },
		{ "a@mx9.org", 1, "pass", 1, 0 }, { "a@mx10.org", 1, "fail", 1, 0 }, { "a@mx11.org", 1, "permerror", 1, 0 },
		{ "a@mx12.org", 1, "permerror", 1, 0 }, { "a@p.org", 1, "permerror", 11, 0 },
		{ "a@ptr.org", 1, "pass", 1, 0 }, { "a@ptr.org", 10, "pass", 1, 0 }, { "a@ptr.org", 11, "fail", 1, 0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		unsigned char ip[] = { 192, 0, 2, cases[i].host };
		struct spf_check c = { .ip = ip, .ip_n = 4, .sender = str_from(cases[i].sender), .helo = STR("h.example") };
		size_t questions = run(&c, answer_limits, NULL);
		if (strcmp(spf_result_name(c.result), cases[i].want) || c.n_terms != cases[i].terms || c.n_voids != cases[i].voids)
			fail_msg("%s: %s (%s), %u terms, %u voids", cases[i].sender, spf_result_name(c.result), c.reason, c.n_terms, c.n_voids);
		assert_true(questions <= 12);
	}
	unsigned char ip[] = { 192, 0, 2, 1 };
	struct spf_check c = { .ip = ip, .ip_n = 4, .sender = STR("a@void3.org"), .helo = STR("h.example"), .voids_max = 3 };
	run(&c, answer_limits, NULL);
	assert_int_equal(c.result, SPF_PASS);
}

/* -- harm: every TXT question gets the same record, every other one many answers */

static struct buf harm;

static struct dns_answer *answer_harm(zone_lines unused, struct str name, enum dns_type type)
{
	struct dns_rr rr[20] = { 0 };
	char names[20][DNS_NAME_MAX];
	(void)unused;
	for (unsigned i = 0; i < 20; i++) {
		snprintf(names[i], sizeof names[i], "%u.%.40s", i, name.p);
		rr[i].data = type == DNS_A ? STR("\x01\x02\x03\x04") : str_from(names[i]);
		rr[i].preference = (uint16_t)i;
	}
	if (type == DNS_TXT)
		rr[0].data = buf_str(&harm);
	return dns_answer_new(name, type, DNS_OK, rr, type == DNS_TXT ? 1 : 20, 60, false);
}

static void harmful(const char *begin, const char *again, size_t octets, const char *end, const char *want)
{
	unsigned char ip[] = { 192, 0, 2, 1 };
	struct spf_check c = { .ip = ip, .ip_n = 4, .helo = STR("h.example"), .explain = true,
		.sender = STR("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z@a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.example.org") };
	harm = BUF_INIT(1 << 20);
	buf_addz(&harm, begin);
	while (harm.n + strlen(again) + strlen(end) <= octets)
		buf_addz(&harm, again);
	buf_addz(&harm, end);
	clock_t before = clock();
	size_t questions = run(&c, answer_harm, NULL);
	double cpu = (double)(clock() - before) / CLOCKS_PER_SEC;
	if (want && strcmp(spf_result_name(c.result), want))
		fail_msg("%s%s…: %s (%s)", begin, again, spf_result_name(c.result), c.reason);
	assert_true(questions <= SPF_QUESTIONS_MAX);
	assert_true(cpu < 5); /* far above what it takes, for slow machines and sanitizers: work must not be squared */
	buf_free(&harm);
}

static void test_harm(void **state)
{
	(void)state;
	harmful("v=spf1", " include:x.example.org", SPF_RECORD_MAX, "", "permerror"); /* hundreds of them, each of which has hundreds */
	harmful("v=spf1", " include:x.example.org", 30000, "", "permerror");
	harmful("v=spf1", " include:%{d}", SPF_RECORD_MAX, "", "permerror");
	harmful("v=spf1 redirect=", "%{d}.", SPF_RECORD_MAX, "org", "permerror");
	harmful("v=spf1", " mx", SPF_RECORD_MAX, "", "permerror");
	harmful("v=spf1", " ptr", SPF_RECORD_MAX, "", "permerror");
	harmful("v=spf1 exists:", "%{S1r./}", SPF_RECORD_MAX, " -all", "fail"); /* one label: no name */
	harmful("v=spf1 exists:", ".%{S1r./}", SPF_RECORD_MAX, " -all", "pass");
	harmful("v=spf1 -exists:", "%{S}", SPF_RECORD_MAX, " -all", "fail");
	harmful("v=spf1 -exists:", "%{P}", SPF_RECORD_MAX, " -all", "fail");
	harmful("v=spf1 mx:", "%{S}", 10240, " -all", "permerror");
	harmful("v=spf1 mx include:a.org exists:", "%{p}%{sr.-@}", 2000, ".org include:b.org -all", "permerror");
	harmful("v=spf1 -all exp=", "%{s}", SPF_RECORD_MAX, "", "fail");
	harmful("v=spf1", " ip4:1.2.3.4", SPF_RECORD_MAX, "", "neutral");
	harmful("v=spf1", " x=%%", SPF_RECORD_MAX, " -all", "fail");
	harmful("v=spf1", " ", SPF_RECORD_MAX, "-all", "fail");
	harmful("v=spf1", " ", SPF_RECORD_MAX + 1, "-all", "permerror");
	harmful("v=spf1 a:", "x.", SPF_RECORD_MAX, "org -all", "fail");
}

/* -- fields */

static void test_fields(void **state)
{
	unsigned char ip[] = { 192, 0, 2, 99 };
	struct spf_check c = { .ip = ip, .ip_n = 4, .helo = STR("he\"lo\r\nX: y"), .sender = STR("\"j (o)e\"@example.org"), .explain = true };
	struct spf_authres a;
	struct buf b = BUF_INIT(1 << 16);
	struct mail_field f;
	(void)state;
	run(&c, answer, zone);
	assert_int_equal(spf_text(&c, &b), 0);
	assert_string_equal(buf_z(&b), "fail: -all in the record of example.org");
	buf_reset(&b);
	spf_authres(&c, &a);
	assert_int_equal(authres_write(&b, STR("mx.example"), &a.result, 1, false), 0);
	assert_string_equal(buf_z(&b), "Authentication-Results: mx.example;\r\n\tspf=fail (-all in the record of example.org)\r\n"
				       "\tsmtp.mailfrom=\"\\\"j (o)e\\\"@example.org\"\r\n");
	buf_reset(&b);
	assert_int_equal(spf_received_write(&b, &c, STR("mx.example")), 0);
	assert_string_equal(buf_z(&b), "Received-SPF: fail (mx.example: -all in the record of example.org)\r\n"
				       "\tclient-ip=192.0.2.99; envelope-from=\"\\\"j (o)e\\\"@example.org\";\r\n"
				       "\thelo=\"he\\\"lo??X: y\"; identity=mailfrom; mechanism=-all; receiver=mx.example\r\n");
	struct str rest = buf_str(&b);
	assert_true(mail_headers_sendable(rest) && mail_field_next(&rest, &f) == 1 && rest.n == 0);
	struct buf small = BUF_INIT(20);
	assert_int_equal(spf_received_write(&small, &c, STR("mx.example")), -1);
	assert_int_equal(small.n, 0);
	buf_free(&small);
	buf_reset(&b);
	c.identity = SPF_HELO;
	c.helo = STR("two.org");
	run(&c, answer, zone);
	spf_text(&c, &b);
	assert_string_equal(buf_z(&b), "permerror: several SPF records in the record of two.org");
	buf_reset(&b);
	spf_authres(&c, &a);
	assert_int_equal(authres_write(&b, STR("mx.example"), &a.result, 1, false), 0);
	assert_non_null(strstr(buf_z(&b), "spf=permerror"));
	assert_non_null(strstr(buf_z(&b), "smtp.helo=two.org"));
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records), cmocka_unit_test(test_macros), cmocka_unit_test(test_truncation),
		cmocka_unit_test(test_results), cmocka_unit_test(test_identities), cmocka_unit_test(test_explanations),
		cmocka_unit_test(test_limits), cmocka_unit_test(test_harm), cmocka_unit_test(test_fields),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
