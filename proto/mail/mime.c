/* One pass over the lines of a message with a stack of what is open; see mime.h. Each line is compared with the boundaries of the open
 * multiparts, MAIL_MIME_DEPTH_MAX at most. Decodes nothing. */
#include "proto/mail/mime.h"

#include "proto/mail/header.h"
#include "proto/mail/param.h"

#include <stdlib.h>

enum state { IN_HEAD, IN_TEXT, IN_PREAMBLE, IN_EPILOGUE };

struct frame {
	size_t part;
	struct str boundary; /* empty: no multipart, or closed */
	const char *text;    /* where preamble or epilogue begins */
};

struct value {
	struct str text; /* of the field, folds inside; .p is NULL: not seen */
	bool open;       /* the line before was its */
};

struct parser {
	struct mail_mime *m;
	bool bare_lf;
	struct frame stack[MAIL_MIME_DEPTH_MAX + 1];
	size_t depth; /* frames in use */
	enum state state;
	/* of the head that is being read */
	const char *head, *bad_line;
	const char *body; /* where the content begins when that is not behind the gap: the message came in pieces */
	size_t lines;
	struct value type, encoding;
};

static struct mail_mime_part *at(struct parser *p, size_t i)
{
	return &p->m->part[p->stack[i].part];
}

static struct str span(const char *from, const char *to)
{
	return str_n(from, (size_t)(to - from));
}

static int limit(struct parser *p, const char *which)
{
	p->m->limit = which;
	return MAIL_MIME_LIMIT;
}

/* A new part within the innermost frame (or the message itself), of which the head begins at `head`. */
static int open_part(struct parser *p, const char *head, struct str delimiter)
{
	struct mail_mime *m = p->m;
	size_t parent = p->depth ? p->stack[p->depth - 1].part : MAIL_MIME_NONE;
	if (p->depth > MAIL_MIME_DEPTH_MAX)
		return limit(p, "parts nested too deeply");
	if (m->n == MAIL_MIME_PARTS_MAX)
		return limit(p, "too many parts");
	if (m->n == m->cap) {
		size_t cap = m->cap ? m->cap * 2 : 8;
		struct mail_mime_part *grown = reallocarray(m->part, cap, sizeof *grown);
		if (!grown)
			return MAIL_MIME_MEMORY;
		m->part = grown;
		m->cap = cap;
	}
	m->part[m->n] = (struct mail_mime_part){ .parent = parent, .child = MAIL_MIME_NONE, .next = MAIL_MIME_NONE,
		.depth = (unsigned)p->depth, .delimiter = delimiter, .all = str_n(head, 0) };
	p->stack[p->depth] = (struct frame){ .part = m->n++ };
	p->depth++;
	p->state = IN_HEAD;
	p->head = head;
	p->bad_line = NULL;
	p->lines = 0;
	p->type = p->encoding = (struct value){ 0 };
	return 0;
}

/* Tells each part its first child and next sibling. */
static int link_all(struct mail_mime *m)
{
	size_t *last = m->n ? reallocarray(NULL, m->n, sizeof *last) : NULL;
	if (m->n && !last)
		return MAIL_MIME_MEMORY;
	for (size_t i = 0; i < m->n; i++) {
		size_t parent = m->part[i].parent;
		last[i] = MAIL_MIME_NONE;
		if (parent == MAIL_MIME_NONE)
			continue;
		if (last[parent] == MAIL_MIME_NONE)
			m->part[parent].child = i;
		else
			m->part[last[parent]].next = i;
		last[parent] = i;
	}
	free(last);
	return 0;
}

/* Content-Transfer-Encoding: the first word, without comments. */
static enum mail_transfer read_encoding(struct str value)
{
	struct mail_params e;
	enum mail_transfer r = MAIL_TRANSFER_UNKNOWN;
	if (!value.p)
		return MAIL_TRANSFER_7BIT;
	if (mail_params_parse(&e, value) == 0)
		r = mail_transfer_of(e.value);
	mail_params_free(&e);
	return r;
}

