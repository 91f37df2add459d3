/* A worker of a pre-acceptance stage, played by a test: the spawner writes down what it was asked for, the worker's end of the channel is the test's. */
#ifndef UNIT_INGRESS_PLAYED_H
#define UNIT_INGRESS_PLAYED_H

#include "harness.h"
#include "ingress/before_internal.h"

struct played {
	unsigned started, killed;
	uint32_t token;
	pid_t pid;
	char stage[64];
};
extern struct played spawner;

/* From here on this is the spawner of w. */
void play(struct world *w);
void settle(struct world *w);
/* The worker that was asked for comes; our end of its channel. */
int come(struct world *w, pid_t pid);

struct job {
	struct buf record;
	struct arena *a;
	struct wire_item item;
	uint32_t ms;
	int fd;
};

struct job get_job(int sock);
void drop_job(struct job *j);
void say(struct world *w, int sock, const struct wire_verdict *v, int fd);

#endif
