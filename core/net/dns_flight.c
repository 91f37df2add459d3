/* One question under way: attempt after attempt, over the servers, until there is an answer or its time is up. Whoever asked is
 * told through the resolver's ready list, never from in here. */
#include "dns_internal.h"

#include <stdlib.h>

static void attempt(struct flight *f);

static uint32_t hash_of(struct str name, enum dns_type type)
{
	uint32_t h = 2166136261u ^ (uint32_t)type; /* the number of flights is bounded, and so are the chains */
	for (size_t i = 0; i < name.n; i++)
		h = (h ^ (unsigned char)name.p[i]) * 16777619u;
	return h;
}

static uint32_t ttl_to_keep(const struct net_dns *d, const struct dns_answer *a)
{
	uint32_t max = a->status == DNS_OK ? d->s.max_ttl : d->s.max_negative_ttl;
	return a->ttl < max ? a->ttl : max;
}

static void count_latency(struct net_dns *d, int64_t us)
{
	unsigned i = 0;
	while (i < DNS_LATENCY_BUCKETS && us > (INT64_C(500) << i))
		i++;
	d->stats.latency[i]++;
	d->stats.latency_us += (uint64_t)us;
	d->stats.flights++;
}

/* The end: a (its reference is taken over) for all who wait. server -1: nobody told. */
static void land(struct flight *f, struct dns_answer *a, int server)
{
	struct net_dns *d = f->d;
	struct net_dns_ask *ask;
	int64_t now = clock_mono_us();
	if (!f->probe) {
		uint32_t ttl = a->status == DNS_TEMPFAIL ? DNS_FAIL_TTL : ttl_to_keep(d, a);
		struct net_dns_delivery how = { .ttl_left = a->status == DNS_TEMPFAIL ? 0 : ttl, .took_us = now - f->began_us,
			.server = server < 0 ? "" : d->server[server].at.text };
		count_latency(d, now - f->began_us);
		if (a != d->no_memory)
			dns_cache_put(d->cache, a, ttl, now);
		while ((ask = TAILQ_FIRST(&f->asks))) {
			TAILQ_REMOVE(&f->asks, ask, link);
			dns_ask_ready(ask, dns_answer_ref(a), &how);
		}
	}
	dns_answer_unref(a);
	dns_flight_free(f);
}

static void fail(struct flight *f, const char *why)
{
	land(f, dns_failed(f->d, str_n(f->name, f->name_n), f->type, why), -1);
}

static void timed_out(evutil_socket_t fd, short what, void *arg)
{
	struct flight *f = arg;
	(void)fd;
	(void)what;
	f->d->server[f->server].timeouts++;
	dns_flight_broken(f, "time-out");
}

/* The attempt's clock; what is left of the question's time bounds it. */
static int set_timer(struct flight *f, int64_t now)
{
	/* the child goes on asking others for as long as the question lasts: nobody else would know sooner */
	bool whole = f->d->server[f->server].at.local || f->deadline_us - now < f->d->s.timeout_us;
	int64_t us = whole ? f->deadline_us - now : f->d->s.timeout_us;
	if (us < 1000)
		us = 1000;
	struct timeval tv = { .tv_sec = us / US_PER_S, .tv_usec = us % US_PER_S };
	return event_add(f->timer, &tv);
}

/* Sends f->q to f->server. */
static void send_it(struct flight *f, bool tcp)
{
	struct net_dns *d = f->d;
	unsigned char bits[DNS_RANDOM_CASE];
	uint16_t id;
	int64_t now = clock_mono_us();
	dns_socket_close(f);
	dns_random(d, &id, sizeof id);
	if (d->s.random_case)
		dns_random(d, bits, sizeof bits);
	if (dns_query_make(&f->q, str_n(f->name, f->name_n), f->type, id, f->plain ? 0 : DNS_QUERY_EDNS, d->s.random_case ? bits : NULL)) {
		fail(f, "not a domain name");
		return;
	}
	f->sent_us = now;
	d->server[f->server].queries++;
	d->stats.tcp += tcp;
	if (set_timer(f, now) || dns_socket_open(f, tcp))
		dns_flight_broken(f, "not reachable");
}

static void attempt(struct flight *f)
{
	struct net_dns *d = f->d;
	int64_t now = clock_mono_us();
	unsigned i = f->server;
	if (f->probe ? f->tried[i] > 0 : now >= f->deadline_us || dns_server_next(d, f, &i) != 0) {
		fail(f, f->why ? f->why : "time-out");
		return;
	}
	f->server = i;
	f->tried[i]++;
	f->plain = now < d->server[i].no_edns_us;
	send_it(f, false);
}

void dns_flight_broken(struct flight *f, const char *why)
{
	dns_server_silent(f->d, f->server, why);
	f->why = why;
	attempt(f);
}

