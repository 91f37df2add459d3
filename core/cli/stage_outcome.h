/* What one pass came to, as JSON: made in the child of a trial (worker/trial.h), where the pass exists, read in the tool. */
#ifndef CLI_STAGE_OUTCOME_H
#define CLI_STAGE_OUTCOME_H

#include "worker/trial.h"

/* For trial.report; arg: the trial itself (struct trial *), for the message as it was. Texts stand in it as the octets they are,
 * which need not be UTF-8. */
void stage_outcome_report(void *arg, const struct trial_pass *p, struct buf *out);

struct json_object;
/* Replaces octets that are no UTF-8 in all texts of o by \xNN, so that it may be printed as JSON. Returns the new object. */
struct json_object *stage_outcome_clean(struct json_object *o);
/* The same for people. */
void stage_outcome_print(struct json_object *o, FILE *f);

#endif