/* What the head says of the content. */
static int read_type(struct parser *p, struct mail_mime_part *part, struct str *ret_boundary)
{
	struct mail_mime *m = p->m;
	struct mail_params t = { 0 };
	/* RFC 2046 §5.1.5 */
	bool digest = part->parent != MAIL_MIME_NONE && str_eq(m->part[part->parent].type, STR("multipart/digest"));
	struct str usual = digest ? STR("message/rfc822") : STR("text/plain"), charset, boundary;
	part->encoding = read_encoding(p->encoding.text);
	part->type = usual;
	*ret_boundary = STR_NULL;
	if (!p->type.text.p)
		return 0;
	m->steps += p->type.text.n;
	int r = mail_params_parse(&t, p->type.text);
	if (r == MAIL_PARAMS_MEMORY)
		return MAIL_MIME_MEMORY;
	if (r || t.bad)
		m->odd |= MAIL_MIME_BAD_TYPE;
	if (r) /* too long, or too many parameters: who knows what others see in it */
		return limit(p, "too many parameters of a Content-Type");
	if (!t.type.n || !t.subtype.n) { /* RFC 2045 §5.2: as if it were plain text */
		part->type = arena_str(m->mem, STR("text/plain"));
	} else {
		part->type = arena_str(m->mem, t.value);
	}
	charset = mail_params_get(&t, STR("charset"));
	boundary = mail_params_get(&t, STR("boundary"));
	if (charset.p)
		part->charset = arena_str(m->mem, charset);
	if (boundary.n && boundary.n <= MAIL_MIME_BOUNDARY_MAX)
		*ret_boundary = arena_str(m->mem, boundary);
	bool failed = !part->type.p || (charset.n && !part->charset.p) || (boundary.n && boundary.n <= MAIL_MIME_BOUNDARY_MAX && !ret_boundary->p);
	mail_params_free(&t);
	return failed ? MAIL_MIME_MEMORY : 0;
}

/* The head of the innermost part is over: an empty line (gap), or none and the part ends here, at `end`. */
static int end_head(struct parser *p, const char *end, struct str gap)
{
	struct mail_mime_part *part = at(p, p->depth - 1);
	struct frame *f = &p->stack[p->depth - 1];
	struct str boundary;
	if (!gap.n && p->bad_line && p->bad_line < end) {
		end = p->bad_line; /* text that was meant as a body must not be fields (as in split.h) */
		if (p->type.text.p && p->type.text.p >= end)
			p->type = (struct value){ 0 };
		if (p->encoding.text.p && p->encoding.text.p >= end)
			p->encoding = (struct value){ 0 };
	}
	if (p->bad_line || !gap.n)
		p->m->odd |= MAIL_MIME_BAD_HEAD;
	part->head = span(p->head, end);
	part->gap = gap;
	part->body = str_n(p->body ? p->body : gap.n ? gap.p + gap.n : end, 0);
	p->body = NULL;
	int r = read_type(p, part, &boundary);
	if (r)
		return r;
	bool plain = part->encoding != MAIL_TRANSFER_BASE64 && part->encoding != MAIL_TRANSFER_QP;
	p->state = IN_TEXT;
	f->text = part->body.p;
	if (str_starts(part->type, STR("multipart/"))) {
		if (!plain || part->encoding == MAIL_TRANSFER_UNKNOWN)
			p->m->odd |= MAIL_MIME_ENCODED;
		if (!boundary.n) {
			p->m->odd |= MAIL_MIME_NO_BOUNDARY;
			return 0;
		}
		part->kind = MAIL_MIME_MULTIPART;
		f->boundary = boundary;
		p->state = IN_PREAMBLE;
		return 0;
	}
	/* RFC 6532 §3.7 lets message/global be encoded, and some encode message/rfc822: what is inside is not to be seen from here */
	if (gap.n && plain && (str_eq(part->type, STR("message/rfc822")) || str_eq(part->type, STR("message/global")) ||
	    str_eq(part->type, STR("message/news")))) {
		part->kind = MAIL_MIME_MESSAGE;
		return open_part(p, part->body.p, STR_NULL);
	}
	return 0;
}

