/* The socket of `pepsi account`: STATE/run/account.sock, for root and the account that runs all this (without root), so that passwords
 * go from the operator's terminal to the process that digests them and nowhere else. One request at a time per connection. */
#include "accounts_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { PEERS_MAX = 32, BACKLOG = 16, IDLE_S = 60, DATABASE_S = 10 };

/* ---- answers */

static void peer_free(struct peer *p)
{
	LIST_REMOVE(p, link);
	p->a->n--;
	event_free(p->ev);
	close(p->fd);
	buf_free(&p->kept);
	buf_free(&p->rows);
	buf_free_secret(&p->held);
	free(p);
}

static void send_answer(struct peer *p, const struct wire_account_answer *an)
{
	struct buf b = BUF_INIT(WIRE_ACCOUNT_DATAGRAM_MAX);
	/* it asks again only when it has this, so the socket has room */
	if (wire_account_answer_put(&b, an) || send(p->fd, b.p, b.n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)b.n) {
		buf_free(&b);
		peer_free(p);
		return;
	}
	buf_free(&b);
	struct timeval idle = { .tv_sec = IDLE_S };
	event_add(p->ev, &idle);
}

void peer_refuse(struct peer *p, const char *fmt, ...)
{
	char text[600];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	for (char *t = text; *t; t++)
		if ((unsigned char)*t < 0x20 || *t == 0x7f)
			*t = '?';
	struct wire_account_answer an = { .error = str_from(text) };
	send_answer(p, &an);
}

void peer_database_no(struct peer *p, enum store_rc rc, const char *err)
{
	if (rc == STORE_AWAY)
		peer_refuse(p, "the database is away (%s)", err);
	else
		peer_refuse(p, "the database refused: %s", err);
}

void peer_done(struct peer *p)
{
	struct wire_account_answer an = { .ok = true, .more = p->more, .rows = buf_str(&p->rows) };
	send_answer(p, &an);
}

void peer_listed(struct peer *p, enum store_rc rc, bool full, const char *err)
{
	if (rc != STORE_OK) {
		peer_database_no(p, rc, err);
		return;
	}
	if (full)
		p->more = true;
	peer_done(p);
}

/* ---- requests */

static void handle(struct peer *p, const struct wire_account_request *r)
{
	p->op = r->op;
	p->more = false;
	buf_free(&p->rows);
	p->rows = BUF_INIT(WIRE_ACCOUNT_ROWS_MAX);
	if (r->op >= WIRE_OVERLAY_SET) {
		accounts_overlay(p, r);
		return;
	}
	if (r->op >= WIRE_RECIPIENT_ADD) {
		accounts_recipient(p, r);
		return;
	}
	accounts_account(p, r);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	static char datagram[WIRE_ACCOUNT_DATAGRAM_MAX];
	struct wire_account_request r;
	struct peer *p = arg;
	ssize_t n = what & EV_TIMEOUT ? 0 : recv(fd, datagram, sizeof datagram, MSG_DONTWAIT);
	struct timeval idle = { .tv_sec = IDLE_S };
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		event_add(p->ev, &idle);
		return;
	}
	if (n <= 0 || wire_account_request_get(str_n(datagram, (size_t)n), &r)) {
		if (n > 0)
			log_warn(NULL, "event=account-garbage uid=%u pid=%d", (unsigned)p->who.uid, (int)p->who.pid);
		peer_free(p);
	} else {
		/* until its answer is sent nothing is read, so nothing frees it but the answer */
		p->held = BUF_INIT(WIRE_ACCOUNT_DATAGRAM_MAX);
		/* a daemon that has just been started is asked at once by many a script */
		if (store_conn_up(p->a->s->db) || buf_add(&p->held, datagram, (size_t)n))
			handle(p, &r);
		else
			p->held_until = clock_mono_us() + DATABASE_S * US_PER_S;
	}
	if (n > 0)
		explicit_bzero(datagram, (size_t)n);
}

