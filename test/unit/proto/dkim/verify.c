/* DKIM verdicts over messages signed here: every tag, every policy, every kind of key record. */
#include "proto/dkim/dkim_internal.h"
#include "lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define HEAD "From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject:  a  b\r\n\tc\r\nDate: Fri, 1 Jan 2021 10:00:00 +0000\r\n"
#define BODY "\r\nHello  there \r\n\r\nmore\r\n\r\n\r\n"
#define MINIMAL "d=example.org; s=s; h=from:to:subject; bh=@BH@; b=@B@"

enum { NOW = 1700000000 };

/* pattern with its "%s", if it has one, replaced by p */
static void put(char *out, size_t size, const char *pattern, const char *p)
{
	const char *at = strstr(pattern, "%s");
	int n = at ? (int)(at - pattern) : (int)strlen(pattern);
	snprintf(out, size, "%.*s%s%s", n, pattern, at ? p : "", at ? at + 2 : "");
}

static char *zone_of(const char *fmt, const char *p)
{
	static char zone[8][4000];
	static unsigned next;
	char *z = zone[next++ % 8];
	put(z, sizeof zone[0], fmt, p);
	return z;
}

static struct dkim *run(const char *key, const char *tmpl, const char *names, char header, char body, size_t limit,
    const char *message, const struct dkim_policy *p, const char *zone)
{
	struct buf m = BUF_INIT(1 << 20);
	buf_addz(&m, message);
	lab_sign(&m, &(struct lab_sign){ "DKIM-Signature", key, names, tmpl, header, body, strstr(tmpl, "sha1") ? 1 : 256, limit });
	struct dkim *d = lab_verify(buf_str(&m), p, zone, 3);
	buf_free(&m);
	return d;
}

struct one {
	const char *tmpl;
	const char *record; /* with %s for p=…; NULL: "v=DKIM1; %s" */
	enum dkim_result result;
	const char *reason; /* a part of it, or NULL */
	enum dkim_result raw;
};

static struct dkim_keys *keys;

static void check_once(const struct one *c, const char *key, const struct dkim_policy *p, char header, char body, size_t limit)
{
	char record[3000], fmt[300];
	snprintf(fmt, sizeof fmt, "s._domainkey.example.org %s", c->record ? c->record : "v=DKIM1; %s");
	put(record, sizeof record, fmt, lab_p(key));
	struct dkim *d = run(key, c->tmpl, "from:to:subject", header, body, limit, HEAD BODY, p, record);
	assert_int_equal(dkim_n(d), 1);
	const struct dkim_signature *s = dkim_signature(d, 0);
	if (s->result != c->result || s->raw != c->raw || (c->reason && !strstr(s->reason, c->reason)) ||
	    (s->result == DKIM_PASS) != !*s->reason)
		fail_msg("%s / %s: %s (%s), raw %s", c->tmpl, record, dkim_result_name(s->result), s->reason, dkim_result_name(s->raw));
	dkim_release(d);
}

/* With keys read anew, with such as were kept of other cases, and with its own. */
static void check(const struct one *c, const char *key, const struct dkim_policy *p, char header, char body, size_t limit)
{
	struct dkim_policy with = p ? *p : (struct dkim_policy){ 0 };
	check_once(c, key, p, header, body, limit);
	if (!keys)
		keys = dkim_keys_new();
	assert_non_null(with.keys = keys);
	check_once(c, key, &with, header, body, limit);
	check_once(c, key, &with, header, body, limit);
}

#define V "v=1; a=rsa-sha256; "
#define PASSES DKIM_PASS, NULL, DKIM_PASS

