/* Which exchanger: routes that are none, the next one when one fails, what counts of what they said. */
#include "site.h"

#include <sys/resource.h>

#include <string.h>

void test_internet_no_route(void **state)
{
	static const char *const zone[] = { "null.example MX 0 .", "later.example MX tempfail", "loop.example MX 10 us.example",
		"us.example A 127.0.0.9", "nothing.example TXT hello", NULL };
	static const struct {
		const char *rcpt, *says;
	} cases[] = {
		{ "x@null.example", "reroute bounce {\"bounce\":{\"failed_recipient\":\"x@null.example\",\"diagnostic\":\"the domain takes no mail (null MX)\","
				    "\"enhanced_status\":\"5.1.10\"" },
		{ "x@later.example", "pause " },
		{ "x@loop.example", "\"enhanced_status\":\"5.4.6\"" },
		{ "x@nothing.example", "reroute bounce" },
		{ "x@nowhere.example", "reroute bounce" },
		{ "x@[192.0.2.256]", "\"enhanced_status\":\"5.1.2\"" },
		{ "postmaster", "\"enhanced_status\":\"5.1.2\"" },
	};
	struct site s;
	(void)state;
	site_open(&s, zone, false, NULL);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct pepsi_msg m = site_message(cases[i].rcpt);
		site_deliver(&s, &m);
		site_says(&m, cases[i].says);
		site_done(&m);
	}
	site_close(&s);
}

#define TWO "example.org MX 10 mx1.example.org", "example.org MX 20 mx2.example.org", "mx1.example.org A 127.0.0.2", "mx2.example.org A 127.0.0.3"
static const char *const two[] = { TWO, NULL };

/* Whatever fails before a recipient is answered for leads to the next. */
void test_internet_next_host(void **state)
{
	static const char *const greeting[] = { "!421 4.3.2 busy\r\n", "~", NULL };
	static const char *const closed[] = { NULL };
	static const char *const refused[] = { "!554 5.7.1 not you\r\n", "~", NULL };
	static const char *const within[] = { EHLO, ENVELOPE, NULL };
	static const char *const garbage[] = { "!hello\r\n", "~", NULL };
	static const char *const *const first[] = { greeting, closed, refused, within, garbage };
	static const char *const second[] = { EHLO, TAKE, "~", NULL };
	(void)state;
	for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
		struct site s;
		struct peer p[2];
		struct pepsi_msg m = site_message("x@example.org");
		peer_start(&p[0], "127.0.0.2", first[i]);
		peer_start(&p[1], "127.0.0.3", second);
		site_open(&s, two, false, NULL);
		site_deliver(&s, &m);
		assert_string_equal(m.calls.p, "complete_success [all] dsn_here 1\ncomplete 0\n");
		site_logs(&m, "host=mx2.example.org ip=127.0.0.3");
		site_close(&s);
		peer_end(&p[0]);
		peer_end(&p[1]);
		site_done(&m);
	}
}

/* Nobody listens at the first address of the host: connection refused. */
void test_internet_next_address(void **state)
{
	static const char *const zone[] = { "example.org MX 10 mx1.example.org", "mx1.example.org A 127.0.0.2", "mx1.example.org A 127.0.0.4", NULL };
	static const char *const script[] = { EHLO, TAKE, "~", NULL };
	struct site s;
	struct peer p;
	struct pepsi_msg m = site_message("x@example.org");
	(void)state;
	peer_start(&p, "127.0.0.4", script);
	site_open(&s, zone, false, NULL);
	site_deliver(&s, &m);
	assert_string_equal(m.calls.p, "complete_success [all] dsn_here 1\ncomplete 0\n");
	site_close(&s);
	peer_end(&p);
	site_done(&m);
}

