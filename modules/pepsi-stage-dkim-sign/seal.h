/* Making signatures with libopendkim, and looking at them with our own verifier. libopendkim does not survive hostile signature fields, so it sees
 * nothing but the fields that are to be signed, none of which may be a signature; and what it makes is believed only after the verifier of proto/dkim
 * agreed. */
#ifndef DKIM_SIGN_SEAL_H
#define DKIM_SIGN_SEAL_H

#include "keydir.h"

enum {
	SEAL_SIGNATURES_MAX = 8, /* of one message */
	SEAL_NAMES_MAX = 64,     /* names of fields that are signed */
	SEAL_FIELDS_MAX = 200,   /* fields of a message that would be signed; more: it is no message that people write */
};

struct seal_terms {
	const char *headers;  /* names of the fields to sign, words; NULL: the default. From is always among them */
	const char *oversign; /* and of those that may not be added later; NULL: the default */
	bool simple_headers, simple_body;
	int64_t expire_s;     /* x= so long after t=; 0: none */
};

/* With which key in which name. */
struct seal_job {
	const char *domain;
	const struct keydir_key *key;
};

struct seal;
/* 0, or -1 and *why (a constant): memory, or this libopendkim cannot do it. */
int seal_new(const struct seal_terms *t, struct seal **ret, const char **why);
/* Accepts NULL. */
void seal_free(struct seal *s);

/* NULL, or what is wrong with a list of field names: a word of it, *ret_n octets, that may not be signed or is no name; or, with *ret_n 0, a sentence. */
const char *seal_names_wrong(const char *names, size_t *ret_n);

/* Can the message be signed at all? NULL, or why not: our own words. */
const char *seal_unsignable(const struct seal *s, struct str headers);

/* Appends one DKIM-Signature field with its CRLF. Returns 0, or -1 and what libopendkim said in why. */
int seal_sign(struct seal *s, const struct seal_job *job, struct str headers, struct str body, struct buf *out, struct buf *why);

/* Which of the jobs have a signature that holds among those at the top of `signatures` (whole fields)? Bit i: jobs[i]. Not of other domains: those
 * fields are not looked at. now: seconds; signatures that are expired or about to be do not hold. -1: memory. */
int seal_holds(const struct seal_job *jobs, size_t n, struct str signatures, struct str headers, struct str body, int64_t now);

#endif