/* Closes the frames from `keep` on; the content of all of them ends at `end`. */
static int close_parts(struct parser *p, size_t keep, const char *end)
{
	while (p->depth > keep) {
		struct frame *f = &p->stack[p->depth - 1];
		if (p->state == IN_HEAD) {
			int r = end_head(p, end, STR_NULL);
			if (r)
				return r;
		}
		struct mail_mime_part *part = at(p, p->depth - 1);
		part->body = span(part->body.p, end);
		part->all = span(part->all.p, end);
		if (part->kind == MAIL_MIME_MULTIPART) {
			if (part->close.p) {
				part->epilogue = span(f->text, end);
			} else if (p->state == IN_PREAMBLE) {
				part->preamble = span(f->text, end);
				p->m->odd |= MAIL_MIME_NO_PARTS | MAIL_MIME_UNCLOSED;
			} else {
				p->m->odd |= MAIL_MIME_UNCLOSED;
			}
		}
		p->depth--;
		p->state = IN_TEXT; /* of whatever is outside: only delimiters matter there now */
	}
	return 0;
}

/* The frame whose boundary the line begins with, after its "--": one that fits exactly before the longest, inner ones before outer ones
 * (RFC 2046 §5.1.2: an outer delimiter ends inner parts). Returns false: none. */
static bool find_frame(struct parser *p, struct str line, size_t *ret_frame, bool *ret_closing)
{
	struct str text = str_skip(line, 2);
	size_t best = 0;
	bool found = false, best_exact = false;
	for (size_t i = p->depth; i-- > 0;) {
		struct str b = p->stack[i].boundary;
		p->m->steps++;
		if (!b.n || b.n > text.n)
			continue;
		p->m->steps += b.n;
		if (memcmp(text.p, b.p, b.n) != 0)
			continue;
		struct str rest = str_skip(text, b.n);
		bool closing = str_starts(rest, STR("--"));
		p->m->steps += rest.n;
		bool exact = !str_trim(str_skip(rest, closing ? 2 : 0)).n;
		if (found)
			p->m->odd |= MAIL_MIME_AMBIGUOUS;
		if (found && (best_exact || (!exact && b.n <= best)))
			continue;
		found = true;
		best_exact = exact;
		best = b.n;
		*ret_frame = i;
		*ret_closing = closing;
	}
	if (found && !best_exact)
		p->m->odd |= MAIL_MIME_AMBIGUOUS;
	return found;
}

static int delimiter(struct parser *p, struct str line, size_t frame, bool closing)
{
	/* the line end before a delimiter is part of it (RFC 2046 §5.1.1), unless it ends a head */
	const char *end = line.p, *least = p->state == IN_HEAD ? p->bad_line ? p->bad_line : line.p : p->state == IN_TEXT ? at(p, p->depth - 1)->body.p : p->stack[p->depth - 1].text;
	const char *start = p->m->raw.p;
	if (end > start && end[-1] == '\n')
		end--;
	if (end > start && end < line.p && end[-1] == '\r')
		end--;
	if (end < least)
		end = line.p;
	int r = close_parts(p, frame + 1, end);
	if (r)
		return r;
	struct frame *f = &p->stack[frame];
	struct mail_mime_part *part = at(p, frame);
	if (!part->close.p && part->preamble.p == NULL)
		part->preamble = span(f->text, end);
	struct str mark = span(end, line.p + line.n);
	if (!closing)
		return open_part(p, line.p + line.n, mark);
	part->close = mark;
	f->boundary = STR_NULL;
	f->text = line.p + line.n;
	p->state = IN_EPILOGUE;
	return 0;
}

static void take_field(struct parser *p, struct value *v, struct str line, struct str name)
{
	if (line.p[0] == ' ' || line.p[0] == '\t') {
		if (v->open)
			v->text.n = (size_t)(line.p + line.n - v->text.p);
		return;
	}
	v->open = false;
	if (!str_istarts(line, name))
		return;
	ptrdiff_t colon = str_chr(line, ':');
	if (colon < 0 || str_trim(str_n(line.p + name.n, (size_t)colon - name.n)).n)
		return;
	if (v->text.p) {
		p->m->odd |= MAIL_MIME_TWICE;
		return;
	}
	v->text = str_skip(line, (size_t)colon + 1);
	v->open = true;
}

