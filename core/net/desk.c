/* The socket of a child and who asks there; see desk.h. What a client sends is not believed, and costs no more than its slot. */
#include "desk.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 512, ACCEPTS = 64 /* of one turn */, COUNTS_S = 600 };

struct desk_asker {
	TAILQ_ENTRY(desk_asker) link;
	struct desk *d;
	struct event *ev;
	void *what;
	int fd;
	bool asked; /* not answered yet */
};

struct desk {
	struct desk_conf conf;
	struct event_base *base;
	struct event *listener;
	TAILQ_HEAD(, desk_asker) askers;
	unsigned n;
	uint64_t refused;
	int fd;
};

void desk_drop(struct desk_asker *a)
{
	struct desk *d = a->d;
	if (a->ev)
		event_free(a->ev);
	close(a->fd);
	TAILQ_REMOVE(&d->askers, a, link);
	free(a);
	if (d->n-- == d->conf.connections)
		event_add(d->listener, NULL);
}

static void leave(struct desk_asker *a)
{
	if (a->asked)
		a->d->conf.gone(a->d->conf.arg, a);
	desk_drop(a);
}

void desk_answer(struct desk_asker *a, const void *p, size_t n)
{
	a->asked = false;
	a->what = NULL;
	if (send(a->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
		desk_drop(a);
}

void desk_set(struct desk_asker *a, void *what)
{
	a->what = what;
}

void *desk_get(const struct desk_asker *a)
{
	return a->what;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	static unsigned char p[DESK_DATAGRAM_MAX + 1];
	struct desk_asker *a = arg;
	struct desk *d = a->d;
	ssize_t n = what & EV_TIMEOUT ? 0 : recv(fd, p, d->conf.question_max + 1, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* gone, silent for too long, too much, or a second question before the first is answered */
	if (n <= 0 || (size_t)n > d->conf.question_max || a->asked) {
		leave(a);
		return;
	}
	a->asked = true;
	d->conf.ask(d->conf.arg, a, p, (size_t)n);
}

static bool may_ask(const struct desk *d, int fd)
{
	struct ucred who;
	socklen_t n = sizeof who;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n))
		return false;
	if (who.uid == 0 || who.uid == geteuid())
		return true;
	for (size_t i = 0; i < d->conf.n_accounts; i++)
		if (d->conf.accounts[i] == who.uid)
			return true;
	return false;
}

static void on_connect(evutil_socket_t fd, short what, void *arg)
{
	struct desk *d = arg;
	struct timeval idle = { .tv_sec = d->conf.idle_s };
	(void)what;
	for (int i = 0; i < ACCEPTS && d->n < d->conf.connections; i++) {
		int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct desk_asker *a = c >= 0 && may_ask(d, c) ? calloc(1, sizeof *a) : NULL;
		if (c < 0)
			return;
		if (!a) {
			d->refused++;
			close(c);
			continue;
		}
		a->fd = c;
		a->d = d;
		TAILQ_INSERT_TAIL(&d->askers, a, link);
		d->n++;
		a->ev = event_new(d->base, c, EV_READ | EV_PERSIST, on_readable, a);
		if (!a->ev || event_add(a->ev, &idle))
			desk_drop(a);
	}
	if (d->n >= d->conf.connections)
		event_del(d->listener); /* until one goes */
}

int desk_bind(const char *state_dir, const char *name, const char **ret_why)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int n = snprintf(sun.sun_path, sizeof sun.sun_path, "%s/%s", state_dir, name);
	if (n < 0 || (size_t)n >= sizeof sun.sun_path) {
		*ret_why = "the state folder's name is too long for a socket";
		return -1;
	}
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unlink(sun.sun_path); /* a former child's */
	mode_t before = umask(0);
	int rc = fd < 0 || bind(fd, (const struct sockaddr *)&sun, sizeof sun) || listen(fd, BACKLOG) ? -1 : 0;
	umask(before);
	if (!rc)
		return fd;
	*ret_why = strerror(errno);
	if (fd >= 0)
		close(fd);
	return -1;
}

struct desk *desk_new(struct event_base *base, int fd, const struct desk_conf *conf)
{
	struct desk *d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	d->conf = *conf;
	d->base = base;
	d->fd = fd;
	TAILQ_INIT(&d->askers);
	d->listener = event_new(base, fd, EV_READ | EV_PERSIST, on_connect, d);
	if (!d->listener || event_add(d->listener, NULL)) {
		free(d);
		return NULL;
	}
	return d;
}

uint64_t desk_refused(const struct desk *d)
{
	return d->refused;
}

static void on_counts(evutil_socket_t fd, short what, void *arg)
{
	void (**counts)(void) = arg;
	(void)fd;
	(void)what;
	(*counts)();
}

static void on_term(evutil_socket_t sig, short what, void *arg)
{
	(void)sig;
	(void)what;
	event_base_loopbreak(arg);
}

int desk_serve(struct event_base *base, int fd, const struct desk_conf *conf, struct desk **ret, void (*counts)(void))
{
	struct timeval every = { .tv_sec = COUNTS_S };
	struct event *term = evsignal_new(base, SIGTERM, on_term, base), *tick = event_new(base, -1, EV_PERSIST, on_counts, &counts);
	*ret = desk_new(base, fd, conf);
	if (!*ret || !term || !tick || event_add(term, NULL) || event_add(tick, &every))
		return -1;
	event_base_dispatch(base);
	counts();
	return 0;
}
