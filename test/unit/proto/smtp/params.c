/* Parameters of MAIL and RCPT: each value that is right, each that is wrong, and the limits. */
#include "check.h"
#include "proto/smtp/params.h"
#include "proto/smtp/xtext.h"

#include <stdio.h>

#define E100 "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

static void test_mail(void **state)
{
	static const struct {
		const char *in;
		unsigned without; /* extensions not offered */
		enum smtp_param_fault fault;
		const char *at; /* the parameter the fault is about */
		struct smtp_mail_params p;
	} cases[] = {
		{ "", 0, 0, "", { 0 } },
		{ "  ", 0, 0, "", { 0 } },
		{ " SIZE=1", 0, 0, "", { .size = 1 } },
		{ " size=0", 0, 0, "", { 0 } },
		{ " SIZE=18446744073709551615", 0, 0, "", { .size = UINT64_MAX } },
		{ " SIZE=99999999999999999999", 0, 0, "", { .size = UINT64_MAX } }, /* 20 digits */
		{ " SIZE=100000000000000000000", 0, SMTP_PARAM_VALUE, "SIZE", { 0 } },
		{ " SIZE=00000000000000000007", 0, 0, "", { .size = 7 } },
		{ " SIZE=", 0, SMTP_PARAM_SYNTAX, "SIZE", { 0 } },
		{ " SIZE", 0, SMTP_PARAM_VALUE, "SIZE", { 0 } },
		{ " SIZE=-1", 0, SMTP_PARAM_VALUE, "SIZE", { 0 } },
		{ " SIZE=+1", 0, SMTP_PARAM_VALUE, "SIZE", { 0 } },
		{ " SIZE=0x10", 0, SMTP_PARAM_VALUE, "SIZE", { 0 } },
		{ " SIZE=1 SIZE=1", 0, SMTP_PARAM_DUPLICATE, "SIZE", { 0 } },
		{ " SIZE=1 size=2", 0, SMTP_PARAM_DUPLICATE, "size", { 0 } },
		{ " SIZE=1", SMTP_EXT_SIZE, SMTP_PARAM_UNKNOWN, "SIZE", { 0 } },
		{ " BODY=7BIT", 0, 0, "", { .body = SMTP_BODY_7BIT } },
		{ " body=8bitmime", 0, 0, "", { .body = SMTP_BODY_8BITMIME } },
		{ " BODY=BINARYMIME", 0, SMTP_PARAM_VALUE, "BODY", { 0 } },
		{ " BODY", 0, SMTP_PARAM_VALUE, "BODY", { 0 } },
		{ " BODY=8BITMIME", SMTP_EXT_8BITMIME, SMTP_PARAM_UNKNOWN, "BODY", { 0 } },
		{ " SMTPUTF8", 0, 0, "", { .smtputf8 = true } },
		{ " SMTPUTF8=1", 0, SMTP_PARAM_VALUE, "SMTPUTF8", { 0 } },
		{ " SMTPUTF8 SMTPUTF8", 0, SMTP_PARAM_DUPLICATE, "SMTPUTF8", { 0 } },
		{ " SMTPUTF8", SMTP_EXT_SMTPUTF8, SMTP_PARAM_UNKNOWN, "SMTPUTF8", { 0 } },
		{ " RET=FULL", 0, 0, "", { .ret = 'F' } },
		{ " RET=hdrs", 0, 0, "", { .ret = 'H' } },
		{ " RET=NONE", 0, SMTP_PARAM_VALUE, "RET", { 0 } },
		{ " RET=FULL RET=FULL", 0, SMTP_PARAM_DUPLICATE, "RET", { 0 } },
		{ " RET=FULL", SMTP_EXT_DSN, SMTP_PARAM_UNKNOWN, "RET", { 0 } },
		{ " ENVID=QQ314159", 0, 0, "", { .envid = STR_INIT("QQ314159") } },
		{ " ENVID=a+20b", 0, 0, "", { .envid = STR_INIT("a+20b") } },
		{ " ENVID=a+0Ab", 0, SMTP_PARAM_VALUE, "ENVID", { 0 } },
		{ " ENVID=a+7Fb", 0, SMTP_PARAM_VALUE, "ENVID", { 0 } },
		{ " ENVID=a+E9b", 0, SMTP_PARAM_VALUE, "ENVID", { 0 } },
		{ " ENVID=" E100, 0, 0, "", { .envid = STR_INIT(E100) } },
		{ " ENVID=" E100 "x", 0, SMTP_PARAM_VALUE, "ENVID", { 0 } },
		{ " ENVID=a", SMTP_EXT_DSN, SMTP_PARAM_UNKNOWN, "ENVID", { 0 } },
		{ " FOO=1", 0, SMTP_PARAM_UNKNOWN, "FOO", { 0 } },
		{ " NOTIFY=NEVER", 0, SMTP_PARAM_UNKNOWN, "NOTIFY", { 0 } },
		{ " SIZE=1 FOO", 0, SMTP_PARAM_UNKNOWN, "FOO", { 0 } },
		{ " =1", 0, SMTP_PARAM_SYNTAX, "", { 0 } },
		{ " -A=1", 0, SMTP_PARAM_SYNTAX, "", { 0 } },
		{ " A_B=1", 0, SMTP_PARAM_SYNTAX, "A", { 0 } },
		{ " A=b=c", 0, SMTP_PARAM_SYNTAX, "A", { 0 } },
		{ " A=b\x01", 0, SMTP_PARAM_SYNTAX, "A", { 0 } },
		{ " A=b\x7f", 0, SMTP_PARAM_SYNTAX, "A", { 0 } },
		{ " A\t", 0, SMTP_PARAM_SYNTAX, "A", { 0 } },
		{ " SIZE=5 BODY=8BITMIME SMTPUTF8 RET=HDRS ENVID=x", 0, 0, "",
		    { .size = 5, .body = SMTP_BODY_8BITMIME, .smtputf8 = true, .ret = 'H', .envid = STR_INIT("x") } },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct smtp_mail_params p = { .size = 42 };
		struct smtp_param at;
		unsigned ext = SMTP_EXT_ALL_PLAIN & ~cases[i].without;
		enum smtp_param_fault f = smtp_mail_params_parse(str_from(cases[i].in), ext, &p, &at);
		CHECK(f == cases[i].fault, "%s: %d", cases[i].in, f);
		if (f) {
			CHECK(str_eq(at.name, str_from(cases[i].at)), "%s: at %.*s", cases[i].in, STR_ARG(at.name));
			assert_int_equal(p.size, 42);
			continue;
		}
		const struct smtp_mail_params *want = &cases[i].p;
		CHECK(p.size == want->size && p.body == want->body && p.smtputf8 == want->smtputf8 && p.ret == want->ret &&
			str_eq(p.envid, want->envid),
		    "%s", cases[i].in);
	}
}

