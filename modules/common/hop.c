/* The driver: one connection, one engine, one message at a time: connects, secures, signs in, sends, keeps. Its waiting, reading and writing
 * is in hop_io.c. */
#include "hop_internal.h"

#include "proto/address/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct hop *hop_new(const struct hop_conf *conf, struct buf *why)
{
	struct hop *h = calloc(1, sizeof *h);
	if (!h)
		return NULL;
	h->conf = conf;
	h->fd = -1;
	h->engine = (struct smtp_client_conf){ .helo = str_from(conf->helo), .lmtp = conf->lmtp,
		.tls = conf->tls == HOP_TLS_IMPLICIT || (conf->tls == HOP_TLS_DANE && conf->port == 465) };
	if (conf->socket)
		snprintf(h->name, sizeof h->name, "%s", conf->socket);
	else
		snprintf(h->name, sizeof h->name, strchr(conf->host, ':') ? "[%s]:%d" : "%s:%d", conf->host, conf->port);
	if (conf->tls != HOP_TLS_NONE) {
		bool verify = (conf->tls == HOP_TLS_REQUIRE || conf->tls == HOP_TLS_IMPLICIT) && conf->tls_verify;
		h->tls_conf = hop_tls_conf_new(verify, conf->tls_ca_file, why);
		if (!h->tls_conf || (conf->tls_cert && hop_tls_conf_identity(h->tls_conf, conf->tls_cert, conf->tls_key, why))) {
			hop_tls_conf_free(h->tls_conf);
			free(h);
			return NULL;
		}
	}
	return h;
}

const char *hop_name(const struct hop *h)
{
	return h->name;
}

/* Closes at once; the engine is kept for its result texts until the next message. */
static void drop_socket(struct hop *h)
{
	if (h->fd >= 0)
		close(h->fd);
	h->fd = -1;
}

static void drop(struct hop *h)
{
	drop_socket(h);
	hop_tls_free(h->tls);
	smtp_client_free(h->c);
	h->tls = NULL;
	h->c = NULL;
	h->trusted = false;
}

void hop_for(struct hop *h, const struct pepsi_host *host, struct pepsi_msg *msg)
{
	h->host = host;
	h->msg = msg;
}

bool hop_is_open(const struct hop *h)
{
	return h->fd >= 0 && h->c;
}

static void failure(struct hop *h, struct smtp_result *fail, enum smtp_phase phase, const char *status, struct buf *why)
{
	snprintf(h->fail_text, sizeof h->fail_text, "%s", buf_z(why));
	buf_free(why);
	*fail = (struct smtp_result){ .outcome = SMTP_OUT_LOST, .phase = phase, .text = str_from(h->fail_text) };
	snprintf(fail->status, sizeof fail->status, "%s", status);
}

/* The handshake, and who it was made with. Returns 0, or -1: *fail filled. */
static int secure(struct hop *h, int64_t until, struct smtp_result *fail)
{
	struct buf why = BUF_INIT(SMTP_CLIENT_TEXT_MAX);
	if (hop_handshake(h, until, &why) == 0 &&
	    (h->conf->tls != HOP_TLS_DANE || hop_dane_match(&h->dane, hop_tls_chain(h->tls), time(NULL), &why) == 0)) {
		h->trusted = h->conf->tls == HOP_TLS_DANE || hop_tls_verified(h->tls);
		buf_free(&why);
		return 0;
	}
	failure(h, fail, SMTP_PHASE_STARTTLS, "4.7.5", &why);
	return -1;
}

