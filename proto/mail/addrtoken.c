/* The tokens of structured fields; see addrtoken.h. Each octet is looked at a bounded number of times. */
#include "proto/mail/addrtoken.h"

#include "proto/mail/addrlist.h"
#include "proto/mail/encoded.h"

bool mail_is_atext(char c)
{
	unsigned char u = (unsigned char)c;
	return u > 32 && u != 127 && !memchr("()<>[]:;@\\,.\"", u, 13);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void mail_scanner_init(struct mail_scanner *s, struct str value)
{
	*s = (struct mail_scanner){ .rest = value };
	for (size_t i = 0; i < value.n; i++) {
		if (value.p[i] == '\r' && (i + 1 == value.n || value.p[i + 1] != '\n'))
			s->bad |= i + 1 < value.n;
		if (value.p[i] == 0)
			s->bad = true;
		if (value.p[i] == '\n' && (i + 1 == value.n || (value.p[i + 1] != ' ' && value.p[i + 1] != '\t'))) {
			s->rest.n = i;
			s->bad |= str_trim(str_skip(value, i)).n > 0;
			return;
		}
	}
}

/* The octet behind the closer, with *text between; the whole rest if it is not closed. */
static size_t enclosed(struct mail_scanner *s, char closer, struct mail_token *t)
{
	size_t i = 1;
	while (i < s->rest.n && s->rest.p[i] != closer)
		i += s->rest.p[i] == '\\' ? 2 : 1;
	if (i >= s->rest.n) {
		t->bad = s->bad = true;
		t->text = str_skip(s->rest, 1);
		return s->rest.n;
	}
	t->text = str_n(s->rest.p + 1, i - 1);
	return i + 1;
}

static size_t comment(struct mail_scanner *s, struct mail_token *t)
{
	size_t depth = 0, i = 0;
	for (; i < s->rest.n; i++) {
		char c = s->rest.p[i];
		if (c == '\\')
			i++;
		else if (c == '(' && ++depth > MAIL_ADDRLIST_DEPTH_MAX)
			s->deep = true;
		else if (c == ')' && !--depth) {
			t->text = str_n(s->rest.p + 1, i - 1);
			return i + 1;
		}
	}
	t->bad = s->bad = true;
	t->text = str_skip(s->rest, 1);
	return s->rest.n;
}

/* Encoded words may hold octets that are no atext, for writers often do not escape them. */
static size_t encoded(struct str s)
{
	size_t n = 0, one;
	while ((one = mail_encoded_span(str_skip(s, n))) > 0)
		n += one;
	return n < s.n && mail_is_atext(s.p[n]) ? 0 : n;
}

static size_t atom(struct str s)
{
	size_t n = 0;
	while (n < s.n && mail_is_atext(s.p[n]))
		n++;
	return n;
}

void mail_scanner_next(struct mail_scanner *s, struct mail_token *ret)
{
	struct mail_token t = { 0 };
	size_t used = 0;
	while (used < s->rest.n && is_blank(s->rest.p[used]))
		used++;
	t.blank = used > 0;
	s->rest = str_skip(s->rest, used);
	if (!s->rest.n) {
		*ret = t;
		return;
	}
	switch (s->rest.p[0]) {
	case '(':
		t.kind = MAIL_TOKEN_COMMENT;
		used = comment(s, &t);
		break;
	case '"':
		t.kind = MAIL_TOKEN_QUOTED;
		used = enclosed(s, '"', &t);
		break;
	case '[':
		t.kind = MAIL_TOKEN_LITERAL;
		used = enclosed(s, ']', &t);
		break;
	default:
		used = s->rest.p[0] == '=' ? encoded(s->rest) : 0;
		if (!used)
			used = atom(s->rest);
		t.kind = used ? MAIL_TOKEN_ATOM : MAIL_TOKEN_SPECIAL;
		used += !used;
		t.text = str_n(s->rest.p, used);
	}
	s->rest = str_skip(s->rest, used);
	*ret = t;
}
