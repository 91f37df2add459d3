/* DMARC (RFC 9989; records of RFC 7489 still work): the record, the DNS tree walk, alignment and what the domain's owner wants done. An
 * evaluator over a set of answers (proto/dns/answers.h); no I/O, no clock.
 *
 * Whoever runs it does SPF and DKIM first, then:
 *
 *     struct dmarc_author author;
 *     dmarc_author(headers, &author);                     // whose mail does it say it is?
 *     struct dmarc_check c = { .author = &author, .id = ids, .n_ids = n };
 *     net_dns_evaluate(group, dmarc_evaluate, &c, done, arg);
 *     ...
 *     c.result, c.disposition, c.reason                   // Authentication-Results, enforcement, reports
 *
 * Limits: 8 queries a walk, DMARC_IDS_MAX identifiers, DMARC_DOMAINS_MAX From domains, DMARC_RECORD_MAX octets a record. */
#ifndef PROTO_AUTH_DMARC_H
#define PROTO_AUTH_DMARC_H

#include "proto/dns/answers.h"

enum {
	DMARC_WALK_MAX = 8,     /* queries of one tree walk (RFC 9989 §4.10) */
	DMARC_IDS_MAX = 12,     /* identifiers looked at: SPF's and those of ten signatures; more are ignored */
	DMARC_DOMAINS_MAX = 4,  /* From domains whose policies are looked up, unless that takes more than the next */
	DMARC_AUTHORS_QUERIES = 19, /* queries that the policies of several are worth: four domains of three labels, or two of any depth */
	DMARC_URIS_MAX = 10,    /* report addresses kept of a record */
	DMARC_RECORD_MAX = 4096,
};

enum dmarc_policy { DMARC_NONE, DMARC_QUARANTINE, DMARC_REJECT };
/* "none", "quarantine", "reject" */
const char *dmarc_policy_name(enum dmarc_policy p);

enum dmarc_result { DMARC_RESULT_NONE, DMARC_RESULT_PASS, DMARC_RESULT_FAIL, DMARC_RESULT_TEMPERROR, DMARC_RESULT_PERMERROR };
/* as in Authentication-Results (RFC 8601 §2.7.1) */
const char *dmarc_result_name(enum dmarc_result r);

/* -- the record (RFC 9989 §4.7, §4.8) */

struct dmarc_uri {
	struct str uri;  /* without the size suffix of RFC 7489 */
	uint64_t max;    /* octets of that suffix, 0: none; RFC 9989 has it ignored */
};

/* What a tag's value was; each is one bit of dmarc_record.faults when it was wrong or came twice. */
enum dmarc_tag {
	DMARC_TAG_P, DMARC_TAG_SP, DMARC_TAG_NP, DMARC_TAG_T, DMARC_TAG_PSD, DMARC_TAG_ADKIM, DMARC_TAG_ASPF, DMARC_TAG_FO,
	DMARC_TAG_RUA, DMARC_TAG_RUF,
	DMARC_TAG_PCT, DMARC_TAG_RF, DMARC_TAG_RI, /* of RFC 7489: read, and without effect */
	DMARC_TAG_V, DMARC_TAG_N,
};
#define DMARC_FAULT(tag) (1u << (tag))
#define DMARC_FAULT_SYNTAX (1u << 30)   /* something between semicolons is no tag */
#define DMARC_FAULT_P_FIRST (1u << 29)  /* RFC 7489 §6.3 wants p behind v; RFC 9989 does not */

#define DMARC_FO_0 (1u << 0)
#define DMARC_FO_1 (1u << 1)
#define DMARC_FO_D (1u << 2)
#define DMARC_FO_S (1u << 3)

struct dmarc_record {
	struct str text;     /* the whole record; uris point into it */
	unsigned seen, faults; /* bits of tags */
	enum dmarc_policy p, sp, np; /* as they are to be applied: defaults filled in, "none" where RFC 9989 §4.10.1 says so */
	char psd;            /* 'y', 'n', 'u' */
	bool t;              /* testing */
	bool adkim_strict, aspf_strict;
	unsigned fo;         /* DMARC_FO_* */
	struct dmarc_uri rua[DMARC_URIS_MAX], ruf[DMARC_URIS_MAX];
	size_t n_rua, n_ruf;
	uint32_t pct, ri;    /* 100 and 86400 unless they said otherwise; for reports about old records only */
	bool usable;         /* a policy record to act on: p, sp and np are right, or there is somewhere to report to */
};

