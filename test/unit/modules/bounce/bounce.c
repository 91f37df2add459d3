/* The bounce stage: whom it tells, what about, and when it keeps silent. */
#include "facts.h"
#include "fake_host.h"

#include <stdlib.h>
#include <unistd.h>

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
	    SET, { "You asked for this notice", "Action: relayed\r\nStatus: 2.0.0" }, "Diagnostic" },
	{ "a success nobody asked for", "ann@example.org", "b@c", "{\"bounce\":{\"kind\":\"success\"}}", "finish\n", { NULL }, NULL },
	{ "delivered", "ann@example.org", "b@c",
	    "{\"bounce\":{\"kind\":\"success\",\"action\":\"delivered\",\"notify\":\"SUCCESS\",\"failed_recipient\":\"b@c\"}}",
	    SET, { "Action: delivered\r\nStatus: 2.0.0" }, NULL },
	{ "some delivered, one relayed, one whom nobody asked about", "ann@example.org", "b@c d@e f@g",
	    "{\"dsn\":{\"rcpt\":[{\"notify\":\"SUCCESS\"},{\"notify\":\"SUCCESS,DELAY\"},{\"notify\":\"DELAY\"}]},\"bounce\":{\"kind\":\"success\",\"rcpts\":["
	    "{\"failed_recipient\":\"b@c\",\"action\":\"delivered\"},{\"failed_recipient\":\"d@e\"},{\"failed_recipient\":\"f@g\",\"action\":\"delivered\"}]}}",
	    SET, { "has been delivered", "handed on to a server", "b@c\r\nAction: delivered", "d@e\r\nAction: relayed" }, "f@g" },
	{ "an alias", "ann@example.org", "b@c",
	    "{\"bounce\":{\"kind\":\"success\",\"action\":\"expanded\",\"notify\":\"SUCCESS\",\"failed_recipient\":\"b@c\"}}",
	    SET, { "all addresses that this one stands", "Action: expanded\r\nStatus: 2.0.0" }, NULL },
	{ "a delay that says how long", "ann@example.org", "b@c",
	    "{\"bounce\":{\"kind\":\"delay\",\"failed_recipient\":\"b@c\",\"enhanced_status\":\"4.4.1\",\"retry_until\":1796038764}}",
	    SET, { "We go on trying until 2026-11-30 11:39 UTC.", "Will-Retry-Until: Mon, 30 Nov 2026 11:39:24 +0000" }, NULL },
	{ "a delay of one who wants to hear of failures only", "ann@example.org", "b@c",
	    "{\"dsn\":{\"rcpt\":[{\"notify\":\"FAILURE\"}]},\"bounce\":{\"kind\":\"delay\",\"failed_recipient\":\"b@c\"}}", "finish\n", { NULL }, NULL },
	{ "an alias's failure names what the sender wrote", "ann@example.org", "b@c",
	    "{\"bounce\":{\"kind\":\"permanent\",\"failed_recipient\":\"b@c\",\"orcpt\":\"rfc822;sales@c\",\"enhanced_status\":\"5.1.1\"}}",
	    SET, { "You wrote to <sales@c>, which leads there.", "Original-Recipient: rfc822; sales@c\r\nFinal-Recipient: rfc822; b@c" }, NULL },
	/* a stranger does not hear where an alias leads, by no word of the next server either */
	{ "an alias's failure, told to a stranger", "ann@example.org", "b@secret.test d@e",
	    "{\"origin\":{\"listener\":\"mx\",\"ip\":\"198.51.100.7\"},\"dsn\":{\"rcpt\":[{\"orcpt\":\"rfc822;sales@c\",\"alias\":\"sales@c\"},{}]},\"bounce\":{\"rcpts\":[{\"failed_recipient\":\"b@secret.test\","
	    "\"remote_mta\":\"mx.secret.test\",\"smtp_code\":550,\"enhanced_status\":\"5.1.1\",\"phase\":\"rcpt\",\"reply_text\":\"<b@secret.test> who\",\"diagnostic\":\"b@secret.test: who\"},"
	    "{\"failed_recipient\":\"d@e\",\"remote_mta\":\"mx.e\",\"smtp_code\":550,\"enhanced_status\":\"5.1.1\",\"phase\":\"rcpt\",\"reply_text\":\"no d\"}]},"
	    "\"maybe_delivered\":{\"at\":1796038764,\"hop\":\"mx.secret.test:25\"}}",
	    SET, { "<sales@c>:", "Its answer is not shown", "550 no d", "Final-Recipient: rfc822; sales@c\r\nAction: failed\r\nStatus: 5.1.1\r\nDiagnostic-Code: smtp; 550 5.1.1 (not shown)\r\n",
		"Final-Recipient: rfc822; d@e\r\nAction: failed\r\nStatus: 5.1.1\r\nRemote-MTA: dns; mx.e\r\n" }, "secret" },
	{ "two of one alias are one; without a reply", "ann@example.org", "b@secret.test d@secret.test",
	    "{\"origin\":{\"listener\":\"mx\",\"ip\":\"198.51.100.7\"},\"dsn\":{\"rcpt\":[{\"alias\":\"sales@c\"},{\"alias\":\"Sales@c\"}]},\"bounce\":{\"diagnostic\":\"secret.test is away\",\"enhanced_status\":\"5.4.4\"}}",
	    SET, { "<sales@c>:", "Final-Recipient: rfc822; sales@c\r\nAction: failed\r\nStatus: 5.4.4\r\nDiagnostic-Code: X-Pepsi; not shown\r\n" }, "secret" },
	{ "an alias that a success is told of", "ann@example.org", "b@secret.test",
	    "{\"origin\":{\"listener\":\"mx\",\"ip\":\"198.51.100.7\"},\"dsn\":{\"rcpt\":[{\"notify\":\"SUCCESS\",\"alias\":\"sales@c\"}]},\"bounce\":{\"kind\":\"success\",\"action\":\"relayed\","
	    "\"failed_recipient\":\"b@secret.test\",\"remote_mta\":\"mx.secret.test\",\"smtp_code\":250,\"reply_text\":\"secret\"}}",
	    SET, { "<sales@c>:", "Final-Recipient: rfc822; sales@c\r\nAction: relayed" }, "secret" },
	{ "one that is late", "ann@example.org", "b@secret.test",
	    "{\"origin\":{\"listener\":\"mx\",\"ip\":\"198.51.100.7\"},\"dsn\":{\"rcpt\":[{\"alias\":\"sales@c\"}]},\"bounce\":{\"kind\":\"delay\",\"failed_recipient\":\"b@secret.test\",\"enhanced_status\":\"4.4.1\","
	    "\"diagnostic\":\"secret\"}}",
	    SET, { "<sales@c>:", "Final-Recipient: rfc822; sales@c\r\nAction: delayed\r\nStatus: 4.4.1" }, "secret" },
	{ "our own users do hear", "ann@example.org", "b@shown.test",
	    "{\"origin\":{\"listener\":\"sub\",\"ip\":\"198.51.100.7\",\"account\":\"ann\"},\"dsn\":{\"rcpt\":[{\"alias\":\"sales@c\"}]},\"bounce\":{\"failed_recipient\":\"b@shown.test\",\"smtp_code\":550,"
	    "\"reply_text\":\"who\",\"remote_mta\":\"mx.shown.test\"}}",
	    SET, { "<b@shown.test>:", "550 who", "Final-Recipient: rfc822; b@shown.test", "Remote-MTA: dns; mx.shown.test" }, NULL },
	{ "an alias that is nonsense", "ann@example.org", "b@c",
	    "{\"origin\":{\"listener\":\"mx\",\"ip\":\"198.51.100.7\"},\"dsn\":{\"rcpt\":[{\"alias\":[\"sales@c\"]}]},\"bounce\":{\"failed_recipient\":\"b@c\"}}", SET, { "<b@c>:" }, NULL },
	{ "a delay", "ann@example.org", "b@c",
	    "{\"bounce\":{\"kind\":\"delay\",\"failed_recipient\":\"b@c\",\"enhanced_status\":\"4.4.1\",\"diagnostic\":\"down\"}}",
	    SET, { "WARNING ONLY", "Reason: down", "Action: delayed\r\nStatus: 4.4.1" }, NULL },
	{ "sent here by an operator", "ann@example.org", "b@c d@e", "{\"moved\":{\"from\":\"out\",\"to\":\"Bounce\",\"at\":1796038764},\"last_error\":\"/var/secret: no room\"}",
	    SET, { "write to postmaster@example.test if you", "Reason: The postmaster of this system returned",
		"Final-Recipient: rfc822; b@c\r\nAction: failed\r\nStatus: 5.3.0", "Diagnostic-Code: X-Pepsi; returned by the postmaster", "Final-Recipient: rfc822; d@e" },
	    "secret" },
	{ "the same, after attempts", "ann@example.org", "b@c d@e",
	    "{\"moved\":{\"to\":\"bounce\"},\"last_error\":\"mx:25: rcpt: 450 busy\",\"last_reply\":{\"failed_recipient\":\"d@e\",\"remote_mta\":\"mx\",\"smtp_code\":450,\"reply_text\":\"busy\",\"phase\":\"rcpt\"}}",
	    SET, { "<b@c>:", "Reason: The postmaster", "<d@e>:", "Reason: The postmaster", "The server mx said: 450 busy (in reply to",
		"Remote-MTA: dns; mx\r\nDiagnostic-Code: smtp; 450 busy" }, "mx:25" },
	{ "moved by an operator, and failed there", "ann@example.org", "b@c", "{\"moved\":{\"from\":\"x\",\"to\":\"bounce\"},\"failed_stage\":\"out\"}",
	    SET, { "could not be processed by this system, at stage", "out.\r\n" }, "returned" },
	{ "moved elsewhere by an operator, and sent here by a rule", "ann@example.org", "b@c", "{\"moved\":{\"to\":\"init\"}}",
	    SET, { "could not be processed by this system." }, "returned" },
	{ "its worker died", "ann@example.org", "b@c",
	    "{\"failed_stage\":\"out\",\"dispatch_error\":{\"kind\":\"crash\",\"crashes\":3,\"report\":{\"what\":\"killed by signal 11\"}}}",
	    SET, { "ended without an answer", "Status: 5.3.0" }, "signal" },
	{ "it took too long", "ann@example.org", "b@c", "{\"failed_stage\":\"out\",\"dispatch_error\":{\"kind\":\"overrun\",\"overruns\":3}}",
	    SET, { "it took too", "it took too" }, "crash" },
	{ "a dispatch_error of no known form", "ann@example.org", "b@c", "{\"dispatch_error\":\"three crashes\"}",
	    SET, { "Reason: The message could not be processed by this system.\r\n" }, "three" },
	{ "given up by the failure bouncer", "ann@example.org", "b@c",
	    "{\"failed_stage\":\"out\",\"last_error\":\"signal 11 in pepsi-stage-x\"}",
	    SET, { "It is no fault of yours", "Reason: The message could not be processed by this system, at stage out.",
		"Action: failed\r\nStatus: 5.3.0", "Diagnostic-Code: X-Pepsi; the message could not be processed here" }, "signal" },
	{ "its time was over in the queue", "ann@example.org", "b@c",
	    "{\"bounce\":{\"kind\":\"permanent\",\"diagnostic\":\"delivery time expired\",\"enhanced_status\":\"4.4.7\",\"phase\":\"queue\"},"
	    "\"last_reply\":{\"failed_recipient\":\"b@c\",\"smtp_code\":451,\"reply_text\":\"later\"}}",
	    SET, { "within the time", "The server said: 451 later", "Status: 4.4.7\r\nDiagnostic-Code: smtp; 451 later" }, NULL },
	{ "the same on its way here, with a relay's account", "ann@example.org", "b@c",
	    "{\"failed_stage\":\"sort\",\"last_error\":\"later\",\"bounce\":{\"kind\":\"permanent\",\"failed_recipient\":\"b@c\","
	    "\"smtp_code\":550,\"enhanced_status\":\"5.1.1\",\"reply_text\":\"who\"}}",
	    SET, { "It was given up here at stage sort.\r\n", "said: 550 who", "Status: 5.1.1" }, "later" },
	{ "it may have been delivered", "ann@example.org", "b@c",
	    "{\"maybe_delivered\":{\"count\":2,\"at\":1796038764,\"hop\":\"mx.example.net:25\"},\"bounce\":{\"kind\":\"permanent\",\"failed_recipient\":\"b@c\","
	    "\"diagnostic\":\"gone\"}}", SET, { "It may have been delivered all the same: on 2026-11-30 11:39 UTC", "connection to mx.example.net:25 was lost",
		"Reason: gone" }, NULL },
	{ "it may have been delivered, nobody knows where", "ann@example.org", "b@c",
	    "{\"maybe_delivered\":{\"at\":\"x\"},\"bounce\":{\"kind\":\"delay\",\"failed_recipient\":\"b@c\"}}", SET,
	    { "It may have been delivered all the same: the connection was lost when all" }, NULL },
	{ "the same, a success on its way", "ann@example.org", "b@c",
	    "{\"failed_stage\":\"sort\",\"bounce\":{\"kind\":\"success\",\"notify\":\"SUCCESS\",\"failed_recipient\":\"b@c\"}}",
	    SET, { "Action: relayed" }, "given up" },
	{ "no state at all", "ann@example.org", "b@c", "{}", SET, { "could not be processed by this system.", "5.3.0" }, NULL },
	{ "a state of the wrong types", "ann@example.org", "b@c",
	    "{\"bounce\":{\"kind\":7,\"rcpts\":[1,\"x\",{\"failed_recipient\":5}],\"smtp_code\":\"550\",\"envid\":{}},\"dsn\":[]}",
	    SET, { "Final-Recipient: rfc822; b@c\r\nAction: failed\r\nStatus: 5.0.0\r\nLast-Attempt" }, "Envelope" },
	{ "a state that is no JSON", "ann@example.org", "b@c", "{\"bounce\":", SET, { "5.3.0" }, NULL },
	{ "a code out of range", "ann@example.org", "b@c",
	    "{\"bounce\":{\"failed_recipient\":\"b@c\",\"smtp_code\":99999999999,\"diagnostic\":\"d\"}}",
	    SET, { "Diagnostic-Code: X-Pepsi; d" }, NULL },
};

