/* DANE: which records are asked for, whatever the zones are, and certificates made on the spot against records of every kind. */
#include "zone.h"

#include "proto/relay/dane.h"

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NOW = 1796000000, DAY = 86400 };

/* -- the look-up */

static void expect(const char *host, zone_lines zone, const char *want)
{
	struct dane_lookup d = { .host = str_from(host), .port = 25, .ipv4 = true, .ipv6 = true };
	struct dns_answers *set = dns_answers_new();
	char got[600];
	assert_true(zone_run(dane_evaluate, &d, set, zone) <= DANE_QUERIES);
	assert_non_null(d.reason);
	assert_true((d.tlsa != NULL) == (d.status == DANE_USABLE || d.status == DANE_UNUSABLE));
	snprintf(got, sizeof got, "%s %s", dane_status_name(d.status), d.base);
	assert_string_equal(got, want);
	dns_answers_free(set);
}

#define HOST "+m.example A 192.0.2.1"
#define GOOD "3 1 1 32"
#define BAD "1 1 1 32"

static void test_lookup(void **state)
{
	(void)state;
	expect("m.example", ZONE(HOST, "+_25._tcp.m.example TLSA " GOOD), "usable m.example");
	expect("M.Example.", ZONE(HOST, "+_25._tcp.m.example TLSA " GOOD), "usable m.example");
	expect("m.example", ZONE(HOST, "+_25._tcp.m.example TLSA " BAD), "unusable m.example");
	expect("m.example", ZONE(HOST, "+_25._tcp.m.example TLSA " BAD, "+_25._tcp.m.example TLSA " GOOD), "usable m.example");
	expect("m.example", ZONE(HOST, "_25._tcp.m.example TLSA " GOOD), "none ");
	expect("m.example", ZONE(HOST, "+m.example MX 1 x"), "none ");
	/* blocked, or bogus: the host is not used at all (§2.1.2) */
	expect("m.example", ZONE(HOST, "+_25._tcp.m.example !"), "bogus ");
	expect("m.example", ZONE("m.example !"), "bogus ");
	/* addresses that are not validated: TLSA is not asked for */
	expect("m.example", ZONE("m.example A 192.0.2.1", "_25._tcp.m.example !"), "none ");
	expect("m.example", ZONE("m.example A 192.0.2.1", "+_25._tcp.m.example TLSA " GOOD), "none ");
	/* a TLSA record that is an alias itself (§2.1.3) */
	expect("m.example", ZONE(HOST, "+_25._tcp.m.example CNAME _dane.example", "+_dane.example TLSA " GOOD), "usable m.example");
	expect("m.example", ZONE(HOST, "+_25._tcp.m.example CNAME _dane.example", "_dane.example TLSA " GOOD), "none ");
	expect("no such name", ZONE("x -"), "none ");
	expect("", ZONE("x -"), "none ");
}

#define ALIAS "+m.example CNAME n.example"
static void test_aliases(void **state)
{
	(void)state;
	/* validated all the way: where it leads first, then where it began (§2.2.2) */
	expect("m.example", ZONE(ALIAS, "+n.example A 192.0.2.1", "+_25._tcp.n.example TLSA " GOOD, "+_25._tcp.m.example TLSA " BAD),
	    "usable n.example");
	expect("m.example", ZONE(ALIAS, "+n.example A 192.0.2.1", "+_25._tcp.m.example TLSA " GOOD), "usable m.example");
	expect("m.example", ZONE(ALIAS, "+n.example A 192.0.2.1", "+_25._tcp.n.example !", "+_25._tcp.m.example TLSA " GOOD), "bogus ");
	expect("m.example", ZONE(ALIAS, "+n.example A 192.0.2.1"), "none ");
	/* out of the signed zone: only where it began */
	expect("m.example", ZONE(ALIAS, "n.example A 192.0.2.1", "_25._tcp.n.example !", "+_25._tcp.m.example TLSA " GOOD), "usable m.example");
	expect("m.example", ZONE(ALIAS, "n.example A 192.0.2.1", "+_25._tcp.n.example TLSA " GOOD), "none ");
	/* not signed from the beginning */
	expect("m.example", ZONE("m.example CNAME n.example", "+n.example A 192.0.2.1", "+_25._tcp.n.example TLSA " GOOD,
	    "+_25._tcp.m.example TLSA " GOOD), "none ");
}

