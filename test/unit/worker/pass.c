/* One pass: terminals, content setters, outcomes of every kind of return value, and each rule a module can break. */
#include "fixture.h"

#include "base/clock.h"

static struct pepsi_str ps(const char *z)
{
	return (struct pepsi_str){ z, strlen(z) };
}

/* --- what a good module does */

static int32_t p_advance(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->advance(m);
}
static int32_t p_advance_to(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->advance_to(m, "other");
}
static int32_t p_reroute(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->reroute(m, "bounce", "{\"bounce\":{\"kind\":\"permanent\",\"diagnostic\":\"550 no\"}}");
}
static int32_t p_pause(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->pause(m, "{\"attempts\":3,\"last_error\":\"busy\"}", 90);
}
static int32_t p_fail(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return (h->fail)(m, "{\"last_error\":\"odd\"}");
}
static int32_t p_finish(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->finish(m);
}
static int32_t p_aof(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->advance_or_finish(m);
}

static void terminals(void **st)
{
	(void)st;
	static const struct {
		script_fn fn;
		enum store_op_kind kind;
		const char *stage;
		enum store_status status;
		uint32_t pause_s;
		const char *state, *json, *event;
	} cases[] = {
		{ p_advance, STORE_OP_MOVE, "next", STORE_PENDING, 0, NULL, "{\"outcome\":\"move\",\"to\":\"next\"}", "moved" },
		{ p_advance_to, STORE_OP_MOVE, "other", STORE_PENDING, 0, NULL, "{\"outcome\":\"move\",\"to\":\"other\"}", "moved" },
		{ p_aof, STORE_OP_MOVE, "next", STORE_PENDING, 0, NULL, "{\"outcome\":\"move\",\"to\":\"next\"}", "moved" },
		{ p_reroute, STORE_OP_MOVE, "bounce", STORE_PENDING, 0,
		    "{\"bounce\":{\"kind\":\"permanent\",\"diagnostic\":\"550 no\"}}", "{\"outcome\":\"move\",\"to\":\"bounce\"}", "moved" },
		{ p_pause, STORE_OP_PAUSE, NULL, STORE_PENDING, 90, "{\"attempts\":3,\"last_error\":\"busy\"}",
		    "{\"outcome\":\"pause\",\"secs\":90}", "paused" },
		{ p_fail, STORE_OP_MOVE, "here", STORE_FAILED, 0, "{\"last_error\":\"odd\"}",
		    "{\"outcome\":\"fail\",\"error\":\"odd\"}", "failed" },
		{ p_finish, STORE_OP_FINISH, NULL, STORE_PENDING, 0, NULL, "{\"outcome\":\"finish\"}", "delivered" },
	};
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		fixture_run(&f, cases[i].fn);
		assert_int_equal(f.msg.pass.n_ops, 1);
		const struct store_op *op = &f.msg.pass.ops[0];
		assert_int_equal(op->kind, cases[i].kind);
		assert_int_equal(op->id, 7);
		assert_int_equal(op->status, cases[i].status);
		assert_int_equal(op->pause_s, cases[i].pause_s);
		if (cases[i].stage)
			assert_string_equal(op->stage, cases[i].stage);
		if (cases[i].state)
			assert_string_equal(op->state, cases[i].state);
		else
			assert_null(op->state);
		assert_string_equal(f.msg.json, cases[i].json);
		assert_string_equal(f.msg.event, cases[i].event);
	}
	fixture_done(&f);
}

static void finish_is_counted_by_capability(void **st)
{
	(void)st;
	static const struct {
		uint64_t caps;
		const char *want;
	} cases[] = { { 0, "discarded" }, { PEPSI_CAP_DELIVER, "delivered" }, { PEPSI_CAP_BOUNCE, "bounced" } };
	for (size_t i = 0; i < 3; i++) {
		struct fixture f;
		fixture_init(&f, PEPSI_LOAD_METADATA, cases[i].caps);
		fixture_run(&f, p_finish);
		assert_string_equal(f.msg.pass.ops[0].outcome, cases[i].want);
		fixture_done(&f);
	}
}

