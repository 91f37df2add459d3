/* What must change in a message, and the pieces it is put together from (downgrade.h). One look at each part, then the changes in the order of the
 * message; what lies between them is the message's own memory. */
#include "proto/mail/downgrade.h"

#include "proto/mail/ascii.h"

#include <stdlib.h>

/* A stretch of the body that is replaced; text NULL: left out. */
struct edit {
	struct str old, text;
	enum mail_encode how;
};

/* Of each part. */
struct mark {
	bool fixed;   /* it, head and all, is within what is signed or encrypted */
	bool within;  /* within a part that is encoded as a whole */
	bool touched; /* it, or a part of it, gets another encoding */
	bool encode;
	enum mail_encode how;
	const char *charset;
};

struct planner {
	struct mail_downgrade *d;
	struct mail_mime m;
	struct mark *mark;
	struct edit *edit;
	size_t n_edits;
	unsigned lacks;
	struct buf head;
	struct str new_headers;
	bool headers_changed;
};

static bool fail_memory(struct planner *p)
{
	mail_downgrade_fail(p->d, MAIL_DOWNGRADE_MEMORY, "4.3.0", "out of memory");
	return false;
}

static const char *lacking(const struct planner *p)
{
	return p->lacks & MAIL_LACKS_8BIT ? "8BITMIME" : p->lacks & MAIL_LACKS_BINARY ? "BINARYMIME" : "SMTPUTF8";
}

/* -- looking */

/* May it not go as it is? */
static bool unfit(const struct planner *p, const struct mail_content *c)
{
	return (p->lacks & MAIL_LACKS_8BIT && c->eight) ||
	    (p->lacks & (MAIL_LACKS_8BIT | MAIL_LACKS_BINARY) && (c->bad || c->longest > MAIL_LINE_MAX));
}

/* … for nothing but its long lines, which most hops take all the same? Where it cannot be encoded it goes with them, as it always did. */
static bool only_long(const struct planner *p, const struct mail_content *c)
{
	return !(p->lacks & MAIL_LACKS_BINARY) && !c->bad && !(p->lacks & MAIL_LACKS_8BIT && c->eight);
}

static bool signs(struct str type)
{
	return str_eq(type, STR("multipart/signed")) || str_eq(type, STR("multipart/encrypted"));
}

/* Is its content encoded as a whole, whatever is in it? */
static bool solid(const struct mail_mime_part *part)
{
	return part->kind == MAIL_MIME_LEAF || str_starts(part->type, STR("message/global"));
}

static enum mail_encode choose(const struct mail_mime_part *part, const struct mail_content *c)
{
	uint64_t qp = (uint64_t)part->body.n + 2 * (uint64_t)c->escapes + (c->longest > 76 ? part->body.n / 25 : 0), base64 = (uint64_t)part->body.n * 78 / 57;
	if (part->encoding == MAIL_TRANSFER_QP)
		return MAIL_ENCODE_QP_MEND;
	if (part->encoding == MAIL_TRANSFER_BASE64)
		return MAIL_ENCODE_BASE64_MEND;
	/* line ends are a matter of taste in quoted-printable: fine for text only; and people, and filters, can read it, which is worth some octets */
	return str_starts(part->type, STR("text/")) && !c->bad && qp <= base64 + base64 / 4 + 100 ? MAIL_ENCODE_QP : MAIL_ENCODE_BASE64;
}

