/* Sign-in through the whole ingress, over real TLS, against an admin child played by the test at the other end of a socket
 * pair: what goes down, what comes of each answer, throttling, and what happens when either side goes away. */
#include "../net/certificate.h"
#include "harness.h"
#include "ingress/auth_internal.h"

#include "base/clock.h"
#include "proto/sasl/base64.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static char dir[] = "/tmp/pepsi-auth-XXXXXX", cert[64], key[64];

struct scene {
	struct world *w;
	int child;
	char datagram[WIRE_SIGNIN_DATAGRAM_MAX];
	struct wire_signin m; /* the last message down */
};

static void child_send(struct scene *e, const struct wire_signin *m)
{
	struct buf b = BUF_INIT(WIRE_SIGNIN_DATAGRAM_MAX);
	assert_int_equal(wire_signin_put(&b, m), 0);
	assert_int_equal(send(e->child, b.p, b.n, MSG_NOSIGNAL), b.n);
	buf_free(&b);
	for (unsigned i = 0; i < 3; i++)
		world_turn(e->w);
}

static void child_start(struct scene *e)
{
	int sv[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv), 0);
	e->child = sv[1];
	ingress_signin(e->w->in, sv[0]);
}

static struct scene scene_new(const char *const *more)
{
	const char *options[64] = { "listener-mx", "TLS_CERT", cert, "listener-mx", "TLS_KEY", key, "listener-mx", "AUTH",
		"plain login scram-sha-256 scram-sha-256-plus external", "pepsi-signin", "FAIL_DELAY", "0", NULL };
	size_t n = 12;
	for (; more && *more && n < 62; more++)
		options[n++] = *more;
	options[n] = NULL;
	struct scene e = { .w = world_new(options) };
	child_start(&e);
	return e;
}

static void scene_free(struct scene *e)
{
	for (unsigned i = 0; i < 50; i++)
		world_turn(e->w);
	assert_int_equal(e->w->in->n_sessions, 0);
	assert_null(e->w->in->auth->all);
	assert_int_equal(e->w->in->auth->n_asked + e->w->in->auth->n_line + e->w->in->auth->n_held + e->w->in->auth->n, 0);
	world_free(e->w);
	if (e->child >= 0)
		close(e->child);
}

/* The next message down; fails when none comes. */
static const struct wire_signin *child_get(struct scene *e, enum wire_signin_op op)
{
	ssize_t n = -1;
	for (unsigned i = 0; i < 50000 && n < 0; i++) {
		world_turn(e->w);
		n = recv(e->child, e->datagram, sizeof e->datagram, MSG_DONTWAIT);
	}
	assert_true(n > 0);
	assert_int_equal(wire_signin_get(str_n(e->datagram, (size_t)n), &e->m), 0);
	assert_int_equal(e->m.op, op);
	return &e->m;
}

