/* The socket of one attempt: UDP on a connected socket of its own, or TCP with its two octets of length, both non-blocking. What
 * comes in goes to dns_flight.c, which may end the attempt and the flight; nothing of it is touched behind that.
 * To a server on loopback, where nobody outside can send a forged reply and a port need not be guessed, sockets are used again: a wire has one question
 * at a time, and the next only when the reply to the last came. A new one for each is six calls into the kernel, a third of what a question costs. */
#include "dns_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>

static void udp_readable(evutil_socket_t fd, short what, void *arg)
{
	unsigned char p[DNS_UDP_SIZE + 1]; /* one more: a larger datagram is seen to be larger */
	(void)what;
	for (unsigned i = 0; i < DNS_DATAGRAMS_PER_TURN; i++) {
		ssize_t n = recv(fd, p, sizeof p, 0);
		if (n < 0) {
			if (errno != EAGAIN && errno != EINTR)
				dns_flight_broken(arg, errno == ECONNREFUSED ? "connection refused" : "not reachable");
			return;
		}
		if (!dns_flight_reply(arg, p, (size_t)n))
			return;
	}
}

struct wire {
	LIST_ENTRY(wire) link; /* of the spares */
	struct net_dns *d;
	struct flight *f;      /* NULL: a spare */
	unsigned server;
	int fd;
	struct event *io;
};

static void wire_free(struct wire *w)
{
	if (w->io)
		event_free(w->io);
	if (w->fd >= 0)
		close(w->fd);
	free(w);
}

static void spare_drop(struct wire *w)
{
	LIST_REMOVE(w, link);
	w->d->n_spares--;
	wire_free(w);
}

void dns_sockets_flush(struct net_dns *d)
{
	while (!LIST_EMPTY(&d->spares))
		spare_drop(LIST_FIRST(&d->spares));
}

static void wire_readable(evutil_socket_t fd, short what, void *arg)
{
	struct wire *w = arg;
	unsigned char p[DNS_UDP_SIZE + 1];
	(void)what;
	for (unsigned i = 0; i < DNS_DATAGRAMS_PER_TURN; i++) {
		ssize_t n = recv(fd, p, sizeof p, 0);
		bool broken = n < 0 && errno != EAGAIN && errno != EINTR;
		if (broken && w->f)
			dns_flight_broken(w->f, errno == ECONNREFUSED ? "connection refused" : "not reachable");
		else if (broken)
			spare_drop(w);
		if (n < 0 || (w->f && !dns_flight_reply(w->f, p, (size_t)n)))
			return; /* what a spare gets was sent twice, or by nobody we asked */
	}
}

static struct wire *wire_new(struct flight *f, const struct net_dns_server *at)
{
	struct wire *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	*w = (struct wire){ .d = f->d, .server = f->server, .fd = socket(at->ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) };
	if (w->fd >= 0 && connect(w->fd, (const struct sockaddr *)&at->ss, at->n) == 0 &&
	    (w->io = event_new(f->d->base, w->fd, EV_READ | EV_PERSIST, wire_readable, w)) && event_add(w->io, NULL) == 0)
		return w;
	wire_free(w);
	return NULL;
}

static int wire_open(struct flight *f, const struct net_dns_server *at)
{
	struct wire *w;
	LIST_FOREACH(w, &f->d->spares, link)
		if (w->server == f->server)
			break;
	if (w) {
		LIST_REMOVE(w, link);
		f->d->n_spares--;
	} else if (!(w = wire_new(f, at))) {
		return -1;
	}
	w->f = f;
	f->wire = w;
	return send(w->fd, f->q.wire, f->q.n, MSG_NOSIGNAL) == (ssize_t)f->q.n ? 0 : -1;
}

static void wire_close(struct flight *f)
{
	struct wire *w = f->wire;
	f->wire = NULL;
	w->f = NULL;
	if (!f->heard || f->d->n_spares >= DNS_SPARE_MAX) { /* what is still to come on it finds nobody */
		wire_free(w);
		return;
	}
	LIST_INSERT_HEAD(&f->d->spares, w, link);
	f->d->n_spares++;
}

/* The child is root's or our own, as the socket's owner shows: the folder it lies in is others' as well. */
static bool child_is_ours(int fd)
{
	struct ucred who;
	socklen_t n = sizeof who;
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && (who.uid == 0 || who.uid == geteuid());
}

