/* What hostile bounces cost to read, and hostile originals, replies and parameters to report. test/unit/cost.h says what is asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../../cost.h"

#include "proto/dsn/dsn.h"
#include "proto/dsn/read.h"

#define DAEMON "Return-Path: <>\r\nFrom: MAILER-DAEMON@mx.example\r\nSubject: failed\r\n"

/* -- reading */

static void read_one(struct str raw)
{
	struct dsn_read r;
	(void)dsn_read(raw, true, &r);
	dsn_read_free(&r);
}

/* A text for people that is all one unit. */
static void read_text(struct str text)
{
	struct buf b = BUF_INIT(1 << 22);
	buf_addz(&b, DAEMON "\r\n");
	buf_adds(&b, text);
	read_one(buf_str(&b));
	buf_free(&b);
}

static void read_html(struct str text)
{
	struct buf b = BUF_INIT(1 << 22);
	buf_addz(&b, DAEMON "Content-Type: text/html; charset=iso-8859-1\r\n\r\n");
	buf_adds(&b, text);
	read_one(buf_str(&b));
	buf_free(&b);
}

static void read_status(struct str text)
{
	struct buf b = BUF_INIT(1 << 22);
	buf_addz(&b, DAEMON "Content-Type: multipart/report; boundary=b\r\n\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; x\r\n\r\n");
	buf_adds(&b, text);
	buf_addz(&b, "\r\n--b--\r\n");
	read_one(buf_str(&b));
	buf_free(&b);
}

static void fields(struct buf *out, size_t n)
{
	buf_addz(out, DAEMON);
	while (out->n < n)
		buf_addz(out, "X-Failed-Recipients: a@b.example\r\n , c@d.example\r\n");
	buf_addz(out, "\r\nfailed\r\n");
}

static void many_recipients(struct buf *out, size_t n)
{
	for (size_t i = 0; out->n < n; i++)
		buf_addf(out, "<u%zu@y.example>: host * said: user\n", i);
}

static void many_blocks(struct buf *out, size_t n)
{
	for (size_t i = 0; out->n < n; i++)
		buf_addf(out, "Final-Recipient: rfc822; u%zu@y.example\nAction: failed\nStatus: 5.1.1\n\n", i);
}

/* Notices in JSON: of many recipients, and what only begins like one. */
static void many_in_json(struct buf *out, size_t n)
{
	buf_addz(out, "{\"notificationType\":\"Bounce\",\"bounce\":{\"bounceType\":\"Permanent\",\"bouncedRecipients\":[{}");
	for (size_t i = 0; out->n < n - 100; i++)
		buf_addf(out, ",{\"emailAddress\":\"u%zu@y.example\",\"diagnosticCode\":\"550 \\u00e9\"}", i);
	buf_addz(out, "]}}\n");
}

static void deep_json(struct buf *out, size_t n)
{
	buf_addz(out, "{\"ecipients\":");
	while (out->n < n)
		buf_addz(out, "[1,{\"a\":");
}

static void flat_json(struct buf *out, size_t n)
{
	buf_addz(out, "{\"ecipients\":[0");
	while (out->n < n)
		buf_addz(out, ",0");
}

static void read_japanese(struct str text)
{
	struct buf b = BUF_INIT(1 << 22);
	buf_addz(&b, DAEMON "Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n");
	buf_adds(&b, text);
	read_one(buf_str(&b));
	buf_free(&b);
}

static void reading(void **state)
{
	(void)state;
#ifdef PEPSI_SANITIZED /* minutes, for the sanitizers' own work */
	skip();
#endif
	enum { TEXT = DSN_READ_TEXT_MAX, MOST = 1000000 };
	static const struct cost whole[] = {
		{ .name = "failed recipients", .make = fields, .most = 400000 }, { .unit = "Subject: =?utf-8?q?a?=\r\n =?utf-8?q?a?=\r\n", .most = MOST }, { .unit = "From: <a@b.c>\r\n", .most = MOST / 8 },
	};
	static const struct cost texts[] = {
		{ .name = "recipients", .make = many_recipients, .most = TEXT }, { .unit = "@", .most = TEXT }, { .unit = "a@", .most = TEXT }, { .unit = "a@a.", .most = TEXT }, { .unit = "smtp=", .most = TEXT },
		{ .unit = "a.a@a.a ", .most = TEXT }, { .unit = "\n", .most = TEXT }, { .unit = ">", .most = TEXT }, { .unit = "5.", .most = TEXT }, { .unit = "5.1", .most = TEXT }, { .unit = "550 ", .most = TEXT },
		{ .unit = "host user mailbox ", .most = TEXT }, { .unit = "domain domain\n", .most = TEXT }, { .unit = "Received:", .most = TEXT }, { .unit = ">>> DATA\n<<< 5", .most = TEXT },
		{ .unit = "to: a@b.c (expanded from\n", .most = TEXT }, { .unit = "\nReporting-MTA:\nFinal-Recipient: a@b.c\n", .most = TEXT }, { .unit = "x", .most = TEXT }, { .unit = "\xff", .most = TEXT },
		{ .name = "JSON", .make = many_in_json, .most = TEXT }, { .name = "deep JSON", .make = deep_json, .most = TEXT }, { .name = "flat JSON", .make = flat_json, .most = TEXT },
		{ .unit = "日 本\n", .most = TEXT }, { .unit = "домен ", .most = TEXT }, { .unit = "e\xcc\x81\xcc\x81", .most = TEXT }, { .unit = "域名", .most = TEXT },
		{ .unit = "indirizzo dominio postvak buzon benutzer boite ящик ", .most = TEXT },
	};
	static const struct cost japanese[] = {
		{ .unit = "\x1b$B$\"", .most = TEXT }, { .unit = "\x1b$B", .most = TEXT }, { .unit = "\x1b", .most = TEXT }, { .unit = "\x1b(I1\n", .most = TEXT },
	};
	static const struct cost html[] = {
		{ .unit = "<", .most = TEXT }, { .unit = "<b", .most = TEXT }, { .unit = "<a@", .most = TEXT }, { .unit = "<a@b.c>", .most = TEXT }, { .unit = "&", .most = TEXT }, { .unit = "&lt;a@b.c&gt;<br>\n", .most = TEXT },
		{ .unit = "\xe4\n", .most = TEXT }, { .unit = "<!", .most = TEXT },
	};
	static const struct cost status[] = {
		{ .name = "blocks", .make = many_blocks, .most = TEXT * 4 }, { .unit = "Status:\n", .most = TEXT * 4 }, { .unit = "Diagnostic-Code: x;\n", .most = TEXT * 4 }, { .unit = " \n", .most = TEXT * 4 },
		{ .unit = "Final-Recipient: ;\n", .most = TEXT * 4 }, { .unit = ":", .most = TEXT * 4 },
	};
	cost_linear(whole, sizeof whole / sizeof *whole, read_one);
	cost_linear(texts, sizeof texts / sizeof *texts, read_text);
	cost_linear(japanese, sizeof japanese / sizeof *japanese, read_japanese);
	cost_linear(html, sizeof html / sizeof *html, read_html);
	cost_linear(status, sizeof status / sizeof *status, read_status);
}

