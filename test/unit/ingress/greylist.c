/* The greylist's questions with a database that is a script: what counts as one triplet, batches, what is away, late answers. */
#include "ingress/greylist.h"

#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct script {
	bool down;
	size_t n, sizes[16];              /* questions so far */
	struct store_greylist_key first;  /* of the last */
	struct store_greylist_terms terms;
	store_greylist_fn fn[16];
	void *arg[16];
	unsigned sweeps;
	store_number_fn swept;
	void *swept_arg;
} db;

static bool up(void *ctx)
{
	return !((struct script *)ctx)->down;
}

static void ask(void *ctx, const struct store_greylist_key *keys, size_t n, const struct store_greylist_terms *t, store_greylist_fn fn, void *arg)
{
	struct script *s = ctx;
	assert_true(s->n < 16 && n > 0);
	s->sizes[s->n] = n;
	s->first = keys[0];
	s->terms = *t;
	s->fn[s->n] = fn;
	s->arg[s->n++] = arg;
}

static void sweep(void *ctx, store_number_fn fn, void *arg)
{
	struct script *s = ctx;
	s->sweeps++;
	s->swept = fn;
	s->swept_arg = arg;
}

static void reply(size_t i, enum store_rc rc, int32_t wait)
{
	int32_t waits[512];
	for (size_t k = 0; k < db.sizes[i]; k++)
		waits[k] = wait;
	db.fn[i](db.arg[i], rc, rc == STORE_OK ? waits : NULL, rc == STORE_OK ? db.sizes[i] : 0);
}

struct heard {
	unsigned n;
	int32_t wait;
};

static void on_answer(void *arg, int32_t wait_s)
{
	struct heard *h = arg;
	h->n++;
	h->wait = wait_s;
}

static struct event_base *base;

static struct greylist *begin(void)
{
	const struct greylist_backend be = { &db, up, ask, sweep };
	db = (struct script){ 0 };
	base = event_base_new();
	struct greylist *g = greylist_new(base, &be);
	assert_non_null(g);
	greylist_terms(g, &(struct store_greylist_terms){ 300, 3600, 86400, 5 });
	return g;
}

static struct net_addr from(const char *text)
{
	struct net_addr a;
	assert_int_equal(net_addr_parse(&a, str_from(text), 25), 0);
	return a;
}

static struct store_greylist_key hash(const char *ip, const char *sender, const char *rcpt)
{
	struct net_addr a = from(ip);
	struct store_greylist_key k;
	greylist_hash(&a, str_from(sender), str_from(rcpt), &k);
	return k;
}

