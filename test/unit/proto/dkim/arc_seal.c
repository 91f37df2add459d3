/* Sealing: what is made holds for the verifier, hop by hop and with both algorithms; what may not be sealed is not; fields are laid out as mail wants them;
 * and cost is that of the size. (The signing half of the ARC suite: vectors/arc.) */
#include "lab.h"

#include "proto/auth/authres.h"
#include "proto/dkim/arc_seal.h"
#include "proto/mail/header.h"
#include "proto/mail/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../cost.h"

static const char plain[] = "Authentication-Results: mx.example.test; spf=pass smtp.mailfrom=a.test;\r\n\tdkim=pass (2048-bit key) header.d=a.test; dmarc=pass header.from=a.test\r\n"
			    "Received: from a by b; Mon, 30 Nov 2026 21:00:00 +0000\r\nDKIM-Signature: v=1; a=rsa-sha256; d=a.test; s=s; h=from; bh=AAAA; b=AAAA\r\n"
			    "From: Ann <ann@a.test>\r\nTo: b@c.test\r\nSubject: a  subject\r\n\tthat is folded\r\nDate: Mon, 30 Nov 2026 21:00:00 +0000\r\nMessage-ID: <1@a.test>\r\n";
static const char hello[] = "hello\r\n\r\n  you \t x\r\n\r\n";

struct sealer {
	struct dkim_private *key;
	struct buf record;
	const char *domain;
};

static void sealer_make(struct sealer *s, const char *kind, const char *domain)
{
	const char *why;
	s->domain = domain;
	s->record = (struct buf)BUF_INIT(2048);
	assert_int_equal(dkim_private_make(kind, &s->key, &why), 0);
	assert_int_equal(dkim_private_record(s->key, &s->record), 0);
}

static void sealer_free(struct sealer *s)
{
	dkim_private_free(s->key);
	buf_free(&s->record);
}

/* Puts a set on top; NULL, or why not. */
static const char *put_set(struct buf *headers, const char *body, const struct sealer *by, enum dkim_result cv)
{
	struct buf results = BUF_INIT(64 << 10), set = BUF_INIT(4 << 20);
	struct arc_place at = arc_place(buf_str(headers));
	struct arc_seal how = { .domain = str_from(by->domain), .selector = STR("s"), .key = by->key, .now = 1796072400, .instance = at.instance, .cv = cv };
	const char *why = at.why;
	size_t n;
	if (!why) {
		assert_int_equal(authres_arc(&results, at.instance, STR("mx.example.test"), buf_str(headers), &n), 0);
		how.results = buf_str(&results);
		if (!arc_seal(&how, buf_str(headers), str_from(body), &set, &why)) {
			assert_true(arc_seal_holds(&how, buf_str(&by->record), buf_str(&set), buf_str(headers), str_from(body)));
			assert_false(arc_seal_holds(&how, buf_str(&by->record), buf_str(&set), buf_str(headers), STR("another body\r\n")));
			assert_false(arc_seal_holds(&how, STR("v=DKIM1; p=AAAA"), buf_str(&set), buf_str(headers), str_from(body)));
			why = NULL;
			buf_adds(&set, buf_str(headers));
			buf_reset(headers);
			buf_adds(headers, buf_str(&set));
		}
	}
	buf_free(&results);
	buf_free(&set);
	return why;
}

/* The chain's result, by all keys. */
static enum dkim_result judged(const struct buf *headers, const char *body, const struct sealer *by, size_t n, unsigned *ret_n)
{
	struct buf m = BUF_INIT(8 << 20), zone = BUF_INIT(8192);
	for (size_t i = 0; i < n; i++)
		buf_addf(&zone, "%ss._domainkey.%s %s", i ? "\n" : "", by[i].domain, buf_z((struct buf *)&by[i].record));
	buf_adds(&m, buf_str(headers));
	buf_addf(&m, "\r\n%s", body);
	struct dkim *d = lab_verify(buf_str(&m), &(struct dkim_policy){ .arc = true }, buf_z(&zone), 7);
	enum dkim_result r = dkim_arc(d)->result;
	if (ret_n)
		*ret_n = dkim_arc(d)->n;
	if (r != DKIM_PASS)
		print_message("%s\n", dkim_arc(d)->reason);
	dkim_release(d);
	buf_free(&m);
	buf_free(&zone);
	return r;
}

