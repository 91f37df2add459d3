/* Texts of bounces made readable: UTF-8 whatever they say or do not say of themselves, lines of HTML, and one line of what was said of a recipient. Knows
 * nothing of what the words mean. */
#include "read_internal.h"

#include "proto/mail/charset.h"

/* Line by line: line ends would become blanks else. */
static int lines_to_utf8(struct str charset, struct str text, struct buf *out)
{
	int r = 0;
	while (!r && text.n) {
		const char *nl = memchr(text.p, '\n', text.n);
		size_t n = nl ? (size_t)(nl - text.p) : text.n;
		r = mail_charset_to_utf8(charset, str_n(text.p, n), out);
		if (!r && nl)
			r = buf_addc(out, '\n');
		text = str_skip(text, n + (nl != NULL));
	}
	return r;
}

struct str dsn_read_utf8(struct str charset, struct str text, struct buf *out)
{
	bool silent = !charset.n || str_ieq(charset, STR("us-ascii")) || str_ieq(charset, STR("ascii")), escapes = text.n && memmem(text.p, text.n, "\x1b$", 2);
	if (str_is_ascii(text) && !escapes)
		return text;
	if (escapes && !str_istarts(charset, STR("iso-2022")))
		charset = STR("iso-2022-jp"); /* many do not name it */
	else if (silent && str_is_utf8(text))
		return text;
	else if (silent)
		charset = STR("windows-1252");
	if (lines_to_utf8(charset, text, out) > 0) /* unknown */
		lines_to_utf8(STR("utf-8"), text, out);
	return buf_str(out);
}

struct str dsn_read_line(struct dsn_gather *g, struct str text)
{
	struct buf line = BUF_INIT(DSN_READ_DIAGNOSTIC_MAX), utf8 = BUF_INIT(DSN_READ_DIAGNOSTIC_MAX * 4), clean = BUF_INIT(DSN_READ_DIAGNOSTIC_MAX * 4);
	bool blank = true;
	for (size_t i = 0; i < text.n && line.n < DSN_READ_DIAGNOSTIC_MAX; i++) {
		unsigned char c = (unsigned char)text.p[i];
		bool is = (c <= ' ' && c != 0x1b) || c == 127;
		if (!is || !blank)
			buf_addc(&line, is ? ' ' : text.p[i]);
		blank = is;
	}
	text = buf_str(&line);
	if (line.n == DSN_READ_DIAGNOSTIC_MAX)
		text.n = str_utf8_cut(text, text.n - 4); /* half a character would make it look like no UTF-8 */
	mail_charset_clean(dsn_read_utf8(STR_NULL, text, &utf8), &clean);
	struct str r = str_n(clean.p, str_utf8_cut(buf_str(&clean), DSN_READ_DIAGNOSTIC_MAX));
	r = arena_str(g->r->mem, str_trim(r));
	g->memory |= !r.p;
	buf_free(&line);
	buf_free(&utf8);
	buf_free(&clean);
	return r;
}

void dsn_read_strip_html(struct str s, struct buf *out)
{
	for (size_t i = 0; i < s.n && out->n < DSN_READ_TEXT_MAX; i++) {
		if (s.p[i] == '<' && i + 1 < s.n && ((s.p[i + 1] | 0x20) == 'b' || (s.p[i + 1] | 0x20) == 'p' || (s.p[i + 1] | 0x20) == 'd' || s.p[i + 1] == '/' ||
		    ((s.p[i + 1] | 0x20) >= 'a' && (s.p[i + 1] | 0x20) <= 'z') || s.p[i + 1] == '!')) {
			size_t k = i;
			bool address = false;
			while (k < s.n && s.p[k] != '>' && k - i < 2000)
				address |= s.p[k++] == '@' && k - i < 100 && memchr(s.p + i, ' ', k - i) == NULL;
			if (!address) {
				char c = (char)(s.p[i + 1] | 0x20);
				buf_addc(out, c == 'b' || c == 'p' || c == 'd' || c == 't' || c == 'h' ? '\n' : ' ');
				i = k;
				continue;
			}
		}
		if (s.p[i] == '&' && str_istarts(str_skip(s, i), STR("&lt;"))) {
			buf_addc(out, '<');
			i += 3;
		} else if (s.p[i] == '&' && str_istarts(str_skip(s, i), STR("&gt;"))) {
			buf_addc(out, '>');
			i += 3;
		} else if (s.p[i] == '&' && str_istarts(str_skip(s, i), STR("&nbsp;"))) {
			buf_addc(out, ' ');
			i += 5;
		} else {
			buf_addc(out, s.p[i]);
		}
	}
}