static const char *conf_text, *headers = "Message-ID: <o@p>\r\n";

static void run(const struct bounce_case *c, const char *next, int32_t result, const char *calls)
{
	struct pepsi_conf conf = { .text = conf_text, .stage = "bounce", .hostname = "mx.example.test", .local_domains = "other.test example.test", .options = pepsi_stage_descriptor.options,
		.n_options = pepsi_stage_descriptor.n_options };
	struct pepsi_msg m = { .id = 9, .mail_from = c->from, .rcpts = c->rcpts, .next_stage = next, .received_at = fake_now_us,
		.headers = { headers, strlen(headers) }, .body = { "text\r\n", 6 }, .calls = BUF_INIT(1 << 16),
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
	if (m.new_headers.n) {
		assert_non_null(strstr(m.new_headers.p, "Auto-Submitted: auto-replied\r\n"));
		assert_non_null(strstr(m.new_headers.p, conf_text ? "<MAILER-DAEMON@reports.test>\r\n" : "<MAILER-DAEMON@example.test>\r\n"));
	}
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

/* Which language: a rule, the message's header, the default; and an operator's own texts. */
static void test_languages(void **state)
{
	char folder[] = "/tmp/pepsi-bounce-XXXXXX", path[100], text[400];
	static const struct {
		const char *headers, *from, *has;
	} tongues[] = {
		{ "Subject: x\r\n", "ann@example.org", "Ihre Nachricht konnte" },             /* LANGUAGE */
		{ "Subject: x\r\n", "ann@fr.test", "Votre message n'a" },                     /* the rule */
		{ "Accept-Language: de\r\n", "ann@fr.test", "Votre message n'a" },            /* … goes before the message */
		{ "Content-Language: en-GB\r\n", "ann@example.org", "I am sorry" },
		{ "Content-Language: de\r\nAccept-Language: nl, fr;q=0.2, es;q=0.9\r\n", "ann@example.org", "Lamentamos decirle" },
		{ "Accept-Language: fr;q=0, xx\r\n", "ann@example.org", "Ihre Nachricht konnte" },
		{ "Accept-Language: {host}, ../../etc\r\n", "ann@example.org", "Ihre Nachricht konnte" },
		{ "Content-Language: eo\r\n", "ann@example.org", "Bedaurinde" },              /* a new one */
		{ "Content-Language: eo-XX\r\n", "ann@example.org", "Demandu: help@mx.example.test" },
		{ "Content-Language: es\r\n", "ann@example.org", "Pregunte a {sender} 9" },   /* its own footer on top of what is there */
	};
	(void)state;
	assert_non_null(mkdtemp(folder));
	static const char *const files[][2] = { { "eo.dsn", "[failed.one]\nBedaurinde\n[footer]\nDemandu: help@{host}\n" },
		{ "es.dsn", "[footer]\nPregunte a {{sender}} {id}\n" } };
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, files[i][0]);
		FILE *f = fopen(path, "w");
		assert_non_null(f);
		fputs(files[i][1], f);
		fclose(f);
	}
	snprintf(text, sizeof text, "LANGUAGE=de\nSENDER_LANGUAGE_1=nowhere.test fr.test fr\nFROM=reports.test\nTEMPLATES=%s", folder);
	conf_text = text;
	for (size_t i = 0; i < sizeof tongues / sizeof *tongues; i++) {
		struct bounce_case c = { tongues[i].headers, tongues[i].from, "b@c", "{}", NULL, { tongues[i].has }, NULL };
		char calls[400];
		snprintf(calls, sizeof calls, "clear_state\nmerge_state {\"origin\":{\"esmtp\":true,\"smtputf8\":false,\"body\":\"7BIT\"}}\n"
			"set_mail_from <>\nset_rcpt_to <%s>\nset_headers\nset_body\nadvance\n", tongues[i].from);
		headers = tongues[i].headers;
		run(&c, "init", PEPSI_OK, calls);
	}
	headers = "Message-ID: <o@p>\r\n";
	conf_text = NULL;
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, files[i][0]);
		unlink(path);
	}
	rmdir(folder);
}

