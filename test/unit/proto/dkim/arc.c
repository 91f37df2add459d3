/* ARC chains made here and then broken, one rule at a time. */
#include "lab.h"

#include "proto/mail/header.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MESSAGE "From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject: x\r\n\r\nHello\r\n"

static const struct dkim_policy with_arc = { .now = 1700000000, .arc = true };

static const char *zone(void)
{
	static char z[8000];
	snprintf(z, sizeof z, "s._domainkey.example.org v=DKIM1; %s\nother._domainkey.example.net k=ed25519; %s\nweak._domainkey.example.org %s\n"
			      "down._domainkey.example.org !",
	    lab_p("rsa1024"), lab_p("ed25519"), lab_p("rsa512"));
	return z;
}

/* One more set. cv NULL: what it ought to be. more: further tags of the seal. */
static void add_set(struct buf *m, unsigned i, const char *cv, const char *domain, const char *selector, const char *more)
{
	bool ed = !strcmp(selector, "other");
	const char *key = ed ? "ed25519" : !strcmp(selector, "weak") ? "rsa512" : "rsa1024", *alg = ed ? "ed25519-sha256" : "rsa-sha256";
	char ams[400], as[400], aar[200];
	struct buf front = BUF_INIT(1 << 24);
	snprintf(aar, sizeof aar, "ARC-Authentication-Results: i=%u; mx.example.org;\r\n spf=pass", i);
	snprintf(ams, sizeof ams, "i=%u; a=%s; c=relaxed/relaxed; d=%s; s=%s; h=from:to:subject; bh=@BH@; b=@B@", i, alg, domain, selector);
	snprintf(as, sizeof as, "i=%u; a=%s; cv=%s; d=%s; s=%s; %sb=@B@", i, alg, cv ? cv : i == 1 ? "none" : "pass", domain, selector, more);
	lab_sign(m, &(struct lab_sign){ "ARC-Message-Signature", key, "from:to:subject", ams, 'r', 'r', 256, SIZE_MAX });
	buf_addf(&front, "%s\r\n", aar);
	buf_adds(&front, buf_str(m));
	buf_free(m);
	*m = front;
	lab_seal(m, i, key, as);
}

static void expect(struct str message, enum dkim_result want, const char *reason)
{
	struct dkim *d = lab_verify(message, &with_arc, zone(), 3);
	const struct arc_result *r = dkim_arc(d);
	if (r->result != want || (reason && !strstr(r->reason, reason)))
		fail_msg("%s (%s), wanted %s (%s)", dkim_result_name(r->result), r->reason, dkim_result_name(want), reason ? reason : "");
	dkim_release(d);
}

static void chains(void **st)
{
	struct buf m = BUF_INIT(1 << 20);
	(void)st;
	buf_addz(&m, MESSAGE);
	expect(buf_str(&m), DKIM_NONE, "");
	for (unsigned i = 1; i <= 4; i++) {
		add_set(&m, i, NULL, i % 2 ? "example.org" : "example.net", i % 2 ? "s" : "other", "");
		struct dkim *d = lab_verify(buf_str(&m), &with_arc, zone(), 1 + i % 2);
		const struct arc_result *r = dkim_arc(d);
		assert_string_equal(r->reason, "");
		assert_int_equal(r->result, DKIM_PASS);
		assert_int_equal(r->n, i);
		assert_int_equal(r->oldest_pass, 0);
		assert_true(r->oldest_known);
		assert_true(str_eq(r->set[0].seal_domain, STR("example.org")) && str_eq(r->set[0].results, STR("mx.example.org; spf=pass")));
		assert_int_equal(r->set[i - 1].cv, i == 1 ? DKIM_NONE : DKIM_PASS);
		assert_int_equal(r->set[i - 1].message, DKIM_PASS);
		dkim_release(d);
	}
	/* The list changes the message, then seals: older message signatures fail, the chain holds. */
	struct buf changed = BUF_INIT(1 << 20);
	buf_adds(&changed, buf_str(&m));
	buf_addz(&changed, "-- \r\nfooter\r\n");
	expect(buf_str(&changed), DKIM_FAIL, "ARC-Message-Signature 4: the body");
	add_set(&changed, 5, NULL, "example.org", "s", "");
	struct dkim *d = lab_verify(buf_str(&changed), &with_arc, zone(), 2);
	assert_int_equal(dkim_arc(d)->result, DKIM_PASS);
	assert_int_equal(dkim_arc(d)->oldest_pass, 5);
	assert_true(dkim_arc(d)->oldest_known);
	assert_int_equal(dkim_arc(d)->set[0].message, DKIM_FAIL);
	dkim_release(d);
	buf_free(&m);
	buf_free(&changed);
}

static void seals(void **st)
{
	static const struct {
		unsigned n;
		const char *cv, *domain, *selector, *more, *reason;
	} c[] = {
		{ 1, "pass", "example.org", "s", "", "cv= is not \"none\"" },
		{ 2, "none", "example.org", "s", "", "cv= is not \"pass\"" },
		{ 2, "fail", "example.org", "s", "", "had failed" },
		{ 1, "maybe", "example.org", "s", "", "cv=" },
		{ 1, NULL, "example.org", "s", "h=from; ", "h=" },
		{ 1, NULL, "example.org", "weak", "", "too short: 512 bits" },
		{ 1, NULL, "example.org", "missing", "", "no key" },
		{ 1, NULL, "example.org", "down", "", "looked up" },
	};
	(void)st;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		struct buf m = BUF_INIT(1 << 20);
		buf_addz(&m, MESSAGE);
		for (unsigned k = 1; k < c[i].n; k++)
			add_set(&m, k, NULL, "example.org", "s", "");
		add_set(&m, c[i].n, c[i].cv, c[i].domain, c[i].selector, c[i].more);
		struct dkim *d = lab_verify(buf_str(&m), &with_arc, zone(), 3);
		assert_int_equal(dkim_arc(d)->temporary, !strcmp(c[i].selector, "down"));
		dkim_release(d);
		expect(buf_str(&m), DKIM_FAIL, c[i].reason);
		buf_free(&m);
	}
}

