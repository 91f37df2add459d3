/* The authentication of one message: SPF of HELO and MAIL FROM, DKIM, ARC and DMARC as one restartable evaluation without I/O, clock or
 * logging. Input comes as the session has it, questions to the DNS go through one set of answers (proto/dns/answers.h), and
 * one verdict comes out, with all that Authentication-Results, state.auth, reports and people want to know of it.
 *
 * One message, told:
 *
 *     struct verify *v = verify_new(&policy);              // policy.dkim.now: the time, by the caller
 *     verify_envelope(v, &envelope);                       // at MAIL or RCPT: SPF begins
 *     ask(v);
 *     verify_headers(v, headers);                          // the header block is whole: keys and policies are asked for
 *     ask(v);
 *     verify_body(v, p, n); …                              // the body as it arrives, with its CRLFs
 *     verify_body_end(v);
 *     ask(v);
 *     if (verify_done(v)) …                                // now, or behind a later answer
 *             verify_authres(v, out, id, NULL, 0, utf8);
 *
 * where ask() is: verify_evaluate(v, set) and, while that returns DNS_MORE, getting what dns_answers_missing() names and putting it
 * there. The set is the caller's, one for all of it; nothing of the verdict points into it, so it may go when verify_done().
 * Who has everything at once (a tool) gives it all first and runs verify_evaluate() as any evaluator (net_dns_evaluate).
 *
 * Each method that has its result keeps it: a later call does not look at it again. DMARC needs SPF and DKIM, so these are done for
 * it where only DMARC is wanted.
 *
 * Bounds: those of spf.h, dkim.h and dmarc.h; memory besides: VERIFY_TEXT_MAX octets and the header digests. Whoever asks the DNS has a
 * budget of queries and of time; behind it everything is DNS_TEMPFAIL, so it ends, with "temperror" where it matters. */
#ifndef PROTO_AUTH_VERIFY_H
#define PROTO_AUTH_VERIFY_H

#include "proto/auth/authres.h"
#include "proto/auth/dmarc.h"
#include "proto/auth/spf.h"
#include "proto/dkim/dkim.h"

enum {
	VERIFY_TEXT_MAX = 4096,     /* octets of HELO name, sender and host name together, longer ones are cut */
	VERIFY_JSON_MAX = 64 << 10, /* octets of the verdict as JSON: ten signatures at their longest are half of it */
	VERIFY_COMMENT_MAX = 512,   /* octets of an override's comment */
	VERIFY_QUERIES = 40,        /* queries that a message is worth: what callers give their group. Nobody may hide a DMARC policy behind
				     * other work: the author's records and the keys of signatures come first, SPF has a part of
				     * its own (MAIL FROM before HELO), and ARC what is left when all these have their answers */
	VERIFY_EXPLAIN_QUERIES = 12, /* an explanation of SPF: its text, and what %{p} in it takes; out of what is left */
	VERIFY_SPF_QUERIES = 21,    /* what 8 of a tree walk, 10 keys, and whether the author's domain exists leave of them */
};

enum verify_method { VERIFY_HELO, VERIFY_MAILFROM, VERIFY_DKIM, VERIFY_ARC, VERIFY_DMARC, VERIFY_METHODS };
/* "spf-helo", "spf", "dkim", "arc", "dmarc" */
const char *verify_method_name(enum verify_method m);

struct verify_policy {
	bool spf, dkim, arc, dmarc;
	struct dkim_policy dkim_policy; /* now: seconds since 1970, for SPF, too; arc is set by the engine */
	/* Domains whose seals may override a DMARC policy: copied pointers, the caller's until verify_free(). */
	const struct str *sealers;
	size_t n_sealers;
	bool explain; /* verify_explain() by itself, at the end, wherever it may be called */
	dmarc_org_fn *fallback; /* see dmarc_check */
	void *fallback_arg;
};

struct verify_envelope {
	unsigned char ip[16];
	size_t ip_n;             /* 4, 16; 0: it came by no network (SPF: none) */
	struct str helo;         /* all copied */
	struct str mail_from;    /* without <>; empty: the null sender */
	struct str receiver;     /* our name */
};

struct verify;

/* NULL: memory. */
struct verify *verify_new(const struct verify_policy *p);
/* Accepts NULL. */
void verify_free(struct verify *v);
/* Once. 0, or -1: memory (the verdict is temperror then). */
int verify_envelope(struct verify *v, const struct verify_envelope *e);
/* Once; see dkim_headers(). The octets are not needed afterwards. 0, or -1 as above. */
int verify_headers(struct verify *v, struct str headers);
/* May the body be withheld? Behind verify_headers(). */
bool verify_wants_body(const struct verify *v);
void verify_body(struct verify *v, const void *p, size_t n);
void verify_body_end(struct verify *v);
/* A dns_evaluate_fn; arg: struct verify. DNS_DONE: nothing is missing for what has been given so far. */
int verify_evaluate(void *v, struct dns_answers *set);
/* Has every method its result? */
bool verify_done(const struct verify *v);
/* Is what verify_evaluate() left open about the ARC chain alone? It matters only as an override: who has little time for that has a say here,
 * by failing these questions (DNS_TEMPFAIL); everything else goes on then. */
