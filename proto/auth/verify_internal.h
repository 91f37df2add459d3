/* What the files of the authentication of one message share. Not for others. */
#ifndef PROTO_AUTH_VERIFY_INTERNAL_H
#define PROTO_AUTH_VERIFY_INTERNAL_H

#include "proto/auth/verify.h"

struct verify {
	struct verify_policy policy;
	struct verify_verdict verdict;
	bool wanted[VERIFY_METHODS], done[VERIFY_METHODS];
	bool enveloped, keyed;          /* keyed: all keys were there, and are looked at */
	struct buf text;                /* helo, sender, our name: does not move once filled */
	unsigned char ip[16];
	struct spf_check spf[2];        /* by VERIFY_HELO, VERIFY_MAILFROM */
	struct dkim *dkim;
	struct dmarc_author author;
	struct dmarc_check dmarc;
	struct dmarc_id id[1 + DKIM_SIGNATURES_MAX];
	char *record_text;              /* verdict.record points into it, no longer into the set */
	struct dmarc_record record;
	bool psl_asked;
	bool has_applied;
	enum dmarc_policy applied;      /* see verify_applied() */
	bool policy_known;              /* all that DMARC asks about the author is there */
	bool only_arc;                  /* see verify_only_arc() */
	size_t spf_asked;               /* questions of SPF */
	struct spf_check *explaining;   /* the check whose explanation is wanted; NULL: none */
	size_t explain_most;            /* questions of the set when it may ask no more */
	/* the trace */
	verify_trace_fn *trace;
	void *trace_arg;
	size_t asked;                   /* questions told */
	unsigned char asker[DNS_ANSWERS_MAX];
	bool answered[DNS_ANSWERS_MAX]; /* answers told */
};

/* verify_seal.c. Does a listed sealer vouch for what failed here? Fills disposition, override, sealer, comment. */
void verify_seal(struct verify *v);

/* verify_trace.c; all do nothing without a trace. */
void verify_trace_answers(struct verify *v, const struct dns_answers *set);
/* Questions that are new are the method's. */
void verify_trace_questions(struct verify *v, const struct dns_answers *set, enum verify_method m);
/* A method has its result. set: NULL: it was abandoned. */
void verify_trace_done(struct verify *v, enum verify_method m, struct dns_answers *set);

#endif
