/* See count.h. */
#include "count.h"

#include "base/str.h"

#include <stdio.h>

struct pepsi_metric *count_new(const struct pepsi_host *host, const struct pepsi_conf *conf, uint32_t type, const char *name, const char *label,
    const char *values, const char *help)
{
	struct pepsi_metric *m = PEPSI_HAS(host, metric) ? host->metric(conf, type, name, label, help) : NULL;
	struct str rest = str_from(values), word;
	while (m && str_word(&rest, " ", &word)) {
		char value[64];
		snprintf(value, sizeof value, "%.*s", STR_ARG(word));
		host->measure(m, value, 0);
	}
	return m;
}

void count_add(const struct pepsi_host *host, struct pepsi_metric *metric, const char *value, int64_t n)
{
	if (metric)
		host->measure(metric, value, n);
}
