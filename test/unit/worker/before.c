/* Passes before acceptance: what each way for a hook to end comes to as a verdict, and what may not be called there. */
#include "fixture.h"

#include "worker/before.h"

static int32_t p_advance(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->advance(m);
}

static int32_t p_to_next(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->advance_to(m, h->next_stage(m));
}

static int32_t p_other(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->reroute(m, "other", "{\"why\":\"x\"}");
}

static int32_t p_bounce(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->log(m, PEPSI_LOG_WARN, "internal");
	return h->reroute(m, h->bounce_stage(m), "{\"bounce\":{\"kind\":\"permanent\",\"diagnostic\":\"no \\\"x\\\"\",\"enhanced_status\":\"5.6.1\"}}");
}

static int32_t p_fail(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return (h->fail)(m, "{\"last_error\":\"5.7.2 bad\"}");
}

static int32_t p_permanent(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->log(m, PEPSI_LOG_ERROR, "/a/path");
	return PEPSI_PERMANENT;
}

static int32_t p_retry(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->log(m, PEPSI_LOG_WARN, "/a/path");
	return PEPSI_RETRY;
}

static int32_t p_pause(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->pause(m, NULL, 60);
}

static int32_t p_finish(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->finish(m);
}

static int32_t p_nothing(const struct pepsi_host *h, struct pepsi_msg *m)
{
	(void)h;
	(void)m;
	return PEPSI_OK;
}

static int32_t p_number(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->advance(m);
	return 17;
}

static int32_t p_split(const struct pepsi_host *h, struct pepsi_msg *m)
{
	uint32_t i = 0;
	assert_int_equal(h->split_off_recipients(m, &i, 1, "other"), PEPSI_MISUSE);
	return h->advance(m);
}

static int32_t p_one_per_row(const struct pepsi_host *h, struct pepsi_msg *m)
{
	assert_int_equal(h->split_to_one_per_row(m), PEPSI_MISUSE);
	return h->advance(m);
}

static int32_t p_inject(const struct pepsi_host *h, struct pepsi_msg *m)
{
	const char *to = "x@example.test";
	struct pepsi_str none = { "", 0 };
	assert_int_equal(h->enqueue_new(m, "other", none, &to, 1, none, none, NULL), PEPSI_MISUSE);
	return h->advance(m);
}

static int32_t p_delivered(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->complete_success(m, NULL, 0, 1) == PEPSI_MISUSE ? PEPSI_OK : PEPSI_RETRY;
}

static int32_t p_keep_one(const struct pepsi_host *h, struct pepsi_msg *m)
{
	uint32_t i = 0;
	assert_int_equal(h->pause_with(m, NULL, 1, &i, 1, NULL, 0), PEPSI_MISUSE);
	return PEPSI_OK;
}

static const struct {
	const char *name;
	script_fn fn;
	enum wire_judgement what;
	const char *stage, *enhanced, *text, *detail; /* detail: a part of it */
} cases[] = {
	{ "advance", p_advance, WIRE_PASS, "", "", "", "" },
	{ "advance to NEXT_STAGE", p_to_next, WIRE_PASS, "", "", "", "" },
	{ "reroute", p_other, WIRE_PASS, "other", "", "", "" },
	{ "bounce", p_bounce, WIRE_REJECT, "", "5.6.1", "no \"x\"", "no \"x\"" },
	{ "fail", p_fail, WIRE_REJECT, "", "", "5.7.2 bad", "bad" },
	{ "permanent", p_permanent, WIRE_REJECT, "", "", "", "/a/path" },
	{ "retry", p_retry, WIRE_DEFER, "", "", "", "/a/path" },
	{ "pause", p_pause, WIRE_DEFER, "", "", "", "" },
	{ "finish", p_finish, WIRE_DISCARD, "", "", "", "" },
	{ "nothing", p_nothing, WIRE_FAULT, "", "", "", "without a terminal" },
	{ "number", p_number, WIRE_FAULT, "", "", "", "returned 17" },
	{ "split", p_split, WIRE_FAULT, "", "", "", "split_off_recipients() before acceptance" },
	{ "one per row", p_one_per_row, WIRE_FAULT, "", "", "", "no rows can be made of it" },
	{ "inject", p_inject, WIRE_FAULT, "", "", "", "enqueue_new() before acceptance" },
	{ "delivered", p_delivered, WIRE_FAULT, "", "", "", "nothing may be delivered" },
	{ "keep one", p_keep_one, WIRE_FAULT, "", "", "", "pause_with() before acceptance" },
};

static void run(struct fixture *f, script_fn fn, struct wire_verdict *v)
{
	static struct {
		script_fn fn;
	} script;
	script.fn = fn;
	f->env.state = &script;
	pass_end(&f->msg);
	assert_int_equal(pass_begin(&f->msg, &f->env, &f->row), 0);
	before_pass(&f->msg, v);
}

static void verdicts(void **state)
{
	struct fixture f;
	(void)state;
	fixture_init(&f, PEPSI_LOAD_FULL, 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wire_verdict v;
		run(&f, cases[i].fn, &v);
		const char *d = cases[i].detail;
		if (v.id != 7 || v.what != cases[i].what || !str_eq(v.stage, str_from(cases[i].stage)) ||
		    !str_eq(v.enhanced, str_from(cases[i].enhanced)) || !str_eq(v.text, str_from(cases[i].text)) ||
		    (*d && !memmem(v.detail.p, v.detail.n, d, strlen(d))))
			fail_msg("%s: %d stage=%.*s enhanced=%.*s text=%.*s detail=%.*s", cases[i].name, (int)v.what, STR_ARG(v.stage),
			    STR_ARG(v.enhanced), STR_ARG(v.text), STR_ARG(v.detail));
	}
	fixture_done(&f);
}

static int32_t p_change(const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pepsi_str r[1] = { { "n@example.test", 14 } };
	assert_int_equal(h->set_headers(m, (struct pepsi_str){ "A: b\r\n", 6 }), PEPSI_OK);
	assert_int_equal(h->set_rcpt_to(m, r, 1), PEPSI_OK);
	assert_int_equal(h->merge_state(m, "{\"k\":1}"), PEPSI_OK);
	return h->advance(m);
}

static void changes(void **state)
{
	struct fixture f;
	struct wire_verdict v;
	(void)state;
	fixture_init(&f, PEPSI_LOAD_FULL, 0);
	run(&f, p_change, &v);
	assert_int_equal(v.what, WIRE_PASS);
	assert_int_equal(v.changed, WIRE_CHANGED_HEADERS | WIRE_CHANGED_RCPTS | WIRE_CHANGED_STATE);
	assert_true(str_eq(v.headers, STR("A: b\r\n")));
	assert_int_equal(v.n_rcpts, 1);
	assert_true(memmem(v.state.p, v.state.n, "origin", 6) && memmem(v.state.p, v.state.n, "\"k\":1", 5)); /* the whole */
	run(&f, p_advance, &v);
	assert_int_equal(v.changed, 0);
	fixture_done(&f);
}

/* A section without NEXT_STAGE and BOUNCE_STAGE: "on" and "refused" can be said all the same. */
static void without_ways(void **state)
{
	struct fixture f;
	struct wire_verdict v;
	(void)state;
	fixture_init(&f, PEPSI_LOAD_FULL, 0);
	f.env.next = BEFORE_FIRST_STAGE;
	f.env.bounce = "no-such-section";
	run(&f, p_bounce, &v);
	assert_int_equal(v.what, WIRE_REJECT);
	fixture_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(verdicts), cmocka_unit_test(changes), cmocka_unit_test(without_ways) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
