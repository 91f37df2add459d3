/* An operator's rules at the moment a message would leave (core/worker/steer.c): which messages they mean, what becomes of those, and of
 * rows of which they mean a part. */
#include "fixture.h"

#include "base/clock.h"
#include "worker/steer.h"

#include <stdio.h>
#include <string.h>

static unsigned ran;

static int32_t p_finish(const struct pepsi_host *h, struct pepsi_msg *m)
{
	ran++;
	return h->finish(m);
}

static int64_t now_us(void)
{
	return clock_wall_us();
}

/* Runs one message past these rules, given the newest first. */
static void past(struct fixture *f, const struct store_rule *rules, size_t n, bool deliver)
{
	struct steer *s = steer_new();
	for (size_t i = 0; i < n; i++)
		steer_add(s, &rules[i]);
	assert_true(steer_whole(s));
	struct steer_list *l = steer_for(s, "here", deliver);
	f->env.steer = l;
	ran = 0;
	fixture_run(f, p_finish);
	f->env.steer = NULL;
	free(l);
	/* the stage to go to lies in the steer's memory: looked at before it goes */
	if (f->msg.end == END_MOVE)
		assert_true(!strcmp(f->msg.end_stage, "next") || !strcmp(f->msg.end_stage, "here") || !strcmp(f->msg.end_stage, "bounce"));
	f->msg.end_stage = f->msg.end == END_MOVE ? arena_strz(f->msg.a, str_from(f->msg.end_stage)) : NULL;
	steer_free(s);
}

static void means(void **st)
{
	static const struct {
		struct store_rule r;
		bool held;
	} cases[] = {
		{ { .sender = STR_INIT("s@example.test") }, true },
		{ { .sender = STR_INIT("S@EXAMPLE.TEST") }, true },
		{ { .sender = STR_INIT("@example.test") }, true },
		{ { .sender = STR_INIT("@xample.test") }, false },
		{ { .sender = STR_INIT("@test") }, false },
		{ { .sender = STR_INIT("") }, false },
		{ { .sender = STR_INIT("other@example.test") }, false },
		{ { .recipient = STR_INIT("@example.test") }, true },
		{ { .recipient = STR_INIT("@Example.TEST") }, true },
		{ { .recipient = STR_INIT("@example.org") }, false },
		{ { .client = STR_INIT("192.0.2.0/24") }, true },
		{ { .client = STR_INIT("192.0.2.1") }, true },
		{ { .client = STR_INIT("192.0.3.0/24") }, false },
		{ { .client = STR_INIT("nonsense") }, false },
		{ { .stage = STR_INIT("here") }, true },
		{ { .stage = STR_INIT("HERE") }, true },
		{ { .stage = STR_INIT("there") }, false },
		{ { .sender = STR_INIT("@example.test"), .recipient = STR_INIT("@example.test"), .client = STR_INIT("192.0.2.1"), .stage = STR_INIT("here") }, true },
		{ { .sender = STR_INIT("@example.test"), .recipient = STR_INIT("@example.org") }, false },
		{ { .sender = STR_INIT("@example.test"), .expires_us = 1 }, false },
	};
	struct fixture f;
	(void)st;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct store_rule r = cases[i].r;
		r.id = 5;
		r.hold = true;
		r.created_us = now_us();
		past(&f, &r, 1, true);
		if (cases[i].held != (f.msg.end == END_PAUSE) || cases[i].held == (ran == 1))
			fail_msg("case %zu: end %d, ran %u", i, f.msg.end, ran);
		/* a stage that delivers nothing is asked only where the rule names it */
		past(&f, &r, 1, false);
		if ((cases[i].held && cases[i].r.stage.p) != (f.msg.end == END_PAUSE))
			fail_msg("case %zu at a stage that does not deliver: end %d", i, f.msg.end);
	}
	f.row.mail_from = STR("");
	past(&f, &(struct store_rule){ .id = 1, .hold = true, .sender = STR("") }, 1, true);
	assert_int_equal(f.msg.end, END_PAUSE);
	fixture_done(&f);
}

