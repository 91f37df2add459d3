/* Address patterns: what is one, and what it matches. */
#include "pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void matching(void **st)
{
	(void)st;
	static const struct {
		const char *pattern, *address;
		bool want;
	} cases[] = {
		{ "*", "a@b.test", true }, { "*", "", true }, { "a@b.test", "A@B.Test", true }, { "a@b.test", "b@b.test", false },
		{ "a@*", "a@anything.test", true }, { "a@*", "aa@anything.test", false }, { "b.test", "x@b.test", true },
		{ "b.test", "x@a.b.test", false }, { "b.test", "x@xb.test", false }, { "*.b.test", "x@a.b.test", true },
		{ "*.b.test", "x@b.test", false }, { "*.b.test", "x@ab.test", false }, { "b.test", "", false },
		{ "\"a b\"@b.test", "\"a b\"@b.test", true }, { "ab@b.test", "\"ab\"@b.test", true },
		{ "xn--mller-kva.test", "x@m\xc3\xbcller.test", true }, { "[192.0.2.1]", "x@[192.0.2.1]", true },
		{ "a@b.test", "\"x@y\"@b.test", false },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct pattern p;
		struct pattern_address a;
		if (pattern_parse(str_from(cases[i].pattern), &p) || pattern_address(str_from(cases[i].address), &a))
			fail_msg("%s or %s does not parse", cases[i].pattern, cases[i].address);
		if (pattern_match(&p, &a) != cases[i].want)
			fail_msg("%s against %s", cases[i].pattern, cases[i].address);
	}
}

static void refused(void **st)
{
	(void)st;
	static const char *const bad[] = { "", "@b.test", "a@", "*.", "**", "a@b@*x", "-.test", "a b.test", "[1.2.3]" };
	struct pattern p;
	struct pattern_address a;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (!pattern_parse(str_from(bad[i]), &p))
			fail_msg("accepted: %s", bad[i]);
	static char big[400];
	memset(big, 'a', sizeof big);
	memcpy(big + 300, "@b.test", 7);
	assert_int_equal(pattern_address(str_n(big, 307), &a), -1);
	assert_int_equal(pattern_address(str_n("a\0b@c.test", 10), &a), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(matching), cmocka_unit_test(refused) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
