/* What replies say of a destination: those of big and small systems, and those of somebody who wants us to slow down for others. */
#include "proto/relay/trouble.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct smtp_result result(enum smtp_outcome o, enum smtp_phase p, unsigned code, const char *status, struct str text)
{
	struct smtp_result r = { .outcome = o, .phase = p, .code = code, .text = text };
	snprintf(r.status, sizeof r.status, "%s", status);
	return r;
}

static void test_replies(void **state)
{
	static const struct {
		enum smtp_phase phase;
		unsigned code;
		const char *status, *text;
		enum trouble want;
	} cases[] = {
		/* connections */
		{ SMTP_PHASE_BANNER, 421, "4.7.0", "mx.example Error: too many connections from 192.0.2.1", TROUBLE_CONNECTIONS },
		{ SMTP_PHASE_BANNER, 421, "", "Too many concurrent SMTP connections; please try again later.", TROUBLE_CONNECTIONS },
		{ SMTP_PHASE_MAIL, 421, "4.3.2", "The maximum number of concurrent connections has exceeded a limit", TROUBLE_CONNECTIONS },
		{ SMTP_PHASE_BANNER, 554, "", "Connection limit exceeded", TROUBLE_CONNECTIONS },
		/* rates */
		{ SMTP_PHASE_DOT, 421, "4.7.28", "Our system has detected an unusual rate of unsolicited mail originating from your IP", TROUBLE_RATE },
		{ SMTP_PHASE_DOT, 421, "4.7.28", "", TROUBLE_RATE },
		{ SMTP_PHASE_RCPT, 450, "4.7.1", "Error: too much mail from 192.0.2.1", TROUBLE_RATE },
		{ SMTP_PHASE_MAIL, 421, "4.7.0", "[TS01] Messages from 192.0.2.1 temporarily deferred due to user complaints", TROUBLE_RATE },
		{ SMTP_PHASE_MAIL, 451, "4.7.500", "Server busy. Please try again later from [192.0.2.1].", TROUBLE_RATE },
		{ SMTP_PHASE_MAIL, 451, "4.7.650", "The mail server [192.0.2.1] has been temporarily rate limited due to IP reputation.", TROUBLE_RATE },
		{ SMTP_PHASE_MAIL, 451, "4.7.651", "", TROUBLE_RATE },
		{ SMTP_PHASE_BANNER, 421, "", "RP-001 exceeded the rate limit", TROUBLE_RATE },
		{ SMTP_PHASE_BANNER, 421, "4.7.0", "Try again later, closing connection.", TROUBLE_SYSTEM },
		{ SMTP_PHASE_RCPT, 452, "4.5.3", "Too many recipients this hour", TROUBLE_RATE },
		{ SMTP_PHASE_RCPT, 452, "", "You have reached your hourly limit", TROUBLE_RATE },
		/* blocked */
		{ SMTP_PHASE_RCPT, 554, "5.7.1", "Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org", TROUBLE_BLOCKED },
		{ SMTP_PHASE_BANNER, 554, "", "Your access to this mail system has been rejected due to the sending MTA's poor reputation", TROUBLE_BLOCKED },
		{ SMTP_PHASE_BANNER, 554, "", "no", TROUBLE_BLOCKED },
		{ SMTP_PHASE_RCPT, 550, "5.7.25", "whatever", TROUBLE_BLOCKED },
		{ SMTP_PHASE_RCPT, 450, "4.7.25", "Client host rejected: cannot find your hostname", TROUBLE_BLOCKED },
		{ SMTP_PHASE_EHLO, 550, "", "Access denied", TROUBLE_BLOCKED },
		/* the system */
		{ SMTP_PHASE_BANNER, 421, "", "Service not available", TROUBLE_SYSTEM },
		{ SMTP_PHASE_BANNER, 450, "", "", TROUBLE_SYSTEM },
		{ SMTP_PHASE_BANNER, 554, "", "No SMTP service here", TROUBLE_SYSTEM },
		{ SMTP_PHASE_MAIL, 452, "4.3.1", "Insufficient system storage", TROUBLE_SYSTEM },
		{ SMTP_PHASE_DATA, 451, "4.3.0", "Temporary server error", TROUBLE_SYSTEM },
		{ SMTP_PHASE_RCPT, 451, "4.4.3", "Temporary lookup failure", TROUBLE_SYSTEM },
		{ SMTP_PHASE_DOT, 421, "4.4.2", "mx.example Error: timeout exceeded", TROUBLE_SYSTEM },
		{ SMTP_PHASE_MAIL, 421, "", "see you", TROUBLE_SYSTEM },
		/* the message or mailbox */
		{ SMTP_PHASE_RCPT, 450, "4.2.0", "<a@b>: Recipient address rejected: Greylisted, see http://x", TROUBLE_GREYLISTED },
		{ SMTP_PHASE_RCPT, 451, "4.7.1", "Greylisting in action, please come back later", TROUBLE_GREYLISTED },
		{ SMTP_PHASE_RCPT, 451, "", "GREY LISTED", TROUBLE_GREYLISTED },
		{ SMTP_PHASE_RCPT, 550, "5.1.1", "greylist@example.org: user unknown", TROUBLE_RECIPIENT },
		{ SMTP_PHASE_RCPT, 450, "4.2.1", "The user you are trying to contact is receiving mail at a rate that prevents", TROUBLE_MAILBOX },
		{ SMTP_PHASE_RCPT, 452, "4.2.2", "The email account that you tried to reach is over quota", TROUBLE_MAILBOX },
		{ SMTP_PHASE_RCPT, 450, "", "mailbox busy", TROUBLE_MAILBOX },
		{ SMTP_PHASE_RCPT, 550, "5.1.1", "The email account that you tried to reach does not exist", TROUBLE_RECIPIENT },
		{ SMTP_PHASE_DOT, 550, "5.7.26", "This mail is unauthenticated", TROUBLE_POLICY },
		{ SMTP_PHASE_DOT, 554, "5.6.0", "rate limit blacklist too many connections", TROUBLE_POLICY },
		{ SMTP_PHASE_DOT, 552, "5.3.4", "too big", TROUBLE_POLICY },
		{ SMTP_PHASE_DOT, 554, "5.7.1", "Message contains spam", TROUBLE_POLICY },
		{ SMTP_PHASE_DOT, 554, "", "Transaction failed", TROUBLE_OTHER },
		{ SMTP_PHASE_RCPT, 451, "", "Try again later", TROUBLE_OTHER },
		{ SMTP_PHASE_RCPT, 550, "x.y.z", "nonsense", TROUBLE_OTHER },
		{ SMTP_PHASE_STARTTLS, 454, "4.7.0", "TLS not available due to local problem", TROUBLE_TLS },
		/* words within words do not count, and punctuation does not hide them */
		{ SMTP_PHASE_DOT, 554, "", "turbline herbl", TROUBLE_OTHER },
		{ SMTP_PHASE_RCPT, 450, "", "rate-limit!", TROUBLE_RATE },
		{ SMTP_PHASE_RCPT, 450, "", "too\tmany,   connections", TROUBLE_CONNECTIONS },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct smtp_result r = result(cases[i].code < 500 ? SMTP_OUT_TRANSIENT : SMTP_OUT_PERMANENT, cases[i].phase, cases[i].code, cases[i].status,
		    str_from(cases[i].text));
		enum trouble got = trouble_of(&r);
		if (got != cases[i].want)
			fail_msg("%u %s %s: %s, not %s", cases[i].code, cases[i].status, cases[i].text, trouble_name(got), trouble_name(cases[i].want));
	}
}

