/* SPF (RFC 7208): may this host send for that domain? An evaluator over a set of answers (proto/dns/answers.h): no I/O, no
 * clock.
 *
 *     struct spf_check c = { .ip = ip, .ip_n = 4, .identity = SPF_MAILFROM, .helo = helo, .sender = reverse_path };
 *     net_dns_evaluate(group, spf_evaluate, &c, done, arg);
 *     ...
 *     c.result, spf_text(&c, buf)                          // spf_authres.h: Authentication-Results, Received-SPF
 *
 * Bounds, whatever the DNS says: 10 terms with look-ups over all records (§4.6.4), so no more than 11 records and a depth of 10;
 * 2 void look-ups; 10 MX names a term (no match among them and more: permerror) and 10 PTR names (more: ignored); SPF_RECORD_MAX octets
 * a record; names that macros make lose labels on the left until they fit (§7.3). That is SPF_QUESTIONS_MAX at the very
 * worst; the budget of whoever runs it may be lower. Nothing recurses, nothing is allocated. */
#ifndef PROTO_AUTH_SPF_H
#define PROTO_AUTH_SPF_H

#include "base/buf.h"
#include "proto/dns/answers.h"

enum {
	SPF_TERMS_MAX = 10,        /* include, a, mx, ptr, exists, redirect and %{p}, in all */
	SPF_VOIDS_MAX = 2,         /* terms whose question has no answer */
	SPF_NAMES_MAX = 10,        /* of an mx term, of the PTR set */
	SPF_QUESTIONS_MAX = 1 + SPF_TERMS_MAX * (1 + SPF_NAMES_MAX) + 1 + (1 + SPF_NAMES_MAX), /* record, terms, exp, %{p} in exp */
	SPF_RECORD_MAX = 8192,     /* a longer record is a permerror: §3.4 wants 450 octets */
	SPF_LOCAL_MAX = 256,       /* octets of a local part that macros see: SMTP has 64 */
	SPF_VALUE_MAX = SPF_LOCAL_MAX + 1 + DNS_NAME_MAX, /* octets of any value of a macro; no more are seen */
	SPF_EXPLANATION_MAX = 400, /* octets kept of an explanation: it must fit a line of a reply */
	SPF_TERM_MAX = 128,        /* octets kept of the term that decided, for people */
};

enum spf_result { SPF_NONE, SPF_NEUTRAL, SPF_PASS, SPF_FAIL, SPF_SOFTFAIL, SPF_TEMPERROR, SPF_PERMERROR };
/* "none", "neutral", … as in Authentication-Results (RFC 8601 §2.7.2) */
const char *spf_result_name(enum spf_result r);

enum spf_identity { SPF_MAILFROM, SPF_HELO };

/* -- the record (§4.5, §4.6.1, §12) */

enum spf_kind { SPF_ALL, SPF_INCLUDE, SPF_A, SPF_MX, SPF_PTR, SPF_IP4, SPF_IP6, SPF_EXISTS, SPF_REDIRECT, SPF_EXP, SPF_MODIFIER };

struct spf_term {
	enum spf_kind kind;       /* SPF_MODIFIER: one we do not know, without effect */
	enum spf_result verdict;  /* mechanisms: what a match means, by the qualifier */
	struct str text;          /* the whole term */
	struct str spec;          /* the domain-spec or, of an unknown modifier, its value; .p is NULL: none given */
	unsigned char ip[16];     /* ip4, ip6 */
	unsigned cidr4, cidr6;    /* 32 and 128 unless given */
};
/* Takes the next term off *rest (the record behind "v=spf1"). 1: *ret; 0: at the end; -1: a syntax error, *ret_why (a constant) says
 * which, ret->text is the term. Syntax of macros and domains is checked. */
int spf_term_next(struct str *rest, struct spf_term *ret, const char **ret_why);

struct spf_record {
	struct str terms;                /* behind the version */
	struct spf_term redirect, exp;   /* .spec.p is NULL: not there */
	const char *why;                 /* a constant: why it is no valid record */
	struct str bad;                  /* the term that is not valid */
};
/* Is this text of a TXT record an SPF record at all? "v=spf1", then a blank or the end; any case. */
bool spf_record_is(struct str txt);
/* Checks a whole record: errors anywhere count (§4.6). It points into txt. Returns 0, or -1: not valid (or none); ret->why. */
int spf_record_parse(struct str txt, struct spf_record *ret);

/* -- macros (§7) */

struct spf_values { /* what the letters stand for */
	struct str s, l, o, d, i, p, v, h, c, r, t;
};
/* The name a domain-spec makes: shortened from the left until it has DNS_NAME_MAX octets, without final dot. out: DNS_NAME_MAX + 1
 * octets. Returns its length, or -1: bad syntax, or one label is too long for any name (out is "" then). */
int spf_expand_domain(struct str spec, const struct spf_values *v, char *out);
/* The text an explain-string makes: out, of size octets, is cut where it is full. Returns 0, or -1: bad syntax, or it is not printable
 * US-ASCII. */
int spf_expand_text(struct str text, const struct spf_values *v, char *out, size_t size);
/* Does a macro of this letter (lower case) occur? */
bool spf_macro_occurs(struct str text, char letter);

/* -- the evaluation */

struct spf_check {
	/* in; all must live until it is done */
	const unsigned char *ip;    /* of the client: ip_n octets in network order, 4 or 16; mapped IPv4 is IPv4 (§5) */
	size_t ip_n;
	enum spf_identity identity;
	struct str helo;            /* as the client said it */
	struct str sender;          /* SPF_MAILFROM: the reverse path without <>; empty: the null one, postmaster@helo (§2.4) */
	struct str receiver;        /* our name, for %{r} in explanations; may be empty */
	int64_t now;                /* seconds since the epoch, for %{t} in explanations */
	unsigned voids_max;         /* 0: SPF_VOIDS_MAX (§4.6.4 lets sites choose) */
	/* NULL, or told of each term with what it came to ("matches", "does not match", "leads on", "permerror", …), depth includes down:
	 * for people. A run that ends with DNS_MORE tells, too, so this is for a run on a set that has all answers. */
	void (*step)(void *arg, size_t depth, const char *domain, struct str term, const char *outcome);
	void *step_arg;
	bool explain;               /* fetch the domain's explanation of a fail (§6.2): foreign text, at most to be shown */
	/* out */
	enum spf_result result;
	bool by_helo;               /* it is the HELO name that was checked: the identity is HELO, or the sender is null */
	char domain[DNS_NAME_MAX + 1]; /* the domain that was checked; "" if it is none */
	char where[DNS_NAME_MAX + 1];  /* the domain whose record decided, by include or redirect perhaps another; "" when none did */
	char term[SPF_TERM_MAX + 1];   /* the term that decided, printable; "" when none did */
	const char *reason;         /* a constant clause for people */
	bool has_explanation;       /* a fail whose record names an explanation (exp=), fetched or not */
	char explanation[SPF_EXPLANATION_MAX + 1]; /* printable US-ASCII; "" when there is none */
	unsigned n_terms, n_voids;  /* of the limits, used */
};
/* A dns_evaluate_fn; arg: struct spf_check. */
int spf_evaluate(void *arg, struct dns_answers *set);

/* Appends one line for logs: "fail: -all in the record of example.org". Printable. 0, or -1: the buffer is full. */
int spf_text(const struct spf_check *c, struct buf *out);

#endif