static void test_names(void **state)
{
	struct dane_lookup d = { .base = "n.example" };
	const char *names[DANE_NAMES_MAX];
	(void)state;
	assert_int_equal(dane_names(&d, "m.example", "x.example", "y.example", true, names), 4);
	assert_string_equal(names[0], "n.example");
	assert_string_equal(names[3], "y.example");
	/* an alias that anybody may have forged is no name to look for */
	assert_int_equal(dane_names(&d, "N.example", "x.example", "y.example", false, names), 2);
	assert_string_equal(names[1], "x.example");
	assert_int_equal(dane_names(&d, "n.example", "n.example", "n.example", true, names), 1);
	assert_int_equal(dane_names(&d, NULL, "", NULL, true, names), 1);
}

static void test_usable(void **state)
{
	static const struct {
		unsigned usage, selector, matching, length;
		bool ok;
	} cases[] = { { 3, 1, 1, 32, true }, { 2, 0, 2, 64, true }, { 0, 1, 1, 32, false }, { 1, 1, 1, 32, false }, { 4, 1, 1, 32, false },
		{ 255, 0, 1, 32, false }, { 3, 2, 1, 32, false }, { 3, 1, 3, 32, false }, { 3, 1, 1, 31, false }, { 3, 1, 1, 33, false },
		{ 3, 1, 2, 32, false }, { 3, 1, 1, 0, false }, { 3, 0, 0, 0, false }, { 3, 0, 0, 100, false }, { 2, 1, 0, 91, false } };
	char zero[128] = { 0 };
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct dns_rr rr = { .usage = (uint8_t)cases[i].usage, .selector = (uint8_t)cases[i].selector,
			.matching = (uint8_t)cases[i].matching, .data = str_n(zero, cases[i].length) };
		if (dane_record_usable(&rr) != cases[i].ok)
			fail_msg("case %zu", i);
	}
}

/* -- certificates */

struct made {
	X509 *x;
	EVP_PKEY *key;
};

