/* Work is linear in what a sender can size, whatever the shape: twice the input, less than 2.5 times the work, up to the limits of a header
 * block and to a body of 10 MB; and the largest of each is judged within a second of CPU. */
#include "lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "../../cost.h"

static void repeat(struct buf *m, const char *unit, size_t times)
{
	for (size_t i = 0; i < times; i++)
		buf_addz(m, unit);
}

#define SIGNATURE(h, more) "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed; d=example.org; s=s; h=" h "; bh=YWJj; b=YWJj;" more "\r\n"

static void signatures(struct buf *m, size_t n)
{
	repeat(m, SIGNATURE("from", ""), n);
	buf_addz(m, "From: a@b\r\n\r\n");
}

static void header_fields(struct buf *m, size_t n)
{
	repeat(m, SIGNATURE("from:x:x:x:x", ""), 10);
	repeat(m, "x: y\r\n", n);
	buf_addz(m, "From: a@b\r\n\r\n");
}

static void distinct_fields(struct buf *m, size_t n)
{
	repeat(m, SIGNATURE("from", ""), 10);
	for (size_t i = 0; i < n; i++)
		buf_addf(m, "x-%zu: y\r\n", i);
	buf_addz(m, "From: a@b\r\n\r\n");
}

/* h= of many names, over as many fields of that name */
static void long_h(struct buf *m, size_t n)
{
	for (int i = 0; i < 10; i++) {
		buf_addz(m, "DKIM-Signature: v=1; a=ed25519-sha256; d=example.org; s=s; bh=YWJj; b=YWJj; h=from");
		repeat(m, ":x", n);
		buf_addz(m, "\r\n");
	}
	repeat(m, "x: y\r\n", n / 6);
	buf_addz(m, "From: a@b\r\n\r\n");
}

static void long_b(struct buf *m, size_t n)
{
	for (int i = 0; i < 10; i++) {
		buf_addz(m, "DKIM-Signature: v=1; a=ed25519-sha256; d=example.org; s=s; h=from; bh=YWJj; b=");
		repeat(m, "YWJj\r\n ", n);
		buf_addz(m, "YWJj\r\n");
	}
	buf_addz(m, "From: a@b\r\n\r\n");
}

static void many_tags(struct buf *m, size_t n)
{
	buf_addz(m, "x: y");
	for (size_t i = 0; i < n; i++)
		buf_addf(m, i % 2000 ? "t%zu=x;" : "\r\nDKIM-Signature: t%zu=x;", i);
	buf_addz(m, "\r\nFrom: a@b\r\n\r\n");
}

static void folds(struct buf *m, size_t n)
{
	repeat(m, SIGNATURE("from:x", ""), 10);
	buf_addz(m, "x:");
	repeat(m, " \r\n\t", n);
	buf_addz(m, " y\r\nFrom: a@b\r\n\r\n");
}

static void arc_sets(struct buf *m, size_t n)
{
	for (unsigned i = 1; i <= 50; i++) {
		buf_addf(m, "ARC-Seal: i=%u; a=ed25519-sha256; cv=%s; d=example.org; s=s; b=YWJj\r\n", i, i == 1 ? "none" : "pass");
		buf_addf(m, "ARC-Message-Signature: i=%u; a=ed25519-sha256; c=relaxed/relaxed; d=example.org; s=s; h=from:x; bh=YWJj; b=YWJj\r\n", i);
		buf_addf(m, "ARC-Authentication-Results: i=%u; mx;", i);
		repeat(m, " (x)", n);
		buf_addz(m, "\r\n");
	}
	buf_addz(m, "x: ");
	repeat(m, "y", n);
	buf_addz(m, "\r\nFrom: a@b\r\n\r\n");
}

/* Twelve different hashes, both canonicalisations: as dear as a body gets. */
static void with_body(struct buf *m, const char *unit, size_t n)
{
	for (int i = 0; i < 10; i++)
		buf_addf(m, "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/%s; d=example.org; s=s; l=%zu; h=from; bh=YWJj; b=YWJj\r\n",
		    i % 2 ? "simple" : "relaxed", n - (size_t)i);
	buf_addz(m, "From: a@b\r\n\r\n");
	repeat(m, unit, n / strlen(unit));
}

