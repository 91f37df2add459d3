/* Warm-up plans: reading them, what they allow on which day, and what is taken at once. */
#include "proto/relay/warmup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_lines(void **state)
{
	static const struct {
		const char *value, *why;
	} cases[] = {
		{ "192.0.2.11 start=2026-12-01 steps=50", NULL },
		{ "start=2026-12-01 steps=50,100 192.0.2.11 2001:db8::11 [2001:db8::12]", NULL },
		{ "192.0.2.11 start=2026-12-01 first=50 factor=2 last=1000", NULL },
		{ "192.0.2.11 start=2026-12-01 first=50 factor=1.25 last=1000", NULL },
		{ "192.0.2.11 start=2026-12-01 first=50 factor=2 last=50", NULL },
		{ "", "an address and start=" },
		{ "192.0.2.11 steps=50", "an address and start=" },
		{ "start=2026-12-01 steps=50", "an address and start=" },
		{ "192.0.2.11 start=2026-12-01", "steps= is needed" },
		{ "192.0.2.11 start=2026-12-01 steps=", "numbers belong" },
		{ "192.0.2.11 start=2026-12-01 steps=50,0", "a step is" },
		{ "192.0.2.11 start=2026-12-01 steps=50,x", "a step is" },
		{ "192.0.2.11 start=2026-12-01 steps=100000001", "a step is" },
		{ "192.0.2.11 start=2026-12-01 steps=1 steps=2", "twice" },
		{ "192.0.2.11 start=2026-12-01 start=2026-12-02 steps=1", "twice" },
		{ "192.0.2.11 start=2026-02-29 steps=1", "takes a date" },
		{ "192.0.2.11 start=20261201 steps=1", "takes a date" },
		{ "192.0.2.11 start=2026-12-1 steps=1", "takes a date" },
		{ "192.0.2.11 start=2026-12-01 first=50 factor=1 last=100", "from 1.01" },
		{ "192.0.2.11 start=2026-12-01 first=50 factor=10.01 last=100", "from 1.01" },
		{ "192.0.2.11 start=2026-12-01 first=50 factor=1.234 last=100", "from 1.01" },
		{ "192.0.2.11 start=2026-12-01 first=50 factor=2 last=49", "less than first" },
		{ "192.0.2.11 start=2026-12-01 first=50 factor=2", "steps= is needed" },
		{ "192.0.2.11 start=2026-12-01 first=1 factor=1.01 last=100000", "not reached" },
		{ "192.0.2.11 start=2026-12-01 first=1 steps=5", "do not go with it" },
		{ "192.0.2.11 192.0.2.11 start=2026-12-01 steps=1", "a plan already" },
		{ "192.0.2.0/24 start=2026-12-01 steps=1", "no IP address" },
		{ "192.0.2.11=a.example start=2026-12-01 steps=1", "no IP address" },
		{ "1 2 3 4 5", "no IP address" },
		{ "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7 10.0.0.8 10.0.0.9 10.0.0.10 10.0.0.11 10.0.0.12 10.0.0.13 10.0.0.14 10.0.0.15 10.0.0.16 10.0.0.17",
		    "more than 16" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct warmups *w = warmups_new();
		struct buf why = BUF_INIT(4096);
		int rc = warmups_add(w, "WARMUP_1", str_from(cases[i].value), &why);
		if (rc != (cases[i].why ? 1 : 0) || (cases[i].why && !strstr(buf_z(&why), cases[i].why)) || warmups_count(w) != (rc ? 0u : 1u))
			fail_msg("\"%s\": %d %s", cases[i].value, rc, buf_z(&why));
		warmups_free(w);
		buf_free(&why);
	}
}

static void test_days(void **state)
{
	static const unsigned char a[] = { 192, 0, 2, 11 }, b[16] = { 0x20, 1, 0xd, 0xb8, [15] = 0x11 }, c[] = { 192, 0, 2, 12 }, other[] = { 192, 0, 2, 1 };
	enum { START = 20788 }; /* 2026-12-01 */
	(void)state;
	struct warmups *w = warmups_new();
	struct buf why = BUF_INIT(4096);
	assert_int_equal(warmups_add(w, "WARMUP_1", STR("192.0.2.11 2001:db8::11 start=2026-12-01 steps=50,100,70"), &why), 0);
	assert_int_equal(warmups_add(w, "WARMUP_2", STR("192.0.2.12 start=2026-12-01 first=50 factor=1.5 last=200"), &why), 0);
	assert_int_equal(warmups_add(w, "WARMUP_3", STR("2001:db8:0::11 start=2026-12-01 steps=1"), &why), 1);
	static const int64_t want[] = { 0, 50, 100, 70, WARMUP_FREE }, grown[] = { 0, 50, 75, 112, 168, 200, WARMUP_FREE };
	for (int i = 0; i < 5; i++) {
		assert_int_equal(warmups_allowance(w, a, 4, START - 1 + i), want[i]);
		assert_int_equal(warmups_allowance(w, b, 16, START - 1 + i), want[i]);
		assert_int_equal(warmups_allowance(w, other, 4, START - 1 + i), WARMUP_FREE);
	}
	for (int i = 0; i < 7; i++)
		assert_int_equal(warmups_allowance(w, c, 4, START - 1 + i), grown[i]);
	assert_int_equal(warmups_allowance(w, a, 4, 0), 0);
	assert_int_equal(warmups_allowance(w, a, 4, INT64_MAX / 2), WARMUP_FREE);
	const char *option;
	const unsigned char *ip;
	unsigned n;
	assert_true(warmups_at(w, 2, &option, &ip, &n) && n == 4 && !memcmp(ip, c, 4) && !strcmp(option, "WARMUP_2"));
	assert_false(warmups_at(w, 3, &option, &ip, &n));
	/* what is taken at once never is more than there is, nor much of it */
	assert_int_equal(warmup_share(1), 1);
	assert_int_equal(warmup_share(50), 1);
	assert_int_equal(warmup_share(1000), 20);
	assert_int_equal(warmup_share(WARMUP_MOST), 200);
	warmups_free(w);
	buf_free(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines), cmocka_unit_test(test_days) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
