/* The authentication of whole messages over small zones: what is asked when, what comes of it, and how it is written. */
#include "../dkim/lab.h"

#include "base/check.h"
#include "proto/auth/verify.h"
#include "proto/mail/split.h"

#include <json-c/json.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MESSAGE "From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject: x\r\n\r\nHello\r\nworld\r\n"

/* "name TYPE data" lines; TXT, A, "!": no answer in time. */
static const char *zone_text;

static struct dns_answer *look(struct str name, enum dns_type type)
{
	struct str rest = str_from(zone_text), line;
	struct dns_rr rr[16] = { 0 };
	size_t n = 0;
	bool exists = false;
	while (str_word(&rest, "\n", &line)) {
		ptrdiff_t blank = str_chr(line, ' ');
		if (!str_eq(str_n(line.p, (size_t)blank), name))
			continue;
		struct str data = str_skip(line, (size_t)blank + 1);
		exists = true;
		if (str_eq(data, STR("!")))
			return dns_answer_fail(name, type, "no answer in time");
		if (type == DNS_TXT && str_starts(data, STR("TXT ")))
			rr[n++].data = str_skip(data, 4);
		else if (type == DNS_A && str_starts(data, STR("A")))
			rr[n++].data = STR("\xc0\x00\x02\x01");
	}
	return dns_answer_new(name, type, n ? DNS_OK : exists ? DNS_NODATA : DNS_NXDOMAIN, rr, n, 60, false);
}

static const char *standard_zone(const char *more)
{
	static char z[8000];
	snprintf(z, sizeof z, "example.org TXT v=spf1 include:_spf.example.org -all\n"
			      "_spf.example.org TXT v=spf1 a:mail.example.org ip4:192.0.2.7 ~all\n"
			      "mail.example.org A\n"
			      "helo.example TXT v=spf1 ip4:192.0.2.0/24 -all\n"
			      "_dmarc.example.org TXT v=DMARC1; p=reject; sp=none; rua=mailto:d@example.org\n"
			      "s._domainkey.example.org TXT v=DKIM1; %s\n"
			      "l._domainkey.list.example TXT k=ed25519; %s\n%s",
	    lab_p("rsa1024"), lab_p("ed25519"), more);
	return z;
}

struct run {
	struct verify *v;
	struct dns_answers *set;
	const struct verify_verdict *r;
	unsigned questions;
};

/* Resolves until nothing is missing. */
static void ask(struct run *t)
{
	struct str name;
	enum dns_type type;
	while (verify_evaluate(t->v, t->set) == DNS_MORE) {
		assert_true(dns_answers_n_missing(t->set) > 0);
		while (dns_answers_missing(t->set, 0, &name, &type)) {
			t->questions++;
			assert_int_equal(dns_answers_put(t->set, look(name, type)), 0);
		}
	}
	assert_int_equal(dns_answers_n_missing(t->set), 0);
}

static struct verify_policy all_of_it(void)
{
	return (struct verify_policy){ .spf = true, .dkim = true, .arc = true, .dmarc = true, .dkim_policy = { .now = 1700000000 } };
}

static void begin(struct run *t, const struct verify_policy *p, verify_trace_fn *fn, void *arg)
{
	*t = (struct run){ .v = verify_new(p), .set = dns_answers_new() };
	assert_true(t->v && t->set);
	verify_trace(t->v, fn, arg);
	t->r = verify_verdict(t->v);
}

static void envelope(struct run *t, const char *helo, const char *from, unsigned char last)
{
	struct verify_envelope e = { .ip = { 192, 0, 2, last }, .ip_n = 4, .helo = str_from(helo), .mail_from = str_from(from),
		.receiver = STR("mx.example.net") };
	assert_int_equal(verify_envelope(t->v, &e), 0);
}

static void message(struct run *t, struct str text, bool ask_early)
{
	struct mail_split cut;
	mail_split(text, &cut);
	char *copy = str_dupz(cut.headers);
	assert_int_equal(verify_headers(t->v, str_n(copy, cut.headers.n)), 0);
	free(copy); /* it must not be needed */
	if (ask_early)
		ask(t);
	for (size_t i = 0; i < cut.body.n; i += 3)
		verify_body(t->v, cut.body.p + i, cut.body.n - i < 3 ? cut.body.n - i : 3);
	assert_false(verify_done(t->v) && (t->r->dkim_checked || t->r->dmarc) && verify_wants_body(t->v));
	verify_body_end(t->v);
	ask(t);
	assert_true(verify_done(t->v));
	dns_answers_free(t->set); /* nor this */
	t->set = NULL;
}

