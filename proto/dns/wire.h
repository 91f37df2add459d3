/* Measuring a DNS message before the codec sees it: sections, record bounds, names with bounded compression. Internal. */
#ifndef PROTO_DNS_WIRE_H
#define PROTO_DNS_WIRE_H

#include "proto/dns/answers.h"

enum {
	WIRE_HEADER = 12,
	WIRE_NAME_MAX = 255,
	WIRE_POINTERS_MAX = 32, /* compression pointers followed in one name; real ones have a handful */
	WIRE_CLASS_IN = 1,
	WIRE_TYPE_OPT = 41,
	/* records of a section: more is refused unread. Answers also carry CNAMEs and signatures. */
	WIRE_ANSWERS_MAX = 2 * DNS_RR_MAX,
	WIRE_OTHERS_MAX = 256,
};

struct wire_record {
	size_t at;       /* of its owner name */
	size_t type_at;  /* behind the owner name */
	uint16_t type, class;
	uint32_t ttl;
	size_t data, data_n;
};

static inline uint16_t wire_u16(const unsigned char *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}
static inline uint32_t wire_u32(const unsigned char *p)
{
	return (uint32_t)wire_u16(p) << 16 | wire_u16(p + 2);
}

/* The octet behind the name at `at`, 0 if it is no name: labels over the end, more than 255 octets expanded, pointers
 * that do not lead strictly backwards, or too many of them. */
size_t wire_name_end(const unsigned char *p, size_t n, size_t at);
/* The record at *at, which moves behind it; names in the data of the types we ask for are measured, too. 0, or -1. */
int wire_record(const unsigned char *p, size_t n, size_t *at, struct wire_record *ret);

#endif