static void chains(void **st)
{
	static const char *const kinds[] = { "rsa2048", "ed25519" };
	(void)st;
	for (size_t k = 0; k < 2; k++) {
		struct sealer by[2];
		struct buf h = BUF_INIT(4 << 20);
		unsigned n;
		sealer_make(&by[0], kinds[k], "a.test");
		sealer_make(&by[1], kinds[1 - k], "b.test");
		buf_addz(&h, plain);
		for (unsigned i = 1; i <= ARC_SETS_MAX; i++) {
			const char *why = put_set(&h, hello, &by[i % 2], i == 1 ? DKIM_NONE : DKIM_PASS);
			if (why)
				fail_msg("set %u: %s", i, why);
			if (i < 4 || i == ARC_SETS_MAX) {
				assert_int_equal(judged(&h, hello, by, 2, &n), DKIM_PASS);
				assert_int_equal(n, i);
			}
		}
		assert_string_equal(put_set(&h, hello, &by[0], DKIM_PASS), "its chain has fifty sets");
		assert_int_equal(judged(&h, "changed\r\n", by, 2, &n), DKIM_FAIL);
		buf_free(&h);
		sealer_free(&by[0]);
		sealer_free(&by[1]);
	}
}

static void failed_chains(void **st)
{
	struct sealer by;
	struct buf h = BUF_INIT(1 << 20);
	unsigned n;
	(void)st;
	sealer_make(&by, "rsa2048", "a.test");
	buf_addz(&h, plain);
	assert_null(put_set(&h, hello, &by, DKIM_NONE));
	assert_null(put_set(&h, "changed\r\n", &by, DKIM_FAIL));
	assert_non_null(memmem(h.p, h.n, "cv=fail; d=a.test; i=2;", 23) ? h.p : memmem(h.p, h.n, "cv=fail;", 8));
	assert_int_equal(judged(&h, "changed\r\n", &by, 1, &n), DKIM_FAIL);
	assert_string_equal(put_set(&h, "changed\r\n", &by, DKIM_FAIL), "its chain had failed before, nothing is added to such a one");
	/* fields that are no sets: closed, alone */
	buf_reset(&h);
	buf_addz(&h, "ARC-Seal: i=3; cv=pass\r\nARC-Seal: i=3; cv=pass\r\nARC-Message-Signature: nonsense\r\n");
	buf_addz(&h, plain);
	assert_string_equal(put_set(&h, hello, &by, DKIM_PASS), "the sets that are there are not whole");
	assert_null(put_set(&h, hello, &by, DKIM_FAIL));
	struct arc_place at = arc_place(buf_str(&h));
	assert_true(at.any && !at.instance);
	/* what was found on arrival and what is there must fit */
	buf_reset(&h);
	buf_addz(&h, plain);
	assert_string_equal(put_set(&h, hello, &by, DKIM_PASS), "what was found on arrival does not fit the sets that are there");
	assert_null(put_set(&h, hello, &by, DKIM_NONE));
	assert_string_equal(put_set(&h, hello, &by, DKIM_NONE), "what was found on arrival does not fit the sets that are there");
	buf_free(&h);
	sealer_free(&by);
}