/* Signs in, where that is configured. Returns 0, or -1: *fail filled. */
static int sign_in(struct hop *h, int64_t until, struct smtp_result *fail)
{
	struct hop_secret secret;
	struct smtp_client_auth a;
	struct buf why = BUF_INIT(SMTP_CLIENT_TEXT_MAX);
	bool in = false;
	int r = -1;
	if (!h->conf->auth)
		return 0;
	if (!h->trusted && !h->conf->auth->insecure) {
		buf_addz(&why, h->tls ? "not signing in: the certificate of the next hop is not checked, or not trusted" :
					"not signing in: the connection has no TLS");
		failure(h, fail, SMTP_PHASE_AUTH, "4.7.0", &why);
		h->auth_fault = SMTP_AUTH_NO_TLS;
		return -1;
	}
	if (hop_secret_get(h->conf->auth, time(NULL), &secret, &a, &why)) {
		failure(h, fail, SMTP_PHASE_AUTH, "4.7.0", &why);
		h->auth_fault = SMTP_AUTH_CREDENTIALS;
		h->no_secret = true;
		hop_secret_done(&secret);
		return -1;
	}
	buf_free(&why);
	if (h->tls && hop_tls_binding(h->tls, secret.binding))
		a.binding = (struct sasl_binding){ STR("tls-exporter"), str_n(secret.binding, HOP_TLS_BINDING) };
	a.external = a.external && h->tls && hop_tls_showed(h->tls);
	a.host = str_from(h->conf->host);
	a.port = (unsigned)h->conf->port;
	*fail = (struct smtp_result){ .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_AUTH, .text = STR("the session is not ready to sign in") };
	if (smtp_client_auth(h->c, &a) == 0)
		for (enum smtp_client_event ev = SMTP_CEV_NONE; ev != SMTP_CEV_READY && ev != SMTP_CEV_CLOSED;) {
			ev = hop_turn(h, until);
			if (ev == SMTP_CEV_SIGNED_IN)
				in = true;
			else if (ev == SMTP_CEV_AUTH_FAILED || ev == SMTP_CEV_CLOSED)
				*fail = *smtp_client_failure(h->c);
			r = in && ev != SMTP_CEV_CLOSED ? 0 : -1;
		}
	hop_secret_done(&secret);
	if (r == 0)
		return 0;
	h->auth_fault = smtp_client_auth_fault(h->c);
	/* a fault of what is configured, here or there, and of no message; the engine keeps the text no longer than itself */
	fail->outcome = fail->outcome == SMTP_OUT_PERMANENT && !fail->code ? SMTP_OUT_LOST : fail->outcome;
	snprintf(h->fail_text, sizeof h->fail_text, "%.*s", STR_ARG(fail->text));
	fail->text = str_from(h->fail_text);
	return -1;
}

/* Takes the session from the banner to READY. Returns 0; -1: failed, *fail filled; 1: TLS failed and may be left out. */
static int greet(struct hop *h, bool try_tls, int64_t until, struct smtp_result *fail)
{
	for (;;) {
		enum smtp_client_event ev = hop_turn(h, until);
		unsigned caps = smtp_client_caps(h->c, NULL);
		if (ev == SMTP_CEV_STARTTLS) {
			if (secure(h, until, fail) == 0) {
				smtp_client_tls_started(h->c);
				continue;
			}
			return h->conf->tls == HOP_TLS_MAY ? 1 : -1;
		}
		if (ev == SMTP_CEV_CLOSED || (ev == SMTP_CEV_TLS_REFUSED && h->conf->tls != HOP_TLS_MAY)) {
			*fail = *smtp_client_failure(h->c);
			return -1;
		}
		if (ev != SMTP_CEV_READY)
			continue;
		if (h->tls || !try_tls || (!(caps & SMTP_CAP_STARTTLS) && h->conf->tls == HOP_TLS_MAY))
			return sign_in(h, until, fail);
		if (!(caps & SMTP_CAP_STARTTLS)) {
			*fail = (struct smtp_result){ .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_STARTTLS, .status = "4.7.4",
				.text = STR("STARTTLS is required here and not offered by the next hop") };
			return -1;
		}
		if (smtp_client_starttls(h->c)) /* was refused: go on in plain text */
			return sign_in(h, until, fail);
		try_tls = h->conf->tls != HOP_TLS_MAY; /* ask once only where it may be left out */
	}
}

static void say_quit(struct hop *h)
{
	bool moved;
	if (h->fd >= 0 && h->c && smtp_client_quit(h->c) == 0) {
		if (h->tls) {
			hop_write_tls(h, &moved);
			hop_tls_bye(h->tls);
			hop_write_cipher(h, &moved);
		} else {
			hop_write_plain(h, &moved);
		}
	}
	drop(h);
}