static void one_triplet(void **st)
{
	static const struct {
		const char *ip[2], *sender[2], *rcpt[2];
		bool same, same_net;
	} of[] = {
		{ { "192.0.2.1", "192.0.2.200" }, { "a@b.test", "A@B.TEST" }, { "r@x.test", "R@X.test" }, true, true },
		{ { "192.0.2.1", "192.0.3.1" }, { "a@b.test", "a@b.test" }, { "r@x.test", "r@x.test" }, false, false },
		{ { "2001:db8::1", "2001:db8::ffff:1" }, { "a@b.test", "a@b.test" }, { "r@x.test", "r@x.test" }, true, true },
		{ { "2001:db8::1", "2001:db8:0:1::1" }, { "a@b.test", "a@b.test" }, { "r@x.test", "r@x.test" }, false, false },
		/* who counts on is one sender, who writes another name is not */
		{ { "192.0.2.1", "192.0.2.1" }, { "bounces-4711-x@b.test", "bounces-9-x@b.test" }, { "r@x.test", "r@x.test" }, true, true },
		{ { "192.0.2.1", "192.0.2.1" }, { "list+r=x.test@b.test", "list+q=y.test@b.test" }, { "r@x.test", "r@x.test" }, true, true },
		{ { "192.0.2.1", "192.0.2.1" }, { "a1@b.test", "a@b.test" }, { "r@x.test", "r@x.test" }, false, true },
		{ { "192.0.2.1", "192.0.2.1" }, { "a@b1.test", "a@b2.test" }, { "r@x.test", "r@x.test" }, false, true },
		{ { "192.0.2.1", "192.0.2.1" }, { "a@b.test", "a@b.test" }, { "r1@x.test", "r2@x.test" }, false, true },
		{ { "192.0.2.1", "192.0.2.1" }, { "", "a@b.test" }, { "r@x.test", "r@x.test" }, false, true },
		/* no octet wanders from one to the other */
		{ { "192.0.2.1", "192.0.2.1" }, { "a@b", "a@bc" }, { "cd@x", "d@x" }, false, true },
	};
	(void)st;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct store_greylist_key a = hash(of[i].ip[0], of[i].sender[0], of[i].rcpt[0]), b = hash(of[i].ip[1], of[i].sender[1], of[i].rcpt[1]);
		if (!memcmp(a.triplet, b.triplet, sizeof a.triplet) != of[i].same || !memcmp(a.net, b.net, sizeof a.net) != of[i].same_net)
			fail_msg("case %zu", i);
		assert_memory_not_equal(a.triplet, a.net, sizeof a.net);
	}
	/* longer than any address may be: bounded, and still told apart by the recipient */
	static char longer[5000];
	memset(longer, 'a', sizeof longer - 1);
	struct store_greylist_key a = hash("192.0.2.1", longer, "r@x.test"), b = hash("192.0.2.1", longer, "q@x.test");
	assert_memory_not_equal(a.triplet, b.triplet, sizeof a.triplet);
	a = hash("192.0.2.1", longer, longer);
	assert_memory_not_equal(a.triplet, b.triplet, sizeof a.triplet);
}

static void answers(void **st)
{
	(void)st;
	struct greylist *g = begin();
	struct net_addr a = from("192.0.2.1");
	struct heard h[3] = { 0 };
	struct buf text = BUF_INIT(4096);
	for (unsigned i = 0; i < 3; i++)
		assert_non_null(greylist_ask(g, &a, STR("a@b.test"), STR("r@x.test"), on_answer, &h[i]));
	assert_int_equal(db.n, 0); /* those of one turn go together */
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(db.n, 1);
	assert_int_equal(db.sizes[0], 3);
	assert_int_equal(db.terms.delay_s, 300);
	struct store_greylist_key k = hash("192.0.2.1", "a@b.test", "r@x.test");
	assert_memory_equal(&db.first, &k, sizeof k);
	int32_t waits[3] = { 0, 120, -5 };
	db.fn[0](db.arg[0], STORE_OK, waits, 3);
	assert_true(h[0].n == 1 && h[1].n == 1 && h[2].n == 1);
	assert_true(h[0].wait == 0 && h[1].wait == 120 && h[2].wait == 0);
	/* the database failed on it: nobody waits for that */
	greylist_ask(g, &a, STR("a@b.test"), STR("r@x.test"), on_answer, &h[0]);
	event_base_loop(base, EVLOOP_NONBLOCK);
	reply(1, STORE_AWAY, 99);
	assert_true(h[0].n == 2 && h[0].wait == 0);
	/* it is down: not even asked */
	db.down = true;
	assert_null(greylist_ask(g, &a, STR("a@b.test"), STR("r@x.test"), on_answer, &h[0]));
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(db.n, 2);
	greylist_metrics(g, &text);
	assert_non_null(strstr(buf_z(&text), "pepsi_greylist_total{answer=\"pass\"} 2\n"));
	assert_non_null(strstr(buf_z(&text), "pepsi_greylist_total{answer=\"wait\"} 1\n"));
	assert_non_null(strstr(buf_z(&text), "pepsi_greylist_total{answer=\"away\"} 2\n"));
	buf_free(&text);
	greylist_free(g);
	greylist_free(NULL);
	event_base_free(base);
}

