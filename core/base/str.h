/* Strings with a length. Mail data may hold any octet, NUL included, so text from outside travels as pointer and
 * length; NUL-terminated strings appear only where libc or a library wants one. Nothing here allocates except
 * str_dupz(). */
#ifndef PEPSI_BASE_STR_H
#define PEPSI_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
	const char *p; /* not NUL-terminated; may be NULL when n is 0 */
	size_t n;      /* octets */
};

#define STR(lit) ((struct str){ (lit), sizeof(lit) - 1 })
#define STR_INIT(lit) { (lit), sizeof(lit) - 1 }
#define STR_NULL ((struct str){ NULL, 0 })
/* For printf: "%.*s", STR_ARG(s). */
#define STR_ARG(s) (int)((s).n > 4096 ? 4096 : (s).n), ((s).p ? (s).p : "")

static inline struct str str_from(const char *z)
{
	return (struct str){ z, z ? strlen(z) : 0 };
}
static inline struct str str_n(const char *p, size_t n)
{
	return (struct str){ p, n };
}
static inline bool str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
/* The part from octet `from` on; empty when it lies behind the end. */
static inline struct str str_skip(struct str s, size_t from)
{
	if (from >= s.n) /* NULL plus 0 is undefined in C11 */
		return (struct str){ s.p ? s.p + s.n : NULL, 0 };
	return (struct str){ s.p + from, s.n - from };
}

/* Letters and digits of ASCII, whatever the locale says; all other octets are none, and stay as they are. */
static inline char ascii_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static inline bool ascii_is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static inline void ascii_lower_z(char *z)
{
	for (; *z; z++)
		*z = ascii_lower(*z);
}

/* ASCII case folding only; octets above 127 compare as they are (RFC 5321 §2.4). */
bool str_ieq(struct str a, struct str b);
bool str_istarts(struct str s, struct str prefix);
bool str_starts(struct str s, struct str prefix);
bool str_iends(struct str s, struct str suffix);
/* First octet c; returns its index or -1. */
ptrdiff_t str_chr(struct str s, char c);
/* Without leading and trailing space, tab, CR and LF. */
struct str str_trim(struct str s);
/* Next word of *rest, words being separated by any of the octets in seps; advances *rest. Returns false at the end. */
bool str_word(struct str *rest, const char *seps, struct str *ret_word);
/* What stands before the next NUL, or all; both are taken off *rest. */
struct str str_next_z(struct str *rest);
/* Behind the last c: the domain of an address for '@'. STR_NULL: there is none. */
struct str str_behind(struct str s, char c);
/* Decimal, no sign, no blanks, the whole string. Returns 0, or -1 (not a number, or above max); *ret untouched then. */
int str_u64(struct str s, uint64_t max, uint64_t *ret);
/* Valid UTF-8 (RFC 3629: no surrogates, nothing overlong, at most U+10FFFF)? */
bool str_is_utf8(struct str s);
/* Where to cut s so that at most max octets are left and no UTF-8 character is parted: the length that is left. Octets that are no UTF-8
 * are cut anywhere. */
size_t str_utf8_cut(struct str s, size_t max);
bool str_is_ascii(struct str s);
/* A NUL-terminated copy from malloc, or NULL when memory is out. The caller frees it. */
char *str_dupz(struct str s);
/* Compares in a time that depends on the lengths only; for secrets and tokens. */
bool str_eq_secret(struct str a, struct str b);
/* Optimal string alignment distance, capped at 32 characters a side: "the nearest known name". */
unsigned str_distance(struct str a, struct str b);
/* The nearest of n names to s if it is near enough to be a likely slip, else NULL. */
const char *str_nearest(struct str s, const char *const *names, size_t n);

#endif