static int32_t p_rewrite_all(const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pepsi_str s, r[] = { ps("b@example.test"), ps("z@example.test") };
	assert_int_equal(h->set_headers(m, ps("Subject: y\r\nX: 1\r\n")), PEPSI_OK);
	assert_int_equal(h->set_mail_from(m, ps("")), PEPSI_OK);
	assert_int_equal(h->set_rcpt_to(m, r, 2), PEPSI_OK);
	assert_int_equal(h->merge_state(m, " {\"list\":\"x\",\"origin\":null}\n"), PEPSI_OK);
	/* later readers see what was set */
	assert_int_equal(h->headers(m, &s), PEPSI_OK);
	assert_int_equal(s.n, strlen("Subject: y\r\nX: 1\r\n"));
	assert_int_equal(h->mail_from(m).n, 0);
	assert_int_equal(h->n_rcpt(m), 2);
	assert_int_equal(h->state_get(m, "list", &s), PEPSI_OK);
	assert_memory_equal(s.p, "x", 1);
	assert_int_equal(h->state_get(m, "origin", &s), PEPSI_NONE);
	return h->advance(m);
}

static void setters_fold_into_one_update(void **st)
{
	(void)st;
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_HEADERS, 0);
	f.row.state = STR("{\"origin\":{},\"dsn\":{\"rcpt\":[{\"orcpt\":\"1\"},{\"orcpt\":\"2\"},{\"orcpt\":\"3\"}]}}");
	fixture_run(&f, p_rewrite_all);
	assert_int_equal(f.msg.pass.n_ops, 1);
	const struct store_op *op = &f.msg.pass.ops[0];
	assert_int_equal(op->touched, STORE_SET_HEADERS | STORE_SET_MAIL_FROM | STORE_SET_RCPT_TO | STORE_STATE_MERGE);
	assert_true(str_eq(op->headers, STR("Subject: y\r\nX: 1\r\n")));
	assert_int_equal(op->mail_from.n, 0);
	assert_int_equal(op->n_rcpts, 2);
	assert_true(str_eq(op->rcpts[1], STR("z@example.test")));
	assert_string_equal(op->state, "{\"dsn\":{\"rcpt\":[{\"orcpt\":\"2\"},{}]},\"list\":\"x\",\"origin\":null}");
	fixture_done(&f);
}

static int32_t p_bounce(const struct pepsi_host *h, struct pepsi_msg *m)
{
	assert_int_equal(h->clear_state(m), PEPSI_OK);
	assert_int_equal(h->merge_state(m, "{\"new\":1}"), PEPSI_OK);
	assert_int_equal(h->set_body(m, ps("report\r\n")), PEPSI_OK);
	return h->advance(m);
}

static void clear_state_replaces(void **st)
{
	(void)st;
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_HEADERS, PEPSI_CAP_BOUNCE);
	fixture_run(&f, p_bounce);
	const struct store_op *op = &f.msg.pass.ops[0];
	assert_int_equal(op->touched, STORE_SET_BODY | STORE_STATE_REPLACE);
	assert_string_equal(op->state, "{\"new\":1}");
	fixture_done(&f);
}

/* A retry counter belongs to the stage that counted. */
static void pad_is_dropped_on_the_way(void **st)
{
	(void)st;
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, 0);
	f.row.state = STR("{\"attempts\":4,\"last_error\":\"x\"}");
	fixture_run(&f, p_advance);
	assert_string_equal(f.msg.pass.ops[0].state, "{\"attempts\":null,\"last_error\":null}");
	fixture_run(&f, p_reroute);
	assert_null(strstr(f.msg.pass.ops[0].state, "attempts"));
	fixture_done(&f);
}

/* --- what is not PEPSI_OK */

static int32_t p_retry(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->advance(m); /* forgotten */
	h->log(m, PEPSI_LOG_WARN, "disk \"full\"");
	return PEPSI_RETRY;
}
static int32_t p_permanent(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->merge_state(m, "{\"x\":1}");
	h->log(m, PEPSI_LOG_ERROR, "not for us");
	return PEPSI_PERMANENT;
}

