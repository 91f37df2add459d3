/* Control requests by tables: what is taken, and what hostile or careless JSON is refused with. */
#include "control_request.h"

#include "base/buf.h"
#include "json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct {
	struct str line;
	const char *err; /* part of the message; NULL: taken */
} cases[] = {
	{ STR_INIT("{\"cmd\":\"status\"}"), NULL },
	{ STR_INIT("{\"cmd\":\"status\"}\r"), NULL },
	{ STR_INIT("{\"cmd\":\"status\",\"args\":{}}"), NULL },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"stage\":\"init\",\"status\":\"paused\",\"limit\":1000000}}"), NULL },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"sender\":\"a\\\"b@example.test\",\"recipient\":\"\xc3\xa9@example.test\"}}"), NULL },
	{ STR_INIT("{\"cmd\":\"queue.show\",\"args\":{\"ids\":[9223372036854775806]}}"), NULL },
	{ STR_INIT("{\"cmd\":\"queue.delete\",\"args\":{\"all\":true}}"), NULL },
	{ STR_INIT("{\"cmd\":\"queue.delete\",\"args\":{\"ids\":[1,2]}}"), NULL },
	{ STR_INIT("{\"cmd\":\"queue.set-stage\",\"args\":{\"stage\":\"a\",\"to\":\"b\",\"limit\":1}}"), NULL },
	{ STR_INIT("{\"cmd\":\"queue.release\",\"args\":{\"status\":\"held\",\"dry_run\":true}}"), NULL },
	{ STR_INIT("{\"cmd\":\"queue.hold\",\"args\":{\"ids\":[1],\"reason\":\"x\"}}"), NULL },
	{ STR_INIT("{\"cmd\":\"rule.add\",\"args\":{\"action\":\"hold\",\"sender\":\"<>\",\"client\":\"192.0.2.0/24\",\"for\":60}}"), NULL },
	{ STR_INIT("{\"cmd\":\"rule.add\",\"args\":{\"action\":\"reroute\",\"to\":\"b\",\"recipient\":\"@b\",\"dry_run\":false}}"), NULL },
	{ STR_INIT("{\"cmd\":\"rule.list\"}"), NULL },
	{ STR_INIT("{\"cmd\":\"rule.remove\",\"args\":{\"ids\":[1]}}"), NULL },

	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"dry_run\":true}}"), "takes no argument" },
	{ STR_INIT("{\"cmd\":\"queue.retry\",\"args\":{\"all\":true,\"dry_run\":1}}"), "true or false" },
	{ STR_INIT("{\"cmd\":\"queue.release\"}"), "needs ids or a filter" },
	{ STR_INIT("{\"cmd\":\"rule.add\",\"args\":{\"sender\":\"a@b\"}}"), "needs an action" },
	{ STR_INIT("{\"cmd\":\"rule.add\",\"args\":{\"action\":\"drop\",\"sender\":\"a@b\"}}"), "hold or reroute" },
	{ STR_INIT("{\"cmd\":\"rule.add\",\"args\":{\"action\":\"hold\"}}"), "needs a sender" },
	{ STR_INIT("{\"cmd\":\"rule.add\",\"args\":{\"action\":\"hold\",\"sender\":\"example.org\"}}"), "local@domain" },
	{ STR_INIT("{\"cmd\":\"rule.add\",\"args\":{\"action\":\"hold\",\"recipient\":\"example.org\"}}"), "local@domain" },
	{ STR_INIT("{\"cmd\":\"rule.add\",\"args\":{\"action\":\"hold\",\"stage\":\"a\",\"to\":\"b\"}}"), "no stage to go to" },
	{ STR_INIT("{\"cmd\":\"rule.add\",\"args\":{\"action\":\"reroute\",\"stage\":\"a\"}}"), "needs the stage to go to" },
	{ STR_INIT("{\"cmd\":\"rule.add\",\"args\":{\"action\":\"hold\",\"stage\":\"a\",\"for\":0}}"), "from 1 to" },
	{ STR_INIT("{\"cmd\":\"rule.remove\",\"args\":{\"ids\":[1,2]}}"), "exactly one id" },
	{ STR_INIT(""), "not whole" },
	{ STR_INIT("{"), "not whole" },
	{ STR_INIT("{\"cmd\":\"ping\"} x"), "not JSON" },
	{ STR_INIT("{\"cmd\":\"ping\"}{\"cmd\":\"stop\"}"), "not JSON" },
	{ STR_INIT("ping"), "not JSON" },
	{ STR_INIT("[]"), "not a JSON object" },
	{ STR_INIT("\"ping\""), "not a JSON object" },
	{ STR_INIT("null "), "not a JSON object" },
	{ STR_INIT("{}"), "no command" },
	{ STR_INIT("{\"cmd\":7}"), "no command" },
	{ STR_INIT("{\"cmd\":null}"), "no command" },
	{ STR_INIT("{\"cmd\":[\"stop\"]}"), "no command" },
	{ STR_INIT("{\"cmd\":\"stop\\u0000x\"}"), "unknown command" },
	{ STR_INIT("{\"cmd\":\"STOP\"}"), "unknown command" },
	{ STR_INIT("{\"cmd\":\"\"}"), "unknown command" },
	{ STR_INIT("{\"cmd\":\"ping\",\"arg\":{}}"), "unknown member" },
	{ STR_INIT("{\"cmd\":\"ping\",\"args\":[]}"), "args is not" },
	{ STR_INIT("{\"cmd\":\"ping\",\"args\":{\"x\":1}}"), "takes no argument" },
	{ STR_INIT("{\"cmd\":\"status\",\"args\":{\"stage\":\"x\"}}"), "takes no argument" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"ids\":[1]}}"), "takes no argument" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"stage\":\"\"}}"), "must have 1 to" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"stage\":null}}"), "must be text" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"stage\":5}}"), "must be text" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"stage\":\"a\\u0000b\"}}"), "not plain text" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"stage\":\"\xff\"}}"), "not JSON" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"status\":\"Pending\"}}"), "unknown status" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"limit\":0}}"), "from 1 to 1000000" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"limit\":-1}}"), "from 1 to" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"limit\":1000001}}"), "from 1 to" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"limit\":\"5\"}}"), "from 1 to" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"limit\":5.5}}"), "from 1 to" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"limit\":NaN}}"), "from 1 to" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"limit\":true}}"), "from 1 to" },
	{ STR_INIT("{\"cmd\":\"queue.list\",\"args\":{\"after_id\":99999999999999999999}}"), "from 1 to" },
	{ STR_INIT("{\"cmd\":\"queue.show\"}"), "exactly one id" },
	{ STR_INIT("{\"cmd\":\"queue.show\",\"args\":{\"ids\":[]}}"), "1 to 1000 ids" },
	{ STR_INIT("{\"cmd\":\"queue.show\",\"args\":{\"ids\":[1,2]}}"), "exactly one id" },
	{ STR_INIT("{\"cmd\":\"queue.show\",\"args\":{\"ids\":1}}"), "must be an array" },
	{ STR_INIT("{\"cmd\":\"queue.show\",\"args\":{\"ids\":[\"1\"]}}"), "from 1 to" },
	{ STR_INIT("{\"cmd\":\"queue.show\",\"args\":{\"ids\":[0]}}"), "from 1 to" },
	{ STR_INIT("{\"cmd\":\"queue.show\",\"args\":{\"ids\":[99999999999999999999]}}"), "from 1 to" },
	{ STR_INIT("{\"cmd\":\"queue.show\",\"args\":{\"ids\":[[[[1]]]]}}"), "not JSON" },
	{ STR_INIT("{\"cmd\":\"queue.delete\"}"), "needs ids or a filter" },
	{ STR_INIT("{\"cmd\":\"queue.delete\",\"args\":{\"limit\":5}}"), "needs ids or a filter" },
	{ STR_INIT("{\"cmd\":\"queue.delete\",\"args\":{\"all\":false}}"), "needs ids or a filter" },
	{ STR_INIT("{\"cmd\":\"queue.delete\",\"args\":{\"all\":1}}"), "true or false" },
	{ STR_INIT("{\"cmd\":\"queue.delete\",\"args\":{\"all\":\"true\"}}"), "true or false" },
	{ STR_INIT("{\"cmd\":\"queue.delete\",\"args\":{\"ids\":[1],\"stage\":\"a\"}}"), "either ids or filters" },
	{ STR_INIT("{\"cmd\":\"queue.delete\",\"args\":{\"ids\":[1],\"all\":true}}"), "either ids or filters" },
	{ STR_INIT("{\"cmd\":\"queue.set-stage\",\"args\":{\"ids\":[1]}}"), "needs the stage" },
	{ STR_INIT("{\"cmd\":\"queue.retry\",\"args\":{\"ids\":[1],\"to\":\"x\"}}"), "takes no argument" },
};

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct control_request r;
		char err[256], hint[64];
		int rc = control_request_parse(cases[i].line, &r, err, sizeof err, hint, sizeof hint);
		if (!cases[i].err && rc)
			fail_msg("%.*s: %s", STR_ARG(cases[i].line), err);
		if (cases[i].err && (!rc || !strstr(err, cases[i].err)))
			fail_msg("%.*s: wanted \"%s\", got %d \"%s\"", STR_ARG(cases[i].line), cases[i].err, rc, err);
		control_request_done(&r);
		/* every beginning of it is refused or taken, never more */
		for (size_t n = 0; n < cases[i].line.n; n++) {
			control_request_parse(str_n(cases[i].line.p, n), &r, err, sizeof err, hint, sizeof hint);
			control_request_done(&r);
		}
	}
}