static void signature_tags(void **st)
{
	static const struct one c[] = {
		{ V MINIMAL, NULL, PASSES },
		{ V "c=simple/simple; q=dns/txt; t=1600000000; x=1800000000; z=From:x|To:y; unknown=1; " MINIMAL, NULL, PASSES },
		{ V "i=@example.org; " MINIMAL, NULL, PASSES },
		{ V "i=x@sub.Example.ORG; " MINIMAL, NULL, PASSES },
		{ V "i=a=40b@example=2Eorg; " MINIMAL, NULL, PASSES },
		{ V "q=foo/bar : dns/txt; " MINIMAL, NULL, PASSES },
		{ V "x=99999999999999999999999; " MINIMAL, NULL, PASSES },
		{ V "x=1699999900; " MINIMAL, NULL, PASSES }, /* within DKIM_EARLY_X */
		{ "a=rsa-sha256; " MINIMAL, NULL, DKIM_PERMERROR, "v= is missing", 0 },
		{ "v=2; a=rsa-sha256; " MINIMAL, NULL, DKIM_NEUTRAL, "v=", 0 },
		{ "v=1.0; a=rsa-sha256; " MINIMAL, NULL, DKIM_NEUTRAL, "v=", 0 },
		{ "v=1; " MINIMAL, NULL, DKIM_PERMERROR, "a= is missing", 0 },
		{ "v=1; a=rsa-sha512; " MINIMAL, NULL, DKIM_NEUTRAL, "a=", 0 },
		{ "v=1; a=RSA-SHA256; " MINIMAL, NULL, DKIM_NEUTRAL, "a=", 0 },
		{ "v=1; a=rsa-sha1; " MINIMAL, NULL, DKIM_POLICY, "rsa-sha1", 0 },
		{ V "c=other; " MINIMAL, NULL, DKIM_NEUTRAL, "c=", 0 },
		{ V "c=simple/other; " MINIMAL, NULL, DKIM_NEUTRAL, "c=", 0 },
		{ V "c=; " MINIMAL, NULL, DKIM_NEUTRAL, "c=", 0 },
		{ V "q=dns; " MINIMAL, NULL, DKIM_NEUTRAL, "q=", 0 },
		{ V "t=-1; " MINIMAL, NULL, DKIM_NEUTRAL, "t=", 0 },
		{ V "t=; " MINIMAL, NULL, DKIM_NEUTRAL, "t=", 0 },
		{ V "t=1700090000; " MINIMAL, NULL, DKIM_NEUTRAL, "future", 0 },
		{ V "x=1600000000; " MINIMAL, NULL, DKIM_PERMERROR, "expired", 0 },
		{ V "t=1600000001; x=1600000001; " MINIMAL, NULL, DKIM_NEUTRAL, "x=", 0 },
		{ V "l=x; " MINIMAL, NULL, DKIM_NEUTRAL, "l=", 0 },
		{ V "i=a@example.net; " MINIMAL, NULL, DKIM_PERMERROR, "i=", 0 },
		{ V "i=a@badexample.org; " MINIMAL, NULL, DKIM_PERMERROR, "i=", 0 },
		{ V "i=example.org; " MINIMAL, NULL, DKIM_NEUTRAL, "i=", 0 },
		{ V "i=a=0D=0Ab@example.org; " MINIMAL, NULL, DKIM_NEUTRAL, "i=", 0 },
		{ V "d=example.org; d=example.org; s=s; h=from; bh=@BH@; b=@B@", NULL, DKIM_NEUTRAL, "twice", 0 },
		{ V "d=; s=s; h=from; bh=@BH@; b=@B@", NULL, DKIM_NEUTRAL, "d=", 0 },
		{ V "d=org; s=s; h=from; bh=@BH@; b=@B@", NULL, DKIM_NEUTRAL, "d=", 0 },
		{ V "d=exa mple.org; s=s; h=from; bh=@BH@; b=@B@", NULL, DKIM_NEUTRAL, "d=", 0 },
		{ V "d=a..org; s=s; h=from; bh=@BH@; b=@B@", NULL, DKIM_NEUTRAL, "d=", 0 },
		{ V "d=example.org; s=; h=from; bh=@BH@; b=@B@", NULL, DKIM_NEUTRAL, "s=", 0 },
		{ V "d=example.org; s=s; h=; bh=@BH@; b=@B@", NULL, DKIM_NEUTRAL, "h=", 0 },
		{ V "d=example.org; s=s; h=from::to; bh=@BH@; b=@B@", NULL, DKIM_NEUTRAL, "h=", 0 },
		{ V "d=example.org; s=s; h=from to; bh=@BH@; b=@B@", NULL, DKIM_NEUTRAL, "h=", 0 },
		{ V "d=example.org; s=s; h=to:subject; bh=@BH@; b=@B@", NULL, DKIM_PERMERROR, "From", 0 },
		{ V "d=example.org; s=s; h=from; bh=; b=@B@", NULL, DKIM_NEUTRAL, "bh=", 0 },
		{ V "d=example.org; s=s; h=from; bh=@BH@; b=", NULL, DKIM_NEUTRAL, "b=", 0 },
		{ V "d=example.org; s=s; h=from; bh=@BH@; b=???", NULL, DKIM_NEUTRAL, "b=", 0 },
		{ V "d=example.org; s=s; h=from:to:subject; bh=YWJj; b=@B@", NULL, DKIM_FAIL, "body", DKIM_FAIL },
		{ V "d=example.org; s=s; h=from:to:subject; bh=@BH@; b=YWJj", NULL, DKIM_FAIL, "header", DKIM_FAIL },
		{ V "d=example.org; s=s; h=subject:to:from; bh=@BH@; b=@B@", NULL, DKIM_FAIL, "header", DKIM_FAIL },
		{ "synerr", NULL, DKIM_NEUTRAL, "tag", 0 },
		{ V, NULL, DKIM_PERMERROR, "missing", 0 },
	};
	static const struct dkim_policy p = { .now = NOW };
	(void)st;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++)
		check(&c[i], "rsa2048", &p, 's', 's', SIZE_MAX);
}

