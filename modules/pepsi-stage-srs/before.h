/* Addresses that another program made before this stage did (postsrsd, and what descends from the first libraries): their bounces still come for some weeks, and are
 * taken home until a day that the operator names. Their tags are of 20 bits, which can be guessed by trying: hence the end. None are made here. */
#ifndef STAGE_SRS_BEFORE_H
#define STAGE_SRS_BEFORE_H

#include "proto/srs/srs.h"

#include <pepsi/stage.h>

enum { BEFORE_SECRET_MAX = 255 };

struct before {
	char secret[2][BEFORE_SECRET_MAX + 1]; /* wiped by before_done() */
	size_t n;        /* of them; 0: there was no such program, or its secrets cannot be used */
	bool wanted;     /* there was one */
	int64_t until;   /* seconds since 1970 */
};

/* BEFORE and BEFORE_UNTIL. Faults go to report, but that the file cannot be read. */
void before_check(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report);
/* The same, and the file; what is wrong with it stands in the log. */
void before_read(struct before *b, const struct pepsi_host *host, const struct pepsi_conf *conf);
void before_done(struct before *b);

/* As srs_reverse(): SRS_NOT_SRS where there was none or its time is over; SRS_KEY where its secrets cannot be used, so that nobody can tell. */
int before_reverse(const struct before *b, const struct srs *ours, struct str address, int64_t now, struct buf *out);

#endif
