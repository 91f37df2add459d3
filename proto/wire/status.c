/* Status lines of the up direction. A line is written whole or not at all, and read strictly: a worker runs code that
 * is not ours, so what stands on its channel is input from outside. */
#include "wire.h"

#include <stdio.h>

static bool has_line_end(struct str s)
{
	return str_chr(s, '\n') >= 0 || str_chr(s, '\r') >= 0 || str_chr(s, 0) >= 0;
}

static bool is_object(struct str s)
{
	return s.n >= 2 && s.p[0] == '{' && s.p[s.n - 1] == '}';
}

static bool is_told(int status)
{
	return status == WIRE_METRIC || status == WIRE_REPORT;
}

static size_t line_max(int status)
{
	return status == WIRE_REPORT ? WIRE_REPORT_LINE_MAX : WIRE_LINE_MAX;
}

static bool is_answer(const struct wire_status *st)
{
	return st->status == 0 || st->status == 1;
}

int wire_status_put(struct buf *out, const struct wire_status *st)
{
	char head[32];
	bool told = is_told(st->status);
	if (st->status < 0 || st->status > WIRE_REPORT || st->id < 0 || has_line_end(st->json) || (st->json.n && !told && !is_object(st->json)) ||
	    (!is_answer(st) && ((st->json.n != 0) != told || st->id)) || (st->by_id && st->status != WIRE_READY))
		return -1;
	size_t n = (size_t)snprintf(head, sizeof head, st->id ? "%d %lld" : st->by_id ? "%d ids" : "%d", st->status, (long long)st->id);
	size_t size = n + (st->json.n ? 1 + st->json.n : 0) + 1;
	char *at = size <= line_max(st->status) ? buf_room(out, size) : NULL;
	if (!at)
		return -1;
	memcpy(at, head, n);
	at += n;
	if (st->json.n) {
		*at++ = ' ';
		memcpy(at, st->json.p, st->json.n);
		at += st->json.n;
	}
	*at = '\n';
	out->n += size;
	out->p[out->n] = 0;
	return 0;
}

/* " 123" in front of *rest, if a number stands there. 0, -1: none that is an id. */
static int take_id(struct str *rest, int64_t *ret)
{
	struct str word = str_skip(*rest, 1);
	uint64_t id;
	ptrdiff_t end = str_chr(word, ' ');
	if (!word.n || word.p[0] < '0' || word.p[0] > '9')
		return 0;
	if (end >= 0)
		word.n = (size_t)end;
	if (word.p[0] == '0' || str_u64(word, INT64_MAX, &id)) /* one way to write each: no zeros in front */
		return -1;
	*ret = (int64_t)id;
	*rest = str_skip(*rest, 1 + word.n);
	return 0;
}

int wire_status_get(const struct buf *b, size_t *pos, struct wire_status *ret)
{
	struct str in = *pos < b->n ? str_n(b->p + *pos, b->n - *pos) : STR_NULL;
	size_t max = in.n ? line_max(in.p[0] - '0') : WIRE_LINE_MAX;
	struct str head = in.n > max ? str_n(in.p, max) : in;
	ptrdiff_t nl = head.n ? str_chr(head, '\n') : -1;
	if (nl < 0)
		return in.n >= max ? -1 : 0;
	struct str line = str_n(in.p, (size_t)nl);
	if (line.n < 1 || line.p[0] < '0' || line.p[0] > '0' + WIRE_REPORT)
		return -1;
	struct wire_status st = { .status = line.p[0] - '0' };
	struct str rest = str_skip(line, 1);
	if (is_told(st.status)) {
		st.json = str_skip(rest, 1);
		if (!st.json.n || rest.p[0] != ' ' || has_line_end(st.json))
			return -1;
		*pos += (size_t)nl + 1;
		*ret = st;
		return 1;
	}
	if (st.status == WIRE_READY && str_eq(rest, STR(" ids"))) {
		st.by_id = true;
		rest = STR_NULL;
	}
	if (rest.n && (!is_answer(&st) || rest.p[0] != ' ' || take_id(&rest, &st.id)))
		return -1;
	if (rest.n) {
		st.json = str_skip(rest, 1);
		if (rest.p[0] != ' ' || !is_object(st.json) || has_line_end(st.json))
			return -1;
	}
	*pos += (size_t)nl + 1;
	*ret = st;
	return 1;
}
