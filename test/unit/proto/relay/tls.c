/* The table of DANE, MTA-STS and TLS, every cell of it; what operators and messages add; and what is told in reports. */
#include "proto/relay/tls.h"

#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* The far end: no TLS; a good certificate; one that is expired; one of another name. */
enum far { PLAIN, GOOD, EXPIRED, OTHER, HANDSHAKE, FARS };
enum dane_cell { D_NONE, D_OK, D_MISMATCH, D_UNUSABLE, D_BOGUS, DANES };
enum sts_cell { S_NONE, S_TESTING, S_TESTING_UNNAMED, S_ENFORCE, S_UNNAMED, S_FETCH_ERROR, STSS };

static struct tls_rules rules_of(enum dane_cell d, enum sts_cell s)
{
	static const enum dane_status status[] = { DANE_NONE, DANE_USABLE, DANE_USABLE, DANE_UNUSABLE, DANE_BOGUS };
	return (struct tls_rules){ .site = TLS_MAY, .dane = status[d], .mx_secure = d != D_NONE,
		.sts = s == S_TESTING || s == S_TESTING_UNNAMED ? STS_TESTING : s == S_ENFORCE || s == S_UNNAMED ? STS_ENFORCE : STS_NONE,
		.sts_covers = s == S_TESTING || s == S_ENFORCE, .sts_failed = s == S_FETCH_ERROR, .sts_failure = TLSRPT_STS_POLICY_FETCH_ERROR };
}

static struct tls_seen seen_of(enum dane_cell d, enum far f)
{
	struct tls_seen s = { .starttls = f != PLAIN, .tls = f != PLAIN && f != HANDSHAKE, .dane = d == D_OK ? DANE_MATCHED : DANE_MISMATCH };
	s.site_error = s.pkix_error = f == EXPIRED ? X509_V_ERR_CERT_HAS_EXPIRED : f == OTHER ? X509_V_ERR_HOSTNAME_MISMATCH : X509_V_OK;
	return s;
}

static struct tls_verdict judge(const struct tls_rules *r, const struct tls_seen *s, struct tls_need *ret_need)
{
	struct tls_verdict v;
	tls_need(r, ret_need);
	tls_judge(r, ret_need, s, &v);
	assert_true(v.go == (v.status == NULL) && v.go == (v.reason == NULL) && v.n_reports <= TLS_REPORTS_MAX);
	assert_true(v.go || v.status[0] == '4' || v.status[0] == '5');
	assert_true(ret_need->usable || !v.go);
	assert_true(!v.go || !ret_need->encrypt || s->tls);
	return v;
}

/* One letter a far end, in the order of enum far: "m" mail goes; "a" goes, and the host is authenticated; "x" does not go; "-" the host is
 * not even connected to. */
static const char *const table[DANES][STSS] = {
	[D_NONE] = { "mmmmm", "mmmmm", "mmmmm", "xaxxx", "-----", "mmmmm" },
	[D_OK] = { "xaaax", "xaaax", "xaaax", "xaaax", "xaaax", "xaaax" },
	[D_MISMATCH] = { "xxxxx", "xxxxx", "xxxxx", "xxxxx", "xxxxx", "xxxxx" },
	[D_UNUSABLE] = { "xmmmx", "xmmmx", "xmmmx", "xaxxx", "-----", "xmmmx" },
	[D_BOGUS] = { "-----", "-----", "-----", "-----", "-----", "-----" },
};

static void test_table(void **state)
{
	(void)state;
	for (enum dane_cell d = 0; d < DANES; d++)
		for (enum sts_cell s = 0; s < STSS; s++) {
			char got[FARS + 1] = "";
			for (enum far f = 0; f < FARS; f++) {
				struct tls_rules r = rules_of(d, s);
				struct tls_seen seen = seen_of(d, f);
				struct tls_need n;
				struct tls_verdict v = judge(&r, &seen, &n);
				got[f] = !n.usable ? '-' : !v.go ? 'x' : v.authenticated ? 'a' : 'm';
			}
			if (strcmp(got, table[d][s]))
				fail_msg("DANE %d, MTA-STS %d: %s, not %s", (int)d, (int)s, got, table[d][s]);
		}
}

/* A policy in testing, or one that cannot be had, changes nothing about mail, whatever else there is (RFC 8461 §5). */
static void test_testing(void **state)
{
	(void)state;
	for (enum dane_cell d = 0; d < DANES; d++)
		for (enum sts_cell s = 0; s < STSS; s++)
			for (enum far f = 0; f < FARS; f++)
				for (int op = TLS_NEVER; op <= TLS_DANE_ONLY; op++) {
					if (s != S_TESTING && s != S_TESTING_UNNAMED && s != S_FETCH_ERROR)
						continue;
					struct tls_rules r = rules_of(d, s), without = rules_of(d, S_NONE);
					struct tls_seen seen = seen_of(d, f);
					struct tls_need n;
					r.site = without.site = (enum tls_operator)op;
					assert_true(judge(&r, &seen, &n).go == judge(&without, &seen, &n).go);
				}
}

