/* Fan-out and clones: who goes where, in which operation, and that nobody is lost or doubled. */
#include "fixture.h"

static void clones_are(const struct store_op *op, size_t n)
{
	assert_int_equal(op->n_clones, n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(strlen(op->clones[i].token), 32);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(op->clones[i].token, op->clones[k].token);
	}
}

static int32_t split_off(const struct pepsi_host *h, struct pepsi_msg *m)
{
	uint32_t i = 1;
	assert_int_equal(h->split_off_recipients(m, &i, 1, "other"), PEPSI_OK);
	return h->advance(m);
}

static void split_then_move(void **st)
{
	(void)st;
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, 0);
	fixture_run(&f, split_off);
	assert_int_equal(f.msg.pass.n_ops, 2);
	const struct store_op *op = f.msg.pass.ops;
	assert_int_equal(op[0].kind, STORE_OP_SPLIT);
	clones_are(&op[0], 1);
	assert_string_equal(op[0].clones[0].stage, "other");
	assert_int_equal(op[0].clones[0].n, 1);
	assert_int_equal(op[0].clones[0].indices[0], 1);
	assert_int_equal(op[0].n_keep, 2);
	assert_int_equal(op[0].keep[0], 0);
	assert_int_equal(op[0].keep[1], 2);
	assert_int_equal(op[1].kind, STORE_OP_MOVE);
	assert_string_equal(op[1].stage, "next");
	assert_string_equal(f.msg.json, "{\"outcome\":\"move\",\"to\":\"next\",\"also\":[\"other\"]}");
	fixture_done(&f);
}

static int32_t one_per_row(const struct pepsi_host *h, struct pepsi_msg *m)
{
	assert_int_equal(h->split_to_one_per_row(m), PEPSI_OK);
	return h->finish(m);
}

static void one_per_row_then_finish(void **st)
{
	(void)st;
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	fixture_run(&f, one_per_row);
	/* one operation: the siblings are clones of the finish, so that no crash falls between */
	assert_int_equal(f.msg.pass.n_ops, 1);
	const struct store_op *op = f.msg.pass.ops;
	assert_int_equal(op->kind, STORE_OP_FINISH);
	clones_are(op, 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_string_equal(op->clones[i].stage, "here");
		assert_int_equal(op->clones[i].indices[0], i + 1);
	}
	fixture_done(&f);
}

static int32_t mixed(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const uint32_t keep[] = { 2 }, bad[] = { 0 }, ok[] = { 1 };
	struct pepsi_clone c[] = {
		{ .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = "bounce", .indices = bad, .n = 1,
		    .state = "{\"bounce\":{\"kind\":\"permanent\"}}" },
		{ .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = "bounce", .indices = ok, .n = 1,
		    .state = "{\"bounce\":{\"kind\":\"success\"}}" },
	};
	return h->pause_with(m, "{\"attempts\":1}", 60, keep, 1, c, 2);
}

static void pause_with_clones(void **st)
{
	(void)st;
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	f.row.state = STR("{\"attempts\":7}");
	fixture_run(&f, mixed);
	assert_int_equal(f.msg.pass.n_ops, 1);
	const struct store_op *op = f.msg.pass.ops;
	assert_int_equal(op->kind, STORE_OP_PAUSE);
	assert_int_equal(op->n_keep, 1);
	assert_int_equal(op->keep[0], 2);
	assert_string_equal(op->state, "{\"attempts\":1}");
	clones_are(op, 2);
	/* the report starts without this stage's retry counter */
	assert_string_equal(op->clones[0].state, "{\"attempts\":null,\"bounce\":{\"kind\":\"permanent\"}}");
	assert_string_equal(f.msg.json, "{\"outcome\":\"pause\",\"secs\":60,\"to\":\"bounce\",\"also\":[\"bounce\"]}");
	fixture_done(&f);
}

static int32_t fan(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const uint32_t keep[] = { 0 }, later[] = { 1 };
	static const char *const fresh[] = { "x@elsewhere.test", "y@elsewhere.test" };
	struct pepsi_clone g[] = {
		{ .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = "other", .rcpts = fresh, .n = 2, .mail_from = "" },
		{ .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = "here", .indices = later, .n = 1, .status = PEPSI_CLONE_RETRY,
		    .retry_s = 300 },
	};
	assert_int_equal(h->fan_out(m, g, 2, keep, 1), PEPSI_OK);
	return h->complete_success(m, keep, 1, 1);
}

static void fan_out_groups(void **st)
{
	(void)st;
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	fixture_run(&f, fan);
	assert_int_equal(f.msg.pass.n_ops, 2);
	const struct store_op *op = f.msg.pass.ops;
	assert_int_equal(op[0].kind, STORE_OP_SPLIT);
	assert_int_equal(op[0].n_keep, 1);
	clones_are(op, 2);
	assert_true(op[0].clones[0].fresh_rcpts);
	assert_true(str_eq(op[0].clones[0].rcpts[1], STR("y@elsewhere.test")));
	assert_int_equal(op[0].clones[0].mail_from->n, 0);
	assert_int_equal(op[0].clones[1].status, PEPSI_CLONE_RETRY);
	assert_int_equal(op[0].clones[1].retry_s, 300);
	fixture_done(&f);
}

