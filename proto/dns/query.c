/* Builds the one query we send. */
#include "proto/dns/message.h"

#include "wire.h"

static void put_u16(unsigned char *p, unsigned v)
{
	p[0] = (unsigned char)(v >> 8);
	p[1] = (unsigned char)v;
}

int dns_query_make(struct dns_query *q, struct str name, enum dns_type type, uint16_t id, unsigned flags,
    const unsigned char *random_case)
{
	static const unsigned char opt[] = { 0, 0, WIRE_TYPE_OPT, DNS_UDP_SIZE >> 8, DNS_UDP_SIZE & 255, 0, 0, 0, 0, 0, 0 };
	*q = (struct dns_query){ .id = id, .type = type, .flags = flags, .mixed_case = random_case != NULL };
	int n = dns_name_fold(name, q->name);
	if (n < 0 || !dns_type_name(type))
		return -1;
	unsigned char *w = q->wire;
	put_u16(w, id);
	w[2] = 0x01; /* RD */
	w[3] = 0x20; /* AD */
	w[5] = 1;
	w[11] = flags & DNS_QUERY_EDNS ? 1 : 0;
	size_t length_at = WIRE_HEADER, at = WIRE_HEADER + 1;
	for (int i = 0; i < n; i++) {
		char c = q->name[i];
		if (c == '.') {
			w[length_at] = (unsigned char)(at - length_at - 1);
			length_at = at++;
			continue;
		}
		if (random_case && c >= 'a' && c <= 'z' && random_case[i / 8] >> (i % 8) & 1)
			c = (char)(c & ~0x20);
		w[at++] = (unsigned char)c;
	}
	w[length_at] = (unsigned char)(at - length_at - 1);
	w[at++] = 0;
	q->name_n = at - WIRE_HEADER;
	put_u16(w + at, type);
	put_u16(w + at + 2, WIRE_CLASS_IN);
	at += 4;
	if (flags & DNS_QUERY_EDNS) {
		memcpy(w + at, opt, sizeof opt);
		at += sizeof opt;
	}
	q->n = at;
	return 0;
}
