/* Reading the PROXY header. The two forms share the buffer and nothing else; each is refused at the first octet that cannot
 * belong to it. */
#include "header.h"

#include <arpa/inet.h>
#include <stdio.h>

static const unsigned char signature[12] = { 0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a };
static const char v1_begin[] = "PROXY ";

enum { V2_HEAD = 16, TCP4_SIZE = 12, TCP6_SIZE = 36, UNIX_SIZE = 216, UNIX_PATH = 108 };

static bool is_v2(const struct proxy_parser *p)
{
	return p->octet[0] == signature[0];
}

static enum proxy_family v2_family(const struct proxy_parser *p)
{
	switch (p->octet[13]) {
	case 0x11:
		return PROXY_TCP4;
	case 0x12:
		return PROXY_UDP4;
	case 0x21:
		return PROXY_TCP6;
	case 0x22:
		return PROXY_UDP6;
	case 0x31:
		return PROXY_UNIX_STREAM;
	case 0x32:
		return PROXY_UNIX_DGRAM;
	default:
		return PROXY_UNSPEC;
	}
}

static size_t v2_address_size(enum proxy_family f)
{
	static const size_t size[] = { 0, TCP4_SIZE, TCP6_SIZE, TCP4_SIZE, TCP6_SIZE, UNIX_SIZE, UNIX_SIZE };
	return size[f];
}

static bool v2_local(const struct proxy_parser *p)
{
	return p->octet[12] == 0x20;
}

static size_t v2_length(const struct proxy_parser *p)
{
	return (size_t)p->octet[14] << 8 | p->octet[15];
}

/* The octet just taken, p->n of them so far. 1 whole, 0 more, -1 wrong. */
static int v2_step(const struct proxy_parser *p)
{
	size_t at = p->n - 1;
	if (at < sizeof signature)
		return p->octet[at] == signature[at] ? 0 : -1;
	if (at == 12) /* version 2, LOCAL or PROXY */
		return p->octet[12] == 0x20 || p->octet[12] == 0x21 ? 0 : -1;
	if (at == 13) /* what LOCAL has here is ignored (2.2) */
		return v2_local(p) || p->octet[13] == 0 || v2_family(p) != PROXY_UNSPEC ? 0 : -1;
	if (at < V2_HEAD - 1)
		return 0;
	if (at == V2_HEAD - 1 && (V2_HEAD + v2_length(p) > PROXY_HEADER_MAX ||
				     (!v2_local(p) && v2_length(p) < v2_address_size(v2_family(p)))))
		return -1;
	return p->n == V2_HEAD + v2_length(p);
}

/* One word of a line with single blanks between. */
static bool v1_word(struct str *rest, struct str *ret)
{
	ptrdiff_t blank = str_chr(*rest, ' ');
	*ret = blank < 0 ? *rest : str_n(rest->p, (size_t)blank);
	*rest = blank < 0 ? STR_NULL : str_skip(*rest, (size_t)blank + 1);
	return ret->n > 0 && (blank < 0 || rest->n > 0); /* a blank at the end begins a word that is not there */
}

static int v1_address(struct str word, int af, char *out)
{
	unsigned char ip[16];
	if (word.n > INET6_ADDRSTRLEN || memchr(word.p, 0, word.n))
		return -1;
	memcpy(out, word.p, word.n);
	out[word.n] = 0;
	return inet_pton(af, out, ip) == 1 ? 0 : -1;
}

/* 2.1: 0 to 65535, no leading zero. */
static int v1_port(struct str word, uint16_t *ret)
{
	uint64_t v;
	if ((word.n > 1 && word.p[0] == '0') || str_u64(word, 65535, &v))
		return -1;
	*ret = (uint16_t)v;
	return 0;
}

static int v1_line(const struct proxy_parser *p, struct proxy_header *h)
{
	struct str rest = str_n((const char *)p->octet + sizeof v1_begin - 1, p->n - 2 - (sizeof v1_begin - 1)), w[5];
	if (str_eq(rest, STR("UNKNOWN")) || str_starts(rest, STR("UNKNOWN ")))
		return 0; /* whatever follows is ignored */
	for (unsigned i = 0; i < 5; i++)
		if (!v1_word(&rest, &w[i]))
			return -1;
	if (rest.n)
		return -1;
	if (str_eq(w[0], STR("TCP4")))
		h->family = PROXY_TCP4;
	else if (str_eq(w[0], STR("TCP6")))
		h->family = PROXY_TCP6;
	else
		return -1;
	int af = h->family == PROXY_TCP4 ? AF_INET : AF_INET6;
	return v1_address(w[1], af, h->src) || v1_address(w[2], af, h->dst) || v1_port(w[3], &h->sport) || v1_port(w[4], &h->dport) ?
	    -1 : 0;
}

static int v1_step(const struct proxy_parser *p)
{
	size_t at = p->n - 1;
	unsigned char c = p->octet[at];
	struct proxy_header h = { 0 };
	if (at < sizeof v1_begin - 1)
		return c == (unsigned char)v1_begin[at] ? 0 : -1;
	bool after_cr = p->octet[at - 1] == '\r';
	if ((c == '\n') != after_cr) /* only CR LF ends the line, and CR begins nothing else */
		return -1;
	if (c == '\n')
		return v1_line(p, &h) ? -1 : 1;
	if (c == 0 || p->n == PROXY_V1_MAX)
		return -1;
	return 0;
}

