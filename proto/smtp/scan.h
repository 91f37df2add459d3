/* The one scan over raw SMTP octets: the next CR, LF or NUL. Everything that decides line ends (line.c, data.c) looks
 * only at what this finds, eight octets at a time, so that ordinary text costs next to nothing. */
#ifndef PROTO_SMTP_SCAN_H
#define PROTO_SMTP_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Index of the first CR, LF or NUL in p[0..n); n when there is none. */
static inline size_t smtp_scan_special(const char *p, size_t n)
{
	const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
	size_t i = 0;
	for (;;) {
		/* Exact for "some octet is below 0x0e": subtracting borrows into the high bit only of such octets, and
		 * octets above 0x7f are masked out. Tabs and the like stop here, too; the octet loop sorts them out. */
		for (; i + 8 <= n; i += 8) {
			uint64_t v;
			memcpy(&v, p + i, 8);
			if ((v - ones * 0x0e) & ~v & highs)
				break;
		}
		size_t end = i + 8 <= n ? i + 8 : n;
		for (; i < end; i++)
			if (p[i] == '\r' || p[i] == '\n' || !p[i])
				return i;
		if (i == n)
			return n;
	}
}

#endif
