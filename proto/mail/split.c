/* Finds the end of the header block. Looks at octets only; allocates nothing, judges nothing. */
#include "split.h"

#include "header.h"

/* The line at the front of s with its CRLF; all of s when there is none. */
static size_t line_end(struct str s)
{
	const char *at = s.n ? memmem(s.p, s.n, "\r\n", 2) : NULL;
	return at ? (size_t)(at - s.p) + 2 : s.n;
}

bool mail_headless(struct str raw)
{
	return raw.n && (raw.p[0] == ' ' || raw.p[0] == '\t');
}

void mail_split(struct str raw, struct mail_split *ret)
{
	const char *at;
	*ret = (struct mail_split){ 0 };
	if (mail_headless(raw)) {
		ret->headers = str_n(raw.p, 0);
		ret->body = raw;
		return;
	}
	if (raw.n >= 2 && raw.p[0] == '\r' && raw.p[1] == '\n') {
		ret->headers = str_n(raw.p, 0);
		ret->body = str_skip(raw, 2);
		ret->separated = true;
		return;
	}
	at = raw.n ? memmem(raw.p, raw.n, "\r\n\r\n", 4) : NULL;
	if (at) {
		size_t n = (size_t)(at - raw.p) + 2;
		ret->headers = str_n(raw.p, n);
		ret->body = str_skip(raw, n + 2);
		ret->separated = true;
		return;
	}
	/* No empty line: text that was meant as a body must not end up as a header block of garbage. */
	size_t pos = 0;
	while (pos < raw.n) {
		struct str rest = str_skip(raw, pos);
		size_t n = line_end(rest);
		bool folded = rest.p[0] == ' ' || rest.p[0] == '\t';
		if (!folded && !mail_field_line_ok(str_n(rest.p, n)))
			break;
		pos += n;
	}
	ret->headers = str_n(raw.p, pos);
	ret->body = str_skip(raw, pos);
	ret->unterminated = pos && (pos < 2 || memcmp(raw.p + pos - 2, "\r\n", 2) != 0);
}
