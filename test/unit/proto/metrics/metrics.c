/* proto/metrics: from measuring through lines to what is shown; names, limits, and lines that are none. */
#include "proto/metrics/metrics.h"
#include "proto/wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static struct metrics_metric *define(struct metrics_set *s, enum metrics_kind k, const char *name, const char *label, const char *help)
{
	return metrics_define(s, k, str_from(name), str_from(label), str_from(help));
}

/* All that is to be told goes from one set to another. Returns the lines. */
static size_t carry(struct metrics_set *from, struct metrics_set *to)
{
	struct buf b = BUF_INIT(64 * 1024);
	struct wire_status st;
	struct metrics_line l;
	size_t pos = 0, n = 0;
	while (metrics_tell(from, STR("here"), &b, b.max - b.n))
		fail_msg("there is room");
	metrics_told(from, true);
	while (wire_status_get(&b, &pos, &st) == 1) {
		assert_int_equal(st.status, WIRE_METRIC);
		assert_int_equal(metrics_line_get(st.json, &l), 0);
		assert_true(str_eq(l.stage, STR("here")));
		assert_int_equal(metrics_apply(to, &l), 0);
		n++;
	}
	assert_int_equal(pos, b.n);
	buf_free(&b);
	return n;
}

static void shows(const struct metrics_set *s, const char *what)
{
	struct metrics_stage st = { STR("re\"lay\\"), s };
	struct buf b = BUF_INIT(1 << 20);
	assert_int_equal(metrics_show(&st, 1, &b, b.max), 0);
	assert_string_equal(buf_z(&b), what);
	buf_free(&b);
}

static void told_and_added(void **state)
{
	struct metrics_set w1 = { .n = 0 }, w2 = { .n = 0 }, sum = { .n = 0 };
	(void)state;
	struct metrics_metric *d = define(&w1, METRICS_COUNTER, "deliveries", "result", "What became of messages."), *n = define(&w1, METRICS_COUNTER, "starts", NULL, NULL);
	assert_ptr_equal(define(&w1, METRICS_COUNTER, "deliveries", "result", NULL), d);
	assert_non_null(n);
	assert_int_equal(carry(&w1, &sum), 2);
	shows(&sum, "# HELP pepsi_module_starts_total -\n# TYPE pepsi_module_starts_total counter\npepsi_module_starts_total{stage=\"re\\\"lay\\\\\"} 0\n");
	assert_int_equal(metrics_measure(d, "delivered", 2), 0);
	assert_int_equal(metrics_measure(d, "delivered", 3), 0);
	assert_int_equal(metrics_measure(d, "de\"ferred\n", 1), 0);
	assert_int_equal(metrics_measure(d, NULL, 0), 0);
	assert_int_equal(metrics_measure(n, "ignored", 1), 0);
	assert_int_equal(metrics_measure(n, NULL, -1), -1);
	assert_int_equal(carry(&w1, &sum), 4);
	assert_int_equal(carry(&w1, &sum), 0);
	assert_int_equal(metrics_measure(define(&w2, METRICS_COUNTER, "deliveries", "result", NULL), "delivered", 1), 0);
	assert_int_equal(carry(&w2, &sum), 2);
	shows(&sum, "# HELP pepsi_module_deliveries_total What became of messages.\n# TYPE pepsi_module_deliveries_total counter\n"
		    "pepsi_module_deliveries_total{stage=\"re\\\"lay\\\\\",result=\"delivered\"} 6\n"
		    "pepsi_module_deliveries_total{stage=\"re\\\"lay\\\\\",result=\"de_ferred_\"} 1\n"
		    "pepsi_module_deliveries_total{stage=\"re\\\"lay\\\\\",result=\"none\"} 0\n"
		    "# HELP pepsi_module_starts_total -\n# TYPE pepsi_module_starts_total counter\npepsi_module_starts_total{stage=\"re\\\"lay\\\\\"} 1\n");
	/* what could not be sent is not lost */
	struct buf b = BUF_INIT(4096);
	metrics_measure(d, "delivered", 1);
	assert_false(metrics_tell(&w1, STR("here"), &b, b.max));
	metrics_told(&w1, false);
	metrics_measure(d, "delivered", 1);
	assert_int_equal(carry(&w1, &sum), 1);
	assert_int_equal(sum.first->first->n, 8);
	buf_free(&b);
	metrics_set_done(&w1);
	metrics_set_done(&w2);
	metrics_set_done(&sum);
}