static void test_content(void **state)
{
	struct control_request r;
	char err[256], hint[64], text[256];
	(void)state;
	assert_int_equal(control_request_parse(STR("{\"cmd\":\"queue.set-stage\",\"args\":{\"stage\":\"a\",\"status\":\"failed\","
						   "\"sender\":\"s\",\"recipient\":\"r\",\"to\":\"b\\nc\",\"limit\":3}}"),
			     &r, err, sizeof err, hint, sizeof hint), 0);
	assert_int_equal(r.cmd, CONTROL_QUEUE_SET_STAGE);
	assert_true(r.flags & CONTROL_CHANGES);
	assert_string_equal(r.sender, "s");
	assert_string_equal(r.recipient, "r");
	control_request_describe(&r, text, sizeof text);
	assert_string_equal(text, "stage=\"a\" status=\"failed\" sender=\"s\" recipient=\"r\" to=\"b\\x0ac\" limit=3");
	control_request_done(&r);
	assert_int_equal(control_request_parse(STR("{\"cmd\":\"queue.delete\",\"args\":{\"ids\":[3,1]}}"), &r, err, sizeof err,
			     hint, sizeof hint), 0);
	control_request_describe(&r, text, sizeof text);
	assert_string_equal(text, "ids=3,1");
	control_request_done(&r);
	/* patterns in the form that is compared; a local part and what is no domain as they are */
	static const char *const folded[][2] = { { "@B\xc3\x9c" "CHER.Example", "@xn--bcher-kva.example" }, { "Gr\xc3\xbcn@b\xc3\xbc" "cher.example.", "Gr\xc3\xbcn@xn--bcher-kva.example" },
		{ "@[192.0.2.1]", "@[192.0.2.1]" }, { "\\\"a@b\\\"@Example.org", "\"a@b\"@example.org" }, { "x@", "x@" } };
	for (size_t i = 0; i < sizeof folded / sizeof *folded; i++) {
		static const char *const requests[] = { "rule.add\",\"args\":{\"action\":\"hold\",", "queue.list\",\"args\":{", "queue.retry\",\"args\":{" };
		for (size_t k = 0; k < 3; k++) {
			struct buf b = BUF_INIT(4096);
			buf_addf(&b, "{\"cmd\":\"%s\"recipient\":\"%s\",\"sender\":\"%s\"}}", requests[k], folded[i][0], folded[i][0]);
			assert_int_equal(control_request_parse(buf_str(&b), &r, err, sizeof err, hint, sizeof hint), 0);
			assert_string_equal(r.recipient, folded[i][1]);
			assert_string_equal(r.sender, folded[i][1]);
			control_request_done(&r);
			buf_free(&b);
		}
	}
	assert_int_equal(control_request_parse(STR("{\"cmd\":\"queue.lst\"}"), &r, err, sizeof err, hint, sizeof hint), -1);
	assert_string_equal(hint, "did you mean queue.list?");
	control_request_done(&r);
}

