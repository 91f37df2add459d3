/* A stage from a configuration text and a built module, run over rows in memory. */
#ifndef TEST_MODULES_STAGE_H
#define TEST_MODULES_STAGE_H

#include "worker/pass.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct stage {
	struct config *c;
	struct config_faults *faults;
	struct worker_module mod;
	struct pepsi_conf conf;
	struct worker_env env;
	struct pepsi_msg msg;
	int64_t received_at; /* of what passes; 0: 1970 */
	char found[4096]; /* what validate() reported, one per line */
	char dir[64];     /* a temporary folder, removed at the end */
};

/* text: options of [stage-here], lines; "%s" stands for the temporary folder. Stages next, local, out and bounce exist.
 * Returns what open() returned. */
int32_t stage_open(struct stage *s, const char *module, const char *text);
/* One pass; rcpts: blank-separated. */
void stage_pass(struct stage *s, const char *mail_from, const char *rcpts, const char *state);
void stage_pass_full(struct stage *s, const char *mail_from, const char *rcpts, const char *state, struct str headers,
    struct str body);
/* What came of it, as one line: "split out:1,2; move next". */
const char *stage_outcome(struct stage *s);
void stage_close(struct stage *s);
/* A file in the temporary folder. */
void stage_file(struct stage *s, const char *name, const char *text);

#endif
