/* The cache of the resolver: a hash table of short chains and one list in the order of use. Chains are cut at a length, so that
 * whoever finds names that collide loses his own entries and costs nobody time. */
#include "dns_cache.h"

#include <stdlib.h>
#include <sys/queue.h>

enum { CHAIN_MAX = 16, BUCKETS_MIN = 64, BUCKETS_MAX = 1 << 18, ENTRY_OVERHEAD = 96 };

struct entry {
	TAILQ_ENTRY(entry) used;
	struct entry *next;
	uint64_t hash;
	int64_t until_us;
	struct dns_answer *answer;
};

struct dns_cache {
	struct entry **bucket;
	size_t n_buckets, n, octets, max_entries, max_octets;
	uint64_t seed, evicted;
	TAILQ_HEAD(entries_head, entry) used; /* most recently used first */
};

static uint64_t hash_of(const struct dns_cache *c, struct str name, enum dns_type type)
{
	uint64_t h = c->seed ^ (uint64_t)type;
	for (size_t i = 0; i < name.n; i++) {
		h = (h ^ (unsigned char)name.p[i]) * UINT64_C(0x100000001b3);
		h ^= h >> 29;
	}
	return h ^ h >> 32;
}

struct dns_cache *dns_cache_new(size_t max_entries, size_t max_octets, uint64_t seed)
{
	struct dns_cache *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->n_buckets = BUCKETS_MIN;
	while (c->n_buckets < max_entries && c->n_buckets < BUCKETS_MAX)
		c->n_buckets *= 2;
	c->bucket = calloc(c->n_buckets, sizeof *c->bucket);
	if (!c->bucket) {
		free(c);
		return NULL;
	}
	c->max_entries = max_entries;
	c->max_octets = max_octets;
	c->seed = seed;
	TAILQ_INIT(&c->used);
	return c;
}

static void drop(struct dns_cache *c, struct entry *e)
{
	struct entry **at = &c->bucket[e->hash & (c->n_buckets - 1)];
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	TAILQ_REMOVE(&c->used, e, used);
	c->n--;
	c->octets -= e->answer->octets + ENTRY_OVERHEAD;
	dns_answer_unref(e->answer);
	free(e);
}

void dns_cache_flush(struct dns_cache *c)
{
	while (!TAILQ_EMPTY(&c->used))
		drop(c, TAILQ_FIRST(&c->used));
}

void dns_cache_free(struct dns_cache *c)
{
	if (!c)
		return;
	dns_cache_flush(c);
	free(c->bucket);
	free(c);
}

static void trim(struct dns_cache *c)
{
	while (c->n > c->max_entries || c->octets > c->max_octets) {
		drop(c, TAILQ_LAST(&c->used, entries_head));
		c->evicted++;
	}
}

void dns_cache_limits(struct dns_cache *c, size_t max_entries, size_t max_octets)
{
	c->max_entries = max_entries;
	c->max_octets = max_octets;
	trim(c);
}

static struct entry *find(const struct dns_cache *c, uint64_t h, struct str name, enum dns_type type)
{
	for (struct entry *e = c->bucket[h & (c->n_buckets - 1)]; e; e = e->next)
		if (e->hash == h && e->answer->type == type && str_eq(e->answer->name, name))
			return e;
	return NULL;
}

struct dns_answer *dns_cache_get(struct dns_cache *c, struct str name, enum dns_type type, int64_t now_us, uint32_t *ret_left)
{
	struct entry *e = find(c, hash_of(c, name, type), name, type);
	if (!e)
		return NULL;
	if (now_us >= e->until_us) {
		drop(c, e);
		return NULL;
	}
	TAILQ_REMOVE(&c->used, e, used);
	TAILQ_INSERT_HEAD(&c->used, e, used);
	*ret_left = (uint32_t)((e->until_us - now_us + 999999) / 1000000);
	return dns_answer_ref(e->answer);
}

void dns_cache_drop(struct dns_cache *c, struct str name, enum dns_type type)
{
	struct entry *e = find(c, hash_of(c, name, type), name, type);
	if (e)
		drop(c, e);
}

void dns_cache_put(struct dns_cache *c, const struct dns_answer *a, uint32_t ttl, int64_t now_us)
{
	uint64_t h = hash_of(c, a->name, a->type);
	struct entry *e = find(c, h, a->name, a->type), *last = NULL;
	if (e)
		drop(c, e);
	if (!ttl || !c->max_entries || a->octets + ENTRY_OVERHEAD > c->max_octets / 4)
		return;
	unsigned chain = 0;
	for (struct entry *i = c->bucket[h & (c->n_buckets - 1)]; i; i = i->next) {
		chain++;
		last = i;
	}
	if (chain >= CHAIN_MAX) {
		drop(c, last);
		c->evicted++;
	}
	e = malloc(sizeof *e);
	if (!e)
		return;
	struct entry **b = &c->bucket[h & (c->n_buckets - 1)];
	*e = (struct entry){ .next = *b, .hash = h, .until_us = now_us + (int64_t)ttl * 1000000, .answer = dns_answer_ref(a) };
	*b = e;
	TAILQ_INSERT_HEAD(&c->used, e, used);
	c->n++;
	c->octets += a->octets + ENTRY_OVERHEAD;
	trim(c);
}

size_t dns_cache_entries(const struct dns_cache *c)
{
	return c->n;
}

size_t dns_cache_octets(const struct dns_cache *c)
{
	return c->octets;
}

uint64_t dns_cache_evicted(const struct dns_cache *c)
{
	return c->evicted;
}
