/* Integers in the records of this folder and of its neighbours: little-endian, 1 to 8 octets. Judges nothing: that there is room, or that there are so many
 * octets, is the caller's to know. */
#ifndef PROTO_WIRE_OCTETS_H
#define PROTO_WIRE_OCTETS_H

#include <stdint.h>

static inline void octets_put(char *at, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		at[i] = (char)(v >> (8 * i) & 0xff);
}

static inline uint64_t octets_get(const char *at, unsigned n)
{
	uint64_t v = 0;
	for (unsigned i = 0; i < n; i++)
		v |= (uint64_t)(unsigned char)at[i] << (8 * i);
	return v;
}

#endif
