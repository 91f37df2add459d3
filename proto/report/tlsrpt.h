/* TLS reports (RFC 8460): where a domain wants them, a report in memory, written as JSON and read from it, and the message that brings one. No
 * I/O, no clock.
 *
 * A report that goes out, told: what was counted about a domain becomes a struct tlsrpt; tlsrpt_write() makes the JSON, report_gzip() packs it
 * (pack.h); to a mailto: address it goes by report_mail_write() with .tls set (mail.h), to an https: one by POST as TLSRPT_TYPE_GZIP. One that
 * comes in goes the other way: tlsrpt_mail_read(), tlsrpt_unpack(), tlsrpt_read(). */
#ifndef PROTO_REPORT_TLSRPT_H
#define PROTO_REPORT_TLSRPT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "proto/dns/answers.h"

enum {
	TLSRPT_RUA_MAX = 8,            /* addresses of a record that are looked at */
	TLSRPT_URI_MAX = 512,          /* octets of one */
	TLSRPT_QUERIES = 1,
	TLSRPT_JSON_MAX = 2 << 20,     /* octets of a report, unpacked: real ones have some KiB */
	TLSRPT_DEPTH_MAX = 16,         /* of its JSON; the format needs 6 */
	TLSRPT_POLICIES_MAX = 200,     /* read of one report; what is beyond is counted in policies_cut */
	TLSRPT_FAILURES_MAX = 5000,    /* in all; failures_cut */
	TLSRPT_STRINGS_MAX = 300,      /* lines of a policy, mx patterns */
	TLSRPT_TEXT_MAX = 1024,        /* octets kept of a text */
	TLSRPT_MEMORY_MAX = 16 << 20,  /* for what is kept */
};
#define TLSRPT_COUNT_MAX UINT64_C(1000000000000) /* sessions: more is a lie */
#define TLSRPT_TYPE_GZIP "application/tlsrpt+gzip"
#define TLSRPT_TYPE_JSON "application/tlsrpt+json"

/* -- the record (§3) */

enum tlsrpt_scheme { TLSRPT_MAILTO, TLSRPT_HTTPS, TLSRPT_UNKNOWN };
struct tlsrpt_record {
	struct str uri[TLSRPT_RUA_MAX]; /* as written, pointing into the text */
	enum tlsrpt_scheme scheme[TLSRPT_RUA_MAX];
	size_t n, cut;                  /* cut: beyond TLSRPT_RUA_MAX */
};
/* Does the text begin as one, "v=TLSRPTv1" and a semicolon? */
bool tlsrpt_record_is(struct str txt);
/* 0, or -1 with *ret_why a constant clause: not in the grammar, no rua, two, what is no URI. */
int tlsrpt_record_parse(struct str txt, struct tlsrpt_record *ret, const char **ret_why);

struct tlsrpt_target {
	enum tlsrpt_scheme scheme;
	char uri[TLSRPT_URI_MAX + 1];   /* to be POSTed to (§5.4) */
	char address[321];              /* of mailto: whom to write to */
};
enum tlsrpt_txt { TLSRPT_TXT_NONE, TLSRPT_TXT_FOUND, TLSRPT_TXT_UNKNOWN };
struct tlsrpt_lookup {
	/* in; must live until it is done */
	struct str domain;              /* the policy domain: that of the recipients */
	/* out */
	enum tlsrpt_txt state;          /* TLSRPT_TXT_UNKNOWN: it could not be looked up */
	struct tlsrpt_target target[TLSRPT_RUA_MAX]; /* those that can be used, once each, in their order */
	size_t n;
	const char *reason;             /* a constant clause for people: why there is none; or NULL */
};
/* A dns_evaluate_fn; arg: struct tlsrpt_lookup. */
int tlsrpt_evaluate(void *arg, struct dns_answers *set);

/* -- the words (§4.2, §4.3, §4.4) */

enum tlsrpt_type { TLSRPT_NO_POLICY, TLSRPT_TLSA, TLSRPT_STS, TLSRPT_OTHER_TYPE };
/* "no-policy-found", "tlsa", "sts"; "" of TLSRPT_OTHER_TYPE */
const char *tlsrpt_type_name(enum tlsrpt_type t);

