/* What becomes of a message: every mixture of results, the backoff, the verdicts. */
#include "base/log.h"
#include "fake_host.h"
#include "relay.h"

void test_session(void **state);
void test_session_kept(void **state);
void test_session_stale(void **state);
void test_session_refused(void **state);
void test_session_rooms(void **state);
void test_session_tls(void **state);
void test_session_silent(void **state);
void test_smarthost_config(void **state);
void test_lmtp_config(void **state);
void test_hosts(void **state);
void test_rests(void **state);
void test_token_files(void **state);

static const struct relay_policy policy = { .retry_min = 60, .retry_max = 3600, .stage = "out", .hop = "mx:25",
	.remote_mta = "mx" };

#define OK { .outcome = SMTP_OUT_OK, .phase = SMTP_PHASE_DOT, .code = 250, .status = "2.0.0", .text = STR_INIT("queued") }
#define GREY { .outcome = SMTP_OUT_TRANSIENT, .phase = SMTP_PHASE_RCPT, .code = 450, .status = "4.2.0", .text = STR_INIT("later") }
#define WHO { .outcome = SMTP_OUT_PERMANENT, .phase = SMTP_PHASE_RCPT, .code = 550, .status = "5.1.1", .text = STR_INIT("who?") }
#define LOST { .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_CONNECT, .status = "4.4.1", .text = STR_INIT("refused") }

#define MAYBE { .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_DOT, .status = "4.4.2", .text = STR_INIT("gone"), .maybe = true }
#define MAYBE_STATE(n) "\"maybe_delivered\":{\"count\":" n ",\"at\":1796038764,\"hop\":\"mx:25\"}"

#define WHO_JSON(a)                                                                                                    \
	"{\"failed_recipient\":\"" a "\",\"diagnostic\":\"550 5.1.1 who?\",\"remote_mta\":\"mx\",\"smtp_code\":550,"        \
	"\"enhanced_status\":\"5.1.1\",\"phase\":\"rcpt\",\"reply_text\":\"who?\"}"
#define LATE_JSON(a)                                                                                                   \
	"{\"failed_recipient\":\"" a "\",\"diagnostic\":\"delivery time expired; last attempt: 450 4.2.0 later\","          \
	"\"remote_mta\":\"mx\",\"smtp_code\":450,\"enhanced_status\":\"4.4.7\",\"phase\":\"rcpt\",\"reply_text\":\"later\"}"
#define WHO_KEYS                                                                                                       \
	"\"diagnostic\":\"550 5.1.1 who?\",\"remote_mta\":\"mx\",\"smtp_code\":550,"                                        \
	"\"enhanced_status\":\"5.1.1\",\"phase\":\"rcpt\",\"reply_text\":\"who?\",\"kind\":\"permanent\""
#define WHO_STATE(a)                                                                                                   \
	"{\"bounce\":{\"failed_recipient\":\"" a "\"," WHO_KEYS ",\"rcpts\":[" WHO_JSON(a) "]},"                             \
	"\"last_error\":\"mx:25: rcpt: 550 5.1.1 who?\"}"
#define WAIT_KEYS(n, a)                                                                                                 \
	"\"attempts\":" n ",\"last_error\":\"mx:25: rcpt: 450 4.2.0 later\",\"last_reply\":{\"failed_recipient\":\"" a "\","    \
	"\"remote_mta\":\"mx\",\"smtp_code\":450,\"enhanced_status\":\"4.2.0\",\"phase\":\"rcpt\",\"reply_text\":\"later\"}"
#define WAIT_FOR(n, a) "{" WAIT_KEYS(n, a) "}"
#define WAIT(n) WAIT_FOR(n, "a@b")

struct outcome_case {
	const char *name;
	const char *rcpts;
	struct smtp_result results[3];
	const char *calls; /* %S: any number of seconds */
	const char *state, *next, *bounce;
	int64_t life;
	const char *notify; /* of every recipient */
	int64_t age, delay;
};

