/* The report writer: one report in full, the choices of form, hostile input, and the small pieces. */
#include "proto/dsn/dsn.h"
#include "proto/dsn/read.h"
#include "proto/mail/encoded.h"
#include "proto/mail/header.h"
#include "proto/mail/transfer.h"
#include "proto/smtp/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const int64_t now = INT64_C(1796038764) * 1000000, arrival = INT64_C(1796035164) * 1000000;

static void assert_text(struct str got, const char *want)
{
	if (!str_eq(got, str_from(want)))
		print_error("got:\n%.*s\nwant:\n%s\n", STR_ARG(got), want);
	assert_true(str_eq(got, str_from(want)));
}

struct report {
	struct buf headers, body;
	struct dsn_form form;
	struct str parts[3]; /* with their own headers */
	char boundary[80];
};

/* Takes a report apart again by RFC 2046's rules, checking as it goes. */
static void parse(struct report *r)
{
	struct mail_field f;
	assert_true(mail_headers_sendable(buf_str(&r->headers)));
	unsigned scan = smtp_content_scan(buf_str(&r->headers), buf_str(&r->body));
	assert_false(scan & SMTP_CONTENT_BAD);
	assert_int_equal(r->form.eight_bit, !!(scan & SMTP_CONTENT_BODY_8BIT));
	assert_int_equal(mail_field_find(buf_str(&r->headers), STR("Content-Type"), 0, &f), 0);
	const char *at = memmem(f.value.p, f.value.n, "boundary=\"", 10);
	assert_non_null(at);
	assert_int_equal(sscanf(at + 10, "%70[^\"]", r->boundary), 1);
	char delim[90];
	snprintf(delim, sizeof delim, "--%s", r->boundary);
	struct str rest = buf_str(&r->body);
	for (int i = 0; i <= 3; i++) {
		const char *p = memmem(rest.p, rest.n, delim, strlen(delim));
		assert_non_null(p);
		assert_true(p == r->body.p || p[-1] == '\n');
		if (i)
			r->parts[i - 1].n = (size_t)(p - r->parts[i - 1].p) - 2;
		rest = str_skip(rest, (size_t)(p - rest.p) + strlen(delim));
		if (i < 3) {
			assert_memory_equal(rest.p, "\r\n", 2);
			r->parts[i].p = rest.p + 2;
		} else {
			assert_text(rest, "--\r\n");
		}
	}
}

static void write_report(struct report *r, const struct dsn *d)
{
	*r = (struct report){ .headers = BUF_INIT(1 << 20), .body = BUF_INIT(1 << 24) };
	assert_int_equal(dsn_write(d, &r->headers, &r->body, &r->form), 0);
	parse(r);
}

static void done(struct report *r)
{
	buf_free(&r->headers);
	buf_free(&r->body);
}

static struct dsn simple(const struct dsn_rcpt *r, size_t n)
{
	return (struct dsn){ .hostname = STR("mx.example.test"), .to = STR("ann@example.org"), .id = STR("17"), .now_us = now,
		.arrival_us = arrival, .headers = STR("Message-ID: <m1@example.org>\r\nSubject: hello\r\n"),
		.body = STR("body\r\n"), .max_original = 50000, .rcpts = r, .n_rcpts = n };
}