static void end(struct run *t)
{
	dns_answers_free(t->set);
	verify_free(t->v);
}

/* "spf helo dkim arc dmarc disposition" */
static void expect(const struct run *t, const char *want)
{
	char got[200];
	const struct verify_verdict *r = t->r;
	snprintf(got, sizeof got, "%s %s %s %s %s %s", r->spf ? spf_result_name(r->spf->result) : "-",
	    r->spf_helo ? spf_result_name(r->spf_helo->result) : "-", r->dkim_checked ? dkim_result_name(verify_dkim_result(r)) : "-",
	    r->arc ? dkim_result_name(r->arc->result) : "-", r->dmarc ? dmarc_result_name(r->dmarc->result) : "-",
	    dmarc_policy_name(r->disposition));
	assert_string_equal(got, want);
}

static void sign(struct buf *m)
{
	lab_sign(m, &(struct lab_sign){ "DKIM-Signature", "rsa1024", "from:subject",
			"v=1; a=rsa-sha256; c=relaxed/simple; d=example.org; s=s; h=from:subject; bh=@BH@; b=@B@", 'r', 's', 256, SIZE_MAX });
}

/* All at once. */
static void whole(struct run *t, const struct verify_policy *p, const char *helo, const char *from, unsigned char last, struct str text)
{
	begin(t, p, NULL, NULL);
	envelope(t, helo, from, last);
	message(t, text, last & 1);
}

static struct json_object *at(struct json_object *o, const char *path)
{
	struct json_object *found = NULL;
	if (json_pointer_get(o, path, &found))
		fail_msg("no %s in %s", path, json_object_to_json_string(o));
	return found;
}

static void expect_json(struct json_object *o, const char *path, const char *want)
{
	assert_string_equal(json_object_get_string(at(o, path)), want);
}

static struct json_object *json_of(const struct run *t)
{
	struct buf b = BUF_INIT(1 << 20);
	assert_int_equal(verify_json(t->v, &b), 0);
	assert_true(str_is_ascii(buf_str(&b)));
	struct json_object *o = json_tokener_parse(buf_z(&b));
	assert_non_null(o);
	buf_free(&b);
	return o;
}

static void passes(void **st)
{
	struct run t;
	struct verify_policy p = all_of_it();
	struct buf m = BUF_INIT(1 << 20), b = BUF_INIT(1 << 16);
	(void)st;
	zone_text = standard_zone("");
	buf_addz(&m, MESSAGE);
	sign(&m);
	whole(&t, &p, "helo.example", "bounce@example.org", 7, buf_str(&m));
	expect(&t, "pass pass pass none pass none");
	assert_true(t.r->spf_aligned && t.r->dkim[0].aligned && t.r->n_dkim == 1 && !verify_temporary(t.r));
	assert_string_equal(t.r->dmarc->walk.policy_domain, "example.org");
	assert_true(t.r->record->p == DMARC_REJECT && str_eq(t.r->record->rua[0].uri, STR("mailto:d@example.org")));
	struct authres_result iprev = { .method = STR("iprev"), .result = STR("pass"), .prop = { { STR("policy"), STR("iprev"), STR("192.0.2.7") } },
		.n_props = 1 };
	assert_int_equal(verify_authres(t.v, &b, STR("mx.example.net"), &iprev, 1, false), 0);
	struct authres a;
	assert_int_equal(authres_parse(&a, str_skip(buf_str(&b), strlen("Authentication-Results:"))), 0);
	assert_false(a.bad);
	static const char *const methods[] = { "iprev", "spf", "spf", "dkim", "arc", "dmarc" };
	assert_int_equal(a.n, 6);
	for (size_t i = 0; i < 6; i++)
		assert_true(str_eq(a.result[i].method, str_from(methods[i])));
	assert_true(str_eq(a.result[1].prop[0].name, STR("helo")) && str_eq(a.result[2].prop[0].value, STR("bounce@example.org")));
	assert_true(str_eq(a.result[3].prop[0].value, STR("example.org")) && a.result[3].n_props == 5);
	assert_true(str_eq(a.result[4].result, STR("none")));
	authres_free(&a);
	assert_non_null(strstr(buf_z(&b), "dmarc=pass (p=reject dis=none) header.from=example.org"));
	struct json_object *o = json_of(&t);
	expect_json(o, "/spf/0/identity", "mailfrom");
	expect_json(o, "/spf/0/domain", "example.org");
	expect_json(o, "/spf/0/record_domain", "_spf.example.org");
	expect_json(o, "/spf/1/identity", "helo");
	expect_json(o, "/dkim/0/selector", "s");
	expect_json(o, "/dkim/0/bits", "1024");
	expect_json(o, "/dkim/0/aligned", "true");
	expect_json(o, "/arc/result", "none");
	expect_json(o, "/dmarc/domain", "example.org");
	expect_json(o, "/dmarc/published/p", "reject");
	expect_json(o, "/dmarc/published/sp", "none");
	expect_json(o, "/dmarc/published/psd", "u");
	expect_json(o, "/dmarc/discovery", "treewalk");
	json_object_put(o);
	buf_reset(&b);
	assert_int_equal(verify_log(t.v, &b), 0);
	assert_string_equal(buf_z(&b), "spf=pass spf_domain=example.org spf_helo=pass dkim=pass signatures=1 dkim_domain=example.org arc=none "
				       "dmarc=pass policy=reject disposition=none from_domain=example.org");
	end(&t);
	buf_free(&m);
	buf_free(&b);
}