static void key_records(void **st)
{
	static const struct one c[] = {
		{ V MINIMAL, "%s", PASSES },
		{ V MINIMAL, "v=DKIM1;k=rsa;h=sha1 : sha256;n=some note;s=*;t=y;%s;x=y", PASSES },
		{ V MINIMAL, "v=DKIM1; s=other:email; t=s:z; %s", PASSES },
		{ V MINIMAL, "v=DKIM1; g=; %s", PASSES }, /* g= means nothing since RFC 6376 */
		{ V "i=a@sub.example.org; " MINIMAL, "v=DKIM1; t=s; %s", DKIM_PERMERROR, "d= itself", 0 },
		{ V "i=a@example.org; " MINIMAL, "v=DKIM1; t=s; %s", PASSES },
		{ V MINIMAL, "v=DKIM2; %s", DKIM_PERMERROR, "version", 0 },
		{ V MINIMAL, "k=rsa; v=DKIM1; %s", DKIM_PERMERROR, "version", 0 },
		{ V MINIMAL, "v=DKIM1; k=ed25519; %s", DKIM_PERMERROR, "type", 0 },
		{ V MINIMAL, "v=DKIM1; k=; %s", DKIM_PERMERROR, "type", 0 },
		{ V MINIMAL, "v=DKIM1; h=sha1; %s", DKIM_PERMERROR, "hash", 0 },
		{ V MINIMAL, "v=DKIM1; s=tlsrpt; %s", DKIM_PERMERROR, "mail", 0 },
		{ V MINIMAL, "v=DKIM1; p=", DKIM_PERMERROR, "revoked", 0 },
		{ V MINIMAL, "v=DKIM1; k=rsa", DKIM_PERMERROR, "p=", 0 },
		{ V MINIMAL, "v=DKIM1; p=!", DKIM_PERMERROR, "p=", 0 },
		{ V MINIMAL, "v=DKIM1; p=YWJj", DKIM_PERMERROR, "RSA", 0 },
		{ V MINIMAL, "v=DKIM1; %s; v=DKIM1", DKIM_PERMERROR, "tag list", 0 },
		{ V MINIMAL, "nonsense", DKIM_PERMERROR, "tag list", 0 },
		{ V MINIMAL, "!", DKIM_TEMPERROR, "looked up", 0 },
		{ V MINIMAL, "v=DKIM1; p=MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBALgSoqXVSEmfcIsOzw7oRuCCOwsmtX/SJnTWxYyj2leFxfS/AVJ+dYfY+hXqMsT7l+MZvvh/"
			    "R1WzN4MO/kI/7XsCAwEAAQ==", DKIM_POLICY, "512 bits", 0 },
		{ V MINIMAL, "v=DKIM1; p=MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=", DKIM_PERMERROR, "RSA", 0 },
	};
	static const struct dkim_policy p = { .now = NOW };
	(void)st;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++)
		check(&c[i], "rsa2048", &p, 's', 's', SIZE_MAX);
	/* none at all; the wrong one */
	struct dkim *d = run("rsa2048", V MINIMAL, "from:to:subject", 's', 's', SIZE_MAX, HEAD BODY, &p, "");
	assert_int_equal(dkim_signature(d, 0)->result, DKIM_PERMERROR);
	assert_string_equal(dkim_signature(d, 0)->reason, "there is no key");
	dkim_release(d);
	d = run("rsa2048", V MINIMAL, "from:to:subject", 's', 's', SIZE_MAX, HEAD BODY, &p, zone_of("s._domainkey.example.org %s", lab_p("rsa1024")));
	assert_int_equal(dkim_signature(d, 0)->result, DKIM_FAIL);
	assert_int_equal(dkim_signature(d, 0)->bits, 1024);
	dkim_release(d);
	/* RSAPublicKey as it is */
	d = run("rsa2048", V MINIMAL, "from:to:subject", 's', 's', SIZE_MAX, HEAD BODY, &p, zone_of("s._domainkey.example.org %s", lab_p_pkcs1("rsa2048")));
	assert_int_equal(dkim_signature(d, 0)->result, DKIM_PASS);
	dkim_release(d);
}

