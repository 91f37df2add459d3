/* What every stage that hands mail on counts, under the same names, so that one alert fits all of them. */
#ifndef COMMON_RELAY_MEASURE_H
#define COMMON_RELAY_MEASURE_H

#include "proto/relay/traffic.h"

#include <pepsi/stage.h>
#include <stdbool.h>

struct hops_report;

struct relay_measure { /* all zero: counts nothing */
	const struct pepsi_host *host;
	const struct pepsi_conf *conf;
	struct pepsi_metric *deliveries, *maybe, *time, *sessions, *tls, *destinations;
};

/* In open(). sessions: it has any (a Maildir has none). */
void relay_measure_open(struct relay_measure *m, const struct pepsi_host *host, const struct pepsi_conf *conf, bool sessions);
/* What became of recipients: handed on, tried again, given up; postponed: to be tried again, without having been tried. took_us: since the message came. */
void relay_measure_outcome(const struct relay_measure *m, size_t delivered, size_t deferred, size_t failed, size_t postponed, int64_t took_us);
/* A message that may have been taken although nobody said so. */
void relay_measure_maybe(const struct relay_measure *m);
/* A session: "opened", "reused" (another message over it), "failed", "signin" (it did not let us in). */
void relay_measure_session(const struct relay_measure *m, const char *how);
/* How safe a session that was opened is: "dane", "sts", "pkix", "opportunistic" (TLS, to whomever), "plain", "refused" (not as safe as it must be). */
void relay_measure_tls(const struct relay_measure *m, const char *how);

/* Where mail goes: sorts them, worst first, and tells them as host->status_report(), as many as there is room for, and how many there are of each state as
 * a gauge. Names of destinations stand in the report alone: as labels of metrics they would be without end. */
void relay_measure_destinations(const struct relay_measure *m, struct traffic_view *v, size_t n);

#endif