/* Is this text of a TXT record a DMARC record at all ("v=DMARC1", exactly)? */
bool dmarc_record_is(struct str txt);
/* Reads one. Wrong values count as not given (§4.7). Returns 0, or -1: no DMARC record, or a too long one; *ret is untouched. */
int dmarc_record_parse(struct str txt, struct dmarc_record *ret);

/* -- the walk (§4.10) */

struct dmarc_walk {
	char start[DNS_NAME_MAX + 1]; /* folded */
	char org[DNS_NAME_MAX + 1];   /* the organizational domain (§4.10.2) */
	char policy_domain[DNS_NAME_MAX + 1]; /* where the record that applies was found; "" if there is none */
	struct dmarc_record record;   /* of policy_domain */
	char queries[DMARC_WALK_MAX][DNS_NAME_MAX + 1]; /* names looked at, without "_dmarc." */
	size_t n_queries;
	bool found;     /* some record was found on the way */
	bool several;   /* the start has several records: no policy (§4.10 step 2) */
	bool psd;       /* a psd tag decided */
	bool tempfail;  /* some query had no answer: nothing else here is to be used */
	const char *why;
};
/* Walks up from the domain. DNS_DONE or DNS_MORE. A domain that cannot be one gives an empty start. */
int dmarc_walk(struct str domain, struct dns_answers *set, struct dmarc_walk *ret);

/* How many queries a walk up from this domain, folded, takes at most. */
size_t dmarc_walk_queries(const char *domain);
/* Only asks, for all the names a walk may come to, at once; those that matter most first (the domain itself, then the shortest but one).
 * i: which of them, from 0. True: there is an i-th. */
bool dmarc_walk_ask(struct str domain, size_t i, struct dns_answers *set, bool *more);

/* -- the author (§4.1, §5.3.1) */

enum dmarc_author_state {
	DMARC_AUTHOR_OK,      /* one domain */
	DMARC_AUTHOR_NONE,    /* no From field, or no domain in it (a literal) */
	DMARC_AUTHOR_SEVERAL, /* several From fields, or several domains */
	DMARC_AUTHOR_BAD,     /* not a list of addresses that everyone reads alike */
};
struct dmarc_author {
	enum dmarc_author_state state;
	char domain[DMARC_DOMAINS_MAX][DNS_NAME_MAX + 1]; /* folded; different ones */
	size_t n;          /* of them */
	bool more;         /* there were more than are looked up, or more From fields than are read: none of their policies is asked for */
	size_t fields;     /* From fields, counted up to 2 */
	size_t mailboxes;
	size_t unreadable; /* mailboxes of them that are no addresses */
	const char *why;   /* unless OK: a constant clause for people */
};
/* Reads the From fields of a header block. Never fails: what cannot be read is BAD. */
void dmarc_author(struct str headers, struct dmarc_author *ret);

/* -- the evaluation */

struct dmarc_id {
	struct str domain;   /* SPF: of MAIL FROM, or HELO for the null sender; DKIM: d= */
	bool spf;            /* else DKIM */
	bool pass;           /* SPF passed, or this signature verified */
	bool temperror;      /* it could not be known */
	bool aligned;        /* out: passed and aligned */
};

/* The organizational domain by another rule (the public suffix list, auth/psl.h): 0 and a folded name, or -1: it has none. */
typedef int dmarc_org_fn(void *arg, const char *domain, char ret[DNS_NAME_MAX + 1]);

struct dmarc_check {
	/* in; all must live until it is done */
	const struct dmarc_author *author;
	struct dmarc_id *id;
	size_t n_ids;
	dmarc_org_fn *fallback; /* NULL, or RFC 7489's organizational domain where no psd tag speaks */
	void *fallback_arg;
	/* out */
	enum dmarc_result result;
	enum dmarc_policy policy;      /* what the owner asks for this author: p, sp or np */
	enum dmarc_policy disposition; /* what is to be done by it: none unless the result is fail; none when testing */
	enum dmarc_tag policy_tag;     /* where policy is from: DMARC_TAG_P, _SP, _NP */
	const char *reason;            /* a constant clause for people: why this disposition */
	bool testing;                  /* t=y kept the policy from being applied */
	bool spf_aligned, dkim_aligned;
	struct dmarc_walk walk;        /* of the author's domain (the first) */
};
/* A dns_evaluate_fn; arg: struct dmarc_check. */
int dmarc_evaluate(void *arg, struct dns_answers *set);

#endif