/* The session is ready: with whom? Returns 0, or -1: *fail filled. */
static int look_whether_ourselves(struct hop *h, const struct hop_address *a, struct smtp_result *fail)
{
	const struct hop_conf *c = h->conf;
	struct str name = smtp_client_name(h->c);
	struct buf why = BUF_INIT(SMTP_CLIENT_TEXT_MAX);
	if (c->lmtp || c->socket || c->loops == HOP_LOOPS_NEVER || (c->loops == HOP_LOOPS_FAR && hop_is_loopback(a)) ||
	    (!smtp_domain_equal(name, str_from(c->helo)) && !(c->name && smtp_domain_equal(name, str_from(c->name)))))
		return 0;
	buf_addf(&why, "mail would loop back to ourselves: the next hop calls itself %.*s, as we do (LOOP_DETECT)", STR_ARG(name));
	failure(h, fail, SMTP_PHASE_EHLO, "4.4.6", &why);
	say_quit(h);
	return -1;
}

static int open_one(struct hop *h, const struct hop_address *a, int64_t until, struct smtp_result *fail)
{
	bool try_tls = h->conf->tls != HOP_TLS_NONE;
	for (;;) {
		struct buf why = BUF_INIT(SMTP_CLIENT_TEXT_MAX);
		int64_t end = hop_now_ms() + h->conf->connect_ms;
		drop(h);
		h->auth_fault = SMTP_AUTH_NONE;
		h->fd = hop_connect(a, end < until ? end : until, &why);
		h->c = h->fd < 0 ? NULL : smtp_client_new(&h->engine);
		h->no_more_output = false;
		if (!h->c) {
			snprintf(h->fail_text, sizeof h->fail_text, "%s", why.n ? why.p : "out of memory or an unusable HELO name");
			buf_free(&why);
			drop_socket(h);
			*fail = (struct smtp_result){ .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_CONNECT, .status = "4.4.1",
				.text = str_from(h->fail_text) };
			return -1;
		}
		buf_free(&why);
		int r = h->engine.tls ? secure(h, until, fail) : 0;
		if (r == 0)
			r = greet(h, try_tls, until, fail);
		if (r == 0)
			return 0;
		if (r < 0 && h->auth_fault)
			say_quit(h);
		drop_socket(h);
		if (r < 0)
			return -1;
		try_tls = false; /* TLS = may: once more without (RFC 7435) */
	}
}

static int open_any(struct hop *h, int64_t until, struct smtp_result *fail)
{
	struct hop_address list[HOP_ADDRESSES_MAX];
	struct buf why = BUF_INIT(SMTP_CLIENT_TEXT_MAX);
	int n = 1, r = -1;
	h->auth_fault = SMTP_AUTH_NONE;
	h->no_secret = false;
	hop_dane_done(&h->dane);
	if (h->conf->tls == HOP_TLS_DANE) {
		if (!h->host || !PEPSI_HAS(h->host, resolve))
			buf_addz(&why, "DANE: names cannot be looked up here");
		if (why.n || hop_dane_look(h->host, h->msg, h->conf->host, h->conf->port, &h->dane, &why)) {
			failure(h, fail, SMTP_PHASE_STARTTLS, "4.7.5", &why);
			return -1;
		}
	}
	if (h->conf->socket) {
		if (hop_unix_address(h->conf->socket, &list[0])) {
			buf_addf(&why, "socket path %s is too long", h->conf->socket);
			n = -1;
		}
	} else {
		n = hop_resolve(h->conf->host, h->conf->port, list, &why);
	}
	if (n < 0) {
		snprintf(h->fail_text, sizeof h->fail_text, "%s", buf_z(&why));
		*fail = (struct smtp_result){ .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_CONNECT, .status = "4.4.3",
			.text = str_from(h->fail_text) };
	}
	buf_free(&why);
	/* who does not let us in at one address does not at the next, and counts */
	for (int i = 0; i < n && r && (!h->auth_fault || h->auth_fault == SMTP_AUTH_LOST); i++)
		if (!i || hop_now_ms() < until)
			r = open_one(h, &list[i], until, fail) || look_whether_ourselves(h, &list[i], fail) ? -1 : 0;
	h->fresh = true;
	return r;
}

