/* Content on its way out: one scan that decides what may leave and how, then segments of the caller's own memory, or
 * dot-stuffed pieces where a line begins with a dot (RFC 5321 §4.5.2). */
#include "client_internal.h"

enum { STUFF_PIECE = 32 * 1024, PLAN_PIECE = 16 * 1024 };

static bool has_8bit(struct str s)
{
	size_t i = 0;
	for (; i + 8 <= s.n; i += 8) {
		uint64_t w;
		memcpy(&w, s.p + i, 8);
		if (w & UINT64_C(0x8080808080808080))
			return true;
	}
	for (; i < s.n; i++)
		if ((unsigned char)s.p[i] > 127)
			return true;
	return false;
}

/* Line by line: CRLF only, no NUL. */
static unsigned scan(struct str s)
{
	unsigned found = 0;
	if (!s.n)
		return 0;
	if (memchr(s.p, 0, s.n))
		return SMTP_CONTENT_BAD;
	const char *p = s.p, *end = s.p + s.n;
	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p)), *stop = nl ? nl - 1 : end;
		if (*p == '.')
			found |= SMTP_CONTENT_DOTS;
		if (nl && (nl == p || *stop != '\r'))
			return SMTP_CONTENT_BAD;
		if (stop > p && memchr(p, '\r', (size_t)(stop - p)))
			return SMTP_CONTENT_BAD;
		if (stop - p > 998)
			found |= SMTP_CONTENT_LONG;
		if (!nl)
			return found | SMTP_CONTENT_OPEN;
		p = nl + 1;
	}
	return found;
}

unsigned smtp_content_scan(struct str headers, struct str body)
{
	unsigned h = scan(headers), b = scan(body);
	if (h & (SMTP_CONTENT_OPEN | SMTP_CONTENT_BAD))
		h = SMTP_CONTENT_BAD | SMTP_CONTENT_HEADER_BAD;
	if (has_8bit(headers))
		h |= SMTP_CONTENT_HEADER_8BIT;
	if (has_8bit(body))
		b |= SMTP_CONTENT_BODY_8BIT;
	return h | b | SMTP_CONTENT_SCANNED;
}

void client_content_begin(struct client_content *k, const struct smtp_client_msg *m, const struct mail_downgrade *plan, bool empty, enum client_framing how)
{
	bool open = plan ? plan->open : m->content & SMTP_CONTENT_OPEN;
	k->plan = empty ? NULL : plan;
	k->part[0] = empty || plan ? STR_NULL : m->headers;
	k->part[1] = empty || plan ? STR_NULL : STR("\r\n");
	k->part[2] = empty || plan ? STR_NULL : m->body;
	k->part[3] = !empty && how != CLIENT_BINARY && open ? STR("\r\n") : STR_NULL;
	k->part[4] = how != CLIENT_DOTS ? STR_NULL : STR(".\r\n");
	k->at = 0;
	k->off = 0;
	k->stuff = !empty && how == CLIENT_DOTS && (plan || m->content & SMTP_CONTENT_DOTS);
	k->line_start = true;
	k->buf_off = 0;
	buf_reset(&k->buf);
	if (k->plan)
		mail_downgrade_begin(k->plan, &k->from);
}

/* The next piece of the plan becomes part 0. False: there is none. */
static bool next_piece(struct client_content *k)
{
	if (k->at || !k->plan)
		return false;
	buf_reset(&k->piece);
	if (!mail_downgrade_next(&k->from, &k->piece, PLAN_PIECE)) {
		k->plan = NULL;
		return false;
	}
	k->part[0] = buf_str(&k->piece);
	k->off = 0;
	return true;
}

bool client_content_over(const struct client_content *k)
{
	return k->at == 5 && k->buf_off == k->buf.n;
}

/* Refills the buffer with stuffed octets of the parts before the last; the last, the dot itself, goes as it is. */
static void stuff(struct client_content *k)
{
	buf_reset(&k->buf);
	k->buf_off = 0;
	while (k->at < 5 && k->buf.n < STUFF_PIECE) {
		struct str rest = str_skip(k->part[k->at], k->off);
		if (!rest.n && next_piece(k))
			continue;
		if (!rest.n) {
			k->at++;
			k->off = 0;
			continue;
		}
		if (k->at < 4 && k->line_start && rest.p[0] == '.')
			buf_addc(&k->buf, '.');
		const char *nl = memchr(rest.p, '\n', rest.n);
		size_t n = nl ? (size_t)(nl - rest.p) + 1 : rest.n, room = STUFF_PIECE - (k->buf.n < STUFF_PIECE ? k->buf.n : 0);
		k->line_start = nl != NULL;
		if (n > room) {
			n = room;
			k->line_start = false;
		}
		buf_add(&k->buf, rest.p, n);
		k->off += n;
	}
}

size_t client_content_out(struct client_content *k, struct str *seg, size_t max)
{
	size_t n = 0;
	if (k->stuff) {
		if (k->buf_off == k->buf.n && k->at < 5)
			stuff(k);
		if (max && k->buf_off < k->buf.n)
			seg[n++] = str_skip(buf_str(&k->buf), k->buf_off);
		return n;
	}
	for (unsigned i = k->at; i < 5 && n < max; i++) {
		struct str s = i == k->at ? str_skip(k->part[i], k->off) : k->part[i];
		if (s.n)
			seg[n++] = s;
	}
	return n;
}

void client_content_sent(struct client_content *k, size_t n)
{
	if (k->stuff) {
		size_t left = k->buf.n - k->buf_off;
		k->buf_off += n < left ? n : left;
		while (k->at < 5 && !(k->at == 0 && k->plan) && k->off == k->part[k->at].n) {
			k->at++;
			k->off = 0;
		}
		return;
	}
	while (k->at < 5) {
		size_t left = k->part[k->at].n - k->off;
		if (n < left) {
			k->off += n;
			return;
		}
		n -= left;
		k->at++;
		k->off = 0;
	}
}
