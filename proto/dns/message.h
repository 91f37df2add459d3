/* DNS messages of a stub resolver: one question out, one reply in (RFC 1035, 6891, 2308). Sans I/O: who sends, waits, counts
 * attempts and falls back to TCP is core/net. The codec of resource records is ldns; what it is given was measured before.
 *
 *     struct dns_query q;
 *     dns_query_make(&q, STR("example.org"), DNS_MX, random_id, DNS_QUERY_EDNS, NULL);
 *     send(fd, q.wire, q.n, 0);                  // a connected socket: the kernel checks where replies come from
 *     n = recv(fd, p, DNS_UDP_SIZE + 1, 0);
 *     switch (dns_reply_read(&q, p, n, false, false, &answer, &why)) {
 *     case DNS_REPLY_OK:        … answer->status is OK, NODATA or NXDOMAIN; one reference is ours
 *     case DNS_REPLY_IGNORE:    not the reply to q: forged or late. Go on waiting, the time-out runs on
 *     case DNS_REPLY_TRUNCATED: ask again by TCP
 *     case DNS_REPLY_NO_EDNS:   ask this server again without EDNS
 *     case DNS_REPLY_FAILED:    this server cannot tell (why: "SERVFAIL", …): ask another
 *     } */
#ifndef PROTO_DNS_MESSAGE_H
#define PROTO_DNS_MESSAGE_H

#include "proto/dns/answers.h"

enum {
	DNS_UDP_SIZE = 1232,     /* what we say we take by UDP: passes IPv6's least MTU unfragmented (DNS flag day 2020) */
	DNS_MESSAGE_MAX = 65535, /* by TCP */
	DNS_QUERY_MAX = 12 + 255 + 4 + 11,
	DNS_RANDOM_CASE = 32,    /* octets of randomness for 0x20: a bit for each octet of a name */
};

enum {
	DNS_QUERY_EDNS = 1, /* an OPT record: size 1232, no DO (we do not validate) */
};

struct dns_query {
	uint16_t id;
	enum dns_type type;
	unsigned flags;  /* DNS_QUERY_* */
	bool mixed_case; /* the reply must repeat the very octets of the name */
	size_t name_n;   /* octets of the name on the wire, from wire[12] */
	size_t n;
	unsigned char wire[DNS_QUERY_MAX];
	char name[DNS_NAME_MAX + 1]; /* folded */
};

/* RD and AD are set (RFC 6840 §5.7: AD in a query asks for AD in the reply). random_case: DNS_RANDOM_CASE random octets to mix
 * the case of the name (draft-vixie-dnsext-dns0x20; only for resolvers that repeat the question as it was), or NULL. Returns
 * 0, or -1: no domain name, or a type we do not know. */
int dns_query_make(struct dns_query *q, struct str name, enum dns_type type, uint16_t id, unsigned flags,
    const unsigned char *random_case);

enum dns_reply { DNS_REPLY_OK, DNS_REPLY_IGNORE, DNS_REPLY_TRUNCATED, DNS_REPLY_NO_EDNS, DNS_REPLY_FAILED };

/* Judges a reply and reads what we asked for out of it; anything else in it is not looked at. trust_ad: the server may tell
 * us that data is authenticated. *ret_answer is set for DNS_REPLY_OK only, *ret_why (a constant) for all others. No
 * memory is DNS_REPLY_FAILED, too. */
enum dns_reply dns_reply_read(const struct dns_query *q, const unsigned char *p, size_t n, bool tcp, bool trust_ad,
    struct dns_answer **ret_answer, const char **ret_why);

#endif
