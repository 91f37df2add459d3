/* One destination: delivered, reused, refused, deferred, in every mixture; several domains; what ends early. */
#include "site.h"

#include <string.h>

static const char *const one[] = { "example.org MX 10 mx1.example.org", "mx1.example.org A 127.0.0.2", NULL };

void test_internet_delivers(void **state)
{
	static const char *const script[] = { EHLO, TAKE, QUIT, NULL };
	struct site s;
	struct peer p;
	struct pepsi_msg m = site_message("x@Example.ORG.");
	(void)state;
	m.rcpts = "x@example.org";
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, one, false, NULL);
	site_deliver(&s, &m);
	assert_string_equal(m.calls.p, "complete_success [all] dsn_here 1\ncomplete 0\n");
	site_logs(&m, "relayed to=<x@example.org> host=mx1.example.org ip=127.0.0.2 port=");
	site_logs(&m, "tls=\"\" verified=no reused=no phase=dot code=250 status=2.0.0 reply=\"took it\"");
	fake_loop_skip(11000); /* idle for too long */
	site_until(1);
	peer_end(&p);
	site_close(&s);
	site_done(&m);
}

void test_internet_reuses(void **state)
{
	static const char *const script[] = { EHLO, TAKE, TAKE, TAKE, "~", NULL };
	struct site s;
	struct peer p;
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, one, false, NULL);
	for (int i = 0; i < 3; i++) {
		struct pepsi_msg m = site_message("x@example.org");
		site_deliver(&s, &m);
		site_says(&m, "complete_success [all] dsn_here 1\ncomplete 0\n");
		site_logs(&m, i ? "reused=yes" : "reused=no");
		site_done(&m);
	}
	site_close(&s);
	peer_end(&p);
}

/* The other side closed a kept connection: unseen by the message. */
void test_internet_stale(void **state)
{
	static const char *const script[] = { EHLO, TAKE, "-", EHLO, TAKE, ENVELOPE, "%", EHLO, TAKE, "~", NULL };
	struct site s;
	struct peer p;
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, one, false, NULL);
	for (int i = 0; i < 3; i++) {
		struct pepsi_msg m = site_message("x@example.org");
		site_deliver(&s, &m);
		site_says(&m, "complete_success [all] dsn_here 1\ncomplete 0\n");
		assert_null(strstr(m.calls.p, "pause"));
		site_done(&m);
	}
	site_close(&s);
	peer_end(&p);
}

void test_internet_per_recipient(void **state)
{
	static const char *const script[] = { EHLO,
		"?MAIL FROM:<a@b.example>\r\nRCPT TO:<x@example.org>\r\nRCPT TO:<y@example.org>\r\nRCPT TO:<z@example.org>\r\nDATA\r\n",
		"!250 ok\r\n250 ok\r\n550 5.1.1 nobody\r\n450 4.2.1 later\r\n354 go\r\n", CONTENT, "!250 2.0.0 took it\r\n", "~", NULL };
	struct site s;
	struct peer p;
	struct pepsi_msg m = site_message("x@example.org y@example.org z@example.org");
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, one, false, "TLS=none\n");
	site_deliver(&s, &m);
	site_says(&m, "pause_with");
	site_says(&m, "[2] {\"attempts\":1,\"last_error\":\"mx1.example.org[127.0.0.2]:");
	site_says(&m, "rcpt: 450 4.2.1 later\",\"last_reply\":{\"failed_recipient\":");
	site_says(&m, "clone bounce status 0 retry 0 [1] {\"bounce\":{\"failed_recipient\":\"y@example.org\",\"diagnostic\":\"550 5.1.1 nobody\","
		      "\"remote_mta\":\"mx1.example.org\",\"smtp_code\":550");
	site_close(&s);
	peer_end(&p);
	site_done(&m);
}

