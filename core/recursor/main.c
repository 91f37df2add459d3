/* The resolving child's life: the socket, its clients, one question of each at a time. See recursor.h. May not look into answers; what a
 * client sends is not believed, and costs no more than its slot. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "proto/dns/question.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	CONNECTIONS_MAX = 1200,  /* MAX_IN_FLIGHT of the reactor is 1000 */
	QUESTIONS_MAX = 2000,    /* asked of the library, also for clients that went; above it: SERVFAIL */
	BACKLOG = 512,
	IDLE_S = 30,             /* a connection that asks nothing, or whose question is not answered */
	DESCRIPTORS = 8192,
	BOGUS_LINES = 20,        /* lines about bogus answers in a minute */
	COUNTS_S = 600,          /* a line with what was done, when something was */
};

struct peer {
	TAILQ_ENTRY(peer) link;
	struct event *ev;
	int fd;
	struct question *asked; /* NULL: may ask */
};

/* Outlives its peer: the library cannot be told to forget it. */
struct question {
	struct peer *peer; /* NULL: it went */
	struct dns_question q;
	unsigned char wire[12 + 255 + 4];
};

static struct {
	const struct recursor_params *params;
	struct event_base *base;
	struct event *listener;
	TAILQ_HEAD(, peer) peers;
	unsigned n_peers, n_questions, bogus_lines;
	int64_t bogus_us;
	uint64_t asked, secure, bogus, failed, refused;
	int fd, status;
} r = { .fd = -1 };

static void peer_free(struct peer *p)
{
	if (p->asked)
		p->asked->peer = NULL;
	if (p->ev)
		event_free(p->ev);
	close(p->fd);
	TAILQ_REMOVE(&r.peers, p, link);
	free(p);
	if (r.n_peers-- == CONNECTIONS_MAX)
		event_add(r.listener, NULL);
}

static void tell_bogus(const struct question *k, const char *why)
{
	int64_t now = clock_mono_us();
	r.bogus++;
	if (now - r.bogus_us > 60 * US_PER_S) {
		r.bogus_us = now;
		r.bogus_lines = 0;
	}
	if (r.bogus_lines++ < BOGUS_LINES)
		log_warn(NULL, "event=dns-bogus name=%s type=%u reason=%s", log_qz(k->q.text), k->q.type, log_qz(why));
}

static void answered(void *arg, int rcode, const unsigned char *packet, size_t n, bool secure, const char *why_bogus)
{
	static unsigned char out[DNS_MESSAGE_MAX];
	struct question *k = arg;
	struct peer *p = k->peer;
	r.n_questions--;
	r.secure += secure;
	r.failed += rcode != 0 && !why_bogus;
	if (why_bogus)
		tell_bogus(k, why_bogus);
	if (p) {
		size_t m = dns_question_answer(k->wire, &k->q, why_bogus ? 2 : (unsigned)rcode, packet, n, secure, out);
		p->asked = NULL;
		if (send(p->fd, out, m, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)m)
			peer_free(p);
	}
	free(k);
}

static void ask(struct peer *p, const unsigned char *wire, size_t n)
{
	struct question *k = calloc(1, sizeof *k);
	if (!k || dns_question_read(wire, n, &k->q)) {
		free(k);
		r.refused++;
		peer_free(p);
		return;
	}
	memcpy(k->wire, wire, 12 + k->q.n);
	k->peer = p;
	p->asked = k;
	r.asked++;
	r.n_questions++;
	if (r.n_questions > QUESTIONS_MAX || library_ask(k->q.text, k->q.type, answered, k))
		answered(k, 2, NULL, 0, false, NULL);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	static unsigned char wire[DNS_QUERY_MAX + 1];
	struct peer *p = arg;
	ssize_t n = what & EV_TIMEOUT ? 0 : recv(fd, wire, sizeof wire, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* gone, silent for too long, too much, or a second question before the first is answered */
	if (n <= 0 || (size_t)n == sizeof wire || p->asked) {
		peer_free(p);
		return;
	}
	ask(p, wire, (size_t)n);
}

static bool may_ask(int fd)
{
	struct ucred who;
	socklen_t n = sizeof who;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n))
		return false;
	if (who.uid == 0 || who.uid == geteuid())
		return true;
	for (size_t i = 0; i < r.params->n_clients; i++)
		if (r.params->clients[i] == who.uid)
			return true;
	return false;
}

