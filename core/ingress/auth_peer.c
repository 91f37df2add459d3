/* The socket to the admin child: who may ask, in which order, and what comes back. One datagram a message (SOCK_SEQPACKET).
 * Never blocks; what the socket does not take waits in the line. Decides nothing about anybody. */
#include "auth_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWERS_PER_TURN = 64 };

static void close_peer(struct auth *a)
{
	if (a->rd)
		event_free(a->rd);
	if (a->wr)
		event_free(a->wr);
	if (a->fd >= 0)
		close(a->fd);
	a->rd = a->wr = NULL;
	a->fd = -1;
	a->blocked = false;
}

static void lost(struct auth *a, const char *why)
{
	log_warn(NULL, "event=signin-peer-lost error=%s effect=\"sign-ins get 454 until there is another\"", log_qz(why));
	a->peer_lost++;
	close_peer(a);
	recipients_accounts_away(a->in->recipients);
	auth_peer_gone(a);
}

/* Takes the head of the line off it. */
static struct exchange *leave_line(struct auth *a)
{
	struct exchange *x = a->line;
	a->line = x->behind;
	if (!a->line)
		a->line_end = &a->line;
	x->behind = NULL;
	a->n_line--;
	return x;
}

void auth_send(struct auth *a)
{
	while (a->line && !a->blocked && a->fd >= 0 && a->n_asked < a->set.concurrency) {
		struct exchange *x = a->line;
		ssize_t n = send(a->fd, x->message.p, x->message.n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)) {
			a->blocked = event_add(a->wr, NULL) == 0;
			return;
		}
		if (n < 0) { /* later, by the read event: whoever called us is in the middle of a session */
			a->blocked = true;
			event_active(a->rd, EV_READ, 0);
			return;
		}
		leave_line(a);
		buf_free_secret(&x->message);
		x->state = EXCHANGE_ASKED;
		x->known = true;
		x->since_us = clock_mono_us();
		a->n_asked++;
	}
}

int auth_ask(struct exchange *x, const struct wire_signin *m)
{
	struct auth *a = x->auth;
	x->message = BUF_INIT(WIRE_SIGNIN_DATAGRAM_MAX);
	/* room at once: growing would leave copies of a password behind */
	if (!buf_room(&x->message, 2 * WIRE_SIGNIN_BLOB_MAX) || wire_signin_put(&x->message, m)) {
		buf_free_secret(&x->message);
		return -1;
	}
	x->state = EXCHANGE_WAITING;
	x->since_us = clock_mono_us();
	x->behind = NULL;
	*a->line_end = x;
	a->line_end = &x->behind;
	a->n_line++;
	auth_send(a);
	return 0;
}

