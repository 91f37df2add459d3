/* Pools of source addresses: reading them, choosing, and doing without. */
#include "proto/relay/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_lines(void **state)
{
	static const struct {
		const char *value, *why;
	} cases[] = {
		{ "192.0.2.1 2001:db8::1", NULL },
		{ "from=@news.example.org 192.0.2.10=out1.example.org*3 192.0.2.11=out2.example.org [2001:db8::10]=out1.example.org", NULL },
		{ "to=*.google.com,@example.net pool=google 192.0.2.20=g.example.org", NULL },
		{ "192.0.2.1*100", NULL },
		{ "", "an address is needed" },
		{ "from=@a.example", "an address is needed" },
		{ "192.0.2.256", "no IP address" },
		{ "192.0.2.1/24", "no IP address" },
		{ "192.0.2.1*0", "a weight from 1 to 100" },
		{ "192.0.2.1*101", "a weight from 1 to 100" },
		{ "192.0.2.1*", "a weight from 1 to 100" },
		{ "192.0.2.1=", "no host name" },
		{ "192.0.2.1=a..b", "no host name" },
		{ "192.0.2.1 192.0.2.1*2", "there twice" },
		{ "from=a.example 192.0.2.1", "domains of senders" },
		{ "from=@a from=@b 192.0.2.1", "there twice" },
		{ "pool=a pool=b 192.0.2.1", "one name" },
		{ "pool= 192.0.2.1", "one name" },
		{ "to= 192.0.2.1", "empty pattern" },
		{ "form=@a.example 192.0.2.1", "no IP address" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sources *s = sources_new();
		struct buf why = BUF_INIT(4096);
		int rc = sources_add(s, "SOURCES_1", str_from(cases[i].value), &why);
		if (cases[i].why ? rc != 1 || !strstr(buf_z(&why), cases[i].why) : rc != 0)
			fail_msg("\"%s\": %d, \"%s\"", cases[i].value, rc, buf_z(&why));
		buf_free(&why);
		sources_free(s);
	}
}

static struct sources *pools(const char *const *lines)
{
	struct sources *s = sources_new();
	struct buf why = BUF_INIT(4096);
	for (int i = 0; lines[i]; i++) {
		char option[32];
		snprintf(option, sizeof option, "SOURCES_%d", i + 1);
		if (sources_add(s, option, str_from(lines[i]), &why))
			fail_msg("%s: %s", lines[i], buf_z(&why));
	}
	buf_free(&why);
	return s;
}

static void test_pools(void **state)
{
	struct sources *s = pools((const char *const[]){ "from=@news.example 192.0.2.1=n.example", "to=@to.example pool=p 192.0.2.2",
	    "pool=q 192.0.2.3", "192.0.2.4 2001:db8::4=six.example", NULL });
	struct source_ask ask = { .sender = "a.example", .pool = "", .domain = "b.example", .key = "k", .family = 4 };
	struct source *got = NULL;
	int64_t when = 0;
	(void)state;
	assert_int_equal(source_choose(s, &ask, 0, &got, &when), SOURCE_FOUND);
	assert_int_equal(got->ip[3], 4);
	ask.sender = "news.example";
	assert_int_equal(source_choose(s, &ask, 0, &got, &when), SOURCE_FOUND);
	assert_int_equal(got->ip[3], 1);
	assert_string_equal(got->helo, "n.example");
	ask.family = 16; /* its pool has none: not the system's, nor another pool's */
	assert_int_equal(source_choose(s, &ask, 0, &got, &when), SOURCE_NO_FAMILY);
	ask.sender = "";
	assert_int_equal(source_choose(s, &ask, 0, &got, &when), SOURCE_FOUND);
	assert_string_equal(got->helo, "six.example");
	ask.family = 4;
	ask.domain = "to.example";
	assert_int_equal(source_choose(s, &ask, 0, &got, &when), SOURCE_FOUND);
	assert_int_equal(got->ip[3], 2);
	ask.pool = "q"; /* a pool for SHAPE lines only */
	assert_int_equal(source_choose(s, &ask, 0, &got, &when), SOURCE_FOUND);
	assert_int_equal(got->ip[3], 3);
	assert_true(sources_has(s, "p") && !sources_has(s, "r"));
	sources_free(s);
	assert_int_equal(source_choose(NULL, &ask, 0, &got, &when), SOURCE_SYSTEM);
	s = pools((const char *const[]){ "from=@x.example 192.0.2.1", NULL });
	assert_int_equal(source_choose(s, &ask, 0, &got, &when), SOURCE_SYSTEM);
	sources_free(s);
}

/* Over many destinations the weights hold; when one goes, only its destinations move, and come back with it. */
static void test_weights(void **state)
{
	enum { N = 10000 };
	struct sources *s = pools((const char *const[]){ "192.0.2.1*6 192.0.2.2*3 192.0.2.3", NULL });
	struct source_ask ask = { .sender = "", .pool = "", .domain = "", .family = 4 };
	struct source *got = NULL, *gone = NULL;
	unsigned n[4] = { 0 }, moved = 0;
	unsigned char first[N];
	int64_t when = 0;
	char key[32];
	(void)state;
	ask.key = key;
	for (int i = 0; i < N; i++) {
		snprintf(key, sizeof key, "mx%d.example", i);
		assert_int_equal(source_choose(s, &ask, 0, &got, &when), SOURCE_FOUND);
		n[first[i] = got->ip[3]]++;
		gone = got->ip[3] == 2 ? got : gone;
	}
	assert_in_range(n[1], N * 57 / 100, N * 63 / 100);
	assert_in_range(n[2], N * 27 / 100, N * 33 / 100);
	assert_in_range(n[3], N * 8 / 100, N * 12 / 100);
	source_failed(gone, 1000);
	for (int i = 0; i < N; i++) {
		snprintf(key, sizeof key, "mx%d.example", i);
		assert_int_equal(source_choose(s, &ask, 1000, &got, &when), SOURCE_FOUND);
		assert_int_not_equal(got->ip[3], 2);
		moved += got->ip[3] != first[i];
	}
	assert_int_equal(moved, n[2]);
	for (int i = 0; i < N; i++) {
		snprintf(key, sizeof key, "mx%d.example", i);
		assert_int_equal(source_choose(s, &ask, 1000 + SOURCE_PAUSE_FIRST_MS, &got, &when), SOURCE_FOUND);
		assert_int_equal(got->ip[3], first[i]);
	}
	sources_free(s);
}

static void test_suspended(void **state)
{
	struct sources *s = pools((const char *const[]){ "192.0.2.1 192.0.2.2", NULL });
	struct source_ask ask = { .sender = "", .pool = "", .domain = "", .key = "k", .family = 4 };
	struct source *a = NULL, *b = NULL;
	const struct source *at;
	const char *option;
	int64_t when = 0, now = 0;
	(void)state;
	assert_int_equal(source_choose(s, &ask, now, &a, &when), SOURCE_FOUND);
	source_failed(a, now);
	source_failed(a, now + 1); /* the same failure, of another session */
	assert_int_equal(source_choose(s, &ask, now + 10, &b, &when), SOURCE_FOUND);
	assert_ptr_not_equal(a, b);
	source_failed(b, now + 10);
	assert_int_equal(source_choose(s, &ask, now + 20, &b, &when), SOURCE_SUSPENDED);
	assert_int_equal(when, SOURCE_PAUSE_FIRST_MS);
	now = when;
	assert_int_equal(source_choose(s, &ask, now, &b, &when), SOURCE_FOUND);
	assert_ptr_equal(a, b);
	for (int i = 0; i < 40; i++) { /* longer and longer, and bounded */
		source_failed(a, now);
		assert_true(a->until - now <= SOURCE_PAUSE_MOST_MS);
		now = a->until;
	}
	source_failed(a, now);
	assert_int_equal(a->until - now, SOURCE_PAUSE_MOST_MS);
	source_ok(a);
	assert_int_equal(a->until, 0);
	assert_true(sources_at(s, 1, &option, &at) && !strcmp(option, "SOURCES_1") && at->ip[3] == 2);
	assert_false(sources_at(s, 2, &option, &at));
	sources_free(s);
}

static enum source_allowed not_two(void *arg, const struct source *source, const char *destination)
{
	(void)arg;
	assert_non_null(destination);
	return source->ip[3] == 2 ? SOURCE_NOT : SOURCE_MAY;
}
static enum source_allowed none(void *arg, const struct source *source, const char *destination)
{
	(void)arg;
	(void)source;
	(void)destination;
	return SOURCE_NOT;
}
static enum source_allowed two_first(void *arg, const struct source *source, const char *destination)
{
	(void)arg;
	(void)destination;
	return source->ip[3] == 2 ? SOURCE_FIRST : SOURCE_MAY;
}

static void test_allowance(void **state)
{
	struct sources *s = pools((const char *const[]){ "192.0.2.1 192.0.2.2", NULL });
	struct source_ask ask = { .sender = "", .pool = "", .domain = "", .family = 4 }, free_ask;
	struct source *got = NULL, *want = NULL;
	int64_t when = 0;
	char key[32];
	(void)state;
	ask.key = key;
	free_ask = ask;
	for (int i = 0; i < 100; i++) {
		snprintf(key, sizeof key, "k%d", i);
		ask.allow = not_two; /* today's share is used up: what would go there goes elsewhere */
		assert_int_equal(source_choose(s, &ask, 0, &got, &when), SOURCE_FOUND);
		assert_int_equal(got->ip[3], 1);
		ask.allow = none;
		assert_int_equal(source_choose(s, &ask, 0, &got, &when), SOURCE_FOUND);
		assert_int_equal(source_choose(s, &free_ask, 0, &want, &when), SOURCE_FOUND);
		assert_ptr_equal(got, want);
		ask.allow = two_first; /* a new address gets its share of each destination, not only of those that fall to it */
		assert_int_equal(source_choose(s, &ask, 0, &got, &when), SOURCE_FOUND);
		assert_int_equal(got->ip[3], 2);
	}
	sources_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines), cmocka_unit_test(test_pools), cmocka_unit_test(test_weights), cmocka_unit_test(test_suspended),
		cmocka_unit_test(test_allowance),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
