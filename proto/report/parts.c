/* A walk over the parts of a message. Delimiters are compared at line beginnings only (RFC 2046 §5.1.1). */
#include "proto/report/parts.h"

#include "proto/mail/header.h"
#include "proto/mail/split.h"
#include "proto/mail/transfer.h"

#include <stdio.h>

enum { BOUNDARY_MAX = 200 }; /* RFC 2046: 70; more is seen */

/* Blanks, folds and comments of an unfolded or folded value. */
static struct str skip_blank(struct str s)
{
	unsigned depth = 0;
	while (s.n) {
		char c = s.p[0];
		if (c == '(')
			depth++;
		else if (c == ')' && depth)
			depth--;
		else if (depth && c == '\\' && s.n > 1)
			s = str_skip(s, 1);
		else if (!depth && c != ' ' && c != '\t' && c != '\r' && c != '\n')
			break;
		s = str_skip(s, 1);
	}
	return s;
}

static size_t token(struct str s)
{
	size_t n = 0;
	while (n < s.n && s.p[n] > ' ' && s.p[n] < 0x7f && !strchr("()<>@,;:\\\"/[]?=", s.p[n]))
		n++;
	return n;
}

/* A token or a quoted string at the front of *s. False: longer than out, or neither. */
static bool take_value(struct str *s, char *out, size_t size)
{
	size_t n = 0;
	if (!s->n || s->p[0] != '"') {
		/* lenient: up to a semicolon or blank */
		while (n < s->n && !strchr("; \t\r\n", s->p[n]) && s->p[n])
			n++;
		if (!n || n >= size)
			return false;
		memcpy(out, s->p, n);
		out[n] = 0;
		*s = str_skip(*s, n);
		return true;
	}
	for (*s = str_skip(*s, 1); s->n && s->p[0] != '"'; *s = str_skip(*s, 1)) {
		if (s->p[0] == '\\' && s->n > 1)
			*s = str_skip(*s, 1);
		if (s->p[0] == '\r' || s->p[0] == '\n')
			continue;
		if (n + 1 >= size || !s->p[0])
			return false;
		out[n++] = s->p[0];
	}
	out[n] = 0;
	*s = str_skip(*s, 1);
	return true;
}

int parts_parameter(struct str value, struct str name, char *out, size_t size)
{
	char other[BOUNDARY_MAX * 4], got[BOUNDARY_MAX * 4];
	ptrdiff_t semi = str_chr(value, ';');
	struct str s = semi < 0 ? STR_NULL : str_skip(value, (size_t)semi);
	while (s.n) {
		if (s.p[0] != ';') {
			s = str_skip(s, 1);
			continue;
		}
		s = skip_blank(str_skip(s, 1));
		struct str key = str_n(s.p, token(s));
		s = skip_blank(str_skip(s, key.n));
		if (!s.n || s.p[0] != '=')
			continue;
		s = skip_blank(str_skip(s, 1));
		bool mine = str_ieq(key, name);
		if (!take_value(&s, mine ? got : other, sizeof got)) {
			if (mine)
				return -1;
			continue;
		}
		if (mine && strlen(got) < size) {
			memcpy(out, got, strlen(got) + 1);
			return 0;
		}
	}
	return -1;
}

/* "type/subtype" of a Content-Type. */
static void read_type(struct str headers, char *out, struct str *ret_value)
{
	struct mail_field f;
	*ret_value = STR_NULL;
	snprintf(out, PARTS_TYPE_MAX, "text/plain");
	if (mail_field_find(headers, STR("Content-Type"), 0, &f))
		return;
	struct str s = skip_blank(f.value);
	size_t a = token(s);
	if (!a || a >= s.n || s.p[a] != '/')
		return;
	size_t b = token(str_skip(s, a + 1));
	if (!b || a + 1 + b >= PARTS_TYPE_MAX)
		return;
	for (size_t i = 0; i < a + 1 + b; i++)
		out[i] = ascii_lower(s.p[i]);
	out[a + 1 + b] = 0;
	*ret_value = f.value;
}

struct walk {
	parts_fn *fn;
	void *arg;
	unsigned seen;
};

/* Is this line a delimiter of the boundary? 1: yes; 2: the closing one. */
static int delimiter(struct str line, const char *boundary, size_t n)
{
	if (line.n < n + 2 || line.p[0] != '-' || line.p[1] != '-' || memcmp(line.p + 2, boundary, n) != 0)
		return 0;
	struct str rest = str_skip(line, n + 2);
	bool closing = str_starts(rest, STR("--"));
	return !str_trim(str_skip(rest, closing ? 2 : 0)).n ? 1 + closing : 0;
}

static bool walk(struct walk *w, struct str headers, struct str body, unsigned depth);

static bool walk_part(struct walk *w, struct str raw, unsigned depth)
{
	struct mail_split s;
	/* the line end before a delimiter belongs to it */
	if (raw.n && raw.p[raw.n - 1] == '\n')
		raw.n--;
	if (raw.n && raw.p[raw.n - 1] == '\r')
		raw.n--;
	if (str_starts(raw, STR("\r\n"))) { /* no headers at all */
		s.headers = STR_NULL;
		s.body = str_skip(raw, 2);
	} else {
		mail_split(raw, &s);
	}
	return walk(w, s.headers, s.body, depth);
}

/* One level per call, PARTS_DEPTH_MAX at most. */
static bool walk(struct walk *w, struct str headers, struct str body, unsigned depth)
{
	struct parts_part p = { .headers = headers, .body = body, .depth = depth };
	char boundary[BOUNDARY_MAX];
	struct mail_field f;
	struct str type, part = STR_NULL;
	if (w->seen >= PARTS_MAX)
		return false;
	w->seen++;
	read_type(headers, p.type, &type);
	if (!str_starts(str_from(p.type), STR("multipart/")) || parts_parameter(type, STR("boundary"), boundary, sizeof boundary) || !*boundary) {
		if (mail_field_find(headers, STR("Content-Transfer-Encoding"), 0, &f) == 0) {
			struct str s = skip_blank(f.value);
			p.encoding = str_n(s.p, token(s));
		}
		return w->fn(w->arg, &p);
	}
	if (depth == PARTS_DEPTH_MAX)
		return false;
	size_t n = strlen(boundary);
	for (struct str rest = body; rest.n;) {
		const char *nl = memchr(rest.p, '\n', rest.n);
		struct str line = str_n(rest.p, nl ? (size_t)(nl - rest.p) + 1 : rest.n);
		int d = delimiter(line, boundary, n);
		rest = str_skip(rest, line.n);
		if (!d)
			continue;
		if (part.p && walk_part(w, str_n(part.p, (size_t)(line.p - part.p)), depth + 1))
			return true;
		if (d == 2)
			return false;
		part = rest;
		part.p = rest.p ? rest.p : line.p + line.n;
	}
	/* cut off: what there is of the last part */
	return part.p && part.n && walk_part(w, str_n(part.p, (size_t)(body.p + body.n - part.p)), depth + 1);
}

bool parts_walk(struct str headers, struct str body, parts_fn *fn, void *arg)
{
	struct walk w = { fn, arg, 0 };
	return walk(&w, headers, body, 0);
}

int parts_decode(const struct parts_part *p, struct buf *out)
{
	return mail_transfer_decode(mail_transfer_of(p->encoding), p->body, out);
}
