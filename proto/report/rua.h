/* Where reports about a domain may go (RFC 9990 §3.5, §4; of RFC 9991 the same with ruf): its record is read anew, each address of rua is looked at, and one outside
 * the domain's organisation must agree in its own zone. An evaluator over DNS answers (proto/dns/answers.h); no I/O, no clock. */
#ifndef PROTO_REPORT_RUA_H
#define PROTO_REPORT_RUA_H

#include "proto/auth/dmarc.h"

enum { RUA_QUERIES = 1 + DMARC_WALK_MAX + DMARC_URIS_MAX * (DMARC_WALK_MAX + 1) }; /* what one domain may need */

enum rua_verdict {
	RUA_SEND,
	RUA_SCHEME,      /* no mailto: nothing else is defined */
	RUA_ADDRESS,     /* no address that mail can be sent to, or several */
	RUA_NOT_AGREED,  /* external, and its zone does not agree */
	RUA_OVERRIDE,    /* external, and its zone names a third party: neither gets anything (§4 step 9) */
	RUA_LATER,       /* external, and its zone could not be asked */
	RUA_REPEATED,    /* named before */
	RUA_REPLACED,    /* external, and its zone names another address at the same host, which is in the list, too */
};
/* "send", "scheme", "address", "not-agreed", "override", "later", "repeated", "replaced" */
const char *rua_verdict_name(enum rua_verdict v);

struct rua_target {
	char uri[300];          /* as the record has it, cut */
	char address[321];      /* "" where there is none */
	uint64_t max;           /* octets it takes at most ("!10m"), 0: not said */
	enum rua_verdict verdict;
	bool external;
};

enum rua_state {
	RUA_FOUND,      /* there are targets, whatever their verdicts */
	RUA_NONE,       /* no record any more, or one without rua */
	RUA_TEMPFAIL,   /* it cannot be known now */
};

struct rua_check {
	const char *domain;     /* in: the policy domain, folded */
	bool failures;          /* in: where failure reports go: ruf, not rua */
	/* out */
	enum rua_state state;
	struct rua_target target[DMARC_URIS_MAX * 2];
	size_t n;
};
/* A dns_evaluate_fn; arg: struct rua_check. */
int rua_evaluate(void *arg, struct dns_answers *set);

/* The address of a mailto URI (RFC 6068): percent-decoded, without its header fields. 0; -1: another scheme; -2: no one address, ASCII, with a
 * domain name. address must hold 321 octets. */
int rua_mailto(struct str uri, char *address);

#endif