/* Each thing is asked for as soon as it can be, once. */
static void phases(void **st)
{
	struct run t;
	struct verify_policy p = all_of_it();
	struct buf m = BUF_INIT(1 << 20);
	struct mail_split cut;
	struct str name;
	enum dns_type type;
	const struct dns_answer *answer;
	(void)st;
	zone_text = standard_zone("");
	buf_addz(&m, MESSAGE);
	sign(&m);
	begin(&t, &p, NULL, NULL);
	assert_int_equal(verify_evaluate(t.v, t.set), DNS_DONE); /* nothing is known yet */
	envelope(&t, "helo.example", "bounce@example.org", 7);
	ask(&t);
	assert_true(t.r->spf && t.r->spf_helo && t.r->spf->result == SPF_PASS);
	unsigned before = t.questions;
	assert_int_equal(before, 4);
	mail_split(buf_str(&m), &cut);
	assert_int_equal(verify_headers(t.v, cut.headers), 0);
	assert_int_equal(verify_evaluate(t.v, t.set), DNS_MORE);
	assert_int_equal(dns_answers_n_missing(t.set), 3); /* key and both names of the walk at the same time */
	ask(&t);
	before = t.questions; /* key, two names of the walk */
	assert_int_equal(before, 7);
	assert_true(verify_wants_body(t.v) && !verify_done(t.v));
	verify_body(t.v, cut.body.p, cut.body.n);
	verify_body_end(t.v);
	assert_int_equal(verify_evaluate(t.v, t.set), DNS_DONE);
	assert_true(verify_done(t.v) && t.questions == before);
	for (size_t i = 0; dns_answers_at(t.set, i, &name, &type, &answer); i++)
		assert_non_null(answer);
	expect(&t, "pass pass pass none pass none");
	end(&t);
	buf_free(&m);
}

