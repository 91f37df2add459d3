/* Pre-acceptance stages (BEFORE_ACCEPT of a listener): a message whose end was seen goes, before it is admitted, to a worker of
 * each stage of the list in turn, and what these say becomes the reply to the client. Never blocks: a job waits for a worker in
 * a bounded queue, the worker's answer comes as an event, and a deadline for all stages together ends both.
 *
 * One message, told: policy calls before_submit(); next turn the first stage's pool gives it to a worker that is idle, or asks the
 * spawner for one; its verdict changes the message, or ends it (reject, defer, discard); after the last stage the message goes to
 * admission, as if there had been none. What fails (a crash, a hang, no worker, a queue that is full, nonsense) goes the way of
 * BEFORE_ACCEPT_FAILURE. A client that leaves meanwhile takes its message along.
 *
 * before.c: jobs, verdicts, replies. before_pool.c: worker processes. before_apply.c: what a stage changed. before_ask.c:
 * questions at RCPT. before_stats.c: what is shown. */
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

/* --- questions about recipients (RECIPIENTS = stage:NAME). The stage gets a message that is only an envelope: the sender, this one recipient, a state of
 * {"question":"recipient"}, no header, no body. What it does with it is the answer; nothing of it is kept. */
enum before_told {
	BEFORE_KNOWS,   /* it gave the recipient another address, or dropped the message: the recipient is its own */
	BEFORE_REFUSES, /* it refused the message */
	BEFORE_LATER,   /* it would try again later, or gave no verdict in time: cannot be told now */
	BEFORE_SILENT,  /* it let the message go on as it was: others are to be asked */
	BEFORE_TOLD
};
struct before_ask;
struct log_ctx;
/* enhanced and text are what the stage wants the client to be told (printable, one line), or "". Comes once, later, never from within before_ask(). */
typedef void (*before_ask_fn)(void *arg, enum before_told told, const char *enhanced, const char *text);
/* sender: empty for the null sender. Strings are copied; log (may be NULL) lives as long as the question. NULL: no memory. */
struct before_ask *before_ask(struct before *b, const struct log_ctx *log, const char *stage, struct str sender, struct str recipient, before_ask_fn fn, void *arg);
void before_ask_cancel(struct before_ask *a); /* accepts NULL */

/* See ingress.h. False: none of ours. */
bool before_worker_started(struct before *b, uint32_t token, pid_t pid, int fd);
bool before_worker_failed(struct before *b, uint32_t token);
bool before_worker_exited(struct before *b, pid_t pid, int status);

void before_metrics(const struct before *b, struct buf *out);
/* A JSON array: {"stage","workers","busy","waiting","passed","rejected","deferred","discarded","failed","recipients","pids"}. */
void before_status(const struct before *b, struct buf *out);

#endif