/* Is the kept connection still good? Reads what came meanwhile: an end, a 421, or something unasked. */
static bool alive(struct hop *h)
{
	if (h->fd < 0 || !h->c)
		return false;
	if (hop_now_ms() - h->used_at > h->conf->idle_ms)
		return false;
	hop_read_some(h);
	return smtp_client_next(h->c) == SMTP_CEV_NONE && smtp_client_phase(h->c) == SMTP_PHASE_IDLE && !smtp_client_full(h->c);
}

void hop_free(struct hop *h)
{
	if (!h)
		return;
	say_quit(h);
	hop_dane_done(&h->dane);
	hop_tls_conf_free(h->tls_conf);
	free(h);
}

/* Did the kept connection die before the peer took notice of this message? */
static bool stale(const struct smtp_client_msg *m)
{
	if (m->mail_accepted)
		return false;
	for (size_t i = 0; i < m->n_rcpts; i++) {
		const struct smtp_result *r = &m->rcpts[i].result;
		if (r->phase == SMTP_PHASE_MAIL && (r->outcome == SMTP_OUT_LOST || r->code == 421))
			return true;
	}
	return false;
}

void hop_send(struct hop *h, struct smtp_client_msg *m, int64_t until, struct hop_report *ret)
{
	*ret = (struct hop_report){ 0 };
	if (!alive(h))
		say_quit(h);
	for (int attempt = 0; attempt < 2; attempt++) {
		struct smtp_result fail = { .outcome = SMTP_OUT_LOST, .text = STR("no address answered") };
		bool kept = h->c && h->fd >= 0 && !h->fresh, closed = false;
		if (h->fd < 0 && open_any(h, until, &fail)) {
			for (size_t i = 0; i < m->n_rcpts; i++)
				m->rcpts[i].result = fail;
			ret->auth_fault = h->auth_fault;
			ret->no_secret = h->no_secret;
			return;
		}
		ret->connected = true;
		ret->kept = kept;
		ret->auth = smtp_client_auth_mech(h->c);
		ret->tls = h->tls != NULL;
		ret->tls_text = h->tls ? hop_tls_describe(h->tls) : NULL;
		unsigned caps = smtp_client_caps(h->c, NULL);
		ret->dsn = caps & SMTP_CAP_DSN;
		ret->deliver_by = caps & SMTP_CAP_DELIVERBY;
		if (m->require_tls && m->mail_from.n && !h->conf->lmtp && h->tls && !h->trusted) {
			/* RFC 8689 §4.2.1: encrypted to somebody who may be anybody is not what the sender wants */
			fail = (struct smtp_result){ .outcome = SMTP_OUT_PERMANENT, .phase = SMTP_PHASE_MAIL, .status = "5.7.30",
				.text = STR("the sender requires TLS all the way, and the certificate of the next hop is not trusted (REQUIRETLS)") };
			for (size_t i = 0; i < m->n_rcpts; i++)
				m->rcpts[i].result = fail;
			h->used_at = hop_now_ms();
			return;
		}
		h->fresh = false;
		if (smtp_client_send(h->c, m)) {
			fail.text = STR("the session is not ready for a message");
			for (size_t i = 0; i < m->n_rcpts; i++)
				m->rcpts[i].result = fail;
			drop(h);
			return;
		}
		bool done = false;
		while (!closed) { /* until READY or the end: a RSET may follow the results */
			enum smtp_client_event ev = hop_turn(h, until);
			done |= ev == SMTP_CEV_DONE;
			closed = ev == SMTP_CEV_CLOSED;
			if (done && ev == SMTP_CEV_READY)
				break;
		}
		h->used_at = hop_now_ms();
		if (closed)
			drop_socket(h); /* the engine stays: it owns the result texts */
		if (!closed || !kept || !stale(m))
			return;
	}
}
