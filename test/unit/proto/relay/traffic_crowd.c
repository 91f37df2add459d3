/* Shaping among many destinations, simulated: the slow and the dead do not hold up the others, nobody is hammered, nothing is claimed over and
 * over. */
#include "traffic_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { N_HOSTS = 1000, N_MESSAGES = 20000 };

static struct sim_host *hosts_new(unsigned n)
{
	struct sim_host *h = calloc(n, sizeof *h);
	assert_non_null(h);
	for (unsigned i = 0; i < n; i++) {
		snprintf(h[i].name, sizeof h[i].name, "mx.d%u.example", i);
		h[i].connect_ms = h[i].reply_ms = 20;
		h[i].connect_dead_ms = 30000;
	}
	return h;
}

/* The first third fast, then slow, then dead. */
static struct sim_host *crowd_new(void)
{
	struct sim_host *h = hosts_new(N_HOSTS);
	for (unsigned i = N_HOSTS / 3; i < N_HOSTS * 2 / 3; i++)
		h[i].reply_ms = 10000;
	for (unsigned i = N_HOSTS * 2 / 3; i < N_HOSTS; i++)
		h[i].dead_until = INT64_MAX / 4;
	return h;
}

static void show(const char *what, const struct sim_result *r)
{
	printf("%s: last at %.2f s; %llu claims, %llu given back (most %u), %llu attempts failed, %llu sent, %llu abandoned; poor held %u, "
	       "sessions %u\n", what, (double)(r->done_ms - 1000) / 1000, (unsigned long long)r->claims, (unsigned long long)r->backs, r->backs_most,
	    (unsigned long long)r->attempts, (unsigned long long)r->sent, (unsigned long long)r->totals.abandoned, r->held_poor_most,
	    r->sessions_most);
}

/* All are in the queue at once, in one of two orders, and the process itself is what limits the fast: it spends 1 ms on a message sent, 50 us on
 * a claim, 50 us on giving one back. */
static void crowd(unsigned slots, bool mixed, int64_t gap_us, double most)
{
	unsigned *all = calloc(N_MESSAGES, sizeof *all), *fast = calloc(N_MESSAGES, sizeof *fast), n_fast = 0;
	struct sim_host *h = crowd_new();
	struct sim_result alone, crowded;
	assert_true(all && fast);
	for (unsigned i = 0; i < N_MESSAGES; i++) {
		all[i] = mixed ? (i * 7919) % N_HOSTS : (N_HOSTS - 1) - i / (N_MESSAGES / N_HOSTS); /* mixed, or the dead before all others */
		if (all[i] < N_HOSTS / 3)
			fast[n_fast++] = all[i];
	}
	struct sim_conf conf = { .slots = slots, .workers = 1, .hosts = h, .n_hosts = N_HOSTS, .to = fast, .n = n_fast, .gap_us = gap_us * 3,
		.claim_us = 50, .give_back_us = 50, .send_us = 1000, .end_ms = 3600000, .until_host = N_HOSTS / 3, .seed = 1 };
	sim_run(&conf, &alone);
	free(h);
	conf.hosts = h = crowd_new();
	conf.to = all;
	conf.n = N_MESSAGES;
	conf.gap_us = gap_us;
	sim_run(&conf, &crowded);
	printf("%u slots, %s, %s\n", slots, mixed ? "mixed" : "the dead first", gap_us ? "arriving" : "all there");
	show("  alone  ", &alone);
	show("  crowded", &crowded);
	double ratio = (double)(crowded.done_ms - 1000) / (double)(alone.done_ms - 1000);
	printf("  ratio %.2f\n", ratio);
	assert_int_equal(alone.sent, n_fast);
	assert_true(ratio <= most);
	assert_true(crowded.backs_most <= 8);
	assert_true(crowded.held_poor_most <= (slots / 4 > 1 ? slots / 4 : 1));
	
	for (unsigned i = N_HOSTS * 2 / 3; i < N_HOSTS; i++)
		assert_true(h[i].probes_at_once_most <= 1); /* a dead one is tried by one message at a time */
	free(h);
	free(all);
	free(fast);
}

static void test_crowd(void **state)
{
	(void)state;
	crowd(1000, true, 0, 1.3);
	crowd(1000, true, 500, 1.3);
	crowd(3000, true, 0, 1.3);
	crowd(200, true, 500, 1.5);   /* a fifth as many slots as destinations: each must be tried once first */
	crowd(1000, false, 0, 1.8);   /* the worst order */
}

/* One destination and `n` messages. */
static void one(struct sim_host *h, unsigned n, unsigned slots, int64_t end_ms, struct sim_result *r)
{
	unsigned *to = calloc(n, sizeof *to);
	assert_non_null(to);
	struct sim_conf conf = { .slots = slots, .workers = 1, .hosts = h, .n_hosts = 1, .to = to, .n = n, .claim_us = 50, .give_back_us = 50,
		.send_us = 100, .end_ms = end_ms, .until_host = 1, .seed = 7 };
	sim_run(&conf, r);
	show(h->name, r);
	free(to);
}

