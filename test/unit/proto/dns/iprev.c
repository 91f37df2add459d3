/* iprev over made-up zones. */
#include "proto/dns/iprev.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* "name TYPE data…", one line each; data of A and AAAA is one letter per octet here. "name TYPE !" fails. */
static const char *zone;

static struct dns_answer *look(struct str name, enum dns_type type)
{
	struct str rest = str_from(zone), line, w;
	struct dns_rr rr[20];
	size_t n = 0;
	while (str_word(&rest, "\n", &line)) {
		enum dns_type t;
		if (!str_word(&line, " ", &w) || !str_eq(w, name) || !str_word(&line, " ", &w) || dns_type_parse(w, &t) || t != type)
			continue;
		str_word(&line, " ", &w);
		if (str_eq(w, STR("!")))
			return dns_answer_fail(name, type, "SERVFAIL");
		rr[n++] = (struct dns_rr){ .data = w };
	}
	return dns_answer_new(name, type, n ? DNS_OK : DNS_NXDOMAIN, rr, n, 60, false);
}

static void cases(void **st)
{
	static const struct {
		const char *ip, *zone;
		enum iprev_result result;
		const char *name;
		size_t questions;
	} c[] = {
#define R "100.99.98.97.in-addr.arpa" /* "abcd" */
		{ "abcd", R " PTR mx.test\nmx.test A abcd", IPREV_PASS, "mx.test", 2 },
		{ "abcd", R " PTR mx.test\nmx.test A abce\nmx.test A abcd", IPREV_PASS, "mx.test", 2 },
		{ "abcd", R " PTR a.test\n" R " PTR b.test\na.test A !\nb.test A abcd", IPREV_PASS, "b.test", 3 },
		{ "abcd", R " PTR mx.test\nmx.test A abce", IPREV_FAIL, "mx.test", 2 },
		{ "abcd", R " PTR mx.test", IPREV_FAIL, "mx.test", 2 },
		{ "abcd", R " PTR mx.test\nmx.test A !", IPREV_TEMPERROR, "", 2 },
		{ "abcd", R " PTR a.test\n" R " PTR b.test\na.test A !\nb.test A abce", IPREV_TEMPERROR, "", 3 },
		{ "abcd", R " PTR !", IPREV_TEMPERROR, "", 1 },
		{ "abcd", "", IPREV_PERMERROR, "", 1 },
		{ "abc", "", IPREV_PERMERROR, "", 0 },
		{ "abcd", R " PTR .", IPREV_FAIL, "", 1 }, /* the root is no host */
		{ "abcdefghijklmnop", "0.7.f.6.e.6.d.6.c.6.b.6.a.6.9.6.8.6.7.6.6.6.5.6.4.6.3.6.2.6.1.6.ip6.arpa PTR six.test\n"
				      "six.test A abcd\nsix.test AAAA abcdefghijklmnop", IPREV_PASS, "six.test", 2 },
		/* ten names are followed, the eleventh is not */
		{ "abcd", R " PTR 1.test\n" R " PTR 2.test\n" R " PTR 3.test\n" R " PTR 4.test\n" R " PTR 5.test\n" R " PTR 6.test\n" R
			  " PTR 7.test\n" R " PTR 8.test\n" R " PTR 9.test\n" R " PTR 10.test\n" R " PTR 11.test\n11.test A abcd",
		    IPREV_FAIL, "1.test", 11 },
	};
	(void)st;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		struct iprev v = { .ip = (const unsigned char *)c[i].ip, .ip_n = strlen(c[i].ip) };
		struct dns_answers *set = dns_answers_new();
		struct str name;
		enum dns_type type;
		zone = c[i].zone;
		while (iprev_evaluate(&v, set) == DNS_MORE) {
			assert_true(dns_answers_n_missing(set) > 0);
			while (dns_answers_missing(set, 0, &name, &type))
				assert_int_equal(dns_answers_put(set, look(name, type)), 0);
		}
		if (v.result != c[i].result || strcmp(v.name, c[i].name) != 0 || dns_answers_n(set) != c[i].questions)
			fail_msg("case %zu: %s \"%s\" %zu", i, iprev_result_name(v.result), v.name, dns_answers_n(set));
		dns_answers_free(set);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(cases) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
