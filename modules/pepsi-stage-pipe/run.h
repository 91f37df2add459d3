/* One run of the command: started without a shell, fed from a file, its answer read into bounded buffers, and gone when the
 * time is up.
 *
 * A worker may not signal other processes, its own children included (core/worker/confine.h), so the command is started by a
 * thread of its own with PR_SET_PDEATHSIG: when that thread ends, the kernel kills the command. */
#ifndef PIPE_RUN_H
#define PIPE_RUN_H

#include "base/buf.h"

#include <sys/types.h>

enum { RUN_OUT_MAX = 1024 * 1024, RUN_ERR_MAX = 4096 };

struct run_job {
	char *const *argv, *const *envp;
	int in;              /* what the command reads; position at the beginning */
	int64_t timeout_ms;
	uint64_t memory;     /* octets of address space; 0: as it is */
	uint64_t cpu_s;      /* of processor time */
};

enum run_end {
	RUN_EXIT,      /* code: exit status */
	RUN_SIGNAL,    /* code: signal */
	RUN_LATE,      /* killed when the time was up */
	RUN_TOO_LONG,  /* killed when it wrote more than RUN_OUT_MAX */
	RUN_FAILED,    /* code: errno; it did not start */
};

struct run_result {
	enum run_end end;
	int code;
	struct buf out, err; /* what it wrote; err cut at RUN_ERR_MAX */
	pid_t stray;         /* > 0: killed and yet not gone (in the kernel, or out of reach); waitpid() it some time */
};

/* Always fills *ret; free with run_done(). Blocks for timeout_ms and a little more at most. */
void run_command(const struct run_job *job, struct run_result *ret);
void run_done(struct run_result *r);

#endif
