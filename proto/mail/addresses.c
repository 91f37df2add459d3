/* The reader of addresses.h: one pass over the text, an element at a time. */
#include "addresses.h"

void mail_addresses_begin(struct mail_addresses *m, struct str value)
{
	m->rest = value;
	m->n = 0;
}

struct element {
	char *out;
	size_t n;
	bool angle, closed; /* <…> has begun, is over */
	bool words;         /* something besides comments and blanks was there */
	bool blank;         /* a blank or comment stood before what comes */
	bool gap;           /* two words side by side: the name before <…>, or no address */
	bool bad;
};

static void put(struct element *e, char c)
{
	if (e->n == MAIL_ADDRESS_OCTETS)
		e->bad = true;
	else
		e->out[e->n++] = c;
}

/* Behind the comment that begins at p. */
static const char *comment(const char *p, const char *end)
{
	unsigned depth = 0;
	for (; p < end; p++) {
		if (*p == '\\' && p + 1 < end)
			p++;
		else if (*p == '(')
			depth++;
		else if (*p == ')' && !--depth)
			return p + 1;
	}
	return NULL;
}

/* Behind the quoted string or domain literal that begins at p, which is taken as it stands, folds apart. */
static const char *span(struct element *e, const char *p, const char *end, char close)
{
	put(e, *p++);
	for (; p < end; p++) {
		if (*p == '\r' || *p == '\n')
			continue;
		put(e, *p);
		if (*p == close)
			return p + 1;
		if (*p == '\\' && p + 1 < end)
			put(e, *++p);
	}
	return NULL;
}

/* One special character outside of comments and strings. Returns true at the end of the element. */
static bool special(struct element *e, char c)
{
	switch (c) {
	case '<':
		e->bad |= e->angle;
		e->angle = true;
		e->gap = false;
		e->n = 0; /* what stood before was a name */
		return false;
	case '>':
		e->bad |= !e->angle || e->closed;
		e->closed = true;
		return false;
	case ':':
		if (e->angle && !e->closed && e->n && e->out[0] == '@') { /* the end of a source route (§4.4) */
			e->n = 0;
			return false;
		}
		e->bad |= e->angle || !e->words; /* else the name of a group */
		e->n = 0;
		e->words = e->gap = false;
		return false;
	case ',':
		if (e->angle && !e->closed) { /* within a source route */
			e->bad |= !e->n || e->out[0] != '@';
			put(e, c);
			return false;
		}
		return true;
	default: /* ; ends a group, and with it its last element */
		return true;
	}
}

int mail_addresses_next(struct mail_addresses *m, struct str *ret)
{
	struct element e = { .out = m->address };
	const char *p = m->rest.p, *end = p ? p + m->rest.n : p;
	while (p < end && !e.bad) {
		char c = *p;
		bool over = false;
		if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
			e.blank = true;
			p++;
			continue;
		}
		if (c == '(') {
			e.blank = true;
			if (!(p = comment(p, end)))
				goto bad;
			continue;
		}
		if (strchr("<>:,;", c) && c) {
			over = special(&e, c);
			e.words |= c == '<';
			p++;
		} else {
			e.bad |= e.closed;
			e.words = true;
			e.gap |= e.blank && e.n && c != '.' && c != '@' && e.out[e.n - 1] != '.' && e.out[e.n - 1] != '@';
			if (c == '"' || c == '[')
				p = span(&e, p, end, c == '"' ? '"' : ']');
			else
				put(&e, *p++);
			if (!p)
				goto bad;
		}
		e.blank = false;
		if (over && e.words)
			break;
		if (over)
			e = (struct element){ .out = m->address };
	}
	if (e.bad || e.gap || (e.angle && !e.closed))
		goto bad;
	m->rest = p < end ? str_n(p, (size_t)(end - p)) : STR_NULL;
	if (!e.words)
		return 0;
	*ret = str_n(m->address, e.n);
	if (str_chr(*ret, '@') < 0 || m->n++ == MAIL_ADDRESSES_MAX)
		goto bad;
	return 1;
bad:
	m->rest = STR_NULL;
	return -1;
}