/* RFC 3461 §5.2: each recipient's wishes go to a host that offers DSN, which has the duty then; for those whose host does not offer it we have. */
void test_internet_dsn_each(void **state)
{
	static const char *const with[] = { "!220 p\r\n", "?EHLO us.example\r\n", "!250-p\r\n250-PIPELINING\r\n250 DSN\r\n",
		"?MAIL FROM:<a@b.example> RET=HDRS ENVID=e1\r\nRCPT TO:<x@example.org> NOTIFY=SUCCESS ORCPT=rfc822;o1\r\n"
		"RCPT TO:<y@example.org> NOTIFY=SUCCESS,FAILURE\r\nRCPT TO:<z@example.org> NOTIFY=NEVER\r\nDATA\r\n",
		"!250 ok\r\n250 ok\r\n450 4.2.1 not here\r\n450 4.2.1 not here\r\n354 go\r\n", CONTENT, "!250 2.0.0 took it\r\n", "~", NULL };
	static const char *const without[] = { EHLO, "?MAIL FROM:<a@b.example>\r\nRCPT TO:<y@example.org>\r\nRCPT TO:<z@example.org>\r\nDATA\r\n",
		"!250 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n", CONTENT, "!250 2.0.0 took it\r\n", "~", NULL };
	static const char *const zone[] = { "example.org MX 10 mx1.example.org", "example.org MX 20 mx2.example.org", "mx1.example.org A 127.0.0.2",
		"mx2.example.org A 127.0.0.3", NULL };
	struct site s;
	struct peer p, q;
	struct pepsi_msg m = site_message("x@example.org y@example.org z@example.org");
	(void)state;
	m.state = "{\"dsn\":{\"ret\":\"HDRS\",\"envid\":\"e1\",\"rcpt\":[{\"notify\":\"SUCCESS\",\"orcpt\":\"rfc822;o1\"},{\"notify\":\"SUCCESS,FAILURE\"},"
		  "{\"notify\":\"NEVER\"}]}}";
	peer_start(&p, "127.0.0.2", with);
	peer_start(&q, "127.0.0.3", without);
	site_open(&s, zone, false, NULL);
	site_deliver(&s, &m);
	site_says(&m, "clone bounce status 0 retry 0 [1] {\"bounce\":{\"failed_recipient\":\"y@example.org\"");
	site_says(&m, "\"kind\":\"success\"");
	site_says(&m, "complete_success [all] dsn_here 0\ncomplete 0\n");
	site_close(&s);
	peer_end(&p);
	peer_end(&q);
	site_done(&m);
}

/* "Too many recipients" brings another transaction, with the same host. */
void test_internet_rooms(void **state)
{
	static const char *const script[] = { EHLO,
		"?MAIL FROM:<a@b.example>\r\nRCPT TO:<x@example.org>\r\nRCPT TO:<y@example.org>\r\nDATA\r\n",
		"!250 ok\r\n250 ok\r\n452 4.5.3 too many\r\n354 go\r\n", CONTENT, "!250 2.0.0 took it\r\n",
		"?MAIL FROM:<a@b.example>\r\nRCPT TO:<y@example.org>\r\nDATA\r\n", "!250 ok\r\n250 ok\r\n354 go\r\n", CONTENT, "!250 ok\r\n", "~",
		NULL };
	struct site s;
	struct peer p;
	struct pepsi_msg m = site_message("x@example.org y@example.org");
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, one, false, NULL);
	site_deliver(&s, &m);
	assert_string_equal(m.calls.p, "complete_success [all] dsn_here 1\ncomplete 0\n");
	site_close(&s);
	peer_end(&p);
	site_done(&m);
}

