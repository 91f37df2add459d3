/* Pre-acceptance stages (BEFORE_ACCEPT of a listener): a message whose end was seen goes, before it is admitted, to a worker of
 * each stage of the list in turn, and what these say becomes the reply to the client. Never blocks: a job waits for a worker in
 * a bounded queue, the worker's answer comes as an event, and a deadline for all stages together ends both.
 *
 * One message, told: policy calls before_submit(); next turn the first stage's pool gives it to a worker that is idle, or asks the
 * spawner for one; its verdict changes the message, or ends it (reject, defer, discard); after the last stage the message goes to
 * admission, as if there had been none. What fails (a crash, a hang, no worker, a queue that is full, nonsense) goes the way of
 * BEFORE_ACCEPT_FAILURE. A client that leaves meanwhile takes its message along.
 *
 * before.c: jobs, verdicts, replies. before_pool.c: worker processes. before_apply.c: what a stage changed. before_stats.c: what is shown. */
#ifndef INGRESS_BEFORE_H
#define INGRESS_BEFORE_H

#include "ingress.h"

struct before;
struct session;

struct before *before_new(struct ingress *in, const struct ingress_spawner *sp);
/* No session has a job any more. Accepts NULL. */
void before_free(struct before *b);
/* The pools that the listeners of c name; workers of a former configuration end after what they do. */
void before_configure(struct before *b, const struct config *c);
/* Takes s->message, which is whole; s->awaiting is set. Answers later, or hands it to the admission. 0, or -1: no memory, nothing was
 * done. */
int before_submit(struct before *b, struct session *s);
/* s wants its message forgotten; s->before is NULL afterwards. */
void before_cancel(struct session *s);
/* The same, and tells so: the client of s is gone, and with it the message. */
void before_drop(struct session *s);

/* See ingress.h. False: none of ours. */
bool before_worker_started(struct before *b, uint32_t token, pid_t pid, int fd);
bool before_worker_failed(struct before *b, uint32_t token);
bool before_worker_exited(struct before *b, pid_t pid, int status);

void before_metrics(const struct before *b, struct buf *out);
/* A JSON array: {"stage","workers","busy","waiting","passed","rejected","deferred","discarded","failed","pids"}. */
void before_status(const struct before *b, struct buf *out);

#endif
