/* The configuration of the relay stages, read through the option tables that they ship; how long a dead host rests; token files. */
#include "fake_host.h"
#include "relay.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

void test_smarthost_config(void **state);
void test_lmtp_config(void **state);
void test_hosts(void **state);
void test_rests(void **state);
void test_token_files(void **state);

/* smarthost.c is compiled into this test */
extern const struct pepsi_stage pepsi_stage_descriptor;

struct config_case {
	const char *text;
	const char *found; /* "": none */
	const char *host;  /* when it can be opened: the first one */
	int port;
	enum hop_tls_mode tls;
	const char *token_file;
};

static void check_config(const struct config_case *c, const struct pepsi_option *options, size_t n, bool lmtp)
{
	struct pepsi_conf conf = { .text = c->text, .stage = "out", .hostname = "us.example", .options = options, .n_options = n };
	struct pepsi_report rep = { .text = BUF_INIT(4096) };
	assert_int_equal(relay_validate(&fake_host, &conf, &rep, lmtp), PEPSI_OK);
	assert_string_equal(buf_z(&rep.text), c->found);
	if (!c->found[0]) {
		struct relay r = { .n_strings = 0 };
		struct buf why = BUF_INIT(1000);
		assert_int_equal(relay_configure(&r, &fake_host, &conf, lmtp, &why), 0);
		assert_string_equal(r.conf.each.helo, "us.example");
		assert_string_equal(r.policy.stage, "out");
		if (c->host) {
			assert_string_equal(r.conf.host[0].name, c->host);
			assert_int_equal(r.conf.host[0].port, c->port);
			assert_int_equal(r.conf.each.tls, c->tls);
		}
		if (c->token_file)
			assert_string_equal(r.conf.each.auth->token_file, c->token_file);
		relay_unconfigure(&r);
		buf_free(&why);
	}
	buf_free(&rep.text);
}

#define SIGN_IN "AUTH_USER=u\nAUTH_PASSWORD=p\n"
#define NOTLS "TLS: a sign-in needs TLS = require, implicit or dane: else anybody on the way has the password. AUTH_INSECURE = YES for a server on this host\n"

