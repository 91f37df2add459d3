/* What a TLS session tells of itself: tickets and their keys, channel bindings, the client's certificate; and what a set of
 * rules refuses. Unix sockets that listen. Client and server in one thread over a socket pair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "certificate.h"
#include "net/conn.h"
#include "net/listener.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { TURNS = 2000 };

static char dir[] = "/tmp/pepsi-tls-XXXXXX", cert[2][64], key[2][64];
static struct buf pem[4]; /* certificate and key of [0], then of [1] */

struct pair {
	struct event_base *base;
	struct net_conn *c;
	SSL *client;
	int fd;
	bool secured, broken;
};

static void on_input(void *arg, const char *p, size_t n)
{
	(void)arg;
	(void)p;
	(void)n;
}

static void on_eof(void *arg)
{
	(void)arg;
}

static void on_secured(void *arg)
{
	((struct pair *)arg)->secured = true;
}

static void on_broken(void *arg, const char *why)
{
	struct pair *p = arg;
	assert_non_null(why);
	p->broken = true;
	net_conn_free(p->c);
	p->c = NULL;
}

static const struct net_conn_calls calls = { on_input, on_eof, on_eof, on_secured, on_broken };

static struct net_tls *make(const struct net_tls_conf *c)
{
	const struct net_tls_pair own = { cert[0], key[0], buf_str(&pem[0]), buf_str(&pem[1]) };
	struct net_tls_conf conf = *c;
	char err[256] = "";
	conf.pairs = &own;
	conf.n = 1;
	struct net_tls *t = net_tls_new(&conf, err, sizeof err);
	if (!t)
		fail_msg("%s", err);
	return t;
}

/* A handshake to its end, whichever. session: to be taken up, or NULL. own: show this certificate. */
static struct pair meet(struct net_tls *t, int version, SSL_SESSION *session, unsigned own)
{
	struct pair p = { .base = event_base_new() };
	int sv[2], r = 0;
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	char rest;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv), 0);
	SSL_CTX_set_min_proto_version(ctx, version);
	SSL_CTX_set_max_proto_version(ctx, version);
	if (own)
		assert_true(SSL_CTX_use_certificate_file(ctx, cert[own], SSL_FILETYPE_PEM) == 1 &&
		    SSL_CTX_use_PrivateKey_file(ctx, key[own], SSL_FILETYPE_PEM) == 1);
	p.client = SSL_new(ctx);
	SSL_CTX_free(ctx);
	p.fd = sv[1];
	SSL_set_fd(p.client, p.fd);
	SSL_set_connect_state(p.client);
	if (session)
		SSL_set_session(p.client, session);
	p.c = net_conn_new(p.base, sv[0], &calls, &p);
	assert_int_equal(net_conn_starttls(p.c, t), 0);
	for (unsigned i = 0; i < TURNS && !p.broken && (r != 1 || !p.secured); i++) {
		r = SSL_do_handshake(p.client);
		event_base_loop(p.base, EVLOOP_NONBLOCK);
	}
	SSL_read(p.client, &rest, 1); /* a ticket of TLS 1.3 comes behind the handshake */
	ERR_clear_error();
	return p;
}

static void part(struct pair *p)
{
	net_conn_free(p->c);
	SSL_set_shutdown(p->client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN); /* else its session counts as broken */
	SSL_free(p->client);
	close(p->fd);
	event_base_free(p->base);
}

static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };

static void test_tickets(void **state)
{
	(void)state;
	for (unsigned v = 0; v < 2; v++) {
		struct net_tickets *keys = net_tickets_new();
		struct net_tls *mx = make(&(struct net_tls_conf){ .tickets = keys, .context = "mx" });
		struct net_tls *other = make(&(struct net_tls_conf){ .tickets = keys, .context = "other" });
		struct pair p = meet(mx, versions[v], NULL, 0);
		assert_true(p.secured);
		assert_false(net_conn_tls_resumed(p.c));
		SSL_SESSION *s = SSL_get1_session(p.client);
		assert_true(SSL_SESSION_is_resumable(s));
		part(&p);
		/* the same keys in another set, as after a reload; not at another listener */
		struct net_tls *again = make(&(struct net_tls_conf){ .tickets = keys, .context = "mx" });
		p = meet(again, versions[v], s, 0);
		assert_true(net_conn_tls_resumed(p.c));
		part(&p);
		p = meet(other, versions[v], s, 0);
		assert_true(p.secured && !net_conn_tls_resumed(p.c));
		part(&p);
		/* the key before the newest still opens, the one before that does not */
		assert_int_equal(net_tickets_rotate(keys), 0);
		p = meet(again, versions[v], s, 0);
		assert_true(net_conn_tls_resumed(p.c));
		part(&p);
		assert_int_equal(net_tickets_rotate(keys), 0);
		p = meet(again, versions[v], s, 0);
		assert_true(p.secured && !net_conn_tls_resumed(p.c));
		part(&p);
		SSL_SESSION_free(s);
		net_tickets_unref(keys);
		/* none wanted, none given */
		struct net_tls *none = make(&(struct net_tls_conf){ .context = "mx" });
		p = meet(none, versions[v], NULL, 0);
		assert_false(SSL_SESSION_is_resumable(SSL_get_session(p.client)));
		part(&p);
		net_tls_unref(mx);
		net_tls_unref(other);
		net_tls_unref(again);
		net_tls_unref(none);
	}
}

