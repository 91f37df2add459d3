/* The stage's parts: verp.c has options, the life of a worker and mail that leaves; home.c bounces that come back. */
#ifndef VERP_STAGE_H
#define VERP_STAGE_H

#include "return_path.h"

#include <pepsi/stage.h>

struct worker {
	struct return_path path;
	struct return_list senders, local;
	int64_t keep_s, most, split;
	bool learn;
};

/* One message on its way through. */
struct pass {
	struct worker *w;
	const struct pepsi_host *h;
	struct pepsi_msg *m;
	size_t n;                     /* recipients */
	bool question;                /* no message, but a question about its recipient */
};

void tally(const struct pass *p, const char *what, size_t n);
/* Is it an address at DOMAIN? */
bool at_domain(const struct worker *w, struct str address);
/* home.c: a message some recipient of which is at DOMAIN. */
int32_t home(const struct pass *p);

#endif
