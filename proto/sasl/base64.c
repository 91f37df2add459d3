/* The coder of base64.h. Tables would be faster and, for passwords, tell a cache what was looked up: values are computed
 * without a branch or an index that depends on the octets. */
#include "base64.h"

/* 0 to 63, or negative for an octet that is none of the 64. Each term is taken in when c lies between its bounds. */
static int value(int c)
{
	int v = -1;
	v += ((('A' - 1 - c) & (c - ('Z' + 1))) >> 8) & (c - 'A' + 1);
	v += ((('a' - 1 - c) & (c - ('z' + 1))) >> 8) & (c - 'a' + 27);
	v += ((('0' - 1 - c) & (c - ('9' + 1))) >> 8) & (c - '0' + 53);
	v += ((('+' - 1 - c) & (c - ('+' + 1))) >> 8) & 63;
	v += ((('/' - 1 - c) & (c - ('/' + 1))) >> 8) & 64;
	return v;
}

static char letter(unsigned value6)
{
	int v = (int)value6, c = 'A' + v;
	c += ((25 - v) >> 8) & ('a' - 26 - 'A');
	c += ((51 - v) >> 8) & ('0' - 52 - ('a' - 26));
	c += ((61 - v) >> 8) & ('+' - 62 - ('0' - 52));
	c += ((62 - v) >> 8) & ('/' - 63 - ('+' - 62));
	return (char)c;
}

int sasl_base64_encode(struct str in, struct buf *out)
{
	const unsigned char *p = (const unsigned char *)in.p;
	char *q;
	if (in.n > SIZE_MAX / 2 || !(q = buf_room(out, SASL_BASE64_SIZE(in.n))))
		return -1;
	for (size_t i = 0; i < in.n; i += 3) {
		size_t left = in.n - i;
		unsigned w = (unsigned)p[i] << 16 | (left > 1 ? (unsigned)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);
		*q++ = letter(w >> 18);
		*q++ = letter(w >> 12 & 63);
		*q++ = left > 1 ? letter(w >> 6 & 63) : '=';
		*q++ = left > 2 ? letter(w & 63) : '=';
	}
	out->n += SASL_BASE64_SIZE(in.n);
	out->p[out->n] = 0;
	return 0;
}

int sasl_base64_decode(struct str in, struct buf *out)
{
	size_t pad = 0, n = in.n / 4 * 3;
	int bad = 0;
	char *q;
	if (in.n % 4)
		return -1;
	if (!in.n)
		return 0;
	pad = in.p[in.n - 1] == '=' ? 1 + (in.p[in.n - 2] == '=') : 0;
	if (!(q = buf_room(out, n)))
		return -1;
	for (size_t i = 0; i < in.n; i += 4) {
		size_t cut = i + 4 == in.n ? pad : 0;
		unsigned w = 0;
		for (size_t k = 0; k < 4; k++) {
			int v = k + cut >= 4 ? 0 : value((unsigned char)in.p[i + k]);
			bad |= v;
			w = w << 6 | ((unsigned)v & 63);
		}
		*q++ = (char)(w >> 16);
		*q++ = (char)(w >> 8);
		*q++ = (char)w;
		if (cut && w & (cut == 1 ? 0xffu : 0xffffu)) /* octets that are not there */
			bad = -1;
	}
	if (bad < 0)
		return -1;
	out->n += n - pad;
	out->p[out->n] = 0;
	return 0;
}
