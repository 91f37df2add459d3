/* What the code of a stage module may ask of the kernel. Not a sandbox: it reads files and opens sockets under the
 * stage's account. But it hurts no other process, and leaves none behind. */
#ifndef PEPSI_WORKER_CONFINE_H
#define PEPSI_WORKER_CONFINE_H

#include <stdbool.h>

/* From here on, for good: no tracing and no reading of others, no name spaces; and without `helpers` (PEPSI_CAP_HELPER) no
 * fork, no exec, and signals to this very process only. Threads stay possible. Needs no_new_privs. 0, or -1 (errno): this
 * kernel has no seccomp filters. */
int confine(bool helpers);

#endif