/* Several records at one name: any that verifies does; else the one that says most. */
static void several_records(void **st)
{
	static const struct {
		const char *zone;
		enum dkim_result result;
		const char *reason;
	} c[] = {
		{ "k v=spf1 -all\nk %s", DKIM_PASS, "" },
		{ "k v=DKIM1; p=\nk %s", DKIM_PASS, "" },
		{ "k a=b\nk b=c\nk c=d\nk %s", DKIM_PASS, "" },
		{ "k a=b\nk b=c\nk c=d\nk d=e\nk %s", DKIM_PERMERROR, "the key record has no p=" }, /* DKIM_KEYS_MAX */
		{ "k junk\nk v=DKIM1; p=", DKIM_PERMERROR, "the key is revoked" },
	};
	(void)st;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		struct buf z = BUF_INIT(10000);
		for (const char *at = c[i].zone; *at; at++)
			if (!strncmp(at, "k ", 2))
				buf_addz(&z, "s._domainkey.example.org"), buf_addc(&z, ' '), at++;
			else if (!strncmp(at, "%s", 2))
				buf_addz(&z, lab_p("rsa2048")), at++;
			else
				buf_addc(&z, *at);
		struct dkim *d = run("rsa2048", V MINIMAL, "from:to:subject", 's', 's', SIZE_MAX, HEAD BODY, NULL, buf_z(&z));
		if (dkim_signature(d, 0)->result != c[i].result || strcmp(dkim_signature(d, 0)->reason, c[i].reason) != 0)
			fail_msg("%s: %s (%s)", c[i].zone, dkim_result_name(dkim_signature(d, 0)->result), dkim_signature(d, 0)->reason);
		dkim_release(d);
		buf_free(&z);
	}
}

static void algorithms(void **st)
{
	static const struct dkim_policy old = { .sha1 = true, .rsa_min = 512 };
	static const struct {
		const char *key, *tmpl, *record;
		const struct dkim_policy *p;
		enum dkim_result result;
	} c[] = {
		{ "ed25519", "v=1; a=ed25519-sha256; c=relaxed/relaxed; " MINIMAL, "k=ed25519; %s", NULL, DKIM_PASS },
		{ "ed25519", "v=1; a=ed25519-sha256; c=relaxed/relaxed; " MINIMAL, "%s", NULL, DKIM_PERMERROR },
		{ "rsa1024", V "c=relaxed/relaxed; " MINIMAL, NULL, NULL, DKIM_PASS },
		{ "rsa1016", V "c=relaxed/relaxed; " MINIMAL, NULL, NULL, DKIM_POLICY },
		{ "rsa512", V "c=relaxed/relaxed; " MINIMAL, NULL, NULL, DKIM_POLICY },
		{ "rsa512", V "c=relaxed/relaxed; " MINIMAL, NULL, &old, DKIM_PASS },
		{ "rsa512", V "c=relaxed/relaxed; " MINIMAL, NULL, NULL, DKIM_POLICY }, /* also when another policy had it kept */
		{ "rsa1024", "v=1; a=rsa-sha1; c=relaxed/relaxed; " MINIMAL, NULL, &old, DKIM_PASS },
		{ "rsa1024", "v=1; a=rsa-sha1; c=relaxed/relaxed; " MINIMAL, NULL, NULL, DKIM_POLICY },
	};
	(void)st;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		const struct one o = { c[i].tmpl, c[i].record, c[i].result, NULL, c[i].result == DKIM_PASS ? DKIM_PASS : DKIM_NONE };
		check(&o, c[i].key, c[i].p, 'r', 'r', SIZE_MAX);
	}
	static const struct dkim_policy small = { .rsa_max = 1024 };
	check(&(struct one){ V "c=relaxed/relaxed; " MINIMAL, NULL, DKIM_POLICY, "too long: 2048 bits", 0 }, "rsa2048", &small, 'r', 'r', SIZE_MAX);
	check(&(struct one){ V "c=relaxed; " MINIMAL, NULL, PASSES }, "rsa2048", NULL, 'r', 's', SIZE_MAX);
	check(&(struct one){ V "c=simple/relaxed; " MINIMAL, NULL, PASSES }, "rsa2048", NULL, 's', 'r', SIZE_MAX);
}

