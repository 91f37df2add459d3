/* AUTH at the engine (RFC 4954): dialogues against a backend of three lines, all cuts of the input, and what is refused. */
#include "proto/smtp/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct smtp_server_conf conf = {
	.hostname = STR_INIT("mx.example.test"),
	.extensions = SMTP_EXT_ALL_PLAIN | SMTP_EXT_AUTH | SMTP_EXT_STARTTLS,
	.max_recipients = 3,
	.max_errors = 8,
};
enum { MECHS = 1u << SASL_PLAIN | 1u << SASL_LOGIN | 1u << SASL_SCRAM_SHA_256 };

struct dialogue {
	struct smtp_server *s;
	struct buf log;
	unsigned cancels;
	bool closed, hold;
};

static void flush(struct dialogue *d)
{
	struct buf *out = smtp_server_out(d->s);
	buf_adds(&d->log, buf_str(out));
	buf_consume(out, out->n);
}

/* PLAIN: "\0u\0right" is right. LOGIN: two questions. Others: echo until "ok". */
static void auth(struct dialogue *d, const struct smtp_event *ev)
{
	static const struct smtp_reply later = { 454, "4.7.0", "Later" };
	if (d->hold)
		return;
	if (ev->mech == SASL_PLAIN) {
		if (ev->kind == SMTP_EV_AUTH && !ev->initial)
			smtp_server_challenge(d->s, STR_NULL);
		else if (str_eq(ev->chunk, STR("\0u\0right")))
			smtp_server_accept(d->s, NULL);
		else if (str_eq(ev->chunk, STR("\0u\0later")))
			smtp_server_reject(d->s, &later);
		else
			smtp_server_reject(d->s, NULL);
	} else if (ev->mech == SASL_LOGIN) {
		if (ev->kind == SMTP_EV_AUTH)
			smtp_server_challenge(d->s, STR("Username:"));
		else if (str_eq(ev->chunk, STR("u")))
			smtp_server_challenge(d->s, STR("Password:"));
		else if (str_eq(ev->chunk, STR("right")))
			smtp_server_accept(d->s, NULL);
		else
			smtp_server_reject(d->s, NULL);
	} else if (str_eq(ev->chunk, STR("ok"))) {
		smtp_server_accept(d->s, NULL);
	} else {
		buf_addf(&d->log, "(%zu%s)", ev->chunk.n, ev->initial ? "" : " none");
		smtp_server_challenge(d->s, ev->chunk);
	}
}

static void pump(struct dialogue *d)
{
	struct smtp_event ev;
	while (smtp_server_next(d->s, &ev)) {
		flush(d);
		switch (ev.kind) {
		case SMTP_EV_AUTH:
		case SMTP_EV_AUTH_RESPONSE:
			assert_string_equal(smtp_server_state_name(d->s), ev.kind == SMTP_EV_AUTH ? "ready" : "auth");
			auth(d, &ev);
			break;
		case SMTP_EV_AUTH_CANCEL:
			d->cancels++;
			break;
		case SMTP_EV_STARTTLS:
			flush(d);
			smtp_server_tls_started(d->s);
			smtp_server_mechs(d->s, MECHS);
			break;
		case SMTP_EV_MAIL:
			if (ev.tx->auth.n)
				buf_addf(&d->log, "(auth %.*s)", STR_ARG(ev.tx->auth));
			smtp_server_accept(d->s, NULL);
			break;
		case SMTP_EV_QUIT:
		case SMTP_EV_CLOSE:
			d->closed = true;
			break;
		default:
			smtp_server_accept(d->s, NULL);
			break;
		}
	}
	flush(d);
}

static void start(struct dialogue *d, const struct smtp_server_conf *c, unsigned mechs)
{
	*d = (struct dialogue){ .s = smtp_server_new(c), .log = BUF_INIT(1 << 20) };
	assert_non_null(d->s);
	if (mechs) {
		smtp_server_tls_started(d->s);
		smtp_server_mechs(d->s, mechs);
	}
	buf_reset(smtp_server_out(d->s));
}

static void stop(struct dialogue *d)
{
	smtp_server_free(d->s);
	buf_free(&d->log);
}

/* Sends each line of `lines` once its predecessor is answered, in pieces of n octets; true: the log is `want`. */
static void talk(struct dialogue *d, const char *lines, size_t n)
{
	while (*lines) {
		size_t len = strcspn(lines, "\n") + 1;
		for (size_t at = 0; at < len; at += n) {
			assert_int_equal(smtp_server_feed(d->s, lines + at, len - at < n ? len - at : n), 0);
			pump(d);
		}
		lines += len;
	}
}

