/* DANE for SMTP (RFC 6698, 7671, 7672): which TLSA records speak for a host, and whether the certificates it shows match them. The look-up is
 * an evaluator over a set of answers (proto/dns/answers.h), the match a pure function on OpenSSL's certificates; no I/O, no clock.
 *
 *     struct dane_lookup d = { .host = STR("mx1.example.org"), .port = 25, .ipv4 = true, .ipv6 = true };
 *     net_dns_evaluate(group, dane_evaluate, &d, done, arg);      // with the set the route came from: its addresses are not asked again
 *     ...
 *     d.status     DANE_NONE        nothing validated: opportunistic TLS, or what MTA-STS says
 *                  DANE_UNUSABLE    records that nobody can use: TLS is a must, without authentication (RFC 7672 §2.2)
 *                  DANE_USABLE      TLS is a must, and dane_check() must match
 *                  DANE_BOGUS       not to be known: this host must not be used now (§2.1.2), in no way
 *
 * What these come to beside MTA-STS and an operator's own rules is tls.h. Only answers that a validating resolver vouches for count
 * (dns_answer.authenticated); with any other resolver every status is DANE_NONE or, where look-ups fail, DANE_BOGUS. */
#ifndef PROTO_RELAY_DANE_H
#define PROTO_RELAY_DANE_H

#include "base/str.h"
#include "proto/dns/answers.h"

enum {
	DANE_QUERIES = 2 + 1 + 2,  /* addresses, an alias, TLSA at two base domains */
	DANE_CHAIN_MAX = 20,       /* certificates looked at of what a peer shows */
	DANE_NAMES_MAX = 4,        /* reference names */
	DANE_ANCHORS_MAX = 16,     /* whole certificates in usage 2 records that are parsed */
	DANE_KEYS_MAX = 8,         /* whole keys in them that signatures are tried with */
};

enum dane_usage { DANE_PKIX_TA, DANE_PKIX_EE, DANE_TA, DANE_EE };
enum dane_selector { DANE_CERT, DANE_SPKI };
enum dane_matching { DANE_FULL, DANE_SHA256, DANE_SHA512 };

/* Can it be used for SMTP: usage 2 or 3 (RFC 7672 §3.1.3: of the PKIX usages nothing can be made), a known selector and matching type, data
 * of the right length, or that can be parsed where it is whole? */
bool dane_record_usable(const struct dns_rr *rr);
/* Does rr[i] count: usable, and no record of the same usage and selector has a stronger digest (RFC 7671 §9)? */
bool dane_record_counts(const struct dns_rr *rr, size_t n_rr, size_t i);

enum dane_status { DANE_NONE, DANE_UNUSABLE, DANE_USABLE, DANE_BOGUS };
/* "none", "unusable", "usable", "bogus" */
const char *dane_status_name(enum dane_status s);

struct dane_lookup {
	/* in; must live until it is done */
	struct str host;            /* as the MX record, or the operator, names it */
	unsigned port;
	bool ipv4, ipv6;            /* as for the route */
	/* out */
	enum dane_status status;
	char base[DNS_NAME_MAX + 1];  /* the TLSA base domain: where the records were, without "_25._tcp."; "" when there are none. It is what
	                               * SNI must say (RFC 7672 §8.1) */
	const struct dns_answer *tlsa; /* all of them: lives as long as the set, or as long as a reference (dns_answer_ref); NULL */
	size_t n_usable;
	const char *reason;         /* a constant clause for people */
};
/* A dns_evaluate_fn; arg: struct dane_lookup. */
int dane_evaluate(void *arg, struct dns_answers *set);

/* The reference names for usage 2 (§3.2.2), the best first: the TLSA base domain; where the host's name is an alias, that; the domain of the
 * recipients, which nobody else chose; and where its aliases lead, if they are validated (route.mx_secure). host: as the MX record has it. The
 * pointers are into what was given. Returns how many. */
size_t dane_names(const struct dane_lookup *d, const char *host, const char *domain, const char *canonical, bool mx_secure,
    const char *ret[DANE_NAMES_MAX]);

/* -- the match */

struct x509_st;        /* X509 */
struct stack_st_X509;  /* STACK_OF(X509) */

/* Does the certificate hold what the record says, whatever its usage? */
bool dane_record_matches(const struct dns_rr *rr, struct x509_st *cert);

enum dane_verdict {
	DANE_MATCHED,
	DANE_MISMATCH,  /* no certificate that counts matches any record that counts */
	DANE_UNTRUSTED, /* usage 2 matches, and the way from there to the host's own certificate is not valid */
	DANE_EXPIRED,   /* the same, for reasons of time */
	DANE_NAME,      /* the same, but none of the names is in the host's certificate */
	DANE_NO_CERT,   /* it showed none */
	DANE_FAILED,    /* memory */
};
/* "matched", "mismatch", … */
const char *dane_verdict_name(enum dane_verdict v);

struct dane_check {
	/* in */
	const struct dns_rr *rr;             /* dane_lookup.tlsa->rr */
	size_t n_rr;
	const struct stack_st_X509 *chain;   /* what the peer showed, its own first (SSL_get_peer_cert_chain() of a client) */
	const char *name[DANE_NAMES_MAX];    /* reference names for usage 2, see dane_names(); usage 3 has no use for names, nor for dates (§3.1.1) */
	size_t n_names;
	int64_t now;                         /* seconds since 1970 */
	/* out */
	enum dane_verdict verdict;
	int error;                           /* X509_V_OK, X509_V_ERR_…; X509_V_ERR_DANE_NO_MATCH for DANE_MISMATCH */
	int depth;                           /* how far from the host's certificate that one is which a record names, or which the key of a record
	                                      * signed; -1: none */
	const char *reason;                  /* a constant clause for people */
};
/* Fills it. True: matched. Work is bounded by the limits above; OpenSSL's error queue is left empty. */
bool dane_check(struct dane_check *c);

#endif