/* 4xx of a recipient: the second exchanger may take it; what the first took is not sent again. */
void test_internet_says_no_for_now(void **state)
{
	static const char *const first[] = { EHLO, "?MAIL FROM:<a@b.example>\r\nRCPT TO:<x@example.org>\r\nRCPT TO:<y@example.org>\r\nDATA\r\n",
		"!250 ok\r\n450 4.7.1 greylisted\r\n250 ok\r\n354 go\r\n", CONTENT, "!250 ok\r\n", "?QUIT\r\n", "~", NULL };
	static const char *const second[] = { EHLO, TAKE, "~", NULL };
	struct site s;
	struct peer p[2];
	struct pepsi_msg m = site_message("x@example.org y@example.org");
	(void)state;
	peer_start(&p[0], "127.0.0.2", first);
	peer_start(&p[1], "127.0.0.3", second);
	site_open(&s, two, false, NULL);
	site_deliver(&s, &m);
	assert_string_equal(m.calls.p, "complete_success [all] dsn_here 1\ncomplete 0\n");
	site_logs(&m, "relayed to=<x@example.org> host=mx2.example.org");
	site_logs(&m, "relayed to=<y@example.org> host=mx1.example.org");
	site_close(&s);
	peer_end(&p[0]);
	peer_end(&p[1]);
	site_done(&m);
}

/* 5xx of a recipient is final, whoever says it. */
void test_internet_final(void **state)
{
	static const char *const first[] = { EHLO, ENVELOPE, "!250 ok\r\n550 5.1.1 nobody\r\n503 no\r\n", "~", NULL };
	static const char *const never[] = { NULL };
	struct site s;
	struct peer p[2];
	struct pepsi_msg m = site_message("x@example.org");
	(void)state;
	peer_start(&p[0], "127.0.0.2", first);
	peer_start(&p[1], "127.0.0.3", never);
	site_open(&s, two, false, NULL);
	site_deliver(&s, &m);
	site_says(&m, "reroute bounce {\"bounce\":{\"failed_recipient\":\"x@example.org\",\"diagnostic\":\"550 5.1.1 nobody\",\"remote_mta\":\"mx1.example.org\"");
	site_close(&s);
	peer_kill(&p[0]);
	peer_kill(&p[1]);
	site_done(&m);
}

void test_internet_all_down(void **state)
{
	struct site s;
	struct pepsi_msg m = site_message("x@example.org");
	(void)state;
	site_open(&s, two, false, NULL);
	site_deliver(&s, &m);
	site_says(&m, "pause ");
	site_says(&m, "{\"attempts\":1,\"last_error\":\"mx2.example.org[127.0.0.3]:");
	site_says(&m, "Connection refused\"}");
	/* the next one is no attempt: both are known to be down */
	buf_reset(&m.calls);
	site_deliver(&s, &m);
	site_says(&m, "{\"attempts\":0,\"last_error\":\"example.org: not tried now (backoff): ");
	m.lifetime_left = -1;
	site_deliver(&s, &m);
	site_says(&m, "\"enhanced_status\":\"4.4.7\"");
	site_close(&s);
	site_done(&m);
}

/* Out of descriptors: ours, so neither the addresses nor the destination are left alone for it. */
void test_internet_no_descriptors(void **state)
{
	struct site s;
	struct pepsi_msg m = site_message("x@example.org");
	struct rlimit was, none;
	(void)state;
	site_open(&s, two, false, NULL);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	site_deliver(&s, &m);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	site_says(&m, "Too many open files");
	buf_reset(&m.calls);
	fake_loop_skip(5000);
	site_deliver(&s, &m);
	site_says(&m, "Connection refused\"}");
	m.lifetime_left = -1;
	site_close(&s);
	site_done(&m);
}

void test_internet_literal(void **state)
{
	static const char *const script[] = { EHLO, "?MAIL FROM:<a@b.example>\r\nRCPT TO:<x@[127.0.0.2]>\r\nDATA\r\n",
		"!250 ok\r\n250 ok\r\n354 go\r\n", CONTENT, "!250 ok\r\n", "~", NULL };
	struct site s;
	struct peer p;
	struct pepsi_msg m = site_message("x@[127.0.0.2]");
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, NULL, false, NULL);
	site_deliver(&s, &m);
	site_says(&m, "complete_success");
	assert_int_equal(fake_loop_questions(), 0);
	site_logs(&m, "host=- ip=127.0.0.2");
	site_close(&s);
	peer_end(&p);
	site_done(&m);
}