/* Both sides come to the same octets, and the client computes them with nothing of ours. */
static void test_bindings(void **state)
{
	static const char label[] = "EXPORTER-Channel-Binding";
	(void)state;
	for (unsigned v = 0; v < 2; v++) {
		struct net_tls *t = make(&(struct net_tls_conf){ .context = "mx" });
		uint8_t ours[64], theirs[64];
		size_t n = 0;
		unsigned m = 0;
		struct pair p = meet(t, versions[v], NULL, 0);
		assert_int_equal(net_conn_tls_exporter(p.c, ours), 0);
		assert_int_equal(SSL_export_keying_material(p.client, theirs, 32, label, strlen(label), NULL, 0, 0), 1);
		assert_memory_equal(ours, theirs, 32);
		assert_int_equal(net_conn_tls_server_end_point(p.c, ours, &n), 0);
		X509 *x = SSL_get1_peer_certificate(p.client);
		assert_int_equal(X509_digest(x, EVP_sha256(), theirs, &m), 1);
		X509_free(x);
		assert_int_equal(n, m);
		assert_memory_equal(ours, theirs, n);
		assert_true(net_conn_tls_bits(p.c) >= 128);
		assert_null(net_conn_tls_client_identity(p.c));
		part(&p);
		net_tls_unref(t);
	}
	/* before TLS there is nothing to bind to */
	struct event_base *base = event_base_new();
	uint8_t out[64];
	size_t n;
	int sv[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv), 0);
	struct net_conn *c = net_conn_new(base, sv[0], &calls, NULL);
	assert_int_equal(net_conn_tls_exporter(c, out), -1);
	assert_int_equal(net_conn_tls_server_end_point(c, out, &n), -1);
	assert_null(net_conn_tls_client_identity(c));
	assert_null(net_conn_tls_protocol(c));
	assert_int_equal(net_conn_tls_bits(c), 0);
	net_conn_free(c);
	close(sv[1]);
	event_base_free(base);
}

static void test_client(void **state)
{
	(void)state;
	struct net_tls_conf conf = { .context = "mx", .client = NET_TLS_CLIENT_ASK, .client_ca = buf_str(&pem[2]), .client_ca_name = cert[1] };
	struct net_tls *ask = make(&conf);
	conf.client = NET_TLS_CLIENT_REQUIRE;
	struct net_tls *must = make(&conf);
	for (unsigned v = 0; v < 2; v++) {
		struct pair p = meet(ask, versions[v], NULL, 1);
		const struct net_tls_identity *id = net_conn_tls_client_identity(p.c);
		assert_non_null(id);
		assert_string_equal(id->subject, "CN=other.example.test");
		assert_string_equal(id->common_name, "other.example.test");
		assert_string_equal(id->email, "");
		assert_int_equal(strlen(id->fingerprint), 64);
		assert_ptr_equal(net_conn_tls_client_identity(p.c), id);
		part(&p);
		p = meet(ask, versions[v], NULL, 0);
		assert_true(p.secured && !net_conn_tls_client_identity(p.c));
		part(&p);
		p = meet(must, versions[v], NULL, 1);
		assert_non_null(net_conn_tls_client_identity(p.c));
		part(&p);
		p = meet(must, versions[v], NULL, 0);
		assert_true(p.broken && !p.secured);
		part(&p);
	}
	net_tls_unref(ask);
	net_tls_unref(must);
	/* another authority */
	conf.client = NET_TLS_CLIENT_ASK;
	conf.client_ca = buf_str(&pem[0]);
	struct net_tls *strict = make(&conf);
	struct pair p = meet(strict, TLS1_3_VERSION, NULL, 1);
	assert_true(p.broken && !p.secured);
	part(&p);
	net_tls_unref(strict);
}

