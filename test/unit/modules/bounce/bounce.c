/* The bounce stage: whom it tells, what about, and when it keeps silent. */
#include "facts.h"
#include "fake_host.h"

extern const struct pepsi_stage pepsi_stage_descriptor;

#define SET                                                                                                            \
	"clear_state\nmerge_state {\"origin\":{\"esmtp\":true,\"smtputf8\":false,\"body\":\"7BIT\"}}\n"                     \
	"set_mail_from <>\nset_rcpt_to <ann@example.org>\nset_headers\nset_body\nadvance\n"

struct bounce_case {
	const char *name, *from, *rcpts, *state;
	const char *calls;
	const char *has[6]; /* in the report's body, in this order */
	const char *lacks;
};

static const struct bounce_case cases[] = {
	{ "a relay's report", "ann@example.org", "b@c",
	    "{\"dsn\":{\"ret\":\"HDRS\",\"envid\":\"e1\",\"rcpt\":[{\"orcpt\":\"rfc822;x@y\"}]},\"bounce\":{\"kind\":\"permanent\","
	    "\"rcpts\":[{\"failed_recipient\":\"b@c\",\"diagnostic\":\"550 5.1.1 who\",\"remote_mta\":\"mx\",\"smtp_code\":550,"
	    "\"enhanced_status\":\"5.1.1\",\"phase\":\"rcpt\",\"reply_text\":\"who\"}]}}",
	    SET, { "said: 550 who (in reply to", "Original-Envelope-Id: e1\r\n", "Original-Recipient: rfc822; x@y\r\n",
		"Final-Recipient: rfc822; b@c\r\nAction: failed\r\nStatus: 5.1.1\r\nRemote-MTA: dns; mx\r\n"
		"Diagnostic-Code: smtp; 550 5.1.1 who\r\n", "text/rfc822-headers" }, NULL },
	{ "the documents' form, keys directly", "ann@example.org", "b@c",
	    "{\"bounce\":{\"kind\":\"permanent\",\"failed_recipient\":\"b@c\",\"diagnostic\":\"refused by policy\","
	    "\"enhanced_status\":\"5.7.1\",\"notify\":\"FAILURE,DELAY\",\"orcpt\":\"rfc822;o@p\",\"envid\":\"q\"}}",
	    SET, { "Reason: refused by policy", "Original-Envelope-Id: q", "rfc822; o@p", "Status: 5.7.1\r\n"
		"Diagnostic-Code: X-Pepsi; refused by policy" }, NULL },
	{ "several, one of them muted", "ann@example.org", "b@c d@e f@g",
	    "{\"dsn\":{\"rcpt\":[{},{\"notify\":\"NEVER\"},{\"notify\":\"FAILURE\"}]},\"bounce\":{\"rcpts\":["
	    "{\"failed_recipient\":\"b@c\"},{\"failed_recipient\":\"d@e\"},{\"failed_recipient\":\"f@g\"}]}}",
	    SET, { "following recipients", "<b@c>", "<f@g>", "rfc822; b@c", "rfc822; f@g" }, "d@e" },
	{ "entries found by address when the order differs", "ann@example.org", "b@c d@e",
	    "{\"dsn\":{\"rcpt\":[{\"orcpt\":\"rfc822;one\"},{\"orcpt\":\"rfc822;two\"}]},\"bounce\":{\"rcpts\":["
	    "{\"failed_recipient\":\"d@e\"},{\"failed_recipient\":\"b@c\"}]}}",
	    SET, { "Original-Recipient: rfc822; two\r\nFinal-Recipient: rfc822; d@e",
		"Original-Recipient: rfc822; one\r\nFinal-Recipient: rfc822; b@c" }, NULL },
	{ "nobody wants to know", "ann@example.org", "b@c",
	    "{\"bounce\":{\"rcpts\":[{\"failed_recipient\":\"b@c\",\"notify\":\"NEVER\"}]}}", "finish\n", { NULL }, NULL },
	{ "only successes are wanted", "ann@example.org", "b@c",
	    "{\"dsn\":{\"rcpt\":[{\"notify\":\"SUCCESS\"}]},\"bounce\":{\"failed_recipient\":\"b@c\"}}", "finish\n", { NULL }, NULL },
	{ "a bounce does not bounce", "", "b@c", "{\"bounce\":{\"failed_recipient\":\"b@c\"},\"last_error\":\"x\"}", "finish\n",
	    { NULL }, NULL },
	{ "a success, as the host writes it", "ann@example.org", "b@c",
	    "{\"dsn\":{\"rcpt\":[{\"notify\":\"SUCCESS,FAILURE\"}]},\"bounce\":{\"kind\":\"success\",\"enhanced_status\":\"2.0.0\","
	    "\"diagnostic\":\"handed on\",\"failed_recipient\":\"b@c\"}}",
	    SET, { "You asked for this notice", "Action: relayed\r\nStatus: 2.0.0" }, NULL },
	{ "a success nobody asked for", "ann@example.org", "b@c", "{\"bounce\":{\"kind\":\"success\"}}", "finish\n", { NULL }, NULL },
	{ "delivered", "ann@example.org", "b@c",
	    "{\"bounce\":{\"kind\":\"success\",\"action\":\"delivered\",\"notify\":\"SUCCESS\",\"failed_recipient\":\"b@c\"}}",
	    SET, { "Action: delivered\r\nStatus: 2.0.0" }, NULL },
	{ "a delay", "ann@example.org", "b@c",
	    "{\"bounce\":{\"kind\":\"delay\",\"failed_recipient\":\"b@c\",\"enhanced_status\":\"4.4.1\",\"diagnostic\":\"down\"}}",
	    SET, { "WARNING ONLY", "Reason: down", "Action: delayed\r\nStatus: 4.4.1" }, NULL },
	{ "sent here by an operator", "ann@example.org", "b@c d@e",
	    "{\"failed_stage\":\"out\",\"last_error\":\"no room\"}",
	    SET, { "Reason: The message could not be processed at stage out: no room",
		"Final-Recipient: rfc822; b@c\r\nAction: failed\r\nStatus: 5.3.0", "Final-Recipient: rfc822; d@e" }, "older" },
	{ "its worker died", "ann@example.org", "b@c",
	    "{\"failed_stage\":\"out\",\"dispatch_error\":{\"kind\":\"crash\",\"crashes\":3,\"report\":{\"what\":\"killed by signal 11\"}}}",
	    SET, { "at stage out: the program", "ended without an answer", "Status: 5.3.0" }, "signal" },
	{ "it took too long", "ann@example.org", "b@c", "{\"failed_stage\":\"out\",\"dispatch_error\":{\"kind\":\"overrun\",\"overruns\":3}}",
	    SET, { "at stage out: it took", "too long" }, "crash" },
	{ "a dispatch_error of no known form", "ann@example.org", "b@c", "{\"dispatch_error\":\"three crashes\"}",
	    SET, { "Reason: The message could not be processed\r\n" }, "three" },
	{ "given up by the failure bouncer", "ann@example.org", "b@c",
	    "{\"failed_stage\":\"out\",\"last_error\":\"signal 11 in pepsi-stage-x\"}",
	    SET, { "Reason: The message could not be processed at stage out: signal 11 in", "pepsi-stage-x",
		"Action: failed\r\nStatus: 5.3.0" }, "given up here" },
	{ "the same on its way here, with a relay's account", "ann@example.org", "b@c",
	    "{\"failed_stage\":\"sort\",\"last_error\":\"later\",\"bounce\":{\"kind\":\"permanent\",\"failed_recipient\":\"b@c\","
	    "\"smtp_code\":550,\"enhanced_status\":\"5.1.1\",\"reply_text\":\"who\"}}",
	    SET, { "It was given up here at stage sort.\r\n", "said: 550 who", "Status: 5.1.1" }, "later" },
	{ "it may have been delivered", "ann@example.org", "b@c",
	    "{\"maybe_delivered\":{\"count\":2,\"at\":1796038764,\"hop\":\"mx.example.net:25\"},\"bounce\":{\"kind\":\"permanent\",\"failed_recipient\":\"b@c\","
	    "\"diagnostic\":\"gone\"}}", SET, { "It may have been delivered all the same: on Mon, 30 Nov 2026", "the connection to mx.example.net:25 was lost",
		"Reason: gone" }, NULL },
	{ "it may have been delivered, nobody knows where", "ann@example.org", "b@c",
	    "{\"maybe_delivered\":{\"at\":\"x\"},\"bounce\":{\"kind\":\"delay\",\"failed_recipient\":\"b@c\"}}", SET,
	    { "It may have been delivered all the same: the connection was lost when all" }, NULL },
	{ "the same, a success on its way", "ann@example.org", "b@c",
	    "{\"failed_stage\":\"sort\",\"bounce\":{\"kind\":\"success\",\"notify\":\"SUCCESS\",\"failed_recipient\":\"b@c\"}}",
	    SET, { "Action: relayed" }, "given up" },
	{ "no state at all", "ann@example.org", "b@c", "{}", SET, { "could not be processed", "5.3.0" }, NULL },
	{ "a state of the wrong types", "ann@example.org", "b@c",
	    "{\"bounce\":{\"kind\":7,\"rcpts\":[1,\"x\",{\"failed_recipient\":5}],\"smtp_code\":\"550\",\"envid\":{}},\"dsn\":[]}",
	    SET, { "Final-Recipient: rfc822; b@c\r\nAction: failed\r\nStatus: 5.0.0\r\nLast-Attempt" }, "Envelope" },
	{ "a state that is no JSON", "ann@example.org", "b@c", "{\"bounce\":", SET, { "5.3.0" }, NULL },
	{ "a code out of range", "ann@example.org", "b@c",
	    "{\"bounce\":{\"failed_recipient\":\"b@c\",\"smtp_code\":99999999999,\"diagnostic\":\"d\"}}",
	    SET, { "Diagnostic-Code: X-Pepsi; d" }, NULL },
};