static int head_line(struct parser *p, struct str line, bool empty)
{
	if (empty)
		return end_head(p, line.p, line);
	if (++p->lines > MAIL_MIME_HEAD_LINES_MAX)
		return limit(p, "too many header lines");
	if (line.p + line.n - p->head > MAIL_MIME_HEAD_OCTETS_MAX)
		return limit(p, "too long a header");
	bool folded = line.p[0] == ' ' || line.p[0] == '\t';
	if (!p->bad_line && (folded ? p->lines == 1 : !mail_field_line_ok(line)))
		p->bad_line = line.p;
	p->m->steps += line.n;
	take_field(p, &p->type, line, STR("Content-Type"));
	take_field(p, &p->encoding, line, STR("Content-Transfer-Encoding"));
	return 0;
}

static int lines(struct parser *p, struct str rest)
{
	int r = 0;
	while (!r && rest.n) {
		size_t n = 0;
		do {
			const char *nl = memchr(rest.p + n, '\n', rest.n - n);
			n = nl ? (size_t)(nl - rest.p) + 1 : rest.n;
		} while (n < rest.n && !p->bare_lf && (n < 2 || rest.p[n - 2] != '\r'));
		struct str line = str_n(rest.p, n);
		bool empty = (n == 2 && line.p[0] == '\r' && line.p[1] == '\n') || (n == 1 && p->bare_lf && line.p[0] == '\n');
		bool closing = false;
		size_t frame = 0;
		p->m->steps += n;
		rest = str_skip(rest, n);
		if (n > 2 && line.p[0] == '-' && line.p[1] == '-' && find_frame(p, line, &frame, &closing))
			r = delimiter(p, line, frame, closing);
		else if (p->state == IN_HEAD)
			r = head_line(p, line, empty);
	}
	return r;
}

/* headers: what goes before raw; .p is NULL: nothing does. */
static int run(struct parser *p, struct str headers)
{
	struct str raw = p->m->raw;
	int r = open_part(p, headers.p ? headers.p : raw.p, STR_NULL);
	if (!r && headers.p) {
		r = lines(p, headers);
		p->body = raw.p;
		if (!r)
			r = end_head(p, headers.p + headers.n, STR("\r\n"));
		p->m->part[0].gap = STR_NULL;
		p->m->part[0].all = str_n(raw.p, 0);
	}
	if (!r)
		r = lines(p, raw);
	if (!r)
		r = close_parts(p, 0, raw.p + raw.n);
	return r ? r : link_all(p->m);
}

static int parse(struct parser *p, struct str headers, struct str raw)
{
	struct mail_mime *ret = p->m;
	if (!raw.p)
		raw = STR("");
	*ret = (struct mail_mime){ .raw = raw, .mem = arena_new(headers.n + raw.n + (64u << 10) + MAIL_MIME_PARTS_MAX * 128u) };
	int r = ret->mem ? run(p, headers) : MAIL_MIME_MEMORY;
	if (r) {
		const char *which = ret->limit;
		mail_mime_free(ret);
		ret->limit = which;
	}
	return r;
}

int mail_mime_parse(struct mail_mime *ret, struct str raw, bool bare_lf)
{
	struct parser p = { .m = ret, .bare_lf = bare_lf };
	return parse(&p, STR_NULL, raw);
}

int mail_mime_parse_pieces(struct mail_mime *ret, struct str headers, struct str body)
{
	struct parser p = { .m = ret };
	return parse(&p, headers.p ? headers : STR(""), body);
}

void mail_mime_free(struct mail_mime *m)
{
	free(m->part);
	arena_free(m->mem);
	*m = (struct mail_mime){ 0 };
}

int mail_mime_write(const struct mail_mime *m, mail_mime_replace_fn *replace, void *arg, struct buf *out)
{
	const char *from = m->raw.p, *end = m->raw.p + m->raw.n;
	for (size_t i = 0; replace && i < m->n; i++) {
		const struct mail_mime_part *part = &m->part[i];
		if (part->all.p < from)
			continue; /* within one that was replaced */
		buf_adds(out, span(from, part->all.p));
		size_t stands = out->n;
		int r = replace(arg, m, i, out);
		if (r < 0 || out->failed)
			return -1;
		if (r) {
			from = part->all.p + part->all.n;
		} else {
			out->n = stands; /* nothing of a refusal stays */
			from = part->all.p;
		}
	}
	buf_adds(out, span(from, end));
	return out->failed ? -1 : 0;
}