static void test_rcpt(void **state)
{
	static const struct {
		const char *in;
		bool utf8;
		enum smtp_param_fault fault;
		unsigned notify;
		const char *orcpt;
	} cases[] = {
		{ "", false, 0, 0, "" },
		{ " NOTIFY=NEVER", false, 0, SMTP_NOTIFY_NEVER, "" },
		{ " notify=never", false, 0, SMTP_NOTIFY_NEVER, "" },
		{ " NOTIFY=SUCCESS", false, 0, SMTP_NOTIFY_SUCCESS, "" },
		{ " NOTIFY=SUCCESS,FAILURE,DELAY", false, 0, SMTP_NOTIFY_SUCCESS | SMTP_NOTIFY_FAILURE | SMTP_NOTIFY_DELAY, "" },
		{ " NOTIFY=DELAY,failure", false, 0, SMTP_NOTIFY_FAILURE | SMTP_NOTIFY_DELAY, "" },
		{ " NOTIFY=NEVER,SUCCESS", false, SMTP_PARAM_VALUE, 0, "" },
		{ " NOTIFY=SUCCESS,NEVER", false, SMTP_PARAM_VALUE, 0, "" },
		{ " NOTIFY=SUCCESS,", false, SMTP_PARAM_VALUE, 0, "" },
		{ " NOTIFY=,SUCCESS", false, SMTP_PARAM_VALUE, 0, "" },
		{ " NOTIFY=ALWAYS", false, SMTP_PARAM_VALUE, 0, "" },
		{ " NOTIFY=", false, SMTP_PARAM_SYNTAX, 0, "" },
		{ " NOTIFY", false, SMTP_PARAM_VALUE, 0, "" },
		{ " NOTIFY=DELAY NOTIFY=DELAY", false, SMTP_PARAM_DUPLICATE, 0, "" },
		{ " ORCPT=rfc822;b@example.net", false, 0, 0, "rfc822;b@example.net" },
		{ " ORCPT=rfc822;b+2Bc@example.net", false, 0, 0, "rfc822;b+2Bc@example.net" },
		{ " ORCPT=rfc822;b+0D+0AX-Evil:@example.net", false, SMTP_PARAM_VALUE, 0, "" },
		{ " ORCPT=b@example.net", false, SMTP_PARAM_VALUE, 0, "" },
		{ " ORCPT=rfc822;", false, SMTP_PARAM_VALUE, 0, "" },
		{ " ORCPT=rfc822;a ORCPT=rfc822;a", false, SMTP_PARAM_DUPLICATE, 0, "" },
		{ " ORCPT=utf-8;\\x{E9}@example.net", false, 0, 0, "utf-8;\\x{E9}@example.net" },
		{ " ORCPT=utf-8;\xc3\xa9@example.net", false, SMTP_PARAM_VALUE, 0, "" },
		{ " ORCPT=utf-8;\xc3\xa9@example.net", true, 0, 0, "utf-8;\xc3\xa9@example.net" },
		{ " ORCPT=utf-8;\xc3\xff@example.net", true, SMTP_PARAM_VALUE, 0, "" },
		{ " ORCPT=utf-8;\\x{0A}@example.net", true, SMTP_PARAM_VALUE, 0, "" },
		{ " SIZE=1", false, SMTP_PARAM_UNKNOWN, 0, "" },
		{ " NOTIFY=DELAY ORCPT=rfc822;a", false, 0, SMTP_NOTIFY_DELAY, "rfc822;a" },
	};
	(void)state;
	struct smtp_param at;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct smtp_rcpt_params p = { 0 };
		enum smtp_param_fault f =
		    smtp_rcpt_params_parse(str_from(cases[i].in), SMTP_EXT_ALL_PLAIN, cases[i].utf8, &p, &at);
		CHECK(f == cases[i].fault, "%s: %d", cases[i].in, f);
		CHECK(p.notify == cases[i].notify && str_eq(p.orcpt, str_from(cases[i].orcpt)), "%s", cases[i].in);
		f = smtp_rcpt_params_parse(str_from(cases[i].in), 0, cases[i].utf8, &p, &at);
		CHECK(f == (cases[i].in[0] && cases[i].fault != SMTP_PARAM_SYNTAX ? SMTP_PARAM_UNKNOWN : cases[i].fault), "%s",
		    cases[i].in);
	}
}

static void test_orcpt_length(void **state)
{
	char in[600] = " ORCPT=rfc822;";
	struct smtp_rcpt_params p;
	struct smtp_param at;
	(void)state;
	size_t head = strlen(in);
	memset(in + head, 'x', sizeof in - head);
	size_t whole = strlen(" ORCPT=") + SMTP_ORCPT_MAX;
	assert_int_equal(smtp_rcpt_params_parse(str_n(in, whole), SMTP_EXT_DSN, false, &p, &at), SMTP_PARAM_OK);
	assert_int_equal(smtp_rcpt_params_parse(str_n(in, whole + 1), SMTP_EXT_DSN, false, &p, &at), SMTP_PARAM_VALUE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mail),
		cmocka_unit_test(test_rcpt),
		cmocka_unit_test(test_orcpt_length),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
