/* Connections over socket pairs: plain, TLS on the same descriptor, freeing from inside callbacks; certificates
 * by name; the accept loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "certificate.h"
#include "net/conn.h"
#include "net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TURNS = 2000 };

static char dir[] = "/tmp/pepsi-net-XXXXXX", cert[2][64], key[2][64];

struct peer {
	struct event_base *base;
	struct net_conn *c;
	int fd; /* the other end */
	struct buf in;
	unsigned eof, writable, secured, broken;
	bool free_on_input, starttls_on_input;
	struct net_tls *tls;
};

static void on_input(void *arg, const char *p, size_t n)
{
	struct peer *t = arg;
	buf_add(&t->in, p, n);
	if (t->starttls_on_input) {
		t->starttls_on_input = false;
		assert_int_equal(net_conn_starttls(t->c, t->tls), 0);
	}
	if (t->free_on_input) {
		net_conn_free(t->c);
		t->c = NULL;
	}
}

static void on_eof(void *arg)
{
	((struct peer *)arg)->eof++;
}

static void on_writable(void *arg)
{
	((struct peer *)arg)->writable++;
}

static void on_secured(void *arg)
{
	((struct peer *)arg)->secured++;
}

static void on_broken(void *arg, const char *why)
{
	struct peer *t = arg;
	assert_non_null(why);
	t->broken++;
	net_conn_free(t->c);
	t->c = NULL;
}

static const struct net_conn_calls calls = { on_input, on_eof, on_writable, on_secured, on_broken };

static void peer_init(struct peer *t)
{
	int sv[2];
	*t = (struct peer){ .in = BUF_INIT(64 << 20) };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv), 0);
	t->base = event_base_new();
	t->c = net_conn_new(t->base, sv[0], &calls, t);
	assert_non_null(t->c);
	t->fd = sv[1];
}

static void peer_done(struct peer *t)
{
	net_conn_free(t->c);
	if (t->fd >= 0)
		close(t->fd);
	buf_free(&t->in);
	net_tls_unref(t->tls);
	event_base_free(t->base);
}

static void turn(struct peer *t)
{
	event_base_loop(t->base, EVLOOP_NONBLOCK);
}

static void test_plain(void **state)
{
	(void)state;
	struct peer t;
	struct buf out = BUF_INIT(1 << 20);
	char got[64];
	peer_init(&t);
	assert_int_equal(write(t.fd, "hello", 5), 5);
	turn(&t);
	assert_string_equal(buf_z(&t.in), "hello");
	buf_addz(&out, "answer");
	assert_int_equal(net_conn_write(t.c, &out), 1);
	assert_int_equal(out.n, 0);
	assert_int_equal(read(t.fd, got, sizeof got), 6);
	/* reading off: nothing comes; on: it is there */
	net_conn_read(t.c, false);
	assert_int_equal(write(t.fd, "!", 1), 1);
	turn(&t);
	assert_string_equal(buf_z(&t.in), "hello");
	net_conn_read(t.c, true);
	turn(&t);
	assert_string_equal(buf_z(&t.in), "hello!");
	/* the peer's end comes once, and writing still works */
	shutdown(t.fd, SHUT_WR);
	for (unsigned i = 0; i < 5; i++)
		turn(&t);
	assert_int_equal(t.eof, 1);
	buf_addz(&out, "bye");
	assert_int_equal(net_conn_write(t.c, &out), 1);
	assert_int_equal(read(t.fd, got, sizeof got), 3);
	assert_int_equal(t.broken, 0);
	buf_free(&out);
	peer_done(&t);
}

