/* One walk over the fields of a message that counts, writes or reads, so that the three cannot disagree: integers little-endian,
 * strings as u32 length and octets, lists as u8 count and elements. Believes no length before it has been held against what is
 * there and against the field's limit. For the codecs of this folder; has no memory of its own. */
#ifndef PROTO_WIRE_WALK_H
#define PROTO_WIRE_WALK_H

#include "base/str.h"
#include "octets.h"

enum walk_mode { WALK_COUNT, WALK_WRITE, WALK_READ };

struct walk {
	enum walk_mode mode;
	size_t n;        /* counting and writing: octets so far */
	char *at;        /* writing */
	struct str in;   /* reading */
	bool bad;
};

static inline void walk_number(struct walk *w, uint64_t *v, unsigned octets)
{
	if (w->mode == WALK_READ) {
		if (w->bad || w->in.n < octets) {
			w->bad = true;
			*v = 0;
			return;
		}
		*v = octets_get(w->in.p, octets);
		w->in = str_skip(w->in, octets);
		return;
	}
	if (w->mode == WALK_WRITE)
		octets_put(w->at + w->n, *v, octets);
	w->n += octets;
}

static inline void walk_number32(struct walk *w, uint32_t *v)
{
	uint64_t x = *v;
	walk_number(w, &x, 4);
	*v = (uint32_t)x;
}

static inline void walk_flag(struct walk *w, bool *v)
{
	uint64_t x = *v;
	walk_number(w, &x, 1);
	if (x > 1)
		w->bad = true;
	*v = x == 1;
}

static inline void walk_string(struct walk *w, struct str *s, size_t max)
{
	uint64_t n = s->n;
	if (w->mode != WALK_READ && n > max)
		w->bad = true;
	if (w->bad && w->mode != WALK_READ)
		return;
	walk_number(w, &n, 4);
	if (w->mode == WALK_READ) {
		if (w->bad || n > max || n > w->in.n) {
			w->bad = true;
			*s = STR_NULL;
			return;
		}
		*s = str_n(w->in.p, n);
		w->in = str_skip(w->in, n);
		return;
	}
	if (w->mode == WALK_WRITE && n)
		memcpy(w->at + w->n, s->p, n);
	w->n += n;
}

/* What goes into logs and headers: no control octets, so a line stays a line whoever writes it. */
static inline void walk_text(struct walk *w, struct str *s, size_t max)
{
	walk_string(w, s, max);
	for (size_t i = 0; i < s->n && !w->bad; i++)
		if ((unsigned char)s->p[i] < 0x20 || s->p[i] == 0x7f)
			w->bad = true;
}

static inline void walk_count(struct walk *w, size_t *n, size_t max)
{
	uint64_t x = *n;
	walk_number(w, &x, 1);
	if (x > max || *n > 255)
		w->bad = true;
	*n = w->bad ? 0 : x;
}

#endif
