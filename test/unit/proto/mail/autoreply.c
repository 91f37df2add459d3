/* Automatic replies: a table of messages and why they get none, what the answer's header is, two responders wired together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/mail/autoreply.h"
#include "proto/mail/header.h"

static const struct str own[] = { STR_INIT("me@home.example"), STR_INIT("alias@home.example") };

#define TO "To: Me <me@home.example>\r\n"
static const struct {
	const char *from, *headers;
	enum mail_autoreply_why why;
} table[] = {
	{ "you@x.example", TO, MAIL_AUTOREPLY_ANSWER },
	{ "you@x.example", "cc: you@x.example, \"A, B\" <ALIAS@Home.Example>\r\n", MAIL_AUTOREPLY_ANSWER },
	{ "you@x.example", "Resent-To: me@home.example\r\n", MAIL_AUTOREPLY_ANSWER },
	{ "you@x.example", TO "Auto-Submitted: no (a person)\r\n", MAIL_AUTOREPLY_ANSWER },
	{ "you@x.example", TO "Precedence: first-class\r\n", MAIL_AUTOREPLY_ANSWER },
	{ "you@x.example", TO "X-Auto-Response-Suppress: NDR, RN\r\n", MAIL_AUTOREPLY_ANSWER },
	{ "", TO, MAIL_AUTOREPLY_NULL_SENDER },
	{ "not an address", TO, MAIL_AUTOREPLY_BAD_SENDER },
	{ "me@HOME.example", TO, MAIL_AUTOREPLY_OWN },
	{ "Mailer-Daemon@x.example", TO, MAIL_AUTOREPLY_SYSTEM_SENDER },
	{ "owner-list@x.example", TO, MAIL_AUTOREPLY_SYSTEM_SENDER },
	{ "list-request@x.example", TO, MAIL_AUTOREPLY_SYSTEM_SENDER },
	{ "list-bounces+me=home.example@x.example", TO, MAIL_AUTOREPLY_SYSTEM_SENDER },
	{ "no-reply@x.example", TO, MAIL_AUTOREPLY_SYSTEM_SENDER },
	{ "you@x.example", TO "Auto-Submitted: auto-generated; owner-email=\"x\"\r\n", MAIL_AUTOREPLY_AUTOMATIC },
	{ "you@x.example", TO "Auto-Submitted: no\r\nAUTO-SUBMITTED:\r\n (c) Auto-Replied\r\n", MAIL_AUTOREPLY_AUTOMATIC },
	{ "you@x.example", TO "Auto-Submitted:\r\n", MAIL_AUTOREPLY_AUTOMATIC },
	{ "you@x.example", TO "X-Autoreply: yes\r\n", MAIL_AUTOREPLY_AUTOMATIC },
	{ "you@x.example", TO "X-Auto-Response-Suppress: DR, OOF,\tRN\r\n", MAIL_AUTOREPLY_SUPPRESSED },
	{ "you@x.example", TO "List-Unsubscribe: <mailto:x@x.example>\r\n", MAIL_AUTOREPLY_LIST },
	{ "you@x.example", TO "Precedence: BULK\r\n", MAIL_AUTOREPLY_BULK },
	{ "you@x.example", "To: list@x.example\r\n", MAIL_AUTOREPLY_NOT_ADDRESSED },
	{ "you@x.example", "", MAIL_AUTOREPLY_NOT_ADDRESSED },
	{ "you@x.example", "To: not.me@home.example, me@home.example.com\r\nSubject: me@home.example\r\n", MAIL_AUTOREPLY_NOT_ADDRESSED },
	{ "you@x.example", "To: \"me@home.example\" <x@y.example>\r\n", MAIL_AUTOREPLY_NOT_ADDRESSED },
};

static void decisions(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct mail_autoreply in = { .headers = str_from(table[i].headers), .mail_from = str_from(table[i].from), .own = own, .n_own = 2 };
		enum mail_autoreply_why why = mail_autoreply_decide(&in);
		if (why != table[i].why)
			fail_msg("case %zu: %s", i, mail_autoreply_text(why));
	}
	for (int i = 0; i <= MAIL_AUTOREPLY_MEMORY; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(mail_autoreply_text((enum mail_autoreply_why)i), mail_autoreply_text((enum mail_autoreply_why)k));
}

static void kinds(void **state)
{
	(void)state;
	assert_true(mail_autoreply_is(STR("Auto-Submitted: auto-replied\r\n")));
	assert_true(mail_autoreply_is(STR("Subject: Automatic reply: hello\r\n")));
	assert_true(mail_autoreply_is(STR("Return-Path: <>\r\nPrecedence: bulk\r\n")));
	assert_false(mail_autoreply_is(STR("Auto-Submitted: auto-replied\r\nX-Failed-Recipients: a@b.example\r\n")));
	assert_false(mail_autoreply_is(STR("Auto-Submitted: auto-replied\r\nContent-Type: multipart/report; report-type=delivery-status\r\n")));
	assert_false(mail_autoreply_is(STR("From: x <Mailer-Daemon@b.example>\r\nAuto-Submitted: auto-replied\r\n")));
	assert_false(mail_autoreply_is(STR("Precedence: bulk\r\nList-Id: <x.y>\r\nReturn-Path: <x@y.example>\r\n")));
	assert_false(mail_autoreply_is(STR("Subject: Re: vacation\r\nAuto-Submitted: auto-generated\r\n")));
	assert_false(mail_autoreply_is(STR("")));
}

static void answer(void **state)
{
	(void)state;
	struct mail_autoreply in = { .headers = STR("Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nMessage-ID: <3@x>\r\nReferences: <1@x>\r\n <2@x>\r\n"), .mail_from = STR("you@x.example"), .own = own, .n_own = 2 };
	struct mail_autoreply_how how = { .from = own[0], .name = STR("Me, Myself"), .message_id = STR("9@home.example"), .now_us = 1700000000000000 };
	struct buf b = BUF_INIT(65536);
	assert_int_equal(mail_autoreply_write(&in, &how, &b), 0);
	assert_string_equal(buf_z(&b), "From: \"Me, Myself\" <me@home.example>\r\nTo: you@x.example\r\nSubject: =?utf-8?q?Auto=3A_Gr=C3=BC=C3=9Fe?=\r\n"
	    "Date: Tue, 14 Nov 2023 22:13:20 +0000\r\nMessage-ID: <9@home.example>\r\nIn-Reply-To: <3@x>\r\nReferences: <1@x> <2@x> <3@x>\r\n"
	    "Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=us-ascii\r\nContent-Transfer-Encoding: 7bit\r\n");
	/* nothing of the original adds a field */
	buf_reset(&b);
	in.headers = STR("Subject: =?utf-8?q?x=0D=0ABcc:_a@b?=\r\nMessage-ID: <a\rBcc: x> <ok@x>\r\n");
	assert_int_equal(mail_autoreply_write(&in, &how, &b), 0);
	assert_true(mail_headers_sendable(buf_str(&b)) && mail_field_count(buf_str(&b), STR("Bcc"), 0) == 0);
	assert_non_null(strstr(buf_z(&b), "In-Reply-To: <ok@x>\r\n"));
	/* an address that cannot be written */
	buf_reset(&b);
	buf_addz(&b, "A: b\r\n");
	in.mail_from = STR("\xc3\xbc@x.example");
	assert_int_equal(mail_autoreply_write(&in, &how, &b), -1);
	assert_string_equal(buf_z(&b), "A: b\r\n");
	how.utf8 = how.eight_bit = true;
	assert_int_equal(mail_autoreply_write(&in, &how, &b), 0);
	buf_free(&b);
	/* many references: the first and the last ones */
	struct buf h = BUF_INIT(65536);
	b = BUF_INIT(65536);
	buf_addz(&h, "Message-ID: <last@x>\r\nReferences:");
	for (int i = 0; i < 500; i++)
		buf_addf(&h, " <%d@x>\r\n", i);
	in = (struct mail_autoreply){ .headers = buf_str(&h), .mail_from = STR("you@x.example") };
	assert_int_equal(mail_autoreply_write(&in, &how, &b), 0);
	assert_non_null(strstr(buf_z(&b), "References: <0@x>"));
	assert_non_null(strstr(buf_z(&b), "<499@x> <last@x>"));
	assert_null(strstr(buf_z(&b), "<250@x>"));
	buf_free(&h);
	buf_free(&b);
}

