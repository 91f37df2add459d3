/* STARTTLS through the whole ingress. */
#include "../net/certificate.h"
#include "harness.h"

#include <json-c/json.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[] = "/tmp/pepsi-tls-XXXXXX", cert[64], key[64];

static struct world *tls_world(void)
{
	return world_new(
	    (const char *const[]){ "listener-mx", "TLS_CERT", cert, "listener-mx", "TLS_KEY", key, NULL });
}

static SSL *start(struct client *c)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *s = SSL_new(ctx);
	SSL_CTX_free(ctx);
	SSL_set_fd(s, c->fd);
	SSL_set_connect_state(s);
	int r = 0;
	for (unsigned i = 0; i < 10000 && r != 1; i++) {
		r = SSL_do_handshake(s);
		world_turn(c->w);
	}
	assert_int_equal(r, 1);
	return s;
}

static void say(struct client *c, SSL *s, const char *text)
{
	assert_int_equal(SSL_write(s, text, (int)strlen(text)), (int)strlen(text));
	world_turn(c->w);
}

/* Everything up to the last line of a reply. */
static void expect(struct client *c, SSL *s, const char *begin)
{
	char tmp[8192];
	size_t n = 0;
	for (unsigned i = 0; i < 10000; i++) {
		int r = SSL_read(s, tmp + n, 1);
		if (r == 1) {
			n++;
			if (tmp[n - 1] != '\n')
				continue;
			tmp[n] = 0;
			const char *line = tmp;
			for (const char *p = strchr(tmp, '\n'); p && p[1]; p = strchr(p + 1, '\n'))
				line = p + 1;
			if (line[3] == '-')
				continue;
			if (strncmp(tmp, begin, strlen(begin)) != 0)
				fail_msg("expected \"%s…\", got \"%s\"", begin, tmp);
			return;
		}
		world_turn(c->w);
	}
	fail_msg("no reply: expected %s", begin);
}

static void test_starttls(void **state)
{
	(void)state;
	struct world *w = tls_world();
	struct client c = client_new(w);
	client_expect(&c, "220 ");
	client_send(&c, "EHLO plain.example.test\r\n");
	const char *ehlo = client_reply(&c);
	assert_non_null(strstr(ehlo, "STARTTLS\r\n"));
	client_send(&c, "MAIL FROM:<early@example.org>\r\n");
	client_expect(&c, "250 ");
	client_send(&c, "RSET\r\n");
	client_expect(&c, "250 ");
	client_send(&c, "STARTTLS\r\n");
	client_expect(&c, "220 ");
	SSL *s = start(&c);
	/* what was learnt in plaintext is forgotten */
	say(&c, s, "MAIL FROM:<a@example.org>\r\n");
	expect(&c, s, "503 ");
	say(&c, s, "EHLO secret.example.test\r\n");
	expect(&c, s, "250-mx.example.test");
	say(&c, s, "STARTTLS\r\n"); /* not twice */
	expect(&c, s, "5");
	say(&c, s, "MAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.test>\r\nDATA\r\n");
	expect(&c, s, "250 ");
	expect(&c, s, "250 ");
	expect(&c, s, "354 ");
	say(&c, s, "Subject: x\r\n\r\nhello\r\n.\r\n");
	while (!w->fake.admit_fn)
		world_turn(w);
	struct fake_row *r = &w->fake.rows[0];
	assert_non_null(strstr(r->headers.p, "from secret.example.test"));
	assert_non_null(strstr(r->headers.p, "with ESMTPS id"));
	assert_non_null(strstr(r->headers.p, "TLSv1.3"));
	assert_string_equal(buf_z(&r->body), "hello\r\n");
	struct json_object *o = json_tokener_parse(r->state), *origin, *tls, *v;
	assert_true(
	    json_object_object_get_ex(o, "origin", &origin) && json_object_object_get_ex(origin, "tls", &tls));
	assert_true(json_object_object_get_ex(tls, "protocol", &v));
	assert_string_equal(json_object_get_string(v), "TLSv1.3");
	assert_true(json_object_object_get_ex(tls, "cipher", &v));
	assert_true(json_object_get_string_len(v) > 0);
	json_object_put(o);
	fake_commit(w, NULL);
	expect(&c, s, "250 2.0.0 Ok: queued as ");
	say(&c, s, "QUIT\r\n");
	expect(&c, s, "221 ");
	char x;
	int n = SSL_read(s, &x, 1);
	for (unsigned i = 0; i < 10000 && SSL_get_error(s, n) == SSL_ERROR_WANT_READ; i++) {
		world_turn(w);
		n = SSL_read(s, &x, 1);
	}
	assert_int_equal(SSL_get_error(s, n), SSL_ERROR_ZERO_RETURN); /* close_notify, not just an end */
	SSL_free(s);
	client_free(&c);
	assert_int_equal(w->in->tls, 1);
	for (unsigned i = 0; i < 10; i++)
		world_turn(w);
	assert_int_equal(w->in->n_sessions, 0);
	world_free(w);
}

