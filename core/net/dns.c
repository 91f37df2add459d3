/* The resolver of an event loop: from a question to the cache, to a flight, and back to whoever asked. Answers wait on a ready list
 * and are delivered from the loop, so that no callback runs inside the call that asked. */
#include "dns_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

static void on_turn(evutil_socket_t fd, short what, void *arg);

void dns_random(struct net_dns *d, void *p, size_t n)
{
	if (d->random_left < n) {
		size_t have = 0;
		while (have < sizeof d->random) {
			ssize_t got = getrandom(d->random + have, sizeof d->random - have, 0);
			must(got > 0 || errno == EINTR);
			have += got > 0 ? (size_t)got : 0;
		}
		d->random_left = sizeof d->random;
	}
	d->random_left -= n;
	memcpy(p, d->random + d->random_left, n);
	memset(d->random + d->random_left, 0, n);
}

struct net_dns *net_dns_new(struct event_base *base, const struct net_dns_settings *s)
{
	struct net_dns *d = calloc(1, sizeof *d);
	uint64_t seed;
	if (!d)
		return NULL;
	d->base = base;
	d->s = *s;
	d->now.server = "";
	TAILQ_INIT(&d->flights);
	TAILQ_INIT(&d->ready);
	TAILQ_INIT(&d->evaluations_ready);
	TAILQ_INIT(&d->hungry);
	for (size_t i = 0; i < DNS_BUCKETS; i++)
		TAILQ_INIT(&d->bucket[i]);
	dns_random(d, &seed, sizeof seed);
	d->cache = dns_cache_new(s->cache_entries, s->cache_octets, seed);
	d->turn = event_new(base, -1, 0, on_turn, d);
	d->no_memory = dns_answer_fail(STR("invalid"), DNS_A, "out of memory");
	dns_servers_set(d);
	if (d->cache && d->turn && d->no_memory)
		return d;
	net_dns_free(d);
	return NULL;
}

void net_dns_free(struct net_dns *d)
{
	if (!d)
		return;
	recover(d->groups == 0);
	while (!TAILQ_EMPTY(&d->flights))
		dns_flight_free(TAILQ_FIRST(&d->flights));
	dns_sockets_flush(d);
	dns_cache_free(d->cache);
	if (d->turn)
		event_free(d->turn);
	dns_answer_unref(d->no_memory);
	free(d);
}

void net_dns_reload(struct net_dns *d, const struct net_dns_settings *s)
{
	struct flight *f, *next;
	bool trust = d->s.trust_ad != s->trust_ad;
	d->s = *s;
	d->resolv_checked_us = 0;
	d->resolv_inode = 0;
	dns_cache_limits(d->cache, s->cache_entries, s->cache_octets);
	if (!dns_servers_set(d) && !trust)
		return;
	dns_cache_flush(d->cache);
	for (f = TAILQ_FIRST(&d->flights); f; f = next) {
		next = TAILQ_NEXT(f, link);
		dns_flight_restart(f);
	}
}

struct dns_answer *dns_failed(struct net_dns *d, struct str name, enum dns_type type, const char *why)
{
	struct dns_answer *a = dns_answer_fail(name, type, why);
	return a ? a : dns_answer_ref(d->no_memory);
}

/* ---- delivery */

void dns_wake(struct net_dns *d)
{
	event_active(d->turn, 0, 0);
}

void dns_ask_ready(struct net_dns_ask *ask, struct dns_answer *a, const struct net_dns_delivery *how)
{
	struct net_dns *d = ask->g->d;
	ask->g->open -= ask->f != NULL;
	ask->f = NULL;
	ask->answer = a;
	ask->how = *how;
	TAILQ_INSERT_TAIL(&d->ready, ask, link);
	d->n_ready++;
	dns_wake(d);
}

static void forget(struct net_dns_ask *ask)
{
	struct net_dns *d = ask->g->d;
	if (ask->waits) {
		dns_group_unwait(ask);
	} else if (ask->f) {
		ask->g->open--;
		TAILQ_REMOVE(&ask->f->asks, ask, link);
		dns_flight_left(ask->f);
	} else {
		TAILQ_REMOVE(&d->ready, ask, link);
		d->n_ready--;
	}
	TAILQ_REMOVE(&ask->g->asks, ask, in_group);
	dns_answer_unref(ask->answer);
	free(ask);
}