/* -- writing */

static void write_one(const struct dsn *d)
{
	struct buf h = BUF_INIT((size_t)128 << 20), b = BUF_INIT((size_t)256 << 20);
	struct dsn_form form;
	assert_int_equal(dsn_write(d, &h, &b, &form), 0);
	buf_free(&h);
	buf_free(&b);
}

static struct dsn report(const struct dsn_rcpt *r, size_t n)
{
	return (struct dsn){ .kind = DSN_FAILED, .hostname = STR("mx.example"), .to = STR("ann@home.example"), .id = STR("7"), .now_us = 1700000000000000, .arrival_us = 1700000000000000,
		.headers = STR("Subject: x\r\n"), .ret = 'F', .max_original = (size_t)64 << 20, .rcpts = r, .n_rcpts = n };
}

static const struct dsn_rcpt one = { .address = STR_INIT("u@y.example"), .status = STR_INIT("5.1.1"), .code = 550 };

static void write_body(struct str in)
{
	struct dsn d = report(&one, 1);
	d.body = in;
	write_one(&d);
}

static void write_headers(struct str in)
{
	struct dsn d = report(&one, 1);
	d.headers = in;
	write_one(&d);
}

static void write_reply(struct str in)
{
	struct dsn_rcpt r = one;
	r.reply = r.diagnostic = r.remote_mta = in;
	struct dsn d = report(&r, 1);
	d.envid = d.stage = d.maybe_hop = in;
	d.maybe = true;
	write_one(&d);
}

static void write_recipients(struct str in)
{
	size_t n = in.n / 100;
	struct dsn_rcpt *r = calloc(n, sizeof *r);
	assert_non_null(r);
	for (size_t i = 0; i < n; i++)
		r[i] = (struct dsn_rcpt){ .address = str_n(in.p + i * 100, 100), .orcpt = str_n(in.p, 100), .status = STR("5.1.1"), .code = 550, .reply = str_n(in.p, 200), .diagnostic = str_n(in.p, 200) };
	struct dsn d = report(r, n);
	write_one(&d);
	free(r);
}

static void writing(void **state)
{
	(void)state;
#ifdef PEPSI_SANITIZED /* minutes, for the sanitizers' own work */
	skip();
#endif
	enum { MOST = 2 << 20 }; /* larger ones cost pages of the system, too */
	static const struct cost bodies[] = {
		{ .unit = "x", .most = MOST }, { .unit = "\r\n", .most = MOST }, { .unit = "--", .most = MOST }, { .unit = "\r\n--=_", .most = MOST }, { .unit = "\xff", .most = MOST }, { .unit = "\r", .most = MOST },
		{ .unit = "\n", .most = MOST }, { .unit = ".\r\n", .most = MOST }, { .unit = "From \r\n", .most = MOST },
	};
	static const struct cost heads[] = { { .unit = "x: y\r\n", .most = MOST }, { .unit = "x:\r\n \r\n", .most = MOST }, { .unit = "\xff: \xff\r\n", .most = MOST }, { .unit = "--=_\r\n", .most = MOST } };
	static const struct cost replies[] = { { .unit = "x", .most = MOST }, { .unit = "\xff", .most = MOST }, { .unit = "\xc3\xa4", .most = MOST }, { .unit = "+41", .most = MOST }, { .unit = "+", .most = MOST }, { .unit = "\r\n", .most = MOST },
		{ .unit = " ", .most = MOST } };
	static const struct cost recipients[] = { { .unit = "u@y.example", .most = 100 * 4000 }, { .unit = "\xff", .most = 100 * 4000 } };
	cost_linear(bodies, sizeof bodies / sizeof *bodies, write_body);
	cost_linear(heads, sizeof heads / sizeof *heads, write_headers);
	cost_linear(replies, sizeof replies / sizeof *replies, write_reply);
	cost_linear(recipients, sizeof recipients / sizeof *recipients, write_recipients);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(reading), cmocka_unit_test(writing) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
