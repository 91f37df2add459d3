/* Shared by the files of SPF: macros as the record's syntax sees them, and one run of the evaluator. */
#ifndef PROTO_AUTH_SPF_INTERNAL_H
#define PROTO_AUTH_SPF_INTERNAL_H

#include "proto/auth/spf.h"

struct spf_macro {
	size_t n;              /* octets it takes */
	char letter;           /* lower case; 0: it stands for the text below */
	const char *literal;   /* "%", " ", "%20" */
	bool escape, reverse;
	unsigned keep;         /* parts from the right; 0: all */
	struct str delimiters; /* empty: "." */
};
/* Reads the macro s begins with ("%"). text: c, r and t are allowed (§7.2). Returns 0, or -1. */
int spf_macro_read(struct str s, bool text, struct spf_macro *ret);
/* Is it a macro-string? text: an explain-string, with blanks. */
bool spf_macro_string_ok(struct str s, bool text);

/* One record that is being evaluated; those below it include it. */
struct spf_level {
	char domain[DNS_NAME_MAX + 1];
	struct str rest;            /* terms still to come */
	struct spf_record record;
	struct spf_term include;    /* the term of the level below that opened this one */
};

struct spf_run {
	struct spf_check *c;
	struct dns_answers *set;
	const unsigned char *ip;    /* mapped IPv4 taken apart */
	size_t ip_n;
	char domain_as_given[DNS_NAME_MAX + 1], sender[SPF_LOCAL_MAX + 1 + DNS_NAME_MAX + 1];
	char ip_dotted[64], ip_text[64], now[24], validated[DNS_NAME_MAX + 1];
	struct spf_values values;
	bool p_counted;
	size_t depth;               /* of the level at work */
	struct spf_level level[SPF_TERMS_MAX + 1]; /* the last member: not cleared for each run */
};

/* What a step leads to. */
enum spf_step { SPF_STEP_NO, SPF_STEP_YES, SPF_STEP_MORE, SPF_STEP_TEMPERROR, SPF_STEP_PERMERROR, SPF_STEP_LEADS_ON };

/* Does the mechanism match? Not for include. */
enum spf_step spf_mechanism_match(struct spf_run *r, const struct spf_term *t);
/* One more term with a look-up; PERMERROR above the limit, else NO. */
enum spf_step spf_count_term(struct spf_run *r);
/* The domain of a term: the current one, or its domain-spec expanded. YES: ret holds it. NO: it can be no name in the DNS, so nothing
 * can be there. */
enum spf_step spf_target(struct spf_run *r, struct str spec, char ret[DNS_NAME_MAX + 1]);
/* Fills values.d and, if the text has %{p}, values.p, for the level at work. YES, MORE. */
enum spf_step spf_values_for(struct spf_run *r, struct str text);
/* Ends a step with an error and says why. */
enum spf_step spf_stop(struct spf_run *r, enum spf_step step, const char *why);

#endif
