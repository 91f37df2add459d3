/* What workers tell of metrics and reports: added up per stage, shown; and what a worker that has lost its mind cannot do with it. */
#include "fake.h"

#include <stdio.h>

static bool shows(const char *what)
{
	struct buf b = BUF_INIT(4 << 20);
	dispatch_metrics(d, &b);
	assert_false(b.failed);
	bool yes = strstr(buf_z(&b), what) != NULL;
	buf_free(&b);
	return yes;
}

static bool reports(const char *stage, const char *what)
{
	struct buf b = BUF_INIT(4 << 20);
	dispatch_reports(d, stage, &b);
	bool yes = !strcmp(buf_z(&b), what);
	if (!yes)
		print_message("%s\n", buf_z(&b));
	buf_free(&b);
	return yes;
}

static void test_added_up(void **state)
{
	(void)state;
	struct stage *st = init_stage();
	st->max_messages = 0;
	assert_true(hand(1));
	spin();
	int w = worker_up(0);
	say(w, "4 4:init c? hits kind Hits of things.\n4 4:init c hits kind good 2\n4 4:init g open - - 3\n");
	assert_int_equal(st->done, 0);
	now_us += 1000;
	say(w, "4 4:init c hits kind good 1\n0 {\"outcome\":\"finish\"}\n4 4:init c hits kind bad 1\n");
	assert_int_equal(st->done, 1);
	assert_int_equal(st->avg_us, 1000); /* lines of metrics take no part in a message's time */
	assert_true(shows("# HELP pepsi_module_hits_total Hits of things.\n# TYPE pepsi_module_hits_total counter\n"
			  "pepsi_module_hits_total{stage=\"init\",kind=\"good\"} 3\npepsi_module_hits_total{stage=\"init\",kind=\"bad\"} 1\n"));
	assert_true(shows("pepsi_module_open{stage=\"init\"} 3\n"));
	struct buf b = BUF_INIT(1 << 20);
	dispatch_status(d, &b);
	assert_non_null(strstr(b.p, "\"metrics\":[{\"name\":\"hits\",\"kind\":\"counter\",\"label\":\"kind\",\"values\":{\"good\":3,\"bad\":1}},{\"name\":\"open\",\"kind\":\"gauge\",\"value\":3}]"));
	buf_free(&b);
	/* the worker is gone: so is its level, but not what it counted */
	close(w);
	spin();
	dispatch_worker_exited(d, 100001, 0);
	spin();
	assert_int_equal(st->n_workers, 0);
	assert_true(shows("pepsi_module_open{stage=\"init\"} 0\n"));
	assert_true(shows("pepsi_module_hits_total{stage=\"init\",kind=\"good\"} 3\n"));
}

static void test_idle_all_the_same(void **state)
{
	(void)state;
	struct stage *st = init_stage();
	assert_true(hand(1));
	spin();
	int w = worker_up(0);
	say(w, "0\n");
	struct worker *x = TAILQ_FIRST(&st->workers);
	int64_t since = x->idle_since;
	now_us += 5 * US_PER_S;
	say(w, "4 4:init g open - - 1\n");
	assert_int_equal(x->idle_since, since);
	assert_int_equal(x->state, WORKER_READY);
	close(w);
}

/* A worker speaks for its own stage, and for those that may share its process. */
static void test_no_forgery(void **state)
{
	static const char *const odd[] = { "4 6:nobody c hits - - 1\n", "4 4:init c messages_total - - 1\n", "4 4:init c hits stage bounce 1\n", "4 4:init c hits k a\"} 1\n",
		"4 4:init c hits k v -1\n", "4 x\n", "5 4:init {\n", "5 4:init {} {}\n", "5 6:nobody {\"a\":1}\n", "5 x\n" };
	(void)state;
	struct stage *st = init_stage();
	assert_true(hand(1));
	spin();
	int w = worker_up(0);
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		say(w, odd[i]);
		assert_int_equal(d->metrics_refused, i + 1);
	}
	assert_int_equal(st->metrics.n, 0);
	say(w, "4 6:bounce c hits - - 1\n");
	assert_true(shows("pepsi_module_hits_total{stage=\"bounce\"} 1\n"));
	config_set(conf, "stage-bounce", "ALLOW_FUSION", "NO");
	say(w, "4 6:bounce c hits - - 1\n");
	say(w, "5 6:bounce {\"a\":1}\n");
	assert_true(reports(NULL, "[]"));
	config_set(conf, "stage-bounce", "ALLOW_FUSION", "YES");
	config_set(conf, "stage-bounce", "USER", "somebody");
	say(w, "4 6:bounce c hits - - 1\n");
	assert_true(shows("pepsi_module_hits_total{stage=\"bounce\"} 1\n"));
	assert_int_equal(sp.kills, 0);
	say(w, "0\n"); /* and it is still in step */
	assert_int_equal(st->done, 1);
	close(w);
}