static void host_retries(void **st)
{
	(void)st;
	static const struct {
		const char *state;
		unsigned secs, attempts;
	} cases[] = { { "{}", 60, 1 }, { "{\"attempts\":1}", 120, 2 }, { "{\"attempts\":5}", 1920, 6 },
		{ "{\"attempts\":6}", 3600, 7 }, { "{\"attempts\":100000}", 3600, 100001 }, { "{\"attempts\":\"x\"}", 60, 1 } };
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char want[100];
		f.row.state = str_from(cases[i].state);
		fixture_run(&f, p_retry);
		assert_int_equal(f.msg.pass.n_ops, 1);
		assert_int_equal(f.msg.pass.ops[0].kind, STORE_OP_PAUSE);
		assert_in_range(f.msg.pass.ops[0].pause_s, cases[i].secs - cases[i].secs / 4, cases[i].secs + cases[i].secs / 4); /* by chance */
		snprintf(want, sizeof want, "{\"attempts\":%u,\"last_error\":\"disk \\\"full\\\"\"}", cases[i].attempts);
		assert_string_equal(f.msg.pass.ops[0].state, want);
	}
	/* never beyond the end of the lifetime */
	f.row.received_at = clock_wall_us();
	f.row.state = STR("{}");
	f.env.lifetime_s = 10;
	fixture_run(&f, p_retry);
	assert_in_range(f.msg.pass.ops[0].pause_s, 8, 11);
	fixture_done(&f);
}

static void lifetime_ends_in_a_bounce(void **st)
{
	(void)st;
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, 0);
	f.env.lifetime_s = 1;
	fixture_run(&f, p_retry);
	const struct store_op *op = &f.msg.pass.ops[0];
	assert_int_equal(op->kind, STORE_OP_MOVE);
	assert_string_equal(op->stage, "bounce");
	assert_non_null(strstr(op->state, "\"bounce\":{\"kind\":\"permanent\",\"diagnostic\":\"disk \\\"full\\\"\""));
	f.env.bounce = NULL;
	fixture_run(&f, p_retry);
	assert_int_equal(f.msg.pass.ops[0].status, STORE_FAILED);
	assert_string_equal(f.msg.pass.ops[0].state, "{\"last_error\":\"disk \\\"full\\\"\"}");
	f.env.bounce = "here"; /* the bounce stage itself */
	fixture_run(&f, p_retry);
	assert_int_equal(f.msg.pass.ops[0].status, STORE_FAILED);
	fixture_done(&f);
}

static void permanent_fails(void **st)
{
	(void)st;
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, 0);
	fixture_run(&f, p_permanent);
	assert_int_equal(f.msg.pass.n_ops, 1);
	assert_int_equal(f.msg.pass.ops[0].status, STORE_FAILED);
	assert_string_equal(f.msg.pass.ops[0].stage, "here");
	assert_string_equal(f.msg.pass.ops[0].state, "{\"last_error\":\"not for us\"}");
	fixture_done(&f);
}

/* --- rules */

static int32_t r_none(const struct pepsi_host *h, struct pepsi_msg *m)
{
	(void)h;
	(void)m;
	return PEPSI_OK;
}
static int32_t r_two(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->advance(m);
	assert_int_equal(h->finish(m), PEPSI_MISUSE);
	return PEPSI_OK;
}
static int32_t r_set_after(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->finish(m);
	h->set_mail_from(m, ps("x@y"));
	return PEPSI_OK;
}
static int32_t r_headers(const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pepsi_str s;
	assert_int_equal(h->headers(m, &s), PEPSI_MISUSE);
	return h->advance(m);
}
static int32_t r_body(const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pepsi_str s;
	h->body(m, &s);
	return h->advance(m);
}
static int32_t r_pause_content(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->set_mail_from(m, ps("x@y"));
	return h->pause(m, NULL, 1);
}
static int32_t r_bare_lf(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->set_headers(m, ps("Subject: x\nBcc: y\r\n"));
	return h->advance(m);
}
static int32_t r_empty_line(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->set_headers(m, ps("Subject: x\r\n\r\nbody\r\n"));
	return h->advance(m);
}
static int32_t r_body_cr(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->set_body(m, ps("a\rb\r\n"));
	return h->advance(m);
}
static int32_t r_address(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->set_mail_from(m, ps("a\xff@b"));
	return h->advance(m);
}
static int32_t r_address_lf(const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pepsi_str r = ps("a@b\r\nRCPT TO:<c@d>");
	h->set_rcpt_to(m, &r, 1);
	return h->advance(m);
}
static int32_t r_json(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->merge_state(m, "{\"a\":");
	return h->advance(m);
}
static int32_t r_stage(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->advance_to(m, "nowhere");
}
static int32_t r_clear(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->clear_state(m);
	return h->advance(m);
}
static int32_t r_value(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->advance(m);
	return 42;
}
static int32_t r_swallowed(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->advance_to(m, "nowhere");
	return PEPSI_RETRY; /* does not hide it */
}

