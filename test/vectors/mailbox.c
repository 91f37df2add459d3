/* Mailboxes of header fields, for suites that speak of those; see vectors.h. */
#include "vectors.h"

/* Blanks and comments (RFC 5322 §3.2.2), in brackets up to ten deep. False: a comment without end. */
static bool skip_cfws(struct str *s)
{
	unsigned depth = 0;
	while (s->n) {
		char c = s->p[0];
		if (depth && c == '\\' && s->n > 1)
			*s = str_skip(*s, 1);
		else if (c == '(' && depth < 10)
			depth++;
		else if (depth && c == ')')
			depth--;
		else if (!depth && c != ' ' && c != '\t')
			return true;
		*s = str_skip(*s, 1);
	}
	return !depth;
}

static bool quoted_string(struct str *s)
{
	for (size_t i = 1; i < s->n; i++) {
		if (s->p[i] == '\\')
			i++;
		else if (s->p[i] == '"') {
			*s = str_skip(*s, i + 1);
			return true;
		}
	}
	return false;
}

static size_t atom(struct str s)
{
	size_t n = 0;
	while (n < s.n && (unsigned char)s.p[n] > 32 && s.p[n] != 127 && !memchr("()<>[]:;@\\,\"", s.p[n], 12))
		n++;
	return n;
}

/* phrase = 1*word, and dots (obs-phrase); leaves what is behind it. */
static bool phrase(struct str *s)
{
	while (skip_cfws(s) && s->n && s->p[0] != '<') {
		size_t n = atom(*s);
		if (!n && !(s->p[0] == '"' && quoted_string(s)))
			return false;
		*s = str_skip(*s, n);
	}
	return s->n && s->p[0] == '<';
}

bool vectors_mailbox(struct str s, struct str *ret)
{
	struct str rest = s;
	if (phrase(&rest)) {
		ptrdiff_t close = str_chr(rest, '>');
		if (close < 1)
			return false;
		*ret = str_n(rest.p + 1, (size_t)close - 1);
		rest = str_skip(rest, (size_t)close + 1);
		return skip_cfws(&rest) && !rest.n;
	}
	rest = s;
	if (!skip_cfws(&rest))
		return false;
	*ret = rest;
	return true;
}