/* RFC 3834 §1: loops. One answers the first message; the other says nothing to that. */
static void two_responders(void **state)
{
	(void)state;
	struct str a = STR("a@a.example"), b = STR("b@b.example");
	struct buf out = BUF_INIT(65536);
	struct mail_autoreply at_b = { .headers = STR("From: a@a.example\r\nTo: b@b.example\r\n"), .mail_from = a, .own = &b, .n_own = 1 };
	struct mail_autoreply_how how = { .from = b, .message_id = STR("1@b.example") };
	assert_int_equal(mail_autoreply_decide(&at_b), MAIL_AUTOREPLY_ANSWER);
	assert_int_equal(mail_autoreply_write(&at_b, &how, &out), 0);
	struct mail_autoreply at_a = { .headers = buf_str(&out), .mail_from = STR_NULL, .own = &a, .n_own = 1 };
	assert_int_equal(mail_autoreply_decide(&at_a), MAIL_AUTOREPLY_NULL_SENDER);
	at_a.mail_from = b; /* even where a relay lost the null sender */
	assert_int_equal(mail_autoreply_decide(&at_a), MAIL_AUTOREPLY_AUTOMATIC);
	assert_true(mail_autoreply_is(buf_str(&out)));
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(decisions), cmocka_unit_test(kinds), cmocka_unit_test(answer), cmocka_unit_test(two_responders) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