static void body_lines(struct buf *m, size_t n)
{
	with_body(m, "\r\n", n);
}

static void body_blanks(struct buf *m, size_t n)
{
	with_body(m, " a\t", n);
}

static void body_text(struct buf *m, size_t n)
{
	with_body(m, "The quick brown fox jumps over the lazy dog, again and again.\r\n", n);
}

static void body_cr(struct buf *m, size_t n)
{
	with_body(m, "\r\r\n\r", n);
}

static const struct cost makes[] = { /* just within the limits */
	{ .name = "signatures", .make = signatures, .most = 19900 },
	{ .name = "header fields", .make = header_fields, .most = 19900 },
	{ .name = "distinct fields", .make = distinct_fields, .most = 19900 },
	{ .name = "long h=", .make = long_h, .most = 110000 },
	{ .name = "long b=", .make = long_b, .most = 36000 },
	{ .name = "many tags", .make = many_tags, .most = 250000 },
	{ .name = "folds", .make = folds, .most = 1000000 },
	{ .name = "arc sets", .make = arc_sets, .most = 19000 },
	{ .name = "empty lines", .make = body_lines, .most = 10 << 20 },
	{ .name = "blanks", .make = body_blanks, .most = 10 << 20 },
	{ .name = "text", .make = body_text, .most = 10 << 20 },
	{ .name = "bare cr", .make = body_cr, .most = 10 << 20 },
};

static void verify(struct str raw)
{
	static char zone[300];
	snprintf(zone, sizeof zone, "s._domainkey.example.org k=ed25519; %s", lab_p("ed25519"));
	assert_true((size_t)((const char *)memmem(raw.p, raw.n, "\r\n\r\n", 4) - raw.p) <= DKIM_HEADERS_MAX);
	dkim_release(lab_verify(raw, &(struct dkim_policy){ .arc = true }, zone, 65536));
}

static void linear(void **st)
{
	(void)st;
#ifdef PEPSI_SANITIZED /* its memmem() looks at the whole rest of the block for each line: not linear, and not ours */
	skip();
#endif
	cost_linear(makes, sizeof makes / sizeof *makes, verify);
}

static void largest(void **st)
{
	(void)st;
#ifdef PEPSI_SANITIZED
	skip();
#endif
	for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
		double s = 10;
		for (int attempt = 0; attempt < 3 && s > 1; attempt++)
			s = cost_of(&makes[i], verify, makes[i].most, 1);
		print_message("the largest of %s: %.3f s\n", makes[i].name, s);
		assert_true(s < 1);
	}
}

/* Ten signatures, four keys at the name, none of which is it, each read anew: as many tries as the budget of a message has for keys of 4096 bits, and
 * 40 of 2048 bits, of which the budget has 128. */
static void dearest_keys(void **st)
{
	static char zone[8000];
	(void)st;
#ifdef PEPSI_SANITIZED
	skip();
#endif
	for (unsigned large = 0; large < 2; large++) {
		struct buf m = BUF_INIT(1 << 20);
		double best = 1e9;
		const char *p = lab_p(large ? "rsa4096" : "rsa2048");
		for (int i = 0; i < 10; i++) {
			buf_addz(&m, "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.org; s=s; h=from; bh=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=; b=");
			repeat(&m, "AAEC", large ? 170 : 85);
			buf_addz(&m, large ? "AAA=\r\n" : "AA==\r\n");
		}
		buf_addz(&m, "From: a@b\r\n\r\nx\r\n");
		snprintf(zone, sizeof zone, "s._domainkey.example.org %s\ns._domainkey.example.org v=DKIM1; %s\ns._domainkey.example.org k=rsa; %s\ns._domainkey.example.org t=s; %s", p, p, p, p);
		for (unsigned k = 0; k < 3; k++) {
			struct timespec t0, t1;
			clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
			struct dkim *d = lab_verify(buf_str(&m), &(struct dkim_policy){ 0 }, zone, 65536);
			clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
			assert_int_equal(dkim_signature(d, 0)->bits, large ? 4096 : 2048);
			assert_true(!large || strstr(dkim_signature(d, 9)->reason, "too many signatures"));
			dkim_release(d);
			double s = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9;
			best = s < best ? s : best;
		}
		double all = large ? best : best * DKIM_TRIES_MAX / 40;
		print_message("the dearest keys of %s bits: %.4f s\n", large ? "4096" : "2048", all);
		assert_true(all < 1);
		buf_free(&m);
	}
}

