/* TLS: where it may be, must be, and must not be lost. */
#include "site.h"

#include <string.h>

#define ZONE "example.org MX 10 mx1.example.org", "mx1.example.org A 127.0.0.2"
static const char *const plain_zone[] = { ZONE, NULL };

void test_internet_tls(void **state)
{
	static const char *const script[] = { EHLO_TLS, TLS, TAKE, "~", NULL };
	struct site s;
	struct peer p;
	char more[200];
	struct pepsi_msg m = site_message("x@example.org");
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	snprintf(more, sizeof more, "TLS_CA_FILE=%s\n", peer_ca());
	site_open(&s, plain_zone, false, more);
	site_deliver(&s, &m);
	assert_string_equal(m.calls.p, "complete_success [all] dsn_here 1\ncomplete 0\n");
	site_logs(&m, "tls=\"TLSv1.3 ");
	site_logs(&m, "verified=pkix");
	site_close(&s);
	peer_end(&p);
	site_done(&m);
}

/* The handshake fails: over a new connection without TLS, where nobody asks for more (RFC 7435). */
void test_internet_tls_fails(void **state)
{
	static const char *const script[] = { EHLO_TLS, "!220 go\r\n", "!nonsense, no TLS at all\r\n", "-", "!220 p\r\n", "?EHLO us.example\r\n",
		"!250-p\r\n250-PIPELINING\r\n250 STARTTLS\r\n", TAKE, "~", NULL };
	struct site s;
	struct peer p;
	struct pepsi_msg m = site_message("x@example.org");
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, plain_zone, false, NULL);
	site_deliver(&s, &m);
	assert_string_equal(m.calls.p, "complete_success [all] dsn_here 1\ncomplete 0\n");
	site_logs(&m, "tls=\"\" verified=no");
	site_close(&s);
	peer_end(&p);
	site_done(&m);
}

/* Never without it where the operator says so: not offered, refused, broken. */
void test_internet_tls_required(void **state)
{
	static const char *const none[] = { EHLO, QUIT, NULL };
	static const char *const refused[] = { EHLO_TLS, "!454 4.7.0 not now\r\n", QUIT, NULL };
	static const char *const broken[] = { EHLO_TLS, "!220 go\r\n", "!nonsense, no TLS at all\r\n", "~", "^", NULL };
	static const struct {
		const char *const *script;
		const char *says;
	} cases[] = { { none, "the host does not offer it" }, { refused, "the host refuses it: 454 4.7.0 not now" }, { broken, "the handshake failed: TLS handshake" } };
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct site s;
		struct peer p;
		struct pepsi_msg m = site_message("x@example.org");
		peer_start(&p, "127.0.0.2", cases[i].script);
		site_open(&s, plain_zone, false, "TLS_POLICY_1=other.example may\nTLS_POLICY_2=example.org *.example.org require\n");
		site_deliver(&s, &m);
		site_says(&m, "pause ");
		site_says(&m, cases[i].says);
		site_until(1);
		site_close(&s);
		peer_end(&p);
		site_done(&m);
	}
}

/* A certificate that is valid for the host, or for what the operator names; and why it is not. */
void test_internet_tls_verify(void **state)
{
	static const char *const good[] = { EHLO_TLS, TLS, TAKE, "~", NULL };
	static const char *const bad[] = { EHLO_TLS, TLS, QUIT, NULL };
	static const struct {
		bool trusted;
		const char *policy, *says; /* NULL: it goes */
	} cases[] = { { true, "verify", NULL }, { false, "verify", "which is demanded here: " }, { true, "verify=.example.org", NULL },
		{ true, "verify=other.example,mx1.EXAMPLE.org", NULL },
		{ true, "verify=example.org", "for the names that are demanded here: hostname mismatch" },
		{ false, "verify=mx1.example.org", "for the names that are demanded here: " } };
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct site s;
		struct peer p;
		char more[300];
		struct pepsi_msg m = site_message("x@example.org");
		peer_start(&p, "127.0.0.2", cases[i].says ? bad : good);
		snprintf(more, sizeof more, "%s%s\nTLS_POLICY_1=example.org %s\n", cases[i].trusted ? "TLS_CA_FILE=" : "HELO=us.example",
		    cases[i].trusted ? peer_ca() : "", cases[i].policy);
		site_open(&s, plain_zone, false, more);
		site_deliver(&s, &m);
		site_says(&m, cases[i].says ? cases[i].says : "complete_success");
		if (!cases[i].says)
			site_logs(&m, "verified=pkix");
		else
			site_until(1);
		site_close(&s);
		peer_end(&p);
		site_done(&m);
	}
}

