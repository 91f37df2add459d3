/* What the modules of this process count (host functions metric() and measure()) and report (status_report()), and how the dispatcher hears of it: lines
 * of their own on the channel (proto/metrics), at most once a second, reports every five. Nothing here waits: what the channel does not take is
 * told the next time. One per process, since what a module holds is a handle and nothing else; a process may run several stages (fuse.c), each has
 * its own set.
 *
 *     measure_reports()           reports are told of, too, not numbers alone
 *     …                           modules define and measure
 *     measure_tell(fd, false)     now and then: after a commit, at a tick, when measure_due_ms() is over
 *     measure_tell(fd, true)      before the process ends
 *
 * What was measured and not yet told is lost when the process dies: one second at most, unless it did not come back from its module. */
#ifndef PEPSI_WORKER_MEASURE_H
#define PEPSI_WORKER_MEASURE_H

#include "conf.h"
#include "proto/metrics/metrics.h"

enum {
	MEASURE_TELL_US = 1000 * 1000,
	MEASURE_REPORT_US = 5 * 1000 * 1000,
};

void measure_reports(void);
/* Tells what has changed, if it is time for that, or `now`. fd: the channel; below 0: nobody listens. */
void measure_tell(int fd, bool now);
/* The same by a function of the caller's, which sends lines all at once or not at all (false). */
typedef bool (*measure_send_fn)(void *arg, struct str lines);
void measure_tell_by(measure_send_fn fn, void *arg, bool now);
/* Milliseconds until there is something to tell; -1: there is nothing. */
int measure_due_ms(void);
/* What a stage's module has measured and not told, NULL: nothing; its report, empty: none. For tests. */
const struct metrics_set *measure_set(const char *stage);
struct str measure_report(const char *stage);
/* The same as text for people: fn gets each line as it would stand at /metrics, and the report. For a trial. */
void measure_each(const char *stage, void (*fn)(const char *line));
void measure_done(void);

/* The host functions. */
struct pepsi_metric *host_metric(const struct pepsi_conf *conf, uint32_t type, const char *name, const char *label, const char *help);
void host_measure(struct pepsi_metric *m, const char *value, int64_t n);
int32_t host_status_report(const struct pepsi_conf *conf, const char *json);

#endif