static void expect(const struct smtp_server_conf *c, unsigned mechs, const char *lines, const char *want)
{
	static const size_t pieces[] = { 100000, 1, 3 };
	for (unsigned i = 0; i < 3; i++) {
		struct dialogue d;
		start(&d, c, mechs);
		talk(&d, lines, pieces[i]);
		if (strcmp(buf_z(&d.log), want))
			fail_msg("pieces of %zu, said:\n%s\ngot:\n%s\nwanted:\n%s", pieces[i], lines, buf_z(&d.log), want);
		stop(&d);
	}
}

#define EHLO "EHLO c\r\n"
#define HELLO                                                                                                          \
	"250-mx.example.test\r\n250-PIPELINING\r\n250-SIZE 0\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-ENHANCEDSTATUSCODES\r\n"   \
	"250-DSN\r\n250 AUTH SCRAM-SHA-256 PLAIN LOGIN\r\n"
#define HELLO_PLAIN                                                                                                    \
	"250-mx.example.test\r\n250-PIPELINING\r\n250-SIZE 0\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-ENHANCEDSTATUSCODES\r\n"   \
	"250-DSN\r\n250 STARTTLS\r\n"
#define OK "235 2.7.0 Signed in\r\n"
#define NO "535 5.7.8 Sign-in failed\r\n"
#define RIGHT "AHUAcmlnaHQ="

