/* The caller's side of the SMTP server engine: answers that come late or odd, limits of size and input, the end of the
 * connection, TLS, shutdown, and memory that runs out. */
#include "check.h"
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

#define GREET "EHLO c.example\r\n"
#define ENVELOPE "MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\n"

/* The log since the last call. */
static const char *fresh(struct driver *d)
{
	static char text[8192];
	snprintf(text, sizeof text, "%s", driver_log(d));
	buf_reset(&d->log);
	return text;
}

static void start(struct driver *d, const struct smtp_server_conf *conf, const char *upto)
{
	driver_start(d, conf ? conf : &driver_conf);
	driver_send(d, STR(GREET));
	if (upto)
		driver_send(d, str_from(upto));
	fresh(d);
}

static void test_banner(void **state)
{
	struct smtp_server *s = smtp_server_new(&driver_conf);
	(void)state;
	assert_string_equal(buf_z(smtp_server_out(s)), "220 mx.example.test ESMTP Pepsi\r\n");
	assert_string_equal(smtp_server_state_name(s), "connected");
	assert_false(smtp_server_idle(s)); /* the banner is still to be written */
	buf_consume(smtp_server_out(s), 1000);
	assert_true(smtp_server_idle(s));
	assert_true(smtp_server_wants_input(s));
	smtp_server_free(s);
	smtp_server_free(NULL);
}

static void test_late_answer(void **state)
{
	struct driver d;
	(void)state;
	start(&d, NULL, NULL);
	d.hold = true;
	driver_send(&d, STR(ENVELOPE "NOOP\r\n"));
	assert_string_equal(fresh(&d), "EV MAIL from=<a@b.example> domain=<b.example>\n");
	assert_int_equal(d.held, SMTP_EV_MAIL);
	driver_send(&d, STR("RSET\r\n")); /* stays inside */
	assert_string_equal(fresh(&d), "");
	assert_false(smtp_server_idle(d.s));
	smtp_server_accept(d.s, &(struct smtp_reply){ 250, "2.1.0", "welcome" });
	driver_pump(&d);
	assert_string_equal(fresh(&d), "250 2.1.0 welcome\nEV RCPT to=<c@d.example> local=<c> domain=<d.example>\n250 2.1.5 Ok\n"
				       "250 2.0.0 Ok\n250 2.0.0 Ok\nEV RESET\n");
	/* answers nobody waits for */
	smtp_server_accept(d.s, NULL);
	smtp_server_reject(d.s, NULL);
	driver_pump(&d);
	assert_string_equal(fresh(&d), "");
	assert_true(smtp_server_idle(d.s));
	driver_stop(&d);
}

static void test_message_waits(void **state)
{
	struct driver d;
	(void)state;
	start(&d, NULL, ENVELOPE "DATA\r\n");
	assert_string_equal(smtp_server_state_name(d.s), "data");
	d.hold = true;
	driver_send(&d, STR("x\r\n.\r\nMAIL FROM:<>\r\n"));
	assert_string_equal(fresh(&d), "EV MESSAGE from=<a@b.example> to=<c@d.example> text=<x\\r\\n>\n");
	driver_send(&d, STR("RCPT TO:<postmaster>\r\n"));
	assert_string_equal(fresh(&d), "");
	smtp_server_accept(d.s, &(struct smtp_reply){ 250, "2.0.0", "Ok: queued as 17" });
	driver_pump(&d);
	assert_string_equal(fresh(&d), "250 2.0.0 Ok: queued as 17\nEV MAIL from=<> domain=<>\n250 2.1.0 Ok\n"
				       "EV RCPT to=<postmaster> local=<postmaster> domain=<>\n250 2.1.5 Ok\n");
	driver_stop(&d);
}

