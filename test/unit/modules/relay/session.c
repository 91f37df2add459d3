/* The driver over real descriptors: a forked peer on a Unix socket that reads what it expects and answers. No time is
 * waited for except where silence is the subject (50 ms). */
#include "../../net/certificate.h"
#include "fake_host.h"
#include "hop_socket.h"
#include "hop_tls.h"
#include "relay.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

void test_session(void **state);
void test_session_kept(void **state);
void test_session_stale(void **state);
void test_session_refused(void **state);
void test_session_rooms(void **state);
void test_session_tls(void **state);
void test_session_silent(void **state);

/* One line per entry: "?text" reads until exactly this has come, "!text" sends, "-" closes and accepts the next. */
struct peer {
	pid_t pid;
	char dir[32], path[48];
};

static void peer_run(int listener, const char *const *script)
{
	int fd = accept(listener, NULL, NULL);
	for (; *script; script++) {
		const char *s = *script;
		if (*s == '-') {
			close(fd);
			fd = accept(listener, NULL, NULL);
		} else if (*s == '!') {
			if (write(fd, s + 1, strlen(s + 1)) < 0)
				_exit(2);
		} else {
			size_t want = strlen(s + 1), got = 0;
			char buf[4096];
			while (got < want) {
				ssize_t n = read(fd, buf + got, want - got);
				if (n <= 0)
					_exit(3);
				got += (size_t)n;
			}
			if (memcmp(buf, s + 1, want) != 0) {
				fprintf(stderr, "peer got \"%.*s\"\n", (int)got, buf);
				_exit(4);
			}
		}
	}
	close(fd);
	_exit(0);
}

static void peer_start(struct peer *p, const char *const *script)
{
	struct hop_address a;
	snprintf(p->dir, sizeof p->dir, "/tmp/pepsi-unit-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->path, sizeof p->path, "%s/s", p->dir);
	assert_int_equal(hop_unix_address(p->path, &a), 0);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)(const void *)&a.sa, a.len), 0);
	assert_int_equal(listen(fd, 5), 0);
	p->pid = fork();
	if (!p->pid)
		peer_run(fd, script);
	close(fd);
}

static void peer_end(struct peer *p)
{
	int st = 0;
	assert_int_equal(waitpid(p->pid, &st, 0), p->pid);
	assert_true(WIFEXITED(st));
	assert_int_equal(WEXITSTATUS(st), 0);
	unlink(p->path);
	rmdir(p->dir);
}

static struct pepsi_msg message(void)
{
	return (struct pepsi_msg){ .id = 5, .mail_from = "a@b", .rcpts = "c@d e@f", .lifetime_left = 1000, .bounce_stage = "bounce",
		.runtime_left_ms = 60000, .headers = { "S: x\r\n", 6 }, .body = { "hi\r\n", 4 }, .calls = BUF_INIT(1 << 16),
		.log = BUF_INIT(1 << 16) };
}

static void relay_init(struct relay *r, const struct peer *p, bool lmtp, int64_t command_ms)
{
	struct buf why = BUF_INIT(1000);
	*r = (struct relay){ .conf = { .each = { .socket = p->path, .lmtp = lmtp, .helo = "us", .connect_ms = 5000, .command_ms = command_ms,
		.data_ms = 5000, .idle_ms = 5000 } }, .policy = { .retry_min = 60, .retry_max = 60, .stage = "out" } };
	r->hops = hops_new(&r->conf, &why);
	assert_non_null(r->hops);
	buf_free(&why);
}

#define EHLO "!220 p\r\n", "?EHLO us\r\n", "!250-p\r\n250-DSN\r\n250 PIPELINING\r\n"
#define ENVELOPE "?MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nDATA\r\n"
#define TAKE ENVELOPE, "!250\r\n250\r\n250\r\n354 go\r\n", "?S: x\r\n\r\nhi\r\n.\r\n", "!250 2.0.0 took it\r\n"

void test_session(void **state)
{
	static const char *const script[] = { "!220 p\r\n", "?LHLO us\r\n", "!250-p\r\n250 PIPELINING\r\n", ENVELOPE,
		"!250\r\n250\r\n250\r\n354 go\r\n", "?S: x\r\n\r\nhi\r\n.\r\n", "!250 2.0.0 c\r\n452 4.2.2 e is full\r\n",
		"?QUIT\r\n", NULL };
	struct peer p;
	struct relay r;
	struct pepsi_msg m = message();
	(void)state;
	peer_start(&p, script);
	relay_init(&r, &p, true, 5000);
	assert_int_equal(relay_process(&r, &fake_host, &m), PEPSI_OK);
	assert_non_null(strstr(m.calls.p, "pause_with"));
	assert_non_null(strstr(m.calls.p, "/s: dot: 452 4.2.2 e is full\",\"last_reply\":{\"failed_recipient\":\"e@f\",\"smtp_code\":452,"));
	assert_non_null(strstr(m.log.p, "/s phase=dot code=250 status=2.0.0 reply=\"c\""));
	hops_free(r.hops);
	peer_end(&p);
	fake_done(&m);
}