/* Marks part i as to be encoded, if it may be. */
static bool mark_encode(struct planner *p, size_t i, const struct mail_content *c)
{
	const struct mail_mime_part *part = &p->m.part[i];
	struct mark *k = &p->mark[i];
	enum mail_encode how = choose(part, c);
	bool mends = how == MAIL_ENCODE_QP_MEND || how == MAIL_ENCODE_BASE64_MEND, lenient = only_long(p, c);
	bool multipart = str_starts(part->type, STR("multipart/")), message = str_starts(part->type, STR("message/"));
	bool may = mends || (!multipart && (!message || str_starts(part->type, STR("message/global"))) && part->encoding != MAIL_TRANSFER_UNKNOWN);
	if (lenient && (k->fixed || !may))
		return true;
	if (k->fixed)
		mail_downgrade_fail(p->d, MAIL_DOWNGRADE_SIGNED, "5.6.3", "a part that is signed or encrypted has content that the next hop does not take (%s), and must not be "
		    "changed", lacking(p));
	else if (!may && part->encoding == MAIL_TRANSFER_UNKNOWN)
		mail_downgrade_fail(p->d, MAIL_DOWNGRADE_BROKEN, "5.6.3", "a part has an unknown Content-Transfer-Encoding and content that the next hop does not take (%s)",
		    lacking(p));
	else if (!may)
		mail_downgrade_fail(p->d, multipart ? MAIL_DOWNGRADE_BROKEN : MAIL_DOWNGRADE_TYPE, "5.6.3",
		    "a part of type %.60s has content that the next hop does not take (%s), and may not be encoded (RFC 2046)", part->type.p, lacking(p));
	else {
		k->encode = true;
		k->how = how;
		p->d->parts++;
		for (size_t up = i; !mends && up != MAIL_MIME_NONE; up = p->m.part[up].parent)
			p->mark[up].touched = true;
		/* a message without a Content-Type says nothing of its 8-bit text: now it must, or it would be ASCII (RFC 1428, RFC 2045 §5.2) */
		if (c->eight && !mends && !part->charset.n)
			k->charset = str_is_utf8(part->body) ? "utf-8" : "unknown-8bit";
		return true;
	}
	return false;
}

/* Text that is no part: nobody is shown it. */
static bool loose(struct planner *p, size_t i, struct str s)
{
	struct mail_content c = mail_content_look(s);
	if (!s.n || !unfit(p, &c) || (p->mark[i].fixed && only_long(p, &c)))
		return true;
	if (p->mark[i].fixed) {
		mail_downgrade_fail(p->d, MAIL_DOWNGRADE_SIGNED, "5.6.3", "a part that is signed or encrypted has text that the next hop does not take (%s)", lacking(p));
		return false;
	}
	if (p->m.part[i].parent != MAIL_MIME_NONE && !p->m.part[i].gap.n) { /* without it the next line end would end the head */
		mail_downgrade_fail(p->d, MAIL_DOWNGRADE_BROKEN, "5.6.3", "a multipart has text in the place of its parts that the next hop does not take (%s)", lacking(p));
		return false;
	}
	p->edit[p->n_edits++] = (struct edit){ .old = s };
	p->d->breaks = true;
	return true;
}

static bool delimiter(struct planner *p, struct str s)
{
	struct mail_content c = mail_content_look(s);
	if (!s.n || !unfit(p, &c))
		return true;
	mail_downgrade_fail(p->d, MAIL_DOWNGRADE_BROKEN, "5.6.3", "the boundary of a multipart holds what the next hop does not take (%s)", lacking(p));
	return false;
}

static bool look(struct planner *p, size_t i)
{
	const struct mail_mime_part *part = &p->m.part[i];
	const struct mark *up = part->parent == MAIL_MIME_NONE ? NULL : &p->mark[part->parent];
	struct mark *k = &p->mark[i];
	k->fixed = up && (up->fixed || signs(p->m.part[part->parent].type));
	k->within = up && (up->within || up->encode);
	if (k->within)
		return true;
	if (!delimiter(p, part->delimiter))
		return false;
	if (solid(part)) {
		struct mail_content c = mail_content_look(part->body);
		/* a message/global that goes as it is may hold parts that need it: they are not ours to look into (RFC 6532 §3.7) */
		k->within = part->kind != MAIL_MIME_LEAF;
		return !unfit(p, &c) || mark_encode(p, i, &c);
	}
	return part->kind != MAIL_MIME_MULTIPART || (loose(p, i, part->preamble) && delimiter(p, part->close) && loose(p, i, part->epilogue));
}

/* -- heads */

