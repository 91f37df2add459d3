/* Encoded words; see encoded.h. */
#include "proto/mail/encoded.h"

#include "proto/mail/charset.h"
#include "proto/mail/header.h"

enum {
	WORD_MAX = 75, /* RFC 2047 §2 */
	CHARSET_MAX = 64,
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The parts of an encoded word, all within s. */
struct word {
	struct str charset, text;
	bool base64;
	size_t n;
};

/* Looks no further than the first "?" or blank behind the charset's and the encoding's, so that scanning a text at every "=?"
 * stays linear. */
static bool take(struct str s, struct word *ret)
{
	size_t i = 2;
	if (!str_starts(s, STR("=?")))
		return false;
	while (i < s.n && i < CHARSET_MAX + 2 && (unsigned char)s.p[i] > 32 && (unsigned char)s.p[i] < 127 && s.p[i] != '?')
		i++;
	if (i == 2 || s.n - i < 5 || s.p[i] != '?' || s.p[i + 2] != '?')
		return false;
	char encoding = (char)(s.p[i + 1] | 0x20);
	struct str charset = str_n(s.p + 2, i - 2);
	ptrdiff_t star = str_chr(charset, '*'); /* RFC 2231 §5: a language */
	if (star >= 0)
		charset.n = (size_t)star;
	if (!charset.n || (encoding != 'b' && encoding != 'q'))
		return false;
	size_t text = i += 3;
	while (i < s.n && s.p[i] != '?' && !is_blank(s.p[i]))
		i++;
	if (s.n - i < 2 || s.p[i] != '?' || s.p[i + 1] != '=')
		return false;
	*ret = (struct word){ .charset = charset, .text = str_n(s.p + text, i - text), .base64 = encoding == 'b', .n = i + 2 };
	return true;
}

size_t mail_encoded_span(struct str s)
{
	struct word w;
	return take(s, &w) ? w.n : 0;
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

static int decode_q(struct str s, struct buf *out)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (c == '_')
			c = ' ';
		else if (c == '=' && s.n - i > 2 && hex(s.p[i + 1]) >= 0 && hex(s.p[i + 2]) >= 0) {
			c = (char)(hex(s.p[i + 1]) << 4 | hex(s.p[i + 2]));
			i += 2;
		}
		if (buf_addc(out, c))
			return -1;
	}
	return 0;
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Lenient: stops at "=", other octets are skipped, left-over bits dropped. */
static int decode_b(struct str s, struct buf *out)
{
	unsigned bits = 0, n = 0;
	for (size_t i = 0; i < s.n && s.p[i] != '='; i++) {
		const char *at = memchr(digits, s.p[i], 64);
		if (!at)
			continue;
		bits = (bits << 6 | (unsigned)(at - digits)) & 0xffff;
		n += 6;
		if (n >= 8) {
			n -= 8;
			if (buf_addc(out, (char)(bits >> n)))
				return -1;
		}
	}
	return 0;
}

/* 0; 1: a charset that is not known, nothing appended; -1: full */
static int decode(const struct word *w, struct buf *out)
{
	struct buf octets = BUF_INIT(w->text.n + 1);
	int r = w->base64 ? decode_b(w->text, &octets) : decode_q(w->text, &octets);
	if (r == 0)
		r = mail_charset_to_utf8(w->charset, buf_str(&octets), out);
	buf_free(&octets);
	return r;
}

/* Is the text, up to the first blank, nothing but encoded words? Some write them without blanks between. */
static bool all_encoded(struct str word)
{
	struct word w;
	if (!word.n)
		return false;
	for (; word.n; word = str_skip(word, w.n))
		if (!take(word, &w))
			return false;
	return true;
}

int mail_decoder_end(struct mail_decoder *d)
{
	for (size_t n = d->blank ? d->more + 1 : 0; n; n--)
		if (buf_addc(d->out, ' '))
			return -1;
	d->blank = false;
	d->more = 0;
	return 0;
}

static int add_word(struct mail_decoder *d, struct str word)
{
	bool encoded = all_encoded(word);
	if (!(encoded && d->last) && mail_decoder_end(d))
		return -1;
	d->blank = false;
	d->more = 0;
	d->last = encoded;
	if (!encoded)
		return mail_charset_clean(word, d->out);
	for (struct word w; word.n && take(word, &w); word = str_skip(word, w.n)) {
		int r = decode(&w, d->out);
		if (r > 0) { /* shown as it stands */
			r = mail_charset_clean(str_n(word.p, w.n), d->out);
			d->last = false;
		}
		if (r)
			return -1;
	}
	return 0;
}

int mail_decoder_add(struct mail_decoder *d, struct str text, bool squeeze)
{
	for (size_t i = 0; i < text.n;) {
		size_t from = i;
		while (i < text.n && !is_blank(text.p[i]))
			i++;
		if (i > from && add_word(d, str_n(text.p + from, i - from)))
			return -1;
		for (; i < text.n && is_blank(text.p[i]); i++) {
			if (text.p[i] == '\r' || text.p[i] == '\n')
				continue; /* RFC 5322 §2.2.3: of a fold the blank behind it stays */
			d->more += d->blank && !squeeze;
			d->blank = true;
		}
	}
	return 0;
}

int mail_encoded_decode(struct str value, struct buf *out)
{
	struct mail_decoder d = { .out = out };
	return mail_decoder_add(&d, str_trim(value), false);
}

/* Octets of the character at the start; 1 where it is no UTF-8. */
static size_t character(struct str s)
{
	unsigned char c = (unsigned char)s.p[0];
	size_t n = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	return n < s.n ? n : s.n;
}

/* RFC 2047 §5 (3): what may stand as itself in a phrase */
static bool plain(char c)
{
	return ascii_is_alnum(c) || (c && memchr("!*+-/", c, 5));
}

bool mail_encoded_next(struct str *rest, struct buf *out)
{
	return mail_encoded_next_in("utf-8", rest, out);
}

bool mail_encoded_next_in(const char *charset, struct str *rest, struct buf *out)
{
	static const char xdigits[] = "0123456789ABCDEF";
	size_t room = WORD_MAX - strlen(charset) - 7 /* =? ?q? ?= */;
	if (!rest->n)
		return false;
	buf_addf(out, "=?%s?q?", charset);
	while (rest->n) {
		size_t n = character(*rest), cost = 0;
		for (size_t i = 0; i < n; i++)
			cost += plain(rest->p[i]) || rest->p[i] == ' ' ? 1 : 3;
		if (cost > room)
			break;
		room -= cost;
		for (size_t i = 0; i < n; i++) {
			unsigned char c = (unsigned char)rest->p[i];
			if (c == ' ')
				buf_addc(out, '_');
			else if (plain(rest->p[i]))
				buf_addc(out, rest->p[i]);
			else {
				buf_addc(out, '=');
				buf_addc(out, xdigits[c >> 4]);
				buf_addc(out, xdigits[c & 15]);
			}
		}
		*rest = str_skip(*rest, n);
	}
	buf_addz(out, "?=");
	return true;
}

int mail_encoded_field(struct buf *out, struct str name, struct str text, bool utf8)
{
	struct mail_fold f;
	struct buf word = BUF_INIT(256);
	if (utf8 ? str_is_utf8(text) : str_is_ascii(text))
		return mail_field_write(out, name, text);
	for (size_t i = 0; i < text.n; i++)
		if ((unsigned char)text.p[i] < 32 || text.p[i] == 127)
			return -1;
	if (!str_is_utf8(text))
		return -1;
	mail_fold_begin(&f, out, name);
	while (mail_encoded_next(&text, &word)) {
		mail_fold_piece(&f, buf_str(&word));
		buf_reset(&word);
	}
	buf_free(&word);
	return mail_fold_end(&f);
}