/* Ten thousand messages for a host that does not answer for an hour, then does. */
static void test_dead(void **state)
{
	struct sim_host *h = hosts_new(1);
	struct sim_result r;
	(void)state;
	h->dead_until = 3600000;
	one(h, 10000, 1000, 4 * 3600000, &r);
	assert_int_equal(r.sent, 10000);
	/* tried by one at a time, ever less often: 30 s, 1, 2, 4, 8, 16, 30 minutes, and the time each try takes */
	assert_true(h->connects_dead <= 8 && h->connects_dead >= 4);
	assert_true(r.claims <= 10000 * 7);
	assert_true(r.backs_most <= 12);
	/* all out soon after it is back: a pause of half an hour may just have begun */
	assert_true(r.done_ms - 3600000 <= 30 * 60000 * 5 / 4 + 20 * 60000);
	free(h);
}

/* A short outage while mail flows. */
static void test_recovers(void **state)
{
	struct sim_host *h = hosts_new(1);
	struct sim_result r;
	(void)state;
	h->dead_from = 5000;
	h->dead_until = 65000;
	h->connect_dead_ms = 5000;
	unsigned *to = calloc(4000, sizeof *to);
	assert_non_null(to);
	struct sim_conf conf = { .slots = 500, .workers = 1, .hosts = h, .n_hosts = 1, .to = to, .n = 4000, .gap_us = 50000, .claim_us = 50,
		.give_back_us = 50, .send_us = 100, .end_ms = 3600000, .until_host = 1, .seed = 3 };
	sim_run(&conf, &r);
	show("outage", &r);
	assert_int_equal(r.sent, 4000);
	assert_true(r.attempts <= 20);
	assert_true(r.done_ms < 15 * 60000); /* those that were tried wait for the retry policy: 5 min and 10 */
	free(to);
	free(h);
}

/* 421 to more than five connections: learnt, and then believed. */
static void test_connections(void **state)
{
	struct sim_host *h = hosts_new(1);
	struct sim_result r;
	unsigned early;
	(void)state;
	h->max_open = 5;
	one(h, 1000, 500, 3600000, &r);
	early = h->refused;
	assert_int_equal(r.sent, 1000);
	assert_true(early <= 10);
	free(h);
	h = hosts_new(1);
	h->max_open = 5;
	one(h, 200000, 500, 8 * 3600000, &r);
	printf("421 beyond five: %u of %u connections refused, %u of them at first; %u at once\n", h->refused, h->openings, early, h->open_most);
	assert_int_equal(r.sent, 200000);
	assert_int_equal(r.attempts, 0); /* no message was the worse for it */
	assert_true((h->refused - early) * 100 <= h->openings);
	assert_true(r.done_ms < 200000 / 5 * 90 * 2);
	free(h);
}

/* A provider that takes 120 messages a minute and refuses more. */
static void test_rate(void **state)
{
	struct sim_host *h = hosts_new(1);
	struct sim_result r;
	(void)state;
	h->per_minute = 120;
	one(h, 3000, 500, 4 * 3600000, &r);
	printf("120 a minute: %u messages refused of %u taken\n", h->limited, h->taken);
	assert_int_equal(r.sent, 3000);
	assert_true(h->limited <= 3000 / 10);
	assert_true(r.done_ms < 3 * 3000 / 120 * 60000);
	free(h);
}

/* The operator's: 60 a minute, three connections; and another destination is not held up by the backlog of this one. */
static void test_limits(void **state)
{
	struct shape limited = shape_default;
	struct sim_host *h = hosts_new(2);
	struct sim_result r;
	unsigned *to = calloc(4000, sizeof *to);
	(void)state;
	assert_non_null(to);
	limited.concurrency = 3;
	limited.rate = 60;
	limited.per_connection = 10;
	h[1].shape = &limited;
	for (unsigned i = 0; i < 3000; i++)
		to[i] = 1;
	struct sim_conf conf = { .slots = 200, .workers = 1, .hosts = h, .n_hosts = 2, .to = to, .n = 4000, .claim_us = 50, .give_back_us = 50,
		.send_us = 100, .end_ms = 3600000, .until_host = 1, .seed = 5 };
	sim_run(&conf, &r);
	show("beside a limited one", &r);
	assert_int_equal(h[0].taken, 1000);
	assert_true(r.done_ms < 15000);
	free(h);
	h = hosts_new(2);
	h[1].shape = &limited;
	conf.hosts = h;
	conf.until_host = 2;
	conf.end_ms = 2 * 3600000;
	sim_run(&conf, &r);
	show("60 a minute", &r);
	assert_int_equal(h[1].taken, 3000);
	assert_true(h[1].open_most <= 4); /* three, and one that the host has not forgotten yet */
	assert_true(h[1].openings >= 300);
	assert_true(r.done_ms >= 3000 * 1000 - 10000 && r.done_ms <= 3000 * 1000 * 5 / 4);
	assert_true(r.backs_most <= 8);
	free(to);
	free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crowd), cmocka_unit_test(test_dead), cmocka_unit_test(test_recovers), cmocka_unit_test(test_connections),
		cmocka_unit_test(test_rate), cmocka_unit_test(test_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