static void on_connect(evutil_socket_t fd, short what, void *arg)
{
	struct timeval idle = { .tv_sec = IDLE_S };
	(void)what;
	(void)arg;
	for (int i = 0; i < 64 && r.n_peers < CONNECTIONS_MAX; i++) {
		int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct peer *p = c >= 0 && may_ask(c) ? calloc(1, sizeof *p) : NULL;
		if (c < 0)
			return;
		if (!p) {
			r.refused++;
			close(c);
			continue;
		}
		p->fd = c;
		TAILQ_INSERT_TAIL(&r.peers, p, link);
		r.n_peers++;
		p->ev = event_new(r.base, c, EV_READ | EV_PERSIST, on_readable, p);
		if (!p->ev || event_add(p->ev, &idle))
			peer_free(p);
	}
	if (r.n_peers >= CONNECTIONS_MAX)
		event_del(r.listener); /* until one goes */
}

/* Before root is given up: clients look at who listens (SO_PEERCRED), and the folder is another account's. */
static int bind_socket(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int n = snprintf(sun.sun_path, sizeof sun.sun_path, "%s/" RECURSOR_SOCKET, r.params->state_dir);
	if (n >= (int)sizeof sun.sun_path) {
		log_error(NULL, "event=recursor-socket path=%s reason=\"the state folder's name is too long for a socket\"", log_qz(sun.sun_path));
		return -1;
	}
	r.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unlink(sun.sun_path); /* there is one pepsid a state folder: it is a former child's */
	mode_t before = umask(0);
	int rc = r.fd < 0 || bind(r.fd, (const struct sockaddr *)&sun, sizeof sun) || listen(r.fd, BACKLOG) ? -1 : 0;
	umask(before);
	if (rc)
		log_error(NULL, "event=recursor-socket path=%s reason=%s", log_qz(sun.sun_path), log_qz(strerror(errno)));
	return rc;
}

static void tell_counts(void)
{
	static uint64_t told;
	if (told == r.asked + r.refused)
		return;
	told = r.asked + r.refused;
	log_info(NULL, "event=recursor-counts asked=%llu secure=%llu bogus=%llu failed=%llu refused=%llu open=%u", (unsigned long long)r.asked,
	    (unsigned long long)r.secure, (unsigned long long)r.bogus, (unsigned long long)r.failed, (unsigned long long)r.refused, r.n_questions);
}

static void on_counts(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	tell_counts();
}

static void on_term(evutil_socket_t sig, short what, void *arg)
{
	(void)sig;
	(void)what;
	(void)arg;
	event_base_loopbreak(r.base);
}

static void raise_limits(void)
{
	struct rlimit l, none = { 0, 0 };
	setrlimit(RLIMIT_CORE, &none);
	if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur >= DESCRIPTORS)
		return;
	l.rlim_cur = l.rlim_max < DESCRIPTORS ? l.rlim_max : DESCRIPTORS;
	setrlimit(RLIMIT_NOFILE, &l);
}

int recursor_main(const struct recursor_params *p)
{
	struct config *c = config_thaw(p->blob);
	struct timeval counts = { .tv_sec = COUNTS_S };
	struct event *term, *tick;
	r.params = p;
	TAILQ_INIT(&r.peers);
	signal(SIGPIPE, SIG_IGN);
	raise_limits();
	if (!c || bind_socket() || p->become(p->arg))
		return 1;
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (!(r.base = event_base_new()) || library_start(r.base, c))
		return 1;
	config_free(c);
	term = evsignal_new(r.base, SIGTERM, on_term, NULL);
	r.listener = event_new(r.base, r.fd, EV_READ | EV_PERSIST, on_connect, NULL);
	tick = event_new(r.base, -1, EV_PERSIST, on_counts, NULL);
	if (!tick || event_add(tick, &counts) || !term || event_add(term, NULL) || !r.listener || event_add(r.listener, NULL))
		return 1;
	log_info(NULL, "event=recursor-ready");
	event_base_dispatch(r.base);
	tell_counts();
	library_end();
	return r.status;
}