static void test_without(void **state)
{
	struct smtp_result r = result(SMTP_OUT_OK, SMTP_PHASE_DOT, 250, "2.0.0", STR("too many connections"));
	(void)state;
	assert_int_equal(trouble_of(&r), TROUBLE_NONE);
	r.outcome = SMTP_OUT_LOST;
	assert_int_equal(trouble_of(&r), TROUBLE_LOST);
	r.phase = SMTP_PHASE_CONNECT;
	assert_int_equal(trouble_of(&r), TROUBLE_UNREACHABLE);
	r.phase = SMTP_PHASE_BANNER;
	assert_int_equal(trouble_of(&r), TROUBLE_UNREACHABLE);
	r.outcome = SMTP_OUT_PROTOCOL;
	assert_int_equal(trouble_of(&r), TROUBLE_PROTOCOL);
	r = result(SMTP_OUT_PERMANENT, SMTP_PHASE_MAIL, 0, "5.3.4", STR("message too large")); /* our own refusal */
	assert_int_equal(trouble_of(&r), TROUBLE_OTHER);
	for (int t = 0; t < TROUBLE_N; t++) {
		assert_true(trouble_name((enum trouble)t)[0]);
		assert_int_equal(trouble_is_destination((enum trouble)t), t >= TROUBLE_CONNECTIONS && t <= TROUBLE_DNS);
	}
	assert_string_equal(trouble_name((enum trouble)99), "");
}

/* A text of any length and any octets. */
static void test_hostile(void **state)
{
	char *text = malloc(100000);
	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < 100000; i++)
		text[i] = (char)(i * 131 % 256);
	struct smtp_result r = result(SMTP_OUT_TRANSIENT, SMTP_PHASE_RCPT, 450, "4.7.1", str_n(text, 100000));
	(void)trouble_of(&r);
	memset(text, ' ', 100000);
	memcpy(text + 90000, "too many connections", 20); /* beyond what is kept of a reply */
	r.text = str_n(text, 100000);
	assert_int_equal(trouble_of(&r), TROUBLE_POLICY);
	for (size_t i = 0; i < 100000; i += 4)
		memcpy(text + i, "rat ", 4); /* many beginnings of a phrase */
	(void)trouble_of(&r);
	r.text = STR_NULL;
	assert_int_equal(trouble_of(&r), TROUBLE_POLICY);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replies), cmocka_unit_test(test_without), cmocka_unit_test(test_hostile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