enum tlsrpt_result {
	TLSRPT_STARTTLS_NOT_SUPPORTED,
	TLSRPT_CERTIFICATE_HOST_MISMATCH,
	TLSRPT_CERTIFICATE_EXPIRED,
	TLSRPT_CERTIFICATE_NOT_TRUSTED,
	TLSRPT_VALIDATION_FAILURE,
	TLSRPT_TLSA_INVALID,
	TLSRPT_DNSSEC_INVALID,
	TLSRPT_DANE_REQUIRED,
	TLSRPT_STS_POLICY_FETCH_ERROR,
	TLSRPT_STS_POLICY_INVALID,
	TLSRPT_STS_WEBPKI_INVALID,
	TLSRPT_OTHER_RESULT,
};
/* "starttls-not-supported", …; "" of TLSRPT_OTHER_RESULT */
const char *tlsrpt_result_name(enum tlsrpt_result r);
/* TLSRPT_OTHER_TYPE, TLSRPT_OTHER_RESULT for what is none; without case. */
enum tlsrpt_type tlsrpt_type_parse(struct str s);
enum tlsrpt_result tlsrpt_result_parse(struct str s);

/* -- the report (§4.4) */

struct tlsrpt_failure {
	enum tlsrpt_result result;
	struct str word;             /* of one that was read: as it stands there */
	struct str sending_ip, receiving_ip, mx_host, mx_helo; /* empty: not said */
	uint64_t count;
	struct str info, code;       /* additional-information, failure-reason-code; empty: not said */
};
struct tlsrpt_policy {
	enum tlsrpt_type type;
	struct str word;             /* as above */
	const struct str *string;    /* policy-string: TLSA records in presentation form, the lines of an MTA-STS policy */
	size_t n_strings;
	struct str domain;
	const struct str *mx;        /* mx-host: patterns of an MTA-STS policy */
	size_t n_mx;
	uint64_t successes, failures;
	const struct tlsrpt_failure *failure;
	size_t n_failures;
};
struct tlsrpt {
	struct str org, contact, id;
	int64_t begin, end;          /* seconds since 1970 */
	const struct tlsrpt_policy *policy;
	size_t n_policies;
	size_t policies_cut, failures_cut; /* of one that was read */
};
/* Appends the JSON. Texts may hold anything. 0, or -1: full; without organisation, contact, id, policies; a period that is none; a type or result that has no name. */
int tlsrpt_write(const struct tlsrpt *r, struct buf *out);
/* Reads one; everything of *ret lies in the arena, which should be of TLSRPT_MEMORY_MAX. Lenient in what others get wrong: mx-host a string or a list,
 * numbers as strings, members that are missing. Texts are cut at TLSRPT_TEXT_MAX. 0, or -1 with *ret_why a constant clause: no JSON, too large, or without organisation, id, period
 * or policies. */
int tlsrpt_read(struct str json, struct arena *a, struct tlsrpt *ret, const char **ret_why);
/* A time of RFC 3339 as seconds since 1970. 0, or -1. */
int tlsrpt_time_parse(struct str s, int64_t *ret);

/* -- what came by mail (§5.3) */

struct tlsrpt_mail {
	bool found;
	struct buf data;             /* what was attached, as it was packed */
	char from[254];              /* domain of the From field, folded; "" */
	char domain[254], submitter[254]; /* TLS-Report-Domain, TLS-Report-Submitter, folded; "" */
	const char *why;             /* not found: a constant clause */
};
/* Looks into a message. ret->data may grow to max octets. Never fails; tlsrpt_mail_done() afterwards. */
void tlsrpt_mail_read(struct str headers, struct str body, size_t max, struct tlsrpt_mail *ret);
void tlsrpt_mail_done(struct tlsrpt_mail *m);
/* Appends the JSON that is in it: gzip, or nothing around it. As report_unpack() (pack.h). */
int tlsrpt_unpack(struct str data, struct buf *out, const char **ret_why);

#endif
