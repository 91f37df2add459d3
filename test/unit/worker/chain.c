/* Fusion: several hops in one pass. What each finds is what the one before left; the database hears of it once; an error is the
 * failing hop's own and costs nothing that was decided before. */
#include "fixture.h"

#include <stdio.h>

/* The stages s1, s2, … behind "here": each a module of its own with a script. */
enum { STAGES = 40 };
static struct {
	struct fixture f;
	struct pepsi_stage desc[STAGES];
	struct worker_module mod[STAGES];
	struct pepsi_conf conf[STAGES];
	struct worker_env env[STAGES];
	struct {
		script_fn fn;
	} script[STAGES], first;
	char name[STAGES][8];
	size_t n;
	uint32_t asked;
} c;

static const struct worker_env *successor(void *arg, struct pepsi_msg *msg, const char *stage)
{
	(void)arg;
	(void)msg;
	c.asked++;
	for (size_t i = 0; i < c.n; i++)
		if (!strcmp(c.env[i].stage, stage))
			return &c.env[i];
	return NULL;
}

static void chain_init(uint32_t load, uint64_t caps, const script_fn *scripts, size_t n)
{
	struct buf why = BUF_INIT(1000);
	memset(&c, 0, sizeof c);
	fixture_init(&c.f, PEPSI_LOAD_FULL, 0);
	c.f.env.next = "s1";
	c.f.env.any_stage = true;
	c.f.env.successor = successor;
	c.first.fn = scripts[0];
	c.f.env.state = &c.first;
	c.n = n - 1;
	for (size_t i = 0; i < c.n; i++) {
		c.desc[i] = c.f.desc;
		c.desc[i].load_class = load;
		c.desc[i].caps = caps;
		assert_int_equal(module_adopt(&c.mod[i], &c.desc[i], NULL, &why), 0);
		c.conf[i] = (struct pepsi_conf){ .c = c.f.c, .m = &c.mod[i] };
		c.script[i].fn = scripts[i + 1];
		c.env[i] = c.f.env;
		c.env[i].successor = NULL;
		c.env[i].mod = &c.mod[i];
		c.env[i].conf = &c.conf[i];
		c.env[i].state = &c.script[i];
		snprintf(c.name[i], sizeof c.name[i], "s%zu", i + 1);
		c.env[i].stage = c.name[i];
	}
	for (size_t i = 0; i < c.n; i++)
		c.env[i].next = i + 1 < c.n ? c.name[i + 1] : "last";
}

static const struct store_op *run(void)
{
	pass_end(&c.f.msg);
	assert_int_equal(pass_begin(&c.f.msg, &c.f.env, &c.f.row), 0);
	pass_run(&c.f.msg);
	return c.f.msg.pass.ops;
}

static void chain_done(void)
{
	fixture_done(&c.f);
}

static struct pepsi_str ps(const char *z)
{
	return (struct pepsi_str){ z, strlen(z) };
}

#define CHAIN(load, caps, ...)                                                                                           \
	do {                                                                                                               \
		const script_fn scripts_[] = { __VA_ARGS__ };                                                              \
		chain_init(load, caps, scripts_, sizeof scripts_ / sizeof *scripts_);                                      \
	} while (0)

/* --- what hops do */

static int32_t headers_and_state(const struct pepsi_host *h, struct pepsi_msg *m)
{
	assert_int_equal(h->set_headers(m, ps("Subject: y\r\n")), PEPSI_OK);
	assert_int_equal(h->merge_state(m, "{\"a\":1,\"origin\":null}"), PEPSI_OK);
	return h->advance(m);
}

static int32_t sender_and_state(const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pepsi_str s;
	assert_int_equal(h->state_get(m, "a", &s), PEPSI_OK);
	assert_int_equal(h->state_get(m, "origin", &s), PEPSI_NONE);
	assert_int_equal(h->set_mail_from(m, ps("new@example.test")), PEPSI_OK);
	assert_int_equal(h->merge_state(m, "{\"a\":null,\"b\":2}"), PEPSI_OK);
	return h->advance(m);
}