static void test_before_it_is_ready(void **state)
{
	(void)state;
	assert_true(hand(1));
	spin();
	int w = worker_begins(0);
	say(w, "4 4:init c hits - - 1\n");
	assert_int_equal(init_stage()->metrics.n, 0);
	assert_int_equal(sp.kills, 1);
	close(w);
}

/* One that never stops talking is killed, and what it said takes no more room than a stage has. */
static void test_flood(void **state)
{
	char line[8192];
	(void)state;
	struct stage *st = init_stage();
	assert_true(hand(1));
	spin();
	int w = worker_up(0);
	unsigned n = 0;
	while (!sp.kills && n < 200000) {
		int at = 0;
		for (int i = 0; i < 100; i++, n++)
			at += snprintf(line + at, sizeof line - (size_t)at, "4 4:init g level_%c%c%c%c kind v%u 1\n", 'a' + n / 17576 % 26, 'a' + n / 676 % 26, 'a' + n / 26 % 26, 'a' + n % 26, n);
		if (send(w, line, (size_t)at, MSG_NOSIGNAL) != at)
			break;
		spin();
	}
	assert_int_equal(sp.kills, 1);
	assert_in_range(n, 50000, 150000);
	assert_int_equal(st->metrics.n, METRICS_MAX);
	assert_true(st->metrics.weight <= METRICS_WEIGHT_MAX);
	close(w);
}

static void test_reports(void **state)
{
	(void)state;
	struct stage *st = init_stage();
	assert_true(hand(1));
	spin();
	int w = worker_up(0);
	assert_true(reports(NULL, "[]"));
	say(w, "5 4:init {\"destinations\":[1]}\n");
	now_us += 3 * US_PER_S;
	assert_true(reports(NULL, "[{\"stage\":\"init\",\"pid\":100001,\"age_s\":3,\"report\":{\"destinations\":[1]}}]"));
	assert_true(reports("INIT", "[{\"stage\":\"init\",\"pid\":100001,\"age_s\":3,\"report\":{\"destinations\":[1]}}]"));
	assert_true(reports("bounce", "[]"));
	say(w, "5 4:init {\"a\":2}\n");
	assert_true(reports(NULL, "[{\"stage\":\"init\",\"pid\":100001,\"age_s\":0,\"report\":{\"a\":2}}]"));
	say(w, "5 4:init {}\n");
	assert_true(reports(NULL, "[]"));
	/* of a stage that shares its process, and of none that does not; all of one worker's within bounds */
	say(w, "5 6:bounce {\"b\":1}\n");
	assert_true(reports("bounce", "[{\"stage\":\"bounce\",\"pid\":100001,\"age_s\":0,\"report\":{\"b\":1}}]"));
	say(w, "5 7:nowhere {\"b\":1}\n");
	assert_int_equal(d->metrics_refused, 1);
	say(w, "5 6:bounce {}\n");
	say(w, "5 4:init {\"a\":3}\n0\n");
	close(w);
	spin();
	dispatch_worker_exited(d, 100001, 0);
	spin();
	assert_int_equal(st->n_workers, 0);
	assert_true(reports(NULL, "[]"));
}

/* Lines of workers before acceptance: their own stage's, no gauges. */
static void test_before(void **state)
{
	(void)state;
	dispatch_measure_sink(d, "INIT", STR("4:init c hits - - 2"));
	dispatch_measure_sink(d, "init", STR("4:init g open - - 2"));
	assert_int_equal(d->metrics_refused, 0);
	dispatch_measure_sink(d, "init", STR("6:bounce c hits - - 2"));
	dispatch_measure_sink(d, "init", STR("4:init c messages_total - - 2"));
	dispatch_measure_sink(d, "nowhere", STR("7:nowhere c hits - - 2"));
	assert_int_equal(d->metrics_refused, 2);
	assert_true(shows("pepsi_module_hits_total{stage=\"init\"} 2\n"));
	assert_int_equal(init_stage()->metrics.n, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = { T(test_added_up), T(test_idle_all_the_same), T(test_no_forgery), T(test_before_it_is_ready), T(test_flood), T(test_reports), T(test_before) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