static void dialogues(void **state)
{
	static const struct {
		const char *lines, *want;
	} t[] = {
		{ EHLO "AUTH PLAIN " RIGHT "\r\nMAIL FROM:<a@b.c>\r\n", HELLO OK "250 2.1.0 Ok\r\n" },
		{ EHLO "auth plain " RIGHT "\r\n", HELLO OK },
		{ EHLO "AUTH PLAIN\r\n" RIGHT "\r\n", HELLO "334 \r\n" OK },
		{ EHLO "AUTH PLAIN AHUAd3Jvbmc=\r\nAUTH PLAIN " RIGHT "\r\n", HELLO NO OK },
		{ EHLO "AUTH PLAIN AHUAbGF0ZXI=\r\n", HELLO "454 4.7.0 Later\r\n" },
		{ EHLO "AUTH LOGIN\r\ndQ==\r\ncmlnaHQ=\r\n", HELLO "334 VXNlcm5hbWU6\r\n334 UGFzc3dvcmQ6\r\n" OK },
		{ EHLO "AUTH LOGIN\r\ndQ==\r\n*\r\nNOOP\r\n",
		    HELLO "334 VXNlcm5hbWU6\r\n334 UGFzc3dvcmQ6\r\n501 5.7.0 Sign-in cancelled\r\n250 2.0.0 Ok\r\n" },
		{ EHLO "AUTH SCRAM-SHA-256\r\n\r\nb2s=\r\n", HELLO "(0 none)334 \r\n(0)334 \r\n" OK },
		{ EHLO "AUTH SCRAM-SHA-256 =\r\nb2s=\r\n", HELLO "(0)334 \r\n" OK },
		{ EHLO "AUTH SCRAM-SHA-256 YWJj\r\nb2s=\r\n", HELLO "(3)334 YWJj\r\n" OK },
		/* refused */
		{ EHLO "AUTH\r\n", HELLO "501 5.5.4 Syntax: AUTH mechanism [initial-response]\r\n" },
		{ EHLO "AUTH CRAM-MD5\r\n", HELLO "504 5.5.4 Mechanism not supported\r\n" },
		{ EHLO "AUTH EXTERNAL =\r\n", HELLO "504 5.5.4 Mechanism not supported\r\n" },
		{ EHLO "AUTH PLAIN xx\r\n", HELLO "501 5.5.2 Initial response is no base64\r\n" },
		{ EHLO "AUTH PLAIN " RIGHT " x\r\n", HELLO "501 5.5.2 Initial response is no base64\r\n" },
		{ EHLO "AUTH PLAIN  " RIGHT "\r\n", HELLO "501 5.5.2 Initial response is no base64\r\n" },
		{ EHLO "AUTH PLAIN\r\n" RIGHT "x\r\nNOOP\r\n", HELLO "334 \r\n501 5.5.2 Response is no base64\r\n250 2.0.0 Ok\r\n" },
		{ EHLO "AUTH PLAIN\r\nAUTH PLAIN " RIGHT "\r\n", HELLO "334 \r\n501 5.5.2 Response is no base64\r\n" },
		{ EHLO "AUTH PLAIN\r\n=\r\n", HELLO "334 \r\n501 5.5.2 Response is no base64\r\n" },
		{ "AUTH PLAIN " RIGHT "\r\n", "503 5.5.1 Send EHLO or HELO first\r\n" },
		{ EHLO "AUTH PLAIN " RIGHT "\r\nAUTH PLAIN " RIGHT "\r\n", HELLO OK "503 5.5.1 Signed in already\r\n" },
		{ EHLO "AUTH PLAIN " RIGHT "\r\nMAIL FROM:<a@b.c>\r\nAUTH PLAIN " RIGHT "\r\n",
		    HELLO OK "250 2.1.0 Ok\r\n503 5.5.1 A transaction is open\r\n" },
		/* signed in it stays over RSET and EHLO */
		{ EHLO "AUTH PLAIN " RIGHT "\r\nRSET\r\n" EHLO "MAIL FROM:<a@b.c>\r\n", HELLO OK "250 2.0.0 Ok\r\n" HELLO "250 2.1.0 Ok\r\n" },
		/* AUTH= (RFC 4954 §5) */
		{ EHLO "AUTH PLAIN " RIGHT "\r\nMAIL FROM:<a@b.c> AUTH=<>\r\nRSET\r\nMAIL FROM:<a@b.c> AUTH=e+3Dmc2@example.com\r\n",
		    HELLO OK "(auth <>)250 2.1.0 Ok\r\n250 2.0.0 Ok\r\n(auth e+3Dmc2@example.com)250 2.1.0 Ok\r\n" },
		{ EHLO "AUTH PLAIN " RIGHT "\r\nMAIL FROM:<a@b.c> AUTH=a+0Ab\r\nMAIL FROM:<a@b.c> AUTH\r\nMAIL FROM:<a@b.c> AUTH=a AUTH=a\r\n",
		    HELLO OK "501 5.5.4 Bad value of parameter AUTH\r\n501 5.5.4 Bad value of parameter AUTH\r\n"
			"501 5.5.4 Parameter given twice: AUTH\r\n" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++)
		expect(&conf, MECHS, t[i].lines, t[i].want);
}

static void outside_tls(void **state)
{
	struct smtp_server_conf none = conf;
	(void)state;
	expect(&conf, 0, EHLO "AUTH PLAIN " RIGHT "\r\n", HELLO_PLAIN "538 5.7.11 Issue STARTTLS first\r\n");
	/* what was learnt before TLS is forgotten, and AUTH is there */
	expect(&conf, 0, EHLO "STARTTLS\r\n" EHLO "AUTH PLAIN " RIGHT "\r\n", HELLO_PLAIN "220 2.0.0 Ready to start TLS\r\n" HELLO OK);
	none.extensions &= ~SMTP_EXT_AUTH;
	expect(&none, 0, EHLO "AUTH PLAIN\r\n", HELLO_PLAIN "502 5.5.1 AUTH is not offered\r\n");
	expect(&none, 0, EHLO "MAIL FROM:<a@b.c> AUTH=<>\r\nMAIL FROM:<a@b.c>\r\n",
	    HELLO_PLAIN "555 5.5.4 Parameter not recognized or not implemented: AUTH\r\n250 2.1.0 Ok\r\n");
}

static void long_lines(void **state)
{
	char *line = malloc(3 * SMTP_SERVER_FEED_MAX);
	(void)state;
	for (unsigned over = 0; over < 2; over++)
		for (unsigned initial = 0; initial < 2; initial++) {
			struct dialogue d;
			/* 12288 octets with CRLF at most, or four more */
			static const char command[] = "AUTH SCRAM-SHA-256 ";
			size_t head = initial ? strlen(command) : 0, n = (12288 - 2 - head) / 4 * 4 + (over ? 4 : 0);
			start(&d, &conf, MECHS);
			talk(&d, initial ? EHLO : EHLO "AUTH SCRAM-SHA-256\r\n", 1000);
			memcpy(line, command, head);
			memset(line + head, 'A', n);
			memcpy(line + head + n, "\r\n", 3);
			buf_reset(&d.log);
			talk(&d, line, 1000);
			if (!over)
				assert_non_null(strstr(buf_z(&d.log), "334 AAAA"));
			else
				assert_string_equal(buf_z(&d.log),
				    initial ? "500 5.5.2 Line too long\r\n" : "500 5.5.6 Line of the exchange is too long\r\n");
			assert_int_equal(d.cancels, over && !initial);
			buf_reset(&d.log);
			talk(&d, over ? "NOOP\r\n" : "b2s=\r\n", 1000);
			assert_string_equal(buf_z(&d.log), over ? "250 2.0.0 Ok\r\n" : OK);
			stop(&d);
		}
	free(line);
}

static void ahead_of_time(void **state)
{
	/* in one piece: whoever does not wait for a challenge is cut off */
	static const char *const t[] = { "AUTH PLAIN\r\n" RIGHT "\r\n", "AUTH PLAIN " RIGHT "\r\nMAIL FROM:<a@b.c>\r\n" };
	struct dialogue d;
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		start(&d, &conf, MECHS);
		talk(&d, EHLO, 100);
		buf_reset(&d.log);
		smtp_server_feed(d.s, t[i], strlen(t[i]));
		pump(&d);
		assert_string_equal(buf_z(&d.log), "503 5.5.1 Wait for the reply before you go on\r\n");
		assert_true(d.closed);
		stop(&d);
	}
	/* while the caller thinks */
	start(&d, &conf, MECHS);
	talk(&d, EHLO, 100);
	buf_reset(&d.log);
	d.hold = true;
	talk(&d, "AUTH PLAIN " RIGHT "\r\n", 100);
	smtp_server_feed(d.s, "NOOP\r\n", 6);
	pump(&d);
	assert_int_equal(d.log.n, 0);
	smtp_server_accept(d.s, NULL);
	pump(&d);
	assert_string_equal(buf_z(&d.log), "503 5.5.1 Wait for the reply before you go on\r\n");
	assert_true(d.closed && !smtp_server_signed_in(d.s));
	stop(&d);
	/* behind a response */
	start(&d, &conf, MECHS);
	talk(&d, EHLO "AUTH LOGIN\r\n", 100);
	buf_reset(&d.log);
	smtp_server_feed(d.s, "dQ==\r\ncmlnaHQ=\r\n", 16);
	pump(&d);
	assert_string_equal(buf_z(&d.log), "503 5.5.1 Wait for the reply before you go on\r\n");
	stop(&d);
}

