/* What relay workers and tools say to the fetching child (core/fetch, STATE/run/sts.sock, SOCK_SEQPACKET), and what it answers: one datagram
 * each way, one question at a time on a connection. Pure encoding and decoding; neither side believes the other.
 *
 *     "STS1 example.org\n"              the policy of example.org, please (a folded name, as dns_name_fold() makes it)
 *     "STS1 example.org fresh\n"        … even if it failed a moment ago
 *     "ok\n" and the text as it was served, STS_POLICY_MAX octets at most, not yet parsed
 *     "failed\nWHY", "webpki\nWHY", "busy\nWHY"  WHY: one printable line */
#ifndef PROTO_RELAY_STS_WIRE_H
#define PROTO_RELAY_STS_WIRE_H

#include "base/buf.h"
#include "proto/relay/sts.h"
#include "proto/report/tlsrpt.h"

#define STS_WIRE_SOCKET "run/sts.sock" /* below STATE */
enum {
	STS_WIRE_REQUEST_MAX = 320,
	STS_WIRE_ANSWER_MAX = STS_POLICY_MAX + 16,
	STS_WIRE_WHY_MAX = 200,
};

enum sts_wire_class {
	STS_WIRE_OK,
	STS_WIRE_FAILED, /* no address, no connection, no TLS, redirect, status, type, size, time: RFC 8460's sts-policy-fetch-error */
	STS_WIRE_WEBPKI, /* the certificate: sts-webpki-invalid */
	STS_WIRE_BUSY,   /* the child is overloaded or cannot work: nothing is said about the domain */
};
/* "ok", "failed", "webpki", "busy" */
const char *sts_wire_class_name(enum sts_wire_class c);
/* What a TLS report calls it; not for STS_WIRE_OK. */
enum tlsrpt_result sts_wire_result(enum sts_wire_class c);

/* Appends. 0, or -1: no name of a domain, or no room. */
int sts_wire_request_put(struct buf *out, struct str domain, bool fresh);
/* 0 with the domain folded in `domain` (DNS_NAME_MAX + 1 octets), or -1. */
int sts_wire_request_get(struct str datagram, char *domain, bool *ret_fresh);

struct sts_wire_answer {
	enum sts_wire_class class;
	struct str text;         /* the policy; else why not: one printable line. Points into the datagram */
};
/* Appends; of a WHY what is not printable becomes '?', what is too long is cut. 0, or -1: no room, or a policy that is too large. */
int sts_wire_answer_put(struct buf *out, enum sts_wire_class c, struct str text);
int sts_wire_answer_get(struct str datagram, struct sts_wire_answer *ret);

#endif