static void broken_rules_fail_and_teach(void **st)
{
	(void)st;
	static const struct {
		script_fn fn;
		const char *says;
	} cases[] = {
		{ r_none, "without a terminal" },
		{ r_two, "finish() was called after a terminal" },
		{ r_set_after, "set_mail_from() was called after a terminal" },
		{ r_headers, "declare PEPSI_LOAD_HEADERS" },
		{ r_body, "declare PEPSI_LOAD_FULL" },
		{ r_pause_content, "pause(): content was changed before" },
		{ r_bare_lf, "set_headers(): the text holds a bare LF" },
		{ r_empty_line, "set_headers(): the text holds an empty line" },
		{ r_body_cr, "set_body(): the text holds a bare CR" },
		{ r_address, "set_mail_from(): the address is no valid UTF-8" },
		{ r_address_lf, "set_rcpt_to(): recipient 0 holds a control character" },
		{ r_json, "merge_state(): the state to merge is no JSON object" },
		{ r_stage, "advance_to(): there is no section [stage-nowhere]" },
		{ r_clear, "clear_state(): only bounce stages may" },
		{ r_value, "process() returned 42" },
		{ r_swallowed, "there is no section [stage-nowhere]" },
	};
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		fixture_run(&f, cases[i].fn);
		assert_int_equal(f.msg.pass.n_ops, 1);
		const struct store_op *op = &f.msg.pass.ops[0];
		assert_int_equal(op->kind, STORE_OP_MOVE);
		assert_int_equal(op->status, STORE_FAILED);
		assert_string_equal(op->stage, "here");
		assert_int_equal(op->touched, STORE_STATE_MERGE);
		if (!strstr(op->state, cases[i].says))
			fail_msg("case %zu: expected \"%s\" in %s", i, cases[i].says, op->state);
		assert_non_null(strstr(op->state, "pepsi-stage-test broke the stage ABI"));
		assert_non_null(strstr(f.msg.json, "\"outcome\":\"fail\""));
	}
	/* advance() without NEXT_STAGE */
	f.env.next = NULL;
	fixture_run(&f, p_advance);
	assert_non_null(strstr(f.msg.pass.ops[0].state, "[stage-here] has no NEXT_STAGE"));
	fixture_run(&f, p_aof);
	assert_int_equal(f.msg.pass.ops[0].kind, STORE_OP_FINISH);
	fixture_done(&f);
}

static void unreadable_state_fails_the_row(void **st)
{
	(void)st;
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, 0);
	f.row.state = STR("{\"a\":[");
	fixture_run(&f, p_retry);
	assert_int_equal(f.msg.pass.ops[0].status, STORE_FAILED);
	assert_non_null(strstr(f.msg.pass.ops[0].state, "cannot be read"));
	fixture_done(&f);
}

static void a_refused_commit_becomes_a_failure(void **st)
{
	(void)st;
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, 0);
	fixture_run(&f, p_advance);
	pass_refused(&f.msg, "value \"too\" long");
	assert_int_equal(f.msg.pass.n_ops, 1);
	assert_int_equal(f.msg.pass.ops[0].status, STORE_FAILED);
	assert_non_null(strstr(f.msg.pass.ops[0].state, "value \\\"too\\\" long"));
	fixture_done(&f);
}

