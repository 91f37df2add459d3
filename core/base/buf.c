/* Growable bounded buffers. The only allocation policy here is doubling up to the limit. */
#include "buf.h"

#include <stdio.h>
#include <stdlib.h>

char *buf_room(struct buf *b, size_t n)
{
	size_t need;
	if (b->failed || __builtin_add_overflow(b->n, n, &need) || need > b->max || need == SIZE_MAX) {
		b->failed = true;
		return NULL;
	}
	if (need + 1 > b->cap) {
		size_t cap = b->cap < 256 ? 256 : b->cap;
		while (cap < need + 1)
			cap = cap > SIZE_MAX / 2 ? need + 1 : cap * 2;
		char *p = realloc(b->p, cap);
		if (!p) {
			b->failed = true;
			return NULL;
		}
		b->p = p;
		b->cap = cap;
	}
	return b->p + b->n;
}

/* As buf_room(); what fits into what is there, which is most, without a call. */
static inline char *room(struct buf *b, size_t n)
{
	return !b->failed && b->cap > b->n && n < b->cap - b->n && n <= b->max - b->n ? b->p + b->n : buf_room(b, n);
}

int buf_add(struct buf *b, const void *p, size_t n)
{
	char *at = room(b, n);
	if (!at)
		return -1;
	if (n)
		memcpy(at, p, n);
	b->n += n;
	b->p[b->n] = 0;
	return 0;
}

int buf_adds(struct buf *b, struct str s)
{
	return buf_add(b, s.p, s.n);
}

int buf_addz(struct buf *b, const char *z)
{
	return buf_add(b, z, strlen(z));
}

int buf_addc(struct buf *b, char c)
{
	char *at = room(b, 1);
	if (!at)
		return -1;
	at[0] = c;
	at[1] = 0;
	b->n++;
	return 0;
}

int buf_vaddf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	va_copy(again, ap);
	/* into what room there is; a second time only where that was too little */
	size_t there = !b->failed && b->cap > b->n ? b->cap - b->n : 0;
	char *at = there ? b->p + b->n : NULL;
	int n = vsnprintf(at, there, fmt, ap);
	if (n < 0) {
		b->failed = true;
		at = NULL;
	} else if ((size_t)n >= there || (size_t)n > b->max - b->n) {
		if (at)
			*at = 0;
		at = buf_room(b, (size_t)n);
		if (at)
			vsnprintf(at, (size_t)n + 1, fmt, again);
	}
	if (at)
		b->n += (size_t)n;
	else if (there)
		b->p[b->n] = 0;
	va_end(again);
	return at ? 0 : -1;
}

int buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int r = buf_vaddf(b, fmt, ap);
	va_end(ap);
	return r;
}

void buf_consume(struct buf *b, size_t n)
{
	if (n >= b->n) {
		b->n = 0;
	} else {
		memmove(b->p, b->p + n, b->n - n);
		b->n -= n;
	}
	if (b->p)
		b->p[b->n] = 0;
}

void buf_reset(struct buf *b)
{
	b->n = 0;
	b->failed = false;
	if (b->p)
		b->p[0] = 0;
}

void buf_free(struct buf *b)
{
	free(b->p);
	*b = BUF_INIT(b->max);
}

void buf_free_secret(struct buf *b)
{
	if (b->p)
		explicit_bzero(b->p, b->cap);
	buf_free(b);
}
