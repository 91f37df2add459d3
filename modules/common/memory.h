/* Things kept in a worker's memory by a key of octets, so many at most: the longest unused goes. The thing begins with a struct memory_item. */
#ifndef COMMON_MEMORY_H
#define COMMON_MEMORY_H

#include "base/map.h"
#include "base/str.h"

#include <sys/queue.h>

enum { MEMORY_KEY_MAX = 256 };

struct memory_item {
	TAILQ_ENTRY(memory_item) link; /* the longest unused first */
	uint64_t hash;
	unsigned n;
	unsigned char key[MEMORY_KEY_MAX];
};
struct memory {
	struct map map;
	TAILQ_HEAD(, memory_item) items;
	size_t n, max;
	uint64_t seed;
	bool (*may_go)(void *item);  /* false: it is in use */
	void (*gone)(void *item);    /* frees it */
};

/* seed: chance: keys come from strangers. */
void memory_init(struct memory *m, size_t max, uint64_t seed, bool (*may_go)(void *item), void (*gone)(void *item));
void memory_done(struct memory *m); /* gone() of all */
/* The thing, which is now the one used last; NULL. */
void *memory_get(struct memory *m, struct str key);
/* Takes a new thing (calloc()ed, its struct memory_item zeroed) under a key that is not there. 0, or -1: no memory, a key too long, or all are in use; the
 * thing is still the caller's then. */
int memory_put(struct memory *m, struct str key, struct memory_item *item);
void memory_drop(struct memory *m, struct memory_item *item);

#endif
