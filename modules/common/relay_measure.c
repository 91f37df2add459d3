/* See relay_measure.h. */
#include "relay_measure.h"

#include "base/json.h"
#include "count.h"

#include <stdlib.h>
#include <string.h>

enum {
	REPORT_MAX = 48 * 1024, /* octets: <pepsi/stage.h> */
	ROW_MAX = 3000,         /* of one destination: a name, an error text, numbers */
};

void relay_measure_open(struct relay_measure *m, const struct pepsi_host *host, const struct pepsi_conf *conf, bool sessions)
{
	m->host = host;
	m->conf = conf;
	m->deliveries = count_new(host, conf, PEPSI_METRIC_COUNTER, "deliveries", "result", "delivered deferred failed postponed",
	    "Recipients: handed on; tried, and again later; given up; not tried now.");
	m->time = count_new(host, conf, PEPSI_METRIC_TIMING, "delivery", NULL, NULL, "Time from the arrival of a message until recipients of it were handed on.");
	if (!sessions)
		return;
	m->maybe = count_new(host, conf, PEPSI_METRIC_COUNTER, "maybe_delivered", NULL, NULL,
	    "Attempts that ended behind the final dot without a reply: tried again, it may arrive twice.");
	m->sessions = count_new(host, conf, PEPSI_METRIC_COUNTER, "sessions", "how", "opened reused failed signin",
	    "Sessions opened, used for another message, failed before they could be used, refused for our sign-in.");
	m->tls = count_new(host, conf, PEPSI_METRIC_COUNTER, "sessions_tls", "safety", "dane sts pkix opportunistic plain refused",
	    "Sessions opened, by how the other side was known; refused: less safe than it had to be.");
	m->destinations = count_new(host, conf, PEPSI_METRIC_GAUGE, "destinations", "state", "new good slow backoff probe unsafe",
	    "Destinations that are known: untried, well, slow, left alone, tried by one message; domains whose safety is missing.");
}

void relay_measure_outcome(const struct relay_measure *m, size_t delivered, size_t deferred, size_t failed, size_t postponed, int64_t took_us)
{
	if (delivered) {
		count_add(m->host, m->deliveries, "delivered", (int64_t)delivered);
		count_add(m->host, m->time, NULL, took_us < 0 ? 0 : took_us);
	}
	if (deferred)
		count_add(m->host, m->deliveries, "deferred", (int64_t)deferred);
	if (failed)
		count_add(m->host, m->deliveries, "failed", (int64_t)failed);
	if (postponed)
		count_add(m->host, m->deliveries, "postponed", (int64_t)postponed);
}

void relay_measure_maybe(const struct relay_measure *m)
{
	count_add(m->host, m->maybe, NULL, 1);
}

void relay_measure_session(const struct relay_measure *m, const char *how)
{
	count_add(m->host, m->sessions, how, 1);
}

void relay_measure_tls(const struct relay_measure *m, const char *how)
{
	count_add(m->host, m->tls, how, 1);
}

/* -- destinations */

/* How much it is in want of somebody's look. */
static uint64_t badness(const struct traffic_view *v)
{
	static const unsigned char of_state[] = { [TRAFFIC_NEW] = 1, [TRAFFIC_GOOD] = 0, [TRAFFIC_POOR] = 2, [TRAFFIC_WAITING] = 4, [TRAFFIC_PROBING] = 3,
		[TRAFFIC_UNSAFE] = 5 };
	return (uint64_t)of_state[v->state] << 48 | (uint64_t)(v->waiting & 0xffffff) << 24 | ((v->working + v->idle) & 0xffffff);
}

static int worse_first(const void *a, const void *b)
{
	uint64_t x = badness(a), y = badness(b);
	return x < y ? 1 : x > y ? -1 : strcmp(((const struct traffic_view *)a)->key, ((const struct traffic_view *)b)->key);
}

void relay_measure_destinations(const struct relay_measure *m, struct traffic_view *v, size_t n)
{
	struct buf b = BUF_INIT(REPORT_MAX);
	unsigned of[TRAFFIC_STATES] = { 0 };
	size_t i = 0;
	if (!m->host)
		return;
	if (n)
		qsort(v, n, sizeof *v, worse_first);
	buf_addz(&b, "{\"destinations\":[");
	for (; i < n && b.n + ROW_MAX < REPORT_MAX; i++) {
		if (i)
			buf_addc(&b, ',');
		traffic_view_json(&v[i], &b);
	}
	buf_addf(&b, "],\"known\":%zu,\"listed\":%zu}", n, i);
	if (!b.failed && PEPSI_HAS(m->host, status_report))
		m->host->status_report(m->conf, buf_z(&b));
	buf_free(&b);
	for (i = 0; i < n; i++)
		of[v[i].state]++;
	for (i = 0; i < TRAFFIC_STATES; i++)
		count_add(m->host, m->destinations, traffic_state_name((enum traffic_state)i), of[i]);
}