/* Many at once: several statements of bounded size, everybody is answered once. */
static void many(void **st)
{
	enum { N = 450 };
	(void)st;
	struct greylist *g = begin();
	struct net_addr a = from("2001:db8::1");
	static struct heard h[N];
	size_t sum = 0;
	memset(h, 0, sizeof h);
	for (unsigned i = 0; i < N; i++)
		assert_non_null(greylist_ask(g, &a, STR("a@b.test"), STR("r@x.test"), on_answer, &h[i]));
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(db.n, 3);
	for (size_t i = db.n; i-- > 0;) { /* in any order */
		assert_true(db.sizes[i] <= 200);
		sum += db.sizes[i];
		reply(i, STORE_OK, 7);
	}
	assert_int_equal(sum, N);
	for (unsigned i = 0; i < N; i++)
		assert_true(h[i].n == 1 && h[i].wait == 7);
	greylist_free(g);
	event_base_free(base);
}

/* Sessions that end, and a greylist that ends, with questions on their way. */
static void nobody_waits(void **st)
{
	(void)st;
	struct greylist *g = begin();
	struct net_addr a = from("192.0.2.1");
	struct heard h[3] = { 0 };
	struct greylist_ask *q = greylist_ask(g, &a, STR("a@b"), STR("r@x"), on_answer, &h[0]);
	greylist_cancel(q); /* before it was sent: it never is */
	greylist_cancel(NULL);
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(db.n, 0);
	q = greylist_ask(g, &a, STR("a@b"), STR("r@x"), on_answer, &h[1]);
	greylist_ask(g, &a, STR("a@b"), STR("r@x"), on_answer, &h[2]);
	event_base_loop(base, EVLOOP_NONBLOCK);
	greylist_cancel(q); /* and after */
	reply(0, STORE_OK, 60);
	assert_true(h[0].n == 0 && h[1].n == 0 && h[2].n == 1);
	greylist_ask(g, &a, STR("a@b"), STR("r@x"), on_answer, &h[2]);
	event_base_loop(base, EVLOOP_NONBLOCK);
	greylist_ask(g, &a, STR("a@b"), STR("r@x"), on_answer, &h[2]); /* not sent when it ends */
	greylist_free(g);
	reply(1, STORE_OK, 60); /* finds nobody */
	assert_int_equal(h[2].n, 1);
	event_base_free(base);
}

static void sweeps(void **st)
{
	(void)st;
	struct greylist *g = begin();
	int64_t minute = INT64_C(60) * 1000000, now = 100 * minute;
	greylist_tick(g, now);
	assert_int_equal(db.sweeps, 1);
	greylist_tick(g, now + 11 * minute); /* the first has not answered yet */
	assert_int_equal(db.sweeps, 1);
	db.swept(db.swept_arg, STORE_OK, 10);
	greylist_tick(g, now + 9 * minute);
	assert_int_equal(db.sweeps, 1);
	db.down = true;
	greylist_tick(g, now + 11 * minute);
	assert_int_equal(db.sweeps, 1);
	db.down = false;
	greylist_tick(g, now + 11 * minute);
	assert_int_equal(db.sweeps, 2);
	db.swept(db.swept_arg, STORE_AWAY, 0);
	greylist_tick(g, now + 22 * minute);
	assert_int_equal(db.sweeps, 3);
	db.swept(db.swept_arg, STORE_OK, 10000); /* that was not all */
	greylist_tick(g, now + 22 * minute + minute / 15);
	assert_int_equal(db.sweeps, 3);
	greylist_tick(g, now + 22 * minute + minute / 10);
	assert_int_equal(db.sweeps, 4);
	db.swept(db.swept_arg, STORE_OK, 0);
	greylist_free(g);
	event_base_free(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(one_triplet), cmocka_unit_test(answers), cmocka_unit_test(many),
		cmocka_unit_test(nobody_waits), cmocka_unit_test(sweeps) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