static void test_back_pressure(void **state)
{
	(void)state;
	struct peer t;
	struct buf out = BUF_INIT(8 << 20);
	static char block[65536];
	peer_init(&t);
	while (out.n < 4 << 20)
		buf_add(&out, block, sizeof block);
	size_t all = out.n, got = 0;
	assert_int_equal(net_conn_write(t.c, &out), 0);
	assert_true(out.n > 0);
	turn(&t);
	assert_int_equal(t.writable, 0);
	for (unsigned i = 0; i < TURNS && got < all; i++) {
		ssize_t n;
		while ((n = read(t.fd, block, sizeof block)) > 0)
			got += (size_t)n;
		unsigned before = t.writable;
		turn(&t);
		if (t.writable != before)
			net_conn_write(t.c, &out);
	}
	assert_int_equal(got, all);
	buf_free(&out);
	/* a peer that is gone: an error, not a signal */
	close(t.fd);
	t.fd = -1;
	out = BUF_INIT(16);
	buf_addz(&out, "x");
	assert_int_equal(net_conn_write(t.c, &out), -1);
	buf_free(&out);
	peer_done(&t);
}

static void test_free_inside(void **state)
{
	(void)state;
	struct peer t;
	peer_init(&t);
	t.free_on_input = true;
	assert_int_equal(write(t.fd, "x", 1), 1);
	turn(&t);
	turn(&t);
	assert_null(t.c);
	char c;
	assert_int_equal(read(t.fd, &c, 1), 0); /* closed */
	peer_done(&t);
}

static SSL *client_tls(struct peer *t, const char *name)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *s = SSL_new(ctx);
	SSL_CTX_free(ctx);
	if (name)
		SSL_set_tlsext_host_name(s, name);
	SSL_set_fd(s, t->fd);
	SSL_set_connect_state(s);
	return s;
}

/* From files; what a file that cannot be read gives is an empty text. */
static struct net_tls *tls_of(const char *const *certs, const char *const *keys, size_t n, char *err, size_t size)
{
	struct net_tls_pair pair[2];
	struct buf text[4];
	for (size_t i = 0; i < n; i++)
		pair[i] = (struct net_tls_pair){ certs[i], keys[i], certificate_read(certs[i], &text[2 * i]),
			certificate_read(keys[i], &text[2 * i + 1]) };
	const struct net_tls_conf conf = { .pairs = pair, .n = n };
	struct net_tls *t = net_tls_new(&conf, err, size);
	for (size_t i = 0; i < 2 * n; i++)
		buf_free(&text[i]);
	return t;
}

static struct net_tls *server_tls(size_t n)
{
	const char *certs[] = { cert[0], cert[1] }, *keys[] = { key[0], key[1] };
	char err[256];
	struct net_tls *tls = tls_of(certs, keys, n, err, sizeof err);
	if (!tls)
		fail_msg("%s", err);
	return tls;
}

static void handshake(struct peer *t, SSL *s)
{
	int r = 0;
	for (unsigned i = 0; i < TURNS && (r != 1 || !t->secured); i++) {
		r = SSL_do_handshake(s);
		turn(t);
	}
	assert_int_equal(r, 1);
	assert_int_equal(t->secured, 1);
}

