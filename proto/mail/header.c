/* Header fields: a linear reader that survives garbage, and the one encoder through which every field we write goes.
 * No I/O, no allocation beyond the caller's buffer. */
#include "header.h"

bool mail_field_line_ok(struct str line)
{
	size_t i = 0;
	/* ftext is %d33-57 / %d59-126 (RFC 5322 §3.6.8) */
	while (i < line.n && line.p[i] > 32 && line.p[i] < 127 && line.p[i] != ':')
		i++;
	if (!i)
		return false;
	while (i < line.n && (line.p[i] == ' ' || line.p[i] == '\t'))
		i++;
	return i < line.n && line.p[i] == ':';
}

size_t mail_skip_cfws(struct str s, size_t i)
{
	size_t depth = 0;
	for (; i < s.n; i++) {
		char c = s.p[i];
		if (c == '(')
			depth++;
		else if (depth && c == ')')
			depth--;
		else if (depth && c == '\\')
			i++;
		else if (!depth && c != ' ' && c != '\t' && c != '\r' && c != '\n')
			break;
	}
	return i < s.n ? i : s.n;
}

/* Behind the next CRLF at or behind `from`; s.n: there is none. */
static size_t line_end(struct str s, size_t from)
{
	for (size_t i = from; i < s.n;) {
		const char *lf = memchr(s.p + i, '\n', s.n - i);
		if (!lf)
			break;
		i = (size_t)(lf - s.p) + 1;
		if (i >= from + 2 && lf[-1] == '\r')
			return i;
	}
	return s.n;
}

int mail_field_next(struct str *rest, struct mail_field *ret)
{
	if (!rest->n)
		return 0;
	size_t end = 0;
	do
		end = line_end(*rest, end);
	while (end < rest->n && (rest->p[end] == ' ' || rest->p[end] == '\t'));
	struct mail_field f = { .all = str_n(rest->p, end) };
	*rest = str_skip(*rest, end);
	if (!mail_field_line_ok(f.all)) {
		*ret = f;
		return -1;
	}
	size_t colon = (size_t)str_chr(f.all, ':');
	f.name = str_trim(str_n(f.all.p, colon));
	f.value = str_skip(f.all, colon + 1);
	if (f.value.n >= 2 && memcmp(f.value.p + f.value.n - 2, "\r\n", 2) == 0)
		f.value.n -= 2;
	*ret = f;
	return 1;
}

int mail_field_find(struct str headers, struct str name, size_t nth, struct mail_field *ret)
{
	struct mail_field f;
	int r;
	while ((r = mail_field_next(&headers, &f)))
		if (r == 1 && str_ieq(f.name, name) && nth-- == 0) {
			*ret = f;
			return 0;
		}
	return -1;
}

size_t mail_field_count(struct str headers, struct str name, size_t most)
{
	struct mail_field f;
	size_t n = 0;
	int r;
	while ((!most || n < most) && (r = mail_field_next(&headers, &f)))
		n += r == 1 && str_ieq(f.name, name);
	return n;
}

int mail_field_unfold(struct buf *out, struct str value)
{
	value = str_trim(value);
	size_t i = 0;
	while (i < value.n) {
		size_t from = i;
		while (i < value.n && value.p[i] != '\r' && value.p[i] != '\n' && value.p[i])
			i++;
		buf_add(out, value.p + from, i - from);
		if (i == value.n)
			break;
		/* the blank behind a folding CRLF stays, the CRLF goes */
		if (i + 2 < value.n && value.p[i] == '\r' && value.p[i + 1] == '\n' &&
		    (value.p[i + 2] == ' ' || value.p[i + 2] == '\t')) {
			i += 2;
			continue;
		}
		buf_addc(out, ' ');
		i++;
	}
	return out->failed ? -1 : 0;
}

bool mail_headers_sendable(struct str h)
{
	if (!h.n)
		return true;
	if (h.p[0] == ' ' || h.p[0] == '\t' || h.n < 2 || memcmp(h.p + h.n - 2, "\r\n", 2) != 0 || memchr(h.p, 0, h.n))
		return false;
	for (size_t i = 0, start = 0; i < h.n; i++) {
		if (h.p[i] == '\n')
			return false;
		if (h.p[i] != '\r')
			continue;
		if (i + 1 == h.n || h.p[i + 1] != '\n' || i == start)
			return false;
		start = i + 2;
		i++;
	}
	return true;
}

static bool clean(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (((unsigned char)s.p[i] < 32 && s.p[i] != '\t') || s.p[i] == 127)
			return false;
	return true;
}

void mail_fold_begin(struct mail_fold *f, struct buf *out, struct str name)
{
	*f = (struct mail_fold){ .out = out };
	for (size_t i = 0; i < name.n; i++)
		f->bad |= name.p[i] <= 32 || name.p[i] > 126 || name.p[i] == ':';
	f->bad |= !name.n;
	if (f->bad)
		return;
	buf_adds(out, name);
	buf_addc(out, ':');
	f->column = name.n + 1;
}

void mail_fold_newline(struct mail_fold *f)
{
	if (f->bad)
		return;
	buf_add(f->out, "\r\n", 2);
	f->column = 0;
}

static void put(struct mail_fold *f, struct str piece)
{
	f->bad |= !clean(piece);
	if (f->bad)
		return;
	buf_adds(f->out, piece);
	f->column += piece.n;
}

void mail_fold_piece(struct mail_fold *f, struct str piece)
{
	if (f->bad || !piece.n)
		return;
	/* a line holding nothing but blanks would end the header block for some readers: fold only before text, and not
	 * right behind the name */
	if (f->column && f->column + 1 + piece.n > MAIL_LINE_WANT)
		mail_fold_newline(f);
	put(f, f->column ? STR(" ") : STR("\t"));
	put(f, piece);
}

void mail_fold_glue(struct mail_fold *f, struct str piece)
{
	put(f, piece);
}

int mail_fold_end(struct mail_fold *f)
{
	if (f->bad)
		return -1;
	buf_add(f->out, "\r\n", 2);
	return f->out->failed ? -1 : 0;
}

int mail_field_write(struct buf *out, struct str name, struct str value)
{
	size_t before = out->n;
	struct mail_fold f;
	struct str word;
	mail_fold_begin(&f, out, name);
	f.bad |= !clean(value);
	while (!f.bad && str_word(&value, " \t", &word))
		mail_fold_piece(&f, word);
	if (mail_fold_end(&f) == 0)
		return 0;
	if (out->n > before) {
		out->n = before;
		out->p[before] = 0;
	}
	return -1;
}