/* A domain that demands more than its host keeps is left alone the third time, by itself: another one at the same host is served. */
void test_internet_unsafe_domain(void **state)
{
#define LEAVES EHLO, "?QUIT\r\n", "!221 bye\r\n", "-"
	static const char *const script[] = { LEAVES, LEAVES, LEAVES, EHLO, "?MAIL FROM:<a@b.example>\r\nRCPT TO:<x@other.example>\r\nDATA\r\n",
		"!250 ok\r\n250 ok\r\n354 go\r\n", CONTENT, "!250 2.0.0 took it\r\n", "-", EHLO, "~", "^", NULL };
	static const char *const zone[] = { ZONE, "other.example MX 10 mx1.example.org", NULL };
	struct site s;
	struct peer p;
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, zone, false, "TLS_POLICY_1=example.org require\n");
	for (int i = 0; i < 6; i++) {
		struct pepsi_msg m = site_message(i == 4 ? "x@other.example" : "x@example.org");
		if (i == 5)
			fake_loop_skip(60000); /* the pause is over: one tries */
		site_deliver(&s, &m);
		site_says(&m, i == 4 ? "complete_success" : "TLS is a must there, and the host does not offer it");
		assert_int_equal(strstr(m.calls.p, "not tried now (tls)") != NULL, i == 3);
		assert_int_equal(strstr(m.calls.p, "\"attempts\":1") != NULL, i != 3 && i != 4);
		site_done(&m);
	}
	site_until(1);
	site_close(&s);
	peer_end(&p);
}

/* Who answers by our own name is ourselves: nothing is sent there, and what nobody else takes goes back. Another exchanger may take it. */
void test_internet_loop(void **state)
{
#define ITSELF "!220 p\r\n", "?EHLO us.example\r\n", "!250-US.Example at your service\r\n250 PIPELINING\r\n"
	static const char *const leaves[] = { ITSELF, QUIT, NULL }, *const takes[] = { ITSELF, TAKE, "~", NULL };
	struct site s;
	struct peer p;
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pepsi_msg m = site_message("x@example.org");
		peer_start(&p, "127.0.0.2", i ? takes : leaves);
		site_open(&s, plain_zone, false, i ? "LOOP_DETECT=NO\n" : NULL);
		site_deliver(&s, &m);
		site_says(&m, i ? "complete_success" : "loops back to ourselves");
		if (!i) {
			site_says(&m, "5.4.6");
			site_logs(&m, "event=loop domain=\"example.org\"");
		}
		site_done(&m);
		if (!i)
			site_until(1);
		site_close(&s);
		peer_end(&p);
	}
}

/* One host is well but not safe enough for this domain, the other is dead: that keeps nobody else from the first. */
void test_internet_unsafe_and_dead(void **state)
{
	static const char *const script[] = { LEAVES, LEAVES, LEAVES, EHLO, "?MAIL FROM:<a@b.example>\r\nRCPT TO:<x@other.example>\r\nDATA\r\n",
		"!250 ok\r\n250 ok\r\n354 go\r\n", CONTENT, "!250 2.0.0 took it\r\n", "~", NULL };
	static const char *const zone[] = { "example.org MX 10 mx1.example.org", "example.org MX 20 mx2.example.org", "other.example MX 10 mx1.example.org",
		"other.example MX 20 mx2.example.org", "mx1.example.org A 127.0.0.2", "mx2.example.org A 127.0.0.3", NULL };
	struct site s;
	struct peer p;
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, zone, false, "ADDRESS_HEALTH=NO\nTLS_POLICY_1=example.org require\n");
	for (int i = 0; i < 4; i++) {
		struct pepsi_msg m = site_message(i == 3 ? "x@other.example" : "x@example.org");
		site_deliver(&s, &m);
		site_says(&m, i == 3 ? "complete_success" : "refused");
		site_done(&m);
	}
	site_close(&s);
	peer_end(&p);
}

