/* Words of DNSBL and DNSWL, and the evaluation over made-up zones. */
#include "proto/dns/dnsbl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void words(void **st)
{
	static const struct {
		const char *word;
		bool allow, good;
		enum dnsbl_action action;
		unsigned patterns;
	} c[] = {
		{ "zen.example", false, true, DNSBL_REJECT, 0 },
		{ "ZEN.example.=127.0.0.2-11:defer", false, true, DNSBL_DEFER, 1 },
		{ "a.b=127.0.0.2|127.0.*.1-3|127.*.*.*:record", false, true, DNSBL_RECORD, 3 },
		{ "wl.example=127.0.*.1", true, true, DNSBL_ALLOW, 1 },
		{ "wl.example:reject", true, false, 0, 0 }, { "a.b:allow", false, false, 0, 0 }, { "a.b:", false, false, 0, 0 },
		{ "", false, false, 0, 0 }, { "nodot", false, false, 0, 0 }, { "a.b=", false, false, 0, 0 }, { "a..b", false, false, 0, 0 },
		{ "a.b=10.0.0.1", false, false, 0, 0 }, { "a.b=126-127.0.0.1", false, false, 0, 0 }, { "a.b=127.0.0", false, false, 0, 0 },
		{ "a.b=127.0.0.1.2", false, false, 0, 0 }, { "a.b=127.0.0.256", false, false, 0, 0 }, { "a.b=127.0.0.9-2", false, false, 0, 0 },
		{ "a.b=127.0.0.x", false, false, 0, 0 },
		{ "a.b=127.0.0.1|127.0.0.1|127.0.0.1|127.0.0.1|127.0.0.1|127.0.0.1|127.0.0.1|127.0.0.1|127.0.0.1", false, false, 0, 0 },
	};
	(void)st;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		struct dnsbl_list l;
		const char *why = NULL;
		int r = dnsbl_parse(str_from(c[i].word), c[i].allow, &l, &why);
		if ((r == 0) != c[i].good)
			fail_msg("\"%s\" gives %d (%s)", c[i].word, r, why);
		if (!c[i].good)
			continue;
		assert_int_equal(l.action, c[i].action);
		assert_int_equal(l.n, c[i].patterns);
	}
}

static void matches(void **st)
{
	struct dnsbl_list l;
	const char *why;
	const unsigned char two[4] = { 127, 0, 0, 2 }, twelve[4] = { 127, 0, 0, 12 }, parked[4] = { 192, 0, 2, 1 };
	(void)st;
	dnsbl_parse(STR("a.b=127.0.0.2-11"), false, &l, &why);
	assert_true(dnsbl_matches(&l, two) && !dnsbl_matches(&l, twelve) && !dnsbl_matches(&l, parked));
	dnsbl_parse(STR("a.b"), false, &l, &why);
	assert_true(dnsbl_matches(&l, twelve) && !dnsbl_matches(&l, parked));
}

static void evaluation(void **st)
{
	static const char *const word[] = { "bl.test=127.0.0.2", "fail.test", "none.test", "odd.test" };
	struct dnsbl_list lists[4];
	struct dnsbl_result results[4];
	struct dnsbl_check c = { lists, results, 4, (const unsigned char *)"abcd", 4, true };
	struct dns_answers *set = dns_answers_new();
	struct str name;
	enum dns_type type;
	const char *why;
	unsigned rounds = 0;
	(void)st;
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(dnsbl_parse(str_from(word[i]), false, &lists[i], &why), 0);
	while (dnsbl_evaluate(&c, set) == DNS_MORE && ++rounds < 10)
		while (dns_answers_missing(set, 0, &name, &type)) {
			struct dns_rr rr = { .data = STR("\x7f\0\0\2") }, odd = { .data = STR("\xc0\0\2\1") }, txt = { .data = STR("see\r\n\x80 http") };
			struct dns_answer *a;
			if (str_eq(name, STR("100.99.98.97.bl.test")))
				a = dns_answer_new(name, type, DNS_OK, type == DNS_A ? &rr : &txt, 1, 60, false);
			else if (str_eq(name, STR("100.99.98.97.odd.test")))
				a = dns_answer_new(name, type, DNS_OK, &odd, 1, 60, false);
			else if (str_eq(name, STR("100.99.98.97.fail.test")))
				a = dns_answer_fail(name, type, "SERVFAIL");
			else
				a = dns_answer_new(name, type, DNS_NXDOMAIN, NULL, 0, 60, false);
			dns_answers_put(set, a);
		}
	assert_int_equal(rounds, 2); /* all addresses at once, then the reason of the one that lists it */
	assert_true(results[0].listed && !results[0].failed);
	assert_string_equal(results[0].text, "see??? http");
	assert_true(!results[1].listed && results[1].failed && !results[2].listed && !results[2].failed);
	assert_false(results[3].listed); /* outside 127.0.0.0/8 */
	dns_answers_free(set);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(words), cmocka_unit_test(matches), cmocka_unit_test(evaluation) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
