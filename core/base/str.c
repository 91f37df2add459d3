/* Length-carrying strings: comparison, splitting, number parsing. No I/O, no locale. */
#include "str.h"

#include <stdlib.h>

bool str_ieq(struct str a, struct str b)
{
	return a.n == b.n && str_istarts(a, b);
}

bool str_istarts(struct str s, struct str prefix)
{
	if (s.n < prefix.n)
		return false;
	for (size_t i = 0; i < prefix.n; i++)
		if (ascii_lower(s.p[i]) != ascii_lower(prefix.p[i]))
			return false;
	return true;
}

bool str_starts(struct str s, struct str prefix)
{
	return s.n >= prefix.n && str_eq(str_n(s.p, prefix.n), prefix);
}

bool str_iends(struct str s, struct str suffix)
{
	return s.n >= suffix.n && str_istarts(str_skip(s, s.n - suffix.n), suffix);
}

ptrdiff_t str_chr(struct str s, char c)
{
	const char *at = s.n ? memchr(s.p, c, s.n) : NULL;
	return at ? at - s.p : -1;
}

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s)
{
	while (s.n && blank(s.p[0])) {
		s.p++;
		s.n--;
	}
	while (s.n && blank(s.p[s.n - 1]))
		s.n--;
	return s;
}

struct str str_next_z(struct str *rest)
{
	size_t n = rest->n ? strnlen(rest->p, rest->n) : 0;
	struct str s = str_n(rest->p, n);
	*rest = str_skip(*rest, n < rest->n ? n + 1 : n);
	return s;
}

struct str str_behind(struct str s, char c)
{
	for (size_t i = s.n; i > 0; i--)
		if (s.p[i - 1] == c)
			return str_skip(s, i);
	return STR_NULL;
}

bool str_word(struct str *rest, const char *seps, struct str *ret_word)
{
	size_t i = 0, j;
	while (i < rest->n && rest->p[i] && strchr(seps, rest->p[i]))
		i++;
	if (i == rest->n)
		return false;
	for (j = i; j < rest->n && !(rest->p[j] && strchr(seps, rest->p[j])); j++)
		;
	*ret_word = str_n(rest->p + i, j - i);
	*rest = str_skip(*rest, j);
	return true;
}

int str_u64(struct str s, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	if (!s.n)
		return -1;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return -1;
		if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v) || v > max)
			return -1;
	}
	*ret = v;
	return 0;
}

bool str_is_ascii(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] > 127)
			return false;
	return true;
}

bool str_is_utf8(struct str s)
{
	if (!s.n) /* NULL is allowed then */
		return true;
	const unsigned char *p = (const unsigned char *)s.p, *end = p + s.n;
	while (p < end) {
		uint64_t eight;
		while (end - p >= (ptrdiff_t)sizeof eight && (memcpy(&eight, p, sizeof eight), !(eight & UINT64_C(0x8080808080808080)))) /* most text is ASCII for long */
			p += sizeof eight;
		if (p == end)
			break;
		unsigned c = *p++, more, low = 0x80, high = 0xbf;
		if (c < 0x80)
			continue;
		if (c >= 0xc2 && c <= 0xdf)
			more = 1;
		else if (c >= 0xe0 && c <= 0xef)
			more = 2;
		else if (c >= 0xf0 && c <= 0xf4)
			more = 3;
		else
			return false;
		if (c == 0xe0)
			low = 0xa0; /* overlong below */
		else if (c == 0xed)
			high = 0x9f; /* surrogates above */
		else if (c == 0xf0)
			low = 0x90;
		else if (c == 0xf4)
			high = 0x8f;
		for (; more; more--, low = 0x80, high = 0xbf) {
			if (p == end || *p < low || *p > high)
				return false;
			p++;
		}
	}
	return true;
}

size_t str_utf8_cut(struct str s, size_t max)
{
	if (s.n <= max)
		return s.n;
	size_t n = max;
	while (n && max - n < 3 && ((unsigned char)s.p[n] & 0xc0) == 0x80)
		n--;
	return ((unsigned char)s.p[n] & 0xc0) == 0x80 ? max : n;
}

char *str_dupz(struct str s)
{
	char *z = malloc(s.n + 1);
	if (!z)
		return NULL;
	if (s.n)
		memcpy(z, s.p, s.n);
	z[s.n] = 0;
	return z;
}

bool str_eq_secret(struct str a, struct str b)
{
	volatile unsigned char diff = 0;
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		diff |= (unsigned char)a.p[i] ^ (unsigned char)b.p[i];
	return diff == 0;
}

enum { DISTANCE_MAX = 32 }; /* names of options and stages are shorter; keeps the table on the stack */

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;
	return m < c ? m : c;
}

unsigned str_distance(struct str a, struct str b)
{
	unsigned d[DISTANCE_MAX + 1][DISTANCE_MAX + 1];
	size_t na = a.n > DISTANCE_MAX ? DISTANCE_MAX : a.n, nb = b.n > DISTANCE_MAX ? DISTANCE_MAX : b.n;
	for (size_t i = 0; i <= na; i++)
		d[i][0] = (unsigned)i;
	for (size_t j = 0; j <= nb; j++)
		d[0][j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++)
		for (size_t j = 1; j <= nb; j++) {
			char x = ascii_lower(a.p[i - 1]), y = ascii_lower(b.p[j - 1]);
			d[i][j] = min3(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (x != y));
			if (i > 1 && j > 1 && x == ascii_lower(b.p[j - 2]) &&
			    ascii_lower(a.p[i - 2]) == y && d[i - 2][j - 2] + 1 < d[i][j])
				d[i][j] = d[i - 2][j - 2] + 1;
		}
	return d[na][nb];
}

const char *str_nearest(struct str s, const char *const *names, size_t n)
{
	const char *best = NULL;
	/* up to a third of the word wrong is a slip, more is another word */
	unsigned limit = s.n < 3 ? 1 : (unsigned)(s.n + 2) / 3, least = limit + 1;
	for (size_t i = 0; i < n; i++) {
		unsigned d = str_distance(s, str_from(names[i]));
		if (d < least) {
			least = d;
			best = names[i];
		}
	}
	return best;
}
