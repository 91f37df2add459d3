/* Wishes of a sender about time (core/worker/deadline.c): when life begins, how long a pause may be, and what becomes of a message whose
 * deadline is past. Rows and a module that would deliver; "now" is the clock's, deadlines are told relative to it. */
#include "fixture.h"

#include "base/clock.h"

#include <stdio.h>

static int64_t now_s(void)
{
	return clock_wall_us() / US_PER_S;
}

static unsigned ran;

static int32_t p_wait(const struct pepsi_host *h, struct pepsi_msg *m)
{
	ran++;
	return h->pause(m, "{\"last_error\":\"busy\"}", 5000);
}

static int32_t p_finish(const struct pepsi_host *h, struct pepsi_msg *m)
{
	ran++;
	return h->finish(m);
}

static int32_t p_retry(const struct pepsi_host *h, struct pepsi_msg *m)
{
	(void)h;
	(void)m;
	ran++;
	return PEPSI_RETRY;
}

static char state[512];

/* {"deliver_by":{"at":now+in_s,"mode":…}…} */
static void deliver_by(struct fixture *f, long in_s, const char *mode, const char *more)
{
	snprintf(state, sizeof state, "{\"deliver_by\":{\"at\":%lld,\"mode\":\"%s\"%s}}", (long long)(now_s() + in_s), mode, more);
	f->row.state = str_from(state);
}

static void with_state(struct fixture *f, const char *text)
{
	snprintf(state, sizeof state, "%s", text);
	f->row.state = str_from(state);
	fixture_run(f, p_finish);
}

static void life(void **st)
{
	struct fixture f;
	char text[128];
	(void)st;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	f.row.received_at = 1000 * US_PER_S;
	static const char *const none[] = { "{}", "{\"hold\":{\"until\":999}}", "{\"hold\":{\"until\":\"2000\"}}", "{\"hold\":{\"until\":2000.5}}", "{\"hold\":2000}",
		"{\"hold\":{\"until\":-1}}", "{\"hold\":{\"until\":9223372036854775807}}", "{\"hold\":null}", "{\"x\":\"\\\"hold\\\"\"}" };
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		with_state(&f, none[i]);
		if (pass_life_began(&f.msg) != 1000 * US_PER_S)
			fail_msg("%s", none[i]);
	}
	/* a message held for its sender has all of its life before it then */
	snprintf(text, sizeof text, "{\"hold\":{\"until\":2000}}");
	with_state(&f, text);
	assert_true(pass_life_began(&f.msg) == 2000 * US_PER_S);
	/* while an operator held it, its time stood still */
	with_state(&f, "{\"hold\":{\"until\":2000},\"held\":{\"s\":500}}");
	assert_true(pass_life_began(&f.msg) == 2500 * US_PER_S);
	with_state(&f, "{\"held\":{\"s\":\"500\"}}");
	assert_true(pass_life_began(&f.msg) == 1000 * US_PER_S);
	fixture_done(&f);
}

static int32_t p_wait_part(const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const uint32_t keep[] = { 1 }, away[] = { 0, 2 };
	struct pepsi_clone c = { .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = "other", .indices = away, .n = 2 };
	return h->pause_with(m, "{\"last_error\":\"busy\"}", 5000, keep, 1, &c, 1);
}

/* MAX_LIFETIME, whatever a module would have: a pause ends with it, and behind it there is none. */
static void lifetime(void **st)
{
	struct fixture f;
	(void)st;
	fixture_init(&f, PEPSI_LOAD_METADATA, 0);
	f.row.received_at = clock_wall_us() - 1000 * US_PER_S;
	f.env.lifetime_s = 1100;
	fixture_run(&f, p_wait);
	assert_int_equal(f.msg.end, END_PAUSE);
	assert_in_range(f.msg.pass.ops->pause_s, 95, 101);
	f.env.lifetime_s = 900;
	fixture_run(&f, p_wait);
	assert_int_equal(f.msg.end, END_MOVE);
	assert_string_equal(f.msg.end_stage, "bounce");
	assert_int_equal(f.msg.pass.ops->status, STORE_PENDING);
	assert_non_null(strstr(f.msg.pass.ops->state, "\"diagnostic\":\"delivery time expired; busy\""));
	assert_non_null(strstr(f.msg.pass.ops->state, "\"enhanced_status\":\"4.4.7\""));
	/* some recipients went elsewhere with the same terminal: the others are returned */
	fixture_run(&f, p_wait_part);
	assert_int_equal(f.msg.pass.n_ops, 2);
	assert_int_equal(f.msg.pass.ops[0].kind, STORE_OP_SPLIT);
	assert_int_equal(f.msg.pass.ops[0].n_keep, 1);
	assert_int_equal(f.msg.pass.ops[0].keep[0], 1);
	assert_string_equal(f.msg.pass.ops[1].stage, "bounce");
	f.env.bounce = NULL;
	fixture_run(&f, p_wait);
	assert_int_equal(f.msg.end, END_FAIL);
	assert_non_null(strstr(f.msg.pass.ops->state, "delivery time expired; busy"));
	/* while it was held its time stood still */
	f.row.state = STR("{\"held\":{\"s\":500}}");
	fixture_run(&f, p_wait);
	assert_int_equal(f.msg.end, END_PAUSE);
	fixture_done(&f);
}