static void failures(void **st)
{
	static const struct {
		const char *helo, *from, *zone, *message, *want;
		bool sign, temporary;
		unsigned char last;
	} c[] = {
		{ "helo.example", "bounce@example.org", "", MESSAGE, "fail pass none none fail reject", false, false, 99 },
		{ "helo.example", "bounce@example.org", "", MESSAGE "x", "fail pass fail none fail reject", true, false, 99 },
		{ "helo.example", "bounce@example.org", "", MESSAGE "x", "pass pass fail none pass none", true, false, 7 },
		{ "helo.example", "x@other.example", "", MESSAGE, "none pass none none fail reject", false, false, 7 },
		/* the null sender: one check, of the HELO name; aligned by nothing */
		{ "helo.example", "", "", MESSAGE, "pass - none none fail reject", false, false, 7 },
		{ "mail.example.org", "", "mail.example.org TXT v=spf1 ip4:192.0.2.7 -all\n", MESSAGE, "pass - none none pass none", false, false, 7 },
		/* what cannot be looked up is no reason to refuse */
		{ "helo.example", "a@sub.example.org", "sub.example.org !\n", MESSAGE, "temperror pass none none temperror none", false, true, 7 },
		{ "helo.example", "a@other.example", "other.example !\n", MESSAGE, "temperror pass none none fail reject", false, true, 7 },
		{ "helo.example", "a@other.example", "s._domainkey.example.org !\n", MESSAGE, "none pass temperror none temperror none", true, true, 7 },
		/* several authors */
		{ "helo.example", "a@other.example", "_dmarc.two.example TXT v=DMARC1; p=quarantine\n",
		    "From: a@none.example, b@two.example\r\n\r\nx\r\n", "none pass none none fail quarantine", false, false, 7 },
		{ "helo.example", "bounce@example.org", "", "From: a@none.example\r\nFrom: b@example.org\r\n\r\nx\r\n",
		    "pass pass none none fail reject", false, false, 7 },
		/* one that does not answer takes nothing from what another's policy asks for */
		{ "helo.example", "a@other.example", "_dmarc.two.example TXT v=DMARC1; p=quarantine\n_dmarc.mute.example !\n",
		    "From: a@mute.example, b@two.example\r\n\r\nx\r\n", "none pass none none fail quarantine", false, false, 7 },
		{ "helo.example", "a@other.example", "_dmarc.mute.example !\n", "From: a@mute.example, b@example.org\r\n\r\nx\r\n",
		    "none pass none none fail reject", false, false, 7 },
		{ "helo.example", "a@other.example", "_dmarc.mute.example !\n", "From: a@mute.example, b@none.example\r\n\r\nx\r\n",
		    "none pass none none temperror none", false, true, 7 },
		{ "helo.example", "a@none.example", "", "Subject: no author\r\n\r\nx\r\n", "none pass none none none none", false, false, 7 },
		{ "[192.0.2.7]", "", "", MESSAGE, "none - none none fail reject", false, false, 7 },
	};
	struct verify_policy p = all_of_it();
	(void)st;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		struct run t;
		struct buf m = BUF_INIT(1 << 20), b = BUF_INIT(1 << 16);
		zone_text = standard_zone(c[i].zone);
		buf_addz(&m, c[i].sign ? MESSAGE : c[i].message);
		if (c[i].sign)
			sign(&m);
		if (c[i].sign && strcmp(c[i].message, MESSAGE) != 0)
			buf_addz(&m, "x\r\n");
		whole(&t, &p, c[i].helo, c[i].from, c[i].last, buf_str(&m));
		expect(&t, c[i].want);
		assert_int_equal(verify_temporary(t.r), c[i].temporary);
		assert_int_equal(verify_authres(t.v, &b, STR("mx"), NULL, 0, false), 0);
		json_object_put(json_of(&t));
		end(&t);
		buf_free(&m);
		buf_free(&b);
	}
}

/* Only what was asked for is done and told; DMARC brings what it needs. */
static void choices(void **st)
{
	static const struct {
		bool spf, dkim, arc, dmarc;
		const char *want;
		unsigned questions;
	} c[] = {
		{ true, false, false, false, "pass pass - - - none", 4 },
		{ false, true, false, false, "- - pass - - none", 1 },
		{ false, false, true, false, "- - - none - none", 1 },
		{ false, false, false, true, "pass pass pass - pass none", 7 },
		{ false, false, false, false, "- - - - - none", 0 },
	};
	struct buf m = BUF_INIT(1 << 20);
	(void)st;
	zone_text = standard_zone("");
	buf_addz(&m, MESSAGE);
	sign(&m);
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		struct verify_policy p = { .spf = c[i].spf, .dkim = c[i].dkim, .arc = c[i].arc, .dmarc = c[i].dmarc };
		struct run t;
		whole(&t, &p, "helo.example", "bounce@example.org", 7, buf_str(&m));
		expect(&t, c[i].want);
		assert_int_equal(t.questions, c[i].questions);
		end(&t);
	}
	buf_free(&m);
}

