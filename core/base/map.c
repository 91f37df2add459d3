/* Open addressing with linear probing and tombstones. */
#include "map.h"

#include <stdbool.h>
#include <stdlib.h>

struct map_slot {
	uint64_t key;
	void *v; /* NULL: free, or a tombstone when `gone` */
	bool gone;
};

static size_t mix(uint64_t k)
{
	k ^= k >> 33;
	k *= 0xff51afd7ed558ccdULL;
	k ^= k >> 33;
	k *= 0xc4ceb9fe1a85ec53ULL;
	return (size_t)(k ^ k >> 33);
}

static struct map_slot *find(const struct map *m, uint64_t key)
{
	if (!m->cap)
		return NULL;
	for (size_t i = mix(key) & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
		struct map_slot *s = &m->slots[i];
		if (s->v && s->key == key)
			return s;
		if (!s->v && !s->gone)
			return NULL;
	}
}

static void insert(struct map *m, uint64_t key, void *v)
{
	size_t i = mix(key) & (m->cap - 1);
	while (m->slots[i].v)
		i = (i + 1) & (m->cap - 1);
	if (!m->slots[i].gone)
		m->used++;
	m->slots[i] = (struct map_slot){ key, v, false };
	m->n++;
}

static int grow(struct map *m)
{
	struct map next = { .cap = m->n * 4 < 64 ? 64 : m->cap };
	while (next.cap < m->n * 4)
		next.cap *= 2;
	next.slots = calloc(next.cap, sizeof *next.slots);
	if (!next.slots)
		return -1;
	for (size_t i = 0; i < m->cap; i++)
		if (m->slots[i].v)
			insert(&next, m->slots[i].key, m->slots[i].v);
	free(m->slots);
	*m = next;
	return 0;
}

int map_put(struct map *m, uint64_t key, void *v)
{
	struct map_slot *s = find(m, key);
	if (s) {
		s->v = v;
		return 0;
	}
	if ((m->used + 1) * 2 > m->cap && grow(m))
		return -1;
	insert(m, key, v);
	return 0;
}

void *map_get(const struct map *m, uint64_t key)
{
	struct map_slot *s = find(m, key);
	return s ? s->v : NULL;
}

void *map_del(struct map *m, uint64_t key)
{
	struct map_slot *s = find(m, key);
	if (!s)
		return NULL;
	void *v = s->v;
	s->v = NULL;
	s->gone = true;
	m->n--;
	return v;
}

void *map_next(const struct map *m, size_t *pos, uint64_t *ret_key)
{
	while (*pos < m->cap) {
		struct map_slot *s = &m->slots[(*pos)++];
		if (s->v) {
			if (ret_key)
				*ret_key = s->key;
			return s->v;
		}
	}
	return NULL;
}

void map_done(struct map *m)
{
	free(m->slots);
	*m = (struct map){ 0 };
}
