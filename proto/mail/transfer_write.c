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

/* How wide an octet is in quoted-printable; 0: that depends on what is around it. */
static unsigned width(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '=' ? 0 : c > 32 && c < 127 ? 1 : 3;
}

/* The octets that come out of qp_next() for all of s: the same steps, nothing written. A message of tens of megabytes is measured in some ten milliseconds:
 * a loop of many sessions waits for it. Runs of octets that fit into the line are the fast way; ends of lines, and of runs, the other. */
static uint64_t qp_size(struct str s, bool mend, bool *ret_open)
{
	unsigned char wide[256];
	uint64_t n = 0;
	unsigned column = 0;
	bool soft = false, open = true;
	for (unsigned c = 0; c < sizeof wide; c++)
		wide[c] = (unsigned char)width((unsigned char)c);
	for (size_t i = 0; i < s.n;) {
		unsigned from = column, w = 0;
		size_t fold;
		open = true;
		if (column || !soft) /* else it may be the "-" that put() hides */
			for (; i < s.n && (w = wide[(unsigned char)s.p[i]]) && column + w < LINE; i++)
				column += w;
		n += column - from;
		if (i == s.n)
			break;
		unsigned char c = (unsigned char)s.p[i];
		if (is_end(s, i)) {
			n += 2;
			column = 0;
			soft = open = false;
			i += 2;
			continue;
		}
		if (mend && c == '=' && (fold = fold_at(s, i)) > 0) {
			n += 3;
			column = 0;
			soft = true;
			open = false;
			i += fold;
			continue;
		}
		bool triple = mend && c == '=' && i + 2 < s.n && is_hex(s.p[i + 1]) && is_hex(s.p[i + 2]);
		size_t behind = i + (triple ? 3 : 1);
		bool last = behind == s.n || is_end(s, behind), blank = c == ' ' || c == '\t';
		w = !triple && ((c > 32 && c < 127 && c != '=') || (blank && (mend || !last))) ? 1 : 3;
		if (column + w > (last ? LINE : LINE - 1u)) {
			n += 3;
			column = 0;
			soft = true;
		}
		w = column == 0 && soft && c == '-' ? 3 : w;
		n += w;
		column += w;
		i = behind;
	}
	if (s.n)
		*ret_open = open;
	return n;
}

static uint64_t base64_mend_size(struct str s, bool *ret_open)
{
	unsigned char digit[256] = { ['+'] = 1, ['='] = 1 };
	uint64_t n = 0;
	for (size_t i = 0; i < sizeof digits - 1; i++)
		digit[(unsigned char)digits[i]] = 1;
	for (size_t i = 0; i < s.n; i++)
		n += digit[(unsigned char)s.p[i]];
	if (!n) /* nothing is left of what was to be mended */
		return 0;
	*ret_open = true;
	return n + (n - 1) / LINE * 2;
}

uint64_t mail_encode_size(enum mail_encode how, struct str content, bool *ret_open)
{
	if (!content.n)
		return 0;
	switch (how) {
	case MAIL_ENCODE_NONE:
		*ret_open = is_open(content);
		return content.n;
	case MAIL_ENCODE_BASE64:
		*ret_open = true;
		return (content.n + 2) / 3 * 4 + (content.n - 1) / (TRIPLES * 3) * 2;
	case MAIL_ENCODE_BASE64_MEND:
		return base64_mend_size(content, ret_open);
	case MAIL_ENCODE_QP:
	case MAIL_ENCODE_QP_MEND:
		break;
	}
	return qp_size(content, how == MAIL_ENCODE_QP_MEND, ret_open);
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
