/* Records of the down direction: queue ids and rows. Little-endian, lengths before their octets, one length of the
 * whole record in front, so that a reader can tell a cut record from a short one. May not allocate outside the
 * caller's arena, and believes no number before it has been held against what is really there.
 *
 *     u32 length of what follows | u8 flags | i64 id
 *     with FLAG_CONTENT: i64 received_at | i64 body_id | u64 body_size | u32 n_rcpts | mail_from | rcpts … | state |
 *     headers | body, each string as u32 length and its octets */
#include "octets.h"
#include "wire.h"

enum { FLAG_CONTENT = 1, FLAG_BODY_FD = 2, HEAD = 4 + 1 + 8, FIXED = 8 + 8 + 8 + 4 };

/* Size of a string on the wire added to *n; -1 when it overflows. */
static int add_size(size_t *n, struct str s)
{
	if (s.n > UINT32_MAX || __builtin_add_overflow(*n, s.n, n) || __builtin_add_overflow(*n, (size_t)4, n))
		return -1;
	return 0;
}

size_t wire_size(const struct wire_item *item)
{
	size_t n = HEAD;
	if (!item->has_content)
		return n;
	n += FIXED;
	if (item->n_rcpts > WIRE_RCPTS_MAX)
		return SIZE_MAX;
	bool bad = add_size(&n, item->mail_from) || add_size(&n, item->state) || add_size(&n, item->headers) ||
	    add_size(&n, item->body_in_fd ? STR_NULL : item->body);
	for (size_t i = 0; i < item->n_rcpts && !bad; i++)
		bad = add_size(&n, item->rcpts[i]);
	return bad || n - 4 > UINT32_MAX ? SIZE_MAX : n;
}

static char *put_str(char *at, struct str s)
{
	octets_put(at, s.n, 4);
	if (s.n)
		memcpy(at + 4, s.p, s.n);
	return at + 4 + s.n;
}

int wire_put(struct buf *out, const struct wire_item *item)
{
	size_t size = wire_size(item);
	/* Asked for here and not left to buf_room(), whose failure is sticky: the caller sends what it has and goes on. */
	if (size == SIZE_MAX || out->failed || out->n > out->max || size > out->max - out->n)
		return -1;
	char *at = buf_room(out, size);
	if (!at)
		return -1;
	unsigned flags = item->has_content ? FLAG_CONTENT | (item->body_in_fd ? FLAG_BODY_FD : 0u) : 0u;
	octets_put(at, size - 4, 4);
	at[4] = (char)flags;
	octets_put(at + 5, (uint64_t)item->id, 8);
	at += HEAD;
	if (item->has_content) {
		octets_put(at, (uint64_t)item->received_at, 8);
		octets_put(at + 8, (uint64_t)item->body_id, 8);
		octets_put(at + 16, item->body_size, 8);
		octets_put(at + 24, item->n_rcpts, 4);
		at = put_str(at + FIXED, item->mail_from);
		for (size_t i = 0; i < item->n_rcpts; i++)
			at = put_str(at, item->rcpts[i]);
		at = put_str(at, item->state);
		at = put_str(at, item->headers);
		at = put_str(at, item->body_in_fd ? STR_NULL : item->body);
	}
	out->n += size;
	out->p[out->n] = 0;
	return 0;
}

static int take(struct str *in, size_t n, struct str *ret)
{
	if (in->n < n)
		return -1;
	*ret = str_n(in->p, n);
	*in = str_n(in->p + n, in->n - n);
	return 0;
}

static int take_str(struct str *in, struct str *ret)
{
	struct str len;
	if (take(in, 4, &len))
		return -1;
	return take(in, octets_get(len.p, 4), ret);
}

static int get_content(struct str *rec, struct arena *a, struct wire_item *it)
{
	struct str f;
	if (take(rec, FIXED, &f))
		return -1;
	it->received_at = (int64_t)octets_get(f.p, 8);
	it->body_id = (int64_t)octets_get(f.p + 8, 8);
	it->body_size = octets_get(f.p + 16, 8);
	it->n_rcpts = octets_get(f.p + 24, 4);
	if (it->n_rcpts > WIRE_RCPTS_MAX || it->n_rcpts > rec->n / 4) /* each costs at least its length field */
		return -1;
	if (take_str(rec, &it->mail_from))
		return -1;
	it->rcpts = arena_calloc(a, it->n_rcpts, sizeof *it->rcpts);
	if (!it->rcpts && it->n_rcpts)
		return -1;
	for (size_t i = 0; i < it->n_rcpts; i++)
		if (take_str(rec, &it->rcpts[i]))
			return -1;
	if (take_str(rec, &it->state) || take_str(rec, &it->headers) || take_str(rec, &it->body))
		return -1;
	/* an inline body and its size are one fact told twice */
	return it->body_in_fd ? (it->body.n ? -1 : 0) : (it->body.n == it->body_size ? 0 : -1);
}

int wire_get(struct str *in, struct arena *a, struct wire_item *ret)
{
	struct str rest = *in, rec, head;
	struct wire_item it = { 0 };
	if (!rest.n)
		return 0;
	if (take_str(&rest, &rec) || take(&rec, HEAD - 4, &head))
		return -1;
	unsigned flags = (unsigned char)head.p[0];
	it.id = (int64_t)octets_get(head.p + 1, 8);
	it.has_content = flags & FLAG_CONTENT;
	it.body_in_fd = flags & FLAG_BODY_FD;
	if (flags & ~(unsigned)(FLAG_CONTENT | FLAG_BODY_FD) || it.id <= 0 || (it.body_in_fd && !it.has_content))
		return -1;
	if (it.has_content && get_content(&rec, a, &it))
		return -1;
	if (rec.n)
		return -1;
	*in = rest;
	*ret = it;
	return 1;
}
