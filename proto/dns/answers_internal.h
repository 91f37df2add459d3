/* What the files of proto/dns share: making an answer out of parts that are folded already. */
#ifndef PROTO_DNS_ANSWERS_INTERNAL_H
#define PROTO_DNS_ANSWERS_INTERNAL_H

#include "proto/dns/answers.h"

/* A deep copy in one block, with one reference; NULL: memory. Records of MX come out sorted by preference. */
struct dns_answer *dns_answer_build(const struct dns_answer *parts);

#endif