static void child_quiet(struct scene *e)
{
	for (unsigned i = 0; i < 20; i++)
		world_turn(e->w);
	assert_int_equal(recv(e->child, e->datagram, sizeof e->datagram, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static void child_ok(struct scene *e, uint64_t id, const char *account)
{
	struct wire_signin m = { .op = WIRE_SIGNIN_OK, .id = id };
	m.ok.account = str_from(account);
	m.ok.backend = STR("table");
	m.ok.senders[0] = STR("alias@example.test");
	m.ok.senders[1] = STR("@own.example");
	m.ok.n_senders = 2;
	child_send(e, &m);
}

static void child_fail(struct scene *e, uint64_t id, enum wire_signin_why why, const char *account)
{
	struct wire_signin m = { .op = WIRE_SIGNIN_FAIL, .id = id };
	m.fail.why = why;
	m.fail.account = str_from(account);
	m.fail.reason = STR("secret reason");
	child_send(e, &m);
}

/* The time of what is held back has come. */
static void fire(struct scene *e)
{
	for (struct exchange *x = e->w->in->auth->all; x; x = x->next)
		if (x->timer)
			event_active(x->timer, EV_TIMEOUT, 0);
}

/* --- a client inside TLS --- */

struct user {
	struct client c;
	SSL *ssl;
};

static struct user user_new(struct scene *e)
{
	struct user u = { .c = client_new(e->w) };
	client_hello(&u.c);
	client_send(&u.c, "STARTTLS\r\n");
	client_expect(&u.c, "220 ");
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	u.ssl = SSL_new(ctx);
	SSL_CTX_free(ctx);
	SSL_set_fd(u.ssl, u.c.fd);
	SSL_set_connect_state(u.ssl);
	int r = 0;
	for (unsigned i = 0; i < 10000 && r != 1; i++) {
		r = SSL_do_handshake(u.ssl);
		world_turn(e->w);
	}
	assert_int_equal(r, 1);
	return u;
}

static void user_free(struct user *u)
{
	SSL_free(u->ssl);
	client_free(&u->c);
}

static void say(struct user *u, const char *text)
{
	assert_int_equal(SSL_write(u->ssl, text, (int)strlen(text)), (int)strlen(text));
	world_turn(u->c.w);
}

/* A whole reply; it lives until the next call. */
static const char *hear(struct user *u)
{
	static char text[20000];
	size_t n = 0, line = 0;
	for (unsigned i = 0; i < 100000 && n < sizeof text - 1; i++) {
		if (SSL_read(u->ssl, text + n, 1) != 1) {
			world_turn(u->c.w);
			continue;
		}
		if (text[n++] != '\n')
			continue;
		text[n] = 0;
		if (text[line + 3] != '-')
			return text;
		line = n;
	}
	fail_msg("no reply");
	return NULL;
}

static void expect(struct user *u, const char *begin)
{
	const char *got = hear(u);
	if (strncmp(got, begin, strlen(begin)))
		fail_msg("expected \"%s…\", got \"%s\"", begin, got);
}

static bool silent(struct user *u)
{
	char c;
	for (unsigned i = 0; i < 20; i++) {
		world_turn(u->c.w);
		if (SSL_read(u->ssl, &c, 1) == 1)
			return false;
	}
	return true;
}

static const char *hello(struct user *u)
{
	say(u, "EHLO client.example.test\r\n");
	return hear(u);
}

#define PLAIN "AUTH PLAIN AGFsaWNlAHNlY3JldA==\r\n" /* \0alice\0secret */

static void test_offer(void **state)
{
	(void)state;
	struct scene e = scene_new(NULL);
	struct user u = user_new(&e);
	/* nothing outside TLS: client_hello() of user_new() saw the EHLO there; -PLUS is there, EXTERNAL needs a certificate */
	assert_non_null(strstr(hello(&u), " AUTH SCRAM-SHA-256-PLUS SCRAM-SHA-256 PLAIN LOGIN\r\n"));
	say(&u, "AUTH EXTERNAL =\r\n");
	expect(&u, "504 5.5.4");
	say(&u, "AUTH CRAM-MD5\r\n");
	expect(&u, "504 5.5.4");
	child_quiet(&e);
	user_free(&u);
	/* what the child does not have is not offered */
	struct wire_signin m = { .op = WIRE_SIGNIN_OFFER };
	m.offer.mechanisms = STR("PLAIN X-NEW");
	child_send(&e, &m);
	u = user_new(&e);
	assert_non_null(strstr(hello(&u), "AUTH PLAIN\r\n"));
	user_free(&u);
	/* a listener with BACKENDS of its own: what these have, not what others do */
	struct terms *t = e.w->in->listening->terms;
	free(t->backends);
	t->backends = strdup("PAM");
	m.offer = (struct wire_signin_offer){ .mechanisms = STR("SCRAM-SHA-256 PLAIN LOGIN"), .n_backends = 2,
		.backends = { { STR("table"), STR("SCRAM-SHA-256 PLAIN LOGIN") }, { STR("pam"), STR("PLAIN") } } };
	child_send(&e, &m);
	u = user_new(&e);
	assert_non_null(strstr(hello(&u), "AUTH PLAIN\r\n"));
	say(&u, "AUTH SCRAM-SHA-256 biws\r\n");
	expect(&u, "504 5.5.4");
	say(&u, PLAIN);
	const struct wire_signin *asked = child_get(&e, WIRE_SIGNIN_START);
	assert_true(str_eq(asked->start.backends, STR("PAM")));
	user_free(&u);
	for (unsigned i = 0; i < 20; i++)
		world_turn(e.w);
	t->backends[0] = 0;
	u = user_new(&e);
	assert_non_null(strstr(hello(&u), "AUTH SCRAM-SHA-256 PLAIN LOGIN\r\n"));
	user_free(&u);
	/* outside TLS */
	struct client c = client_new(e.w);
	client_expect(&c, "220 ");
	client_send(&c, "EHLO x\r\n");
	assert_null(strstr(client_reply(&c), "AUTH"));
	client_send(&c, PLAIN);
	client_expect(&c, "538 5.7.11");
	client_free(&c);
	scene_free(&e);
}

static void test_plain(void **state)
{
	(void)state;
	struct scene e = scene_new(NULL);
	struct user u = user_new(&e);
	hello(&u);
	say(&u, "MAIL FROM:<alice@example.test>\r\nRCPT TO:<far@example.net>\r\nRSET\r\n");
	expect(&u, "250 ");
	expect(&u, "550 5.7.1");
	expect(&u, "250 ");
	say(&u, PLAIN);
	const struct wire_signin *m = child_get(&e, WIRE_SIGNIN_START);
	const struct wire_signin_start *st = &m->start;
	assert_true(str_eq(st->mechanism, STR("PLAIN")) && str_eq(st->service, STR("smtp")) && str_eq(st->client, STR("127.0.0.1")));
	assert_true(str_eq(st->listener, STR("mx")) && str_eq(st->helo, STR("client.example.test")));
	assert_true(str_eq(st->tls_version, STR("TLSv1.3")) && st->tls_cipher.n && !st->has_cert);
	assert_true(st->has_initial && str_eq(st->initial, STR("\0alice\0secret")));
	assert_true(st->plus_offered);
	assert_int_equal(st->n_bindings, 2);
	assert_true(str_eq(st->bindings[0].type, STR("tls-exporter")) && st->bindings[0].data.n == 32);
	unsigned char exporter[32];
	assert_int_equal(
	    SSL_export_keying_material(u.ssl, exporter, 32, "EXPORTER-Channel-Binding", strlen("EXPORTER-Channel-Binding"), NULL, 0, 0), 1);
	assert_memory_equal(st->bindings[0].data.p, exporter, 32);
	assert_true(silent(&u));
	child_ok(&e, m->id, "alice@example.test");
	expect(&u, "235 2.7.0 ");
	say(&u, PLAIN);
	expect(&u, "503 5.5.1");
	/* others' addresses are not hers */
	static const struct {
		const char *from, *want;
	} senders[] = { { "alice@example.test", "250" }, { "ALIAS@example.test", "250" }, { "any@own.example", "250" }, { "", "250" },
		{ "bob@example.test", "553 5.7.1" }, { "any@sub.own.example", "553 5.7.1" }, { "alice@example.test.evil", "553 5.7.1" } };
	for (size_t i = 0; i < sizeof senders / sizeof *senders; i++) {
		char line[200];
		snprintf(line, sizeof line, "MAIL FROM:<%s>\r\n", senders[i].from);
		say(&u, line);
		expect(&u, senders[i].want);
		say(&u, "RSET\r\n");
		expect(&u, "250");
	}
	e.w->fake.sender = "alice@example.test";
	say(&u, "MAIL FROM:<alice@example.test> AUTH=<>\r\nRCPT TO:<far@example.net>\r\nDATA\r\n");
	expect(&u, "250 ");
	expect(&u, "250 ");
	expect(&u, "354 ");
	say(&u, "Subject: x\r\n\r\nhello\r\n.\r\n");
	while (!e.w->fake.admit_fn)
		world_turn(e.w);
	struct fake_row *r = &e.w->fake.rows[0];
	assert_non_null(strstr(r->headers.p, "with ESMTPSA id"));
	assert_non_null(strstr(r->state, "\"account\":\"alice@example.test\""));
	assert_null(strstr(r->state, "secret"));
	fake_commit(e.w, NULL);
	expect(&u, "250 2.0.0");
	user_free(&u);
	scene_free(&e);
}

static void test_dance(void **state)
{
	(void)state;
	struct scene e = scene_new(NULL);
	struct user u = user_new(&e);
	struct wire_signin m = { .op = WIRE_SIGNIN_CHALLENGE };
	hello(&u);
	say(&u, "AUTH LOGIN\r\n");
	uint64_t id = child_get(&e, WIRE_SIGNIN_START)->id;
	assert_false(e.m.start.has_initial);
	m.id = id;
	m.blob = STR("Username:");
	child_send(&e, &m);
	expect(&u, "334 VXNlcm5hbWU6\r\n");
	child_send(&e, &m); /* an answer nobody asked for */
	assert_true(silent(&u));
	say(&u, "YWxpY2U=\r\n");
	assert_true(str_eq(child_get(&e, WIRE_SIGNIN_CONT)->blob, STR("alice")));
	assert_int_equal(e.m.id, id);
	m.blob = STR("Password:");
	child_send(&e, &m);
	expect(&u, "334 UGFzc3dvcmQ6\r\n");
	say(&u, "*\r\n");
	expect(&u, "501 5.7.0");
	assert_int_equal(child_get(&e, WIRE_SIGNIN_CANCEL)->id, id);
	/* a long challenge goes out whole; an empty response is one */
	char big[9000];
	memset(big, 'x', sizeof big);
	say(&u, "AUTH SCRAM-SHA-256 =\r\n");
	assert_true(child_get(&e, WIRE_SIGNIN_START)->start.has_initial && !e.m.start.initial.n);
	m.id = e.m.id;
	m.blob = str_n(big, sizeof big);
	child_send(&e, &m);
	assert_int_equal(strlen(hear(&u)), 4 + SASL_BASE64_SIZE(sizeof big) + 2);
	say(&u, "\r\n");
	assert_int_equal(child_get(&e, WIRE_SIGNIN_CONT)->blob.n, 0);
	child_ok(&e, m.id, "alice");
	expect(&u, "235 ");
	user_free(&u);
	scene_free(&e);
}

static void test_failures(void **state)
{
	(void)state;
	static const struct {
		enum wire_signin_why why;
		const char *want;
	} t[] = {
		{ WIRE_SIGNIN_CREDENTIALS, "535 5.7.8 Sign-in failed: name or password is wrong\r\n" },
		{ WIRE_SIGNIN_DISABLED, "535 5.7.8 Sign-in failed: name or password is wrong\r\n" },
		{ WIRE_SIGNIN_DENIED, "535 5.7.8 Sign-in failed: name or password is wrong\r\n" },
		{ WIRE_SIGNIN_MALFORMED, "501 5.5.2" },
		{ WIRE_SIGNIN_MECHANISM, "504 5.5.4" },
		{ WIRE_SIGNIN_BUSY, "454 4.7.0" },
		{ WIRE_SIGNIN_AWAY, "454 4.7.0" },
	};
	struct scene e = scene_new((const char *const[]){ "pepsi-signin", "TRIES", "100", NULL });
	struct user u = user_new(&e);
	hello(&u);
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		say(&u, PLAIN);
		child_fail(&e, child_get(&e, WIRE_SIGNIN_START)->id, t[i].why, "alice");
		expect(&u, t[i].want);
		child_quiet(&e); /* no CANCEL of what is over */
	}
	assert_int_equal(e.w->in->auth->attempts[SASL_PLAIN][AUTH_CREDENTIALS], 1);
	assert_int_equal(e.w->in->auth->attempts[SASL_PLAIN][AUTH_AWAY], 1);
	struct buf b = BUF_INIT(1 << 20);
	ingress_metrics(e.w->in, &b);
	assert_non_null(strstr(b.p, "pepsi_signin_attempts_total{mechanism=\"PLAIN\",result=\"disabled\"} 1\n"));
	buf_reset(&b);
	ingress_status(e.w->in, &b);
	assert_non_null(strstr(b.p, "\"signin\":{\"up\":true,\"ok\":0,\"failed\":5,"));
	buf_free(&b);
	user_free(&u);
	scene_free(&e);
}

static void test_tries(void **state)
{
	(void)state;
	struct scene e = scene_new(NULL);
	struct user u = user_new(&e);
	hello(&u);
	for (unsigned i = 1; i <= 5; i++) {
		say(&u, PLAIN);
		child_fail(&e, child_get(&e, WIRE_SIGNIN_START)->id, WIRE_SIGNIN_CREDENTIALS, "alice");
		expect(&u, i < 5 ? "535 5.7.8" : "421 4.7.0");
	}
	char c;
	int n = SSL_read(u.ssl, &c, 1);
	for (unsigned i = 0; i < 10000 && SSL_get_error(u.ssl, n) == SSL_ERROR_WANT_READ; i++) {
		world_turn(e.w);
		n = SSL_read(u.ssl, &c, 1);
	}
	assert_int_equal(SSL_get_error(u.ssl, n), SSL_ERROR_ZERO_RETURN);
	user_free(&u);
	scene_free(&e);
}

static void test_delay(void **state)
{
	(void)state;
	struct scene e = scene_new((const char *const[]){ "pepsi-signin", "FAIL_DELAY", "30 s", NULL });
	struct user u = user_new(&e), v = user_new(&e);
	hello(&u);
	hello(&v);
	say(&u, PLAIN);
	child_fail(&e, child_get(&e, WIRE_SIGNIN_START)->id, WIRE_SIGNIN_CREDENTIALS, "alice");
	assert_int_equal(e.w->in->auth->n_held, 1);
	/* others are served meanwhile */
	say(&v, "NOOP\r\n");
	expect(&v, "250 ");
	assert_int_equal(e.w->in->auth->n_held, 1);
	assert_true(silent(&u));
	fire(&e);
	expect(&u, "535 ");
	assert_int_equal(e.w->in->auth->n_held, 0);
	/* gone while its refusal is held back */
	say(&v, PLAIN);
	child_fail(&e, child_get(&e, WIRE_SIGNIN_START)->id, WIRE_SIGNIN_CREDENTIALS, "alice");
	assert_int_equal(e.w->in->auth->n_held, 1);
	user_free(&v);
	user_free(&u);
	scene_free(&e);
}

/* Tries until they are spent, from 127.0.0.0/24. */
static void spend(struct scene *e, unsigned n, const char *account)
{
	while (n--) {
		struct user u = user_new(e);
		hello(&u);
		say(&u, PLAIN);
		child_fail(e, child_get(e, WIRE_SIGNIN_START)->id, WIRE_SIGNIN_CREDENTIALS, account);
		expect(&u, "535 ");
		user_free(&u);
	}
}

static void test_account_throttled(void **state)
{
	(void)state;
	static const char *const set[] = { "pepsi-signin", "ACCOUNT_TRIES", "3", "pepsi-signin", "NETWORK_TRIES", "0", NULL };
	struct scene e = scene_new(set);
	spend(&e, 3, "alice");
	for (unsigned right = 0; right < 2; right++) { /* right and wrong look alike */
		struct user u = user_new(&e);
		hello(&u);
		say(&u, PLAIN);
		uint64_t id = child_get(&e, WIRE_SIGNIN_START)->id;
		if (right)
			child_ok(&e, id, "alice");
		else
			child_fail(&e, id, WIRE_SIGNIN_CREDENTIALS, "alice");
		expect(&u, "454 4.7.0 Too many failed sign-ins; try again later\r\n");
		say(&u, "MAIL FROM:<alice@example.test>\r\nRCPT TO:<far@example.net>\r\n");
		expect(&u, "250");
		expect(&u, "550");
		user_free(&u);
	}
	/* another account is not touched */
	struct user u = user_new(&e);
	hello(&u);
	say(&u, PLAIN);
	child_ok(&e, child_get(&e, WIRE_SIGNIN_START)->id, "bob");
	expect(&u, "235 ");
	user_free(&u);
	scene_free(&e);
	/* the owner, at home */
	e = scene_new(set);
	u = user_new(&e);
	hello(&u);
	say(&u, PLAIN);
	child_ok(&e, child_get(&e, WIRE_SIGNIN_START)->id, "alice");
	expect(&u, "235 ");
	user_free(&u);
	spend(&e, 5, "alice");
	u = user_new(&e);
	hello(&u);
	say(&u, PLAIN);
	child_ok(&e, child_get(&e, WIRE_SIGNIN_START)->id, "alice");
	expect(&u, "235 ");
	user_free(&u);
	scene_free(&e);
}

static void test_network_throttled(void **state)
{
	(void)state;
	static const char *const set[] = { "pepsi-signin", "NETWORK_TRIES", "3", "pepsi-signin", "ACCOUNT_TRIES", "0", NULL };
	struct scene e = scene_new(set);
	spend(&e, 3, "x");
	struct user u = user_new(&e);
	hello(&u);
	say(&u, PLAIN);
	expect(&u, "454 4.7.0 Too many");
	child_quiet(&e); /* the child was not troubled */
	user_free(&u);
	scene_free(&e);
	/* where somebody signed in before it is a delay only */
	e = scene_new(set);
	u = user_new(&e);
	hello(&u);
	say(&u, PLAIN);
	child_ok(&e, child_get(&e, WIRE_SIGNIN_START)->id, "alice");
	expect(&u, "235 ");
	user_free(&u);
	spend(&e, 3, "x");
	e.w->in->auth->set.delay_us = 30 * US_PER_S;
	u = user_new(&e);
	hello(&u);
	say(&u, PLAIN);
	assert_int_equal(e.w->in->auth->n_held, 1);
	child_quiet(&e);
	fire(&e);
	child_ok(&e, child_get(&e, WIRE_SIGNIN_START)->id, "alice");
	expect(&u, "235 ");
	user_free(&u);
	scene_free(&e);
}

static void test_caps(void **state)
{
	(void)state;
	struct scene e =
	    scene_new((const char *const[]){ "pepsi-signin", "IN_FLIGHT_LIMIT", "1", "pepsi-signin", "WAITING_LIMIT", "1", NULL });
	struct user u[3];
	for (unsigned i = 0; i < 3; i++) {
		u[i] = user_new(&e);
		hello(&u[i]);
	}
	say(&u[0], PLAIN);
	uint64_t id = child_get(&e, WIRE_SIGNIN_START)->id;
	say(&u[1], PLAIN); /* waits */
	child_quiet(&e);
	say(&u[2], PLAIN); /* too many */
	expect(&u[2], "454 4.7.0");
	child_ok(&e, id, "alice");
	expect(&u[0], "235 ");
	assert_true(child_get(&e, WIRE_SIGNIN_START)->id > id);
	child_ok(&e, e.m.id, "bob");
	expect(&u[1], "235 ");
	for (unsigned i = 0; i < 3; i++)
		user_free(&u[i]);
	scene_free(&e);
}

static void test_gone(void **state)
{
	(void)state;
	struct scene e = scene_new((const char *const[]){ "pepsi-signin", "IN_FLIGHT_LIMIT", "1", NULL });
	struct user u = user_new(&e), v = user_new(&e), w = user_new(&e);
	struct wire_signin m = { .op = WIRE_SIGNIN_CHALLENGE, .blob = STR("x") };
	hello(&u);
	hello(&v);
	hello(&w);
	/* the client goes: its exchange is cancelled, the next has its turn */
	say(&u, PLAIN);
	uint64_t id = child_get(&e, WIRE_SIGNIN_START)->id;
	say(&v, PLAIN);
	user_free(&u);
	assert_int_equal(child_get(&e, WIRE_SIGNIN_CANCEL)->id, id);
	assert_int_equal(e.w->in->auth->n, 1);
	auth_sweep(e.w->in->auth, 0);
	id = child_get(&e, WIRE_SIGNIN_START)->id;
	child_ok(&e, id - 1, "mallory"); /* late: finds nobody */
	assert_true(silent(&v));
	child_fail(&e, id, WIRE_SIGNIN_CREDENTIALS, "v");
	expect(&v, "535 ");
	/* one waits in the line, its client goes */
	say(&v, PLAIN);
	id = child_get(&e, WIRE_SIGNIN_START)->id;
	say(&w, PLAIN);
	assert_int_equal(e.w->in->auth->n_line, 1);
	user_free(&w);
	for (unsigned i = 0; i < 20; i++)
		world_turn(e.w);
	assert_int_equal(e.w->in->auth->n_line, 0);
	/* the child says nothing */
	auth_sweep(e.w->in->auth, INT64_MAX / 2);
	expect(&v, "454 4.7.0");
	assert_int_equal(child_get(&e, WIRE_SIGNIN_CANCEL)->id, id);
	/* the child dies at work, and between two questions */
	u = user_new(&e);
	hello(&u);
	say(&u, "AUTH LOGIN\r\n");
	m.id = child_get(&e, WIRE_SIGNIN_START)->id;
	child_send(&e, &m);
	expect(&u, "334 ");
	say(&v, PLAIN);
	child_get(&e, WIRE_SIGNIN_START);
	close(e.child);
	e.child = -1;
	expect(&v, "454 4.7.0");
	say(&v, PLAIN); /* at once now */
	expect(&v, "454 4.7.0");
	child_start(&e);
	say(&u, "YQ==\r\n"); /* the new one knows nothing of it */
	expect(&u, "454 4.7.0");
	child_quiet(&e);
	say(&u, PLAIN);
	child_ok(&e, child_get(&e, WIRE_SIGNIN_START)->id, "u");
	expect(&u, "235 ");
	/* one that talks nonsense is let go of */
	say(&v, PLAIN);
	child_get(&e, WIRE_SIGNIN_START);
	assert_int_equal(send(e.child, "\xff\xff", 2, MSG_NOSIGNAL), 2);
	expect(&v, "454 4.7.0");
	assert_int_equal(e.w->in->auth->fd, -1);
	user_free(&u);
	user_free(&v);
	scene_free(&e);
}

static void test_required(void **state)
{
	(void)state;
	struct scene e = scene_new((const char *const[]){ "listener-mx", "PROTOCOL", "submission", NULL });
	struct client c = client_new(e.w);
	client_hello(&c);
	client_send(&c, "MAIL FROM:<a@example.test>\r\n");
	client_expect(&c, "530 5.7.0");
	client_free(&c);
	struct user u = user_new(&e);
	hello(&u);
	say(&u, "MAIL FROM:<a@example.test>\r\n");
	expect(&u, "530 5.7.0");
	say(&u, PLAIN);
	assert_true(str_eq(child_get(&e, WIRE_SIGNIN_START)->start.service, STR("submission")));
	child_ok(&e, e.m.id, "a@example.test");
	expect(&u, "235 ");
	say(&u, "MAIL FROM:<a@example.test>\r\n");
	expect(&u, "250 ");
	user_free(&u);
	scene_free(&e);
}

/* A proxy that signs users in (nginx) does not look at what they send as: the rule of submission is not lifted by it. */
static void test_xclient_login(void **state)
{
	(void)state;
	struct scene e =
	    scene_new((const char *const[]){ "listener-mx", "PROTOCOL", "submission", "listener-mx", "XCLIENT_FROM", "127.0.0.0/8", NULL });
	struct client c = client_new(e.w);
	client_hello(&c);
	client_send(&c, "XCLIENT ADDR=198.51.100.7 LOGIN=alice@example.test\r\n");
	client_expect(&c, "220 ");
	client_send(&c, "EHLO x.example.test\r\n");
	client_reply(&c);
	client_send(&c, "MAIL FROM:<boss@example.test>\r\n");
	client_expect(&c, "553 5.7.1 ");
	client_send(&c, "MAIL FROM:<Alice@example.test>\r\n");
	client_expect(&c, "250 ");
	client_free(&c);
	scene_free(&e);
}

static void send_as(struct scene *e, struct user *u, const char *account, const char *from)
{
	char line[200];
	snprintf(line, sizeof line, "MAIL FROM:<%s>\r\nRCPT TO:<far@example.net>\r\nDATA\r\n", from);
	e->w->fake.sender = account;
	say(u, line);
	expect(u, "250 ");
	expect(u, "250 ");
	expect(u, "354 ");
	snprintf(line, sizeof line, "From: %s\r\n\r\nhello\r\n.\r\n", from);
	say(u, line);
	while (!e->w->fake.admit_fn)
		world_turn(e->w);
	e->w->fake.sender = ""; /* a notice is nobody's */
	fake_commit(e->w, NULL);
	expect(u, "250 2.0.0");
}

/* Where an account may name any sender, the notice about held mail goes to nobody but itself. */
static void test_cap_notice(void **state)
{
	(void)state;
	struct scene e =
	    scene_new((const char *const[]){ "listener-mx", "PROTOCOL", "submission", "listener-mx", "SENDER_OWNERSHIP", "none",
	        "pepsi-signin", "CAP_NOTICES", "owner", NULL });
	static const struct {
		const char *account, *from;
		unsigned notices;
	} cases[] = { { "mallory@example.test", "victim@example.net", 0 }, { "alice@example.test", "alice@example.test", 1 } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct user u = user_new(&e);
		hello(&u);
		say(&u, PLAIN);
		struct wire_signin m = { .op = WIRE_SIGNIN_OK, .id = child_get(&e, WIRE_SIGNIN_START)->id };
		m.ok.account = str_from(cases[i].account);
		m.ok.backend = STR("table");
		m.ok.messages_hour = 1;
		child_send(&e, &m);
		expect(&u, "235 ");
		send_as(&e, &u, cases[i].account, cases[i].from);
		assert_int_equal(e.w->in->n_notices, 0);
		send_as(&e, &u, cases[i].account, cases[i].from);
		assert_int_equal(e.w->in->n_notices, cases[i].notices);
		user_free(&u);
	}
	scene_free(&e);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(cert, sizeof cert, "%s/cert.pem", dir);
	snprintf(key, sizeof key, "%s/key.pem", dir);
	return certificate_make("mx.example.test", cert, key);
}

static int teardown(void **state)
{
	(void)state;
	unlink(cert);
	unlink(key);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_offer),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_dance),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_tries),
		cmocka_unit_test(test_delay),
		cmocka_unit_test(test_account_throttled),
		cmocka_unit_test(test_network_throttled),
		cmocka_unit_test(test_caps),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_required),
		cmocka_unit_test(test_xclient_login),
		cmocka_unit_test(test_cap_notice),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