static const struct outcome_case cases[] = {
	{ "all well", "a@b c@d", { OK, OK }, "complete_success [all] dsn_here 1\n", NULL, NULL, "bounce", 100, NULL, 0, 0 },
	{ "unknown", "a@b", { WHO }, "reroute bounce " WHO_STATE("a@b") "\n", NULL, NULL, "bounce", 100, NULL, 0, 0 },
	{ "unknown, nowhere to bounce", "a@b", { WHO }, "fail " WHO_STATE("a@b") "\n", NULL, NULL, NULL, 100, NULL, 0, 0 },
	{ "two unknown", "a@b c@d", { WHO, WHO },
	    "reroute bounce {\"bounce\":{\"kind\":\"permanent\",\"rcpts\":[" WHO_JSON("a@b") "," WHO_JSON("c@d") "]},"
	    "\"last_error\":\"mx:25: rcpt: 550 5.1.1 who?\"}\n", NULL, NULL, "bounce", 100, NULL, 0, 0 },
	{ "one of two", "a@b c@d", { OK, WHO },
	    "fan_out keep [0]\n  clone bounce status 0 retry 0 [1] " WHO_STATE("c@d") "\ncomplete_success [all] dsn_here 1\n",
	    NULL, NULL, "bounce", 100, NULL, 0, 0 },
	{ "one of two, nowhere to bounce", "a@b c@d", { OK, WHO },
	    "fan_out keep [0]\n  clone out status 2 retry 0 [1] " WHO_STATE("c@d") "\ncomplete_success [all] dsn_here 1\n",
	    NULL, NULL, NULL, 100, NULL, 0, 0 },
	{ "later", "a@b", { GREY }, "pause %S " WAIT("1") "\n", NULL, NULL, "bounce", 100000, NULL, 0, 0 },
	{ "later again", "a@b", { GREY }, "pause %S " WAIT("8") "\n", "{\"attempts\":7}", NULL, "bounce", 100000, NULL, 0, 0 },
	{ "later, hostile count", "a@b", { GREY }, "pause %S " WAIT("1") "\n", "{\"attempts\":-7}", NULL, "bounce", 100000, NULL,
	    0, 0 },
	{ "time is over", "a@b", { GREY },
	    "reroute bounce {\"bounce\":{\"failed_recipient\":\"a@b\",\"diagnostic\":\"delivery time expired; last attempt: "
	    "450 4.2.0 later\",\"remote_mta\":\"mx\",\"smtp_code\":450,\"enhanced_status\":\"4.4.7\",\"phase\":\"rcpt\","
	    "\"reply_text\":\"later\",\"kind\":\"permanent\",\"rcpts\":[" LATE_JSON("a@b") "]},"
	    "\"last_error\":\"mx:25: rcpt: 450 4.2.0 later\"}\n", NULL, NULL, "bounce", 0, NULL, 0, 0 },
	{ "time is over, one unknown: each with its own reason", "a@b c@d e@f", { GREY, WHO, OK },
	    "fan_out keep [2]\n  clone bounce status 0 retry 0 [0 1] {\"bounce\":{\"kind\":\"permanent\",\"rcpts\":["
	    LATE_JSON("a@b") "," WHO_JSON("c@d") "]},\"last_error\":\"mx:25: rcpt: 450 4.2.0 later\"}\n"
	    "complete_success [all] dsn_here 1\n", NULL, NULL, "bounce", -5, NULL, 0, 0 },
	{ "one later, one delivered", "a@b c@d", { OK, GREY }, "pause_with %S [1] " WAIT_FOR("1", "c@d") "\n", NULL, NULL, "bounce", 9999,
	    NULL, 0, 0 },
	{ "later, unknown, delivered", "a@b c@d e@f", { GREY, WHO, OK },
	    "pause_with %S [0] " WAIT("1") "\n  clone bounce status 0 retry 0 [1] " WHO_STATE("c@d") "\n", NULL, NULL, "bounce",
	    9999, NULL, 0, 0 },
	{ "later and delivered, which go on", "a@b c@d", { GREY, OK },
	    "fan_out keep [1]\n  clone out status 1 retry %S [0] " WAIT("1") "\ncomplete_success [all] dsn_here 1\n", NULL,
	    "archive", "bounce", 9999, NULL, 0, 0 },
	{ "later and delivered, whose sender wants to know", "a@b c@d", { GREY, OK },
	    "fan_out keep [1]\n  clone out status 1 retry %S [0] " WAIT("1") "\ncomplete_success [all] dsn_here 1\n", NULL,
	    NULL, "bounce", 9999, "SUCCESS,FAILURE", 0, 0 },
	{ "no connection", "a@b c@d", { LOST, LOST },
	    "pause %S {\"attempts\":1,\"last_error\":\"mx:25: refused\"}\n", NULL, NULL, "bounce", 9999, NULL, 0, 0 },
	{ "maybe delivered", "a@b c@d", { MAYBE, OK },
	    "pause_with %S [0] {\"attempts\":1,\"last_error\":\"mx:25: dot: gone\"," MAYBE_STATE("1") "}\n", NULL, NULL, "bounce", 9999, NULL, 0, 0 },
	{ "maybe delivered, again", "a@b", { MAYBE },
	    "pause %S {\"attempts\":1,\"last_error\":\"mx:25: dot: gone\"," MAYBE_STATE("3") "}\n", "{\"maybe_delivered\":{\"count\":2}}", NULL,
	    "bounce", 9999, NULL, 0, 0 },
	{ "maybe delivered, and time is over", "a@b", { MAYBE },
	    "reroute bounce {\"bounce\":{\"failed_recipient\":\"a@b\",\"diagnostic\":\"delivery time expired; last attempt: gone\",\"enhanced_status\":\"4.4.7\","
	    "\"phase\":\"dot\",\"kind\":\"permanent\",\"rcpts\":[{\"failed_recipient\":\"a@b\",\"diagnostic\":\"delivery time expired; last attempt: gone\","
	    "\"enhanced_status\":\"4.4.7\",\"phase\":\"dot\"}]},\"last_error\":\"mx:25: dot: gone\"," MAYBE_STATE("1") "}\n", NULL, NULL, "bounce", 0, NULL, 0, 0 },
	{ "long wait, told once", "a@b", { LOST },
	    "pause_with %S [all] {\"attempts\":1,\"last_error\":\"mx:25: refused\",\"delay_sent\":true}\n"
	    "  clone bounce status 0 retry 0 [0] {\"bounce\":{\"failed_recipient\":\"a@b\",\"diagnostic\":\"refused\","
	    "\"enhanced_status\":\"4.4.1\",\"phase\":\"connect\",\"kind\":\"delay\",\"rcpts\":[{\"failed_recipient\":\"a@b\","
	    "\"diagnostic\":\"refused\",\"enhanced_status\":\"4.4.1\",\"phase\":\"connect\"}],\"retry_until\":%S},"
	    "\"last_error\":\"mx:25: refused\"}\n", NULL, NULL, "bounce", 9999, NULL, 3601, 3600 },
	{ "long wait, and others are through: told once, too", "a@b c@d", { OK, GREY },
	    "fan_out keep [0]\n  clone bounce status 0 retry 0 [1] {\"bounce\":{\"failed_recipient\":\"c@d\",\"diagnostic\":\"450 4.2.0 later\","
	    "\"remote_mta\":\"mx\",\"smtp_code\":450,\"enhanced_status\":\"4.2.0\",\"phase\":\"rcpt\",\"reply_text\":\"later\",\"notify\":\"SUCCESS,DELAY\","
	    "\"kind\":\"delay\",\"rcpts\":[{\"failed_recipient\":\"c@d\",\"diagnostic\":\"450 4.2.0 later\",\"remote_mta\":\"mx\",\"smtp_code\":450,"
	    "\"enhanced_status\":\"4.2.0\",\"phase\":\"rcpt\",\"reply_text\":\"later\",\"notify\":\"SUCCESS,DELAY\"}],\"retry_until\":%S},"
	    "\"last_error\":\"mx:25: rcpt: 450 4.2.0 later\"}\n"
	    "  clone out status 1 retry %S [1] {" WAIT_KEYS("1", "c@d") ",\"delay_sent\":true}\ncomplete_success [all] dsn_here 1\n", NULL,
	    NULL, "bounce", 9999, "SUCCESS,DELAY", 3601, 3600 },
	{ "no reply this time: the one before is forgotten", "a@b", { LOST },
	    "pause %S {\"attempts\":1,\"last_error\":\"mx:25: refused\",\"last_reply\":null}\n", "{\"last_reply\":{\"smtp_code\":450}}", NULL, "bounce", 9999, NULL, 0, 0 },
	{ "long wait, told before", "a@b", { LOST },
	    "pause %S {\"attempts\":1,\"last_error\":\"mx:25: refused\"}\n", "{\"delay_sent\":true}", NULL, "bounce",
	    9999, NULL, 3601, 3600 },
	{ "long wait, not to be told", "a@b", { LOST },
	    "pause %S {\"attempts\":1,\"last_error\":\"mx:25: refused\"}\n", NULL, NULL, "bounce", 9999, "FAILURE",
	    3601, 3600 },
};

