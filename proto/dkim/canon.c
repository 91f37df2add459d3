/* The two canonicalisations of fields and of bodies, as state machines over octets. No hashing here, no allocation. Only CR LF
 * ends a line; a bare CR or LF is an octet like others. */
#include "canon.h"

void dkim_out_flush(struct dkim_out *o)
{
	if (o->n)
		o->sink(o->arg, o->b, o->n);
	o->n = 0;
}

void dkim_out_add(struct dkim_out *o, const char *p, size_t n)
{
	if (!n)
		return;
	if (n > sizeof o->b - o->n) {
		dkim_out_flush(o);
		if (n >= sizeof o->b / 2) {
			o->sink(o->arg, p, n);
			return;
		}
	}
	memcpy(o->b + o->n, p, n);
	o->n += n;
}

static void add_octet(struct dkim_out *o, char c)
{
	if (o->n == sizeof o->b)
		dkim_out_flush(o);
	o->b[o->n++] = c;
}

static bool wsp(char c)
{
	return c == ' ' || c == '\t';
}

/* §3.4.2; [at, n) is the value, without its last CRLF */
static void relaxed_value(struct str f, size_t at, size_t cut, size_t cut_end, struct dkim_out *o)
{
	bool blank = false, started = false;
	while (at < f.n) {
		if (at == cut && cut < cut_end) {
			at = cut_end;
			continue;
		}
		char c = f.p[at];
		if (wsp(c)) {
			blank = true;
			at++;
		} else if (c == '\r' && at + 1 < f.n && f.p[at + 1] == '\n') {
			at += 2; /* unfolded: the blank behind it stays */
		} else {
			if (blank && started)
				add_octet(o, ' ');
			add_octet(o, c);
			blank = false;
			started = true;
			at++;
		}
	}
}

void dkim_canon_field(enum dkim_canon c, struct str f, size_t cut, size_t cut_end, bool own, struct dkim_out *o)
{
	if (f.n >= 2 && f.p[f.n - 2] == '\r' && f.p[f.n - 1] == '\n')
		f.n -= 2;
	if (cut >= cut_end)
		cut = cut_end = f.n;
	if (cut_end > f.n)
		cut_end = f.n;
	ptrdiff_t colon = str_chr(f, ':');
	if (c == DKIM_SIMPLE || colon < 0) {
		dkim_out_add(o, f.p, cut);
		dkim_out_add(o, f.p + cut_end, f.n - cut_end);
	} else {
		size_t name = (size_t)colon;
		while (name && wsp(f.p[name - 1]))
			name--;
		for (size_t i = 0; i < name; i++)
			add_octet(o, ascii_lower(f.p[i]));
		add_octet(o, ':');
		relaxed_value(f, (size_t)colon + 1, cut, cut_end, o);
	}
	if (!own)
		dkim_out_add(o, "\r\n", 2);
}

/* -- bodies */

/* Everything held back, now that something follows it. */
static void send_held(struct dkim_canon_body *b)
{
	static const char many[] = "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n";
	while (b->lines) {
		uint64_t k = b->lines < 16 ? b->lines : 16;
		dkim_out_add(&b->out, many, (size_t)k * 2);
		b->lines -= k;
	}
	if (b->blank)
		add_octet(&b->out, ' ');
	b->blank = false;
	b->any = true;
}

/* Not what relaxed form looks at; most octets are beyond the blank, and settled by one comparison. */
static bool ordinary(char c)
{
	return (unsigned char)c > ' ' || (c != '\r' && !wsp(c));
}

/* How many octets from p on mean only themselves? p[0] does. In relaxed form so does a single space within a line: a line of common text is
 * one piece, not one for each of its words. */
static size_t plain(const struct dkim_canon_body *b, const char *p, size_t n)
{
	if (b->canon == DKIM_SIMPLE) {
		const char *cr = memchr(p, '\r', n);
		return cr ? (size_t)(cr - p) : n;
	}
	size_t i = 1;
	for (;;) {
		while (i < n && ordinary(p[i]))
			i++;
		if (i + 1 >= n || p[i] != ' ' || !ordinary(p[i + 1]))
			return i;
		i += 2;
	}
}

void dkim_canon_body_add(struct dkim_canon_body *b, const char *p, size_t n)
{
	size_t i = 0;
	while (i < n) {
		if (b->cr) {
			b->cr = false;
			if (p[i] == '\n') {
				b->blank = false; /* blanks at the end of a line go (§3.4.4) */
				b->lines++;
				i++;
				continue;
			}
			send_held(b);
			add_octet(&b->out, '\r');
		}
		if (p[i] == '\r' && i + 1 < n && p[i + 1] == '\n') {
			b->blank = false;
			b->lines++;
			i += 2;
		} else if (p[i] == '\r') {
			b->cr = true;
			i++;
		} else if (b->canon == DKIM_RELAXED && wsp(p[i])) {
			b->blank = true;
			i++;
		} else {
			size_t k = plain(b, p + i, n - i);
			if (b->lines || b->blank || !b->any)
				send_held(b);
			dkim_out_add(&b->out, p + i, k);
			i += k;
		}
	}
}

void dkim_canon_body_end(struct dkim_canon_body *b)
{
	if (b->cr) {
		b->cr = false;
		send_held(b);
		add_octet(&b->out, '\r');
	}
	/* Empty lines at the end are one line end, which is added when there was none; an empty body is a CRLF in simple
	 * (§3.4.3), nothing in relaxed (§3.4.4). */
	if (b->any || b->canon == DKIM_SIMPLE)
		dkim_out_add(&b->out, "\r\n", 2);
	b->lines = 0;
	dkim_out_flush(&b->out);
}
