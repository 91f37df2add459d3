/* GET /metrics: the Prometheus text format, version 0.0.4. The four message counters and the queue gauges come from one
 * snapshot, so accepted = delivered + bounced + discarded + the sum over the queue holds in every scrape. What the
 * database would have to say is left out while it is away; a zero would be a lie. */
#include "admin_internal.h"
#include "base/clock.h"

#include <inttypes.h>

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(struct buf *out, const char *name, const char *type, const char *help, int64_t v)
{
	head(out, name, type, help);
	buf_addf(out, "%s %" PRId64 "\n", name, v);
}

static void write_counts(const struct store_counts *n, struct buf *out)
{
	const struct {
		const char *status;
		int64_t v;
	} queue[] = {
		{ "pending", n->pending }, { "running", n->running }, { "paused", n->paused },
		{ "failed", n->failed }, { "timeout", n->timeout },
	};
	head(out, "pepsi_queue_messages", "gauge", "Messages in the queue by status.");
	for (size_t i = 0; i < sizeof queue / sizeof *queue; i++)
		buf_addf(out, "pepsi_queue_messages{status=\"%s\"} %" PRId64 "\n", queue[i].status, queue[i].v);
	one(out, "pepsi_queue_held_messages", "gauge", "Of the paused messages: those that an operator holds.", n->held);
	head(out, "pepsi_queue_rules", "gauge", "Rules in force that hold or reroute mail.");
	buf_addf(out, "pepsi_queue_rules{action=\"hold\"} %" PRId64 "\npepsi_queue_rules{action=\"reroute\"} %" PRId64 "\n", n->hold_rules,
	    n->reroute_rules);
	one(out, "pepsi_messages_accepted_total", "counter",
	    "Messages that came into being: received, reports, splits, side messages.", n->accepted);
	one(out, "pepsi_messages_received_total", "counter", "Messages received from outside; part of accepted.",
	    n->received);
	one(out, "pepsi_messages_delivered_total", "counter", "Messages that ended delivered.", n->delivered);
	one(out, "pepsi_messages_bounced_total", "counter", "Messages that ended as a report to their sender.", n->bounced);
	one(out, "pepsi_messages_discarded_total", "counter", "Messages that ended discarded.", n->discarded);
	one(out, "pepsi_sts_policies", "gauge", "Policies of MTA-STS of other domains that hold.", n->sts_policies);
	one(out, "pepsi_sts_policies_enforced", "gauge", "Of these: mode enforce.", n->sts_enforced);
	one(out, "pepsi_sts_policies_failing", "gauge", "Domains whose policy of MTA-STS could not be fetched in the last two days.", n->sts_failing);
	one(out, "pepsi_destinations_weaker", "gauge", "Domains that mail goes to less protected than before.", n->destinations_weaker);
	one(out, "pepsi_addresses_failing", "gauge", "Addresses of mail exchangers that could not be reached lately.", n->addresses_failing);
	one(out, "pepsi_tlsrpt_waiting", "gauge", "TLS reports to others that are counted or wait to be sent.", n->tlsrpt_waiting);
	one(out, "pepsi_tlsrpt_received", "gauge", "TLS reports of others that came in the last two days.", n->tlsrpt_received);
	one(out, "pepsi_tlsrpt_received_failures", "gauge", "Sessions that failed by TLS reports of others of the last two days.", n->tlsrpt_failures);
}

void admin_metrics_write(struct admin *a, const struct store_counts *counts, struct buf *out)
{
	char reason[256];
	head(out, "pepsi_build_info", "gauge", "The version that runs.");
	buf_addf(out, "pepsi_build_info{version=\"%s\"} 1\n", PEPSI_VERSION);
	one(out, "pepsi_uptime_seconds", "gauge", "Seconds since start.", (clock_mono_us() - a->started) / US_PER_S);
	one(out, "pepsi_healthy", "gauge", "Is mail accepted?", admin_healthy(a, reason, sizeof reason));
	one(out, "pepsi_database_up", "gauge", "Did the database answer this scrape?", counts != NULL);
	if (counts)
		write_counts(counts, out);
	one(out, "pepsi_http_requests_total", "counter", "HTTP requests answered.", (int64_t)a->http_requests);
	one(out, "pepsi_http_evicted_total", "counter", "Idle HTTP connections closed to make room for another.", (int64_t)a->http_evicted);
	one(out, "pepsi_http_refused_total", "counter", "HTTP connections and requests refused.", (int64_t)a->http_refused);
	one(out, "pepsi_control_requests_total", "counter", "Requests at the control socket.",
	    (int64_t)a->control_requests);
	if (a->source.metrics)
		a->source.metrics(a->source.arg, out);
}