static void local_readable(evutil_socket_t fd, short what, void *arg)
{
	static unsigned char p[DNS_MESSAGE_MAX]; /* one message at a time; nothing of it is kept */
	struct flight *f = arg;
	(void)what;
	ssize_t n = recv(fd, p, sizeof p, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		dns_flight_broken(f, "the resolving child ended");
	else if (dns_flight_reply(f, p, (size_t)n))
		dns_flight_broken(f, "not the reply to this question");
}

static int want(struct flight *f, short what, event_callback_fn fn)
{
	if (f->io)
		event_free(f->io);
	f->io = event_new(f->d->base, f->fd, (short)(what | EV_PERSIST), fn, f);
	return f->io && event_add(f->io, NULL) == 0 ? 0 : -1;
}

/* First the length, then as much memory as it says. 1: a message is there, 0: later, -1: broken. */
static int tcp_take(struct flight *f)
{
	unsigned char length[2];
	for (;;) {
		bool head = f->in_n < 2;
		unsigned char *to = head ? length : f->in + (f->in_n - 2);
		size_t room = head ? 1 : f->in_size - (f->in_n - 2);
		if (!head && !room)
			return 1;
		ssize_t n = recv(f->fd, to, room, 0);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		if (n == 0)
			return -1;
		if (head) { /* an octet at a time: they need not come together */
			f->in_size = f->in_size << 8 | length[0];
			f->in_n++;
			if (f->in_n == 2 && (!f->in_size || !(f->in = malloc(f->in_size))))
				return -1;
		} else {
			f->in_n += (size_t)n;
		}
	}
}

static void tcp_readable(evutil_socket_t fd, short what, void *arg)
{
	struct flight *f = arg;
	(void)fd;
	(void)what;
	int got = tcp_take(f);
	if (got < 0)
		dns_flight_broken(f, "connection closed");
	else if (got && dns_flight_reply(f, f->in, f->in_size))
		dns_flight_broken(f, "not the reply to this question");
}

static void tcp_writable(evutil_socket_t fd, short what, void *arg)
{
	struct flight *f = arg;
	unsigned char out[2 + DNS_QUERY_MAX];
	size_t n = f->q.n + 2;
	(void)what;
	out[0] = (unsigned char)(f->q.n >> 8);
	out[1] = (unsigned char)f->q.n;
	memcpy(out + 2, f->q.wire, f->q.n);
	ssize_t sent = send(fd, out + f->out, n - f->out, MSG_NOSIGNAL);
	if (sent < 0) {
		if (errno != EAGAIN && errno != EINTR)
			dns_flight_broken(f, errno == ECONNREFUSED ? "connection refused" : "not reachable");
		return;
	}
	f->out += (size_t)sent;
	if (f->out == n && want(f, EV_READ, tcp_readable))
		dns_flight_broken(f, "out of memory");
}

int dns_socket_open(struct flight *f, bool tcp)
{
	const struct net_dns_server *at = &f->d->server[f->server].at;
	f->tcp = tcp || at->local; /* whole messages, from whom we asked */
	f->out = f->in_n = f->in_size = 0;
	f->forged = 0;
	f->heard = false;
	if (at->loopback && !f->tcp && f->d->s.reuse)
		return wire_open(f, at);
	if (at->local) {
		f->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (f->fd < 0 || connect(f->fd, (const struct sockaddr *)&at->ss, at->n) || !child_is_ours(f->fd) ||
		    send(f->fd, f->q.wire, f->q.n, MSG_NOSIGNAL) != (ssize_t)f->q.n)
			return -1;
		return want(f, EV_READ, local_readable);
	}
	/* the kernel picks the port: anew and at random for each socket (RFC 5452 §9.2) */
	f->fd = socket(at->ss.ss_family, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (f->fd < 0)
		return -1;
	if (connect(f->fd, (const struct sockaddr *)&at->ss, at->n) && !(tcp && errno == EINPROGRESS))
		return -1;
	if (tcp)
		return want(f, EV_WRITE, tcp_writable);
	if (send(f->fd, f->q.wire, f->q.n, MSG_NOSIGNAL) != (ssize_t)f->q.n)
		return -1;
	return want(f, EV_READ, udp_readable);
}

void dns_socket_close(struct flight *f)
{
	if (f->wire)
		wire_close(f);
	if (f->io)
		event_free(f->io);
	f->io = NULL;
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	free(f->in);
	f->in = NULL;
	f->in_n = f->in_size = 0;
}