static void run(const struct bounce_case *c, const char *next, int32_t result, const char *calls)
{
	struct pepsi_conf conf = { .stage = "bounce", .hostname = "mx.example.test", .options = pepsi_stage_descriptor.options,
		.n_options = pepsi_stage_descriptor.n_options };
	struct pepsi_msg m = { .id = 9, .mail_from = c->from, .rcpts = c->rcpts, .next_stage = next, .received_at = fake_now_us,
		.headers = { "Message-ID: <o@p>\r\n", 19 }, .body = { "text\r\n", 6 }, .calls = BUF_INIT(1 << 16),
		.log = BUF_INIT(1 << 16), .new_headers = BUF_INIT(1 << 20), .new_body = BUF_INIT(1 << 20) };
	void *w = NULL;
	m.state = c->state;
	assert_int_equal(pepsi_stage_descriptor.open(&fake_host, &conf, &w), PEPSI_OK);
	assert_int_equal(pepsi_stage_descriptor.process(w, &fake_host, &m), result);
	pepsi_stage_descriptor.close(w);
	if (strcmp(buf_z(&m.calls), calls))
		print_error("%s: %s", c->name, buf_z(&m.calls));
	assert_string_equal(buf_z(&m.calls), calls);
	const char *at = buf_z(&m.new_body);
	for (int i = 0; i < 6 && c->has[i] && m.new_body.n; i++) {
		const char *p = strstr(at, c->has[i]);
		if (!p)
			print_error("%s: \"%s\" not in\n%s\n", c->name, c->has[i], at);
		assert_non_null(p);
		at = p;
	}
	if (c->lacks)
		assert_null(strstr(buf_z(&m.new_body), c->lacks));
	if (m.new_headers.n)
		assert_non_null(strstr(m.new_headers.p, "Auto-Submitted: auto-replied\r\n"));
	assert_true(m.log.n > 0);
	fake_done(&m);
}

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		run(&cases[i], "init", PEPSI_OK, cases[i].calls);
}

static void test_no_way_on(void **state)
{
	struct bounce_case c = cases[0];
	(void)state;
	memset(c.has, 0, sizeof c.has);
	run(&c, NULL, PEPSI_PERMANENT, "");
}

static void test_descriptor(void **state)
{
	(void)state;
	assert_string_equal(pepsi_stage_descriptor.name, "pepsi-stage-bounce");
	assert_int_equal(pepsi_stage_descriptor.load_class, PEPSI_LOAD_FULL);
	assert_true(pepsi_stage_descriptor.caps & PEPSI_CAP_BOUNCE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_no_way_on),
		cmocka_unit_test(test_descriptor),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