static bool head(struct planner *p, size_t i)
{
	const struct mail_mime_part *part = &p->m.part[i];
	const struct mark *k = &p->mark[i];
	struct mail_head_change c = { .head = part->head };
	struct mail_content look = mail_content_look(part->head);
	bool message = part->parent == MAIL_MIME_NONE || p->m.part[part->parent].kind == MAIL_MIME_MESSAGE;
	bool high = p->lacks & (MAIL_LACKS_8BIT | MAIL_LACKS_UTF8) && look.eight;
	c.ascii = high || look.bad || look.longest > MAIL_LINE_MAX;
	if (part->parent != MAIL_MIME_NONE && p->mark[part->parent].within)
		return true;
	if (k->fixed && (high || (look.bad && p->lacks & (MAIL_LACKS_8BIT | MAIL_LACKS_BINARY)))) {
		mail_downgrade_fail(p->d, MAIL_DOWNGRADE_SIGNED, "5.6.3", "a part that is signed or encrypted has header fields that the next hop does not take (%s)", lacking(p));
		return false;
	}
	if (k->fixed)
		return true;
	if (k->encode && k->how == MAIL_ENCODE_QP)
		c.encoding = mail_transfer_name(MAIL_TRANSFER_QP);
	else if (k->encode && k->how == MAIL_ENCODE_BASE64)
		c.encoding = mail_transfer_name(MAIL_TRANSFER_BASE64);
	else if (k->touched && !k->encode && part->encoding <= MAIL_TRANSFER_BINARY && part->encoding > (p->lacks & MAIL_LACKS_8BIT ? MAIL_TRANSFER_7BIT : MAIL_TRANSFER_8BIT))
		c.encoding = mail_transfer_name(p->lacks & MAIL_LACKS_8BIT ? MAIL_TRANSFER_7BIT : MAIL_TRANSFER_8BIT);
	c.version = message && k->touched;
	c.charset = message && k->encode ? k->charset : NULL;
	c.close = k->encode && !part->gap.n && part->parent != MAIL_MIME_NONE;
	if (!c.ascii && !c.encoding && !c.version && !c.close)
		return true;
	buf_reset(&p->head);
	if (!mail_head_write(p->d, &c, p->lacks, &p->head))
		return false;
	if (str_eq(buf_str(&p->head), part->head))
		return true;
	struct str text = arena_str(p->d->mem, buf_str(&p->head));
	if (!text.p) {
		mail_downgrade_fail(p->d, MAIL_DOWNGRADE_LIMIT, "5.6.3", "too many header fields would have to be written anew");
		return false;
	}
	p->d->breaks |= part->parent != MAIL_MIME_NONE || c.encoding || c.version;
	if (part->parent == MAIL_MIME_NONE) {
		p->new_headers = text;
		p->headers_changed = true;
	} else {
		p->edit[p->n_edits++] = (struct edit){ .old = part->head, .text = text };
	}
	return true;
}

/* -- pieces */

static bool add(struct planner *p, struct str text, enum mail_encode how)
{
	struct mail_downgrade *d = p->d;
	if (!text.n)
		return true;
	if (d->n == d->cap) {
		size_t cap = d->cap ? d->cap * 2 : 16;
		struct mail_piece *grown = reallocarray(d->piece, cap, sizeof *grown);
		if (!grown)
			return fail_memory(p);
		d->piece = grown;
		d->cap = cap;
	}
	d->size += mail_encode_size(how, text, &d->open);
	d->piece[d->n++] = (struct mail_piece){ text, how };
	if (how == MAIL_ENCODE_NONE && !(p->lacks & MAIL_LACKS_8BIT) && !d->eight)
		d->eight = !str_is_ascii(text);
	return true;
}

static int by_place(const void *a, const void *b)
{
	const struct edit *x = a, *y = b;
	/* a head without octets stands before the content at the same place */
	if (x->old.p == y->old.p)
		return x->old.n < y->old.n ? -1 : x->old.n > y->old.n;
	return x->old.p < y->old.p ? -1 : 1;
}

static bool put_together(struct planner *p, struct str headers)
{
	const char *from = p->m.raw.p, *end = p->m.raw.p + p->m.raw.n;
	if (!add(p, p->headers_changed ? p->new_headers : headers, MAIL_ENCODE_NONE))
		return false;
	p->d->n_head = p->d->n;
	if (!add(p, STR("\r\n"), MAIL_ENCODE_NONE))
		return false;
	qsort(p->edit, p->n_edits, sizeof *p->edit, by_place);
	for (size_t i = 0; i < p->n_edits; i++) {
		const struct edit *e = &p->edit[i];
		if (!add(p, str_n(from, (size_t)(e->old.p - from)), MAIL_ENCODE_NONE) || !add(p, e->text, e->how))
			return false;
		from = e->old.p + e->old.n;
		/* of a message without a body the line end before the delimiter is content: base64 has none of its own */
		if (e->how != MAIL_ENCODE_NONE && p->d->open && from < end && *from == '-' && !add(p, STR("\r\n"), MAIL_ENCODE_NONE))
			return false;
	}
	return add(p, str_n(from, (size_t)(end - from)), MAIL_ENCODE_NONE);
}