/* who talks while the caller thinks about EHLO or DATA did not wait either */
static void test_early_while_pending(void **state)
{
	struct driver d;
	(void)state;
	start(&d, NULL, ENVELOPE);
	d.hold = true;
	driver_send(&d, STR("DATA\r\n"));
	driver_send(&d, STR("x"));
	fresh(&d);
	smtp_server_accept(d.s, NULL);
	driver_pump(&d);
	assert_string_equal(fresh(&d), "503 5.5.1 Wait for the reply before you go on\n"
				       "EV CLOSE text=<Wait for the reply before you go on>\n");
	driver_stop(&d);
	start(&d, NULL, ENVELOPE);
	d.hold = true;
	driver_send(&d, STR("DATA\r\n"));
	driver_send(&d, STR("RSET\r\n"));
	fresh(&d);
	smtp_server_reject(d.s, &(struct smtp_reply){ 452, "4.3.1", "No room" });
	driver_pump(&d);
	assert_string_equal(fresh(&d), "452 4.3.1 No room\nEV CLOSE text=<input behind a refused DATA>\n");
	driver_stop(&d);
}

static void test_odd_replies(void **state)
{
	static const struct {
		bool accept;
		struct smtp_reply r;
		const char *out;
	} cases[] = {
		{ true, { 550, "5.1.1", "text" }, "250 2.1.0 text\n" }, /* an accept stays one */
		{ true, { 250, "5.1.1", "text" }, "250 2.1.0 text\n" },
		{ true, { 250, "2.7.999", "text" }, "250 2.7.999 text\n" },
		{ true, { 250, NULL, NULL }, "250 2.1.0 Ok\n" },
		{ true, { 0, NULL, "a\rb" }, "250 2.1.0 a?b\n" },
		{ false, { 250, "2.0.0", "text" }, "550 5.7.1 text\n" }, /* and so does a refusal */
		{ false, { 451, "5.1.1", "text" }, "451 4.0.0 text\n" },
		{ false, { 451, NULL, NULL }, "451 4.0.0 Sender refused\n" },
		{ false, { 600, NULL, "text\r\n250 Ok" }, "550-5.7.1 text?\n550 5.7.1 250 Ok\n" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct driver d;
		start(&d, NULL, NULL);
		d.hold = true;
		driver_send(&d, STR("MAIL FROM:<>\r\n"));
		fresh(&d);
		if (cases[i].accept)
			smtp_server_accept(d.s, &cases[i].r);
		else
			smtp_server_reject(d.s, &cases[i].r);
		driver_pump(&d);
		assert_string_equal(fresh(&d), cases[i].out);
		driver_stop(&d);
	}
}

static void test_errors_count(void **state)
{
	struct driver d;
	(void)state;
	start(&d, NULL, "MAIL FROM:<a@b.example>\r\n");
	for (unsigned i = 0; i < 9; i++)
		driver_send(&d, STR("RCPT TO:<refuse@d.example>\r\n"));
	for (unsigned i = 0; i < 50; i++) /* not the client's fault */
		driver_send(&d, STR("RCPT TO:<later@d.example>\r\n"));
	assert_false(d.closed);
	fresh(&d);
	driver_send(&d, STR("RCPT TO:<refuse@d.example>\r\nNOOP\r\n"));
	assert_true(d.closed);
	assert_string_equal(fresh(&d), "EV RCPT to=<refuse@d.example> local=<refuse> domain=<d.example>\n550-5.1.1 No such user\n"
				       "550 5.1.1 here\n421 4.7.0 Too many errors\nEV CLOSE text=<Too many errors>\n");
	driver_stop(&d);
	struct smtp_server_conf endless = driver_conf;
	endless.max_errors = 0;
	start(&d, &endless, NULL);
	for (unsigned i = 0; i < 1000; i++)
		driver_send(&d, STR("FOO\r\n"));
	assert_false(d.closed);
	driver_stop(&d);
}

/* the limit, one octet more, and far more: read to the true end in each case */
static void test_size(void **state)
{
	(void)state;
	for (unsigned extra = 0; extra < 3; extra++) {
		struct driver d;
		start(&d, NULL, ENVELOPE "DATA\r\n");
		for (unsigned i = 0; i < 10; i++) /* 1000 octets, with stuffed dots that do not count */
			driver_send(&d, STR("..2345678901234567890123456789012345678901234567890123456789"
					    "012345678901234567890123456789012345678\r\n"));
		for (unsigned i = 0; extra == 2 && i < 1000; i++)
			driver_send(&d, STR("more of it .\r\n"));
		if (extra == 1)
			driver_send(&d, STR("\r\n"));
		driver_send(&d, STR(".\r\nNOOP\r\n"));
		const char *log = fresh(&d);
		if (!extra) {
			assert_int_equal(d.message.n, 1000);
			assert_non_null(strstr(log, "EV MESSAGE from=<a@b.example> to=<c@d.example> text=<.2345"));
		} else {
			assert_true(d.message.n <= 1000);
			assert_string_equal(log, "EV ABORT text=<Message size exceeds the limit>\n"
						 "552 5.3.4 Message size exceeds the limit\n250 2.0.0 Ok\n");
		}
		driver_stop(&d);
	}
	struct smtp_server_conf no_limit = driver_conf;
	no_limit.size_limit = 0;
	struct driver d;
	driver_start(&d, &no_limit);
	driver_send(&d, STR(GREET));
	assert_non_null(strstr(fresh(&d), "250-SIZE 0\n"));
	driver_send(&d, STR("MAIL FROM:<a@b.example> SIZE=99999999999999999999\r\n"));
	assert_non_null(strstr(fresh(&d), "250 2.1.0 Ok\n"));
	driver_stop(&d);
}

static void test_eof(void **state)
{
	struct driver d;
	(void)state;
	start(&d, NULL, ENVELOPE "DATA\r\n");
	driver_send(&d, STR("half a mess"));
	smtp_server_eof(d.s);
	assert_false(smtp_server_wants_input(d.s));
	driver_pump(&d);
	assert_string_equal(fresh(&d), "EV ABORT text=<connection closed by the peer>\n"
				       "EV CLOSE text=<connection closed by the peer>\n");
	driver_stop(&d);
	start(&d, NULL, ENVELOPE); /* what was sent before is worked off */
	assert_int_equal(smtp_server_feed(d.s, "RSET\r\nNOOP\r\nNO", 14), 0);
	smtp_server_eof(d.s);
	driver_pump(&d);
	assert_string_equal(fresh(&d), "250 2.0.0 Ok\nEV RESET\n250 2.0.0 Ok\nEV CLOSE text=<connection closed by the peer>\n");
	driver_stop(&d);
	start(&d, NULL, ENVELOPE "DATA\r\n"); /* refused content was told already */
	driver_send(&d, STR("a\nb"));
	smtp_server_eof(d.s);
	driver_pump(&d);
	assert_string_equal(fresh(&d), "EV ABORT text=<Message has a bare LF>\nEV CLOSE text=<connection closed by the peer>\n");
	driver_stop(&d);
	start(&d, NULL, ENVELOPE "DATA\r\n"); /* a whole message counts, even if nobody waits for its 250 */
	d.hold = true;
	assert_int_equal(smtp_server_feed(d.s, "x\r\n.\r\n", 6), 0);
	smtp_server_eof(d.s);
	driver_pump(&d);
	assert_string_equal(fresh(&d), "EV MESSAGE from=<a@b.example> to=<c@d.example> text=<x\\r\\n>\n");
	smtp_server_accept(d.s, NULL);
	driver_pump(&d);
	assert_string_equal(fresh(&d), "250 2.0.0 Ok\nEV CLOSE text=<connection closed by the peer>\n");
	driver_stop(&d);
}

static void test_shutdown(void **state)
{
	struct driver d;
	(void)state;
	start(&d, NULL, NULL);
	smtp_server_shutdown(d.s, "4.4.2", "Timed out");
	driver_pump(&d);
	assert_string_equal(fresh(&d), "421 4.4.2 Timed out\nEV CLOSE text=<Timed out>\n");
	smtp_server_shutdown(d.s, "4.4.2", "again");
	driver_pump(&d);
	assert_string_equal(fresh(&d), "");
	assert_string_equal(smtp_server_state_name(d.s), "closed");
	driver_stop(&d);
	start(&d, NULL, ENVELOPE "DATA\r\n");
	driver_send(&d, STR("text"));
	smtp_server_shutdown(d.s, NULL, NULL);
	driver_pump(&d);
	assert_string_equal(fresh(&d), "421 4.3.2 Service closing\nEV ABORT text=<Service closing>\nEV CLOSE text=<Service closing>\n");
	driver_stop(&d);
	start(&d, NULL, ENVELOPE "DATA\r\n"); /* while a message is being committed: its answer finds nobody */
	d.hold = true;
	driver_send(&d, STR("x\r\n.\r\n"));
	fresh(&d);
	smtp_server_shutdown(d.s, "5.0.0", "bad status");
	driver_pump(&d);
	assert_string_equal(fresh(&d), "421 4.3.2 bad status\nEV ABORT text=<bad status>\nEV CLOSE text=<bad status>\n");
	smtp_server_accept(d.s, NULL);
	driver_pump(&d);
	assert_string_equal(fresh(&d), "");
	driver_stop(&d);
}

static void test_starttls(void **state)
{
	struct smtp_server_conf conf = driver_conf;
	struct driver d;
	(void)state;
	conf.extensions |= SMTP_EXT_STARTTLS;
	start(&d, &conf, "MAIL FROM:<a@b.example>\r\nSTARTTLS\r\n");
	assert_false(d.closed);
	driver_send(&d, STR("RSET\r\nSTARTTLS x\r\n"));
	fresh(&d);
	driver_send(&d, STR("STARTTLS\r\n"));
	assert_string_equal(fresh(&d), "220 2.0.0 Ready to start TLS\nEV STARTTLS\n");
	assert_false(smtp_server_wants_input(d.s));
	assert_false(smtp_server_idle(d.s));
	assert_int_equal(smtp_server_feed(d.s, "NOOP\r\n", 6), -1);
	smtp_server_tls_started(d.s);
	smtp_server_tls_started(d.s); /* once is enough */
	assert_true(smtp_server_wants_input(d.s));
	driver_send(&d, STR("MAIL FROM:<a@b.example>\r\n"));
	assert_string_equal(fresh(&d), "503 5.5.1 Send EHLO or HELO first\n"); /* the greeting is forgotten */
	driver_send(&d, STR(GREET));
	assert_null(strstr(fresh(&d), "STARTTLS"));
	driver_send(&d, STR("STARTTLS\r\n"));
	assert_string_equal(fresh(&d), "503 5.5.1 TLS is up already\n");
	driver_stop(&d);
}

static void test_transaction_memory(void **state)
{
	struct driver d;
	struct smtp_event ev;
	(void)state;
	start(&d, NULL, NULL);
	assert_int_equal(smtp_server_feed(d.s, ENVELOPE, strlen(ENVELOPE)), 0);
	assert_int_equal(smtp_server_next(d.s, &ev), 1);
	assert_int_equal(ev.kind, SMTP_EV_MAIL);
	assert_int_equal(ev.tx->n_rcpts, 0);
	assert_non_null(arena_alloc(ev.tx->arena, 100)); /* the caller's */
	smtp_server_accept(d.s, NULL);
	assert_int_equal(smtp_server_next(d.s, &ev), 1);
	assert_int_equal(ev.kind, SMTP_EV_RCPT);
	assert_int_equal(ev.tx->n_rcpts, 0); /* not before it is accepted */
	smtp_server_accept(d.s, NULL);
	assert_int_equal(ev.tx->n_rcpts, 1);
	assert_true(str_eq(ev.tx->rcpts[0].address, STR("c@d.example")));
	assert_int_equal(smtp_server_next(d.s, &ev), 0);
	driver_stop(&d);
}

/* many recipients: the array moves, what it holds does not change */
static void test_many_recipients(void **state)
{
	struct smtp_server_conf conf = driver_conf;
	struct driver d;
	char line[700];
	(void)state;
	conf.max_recipients = 1000;
	start(&d, &conf, "MAIL FROM:<a@b.example>\r\n");
	for (unsigned i = 0; i < 1001; i++) {
		int n = snprintf(line, sizeof line, "RCPT TO:<\"user %u\"@d.example> NOTIFY=DELAY ORCPT=rfc822;%u%0*u\r\n", i, i,
		    480, 7);
		driver_send(&d, str_n(line, (size_t)n));
		fresh(&d);
	}
	d.hold = true;
	driver_send(&d, STR("DATA\r\n"));
	smtp_server_accept(d.s, NULL);
	struct smtp_event ev;
	assert_int_equal(smtp_server_feed(d.s, ".\r\n", 3), 0);
	assert_int_equal(smtp_server_next(d.s, &ev), 1);
	assert_int_equal(ev.kind, SMTP_EV_MESSAGE);
	assert_int_equal(ev.tx->n_rcpts, 1000);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(line, sizeof line, "\"user %u\"", i);
		assert_true(str_eq(ev.tx->rcpts[i].local, str_from(line)));
		assert_true(str_eq(ev.tx->rcpts[i].domain, STR("d.example")));
		assert_int_equal(ev.tx->rcpts[i].notify, SMTP_NOTIFY_DELAY);
		snprintf(line, sizeof line, "rfc822;%u%0*u", i, 480, 7);
		assert_true(str_eq(ev.tx->rcpts[i].orcpt, str_from(line)));
	}
	driver_stop(&d);
}

