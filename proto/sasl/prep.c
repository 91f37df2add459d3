/* SASLprep by the tables of RFC 3454, with libunistring's normalization. */
#include "prep.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <unictype.h>
#include <uninorm.h>
#include <unistr.h>

struct range {
	uint32_t from, to;
};

/* Tables C.1.2 (spaces), B.1 (mapped to nothing), and what is prohibited after normalization: C.1.2, C.2.1, C.2.2, C.3 to
 * C.9 taken together (surrogates, C.5, are no UTF-8). */
static const struct range spaces[] = { { 0xa0, 0xa0 }, { 0x1680, 0x1680 }, { 0x2000, 0x200b }, { 0x202f, 0x202f },
	{ 0x205f, 0x205f }, { 0x3000, 0x3000 } };
static const struct range nothing[] = { { 0xad, 0xad }, { 0x34f, 0x34f }, { 0x1806, 0x1806 }, { 0x180b, 0x180d },
	{ 0x200b, 0x200d }, { 0x2060, 0x2060 }, { 0xfe00, 0xfe0f }, { 0xfeff, 0xfeff } };
static const struct range prohibited[] = { { 0x0, 0x1f }, { 0x7f, 0xa0 }, { 0x340, 0x341 }, { 0x6dd, 0x6dd },
	{ 0x70f, 0x70f }, { 0x1680, 0x1680 }, { 0x180e, 0x180e }, { 0x2000, 0x200f }, { 0x2028, 0x202f }, { 0x205f, 0x2063 },
	{ 0x206a, 0x206f }, { 0x2ff0, 0x2ffb }, { 0x3000, 0x3000 }, { 0xe000, 0xf8ff }, { 0xfdd0, 0xfdef },
	{ 0xfeff, 0xfeff }, { 0xfff9, 0xffff }, { 0x1d173, 0x1d17a }, { 0x1fffe, 0x1ffff }, { 0x2fffe, 0x2ffff },
	{ 0x3fffe, 0x3ffff }, { 0x4fffe, 0x4ffff }, { 0x5fffe, 0x5ffff }, { 0x6fffe, 0x6ffff }, { 0x7fffe, 0x7ffff },
	{ 0x8fffe, 0x8ffff }, { 0x9fffe, 0x9ffff }, { 0xafffe, 0xaffff }, { 0xbfffe, 0xbffff }, { 0xcfffe, 0xcffff },
	{ 0xdfffe, 0xdffff }, { 0xe0001, 0xe0001 }, { 0xe0020, 0xe007f }, { 0xefffe, 0x10ffff } };

#define IN(table, c) in_table(table, sizeof(table) / sizeof *(table), c)

static bool in_table(const struct range *t, size_t n, uint32_t c)
{
	for (size_t i = 0; i < n && t[i].from <= c; i++)
		if (c <= t[i].to)
			return true;
	return false;
}

static bool right_to_left(uint32_t c)
{
	int b = uc_bidi_class(c);
	return b == UC_BIDI_R || b == UC_BIDI_AL;
}

/* RFC 3454 §6: what has a right-to-left character has no left-to-right one, and begins and ends with one. */
static bool directions_agree(const uint32_t *p, size_t n)
{
	bool rtl = false, ltr = false;
	for (size_t i = 0; i < n; i++) {
		rtl = rtl || right_to_left(p[i]);
		ltr = ltr || uc_bidi_class(p[i]) == UC_BIDI_L;
	}
	return !rtl || (!ltr && right_to_left(p[0]) && right_to_left(p[n - 1]));
}

static bool plain_ascii(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x20 || (unsigned char)s.p[i] > 0x7e)
			return false;
	return s.n > 0;
}

static int finish(const uint32_t *p, size_t n, struct buf *out)
{
	uint8_t octets[6];
	if (!n || !directions_agree(p, n))
		return -1;
	for (size_t i = 0; i < n; i++) {
		int k = IN(prohibited, p[i]) ? -1 : u8_uctomb(octets, p[i], sizeof octets);
		if (k < 1 || buf_add(out, octets, (size_t)k))
			return -1;
	}
	OPENSSL_cleanse(octets, sizeof octets);
	return 0;
}

int sasl_prep(struct str in, struct buf *out)
{
	uint32_t *mapped, *normal;
	size_t n = 0, normal_n = 0;
	int ret = -1;
	if (!in.n || in.n > SASL_PREP_MAX || !str_is_utf8(in))
		return -1;
	if (plain_ascii(in)) /* nearly all there are: stays as it is */
		return buf_adds(out, in);
	mapped = calloc(in.n + 1, sizeof *mapped);
	if (!mapped)
		return -1;
	for (size_t i = 0; i < in.n;) {
		ucs4_t c;
		int k = u8_mbtouc(&c, (const uint8_t *)in.p + i, in.n - i);
		if (k < 1)
			break;
		i += (size_t)k;
		if (IN(spaces, c))
			mapped[n++] = ' ';
		else if (!IN(nothing, c))
			mapped[n++] = c;
	}
	normal = u32_normalize(UNINORM_NFKC, mapped, n, NULL, &normal_n);
	if (normal)
		ret = finish(normal, normal_n, out);
	if (normal)
		OPENSSL_cleanse(normal, normal_n * sizeof *normal);
	OPENSSL_cleanse(mapped, (in.n + 1) * sizeof *mapped);
	free(normal);
	free(mapped);
	return ret;
}
