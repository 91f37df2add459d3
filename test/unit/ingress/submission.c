/* The header of a user's message (submission.c): whose addresses may stand in it, what is refused as no form, what is completed. */
#include "ingress/auth.h"
#include "ingress/session.h"
#include "ingress/submission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct terms terms;
static struct signed_in who;
static struct session session;

static void begin(bool own_header, bool remove_bcc)
{
	static const char senders[] = "boss@example.test\0@lists.example.test";
	terms = (struct terms){ .need_auth = true, .own_header = own_header, .remove_bcc = remove_bcc };
	who = (struct signed_in){ .account = "alice@example.test", .n_senders = 2, .senders = BUF_INIT(200) };
	buf_add(&who.senders, senders, sizeof senders);
	session = (struct session){ .terms = &terms, .who = &who };
}

static void end(void)
{
	buf_free(&who.senders);
}

#define OK "From: alice@example.test\r\n"

static void owner(void **st)
{
	static const struct {
		const char *head;
		enum submission_fault want;
		const char *word;
	} of[] = {
		{ OK, SUBMISSION_OK, "" },
		{ "From: ALICE@Example.TEST\r\n", SUBMISSION_OK, "" },
		{ "fRoM : \"Boss (not me)\" <alice@example.test> (x)\r\n", SUBMISSION_OK, "" },
		{ "From: boss@example.test\r\n", SUBMISSION_OK, "" },
		{ "From: any@lists.example.test\r\n", SUBMISSION_OK, "" },
		{ "From: any@sub.lists.example.test\r\n", SUBMISSION_OWNER, "<any@sub.lists.example.test>" },
		{ "From: xboss@example.test\r\n", SUBMISSION_OWNER, "<xboss@example.test>" },
		{ "From: \"alice@example.test\" <eve@example.test>\r\n", SUBMISSION_OWNER, "<eve@example.test>" },
		{ "From: alice@example.test,\r\n eve@example.test\r\n", SUBMISSION_OWNER, "<eve@example.test>" },
		{ "From: us: alice@example.test, eve@example.test;\r\n", SUBMISSION_OWNER, "<eve@example.test>" },
		{ OK "Sender: boss@example.test\r\n", SUBMISSION_OK, "" },
		{ OK "Sender: eve@example.test\r\n", SUBMISSION_OWNER, "Sender: <eve@example.test>" },
		/* no form that every reader takes for the same */
		{ "Subject: x\r\n", SUBMISSION_FORM, "no From" },
		{ "From:\r\n", SUBMISSION_FORM, "From" },
		{ "From: alice\r\n", SUBMISSION_FORM, "From" },
		{ "From: alice@example.test <eve@example.test\r\n", SUBMISSION_FORM, "From" },
		{ "From: nobody:;\r\n", SUBMISSION_FORM, "From" },
		{ OK "from: alice@example.test\r\n", SUBMISSION_FORM, "more than one From" },
		{ OK "From : eve@example.test\r\n", SUBMISSION_FORM, "more than one From" },
		{ OK "Sender: alice@example.test\r\nSender: eve@example.test\r\n", SUBMISSION_FORM, "more than one Sender" },
		{ OK "Sender: alice@example.test, boss@example.test\r\n", SUBMISSION_FORM, "more than one address" },
		{ OK "Sender:\r\n", SUBMISSION_FORM, "Sender" },
	};
	struct submission sub;
	char text[400];
	(void)st;
	for (unsigned check = 0; check < 2; check++) {
		begin(check, true);
		for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
			enum submission_fault want = of[i].want == SUBMISSION_OWNER && !check ? SUBMISSION_OK : of[i].want;
			text[0] = 0;
			enum submission_fault got = submission_check(&session, str_from(of[i].head), STR("alice@example.test"), &sub, text, sizeof text);
			if (got != want || (want && !strstr(text, of[i].word)))
				fail_msg("%u %s: %d %s", check, of[i].head, (int)got, text);
		}
		end();
	}
}

static void complete(void **st)
{
#define ID "Message-ID: <7.1700000000000000@mx.example.test>\r\n"
#define DATE "Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n"
	static const struct {
		const char *from, *head, *want;
		bool keep_bcc;
	} of[] = {
		{ "alice@example.test", OK, DATE ID OK, false },
		{ "alice@example.test", OK "DATE: x\r\nmessage-id: <1@x>\r\n", OK "DATE: x\r\nmessage-id: <1@x>\r\n", false },
		{ "alice@example.test", OK "Date: x\r\n", ID OK "Date: x\r\n", false },
		/* several authors: who sent it, by the envelope, else the first of them */
		{ "boss@example.test", "From: alice@example.test, boss@example.test\r\n",
		    DATE ID "Sender: <boss@example.test>\r\nFrom: alice@example.test, boss@example.test\r\n", false },
		{ "", "From: X <boss@example.test>, alice@example.test\r\n",
		    DATE ID "Sender: <boss@example.test>\r\nFrom: X <boss@example.test>, alice@example.test\r\n", false },
		{ "alice@example.test", "From: alice@example.test, boss@example.test\r\nSender: alice@example.test\r\n",
		    DATE ID "From: alice@example.test, boss@example.test\r\nSender: alice@example.test\r\n", false },
		/* hidden recipients stay hidden, with all lines of the field */
		{ "alice@example.test", "bCC: a@b,\r\n\tc@d\r\n" OK "Resent-Bcc: e@f\r\nX-Bcc: stays\r\nBcc: g@h\r\n", DATE ID OK "X-Bcc: stays\r\n", false },
		{ "alice@example.test", OK "Bcc: a@b\r\n", DATE ID OK "Bcc: a@b\r\n", true },
	};
	struct submission sub;
	char text[400];
	(void)st;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct buf out = BUF_INIT(4096);
		begin(true, !of[i].keep_bcc);
		assert_int_equal(submission_check(&session, str_from(of[i].head), str_from(of[i].from), &sub, text, sizeof text), SUBMISSION_OK);
		assert_int_equal(submission_headers(&sub, str_from(of[i].head), "7", "mx.example.test", INT64_C(1700000000000000), &out), 0);
		assert_string_equal(buf_z(&out), of[i].want);
		buf_free(&out);
		/* no room: said, not cut */
		struct buf small = BUF_INIT(20);
		assert_int_equal(submission_headers(&sub, str_from(of[i].head), "7", "mx.example.test", INT64_C(1700000000000000), &small) ||
		    small.failed, 1);
		buf_free(&small);
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(owner), cmocka_unit_test(complete) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