static void test_large(void **state)
{
	struct control_request r;
	struct buf b = BUF_INIT(1 << 20);
	char err[256], hint[64];
	(void)state;
	buf_addz(&b, "{\"cmd\":\"queue.delete\",\"args\":{\"ids\":[1");
	for (unsigned i = 1; i < CONTROL_IDS_MAX; i++)
		buf_addz(&b, ",1");
	size_t n = b.n;
	buf_addz(&b, "]}}");
	assert_int_equal(control_request_parse(buf_str(&b), &r, err, sizeof err, hint, sizeof hint), 0);
	assert_int_equal(r.n_ids, CONTROL_IDS_MAX);
	control_request_done(&r);
	b.n = n;
	buf_addz(&b, ",1]}}");
	assert_int_equal(control_request_parse(buf_str(&b), &r, err, sizeof err, hint, sizeof hint), -1);
	control_request_done(&r);
	buf_reset(&b);
	for (unsigned i = 0; i < 60000; i++)
		buf_addc(&b, '[');
	assert_int_equal(control_request_parse(buf_str(&b), &r, err, sizeof err, hint, sizeof hint), -1);
	control_request_done(&r);
	for (unsigned i = 0; i < 10000; i++)
		buf_addc(&b, ' ');
	assert_int_equal(control_request_parse(buf_str(&b), &r, err, sizeof err, hint, sizeof hint), -1);
	assert_non_null(strstr(err, "longer"));
	control_request_done(&r);
	buf_free(&b);
}

static void test_json_string(void **state)
{
	static const struct {
		struct str in;
		const char *out;
	} texts[] = {
		{ STR_INIT("plain \xc3\xa9"), "\"plain \xc3\xa9\"" },
		{ STR_INIT("a\"b\\c"), "\"a\\\"b\\\\c\"" },
		{ STR_INIT("\0\x1b[2J\x7f\n"), "\"\\u0000\\u001b[2J\\u007f\\u000a\"" },
		{ STR_INIT("\xc2\x9b" "x"), "\"\\u009bx\"" },
		{ STR_INIT("\xff\xc3"), "\"\\ufffd\\ufffd\"" },
		{ STR_INIT("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct buf b = BUF_INIT(1000);
		admin_json_string(&b, texts[i].in);
		assert_string_equal(buf_z(&b), texts[i].out);
		buf_free(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_content),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_json_string),
	};
	return cmocka_run_group_tests_name("admin/control_request", tests, NULL, NULL);
}