static void test_tls(void **state)
{
	(void)state;
	struct peer t;
	struct buf out = BUF_INIT(4 << 20);
	static char block[40000], got[65536];
	peer_init(&t);
	t.tls = server_tls(1);
	t.starttls_on_input = true;
	assert_int_equal(write(t.fd, "STARTTLS\r\n", 10), 10);
	turn(&t);
	assert_true(net_conn_securing(t.c));
	assert_null(net_conn_tls_protocol(t.c));
	SSL *s = client_tls(&t, NULL);
	handshake(&t, s);
	assert_false(net_conn_securing(t.c));
	assert_string_equal(net_conn_tls_protocol(t.c), "TLSv1.3");
	assert_non_null(net_conn_tls_cipher(t.c));
	/* small and large both ways; more than one record per turn */
	buf_reset(&t.in);
	for (size_t i = 0; i < sizeof block; i++)
		block[i] = (char)('a' + i % 26);
	size_t sent = 0;
	for (unsigned i = 0; i < TURNS && t.in.n < 10 * sizeof block; i++) {
		if (sent < 10) {
			int r = SSL_write(s, block, sizeof block);
			if (r > 0) {
				assert_int_equal(r, sizeof block);
				sent++;
			}
		}
		turn(&t);
	}
	assert_int_equal(t.in.n, 10 * sizeof block);
	for (unsigned i = 0; i < 10; i++)
		assert_memory_equal(t.in.p + i * sizeof block, block, sizeof block);
	while (out.n < 2 << 20)
		buf_add(&out, block, sizeof block);
	size_t all = out.n, have = 0;
	int w = net_conn_write(t.c, &out);
	assert_int_equal(w, 0);
	for (unsigned i = 0; i < 10 * TURNS && have < all; i++) {
		int r;
		while ((r = SSL_read(s, got, sizeof got)) > 0)
			have += (size_t)r;
		unsigned before = t.writable;
		turn(&t);
		if (t.writable != before)
			assert_true(net_conn_write(t.c, &out) >= 0);
	}
	assert_int_equal(have, all);
	/* reading held back inside TLS: what OpenSSL has already decrypted is not forgotten */
	net_conn_read(t.c, false);
	buf_reset(&t.in);
	assert_int_equal(SSL_write(s, "late", 4), 4);
	turn(&t);
	assert_int_equal(t.in.n, 0);
	net_conn_read(t.c, true);
	for (unsigned i = 0; i < 10; i++)
		turn(&t);
	assert_string_equal(buf_z(&t.in), "late");
	/* close_notify is the end, told once */
	SSL_shutdown(s);
	for (unsigned i = 0; i < 10; i++)
		turn(&t);
	assert_int_equal(t.eof, 1);
	assert_int_equal(t.broken, 0);
	/* and our own end is told properly, too */
	net_conn_free(t.c);
	t.c = NULL;
	int r = SSL_read(s, got, sizeof got);
	assert_int_equal(SSL_get_error(s, r), SSL_ERROR_ZERO_RETURN);
	SSL_free(s);
	buf_free(&out);
	peer_done(&t);
}

/* Plaintext behind STARTTLS is taken for a handshake, and that fails. */
static void test_tls_injection(void **state)
{
	(void)state;
	struct peer t;
	peer_init(&t);
	t.tls = server_tls(1);
	t.starttls_on_input = true;
	assert_int_equal(write(t.fd, "STARTTLS\r\n", 10), 10);
	turn(&t);
	assert_int_equal(write(t.fd, "MAIL FROM:<evil@example.org>\r\n", 30), 30);
	for (unsigned i = 0; i < 5; i++)
		turn(&t);
	assert_int_equal(t.broken, 1);
	assert_int_equal(t.secured, 0);
	assert_string_equal(buf_z(&t.in), "STARTTLS\r\n"); /* nothing of it was handed on */
	peer_done(&t);
}

static void test_tls_cut(void **state)
{
	(void)state;
	struct peer t;
	peer_init(&t);
	t.tls = server_tls(1);
	assert_int_equal(net_conn_starttls(t.c, t.tls), 0);
	close(t.fd);
	t.fd = -1;
	for (unsigned i = 0; i < 5; i++)
		turn(&t);
	assert_int_equal(t.broken, 1);
	peer_done(&t);
}

static void test_old_tls(void **state)
{
	(void)state;
	struct peer t;
	peer_init(&t);
	t.tls = server_tls(1);
	assert_int_equal(net_conn_starttls(t.c, t.tls), 0);
	SSL *s = client_tls(&t, NULL);
	SSL_set_security_level(s, 0);
	SSL_set_min_proto_version(s, TLS1_VERSION);
	SSL_set_max_proto_version(s, TLS1_1_VERSION);
	for (unsigned i = 0; i < 20; i++) {
		SSL_do_handshake(s);
		turn(&t);
	}
	assert_int_equal(t.secured, 0);
	assert_int_equal(t.broken, 1);
	SSL_free(s);
	ERR_clear_error();
	peer_done(&t);
}

