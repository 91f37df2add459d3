/* The books of limits.h. A rate is counted in the window that runs and the one before it, whose share shrinks as the present one
 * grows: no burst of twice the limit where two windows meet, and no list of times to keep. */
#include "limits.h"

#include "base/clock.h"
#include "base/map.h"

#include <stdlib.h>
#include <sys/random.h>

enum { MINUTE_S = 60, HOUR_S = 3600 };

struct window {
	int64_t number;       /* of the window `now` counts in */
	unsigned now, before;
};

struct entry {
	struct entry *newer, *older;
	uint64_t key;
	struct window minute[LIMIT_KINDS], hour[LIMIT_KINDS], unknown;
	bool good;
};

struct book {
	struct map map;
	struct entry *newest, *oldest;
	unsigned n;
	uint64_t salt; /* random: a peer that owns many networks cannot aim for one slot */
};

struct limits {
	struct book addresses, networks;
	unsigned remembered;
};

static void salt(struct book *b)
{
	if (getrandom(&b->salt, sizeof b->salt, GRND_NONBLOCK) != (ssize_t)sizeof b->salt)
		b->salt = UINT64_C(0x9e3779b97f4a7c15);
}

struct limits *limits_new(unsigned remembered)
{
	struct limits *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	l->remembered = remembered ? remembered : 1;
	salt(&l->addresses);
	salt(&l->networks);
	return l;
}

static void take_out(struct book *b, struct entry *e)
{
	*(e->newer ? &e->newer->older : &b->newest) = e->older;
	*(e->older ? &e->older->newer : &b->oldest) = e->newer;
}

static void put_in(struct book *b, struct entry *e)
{
	e->newer = NULL;
	e->older = b->newest;
	*(e->older ? &e->older->newer : &b->oldest) = e;
	b->newest = e;
}

static void forget_oldest(struct book *b)
{
	struct entry *e = b->oldest;
	take_out(b, e);
	map_del(&b->map, e->key);
	b->n--;
	free(e);
}

static void book_done(struct book *b)
{
	while (b->oldest)
		forget_oldest(b);
	map_done(&b->map);
}

void limits_free(struct limits *l)
{
	if (!l)
		return;
	book_done(&l->addresses);
	book_done(&l->networks);
	free(l);
}

void limits_remember(struct limits *l, unsigned remembered)
{
	l->remembered = remembered ? remembered : 1;
	while (l->addresses.n > l->remembered)
		forget_oldest(&l->addresses);
	while (l->networks.n > l->remembered)
		forget_oldest(&l->networks);
}

struct net_addr limits_network(const struct net_addr *a)
{
	struct net_addr n = *a;
	if (n.family == AF_INET)
		n.ip[3] = 0;
	return n;
}

static uint64_t key_of(const struct book *b, const struct net_addr *a)
{
	/* one to one, so that two clients never share an entry */
	return (net_addr_key(a) ^ b->salt) * UINT64_C(0xff51afd7ed558ccd);
}

static struct entry *find(struct book *b, const struct net_addr *a)
{
	struct entry *e = map_get(&b->map, key_of(b, a));
	if (e) {
		take_out(b, e);
		put_in(b, e);
	}
	return e;
}

static struct entry *find_or_make(struct limits *l, struct book *b, const struct net_addr *a)
{
	struct entry *e = find(b, a);
	if (e)
		return e;
	while (b->n >= l->remembered)
		forget_oldest(b);
	e = calloc(1, sizeof *e);
	if (!e)
		return NULL;
	e->key = key_of(b, a);
	if (map_put(&b->map, e->key, e)) {
		free(e);
		return NULL;
	}
	b->n++;
	put_in(b, e);
	return e;
}

static void turn(struct window *w, int64_t length_s, int64_t now_us)
{
	int64_t number = now_us / (length_s * US_PER_S);
	if (number == w->number)
		return;
	w->before = number == w->number + 1 ? w->now : 0;
	w->now = 0;
	w->number = number;
}

