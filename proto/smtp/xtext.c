/* xtext and utf-8-addr decoding; see xtext.h. Pure functions over octets. */
#include "xtext.h"

static int hex_upper(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int put(struct buf *out, const char *p, size_t n)
{
	return out ? buf_add(out, p, n) : 0;
}

static int xtext_decode(struct str in, bool high, struct buf *out)
{
	if (!in.n)
		return -1;
	for (size_t i = 0; i < in.n; i++) {
		char c = in.p[i];
		if (c < '!' || c > '~' || c == '=')
			return -1;
		if (c == '+') { /* "+" and two upper case digits */
			int high_digit = i + 2 < in.n ? hex_upper(in.p[i + 1]) : -1;
			int low_digit = i + 2 < in.n ? hex_upper(in.p[i + 2]) : -1;
			int v = high_digit * 16 + low_digit;
			if (high_digit < 0 || low_digit < 0 || v < 0x20 || v == 0x7f || (v > 0x7f && !high))
				return -1;
			c = (char)v;
			i += 2;
		}
		if (put(out, &c, 1))
			return -1;
	}
	return 0;
}

int smtp_xtext_decode(struct str in, struct buf *out)
{
	return xtext_decode(in, false, out);
}

int smtp_xtext_encode(struct str in, struct buf *out)
{
	static const char digits[] = "0123456789ABCDEF";
	for (size_t i = 0; i < in.n; i++) {
		unsigned char c = (unsigned char)in.p[i];
		int r;
		if (c < '!' || c > '~' || c == '+' || c == '=') {
			char esc[3] = { '+', digits[c >> 4], digits[c & 15] };
			r = buf_add(out, esc, sizeof esc);
		} else {
			r = buf_addc(out, in.p[i]);
		}
		if (r)
			return -1;
	}
	return 0;
}

static size_t utf8_encode(uint32_t v, char *p)
{
	if (v < 0x80) {
		p[0] = (char)v;
		return 1;
	}
	if (v < 0x800) {
		p[0] = (char)(0xc0 | v >> 6);
		p[1] = (char)(0x80 | (v & 0x3f));
		return 2;
	}
	if (v < 0x10000) {
		p[0] = (char)(0xe0 | v >> 12);
		p[1] = (char)(0x80 | (v >> 6 & 0x3f));
		p[2] = (char)(0x80 | (v & 0x3f));
		return 3;
	}
	p[0] = (char)(0xf0 | v >> 18);
	p[1] = (char)(0x80 | (v >> 12 & 0x3f));
	p[2] = (char)(0x80 | (v >> 6 & 0x3f));
	p[3] = (char)(0x80 | (v & 0x3f));
	return 4;
}

/* EmbeddedUnicodeChar = "\x{" HEXPOINT "}" at s; the length of it, or 0. No zero in front of more than two digits. */
static size_t embedded(struct str s, uint32_t *ret)
{
	uint32_t v = 0;
	size_t i = 3;
	if (!str_starts(s, STR("\\x{")))
		return 0;
	for (; i < s.n && s.p[i] != '}'; i++) {
		char c = s.p[i] >= 'a' && s.p[i] <= 'f' ? (char)(s.p[i] - 0x20) : s.p[i];
		int d = hex_upper(c);
		if (d < 0 || i >= 3 + 6)
			return 0;
		v = v << 4 | (uint32_t)d;
	}
	size_t digits = i - 3;
	if (i == s.n || digits < 2 || (digits > 2 && s.p[3] == '0'))
		return 0;
	if (v < 0x20 || (v >= 0x7f && v < 0xa0) || (v >= 0xd800 && v < 0xe000) || v > 0x10ffff)
		return 0;
	*ret = v;
	return i + 1;
}

/* utf-8-enc-addr: QCHAR (printable but \ + =), escapes, and UTF-8 where the transaction has SMTPUTF8. */
static int utf8_addr_decode(struct str in, bool utf8, struct buf *out)
{
	if (!in.n || !str_is_utf8(in) || (!utf8 && !str_is_ascii(in)))
		return -1;
	for (size_t i = 0; i < in.n;) {
		unsigned char c = (unsigned char)in.p[i];
		if (c == '\\') {
			uint32_t v;
			char enc[4];
			size_t used = embedded(str_skip(in, i), &v);
			if (!used || put(out, enc, utf8_encode(v, enc)))
				return -1;
			i += used;
			continue;
		}
		if (c < '!' || c == 0x7f || c == '+' || c == '=')
			return -1;
		if (c == 0xc2 && (unsigned char)in.p[i + 1] < 0xa0) /* C1 controls */
			return -1;
		if (put(out, in.p + i, 1))
			return -1;
		i++;
	}
	return 0;
}

/* xtext whose octets are UTF-8: no form of RFC 6533, but how Postfix names a recipient outside ASCII ("rfc822;+C3+A4@...").
 * Nothing is appended unless all of it is good; *ret_wide tells whether it left ASCII. */
static int wide_decode(struct str in, bool *ret_wide, struct buf *out)
{
	struct buf b = BUF_INIT(SMTP_ORCPT_MAX);
	int ret = -1;
	if (xtext_decode(in, true, &b) == 0 && str_is_utf8(buf_str(&b))) {
		ret = 0;
		*ret_wide = !str_is_ascii(buf_str(&b));
		for (size_t i = 0; i + 1 < b.n; i++)
			if ((unsigned char)b.p[i] == 0xc2 && (unsigned char)b.p[i + 1] < 0xa0) /* C1 controls */
				ret = -1;
		if (ret == 0)
			ret = put(out, b.p, b.n);
	}
	buf_free(&b);
	return ret;
}

int smtp_orcpt_decode(struct str in, bool utf8, struct str *ret_type, struct buf *out)
{
	ptrdiff_t semi = str_chr(in, ';');
	bool wide = false;
	int r;
	if (semi < 1)
		return -1;
	struct str type = str_n(in.p, (size_t)semi), addr = str_skip(in, (size_t)semi + 1);
	for (size_t i = 0; i < type.n; i++) { /* addr-type = atom */
		char c = type.p[i];
		if (c <= ' ' || c > '~' || strchr("()<>@,;:\\\".[]", c))
			return -1;
	}
	if (str_ieq(type, STR("utf-8")))
		r = utf8_addr_decode(addr, utf8, out);
	else if (utf8 && str_ieq(type, STR("rfc822")))
		r = wide_decode(addr, &wide, out);
	else
		r = smtp_xtext_decode(addr, out);
	if (r)
		return -1;
	if (ret_type)
		*ret_type = wide ? STR("utf-8") : type;
	return 0;
}

int smtp_orcpt_to_ascii(struct str in, struct buf *out)
{
	size_t before = out->n;
	if (!str_is_ascii(in) && (!str_istarts(in, STR("utf-8;")) || !str_is_utf8(in)))
		return -1;
	for (size_t i = 0; i < in.n;) {
		unsigned char c = (unsigned char)in.p[i++];
		if (c < 0x80) {
			buf_addc(out, (char)c);
			continue;
		}
		uint32_t v = c < 0xe0 ? c & 0x1fu : c < 0xf0 ? c & 0x0fu : c & 0x07u;
		for (; i < in.n && ((unsigned char)in.p[i] & 0xc0) == 0x80; i++)
			v = v << 6 | ((unsigned char)in.p[i] & 0x3fu);
		buf_addf(out, "\\x{%X}", v);
	}
	if (!out->failed)
		return 0;
	out->n = before;
	return -1;
}