void test_session_kept(void **state)
{
	static const char *const script[] = { EHLO, TAKE, TAKE, TAKE, "?QUIT\r\n", NULL };
	struct peer p;
	struct relay r;
	(void)state;
	peer_start(&p, script);
	relay_init(&r, &p, false, 5000);
	for (int i = 0; i < 3; i++) {
		struct pepsi_msg m = message();
		assert_int_equal(relay_process(&r, &fake_host, &m), PEPSI_OK);
		assert_string_equal(buf_z(&m.calls), "complete_success [all] dsn_here 0\n");
		fake_done(&m);
	}
	hops_free(r.hops);
	peer_end(&p);
}

/* The peer ends the kept connection in three ways; the message goes over a new one and never hears of it. */
void test_session_stale(void **state)
{
	static const char *const scripts[][20] = {
		{ EHLO, TAKE, "-", EHLO, TAKE, "?QUIT\r\n", NULL },
		{ EHLO, TAKE, ENVELOPE, "-", EHLO, TAKE, "?QUIT\r\n", NULL },
		{ EHLO, TAKE, ENVELOPE, "!421 4.4.2 enough\r\n", "-", EHLO, TAKE, "?QUIT\r\n", NULL },
	};
	(void)state;
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
		struct peer p;
		struct relay r;
		peer_start(&p, scripts[i]);
		relay_init(&r, &p, false, 5000);
		for (int k = 0; k < 2; k++) {
			struct pepsi_msg m = message();
			assert_int_equal(relay_process(&r, &fake_host, &m), PEPSI_OK);
			assert_string_equal(buf_z(&m.calls), "complete_success [all] dsn_here 0\n");
			fake_done(&m);
		}
		hops_free(r.hops);
		peer_end(&p);
	}
}