void net_dns_cancel(struct net_dns_ask *ask)
{
	forget(ask);
}

unsigned dns_stats_type(enum dns_type t)
{
	static const enum dns_type types[] = { DNS_A, DNS_NS, DNS_CNAME, DNS_SOA, DNS_PTR, DNS_MX, DNS_TXT, DNS_AAAA, DNS_TLSA };
	unsigned i = 0;
	while (i < sizeof types / sizeof *types && types[i] != t)
		i++;
	return i;
}

/* What was ready when the turn began; what gets ready meanwhile has the next one. */
static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct net_dns *d = arg;
	struct net_dns_ask *ask;
	(void)fd;
	(void)what;
	for (size_t n = d->n_ready; n && (ask = TAILQ_FIRST(&d->ready)); n--) {
		struct dns_answer *a = dns_answer_ref(ask->answer);
		net_dns_fn fn = ask->fn;
		void *fn_arg = ask->arg;
		d->now = ask->how;
		d->stats.answers[dns_stats_type(ask->type)][a->status]++;
		d->stats.authenticated += a->authenticated;
		forget(ask);
		fn(fn_arg, a);
		dns_answer_unref(a);
	}
	d->now = (struct net_dns_delivery){ .server = "" };
	dns_evaluations_turn(d);
	dns_groups_turn(d);
	/* by the timer: what is made active again within its own callback runs before any socket is looked at */
	if (d->n_ready || d->n_evaluations_ready)
		event_add(d->turn, &(struct timeval){ .tv_sec = 0 });
}

struct net_dns_delivery net_dns_delivery(const struct net_dns *d)
{
	return d->now;
}

void net_dns_forget(struct net_dns *d, struct str name, enum dns_type type)
{
	char folded[DNS_NAME_MAX + 1];
	int n = dns_name_fold(name, folded);
	if (n > 0)
		dns_cache_drop(d->cache, str_n(folded, (size_t)n), type);
}

/* ---- asking */

struct net_dns_ask *net_dns_query(struct net_dns_group *g, struct str name, enum dns_type type, net_dns_fn fn, void *arg)
{
	struct net_dns *d = g->d;
	struct net_dns_delivery how = { .server = "" };
	char folded[DNS_NAME_MAX + 1];
	int n = dns_name_fold(name, folded);
	struct net_dns_ask *ask = calloc(1, sizeof *ask);
	if (!ask)
		return NULL;
	*ask = (struct net_dns_ask){ .g = g, .type = type, .fn = fn, .arg = arg };
	TAILQ_INSERT_TAIL(&g->asks, ask, in_group);
	if (n < 0 || !dns_type_name(type)) {
		struct dns_answer *none = dns_answer_unaskable(type);
		dns_ask_ready(ask, none ? none : dns_answer_ref(d->no_memory), &how);
		return ask;
	}
	struct str asked = str_n(folded, (size_t)n);
	struct dns_answer *known = dns_cache_get(d->cache, asked, type, clock_mono_us(), &how.ttl_left);
	if (known) {
		d->stats.hits++;
		how.cached = true;
		dns_ask_ready(ask, known, &how);
		return ask;
	}
	d->stats.misses++;
	const char *why = NULL;
	if (!dns_group_may_ask(g, &why))
		dns_ask_ready(ask, dns_failed(d, asked, type, why), &how);
	else if (dns_group_has_room(g) || dns_group_wait(ask, asked))
		dns_ask_launch(ask, asked);
	return ask;
}

void dns_ask_launch(struct net_dns_ask *ask, struct str name)
{
	struct net_dns *d = ask->g->d;
	bool fresh = false;
	const char *why = NULL;
	struct flight *f = dns_flight_join(d, name, ask->type, &fresh, &why);
	if (!f) {
		dns_ask_ready(ask, dns_failed(d, name, ask->type, why), &(struct net_dns_delivery){ .server = "" });
		return;
	}
	ask->f = f;
	ask->g->open++;
	TAILQ_INSERT_TAIL(&f->asks, ask, link);
	if (fresh)
		dns_flight_begin(f);
	else
		d->stats.coalesced++;
}
