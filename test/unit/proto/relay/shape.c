/* The operator's lines about destinations, and what destinations are called. */
#include "proto/relay/shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_lines(void **state)
{
	static const struct {
		const char *value, *why; /* NULL: fine; else a part of what is said */
	} cases[] = {
		{ "*.google.com provider=google concurrency=20 rate=600/min per_connection=100", NULL },
		{ "mx1.example.net,mx2.example.net concurrency=2", NULL },
		{ "  @example.org,@*.example.org\trate=1/s burst=1  backoff=5min..1h ", NULL },
		{ "* CONCURRENCY=10", NULL },
		{ "@* rate=0", NULL },
		{ "@[192.0.2.1] rate=5000/d", NULL },
		{ "m\xc3\xbcller.example idle=5s", NULL },
		{ "x.example backoff=1min", NULL },
		{ "x.example initial=4 concurrency=4 sources=pool_1", NULL },
		{ "", "a pattern is needed" },
		{ "concurrency=3", "a pattern belongs before" },
		{ "x.example", "a setting is needed" },
		{ "x.example concurency=3", "is \"concurrency=\" meant?" },
		{ "x.example frobnicate", "not known" },
		{ "x.example concurrency", "not known" },
		{ "x.example concurrency=", "a number from 1 to 10000" },
		{ "x.example concurrency=0", "a number from 1 to 10000" },
		{ "x.example concurrency=10001", "a number from 1 to 10000" },
		{ "x.example concurrency=-1", "a number" },
		{ "x.example concurrency=99999999999999999999", "a number" },
		{ "x.example concurrency=2 initial=3", "initial=3 is more than concurrency=2" },
		{ "x.example rate=10", "messages in a time" },
		{ "x.example rate=0/min", "messages in a time" },
		{ "x.example rate=10/week", "messages in a time" },
		{ "x.example rate=/min", "messages in a time" },
		{ "x.example rate=1000001/s", "messages in a time" },
		{ "x.example burst=3", "no meaning without rate=" },
		{ "x.example idle=0s", "a time such as" },
		{ "x.example idle=5", "a time such as" },
		{ "x.example idle=25h", "a time such as" },
		{ "x.example idle=99999999999999999999s", "a time such as" },
		{ "x.example backoff=1h..5min", "the shorter time" },
		{ "x.example backoff=..", "a time such as" },
		{ "x.example backoff=1min..2min..3min", "a time such as" },
		{ "x.example provider=", "letters, digits" },
		{ "x.example provider=a/b", "letters, digits" },
		{ "x.example provider=abcdefghijklmnopqrstuvwxyzabcdefg", "letters, digits" },
		{ "x.example concurrency=1 concurrency=2", "said twice" },
		{ "*example.org concurrency=1", "no pattern" },
		{ "a.*.org concurrency=1", "no pattern" },
		{ "*. concurrency=1", "no pattern" },
		{ "@ concurrency=1", "no pattern" },
		{ "a@b.example concurrency=1", "no pattern" },
		{ "[192.0.2.1] concurrency=1", "no pattern" },
		{ "192.0.2.0/24 concurrency=1", "no pattern" },
		{ "a.example,,b.example concurrency=1", "empty pattern" },
		{ ", concurrency=1", "empty pattern" },
		{ "a.example, b.example concurrency=1", "empty pattern" },
		{ "a..b concurrency=1", "no pattern" },
		{ "x.example \xff", "UTF-8" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct shapes *s = shapes_new();
		struct buf why = BUF_INIT(4096);
		int rc = shapes_add(s, "SHAPE_1", str_from(cases[i].value), &why);
		if (cases[i].why ? rc != 1 || !strstr(buf_z(&why), cases[i].why) : rc != 0)
			fail_msg("\"%s\": %d, \"%s\"", cases[i].value, rc, buf_z(&why));
		buf_free(&why);
		shapes_free(s);
	}
}

static void test_limits(void **state)
{
	struct shapes *s = shapes_new();
	struct buf why = BUF_INIT(4096);
	char many[8192] = "x0";
	(void)state;
	assert_int_equal(shapes_add(s, "SHAPE", STR("* concurrency=1"), &why), 1);
	assert_int_equal(shapes_add(s, "SHAPE_99999999999", STR("* concurrency=1"), &why), 1);
	for (int i = 1; i < SHAPE_PATTERNS_MAX + 1; i++)
		snprintf(many + strlen(many), sizeof many - strlen(many), ",x%d", i);
	snprintf(many + strlen(many), sizeof many - strlen(many), " concurrency=1");
	assert_int_equal(shapes_add(s, "SHAPE_1", str_from(many), &why), 1);
	for (int i = 0; i < SHAPE_RULES_MAX; i++) {
		char option[32];
		snprintf(option, sizeof option, "SHAPE_%d", i);
		assert_int_equal(shapes_add(s, option, STR("x.example concurrency=1"), &why), 0);
	}
	assert_int_equal(shapes_add(s, "SHAPE_300", STR("x.example concurrency=1"), &why), 1);
	buf_free(&why);
	shapes_free(s);
}

static void host(struct route *r, const char *name, unsigned preference, enum route_host_state state)
{
	struct route_host *h = &r->host[r->n_hosts++];
	snprintf(h->name, sizeof h->name, "%s", name);
	snprintf(h->canonical, sizeof h->canonical, "%s", name);
	h->preference = (uint16_t)preference;
	h->state = state;
}

static void expect(const struct shapes *s, const struct route *r, const char *domain, const char *key, unsigned concurrency)
{
	struct shape_name name;
	shape_find(s, r, domain, &name);
	assert_string_equal(name.key, key);
	assert_int_equal(name.shape->concurrency, concurrency);
}

static void test_find(void **state)
{
	static struct route r, b, c, l, t;
	struct shapes *s = shapes_new();
	struct buf why = BUF_INIT(4096);
	struct shape_name name;
	(void)state;
	host(&r, "mx2.example.org", 20, ROUTE_HOST_USED);
	host(&r, "mx1.example.org", 10, ROUTE_HOST_USED);
	expect(NULL, &r, "example.org", "mx1.example.org,mx2.example.org", shape_default.concurrency);
	/* the numbers order the lines */
	assert_int_equal(shapes_add(s, "SHAPE_20", STR("* concurrency=7"), &why), 0);
	assert_int_equal(shapes_add(s, "SHAPE_3", STR("*.google.com provider=google concurrency=30"), &why), 0);
	assert_int_equal(shapes_add(s, "SHAPE_4", STR("@vip.example rate=1/s concurrency=2"), &why), 0);
	expect(s, &r, "example.org", "mx1.example.org,mx2.example.org", 7);
	/* a domain with limits of its own is a destination of its own, though others share the exchangers */
	expect(s, &r, "vip.example", "mx1.example.org,mx2.example.org@SHAPE_4", 2);
	/* best preference, used: */
	host(&b, "alt.google.com", 5, ROUTE_HOST_TEMPFAIL);
	host(&b, "mx.other.example", 10, ROUTE_HOST_USED);
	host(&b, "aspmx.google.com", 20, ROUTE_HOST_USED);
	expect(s, &b, "b.example", "alt.google.com,aspmx.google.com,mx.other.example", 7);
	host(&c, "aspmx.l.google.com", 1, ROUTE_HOST_USED);
	host(&c, "loop.example", 1, ROUTE_HOST_LOOP);
	expect(s, &c, "c.example", "google", 30);
	shape_find(s, &c, "c.example", &name);
	assert_true(name.provider);
	/* "*.google.com" is not google.com, nor notgoogle.com */
	snprintf(c.host[0].name, sizeof c.host[0].name, "notgoogle.com");
	snprintf(c.host[0].canonical, sizeof c.host[0].canonical, "google.com");
	expect(s, &c, "c.example", "google.com", 7);
	/* a literal; a host of one label is no provider's name */
	l.literal = true;
	host(&l, "", 0, ROUTE_HOST_USED);
	expect(s, &l, "[192.0.2.1]", "[192.0.2.1]", 7);
	host(&t, "google", 0, ROUTE_HOST_USED);
	expect(s, &t, "t.example", "google.", 7);
	shape_lookup("example.org", &name);
	assert_string_equal(name.key, "?example.org");
	buf_free(&why);
	shapes_free(s);
}

/* Long sets are told apart, and keys are bounded. */
static void test_long(void **state)
{
	static struct route a, b;
	struct shape_name x, y;
	struct shapes *s = shapes_new();
	struct buf why = BUF_INIT(4096);
	char z[DNS_NAME_MAX + 1];
	(void)state;
	for (int i = 0; i < ROUTE_HOSTS_MAX; i++) {
		for (size_t k = 0; k < DNS_NAME_MAX; k++)
			z[k] = k % 64 == 63 ? '.' : (char)('a' + i);
		z[DNS_NAME_MAX] = 0;
		host(&a, z, 1, ROUTE_HOST_USED);
		z[200] = i == ROUTE_HOSTS_MAX - 1 ? 'z' : z[200];
		host(&b, z, 1, ROUTE_HOST_USED);
	}
	shape_find(NULL, &a, "x", &x);
	shape_find(NULL, &b, "x", &y);
	assert_true(strlen(x.key) <= SHAPE_KEY_MAX && strcmp(x.key, y.key));
	assert_int_equal(shapes_add(s, "SHAPE_1234567", STR("@x concurrency=1"), &why), 0);
	shape_find(s, &a, "x", &y);
	assert_true(strlen(y.key) <= SHAPE_KEY_MAX && strstr(y.key, "@SHAPE_1234567"));
	buf_free(&why);
	shapes_free(s);
}

static void test_doubts(void **state)
{
	static const struct {
		const char *a, *b, *why; /* NULL: none */
		unsigned workers;
	} cases[] = {
		{ "*.a.example provider=p rate=1/s", "*.b.example provider=p rate=1/s", NULL, 1 },
		{ "*.a.example provider=p rate=1/s", "*.b.example provider=p rate=2/s", "other limits in SHAPE_1", 1 },
		{ "*.a.example rate=1/s", "x.a.example rate=2/s", "never used: SHAPE_1", 1 },
		{ "*.a.example rate=1/s", "*.x.a.example rate=2/s", "never used: SHAPE_1", 1 },
		{ "* rate=1/s", "@a.example rate=2/s", "never used: SHAPE_1", 1 },
		{ "@* rate=1/s", "a.example rate=2/s", NULL, 1 },
		{ "@*.a.example rate=1/s", "@a.example rate=2/s", NULL, 1 },
		{ "a.example rate=1/s", "*.a.example rate=2/s", NULL, 1 },
		{ "a.example concurrency=2", "b.example concurrency=8", "below PARALLELISM", 4 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct shapes *s = shapes_new();
		struct buf why = BUF_INIT(4096);
		const char *option = NULL;
		assert_int_equal(shapes_add(s, "SHAPE_2", str_from(cases[i].b), &why), 0);
		assert_int_equal(shapes_add(s, "SHAPE_1", str_from(cases[i].a), &why), 0);
		bool doubt = shapes_doubt(s, cases[i].workers, 0, &option, &why);
		if (doubt != (cases[i].why != NULL) || (doubt && !strstr(buf_z(&why), cases[i].why)))
			fail_msg("%s; %s: \"%s\"", cases[i].a, cases[i].b, buf_z(&why));
		assert_false(shapes_doubt(s, cases[i].workers, 1, &option, &why));
		buf_free(&why);
		shapes_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines), cmocka_unit_test(test_limits), cmocka_unit_test(test_find), cmocka_unit_test(test_long),
		cmocka_unit_test(test_doubts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