/* A domain is the same in U-labels and A-labels, in capitals and not, in the rule and in the row; a local part is compared as it is. */
static void folded(void **st)
{
	static const struct str written[] = { STR_INIT("@b\xc3\xbc" "cher.example"), STR_INIT("@xn--bcher-kva.example"), STR_INIT("@XN--BCHER-KVA.Example"),
		STR_INIT("@B\xc3\x9c" "CHER.EXAMPLE"), STR_INIT("@bu\xcc\x88" "cher.example") };
	static struct str rows[] = { STR_INIT("x@b\xc3\xbc" "cher.example"), STR_INIT("x@xn--bcher-kva.example"), STR_INIT("X@B\xc3\xbc" "CHER.example"),
		STR_INIT("gr\xc3\xbc\xc3\x9f" "e@XN--BCHER-KVA.EXAMPLE") };
	struct fixture f;
	(void)st;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	f.row.n_rcpts = 1;
	for (size_t w = 0; w < sizeof written / sizeof *written; w++)
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
			struct store_rule to = { .id = 5, .hold = true, .recipient = written[w] }, from = { .id = 5, .hold = true, .sender = written[w] };
			f.row.rcpts = &rows[i];
			f.row.mail_from = STR("s@example.test");
			past(&f, &to, 1, true);
			if (f.msg.end != END_PAUSE)
				fail_msg("recipient %zu by rule %zu", i, w);
			past(&f, &from, 1, true);
			assert_int_equal(ran, 1);
			f.row.mail_from = rows[i];
			past(&f, &from, 1, true);
			if (f.msg.end != END_PAUSE)
				fail_msg("sender %zu by rule %zu", i, w);
		}
	/* one of two: that one is parted, as it stands in the row */
	static struct str two[] = { STR_INIT("a@one.test"), STR_INIT("b@b\xc3\xbc" "cher.example") };
	f.row.rcpts = two;
	f.row.n_rcpts = 2;
	past(&f, &(struct store_rule){ .id = 5, .hold = true, .recipient = written[1] }, 1, true);
	assert_int_equal(f.msg.end, END_MOVE);
	assert_int_equal(f.msg.pass.n_ops, 2);
	f.row.n_rcpts = 1;
	f.row.rcpts = &rows[0];
	past(&f, &(struct store_rule){ .id = 5, .hold = true, .recipient = STR("y@xn--bcher-kva.example") }, 1, true);
	assert_int_equal(ran, 1);
	past(&f, &(struct store_rule){ .id = 5, .hold = true, .recipient = STR("@xn--bcher-kvb.example") }, 1, true);
	assert_int_equal(ran, 1);
	fixture_done(&f);
}

static void held(void **st)
{
	struct fixture f;
	char state[256];
	struct store_rule r = { .id = 7, .hold = true, .sender = STR("@example.test"), .reason = STR("abuse \"x\""), .created_us = now_us() };
	(void)st;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	past(&f, &r, 1, true);
	assert_int_equal(f.msg.pass.n_ops, 1);
	assert_int_equal(f.msg.pass.ops->kind, STORE_OP_PAUSE);
	assert_true(f.msg.pass.ops->pause_s == STORE_PAUSE_ENDLESS);
	assert_non_null(strstr(f.msg.pass.ops->state, "\"rule\":7"));
	assert_non_null(strstr(f.msg.pass.ops->state, "\"reason\":\"abuse \\\"x\\\"\""));
	assert_non_null(strstr(f.msg.json, "\"outcome\":\"pause\""));
	/* a rule that ends: so does the pause */
	r.expires_us = now_us() + 100 * US_PER_S;
	past(&f, &r, 1, true);
	assert_in_range(f.msg.pass.ops->pause_s, 95, 101);
	/* the sender's deadline neither shortens it nor returns it meanwhile */
	snprintf(state, sizeof state, "{\"deliver_by\":{\"at\":%lld,\"mode\":\"R\"},\"held\":{\"s\":40,\"released\":3}}", (long long)(now_us() / US_PER_S - 10));
	f.row.state = str_from(state);
	past(&f, &r, 1, true);
	assert_int_equal(f.msg.end, END_PAUSE);
	assert_in_range(f.msg.pass.ops->pause_s, 95, 101);
	assert_non_null(strstr(f.msg.pass.ops->state, "\"s\":40"));
	/* let past the rules there were when it was released, not past newer ones */
	snprintf(state, sizeof state, "{\"held\":{\"released\":%lld}}", (long long)(now_us() + 5 * US_PER_S));
	f.row.state = str_from(state);
	past(&f, &r, 1, true);
	assert_int_equal(ran, 1);
	r.created_us = now_us() + 10 * US_PER_S;
	past(&f, &r, 1, true);
	assert_int_equal(ran, 0);
	fixture_done(&f);
}