/* Does the text fit, %S standing for a number? */
static bool fits(const char *want, const char *got)
{
	for (; *want; want++) {
		if (want[0] == '%' && want[1] == 'S') {
			want++;
			if (*got < '0' || *got > '9')
				return false;
			while (*got >= '0' && *got <= '9')
				got++;
		} else if (*want != *got++) {
			return false;
		}
	}
	return !*got;
}

static void test_outcomes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct outcome_case *c = &cases[i];
		struct pepsi_msg msg = { .id = 17, .rcpts = c->rcpts, .state = c->state, .next_stage = c->next, .mail_from = "s@t",
			.bounce_stage = c->bounce, .lifetime_left = c->life, .calls = BUF_INIT(1 << 16), .log = BUF_INIT(1 << 16),
			.received_at = fake_now_us - c->age * 1000000 };
		struct smtp_client_rcpt rcpts[3] = { { .result = c->results[0] }, { .result = c->results[1] },
			{ .result = c->results[2] } };
		struct smtp_client_msg m = { .mail_from = STR("s@t"), .rcpts = rcpts, .n_rcpts = fake_host.n_rcpt(&msg) };
		struct relay_policy p = policy;
		p.delay_warning = c->delay;
		for (size_t k = 0; k < m.n_rcpts; k++) {
			struct pepsi_str a = fake_host.rcpt(&msg, k);
			rcpts[k].address = str_n(a.p, a.n);
			rcpts[k].notify = str_from(c->notify);
		}
		char want[4096];
		snprintf(want, sizeof want, "%s", c->calls);
		assert_int_equal(relay_decide(&p, &fake_host, &msg, &m, true, true), PEPSI_OK);
		/* NOTIFY shows up in the reports of the cases that have one; those are compared by their calls alone */
		if (!fits(want, buf_z(&msg.calls)))
			print_error("%s:\n%swanted\n%s", c->name, buf_z(&msg.calls), want);
		assert_true(fits(want, buf_z(&msg.calls)));
		fake_done(&msg);
	}
}