static int32_t success(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->complete_success(m, NULL, 0, 1);
}
static int32_t success_there(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->complete_success(m, NULL, 0, 0);
}

static void success_report(void **st)
{
	(void)st;
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	f.env.next = NULL;
	f.row.state = STR("{\"dsn\":{\"rcpt\":[{\"notify\":\"FAILURE\"},{\"notify\":\"SUCCESS,DELAY\"},{}]}}");
	fixture_run(&f, success);
	const struct store_op *op = f.msg.pass.ops;
	assert_int_equal(f.msg.pass.n_ops, 1);
	assert_int_equal(op->kind, STORE_OP_FINISH);
	clones_are(op, 1);
	assert_string_equal(op->clones[0].stage, "bounce");
	assert_int_equal(op->clones[0].n, 1);
	assert_int_equal(op->clones[0].indices[0], 1);
	assert_non_null(strstr(op->clones[0].state, "\"kind\":\"success\""));
	assert_non_null(strstr(op->clones[0].state, "\"failed_recipient\":\"b@example.test\""));

	/* with a NEXT_STAGE the report is split off and all recipients go on */
	f.env.next = "next";
	fixture_run(&f, success);
	op = f.msg.pass.ops;
	assert_int_equal(f.msg.pass.n_ops, 2);
	assert_int_equal(op[0].kind, STORE_OP_SPLIT);
	assert_null(op[0].keep);
	assert_int_equal(op[1].kind, STORE_OP_MOVE);
	f.env.next = NULL;

	/* and the cases without a report */
	fixture_run(&f, success_there);
	assert_int_equal(f.msg.pass.ops->n_clones, 0);
	f.row.mail_from = STR_NULL;
	fixture_run(&f, success);
	assert_int_equal(f.msg.pass.ops->n_clones, 0);
	f.row.mail_from = STR("s@example.test");
	f.env.success_dsn = false;
	fixture_run(&f, success);
	assert_int_equal(f.msg.pass.ops->n_clones, 0);
	f.env.success_dsn = true;
	f.env.bounce = NULL;
	fixture_run(&f, success);
	assert_int_equal(f.msg.pass.ops->n_clones, 0);
	fixture_done(&f);
}

static int32_t rewrite(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const char *const to[] = { "c@example.test", "n@example.test" };
	return h->rewrite_recipients(m, to, 2, NULL);
}
static int32_t rewrite_own_dsn(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const char *const to[] = { "n@example.test" };
	return h->rewrite_recipients(m, to, 1, "{\"dsn\":{\"rcpt\":[{\"orcpt\":\"mine\"}]}}");
}
static int32_t rewrite_wrong_dsn(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const char *const to[] = { "n@example.test" };
	return h->rewrite_recipients(m, to, 1, "{\"dsn\":{\"rcpt\":[{},{}]}}");
}

static void rewriting(void **st)
{
	(void)st;
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, 0);
	f.row.state = STR("{\"dsn\":{\"rcpt\":[{\"o\":1},{\"o\":2},{\"o\":3}]}}");
	fixture_run(&f, rewrite);
	const struct store_op *op = f.msg.pass.ops;
	assert_int_equal(f.msg.pass.n_ops, 1);
	assert_int_equal(op->touched, STORE_SET_RCPT_TO | STORE_STATE_MERGE);
	assert_int_equal(op->n_rcpts, 2);
	assert_string_equal(op->state, "{\"dsn\":{\"rcpt\":[{\"o\":3},{}]}}");
	assert_string_equal(op->stage, "next");
	fixture_run(&f, rewrite_own_dsn);
	assert_string_equal(f.msg.pass.ops->state, "{\"dsn\":{\"rcpt\":[{\"orcpt\":\"mine\"}]}}");
	fixture_run(&f, rewrite_wrong_dsn);
	assert_int_equal(f.msg.pass.ops->status, STORE_FAILED);
	fixture_done(&f);
}

static int32_t inject(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const char *const to[] = { "s@example.test" };
	struct pepsi_str head = { "Subject: reply\r\n", 16 }, body = { "gone fishing\r\n", 14 }, none = { NULL, 0 };
	for (int i = 0; i < 6; i++)
		assert_int_equal(h->enqueue_new(m, "other", none, to, 1, head, body, i ? NULL : "{\"x\":1}"), PEPSI_OK);
	return h->advance(m);
}
static int32_t inject_retry(const struct pepsi_host *h, struct pepsi_msg *m)
{
	inject(h, m);
	return PEPSI_RETRY;
}

