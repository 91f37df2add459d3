/* Verdicts and jobs of pre-acceptance stages. Little-endian, lengths before their octets, as in record.c:
 *
 *     i64 id | u8 what | u8 changed | u8 body_in_fd | u64 body_size | u32 n_rcpts | stage | enhanced | text | detail |
 *     mail_from | rcpts … | state | headers | body
 *
 * May not allocate outside the caller's arena, and believes no number before it was held against what is really there. */
#include "octets.h"
#include "verdict.h"

enum { HEAD = 8 + 1 + 1 + 1 + 8 + 4 };

static int put_str(struct buf *out, struct str s)
{
	char n[4];
	if (s.n > UINT32_MAX)
		return -1;
	octets_put(n, s.n, 4);
	return buf_add(out, n, 4) || (s.n && buf_adds(out, s)) ? -1 : 0;
}

static struct str if_changed(const struct wire_verdict *v, unsigned flag, struct str s)
{
	return v->changed & flag ? s : STR_NULL;
}

int wire_verdict_put(struct buf *out, const struct wire_verdict *v)
{
	char head[HEAD];
	bool rcpts = v->changed & WIRE_CHANGED_RCPTS, body = v->changed & WIRE_CHANGED_BODY;
	if (rcpts && (!v->n_rcpts || v->n_rcpts > WIRE_RCPTS_MAX))
		return -1;
	octets_put(head, (uint64_t)v->id, 8);
	head[8] = (char)v->what;
	head[9] = (char)v->changed;
	head[10] = body && v->body_in_fd;
	octets_put(head + 11, body ? v->body_size : 0, 8);
	octets_put(head + 19, rcpts ? v->n_rcpts : 0, 4);
	if (buf_add(out, head, sizeof head) || put_str(out, v->stage) || put_str(out, v->enhanced) || put_str(out, v->text) || put_str(out, v->detail) ||
	    put_str(out, if_changed(v, WIRE_CHANGED_SENDER, v->mail_from)))
		return -1;
	for (size_t i = 0; rcpts && i < v->n_rcpts; i++)
		if (put_str(out, v->rcpts[i]))
			return -1;
	return put_str(out, if_changed(v, WIRE_CHANGED_STATE, v->state)) || put_str(out, if_changed(v, WIRE_CHANGED_HEADERS, v->headers)) ||
		put_str(out, body && !v->body_in_fd ? v->body : STR_NULL) ? -1 : 0;
}

static int take(struct str *in, size_t n, struct str *ret)
{
	if (in->n < n)
		return -1;
	*ret = str_n(in->p, n);
	*in = str_n(in->p + n, in->n - n);
	return 0;
}

static int take_str(struct str *in, size_t max, struct str *ret)
{
	struct str len;
	if (take(in, 4, &len) || octets_get(len.p, 4) > max)
		return -1;
	return take(in, octets_get(len.p, 4), ret);
}

/* What one judgement cannot come with. */
static bool contradicts(const struct wire_verdict *v)
{
	if (v->what != WIRE_PASS && (v->changed || v->stage.n))
		return true;
	if (!(v->changed & WIRE_CHANGED_RCPTS) != !v->n_rcpts)
		return true;
	if (!(v->changed & WIRE_CHANGED_BODY) && (v->body_in_fd || v->body_size))
		return true;
	return v->body_in_fd ? v->body.n != 0 : v->body.n != v->body_size;
}

int wire_verdict_get(struct str in, struct arena *a, struct wire_verdict *ret)
{
	struct str head;
	struct wire_verdict v = { .id = 0 };
	if (take(&in, HEAD, &head))
		return -1;
	v.id = (int64_t)octets_get(head.p, 8);
	v.what = (enum wire_judgement)(unsigned char)head.p[8];
	v.changed = (unsigned char)head.p[9];
	if (v.id <= 0 || v.what < WIRE_PASS || v.what > WIRE_FAULT || v.changed & ~WIRE_CHANGED_ALL || (unsigned char)head.p[10] > 1)
		return -1;
	v.body_in_fd = head.p[10];
	v.body_size = octets_get(head.p + 11, 8);
	v.n_rcpts = octets_get(head.p + 19, 4);
	if (take_str(&in, WIRE_STAGE_MAX, &v.stage) || take_str(&in, WIRE_ENHANCED_MAX, &v.enhanced) ||
	    take_str(&in, WIRE_TEXT_MAX, &v.text) || take_str(&in, WIRE_TEXT_MAX, &v.detail) || take_str(&in, SIZE_MAX, &v.mail_from))
		return -1;
	if (v.n_rcpts > WIRE_RCPTS_MAX || v.n_rcpts > in.n / 4) /* each costs at least its length field */
		return -1;
	v.rcpts = v.n_rcpts ? arena_calloc(a, v.n_rcpts, sizeof *v.rcpts) : NULL;
	if (v.n_rcpts && !v.rcpts)
		return -1;
	for (size_t i = 0; i < v.n_rcpts; i++)
		if (take_str(&in, SIZE_MAX, &v.rcpts[i]))
			return -1;
	if (take_str(&in, SIZE_MAX, &v.state) || take_str(&in, SIZE_MAX, &v.headers) || take_str(&in, SIZE_MAX, &v.body) || in.n ||
	    contradicts(&v))
		return -1;
	*ret = v;
	return 0;
}

int wire_job_put(struct buf *out, uint32_t ms, const struct wire_item *item)
{
	char n[4];
	octets_put(n, ms, 4);
	return buf_add(out, n, 4) || wire_put(out, item) ? -1 : 0;
}

int wire_job_get(struct str in, struct arena *a, uint32_t *ret_ms, struct wire_item *ret)
{
	struct str ms;
	if (take(&in, 4, &ms) || wire_get(&in, a, ret) != 1 || in.n || !ret->has_content)
		return -1;
	*ret_ms = (uint32_t)octets_get(ms.p, 4);
	return 0;
}