static void test_whole(void **state)
{
	struct dsn_rcpt rcpts[] = {
		{ .address = STR("bob@example.net"), .orcpt = STR("rfc822;bob+2Bx@example.net"), .status = STR("5.1.1"),
		    .remote_mta = STR("mx.example.net"), .code = 550, .reply = STR("no such user here"),
		    .diagnostic = STR("550 5.1.1 no such user here"), .phase = STR("rcpt") },
		{ .address = STR("eve@example.net"), .status = STR("4.4.7"), .diagnostic = STR("delivery time expired") },
	};
	struct dsn d = simple(rcpts, 2);
	struct report r;
	(void)state;
	d.envid = STR("QQ+3D1");
	write_report(&r, &d);
	char want[2000];
	snprintf(want, sizeof want,
	    "From: Mail Delivery System <MAILER-DAEMON@mx.example.test>\r\nTo: <ann@example.org>\r\n"
	    "Subject: Undelivered Mail Returned to Sender\r\nDate: Mon, 30 Nov 2026 11:39:24 +0000\r\n"
	    "Message-ID: <%llx.17.dsn@mx.example.test>\r\nIn-Reply-To: <m1@example.org>\r\nReferences: <m1@example.org>\r\n"
	    "Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n"
	    "Content-Type: multipart/report; report-type=delivery-status;\r\n\tboundary=\"%s\"\r\n"
	    "Content-Transfer-Encoding: 7bit\r\n", (unsigned long long)now, r.boundary);
	assert_text(buf_str(&r.headers), want);
	assert_text(r.parts[0],
	    "Content-Type: text/plain; charset=us-ascii\r\nContent-Description: Notification\r\n"
	    "Content-Transfer-Encoding: 7bit\r\n\r\n"
	    "This is the mail system at host mx.example.test.\r\n\r\n"
	    "I am sorry to tell you that your message could not be delivered to the\r\n"
	    "following recipients. It will not be tried again for them.\r\n"
	    "Your message is attached.\r\n\r\n"
	    "<bob@example.net>:\r\n"
	    "    You wrote to <bob+x@example.net>, which leads there.\r\n"
	    "    The address does not exist there. Please check its spelling, or ask the\r\n"
	    "    person for the right one.\r\n"
	    "    The server mx.example.net said: 550 no such user here (in reply to the\r\n"
	    "    recipient address)\r\n\r\n"
	    "<eve@example.net>:\r\n"
	    "    The message could not be handed over within the time allowed. Please try\r\n"
	    "    again later; if it is urgent, use another way.\r\n"
	    "    Reason: delivery time expired\r\n\r\n");
	assert_text(r.parts[1],
	    "Content-Type: message/delivery-status\r\nContent-Description: Delivery report\r\n"
	    "Content-Transfer-Encoding: 7bit\r\n\r\n"
	    "Reporting-MTA: dns; mx.example.test\r\nOriginal-Envelope-Id: QQ=1\r\n"
	    "Arrival-Date: Mon, 30 Nov 2026 10:39:24 +0000\r\nX-Pepsi-Queue-ID: 17\r\n\r\n"
	    "Original-Recipient: rfc822; bob+x@example.net\r\nFinal-Recipient: rfc822; bob@example.net\r\n"
	    "Action: failed\r\nStatus: 5.1.1\r\nRemote-MTA: dns; mx.example.net\r\n"
	    "Diagnostic-Code: smtp; 550 5.1.1 no such user here\r\n"
	    "Last-Attempt-Date: Mon, 30 Nov 2026 11:39:24 +0000\r\n\r\n"
	    "Final-Recipient: rfc822; eve@example.net\r\nAction: failed\r\nStatus: 4.4.7\r\n"
	    "Diagnostic-Code: X-Pepsi; delivery time expired\r\n"
	    "Last-Attempt-Date: Mon, 30 Nov 2026 11:39:24 +0000\r\n");
	assert_text(r.parts[2],
	    "Content-Type: message/rfc822\r\nContent-Description: Your message\r\nContent-Transfer-Encoding: 7bit\r\n\r\n"
	    "Message-ID: <m1@example.org>\r\nSubject: hello\r\n\r\nbody\r\n");
	assert_true(r.form.full);
	done(&r);
}