static void add_set(struct buf *m, unsigned i, const char *domain, const char *results)
{
	char ams[400], as[400];
	bool list = !strcmp(domain, "list.example");
	const char *key = list ? "ed25519" : "rsa1024", *alg = list ? "ed25519-sha256" : "rsa-sha256", *s = list ? "l" : "s";
	struct buf front = BUF_INIT(1 << 20);
	snprintf(ams, sizeof ams, "i=%u; a=%s; c=relaxed/relaxed; d=%s; s=%s; h=from:to:subject; bh=@BH@; b=@B@", i, alg, domain, s);
	snprintf(as, sizeof as, "i=%u; a=%s; cv=%s; d=%s; s=%s; b=@B@", i, alg, i == 1 ? "none" : "pass", domain, s);
	lab_sign(m, &(struct lab_sign){ "ARC-Message-Signature", key, "from:to:subject", ams, 'r', 'r', 256, SIZE_MAX });
	buf_addf(&front, "ARC-Authentication-Results: i=%u; mx.list.example;\r\n %s\r\n", i, results);
	buf_adds(&front, buf_str(m));
	buf_free(m);
	*m = front;
	lab_seal(m, i, key, as);
}

static void sealers(void **st)
{
	static const struct str trusted[] = { STR_INIT("other.example"), STR_INIT("LIST.example") };
	static const char vouched[] = "dmarc=pass header.from=example.org";
	static const struct {
		const char *domain[3], *results[3];
		bool listed;
		const char *want, *comment;
		unsigned sealer;
	} c[] = {
		{ { "list.example" }, { vouched }, true, "none pass none pass fail none", "arc=pass as[1].d=list.example as[1].s=l", 1 },
		{ { "list.example" }, { vouched }, false, "none pass none pass fail reject", "", 0 },
		{ { "list.example" }, { "dmarc=fail header.from=example.org; spf=pass smtp.mailfrom=a@example.org" }, true,
		    "none pass none pass fail reject", "", 0 },
		{ { "list.example" }, { "dmarc=pass header.from=example.com" }, true, "none pass none pass fail reject", "", 0 },
		{ { "list.example" }, { "spf=fail; dkim=pass header.d=Example.ORG" }, true, "none pass none pass fail none",
		    "arc=pass as[1].d=list.example as[1].s=l", 1 },
		{ { "list.example" }, { "spf=pass smtp.mailfrom=x@evil.example" }, true, "none pass none pass fail reject", "", 0 },
		/* sealed by a stranger, then by the list, which saw no more than a chain */
		{ { "example.org", "list.example" }, { vouched, "arc=pass" }, true, "none pass none pass fail reject", "", 0 },
		/* the list saw it pass, a stranger sealed behind it: his word is not ours */
		{ { "list.example", "example.org" }, { vouched, "arc=pass" }, true, "none pass none pass fail reject", "", 0 },
		{ { "list.example", "list.example" }, { vouched, "arc=pass" }, true, "none pass none pass fail none",
		    "arc=pass as[2].d=list.example as[2].s=l as[1].d=list.example as[1].s=l", 1 },
	};
	(void)st;
	zone_text = standard_zone("");
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		struct verify_policy p = all_of_it();
		struct buf m = BUF_INIT(1 << 20), b = BUF_INIT(1 << 16);
		struct run t;
		p.sealers = trusted;
		p.n_sealers = c[i].listed ? 2 : 1;
		buf_addz(&m, MESSAGE);
		for (unsigned k = 0; k < 3 && c[i].domain[k]; k++)
			add_set(&m, k + 1, c[i].domain[k], c[i].results[k]);
		whole(&t, &p, "helo.example", "list@list.example", 7, buf_str(&m));
		expect(&t, c[i].want);
		assert_string_equal(t.r->comment, c[i].comment);
		assert_int_equal(t.r->sealer, c[i].sealer);
		assert_int_equal(t.r->override, c[i].sealer ? VERIFY_TRUSTED_SEALER : VERIFY_NO_OVERRIDE);
		assert_int_equal(verify_authres(t.v, &b, STR("mx"), NULL, 0, false), 0);
		assert_true(!!strstr(buf_z(&b), "dis=none arc=override") == !!c[i].sealer);
		end(&t);
		/* a chain that does not hold vouches for nothing */
		buf_addz(&m, "more\r\n");
		whole(&t, &p, "helo.example", "list@list.example", 7, buf_str(&m));
		expect(&t, "none pass none fail fail reject");
		end(&t);
		buf_free(&m);
		buf_free(&b);
	}
}