/* What a sender asked for travels into the report; hostile reply text stays JSON. */
static void test_report_fields(void **state)
{
	struct pepsi_msg msg = { .id = 1, .rcpts = "a@b", .mail_from = "s@t", .bounce_stage = "bounce", .lifetime_left = 5,
		.calls = BUF_INIT(1 << 16), .log = BUF_INIT(1 << 16) };
	struct smtp_client_rcpt r = { .address = STR("a@b"), .notify = STR("FAILURE"), .orcpt = STR("rfc822;x@y"),
		.result = { .outcome = SMTP_OUT_PERMANENT, .phase = SMTP_PHASE_DOT, .code = 554, .text = STR("\"}\\ \xc3\xa9") } };
	struct smtp_client_msg m = { .rcpts = &r, .n_rcpts = 1, .envid = STR("e+3D"), .ret = STR("HDRS") };
	(void)state;
	assert_int_equal(relay_decide(&policy, &fake_host, &msg, &m, false, true), PEPSI_OK);
	assert_non_null(strstr(msg.calls.p, "\"notify\":\"FAILURE\",\"orcpt\":\"rfc822;x@y\""));
	assert_non_null(strstr(msg.calls.p, "\"envid\":\"e+3D\",\"ret\":\"HDRS\""));
	assert_non_null(strstr(msg.calls.p, "\"reply_text\":\"\\\"}\\\\ \xc3\xa9\""));
	fake_done(&msg);
}

