/* Shared by the two halves of a trial: trial.c, the parent, and trial_child.c, the process in which the module runs. */
#ifndef WORKER_TRIAL_INTERNAL_H
#define WORKER_TRIAL_INTERNAL_H

#include "trial.h"

enum { TRIAL_EXIT_REFUSED = 200 }; /* the child's exit status: what is wrong stands in the notes */
enum step { STEP_LOAD, STEP_CONFIGURE, STEP_VALIDATE, STEP_OPEN, STEP_FUSE, STEP_PROCESS, STEP_BATCH, STEP_REPORT, STEP_CLOSE, STEP_END };

/* Memory of both processes. The module can write there, so the parent believes no number in it.
 * notes: records of one octet ('0' + level + 1), the text, NUL. */
struct shared {
	uint32_t step, lost, at; /* at: the message */
	int64_t since;           /* when the call began that the deadline is for */
	int64_t open_us, process_us;
	size_t n_notes;
	char notes[TRIAL_NOTES_MAX];
};

/* The life of the child, from behind the fork: report_fd takes the report, notes and steps go to shared memory. */
_Noreturn void trial_child(const struct trial *t, struct shared *shared, int report_fd);

#endif