void test_internet_dane(void **state)
{
	static const char *const script[] = { EHLO_TLS, TLS, TAKE, TAKE, "~", NULL };
	char tlsa[200];
	const char *zone[] = { ZONE, tlsa, NULL };
	struct site s;
	struct peer p;
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	snprintf(tlsa, sizeof tlsa, "_%u._tcp.mx1.example.org TLSA 3 1 1 %s", peer_port(), peer_spki());
	site_open(&s, zone, true, NULL);
	for (int i = 0; i < 2; i++) {
		struct pepsi_msg m = site_message("x@example.org");
		site_deliver(&s, &m);
		assert_string_equal(m.calls.p, "complete_success [all] dsn_here 1\ncomplete 0\n");
		site_logs(&m, "verified=dane");
		site_logs(&m, i ? "reused=yes" : "reused=no");
		site_done(&m);
	}
	site_close(&s);
	peer_end(&p);
}

void test_internet_dane_wrong(void **state)
{
	static const char *const script[] = { EHLO_TLS, TLS, QUIT, NULL };
	static const char *const offers_none[] = { EHLO, QUIT, NULL };
	char tlsa[200];
	const char *zone[] = { ZONE, tlsa, NULL };
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct site s;
		struct peer p;
		struct pepsi_msg m = site_message("x@example.org");
		peer_start(&p, "127.0.0.2", i ? offers_none : script);
		snprintf(tlsa, sizeof tlsa, "_%u._tcp.mx1.example.org TLSA 3 1 1 %064d", peer_port(), 7);
		site_open(&s, zone, true, "TLS=none\n"); /* the operator's word is no match for it */
		site_deliver(&s, &m);
		site_says(&m, "pause ");
		site_says(&m, i ? "TLS is a must there" : "does not match its TLSA records (DANE)");
		site_until(1);
		site_close(&s);
		peer_end(&p);
		site_done(&m);
	}
}

/* TLSA records that cannot be had: not connected to; with the sender's "TLS-Required: No" it is. */
void test_internet_dane_unknown(void **state)
{
	static const char *const script[] = { EHLO, "?MAIL FROM:<a@b.example>\r\nRCPT TO:<x@example.org>\r\nDATA\r\n",
		"!250 ok\r\n250 ok\r\n354 go\r\n", "=.", "!250 ok\r\n", "~", NULL };
	char tlsa[200];
	const char *zone[] = { ZONE, tlsa, NULL };
	struct site s;
	struct peer p;
	struct pepsi_msg m = site_message("x@example.org");
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	snprintf(tlsa, sizeof tlsa, "_%u._tcp.mx1.example.org TLSA tempfail", peer_port());
	site_open(&s, zone, true, NULL);
	site_deliver(&s, &m);
	site_says(&m, "pause ");
	site_says(&m, "cannot be looked up");
	site_done(&m);
	m = site_message("x@example.org");
	m.headers = (struct pepsi_str){ "TLS-Required: No\r\n", 18 };
	site_deliver(&s, &m);
	site_says(&m, "complete_success");
	site_close(&s);
	peer_end(&p);
	site_done(&m);
}

/* What a man in the middle puts behind the reply to STARTTLS is not heard within TLS. */
void test_internet_injected(void **state)
{
	static const char *const script[] = { "!220 p\r\n", "?EHLO us.example\r\n", "!250-p\r\n250 STARTTLS\r\n", "?STARTTLS\r\n",
		"!220 go\r\n250-injected\r\n250 PIPELINING\r\n", "~", NULL };
	struct site s;
	struct peer p;
	struct pepsi_msg m = site_message("x@example.org");
	(void)state;
	peer_start(&p, "127.0.0.2", script);
	site_open(&s, plain_zone, false, "TLS=require\nGREETING_TIMEOUT=1 s\n");
	site_deliver(&s, &m);
	site_says(&m, "pause ");
	assert_null(strstr(m.calls.p, "injected"));
	site_close(&s);
	peer_end(&p);
	site_done(&m);
}