static int32_t puts_off(const struct pepsi_host *h, struct pepsi_msg *m)
{
	assert_int_equal(h->pause_others(m, 30, 0, "example.test: \xff not now"), PEPSI_OK);
	return h->pause(m, NULL, 60);
}

static int32_t puts_off_and_ends(const struct pepsi_host *h, struct pepsi_msg *m)
{
	assert_int_equal(h->pause_others(m, 30, 100, "not now"), PEPSI_OK);
	return h->finish(m);
}

static int32_t puts_off_nobody(const struct pepsi_host *h, struct pepsi_msg *m)
{
	assert_int_equal(h->pause_others(m, 30, 100, "not now"), PEPSI_NONE);
	return h->pause(m, NULL, 60);
}

static int32_t puts_off_too_late(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->pause(m, NULL, 60);
	assert_int_equal(h->pause_others(m, 30, 100, "not now"), PEPSI_MISUSE);
	return PEPSI_OK;
}

static int32_t puts_off_without_a_word(const struct pepsi_host *h, struct pepsi_msg *m)
{
	assert_int_equal(h->pause_others(m, 30, 100, ""), PEPSI_MISUSE);
	return h->pause(m, NULL, 60);
}

static void others_are_put_off_with_a_pause(void **st)
{
	static struct str two[] = { STR_INIT("a@Example.TEST"), STR_INIT("b@example.test") }, mixed[] = { STR_INIT("a@x"), STR_INIT("b@y") },
		bare[] = { STR_INIT("postmaster") };
	struct fixture f;
	(void)st;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	f.row.rcpts = two;
	f.row.n_rcpts = 2;
	fixture_run(&f, puts_off);
	const struct store_put_off *o = f.msg.pass.put_off;
	assert_non_null(o);
	assert_string_equal(o->stage, "here");
	assert_true(str_eq(o->domain, STR("Example.TEST")));
	assert_int_equal(o->first_s, 30);
	assert_int_equal(o->each_ms, 1);
	assert_string_equal(o->error, "example.test: ? not now");
	assert_int_equal(o->life_s, f.env.lifetime_s);
	assert_int_equal(f.msg.pass.n_ops, 1); /* it may still be folded with others */
	fixture_run(&f, puts_off_and_ends);
	assert_null(f.msg.pass.put_off);
	fixture_run(&f, puts_off_too_late);
	assert_null(f.msg.pass.put_off);
	assert_int_equal(f.msg.pass.ops[0].status, STORE_FAILED);
	fixture_run(&f, puts_off_without_a_word);
	assert_null(f.msg.pass.put_off);
	f.row.rcpts = mixed;
	fixture_run(&f, puts_off_nobody);
	assert_null(f.msg.pass.put_off);
	f.row.rcpts = bare;
	f.row.n_rcpts = 1;
	fixture_run(&f, puts_off_nobody);
	assert_null(f.msg.pass.put_off);
	/* its time is over: it is a bounce, and says nothing of others */
	f.row.rcpts = two;
	f.row.n_rcpts = 2;
	f.env.lifetime_s = 1;
	fixture_run(&f, puts_off);
	assert_null(f.msg.pass.put_off);
	fixture_done(&f);
}

int main(void)
{
	log_setup(LOG_LV_ERROR, "test");
	const struct CMUnitTest tests[] = { cmocka_unit_test(terminals), cmocka_unit_test(others_are_put_off_with_a_pause), cmocka_unit_test(finish_is_counted_by_capability),
		cmocka_unit_test(setters_fold_into_one_update), cmocka_unit_test(clear_state_replaces),
		cmocka_unit_test(pad_is_dropped_on_the_way), cmocka_unit_test(host_retries),
		cmocka_unit_test(lifetime_ends_in_a_bounce), cmocka_unit_test(permanent_fails),
		cmocka_unit_test(broken_rules_fail_and_teach), cmocka_unit_test(unreadable_state_fails_the_row),
		cmocka_unit_test(a_refused_commit_becomes_a_failure) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
