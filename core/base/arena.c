/* Arena allocation: blocks in a chain, big requests in blocks of their own. */
#include "arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 4096 - 64, ALIGN = _Alignof(max_align_t) };

struct block {
	struct block *next;
	size_t used, size;
	_Alignas(max_align_t) char mem[];
};

struct arena {
	struct block *head;
	size_t total, max;
};

struct arena *arena_new(size_t max)
{
	struct arena *a = calloc(1, sizeof *a);
	if (a)
		a->max = max;
	return a;
}

void arena_free(struct arena *a)
{
	if (!a)
		return;
	for (struct block *b = a->head, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	free(a);
}

void arena_reset(struct arena *a)
{
	struct block *keep = NULL;
	for (struct block *b = a->head, *next; b; b = next) {
		next = b->next;
		if (!keep && b->size == BLOCK)
			keep = b;
		else
			free(b);
	}
	if (keep) {
		keep->next = NULL;
		keep->used = 0;
	}
	a->head = keep;
	a->total = 0;
}

size_t arena_used(const struct arena *a)
{
	return a->total;
}

void *arena_alloc(struct arena *a, size_t n)
{
	size_t need, total;
	if (__builtin_add_overflow(n, (size_t)ALIGN - 1, &need))
		return NULL;
	need &= ~(size_t)(ALIGN - 1);
	if (__builtin_add_overflow(a->total, need, &total) || total > a->max)
		return NULL;
	struct block *b = a->head;
	if (!b || b->size - b->used < need) {
		size_t size = need > BLOCK / 2 ? need : BLOCK;
		b = malloc(sizeof *b + size);
		if (!b)
			return NULL;
		b->used = 0;
		b->size = size;
		if (a->head && size != BLOCK) { /* a big one goes behind, so that the head keeps its room */
			b->next = a->head->next;
			a->head->next = b;
		} else {
			b->next = a->head;
			a->head = b;
		}
	}
	void *p = b->mem + b->used;
	b->used += need;
	a->total = total;
	memset(p, 0, need);
	return p;
}

void *arena_calloc(struct arena *a, size_t n, size_t size)
{
	size_t all;
	return __builtin_mul_overflow(n, size, &all) ? NULL : arena_alloc(a, all);
}

char *arena_strz(struct arena *a, struct str s)
{
	size_t n;
	char *p = __builtin_add_overflow(s.n, 1u, &n) ? NULL : arena_alloc(a, n);
	if (p && s.n)
		memcpy(p, s.p, s.n);
	return p;
}

struct str arena_str(struct arena *a, struct str s)
{
	char *p = arena_strz(a, s);
	return str_n(p, p ? s.n : 0);
}

struct str arena_lower(struct arena *a, struct str s)
{
	char *z = arena_strz(a, s);
	for (size_t i = 0; z && i < s.n; i++)
		z[i] = ascii_lower(z[i]);
	return str_n(z, z ? s.n : 0);
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	char *p = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
	if (p)
		vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	va_end(ap);
	return p;
}
