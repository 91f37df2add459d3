/* The driver: one socket, one engine, one loop. All waiting is in turn(), bounded by the phase's deadline and the
 * caller's. Signals: sends never raise SIGPIPE. */
#include "hop.h"

#include "hop_socket.h"
#include "hop_tls.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

enum { READ_SIZE = 8192, TLS_PIECE = 16 * 1024 };

struct hop {
	const struct hop_conf *conf;
	struct smtp_client_conf engine;
	struct hop_tls_conf *tls_conf;
	char name[320];
	int fd;
	struct smtp_client *c;
	struct hop_tls *tls;
	bool no_more_output; /* a write failed: read what the peer still said, then give up */
	bool fresh;          /* no message was sent over this connection yet */
	int64_t used_at;
	char why[256];       /* text given to smtp_client_lost() */
	char fail_text[SMTP_CLIENT_TEXT_MAX + 1];
};

struct hop *hop_new(const struct hop_conf *conf, struct buf *why)
{
	struct hop *h = calloc(1, sizeof *h);
	if (!h)
		return NULL;
	h->conf = conf;
	h->fd = -1;
	h->engine = (struct smtp_client_conf){ .helo = str_from(conf->helo), .lmtp = conf->lmtp };
	if (conf->socket)
		snprintf(h->name, sizeof h->name, "%s", conf->socket);
	else
		snprintf(h->name, sizeof h->name, strchr(conf->host, ':') ? "[%s]:%d" : "%s:%d", conf->host, conf->port);
	if (conf->tls != HOP_TLS_NONE) {
		bool verify = conf->tls == HOP_TLS_REQUIRE && conf->tls_verify;
		h->tls_conf = hop_tls_conf_new(verify, conf->tls_ca_file, why);
		if (!h->tls_conf) {
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
}

static void give_up(struct hop *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void give_up(struct hop *h, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(h->why, sizeof h->why, fmt, ap);
	va_end(ap);
	smtp_client_lost(h->c, h->why);
}

/* Writes what there is. Returns true when everything the engine wants out is out. */
static bool write_plain(struct hop *h, bool *moved)
{
	for (;;) {
		struct str seg[SMTP_CLIENT_SEGMENTS];
		struct iovec iov[SMTP_CLIENT_SEGMENTS];
		size_t n = smtp_client_out(h->c, seg);
		if (!n || h->no_more_output)
			return true;
		for (size_t i = 0; i < n; i++)
			iov[i] = (struct iovec){ (void *)(uintptr_t)seg[i].p, seg[i].n };
		struct msghdr mh = { .msg_iov = iov, .msg_iovlen = n };
		ssize_t r = sendmsg(h->fd, &mh, MSG_NOSIGNAL);
		if (r < 0) {
			if (errno == EINTR)
				continue;
			if (errno == EAGAIN)
				return false;
			h->no_more_output = true;
			snprintf(h->why, sizeof h->why, "write: %s", strerror(errno));
			return true;
		}
		*moved = true;
		smtp_client_sent(h->c, (size_t)r);
	}
}

static bool write_cipher(struct hop *h, bool *moved)
{
	struct buf *out = hop_tls_out(h->tls);
	while (out->n && !h->no_more_output) {
		ssize_t r = send(h->fd, out->p, out->n, MSG_NOSIGNAL);
		if (r < 0) {
			if (errno == EINTR)
				continue;
			if (errno == EAGAIN)
				return false;
			h->no_more_output = true;
			snprintf(h->why, sizeof h->why, "write: %s", strerror(errno));
			return true;
		}
		*moved = true;
		buf_consume(out, (size_t)r);
	}
	return true;
}

static bool write_tls(struct hop *h, bool *moved)
{
	for (;;) {
		struct str seg[SMTP_CLIENT_SEGMENTS];
		char piece[TLS_PIECE];
		size_t n, len = 0;
		if (!write_cipher(h, moved))
			return false;
		n = smtp_client_out(h->c, seg);
		if (!n || h->no_more_output)
			return true;
		/* one record for a small message, not one per segment */
		for (size_t i = 0; i < n && len < sizeof piece; i++) {
			size_t take = seg[i].n < sizeof piece - len ? seg[i].n : sizeof piece - len;
			memcpy(piece + len, seg[i].p, take);
			len += take;
		}
		int r = hop_tls_write(h->tls, piece, len);
		if (r <= 0) {
			h->no_more_output = true;
			snprintf(h->why, sizeof h->why, "write: the TLS session is over");
			return true;
		}
		smtp_client_sent(h->c, (size_t)r);
	}
}

/* Plaintext that TLS holds already, to the engine. Returns 0, or -1: the session is over. */
static int read_tls(struct hop *h)
{
	char p[READ_SIZE];
	int k;
	while ((k = hop_tls_read(h->tls, p, sizeof p)) > 0)
		smtp_client_feed(h->c, p, (size_t)k);
	if (k < 0)
		give_up(h, "TLS session ended by the other side");
	return k;
}

/* Reads once. Returns 1: got something; 0: nothing there; -1: the connection is over (the engine knows). */
static int read_some(struct hop *h)
{
	char p[READ_SIZE];
	ssize_t r;
	do {
		r = recv(h->fd, p, sizeof p, 0);
	} while (r < 0 && errno == EINTR);
	if (r < 0 && errno == EAGAIN)
		return 0;
	if (r <= 0) {
		if (h->no_more_output)
			smtp_client_lost(h->c, h->why);
		else if (r < 0)
			give_up(h, "read: %s", strerror(errno));
		else
			smtp_client_lost(h->c, NULL);
		return -1;
	}
	if (!h->tls) {
		smtp_client_feed(h->c, p, (size_t)r);
		return 1;
	}
	if (hop_tls_feed(h->tls, p, (size_t)r)) {
		give_up(h, "TLS: out of memory");
		return -1;
	}
	return read_tls(h) ? -1 : 1;
}

static int64_t phase_ms(const struct hop *h)
{
	switch (smtp_client_phase(h->c)) {
	case SMTP_PHASE_CONNECT:
	case SMTP_PHASE_BANNER:
	case SMTP_PHASE_EHLO:
	case SMTP_PHASE_STARTTLS:
		return h->conf->connect_ms;
	case SMTP_PHASE_DOT:
		return h->conf->data_ms;
	default:
		return h->conf->command_ms;
	}
}

/* Waits for input (and room to write). Returns false when the time is up (the engine knows). */
static bool wait_fd(struct hop *h, bool out, int64_t since, int64_t until)
{
	int64_t limit = phase_ms(h), now = hop_now_ms(), end = since + limit < until ? since + limit : until;
	struct pollfd p = { .fd = h->fd, .events = (short)(POLLIN | (out ? POLLOUT : 0)) };
	while (now < end) {
		int r = poll(&p, 1, end - now > INT32_MAX ? INT32_MAX : (int)(end - now));
		if (r > 0)
			return true;
		if (r < 0 && errno != EINTR) {
			give_up(h, "poll: %s", strerror(errno));
			return false;
		}
		now = hop_now_ms();
	}
	if (end == until && since + limit > until)
		give_up(h, "no time left for this attempt");
	else
		give_up(h, "timed out after %lld %s without %s", (long long)(limit < 1000 ? limit : limit / 1000),
		    limit < 1000 ? "ms" : "s", out ? "progress" : "an answer");
	return false;
}

/* Goes on until the engine has an event for us. */
static enum smtp_client_event turn(struct hop *h, int64_t until)
{
	int64_t since = hop_now_ms();
	uint64_t replies = smtp_client_replies(h->c);
	for (;;) {
		enum smtp_client_event ev = smtp_client_next(h->c);
		bool moved = false, written;
		if (ev)
			return ev;
		if (h->tls && read_tls(h)) /* what came along with the handshake would otherwise wait for more */
			continue;
		written = h->tls ? write_tls(h, &moved) : write_plain(h, &moved);
		/* each reply and each octet of content that leaves starts the clock anew; single octets of a reply do not */
		if (moved || smtp_client_replies(h->c) != replies) {
			replies = smtp_client_replies(h->c);
			since = hop_now_ms();
		}
		if (!wait_fd(h, !written, since, until))
			continue;
		read_some(h);
	}
}

static int handshake(struct hop *h, int64_t until, struct buf *why)
{
	int64_t end = hop_now_ms() + h->conf->connect_ms;
	char p[READ_SIZE];
	h->tls = hop_tls_new(h->tls_conf, h->conf->host ? h->conf->host : "localhost");
	if (!h->tls) {
		buf_addz(why, "TLS: out of memory");
		return -1;
	}
	if (until < end)
		end = until;
	for (;;) {
		bool moved = false;
		int r = hop_tls_handshake(h->tls, why);
		bool written = write_cipher(h, &moved); /* also the alert of a failed one */
		if (r < 0)
			return -1;
		if (r > 0 && written)
			return 0;
		int64_t left = end - hop_now_ms();
		struct pollfd pfd = { .fd = h->fd, .events = (short)((r > 0 ? 0 : POLLIN) | (written ? 0 : POLLOUT)) };
		int n = left > 0 ? poll(&pfd, 1, left > INT32_MAX ? INT32_MAX : (int)left) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || h->no_more_output) {
			buf_addz(why, n ? "TLS handshake: connection lost" : "TLS handshake: timed out");
			return -1;
		}
		if (r > 0 || !(pfd.revents & ~POLLOUT))
			continue;
		ssize_t k = recv(h->fd, p, sizeof p, 0);
		if (k < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (k <= 0 || hop_tls_feed(h->tls, p, (size_t)k)) {
			buf_addz(why, "TLS handshake: connection lost");
			return -1;
		}
	}
}

/* Takes the session from the banner to READY. Returns 0; -1: failed, *fail filled; 1: TLS failed and may be left out. */
static int greet(struct hop *h, bool try_tls, int64_t until, struct smtp_result *fail)
{
	for (;;) {
		enum smtp_client_event ev = turn(h, until);
		unsigned caps = smtp_client_caps(h->c, NULL);
		if (ev == SMTP_CEV_STARTTLS) {
			struct buf why = BUF_INIT(SMTP_CLIENT_TEXT_MAX);
			if (handshake(h, until, &why) == 0) {
				buf_free(&why);
				smtp_client_tls_started(h->c);
				continue;
			}
			snprintf(h->fail_text, sizeof h->fail_text, "%s", buf_z(&why));
			buf_free(&why);
			*fail = (struct smtp_result){ .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_STARTTLS, .status = "4.7.5",
				.text = str_from(h->fail_text) };
			return h->conf->tls == HOP_TLS_MAY ? 1 : -1;
		}
		if (ev == SMTP_CEV_CLOSED || (ev == SMTP_CEV_TLS_REFUSED && h->conf->tls == HOP_TLS_REQUIRE)) {
			*fail = *smtp_client_failure(h->c);
			return -1;
		}
		if (ev != SMTP_CEV_READY)
			continue;
		if (h->tls || !try_tls || (!(caps & SMTP_CAP_STARTTLS) && h->conf->tls == HOP_TLS_MAY))
			return 0;
		if (!(caps & SMTP_CAP_STARTTLS)) {
			*fail = (struct smtp_result){ .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_STARTTLS, .status = "4.7.4",
				.text = STR("STARTTLS is required here and not offered by the next hop") };
			return -1;
		}
		if (smtp_client_starttls(h->c)) /* was refused: go on in plain text */
			return 0;
		try_tls = h->conf->tls == HOP_TLS_REQUIRE; /* ask once only where it may be left out */
	}
}

static int open_one(struct hop *h, const struct hop_address *a, int64_t until, struct smtp_result *fail)
{
	bool try_tls = h->conf->tls != HOP_TLS_NONE;
	for (;;) {
		struct buf why = BUF_INIT(SMTP_CLIENT_TEXT_MAX);
		int64_t end = hop_now_ms() + h->conf->connect_ms;
		drop(h);
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
		int r = greet(h, try_tls, until, fail);
		if (r == 0)
			return 0;
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
	for (int i = 0; i < n && r; i++)
		if (!i || hop_now_ms() < until)
			r = open_one(h, &list[i], until, fail);
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
	read_some(h);
	return smtp_client_next(h->c) == SMTP_CEV_NONE && smtp_client_phase(h->c) == SMTP_PHASE_IDLE;
}

static void say_quit(struct hop *h)
{
	bool moved;
	if (h->fd >= 0 && h->c && smtp_client_quit(h->c) == 0) {
		if (h->tls) {
			write_tls(h, &moved);
			hop_tls_bye(h->tls);
			write_cipher(h, &moved);
		} else {
			write_plain(h, &moved);
		}
	}
	drop(h);
}

void hop_free(struct hop *h)
{
	if (!h)
		return;
	say_quit(h);
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
			return;
		}
		ret->connected = true;
		ret->tls = h->tls != NULL;
		ret->tls_text = h->tls ? hop_tls_describe(h->tls) : NULL;
		unsigned caps = smtp_client_caps(h->c, NULL);
		ret->dsn = caps & SMTP_CAP_DSN;
		ret->deliver_by = caps & SMTP_CAP_DELIVERBY;
		if (m->require_tls && m->mail_from.n && !h->conf->lmtp && h->tls && !hop_tls_verified(h->tls)) {
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
			enum smtp_client_event ev = turn(h, until);
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
