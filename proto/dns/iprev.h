/* iprev (RFC 8601 §3): does a name that the address of a client claims lead back to that address? An evaluator over a set of
 * answers (answers.h). What it finds is the name for Received and log lines: a name that does not lead back is nobody's. */
#ifndef PROTO_DNS_IPREV_H
#define PROTO_DNS_IPREV_H

#include "proto/dns/answers.h"

enum { IPREV_NAMES_MAX = 10 }; /* names of one address that are followed (as RFC 7208 §4.6.4 does for "ptr") */

enum iprev_result { IPREV_NONE, IPREV_PASS, IPREV_FAIL, IPREV_TEMPERROR, IPREV_PERMERROR };
/* "none", "pass", … as in Authentication-Results (RFC 8601 §2.7.3) */
const char *iprev_result_name(enum iprev_result r);

struct iprev {
	const unsigned char *ip; /* ip_n octets in network order: 4 or 16 */
	size_t ip_n;
	/* out, once it is done */
	enum iprev_result result; /* never IPREV_NONE */
	char name[DNS_NAME_MAX + 1]; /* pass: the verified name; fail: the first that was claimed; else "" */
};

/* A dns_evaluate_fn; arg: struct iprev. */
int iprev_evaluate(void *arg, struct dns_answers *set);

#endif
