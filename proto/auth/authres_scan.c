/* Pieces of Authentication-Results; see authres_scan.h. */
#include "proto/auth/authres_scan.h"

#include "proto/auth/authres.h"

bool authres_skip_cfws(struct str *s)
{
	size_t depth = 0, i = 0;
	for (; i < s->n; i++) {
		char c = s->p[i];
		if (c == '(') {
			if (++depth > AUTHRES_DEPTH_MAX)
				break;
		} else if (depth && c == ')')
			depth--;
		else if (depth && c == '\\')
			i++;
		else if (!depth && c != ' ' && c != '\t' && c != '\r' && c != '\n')
			break;
	}
	*s = str_skip(*s, depth ? s->n : i);
	return !depth;
}

bool authres_take_quoted(struct str *s, struct buf *out)
{
	for (size_t i = 1; i < s->n; i++) {
		char c = s->p[i];
		if (c == '"') {
			*s = str_skip(*s, i + 1);
			return true;
		}
		if (c == '\r' || c == '\n')
			continue; /* RFC 5322 §2.2.3: of a fold only the blank stays */
		if (c == '\\' && i + 1 < s->n)
			c = s->p[++i];
		buf_addc(out, c);
	}
	*s = str_skip(*s, s->n);
	return false;
}

bool authres_is_token(char c)
{
	unsigned char u = (unsigned char)c;
	return u > 32 && u != 127 && !memchr("()<>@,;:\\\"/[]?=", u, 15);
}

size_t authres_keyword(struct str s)
{
	size_t n = 0;
	while (n < s.n && (ascii_is_alnum(s.p[n]) || s.p[n] == '-' || s.p[n] == '_'))
		n++;
	return n;
}