static int32_t looks(const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pepsi_str s;
	assert_int_equal(h->headers(m, &s), PEPSI_OK);
	assert_memory_equal(s.p, "Subject: y\r\n", s.n);
	assert_int_equal(h->mail_from(m).n, strlen("new@example.test"));
	assert_int_equal(h->state_get(m, "a", &s), PEPSI_NONE);
	assert_int_equal(h->state_get(m, "b", &s), PEPSI_OK);
	return h->advance(m);
}

static int32_t plain(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->advance(m);
}

static int32_t finishes(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->finish(m);
}

static void one_update_for_all(void **st)
{
	(void)st;
	CHAIN(PEPSI_LOAD_FULL, 0, headers_and_state, sender_and_state, looks);
	const struct store_op *op = run();
	assert_int_equal(c.f.msg.pass.n_ops, 1);
	assert_int_equal(op->kind, STORE_OP_MOVE);
	assert_string_equal(op->from_stage, "here");
	assert_string_equal(op->stage, "last");
	assert_int_equal(op->touched, STORE_SET_HEADERS | STORE_SET_MAIL_FROM | STORE_STATE_MERGE);
	assert_memory_equal(op->headers.p, "Subject: y\r\n", op->headers.n);
	assert_string_equal(op->state, "{\"a\":null,\"origin\":null,\"b\":2}");
	const char *json = c.f.msg.json;
	unsigned us1, us2;
	char rest[8];
	assert_int_equal(sscanf(json, "{\"outcome\":\"move\",\"to\":\"last\",\"fused\":[{\"stage\":\"s1\",\"us\":%u},{\"stage\":\"s2\",\"us\":%u}%4s", &us1,
	    &us2, rest), 3);
	assert_string_equal(rest, "]}");
	chain_done();
}

static void one_delete_for_all(void **st)
{
	(void)st;
	CHAIN(PEPSI_LOAD_FULL, PEPSI_CAP_DELIVER, headers_and_state, sender_and_state, looks, plain, finishes);
	const struct store_op *op = run();
	assert_int_equal(c.f.msg.pass.n_ops, 1);
	assert_int_equal(op->kind, STORE_OP_FINISH);
	assert_string_equal(op->from_stage, "here");
	assert_string_equal(op->outcome, "delivered");
	assert_int_equal(c.f.msg.n_hops, 4);
	chain_done();
}

/* --- errors */

static int32_t retries(const struct pepsi_host *h, struct pepsi_msg *m)
{
	/* what it asked for is forgotten, what the hops before decided is not */
	assert_int_equal(h->set_mail_from(m, ps("")), PEPSI_OK);
	assert_int_equal(h->set_headers(m, ps("Subject: z\r\n")), PEPSI_OK);
	assert_int_equal(h->merge_state(m, "{\"b\":9}"), PEPSI_OK);
	h->log(m, PEPSI_LOG_WARN, "busy");
	return PEPSI_RETRY;
}

static int32_t permanent(const struct pepsi_host *h, struct pepsi_msg *m)
{
	h->log(m, PEPSI_LOG_WARN, "never");
	return PEPSI_PERMANENT;
}

static int32_t undecided(const struct pepsi_host *h, struct pepsi_msg *m)
{
	(void)h;
	(void)m;
	return PEPSI_OK;
}

static int32_t pauses(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return h->pause(m, "{\"attempts\":3}", 90);
}

static int32_t fails(const struct pepsi_host *h, struct pepsi_msg *m)
{
	return (h->fail)(m, "{\"last_error\":\"odd\"}");
}

