/* JSON text writers. No parsing here. */
#include "json.h"

/* Length of the valid UTF-8 character at the front of s, or 0. */
static size_t utf8_length(struct str s)
{
	unsigned char c = s.n ? (unsigned char)s.p[0] : 0;
	size_t n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;
	return n && n <= s.n && str_is_utf8(str_n(s.p, n)) ? n : 0;
}

void admin_json_string(struct buf *out, struct str s)
{
	buf_addc(out, '"');
	while (s.n) {
		unsigned char c = (unsigned char)s.p[0];
		size_t n = utf8_length(s);
		if (n == 0) {
			buf_addz(out, "\\ufffd");
			n = 1;
		} else if (c == '"' || c == '\\') {
			buf_addc(out, '\\');
			buf_addc(out, (char)c);
		} else if (c < 0x20 || c == 0x7f) {
			buf_addf(out, "\\u%04x", c);
		} else if (c == 0xc2 && (unsigned char)s.p[1] < 0xa0) {
			buf_addf(out, "\\u%04x", (unsigned char)s.p[1]);
		} else {
			buf_add(out, s.p, n);
		}
		s = str_skip(s, n);
	}
	buf_addc(out, '"');
}

void admin_json_stringz(struct buf *out, const char *z)
{
	if (z)
		admin_json_string(out, str_from(z));
	else
		buf_addz(out, "null");
}

void admin_json_one_line(struct buf *out, const char *json)
{
	size_t from = out->n;
	if (buf_addz(out, json))
		return;
	/* inside strings JSON has no raw line ends, so these stand between tokens */
	for (size_t i = from; i < out->n; i++)
		if (out->p[i] == '\n' || out->p[i] == '\r')
			out->p[i] = ' ';
}
