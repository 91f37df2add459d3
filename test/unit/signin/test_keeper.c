/* A keeper under a storm: never more jobs at once than allowed, none lost, none answered twice, the queue bounded, the loop free. */
#include "signin/keeper.h"

#include "signin/password.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { STORM = 60, AT_ONCE = 3, QUEUE = 200 };

static struct event_base *base;
static struct keeper *keeper;
static unsigned answers[STORM], good, bad, died, others, left, ticks;

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

static void gone(void *arg)
{
	*(bool *)arg = true;
	event_base_loopbreak(base);
}

static void on_answer(void *arg, const struct job_msg *m)
{
	unsigned *n = arg;
	++*n;
	assert_non_null(m);
	struct keeper_counts c = keeper_counts(keeper);
	assert_true(c.running <= AT_ONCE);
	if (m->what == JOB_YES)
		good++;
	else if (m->what == JOB_NO)
		bad++;
	else if (m->what == JOB_DIED)
		died++;
	else
		others++;
	if (--left == 0)
		event_base_loopbreak(base);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	ticks++;
}

static void storm(void **st)
{
	struct buf phc = BUF_INIT(600);
	bool lost = false;
	struct timeval ms = { 0, 1000 };
	struct event *tick = event_new(base, -1, EV_PERSIST, on_tick, NULL);
	(void)st;
	assert_int_equal(password_hash(STR("right"), &phc), 0);
	assert_int_equal(keeper_attach(keeper, base, gone, &lost), 0);
	assert_int_equal(event_add(tick, &ms), 0);
	uint64_t tickets[STORM];
	for (unsigned i = 0; i < STORM; i++) {
		/* a third right, a third wrong, a third no job at all */
		struct job_msg m = { .what = JOB_VERIFY, .n = i % 3 == 2 ? 1 : 2, .f = { buf_str(&phc), i % 3 ? STR("wrong") : STR("right") } };
		tickets[i] = keeper_run(keeper, &m, on_answer, &answers[i]);
		assert_true(tickets[i] != 0);
		left++;
	}
	/* one that waits and one that runs are dropped: no word of them */
	keeper_drop(keeper, tickets[0]);
	keeper_drop(keeper, tickets[STORM - 1]);
	keeper_drop(keeper, 0);
	keeper_drop(keeper, 999999);
	left -= 2;
	event_base_dispatch(base);
	assert_false(lost);
	assert_int_equal(left, 0);
	for (unsigned i = 0; i < STORM; i++)
		assert_int_equal(answers[i], i > 0 && i < STORM - 1);
	assert_int_equal(good, STORM / 3 - 1);
	assert_int_equal(bad, STORM / 3);
	assert_int_equal(others, STORM / 3 - 1); /* JOB_AWAY */
	assert_int_equal(died, 0);
	struct keeper_counts c = keeper_counts(keeper);
	assert_int_equal(c.most, AT_ONCE);
	assert_int_equal(c.running, 0);
	assert_int_equal(c.queued, 0);
	assert_true(ticks > 20); /* the loop turned meanwhile */
	event_free(tick);
	buf_free(&phc);
}

/* The queue has an end, and beyond it the answer is no, at once. */
static void full(void **st)
{
	struct buf phc = BUF_INIT(600);
	unsigned none = 0, taken = 0;
	uint64_t tickets[QUEUE + AT_ONCE + 50];
	(void)st;
	assert_int_equal(password_hash(STR("right"), &phc), 0);
	for (unsigned i = 0; i < QUEUE + AT_ONCE + 50; i++) {
		struct job_msg m = { .what = JOB_VERIFY, .n = 2, .f = { buf_str(&phc), STR("x") } };
		tickets[i] = keeper_run(keeper, &m, on_answer, &none);
		taken += tickets[i] != 0;
	}
	assert_int_equal(taken, QUEUE + AT_ONCE);
	assert_int_equal(keeper_counts(keeper).refused, 50);
	for (unsigned i = 0; i < taken; i++)
		keeper_drop(keeper, tickets[i]);
	assert_int_equal(keeper_counts(keeper).queued, 0);
	buf_free(&phc);
}

static int setup(void **st)
{
	(void)st;
	keeper = keeper_start("test-keeper", AT_ONCE, QUEUE, nothing, NULL);
	base = event_base_new();
	return keeper && base ? 0 : -1;
}

static int teardown(void **st)
{
	(void)st;
	keeper_free(keeper);
	event_base_free(base);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(storm), cmocka_unit_test(full) };
	return cmocka_run_group_tests(tests, setup, teardown);
}