static void ends(void **state)
{
	struct dialogue d;
	(void)state;
	/* the peer goes in the middle */
	start(&d, &conf, MECHS);
	talk(&d, EHLO "AUTH LOGIN\r\n", 100);
	assert_false(smtp_server_idle(d.s));
	smtp_server_eof(d.s);
	pump(&d);
	assert_true(d.closed);
	smtp_server_challenge(d.s, STR("late")); /* nobody is there */
	stop(&d);
	/* the caller has enough */
	start(&d, &conf, MECHS);
	talk(&d, EHLO, 100);
	d.hold = true;
	talk(&d, "AUTH PLAIN " RIGHT "\r\n", 100);
	buf_reset(&d.log);
	smtp_server_reject(d.s, &(struct smtp_reply){ 421, "4.7.0", "Too many failed sign-ins" });
	pump(&d);
	assert_string_equal(buf_z(&d.log), "421 4.7.0 Too many failed sign-ins\r\n");
	assert_true(d.closed);
	stop(&d);
	/* the error budget */
	start(&d, &conf, MECHS);
	talk(&d, EHLO, 100);
	for (unsigned i = 0; i < 8 && !d.closed; i++)
		talk(&d, "AUTH PLAIN AHUAd3Jvbmc=\r\n", 100);
	assert_true(d.closed);
	stop(&d);
	/* TLS after a sign-in cannot be; a shutdown in the exchange can */
	start(&d, &conf, MECHS);
	talk(&d, EHLO "AUTH LOGIN\r\n", 100);
	buf_reset(&d.log);
	smtp_server_shutdown(d.s, NULL, "Stopping");
	pump(&d);
	assert_string_equal(buf_z(&d.log), "421 4.3.2 Stopping\r\n");
	stop(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dialogues),
		cmocka_unit_test(outside_tls),
		cmocka_unit_test(long_lines),
		cmocka_unit_test(ahead_of_time),
		cmocka_unit_test(ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