/* What readers see cannot be added to or changed; what servers write can. */
static void covered(void **st)
{
	static const struct {
		const char *add;
		enum dkim_result r;
	} cases[] = { { "From: Eve <eve@x.test>\r\n", DKIM_FAIL }, { "Subject: other\r\n", DKIM_FAIL }, { "Content-Type: text/html\r\n", DKIM_FAIL }, { "Cc: x@y.test\r\n", DKIM_FAIL },
		{ "Received: from c by d; now\r\n", DKIM_PASS }, { "Authentication-Results: x.test; none\r\n", DKIM_PASS }, { "DKIM-Signature: v=1; d=list.test\r\n", DKIM_PASS },
		{ "X-Spam: no\r\n", DKIM_PASS }, { "List-Id: <l.test>\r\n", DKIM_PASS } };
	struct sealer by;
	(void)st;
	sealer_make(&by, "ed25519", "a.test");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf h = BUF_INIT(1 << 20), more = BUF_INIT(1 << 20);
		buf_addz(&h, plain);
		assert_null(put_set(&h, hello, &by, DKIM_NONE));
		buf_addz(&more, cases[i].add);
		buf_adds(&more, buf_str(&h));
		if (judged(&more, hello, &by, 1, NULL) != cases[i].r)
			fail_msg("with %s", cases[i].add);
		buf_free(&h);
		buf_free(&more);
	}
	sealer_free(&by);
}

static void layout(void **st)
{
	struct sealer by;
	struct buf h = BUF_INIT(1 << 20);
	(void)st;
	sealer_make(&by, "rsa4096", "a-rather-long-name-of-a-domain.that-goes-on-and-on.example.test");
	buf_addz(&h, plain);
	for (int i = 0; i < 60; i++)
		buf_addf(&h, "List-Help: <https://x.test/%d>\r\n", i);
	assert_null(put_set(&h, "", &by, DKIM_NONE));
	assert_int_equal(judged(&h, "", &by, 1, NULL), DKIM_PASS);
	assert_true(mail_headers_sendable(buf_str(&h)));
	struct str rest = buf_str(&h);
	struct mail_field f;
	for (unsigned k = 0; k < 2; k++) {
		assert_int_equal(mail_field_next(&rest, &f), 1);
		for (struct str lines = f.all; lines.n;) {
			size_t n = (size_t)((const char *)memmem(lines.p, lines.n, "\r\n", 2) - lines.p);
			assert_true(n <= MAIL_LINE_WANT);
			lines = str_skip(lines, n + 2);
		}
	}
	buf_free(&h);
	sealer_free(&by);
}

static void results(void **st)
{
	static const struct {
		const char *headers, *expected;
		size_t n;
	} cases[] = {
		{ "Authentication-Results: mx.test; spf=pass\r\n", "ARC-Authentication-Results: i=7; mx.test;\r\n\tspf=pass\r\n", 1 },
		{ "Authentication-Results: \"MX.test\" 1 (a ; comment); spf=pass \r\n", "ARC-Authentication-Results: i=7; mx.test;\r\n\tspf=pass\r\n", 1 },
		{ "Authentication-Results: mx.test; spf=pass\r\nX: y\r\nAuthentication-Results: mx.test; none\r\nAuthentication-Results: other.test; spf=fail\r\n"
		  "authentication-results: mx.test;\r\n dkim=pass (a; b) header.d=x.test\r\n",
		    "ARC-Authentication-Results: i=7; mx.test;\r\n\tspf=pass;\r\n\tdkim=pass (a; b) header.d=x.test\r\n", 2 },
		{ "Authentication-Results: mx.test; none\r\n", "ARC-Authentication-Results: i=7; mx.test; none\r\n", 0 },
		{ "Authentication-Results: mx.test; =;(\r\nAuthentication-Results: mx.test\r\nAuthentication-Results:\r\n", "ARC-Authentication-Results: i=7; mx.test; none\r\n", 0 },
		{ "", "ARC-Authentication-Results: i=7; mx.test; none\r\n", 0 },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf out = BUF_INIT(64 << 10);
		size_t n;
		assert_int_equal(authres_arc(&out, 7, STR("mx.test"), str_from(cases[i].headers), &n), 0);
		assert_string_equal(buf_z(&out), cases[i].expected);
		assert_int_equal(n, cases[i].n);
		buf_free(&out);
	}
	/* of very many, a part */
	struct buf many = BUF_INIT(4 << 20), out = BUF_INIT(64 << 10);
	size_t n;
	for (int i = 0; i < 20000; i++)
		buf_addz(&many, "Authentication-Results: mx.test; spf=pass\r\n");
	assert_int_equal(authres_arc(&out, 7, STR("mx.test"), buf_str(&many), &n), 0);
	assert_true(n && out.n < 32 << 10);
	buf_free(&many);
	buf_free(&out);
}

