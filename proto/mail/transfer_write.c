/* Base64 and quoted-printable, written piece by piece; see transfer.h. Each octet is looked at a bounded number of times, nothing is kept but the
 * place reached. No knowledge of parts or messages: which content gets which encoding is downgrade.c's to say. */
#include "proto/mail/transfer.h"

enum {
	LINE = 76,     /* RFC 2045 §6.7 (5), §6.8 */
	TRIPLES = 19,  /* of a base64 line */
};

const char *mail_transfer_name(enum mail_transfer encoding)
{
	static const char *const names[] = { "7bit", "8bit", "binary", "base64", "quoted-printable" };
	return encoding < MAIL_TRANSFER_UNKNOWN ? names[encoding] : "";
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void base64_line(struct str s, struct buf *out)
{
	char line[LINE], *p = line;
	for (size_t i = 0; i < s.n; i += 3) {
		const unsigned char *c = (const unsigned char *)s.p + i;
		size_t n = s.n - i;
		uint32_t v = (uint32_t)c[0] << 16 | (n > 1 ? (uint32_t)c[1] << 8 : 0) | (n > 2 ? c[2] : 0);
		*p++ = digits[v >> 18];
		*p++ = digits[v >> 12 & 63];
		*p++ = n > 1 ? digits[v >> 6 & 63] : '=';
		*p++ = n > 2 ? digits[v & 63] : '=';
	}
	buf_add(out, line, (size_t)(p - line));
}

static void base64_next(struct mail_encoder *e, struct buf *out, size_t want)
{
	size_t before = out->n;
	while (e->rest.n && out->n - before < want && !out->failed) {
		size_t n = e->rest.n < TRIPLES * 3 ? e->rest.n : TRIPLES * 3;
		base64_line(str_n(e->rest.p, n), out);
		e->rest = str_skip(e->rest, n);
		if (e->rest.n)
			buf_add(out, "\r\n", 2);
	}
}

/* The digits, and the signs that end them: some readers stop there, some go on, and both see what they saw before. */
static void base64_mend(struct mail_encoder *e, struct buf *out, size_t want)
{
	size_t before = out->n, i = 0;
	for (; i < e->rest.n && out->n - before < want && !out->failed; i++) {
		char c = e->rest.p[i];
		bool digit = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/' || c == '=';
		if (!digit)
			continue;
		if (e->column == LINE) {
			buf_add(out, "\r\n", 2);
			e->column = 0;
		}
		buf_addc(out, c);
		e->column++;
	}
	e->rest = str_skip(e->rest, i);
}

static bool is_end(struct str s, size_t i)
{
	return i + 1 < s.n && s.p[i] == '\r' && s.p[i + 1] == '\n';
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

/* The octets of a fold that stands at i in quoted-printable text ("=", blanks, a line end), as mail_transfer_decode() sees it; 0: none. */
static size_t fold_at(struct str s, size_t i)
{
	size_t k = i + 1;
	while (k < s.n && (s.p[k] == ' ' || s.p[k] == '\t' || s.p[k] == '\r'))
		k++;
	return k < s.n && s.p[k] == '\n' ? k + 1 - i : 0;
}

/* Writes one piece that must not be parted, behind a fold where the line is full. last: the line ends behind it. */
static void put(struct mail_encoder *e, struct buf *out, const char *p, unsigned n, bool last)
{
	char minus[] = "=2D";
	if (e->column + n > (last ? LINE : LINE - 1u)) {
		buf_add(out, "=\r\n", 3);
		e->column = 0;
		e->soft = true;
	}
	if (e->column == 0 && e->soft && n == 1 && *p == '-') {
		p = minus;
		n = 3;
	}
	buf_add(out, p, n);
	e->column += n;
}

static void qp_next(struct mail_encoder *e, struct buf *out, size_t want)
{
	static const char xdigits[] = "0123456789ABCDEF";
	struct str s = e->rest;
	size_t before = out->n, i = 0;
	bool mend = e->how == MAIL_ENCODE_QP_MEND;
	while (i < s.n && out->n - before < want && !out->failed) {
		unsigned char c = (unsigned char)s.p[i];
		size_t fold;
		if (is_end(s, i)) {
			buf_add(out, "\r\n", 2);
			e->column = 0;
			e->soft = false;
			i += 2;
			continue;
		}
		if (mend && c == '=' && (fold = fold_at(s, i)) > 0) {
			buf_add(out, "=\r\n", 3);
			e->column = 0;
			e->soft = true;
			i += fold;
			continue;
		}
		bool triple = mend && c == '=' && i + 2 < s.n && is_hex(s.p[i + 1]) && is_hex(s.p[i + 2]);
		if (triple) {
			put(e, out, s.p + i, 3, i + 3 == s.n || is_end(s, i + 3));
			i += 3;
			continue;
		}
		bool last = i + 1 == s.n || is_end(s, i + 1), blank = c == ' ' || c == '\t';
		if ((c > 32 && c < 127 && c != '=') || (blank && (mend || !last))) {
			put(e, out, s.p + i, 1, last);
		} else {
			char escape[3] = { '=', xdigits[c >> 4], xdigits[c & 15] };
			put(e, out, escape, 3, last);
		}
		i++;
	}
	e->rest = str_skip(s, i);
}

void mail_encoder_init(struct mail_encoder *e, enum mail_encode how, struct str content)
{
	*e = (struct mail_encoder){ .how = how, .rest = content };
}

bool mail_encoder_next(struct mail_encoder *e, struct buf *out, size_t want)
{
	switch (e->how) {
	case MAIL_ENCODE_NONE: {
		size_t n = e->rest.n < want ? e->rest.n : want;
		buf_add(out, e->rest.p, n);
		e->rest = str_skip(e->rest, n);
		break;
	}
	case MAIL_ENCODE_BASE64:
		base64_next(e, out, want);
		break;
	case MAIL_ENCODE_BASE64_MEND:
		base64_mend(e, out, want);
		break;
	case MAIL_ENCODE_QP:
	case MAIL_ENCODE_QP_MEND:
		qp_next(e, out, want);
		break;
	}
	return e->rest.n > 0;
}

int mail_transfer_encode_qp(struct str text, struct buf *out)
{
	struct mail_encoder e;
	mail_encoder_init(&e, MAIL_ENCODE_QP, text);
	while (mail_encoder_next(&e, out, SIZE_MAX) && !out->failed)
		;
	return out->failed ? -1 : 0;
}

static bool is_open(struct str s)
{
	return s.n < 2 || s.p[s.n - 2] != '\r' || s.p[s.n - 1] != '\n';
}

uint64_t mail_encode_size(enum mail_encode how, struct str content, bool *ret_open)
{
	enum { STEP = 16 * 1024 };
	struct mail_encoder e;
	struct buf b = BUF_INIT(STEP * 2);
	uint64_t n = 0;
	if (!content.n)
		return 0;
	if (how == MAIL_ENCODE_NONE || how == MAIL_ENCODE_BASE64)
		*ret_open = how == MAIL_ENCODE_BASE64 || is_open(content);
	if (how == MAIL_ENCODE_NONE)
		return content.n;
	if (how == MAIL_ENCODE_BASE64)
		return (content.n + 2) / 3 * 4 + (content.n - 1) / (TRIPLES * 3) * 2;
	mail_encoder_init(&e, how, content);
	for (bool more = true; more && n != UINT64_MAX; buf_reset(&b)) {
		more = mail_encoder_next(&e, &b, STEP);
		n = b.failed ? UINT64_MAX : n + b.n;
		if (b.n) /* nothing may be left of what was to be mended */
			*ret_open = is_open(buf_str(&b)); /* a line end is never parted */
	}
	buf_free(&b);
	return n;
}

struct mail_content mail_content_look(struct str s)
{
	struct mail_content c = { 0 };
	size_t begin = 0;
	for (size_t i = 0; i < s.n; i++) {
		unsigned char x = (unsigned char)s.p[i];
		if (x >= 32 && x < 127) {
			c.escapes += x == '=';
			continue;
		}
		if (is_end(s, i)) {
			c.escapes += i > begin && (s.p[i - 1] == ' ' || s.p[i - 1] == '\t');
			c.longest = i - begin > c.longest ? i - begin : c.longest;
			begin = ++i + 1;
			continue;
		}
		c.escapes += x != '\t';
		c.eight |= x > 127;
		c.bad |= !x || x == '\r' || x == '\n';
	}
	c.longest = s.n > begin && s.n - begin > c.longest ? s.n - begin : c.longest;
	return c;
}
