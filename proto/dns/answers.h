/* DNS answers as the rest of the tree sees them, and the answer set that makes evaluators restartable: SPF, DMARC, DKIM and
 * ARC key fetching, iprev, DNSBL look-ups. No wire format, no sockets, no clock here; messages are proto/dns/message.h, the
 * asynchronous resolver is core/net (net/dns.h).
 *
 * An evaluator, told. It is a pure function over a set of answers: it asks the set for what it needs, and where something
 * is missing it returns "more". Whoever runs it resolves what is missing and calls it again, with the same set, from the
 * top. It keeps no state of its own between the calls, or only what it can make anew:
 *
 *     // has the domain a mail exchanger that has an address?
 *     static int has_exchanger(void *arg, struct dns_answers *set)
 *     {
 *             struct check *c = arg;
 *             const struct dns_answer *mx = dns_answers_get(set, c->domain, DNS_MX);
 *             if (!mx)
 *                     return DNS_MORE;                       // noted as missing by the call above
 *             if (mx->status == DNS_TEMPFAIL)
 *                     return c->result = TEMPERROR, DNS_DONE;
 *             c->result = NO;                                // NXDOMAIN, NODATA: n_rr is 0
 *             bool more = false;
 *             for (size_t i = 0; i < mx->n_rr && i < 10; i++) {
 *                     const struct dns_answer *a = dns_answers_get(set, mx->rr[i].data, DNS_A);
 *                     if (!a)
 *                             more = true;                   // go on: all ten are then resolved at the same time
 *                     else if (a->n_rr)
 *                             return c->result = YES, DNS_DONE;
 *             }
 *             return more ? DNS_MORE : DNS_DONE;
 *     }
 *
 * In the reactor:  net_dns_evaluate(group, has_exchanger, c, done, arg);     (net/dns.h; nothing blocks)
 * In a test:       struct dns_answers *set = dns_answers_new();
 *                  while (has_exchanger(c, set) == DNS_MORE)
 *                          while (dns_answers_missing(set, 0, &name, &type))
 *                                  dns_answers_put(set, answer_from_zone_data(name, type));   // dns_answer_new()
 *
 * Each round must ask for something new or be done: a run that returns DNS_MORE with nothing missing is a bug of the
 * evaluator, and the callers above end it. Names an evaluator asks for may be wrong or hostile (macro expansion): what cannot
 * be a domain name is answered at once with NXDOMAIN, `why` set, and costs no query. */
#ifndef PROTO_DNS_ANSWERS_H
#define PROTO_DNS_ANSWERS_H

#include "base/str.h"

enum {
	DNS_NAME_MAX = 253,  /* octets of a name as text, without final dot: 255 on the wire (RFC 1035 §2.3.4) */
	DNS_LABEL_MAX = 63,
	DNS_CHAIN_MAX = 8,   /* CNAMEs followed within one answer */
	DNS_RR_MAX = 1024,   /* records of one answer; a reply with more is a failure */
	DNS_ANSWERS_MAX = 256,             /* answers in one set: far above any budget of queries */
	DNS_ANSWERS_OCTETS_MAX = 4 << 20,  /* and their octets */
};

enum dns_type {
	DNS_A = 1,
	DNS_NS = 2,
	DNS_CNAME = 5,
	DNS_SOA = 6,
	DNS_PTR = 12,
	DNS_MX = 15,
	DNS_TXT = 16,
	DNS_AAAA = 28,
	DNS_TLSA = 52,
};
/* "A", …; NULL for a number that is none of the above. */
const char *dns_type_name(enum dns_type t);
/* The opposite, without case. 0, or -1. */
int dns_type_parse(struct str s, enum dns_type *ret);

enum dns_status {
	DNS_OK,       /* n_rr > 0 */
	DNS_NODATA,   /* the name exists, without records of this type */
	DNS_NXDOMAIN, /* the name does not exist */
	DNS_TEMPFAIL, /* not known: no answer in time, SERVFAIL, garbage, budget used up. Never to be taken for "no" */
};
/* "ok", "nodata", "nxdomain", "tempfail" */
const char *dns_status_name(enum dns_status s);

/* One record. Names are lower case, A-labels, without final dot; the root is "" (RFC 7505: MX 0 "" is "no mail"). */
struct dns_rr {
	struct str data;     /* A: 4 octets, AAAA: 16, network order. TXT: all character-strings joined with nothing between
			      * (RFC 7208 §3.3, RFC 6376 §3.6.2.2), any octets. NS, CNAME, PTR, MX, SOA (mname): the name.
			      * TLSA: the certificate association data */
	uint16_t preference; /* MX; records are sorted by it */
	uint8_t usage, selector, matching; /* TLSA */
};

