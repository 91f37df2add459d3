/* What programs write, and what is sent. "%" in an expected header stands for a field that was made (checked apart). */
#include "submit/submit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#define MADE "From: me@host.test\r\nDate: Thu, 1 Jan 1970 00:00:00 +0000\r\nMessage-ID: <k@host.test>\r\n"
#define DATE_ID "Date: Thu, 1 Jan 1970 00:00:00 +0000\r\nMessage-ID: <k@host.test>\r\n"

struct outcome {
	struct submit_message m;
	struct submit_addresses rcpts;
	enum submit_fault fault;
};

static struct outcome prepare(struct str in, bool extract, const char *name)
{
	const struct submit_options o = { .host = "host.test", .from = STR("me@host.test"), .full_name = str_from(name), .extract = extract, .unique = "k" };
	struct outcome r = { .m = { .headers = BUF_INIT(2 << 20), .body = BUF_INIT(1 << 20) } };
	submit_addresses_init(&r.rcpts);
	r.fault = submit_prepare(&r.m, &r.rcpts, in, &o);
	return r;
}

static void done(struct outcome *r)
{
	submit_addresses_done(&r->rcpts);
	buf_free(&r->m.headers);
	buf_free(&r->m.body);
}

static void messages(void **state)
{
	static const struct {
		struct str in;
		const char *headers, *body, *rcpts;
	} cases[] = {
		{ STR_INIT(""), MADE, "", "" },
		{ STR_INIT("\n"), MADE, "", "" },
		{ STR_INIT("hello\n"), MADE, "hello\r\n", "" },
		{ STR_INIT("hello\n\nworld"), MADE, "hello\r\n\r\nworld\r\n", "" },
		{ STR_INIT("To: a@b.test\n\nx\n"), MADE "To: a@b.test\r\n", "x\r\n", "a@b.test" },
		{ STR_INIT("To: a@b.test\r\n\r\nx\r\n"), MADE "To: a@b.test\r\n", "x\r\n", "a@b.test" },
		{ STR_INIT("To: a@b.test\r\r\n\r\r\nx\r\r\n"), MADE "To: a@b.test\r\n", "x\r\n", "a@b.test" },
		{ STR_INIT("From me Mon Nov 30\nTo: a@b.test\n\nFrom here\n"), MADE "To: a@b.test\r\n", "From here\r\n", "a@b.test" },
		{ STR_INIT("To: a@b.test\nno field\nCc: c@d.test\n"), MADE "To: a@b.test\r\n", "no field\r\nCc: c@d.test\r\n", "a@b.test" },
		{ STR_INIT("To: a@b.test,\n c@d.test\ncc : e\nBCC: f@g.test\nReturn-Path: <x>\n\n"), MADE "To: a@b.test,\r\n c@d.test\r\ncc : e\r\n", "",
		    "a@b.test c@d.test e@host.test f@g.test" },
		{ STR_INIT("To: a@b.test\n   \nCc: c@d.test\n\nx"), MADE "To: a@b.test\r\nCc: c@d.test\r\n", "x\r\n", "a@b.test c@d.test" },
		{ STR_INIT(" begins with a fold\nTo: a@b.test\n"), MADE, " begins with a fold\r\nTo: a@b.test\r\n", "" },
		{ STR_INIT("From: x@y.test\nDate: then\nMessage-Id: <i@j>\nTo: a@b.test\n\nx"),
		    "From: x@y.test\r\nDate: then\r\nMessage-Id: <i@j>\r\nTo: a@b.test\r\n", "x\r\n", "a@b.test" },
		{ STR_INIT("To: a@b.test\nBcc: b@b.test\nResent-To: r@b.test\nresent-bcc: s@b.test\n\nx"),
		    "Resent-From: me@host.test\r\nResent-Date: Thu, 1 Jan 1970 00:00:00 +0000\r\nResent-Message-ID: <k@host.test>\r\n" MADE
		    "To: a@b.test\r\nResent-To: r@b.test\r\n", "x\r\n", "r@b.test s@b.test" },
		{ STR_INIT("\nprogress 1%\rprogress 2%\r\nnul\0here\n\r\rend"), MADE, "progress 1%\r\nprogress 2%\r\nnul?here\r\n\r\n\r\nend\r\n", "" },
		{ STR_INIT("Subject: To: x@y.test\n\nTo: z@y.test\n"), MADE "Subject: To: x@y.test\r\n", "To: z@y.test\r\n", "" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct outcome r = prepare(cases[i].in, true, "");
		struct buf got = BUF_INIT(4096);
		const char *p = r.rcpts.text.p;
		for (size_t k = 0; k < r.rcpts.n; k++, p += strlen(p) + 1)
			buf_addf(&got, "%s%s", k ? " " : "", p);
		if (r.fault || strcmp(buf_z(&r.m.headers), cases[i].headers) || strcmp(buf_z(&r.m.body), cases[i].body) || strcmp(buf_z(&got), cases[i].rcpts))
			fail_msg("case %zu: %s\n%s\n%s\n%s", i, submit_fault_text(r.fault), buf_z(&r.m.headers), buf_z(&r.m.body), buf_z(&got));
		assert_true(!(smtp_content_scan(buf_str(&r.m.headers), buf_str(&r.m.body)) & SMTP_CONTENT_BAD));
		buf_free(&got);
		done(&r);
		/* without -t nobody is read from the header, and Bcc goes all the same */
		r = prepare(cases[i].in, false, "");
		assert_int_equal(r.rcpts.n, 0);
		assert_string_equal(buf_z(&r.m.headers), cases[i].headers);
		done(&r);
	}
}

static void refused(void **state)
{
	static const struct {
		struct str in;
		enum submit_fault fault;
	} cases[] = {
		{ STR_INIT("Subject: x\rBcc: y@z\n\n"), SUBMIT_HEADER_CR },
		{ STR_INIT("Subject: x\n y\rBcc: y@z\n\n"), SUBMIT_HEADER_CR },
		{ STR_INIT("Subject: x\0\n\n"), SUBMIT_HEADER_NUL },
	};
	struct buf large = BUF_INIT(4 << 20);
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct outcome r = prepare(cases[i].in, true, "");
		assert_int_equal(r.fault, cases[i].fault);
		assert_true(*submit_fault_text(r.fault));
		done(&r);
	}
	for (unsigned i = 0; i < 70000; i++)
		buf_addz(&large, "X: 0123456789\n");
	struct outcome r = prepare(buf_str(&large), true, "");
	assert_int_equal(r.fault, SUBMIT_HEADER_LARGE);
	done(&r);
	buf_reset(&large);
	for (unsigned i = 0; i < 600000; i++)
		buf_addz(&large, "\n"); /* twice as much when it is sent */
	r = prepare(buf_str(&large), true, "");
	assert_int_equal(r.fault, SUBMIT_TOO_LARGE);
	done(&r);
	buf_reset(&large);
	buf_addz(&large, "To: ");
	for (unsigned i = 0; i <= SUBMIT_RCPTS_MAX; i++)
		buf_addf(&large, "%u,", i);
	r = prepare(buf_str(&large), true, "");
	assert_int_equal(r.fault, SUBMIT_TOO_MANY);
	done(&r);
	buf_free(&large);
}

