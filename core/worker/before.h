/* A worker that judges messages before they are accepted (BEFORE_ACCEPT): the same module, the same passes and host functions
 * as in the pipeline, but nothing is committed. What a pass came to becomes a verdict (proto/wire/verdict.h), which the
 * ingress turns into the SMTP reply. One message at a time. */
#ifndef PEPSI_WORKER_BEFORE_H
#define PEPSI_WORKER_BEFORE_H

#include "pass.h"
#include "proto/wire/verdict.h"

#define BEFORE_FIRST_STAGE "init"    /* where advance() leads when the section has no NEXT_STAGE: it only means "on" */
#define BEFORE_BOUNCE_STAGE "bounce" /* what bounce_stage() says when the section has none: going there is a refusal */

struct before {
	struct worker_env *env;    /* runtime_ms is set for each message */
	int channel;               /* SOCK_SEQPACKET, parcels (net/parcel.h) */
	const volatile int *stop;  /* SIGTERM came */
	int stop_fd;               /* readable then */
};

/* The host functions for such passes: those that make rows out of a message are refused, with a text that says why. */
const struct pepsi_host *before_host(void);
/* Runs process() over msg, which has begun, and judges. Strings of *ret live until pass_end(). */
void before_pass(struct pepsi_msg *msg, struct wire_verdict *ret);
/* Says that it is ready, then works until the channel ends or stop is set. 0, or 1: the channel is unusable (logged). */
int before_serve(const struct before *b);
/* Tells what the module counts, if it is time for that, or `now`: measure.h. */
void before_tell(int channel, bool now);

#endif
