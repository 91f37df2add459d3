/* What a trial of `pepsi stage run` came to, for people or as JSON. */
#ifndef CLI_STAGE_RESULT_H
#define CLI_STAGE_RESULT_H

#include "cli_internal.h"
#include "worker/trial.h"
#include "worker/worker.h"

/* The messages of a trial: items[i] is of files[i % n_files]. */
struct stage_messages {
	const char **files;
	struct buf *raw;         /* n_files; what items point into */
	size_t n_files;
	struct wire_item *items;
	size_t n;
};

/* Prints it. CLI_DONE when every pass was in order, whatever its outcome, else CLI_FAILED. */
int stage_result_print(const struct cli *c, const struct module_info *info, const struct trial *t, const struct stage_messages *m,
    const struct trial_result *r);

#endif