static struct made make(const char *name, const struct made *by, bool ca, int64_t from, int64_t to, const EVP_MD *md)
{
	static long serial = 1;
	struct made m = { X509_new(), EVP_EC_gen("P-256") };
	X509V3_CTX ctx;
	char alt[100];
	X509_set_version(m.x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(m.x), serial++);
	ASN1_TIME_set(X509_getm_notBefore(m.x), from);
	ASN1_TIME_set(X509_getm_notAfter(m.x), to);
	X509_set_pubkey(m.x, m.key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(m.x), "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(m.x, X509_get_subject_name(by ? by->x : m.x));
	X509V3_set_ctx(&ctx, by ? by->x : m.x, m.x, NULL, NULL, 0);
	snprintf(alt, sizeof alt, "DNS:%s", name);
	X509_EXTENSION *e = ca ? X509V3_EXT_conf_nid(NULL, &ctx, NID_basic_constraints, "critical,CA:TRUE") :
				 X509V3_EXT_conf_nid(NULL, &ctx, NID_subject_alt_name, alt);
	assert_true(e && X509_add_ext(m.x, e, -1));
	X509_EXTENSION_free(e);
	assert_true(X509_sign(m.x, by ? by->key : m.key, md) > 0);
	return m;
}

static void unmake(struct made *m)
{
	X509_free(m->x);
	EVP_PKEY_free(m->key);
}

static unsigned char record_data[8][4096];
static struct dns_rr record(size_t slot, unsigned usage, unsigned selector, unsigned matching, X509 *x)
{
	unsigned char *der = NULL;
	unsigned size = 0;
	int n = selector ? i2d_X509_PUBKEY(X509_get_X509_PUBKEY(x), &der) : i2d_X509(x, &der);
	assert_true(n > 0 && n < 4096);
	if (matching)
		assert_int_equal(EVP_Digest(der, (size_t)n, record_data[slot], &size, matching == 1 ? EVP_sha256() : EVP_sha512(), NULL), 1);
	else
		memcpy(record_data[slot], der, size = (unsigned)n);
	OPENSSL_free(der);
	return (struct dns_rr){ .usage = (uint8_t)usage, .selector = (uint8_t)selector, .matching = (uint8_t)matching,
		.data = str_n((char *)record_data[slot], size) };
}

struct lab {
	struct made root, ca, leaf, other;
	STACK_OF(X509) *chain;
};

static void lab_open(struct lab *l, const char *host, int64_t to, const EVP_MD *md)
{
	l->root = make("Root", NULL, true, NOW - DAY, NOW + DAY, md);
	l->ca = make("CA", &l->root, true, NOW - DAY, NOW + DAY, md);
	l->leaf = make(host, &l->ca, false, NOW - DAY, to, md);
	l->other = make("Other", NULL, true, NOW - DAY, NOW + DAY, md);
	l->chain = sk_X509_new_null();
	sk_X509_push(l->chain, l->leaf.x);
	sk_X509_push(l->chain, l->ca.x);
}

static void lab_close(struct lab *l)
{
	sk_X509_free(l->chain);
	unmake(&l->root);
	unmake(&l->ca);
	unmake(&l->leaf);
	unmake(&l->other);
}

static struct dane_check check(const struct lab *l, const struct dns_rr *rr, size_t n, const char *name)
{
	struct dane_check c = { .rr = rr, .n_rr = n, .chain = l->chain, .name = { "other.example", name }, .n_names = 2, .now = NOW };
	assert_true(dane_check(&c) == (c.verdict == DANE_MATCHED));
	assert_non_null(c.reason);
	return c;
}

#define MATCHED(c) assert_string_equal(dane_verdict_name((c).verdict), "matched")
#define IS(c, v) assert_string_equal(dane_verdict_name((c).verdict), dane_verdict_name(v))

static void test_ee(void **state)
{
	struct lab l;
	(void)state;
	/* expired and with another name: usage 3 does not care (RFC 7672 §3.1.1) */
	lab_open(&l, "elsewhere.example", NOW - DAY / 2, EVP_sha256());
	for (unsigned s = 0; s < 2; s++)
		for (unsigned m = 0; m < 3; m++) {
			struct dns_rr rr = record(0, DANE_EE, s, m, l.leaf.x);
			struct dane_check c = check(&l, &rr, 1, "m.example");
			MATCHED(c);
			assert_int_equal(c.depth, 0);
			((char *)(uintptr_t)rr.data.p)[rr.data.n - 1] ^= 1;
			assert_false(check(&l, &rr, 1, "m.example").verdict == DANE_MATCHED);
			/* above the host's certificate it says nothing */
			rr = record(0, DANE_EE, s, m, l.ca.x);
			IS(check(&l, &rr, 1, "m.example"), DANE_MISMATCH);
			/* PKIX usages match nothing */
			rr = record(0, DANE_PKIX_EE, s, m, l.leaf.x);
			IS(check(&l, &rr, 1, "m.example"), DANE_MISMATCH);
		}
	struct dane_check none = { .now = NOW };
	assert_false(dane_check(&none));
	IS(none, DANE_NO_CERT);
	lab_close(&l);
}

static void test_ta(void **state)
{
	struct lab l;
	(void)state;
	lab_open(&l, "m.example", NOW + DAY, EVP_sha256());
	for (unsigned s = 0; s < 2; s++)
		for (unsigned m = 0; m < 3; m++) {
			struct dns_rr rr = record(0, DANE_TA, s, m, l.ca.x);
			struct dane_check c = check(&l, &rr, 1, "m.example");
			MATCHED(c);
			assert_int_equal(c.depth, 1);
			IS(check(&l, &rr, 1, "n.example"), DANE_NAME);
			/* the host's own certificate is no anchor */
			rr = record(0, DANE_TA, s, m, l.leaf.x);
			IS(check(&l, &rr, 1, "m.example"), DANE_MISMATCH);
			/* one that is there, but signed nothing of this path */
			sk_X509_push(l.chain, l.other.x);
			rr = record(0, DANE_TA, s, m, l.other.x);
			IS(check(&l, &rr, 1, "m.example"), DANE_MISMATCH);
			sk_X509_pop(l.chain);
			/* a root that is not shown: only when it is whole in the record */
			rr = record(0, DANE_TA, s, m, l.root.x);
			IS(check(&l, &rr, 1, "m.example"), m ? DANE_MISMATCH : DANE_MATCHED);
		}
	lab_close(&l);
}

static void test_ta_path(void **state)
{
	struct lab l;
	(void)state;
	lab_open(&l, "m.example", NOW - DAY / 2, EVP_sha256());
	struct dns_rr rr = record(0, DANE_TA, 0, 1, l.ca.x);
	IS(check(&l, &rr, 1, "m.example"), DANE_EXPIRED);
	lab_close(&l);
	lab_open(&l, "m.example", NOW + DAY, EVP_sha1());
	rr = record(0, DANE_TA, 0, 1, l.ca.x);
	IS(check(&l, &rr, 1, "m.example"), DANE_UNTRUSTED);
	lab_close(&l);
	/* wildcards: one whole label */
	lab_open(&l, "*.example.org", NOW + DAY, EVP_sha256());
	rr = record(0, DANE_TA, 0, 1, l.ca.x);
	MATCHED(check(&l, &rr, 1, "m.example.org"));
	IS(check(&l, &rr, 1, "a.m.example.org"), DANE_NAME);
	IS(check(&l, &rr, 1, "example.org"), DANE_NAME);
	lab_close(&l);
	/* the host's certificate signed by somebody else with the name of the one that matches */
	lab_open(&l, "m.example", NOW + DAY, EVP_sha256());
	struct made forger = make("CA", &l.root, true, NOW - DAY, NOW + DAY, EVP_sha256());
	struct made forged = make("m.example", &forger, false, NOW - DAY, NOW + DAY, EVP_sha256());
	sk_X509_set(l.chain, 0, forged.x);
	rr = record(0, DANE_TA, 0, 1, l.ca.x);
	assert_false(check(&l, &rr, 1, "m.example").verdict == DANE_MATCHED);
	rr = record(0, DANE_TA, 1, 0, l.ca.x);
	assert_false(check(&l, &rr, 1, "m.example").verdict == DANE_MATCHED);
	unmake(&forger);
	unmake(&forged);
	lab_close(&l);
}

/* RFC 7671 §9: a weaker digest does not count beside a stronger one that we know. */
static void test_agility(void **state)
{
	struct lab l;
	struct dns_rr rr[3];
	(void)state;
	lab_open(&l, "m.example", NOW + DAY, EVP_sha256());
	rr[0] = record(0, DANE_EE, 1, 1, l.leaf.x);
	rr[1] = record(1, DANE_EE, 1, 2, l.other.x);
	assert_false(dane_record_counts(rr, 2, 0));
	IS(check(&l, rr, 2, "m.example"), DANE_MISMATCH);
	/* of another selector or usage, or broken: it does */
	rr[1] = record(1, DANE_EE, 0, 2, l.other.x);
	MATCHED(check(&l, rr, 2, "m.example"));
	rr[1] = record(1, DANE_TA, 1, 2, l.other.x);
	MATCHED(check(&l, rr, 2, "m.example"));
	rr[1] = record(1, DANE_EE, 1, 2, l.other.x);
	rr[1].data.n = 63;
	MATCHED(check(&l, rr, 2, "m.example"));
	/* a roll-over: the old and the new one side by side */
	rr[0] = record(0, DANE_EE, 1, 1, l.other.x);
	rr[1] = record(1, DANE_TA, 0, 1, l.other.x);
	rr[2] = record(2, DANE_EE, 1, 1, l.leaf.x);
	MATCHED(check(&l, rr, 3, "m.example"));
	lab_close(&l);
}

/* A chain of very many certificates is looked at in part. */
static void test_bounds(void **state)
{
	struct lab l;
	(void)state;
	lab_open(&l, "m.example", NOW + DAY, EVP_sha256());
	struct dns_rr rr = record(0, DANE_TA, 0, 1, l.ca.x);
	sk_X509_pop(l.chain);
	for (int i = 0; i < 500; i++)
		sk_X509_push(l.chain, l.other.x);
	sk_X509_push(l.chain, l.ca.x);
	IS(check(&l, &rr, 1, "m.example"), DANE_MISMATCH);
	lab_close(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lookup), cmocka_unit_test(test_aliases), cmocka_unit_test(test_names), cmocka_unit_test(test_usable), cmocka_unit_test(test_ee),
		cmocka_unit_test(test_ta), cmocka_unit_test(test_ta_path), cmocka_unit_test(test_agility), cmocka_unit_test(test_bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