void test_internet_options(void **state)
{
	const struct pepsi_stage *st = &pepsi_stage_descriptor;
	struct pepsi_conf c = { .stage = "out", .hostname = "us.example", .options = st->options, .n_options = st->n_options,
		.text = "HELO=a b\nTLS_POLICY_1=example.org\nTLS_POLICY_2=x@example.org may\nTLS_POLICY_3=may\nTLS_POLICY_4=*.example.org * verify=.example.org,mx.other.example\n"
			"TLS_POLICY_5=a.example verify=\nTLS_POLICY_6=a.example require=b.example\nTLS_POLICY_7=a.example verify=b..example\n"
			"OWN_ADDRESSES=192.0.2.1 mail.example\nRETRY_MIN=2 h\nSHAPE_1=* sources=none\nSOURCE_ADDRESSES=192.0.2.300\n" };
	struct pepsi_report r = { .text = BUF_INIT(10000) };
	(void)state;
	fake_loop_begin(NULL, false);
	assert_int_equal(st->validate(&fake_loop_host, &c, &r), PEPSI_OK);
	assert_non_null(strstr(r.text.p, "HELO: only printable ASCII"));
	assert_non_null(strstr(r.text.p, "TLS_POLICY_1: \"example.org\" is no policy"));
	assert_non_null(strstr(r.text.p, "TLS_POLICY_2: \"x@example.org\" is none of"));
	assert_non_null(strstr(r.text.p, "TLS_POLICY_3: no domain stands before the policy"));
	assert_null(strstr(r.text.p, "TLS_POLICY_4"));
	assert_non_null(strstr(r.text.p, "TLS_POLICY_5: \"verify=\": behind verify= stand host names"));
	assert_non_null(strstr(r.text.p, "TLS_POLICY_6: \"require=b.example\" is no policy"));
	assert_non_null(strstr(r.text.p, "TLS_POLICY_7: \"verify=b..example\": behind"));
	assert_non_null(strstr(r.text.p, "OWN_ADDRESSES: \"mail.example\" is no"));
	assert_non_null(strstr(r.text.p, "RETRY_MAX: is shorter"));
	assert_non_null(strstr(r.text.p, "SOURCE_ADDRESSES: "));
	/* all faults of SHAPE and SOURCES lines in one run, those between lines too; a pool is missed when all lines can be read */
	buf_reset(&r.text);
	c.text = "SHAPE_1=*.google.com concurency=2\nSHAPE_3=x.a.example rate=2/s\nSHAPE_2=*.a.example rate=1/s\nSHAPE_4=b.example sources=none\n"
		 "SOURCES_1=192.0.2.300\nSOURCES_2=from=x 192.0.2.1\n";
	assert_int_equal(st->validate(&fake_loop_host, &c, &r), PEPSI_OK);
	assert_non_null(strstr(r.text.p, "SHAPE_1: \"concurency=2\" is not known here: is \"concurrency=\" meant?"));
	assert_non_null(strstr(r.text.p, "SHAPE_3: never used: SHAPE_2"));
	assert_non_null(strstr(r.text.p, "SOURCES_1: \"192.0.2.300\" is no IP address"));
	assert_non_null(strstr(r.text.p, "SOURCES_2: "));
	assert_null(strstr(r.text.p, "SHAPE_4"));
	buf_reset(&r.text);
	c.text = "SHAPE_4=b.example sources=none\nSHAPE_5=c.example sources=some\nSOURCES_1=pool=some 192.0.2.1\n";
	assert_int_equal(st->validate(&fake_loop_host, &c, &r), PEPSI_OK);
	assert_string_equal(r.text.p, "SHAPE_4: sources=none: no SOURCES_n line has pool=none\n");
	buf_free(&r.text);
}
