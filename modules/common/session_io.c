/* Octets between a session's socket, its TLS and its engine. Each function does a bounded piece of work and returns; waiting is session.c's. */
#include "session_internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/uio.h>

enum { READ_SIZE = 8192 };

void session_lost(struct session *s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(s->why, sizeof s->why, fmt, ap);
	va_end(ap);
	smtp_client_lost(s->c, s->why);
}

static void write_failed(struct session *s, const char *why)
{
	s->no_more_output = true;
	snprintf(s->why, sizeof s->why, "write: %s", why);
}

static bool write_plain(struct session *s, bool *moved)
{
	for (size_t sent = 0; sent < SESSION_TURN_OCTETS;) {
		struct str seg[SMTP_CLIENT_SEGMENTS];
		struct iovec iov[SMTP_CLIENT_SEGMENTS];
		size_t n = smtp_client_out(s->c, seg);
		if (!n || s->no_more_output)
			return true;
		for (size_t i = 0; i < n; i++)
			iov[i] = (struct iovec){ (void *)(uintptr_t)seg[i].p, seg[i].n };
		struct msghdr mh = { .msg_iov = iov, .msg_iovlen = n };
		ssize_t r = sendmsg(s->fd, &mh, MSG_NOSIGNAL);
		if (r < 0) {
			if (errno == EINTR)
				continue;
			if (errno == EAGAIN)
				return false;
			write_failed(s, strerror(errno));
			return true;
		}
		*moved = true;
		sent += (size_t)r;
		smtp_client_sent(s->c, (size_t)r);
	}
	return false;
}

bool session_write_cipher(struct session *s, bool *moved)
{
	struct buf *out = hop_tls_out(s->tls);
	while (out->n && !s->no_more_output) {
		ssize_t r = send(s->fd, out->p, out->n, MSG_NOSIGNAL);
		if (r < 0) {
			if (errno == EINTR)
				continue;
			if (errno == EAGAIN)
				return false;
			write_failed(s, strerror(errno));
			return true;
		}
		*moved = true;
		buf_consume(out, (size_t)r);
	}
	return true;
}

static bool write_tls(struct session *s, bool *moved)
{
	for (size_t sent = 0; sent < SESSION_TURN_OCTETS;) {
		struct str seg[SMTP_CLIENT_SEGMENTS];
		char piece[SESSION_PIECE];
		size_t n, len = 0;
		if (!session_write_cipher(s, moved))
			return false;
		n = smtp_client_out(s->c, seg);
		if (!n || s->no_more_output)
			return true;
		/* one record for a small message, not one per segment */
		for (size_t i = 0; i < n && len < sizeof piece; i++) {
			size_t take = seg[i].n < sizeof piece - len ? seg[i].n : sizeof piece - len;
			memcpy(piece + len, seg[i].p, take);
			len += take;
		}
		int r = hop_tls_write(s->tls, piece, len);
		if (r <= 0) {
			write_failed(s, "the TLS session is over");
			return true;
		}
		sent += (size_t)r;
		smtp_client_sent(s->c, (size_t)r);
	}
	return false;
}

bool session_write(struct session *s, bool *moved)
{
	return s->tls ? write_tls(s, moved) : write_plain(s, moved);
}

int session_read_tls(struct session *s)
{
	char p[READ_SIZE];
	int k;
	while ((k = hop_tls_read(s->tls, p, sizeof p)) > 0)
		smtp_client_feed(s->c, p, (size_t)k);
	if (k < 0) {
		if (s->no_more_output)
			smtp_client_lost(s->c, s->why);
		else
			session_lost(s, "TLS session ended by the other side");
	}
	return k;
}

static ssize_t receive(struct session *s, char *p, size_t n)
{
	ssize_t r;
	do {
		r = recv(s->fd, p, n, 0);
	} while (r < 0 && errno == EINTR);
	return r;
}

int session_read(struct session *s)
{
	char p[READ_SIZE];
	ssize_t r = receive(s, p, sizeof p);
	if (r < 0 && errno == EAGAIN)
		return 0;
	if (r <= 0) {
		if (s->no_more_output)
			smtp_client_lost(s->c, s->why);
		else if (r < 0)
			session_lost(s, "read: %s", strerror(errno));
		else
			smtp_client_lost(s->c, NULL);
		return -1;
	}
	if (!s->tls) {
		smtp_client_feed(s->c, p, (size_t)r);
		return 1;
	}
	if (hop_tls_feed(s->tls, p, (size_t)r)) {
		session_lost(s, "TLS: out of memory");
		return -1;
	}
	return session_read_tls(s) ? -1 : 1;
}

int session_read_handshake(struct session *s)
{
	char p[READ_SIZE];
	ssize_t r = receive(s, p, sizeof p);
	if (r < 0 && errno == EAGAIN)
		return 0;
	return r <= 0 || hop_tls_feed(s->tls, p, (size_t)r) ? -1 : 1;
}