/* What is done for each signature is bounded for all of them together: octets of header fields, and keys tried. */
static void shared(void **st)
{
	static char zone[2000];
	struct buf m = BUF_INIT(64 << 20);
	size_t looked = 0, too_much = 0;
	(void)st;
	repeat(&m, SIGNATURE("from:x", ""), 10);
	buf_addz(&m, "x:");
	repeat(&m, " all work and no play\r\n", (1 << 20) / 23);
	buf_addz(&m, "From: a@b\r\n\r\nx\r\n");
	snprintf(zone, sizeof zone, "s._domainkey.example.org k=ed25519; %s", lab_p("ed25519"));
	struct dkim *d = lab_verify(buf_str(&m), &(struct dkim_policy){ 0 }, zone, 65536);
	for (size_t i = 0; i < dkim_n(d); i++) {
		bool more = strstr(dkim_signature(d, i)->reason, "more header octets");
		assert_true(!more || dkim_signature(d, i)->result == DKIM_POLICY);
		looked += !more;
		too_much += more;
	}
	assert_true(looked >= 3 && looked <= DKIM_HASHED_MAX >> 20 && looked + too_much == 10);
	dkim_release(d);
	buf_reset(&m);
	/* four keys at the name, none of which is it: of fifty seals only the newest is tried */
	snprintf(zone, sizeof zone, "s._domainkey.example.org k=ed25519; %s\ns._domainkey.example.org k=ed25519; %s\ns._domainkey.example.org v=DKIM1; k=ed25519; %s",
	    lab_p("ed25519"), lab_p("ed25519"), lab_p("ed25519"));
	arc_sets(&m, 10);
	d = lab_verify(buf_str(&m), &(struct dkim_policy){ .arc = true }, zone, 65536);
	assert_int_equal(dkim_arc(d)->result, DKIM_FAIL);
	assert_int_equal(dkim_arc(d)->set[0].message, DKIM_NONE);
	dkim_release(d);
	buf_free(&m);
}

/* A large key costs more than a small one: four of 4096 bits at one name are too dear for ten signatures, four of 2048 are not. */
static void large_keys(void **st)
{
	static char zone[5000];
	(void)st;
	for (unsigned large = 0; large < 2; large++) {
		struct buf m = BUF_INIT(1 << 20), z = BUF_INIT(sizeof zone);
		size_t tried = 0, dear = 0;
		repeat(&m, "DKIM-Signature: v=1; a=rsa-sha256; d=example.org; s=s; h=from; bh=YWJj; b=YWJj\r\n", 10);
		buf_addz(&m, "From: a@b\r\n\r\nx\r\n");
		for (unsigned i = 0; i < DKIM_KEYS_MAX; i++)
			buf_addf(&z, "%ss._domainkey.example.org n=%u; %s", i ? "\n" : "", i, lab_p(large ? "rsa4096" : "rsa2048"));
		snprintf(zone, sizeof zone, "%s", buf_z(&z));
		struct dkim *d = lab_verify(buf_str(&m), &(struct dkim_policy){ 0 }, zone, 65536);
		for (size_t i = 0; i < dkim_n(d); i++) {
			tried += dkim_signature(d, i)->result == DKIM_FAIL;
			dear += dkim_signature(d, i)->result == DKIM_POLICY && strstr(dkim_signature(d, i)->reason, "too many");
		}
		assert_int_equal(tried, large ? DKIM_TRIES_MAX / 4 / DKIM_KEYS_MAX : 10);
		assert_int_equal(tried + dear, 10);
		dkim_release(d);
		buf_free(&m);
		buf_free(&z);
	}
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
		cmocka_unit_test(linear),
		cmocka_unit_test(largest), cmocka_unit_test(dearest_keys),
		cmocka_unit_test(shared),
		cmocka_unit_test(large_keys),
	};
	return cmocka_run_group_tests(tests, NULL, teardown);
}