static void parted(void **st)
{
	static struct str rcpts[] = { STR_INIT("a@one.test"), STR_INIT("b@two.test"), STR_INIT("c@one.test") };
	struct fixture f;
	struct store_rule r = { .id = 7, .hold = true, .recipient = STR("@one.test") };
	(void)st;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	f.row.rcpts = rcpts;
	past(&f, &r, 1, true);
	assert_int_equal(ran, 0);
	assert_int_equal(f.msg.pass.n_ops, 2);
	const struct store_op *op = f.msg.pass.ops;
	assert_int_equal(op[0].kind, STORE_OP_SPLIT);
	assert_int_equal(op[0].n_keep, 1);
	assert_int_equal(op[0].keep[0], 1);
	assert_int_equal(op[0].n_clones, 1);
	assert_int_equal(op[0].clones->n, 2);
	assert_int_equal(op[0].clones->status, PEPSI_CLONE_RETRY); /* it keeps its age */
	assert_int_equal(op[0].clones->retry_s, 0);
	assert_string_equal(op[0].clones->stage, "here");
	assert_int_equal(op[1].kind, STORE_OP_MOVE);
	assert_int_equal(op[1].status, STORE_PENDING);
	assert_string_equal(f.msg.end_stage, "here");
	fixture_done(&f);
}

static void rerouted(void **st)
{
	struct fixture f;
	struct store_rule r[] = { { .id = 9, .sender = STR("@example.test"), .to_stage = STR("here") },
		{ .id = 8, .sender = STR("@example.test"), .to_stage = STR("nowhere") }, { .id = 7, .sender = STR("@example.test"), .to_stage = STR("next") },
		{ .id = 1, .hold = true, .sender = STR("@other.test") } };
	(void)st;
	fixture_init(&f, PEPSI_LOAD_METADATA, PEPSI_CAP_DELIVER);
	/* not to where it is, not to a stage that is no more */
	past(&f, r, 4, true);
	assert_int_equal(ran, 0);
	assert_int_equal(f.msg.end, END_MOVE);
	assert_string_equal(f.msg.end_stage, "next");
	assert_string_equal(f.msg.pass.ops->state, "{\"rerouted\":{\"rule\":7,\"from\":\"here\"}}");
	/* not again by the same one, nor by one that is older than the last: no circles */
	f.row.state = STR("{\"rerouted\":{\"rule\":7,\"from\":\"other\"}}");
	past(&f, r, 4, true);
	assert_int_equal(ran, 1);
	f.row.state = STR("{\"rerouted\":{\"rule\":6,\"from\":\"other\"}}");
	past(&f, r, 4, true);
	assert_int_equal(ran, 0);
	/* what is held is held first, however old the rule */
	r[3].sender = STR("@example.test");
	past(&f, r, 4, true);
	assert_int_equal(f.msg.end, END_PAUSE);
	fixture_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(means), cmocka_unit_test(folded),
		cmocka_unit_test(held),
		cmocka_unit_test(parted),
		cmocka_unit_test(rerouted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