/* An address that is not ours any more is left out; the name goes with the address. */
void test_internet_sources(void **state)
{
	static const char *const script[] = { "!220 p\r\n", "?EHLO out2.example\r\n", "!250-p\r\n250 PIPELINING\r\n", TAKE, "~", NULL };
	struct site s;
	struct peer p;
	struct pepsi_msg m = site_message("x@example.org");
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, two, false, "SOURCES_1=192.0.2.99=out1.example*100 127.0.0.77=out2.example\nSOURCES_2=from=@other.example 127.0.0.78\n");
	site_deliver(&s, &m);
	site_says(&m, "complete_success");
	site_logs(&m, "ip=127.0.0.2");
	site_logs(&m, "from=127.0.0.77");
	site_close(&s);
	peer_end(&p);
	site_done(&m);
}

/* One connection at a time: messages wait for each other, and go over one session. */
void test_internet_window(void **state)
{
	static const char *const script[] = { EHLO, TAKE, TAKE, TAKE, "~", NULL };
	struct site s;
	struct peer p;
	struct pepsi_msg m[3] = { site_message("x@example.org"), site_message("x@example.org"), site_message("x@example.org") };
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, two, false, "SHAPE_1=mx1.example.org concurrency=1 initial=1\n");
	site_deliver(&s, &m[0]); /* it is known to be well now: more may wait for it here */
	site_process(&s, &m[1]);
	site_process(&s, &m[2]);
	assert_int_equal(fake_loop_run(3, 60000), 3);
	for (int i = 0; i < 3; i++) {
		site_says(&m[i], "complete_success");
		site_done(&m[i]);
	}
	site_close(&s);
	peer_end(&p);
}

/* A destination that fails: one message tries, the others go back without an attempt. */
void test_internet_backoff(void **state)
{
	struct site s;
	struct pepsi_msg m[20];
	int tried = 0, back = 0;
	(void)state;
	site_open(&s, two, false, NULL);
	for (int i = 0; i < 20; i++) {
		m[i] = site_message("x@example.org");
		site_process(&s, &m[i]);
	}
	fake_loop_run(20, 20000);
	for (int i = 0; i < 20; i++) {
		tried += m[i].calls.n && strstr(m[i].calls.p, "\"attempts\":1,") != NULL;
		back += m[i].calls.n && strstr(m[i].calls.p, "\"attempts\":0,") != NULL;
	}
	assert_true(tried >= 1 && tried <= 3);
	assert_true(back >= 16);
	site_close(&s);
	for (int i = 0; i < 20; i++)
		site_done(&m[i]);
}

/* A domain that cannot be looked up: one message asks, the others go back; a domain that can be is not held up. */
void test_internet_dns_fails(void **state)
{
	static const char *const zone[] = { "later.example MX tempfail", TWO, NULL };
	static const char *const script[] = { EHLO, TAKE, "~", NULL };
	struct site s;
	struct peer p;
	struct pepsi_msg m[21];
	int tried = 0, back = 0;
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, zone, false, NULL);
	for (int i = 0; i < 21; i++) {
		m[i] = site_message(i < 20 ? "x@later.example" : "x@example.org");
		site_process(&s, &m[i]);
	}
	fake_loop_run(21, 20000);
	for (int i = 0; i < 20; i++) {
		tried += m[i].calls.n && strstr(m[i].calls.p, "\"attempts\":1,") != NULL;
		back += m[i].calls.n && strstr(m[i].calls.p, "not tried now (backoff)") != NULL;
	}
	assert_true(tried >= 1 && tried <= 3);
	assert_true(back >= 16);
	site_says(&m[20], "complete_success");
	site_close(&s);
	peer_end(&p);
	for (int i = 0; i < 21; i++)
		site_done(&m[i]);
}