/* Replaces the first `what` by `with`. */
static void replace(struct buf *m, const char *what, const char *with)
{
	struct buf out = BUF_INIT(1 << 20);
	char *at = memmem(m->p, m->n, what, strlen(what));
	assert_non_null(at);
	size_t k = (size_t)(at - m->p);
	buf_add(&out, m->p, k);
	buf_addz(&out, with);
	buf_add(&out, at + strlen(what), m->n - k - strlen(what));
	buf_free(m);
	*m = out;
}

static void structure(void **st)
{
	static const struct {
		const char *what, *with; /* in a chain of two, the second in front */
		bool pass;
	} c[] = {
		{ "ARC-Seal: i=2;", "arc-seal  :   i=2;", true }, /* relaxed */
		{ "ARC-Authentication-Results: i=2;", "ARC-Authentication-Results: (a (b\\) c)) i = 2 ;", false }, /* sealed */
		{ "ARC-Seal: i=2;", "ARC-Seal: i=1;", false },
		{ "ARC-Seal: i=2;", "ARC-Seal: i=3;", false },
		{ "ARC-Seal: i=2;", "ARC-Seal: i=0;", false },
		{ "ARC-Seal: i=2;", "ARC-Seal: i=02;", false },
		{ "ARC-Seal: i=2;", "ARC-Seal: i=51;", false },
		{ "ARC-Seal: i=2;", "ARC-Seal: i=;", false },
		{ "ARC-Seal: i=2;", "ARC-Seal:", false },
		{ "ARC-Seal: i=2;", "X-Seal: i=2;", false },
		{ "ARC-Message-Signature: i=2;", "X: i=2;", false },
		{ "ARC-Message-Signature: i=2;", "ARC-Message-Signature: i=1;", false },
		{ "ARC-Authentication-Results: i=2;", "X: i=2;", false },
		{ "ARC-Authentication-Results: i=2;", "ARC-Authentication-Results: i=1;", false },
		{ "ARC-Authentication-Results: i=2;", "ARC-Authentication-Results: x; i=2;", false },
		{ "ARC-Authentication-Results: i=2;", "ARC-Authentication-Results: i=2", false },
		{ "ARC-Seal: i=2;", "ARC-Seal: i=2; i=2;", false },
		{ "From: Ann", "From: Eve", false },
		{ "spf=pass", "spf=fail", false },
		{ "ARC-Seal: i=2;", "ARC-Seal: i=2; a=rsa-sha1; i=2;", false },
	};
	(void)st;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		struct buf m = BUF_INIT(1 << 20);
		buf_addz(&m, MESSAGE);
		add_set(&m, 1, NULL, "example.org", "s", "");
		add_set(&m, 2, NULL, "example.net", "other", "");
		expect(buf_str(&m), DKIM_PASS, "");
		replace(&m, c[i].what, c[i].with);
		struct dkim *d = lab_verify(buf_str(&m), &with_arc, zone(), 5);
		if ((dkim_arc(d)->result == DKIM_PASS) != c[i].pass || dkim_arc(d)->result == DKIM_NONE)
			fail_msg("%s -> %s: %s (%s)", c[i].what, c[i].with, dkim_result_name(dkim_arc(d)->result), dkim_arc(d)->reason);
		dkim_release(d);
		buf_free(&m);
	}
}

/* A From field that the newest message signature leaves out beside one that it has is one that nobody vouches for. */
static void second_from(void **st)
{
	static const char *const where[] = { "", "To: bob@example.net\r\n", "Subject: x\r\n" };
	(void)st;
	for (size_t i = 0; i < sizeof where / sizeof *where; i++) {
		char with[120];
		struct buf m = BUF_INIT(1 << 20), more = BUF_INIT(1 << 20);
		buf_addz(&m, MESSAGE);
		add_set(&m, 1, NULL, "example.org", "s", "");
		if (where[i][0]) { /* below the signed one it is another that is hashed */
			snprintf(with, sizeof with, "%sFrom: eve@example.org\r\n", where[i]);
			replace(&m, where[i], with);
			expect(buf_str(&m), DKIM_FAIL, "ARC-Message-Signature 1: ");
		} else {
			buf_addz(&more, "From: eve@example.org\r\n");
			buf_adds(&more, buf_str(&m));
			expect(buf_str(&more), DKIM_FAIL, "ARC-Message-Signature 1: a From field is not signed");
		}
		buf_free(&m);
		buf_free(&more);
	}
}

static void limits(void **st)
{
	struct buf m = BUF_INIT(1 << 22);
	(void)st;
	buf_addz(&m, MESSAGE);
	for (unsigned i = 1; i <= ARC_SETS_MAX; i++)
		add_set(&m, i, NULL, "example.net", "other", "");
	expect(buf_str(&m), DKIM_PASS, "");
	add_set(&m, 51, NULL, "example.net", "other", "");
	expect(buf_str(&m), DKIM_FAIL, "51 ARC-Seal");
	buf_free(&m);
}

static int teardown(void **st)
{
	(void)st;
	lab_end();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chains),
		cmocka_unit_test(seals),
		cmocka_unit_test(structure),
		cmocka_unit_test(second_from),
		cmocka_unit_test(limits),
	};
	return cmocka_run_group_tests(tests, NULL, teardown);
}
