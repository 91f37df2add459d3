/* Unified diffs by tables. */
#include "base/buf.h"
#include "diff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void line(void *arg, char kind, struct str text)
{
	struct buf *b = arg;
	buf_addf(b, "%c%.*s|", kind, STR_ARG(text));
}

static void test_cases(void **st)
{
	static const struct {
		const char *a, *b, *out;
	} cases[] = {
		{ "", "", "" },
		{ "a\r\nb\r\n", "a\r\nb\r\n", "" },
		{ "", "a\r\n", "@@@ -0,0 +1,1 @@|+a|" },
		{ "a\r\n", "", "@@@ -1,1 +0,0 @@|-a|" },
		{ "a\n", "b\n", "@@@ -1,1 +1,1 @@|-a|+b|" },
		{ "a\n", "x\na\n", "@@@ -1,1 +1,2 @@|+x| a|" },
		{ "a\nb\n", "a\n", "@@@ -1,2 +1,1 @@| a|-b|" },
		{ "a\n", "a", "@@@ -1,1 +1,1 @@|-a|+a|" }, /* only the last line end */
		{ "a\r\n", "a\n", "@@@ -1,1 +1,1 @@|-a|+a|" },
		{ "1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n", "@@@ -2,6 +2,7 @@| 2| 3| 4|+x| 5| 6| 7|" },
		/* changes six common lines apart share a hunk, seven apart do not */
		{ "a\n1\n2\n3\n4\n5\n6\nb\n", "1\n2\n3\n4\n5\n6\n", "@@@ -1,8 +1,6 @@|-a| 1| 2| 3| 4| 5| 6|-b|" },
		{ "a\n1\n2\n3\n4\n5\n6\n7\nb\n", "1\n2\n3\n4\n5\n6\n7\n",
		    "@@@ -1,4 +1,3 @@|-a| 1| 2| 3|@@@ -6,4 +5,3 @@| 5| 6| 7|-b|" },
		{ "s\na\nb\n", "s\nb\na\n", "@@@ -1,3 +1,3 @@| s|-a| b|+a|" },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf b = BUF_INIT(4096);
		assert_int_equal(diff_unified(str_from(cases[i].a), str_from(cases[i].b), line, &b), 0);
		if (strcmp(buf_z(&b), cases[i].out) != 0)
			fail_msg("case %zu: %s instead of %s", i, buf_z(&b), cases[i].out);
		buf_free(&b);
	}
}

/* Texts too different to compare line by line: all away, all new, and quickly. */
static void test_large(void **st)
{
	struct buf a = BUF_INIT(1 << 20), b = BUF_INIT(1 << 20), out = BUF_INIT(1 << 24);
	(void)st;
	for (int i = 0; i < 20000; i++) {
		buf_addf(&a, "a%d\n", i);
		buf_addf(&b, "b%d\n", i);
	}
	assert_int_equal(diff_unified(buf_str(&a), buf_str(&b), line, &out), 0);
	assert_true(str_starts(buf_str(&out), STR("@@@ -1,20000 +1,20000 @@|-a0|-a1|")));
	assert_true(str_iends(buf_str(&out), STR("|+b19998|+b19999|")));
	buf_free(&a);
	buf_free(&b);
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases), cmocka_unit_test(test_large) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