/* The simple body is "Hello  there \r\n\r\nmore\r\n": 23 octets. */
static void lengths(void **st)
{
	static const struct dkim_policy lax = { .partial = true };
	(void)st;
	check(&(struct one){ V "l=23; " MINIMAL, NULL, PASSES }, "rsa2048", NULL, 's', 's', 23);
	check(&(struct one){ V "l=22; " MINIMAL, NULL, DKIM_POLICY, "l=", DKIM_PASS }, "rsa2048", NULL, 's', 's', 22);
	check(&(struct one){ V "l=0; " MINIMAL, NULL, DKIM_POLICY, "l=", DKIM_PASS }, "rsa2048", NULL, 's', 's', 0);
	check(&(struct one){ V "l=22; " MINIMAL, NULL, PASSES }, "rsa2048", &lax, 's', 's', 22);
	check(&(struct one){ V "l=24; " MINIMAL, NULL, DKIM_FAIL, "shorter", DKIM_FAIL }, "rsa2048", &lax, 's', 's', SIZE_MAX);
	check(&(struct one){ V "l=99999999999999999999999999; " MINIMAL, NULL, DKIM_FAIL, "shorter", DKIM_FAIL }, "rsa2048", NULL, 's', 's', SIZE_MAX);
	check(&(struct one){ V "l=22; " MINIMAL, NULL, DKIM_FAIL, "body", DKIM_FAIL }, "rsa2048", NULL, 's', 's', 21);
}

/* Signed once, then changed. */
static void selection(void **st)
{
	static const struct {
		const char *names, *before, *after; /* the message is headers + BODY */
		enum dkim_result result;
	} c[] = {
		{ "from:to", "From: a@b.c\r\nTo: x\r\n", "From: a@b.c\r\nTo: x\r\n", DKIM_PASS },
		{ "from:to", "From: a@b.c\r\nTo: x\r\n", "To: x\r\nOther: y\r\nFrom: a@b.c\r\n", DKIM_PASS },
		{ "from:to", "From: a@b.c\r\n", "From: a@b.c\r\nTo: added\r\n", DKIM_FAIL },
		{ "from:to:to", "From: a@b.c\r\nTo: x\r\n", "To: added\r\nFrom: a@b.c\r\nTo: x\r\n", DKIM_FAIL },
		{ "from:to", "From: a@b.c\r\nTo: x\r\n", "To: added\r\nFrom: a@b.c\r\nTo: x\r\n", DKIM_PASS },
		{ "from:to", "From: a@b.c\r\nTo: x\r\n", "From: a@b.c\r\nTo: x\r\nTo: added\r\n", DKIM_FAIL },
		{ "from", "From: a@b.c\r\n", "From: evil@b.c\r\nFrom: a@b.c\r\n", DKIM_POLICY },
		{ "from:from", "From: a@b.c\r\n", "From: evil@b.c\r\nFrom: a@b.c\r\n", DKIM_FAIL },
		{ "from:from", "From: x@b.c\r\nFrom: a@b.c\r\n", "From: x@b.c\r\nFrom: a@b.c\r\n", DKIM_PASS },
		{ "from", "From: a@b.c\r\n", "X: y\r\n", DKIM_PERMERROR },
		{ "from:received:received", "Received: 1\r\nReceived: 2\r\nFrom: a@b.c\r\n", "Received: 0\r\nReceived: 1\r\nReceived: 2\r\nFrom: a@b.c\r\n",
		    DKIM_PASS },
		{ "from:dkim-signature", "From: a@b.c\r\n", "From: a@b.c\r\n", DKIM_PASS }, /* never the one being verified */
		{ "from", "From: a@b.c\r\n", "garbage without colon\r\nFrom: a@b.c\r\n", DKIM_PASS },
	};
	(void)st;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		struct buf m = BUF_INIT(10000), changed = BUF_INIT(10000);
		char tmpl[200];
		snprintf(tmpl, sizeof tmpl, V "d=example.org; s=s; h=%s; bh=@BH@; b=@B@", c[i].names);
		buf_addf(&m, "%s%s", c[i].before, BODY);
		lab_sign(&m, &(struct lab_sign){ "DKIM-Signature", "rsa1024", c[i].names, tmpl, 's', 's', 256, SIZE_MAX });
		buf_adds(&changed, str_n(m.p, m.n - strlen(c[i].before) - strlen(BODY)));
		buf_addf(&changed, "%s%s", c[i].after, BODY);
		struct dkim *d = lab_verify(buf_str(&changed), NULL, zone_of("s._domainkey.example.org %s", lab_p("rsa1024")), 2);
		if (dkim_signature(d, 0)->result != c[i].result)
			fail_msg("%s over %s: %s (%s)", c[i].names, c[i].after, dkim_result_name(dkim_signature(d, 0)->result),
			    dkim_signature(d, 0)->reason);
		dkim_release(d);
		buf_free(&m);
		buf_free(&changed);
	}
}

