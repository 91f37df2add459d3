/* A module that measures (host->metric(), measure(), status_report()), for test/e2e/metrics.py: one message at a time, or, with MEASURE_MANY, many at
 * once. The local part of the first recipient says more:
 *
 *     crash     after it has measured
 *     forge     says on the worker's channel what it may not: metrics of other stages and of the core, lines that are none
 *     flood     never stops saying something there
 *     values    a thousand values of one label
 *     boast     reports of destinations with numbers that no sum holds, words that steer a terminal, and what is no destination
 *     slow      takes three seconds */
#include "channel.h"

#include <pepsi/stage.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef MEASURE_MANY
#define CAPS (PEPSI_CAP_CONCURRENT | PEPSI_CAP_DELIVER)
#else
#define CAPS PEPSI_CAP_DELIVER
#endif

struct measure {
	const struct pepsi_host *h;
	const struct pepsi_conf *conf;
	struct pepsi_metric *seen, *took, *level, *plain, *bad;
	int64_t n;
};

static int32_t open_worker(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	struct measure *w = calloc(1, sizeof *w);
	if (!w)
		return PEPSI_RETRY;
	w->h = h;
	w->conf = c;
	w->seen = h->metric(c, PEPSI_METRIC_COUNTER, "seen", "size", "Messages seen.");
	w->took = h->metric(c, PEPSI_METRIC_TIMING, "took", NULL, "Time of a message.");
	w->level = h->metric(c, PEPSI_METRIC_GAUGE, "level", NULL, "Messages of this worker.");
	w->plain = h->metric(c, PEPSI_METRIC_COUNTER, "plain", NULL, NULL);
	w->bad = h->metric(c, PEPSI_METRIC_COUNTER, "Not A Name", NULL, NULL);
	h->measure(w->seen, "large", 0);
	*ret = w;
	return PEPSI_OK;
}

static void close_worker(void *worker)
{
	struct measure *w = worker;
	w->h->measure(w->seen, "closed", 1);
	free(w);
}

static void forge(void)
{
	static const char lines[] = "4 5:other c forged - - 1\n4 5:alone c forged - - 1\n4 4:init c messages_total - - 1\n4 4:init c x\"} stage - 1\n4 garbage\n5 5:other {\"destinations\":[]}\n5 4:init {broken\n";
	ssize_t k = send(channel(), lines, sizeof lines - 1, 0);
	(void)k;
}

static void flood(void)
{
	static const char line[] = "4 4:init c flood value v 1\n";
	while (send(channel(), line, sizeof line - 1, MSG_NOSIGNAL) > 0)
		;
	pause();
}

static void boast(const struct measure *w)
{
	w->h->status_report(w->conf, "{\"destinations\":[{\"destination\":\"far.test\\u001b[31m\\u202e\",\"state\":\"backoff\\u0007\",\"waiting\":9223372036854775807,"
	    "\"backoff_ms\":-9223372036854775808,\"working\":9223372036854775807,\"idle\":9223372036854775807,\"trouble\":\"\\u009b2J\",\"trouble_ago_ms\":9223372036854775807},"
	    "{\"destination\":\"near.test\",\"waiting\":-9223372036854775808,\"backoff_ms\":9223372036854775807},7,null,[[]],{\"destination\":{\"a\":1},\"sent\":\"x\",\"waiting\":1e300}]}");
}

static void work(struct measure *w, struct pepsi_msg *m)
{
	const struct pepsi_host *h = w->h;
	struct pepsi_str to = h->rcpt(m, 0), body = { 0 };
	char what[32] = "", report[200];
	size_t n = strcspn(to.p, "@-");
	if (n < sizeof what)
		memcpy(what, to.p, n);
	h->body(m, &body);
	h->measure(w->seen, body.n > 1000 ? "large" : "small", 1);
	h->measure(w->plain, "ignored", 2);
	h->measure(w->bad, NULL, 1);
	h->measure(w->took, NULL, 20000);
	h->measure(w->level, NULL, ++w->n);
	snprintf(report, sizeof report, "{\"destinations\":[{\"destination\":\"d%d.test\",\"state\":\"good\",\"sent\":%d}],\n\"worker\":%d}", (int)getpid() % 7, (int)w->n,
	    (int)getpid());
	h->status_report(w->conf, report);
	if (!strcmp(what, "crash"))
		abort();
	if (!strcmp(what, "slow"))
		sleep(3);
	if (!strcmp(what, "forge"))
		forge();
	if (!strcmp(what, "boast"))
		boast(w);
	if (!strcmp(what, "flood"))
		flood();
	if (!strcmp(what, "values"))
		for (int i = 0; i < 1000; i++) {
			char v[16];
			snprintf(v, sizeof v, "v%d", i);
			h->measure(w->seen, v, 1);
		}
}

#ifdef MEASURE_MANY
struct job {
	struct measure *w;
	struct pepsi_msg *m;
	struct pepsi_event *e;
};

static void on_time(void *arg, uint32_t what)
{
	struct job *j = arg;
	const struct pepsi_host *h = j->w->h;
	struct pepsi_msg *m = j->m;
	(void)what;
	h->in_hand(m);
	work(j->w, m);
	h->event_free(j->e);
	free(j);
	h->complete(m, h->advance_or_finish(m));
}

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct measure *w = worker;
	struct job *j = calloc(1, sizeof *j);
	if (!j)
		return PEPSI_RETRY;
	*j = (struct job){ w, m, h->event_new(w->conf, -1, on_time, j) };
	if (!j->e || h->event_arm(j->e, 0, 10) != PEPSI_OK) {
		free(j);
		return PEPSI_RETRY;
	}
	return PEPSI_PENDING;
}

static void stop(void *worker, const struct pepsi_host *h, struct pepsi_msg *m, uint32_t why)
{
	(void)worker;
	(void)h;
	(void)m;
	(void)why; /* it ends within 10 ms anyway */
}
#else
static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	work(worker, m);
	return h->advance_or_finish(m);
}
#endif

PEPSI_STAGE(.name = MEASURE_NAME, .version = "1.0", .license = "Apache-2.0", .summary = "measures", .load_class = PEPSI_LOAD_FULL, .caps = CAPS,
    .open = open_worker, .process = process, .close = close_worker,
#ifdef MEASURE_MANY
    .stop = stop
#endif
);