void accounts_database(struct accounts *a, int64_t now)
{
	struct peer *p, *next;
	bool up = store_conn_up(a->s->db);
	for (p = LIST_FIRST(&a->peers); p; p = next) {
		struct wire_account_request r;
		next = LIST_NEXT(p, link);
		if (!p->held.n || (!up && now < p->held_until))
			continue;
		struct buf held = p->held;
		p->held = BUF_INIT(WIRE_ACCOUNT_DATAGRAM_MAX);
		if (wire_account_request_get(buf_str(&held), &r) == 0)
			handle(p, &r); /* with no database it says so */
		buf_free_secret(&held);
	}
}

static void on_connect(evutil_socket_t fd, short what, void *arg)
{
	struct accounts *a = arg;
	struct timeval idle = { .tv_sec = IDLE_S };
	struct ucred who;
	socklen_t size = sizeof who;
	(void)what;
	int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (c < 0)
		return;
	/* the socket's mode says the same; this is the rule */
	if (getsockopt(c, SOL_SOCKET, SO_PEERCRED, &who, &size) || (who.uid != 0 && who.uid != a->owner) || a->n == PEERS_MAX) {
		if (a->n < PEERS_MAX)
			log_warn(NULL, "event=account-refused uid=%u pid=%d", (unsigned)who.uid, (int)who.pid);
		close(c);
		return;
	}
	struct peer *p = calloc(1, sizeof *p);
	if (p)
		p->ev = event_new(a->s->base, c, EV_READ, on_readable, p);
	if (!p || !p->ev || event_add(p->ev, &idle)) {
		if (p && p->ev)
			event_free(p->ev);
		free(p);
		close(c);
		return;
	}
	p->a = a;
	p->fd = c;
	p->who = who;
	LIST_INSERT_HEAD(&a->peers, p, link);
	a->n++;
}

/* ---- beginning and end */

struct accounts *accounts_bind(const char *state_dir)
{
	struct accounts *a = calloc(1, sizeof *a);
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	if (!a)
		return NULL;
	a->owner = geteuid();
	int n = snprintf(sun.sun_path, sizeof sun.sun_path, "%s/run/account.sock", state_dir);
	a->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (n >= (int)sizeof sun.sun_path || a->fd < 0) {
		log_error(NULL, "event=account-socket path=%s reason=%s", log_qz(sun.sun_path),
		    a->fd < 0 ? log_qz(strerror(errno)) : "\"the state folder's name is too long for a socket\"");
		goto bad;
	}
	/* What a former child left. There is one pepsid a state folder, so whatever lies here is nobody's. Who listens is root where
	 * pepsid is, before that is given up: the tool looks at that (SO_PEERCRED) before it sends a password. */
	unlink(sun.sun_path);
	mode_t before = umask(0177);
	int rc = bind(a->fd, (const struct sockaddr *)&sun, sizeof sun) || listen(a->fd, BACKLOG);
	umask(before);
	if (rc) {
		log_error(NULL, "event=account-socket path=%s reason=%s", log_qz(sun.sun_path), log_qz(strerror(errno)));
		goto bad;
	}
	return a;
bad:
	if (a->fd >= 0)
		close(a->fd);
	free(a);
	return NULL;
}

int accounts_start(struct accounts *a, struct signin *s)
{
	a->s = s;
	a->ev = event_new(s->base, a->fd, EV_READ | EV_PERSIST, on_connect, a);
	return a->ev && event_add(a->ev, NULL) == 0 ? 0 : -1;
}

void accounts_free(struct accounts *a)
{
	struct peer *p, *next;
	if (!a)
		return;
	for (p = LIST_FIRST(&a->peers); p; p = next) {
		next = LIST_NEXT(p, link);
		peer_free(p);
	}
	if (a->ev)
		event_free(a->ev);
	close(a->fd);
	free(a);
}