/* What is known of (name, type). Never changes once made; shared by counting, within one thread. */
struct dns_answer {
	struct str name;         /* as asked, folded */
	enum dns_type type;
	enum dns_status status;
	bool authenticated;      /* validated by a resolver we trust, the whole CNAME chain included (DANE needs it) */
	uint32_t ttl;            /* seconds it may be kept: the smallest along the chain; RFC 2308 for negative ones */
	const char *why;         /* a constant text: why it is a TEMPFAIL, or why it was not asked at all; else NULL */
	const struct str *chain; /* names a CNAME chain went through after `name`; the last is the canonical name */
	size_t n_chain;
	const struct dns_rr *rr; /* n_rr records of `type`; 0 unless DNS_OK */
	size_t n_rr;
	size_t octets;           /* memory it takes */
	unsigned refs;           /* not yours */
};

/* Folds a domain name: one final dot is dropped, ASCII lower-cased, labels in UTF-8 become A-labels (RFC 5891,
 * libidn2). out must hold DNS_NAME_MAX + 1 octets and becomes NUL-terminated. Returns its length, or -1: empty (the root
 * too), an empty or overlong label, an overlong name, octets outside 0x20–0x7e. Not only host names pass ("_dmarc.x",
 * "a b=c.x"): DNS takes any octet, and SPF macros make such names. */
int dns_name_fold(struct str name, char *out);
/* "4.3.2.1.in-addr.arpa" of 4 octets, the nibble form under ip6.arpa of 16; with another suffix ("zen.example") the form
 * DNSBLs use. suffix NULL: the standard tree. out as above. Returns the length, or -1. */
int dns_name_reverse(const unsigned char *ip, size_t n, const char *suffix, char *out);

/* An answer out of parts (tests, zone data, failures): everything is copied, names are folded, records of a type other
 * than DNS_OK ignored. rr[].data of A and AAAA must be 4 and 16 octets. NULL: memory, or a name or record that cannot be. One
 * reference. */
struct dns_answer *dns_answer_new(struct str name, enum dns_type type, enum dns_status status, const struct dns_rr *rr, size_t n_rr,
    uint32_t ttl, bool authenticated);
/* The same at the end of aliases: canonical is where they lead, as far as it matters to who only knows that; empty or the name itself: none. */
struct dns_answer *dns_answer_at(struct str name, struct str canonical, enum dns_type type, enum dns_status status, const struct dns_rr *rr,
    size_t n_rr, uint32_t ttl, bool authenticated);
/* One that failed (DNS_TEMPFAIL); why: a constant. */
struct dns_answer *dns_answer_fail(struct str name, enum dns_type type, const char *why);
/* For what cannot be asked: DNS_NXDOMAIN, no name, why says so. */
struct dns_answer *dns_answer_unaskable(enum dns_type type);
struct dns_answer *dns_answer_ref(const struct dns_answer *a);
/* Accepts NULL. */
void dns_answer_unref(const struct dns_answer *a);

/* -- the set */

struct dns_answers;
enum { DNS_DONE = 0, DNS_MORE = 1 }; /* what evaluators return; negative: they gave up (memory) */
typedef int (*dns_evaluate_fn)(void *arg, struct dns_answers *set);

struct dns_answers *dns_answers_new(void);
/* Answers got from it die with it. Accepts NULL. */
void dns_answers_free(struct dns_answers *set);

/* The answer; or NULL: not there yet, and noted as missing. The name is folded first. Never NULL for what cannot be asked:
 * a name that is none gives DNS_NXDOMAIN with `why`, a set that is full DNS_TEMPFAIL. Lives as long as the set. */
const struct dns_answer *dns_answers_get(struct dns_answers *set, struct str name, enum dns_type type);
/* Only looks; notes nothing. */
const struct dns_answer *dns_answers_peek(const struct dns_answers *set, struct str name, enum dns_type type);

/* From now on no more than `most` different questions in all (0: DNS_ANSWERS_MAX): further ones are answered as by a full set, and not noted.
 * For who shares a set among several evaluators, each with its part of a budget. */
void dns_answers_limit(struct dns_answers *set, size_t most);

/* For whoever resolves. The i-th of those missing, from 0, in the order they were asked for; false behind the last. name lives
 * as long as the set. Putting an answer takes it off the list (the next one moves up). */
bool dns_answers_missing(const struct dns_answers *set, size_t i, struct str *ret_name, enum dns_type *ret_type);
size_t dns_answers_n_missing(const struct dns_answers *set);
/* Puts an answer, missing or not, by its name and type; takes over one reference (a second answer to the same question is
 * dropped: what was once seen stays). A NULL answer is an error. Returns 0, or -1: full or out of memory; the reference is
 * taken even then, and the question, if it was missing, counts as failed. */
int dns_answers_put(struct dns_answers *set, struct dns_answer *a);
/* The i-th question asked, from 0, in order; *ret_answer is NULL while it is missing. False behind the last. */
bool dns_answers_at(const struct dns_answers *set, size_t i, struct str *ret_name, enum dns_type *ret_type,
    const struct dns_answer **ret_answer);
/* How many different questions were asked of it so far, answered or missing (not counting those that cannot be asked). */
size_t dns_answers_n(const struct dns_answers *set);

#endif