int proxy_feed(struct proxy_parser *p, const char *in, size_t n, size_t *ret_used)
{
	if (p->bad)
		return -1;
	for (size_t i = 0; i < n && !p->done; i++) {
		p->octet[p->n++] = (unsigned char)in[i];
		int r = is_v2(p) ? v2_step(p) : v1_step(p);
		if (r < 0) {
			p->bad = true;
			return -1;
		}
		if (r) {
			p->done = true;
			*ret_used = i + 1;
			return 1;
		}
	}
	*ret_used = p->done ? 0 : n;
	return p->done;
}

static uint32_t crc32c(const unsigned char *p, size_t n, size_t skip_at)
{
	uint32_t c = UINT32_MAX;
	for (size_t i = 0; i < n; i++) {
		c ^= i >= skip_at && i < skip_at + 4 ? 0 : p[i]; /* the checksum itself counts as zero (2.2.3) */
		for (unsigned k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? UINT32_C(0x82f63b78) : 0);
	}
	return ~c;
}

/* Are the TLVs well formed, and does a checksum among them fit? 0; 1: malformed; -1: the checksum does not. */
static int check_tlvs(const struct proxy_parser *p, struct str tlvs)
{
	unsigned type;
	struct str value;
	int r;
	while ((r = proxy_tlv(&tlvs, &type, &value)) > 0) {
		if (type != PROXY_TLV_CRC32C)
			continue;
		if (value.n != 4)
			return 1;
		const unsigned char *v = (const unsigned char *)value.p;
		uint32_t told = (uint32_t)v[0] << 24 | (uint32_t)v[1] << 16 | (uint32_t)v[2] << 8 | v[3];
		if (told != crc32c(p->octet, p->n, (size_t)(v - p->octet)))
			return -1;
	}
	return r < 0;
}

static void put_path(char *out, const unsigned char *p)
{
	size_t n = strnlen((const char *)p, UNIX_PATH);
	memcpy(out, p, n);
	out[n] = 0;
}

static int v2_header(const struct proxy_parser *p, struct proxy_header *h)
{
	const unsigned char *a = p->octet + V2_HEAD;
	size_t left = v2_length(p), size;
	h->local = v2_local(p);
	h->family = h->local ? PROXY_UNSPEC : v2_family(p);
	size = v2_address_size(h->family);
	switch (h->family) {
	case PROXY_TCP4:
	case PROXY_UDP4:
		inet_ntop(AF_INET, a, h->src, sizeof h->src);
		inet_ntop(AF_INET, a + 4, h->dst, sizeof h->dst);
		break;
	case PROXY_TCP6:
	case PROXY_UDP6:
		inet_ntop(AF_INET6, a, h->src, sizeof h->src);
		inet_ntop(AF_INET6, a + 16, h->dst, sizeof h->dst);
		break;
	case PROXY_UNIX_STREAM:
	case PROXY_UNIX_DGRAM:
		put_path(h->src, a);
		put_path(h->dst, a + UNIX_PATH);
		break;
	case PROXY_UNSPEC:
		break;
	}
	if (size == TCP4_SIZE || size == TCP6_SIZE) {
		h->sport = (uint16_t)(a[size - 4] << 8 | a[size - 3]);
		h->dport = (uint16_t)(a[size - 2] << 8 | a[size - 1]);
	}
	if (h->family == PROXY_UNSPEC) /* without addresses whose size is known there is no telling where TLVs begin */
		return 0;
	h->tlvs = str_n((const char *)a + size, left - size);
	int r = check_tlvs(p, h->tlvs);
	if (r > 0) {
		h->tlv_error = true;
		h->tlvs = STR_NULL;
	}
	return r < 0 ? -1 : 0;
}

int proxy_header(const struct proxy_parser *p, struct proxy_header *ret)
{
	struct proxy_header h = { .version = 1 };
	if (!p->done || p->bad)
		return -1;
	if (is_v2(p)) {
		h.version = 2;
		if (v2_header(p, &h))
			return -1;
	} else if (v1_line(p, &h)) {
		return -1;
	}
	*ret = h;
	return 0;
}

int proxy_tlv(struct str *rest, unsigned *ret_type, struct str *ret_value)
{
	if (!rest->n)
		return 0;
	if (rest->n < 3)
		return -1;
	const unsigned char *p = (const unsigned char *)rest->p;
	size_t n = (size_t)p[1] << 8 | p[2];
	if (n > rest->n - 3)
		return -1;
	*ret_type = p[0];
	*ret_value = str_n(rest->p + 3, n);
	*rest = str_skip(*rest, 3 + n);
	return 1;
}

int proxy_ssl(struct str value, struct proxy_ssl *ret)
{
	enum { CLIENT_SSL = 1, CLIENT_CERT_CONN = 2, CLIENT_CERT_SESS = 4, SUB_VERSION = 0x21, SUB_CN = 0x22, SUB_CIPHER = 0x23 };
	struct proxy_ssl s = { 0 };
	struct str rest = str_skip(value, 5), v;
	unsigned type;
	int r;
	if (value.n < 5)
		return -1;
	const unsigned char *p = (const unsigned char *)value.p;
	s.ssl = p[0] & CLIENT_SSL;
	s.verified = p[0] & (CLIENT_CERT_CONN | CLIENT_CERT_SESS) && !(p[1] | p[2] | p[3] | p[4]);
	while ((r = proxy_tlv(&rest, &type, &v)) > 0) {
		if (type == SUB_VERSION)
			s.version = v;
		else if (type == SUB_CN)
			s.common_name = v;
		else if (type == SUB_CIPHER)
			s.cipher = v;
	}
	if (r < 0)
		return -1;
	*ret = s;
	return 0;
}
