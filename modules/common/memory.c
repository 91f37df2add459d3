/* Things by key; see memory.h. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

void memory_init(struct memory *m, size_t max, uint64_t seed, bool (*may_go)(void *item), void (*gone)(void *item))
{
	*m = (struct memory){ .max = max, .seed = seed, .may_go = may_go, .gone = gone };
	TAILQ_INIT(&m->items);
}

void memory_done(struct memory *m)
{
	struct memory_item *i;
	while ((i = TAILQ_FIRST(&m->items)))
		memory_drop(m, i);
	map_done(&m->map);
}

static uint64_t hash_of(const struct memory *m, struct str key)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ m->seed;
	for (size_t i = 0; i < key.n; i++)
		h = (h ^ (unsigned char)key.p[i]) * UINT64_C(0x100000001b3);
	h ^= h >> 32;
	return h * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static bool is(const struct memory_item *i, struct str key)
{
	return i->n == key.n && memcmp(i->key, key.p, key.n) == 0;
}

void *memory_get(struct memory *m, struct str key)
{
	struct memory_item *i = map_get(&m->map, hash_of(m, key));
	if (!i || !is(i, key))
		return NULL;
	TAILQ_REMOVE(&m->items, i, link);
	TAILQ_INSERT_TAIL(&m->items, i, link);
	return i;
}

void memory_drop(struct memory *m, struct memory_item *i)
{
	TAILQ_REMOVE(&m->items, i, link);
	map_del(&m->map, i->hash);
	m->n--;
	m->gone(i);
}

int memory_put(struct memory *m, struct str key, struct memory_item *item)
{
	uint64_t h = hash_of(m, key);
	struct memory_item *other = map_get(&m->map, h), *i = TAILQ_FIRST(&m->items);
	if (key.n > MEMORY_KEY_MAX || (other && !m->may_go(other)))
		return -1;
	if (other) /* two keys of one hash: the newer */
		memory_drop(m, other);
	i = m->n < m->max ? NULL : TAILQ_FIRST(&m->items);
	while (i && !m->may_go(i))
		i = TAILQ_NEXT(i, link);
	if (m->n >= m->max) {
		if (!i)
			return -1;
		memory_drop(m, i);
	}
	memcpy(item->key, key.p, key.n);
	item->n = (unsigned)key.n;
	item->hash = h;
	if (map_put(&m->map, h, item))
		return -1;
	TAILQ_INSERT_TAIL(&m->items, item, link);
	m->n++;
	return 0;
}