static void names(void **st)
{
	(void)st;
	assert_true(arc_name_ok(STR("Subject")));
	static const char *const no[] = { "", "a:b", "a b", "ARC-Seal", "arc-message-signature", "Authentication-Results", "Received", "a;b", "\xc3\xbc" };
	for (size_t i = 0; i < sizeof no / sizeof *no; i++)
		assert_false(arc_name_ok(str_from(no[i])));
}

static struct sealer by_cost;

/* Places and seals a message: what is made, then a fixed end; a body as long as that. */
static void seal_it(struct str made)
{
	struct buf h = BUF_INIT(64 << 20), set = BUF_INIT(16 << 20), aar = BUF_INIT(64 << 10);
	const char *why;
	size_t found;
	buf_adds(&h, made);
	buf_addz(&h, plain);
	struct arc_place at = arc_place(buf_str(&h));
	assert_int_equal(authres_arc(&aar, at.instance, STR("mx.example.test"), buf_str(&h), &found), 0);
	struct arc_seal how = { .domain = STR("a.test"), .selector = STR("s"), .key = by_cost.key, .now = 1, .instance = at.instance, .results = buf_str(&aar),
		.cv = at.any ? DKIM_FAIL : DKIM_NONE };
	if (!arc_seal(&how, buf_str(&h), made, &set, &why))
		assert_true(arc_seal_holds(&how, buf_str(&by_cost.record), buf_str(&set), buf_str(&h), made));
	buf_free(&h);
	buf_free(&set);
	buf_free(&aar);
}

static void many_seals(struct buf *h, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_addz(h, "ARC-Seal: i=1; a=rsa-sha256; cv=pass; d=x.test; s=s; b=AAAA\r\n");
}

static void many_results(struct buf *h, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_addz(h, "Authentication-Results: mx.example.test; (((((((((((x\r\n");
}

static void many_names(struct buf *h, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_addf(h, "X-%zu: y\r\n", i);
}

static void giant_seal(struct buf *h, size_t n)
{
	buf_addz(h, "ARC-Seal: i=1; cv=none; b=");
	for (size_t i = 0; i < n; i++)
		buf_addz(h, "AAAAAAAAAAAA\r\n ");
	buf_addz(h, "A\r\n");
}

static void giant_results(struct buf *h, size_t n)
{
	buf_addz(h, "ARC-Authentication-Results: i=1; mx.test;");
	for (size_t i = 0; i < n; i++)
		buf_addz(h, " ((x)\r\n\t");
	buf_addz(h, " x\r\n");
}

static void linear(void **st)
{
	static const struct cost makes[] = {
		{ .name = "seals", .make = many_seals, .most = 19000 }, { .name = "results", .make = many_results, .most = 19000 },
		{ .name = "names", .make = many_names, .most = 19000 }, { .name = "a giant seal", .make = giant_seal, .most = 200000 },
		{ .name = "giant results", .make = giant_results, .most = 200000 },
	};
	(void)st;
#ifdef PEPSI_SANITIZED /* its memmem() looks at the whole rest of the block for each line: not linear, and not ours */
	skip();
#endif
	sealer_make(&by_cost, "ed25519", "a.test");
	cost_linear(makes, sizeof makes / sizeof *makes, seal_it);
	sealer_free(&by_cost);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chains), cmocka_unit_test(failed_chains), cmocka_unit_test(covered), cmocka_unit_test(layout), cmocka_unit_test(results),
		cmocka_unit_test(names), cmocka_unit_test(linear),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	lab_end();
	return r;
}
