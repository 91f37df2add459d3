/* The driver's loop: all waiting is in hop_turn() and hop_handshake(), bounded by the phase's deadline and the caller's. Signals: sends never
 * raise SIGPIPE. */
#include "hop_internal.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdio.h>
#include <sys/uio.h>

enum { READ_SIZE = 8192, TLS_PIECE = 16 * 1024 };

void hop_give_up(struct hop *h, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(h->why, sizeof h->why, fmt, ap);
	va_end(ap);
	smtp_client_lost(h->c, h->why);
}

/* False: later. True: never; what the peer says is read all the same. */
static bool not_written(struct hop *h)
{
	if (errno == EAGAIN)
		return false;
	h->no_more_output = true;
	snprintf(h->why, sizeof h->why, "write: %s", strerror(errno));
	return true;
}

/* Writes what there is. Returns true when everything the engine wants out is out. */
bool hop_write_plain(struct hop *h, bool *moved)
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
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return not_written(h);
		*moved = true;
		smtp_client_sent(h->c, (size_t)r);
	}
}

bool hop_write_cipher(struct hop *h, bool *moved)
{
	struct buf *out = hop_tls_out(h->tls);
	while (out->n && !h->no_more_output) {
		ssize_t r = send(h->fd, out->p, out->n, MSG_NOSIGNAL);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return not_written(h);
		*moved = true;
		buf_consume(out, (size_t)r);
	}
	return true;
}

bool hop_write_tls(struct hop *h, bool *moved)
{
	for (;;) {
		struct str seg[SMTP_CLIENT_SEGMENTS];
		char piece[TLS_PIECE];
		size_t n, len = 0;
		if (!hop_write_cipher(h, moved))
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
		if (smtp_client_phase(h->c) == SMTP_PHASE_AUTH)
			OPENSSL_cleanse(piece, len);
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
		hop_give_up(h, "TLS session ended by the other side");
	return k;
}

/* Reads once. Returns 1: got something; 0: nothing there; -1: the connection is over (the engine knows). */
int hop_read_some(struct hop *h)
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
			hop_give_up(h, "read: %s", strerror(errno));
		else
			smtp_client_lost(h->c, NULL);
		return -1;
	}
	if (!h->tls) {
		smtp_client_feed(h->c, p, (size_t)r);
		return 1;
	}
	if (hop_tls_feed(h->tls, p, (size_t)r)) {
		hop_give_up(h, "TLS: out of memory");
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
			hop_give_up(h, "poll: %s", strerror(errno));
			return false;
		}
		now = hop_now_ms();
	}
	if (end == until && since + limit > until)
		hop_give_up(h, "no time left for this attempt");
	else
		hop_give_up(h, "timed out after %lld %s without %s", (long long)(limit < 1000 ? limit : limit / 1000),
		    limit < 1000 ? "ms" : "s", out ? "progress" : "an answer");
	return false;
}

/* Goes on until the engine has an event for us. */
enum smtp_client_event hop_turn(struct hop *h, int64_t until)
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
		written = h->tls ? hop_write_tls(h, &moved) : hop_write_plain(h, &moved);
		/* each reply and each octet of content that leaves starts the clock anew; single octets of a reply do not */
		if (moved || smtp_client_replies(h->c) != replies) {
			replies = smtp_client_replies(h->c);
			since = hop_now_ms();
		}
		if (!wait_fd(h, !written, since, until))
			continue;
		hop_read_some(h);
	}
}

int hop_handshake(struct hop *h, int64_t until, struct buf *why)
{
	int64_t end = hop_now_ms() + h->conf->connect_ms;
	char p[READ_SIZE];
	h->tls = hop_tls_new(h->tls_conf, h->conf->host ? h->conf->host : "localhost");
	if (!h->tls) {
		buf_addz(why, "TLS: out of memory");
		return -1;
	}
	hop_tls_names(h->tls, h->dane.set && h->dane.look.base[0] ? h->dane.look.base : NULL, h->conf->cert_name);
	if (until < end)
		end = until;
	for (;;) {
		bool moved = false;
		int r = hop_tls_handshake(h->tls, why);
		bool written = hop_write_cipher(h, &moved); /* also the alert of a failed one */
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