static bool plan(struct planner *p, struct str headers)
{
	for (size_t i = 0; i < p->m.n; i++)
		if (!look(p, i))
			return false;
	for (size_t i = 0; i < p->m.n; i++) {
		if (!head(p, i))
			return false;
		if (p->mark[i].encode) {
			p->edit[p->n_edits++] = (struct edit){ .old = p->m.part[i].body, .text = p->m.part[i].body, .how = p->mark[i].how };
			p->d->breaks = true;
		}
	}
	p->d->changed = p->n_edits || p->headers_changed;
	return put_together(p, headers);
}

int mail_downgrade_plan(struct mail_downgrade *ret, struct str headers, struct str body, unsigned lacks)
{
	struct planner p = { .d = ret, .lacks = lacks, .head = BUF_INIT(MAIL_DOWNGRADE_HEADS_MAX) };
	*ret = (struct mail_downgrade){ .mem = arena_new(MAIL_DOWNGRADE_HEADS_MAX) };
	int r = mail_headers_sendable(headers) ? mail_mime_parse_pieces(&p.m, headers, body) : 1;
	if (r > 0) {
		mail_downgrade_fail(ret, MAIL_DOWNGRADE_BROKEN, "5.6.0", "the header holds a bare CR, a bare LF or a NUL");
	} else if (r == MAIL_MIME_LIMIT) {
		mail_downgrade_fail(ret, MAIL_DOWNGRADE_LIMIT, "5.6.3", "the message would have to be converted for the next hop, and cannot be: %s", p.m.limit);
	} else if (!r) {
		p.mark = calloc(p.m.n, sizeof *p.mark);
		p.edit = calloc(p.m.n, 4 * sizeof *p.edit); /* head, content; preamble, epilogue */
	}
	if (ret->fault == MAIL_DOWNGRADE_FINE && (!ret->mem || r || !p.mark || !p.edit || !plan(&p, headers)))
		fail_memory(&p); /* unless another one is told */
	free(p.mark);
	free(p.edit);
	buf_free(&p.head);
	mail_mime_free(&p.m);
	return ret->fault == MAIL_DOWNGRADE_FINE ? 0 : -1;
}

void mail_downgrade_free(struct mail_downgrade *d)
{
	free(d->piece);
	arena_free(d->mem);
	*d = (struct mail_downgrade){ 0 };
}

bool mail_is_signed(struct str headers)
{
	struct mail_field f;
	int r;
	while ((r = mail_field_next(&headers, &f)))
		if (r > 0 && (str_ieq(f.name, STR("DKIM-Signature")) || str_ieq(f.name, STR("ARC-Message-Signature"))))
			return true;
	return false;
}

/* -- reading */

void mail_downgrade_begin(const struct mail_downgrade *d, struct mail_downgrade_reader *r)
{
	*r = (struct mail_downgrade_reader){ .d = d };
	if (d->n)
		mail_encoder_init(&r->e, d->piece[0].how, d->piece[0].text);
}

bool mail_downgrade_next(struct mail_downgrade_reader *r, struct buf *out, size_t want)
{
	const struct mail_downgrade *d = r->d;
	size_t before = out->n;
	while (r->at < d->n && out->n - before < want && !out->failed) {
		if (mail_encoder_next(&r->e, out, want - (out->n - before)))
			continue;
		if (++r->at < d->n)
			mail_encoder_init(&r->e, d->piece[r->at].how, d->piece[r->at].text);
	}
	return out->n > before;
}

static int write(const struct mail_downgrade *d, size_t from, size_t to, struct buf *out)
{
	struct mail_encoder e;
	for (size_t i = from; i < to && !out->failed; i++) {
		mail_encoder_init(&e, d->piece[i].how, d->piece[i].text);
		while (mail_encoder_next(&e, out, SIZE_MAX / 2))
			;
	}
	return out->failed ? -1 : 0;
}

int mail_downgrade_headers(const struct mail_downgrade *d, struct buf *out)
{
	return write(d, 0, d->n_head, out);
}

int mail_downgrade_body(const struct mail_downgrade *d, struct buf *out)
{
	return write(d, d->n_head + 1, d->n, out);
}
