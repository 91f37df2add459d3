/* A map from 64-bit ids (queue ids, session ids) to pointers: whoever waits is found again by id, and a late answer to
 * somebody gone finds nobody. Keys are ours, not a peer's, so a plain mixing hash is enough. */
#ifndef PEPSI_BASE_MAP_H
#define PEPSI_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

struct map {
	struct map_slot *slots;
	size_t n, used, cap; /* entries, entries and tombstones, slots (a power of two) */
};

/* Returns 0, or -1 when memory is out. v must not be NULL. An existing entry is replaced. */
int map_put(struct map *m, uint64_t key, void *v);
/* The value, or NULL. */
void *map_get(const struct map *m, uint64_t key);
/* Removes and returns the value, or NULL. */
void *map_del(struct map *m, uint64_t key);
/* Walks all entries: start with *pos = 0; returns NULL at the end. map_del of the entry just returned is allowed. */
void *map_next(const struct map *m, size_t *pos, uint64_t *ret_key);
void map_done(struct map *m);

#endif