/* Every fault of options and files is told, with file and line. */
static void test_validate(void **state)
{
	char folder[] = "/tmp/pepsi-bounce-XXXXXX", path[100], text[400], want[600];
	struct pepsi_report r = { BUF_INIT(4096) };
	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/de.dsn", folder);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs("[footer]\nfein\n{hots} und {code}\n[foter]\nx\n", f);
	fclose(f);
	snprintf(text, sizeof text, "LANGUAGE=tlh\nSENDER_LANGUAGE_1=fr\nSENDER_LANGUAGE_2=a@ fr\nSENDER_LANGUAGE_3=a@b xx\nFROM=a b\nPOSTMASTER=x@\nTEMPLATES=%s", folder);
	struct pepsi_conf conf = { .text = text, .stage = "bounce", .hostname = "mx.example.test", .options = pepsi_stage_descriptor.options,
		.n_options = pepsi_stage_descriptor.n_options };
	assert_int_equal(pepsi_stage_descriptor.validate(&fake_host, &conf, &r), PEPSI_OK);
	snprintf(want, sizeof want, "FROM: \"a b\" is no address and no domain (in ASCII: of an internationalized domain the A-labels)\n"
		"POSTMASTER: \"x@\" is no address and no domain (in ASCII: of an internationalized domain the A-labels)\n"
		"TEMPLATES: %s:3: unknown placeholder {hots}\nTEMPLATES: %s:3: {code} has no meaning in [footer]\nTEMPLATES: %s:4: no text is called [foter]\n",
		path, path, path);
	assert_true(str_starts(buf_str(&r.text), str_from(want)) || (print_error("%s", buf_z(&r.text)), false));
	assert_non_null(strstr(buf_z(&r.text), "SENDER_LANGUAGE_1: expected patterns"));
	assert_non_null(strstr(buf_z(&r.text), "SENDER_LANGUAGE_2: a@ is no address pattern"));
	assert_non_null(strstr(buf_z(&r.text), "SENDER_LANGUAGE_3: there are no texts in the language xx"));
	assert_non_null(strstr(buf_z(&r.text), "LANGUAGE: there are no texts in the language tlh"));
	buf_free(&r.text);
	unlink(path);
	rmdir(folder);
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
		cmocka_unit_test(test_languages),
		cmocka_unit_test(test_validate),
		cmocka_unit_test(test_descriptor),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