static void test_input_limit(void **state)
{
	char *chunk = malloc(SMTP_SERVER_FEED_MAX);
	struct driver d;
	(void)state;
	memset(chunk, 'x', SMTP_SERVER_FEED_MAX);
	start(&d, NULL, NULL);
	d.hold = true;
	driver_send(&d, STR("MAIL FROM:<a@b.example>\r\n")); /* pending: everything stays inside */
	unsigned fed = 0;
	while (smtp_server_wants_input(d.s)) {
		assert_int_equal(smtp_server_feed(d.s, chunk, SMTP_SERVER_FEED_MAX), 0);
		assert_true(++fed < 10);
	}
	assert_int_equal(fed, SMTP_SERVER_INPUT_MAX / SMTP_SERVER_FEED_MAX);
	assert_int_equal(smtp_server_feed(d.s, chunk, SMTP_SERVER_FEED_MAX), -1);
	driver_stop(&d);
	free(chunk);
}

static void test_long_lines(void **state)
{
	char line[5000];
	struct driver d;
	(void)state;
	start(&d, NULL, NULL);
	memset(line, 'x', sizeof line);
	memcpy(line, "NOOP ", 5);
	driver_send(&d, str_n(line, 4096));
	driver_send(&d, STR("\r\nNOOP\r\n"));
	assert_string_equal(fresh(&d), "250 2.0.0 Ok\n250 2.0.0 Ok\n");
	driver_send(&d, str_n(line, 4097));
	assert_false(smtp_server_idle(d.s));
	driver_send(&d, STR(" QUIT\r\nNOOP\r\n")); /* the rest of the line is no command */
	assert_string_equal(fresh(&d), "500 5.5.2 Line too long\n250 2.0.0 Ok\n");
	assert_true(smtp_server_idle(d.s));
	for (unsigned i = 0; i < 16 && !d.closed; i++)
		driver_send(&d, str_n(line, sizeof line));
	assert_string_equal(fresh(&d), "500 5.5.2 Line without end\nEV CLOSE text=<Line without end>\n");
	driver_stop(&d);
}