static void pauses(void **st)
{
	static const struct {
		long in_s;
		const char *mode, *more;
		uint32_t least, most; /* of 5000 */
	} of[] = {
		{ 100, "R", "", 90, 100 },
		{ 100, "N", "", 90, 100 },
		{ 100, "N", ",\"told\":true", 5000, 5000 }, /* nothing is due any more */
		{ 100, "R", ",\"told\":true", 90, 100 },
		{ 100, "X", "", 5000, 5000 },
		{ 100, "", "", 5000, 5000 },
		{ 10000, "R", "", 5000, 5000 },
	};
	struct fixture f;
	(void)st;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		deliver_by(&f, of[i].in_s, of[i].mode, of[i].more);
		fixture_run(&f, p_wait);
		assert_int_equal(f.msg.pass.n_ops, 1);
		const struct store_op *op = &f.msg.pass.ops[0];
		assert_int_equal(op->kind, STORE_OP_PAUSE);
		if (op->pause_s < of[i].least || op->pause_s > of[i].most)
			fail_msg("case %zu: %u s", i, op->pause_s);
	}
	f.row.state = STR("{\"deliver_by\":{\"at\":\"soon\",\"mode\":\"R\"}}");
	fixture_run(&f, p_wait);
	assert_int_equal(f.msg.pass.ops[0].pause_s, 5000);
	fixture_done(&f);
}

/* Mode R: in the place of another try it goes back, and the module is not asked. */
static void returned(void **st)
{
	struct fixture f;
	(void)st;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	deliver_by(&f, -10, "R", "");
	ran = 0;
	fixture_run(&f, p_finish);
	assert_int_equal(ran, 0);
	assert_int_equal(f.msg.pass.n_ops, 1);
	const struct store_op *op = &f.msg.pass.ops[0];
	assert_int_equal(op->kind, STORE_OP_MOVE);
	assert_string_equal(op->stage, "bounce");
	assert_non_null(strstr(op->state, "\"enhanced_status\":\"5.4.7\""));
	assert_non_null(strstr(op->state, "\"kind\":\"permanent\""));
	assert_non_null(strstr(op->state, "delivery time expired: not delivered by 20"));
	/* without a stage for that, or in it: for the operator */
	f.env.bounce = NULL;
	fixture_run(&f, p_finish);
	assert_int_equal(ran, 0);
	assert_int_equal(f.msg.pass.ops[0].status, STORE_FAILED);
	f.env.bounce = "here";
	fixture_run(&f, p_finish);
	assert_int_equal(f.msg.pass.ops[0].status, STORE_FAILED);
	f.env.bounce = "bounce";
	/* not due, or another mode: delivered as ever */
	deliver_by(&f, 100, "R", "");
	fixture_run(&f, p_finish);
	assert_int_equal(f.msg.pass.ops[0].kind, STORE_OP_FINISH);
	deliver_by(&f, -10, "N", "");
	fixture_run(&f, p_finish);
	assert_int_equal(f.msg.pass.ops[0].kind, STORE_OP_FINISH);
	assert_int_equal(ran, 2);
	fixture_done(&f);
	/* a stage that does not deliver looks at no clock: the message passes through it */
	fixture_init(&f, PEPSI_LOAD_METADATA, 0);
	deliver_by(&f, -10, "R", "");
	fixture_run(&f, p_wait);
	assert_int_equal(ran, 3);
	assert_int_equal(f.msg.pass.ops[0].kind, STORE_OP_PAUSE);
	fixture_done(&f);
}

static unsigned clones(const struct fixture *f)
{
	unsigned n = 0;
	for (size_t i = 0; i < f->msg.pass.n_ops; i++)
		n += (unsigned)f->msg.pass.ops[i].n_clones;
	return n;
}

/* Mode N: its sender is told once that it is late, and it goes on. */
static void told(void **st)
{
	struct fixture f;
	(void)st;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	static const script_fn waits[] = { p_wait, p_retry };
	for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
		deliver_by(&f, -10, "N", "");
		fixture_run(&f, waits[i]);
		assert_int_equal(clones(&f), 1);
		assert_int_equal(f.msg.pass.n_ops, 1);
		const struct store_op *own = &f.msg.pass.ops[0];
		assert_string_equal(own->clones[0].stage, "bounce");
		assert_int_equal(own->clones[0].n, 3);
		assert_non_null(strstr(own->clones[0].state, "\"enhanced_status\":\"4.4.7\""));
		assert_non_null(strstr(own->clones[0].state, "\"kind\":\"delay\""));
		assert_int_equal(own->kind, STORE_OP_PAUSE);
		assert_non_null(strstr(own->state, "\"told\":true"));
		/* the next time nobody is */
		deliver_by(&f, -10, "N", ",\"told\":true");
		fixture_run(&f, waits[i]);
		assert_int_equal(clones(&f), 0);
	}
	/* to whom? a bounce goes nowhere; and what was delivered is not late any more */
	deliver_by(&f, -10, "N", "");
	f.row.mail_from = STR("");
	fixture_run(&f, p_wait);
	assert_int_equal(clones(&f), 0);
	f.row.mail_from = STR("s@example.test");
	deliver_by(&f, 100, "N", "");
	fixture_run(&f, p_wait);
	assert_int_equal(clones(&f), 0);
	deliver_by(&f, -10, "N", "");
	f.env.bounce = NULL;
	fixture_run(&f, p_wait);
	assert_int_equal(clones(&f), 0);
	fixture_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(life), cmocka_unit_test(lifetime), cmocka_unit_test(pauses), cmocka_unit_test(returned), cmocka_unit_test(told) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