/* Nothing makes mail go that DANE holds back. */
static void test_dane_is_final(void **state)
{
	(void)state;
	for (enum sts_cell s = 0; s < STSS; s++)
		for (enum far f = 0; f < FARS; f++)
			for (int op = TLS_NEVER; op <= TLS_DANE_ONLY; op++)
				for (int secure = 0; secure < 2; secure++) {
					struct tls_rules r = rules_of(D_MISMATCH, s);
					struct tls_seen seen = seen_of(D_MISMATCH, f);
					struct tls_need n;
					r.site = (enum tls_operator)op;
					r.mx_secure = secure;
					assert_false(judge(&r, &seen, &n).go);
					r.dane = DANE_BOGUS;
					assert_false(judge(&r, &seen, &n).go);
				}
}

static void test_insecure_mx(void **state)
{
	struct tls_need n;
	(void)state;
	/* a host with TLSA records that a forged MX record may name: it must be one of the policy's */
	struct tls_rules r = rules_of(D_OK, S_UNNAMED);
	struct tls_seen seen = seen_of(D_OK, GOOD);
	r.mx_secure = false;
	assert_false(judge(&r, &seen, &n).go);
	assert_false(n.usable);
	r = rules_of(D_OK, S_ENFORCE);
	r.mx_secure = false;
	assert_true(judge(&r, &seen, &n).authenticated);
	/* without a policy DANE is used all the same (RFC 7672 §2.2.1), but proves nothing about the domain */
	r = rules_of(D_OK, S_NONE);
	r.mx_secure = false;
	struct tls_verdict v = judge(&r, &seen, &n);
	assert_true(v.go && n.dane && !v.authenticated);
}

static void test_operator(void **state)
{
	struct tls_need n;
	enum tls_operator o;
	(void)state;
	struct tls_rules r = rules_of(D_NONE, S_NONE);
	struct tls_seen plain = seen_of(D_NONE, PLAIN), other = seen_of(D_NONE, OTHER), good = seen_of(D_OK, GOOD);
	r.site = TLS_REQUIRE;
	assert_string_equal(judge(&r, &plain, &n).status, "4.7.4");
	assert_true(judge(&r, &other, &n).go);
	r.site = TLS_DANE_ONLY;
	struct tls_verdict v = judge(&r, NULL, &n);
	assert_true(!n.usable && !v.go && v.n_reports == 1 && v.report[0].failure == TLSRPT_DANE_REQUIRED);
	r = rules_of(D_OK, S_NONE);
	r.site = TLS_DANE_ONLY;
	assert_true(judge(&r, &good, &n).go);
	r.mx_secure = false;
	assert_false(judge(&r, &good, &n).go);
	r = rules_of(D_NONE, S_NONE);
	r.site = TLS_NEVER;
	v = judge(&r, &plain, &n);
	assert_true(v.go && !n.try_tls && !v.n_reports);
	r = rules_of(D_OK, S_NONE);
	r.site = TLS_NEVER;
	judge(&r, &good, &n);
	assert_true(n.try_tls && n.encrypt);
	r = rules_of(D_NONE, S_NONE);
	r.site = TLS_VERIFY;
	assert_string_equal(judge(&r, &plain, &n).status, "4.7.4");
	v = judge(&r, &other, &n);
	assert_true(!v.go && n.verify && n.encrypt && n.pkix_look);
	assert_string_equal(v.detail, X509_verify_cert_error_string(other.site_error));
	assert_true(judge(&r, &good, &n).go);
	/* the names are the operator's: that of the host does not do, nor does DANE, which is about that one */
	r.site_named = true;
	good.site_error = X509_V_ERR_HOSTNAME_MISMATCH;
	assert_string_equal(judge(&r, &good, &n).detail, "hostname mismatch");
	struct tls_rules dane = rules_of(D_OK, S_NONE);
	dane.site = TLS_VERIFY;
	struct tls_seen matched = seen_of(D_OK, OTHER);
	assert_true(judge(&dane, &matched, &n).go && !n.verify);
	dane.mx_secure = false;
	assert_false(judge(&dane, &matched, &n).go);
	dane.mx_secure = dane.site_named = true;
	assert_false(judge(&dane, &matched, &n).go);
	/* the sender's wish for less does not take away the operator's */
	dane.optional = true;
	assert_false(judge(&dane, &matched, &n).go);
	plain.starttls = true;
	plain.refused = "454 4.7.0 not now";
	v = judge(&r, &plain, &n);
	assert_string_equal(v.detail, "454 4.7.0 not now");
	assert_string_equal(v.report[0].code, "starttls-refused");
	for (int i = TLS_NEVER; i <= TLS_DANE_ONLY; i++) {
		assert_int_equal(tls_operator_parse(str_from(tls_operator_name((enum tls_operator)i)), &o), 0);
		assert_int_equal(o, i);
	}
	assert_int_equal(tls_operator_parse(STR("yes"), &o), -1);
}