static void test_rules(void **state)
{
	(void)state;
	const struct net_tls_pair own = { cert[0], key[0], buf_str(&pem[0]), buf_str(&pem[1]) };
	struct {
		struct net_tls_conf conf;
		const char *why;
	} cases[] = {
		{ { .ciphers = "NO-SUCH-CIPHER" }, "NO-SUCH-CIPHER" },
		{ { .suites = "TLS_NO_SUCH" }, "TLS_NO_SUCH" },
		{ { .groups = "P-257" }, "P-257" },
		{ { .no_tls12 = true, .no_tls13 = true }, "none is left" },
		{ { .ciphers = "", .suites = "" }, "none is left" },
		{ { .client = NET_TLS_CLIENT_ASK, .client_ca = STR_INIT("no certificate"), .client_ca_name = "/ca" }, "/ca" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char err[256] = "";
		cases[i].conf.pairs = &own;
		cases[i].conf.n = 1;
		assert_null(net_tls_new(&cases[i].conf, err, sizeof err));
		if (!strstr(err, cases[i].why))
			fail_msg("case %zu: %s", i, err);
	}
	/* one version only */
	struct net_tls *t = make(&(struct net_tls_conf){ .no_tls12 = true });
	struct pair p = meet(t, TLS1_2_VERSION, NULL, 0);
	assert_true(p.broken);
	part(&p);
	p = meet(t, TLS1_3_VERSION, NULL, 0);
	assert_true(p.secured);
	part(&p);
	net_tls_unref(t);
	t = make(&(struct net_tls_conf){ .suites = "" });
	p = meet(t, TLS1_3_VERSION, NULL, 0);
	assert_true(p.broken);
	part(&p);
	struct net_tls_cert c;
	assert_true(net_tls_cert(t, 0, &c));
	assert_string_equal(c.file, cert[0]);
	assert_true(c.not_after_s > 1600000000);
	assert_false(net_tls_cert(t, 1, &c));
	assert_false(net_tls_cert(NULL, 0, &c));
	assert_true(net_tls_names(t, "mx.example.test"));
	assert_false(net_tls_names(t, "example.test"));
	net_tls_unref(t);
}

static void test_unix_socket(void **state)
{
	(void)state;
	char path[108], err[256] = "", folder[96];
	struct stat st;
	snprintf(path, sizeof path, "%s/sock", dir);
	mode_t mask = umask(077);
	int fd = net_listen_unix(path, 0660, (gid_t)-1, err, sizeof err);
	assert_int_equal(umask(mask), 077);
	if (fd < 0)
		fail_msg("%s", err);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0660);
	assert_int_equal(net_listen_adopt(fd, err, sizeof err), 0);
	/* in use; then stale */
	assert_int_equal(net_listen_unix(path, 0660, (gid_t)-1, err, sizeof err), -1);
	assert_non_null(strstr(err, "another process"));
	close(fd);
	fd = net_listen_unix(path, 0600, getegid(), err, sizeof err);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(unlink(path), 0);
	/* no socket: not touched */
	FILE *f = fopen(path, "we");
	fclose(f);
	assert_int_equal(net_listen_unix(path, 0600, (gid_t)-1, err, sizeof err), -1);
	assert_non_null(strstr(err, "no socket"));
	assert_int_equal(unlink(path), 0);
	/* a folder that others may write to, one that is not there, names that are none */
	snprintf(folder, sizeof folder, "%s/open", dir);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(chmod(folder, 0777), 0);
	snprintf(path, sizeof path, "%s/sock", folder);
	assert_int_equal(net_listen_unix(path, 0600, (gid_t)-1, err, sizeof err), -1);
	assert_non_null(strstr(err, "written to by others"));
	assert_int_equal(chmod(folder, 01777), 0);
	fd = net_listen_unix(path, 0600, (gid_t)-1, err, sizeof err);
	assert_true(fd >= 0);
	close(fd);
	unlink(path);
	rmdir(folder);
	assert_int_equal(net_listen_unix(path, 0600, (gid_t)-1, err, sizeof err), -1);
	assert_int_equal(net_listen_unix("sock", 0600, (gid_t)-1, err, sizeof err), -1);
	static const char long_path[] = "/tmp/01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123";
	assert_int_equal(net_listen_unix(long_path, 0600, (gid_t)-1, err, sizeof err), -1);
	assert_non_null(strstr(err, "too long"));
	/* not everything that is passed listens */
	int sv[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(net_listen_adopt(sv[0], err, sizeof err), -1);
	assert_non_null(strstr(err, "does not listen"));
	close(sv[0]);
	close(sv[1]);
	assert_int_equal(pipe(sv), 0);
	assert_int_equal(net_listen_adopt(sv[0], err, sizeof err), -1);
	close(sv[0]);
	close(sv[1]);
	int dgram = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(net_listen_adopt(dgram, err, sizeof err), -1);
	close(dgram);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_tickets), cmocka_unit_test(test_bindings), cmocka_unit_test(test_client),
		cmocka_unit_test(test_rules), cmocka_unit_test(test_unix_socket) };
	static const char *const hosts[] = { "mx.example.test", "other.example.test" };
	if (!mkdtemp(dir))
		return 1;
	for (unsigned i = 0; i < 2; i++) {
		snprintf(cert[i], sizeof cert[i], "%s/cert%u.pem", dir, i);
		snprintf(key[i], sizeof key[i], "%s/key%u.pem", dir, i);
		if (certificate_make(hosts[i], cert[i], key[i]))
			return 1;
		certificate_read(cert[i], &pem[2 * i]);
		certificate_read(key[i], &pem[2 * i + 1]);
	}
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	for (unsigned i = 0; i < 4; i++) {
		buf_free(&pem[i]);
		unlink(i % 2 ? cert[i / 2] : key[i / 2]);
	}
	rmdir(dir);
	return r;
}
