/* What the topics dkim and arc share: zone data as answers, and a message run through the verifier. */
#ifndef TEST_VECTORS_AUTH_H
#define TEST_VECTORS_AUTH_H

#include "vectors.h"

#include "proto/dkim/dkim.h"

/* The answer of a suite's zone to a TXT question; NULL: no such name. */
typedef struct dns_answer *auth_zone_fn(void *arg, struct str name);
/* An answer with one TXT record. */
struct dns_answer *auth_txt(struct str name, struct str text);
/* One whose status stands for a word of a suite: NXDOMAIN, TIMEOUT, SERVFAIL. */
struct dns_answer *auth_error(struct str name, struct str word);

/* Bare LF made CRLF. */
void auth_crlf(struct str text, struct buf *out);
/* A whole file appended to out. Returns 0, or -1. */
int auth_read_file(const char *path, struct buf *out);
/* The verdict on a message, body fed in pieces of `piece` octets (0: whole). NULL: something failed; free with dkim_release(). */
struct dkim *auth_verify(struct str message, const struct dkim_policy *p, size_t piece, auth_zone_fn *zone, void *arg);

#endif
