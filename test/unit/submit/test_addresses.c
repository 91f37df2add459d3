/* Address lists as header fields and command lines have them: what comes out, what is no address. */
#include "submit/submit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <stdio.h>

static void lists(void **state)
{
	static const struct {
		const char *in, *out, *bad; /* out: blank-separated; bad: lines */
	} cases[] = {
		{ "a@b.test", "a@b.test", "" },
		{ "", "", "" },
		{ " , ,, ", "", "" },
		{ "root", "root@host.test", "" },
		{ "root, root@HOST.test, ROOT", "root@host.test ROOT@host.test", "" },
		{ "A B <a@b.test>, c", "a@b.test c@host.test", "" },
		{ "\"B, A\" <a@b.test>, \"x\\\"y, z\" <c@d.test>", "a@b.test c@d.test", "" },
		{ "a@b.test (A, B (nested \\) ), C), c@d.test", "a@b.test c@d.test", "" },
		{ "group: a@b.test, C <c@d.test>; e@f.test", "a@b.test c@d.test e@f.test", "" },
		{ "undisclosed-recipients:;", "", "" },
		{ "<@relay.test,@other.test:a@b.test>", "a@b.test", "" },
		{ "a . b @ c . test", "a.b@c.test", "" },
		{ "\"odd local\"@b.test", "\"odd local\"@b.test", "" },
		{ "\"plain\"@b.test", "plain@b.test", "" },
		{ "\"a@b\"", "\"a@b\"@host.test", "" },
		{ "a@[192.0.2.1]", "a@[192.0.2.1]", "" },
		{ "a@[IPv6:2001:db8::1]", "a@[IPv6:2001:db8::1]", "" },
		{ "j\xc3\xbcrgen@b.test", "j\xc3\xbcrgen@b.test", "" },
		{ "a@b.test,\r\n\tc@d.test", "a@b.test c@d.test", "" },
		{ "=?utf-8?q?x?= <a@b.test>", "a@b.test", "" },
		{ "two words, a@b.test", "a@b.test", "two words\n" },
		{ "a@@b.test", "", "a@@b.test\n" },
		{ "a@b@c.test", "", "a@b@c.test\n" },
		{ "<a@b.test", "", "<a@b.test\n" },
		{ "a@b.test>", "", "a@b.test>\n" },
		{ "<>", "", "<>\n" },
		{ "A <a@b.test> <c@d.test>", "", "A <a@b.test> <c@d.test>\n" },
		{ "<a@b.test> tail", "", "<a@b.test> tail\n" },
		{ "a(unended@b.test", "", "a(unended@b.test\n" },
		{ "\"unended@b.test", "", "\"unended@b.test\n" },
		{ "a@[192.0.2", "", "a@[192.0.2\n" },
		{ "a\x01@b.test", "", "a @b.test\n" },
		{ "\"a\nRCPT TO:<x@y>\"@b.test", "\"aRCPT TO:<x@y>\"@b.test", "" },
		{ "a@b.test\nX: y", "", "a@b.test X: y\n" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct submit_addresses a;
		struct buf got = BUF_INIT(4096);
		submit_addresses_init(&a);
		assert_int_equal(submit_addresses_add(&a, str_from(cases[i].in), "host.test"), 0);
		const char *p = a.text.p;
		for (size_t k = 0; k < a.n; k++, p += strlen(p) + 1)
			buf_addf(&got, "%s%s", k ? " " : "", p);
		if (strcmp(buf_z(&got), cases[i].out) || strcmp(buf_z(&a.bad), cases[i].bad))
			fail_msg("%s: \"%s\", bad \"%s\"", cases[i].in, buf_z(&got), buf_z(&a.bad));
		buf_free(&got);
		submit_addresses_done(&a);
	}
}

static void one(void **state)
{
	static const struct {
		const char *in, *out; /* NULL: no address */
	} cases[] = { { "", "" }, { "<>", "" }, { " <> ", "" }, { "a", "a@host.test" }, { "A <a@b.test>", "a@b.test" }, { "a@b.test, c@d.test", NULL },
		{ "a b", NULL }, { "@", NULL } };
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf out = BUF_INIT(1024);
		int r = submit_address_one(&out, str_from(cases[i].in), "host.test");
		assert_int_equal(r, cases[i].out ? 0 : -1);
		if (cases[i].out)
			assert_string_equal(buf_z(&out), cases[i].out);
		buf_free(&out);
	}
}

/* As many as are allowed, and one more; each twice, so that finding them again is part of it. */
static void many(void **state)
{
	struct submit_addresses a;
	char text[64];
	(void)state;
	submit_addresses_init(&a);
	for (unsigned turn = 0; turn < 2; turn++)
		for (unsigned i = 0; i < SUBMIT_RCPTS_MAX; i++) {
			snprintf(text, sizeof text, "u%u@b.test", i);
			assert_int_equal(submit_addresses_add(&a, str_from(text), "host.test"), 0);
		}
	assert_int_equal(a.n, SUBMIT_RCPTS_MAX);
	assert_int_equal(submit_addresses_add(&a, STR("one@more.test"), "host.test"), -1);
	submit_addresses_done(&a);
}

/* Nesting costs nothing but its octets. */
static void deep(void **state)
{
	struct buf text = BUF_INIT(4 << 20);
	struct submit_addresses a;
	(void)state;
	for (unsigned i = 0; i < 1000000; i++)
		buf_addc(&text, '(');
	for (unsigned i = 0; i < 1000000; i++)
		buf_addc(&text, ')');
	buf_addz(&text, "a@b.test");
	submit_addresses_init(&a);
	assert_int_equal(submit_addresses_add(&a, buf_str(&text), "host.test"), 0);
	assert_int_equal(a.n, 1);
	submit_addresses_done(&a);
	buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(lists), cmocka_unit_test(one), cmocka_unit_test(many), cmocka_unit_test(deep) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
