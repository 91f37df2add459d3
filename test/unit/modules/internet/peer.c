/* See peer.h. */
#include "peer.h"

#include "../../net/certificate.h"
#include "fake_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned port;
static int first_listener = -1;
static EVP_PKEY *key;
static X509 *cert;
static volatile int *marks; /* shared with the peers */
static char ca[40], spki[2 * SHA256_DIGEST_LENGTH + 1];

static int listener_on(const char *address, unsigned at)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)at) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	inet_pton(AF_INET, address, &in.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, (void *)&in, sizeof in)) {
		close(fd);
		return -1;
	}
	return fd;
}

unsigned peer_port(void)
{
	struct sockaddr_in in;
	socklen_t n = sizeof in;
	if (port)
		return port;
	first_listener = listener_on("127.0.0.1", 0); /* bound, not listening: it holds the number */
	assert_true(first_listener >= 0);
	assert_int_equal(getsockname(first_listener, (void *)&in, &n), 0);
	return port = ntohs(in.sin_port);
}

static void certificate(const char *name)
{
	unsigned char *der = NULL, hash[SHA256_DIGEST_LENGTH];
	key = EVP_EC_gen("P-256");
	assert_non_null(cert = certificate_new(key, name));
	int len = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(cert), &der);
	assert_true(len > 0);
	SHA256(der, (size_t)len, hash);
	OPENSSL_free(der);
	for (size_t i = 0; i < sizeof hash; i++)
		snprintf(spki + 2 * i, 3, "%02x", hash[i]);
	snprintf(ca, sizeof ca, "/tmp/pepsi-unit-ca-XXXXXX");
	FILE *f = fdopen(mkstemp(ca), "w");
	PEM_write_X509(f, cert);
	fclose(f);
}

const char *peer_ca(void)
{
	if (!cert)
		certificate("mx1.example.org");
	return ca;
}

const char *peer_spki(void)
{
	peer_ca();
	return spki;
}

int peer_marks(void)
{
	return marks ? *marks : 0;
}

void peer_done(void)
{
	if (marks)
		*marks = 0;
	if (cert)
		unlink(ca);
	X509_free(cert);
	EVP_PKEY_free(key);
	cert = NULL;
	key = NULL;
	if (first_listener >= 0)
		close(first_listener);
	first_listener = -1;
	port = 0;
}

struct talk {
	int fd;
	SSL *ssl;
	SSL_CTX *ctx;
};

static ssize_t get(struct talk *t, char *p, size_t n)
{
	return t->ssl ? SSL_read(t->ssl, p, (int)n) : read(t->fd, p, n);
}

static void hang_up(struct talk *t)
{
	if (t->ssl)
		SSL_shutdown(t->ssl);
	SSL_free(t->ssl);
	SSL_CTX_free(t->ctx);
	close(t->fd);
	*t = (struct talk){ .fd = -1 };
}

static void expect(struct talk *t, const char *text)
{
	size_t want = strlen(text), got = 0;
	char buf[8192];
	while (got < want) {
		ssize_t n = get(t, buf + got, want - got);
		if (n <= 0) {
			fprintf(stderr, "peer wanted \"%s\", got \"%.*s\" and the end\n", text, (int)got, buf);
			_exit(3);
		}
		got += (size_t)n;
	}
	if (memcmp(buf, text, want) != 0) {
		fprintf(stderr, "peer wanted \"%s\", got \"%.*s\"\n", text, (int)got, buf);
		_exit(4);
	}
}

static void until_dot(struct talk *t)
{
	char last[5] = "";
	while (memcmp(last, "\r\n.\r\n", 5) != 0) {
		memmove(last, last + 1, 4);
		if (get(t, last + 4, 1) != 1)
			_exit(5);
	}
}

static void start_tls(struct talk *t)
{
	t->ctx = SSL_CTX_new(TLS_server_method());
	SSL_CTX_use_certificate(t->ctx, cert);
	SSL_CTX_use_PrivateKey(t->ctx, key);
	t->ssl = SSL_new(t->ctx);
	SSL_set_fd(t->ssl, t->fd);
	if (SSL_accept(t->ssl) != 1)
		_exit(6);
}

static void run(int listener, const char *const *script)
{
	struct talk t = { .fd = accept(listener, NULL, NULL) };
	char rest[4096];
	for (; *script; script++) {
		const char *s = *script;
		struct linger now = { 1, 0 };
		switch (*s) {
		case '-':
			hang_up(&t);
			t.fd = accept(listener, NULL, NULL);
			break;
		case '%':
			setsockopt(t.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
			close(t.fd);
			t.fd = accept(listener, NULL, NULL);
			break;
		case '^':
			++*marks; /* one peer at a time does so in a test */
			break;
		case '*':
			start_tls(&t);
			break;
		case '~':
			while (get(&t, rest, sizeof rest) > 0) {}
			break;
		case '=':
			until_dot(&t);
			break;
		case '!':
			if ((t.ssl ? SSL_write(t.ssl, s + 1, (int)strlen(s + 1)) : write(t.fd, s + 1, strlen(s + 1))) < 0)
				_exit(2);
			break;
		default:
			expect(&t, s + 1);
		}
	}
	hang_up(&t);
	_exit(0);
}

void peer_start(struct peer *p, const char *address, const char *const *script)
{
	peer_ca();
	if (!marks)
		marks = mmap(NULL, sizeof *marks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(marks, MAP_FAILED);
	snprintf(p->address, sizeof p->address, "%s", address);
	int fd = listener_on(address, peer_port());
	assert_true(fd >= 0);
	assert_int_equal(listen(fd, 50), 0);
	p->pid = fork();
	if (!p->pid) {
		signal(SIGPIPE, SIG_IGN);
		alarm(120);
		run(fd, script);
	}
	close(fd);
}

void peer_end(struct peer *p)
{
	int st = 0;
	assert_int_equal(waitpid(p->pid, &st, 0), p->pid);
	assert_true(WIFEXITED(st));
	assert_int_equal(WEXITSTATUS(st), 0);
}

void peer_kill(struct peer *p)
{
	int st;
	kill(p->pid, SIGKILL);
	waitpid(p->pid, &st, 0);
}