static void properties(void **st)
{
	struct buf m = BUF_INIT(100000);
	(void)st;
	buf_addz(&m, HEAD BODY);
	for (int i = 0; i < 12; i++)
		lab_sign(&m, &(struct lab_sign){ "DKIM-Signature", "ed25519", "from", i == 11 ?
			"v=1; a=ed25519-sha256; t=1600000000; x=1900000000; d=Example.ORG; s=S; i=\"x y\"@A.Example.org; h=from; bh=@BH@; b=@B@" :
			"v=1; a=ed25519-sha256; d=example.org; s=s; h=from; bh=@BH@; b=@B@", 's', 's', 256, SIZE_MAX });
	struct dkim *d = lab_verify(buf_str(&m), NULL, zone_of("s._domainkey.example.org k=ed25519; t=y; %s", lab_p("ed25519")), 4);
	assert_int_equal(dkim_n(d), DKIM_SIGNATURES_MAX);
	assert_int_equal(dkim_n_ignored(d), 2);
	assert_null(dkim_signature(d, DKIM_SIGNATURES_MAX));
	const struct dkim_signature *s = dkim_signature(d, 0);
	assert_int_equal(s->result, DKIM_PASS);
	assert_true(s->testing);
	assert_true(str_eq(s->algorithm, STR("ed25519-sha256")) && str_eq(s->domain, STR("example.org")) && str_eq(s->selector, STR("s")));
	assert_true(str_eq(s->identity, STR("\"xy\"@a.example.org"))); /* white space in i= means nothing */
	assert_true(str_eq(dkim_signature(d, 1)->identity, STR("@example.org")));
	assert_int_equal(s->t, 1600000000);
	assert_int_equal(s->x, 1900000000);
	assert_true(s->b.n >= 8);
	assert_int_equal(dkim_arc(d)->result, DKIM_NONE);
	dkim_release(d);
	buf_free(&m);
	/* none */
	d = lab_verify(STR(HEAD BODY), NULL, "", 1);
	assert_int_equal(dkim_n(d), 0);
	assert_false(dkim_wants_body(d));
	dkim_release(d);
	d = lab_verify(STR(""), NULL, "", 1);
	assert_int_equal(dkim_n(d), 0);
	dkim_release(d);
	dkim_release(NULL);
	/* too large a header block is never half read */
	struct buf big = BUF_INIT(DKIM_HEADERS_MAX + 1000);
	while (big.n <= DKIM_HEADERS_MAX)
		buf_addz(&big, "X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
			       "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n");
	d = lab_verify(buf_str(&big), &(struct dkim_policy){ .arc = true }, "", 1);
	assert_int_equal(dkim_n(d), 1);
	assert_int_equal(dkim_signature(d, 0)->result, DKIM_POLICY);
	assert_int_equal(dkim_arc(d)->result, DKIM_FAIL);
	dkim_release(d);
	buf_free(&big);
}

