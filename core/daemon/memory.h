/* Memory that the C library holds free for the process, and when it goes back to the kernel. What a flood of sessions took is free
 * when they end, but free() leaves most of it resident: chunks below the mmap threshold are kept for the next allocation, and that
 * threshold itself rises up to the largest chunk that was ever freed. Once a second the reactor looks at what is resident and at
 * what of it is in use, both as kernel and C library say now; nothing has to be counted while it happens, so nothing that comes and
 * goes between two looks is missed. Knows nothing of sessions; may not block.
 *
 *	memory_open(&m);
 *	each second: memory_look(&m);
 *
 * The promise: LOOKS seconds after its last use, all but max(KEEP, an eighth of what is in use) of the free memory has been handed
 * back, as far as whole pages of it are free. */
#ifndef PEPSI_DAEMON_MEMORY_H
#define PEPSI_DAEMON_MEMORY_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MEMORY_KEEP = 8 << 20,   /* not worth the page faults: what normal mail frees and takes again all the time */
	MEMORY_LOOKS = 3,        /* what was free at each of so many looks was not needed in between */
	MEMORY_PAUSE_MAX = 64,   /* looks between attempts that bring nothing: what is free lies in pages with something else on them */
};

struct memory {
	int statm;                       /* /proc/self/statm; -1: what is resident is not known, and taken to be what the C library has */
	size_t resident, in_use;         /* as of the last look, octets: anonymous pages in RAM; allocated */
	size_t excess[MEMORY_LOOKS];     /* free beyond what may stay, at the last looks */
	unsigned at, pause, left;        /* left: looks until the next attempt */
	size_t floor;                    /* what the last attempt left of that */
	uint64_t returns, returned, us;  /* attempts; octets handed back by them; time they took */
};

void memory_open(struct memory *m);
void memory_close(struct memory *m);
/* Measures, and hands back what is due. Tens of microseconds without the second; with it about 0.1 ms for each MiB. */
void memory_look(struct memory *m);

/* For /metrics. */
void memory_metrics(const struct memory *m, struct buf *out);

/* The rule alone, for memory_look() and the tests: these are the figures of one more look; is it time to hand back? After doing so
 * memory_rule_done() is told what they are then. */
bool memory_rule(struct memory *m, size_t resident, size_t in_use);
void memory_rule_done(struct memory *m, size_t resident, size_t in_use);

#endif