static void timings_and_gauges(void **state)
{
	struct metrics_set w = { .n = 0 }, sum = { .n = 0 }, all = { .n = 0 };
	struct buf b = BUF_INIT(1 << 16);
	(void)state;
	struct metrics_metric *t = define(&w, METRICS_TIMING, "took", NULL, NULL), *g = define(&w, METRICS_GAUGE, "open", "to", "Sessions.");
	metrics_measure(t, NULL, 0);
	metrics_measure(t, NULL, metrics_bounds[0]);
	metrics_measure(t, NULL, metrics_bounds[0] + 1);
	metrics_measure(t, NULL, INT64_MAX);
	metrics_measure(g, "x", INT64_MIN);
	metrics_measure(g, "x", -5);
	metrics_measure(g, "y", 7);
	assert_int_equal(carry(&w, &sum), 5);
	metrics_measure(g, "y", 7);
	assert_int_equal(carry(&w, &sum), 0); /* nothing new */
	assert_int_equal(sum.first->first->n, 4);
	assert_int_equal(sum.first->first->in[0], 2);
	assert_int_equal(sum.first->first->in[1], 1);
	assert_int_equal(sum.first->first->in[METRICS_BOUNDS], 1);
	metrics_level_add(&all, &sum);
	metrics_level_add(&all, &sum);
	assert_int_equal(all.n, 1); /* gauges alone */
	shows(&all, "# HELP pepsi_module_open Sessions.\n# TYPE pepsi_module_open gauge\npepsi_module_open{stage=\"re\\\"lay\\\\\",to=\"x\"} -10\n"
		    "pepsi_module_open{stage=\"re\\\"lay\\\\\",to=\"y\"} 14\n");
	metrics_level_zero(&all);
	assert_int_equal(all.first->first->level, 0);
	struct metrics_stage st = { STR("s"), &sum };
	metrics_show(&st, 1, &b, b.max);
	assert_non_null(strstr(b.p, "pepsi_module_took_seconds_bucket{stage=\"s\",le=\"0.01\"} 2\npepsi_module_took_seconds_bucket{stage=\"s\",le=\"0.05\"} 3\n"));
	assert_non_null(strstr(b.p, ",le=\"7200\"} 3\npepsi_module_took_seconds_bucket{stage=\"s\",le=\"+Inf\"} 4\n"));
	assert_non_null(strstr(b.p, "pepsi_module_took_seconds_count{stage=\"s\"} 4\n"));
	buf_reset(&b);
	metrics_json(&all, &b);
	assert_string_equal(buf_z(&b), "[{\"name\":\"open\",\"kind\":\"gauge\",\"label\":\"to\",\"values\":{\"x\":0,\"y\":0}}]");
	buf_free(&b);
	metrics_set_done(&w);
	metrics_set_done(&sum);
	metrics_set_done(&all);
}

/* Two stages, one name: one head. */
static void one_head(void **state)
{
	struct metrics_set a = { .n = 0 }, c = { .n = 0 };
	struct metrics_stage all[] = { { STR("a"), &a }, { STR("c"), &c } };
	struct buf b = BUF_INIT(4096);
	(void)state;
	metrics_measure(define(&a, METRICS_COUNTER, "hits", NULL, NULL), NULL, 1);
	metrics_measure(define(&c, METRICS_GAUGE, "hits", NULL, NULL), NULL, 5);
	metrics_measure(define(&c, METRICS_COUNTER, "hits", "of", "Hits."), "x", 2);
	assert_int_equal(metrics_show(all, 2, &b, b.max), 0);
	assert_string_equal(buf_z(&b), "# HELP pepsi_module_hits_total Hits.\n# TYPE pepsi_module_hits_total counter\npepsi_module_hits_total{stage=\"a\"} 1\n"
				       "pepsi_module_hits_total{stage=\"c\",of=\"x\"} 2\n# HELP pepsi_module_hits -\n# TYPE pepsi_module_hits gauge\npepsi_module_hits{stage=\"c\"} 5\n");
	/* what does not fit is left out whole */
	buf_reset(&b);
	assert_int_equal(metrics_show(all, 2, &b, 120), 1);
	assert_string_equal(buf_z(&b), "# HELP pepsi_module_hits -\n# TYPE pepsi_module_hits gauge\npepsi_module_hits{stage=\"c\"} 5\n");
	buf_free(&b);
	metrics_set_done(&a);
	metrics_set_done(&c);
}

static void names(void **state)
{
	static const char *const bad[] = { "", "x", "X", "Abc", "a-b", "a1", "_ab", "ab_total", "ab_seconds", "ab_bucket", "ab_sum", "ab_count", "a b", "a\n", "a\"b",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };
	static const char *const bad_labels[] = { "stage", "le", "quantile", "job", "instance", "__x", "A", "a-b", "aaaaaaaaaaaaaaaaaaaaa" };
	static const char *const bad_help[] = { "a\nb", "a\\b", "a\"b", "\xc3\xa4", "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890" };
	struct metrics_set s = { .n = 0 };
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_null(define(&s, METRICS_COUNTER, bad[i], NULL, NULL));
	for (size_t i = 0; i < sizeof bad_labels / sizeof *bad_labels; i++)
		assert_null(define(&s, METRICS_COUNTER, "good", bad_labels[i], NULL));
	for (size_t i = 0; i < sizeof bad_help / sizeof *bad_help; i++)
		assert_null(define(&s, METRICS_COUNTER, "good", NULL, bad_help[i]));
	assert_null(define(&s, 0, "good", NULL, NULL));
	assert_null(define(&s, 4, "good", NULL, NULL));
	assert_int_equal(s.n, 0);
}