static void errors_are_the_hops_own(void **st)
{
	(void)st;
	static const struct {
		script_fn fn;
		enum store_status status;
		const char *state, *json;
	} cases[] = {
		{ retries, STORE_PAUSED, "{\"a\":1,\"origin\":null,\"attempts\":1,\"last_error\":\"busy\"}", "{\"outcome\":\"pause\"" },
		{ permanent, STORE_FAILED, "{\"a\":1,\"origin\":null,\"last_error\":\"never\"}", "{\"outcome\":\"fail\"" },
		{ undecided, STORE_FAILED, NULL, "{\"outcome\":\"fail\"" },
		{ pauses, STORE_PAUSED, "{\"a\":1,\"origin\":null,\"attempts\":3}", "{\"outcome\":\"pause\"" },
		{ fails, STORE_FAILED, "{\"a\":1,\"origin\":null,\"last_error\":\"odd\"}", "{\"outcome\":\"fail\"" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		CHAIN(PEPSI_LOAD_FULL, 0, headers_and_state, cases[i].fn);
		const struct store_op *op = run();
		assert_int_equal(c.f.msg.pass.n_ops, 1);
		assert_int_equal(op->kind, STORE_OP_MOVE);
		assert_string_equal(op->from_stage, "here");
		assert_string_equal(op->stage, "s1");
		assert_int_equal(op->status, cases[i].status);
		assert_int_equal(op->touched, STORE_SET_HEADERS | STORE_STATE_MERGE);
		assert_memory_equal(op->headers.p, "Subject: y\r\n", op->headers.n);
		if (cases[i].state)
			assert_string_equal(op->state, cases[i].state);
		else
			assert_non_null(strstr(op->state, "broke the stage ABI: process() returned PEPSI_OK without a terminal"));
		assert_memory_equal(c.f.msg.json, cases[i].json, strlen(cases[i].json));
		assert_non_null(strstr(c.f.msg.json, "\"fused\":[{\"stage\":\"s1\""));
		chain_done();
	}
}

static void the_database_refuses(void **st)
{
	(void)st;
	CHAIN(PEPSI_LOAD_FULL, 0, headers_and_state, sender_and_state);
	run();
	pass_refused(&c.f.msg, "no such thing");
	const struct store_op *op = c.f.msg.pass.ops;
	/* nobody knows whose change it was: the row fails where it is, as it is */
	assert_int_equal(c.f.msg.pass.n_ops, 1);
	assert_string_equal(op->stage, "here");
	assert_string_equal(op->from_stage, "here");
	assert_int_equal(op->touched, STORE_STATE_MERGE);
	assert_string_equal(op->state, "{\"last_error\":\"the database refused what these stages decided: no such thing\"}");
	chain_done();
}

/* MAX_LIFETIME is that of the hop, and so is where its bounces go. */
static void lifetime_of_the_hop(void **st)
{
	(void)st;
	CHAIN(PEPSI_LOAD_FULL, 0, headers_and_state, retries);
	c.env[0].lifetime_s = 1;
	c.env[0].bounce = "other";
	const struct store_op *op = run();
	assert_string_equal(op->stage, "other");
	assert_int_equal(op->status, STORE_PENDING);
	assert_non_null(strstr(op->state, "\"bounce\":{\"kind\":\"permanent\",\"diagnostic\":\"busy\""));
	assert_true(op->touched & STORE_SET_HEADERS);
	chain_done();
}

/* --- rules hold per hop */

static int32_t reads_headers(const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pepsi_str s;
	assert_int_equal(h->headers(m, &s), PEPSI_MISUSE);
	return h->advance(m);
}

static void a_hop_reads_what_it_declared(void **st)
{
	(void)st;
	CHAIN(PEPSI_LOAD_METADATA, 0, headers_and_state, reads_headers);
	const struct store_op *op = run();
	assert_int_equal(op->status, STORE_FAILED);
	assert_string_equal(op->stage, "s1");
	assert_non_null(strstr(op->state, "declare PEPSI_LOAD_HEADERS"));
	chain_done();
}

static int32_t splits(const struct pepsi_host *h, struct pepsi_msg *m)
{
	uint32_t i = 1;
	assert_int_equal(h->split_off_recipients(m, &i, 1, "other"), PEPSI_OK);
	return h->advance(m);
}

static int32_t two_recipients(const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pepsi_str r[] = { ps("x@example.test"), ps("y@example.test") };
	assert_int_equal(h->set_rcpt_to(m, r, 2), PEPSI_OK);
	return h->advance(m);
}

/* Content of hops before a fan-out is no misuse: the row arrives with it first, in the same commit. */
static void fan_out_after_foreign_content(void **st)
{
	(void)st;
	CHAIN(PEPSI_LOAD_FULL, 0, two_recipients, splits, plain);
	const struct store_op *op = run();
	assert_int_equal(c.f.msg.pass.n_ops, 3);
	assert_int_equal(op[0].kind, STORE_OP_MOVE);
	assert_int_equal(op[0].status, STORE_RUNNING);
	assert_string_equal(op[0].from_stage, "here");
	assert_string_equal(op[0].stage, "s1");
	assert_int_equal(op[0].touched, STORE_SET_RCPT_TO);
	assert_int_equal(op[0].n_rcpts, 2);
	assert_int_equal(op[1].kind, STORE_OP_SPLIT);
	assert_string_equal(op[1].from_stage, "s1");
	assert_int_equal(op[1].n_keep, 1);
	assert_int_equal(op[2].kind, STORE_OP_MOVE);
	assert_string_equal(op[2].from_stage, "s1");
	assert_string_equal(op[2].stage, "s2"); /* and the chain ends there */
	assert_int_equal(op[2].touched, 0);
	assert_int_equal(c.f.msg.n_hops, 1);
	chain_done();
	/* nothing changed before: nothing to arrive with */
	CHAIN(PEPSI_LOAD_FULL, 0, plain, splits);
	op = run();
	assert_int_equal(c.f.msg.pass.n_ops, 2);
	assert_int_equal(op[0].kind, STORE_OP_SPLIT);
	assert_string_equal(op[0].from_stage, "here");
	chain_done();
	/* the first hop's fan-out ends the chain at once */
	CHAIN(PEPSI_LOAD_FULL, 0, splits, plain);
	run();
	assert_int_equal(c.f.msg.n_hops, 0);
	assert_int_equal(c.asked, 0);
	chain_done();
}

static int32_t keeps_one(const struct pepsi_host *h, struct pepsi_msg *m)
{
	uint32_t keep = 1, rest = 0;
	struct pepsi_clone cl = { .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = "other", .indices = &rest, .n = 1 };
	return h->pause_with(m, "{\"attempts\":1}", 60, &keep, 1, &cl, 1);
}

static void pause_with_in_a_later_hop(void **st)
{
	(void)st;
	CHAIN(PEPSI_LOAD_FULL, 0, two_recipients, keeps_one);
	const struct store_op *op = run();
	assert_int_equal(c.f.msg.pass.n_ops, 2);
	assert_int_equal(op[0].status, STORE_RUNNING);
	assert_string_equal(op[0].stage, "s1");
	assert_int_equal(op[1].kind, STORE_OP_PAUSE);
	assert_string_equal(op[1].from_stage, "s1");
	assert_int_equal(op[1].n_keep, 1);
	assert_int_equal(op[1].n_clones, 1);
	chain_done();
}

/* --- side messages, bounces, retry counters */

static int32_t injects(const struct pepsi_host *h, struct pepsi_msg *m)
{
	const char *to[] = { "side@example.test" };
	assert_int_equal(h->enqueue_new(m, "other", ps(""), to, 1, ps("Subject: s\r\n"), ps("x\r\n"), NULL), PEPSI_OK);
	return h->advance(m);
}

static void side_messages_survive_an_error(void **st)
{
	(void)st;
	CHAIN(PEPSI_LOAD_FULL, 0, injects, permanent);
	const struct store_op *op = run();
	assert_int_equal(c.f.msg.pass.n_ops, 2);
	assert_int_equal(op[0].status, STORE_FAILED);
	assert_string_equal(op[0].stage, "s1");
	assert_int_equal(op[1].kind, STORE_OP_INJECT);
	assert_string_equal(op[1].from_stage, "here");
	chain_done();
	CHAIN(PEPSI_LOAD_FULL, 0, injects, retries);
	op = run();
	assert_int_equal(c.f.msg.pass.n_ops, 2);
	assert_int_equal(op[0].kind, STORE_OP_INJECT);
	assert_int_equal(op[1].status, STORE_PAUSED);
	chain_done();
	CHAIN(PEPSI_LOAD_FULL, 0, injects, injects, finishes);
	op = run();
	assert_int_equal(c.f.msg.pass.n_ops, 3);
	assert_int_equal(op[2].kind, STORE_OP_FINISH);
	chain_done();
}

static int32_t becomes_a_report(const struct pepsi_host *h, struct pepsi_msg *m)
{
	assert_int_equal(h->set_mail_from(m, ps("")), PEPSI_OK);
	assert_int_equal(h->clear_state(m), PEPSI_OK);
	assert_int_equal(h->merge_state(m, "{\"report\":1}"), PEPSI_OK);
	return h->advance(m);
}

static int32_t checks_report(const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pepsi_str s;
	assert_int_equal(h->state_get(m, "origin", &s), PEPSI_NONE);
	assert_int_equal(h->state_get(m, "report", &s), PEPSI_OK);
	assert_true(h->received_at(m) > 0); /* a new message: its life begins now */
	assert_int_equal(h->merge_state(m, "{\"more\":true}"), PEPSI_OK);
	return h->advance(m);
}

static void a_report_goes_on(void **st)
{
	(void)st;
	CHAIN(PEPSI_LOAD_FULL, 0, becomes_a_report, checks_report);
	c.f.mod.stage.caps = PEPSI_CAP_BOUNCE;
	const struct store_op *op = run();
	assert_int_equal(c.f.msg.pass.n_ops, 1);
	assert_int_equal(op->touched, STORE_SET_MAIL_FROM | STORE_STATE_REPLACE);
	assert_string_equal(op->state, "{\"report\":1,\"more\":true}");
	chain_done();
	/* it ends in the same pass: the books hear of the old message and of the new one */
	CHAIN(PEPSI_LOAD_FULL, PEPSI_CAP_DELIVER, becomes_a_report, finishes);
	c.f.mod.stage.caps = PEPSI_CAP_BOUNCE;
	op = run();
	assert_int_equal(c.f.msg.pass.n_ops, 2);
	assert_int_equal(op[0].status, STORE_RUNNING);
	assert_int_equal(op[0].touched, STORE_STATE_REPLACE);
	assert_string_equal(op[0].state, "{}");
	assert_int_equal(op[1].kind, STORE_OP_FINISH);
	assert_string_equal(op[1].from_stage, "s1");
	chain_done();
	/* and an error behind it is the report's */
	CHAIN(PEPSI_LOAD_FULL, 0, becomes_a_report, permanent);
	c.f.mod.stage.caps = PEPSI_CAP_BOUNCE;
	op = run();
	assert_int_equal(op->touched, STORE_SET_MAIL_FROM | STORE_STATE_REPLACE);
	assert_string_equal(op->state, "{\"report\":1,\"last_error\":\"never\"}");
	chain_done();
}

static int32_t sees_no_attempts(const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pepsi_str s;
	assert_int_equal(h->state_get(m, "attempts", &s), PEPSI_NONE);
	return h->advance(m);
}

static void retry_counters_stay_behind(void **st)
{
	(void)st;
	CHAIN(PEPSI_LOAD_FULL, 0, plain, sees_no_attempts);
	c.f.row.state = STR("{\"attempts\":4,\"last_error\":\"x\"}");
	const struct store_op *op = run();
	assert_string_equal(op->state, "{\"attempts\":null,\"last_error\":null}");
	chain_done();
}

static void chains_end(void **st)
{
	(void)st;
	script_fn scripts[STAGES];
	for (size_t i = 0; i < STAGES; i++)
		scripts[i] = plain;
	chain_init(PEPSI_LOAD_FULL, 0, scripts, STAGES);
	const struct store_op *op = run();
	assert_int_equal(c.f.msg.n_hops, PASS_HOPS_MAX - 1);
	assert_string_equal(op->stage, "s32");
	assert_true(strlen(c.f.msg.json) < WIRE_LINE_MAX - 3);
	assert_non_null(strstr(c.f.msg.json, "{\"stage\":\"s31\""));
	chain_done();
}

int main(void)
{
	log_setup(LOG_LV_ERROR, "test");
	const struct CMUnitTest tests[] = { cmocka_unit_test(one_update_for_all), cmocka_unit_test(one_delete_for_all),
		cmocka_unit_test(errors_are_the_hops_own), cmocka_unit_test(the_database_refuses), cmocka_unit_test(lifetime_of_the_hop),
		cmocka_unit_test(a_hop_reads_what_it_declared), cmocka_unit_test(fan_out_after_foreign_content),
		cmocka_unit_test(pause_with_in_a_later_hop), cmocka_unit_test(side_messages_survive_an_error), cmocka_unit_test(a_report_goes_on),
		cmocka_unit_test(retry_counters_stay_behind), cmocka_unit_test(chains_end) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
