/* Memory with one named owner (a session, a transaction, a worker's pass), freed at once. Not thread-safe. */
#ifndef PEPSI_BASE_ARENA_H
#define PEPSI_BASE_ARENA_H

#include "str.h"

struct arena;

/* An arena that hands out at most `max` octets in all; NULL when memory is out. */
struct arena *arena_new(size_t max);
/* Frees everything; accepts NULL. */
void arena_free(struct arena *a);
/* Forgets everything handed out, keeps the first block. */
void arena_reset(struct arena *a);
/* Octets handed out since the beginning or the last reset. */
size_t arena_used(const struct arena *a);
/* Zeroed, aligned for any type. NULL when the limit or memory is exceeded. */
void *arena_alloc(struct arena *a, size_t n);
/* n elements of size each, overflow-checked. */
void *arena_calloc(struct arena *a, size_t n, size_t size);
/* A NUL-terminated copy; .p is NULL when memory is out. */
struct str arena_str(struct arena *a, struct str s);
char *arena_strz(struct arena *a, struct str s);
/* The copy of arena_str() in lower case (ASCII alone). */
struct str arena_lower(struct arena *a, struct str s);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