/* RFC 9422: one recipient a transaction, two transactions a session. */
void test_internet_limits(void **state)
{
#define OFFER "!220 p\r\n", "?EHLO us.example\r\n", "!250-p\r\n250-PIPELINING\r\n250 LIMITS MAILMAX=2 RCPTMAX=1\r\n"
#define TO(x) "?MAIL FROM:<a@b.example>\r\nRCPT TO:<" x "@example.org>\r\nDATA\r\n", "!250 ok\r\n250 ok\r\n354 go\r\n", CONTENT, "!250 ok\r\n"
	static const char *const script[] = { OFFER, TO("x"), TO("y"), "?QUIT\r\n", "!221 bye\r\n", "-", OFFER, TO("z"), "~", NULL };
	struct site s;
	struct peer p;
	struct pepsi_msg m = site_message("x@example.org y@example.org z@example.org");
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, one, false, NULL);
	site_deliver(&s, &m);
	assert_string_equal(m.calls.p, "complete_success [all] dsn_here 1\ncomplete 0\n");
	site_close(&s);
	peer_end(&p);
	site_done(&m);
}

void test_internet_splits(void **state)
{
	struct site s;
	struct pepsi_msg m = site_message("x@example.org y@b.example z@EXAMPLE.org q@[192.0.2.1]");
	(void)state;
	site_open(&s, one, false, NULL);
	assert_int_equal(pepsi_stage_descriptor.process(s.worker, &fake_loop_host, &m), PEPSI_OK);
	assert_string_equal(m.calls.p, "fan_out keep [3]\n"
				       "  clone out status 0 retry 0 [1] -\n"
				       "  clone out status 0 retry 0 [0 2] -\n"
				       "advance_to out\n");
	site_close(&s);
	site_done(&m);
}

/* Many at once: none waits for another. The first peer answers only when the second is through. */
void test_internet_at_once(void **state)
{
	static const char *const zone[] = { "example.org MX 10 mx1.example.org", "mx1.example.org A 127.0.0.2", "other.example MX 0 mx.other.example",
		"mx.other.example A 127.0.0.3", NULL };
	static const char *const slow[] = { EHLO, ENVELOPE, "^", "~", NULL };
	static const char *const quick[] = { EHLO, "?MAIL FROM:<a@b.example>\r\nRCPT TO:<x@other.example>\r\nDATA\r\n",
		"!250 ok\r\n250 ok\r\n354 go\r\n", CONTENT, "!250 ok\r\n", "~", NULL };
	struct site s;
	struct peer p[2];
	struct pepsi_msg m[2] = { site_message("x@example.org"), site_message("x@other.example") };
	(void)state;
	peer_start(&p[0], "127.0.0.2", slow);
	peer_start(&p[1], "127.0.0.3", quick);
	site_open(&s, zone, false, NULL);
	site_process(&s, &m[0]);
	site_process(&s, &m[1]);
	assert_int_equal(fake_loop_run(1, 60000), 1);
	site_says(&m[1], "complete_success");
	assert_int_equal(m[0].calls.n, 0);
	site_until(1);
	pepsi_stage_descriptor.stop(s.worker, &fake_loop_host, &m[0], PEPSI_STOP_RUNTIME);
	fake_loop_skip(8000);
	assert_int_equal(fake_loop_run(2, 60000), 2);
	site_says(&m[0], "no time left for this attempt");
	site_close(&s);
	peer_end(&p[0]);
	peer_end(&p[1]);
	site_done(&m[0]);
	site_done(&m[1]);
}

/* The connection ends behind the dot: not offered to the second exchanger, and said. */
void test_internet_maybe(void **state)
{
	static const char *const zone[] = { "example.org MX 10 mx1.example.org", "example.org MX 20 mx2.example.org", "mx1.example.org A 127.0.0.2",
		"mx2.example.org A 127.0.0.3", NULL };
	static const char *const script[] = { EHLO, ENVELOPE, "!250 ok\r\n250 ok\r\n354 go\r\n", CONTENT, NULL };
	static const char *const never[] = { NULL };
	struct site s;
	struct peer p[2];
	struct pepsi_msg m = site_message("x@example.org");
	(void)state;
	peer_start(&p[0], "127.0.0.2", script);
	peer_start(&p[1], "127.0.0.3", never);
	site_open(&s, zone, false, NULL);
	site_deliver(&s, &m);
	site_says(&m, "pause ");
	site_logs(&m, "maybe_delivered=yes");
	site_close(&s);
	peer_end(&p[0]);
	peer_kill(&p[1]);
	site_done(&m);
}