/* The words of a domain that refuses: not asked for until somebody wants them, and then once. */
static void explanation(void **st)
{
	static const struct {
		const char *exp, *zone, *want;
		unsigned questions;
	} cases[] = {
		{ "exp=why.%{d}", "why.no.example TXT See http://no.example/?i=%{i}&r=%{r}&c=%{c}\n", "See http://no.example/?i=192.0.2.7&r=mx.example.net&c=192.0.2.7", 1 },
		{ "", "", "", 0 },
		{ "exp=why.no.example", "", "", 1 },
		{ "exp=why.no.example", "why.no.example !\n", "", 1 },
		{ "exp=why.no.example", "why.no.example TXT one\nwhy.no.example TXT two\n", "", 1 },
		{ "exp=why.no.example", "why.no.example TXT t\x07one\n", "", 1 },
		{ "exp=why.no.example", "why.no.example TXT f\xc3\xbcr\n", "", 1 },
		{ "exp=%{p}.no.example", "", "", 2 }, /* the client's names, then the text */
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (unsigned by_itself = 0; by_itself < 2; by_itself++) {
			struct verify_policy p = all_of_it();
			struct run t;
			char more[500];
			p.explain = by_itself;
			snprintf(more, sizeof more, "no.example TXT v=spf1 %s -all\n%s", cases[i].exp, cases[i].zone);
			zone_text = standard_zone(more);
			begin(&t, &p, NULL, NULL);
			envelope(&t, "helo.example", "a@no.example", 7);
			verify_headers(t.v, STR("From: a@open.example\r\n"));
			verify_body_end(t.v);
			ask(&t);
			unsigned before = t.questions;
			if (!by_itself) {
				assert_true(verify_done(t.v));
				assert_string_equal(t.r->spf->explanation, "");
				assert_int_equal(verify_explain(t.v), cases[i].exp[0] != 0);
				assert_int_equal(verify_done(t.v), !cases[i].exp[0]);
				ask(&t);
				assert_int_equal(t.questions - before, cases[i].questions);
			}
			assert_true(verify_done(t.v));
			assert_int_equal(t.r->spf->result, SPF_FAIL);
			assert_string_equal(t.r->spf->explanation, cases[i].want);
			if (!by_itself && cases[i].exp[0]) { /* who has no time for it has a verdict all the same */
				verify_explain(t.v);
				verify_abandon(t.v, "time is up");
				assert_true(verify_done(t.v));
				assert_int_equal(t.r->spf->result, SPF_FAIL);
			}
			end(&t);
		}
}

static void test_mode(void **st)
{
	struct verify_policy p = all_of_it();
	struct run t;
	(void)st;
	zone_text = standard_zone("_dmarc.testing.example TXT v=DMARC1; p=reject; t=y\n");
	whole(&t, &p, "helo.example", "a@x.example", 7, STR("From: a@testing.example\r\n\r\nx\r\n"));
	expect(&t, "none pass none none fail none");
	assert_int_equal(t.r->override, VERIFY_TEST_MODE);
	struct json_object *o = json_of(&t);
	expect_json(o, "/dmarc/override/type", "policy_test_mode");
	expect_json(o, "/dmarc/policy", "reject");
	expect_json(o, "/dmarc/published/t", "y");
	json_object_put(o);
	end(&t);
}

/* Ended at any point, it has a verdict, and no worse one than "not known". */
static void abandoned(void **st)
{
	struct verify_policy p = all_of_it();
	struct buf m = BUF_INIT(1 << 20);
	struct mail_split cut;
	(void)st;
	zone_text = standard_zone("");
	buf_addz(&m, MESSAGE);
	sign(&m);
	mail_split(buf_str(&m), &cut);
	for (unsigned phase = 0; phase < 5; phase++) {
		struct run t;
		struct buf b = BUF_INIT(1 << 16);
		begin(&t, &p, NULL, NULL);
		if (phase > 0)
			envelope(&t, "helo.example", "bounce@example.org", 99);
		if (phase > 1)
			verify_headers(t.v, cut.headers);
		verify_evaluate(t.v, t.set);
		if (phase > 2)
			ask(&t);
		if (phase > 3)
			verify_body(t.v, cut.body.p, cut.body.n - 1);
		verify_abandon(t.v, "time is up");
		assert_true(verify_done(t.v));
		expect(&t, phase > 2 ? "fail pass temperror - temperror none" : "temperror temperror temperror - temperror none");
		assert_true(verify_temporary(t.r));
		assert_int_equal(verify_authres(t.v, &b, STR("mx"), NULL, 0, false), 0);
		assert_non_null(strstr(buf_z(&b), "arc=temperror reason=\"time is up\""));
		json_object_put(json_of(&t));
		assert_int_equal(verify_evaluate(t.v, t.set), DNS_DONE);
		end(&t);
		buf_free(&b);
	}
	buf_free(&m);
}

struct story {
	struct buf text;
	unsigned asks, answers, decides;
};

static void hear(void *arg, const struct verify_step *s)
{
	struct story *h = arg;
	if (s->text)
		assert_true(str_is_ascii(str_from(s->text)) && !strpbrk(s->text, "\r\n\t"));
	switch (s->kind) {
	case VERIFY_ASKS:
		h->asks++;
		buf_addf(&h->text, "%s? %.*s %s\n", verify_method_name(s->method), STR_ARG(s->name), dns_type_name(s->type));
		break;
	case VERIFY_ANSWER:
		h->answers++;
		buf_addf(&h->text, "%s< %.*s %s\n", verify_method_name(s->method), STR_ARG(s->name), dns_status_name(s->answer->status));
		break;
	case VERIFY_SAYS:
		buf_addf(&h->text, "%s: %s\n", verify_method_name(s->method), s->text);
		break;
	case VERIFY_DECIDES:
		h->decides++;
		buf_addf(&h->text, "%s= %s\n", verify_method_name(s->method), s->text);
		break;
	}
}

/* What is asked first where few questions may be under way: the author's policy, then keys that may make it the author's, wherever they stand, then the rest. */
static void order(void **st)
{
	struct verify_policy p = all_of_it();
	struct run t;
	struct str name;
	enum dns_type type;
	const struct dns_answer *a;
	struct buf text = BUF_INIT(8192);
	size_t nth[5] = { 0 }, n = 0;
	static const char *const names[] = { "_dmarc.example.org", "s._domainkey.mail.example.org", "s._domainkey.slow0.test", "s._domainkey.slow5.test", "slow.test" };
	(void)st;
	for (unsigned i = 0; i < 7; i++) {
		if (i == 6)
			buf_addz(&text, "DKIM-Signature: v=1; a=ed25519-sha256; d=mail.example.org; s=s; h=from; bh=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=; b=AAAA\r\n");
		else
			buf_addf(&text, "DKIM-Signature: v=1; a=ed25519-sha256; d=slow%u.test; s=s; h=from; bh=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=; b=AAAA\r\n", i);
	}
	buf_addz(&text, "From: a@example.org\r\n");
	begin(&t, &p, NULL, NULL);
	assert_int_equal(verify_headers(t.v, buf_str(&text)), 0);
	envelope(&t, "helo.test", "x@slow.test", 1);
	assert_int_equal(verify_evaluate(t.v, t.set), DNS_MORE);
	for (; dns_answers_at(t.set, n, &name, &type, &a); n++)
		for (size_t i = 0; i < 5; i++)
			if (type == DNS_TXT && str_eq(name, str_from(names[i])))
				nth[i] = n + 1;
	for (size_t i = 0; i < 5; i++)
		assert_int_not_equal(nth[i], 0);
	assert_true(nth[0] < nth[1] && nth[1] < nth[4] && nth[1] < nth[2] && nth[2] < nth[3]);
	buf_free(&text);
	end(&t);
}

static void story(void **st)
{
	static const char *const said[] = { "spf? example.org TXT\n", "spf< example.org ok\n",
		("spf: example.org: include:_spf.example.org leads on\nspf:   _spf.example.org: a:mail.example.org does not match\n"
		 "spf:   _spf.example.org: ip4:192.0.2.7 matches\nspf= pass: ip4:192.0.2.7 in the record of _spf.example.org\n"),
		"spf-helo= pass: ip4:192.0.2.0/24", "dkim? s._domainkey.example.org TXT\n", "dkim= pass: signature 1 of d=example.org s=s",
		"arc= none: no ARC sets\n", "dmarc: the author's domain is example.org\n", "dmarc: tree walk: looked at _dmarc.example.org\n",
		"dmarc: the record of example.org applies: v=DMARC1; p=reject;", "dmarc: SPF of example.org passed, aligned\n",
		"dmarc= pass: an authenticated domain is aligned; disposition none\n" };
	struct verify_policy p = all_of_it();
	struct story h = { .text = BUF_INIT(1 << 16) };
	struct buf m = BUF_INIT(1 << 20);
	struct run t;
	(void)st;
	zone_text = standard_zone("");
	buf_addz(&m, MESSAGE);
	sign(&m);
	begin(&t, &p, hear, &h);
	envelope(&t, "helo.example", "bounce@example.org", 7);
	message(&t, buf_str(&m), true);
	assert_int_equal(h.asks, t.questions);
	assert_int_equal(h.answers, t.questions);
	assert_int_equal(h.decides, 5);
	for (size_t i = 0; i < sizeof said / sizeof *said; i++)
		if (!strstr(buf_z(&h.text), said[i]))
			fail_msg("not said: %s\n%s", said[i], buf_z(&h.text));
	end(&t);
	buf_free(&h.text);
	buf_free(&m);
}

/* What is too long does not evade the check, and what a sender writes cannot break a line. */
static void hostile(void **st)
{
	struct verify_policy p = all_of_it();
	struct buf from = BUF_INIT(1 << 20), b = BUF_INIT(1 << 16);
	struct run t;
	(void)st;
	zone_text = standard_zone("");
	for (unsigned i = 0; i < 20000; i++)
		buf_addc(&from, 'a');
	buf_addz(&from, "@example.org");
	whole(&t, &p, buf_z(&from), buf_z(&from), 99, STR(MESSAGE));
	expect(&t, "fail none none none fail reject");
	assert_int_equal(verify_authres(t.v, &b, STR("mx"), NULL, 0, false), 0);
	end(&t);
	buf_reset(&b);
	whole(&t, &p, "a\r\nX: y\x80", "\"a\r\nb\\\" spf=pass\"@ex ample.org", 7, STR(MESSAGE));
	assert_int_equal(verify_authres(t.v, &b, STR("mx"), NULL, 0, false), 0);
	assert_null(strstr(buf_z(&b), "\nX: y"));
	json_object_put(json_of(&t));
	buf_reset(&b);
	assert_int_equal(verify_log(t.v, &b), 0);
	assert_non_null(strstr(buf_z(&b), "spf_domain=ex?ample.org "));
	end(&t);
	/* ten signatures, as long as may be */
	struct buf m = BUF_INIT(4 << 20);
	for (unsigned i = 0; i < 10; i++) {
		buf_addf(&m, "DKIM-Signature: v=1; a=rsa-sha256; d=example.org; s=s; h=from; bh=AAAA; b=AAAA; i=");
		for (unsigned k = 0; k < (i < 5 ? 480u : 100000u); k++)
			buf_addz(&m, i & 1 ? "a" : "=01");
		buf_addz(&m, "@example.org\r\n");
	}
	buf_addz(&m, MESSAGE);
	whole(&t, &p, "helo.example", "a@example.org", 7, buf_str(&m));
	assert_int_equal(t.r->n_dkim, 10);
	buf_free(&b);
	b = BUF_INIT(1 << 20);
	assert_int_equal(verify_json(t.v, &b), 0);
	assert_true(b.n < VERIFY_JSON_MAX);
	buf_reset(&b);
	assert_int_equal(verify_authres(t.v, &b, STR("mx"), NULL, 0, false), 0);
	assert_true(b.n < 32 << 10);
	end(&t);
	buf_free(&m);
	buf_free(&from);
	buf_free(&b);
}

static int done(void **st)
{
	(void)st;
	lab_end();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(passes), cmocka_unit_test(phases), cmocka_unit_test(failures),
		cmocka_unit_test(choices), cmocka_unit_test(sealers), cmocka_unit_test(explanation), cmocka_unit_test(test_mode), cmocka_unit_test(abandoned),
		cmocka_unit_test(order), cmocka_unit_test(story), cmocka_unit_test(hostile) };
	return cmocka_run_group_tests(tests, NULL, done);
}
