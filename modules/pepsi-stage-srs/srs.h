/* The stage's parts: srs.c has options, the life of a worker and forwarded mail; home.c bounces that go home. */
#ifndef STAGE_SRS_H
#define STAGE_SRS_H

#include "before.h"
#include "return_path.h"

#include <pepsi/stage.h>

struct worker {
	struct return_path path;
	struct before before;
	const char *networks;
	struct return_list local, exempt;
	int64_t keep_s, most_kept, each, all;
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

/* home.c: a message of the null sender. */
int32_t home(const struct pass *p);

/* return_refuse(), counted. */
int32_t refuse(const struct pass *p, const struct return_refusal *const *why);

#endif