void test_smarthost_config(void **state)
{
	static const struct config_case cases[] = {
		{ "HOST=mx.example.net", "", "mx.example.net", 25, HOP_TLS_MAY, NULL },
		{ "HOST=192.0.2.1\nTLS=may", "", "192.0.2.1", 25, HOP_TLS_MAY, NULL },
		{ "HOST=2001:db8::1\nTLS=require", "", "2001:db8::1", 25, HOP_TLS_REQUIRE, NULL },
		{ "HOST=mx\nPORT=465", "", "mx", 465, HOP_TLS_IMPLICIT, NULL },
		{ "HOST=mx\nTLS=implicit", "", "mx", 465, HOP_TLS_IMPLICIT, NULL },
		{ "HOST=mx\nTLS=dane", "", "mx", 25, HOP_TLS_DANE, NULL },
		{ "HOST=mx\n" SIGN_IN, "", "mx", 587, HOP_TLS_REQUIRE, NULL },
		{ "HOST=mx\nTLS=implicit\n" SIGN_IN, "", "mx", 465, HOP_TLS_IMPLICIT, NULL },
		{ "HOST=127.0.0.1\nTLS=none\nAUTH_INSECURE=YES\n" SIGN_IN, "", "127.0.0.1", 587, HOP_TLS_NONE, NULL },
		{ "HOST=mx\nAUTH_USER=u\nAUTH_TOKEN=office", "", "mx", 587, HOP_TLS_REQUIRE, "/state/tokens/office.access" },
		{ "HOST=mx\nAUTH_USER=u\nAUTH_TOKEN_FILE=/t", "", "mx", 587, HOP_TLS_REQUIRE, "/t" },
		{ "HOST_2=b\nHOST_10=c\nHOST_1=a:26 weight=3", "", "a", 26, HOP_TLS_MAY, NULL },
		{ "HOST_1=[2001:db8::1]:26", "", "2001:db8::1", 26, HOP_TLS_MAY, NULL },
		{ "HOST=mx\nTLS_CERT=/c\nTLS_KEY=/k\nAUTH=external", "", "mx", 587, HOP_TLS_REQUIRE, NULL },
		{ "", "HOST: the server that takes the mail is missing: HOST, or HOST_1, HOST_2, … for several\n", NULL, 0, 0, NULL },
		{ "HOST=mx:25", "HOST: not a host name or an address in figures (no port, no brackets here: PORT, or HOST_1 = NAME:PORT)\n", NULL, 0, 0, NULL },
		{ "HOST=a\nHOST_1=b", "HOST: HOST and HOST_1, HOST_2, … exclude each other\n", NULL, 0, 0, NULL },
		{ "HOST_1=a:0\nHOST_b=c\nHOST_3=d weight=0",
		    "HOST_1: the port is 1 to 65535\nHOST_3: behind the host only weight=1 to weight=1000 can stand\n"
		    "HOST_b: HOST_1, HOST_2, … are numbered in the order they are tried\n", NULL, 0, 0, NULL },
		{ "HOST=192.0.2.1\nTLS=dane", "HOST: DANE wants a name, not an address\n", NULL, 0, 0, NULL },
		{ "HOST=192.0.2.1\nMX_LOOKUP=YES", "HOST: MX_LOOKUP wants a domain, not an address\n", NULL, 0, 0, NULL },
		{ "HOST=mx\nHELO=a b\nRETRY_MIN=2 h", "HELO: only printable ASCII without blanks can be sent\nRETRY_MAX: is shorter than RETRY_MIN\n", NULL, 0, 0, NULL },
		{ "HOST=mx\nTLS=may\n" SIGN_IN, NOTLS, NULL, 0, 0, NULL },
		{ "HOST=mx\nTLS=none\n" SIGN_IN, NOTLS, NULL, 0, 0, NULL },
		{ "HOST=mx\nTLS_VERIFY=NO\n" SIGN_IN,
		    "TLS_VERIFY: a sign-in needs a certificate that is checked: TLS_CA_FILE names the authority of a private one\n", NULL, 0, 0, NULL },
		{ "HOST=mx\nAUTH_USER=u", "", "mx", 587, HOP_TLS_REQUIRE, NULL }, /* the password may be where validate() cannot look */
		{ "HOST=mx\nAUTH_PASSWORD=u", "AUTH_PASSWORD: AUTH_USER is missing: whose is it?\n", NULL, 0, 0, NULL },
		{ "HOST=mx\nAUTH_TOKEN=nobody\n" SIGN_IN,
		    "AUTH_PASSWORD: a password and a token exclude each other\nAUTH_TOKEN: there is no section [token-nobody] with a CLIENT_ID\n", NULL, 0, 0, NULL },
		{ "HOST=mx\nAUTH=cram-md5\n" SIGN_IN,
		    "AUTH: cram-md5 is no mechanism; there are scram-sha-256-plus, scram-sha-256, oauthbearer, xoauth2, plain, login, external\n", NULL, 0, 0, NULL },
		{ "HOST=mx\nAUTH=xoauth2\n" SIGN_IN, "AUTH: a password goes with scram-sha-256, plain and login only\n", NULL, 0, 0, NULL },
		{ "HOST=mx\nAUTH=plain", "AUTH: there is nothing to sign in with: AUTH_USER and AUTH_PASSWORD, or AUTH_TOKEN\n", NULL, 0, 0, NULL },
		{ "HOST=mx\nAUTH=external", "AUTH: external needs TLS_CERT and TLS_KEY\n", NULL, 0, 0, NULL },
		{ "HOST=mx\nTLS_CERT=/c", "TLS_CERT: TLS_CERT and TLS_KEY belong together: both files, PEM\n", NULL, 0, 0, NULL },
		{ "HOST=mx\nAUTH_INSECURE=YES", "AUTH_INSECURE: there is nothing to sign in with: AUTH_USER and AUTH_PASSWORD, or AUTH_TOKEN\n", NULL, 0, 0, NULL },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		check_config(&cases[i], pepsi_stage_descriptor.options, pepsi_stage_descriptor.n_options, false);
}

void test_lmtp_config(void **state)
{
	static const struct pepsi_option options[] = {
		{ "HOST", PEPSI_OPT_STRING, 0, NULL, 0, 0, NULL, "" },
		{ "SOCKET", PEPSI_OPT_PATH, 0, NULL, 0, 0, NULL, "" },
		{ "PORT", PEPSI_OPT_INT, 0, "24", 0, 0, NULL, "" },
		{ "TLS", PEPSI_OPT_CHOICE, 0, "none", 0, 0, NULL, "" },
		RELAY_OPTIONS,
	};
	static const struct config_case cases[] = {
		{ "SOCKET=/run/x", "", NULL, 0, 0, NULL },
		{ "HOST=::1\nTLS=require", "", "::1", 24, HOP_TLS_REQUIRE, NULL },
		{ "", "-: one of SOCKET and HOST is needed\n", NULL, 0, 0, NULL },
		{ "SOCKET=/run/x\nHOST=mx", "SOCKET: SOCKET and HOST exclude each other\n", NULL, 0, 0, NULL },
		{ "SOCKET=/run/x\nTLS=may", "TLS: a local socket has no TLS; leave it at none\n", NULL, 0, 0, NULL },
		{ "SOCKET=/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/"
		  "0123456789", "SOCKET: the path is too long for a socket (107 octets)\n", NULL, 0, 0, NULL },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		check_config(&cases[i], options, sizeof options / sizeof *options, true);
}

void test_hosts(void **state)
{
	static const struct {
		const char *text, *name;
		int port;
		unsigned weight;
	} cases[] = {
		{ "a.example", "a.example", 25, 1 }, { "a.example:587", "a.example", 587, 1 }, { "192.0.2.1:26 weight=5", "192.0.2.1", 26, 5 },
		{ "2001:db8::1", "2001:db8::1", 25, 1 }, { "[2001:db8::1]", "2001:db8::1", 25, 1 }, { "[::1]:465\tweight=1000", "::1", 465, 1000 },
		{ "", NULL, 0, 0 }, { "a:", NULL, 0, 0 }, { "a:0", NULL, 0, 0 }, { "a:65536", NULL, 0, 0 }, { "a b", NULL, 0, 0 }, { "[::1", NULL, 0, 0 },
		{ "[]:25", NULL, 0, 0 }, { "[::1]25", NULL, 0, 0 }, { "a weight=0", NULL, 0, 0 }, { "a weight=1001", NULL, 0, 0 }, { ":25", NULL, 0, 0 },
		{ "a/b", NULL, 0, 0 },
	};
	char room[256];
	struct hops_host h;
	const char *why;
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int r = hops_host_parse(str_from(cases[i].text), 25, room, &h, &why);
		if ((r == 0) != (cases[i].name != NULL))
			print_error("%s\n", cases[i].text);
		assert_int_equal(r, cases[i].name ? 0 : -1);
		if (r == 0) {
			assert_string_equal(h.name, cases[i].name);
			assert_int_equal(h.port, cases[i].port);
			assert_int_equal(h.weight, cases[i].weight);
		}
	}
}

void test_rests(void **state)
{
	static const struct {
		unsigned n;
		bool hung, not_let_in, alone;
		int64_t rest;
	} cases[] = {
		{ 1, false, false, false, 1000 }, { 2, false, false, false, 2000 }, { 9, false, false, false, 256000 }, { 10, false, false, false, 300000 },
		{ 4000000000u, true, false, false, 300000 }, { 1, true, false, false, 10000 }, { 3, true, false, false, 40000 },
		{ 5, false, false, true, 0 }, { 5, true, false, true, 10000 }, { 1, false, true, true, 60000 }, { 9, false, true, true, 900000 },
		{ 1, false, true, false, 60000 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(hops_rest_ms(cases[i].n, cases[i].hung, cases[i].not_let_in, cases[i].alone, 300000), cases[i].rest);
}

void test_token_files(void **state)
{
	static const struct {
		const char *text, *token;
		int64_t expires;
		const char *why;
	} cases[] = {
		{ "access_token abc.DEF-_~+/=\nexpires_at 1796038764\n", "abc.DEF-_~+/=", 1796038764, NULL },
		{ "# kept by somebody\nexpires_at 5\naccess_token x\nother thing\n", "x", 5, NULL },
		{ "abc\n", "abc", 0, NULL }, { "abc", "abc", 0, NULL }, { "\r\n abc \r\n\n", "abc", 0, NULL },
		{ "", NULL, 0, "there is no token in it" }, { "expires_at 5\n", NULL, 0, "there is no token in it" },
		{ "access_token a b\n", NULL, 0, "the token holds blanks or other than printable ASCII" },
		{ "access_token \xc3\xa9\n", NULL, 0, "the token holds blanks or other than printable ASCII" },
		{ "access_token a\nexpires_at soon\n", NULL, 0, "expires_at is no number of seconds" },
		{ "access_token a\nexpires_at -1\n", NULL, 0, "expires_at is no number of seconds" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf token = BUF_INIT(100);
		int64_t expires = -1;
		const char *why = NULL;
		int r = hop_token_parse(str_from(cases[i].text), &token, &expires, &why);
		if (cases[i].token) {
			assert_int_equal(r, 0);
			assert_string_equal(buf_z(&token), cases[i].token);
			assert_int_equal(expires, cases[i].expires);
		} else {
			assert_int_equal(r, -1);
			assert_string_equal(why, cases[i].why);
		}
		buf_free_secret(&token);
	}
	/* nothing to sign in with is no sign-in with nothing */
	struct hop_auth bare = { .user = "u" };
	struct hop_secret none;
	struct smtp_client_auth with;
	struct buf what = BUF_INIT(400);
	assert_int_equal(hop_secret_get(&bare, 1, &none, &with, &what), -1);
	assert_non_null(strstr(what.p, "there is no password"));
	hop_secret_done(&none);
	buf_free(&what);
	/* files that are none, that are too large, that expire; and a new one is another version */
	char path[] = "/tmp/pepsi-unit-token-XXXXXX";
	int fd = mkstemp(path);
	struct hop_auth a = { .user = "u", .token_file = path };
	struct hop_secret s;
	struct smtp_client_auth in;
	struct buf why = BUF_INIT(400);
	assert_true(fd >= 0);
	uint64_t before = hop_token_version(path);
	assert_int_equal(hop_secret_get(&a, 1000, &s, &in, &why), -1);
	assert_non_null(strstr(why.p, "there is no token in it"));
	hop_secret_done(&s);
	buf_reset(&why);
	assert_int_equal(write(fd, "access_token a\nexpires_at 1000\n", 31), 31);
	assert_int_equal(hop_secret_get(&a, 999, &s, &in, &why), 0);
	assert_string_equal(in.token.p, "a");
	assert_true(sasl_nonce_ok(in.nonce));
	hop_secret_done(&s);
	assert_int_equal(hop_secret_get(&a, 1000, &s, &in, &why), -1);
	assert_non_null(strstr(why.p, "the access token expired at 1970-01-01 00:16:40 UTC"));
	hop_secret_done(&s);
	assert_int_equal(ftruncate(fd, HOP_TOKEN_FILE_MAX), 0);
	buf_reset(&why);
	assert_int_equal(hop_secret_get(&a, 1, &s, &in, &why), -1);
	hop_secret_done(&s);
	close(fd);
	assert_true(hop_token_version(path) != before);
	unlink(path);
	assert_int_equal(hop_token_version(path), 0);
	buf_reset(&why);
	assert_int_equal(hop_secret_get(&a, 1, &s, &in, &why), -1);
	assert_non_null(strstr(why.p, "No such file"));
	hop_secret_done(&s);
	a.token_file = "/tmp";
	buf_reset(&why);
	assert_int_equal(hop_secret_get(&a, 1, &s, &in, &why), -1);
	hop_secret_done(&s);
	buf_free(&why);
}
