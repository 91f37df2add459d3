/* Waiting for a PROXY header. Octets are peeked at, and only those of the header are taken: what follows is a TLS handshake or
 * early talk, and somebody else judges it. */
#include "proxied.h"

#include "base/clock.h"
#include "ingress_internal.h"
#include "listening.h"
#include "proto/proxy/header.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATIENCE_S = 10 }; /* the protocol wants at least 3 s; a proxy has no reason to take longer (section 2) */

struct proxied {
	struct proxied *prev, *next;
	struct listening *at;
	struct event *ev;
	int fd;
	int64_t deadline_us;
	struct net_addr proxy;
	struct proxy_parser parser;
};

static void unlink_one(struct proxied *p)
{
	struct ingress *in = p->at->in;
	p->at->waiting--;
	if (p->prev)
		p->prev->next = p->next;
	else
		in->proxied = p->next;
	if (p->next)
		p->next->prev = p->prev;
	if (p->ev)
		event_free(p->ev);
}

static void end(struct proxied *p)
{
	struct listening *l = p->at;
	unlink_one(p);
	close(p->fd);
	free(p);
	listening_leave(l);
}

/* No reply: whoever does not know the protocol would not know what to do with one, and a proxy neither. */
static void refuse(struct proxied *p, const char *why)
{
	ingress_refused(p->at->in, NULL, REFUSED_PROXY, "client=%s listener=%s text=%s", p->proxy.text, p->at->terms->name,
	    log_qz(why));
	end(p);
}

/* A text of the proxy's, as far as it is printable ASCII and fits; else nothing. */
static void keep(char *out, size_t size, struct str s)
{
	out[0] = 0;
	if (s.n >= size)
		return;
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < ' ' || s.p[i] > '~')
			return;
	if (s.n)
		memcpy(out, s.p, s.n);
	out[s.n] = 0;
}

static void read_tlvs(struct proxy_info *via, struct str tlvs)
{
	unsigned type;
	struct str value;
	struct proxy_ssl ssl;
	while (proxy_tlv(&tlvs, &type, &value) > 0) {
		if (type == PROXY_TLV_ALPN)
			keep(via->alpn, sizeof via->alpn, value);
		else if (type == PROXY_TLV_AUTHORITY)
			keep(via->authority, sizeof via->authority, value);
		else if (type == PROXY_TLV_SSL && !proxy_ssl(value, &ssl) && ssl.ssl) {
			keep(via->tls_version, sizeof via->tls_version, ssl.version);
			keep(via->tls_cipher, sizeof via->tls_cipher, ssl.cipher);
		}
	}
}

static void go_on(struct proxied *p)
{
	struct proxy_header h;
	struct proxy_info via = { .addr = p->proxy };
	struct net_addr peer = p->proxy;
	struct listening *l = p->at;
	if (proxy_header(&p->parser, &h)) {
		refuse(p, "the checksum of the PROXY header does not fit");
		return;
	}
	switch (h.family) {
	case PROXY_TCP4:
	case PROXY_TCP6:
		if (net_addr_parse(&peer, str_from(h.src), h.sport)) {
			refuse(p, "the PROXY header names no address");
			return;
		}
		read_tlvs(&via, h.tlvs);
		break;
	case PROXY_UNSPEC:
		via.unknown = !h.local;
		break;
	case PROXY_UNIX_STREAM:
		via.unknown = true;
		break;
	default:
		refuse(p, "the PROXY header names a client of datagrams");
		return;
	}
	log_debug(NULL, "event=proxied listener=%s proxy=%s client=%s version=%u local=%d", l->terms->name, p->proxy.text, peer.text,
	    h.version, h.local);
	l->in->proxied_total++;
	int fd = p->fd;
	unlink_one(p);
	free(p);
	listening_admit(l, fd, &peer, &via);
	listening_leave(l); /* the session has a place of its own */
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct proxied *p = arg;
	char seen[PROXY_HEADER_MAX];
	size_t used = 0;
	(void)what;
	ssize_t n = recv(fd, seen, sizeof seen, MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		refuse(p, n == 0 ? "no PROXY header before the end of the connection" : strerror(errno));
		return;
	}
	int r = proxy_feed(&p->parser, seen, (size_t)n, &used);
	if (r >= 0 && recv(fd, seen, used, MSG_DONTWAIT) != (ssize_t)used)
		r = -1;
	if (r < 0)
		refuse(p, "this proxy sent no PROXY header");
	else if (r)
		go_on(p);
}

void proxied_begin(struct listening *l, int fd, const struct net_addr *proxy)
{
	struct ingress *in = l->in;
	struct proxied *p = calloc(1, sizeof *p);
	int64_t patience = PATIENCE_S * US_PER_S;
	if (p)
		p->ev = event_new(in->base, fd, EV_READ | EV_PERSIST, on_readable, p);
	if (!p || !p->ev || event_add(p->ev, NULL)) {
		if (p && p->ev)
			event_free(p->ev);
		free(p);
		close(fd);
		log_error(NULL, "event=session-failed client=%s error=\"out of memory\"", proxy->text);
		return;
	}
	p->at = l;
	p->fd = fd;
	p->proxy = *proxy;
	p->deadline_us = clock_mono_us() + (l->terms->command_us && l->terms->command_us < patience ? l->terms->command_us : patience);
	p->next = in->proxied;
	if (p->next)
		p->next->prev = p;
	in->proxied = p;
	l->sessions++;
	l->waiting++;
}

void proxied_sweep(struct ingress *in, int64_t now_us)
{
	for (struct proxied *p = in->proxied, *next; p; p = next) {
		next = p->next;
		if (now_us > p->deadline_us) {
			in->timeouts++;
			in->deadlines[DEADLINE_PROXY]++;
			refuse(p, "no PROXY header within its time");
		}
	}
}

void proxied_free_all(struct ingress *in)
{
	while (in->proxied)
		end(in->proxied);
}
