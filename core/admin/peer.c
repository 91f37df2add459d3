/* The connection both doors are made of. Its rule: whoever holds a peer inside a callback may go on using it until the
 * callback returns, because death is only marked here and carried out by the event loop. */
#include "admin_internal.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINGER_MS = 1000 };

static void release(struct admin_peer *p)
{
	struct admin *a = p->a;
	admin_counts_forget(p);
	map_del(&a->peers, p->id);
	--*p->count;
	net_conn_free(p->conn);
	event_free(p->timer);
	buf_free(&p->in);
	buf_free(&p->out);
	p->calls->release(p);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct admin_peer *p = arg;
	(void)fd;
	(void)what;
	if (p->dead || p->lingering)
		release(p);
	else
		p->calls->expired(p);
}

void admin_peer_close(struct admin_peer *p)
{
	if (p->dead)
		return;
	p->dead = true;
	net_conn_read(p->conn, false);
	event_del(p->timer);
	event_active(p->timer, EV_TIMEOUT, 0);
}

static void on_input(void *arg, const char *octets, size_t n)
{
	struct admin_peer *p = arg;
	if (p->dead || p->lingering)
		return;
	if (buf_add(&p->in, octets, n))
		admin_peer_close(p); /* the owner stops reading before its buffer is full */
	else
		p->calls->input(p);
}

static void on_eof(void *arg)
{
	struct admin_peer *p = arg;
	p->eof = true;
	if (p->lingering)
		admin_peer_close(p);
	else if (!p->dead)
		p->calls->eof(p);
}

static void on_writable(void *arg)
{
	struct admin_peer *p = arg;
	if (!p->dead && admin_peer_send(p))
		p->calls->drained(p);
}

static void on_broken(void *arg, const char *why)
{
	(void)why;
	admin_peer_close(arg);
}

int admin_peer_init(struct admin_peer *p, struct admin *a, int fd, const struct admin_peer_calls *calls, size_t in_max,
    size_t out_max, unsigned *count)
{
	static const struct net_conn_calls conn_calls = {
		.input = on_input,
		.eof = on_eof,
		.writable = on_writable,
		.broken = on_broken,
	};
	*p = (struct admin_peer){ .a = a, .calls = calls, .in = BUF_INIT(in_max), .out = BUF_INIT(out_max),
		.id = ++a->last_id, .fd = fd, .count = count };
	p->timer = evtimer_new(a->base, on_timer, p);
	if (!p->timer || map_put(&a->peers, p->id, p)) {
		if (p->timer)
			event_free(p->timer);
		close(fd);
		return -1;
	}
	p->conn = net_conn_new(a->base, fd, &conn_calls, p);
	if (!p->conn) {
		map_del(&a->peers, p->id);
		event_free(p->timer);
		return -1;
	}
	++*count;
	return 0;
}

void admin_peer_deadline(struct admin_peer *p, unsigned ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000 };
	if (p->dead)
		return;
	if (ms)
		evtimer_add(p->timer, &tv);
	else
		event_del(p->timer);
}

void admin_peer_read(struct admin_peer *p, bool on)
{
	if (!p->dead)
		net_conn_read(p->conn, on);
}

bool admin_peer_send(struct admin_peer *p)
{
	if (p->dead)
		return false;
	int rc = net_conn_write(p->conn, &p->out);
	if (rc < 0)
		admin_peer_close(p);
	return rc == 1;
}

void admin_peer_finish(struct admin_peer *p)
{
	if (p->dead || p->lingering)
		return;
	if (p->eof) {
		admin_peer_close(p);
		return;
	}
	shutdown(p->fd, SHUT_WR);
	p->lingering = true;
	buf_free(&p->in);
	admin_peer_read(p, true);
	admin_peer_deadline(p, LINGER_MS);
}

struct admin_ticket *admin_ticket_new(struct admin_peer *p)
{
	struct admin *a = p->a;
	struct admin_ticket *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	*t = (struct admin_ticket){ .a = a, .next = a->tickets, .peer = p->id, .waits = ++p->waits };
	if (a->tickets)
		a->tickets->prev = t;
	a->tickets = t;
	return t;
}

struct admin_peer *admin_ticket_redeem(struct admin_ticket *t)
{
	struct admin_peer *p = NULL;
	if (t->a) {
		if (t->prev)
			t->prev->next = t->next;
		else
			t->a->tickets = t->next;
		if (t->next)
			t->next->prev = t->prev;
		p = map_get(&t->a->peers, t->peer);
		if (p && (p->dead || p->waits != t->waits))
			p = NULL;
	}
	free(t);
	return p;
}
