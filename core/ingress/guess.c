/* The books of guess.h: two tables with a list of use each, one for buckets, which anybody can add to by failing, one for
 * places, which only successes add to, so that a flood of failures cannot push them out. */
#include "guess.h"

#include "base/map.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdlib.h>

struct entry {
	struct entry *newer, *older;
	uint64_t key;
	unsigned used;     /* failures on the account */
	int64_t since_us;  /* the refill counts from here */
};

struct table {
	struct map map;
	struct entry *newest, *oldest;
	unsigned n;
};

struct guesses {
	struct guess_limits l;
	struct table buckets, places;
	unsigned char salt[16]; /* names and networks are a peer's choice: it must not aim for one slot */
};

enum { SALT = 16, TEXT_MAX = 256 };

struct guesses *guesses_new(const struct guess_limits *l)
{
	struct guesses *g = calloc(1, sizeof *g);
	if (g && RAND_bytes(g->salt, SALT) != 1) {
		free(g);
		return NULL;
	}
	if (g)
		g->l = *l;
	return g;
}

static void unlink_entry(struct table *t, struct entry *e)
{
	*(e->newer ? &e->newer->older : &t->newest) = e->older;
	*(e->older ? &e->older->newer : &t->oldest) = e->newer;
}

static void link_entry(struct table *t, struct entry *e)
{
	e->newer = NULL;
	e->older = t->newest;
	*(e->older ? &e->older->newer : &t->oldest) = e;
	t->newest = e;
}

static void forget_oldest(struct table *t)
{
	struct entry *e = t->oldest;
	unlink_entry(t, e);
	map_del(&t->map, e->key);
	t->n--;
	free(e);
}

static void table_done(struct table *t)
{
	while (t->oldest)
		forget_oldest(t);
	map_done(&t->map);
}

void guesses_free(struct guesses *g)
{
	if (!g)
		return;
	table_done(&g->buckets);
	table_done(&g->places);
	free(g);
}

void guesses_limits(struct guesses *g, const struct guess_limits *l)
{
	g->l = *l;
	while (g->buckets.n > l->remembered)
		forget_oldest(&g->buckets);
	while (g->places.n > l->remembered)
		forget_oldest(&g->places);
}

/* A number for (kind, account, network); NULL: no network. 64 bits of a hash: two of them the same in a table of some
 * ten thousand would be a wonder, and cost no more than a wrong delay. */
static uint64_t key(const struct guesses *g, char kind, struct str account, const struct net_addr *from)
{
	unsigned char in[1 + SALT + TEXT_MAX + 9], md[32];
	size_t n = 0;
	uint64_t ret;
	in[n++] = (unsigned char)kind;
	memcpy(in + n, g->salt, SALT);
	n += SALT;
	if (from) {
		/* the /24 of IPv4, the /64 of IPv6; unix sockets are one network of their own */
		in[n++] = (unsigned char)from->family;
		memcpy(in + n, from->ip, from->family == AF_INET ? 3 : 8);
		n += from->family == AF_INET ? 3 : 8;
	}
	account = str_n(account.p, account.n > TEXT_MAX - 1 ? TEXT_MAX - 1 : account.n);
	if (account.n)
		memcpy(in + n, account.p, account.n);
	n += account.n;
	if (EVP_Digest(in, n, md, NULL, EVP_sha256(), NULL) != 1)
		return 1; /* the library is broken: all share one bucket, which is the careful side */
	memcpy(&ret, md, sizeof ret);
	return ret;
}

static struct entry *touch(struct table *t, uint64_t k)
{
	struct entry *e = map_get(&t->map, k);
	if (e) {
		unlink_entry(t, e);
		link_entry(t, e);
	}
	return e;
}

static struct entry *touch_or_make(struct table *t, uint64_t k, unsigned max, int64_t now_us)
{
	struct entry *e = touch(t, k);
	if (e || !max)
		return e;
	while (t->n >= max)
		forget_oldest(t);
	e = calloc(1, sizeof *e);
	if (!e || map_put(&t->map, k, e)) {
		free(e);
		return NULL;
	}
	e->key = k;
	e->since_us = now_us;
	t->n++;
	link_entry(t, e);
	return e;
}

static void refill(struct entry *e, int64_t refill_us, int64_t now_us)
{
	int64_t back = refill_us > 0 && now_us > e->since_us ? (now_us - e->since_us) / refill_us : 0;
	if (back >= e->used) {
		e->used = 0;
		e->since_us = now_us;
	} else {
		e->used -= (unsigned)back;
		e->since_us += back * refill_us;
	}
}

static void spend(struct guesses *g, uint64_t k, unsigned tries, int64_t refill_us, int64_t now_us)
{
	struct entry *e = tries ? touch_or_make(&g->buckets, k, g->l.remembered, now_us) : NULL;
	if (!e)
		return;
	refill(e, refill_us, now_us);
	if (e->used < tries) /* never below empty: the way back does not get longer by guessing on */
		e->used++;
}

static unsigned used(struct guesses *g, uint64_t k, int64_t refill_us, int64_t now_us)
{
	struct entry *e = touch(&g->buckets, k);
	if (!e)
		return 0;
	refill(e, refill_us, now_us);
	return e->used;
}

void guess_failed(struct guesses *g, struct str account, const struct net_addr *from, int64_t now_us)
{
	if (account.n)
		spend(g, key(g, 'a', account, NULL), g->l.account_tries, g->l.account_refill_us, now_us);
	spend(g, key(g, 'n', STR_NULL, from), g->l.network_tries, g->l.network_refill_us, now_us);
}

void guess_succeeded(struct guesses *g, struct str account, const struct net_addr *from, int64_t now_us)
{
	touch_or_make(&g->places, key(g, 'p', account, from), g->l.remembered, now_us);
	touch_or_make(&g->places, key(g, 'q', STR_NULL, from), g->l.remembered, now_us);
}

bool guess_account_spent(struct guesses *g, struct str account, int64_t now_us)
{
	return g->l.account_tries && account.n &&
	    used(g, key(g, 'a', account, NULL), g->l.account_refill_us, now_us) >= g->l.account_tries;
}

bool guess_network_spent(struct guesses *g, const struct net_addr *from, int64_t now_us)
{
	return g->l.network_tries && used(g, key(g, 'n', STR_NULL, from), g->l.network_refill_us, now_us) >= g->l.network_tries;
}

bool guess_account_known(struct guesses *g, struct str account, const struct net_addr *from)
{
	return touch(&g->places, key(g, 'p', account, from)) != NULL;
}

bool guess_network_known(struct guesses *g, const struct net_addr *from)
{
	return touch(&g->places, key(g, 'q', STR_NULL, from)) != NULL;
}

static unsigned level(unsigned n, unsigned tries)
{
	return !tries || n < (tries + 1) / 2 ? 0 : n < tries ? 1 : 2;
}

unsigned guess_level(struct guesses *g, struct str account, const struct net_addr *from, int64_t now_us)
{
	unsigned a = account.n ? used(g, key(g, 'a', account, NULL), g->l.account_refill_us, now_us) : 0;
	unsigned n = used(g, key(g, 'n', STR_NULL, from), g->l.network_refill_us, now_us);
	a = level(a, g->l.account_tries);
	n = level(n, g->l.network_tries);
	return a > n ? a : n;
}

unsigned guess_buckets(const struct guesses *g)
{
	return g->buckets.n;
}

unsigned guess_places(const struct guesses *g)
{
	return g->places.n;
}