void auth_unask(struct exchange *x)
{
	struct auth *a = x->auth;
	struct buf b = BUF_INIT(256);
	struct wire_signin m = { .op = WIRE_SIGNIN_CANCEL, .id = x->id };
	if (x->state == EXCHANGE_WAITING) {
		struct exchange **at = &a->line;
		while (*at != x)
			at = &(*at)->behind;
		*at = x->behind;
		if (!*at)
			a->line_end = at;
		a->n_line--;
		buf_free_secret(&x->message);
	} else if (x->state == EXCHANGE_ASKED) {
		a->n_asked--;
	}
	/* a CANCEL that is not taken is no harm: the child forgets by itself */
	if (x->known && !x->lost && a->fd >= 0 && !wire_signin_put(&b, &m) &&
	    send(a->fd, b.p, b.n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		log_debug(NULL, "event=signin-cancel-unsent error=%s", log_qz(strerror(errno)));
	buf_free(&b);
}

int auth_account(struct auth *a, uint64_t id, struct str name)
{
	struct buf b = BUF_INIT(1024);
	struct wire_signin m = { .op = WIRE_SIGNIN_SYSTEM, .id = id, .system = name };
	/* it waits in no line: who is not asked now is told "not now", and comes again */
	bool sent = a->fd >= 0 && !a->blocked && !wire_signin_put(&b, &m) && send(a->fd, b.p, b.n, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
	buf_free(&b);
	return sent ? 0 : -1;
}

static unsigned mechs_of(struct str mechanisms)
{
	struct str word;
	enum sasl_mech m;
	unsigned mechs = 0;
	while (str_word(&mechanisms, " ", &word))
		if (!sasl_mech_parse(word, &m))
			mechs |= 1u << m;
	return mechs;
}

static void take_offer(struct auth *a, const struct wire_signin_offer *o)
{
	a->offer = mechs_of(o->mechanisms);
	a->n_offers = o->n_backends;
	for (size_t i = 0; i < o->n_backends; i++) {
		snprintf(a->offers[i].name, sizeof a->offers[i].name, "%.*s", STR_ARG(o->backends[i].name));
		a->offers[i].mechs = mechs_of(o->backends[i].mechanisms);
	}
}

unsigned auth_has(const struct auth *a, struct str backends)
{
	struct str word;
	unsigned mechs = 0;
	if (!backends.n || !a->n_offers)
		return a->offer;
	while (str_word(&backends, " \t,", &word))
		for (size_t i = 0; i < a->n_offers; i++)
			if (str_ieq(word, str_from(a->offers[i].name)))
				mechs |= a->offers[i].mechs;
	return mechs;
}

static void take_counts(struct auth *a, const struct wire_signin_counts *c)
{
	a->child = *c;
	for (size_t i = 0; i < c->n_backends; i++) {
		struct str name = c->backends[i].name;
		size_t n = name.n < sizeof a->backend_names[i] - 1 ? name.n : sizeof a->backend_names[i] - 1;
		if (n)
			memcpy(a->backend_names[i], name.p, n);
		a->backend_names[i][n] = 0;
		a->child.backends[i].name = str_from(a->backend_names[i]);
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	static char datagram[WIRE_SIGNIN_DATAGRAM_MAX + 1];
	struct auth *a = arg;
	(void)what;
	for (unsigned i = 0; i < ANSWERS_PER_TURN && a->fd == fd; i++) {
		struct wire_signin m;
		ssize_t n = recv(fd, datagram, sizeof datagram, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n <= 0) {
			lost(a, n ? strerror(errno) : "closed");
			return;
		}
		if (n == (ssize_t)sizeof datagram || wire_signin_get(str_n(datagram, (size_t)n), &m)) {
			lost(a, "malformed message");
			return;
		}
		if (m.op == WIRE_SIGNIN_OFFER)
			take_offer(a, &m.offer);
		else if (m.op == WIRE_SIGNIN_COUNTS)
			take_counts(a, &m.counts);
		else if (m.op == WIRE_SIGNIN_SYSTEM_IS)
			recipients_account(a->in->recipients, m.id, m.system_is == WIRE_SYSTEM_YES ? RECIPIENT_YES :
			    m.system_is == WIRE_SYSTEM_NO ? RECIPIENT_NO : RECIPIENT_AWAY);
		else if (m.op == WIRE_SIGNIN_CHALLENGE || m.op == WIRE_SIGNIN_OK || m.op == WIRE_SIGNIN_FAIL)
			auth_answered(a, &m);
		else {
			lost(a, "a message in the wrong direction");
			return;
		}
	}
	auth_send(a);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct auth *a = arg;
	(void)fd;
	(void)what;
	a->blocked = false;
	auth_send(a);
}

void auth_peer(struct auth *a, int fd)
{
	if (a->fd >= 0) {
		close_peer(a);
		recipients_accounts_away(a->in->recipients);
		auth_peer_gone(a);
	}
	if (fd < 0)
		return;
	a->fd = fd;
	a->rd = event_new(a->in->base, fd, EV_READ | EV_PERSIST, on_readable, a);
	a->wr = event_new(a->in->base, fd, EV_WRITE, on_writable, a);
	if (!a->rd || !a->wr || event_add(a->rd, NULL)) {
		lost(a, "out of memory");
		return;
	}
	log_info(NULL, "event=signin-peer");
	auth_send(a);
}
