/* The worker host: one process of one stage. It loads the module, then for each queue id loads the row, runs the
 * module's hook, and commits what it decided; and the describe child, which only looks at a module. Both run in a
 * process of their own that nobody needs afterwards. */
#ifndef PEPSI_WORKER_WORKER_H
#define PEPSI_WORKER_WORKER_H

#include "config/config.h"
#include "config/schema.h"

/* Runs the worker of [stage-<stage>] until its channel ends, MAX_MESSAGES is reached (it then stops reading and
 * exits when all are answered) or the database stays away. channel: the SOCK_SEQPACKET socket (proto/wire), or -1: by hand, decimal ids
 * as lines on standard input, status lines on standard output. Credentials are dropped already. What the database has for
 * stages (pepsi.config_override) is laid over c. Returns the exit
 * status: 0 orderly, 1 error (logged), 3 the module cannot be loaded or opened (the dispatcher knows by the missing WIRE_READY). */
int worker_main(struct config *c, const char *stage, int channel);
/* The same for a worker that judges messages before they are accepted (before.h): parcels on the channel, no rows. */
int worker_before_main(struct config *c, const char *stage, int channel);

/* The file of PROGRAM along [pepsi] MODULE_PATH: absolute path from malloc, or NULL. */
char *worker_module_path(const struct config *c, const char *program);
/* Forks a child that loads the module, checks its ABI and descriptor and sends back what it says; waits (10 s at
 * most, then kills it). Always fills *ret (ret->error tells failures; free with module_info_free). drop: called in the child first
 * (to change account), may be NULL. */
void worker_describe(const char *program, const char *path, void (*drop)(void *arg), void *arg, struct module_info *ret);
/* The same, and runs the module's validate() hook over [stage-<stage>]: its findings go into faults. */
void worker_validate(const struct config *c, const char *stage, const char *path, void (*drop)(void *arg), void *arg,
    struct config_faults *faults);

#endif
