/* The event side of a connection. All connections of the process read into one buffer, since octets are handed on
 * within the call; so an idle connection holds no buffer at all. */
#include "conn_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static char input[NET_INPUT];

static void destroy(struct net_conn *c)
{
	free(c);
}

static void enter(struct net_conn *c)
{
	c->depth++;
}

/* Returns false when the connection is gone. */
static bool leave(struct net_conn *c)
{
	if (--c->depth == 0 && c->dead) {
		destroy(c);
		return false;
	}
	return !c->dead;
}

static void tell_broken(struct net_conn *c, const char *why)
{
	event_del(&c->rd);
	event_del(&c->wr);
	c->calls->broken(c->arg, why);
}

void net_conn_arm(struct net_conn *c)
{
	bool r = (c->reading && !c->eof) || c->securing || c->write_needs_read;
	bool w = c->want_writable || c->read_needs_write;
	if (r != (bool)event_pending(&c->rd, EV_READ, NULL)) {
		if (r)
			event_add(&c->rd, NULL);
		else
			event_del(&c->rd);
	}
	if (w != (bool)event_pending(&c->wr, EV_WRITE, NULL)) {
		if (w)
			event_add(&c->wr, NULL);
		else
			event_del(&c->wr);
	}
}

static enum net_io plain_read(struct net_conn *c, size_t *ret_n)
{
	ssize_t n = recv(c->fd, input, sizeof input, 0);
	if (n > 0) {
		*ret_n = (size_t)n;
		return NET_IO_OK;
	}
	if (n == 0)
		return NET_IO_EOF;
	return errno == EAGAIN || errno == EINTR ? NET_IO_AGAIN : NET_IO_BROKEN;
}

/* Reads and hands on. A short plain read means that the socket is empty, so no second recv() asks. */
static void pull(struct net_conn *c)
{
	for (unsigned turn = 0; c->reading && !c->eof; turn++) {
		size_t n = 0;
		if (turn == NET_TURNS) {
			/* others want their turn too; what OpenSSL holds would not make the descriptor readable */
			if (c->ssl && SSL_pending(c->ssl))
				event_active(&c->rd, EV_READ, 0);
			return;
		}
		enum net_io io = c->ssl ? net_tls_read(c, input, sizeof input, &n) : plain_read(c, &n);
		if (io == NET_IO_AGAIN) {
			if (c->ssl && !turn)
				net_conn_weigh(c, input, 0);
			return;
		}
		if (io == NET_IO_BROKEN) {
			tell_broken(c, c->ssl ? net_tls_why() : strerror(errno));
			return;
		}
		if (io == NET_IO_EOF) {
			c->eof = true;
			net_conn_arm(c);
			c->calls->eof(c->arg);
			return;
		}
		bool was_plain = !c->ssl;
		net_conn_weigh(c, input, n);
		c->calls->input(c->arg, input, n);
		if (!was_plain) /* what went through TLS may have been a password (AUTH) */
			explicit_bzero(input, n);
		if (c->dead || (was_plain && (n < sizeof input || c->ssl)))
			return;
	}
}

static void shake(struct net_conn *c)
{
	switch (net_tls_handshake(c)) {
	case NET_IO_OK:
		c->calls->secured(c->arg);
		if (!c->dead && c->reading && SSL_pending(c->ssl))
			event_active(&c->rd, EV_READ, 0);
		break;
	case NET_IO_AGAIN:
		if (!c->read_needs_write)
			net_conn_weigh(c, input, 0);
		break;
	default:
		tell_broken(c, net_tls_why());
	}
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct net_conn *c = arg;
	(void)fd;
	enter(c);
	if (c->securing) {
		shake(c);
	} else {
		/* within TLS either direction may have waited for either readiness */
		if ((what & EV_WRITE || c->write_needs_read) && c->want_writable) {
			c->want_writable = false;
			c->write_needs_read = false;
			c->calls->writable(c->arg);
		}
		if (!c->dead && (what & EV_READ || c->read_needs_write))
			pull(c);
	}
	if (leave(c))
		net_conn_arm(c);
}

bool net_conn_look(struct net_conn *c, bool now)
{
	if (!c->trickles || c->dead || c->depth || (!c->securing && (!c->reading || c->eof)))
		return false;
	if (!now && --c->left)
		return false;
	if (c->pause < NET_TRICKLE_PAUSE)
		c->pause *= 2;
	c->left = c->pause;
	enter(c);
	if (c->securing)
		shake(c);
	else
		pull(c);
	if (leave(c))
		net_conn_arm(c);
	return true;
}

struct net_conn *net_conn_new(struct event_base *base, int fd, const struct net_conn_calls *calls, void *arg)
{
	struct net_conn *c = calloc(1, sizeof *c);
	if (!c) {
		close(fd);
		return NULL;
	}
	c->fd = fd;
	c->calls = calls;
	c->arg = arg;
	c->reading = true;
	if (event_assign(&c->rd, base, fd, EV_READ | EV_PERSIST, on_event, c) ||
	    event_assign(&c->wr, base, fd, EV_WRITE | EV_PERSIST, on_event, c) || event_add(&c->rd, NULL)) {
		close(fd);
		free(c);
		return NULL;
	}
	return c;
}

void net_conn_free(struct net_conn *c)
{
	if (!c || c->dead)
		return;
	event_del(&c->rd);
	event_del(&c->wr);
	net_tls_end(c);
	close(c->fd);
	c->fd = -1;
	c->dead = true;
	if (!c->depth)
		destroy(c);
}

void net_conn_drain(struct net_conn *c)
{
	net_tls_end(c); /* close_notify goes before the end of our side */
	shutdown(c->fd, SHUT_WR);
	for (unsigned i = 0; i < NET_TURNS; i++)
		if (recv(c->fd, input, sizeof input, MSG_DONTWAIT) < (ssize_t)sizeof input)
			break;
}

void net_conn_read(struct net_conn *c, bool on)
{
	if (c->reading == on)
		return;
	c->reading = on;
	if (c->dead)
		return;
	net_conn_arm(c);
	if (on && c->ssl && !c->securing && SSL_pending(c->ssl))
		event_active(&c->rd, EV_READ, 0);
}

int net_conn_write(struct net_conn *c, struct buf *out)
{
	size_t done = 0;
	int ret = 1;
	if (c->dead)
		return -1;
	while (done < out->n) {
		size_t n = 0;
		enum net_io io;
		if (c->ssl) {
			io = net_tls_write(c, out->p + done, out->n - done, &n);
		} else {
			ssize_t k = send(c->fd, out->p + done, out->n - done, MSG_NOSIGNAL);
			io = k >= 0 ? NET_IO_OK : errno == EAGAIN || errno == EINTR ? NET_IO_AGAIN :
			    NET_IO_BROKEN;
			n = k > 0 ? (size_t)k : 0;
		}
		if (io == NET_IO_OK) {
			done += n;
			continue;
		}
		ret = io == NET_IO_AGAIN ? 0 : -1;
		break;
	}
	buf_consume(out, done);
	if (ret >= 0 && c->want_writable != (ret == 0)) {
		c->want_writable = ret == 0;
		if (!c->depth)
			net_conn_arm(c);
	}
	return ret;
}