bool verify_only_arc(const struct verify *v);
/* Behind verify_done(): the message is refused for SPF, and the domain's own words for it are wanted (RFC 7208 §6.2; SPF_FAIL of the first of
 * verdict.spf and verdict.spf_helo that is one). verify_done() is false again until they are there, or it is known that there are none;
 * the verdict does not change but for spf_check.explanation. Foreign text, of printable US-ASCII: to be shown with the domain's name only.
 * False: there is nothing to be asked for. */
bool verify_explain(struct verify *v);
/* It must end now: what is not known becomes temperror. why: a constant clause. */
void verify_abandon(struct verify *v, const char *why);

/* -- the verdict; complete when verify_done() */

/* RFC 9990, of a policy that is not applied. */
enum verify_override { VERIFY_NO_OVERRIDE, VERIFY_TEST_MODE, VERIFY_TRUSTED_SEALER };
/* "", "policy_test_mode", "local_policy", as the reports name them */
const char *verify_override_name(enum verify_override o);

struct verify_dkim {
	const struct dkim_signature *signature;
	bool aligned; /* passed, and counts for DMARC */
};

struct verify_verdict {
	const struct spf_check *spf;      /* of MAIL FROM (of HELO where the sender is null); NULL: not done */
	const struct spf_check *spf_helo; /* of HELO beside it; NULL: not done */
	bool spf_aligned;
	bool dkim_checked;
	size_t n_dkim;                    /* 0: not signed */
	struct verify_dkim dkim[DKIM_SIGNATURES_MAX];
	size_t dkim_ignored;              /* signatures beyond these */
	const char *dkim_error;           /* a constant: why DKIM and ARC are temperror as a whole; NULL: they are not */
	const struct arc_result *arc;     /* NULL: not done; see dkim_error */
	const struct dmarc_author *author;/* of the From field; NULL: no headers were given */
	const struct dmarc_check *dmarc;  /* NULL: not done. dmarc->walk: organizational domain, names looked at */
	const struct dmarc_record *record;/* the policy record that was applied, of dmarc->walk.policy_domain; NULL: none */
	bool psl;                         /* discovery: the public suffix list helped; else the tree walk alone */
	enum dmarc_policy disposition;    /* what is to be done: dmarc->disposition unless a listed sealer overrides it */
	enum verify_override override;
	unsigned sealer;                  /* VERIFY_TRUSTED_SEALER: the instance whose results count */
	char comment[VERIFY_COMMENT_MAX]; /* why it was overridden, printable; "" when not */
};
/* Lives as long as v. */
const struct verify_verdict *verify_verdict(const struct verify *v);
/* What was done of the policy by whoever decides: what Authentication-Results and the log call its disposition from now on (until then it is
 * verdict.disposition, what is to be done), and state.auth "applied". */
void verify_applied(struct verify *v, enum dmarc_policy done);
/* The one word that stands for all signatures: pass if one passes, else what the best of them has; none: not signed. */
enum dkim_result verify_dkim_result(const struct verify_verdict *r);
/* Does anything lack a result for a reason that may be gone later? */
bool verify_temporary(const struct verify_verdict *r);

/* -- what is written of it (verify_text.c) */

/* Appends a whole Authentication-Results field: `more` (iprev, say) first, then SPF, DKIM, ARC, DMARC as far as the policy asks for
 * them. 0, or -1: full, or an id that is none; the buffer is as before then. */
int verify_authres(const struct verify *v, struct buf *out, struct str id, const struct authres_result *more, size_t n_more, bool utf8);
/* Appends what state.auth has (pepsi.state(7)), one JSON object of at most VERIFY_JSON_MAX octets. 0, or -1: full. */
int verify_json(const struct verify *v, struct buf *out);
/* Appends "spf=pass spf_domain=example.org … dkim=pass … arc=none dmarc=fail … disposition=reject", for a line of a log: words without
 * anything that would have to be quoted. 0, or -1: full. */
int verify_log(const struct verify *v, struct buf *out);

/* -- step by step, for people */

enum verify_step_kind {
	VERIFY_ASKS,    /* name, type */
	VERIFY_ANSWER,  /* answer */
	VERIFY_SAYS,    /* text: a step on the way */
	VERIFY_DECIDES, /* text: result and reason of a method, or of one signature */
};
struct verify_step {
	enum verify_step_kind kind;
	enum verify_method method;         /* who asks (the first, where several want to know it), or decides */
	struct str name;                   /* ASKS, ANSWER */
	enum dns_type type;
	const struct dns_answer *answer;   /* ANSWER; dies with the call */
	const char *text;                  /* SAYS, DECIDES: printable ASCII, one line */
};
typedef void verify_trace_fn(void *arg, const struct verify_step *step);
/* Before anything else. fn is called from within the calls above, in order. */
void verify_trace(struct verify *v, verify_trace_fn *fn, void *arg);

#endif
