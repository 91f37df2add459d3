/* Answers for people: records in presentation form (RFC 1035 §5), pure ASCII whatever they hold. */
#ifndef PROTO_DNS_TEXT_H
#define PROTO_DNS_TEXT_H

#include "base/buf.h"
#include "proto/dns/answers.h"

/* "192.0.2.1", "10 mx.example.org", "\"v=spf1 -all\"", "3 1 1 00ff…"; the root is ".". 0, or -1: the buffer is full. */
int dns_rr_text(enum dns_type type, const struct dns_rr *rr, struct buf *out);

#endif