static uint64_t count(struct window *w, int64_t length_s, int64_t now_us)
{
	turn(w, length_s, now_us);
	int64_t length = length_s * US_PER_S, left = length - now_us % length;
	return w->now + (uint64_t)w->before * (uint64_t)(left / 1000) / (uint64_t)(length / 1000);
}

static bool room(struct entry *e, enum limit_kind kind, unsigned per_minute, unsigned per_hour, uint64_t factor, int64_t now_us)
{
	return (!per_minute || count(&e->minute[kind], MINUTE_S, now_us) < per_minute * factor) &&
	    (!per_hour || count(&e->hour[kind], HOUR_S, now_us) < per_hour * factor);
}

static void book_it(struct entry *e, enum limit_kind kind, unsigned n, int64_t now_us)
{
	turn(&e->minute[kind], MINUTE_S, now_us);
	turn(&e->hour[kind], HOUR_S, now_us);
	e->minute[kind].now += n;
	e->hour[kind].now += n;
}

bool limits_take(struct limits *l, const struct limit_rates *r, const struct net_addr *a, enum limit_kind kind, int64_t now_us)
{
	unsigned minute = r->per_minute[kind], hour = r->per_hour[kind];
	struct net_addr network = limits_network(a);
	if (!minute && !hour)
		return true;
	struct entry *one = find_or_make(l, &l->addresses, a);
	struct entry *net = r->network_factor ? find_or_make(l, &l->networks, &network) : NULL;
	if ((one && !room(one, kind, minute, hour, 1, now_us)) || (net && !room(net, kind, minute, hour, r->network_factor, now_us)))
		return false;
	if (one)
		book_it(one, kind, 1, now_us);
	if (net)
		book_it(net, kind, 1, now_us);
	return true;
}

bool limits_may(struct limits *l, const struct limit_rates *r, const struct net_addr *a, enum limit_kind kind, int64_t now_us)
{
	struct net_addr network = limits_network(a);
	struct entry *one = find(&l->addresses, a), *net = r->network_factor ? find(&l->networks, &network) : NULL;
	return (!one || room(one, kind, r->per_minute[kind], r->per_hour[kind], 1, now_us)) &&
	    (!net || room(net, kind, r->per_minute[kind], r->per_hour[kind], r->network_factor, now_us));
}

void limits_add(struct limits *l, const struct limit_rates *r, const struct net_addr *a, enum limit_kind kind, unsigned n, int64_t now_us)
{
	struct net_addr network = limits_network(a);
	if (!n || (!r->per_minute[kind] && !r->per_hour[kind]))
		return;
	struct entry *one = find_or_make(l, &l->addresses, a);
	struct entry *net = r->network_factor ? find_or_make(l, &l->networks, &network) : NULL;
	if (one)
		book_it(one, kind, n, now_us);
	if (net)
		book_it(net, kind, n, now_us);
}

void limits_unknown(struct limits *l, const struct net_addr *a, int64_t now_us)
{
	struct net_addr network = limits_network(a);
	struct entry *e = find_or_make(l, &l->networks, &network);
	if (!e)
		return;
	turn(&e->unknown, HOUR_S, now_us);
	e->unknown.now++;
}

bool limits_harvests(struct limits *l, const struct limit_rates *r, const struct net_addr *a, int64_t now_us)
{
	struct net_addr network = limits_network(a);
	struct entry *e = r->unknown_per_hour ? find(&l->networks, &network) : NULL;
	return e && count(&e->unknown, HOUR_S, now_us) >= r->unknown_per_hour;
}

void limits_good(struct limits *l, const struct net_addr *a)
{
	struct entry *e = find_or_make(l, &l->addresses, a);
	if (e)
		e->good = true;
}

bool limits_known(struct limits *l, const struct net_addr *a)
{
	struct entry *e = find(&l->addresses, a);
	return e && e->good;
}

unsigned limits_entries(const struct limits *l)
{
	return l->addresses.n + l->networks.n;
}
