/* Accepting. At most ACCEPT_BURST connections are taken per turn of the loop, so that a flood of new
 * clients does not keep those already there waiting. */
#include "listener.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ACCEPT_BURST = 32, REST_MS = 200, COMPLAIN_S = 10 };

struct net_listener {
	struct event *ev, *rest;
	net_accept_fn fn;
	void *arg;
	int fd;
	int64_t complained;
	bool *gone; /* set while in the accept loop: the owner freed us from inside */
};

/* Out of descriptors or memory: the connection stays in the backlog, and the socket would be readable for ever. */
static void rest(struct net_listener *l, int why)
{
	struct timeval tv = { 0, (suseconds_t)REST_MS * 1000 };
	int64_t now = clock_mono_us();
	if (!l->complained || now - l->complained > COMPLAIN_S * US_PER_S) {
		l->complained = now;
		log_error(NULL, "event=accept-failed error=%s rest_ms=%d", log_qz(strerror(why)), REST_MS);
	}
	event_del(l->ev);
	evtimer_add(l->rest, &tv);
}

static void on_rested(evutil_socket_t fd, short what, void *arg)
{
	struct net_listener *l = arg;
	(void)fd;
	(void)what;
	event_add(l->ev, NULL);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct net_listener *l = arg;
	bool gone = false;
	(void)what;
	l->gone = &gone;
	for (unsigned i = 0; i < ACCEPT_BURST; i++) {
		struct sockaddr_storage ss;
		socklen_t n = sizeof ss;
		struct net_addr peer;
		int c = accept4(fd, (struct sockaddr *)&ss, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (c < 0) {
			/* Linux reports errors of the new connection here; the next one may be fine (accept(2)) */
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
				rest(l, errno);
			else if (errno != EAGAIN)
				continue;
			break;
		}
		net_addr_from(&peer, (struct sockaddr *)&ss, n);
		net_addr_user(&peer, c);
		l->fn(l->arg, c, &peer);
		if (gone)
			return;
	}
	l->gone = NULL;
}

struct net_listener *net_listener_new(struct event_base *base, int fd, net_accept_fn fn, void *arg)
{
	struct net_listener *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	l->fd = fd;
	l->fn = fn;
	l->arg = arg;
	l->ev = event_new(base, fd, EV_READ | EV_PERSIST, on_ready, l);
	l->rest = evtimer_new(base, on_rested, l);
	if (!l->ev || !l->rest || event_add(l->ev, NULL)) {
		net_listener_free(l);
		return NULL;
	}
	return l;
}

void net_listener_free(struct net_listener *l)
{
	if (!l)
		return;
	if (l->gone)
		*l->gone = true;
	if (l->ev)
		event_free(l->ev);
	if (l->rest)
		event_free(l->rest);
	free(l);
}
