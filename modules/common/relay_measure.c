/* See relay_measure.h. */
#include "relay_measure.h"

#include "count.h"

void relay_measure_open(struct relay_measure *m, const struct pepsi_host *host, const struct pepsi_conf *conf, bool sessions)
{
	m->host = host;
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
