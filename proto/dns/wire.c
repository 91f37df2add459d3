/* The measuring pass over a reply. ldns expands names with as many as 65535 pointer jumps each and leaks on some extra TSIG
 * records, so records reach it one by one, and only those whose bounds and names were found good here. */
#include "wire.h"

size_t wire_name_end(const unsigned char *p, size_t n, size_t at)
{
	size_t end = 0, expanded = 1, lowest = at;
	unsigned pointers = 0;
	for (;;) {
		if (at >= n)
			return 0;
		unsigned c = p[at];
		if (c >= 0xc0) { /* RFC 1035 §4.1.4 */
			if (at + 1 >= n || ++pointers > WIRE_POINTERS_MAX)
				return 0;
			size_t to = (c & 0x3fu) << 8 | p[at + 1];
			if (!end)
				end = at + 2;
			if (to >= lowest || to < WIRE_HEADER) /* "a prior occurrence": always further down, so it ends */
				return 0;
			lowest = at = to;
		} else if (c > DNS_LABEL_MAX) {
			return 0; /* 0x40, 0x80: label types that were never used */
		} else if (!c) {
			return end ? end : at + 1;
		} else {
			expanded += c + 1;
			at += c + 1;
			if (expanded > WIRE_NAME_MAX)
				return 0;
		}
	}
}

/* Do the names in the data end where they should? */
static bool data_good(const unsigned char *p, size_t n, const struct wire_record *r)
{
	size_t end = r->data + r->data_n, at = r->data;
	switch ((int)r->type) {
	case DNS_MX:
		at += 2;
		/* fall through */
	case DNS_NS:
	case DNS_CNAME:
	case DNS_PTR:
		return at < end && wire_name_end(p, n, at) == end;
	case DNS_SOA:
		at = at < end ? wire_name_end(p, n, at) : 0;
		at = at && at < end ? wire_name_end(p, n, at) : 0;
		return at && at + 20 == end;
	case DNS_A:
		return r->data_n == 4;
	case DNS_AAAA:
		return r->data_n == 16;
	case DNS_TLSA:
		return r->data_n > 3;
	case DNS_TXT:
		while (at < end)
			at += p[at] + 1u;
		return r->data_n && at == end;
	default:
		return true;
	}
}

int wire_record(const unsigned char *p, size_t n, size_t *at, struct wire_record *ret)
{
	size_t fixed = wire_name_end(p, n, *at);
	if (!fixed || n - fixed < 10)
		return -1;
	*ret = (struct wire_record){ .at = *at, .type_at = fixed, .type = wire_u16(p + fixed), .class = wire_u16(p + fixed + 2),
		.ttl = wire_u32(p + fixed + 4), .data = fixed + 10, .data_n = wire_u16(p + fixed + 8) };
	if (ret->data_n > n - ret->data || (ret->class == WIRE_CLASS_IN && !data_good(p, n, ret)))
		return -1;
	*at = ret->data + ret->data_n;
	return 0;
}
