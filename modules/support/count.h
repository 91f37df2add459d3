/* Metrics of a module that also runs where there are none (tests with hosts of their own): the calls of the stage ABI 1.3, harmless without them. */
#ifndef SUPPORT_COUNT_H
#define SUPPORT_COUNT_H

#include <pepsi/stage.h>

/* A metric, made in open(); values: those of its label, blank-separated, that are to show before anything happened (NULL: none). NULL: there are no metrics here. */
struct pepsi_metric *count_new(const struct pepsi_host *host, const struct pepsi_conf *conf, uint32_t type, const char *name, const char *label,
    const char *values, const char *help);
/* host->measure(), if metric is one. */
void count_add(const struct pepsi_host *host, struct pepsi_metric *metric, const char *value, int64_t n);

#endif
