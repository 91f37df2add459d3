/* The stage's parts: verp.c has options, the life of a worker and mail that leaves; home.c bounces that come back. */
#ifndef VERP_STAGE_H
#define VERP_STAGE_H

#include "keys.h"
#include "pattern.h"

#include <pepsi/stage.h>

struct worker {
	const struct pepsi_host *host;
	const struct pepsi_conf *conf;
	const char *stage;
	char domain[260];             /* DOMAIN as A-labels */
	struct keys keys;
	struct srs srs;               /* its keys are set by ready() alone */
	struct pattern *senders, *local;
	size_t n_senders, n_local;
	int64_t keep_s, most, split;
	bool learn;
	struct pepsi_metric *results; /* NULL: nobody counts */
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
/* The keys are there: PEPSI_OK; else PEPSI_RETRY, after a line in the log. */
int32_t ready(const struct pass *p);

/* home.c: a message some recipient of which is at DOMAIN. */
int32_t home(const struct pass *p);

#endif