static void names(void **state)
{
	static const struct {
		const char *name, *from;
	} cases[] = {
		{ "A B", "From: A B <me@host.test>\r\n" },
		{ "A. B", "From: \"A. B\" <me@host.test>\r\n" },
		{ "A \"x\" B", "From: \"A \\\"x\\\" B\" <me@host.test>\r\n" },
		{ "J\xc3\xbcrgen", "From: =?utf-8?Q?J=C3=BCrgen?= <me@host.test>\r\n" },
		{ "x\r\nBcc: y@z", "From: me@host.test\r\n" },
		{ "\xff", "From: me@host.test\r\n" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct outcome r = prepare(STR("\nx"), false, cases[i].name);
		struct buf want = BUF_INIT(4096);
		buf_addf(&want, "%s" DATE_ID, cases[i].from);
		assert_string_equal(buf_z(&r.m.headers), buf_z(&want));
		buf_free(&want);
		done(&r);
	}
}

/* The letter about refusals is a message itself, whatever stood in the one it is about. */
static void reports(void **state)
{
	struct smtp_client_rcpt rcpts[] = { { .address = STR("a@b.test"), .result = { .outcome = SMTP_OUT_PERMANENT, .code = 550, .status = "5.1.1", .text = STR("who?") } },
		{ .address = STR("c@d.test"), .result = { .outcome = SMTP_OUT_OK } } };
	const struct smtp_client_msg msg = { .headers = STR("Subject: x\r\nX-Bell: \x07\x1b[2J\r\n"), .rcpts = rcpts, .n_rcpts = 2 };
	struct submit_message m = { .headers = BUF_INIT(65536), .body = BUF_INIT(65536) };
	struct buf problems = BUF_INIT(4096);
	size_t n = 0;
	(void)state;
	submit_problems(&problems, &msg, &n);
	assert_int_equal(n, 1);
	assert_string_equal(buf_z(&problems), "<a@b.test>: 550 5.1.1 who?\n");
	assert_int_equal(submit_report(&m, &msg, buf_str(&problems), "host.test", STR("me@host.test"), 0, 0, "k"), 0);
	assert_non_null(strstr(buf_z(&m.body), "\r\n<a@b.test>: 550 5.1.1 who?\r\n"));
	assert_non_null(strstr(buf_z(&m.body), "X-Bell: ??[2J\r\n"));
	assert_non_null(strstr(buf_z(&m.headers), "Auto-Submitted: auto-replied\r\n"));
	assert_true(!(smtp_content_scan(buf_str(&m.headers), buf_str(&m.body)) & SMTP_CONTENT_BAD));
	buf_free(&m.headers);
	buf_free(&m.body);
	buf_free(&problems);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(messages), cmocka_unit_test(refused), cmocka_unit_test(names), cmocka_unit_test(reports) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
