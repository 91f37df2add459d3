/* Reverse look-up of a session's client. */
#include "reverse.h"

#include "base/clock.h"
#include "ingress_internal.h"

#include <stdlib.h>

enum {
	LOOKUP_S = 10,                     /* for the name and the way back; a session that ends earlier has no name */
	QUERIES_MAX = 1 + IPREV_NAMES_MAX,
};

struct reverse {
	struct session *s;
	struct net_dns_group *group; /* NULL: done */
	struct event *wait;          /* the banner waits until then; NULL: it does not */
	struct net_addr peer;        /* ip of the evaluation */
	struct iprev iprev;
};

enum iprev_result reverse_result(const struct session *s)
{
	return s->reverse && !s->reverse->group ? s->reverse->iprev.result : IPREV_NONE;
}

static void stop_waiting(struct reverse *r)
{
	if (r->wait)
		event_free(r->wait);
	r->wait = NULL;
}

void reverse_free(struct session *s)
{
	struct reverse *r = s->reverse;
	if (!r)
		return;
	s->reverse = NULL;
	s->held &= ~HELD_REVERSE;
	stop_waiting(r);
	net_dns_group_free(r->group);
	free(r);
}

/* The banner; may free the session. */
static void release(struct session *s)
{
	if (!(s->held & HELD_REVERSE))
		return;
	s->held &= ~HELD_REVERSE;
	stop_waiting(s->reverse);
	session_pump(s);
}

static void waited(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	release(arg);
}

static void done(void *arg, int rc, const struct dns_answers *set)
{
	struct reverse *r = arg;
	struct session *s = r->s;
	(void)set;
	net_dns_group_free(r->group);
	r->group = NULL;
	if (rc != DNS_DONE) /* memory */
		r->iprev = (struct iprev){ .result = IPREV_TEMPERROR };
	s->in->iprev[r->iprev.result]++;
	if (r->iprev.result == IPREV_PASS && !s->rdns.n)
		buf_addz(&s->rdns, r->iprev.name);
	log_debug(&s->log, "event=iprev result=%s name=%s", iprev_result_name(r->iprev.result), log_qz(r->iprev.name));
	release(s);
}

static bool is_this_host(const struct net_addr *a)
{
	static const unsigned char one[16] = { [15] = 1 };
	return a->family == AF_INET ? memcmp(a->ip, "\x7f\0\0\1", 4) == 0 : memcmp(a->ip, one, sizeof one) == 0;
}

static void hold(struct reverse *r, int64_t us)
{
	struct timeval tv = { .tv_sec = us / US_PER_S, .tv_usec = us % US_PER_S };
	r->wait = evtimer_new(r->s->in->base, waited, r->s);
	if (r->wait && event_add(r->wait, &tv) == 0)
		r->s->held |= HELD_REVERSE;
	else
		stop_waiting(r);
}

void reverse_begin(struct session *s, bool may_hold)
{
	struct reverse *r;
	reverse_free(s);
	if (!s->in->dns || !s->terms->reverse || !net_addr_is_ip(&s->peer) || is_this_host(&s->peer) || !(r = calloc(1, sizeof *r)))
		return;
	r->s = s;
	r->peer = s->peer;
	r->iprev.ip = r->peer.ip;
	r->iprev.ip_n = s->peer.family == AF_INET ? 4 : 16;
	r->group = net_dns_group_new(s->in->dns, LOOKUP_S * US_PER_S, QUERIES_MAX);
	if (!r->group || !net_dns_evaluate(r->group, iprev_evaluate, &r->iprev, done, r)) {
		net_dns_group_free(r->group);
		free(r);
		return;
	}
	s->reverse = r;
	if (may_hold && s->terms->reverse_wait_us)
		hold(r, s->terms->reverse_wait_us);
}