/* RFC 3207 §6, CVE-2011-0411: plaintext behind STARTTLS never reaches the session inside TLS. */
static void test_injection(void **state)
{
	(void)state;
	static const char *const tries[] = { "STARTTLS\r\nEHLO evil.example.test\r\nMAIL FROM:<evil@example.org>\r\n",
		"STARTTLS\r\nMAIL FROM:<evil@example.org>\r\n", "STARTTLS\r\nR", "STARTTLS\r\n\r\n" };
	for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
		struct world *w = tls_world();
		struct client c = client_new(w);
		client_hello(&c);
		client_send(&c, tries[i]);
		const char *got = client_reply(&c);
		if (got[0] != '5')
			fail_msg("try %zu: %s", i, got);
		client_closed(&c);
		assert_int_equal(w->in->tls, 0);
		client_free(&c);
		world_free(w);
	}
	/* in a segment of its own, behind the 220 */
	struct world *w = tls_world();
	struct client c = client_new(w);
	client_hello(&c);
	client_send(&c, "STARTTLS\r\n");
	client_expect(&c, "220 ");
	client_send(&c, "EHLO evil.example.test\r\nMAIL FROM:<evil@example.org>\r\n");
	for (unsigned i = 0; i < 1000 && w->in->n_sessions; i++)
		world_turn(w);
	assert_int_equal(w->in->n_sessions, 0);
	assert_int_equal(w->in->tls_failed, 1);
	client_free(&c);
	world_free(w);
}

static void test_handshake_deadline(void **state)
{
	(void)state;
	struct world *w = tls_world();
	struct client c = client_new(w);
	client_hello(&c);
	client_send(&c, "STARTTLS\r\n");
	client_expect(&c, "220 ");
	assert_int_equal(w->in->n_sessions, 1);
	ingress_sweep(w->in, w->in->sessions->deadline_us - 1);
	assert_int_equal(w->in->n_sessions, 1);
	ingress_sweep(w->in, w->in->sessions->deadline_us + 1);
	assert_int_equal(w->in->n_sessions, 0);
	client_closed(&c); /* without a word in plaintext */
	client_free(&c);
	world_free(w);
}

static void test_not_offered(void **state)
{
	(void)state;
	struct world *w = world_new(NULL);
	struct client c = client_new(w);
	client_expect(&c, "220 ");
	client_send(&c, "EHLO x.example.test\r\n");
	const char *ehlo = client_reply(&c);
	assert_null(strstr(ehlo, "STARTTLS"));
	client_send(&c, "STARTTLS\r\n");
	client_expect(&c, "5");
	client_free(&c);
	world_free(w);
}

/* After the start the key may be out of reach: a reload keeps the old certificate, and takes over the rest. */
static void test_reload(void **state)
{
	(void)state;
	char hidden[80];
	struct world *w = tls_world();
	snprintf(hidden, sizeof hidden, "%s.hidden", key);
	assert_int_equal(rename(key, hidden), 0);
	assert_int_equal(config_set(w->conf, "pepsi", "LOCAL_DOMAINS", "other.test"), 0);
	struct config_faults *f = config_faults_new();
	ingress_reload(w->in, w->conf, NULL, f);
	assert_int_equal(config_faults_n(f, true), 1); /* a warning that names the file */
	assert_int_equal(config_faults_n(f, false), 0);
	assert_non_null(strstr(config_faults_at(f, 0)->text, key));
	config_faults_free(f);
	assert_int_equal(rename(hidden, key), 0);
	struct client c = client_new(w);
	client_hello(&c);
	client_send(&c, "STARTTLS\r\n");
	client_expect(&c, "220 ");
	SSL *s = start(&c);
	say(&c, s, "EHLO x.example.test\r\n");
	expect(&c, s, "250-");
	say(&c, s, "MAIL FROM:<a@example.org>\r\nRCPT TO:<b@other.test>\r\nRCPT TO:<b@example.test>\r\n");
	expect(&c, s, "250 ");
	expect(&c, s, "250 ");
	expect(&c, s, "550 ");
	SSL_free(s);
	client_free(&c);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_starttls), cmocka_unit_test(test_injection),
		cmocka_unit_test(test_handshake_deadline), cmocka_unit_test(test_not_offered),
		cmocka_unit_test(test_reload) };
	if (!mkdtemp(dir))
		return 1;
	snprintf(cert, sizeof cert, "%s/cert.pem", dir);
	snprintf(key, sizeof key, "%s/key.pem", dir);
	if (certificate_make("mx.example.test", cert, key))
		return 1;
	log_setup(LOG_LV_ERROR, "test");
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(cert);
	unlink(key);
	rmdir(dir);
	return r;
}