static void test_forms(void **state)
{
	struct dsn_rcpt one = { .address = STR("b@c"), .status = STR("5.0.0"), .diagnostic = STR("x") };
	static const struct {
		enum dsn_kind kind;
		char ret;
		size_t max;
		bool smtputf8;
		const char *to, *headers, *body;
		const char *part; /* how the third one begins */
		bool full, eight;
	} cases[] = {
		{ DSN_FAILED, 0, 100, false, "a@b", "S: x\r\n", "y\r\n", "Content-Type: message/rfc822\r\n", true, false },
		{ DSN_FAILED, 'F', 100, false, "a@b", "S: x\r\n", "y\r\n", "Content-Type: message/rfc822\r\n", true, false },
		{ DSN_FAILED, 'H', 100, false, "a@b", "S: x\r\n", "y\r\n", "Content-Type: text/rfc822-headers\r\n", false, false },
		{ DSN_FAILED, 'F', 10, false, "a@b", "S: x\r\n", "yyy\r\n", "Content-Type: text/rfc822-headers\r\n", false, false },
		{ DSN_RELAYED, 'F', 100, false, "a@b", "S: x\r\n", "y\r\n", "Content-Type: text/rfc822-headers\r\n", false, false },
		{ DSN_DELAYED, 0, 100, false, "a@b", "S: x\r\n", "\xe9\r\n", "Content-Type: text/rfc822-headers\r\n", false, false },
		{ DSN_FAILED, 0, 100, false, "a@b", "S: x\r\n", "\xe9\r\n", "Content-Type: message/rfc822\r\n", true, true },
		{ DSN_FAILED, 'H', 100, false, "a@b", "S: \xe9\r\n", "y\r\n", "Content-Type: text/rfc822-headers\r\n", false, true },
		{ DSN_FAILED, 0, 100, true, "a@b", "S: \xc3\xa9\r\n", "y\r\n", "Content-Type: message/global\r\n", true, true },
		{ DSN_FAILED, 'H', 100, false, "\xc3\xa9@b", "S: x\r\n", "y\r\n", "Content-Type: message/global-headers\r\n", false, false },
		/* what could not be sent is not returned whole */
		{ DSN_FAILED, 'F', 100, false, "a@b", "S: x\r\n", "a\nb\r\n", "Content-Type: text/rfc822-headers\r\n", false, false },
		{ DSN_FAILED, 'F', 100, false, "a@b", "S: x\rB: c\n\r\n", "y\r\n", "Content-Type: text/rfc822-headers\r\n", false, false },
		{ DSN_FAILED, 0, 100, false, "a@b", "", "", "Content-Type: message/rfc822\r\n", true, false },
		{ DSN_FAILED, 0, 100, false, "a@b", "S: x\r\n", "no line end", "Content-Type: message/rfc822\r\n", true, false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct dsn d = simple(&one, 1);
		struct report r;
		d.kind = cases[i].kind;
		d.ret = cases[i].ret;
		d.max_original = cases[i].max;
		d.smtputf8 = cases[i].smtputf8;
		d.to = str_from(cases[i].to);
		d.headers = str_from(cases[i].headers);
		d.body = str_from(cases[i].body);
		write_report(&r, &d);
		if (!str_starts(r.parts[2], str_from(cases[i].part)))
			print_error("case %zu: %.*s\n", i, STR_ARG(r.parts[2]));
		assert_true(str_starts(r.parts[2], str_from(cases[i].part)));
		assert_int_equal(r.form.full, cases[i].full);
		assert_int_equal(r.form.eight_bit, cases[i].eight);
		assert_int_equal(r.form.utf8, (cases[i].smtputf8 && !str_is_ascii(d.headers)) || !str_is_ascii(d.to));
		done(&r);
	}
}

static bool has(const struct report *r, int part, const char *text)
{
	bool found = memmem(r->parts[part].p, r->parts[part].n, text, strlen(text)) != NULL;
	if (!found)
		print_error("\"%s\" not in:\n%.*s\n", text, STR_ARG(r->parts[part]));
	return found;
}

static void test_hostile(void **state)
{
	struct dsn_rcpt one = { .address = STR("b\r\nX: y@c"), .orcpt = STR("rfc822;a+0D+0AX: y"), .status = STR("9.9.9\r\nX: y"),
		.remote_mta = STR("mx\r\n\r\n--"), .code = 550, .reply = STR("a\r\nFinal-Recipient: z\0\x01\x80"),
		.diagnostic = STR("d\nd"), .phase = STR("r\n") };
	struct dsn d = simple(&one, 1);
	struct report r;
	(void)state;
	d.envid = STR("a+0Ab");
	d.headers = STR("Message-ID: <a@b>\r\n\tX <c@d>\r\n");
	write_report(&r, &d);
	assert_true(has(&r, 1, "Final-Recipient: rfc822; b X: y@c\r\n"));
	assert_true(has(&r, 1, "Status: 5.0.0\r\n"));
	assert_true(has(&r, 1, "Diagnostic-Code: smtp; 550 a Final-Recipient: z ?\r\n"));
	assert_null(memmem(r.parts[1].p, r.parts[1].n, "Original-", 9));
	assert_null(memmem(r.headers.p, r.headers.n, "In-Reply-To", 11));
	for (int i = 0; i < 2; i++)
		assert_null(memmem(r.parts[i].p, r.parts[i].n, "\nX:", 3));
	done(&r);
	/* UTF-8 text in a plain report, and in an internationalized one */
	one = (struct dsn_rcpt){ .address = STR("\xc3\xa9@c"), .code = 550, .reply = STR("\xe2\x82\xac") };
	write_report(&r, &d);
	assert_true(has(&r, 1, "Final-Recipient: utf-8; \\x{E9}@c\r\n"));
	assert_true(has(&r, 1, "Diagnostic-Code: smtp; 550 \\x{20AC}\r\n"));
	assert_false(r.form.eight_bit);
	done(&r);
	d.smtputf8 = true;
	write_report(&r, &d);
	assert_true(has(&r, 1, "Final-Recipient: utf-8; \xc3\xa9@c\r\n"));
	assert_true(r.form.eight_bit);
	done(&r);
	/* lengths */
	static char big[5000];
	memset(big, 'z', sizeof big);
	one = (struct dsn_rcpt){ .address = str_n(big, sizeof big), .orcpt = str_n(big, sizeof big), .status = str_n(big, sizeof big),
		.remote_mta = str_n(big, sizeof big), .reply = str_n(big, sizeof big), .diagnostic = str_n(big, sizeof big) };
	d.envid = str_n(big, sizeof big);
	write_report(&r, &d);
	for (const char *p = r.body.p, *e; (e = strstr(p, "\r\n")); p = e + 2)
		assert_true(e - p <= MAIL_LINE_MAX);
	done(&r);
	/* no way to write it */
	struct buf h = BUF_INIT(10000), b = BUF_INIT(10000);
	d.to = STR("a\r\n@b");
	assert_int_equal(dsn_write(&d, &h, &b, NULL), -1);
	d.to = STR("");
	assert_int_equal(dsn_write(&d, &h, &b, NULL), -1);
	buf_free(&h);
	buf_free(&b);
	d = simple(&one, 1);
	struct buf small = BUF_INIT(100);
	h = BUF_INIT(10000);
	assert_int_equal(dsn_write(&d, &h, &small, NULL), -1);
	buf_free(&h);
	buf_free(&small);
}

/* An original that holds the boundary we would have chosen gets another one. */
static void test_boundary(void **state)
{
	struct dsn_rcpt one = { .address = STR("b@c") };
	struct dsn d = simple(&one, 1);
	struct report first, second;
	char body[200];
	(void)state;
	write_report(&first, &d);
	write_report(&second, &d);
	assert_string_equal(first.boundary, second.boundary);
	done(&second);
	snprintf(body, sizeof body, "x\r\n--%s--\r\n", first.boundary);
	d.body = str_from(body);
	write_report(&second, &d);
	assert_string_not_equal(first.boundary, second.boundary);
	done(&first);
	done(&second);
}

static void test_pieces(void **state)
{
	static const struct {
		struct str s;
		bool ok;
	} status[] = { { STR_INIT("5.1.1"), true }, { STR_INIT("2.0.0"), true }, { STR_INIT("4.999.999"), true },
		{ STR_INIT("3.0.0"), false }, { STR_INIT("5.1"), false }, { STR_INIT("5.1."), false }, { STR_INIT("5..1"), false },
		{ STR_INIT("5.1.1 "), false }, { STR_INIT("5.1.1000"), false }, { STR_INIT(""), false }, { STR_INIT("5.1.1.1"), false } };
	(void)state;
	for (size_t i = 0; i < sizeof status / sizeof *status; i++)
		assert_int_equal(dsn_status_ok(status[i].s), status[i].ok);
	struct buf b = BUF_INIT(100);
	assert_int_equal(dsn_text(&b, STR("ab\xc3\xa9 c"), true, 3), 0); /* not half a character */
	assert_text(buf_str(&b), "ab");
	/* what turns text round or is not seen is shown */
	buf_reset(&b);
	dsn_text(&b, STR("a\xe2\x80\xae" "b\xe2\x80\x8b\xef\xbb\xbf\xe2\x81\xa6\xc2\xad\xe2\x80\x8d"), true, 90);
	assert_text(buf_str(&b), "a\\x{202E}b\\x{200B}\\x{FEFF}\\x{2066}\\x{AD}\xe2\x80\x8d");
	buf_reset(&b);
	dsn_utf8_address(&b, STR("\xc3\xa9+a=\\b@c"), true, 90); /* RFC 6533 §3: utf-8-addr-unitext */
	assert_text(buf_str(&b), "\xc3\xa9\\x{2B}a\\x{3D}\\x{5C}b@c");
	/* what cannot be shown any more is not looked at: neither is a text judged by it, nor a character parted where looking ends */
	buf_reset(&b);
	dsn_text(&b, STR("\xf0\x9f\x93\xa7\xf0\x9f\x93\xa7\xc3\xa9\xf0\x9f\x93\xa7 latin \xe9"), true, 4);
	assert_text(buf_str(&b), "\xf0\x9f\x93\xa7");
	buf_reset(&b);
	dsn_text(&b, STR("\xc3\xa9\xc3\xa9\xe2\x82\xac\xe2\x82\xac latin \xe9"), true, 2);
	assert_text(buf_str(&b), "\xc3\xa9");
	buf_free(&b);
}

/* Each set that comes along is whole and without fault, and says something else than English. */
static void no_fault(void *arg, unsigned line, const char *text)
{
	(void)arg;
	print_error("line %u: %s\n", line, text);
	fail();
}

static void test_builtin(void **state)
{
	struct str tag, file, values[DSN_VALUES];
	(void)state;
	for (size_t i = 0; i < DSN_VALUES; i++)
		values[i] = STR("VALUE");
	size_t n = 0;
	for (; dsn_words_builtin(n, &tag, &file); n++) {
		struct dsn_words *w = dsn_words_parse(file, NULL, no_fault, NULL), *en;
		struct str en_tag, en_file;
		dsn_words_builtin(0, &en_tag, &en_file);
		en = dsn_words_parse(en_file, NULL, no_fault, NULL);
		assert_non_null(w);
		assert_true(dsn_language_ok(tag));
		for (size_t k = 0; k < dsn_words_names(); k++) {
			struct buf a = BUF_INIT(10000), b = BUF_INIT(10000);
			const char *name = dsn_words_name(k);
			bool footer = !strcmp(name, "footer");
			bool is = dsn_words_fill(&a, w, name, values);
			if (is == footer)
				print_error("%.*s: [%s]\n", STR_ARG(tag), name);
			assert_int_equal(is, !footer);
			assert_true(str_is_utf8(buf_str(&a)));
			assert_null(memchr(buf_z(&a), '{', a.n));
			dsn_words_fill(&b, en, name, values);
			if (n && !footer)
				assert_false(str_eq(buf_str(&a), buf_str(&b)));
			/* a placeholder that English has is there, too */
			if (!footer)
				assert_int_equal(strstr(buf_z(&a), "VALUE") != NULL, strstr(buf_z(&b), "VALUE") != NULL);
			buf_free(&a);
			buf_free(&b);
		}
		dsn_words_free(en);
		dsn_words_free(w);
	}
	assert_true(n >= 4);
}

static void note(void *arg, unsigned line, const char *text)
{
	buf_addf(arg, "%u: %s\n", line, text);
}

static void test_words(void **state)
{
	struct buf told = BUF_INIT(10000), out = BUF_INIT(10000);
	struct str v[DSN_VALUES] = { [DSN_V_HOST] = STR("{text}"), [DSN_V_TEXT] = STR("{host} %s %n") };
	(void)state;
	struct dsn_words *base = dsn_words_parse(STR("[hello]\nbase\n[delayed]\nbase\n"), NULL, note, &told);
	struct dsn_words *w = dsn_words_parse(STR("\xef\xbb\xbf# comment\r\n\r\n[reason]\r\n{{host}} is {host},\r\n\r\nand: {text} 100% {{\r\n[footer]\n\n\n"), base, note, &told);
	assert_int_equal(told.n, 0);
	/* filled in once: a value is no text to be filled in */
	assert_true(dsn_words_fill(&out, w, "reason", v));
	assert_text(buf_str(&out), "{host} is {text},\n\nand: {host} %s %n 100% {");
	buf_reset(&out);
	assert_false(dsn_words_fill(&out, w, "footer", v));
	assert_false(dsn_words_fill(&out, w, "no such text", v));
	assert_true(dsn_words_fill(&out, w, "hello", v));
	assert_text(buf_str(&out), "base");
	dsn_words_free(w);
	/* faults: each is told, and the text left out */
	w = dsn_words_parse(STR("stray\n[hello]\n{hos}\n[delayed]\n{code}\n[nothing]\nignored\n[hello]\nagain\n[reply]\na } b {\n[from]\n\n[subject.failed]\n"
		"one\ntwo\n[reason]\nnul\x01\n[until]\n\xe9\n[stage]\nfine {stage}"), base, note, &told);
	assert_text(buf_str(&told), "1: text in front of the first [NAME]\n3: unknown placeholder {hos}\n5: {code} has no meaning in [delayed]\n"
		"6: no text is called [nothing]\n8: [hello] stood before; the first one counts\n11: a } without its {; write }} for the character\n"
		"11: a { without its }; write {{ for the character\n12: [from] must not be empty\n14: [subject.failed] must be one line\n"
		"18: a line with control characters, or that is no UTF-8\n20: a line with control characters, or that is no UTF-8\n");
	buf_reset(&out);
	assert_true(dsn_words_fill(&out, w, "hello", v) && dsn_words_fill(&out, w, "delayed", v) && dsn_words_fill(&out, w, "stage", v));
	assert_text(buf_str(&out), "basebasefine ");
	assert_false(dsn_words_fill(&out, w, "from", v) || dsn_words_fill(&out, w, "reason", v));
	dsn_words_free(w);
	dsn_words_free(base);
	buf_free(&out);
	buf_reset(&told);
	/* limits */
	static char big[DSN_WORDS_FILE_MAX + 1];
	memset(big, 'x', sizeof big);
	assert_null(dsn_words_parse(str_n(big, sizeof big), NULL, note, &told));
	memcpy(big, "[hello]\n", 8);
	w = dsn_words_parse(str_n(big, 8 + DSN_WORDS_WORD_MAX + 1), NULL, note, &told);
	dsn_words_free(w);
	for (size_t i = 8; i < sizeof big; i += 100)
		big[i] = ' ';
	w = dsn_words_parse(str_n(big, sizeof big - 1), NULL, note, &told);
	assert_text(buf_str(&told), "1: larger than 256 KiB\n2: a word of more than 200 octets\n1: [hello] is longer than 4000 octets\n");
	dsn_words_free(w);
	buf_free(&told);
	assert_true(dsn_language_ok(STR("pt-BR")) && !dsn_language_ok(STR("")) && !dsn_language_ok(STR("../x")) && !dsn_language_ok(STR("-a")) && !dsn_language_ok(STR("a-")));
}

/* In another language: encoded where it must be, read back by our own readers, and each hostile value where it belongs. */
static void test_language(void **state)
{
	struct dsn_rcpt rcpts[] = {
		{ .address = STR("{host}%s@example.net"), .code = 550, .status = STR("5.2.2"), .reply = STR("{stage} {{ voll \xe2\x80\xae"), .remote_mta = STR("mx.example.net") },
		{ .address = STR("a@example.net"), .cause = DSN_CAUSE_OPERATOR, .status = STR("5.3.0") },
	};
	struct dsn d = simple(rcpts, 2);
	struct str tag, file;
	struct report r;
	(void)state;
	size_t i = 0;
	while (dsn_words_builtin(i, &tag, &file) && !str_eq(tag, STR("de")))
		i++;
	struct dsn_words *w = dsn_words_parse(file, NULL, no_fault, NULL);
	d.words = w;
	d.language = tag;
	d.from = STR("daemon@example.test");
	d.postmaster = STR("hilfe@example.test");
	write_report(&r, &d);
	assert_true(has(&r, 0, "Content-Type: text/plain; charset=utf-8\r\n") && has(&r, 0, "Content-Language: de\r\n") &&
	    has(&r, 0, "Content-Transfer-Encoding: quoted-printable\r\n"));
	assert_false(r.form.eight_bit || r.form.utf8);
	assert_true(str_is_ascii(buf_str(&r.headers)) && str_is_ascii(buf_str(&r.body)));
	assert_non_null(strstr(r.headers.p, "From: Mailzustellung <daemon@example.test>\r\n"));
	struct mail_field f;
	struct buf text = BUF_INIT(1 << 16);
	assert_int_equal(mail_field_find(buf_str(&r.headers), STR("Subject"), 0, &f), 0);
	assert_int_equal(mail_encoded_decode(f.value, &text), 0);
	assert_text(buf_str(&text), "Unzustellbar: Ihre Nachricht kommt zur\xc3\xbc" "ck");
	buf_reset(&text);
	struct str part = r.parts[0];
	const char *at = memmem(part.p, part.n, "\r\n\r\n", 4);
	mail_transfer_decode(MAIL_TRANSFER_QP, str_skip(part, (size_t)(at - part.p) + 4), &text);
	assert_text(buf_str(&text), "Hier ist das Mailsystem des Rechners mx.example.test.\r\n\r\n"
		"Ihre Nachricht konnte den folgenden Empf\xc3\xa4ngern leider nicht zugestellt\r\nwerden. Bei ihnen wird es nicht weiter versucht.\r\nIhre Nachricht liegt bei.\r\n\r\n"
		"<{host}%s@example.net>:\r\n    Das Postfach ist voll. Bitte versuchen Sie es sp\xc3\xa4ter noch einmal, oder\r\n    sagen Sie es dem Empf\xc3\xa4nger auf anderem Weg.\r\n"
		"    Der Server mx.example.net sagte: 550 {stage} {{ voll \\x{202E}\r\n\r\n"
		"<a@example.net>:\r\n    Bitte schreiben Sie an hilfe@example.test, wenn Sie nicht wissen, warum.\r\n"
		"    Grund: Der Postmaster dieses Systems hat die Nachricht zur\xc3\xbc" "ckgegeben;\r\n    niemand versucht mehr, sie zuzustellen.\r\n\r\n");
	buf_free(&text);
	done(&r);
	dsn_words_free(w);
}

/* What we write, our reader of others' bounces understands. */
static void test_read_back(void **state)
{
	struct dsn_rcpt rcpts[] = {
		{ .address = STR("bob@example.net"), .orcpt = STR("rfc822;team@example.net"), .status = STR("5.1.1"), .code = 550, .reply = STR("no such user"),
		    .remote_mta = STR("mx.example.net") },
		{ .address = STR("full@example.net"), .status = STR("5.2.2"), .code = 552, .reply = STR("over quota") },
	};
	static const enum dsn_read_action actions[] = { DSN_READ_FAILED, DSN_READ_DELAYED, DSN_READ_DELIVERED, DSN_READ_RELAYED, DSN_READ_EXPANDED };
	struct str tag, file;
	(void)state;
	for (size_t l = 0; dsn_words_builtin(l, &tag, &file); l++) {
		struct dsn_words *w = dsn_words_parse(file, NULL, no_fault, NULL);
		for (int kind = DSN_FAILED; kind <= DSN_EXPANDED; kind++) {
			struct dsn d = simple(rcpts, 2);
			struct report r;
			struct dsn_read got;
			struct buf raw = BUF_INIT(1 << 20);
			d.kind = (enum dsn_kind)kind;
			d.words = w;
			d.language = tag;
			write_report(&r, &d);
			buf_adds(&raw, buf_str(&r.headers));
			buf_addz(&raw, "\r\n");
			buf_adds(&raw, buf_str(&r.body));
			assert_int_equal(dsn_read(buf_str(&raw), false, &got), 0);
			assert_true(got.report && got.formal);
			assert_int_equal(got.n, 2);
			for (size_t i = 0; i < 2; i++) {
				assert_true(str_eq(got.rcpt[i].address, rcpts[i].address));
				assert_int_equal(got.rcpt[i].action, actions[kind]);
			}
			assert_true(str_eq(got.rcpt[0].original, STR("team@example.net")));
			if (kind == DSN_FAILED) {
				assert_true(got.rcpt[0].hard && got.rcpt[0].reason == DSN_REASON_UNKNOWN_USER);
				assert_true(!got.rcpt[1].hard && got.rcpt[1].reason == DSN_REASON_FULL);
			}
			dsn_read_free(&got);
			buf_free(&raw);
			done(&r);
		}
		dsn_words_free(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_boundary),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_builtin),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_language),
		cmocka_unit_test(test_read_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