static void test_backoff(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 1000; seed++)
		for (uint64_t n = 0; n < 70; n++) {
			int64_t base = n >= 6 ? 3600 : 60 << n;
			uint32_t s = relay_backoff(&policy, n, 1000000, seed);
			assert_in_range(s, base - base / 4, base + base / 4);
		}
	assert_int_equal(relay_backoff(&policy, 3, 7, 1), 7);
	assert_true(relay_backoff(&policy, UINT64_MAX, 0, 1) <= 4500);
	struct relay_policy zero = { 0 };
	assert_int_equal(relay_backoff(&zero, 0, 100, 9), 1);
	bool differs = false;
	for (uint64_t seed = 1; seed < 20; seed++)
		differs |= relay_backoff(&policy, 5, 100000, seed) != relay_backoff(&policy, 5, 100000, 0);
	assert_true(differs);
}

static void test_verdicts(void **state)
{
	static const struct {
		enum smtp_outcome o;
		enum smtp_phase p;
		unsigned code;
		enum relay_verdict v;
	} v[] = {
		{ SMTP_OUT_OK, SMTP_PHASE_DOT, 250, RELAY_OK },
		{ SMTP_OUT_PERMANENT, SMTP_PHASE_BANNER, 554, RELAY_RETRY },
		{ SMTP_OUT_PERMANENT, SMTP_PHASE_EHLO, 550, RELAY_RETRY },
		{ SMTP_OUT_PERMANENT, SMTP_PHASE_STARTTLS, 501, RELAY_RETRY },
		{ SMTP_OUT_PERMANENT, SMTP_PHASE_MAIL, 530, RELAY_RETRY },
		{ SMTP_OUT_PERMANENT, SMTP_PHASE_MAIL, 550, RELAY_BOUNCE },
		{ SMTP_OUT_PERMANENT, SMTP_PHASE_MAIL, 0, RELAY_BOUNCE },
		{ SMTP_OUT_PERMANENT, SMTP_PHASE_DOT, 554, RELAY_BOUNCE },
		{ SMTP_OUT_TRANSIENT, SMTP_PHASE_DOT, 451, RELAY_RETRY },
		{ SMTP_OUT_LOST, SMTP_PHASE_DOT, 0, RELAY_RETRY },
		{ SMTP_OUT_PROTOCOL, SMTP_PHASE_DATA, 0, RELAY_RETRY },
	};
	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++)
		assert_int_equal(relay_judge(&(struct smtp_result){ .outcome = v[i].o, .phase = v[i].p, .code = v[i].code }), v[i].v);
}