static void test_sni(void **state)
{
	(void)state;
	static const struct {
		const char *ask, *get;
	} cases[] = { { NULL, "one.test" }, { "one.test", "one.test" }, { "two.test", "two.test" },
		{ "three.test", "one.test" } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct peer t;
		peer_init(&t);
		t.tls = server_tls(2);
		assert_int_equal(net_conn_starttls(t.c, t.tls), 0);
		SSL *s = client_tls(&t, cases[i].ask);
		handshake(&t, s);
		X509 *x = SSL_get1_peer_certificate(s);
		assert_int_equal(X509_check_host(x, cases[i].get, 0, 0, NULL), 1);
		X509_free(x);
		SSL_free(s);
		peer_done(&t);
	}
}

static void test_tls_faults(void **state)
{
	(void)state;
	char err[256];
	const char *c[] = { cert[0] }, *k[] = { key[1] }, *none[] = { "/nonexistent.pem" };
	assert_null(tls_of(c, k, 1, err, sizeof err));
	assert_non_null(strstr(err, key[1]));
	assert_null(tls_of(none, k, 1, err, sizeof err));
	assert_non_null(strstr(err, "/nonexistent.pem"));
	assert_null(tls_of(c, none, 1, err, sizeof err));
	assert_non_null(strstr(err, "/nonexistent.pem"));
	assert_null(tls_of(k, c, 1, err, sizeof err)); /* swapped */
	assert_int_equal(ERR_peek_error(), 0);
}

struct door {
	unsigned n;
	struct net_listener *l;
	bool stop;
};

static void on_accept(void *arg, int fd, const struct net_addr *peer)
{
	struct door *d = arg;
	assert_string_equal(peer->text, "127.0.0.1");
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	close(fd);
	d->n++;
	if (d->stop) {
		net_listener_free(d->l);
		d->l = NULL;
	}
}

static void test_listener(void **state)
{
	(void)state;
	char err[256] = "";
	struct event_base *base = event_base_new();
	struct door d = { 0 };
	int fd = net_listen("127.0.0.1", 0, err, sizeof err), many[100];
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	uint16_t port = net_listen_port(fd);
	assert_true(port > 0);
	/* taken, and names that are none */
	assert_int_equal(net_listen("127.0.0.1", port, err, sizeof err), -1);
	assert_non_null(strstr(err, "in use"));
	assert_int_equal(net_listen("localhost", port, err, sizeof err), -1);
	assert_non_null(strstr(err, "localhost"));
	d.l = net_listener_new(base, fd, on_accept, &d);
	assert_non_null(d.l);
	struct sockaddr_in sa = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)
	};
	for (unsigned i = 0; i < 100; i++) {
		many[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(many[i], (struct sockaddr *)&sa, sizeof sa), 0);
	}
	event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_true(d.n > 0 && d.n < 100); /* bounded per turn */
	for (unsigned i = 0; i < 10; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(d.n, 100);
	for (unsigned i = 0; i < 100; i++)
		close(many[i]);
	/* freed from inside */
	d.stop = true;
	int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(c, (struct sockaddr *)&sa, sizeof sa), 0);
	for (unsigned i = 0; i < 5; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
	assert_null(d.l);
	close(c);
	close(fd);
	event_base_free(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_back_pressure),
		cmocka_unit_test(test_free_inside),
		cmocka_unit_test(test_tls),
		cmocka_unit_test(test_tls_injection),
		cmocka_unit_test(test_tls_cut),
		cmocka_unit_test(test_old_tls),
		cmocka_unit_test(test_sni),
		cmocka_unit_test(test_tls_faults),
		cmocka_unit_test(test_listener),
	};
	static const char *const hosts[] = { "one.test", "two.test" };
	if (!mkdtemp(dir))
		return 1;
	for (unsigned i = 0; i < 2; i++) {
		snprintf(cert[i], sizeof cert[i], "%s/c%u.pem", dir, i);
		snprintf(key[i], sizeof key[i], "%s/k%u.pem", dir, i);
		if (certificate_make(hosts[i], cert[i], key[i]))
			return 1;
	}
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	for (unsigned i = 0; i < 2; i++) {
		unlink(cert[i]);
		unlink(key[i]);
	}
	rmdir(dir);
	return r;
}