static void side_messages(void **st)
{
	(void)st;
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, 0);
	fixture_run(&f, inject);
	/* before the row's own operation: they are made only while it is running */
	assert_int_equal(f.msg.pass.n_ops, 7);
	assert_int_equal(f.msg.pass.ops[0].kind, STORE_OP_INJECT);
	assert_string_equal(f.msg.pass.ops[0].state, "{\"x\":1}");
	assert_true(str_eq(f.msg.pass.ops[5].body, STR("gone fishing\r\n")));
	assert_int_equal(f.msg.pass.ops[6].kind, STORE_OP_MOVE);
	fixture_run(&f, inject_retry);
	assert_int_equal(f.msg.pass.n_ops, 1);
	assert_int_equal(f.msg.pass.ops[0].kind, STORE_OP_PAUSE);
	fixture_done(&f);
}

/* --- rules */

static int32_t r_everybody(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const uint32_t all[] = { 0, 1, 2 };
	h->split_off_recipients(m, all, 3, "other");
	return h->finish(m);
}
static int32_t r_twice(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const uint32_t i[] = { 1, 1 };
	h->split_off_recipients(m, i, 2, "other");
	return h->finish(m);
}
static int32_t r_gone(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const uint32_t i[] = { 1 };
	h->split_off_recipients(m, i, 1, "other");
	h->split_off_recipients(m, i, 1, "bounce");
	return h->finish(m);
}
static int32_t r_range(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const uint32_t i[] = { 3 };
	h->split_off_recipients(m, i, 1, "other");
	return h->finish(m);
}
static int32_t r_after_content(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const uint32_t i[] = { 1 };
	h->merge_state(m, "{\"x\":1}");
	h->split_off_recipients(m, i, 1, "other");
	return h->finish(m);
}
static int32_t r_after_terminal(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->finish(m);
	h->split_to_one_per_row(m);
	return PEPSI_OK;
}
static int32_t r_lost(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const uint32_t some[] = { 0 };
	return h->complete_success(m, some, 1, 1) == PEPSI_MISUSE ? PEPSI_OK : 99;
}
static int32_t r_no_abi(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const uint32_t i[] = { 1 };
	struct pepsi_clone c = { .stage = "other", .indices = i, .n = 1 };
	return h->finish_with(m, &c, 1);
}
static int32_t r_keeps_nobody(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const uint32_t i[] = { 1 };
	return h->pause_with(m, NULL, 1, i, 0, NULL, 0);
}
static int32_t r_moves_nobody(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const uint32_t all[] = { 0, 1, 2 };
	struct pepsi_clone c = { .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = "other", .indices = all, .n = 3 };
	h->fan_out(m, &c, 1, all, 0);
	return h->advance(m);
}
static int32_t r_clone_state(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const uint32_t i[] = { 1 };
	struct pepsi_clone c = { .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = "other", .indices = i, .n = 1, .state = "[]" };
	return h->finish_with(m, &c, 1);
}

static void broken_rules(void **st)
{
	(void)st;
	static const struct {
		script_fn fn;
		const char *says;
	} cases[] = {
		{ r_everybody, "nobody would be left" }, { r_twice, "recipient index 1 stands twice" },
		{ r_gone, "recipient index 1 was split off before" }, { r_range, "recipient index 3 is out of range" },
		{ r_after_content, "content or state was changed before" },
		{ r_after_terminal, "split_to_one_per_row() was called after a terminal" },
		{ r_lost, "split the others off first" }, { r_no_abi, "PEPSI_ABI_OF(struct pepsi_clone)" },
		{ r_keeps_nobody, "keeps no recipient" }, { r_moves_nobody, "only finish() is left" },
		{ r_clone_state, "no JSON object" },
	};
	struct fixture f;
	fixture_init(&f, PEPSI_LOAD_METADATA, 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		fixture_run(&f, cases[i].fn);
		assert_int_equal(f.msg.pass.n_ops, 1);
		assert_int_equal(f.msg.pass.ops[0].status, STORE_FAILED);
		assert_int_equal(f.msg.pass.ops[0].n_clones, 0);
		if (!strstr(f.msg.pass.ops[0].state, cases[i].says))
			fail_msg("case %zu: expected \"%s\" in %s", i, cases[i].says, f.msg.pass.ops[0].state);
	}
	fixture_done(&f);
}

int main(void)
{
	log_setup(LOG_LV_ERROR, "test");
	const struct CMUnitTest tests[] = { cmocka_unit_test(split_then_move), cmocka_unit_test(one_per_row_then_finish),
		cmocka_unit_test(pause_with_clones), cmocka_unit_test(fan_out_groups), cmocka_unit_test(success_report),
		cmocka_unit_test(rewriting), cmocka_unit_test(side_messages), cmocka_unit_test(broken_rules) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
