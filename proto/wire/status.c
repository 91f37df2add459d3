/* Status lines of the up direction. A line is written whole or not at all, and read strictly: a worker runs code that
 * is not ours, so what stands on its channel is input from outside. */
#include "wire.h"

static bool has_line_end(struct str s)
{
	return str_chr(s, '\n') >= 0 || str_chr(s, '\r') >= 0 || str_chr(s, 0) >= 0;
}

static bool is_object(struct str s)
{
	return s.n >= 2 && s.p[0] == '{' && s.p[s.n - 1] == '}';
}

int wire_status_put(struct buf *out, const struct wire_status *st)
{
	size_t n = st->json.n ? st->json.n + 3 : 2;
	if (st->status < 0 || st->status > WIRE_READY || (st->status == WIRE_READY && st->json.n) || st->json.n > WIRE_LINE_MAX - 3 || has_line_end(st->json) ||
	    (st->json.n && !is_object(st->json)))
		return -1;
	char *at = buf_room(out, n);
	if (!at)
		return -1;
	*at++ = (char)('0' + st->status);
	if (st->json.n) {
		*at++ = ' ';
		memcpy(at, st->json.p, st->json.n);
		at += st->json.n;
	}
	*at = '\n';
	out->n += n;
	out->p[out->n] = 0;
	return 0;
}

int wire_status_get(const struct buf *b, size_t *pos, struct wire_status *ret)
{
	struct str in = *pos < b->n ? str_n(b->p + *pos, b->n - *pos) : STR_NULL;
	struct str head = in.n > WIRE_LINE_MAX ? str_n(in.p, WIRE_LINE_MAX) : in;
	ptrdiff_t nl = head.n ? str_chr(head, '\n') : -1;
	if (nl < 0)
		return in.n >= WIRE_LINE_MAX ? -1 : 0;
	struct str line = str_n(in.p, (size_t)nl);
	if (line.n < 1 || line.p[0] < '0' || line.p[0] > '0' + WIRE_READY)
		return -1;
	struct wire_status st = { .status = line.p[0] - '0' };
	if (line.n > 1) {
		st.json = str_skip(line, 2);
		if (st.status == WIRE_READY || line.p[1] != ' ' || !is_object(st.json) || has_line_end(st.json))
			return -1;
	}
	*pos += (size_t)nl + 1;
	*ret = st;
	return 1;
}
