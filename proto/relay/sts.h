/* MTA-STS (RFC 8461): what a domain says about TLS at its mail exchangers, by a TXT record and a policy fetched over HTTPS. Records, policies,
 * the match of a host, and when a cached policy is used, fetched anew, or forgotten. No I/O, no clock; the fetch is its caller's.
 *
 * One delivery, told.
 *
 *     struct sts_lookup t = { .domain = STR("example.org") };
 *     net_dns_evaluate(group, sts_evaluate, &t, done, arg);          // _mta-sts.example.org TXT
 *     sts_plan(&cached, &t, now, &plan);                             // cached: what is known from last time, or all zero
 *     if (plan.fetch)
 *             GET https://mta-sts.example.org/.well-known/mta-sts.txt, no redirects, at most STS_POLICY_MAX octets, certificate valid for
 *             that name; if (!(why = sts_http_fault(code, content_type)) && sts_policy_parse(body, &policy, &why) == 0)
 *                     sts_fetched(&cached, t.id, &policy, now);      // and keep the body
 *             else
 *                     sts_failed(&cached, now);                      // and use what there was, if plan.use
 *     sts_policy_covers(&policy, host)                               // then tls.h: what it comes to, DANE considered */
#ifndef PROTO_RELAY_STS_H
#define PROTO_RELAY_STS_H

#include "base/str.h"
#include "proto/dns/answers.h"

enum {
	STS_ID_MAX = 32,
	STS_WORD_MAX = 32,           /* of the name of an extension */
	STS_POLICY_MAX = 64 * 1024,  /* octets of a policy (§3.3 suggests it) */
	STS_MX_MAX = 256,            /* patterns of a policy; one of more is refused */
	STS_AGE_MAX = 31557600,      /* seconds: a year (§3.2); more is taken as this */
	STS_QUERIES = 1,
	STS_TXT_MAX = 4,             /* records looked at: of two none counts */
	STS_RETRY_FIRST = 300,       /* seconds after a fetch that failed (§3.3: five minutes or longer); doubled with each */
	STS_RETRY_MOST = 86400,
	STS_REFRESH = 86400,         /* a policy older than this, or than half its life, is fetched again before it ends (§10.2: daily) */
};

/* -- the record (§3.1) */

/* Does this text of a TXT record begin as one, "v=STSv1" and a semicolon? Others are not looked at (§3.1). */
bool sts_record_is(struct str txt);
/* Its id, pointing into txt. 0; or -1 with *ret_why a constant clause: not in the grammar, no id, two. */
int sts_record_parse(struct str txt, struct str *ret_id, const char **ret_why);

enum sts_txt { STS_TXT_NONE, STS_TXT_FOUND, STS_TXT_UNKNOWN };
struct sts_lookup {
	/* in; must live until it is done */
	struct str domain;           /* the recipients' domain (§3.2: not where its CNAME or MX lead) */
	/* out */
	enum sts_txt state;          /* STS_TXT_UNKNOWN: it could not be looked up */
	char id[STS_ID_MAX + 1];
	const char *reason;          /* a constant clause for people: why not STS_TXT_FOUND; or NULL */
};
/* A dns_evaluate_fn; arg: struct sts_lookup. */
int sts_evaluate(void *arg, struct dns_answers *set);
/* For who asks by other means: the name whose TXT records are wanted (0, or -1: not a domain), and what they come to, of an answer that is none or some. */
int sts_lookup_name(struct str domain, char *out, size_t size);
void sts_lookup_records(struct sts_lookup *l, const struct str *txt, size_t n);

/* -- the policy (§3.2) */

enum sts_mode { STS_NONE, STS_TESTING, STS_ENFORCE };
/* "none", "testing", "enforce" */
const char *sts_mode_name(enum sts_mode m);
int sts_mode_parse(struct str s, enum sts_mode *ret);

struct sts_policy {
	enum sts_mode mode;
	uint32_t max_age;            /* seconds, at most STS_AGE_MAX */
	struct str mx[STS_MX_MAX];   /* "mail.example.org", "*.example.org", as written, pointing into the body */
	size_t n_mx;
};
/* Reads one, by the grammar of §3.2 with LF or CRLF; of a key that is there twice the first counts. 0, or -1 with *ret_why a constant clause. */
int sts_policy_parse(struct str body, struct sts_policy *ret, const char **ret_why);
/* §4.1: the same name, or "*." for exactly one label. Without case; a final dot of host is nothing. */
bool sts_mx_match(struct str pattern, struct str host);
/* Any of them. */
bool sts_policy_covers(const struct sts_policy *p, struct str host);
/* NULL: an answer that holds a policy: 200 (§3.3: redirects are not followed), Content-Type text/plain. Else why not. */
const char *sts_http_fault(unsigned code, struct str content_type);
/* "https://mta-sts.DOMAIN/.well-known/mta-sts.txt" into out, at least DNS_NAME_MAX + 64 octets. 0, or -1: not a domain. */
int sts_url(struct str domain, char *out, size_t size);

/* -- the cache (§3.3, §5.1, §10.2) */

struct sts_cached {              /* of one domain; kept by the caller with the policy's text */
	bool known;                  /* there is a policy */
	char id[STS_ID_MAX + 1];     /* the record's, when it was fetched */
	int64_t fetched;             /* seconds since 1970 */
	uint32_t max_age;
	int64_t failed;              /* the last fetch that failed since; 0: none */
	unsigned failures;           /* in a row */
};
struct sts_plan {
	bool use;                    /* the cached policy holds for mail that goes now, unless a fetch brings another */
	bool fetch;                  /* fetch it */
	bool wait;                   /* and mail should wait for that: there is none that holds, or the domain says it has changed */
	bool forget;                 /* what is cached is over, and no record asks for it */
	const char *reason;          /* a constant clause for people */
};
void sts_plan(const struct sts_cached *c, const struct sts_lookup *txt, int64_t now, struct sts_plan *ret);
void sts_fetched(struct sts_cached *c, const char *id, const struct sts_policy *p, int64_t now);
void sts_failed(struct sts_cached *c, int64_t now);
/* Until when it holds. */
int64_t sts_expires(const struct sts_cached *c);
/* When to fetch it (again) without being asked, so that it is there when mail comes: before it ends, and not sooner after a failure than is allowed. */
int64_t sts_due(const struct sts_cached *c);

#endif
