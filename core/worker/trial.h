/* A trial: one message in memory through one module, without daemon and database (`pepsi stage run`). The module runs in a
 * child with a deadline; whatever it does there, the caller gets an answer. What the pass came to is put into words by the
 * caller's own function, which runs in the child, too, because only there the pass exists.
 *
 *     trial_run(t, &r)           child: load, configure, validate, open, process, t->report(), close
 *     r.end, r.during            how it ended; for a crash or a hang, in which hook
 *     r.report                   what t->report() wrote; there as soon as process() returned
 *     r.notes                    what the module logged, and what validation found */
#ifndef PEPSI_WORKER_TRIAL_H
#define PEPSI_WORKER_TRIAL_H

#include "pass.h"

enum { TRIAL_REPORT_MAX = 64 * 1024 * 1024, TRIAL_NOTES_MAX = 256 * 1024 };

/* A pass that is over, as t->report() sees it. */
struct trial_pass {
	const struct pepsi_msg *msg; /* concluded: msg->pass has the operations */
	const char *terminal;        /* the host function that ended it, or NULL */
	int32_t rc;                  /* what process() returned */
};

struct trial {
	const char *path;            /* the module's file */
	const struct config *c;
	const char *stage;           /* its options are those of [stage-<stage>] */
	struct wire_item item;
	int64_t runtime_ms;          /* for all hooks together; then the child is killed */
	bool any_stage;              /* no configuration to hold stage names against: every stage exists */
	/* In the child. Writes about the pass into out (at most TRIAL_REPORT_MAX octets). */
	void (*report)(void *arg, const struct trial_pass *p, struct buf *out);
	void *arg;
};

enum trial_end {
	TRIAL_DONE,     /* every hook returned */
	TRIAL_REFUSED,  /* not loaded, faults in the configuration, or open() said no: the last notes say why */
	TRIAL_CRASHED,  /* code: the signal */
	TRIAL_EXITED,   /* the module ended its process; code: the exit status */
	TRIAL_LATE,     /* the deadline came first */
	TRIAL_FAILED,   /* no process, no memory: why */
};

struct trial_note {
	int32_t level;     /* PEPSI_LOG_*, or TRIAL_NOTE_FAULT: a finding about the configuration */
	const char *text;  /* a log line; of a fault "OPTION: what is wrong" */
};
#define TRIAL_NOTE_FAULT (-1)

struct trial_result {
	enum trial_end end;
	int code;
	const char *during;         /* the last step begun: "load", "configure", "validate", "open", "process", "report", "close" */
	int64_t open_us, process_us; /* -1: did not return */
	struct buf report;
	struct trial_note *notes;
	size_t n_notes;
	bool notes_lost;            /* there were more than TRIAL_NOTES_MAX octets of them */
	char why[512];
	char *notes_text;           /* private */
};

/* Runs it and waits. Always fills *ret; free with trial_result_free(). */
void trial_run(const struct trial *t, struct trial_result *ret);
void trial_result_free(struct trial_result *r);

#endif
