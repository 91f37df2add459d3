/* The PROXY protocol header (versions 1 and 2), read octet by octet.
 *
 *     struct proxy_parser p = PROXY_PARSER_INIT;
 *     proxy_feed(&p, "PROXY TCP4 192.0.2.1 198.51.100.2 4711 25\r\nEHLO", …, &used) → 1, used = 43
 *     proxy_header(&p, &h): h.family PROXY_TCP4, h.src "192.0.2.1", h.sport 4711
 */
#ifndef PROTO_PROXY_HEADER_H
#define PROTO_PROXY_HEADER_H

#include "base/str.h"

enum { PROXY_V1_MAX = 107, PROXY_HEADER_MAX = 4096 };

enum proxy_family { PROXY_UNSPEC, PROXY_TCP4, PROXY_TCP6, PROXY_UDP4, PROXY_UDP6, PROXY_UNIX_STREAM, PROXY_UNIX_DGRAM };

struct proxy_parser { /* may be moved and copied */
	size_t n;
	bool done, bad;
	unsigned char octet[PROXY_HEADER_MAX];
};
#define PROXY_PARSER_INIT ((struct proxy_parser){ .n = 0 })

/* Takes octets of the header. 1: it is whole; *ret_used of the n octets belong to it. 0: all were taken, more are needed (at
 * the end of the connection: there is no valid header). -1: this is no header, nor the beginning of one. */
int proxy_feed(struct proxy_parser *p, const char *in, size_t n, size_t *ret_used);

struct proxy_header {
	unsigned version;        /* 1, 2 */
	bool local;              /* the proxy speaks for itself (health check): the connection's own addresses count */
	enum proxy_family family; /* UNSPEC ("UNKNOWN"): the connection's own addresses count; always with local */
	char src[109], dst[109]; /* numeric addresses, or paths of unix sockets; "" with UNSPEC */
	uint16_t sport, dport;
	struct str tlvs;         /* version 2: what follows the addresses, for proxy_tlv(); lives in the parser */
	bool tlv_error;          /* they are malformed: none of them counts, the addresses do */
};
/* What a whole header says. 0, or -1: not whole, or its checksum (PP2_TYPE_CRC32C) does not fit. */
int proxy_header(const struct proxy_parser *p, struct proxy_header *ret);

#define PROXY_TLV_ALPN 0x01
#define PROXY_TLV_AUTHORITY 0x02
#define PROXY_TLV_CRC32C 0x03
#define PROXY_TLV_NOOP 0x04
#define PROXY_TLV_UNIQUE_ID 0x05
#define PROXY_TLV_SSL 0x20
/* Takes the next type-length-value off *rest. 1, 0: none is left, -1: malformed. */
int proxy_tlv(struct str *rest, unsigned *ret_type, struct str *ret_value);

/* The value of PROXY_TLV_SSL: what the proxy had with its client. Empty texts: not told. */
struct proxy_ssl {
	bool ssl;                /* the client came by TLS */
	bool verified;           /* with a certificate that the proxy verified */
	struct str version, common_name, cipher;
};
int proxy_ssl(struct str value, struct proxy_ssl *ret); /* 0, or -1: malformed */

#endif
