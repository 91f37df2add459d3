/* A keeper: a process forked from the admin child before that has anything secret, which forks one short-lived process per job
 * (job.h). So a crash, a leak or a hang costs one sign-in, and no job sees another's password. The admin child bounds how many run
 * at once, and how many wait; what is beyond that is refused at once. */
#ifndef SIGNIN_KEEPER_H
#define SIGNIN_KEEPER_H

#include "job.h"

#include <event2/event.h>
#include <sys/types.h>

struct keeper;

/* Forks it. max: jobs at once; queue_max: jobs waiting. become(arg) is called in the new process first: takes on the account, and
 * loads what the jobs need; -1 ends it. NULL: no memory, no process. */
struct keeper *keeper_start(const char *name, unsigned max, unsigned queue_max, int (*become)(void *arg), void *arg);
/* Puts it on the loop. gone(arg): the process ended; the admin child ends, too, and is started anew. 0 or -1. */
int keeper_attach(struct keeper *k, struct event_base *base, void (*gone)(void *arg), void *arg);
void keeper_free(struct keeper *k); /* ends the process; who waits hears nothing */

/* The answer; NULL: the keeper is gone. */
typedef void (*keeper_fn)(void *arg, const struct job_msg *answer);
/* Asks for a job; m->id is set here. Returns a ticket, 0 when the queue is full or memory out. fn is called later, never from here. */
uint64_t keeper_run(struct keeper *k, struct job_msg *m, keeper_fn fn, void *arg);
/* Nobody waits for it any more: not begun, it is forgotten; else its answer is. 0 is accepted. */
void keeper_drop(struct keeper *k, uint64_t ticket);

struct keeper_counts {
	unsigned running, max, queued, queue_max;
	uint64_t done, us, refused; /* jobs ended, their time in all, jobs there was no room for */
	unsigned most;              /* running at once, ever */
};
struct keeper_counts keeper_counts(const struct keeper *k);

#endif