/* the caller does not fetch what is to be written: an end, not endless memory */
static void test_output_limit(void **state)
{
	struct smtp_server_conf conf = driver_conf;
	struct smtp_event ev;
	unsigned fed = 0;
	int r = 0;
	(void)state;
	conf.max_errors = 0;
	struct smtp_server *s = smtp_server_new(&conf);
	char *chunk = malloc(60000);
	for (size_t i = 0; i < 60000; i += 6)
		memcpy(chunk + i, "HELP\r\n", 6);
	for (; fed < 100 && !r; fed++) {
		assert_int_equal(smtp_server_feed(s, chunk, 60000), 0);
		r = smtp_server_next(s, &ev);
		assert_true(smtp_server_out(s)->n <= 4u << 20);
		assert_false(smtp_server_wants_input(s));
	}
	assert_int_equal(r, 1);
	assert_int_equal(ev.kind, SMTP_EV_CLOSE);
	smtp_server_free(s);
	free(chunk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_banner),		   cmocka_unit_test(test_late_answer),
		cmocka_unit_test(test_message_waits),	   cmocka_unit_test(test_early_while_pending),
		cmocka_unit_test(test_odd_replies),	   cmocka_unit_test(test_errors_count),
		cmocka_unit_test(test_size),		   cmocka_unit_test(test_eof),
		cmocka_unit_test(test_shutdown),	   cmocka_unit_test(test_starttls),
		cmocka_unit_test(test_transaction_memory), cmocka_unit_test(test_many_recipients),
		cmocka_unit_test(test_input_limit),	   cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_output_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