/* A connection that ends behind an accepted MAIL, or a first one, is a failure that counts. */
void test_session_refused(void **state)
{
	static const struct {
		const char *const script[10];
		const char *error;
	} cases[] = {
		{ { EHLO, ENVELOPE, "!250 ok\r\n", NULL }, "/s: rcpt: connection closed by the other side" },
		{ { EHLO, ENVELOPE, NULL }, "/s: mail: connection closed by the other side" },
		{ { "!554 5.7.1 not you\r\n", NULL }, "/s: banner: 554 5.7.1 not you" },
		{ { NULL }, "/s: banner: connection closed by the other side" },
		{ { "!220 p\r\n", "?EHLO us\r\n", "!hello\r\n", NULL }, "/s: ehlo: malformed reply" },
		{ { EHLO, ENVELOPE, "!250\r\n250\r\n250\r\n354\r\n", "?S: x\r\n\r\nhi\r\n.\r\n", NULL },
		    "/s: dot: connection closed by the other side" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct peer p;
		struct relay r;
		struct pepsi_msg m = message();
		char want[200];
		peer_start(&p, cases[i].script);
		relay_init(&r, &p, false, 5000);
		assert_int_equal(relay_process(&r, &fake_host, &m), PEPSI_OK);
		bool dot = strstr(cases[i].error, "dot: ");
		snprintf(want, sizeof want, "%s\"%s", cases[i].error, dot ? ",\"maybe_delivered\":{\"count\":1,\"at\":1796038764,\"hop\":\"" : "");
		assert_true(dot == (strstr(buf_z(&m.log), "maybe_delivered=yes") != NULL));
		if (!strstr(buf_z(&m.calls), want))
			print_error("case %zu: %swanted %s", i, buf_z(&m.calls), want);
		assert_non_null(strstr(buf_z(&m.calls), want));
		hops_free(r.hops);
		peer_end(&p);
		fake_done(&m);
	}
	/* nobody there at all */
	struct peer none = { .path = "/nonexistent/s" };
	struct relay r;
	struct pepsi_msg m = message();
	relay_init(&r, &none, false, 5000);
	assert_int_equal(relay_process(&r, &fake_host, &m), PEPSI_OK);
	assert_non_null(strstr(buf_z(&m.calls), "/s: connect to /nonexistent/s: No such file or directory"));
	hops_free(r.hops);
	fake_done(&m);
}

/* A peer with room for one recipient at a time gets them one by one, in this pass. */
void test_session_rooms(void **state)
{
	static const char *const script[] = { EHLO, "?MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nRCPT TO:<g@h>\r\nDATA\r\n",
		"!250\r\n550 5.1.1 who\r\n250\r\n452 4.5.3 too many\r\n354 go\r\n", "?S: x\r\n\r\nhi\r\n.\r\n", "!250 one\r\n",
		"?MAIL FROM:<a@b>\r\nRCPT TO:<g@h>\r\nDATA\r\n", "!250\r\n250\r\n354\r\n", "?S: x\r\n\r\nhi\r\n.\r\n", "!250 two\r\n",
		"?QUIT\r\n", NULL };
	struct peer p;
	struct relay r;
	struct pepsi_msg m = message();
	(void)state;
	m.rcpts = "c@d e@f g@h";
	peer_start(&p, script);
	relay_init(&r, &p, false, 5000);
	assert_int_equal(relay_process(&r, &fake_host, &m), PEPSI_OK);
	assert_non_null(strstr(m.calls.p, "fan_out keep [1 2]\n  clone bounce status 0 retry 0 [0] "));
	assert_non_null(strstr(m.calls.p, "\"diagnostic\":\"550 5.1.1 who\""));
	hops_free(r.hops);
	peer_end(&p);
	fake_done(&m);
}

void test_session_silent(void **state)
{
	static const char *const script[] = { EHLO, ENVELOPE, "?QUIT or the end\r\n", NULL };
	struct peer p;
	struct relay r;
	struct pepsi_msg m = message();
	int st;
	(void)state;
	peer_start(&p, script);
	relay_init(&r, &p, false, 50);
	assert_int_equal(relay_process(&r, &fake_host, &m), PEPSI_OK);
	assert_non_null(strstr(m.calls.p, "/s: mail: timed out after 50 ms without an answer"));
	hops_free(r.hops);
	assert_int_equal(waitpid(p.pid, &st, 0), p.pid);
	assert_int_equal(WEXITSTATUS(st), 3); /* it saw the connection end */
	unlink(p.path);
	rmdir(p.dir);
	fake_done(&m);
}

/* -- TLS: a peer with a certificate of its own making, in memory BIOs, no sockets. */

struct server {
	SSL_CTX *ctx;
	SSL *ssl;
	BIO *in, *out;
};

/* Runs both sides until the client is done. Returns what hop_tls_handshake() said last. */
static int meet(struct hop_tls *t, struct server *s, struct buf *why)
{
	for (int i = 0; i < 20; i++) {
		int r = hop_tls_handshake(t, why);
		struct buf *out = hop_tls_out(t);
		char back[8192];
		if (out->n)
			BIO_write(s->in, out->p, (int)out->n);
		buf_consume(out, out->n);
		if (r < 0)
			return r;
		SSL_do_handshake(s->ssl);
		int n = BIO_read(s->out, back, sizeof back);
		if (n > 0)
			hop_tls_feed(t, back, (size_t)n);
		if (r)
			return r;
	}
	return 0;
}

void test_session_tls(void **state)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = certificate_new(key, "mx.example.net");
	char ca[] = "/tmp/pepsi-unit-ca-XXXXXX";
	int fd = mkstemp(ca);
	FILE *f = fdopen(fd, "w");
	(void)state;
	PEM_write_X509(f, x);
	fclose(f);
	static const struct {
		bool verify, trusted;
		const char *host;
		int result;
		const char *why;
	} cases[] = {
		{ false, false, "anything.example", 1, "" },
		{ true, true, "mx.example.net", 1, "" },
		{ true, true, "other.example.net", -1, "TLS: certificate not trusted: hostname mismatch" },
		{ true, true, "192.0.2.1", -1, "TLS: certificate not trusted: IP address mismatch" },
		{ true, false, "mx.example.net", -1, "TLS: certificate not trusted: self-signed certificate" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf why = BUF_INIT(1000);
		struct server s = { .ctx = SSL_CTX_new(TLS_server_method()), .in = BIO_new(BIO_s_mem()), .out = BIO_new(BIO_s_mem()) };
		SSL_CTX_use_certificate(s.ctx, x);
		SSL_CTX_use_PrivateKey(s.ctx, key);
		s.ssl = SSL_new(s.ctx);
		SSL_set_bio(s.ssl, s.in, s.out);
		SSL_set_accept_state(s.ssl);
		struct hop_tls_conf *c = hop_tls_conf_new(cases[i].verify, cases[i].trusted ? ca : NULL, &why);
		assert_non_null(c);
		struct hop_tls *t = hop_tls_new(c, cases[i].host);
		assert_int_equal(meet(t, &s, &why), cases[i].result);
		assert_string_equal(buf_z(&why), cases[i].why);
		if (cases[i].result == 1) {
			char text[16] = "";
			assert_int_equal(hop_tls_write(t, "EHLO us\r\n", 9), 9);
			struct buf *out = hop_tls_out(t);
			BIO_write(s.in, out->p, (int)out->n);
			buf_consume(out, out->n);
			assert_int_equal(SSL_read(s.ssl, text, sizeof text), 9);
			assert_memory_equal(text, "EHLO us\r\n", 9);
			assert_non_null(strstr(hop_tls_describe(t), "TLSv1."));
			/* the end of the session is told, not guessed */
			SSL_shutdown(s.ssl);
			char back[4096];
			int n = BIO_read(s.out, back, sizeof back);
			assert_true(n > 0);
			hop_tls_feed(t, back, (size_t)n);
			assert_int_equal(hop_tls_read(t, text, sizeof text), -1);
		}
		hop_tls_free(t);
		hop_tls_conf_free(c);
		SSL_free(s.ssl);
		SSL_CTX_free(s.ctx);
		buf_free(&why);
	}
	struct buf why = BUF_INIT(1000);
	assert_null(hop_tls_conf_new(true, "/nonexistent/ca.pem", &why));
	assert_non_null(strstr(why.p, "/nonexistent/ca.pem: cannot load"));
	buf_free(&why);
	unlink(ca);
	X509_free(x);
	EVP_PKEY_free(key);
}
