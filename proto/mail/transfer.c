/* Base64 and quoted-printable, read leniently; see transfer.h. Written they are in transfer_write.c. (What SASL needs is strict, and stands there.) */
#include "proto/mail/transfer.h"

static int base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static void base64(struct str s, struct buf *out)
{
	uint32_t bits = 0;
	unsigned n = 0;
	for (size_t i = 0; i < s.n && s.p[i] != '='; i++) {
		int v = base64_value(s.p[i]);
		if (v < 0)
			continue; /* RFC 2045 §6.8: to be ignored */
		bits = bits << 6 | (uint32_t)v;
		n += 6;
		if (n >= 8) {
			n -= 8;
			if (buf_addc(out, (char)(bits >> n & 0xff)))
				return;
		}
	}
}

static void quoted_printable(struct str s, struct buf *out)
{
	for (size_t i = 0; i < s.n && !out->failed; i++) {
		if (s.p[i] != '=') {
			buf_addc(out, s.p[i]);
		} else if (i + 2 < s.n && ascii_hex(s.p[i + 1]) >= 0 && ascii_hex(s.p[i + 2]) >= 0) {
			buf_addc(out, (char)(ascii_hex(s.p[i + 1]) << 4 | ascii_hex(s.p[i + 2])));
			i += 2;
		} else { /* a soft line end: nothing up to the end of the line but blanks */
			size_t k = i + 1;
			while (k < s.n && (s.p[k] == ' ' || s.p[k] == '\t' || s.p[k] == '\r'))
				k++;
			if (k < s.n && s.p[k] == '\n')
				i = k;
			else
				buf_addc(out, '=');
		}
	}
}

enum mail_transfer mail_transfer_of(struct str name)
{
	static const struct str names[] = { STR_INIT("7bit"), STR_INIT("8bit"), STR_INIT("binary"), STR_INIT("base64"), STR_INIT("quoted-printable") };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (str_ieq(name, names[i]))
			return (enum mail_transfer)i;
	return name.n ? MAIL_TRANSFER_UNKNOWN : MAIL_TRANSFER_7BIT;
}

int mail_transfer_decode(enum mail_transfer encoding, struct str body, struct buf *out)
{
	if (encoding == MAIL_TRANSFER_BASE64)
		base64(body, out);
	else if (encoding == MAIL_TRANSFER_QP)
		quoted_printable(body, out);
	else
		buf_adds(out, body);
	return out->failed ? -1 : 0;
}
