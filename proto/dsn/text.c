/* Words: safe text of others, and what a cause is called. */
#include "dsn_internal.h"
#include "proto/smtp/status.h"

enum { UTF8_OCTETS = 4 }; /* of the longest character */

bool dsn_status_ok(struct str s)
{
	struct smtp_status st;
	size_t used;
	return smtp_status_parse(s, &st, &used) == 0 && used == s.n;
}

/* The character at s.p[i], known to be UTF-8; *n: its octets. */
static unsigned long character(struct str s, size_t i, size_t *n)
{
	unsigned char c = (unsigned char)s.p[i];
	unsigned long v = c < 0x80 ? c : c < 0xe0 ? c & 0x1f : c < 0xf0 ? c & 0x0f : c & 0x07;
	*n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	for (size_t k = 1; k < *n; k++)
		v = v << 6 | ((unsigned char)s.p[i + k] & 0x3f);
	return v;
}

/* Not seen, or changes how its neighbours are shown: zero-width, soft hyphen, line separators, marks of direction, tags. The joiners
 * U+200C and U+200D stay: languages need them. */
static bool hidden(unsigned long v)
{
	return v == 0xad || v == 0x61c || v == 0x180e || v == 0x200b || v == 0x200e || v == 0x200f || (v >= 0x2028 && v <= 0x202e) ||
	    (v >= 0x2060 && v <= 0x206f) || v == 0xfeff || (v >= 0xfff9 && v <= 0xfffb) || (v >= 0xe0000 && v <= 0xe007f);
}

static int safe(struct buf *out, struct str s, bool utf8, size_t max, const char *escaped)
{
	if (s.n / UTF8_OCTETS > max) /* each character becomes an octet at least: what is behind these is not shown, so it is not looked at */
		s.n = str_utf8_cut(s, UTF8_OCTETS * max);
	bool valid = str_is_utf8(s);
	size_t end = out->n + max;
	for (size_t i = 0, n = 1; i < s.n; i += n) {
		unsigned long v = valid ? character(s, i, &n) : (unsigned char)s.p[i];
		char text[16];
		struct str piece = str_n(s.p + i, n);
		if (v < 32 || v == 127 || (valid && v > 127 && v < 160)) {
			piece = STR(" ");
		} else if (v > 127 && !valid) {
			piece = STR("?");
		} else if (v > 127 ? !utf8 || hidden(v) : strchr(escaped, (int)v) != NULL) {
			static const char digits[] = "0123456789ABCDEF";
			size_t k = sizeof text;
			text[--k] = '}';
			for (; v; v >>= 4)
				text[--k] = digits[v & 15];
			text[--k] = '{';
			text[--k] = 'x';
			text[--k] = '\\';
			piece = str_n(text + k, sizeof text - k);
		}
		if (out->n + piece.n > end)
			break;
		buf_adds(out, piece);
	}
	return out->failed ? -1 : 0;
}

int dsn_text(struct buf *out, struct str s, bool utf8, size_t max)
{
	return safe(out, s, utf8, max, "");
}

int dsn_utf8_address(struct buf *out, struct str s, bool utf8, size_t max)
{
	return safe(out, s, utf8, max, "\\+=");
}

const char *dsn_cause_text(enum dsn_cause cause)
{
	switch (cause) {
	case DSN_CAUSE_OPERATOR:
		return "returned by the postmaster";
	case DSN_CAUSE_STAGE:
		return "the message could not be processed here";
	case DSN_CAUSE_SLOW:
		return "the message could not be processed here: it took too long";
	case DSN_CAUSE_CRASH:
		return "the message could not be processed here: the program that had it ended without an answer";
	case DSN_CAUSE_NONE:
		break;
	}
	return "";
}

enum dsn_kind dsn_action(const struct dsn *d, const struct dsn_rcpt *r)
{
	return d->kind >= DSN_DELIVERED && r->action >= DSN_DELIVERED ? r->action : d->kind;
}
