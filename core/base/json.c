/* JSON text into a buffer. Errors are the buffer's (sticky); reads nothing but its arguments. */
#include "json.h"

/* Length of the valid UTF-8 sequence at the front of s (s.p[0] >= 0x80), 0 when there is none. */
static size_t utf8_at(struct str s)
{
	unsigned char c = (unsigned char)s.p[0];
	size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
	return c >= 0xc2 && c <= 0xf4 && n <= s.n && str_is_utf8(str_n(s.p, n)) ? n : 0;
}

static bool plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void json_put_str(struct buf *out, struct str s)
{
	buf_addc(out, '"');
	for (size_t i = 0; i < s.n;) {
		size_t run = i, k;
		while (run < s.n && plain((unsigned char)s.p[run]))
			run++;
		if (run > i) {
			buf_add(out, s.p + i, run - i);
			i = run;
			continue;
		}
		unsigned char c = (unsigned char)s.p[i];
		if (c >= 0x80 && (k = utf8_at(str_skip(s, i))) > 0) {
			buf_add(out, s.p + i, k);
			i += k;
			continue;
		}
		if (c == '"' || c == '\\') {
			buf_addc(out, '\\');
			buf_addc(out, (char)c);
		} else if (c == 0) {
			buf_addz(out, "\\ufffd");
		} else {
			buf_addf(out, "\\u00%02x", c);
		}
		i++;
	}
	buf_addc(out, '"');
}

void json_put_key(struct buf *out, const char *key)
{
	if (out->n && out->p[out->n - 1] != '{')
		buf_addc(out, ',');
	buf_addc(out, '"');
	buf_addz(out, key);
	buf_addz(out, "\":");
}

void json_put_member(struct buf *out, const char *key, struct str value)
{
	json_put_key(out, key);
	json_put_str(out, value);
}

void json_put_bool(struct buf *out, const char *key, bool value)
{
	json_put_key(out, key);
	buf_addz(out, value ? "true" : "false");
}
