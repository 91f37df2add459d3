/* A trial: messages in memory through one module, without daemon and database (`pepsi stage run`). The module runs in a
 * child with a deadline; whatever it does there, the caller gets an answer. What each pass came to is put into words by the
 * caller's own function, which runs in the child, too, because only there the pass exists.
 *
 *     trial_run(t, &r)           child: load, configure, validate, open; for each message process, t->report(); close
 *     r.end, r.during, r.at      how it ended; for a crash or a hang, in which hook and with which message
 *     r.report                   what t->report() wrote, a line for each pass that is over, in the order of the messages
 *     r.notes                    what the module logged, and what validation found
 *
 * The messages come to the module as a worker would bring them: TRIAL_BATCH at a time through process_batch() where a METADATA
 * module has that hook, else one by one through process(). fused: as in the worker of the stage before instead: can_fuse() is
 * asked about each, and those that it takes go through process(). A module that drives many messages at once (PEPSI_CAP_CONCURRENT) gets
 * TRIAL_BATCH of them at a time, and its events run until all are over; it is never asked whether it fuses. */
#ifndef PEPSI_WORKER_TRIAL_H
#define PEPSI_WORKER_TRIAL_H

#include "pass.h"

enum { TRIAL_REPORT_MAX = 64 * 1024 * 1024, TRIAL_NOTES_MAX = 256 * 1024, TRIAL_BATCH = 50 };

enum trial_fuse { TRIAL_NOT_ASKED, TRIAL_FUSES, TRIAL_DECLINES, TRIAL_FUSE_BROKEN };

/* A pass that is over, as t->report() sees it. */
struct trial_pass {
	size_t index;                /* of the message */
	const struct pepsi_msg *msg; /* concluded: msg->pass has the operations. DECLINES, FUSE_BROKEN: it was not run */
	const char *terminal;        /* the host function that ended it, or NULL */
	int32_t rc;                  /* what process() returned */
	enum trial_fuse fuse;        /* FUSES also where the module has no can_fuse(); BROKEN: msg->misuse says which rule */
};

struct trial {
	const char *path;            /* the module's file */
	const struct config *c;
	const char *stage;           /* its options are those of [stage-<stage>] */
	const struct wire_item *items;
	size_t n_items;
	bool fused;
	int64_t runtime_ms;          /* for each call with messages, and for all that comes before and behind; then the child is killed */
	bool any_stage;              /* no configuration to hold stage names against: every stage exists */
	/* In the child. Writes about the pass into out, without line feeds (at most TRIAL_REPORT_MAX octets for all). */
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
#define TRIAL_NOTE_METRIC 4  /* what the module measured: pepsi_module_… as /metrics has it; or its report */

struct trial_result {
	enum trial_end end;
	int code;
	const char *during;         /* the last step begun: "load", "configure", "validate", "open", "can_fuse", "process",
	                               "process_batch", "report", "close" */
	size_t at;                  /* the message it was busy with, or the first of the batch */
	int64_t open_us, process_us; /* -1: did not return. process_us: all of them that did */
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