static void test_message(void **state)
{
	struct tls_need n;
	(void)state;
	/* REQUIRETLS (RFC 8689 §4.2.1) */
	struct tls_rules r = rules_of(D_OK, S_NONE);
	struct tls_seen s = seen_of(D_OK, GOOD);
	r.requiretls = true;
	assert_string_equal(judge(&r, &s, &n).status, "5.7.30");
	s.requiretls = true;
	assert_true(judge(&r, &s, &n).authenticated);
	r = rules_of(D_NONE, S_ENFORCE);
	r.requiretls = true;
	assert_true(judge(&r, &s, &n).authenticated);
	r = rules_of(D_NONE, S_NONE);
	r.requiretls = true;
	assert_false(judge(&r, &s, &n).go); /* the MX records may be forged */
	r.mx_secure = true;
	assert_true(judge(&r, &s, &n).go);
	s.pkix_error = X509_V_ERR_CERT_HAS_EXPIRED;
	assert_false(judge(&r, &s, &n).go);
	/* TLS-Required: No (§5): all but the operator's own rules are off */
	for (enum dane_cell d = 0; d < DANES; d++)
		for (enum sts_cell c = 0; c < STSS; c++)
			for (enum far f = 0; f < FARS; f++) {
				r = rules_of(d, c);
				r.optional = true;
				s = seen_of(d, f);
				assert_true(judge(&r, &s, &n).go);
				r.site = TLS_REQUIRE;
				assert_true(judge(&r, &s, &n).go == s.tls);
			}
}

static void test_optional(void **state)
{
	static const struct {
		const char *headers;
		bool optional;
	} cases[] = {
		{ "", false },
		{ "Subject: TLS-Required: No\r\n", false },
		{ "TLS-Required: No\r\n", true },
		{ "A: b\r\ntls-required:no\r\nC: d\r\n", true },
		{ "TLS-Required:\r\n no \r\n", true },
		{ "TLS-Required: Yes\r\n", false },
		{ "TLS-Required: \r\n", false },
		{ "TLS-Required: No thanks\r\n", false },
		{ "TLS-Required: No\r\nTLS-Required: No\r\n", false },
		{ "X-TLS-Required: No\r\n", false },
		{ "TLS-Required: No                                                                                  x\r\n", false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (tls_optional(str_from(cases[i].headers)) != cases[i].optional)
			print_error("%s", cases[i].headers ? cases[i].headers : "");
		assert_int_equal(tls_optional(str_from(cases[i].headers)), cases[i].optional);
	}
}

static void reports(enum dane_cell d, enum sts_cell c, enum far f, const char *want)
{
	struct tls_rules r = rules_of(d, c);
	struct tls_seen s = seen_of(d, f);
	struct tls_need n;
	struct tls_verdict v = judge(&r, &s, &n);
	char got[300] = "";
	for (size_t i = 0; i < v.n_reports; i++)
		snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s %s", i ? ", " : "", tlsrpt_type_name(v.report[i].policy),
		    v.report[i].success ? "ok" : tlsrpt_result_name(v.report[i].failure));
	assert_string_equal(got, want);
}

static void test_reports(void **state)
{
	(void)state;
	reports(D_NONE, S_NONE, GOOD, "no-policy-found ok");
	reports(D_NONE, S_NONE, PLAIN, "no-policy-found starttls-not-supported");
	reports(D_NONE, S_NONE, HANDSHAKE, "no-policy-found validation-failure");
	reports(D_OK, S_NONE, GOOD, "tlsa ok");
	reports(D_OK, S_NONE, PLAIN, "tlsa starttls-not-supported");
	reports(D_MISMATCH, S_ENFORCE, GOOD, "tlsa validation-failure, sts ok");
	reports(D_UNUSABLE, S_NONE, GOOD, "tlsa tlsa-invalid");
	reports(D_BOGUS, S_NONE, GOOD, "tlsa dnssec-invalid");
	reports(D_NONE, S_TESTING, EXPIRED, "sts certificate-expired");
	reports(D_NONE, S_TESTING, OTHER, "sts certificate-host-mismatch");
	reports(D_NONE, S_TESTING, GOOD, "sts ok");
	reports(D_NONE, S_TESTING, PLAIN, "sts starttls-not-supported");
	reports(D_NONE, S_TESTING_UNNAMED, GOOD, "sts validation-failure");
	reports(D_NONE, S_UNNAMED, GOOD, "sts validation-failure");
	reports(D_NONE, S_FETCH_ERROR, GOOD, "sts sts-policy-fetch-error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table), cmocka_unit_test(test_testing), cmocka_unit_test(test_dane_is_final), cmocka_unit_test(test_insecure_mx),
		cmocka_unit_test(test_operator), cmocka_unit_test(test_message), cmocka_unit_test(test_optional), cmocka_unit_test(test_reports),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