/* Memory has run out behind the delivery: whoever has the message does not get it again. */
static void test_bare(void **state)
{
	static const struct {
		const char *next;
		struct smtp_result results[3];
		const char *calls; /* how they begin */
	} bare[] = {
		{ NULL, { OK, OK, OK }, "complete_success [all] dsn_here 1\n" },
		{ NULL, { GREY, WHO, LOST }, "pause " },
		{ NULL, { OK, GREY, WHO }, "pause_with" },
		{ "next", { GREY, OK, WHO }, "fan_out keep [1]\n  clone out status 1 retry" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof bare / sizeof *bare; i++) {
		struct pepsi_msg msg = { .id = 1, .rcpts = "a@b c@d e@f", .mail_from = "s@t", .next_stage = bare[i].next, .lifetime_left = 5000,
			.calls = BUF_INIT(1 << 16), .log = BUF_INIT(1 << 16) };
		struct smtp_client_rcpt rcpts[3] = { { .result = bare[i].results[0] }, { .result = bare[i].results[1] }, { .result = bare[i].results[2] } };
		struct smtp_client_msg m = { .mail_from = STR("s@t"), .rcpts = rcpts, .n_rcpts = 3 };
		uint32_t room[3 * RELAY_ROOM];
		assert_int_equal(relay_decide_bare(&policy, &fake_host, &msg, &m, true, room), PEPSI_OK);
		if (!str_starts(buf_str(&msg.calls), str_from(bare[i].calls)))
			fail_msg("%s", buf_z(&msg.calls));
		if (i == 2)
			assert_non_null(strstr(msg.calls.p, "[1 2]"));
		if (i == 3)
			assert_non_null(strstr(msg.calls.p, "[0 2] -\ncomplete_success"));
		fake_done(&msg);
	}
}

/* What is given back comes again before its lifetime is over. */
static void test_given_back(void **state)
{
	struct pepsi_msg msg = { .id = 1, .rcpts = "a@b", .mail_from = "s@t", .lifetime_left = 40, .calls = BUF_INIT(1 << 16), .log = BUF_INIT(1 << 16) };
	struct smtp_client_rcpt r = { .address = STR("a@b"), .result = LOST };
	struct smtp_client_msg m = { .mail_from = STR("s@t"), .rcpts = &r, .n_rcpts = 1 };
	struct relay_policy p = policy;
	uint32_t room[RELAY_ROOM];
	(void)state;
	p.wait_s = 900;
	p.room = room;
	assert_int_equal(relay_decide(&p, &fake_host, &msg, &m, true, false), PEPSI_OK);
	assert_non_null(strstr(msg.calls.p, "pause 40 "));
	assert_non_null(strstr(msg.calls.p, "\"attempts\":0"));
	fake_done(&msg);
}

/* Who chooses an address writes no words into a log line. */
static void test_shown(void **state)
{
	(void)state;
	assert_string_equal(log_address(STR("x@example.org")), "<x@example.org>");
	assert_string_equal(log_address(STR("gr\xc3\xbc\xc3\x9f" "e@example.org")), "<gr\xc3\xbc\xc3\x9f" "e@example.org>");
	assert_string_equal(log_address(STR("\"a> status=2.0.0 <b\"@example.org")), "\"\\\"a> status=2.0.0 <b\\\"@example.org\"");
	assert_string_equal(log_address(STR("a\xe2\x80\xae@example.org")), "\"a\\xe2\\x80\\xae@example.org\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_outcomes),
		cmocka_unit_test(test_report_fields),
		cmocka_unit_test(test_backoff),
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_bare),
		cmocka_unit_test(test_given_back),
		cmocka_unit_test(test_shown),
		cmocka_unit_test(test_smarthost_config),
		cmocka_unit_test(test_lmtp_config),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_rests),
		cmocka_unit_test(test_token_files),
		cmocka_unit_test(test_session),
		cmocka_unit_test(test_session_kept),
		cmocka_unit_test(test_session_stale),
		cmocka_unit_test(test_session_refused),
		cmocka_unit_test(test_session_rooms),
		cmocka_unit_test(test_session_tls),
		cmocka_unit_test(test_session_silent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