bool dns_flight_reply(struct flight *f, const unsigned char *p, size_t n)
{
	struct net_dns *d = f->d;
	struct server *s = &d->server[f->server];
	struct dns_answer *a = NULL;
	const char *why = NULL;
	int64_t now = clock_mono_us();
	enum dns_reply rc = dns_reply_read(&f->q, p, n, f->tcp, d->s.trust_ad || s->at.loopback, &a, &why);
	if (rc == DNS_REPLY_IGNORE) {
		s->forged++;
		d->stats.forged++;
		if (f->tcp || ++f->forged < DNS_FORGED_MAX)
			return true;
		/* somebody is guessing ids (RFC 5452 §9.3) */
		send_it(f, true);
		return false;
	}
	dns_server_replied(d, f->server, now - f->sent_us);
	f->heard = true;
	switch (rc) {
	case DNS_REPLY_OK:
		land(f, a, (int)f->server);
		break;
	case DNS_REPLY_TRUNCATED:
		send_it(f, true);
		break;
	case DNS_REPLY_NO_EDNS:
		if (!f->plain) {
			f->plain = true;
			s->no_edns_us = now + DNS_NO_EDNS_S * US_PER_S;
			d->stats.edns_off++;
			send_it(f, f->tcp);
			break;
		}
		/* fall through */
	default: /* it replied, but cannot tell: the others may */
		s->failures++;
		f->answered[f->server] = true;
		f->why = why;
		attempt(f);
	}
	return false;
}

static struct flight *flight_new(struct net_dns *d, struct str name, enum dns_type type)
{
	struct flight *f = calloc(1, sizeof *f);
	if (!f)
		return NULL;
	f->d = d;
	f->fd = -1;
	f->type = type;
	f->name_n = name.n;
	memcpy(f->name, name.p, name.n);
	f->hash = hash_of(name, type);
	f->began_us = clock_mono_us();
	f->deadline_us = f->began_us + d->s.lookup_us;
	TAILQ_INIT(&f->asks);
	f->timer = evtimer_new(d->base, timed_out, f);
	if (!f->timer) {
		free(f);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&d->flights, f, link);
	d->in_flight++;
	return f;
}

void dns_flight_free(struct flight *f)
{
	struct net_dns *d = f->d;
	dns_socket_close(f);
	event_free(f->timer);
	TAILQ_REMOVE(&d->flights, f, link);
	if (!f->probe)
		TAILQ_REMOVE(&d->bucket[f->hash % DNS_BUCKETS], f, in_bucket);
	d->in_flight--;
	free(f);
	if (!TAILQ_EMPTY(&d->hungry)) /* somebody waits for the place */
		dns_wake(d);
}

/* A server that is down gets the question as well, for nobody: to see whether it is back. */
static void probe(struct net_dns *d, struct str name, enum dns_type type, int64_t now)
{
	unsigned i;
	struct flight *f;
	if (d->in_flight >= d->s.max_in_flight || dns_server_probe(d, now, &i) || !(f = flight_new(d, name, type)))
		return;
	f->probe = true;
	f->server = i;
	attempt(f);
}

struct flight *dns_flight_join(struct net_dns *d, struct str name, enum dns_type type, bool *ret_new, const char **ret_why)
{
	uint32_t h = hash_of(name, type);
	struct flight *f;
	*ret_new = false;
	TAILQ_FOREACH(f, &d->bucket[h % DNS_BUCKETS], in_bucket)
		if (f->hash == h && f->type == type && str_eq(str_n(f->name, f->name_n), name))
			return f;
	if (dns_servers_watch(d, clock_mono_us())) {
		struct flight *next;
		dns_cache_flush(d->cache);
		for (f = TAILQ_FIRST(&d->flights); f; f = next) {
			next = TAILQ_NEXT(f, link);
			dns_flight_restart(f);
		}
	}
	if (d->in_flight >= d->s.max_in_flight) {
		*ret_why = "too many questions at once";
		return NULL;
	}
	if (!(f = flight_new(d, name, type))) {
		*ret_why = "out of memory";
		return NULL;
	}
	TAILQ_INSERT_TAIL(&d->bucket[h % DNS_BUCKETS], f, in_bucket);
	*ret_new = true;
	return f;
}

void dns_flight_begin(struct flight *f)
{
	probe(f->d, str_n(f->name, f->name_n), f->type, f->began_us);
	attempt(f);
}

void dns_flight_left(struct flight *f)
{
	if (TAILQ_EMPTY(&f->asks) && f->d->in_flight > f->d->s.max_in_flight / 2)
		dns_flight_free(f);
}

void dns_flight_restart(struct flight *f)
{
	memset(f->tried, 0, sizeof f->tried);
	memset(f->answered, 0, sizeof f->answered);
	if (f->probe)
		dns_flight_free(f);
	else
		attempt(f);
}
