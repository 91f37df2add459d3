/* proto/wire/verdict: what is put comes out again; each cut or contradicting record is refused. */
#include "proto/wire/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct str rcpts[] = { STR_INIT("a@example.test"), STR_INIT("b@example.test") };

static struct wire_verdict full(void)
{
	return (struct wire_verdict){ .id = 7, .what = WIRE_PASS, .stage = STR("aside"), .changed = WIRE_CHANGED_ALL, .mail_from = STR("s@example.test"),
		.rcpts = rcpts, .n_rcpts = 2, .state = STR("{}"), .headers = STR("A: b\r\n"), .body = STR("c\r\n"), .body_size = 3 };
}

static int get(struct str in, struct wire_verdict *v)
{
	struct arena *a = arena_new(65536);
	/* an exact copy, so that one octet too far is seen by the sanitizer */
	char *copy = malloc(in.n ? in.n : 1);
	if (in.n)
		memcpy(copy, in.p, in.n);
	int r = wire_verdict_get(str_n(copy, in.n), a, v);
	unsigned touched = 0; /* each octet it says there is, is there */
	for (size_t i = 0; r == 0 && i < v->n_rcpts; i++)
		for (size_t k = 0; k < v->rcpts[i].n; k++)
			touched += (unsigned char)v->rcpts[i].p[k];
	for (size_t k = 0; r == 0 && k < v->headers.n; k++)
		touched += (unsigned char)v->headers.p[k];
	assert_true(touched < 1000000);
	free(copy);
	arena_free(a);
	return r;
}

static void round_trip(void **state)
{
	struct buf b = BUF_INIT(65536);
	struct wire_verdict v = full(), got;
	struct arena *a = arena_new(65536);
	(void)state;
	assert_int_equal(wire_verdict_put(&b, &v), 0);
	assert_int_equal(wire_verdict_get(buf_str(&b), a, &got), 0);
	assert_int_equal(got.id, 7);
	assert_int_equal(got.n_rcpts, 2);
	assert_true(str_eq(got.rcpts[1], rcpts[1]) && str_eq(got.stage, v.stage) && str_eq(got.headers, v.headers) && str_eq(got.body, v.body) &&
	    str_eq(got.state, v.state) && str_eq(got.mail_from, v.mail_from));
	buf_reset(&b);
	v = (struct wire_verdict){ .id = 1, .what = WIRE_REJECT, .enhanced = STR("5.7.1"), .text = STR("no"), .detail = STR("why"), .body = STR("not said") };
	assert_int_equal(wire_verdict_put(&b, &v), 0);
	assert_int_equal(wire_verdict_get(buf_str(&b), a, &got), 0);
	assert_true(str_eq(got.text, STR("no")) && str_eq(got.detail, STR("why")) && !got.body.n);
	arena_free(a);
	buf_free(&b);
}

static void cuts_and_changes(void **state)
{
	struct buf b = BUF_INIT(65536);
	struct wire_verdict v = full(), got;
	(void)state;
	assert_int_equal(wire_verdict_put(&b, &v), 0);
	for (size_t n = 0; n < b.n; n++)
		assert_int_equal(get(str_n(b.p, n), &got), -1);
	for (size_t i = 0; i < b.n; i++) /* no overrun, whatever comes of it */
		for (unsigned bit = 0; bit < 8; bit++) {
			b.p[i] = (char)(b.p[i] ^ (1 << bit));
			get(buf_str(&b), &got);
			b.p[i] = (char)(b.p[i] ^ (1 << bit));
		}
	buf_addc(&b, 0);
	assert_int_equal(get(buf_str(&b), &got), -1);
	buf_free(&b);
}

static void contradictions(void **state)
{
	static const struct wire_verdict bad[] = {
		{ .id = 0, .what = WIRE_PASS },
		{ .id = 1, .what = WIRE_FAULT + 1 },
		{ .id = 1, .what = 0 },
		{ .id = 1, .what = WIRE_REJECT, .changed = WIRE_CHANGED_STATE, .state = STR_INIT("{}") },
		{ .id = 1, .what = WIRE_DEFER, .stage = STR_INIT("x") },
		{ .id = 1, .what = WIRE_PASS, .changed = 32 },
		{ .id = 1, .what = WIRE_PASS, .changed = WIRE_CHANGED_BODY, .body = STR_INIT("x"), .body_size = 2 },
		{ .id = 1, .what = WIRE_PASS, .enhanced = STR_INIT("5.7.1234567890") },
	};
	struct wire_verdict got;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct buf b = BUF_INIT(65536);
		assert_int_equal(wire_verdict_put(&b, &bad[i]), 0);
		assert_int_equal(get(buf_str(&b), &got), -1);
		buf_free(&b);
	}
	struct buf b = BUF_INIT(65536);
	struct wire_verdict none = { .id = 1, .what = WIRE_PASS, .changed = WIRE_CHANGED_RCPTS };
	assert_int_equal(wire_verdict_put(&b, &none), -1); /* a message has recipients */
	buf_free(&b);
}

static void jobs(void **state)
{
	struct buf b = BUF_INIT(65536);
	struct arena *a = arena_new(65536);
	struct wire_item it = { .id = 3, .has_content = true, .rcpts = rcpts, .n_rcpts = 1, .state = STR("{}"), .body = STR("x"), .body_size = 1 }, got;
	uint32_t ms;
	(void)state;
	assert_int_equal(wire_job_put(&b, 30000, &it), 0);
	assert_int_equal(wire_job_get(buf_str(&b), a, &ms, &got), 0);
	assert_int_equal(ms, 30000);
	assert_int_equal(got.id, 3);
	for (size_t n = 0; n < b.n; n++)
		assert_int_equal(wire_job_get(str_n(b.p, n), a, &ms, &got), -1);
	buf_reset(&b);
	assert_int_equal(wire_job_put(&b, 1, &(struct wire_item){ .id = 3 }), 0);
	assert_int_equal(wire_job_get(buf_str(&b), a, &ms, &got), -1); /* an id alone is no job */
	arena_free(a);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(round_trip), cmocka_unit_test(cuts_and_changes), cmocka_unit_test(contradictions),
		cmocka_unit_test(jobs) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
