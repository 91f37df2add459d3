/* The stage's parts: srs.c has options, the life of a worker and forwarded mail; home.c bounces that go home; refuse.c recipients that are none. */
#ifndef STAGE_SRS_H
#define STAGE_SRS_H

#include "before.h"
#include "keys.h"
#include "pattern.h"

#include <pepsi/stage.h>

struct json_object;

struct worker {
	const struct pepsi_conf *conf;
	const char *stage, *networks;
	char domain[260];             /* DOMAIN as A-labels */
	struct keys keys;
	struct before before;
	struct srs srs;               /* its keys are set by ready() alone */
	struct pattern *local, *exempt;
	size_t n_local, n_exempt;
	int64_t keep_s, most_kept, each, all;
	const struct pepsi_host *host;
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

/* Recipients that this became of: forwarded, kept, left, home, before (home as well), capped, or a refusal's name. Questions count nothing. */
void count(const struct pass *p, const char *what, size_t n);

/* The keys are there: PEPSI_OK; else PEPSI_RETRY, after a line in the log. */
int32_t ready(const struct pass *p);

/* home.c: a message of the null sender. */
int32_t home(const struct pass *p);

/* refuse.c: why[i] not NULL: recipient i can never be delivered; i < p->n. Those are given back, the others come to this stage again without them.
 * PEPSI_NONE: there is none of them. Any other: as process() returns it. */
struct refusal {
	const char *name, *status, *text; /* constants, nothing of the message in them */
};
extern const struct refusal refusal_sender, refusal_forged, refusal_expired;
int32_t refuse(const struct pass *p, const struct refusal *const *why);

#endif
