/* Writes reply lines; see reply.h. */
#include "reply.h"

/* The octets of the character at s.p[0], which is not ASCII: 0 when it is not UTF-8 or a C1 control. */
static size_t utf8_char(struct str s)
{
	unsigned char c = (unsigned char)s.p[0];
	size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
	if (s.n < n || !str_is_utf8(str_n(s.p, n)) || (c == 0xc2 && (unsigned char)s.p[1] < 0xa0))
		return 0;
	return n;
}

static void write_line(struct buf *out, unsigned code, char sep, const char *status, struct str text)
{
	size_t start = out->n;
	buf_addf(out, "%03u%c", code % 1000, sep);
	if (status)
		buf_addf(out, "%s ", status);
	for (size_t i = 0; i < text.n;) {
		unsigned char c = (unsigned char)text.p[i];
		size_t n = c < 128 ? 1 : utf8_char(str_skip(text, i));
		if (out->failed || out->n - start + (n ? n : 1) > SMTP_REPLY_LINE_MAX - 2)
			break;
		if (!n || c < 32 || c == 127)
			buf_addc(out, '?');
		else
			buf_add(out, text.p + i, n);
		i += n ? n : 1;
	}
	buf_addz(out, "\r\n");
}

int smtp_reply_write(struct buf *out, unsigned code, const char *status, struct str text)
{
	for (unsigned lines = 1;; lines++) {
		ptrdiff_t nl = str_chr(text, '\n');
		struct str line = nl < 0 ? text : str_n(text.p, (size_t)nl);
		text = nl < 0 ? STR_NULL : str_skip(text, (size_t)nl + 1);
		bool last = !text.n || lines == SMTP_REPLY_LINES_MAX;
		write_line(out, code, last ? ' ' : '-', status, line);
		if (last)
			return out->failed ? -1 : 0;
	}
}
