/* Rules of an operator that hold mail or send it another way (pepsi queue hold, pepsi queue reroute), held against each message at the
 * moment it would leave: before the hook of a delivery stage, or of the stage that a rule names. Whoever runs hooks asks
 * pass_steer() first. What is in the queue already is the database's (db/procedures.sql, queue_rule_apply); both compare alike.
 *
 * One message, told: the worker of stage "out" has read two rules when it started; steer_for() gave its environment the list of those that
 * can matter there. A message to ann@example.org comes, and rule 7 holds @example.org: pass_steer() sets the terminal (a pause without end,
 * and state.held = {"rule":7,…}) and the hook is not run. When rule 7 is removed the row is pending again, and the workers, which
 * were retired, know it no more. */
#ifndef PEPSI_WORKER_STEER_H
#define PEPSI_WORKER_STEER_H

#include "pass.h"
#include "store/rule.h"

struct steer; /* all rules, as they were when the worker started */

struct steer *steer_new(void); /* NULL: memory */
/* store_rule_row_fn; what does not fit into memory is remembered: steer_whole() is false then. */
void steer_add(void *steer, const struct store_rule *r);
bool steer_whole(const struct steer *s);
void steer_free(struct steer *s);
/* The rules that can matter to hooks of this stage, NULL: none, which is what most workers have for ever. deliver: it is a stage that
 * delivers. Belongs to the caller, as far as free() goes; its contents are the steer's. */
struct steer_list *steer_for(const struct steer *s, const char *stage, bool deliver);

/* Does a rule say that this hop's hook is not to run? The terminal is set then. With rules about some of the recipients only, those
 * get a row of their own first, and both rows come by again. */
bool pass_steer(struct pepsi_msg *msg);

#endif
