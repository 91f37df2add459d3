/* A growable octet buffer with a hard limit: what a peer can size is bounded before it is allocated. Errors are
 * sticky: after one failed append every later one fails too, so a writer checks once at the end. */
#ifndef PEPSI_BASE_BUF_H
#define PEPSI_BASE_BUF_H

#include "str.h"

#include <stdarg.h>

struct buf {
	char *p;       /* n octets, then room up to cap; always followed by a NUL once anything was added */
	size_t n, cap;
	size_t max;    /* never more octets than this */
	bool failed;   /* an append did not fit or memory was out; content is incomplete */
};

/* An empty buffer that may grow to max octets; allocates nothing. */
#define BUF_INIT(limit) ((struct buf){ .max = (limit) })

/* Each returns 0, or -1 when the limit or memory is exceeded (the buffer is `failed` then). */
int buf_add(struct buf *b, const void *p, size_t n);
int buf_adds(struct buf *b, struct str s);
int buf_addz(struct buf *b, const char *z);
int buf_addc(struct buf *b, char c);
int buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_vaddf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Room for n more octets at the end, which the caller fills and then claims by b->n += used. NULL as above. */
char *buf_room(struct buf *b, size_t n);
/* Drops n octets at the front. */
void buf_consume(struct buf *b, size_t n);
/* Empties it, keeps the memory, clears `failed`. */
void buf_reset(struct buf *b);
/* Gives the memory back (wiped if secret) and leaves an empty buffer with the same limit. */
void buf_free(struct buf *b);
void buf_free_secret(struct buf *b);
static inline struct str buf_str(const struct buf *b)
{
	return str_n(b->p, b->n);
}
/* The content as a NUL-terminated string; "" when empty. */
static inline const char *buf_z(const struct buf *b)
{
	return b->p ? b->p : "";
}

#endif