static void limits(void **state)
{
	struct metrics_set s = { .n = 0 }, t = { .n = 0 };
	char name[16];
	(void)state;
	for (int i = 0; i < METRICS_MAX; i++) {
		snprintf(name, sizeof name, "m%c%c", 'a' + i / 26, 'a' + i % 26);
		assert_non_null(define(&s, METRICS_COUNTER, name, "v", NULL));
	}
	assert_null(define(&s, METRICS_COUNTER, "more", "v", NULL));
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "v%d", i);
		assert_int_equal(metrics_measure(s.first, name, 1), 0);
		assert_int_equal(metrics_measure(s.last, name, 1), 0);
	}
	assert_int_equal(s.weight, METRICS_WEIGHT_MAX);
	assert_int_equal(s.first->other->n, 1000 - METRICS_WEIGHT_MAX / 2);
	assert_string_equal(s.first->other->value, "other");
	assert_int_equal(carry(&s, &t), METRICS_MAX + METRICS_WEIGHT_MAX + 2);
	assert_int_equal(t.first->other->n, 1000 - METRICS_WEIGHT_MAX / 2);
	/* another worker's values find no room there, and are not lost */
	metrics_measure(s.first, "v1", 1);
	struct metrics_line l = { .stage = STR("here"), .name = STR("maa"), .label = STR("v"), .value = STR("new"), .kind = METRICS_COUNTER, .n = INT64_MAX };
	for (int i = 0; i < 3; i++)
		assert_int_equal(metrics_apply(&t, &l), 0);
	assert_true(t.first->other->n == UINT64_MAX); /* full is full */
	metrics_set_done(&s);
	metrics_set_done(&t);

	struct metrics_metric *m = define(&s, METRICS_TIMING, "took", "v", NULL);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof name, "v%d", i);
		metrics_measure(m, name, 1);
	}
	assert_int_equal(m->other->n, 100 - METRICS_WEIGHT_MAX / METRICS_WEIGHT_TIMING);
	/* in small pieces: nothing twice, nothing lost */
	struct buf b = BUF_INIT(64 * 1024);
	size_t n = 0;
	bool more;
	do {
		buf_reset(&b);
		more = metrics_tell(&s, STR("here"), &b, 2 * METRICS_LINE_MAX);
		assert_true(b.n && b.n <= 2 * METRICS_LINE_MAX);
		metrics_told(&s, true);
		for (size_t i = 0; i < b.n; i++)
			n += b.p[i] == '\n';
	} while (more);
	assert_int_equal(n, 1 + 1 + METRICS_WEIGHT_MAX / METRICS_WEIGHT_TIMING);
	assert_false(s.changed);
	buf_free(&b);
	metrics_set_done(&s);
}

static void lines(void **state)
{
	static const char *const bad[] = { "", "4:here", "4:here ", "4:here c", "4:here c xx - - ", "4:here c xx - -", "5:here c xx - - 1", "3:here c xx - - 1", "04:here c xx - - 1",
		"0: c xx - - 1", "4:here x xx - - 1", "4:here cc xx - - 1", "4:here c Xx - - 1", "4:here c xx - v 1", "4:here c xx l v -1", "4:here c xx l v 1 2",
		"4:here c xx l v 01", "4:here c xx l v 9223372036854775808", "4:here c xx stage v 1", "4:here c xx l v\"w 1", "4:here c xx l  v 1", "4:here g xx l v -0", "4:here g xx l v --1",
		"4:here g xx l v -", "4:here t xx l v 1", "4:here t xx l v 1 0 0 0 0 0 0 0 0 0 0 0 0", "4:here t xx l v 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0", "4:here c? xx l", "4:here c? xx l ",
		"4:here c? xx l a\\b", "4:here c! xx l help", "4:here c xx_total - - 1", "101:here c xx - - 1", "99999999999999999999:x c xx - - 1" };
	struct metrics_line l;
	struct str a, j;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (!metrics_line_get(str_from(bad[i]), &l))
			fail_msg("read: %s", bad[i]);
	assert_int_equal(metrics_line_get(STR("7:a b\"cd g xx l v -9223372036854775807"), &l), -1);
	assert_int_equal(metrics_line_get(STR("6:a b\"cd g xx l v -9223372036854775807"), &l), 0);
	assert_true(str_eq(l.stage, STR("a b\"cd")));
	assert_true(l.n == -INT64_MAX);
	assert_int_equal(metrics_report_get(STR("1:x {}"), &a, &j), 0);
	assert_true(str_eq(j, STR("{}")));
	assert_int_equal(metrics_report_get(STR("1:x "), &a, &j), -1);
	assert_int_equal(metrics_report_get(STR("2:x {}"), &a, &j), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(told_and_added), cmocka_unit_test(timings_and_gauges), cmocka_unit_test(one_head), cmocka_unit_test(names),
		cmocka_unit_test(limits), cmocka_unit_test(lines) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