/* RFC 8616: U-labels in d= and s=, UTF-8 in i=. */
static void international(void **st)
{
	(void)st;
	struct dkim *d = run("rsa1024", V "i=\xc3\xa4@m\xc3\xbcller.example; d=m\xc3\xbcller.example; s=\xc3\xb6; h=from; bh=@BH@; b=@B@", "from", 's', 's',
	    SIZE_MAX, HEAD BODY, NULL, zone_of("xn--nda._domainkey.xn--mller-kva.example %s", lab_p("rsa1024")));
	assert_string_equal(dkim_signature(d, 0)->reason, "");
	assert_true(str_eq(dkim_signature(d, 0)->domain, STR("xn--mller-kva.example")));
	assert_true(str_eq(dkim_signature(d, 0)->identity, STR("\xc3\xa4@xn--mller-kva.example")));
	dkim_release(d);
}

static int teardown(void **st)
{
	(void)st;
	lab_end();
	dkim_keys_free(keys);
	return 0;
}

/* A key that is kept is prepared once: what it said of one signature says nothing of the next. */
static void kept_key_again(void **st)
{
	static const char tmpl[] = "v=1; a=rsa-sha256; c=simple/simple; d=example.org; s=s; h=from; bh=@BH@; b=@B@";
	struct dkim_keys *kept = dkim_keys_new();
	const struct dkim_policy p = { .keys = kept };
	const char *zone = zone_of("s._domainkey.example.org %s", lab_p("rsa2048"));
	(void)st;
	for (unsigned i = 0; i < 6; i++) {
		struct buf m = BUF_INIT(1 << 20);
		buf_addz(&m, HEAD BODY);
		lab_sign(&m, &(struct lab_sign){ "DKIM-Signature", i % 3 == 1 ? "rsa1024" : "rsa2048", "from", tmpl, 's', 's', 256, SIZE_MAX });
		struct dkim *d = lab_verify(buf_str(&m), &p, zone, 3);
		assert_int_equal(dkim_signature(d, 0)->result, i % 3 == 1 ? DKIM_FAIL : DKIM_PASS);
		dkim_release(d);
		buf_free(&m);
	}
	dkim_keys_free(kept);
}

/* So many and no more; what is used stays; a text is kept for its kind of key only. */
static void kept_keys(void **st)
{
	struct dkim_keys *k = dkim_keys_new();
	char text[3000];
	unsigned bits;
	(void)st;
	assert_non_null(k);
	for (unsigned i = 0; i < 400; i++) {
		unsigned char octets[32] = { (unsigned char)i, (unsigned char)(i >> 8), 1 };
		struct dkim_pkey *pkey = dkim_pkey_new(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, octets, 32)), *got;
		assert_non_null(pkey);
		snprintf(text, sizeof text, "key %u", i);
		assert_null(dkim_keys_get(k, str_from(text), true, &bits));
		dkim_keys_put(k, str_from(text), true, i, pkey);
		assert_ptr_equal(got = dkim_keys_get(k, str_from(text), true, &bits), pkey);
		assert_int_equal(bits, i);
		dkim_pkey_unref(got);
		assert_null(dkim_keys_get(k, str_from(text), false, &bits));
		assert_non_null(got = dkim_keys_get(k, STR("key 0"), true, &bits));
		dkim_pkey_unref(got);
		dkim_pkey_unref(pkey);
	}
	unsigned there = 0;
	for (unsigned i = 0; i < 400; i++) {
		snprintf(text, sizeof text, "key %u", i);
		struct dkim_pkey *got = dkim_keys_get(k, str_from(text), true, &bits);
		assert_int_equal(got != NULL, !i || i > 400 - 256);
		there += got != NULL;
		if (!there || i == 399) { /* what is too long is not kept */
			memset(text, 'x', sizeof text);
			dkim_keys_put(k, str_n(text, sizeof text), true, 1, got);
			assert_null(dkim_keys_get(k, str_n(text, sizeof text), true, &bits));
		}
		dkim_pkey_unref(got);
	}
	assert_int_equal(there, 256);
	dkim_keys_free(k);
	dkim_keys_free(NULL);
	assert_null(dkim_keys_get(NULL, STR("x"), true, &bits));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signature_tags),
		cmocka_unit_test(key_records),
		cmocka_unit_test(several_records),
		cmocka_unit_test(algorithms),
		cmocka_unit_test(kept_key_again), cmocka_unit_test(kept_keys),
		cmocka_unit_test(lengths),
		cmocka_unit_test(selection),
		cmocka_unit_test(properties),
		cmocka_unit_test(international),
	};
	return cmocka_run_group_tests(tests, NULL, teardown);
}