void test_internet_time_out(void **state)
{
	static const char *const script[] = { EHLO, ENVELOPE, "!2", "^", "~", NULL };
	struct site s;
	struct peer p;
	struct pepsi_msg m = site_message("x@example.org");
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, one, false, NULL);
	site_process(&s, &m);
	site_until(1);
	assert_int_equal(m.calls.n, 0);
	fake_loop_skip(301000);
	assert_int_equal(fake_loop_run(1, 60000), 1);
	site_says(&m, "mail: timed out after 300 s without an answer");
	site_close(&s);
	peer_end(&p);
	site_done(&m);
}

/* A worker that leaves: what is not on its way goes back, and was no attempt. */
void test_internet_stops(void **state)
{
	static const char *const script[] = { "^", "~", NULL };
	struct site s;
	struct peer p;
	struct pepsi_msg m[2] = { site_message("x@example.org"), site_message("x@example.org") };
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, one, false, NULL);
	site_process(&s, &m[0]);
	site_until(1);
	pepsi_stage_descriptor.stop(s.worker, &fake_loop_host, &m[0], PEPSI_STOP_YIELD); /* it has a session */
	assert_int_equal(m[0].calls.n, 0);
	pepsi_stage_descriptor.stop(s.worker, &fake_loop_host, &m[0], PEPSI_STOP_LEAVE);
	site_process(&s, &m[1]); /* its look-up has not begun */
	pepsi_stage_descriptor.stop(s.worker, &fake_loop_host, &m[1], PEPSI_STOP_YIELD);
	for (int i = 0; i < 2; i++) {
		site_says(&m[i], "pause 1 {\"attempts\":0,\"last_error\":\"example.org: not tried now (leaving)\"}\ncomplete 0\n");
		site_done(&m[i]);
	}
	site_close(&s);
	peer_end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_internet_delivers),
		cmocka_unit_test(test_internet_reuses),
		cmocka_unit_test(test_internet_stale),
		cmocka_unit_test(test_internet_per_recipient),
		cmocka_unit_test(test_internet_dsn_each),
		cmocka_unit_test(test_internet_rooms),
		cmocka_unit_test(test_internet_limits),
		cmocka_unit_test(test_internet_splits),
		cmocka_unit_test(test_internet_at_once),
		cmocka_unit_test(test_internet_maybe),
		cmocka_unit_test(test_internet_time_out),
		cmocka_unit_test(test_internet_stops),
		cmocka_unit_test(test_internet_no_route),
		cmocka_unit_test(test_internet_next_host),
		cmocka_unit_test(test_internet_next_address),
		cmocka_unit_test(test_internet_says_no_for_now),
		cmocka_unit_test(test_internet_final),
		cmocka_unit_test(test_internet_all_down),
		cmocka_unit_test(test_internet_no_descriptors),
		cmocka_unit_test(test_internet_literal),
		cmocka_unit_test(test_internet_sources),
		cmocka_unit_test(test_internet_window),
		cmocka_unit_test(test_internet_backoff),
		cmocka_unit_test(test_internet_dns_fails),
		cmocka_unit_test(test_internet_tls),
		cmocka_unit_test(test_internet_tls_fails),
		cmocka_unit_test(test_internet_tls_required),
		cmocka_unit_test(test_internet_tls_verify),
		cmocka_unit_test(test_internet_unsafe_domain),
		cmocka_unit_test(test_internet_loop),
		cmocka_unit_test(test_internet_unsafe_and_dead),
		cmocka_unit_test(test_internet_dane),
		cmocka_unit_test(test_internet_dane_wrong),
		cmocka_unit_test(test_internet_dane_unknown),
		cmocka_unit_test(test_internet_injected),
		cmocka_unit_test(test_internet_options),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
