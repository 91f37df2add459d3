/* What /metrics and `pepsi status` show of the ingress. Reads only. */
#include "certificates.h"
#include "ingress_internal.h"

static void counter(struct buf *out, const char *name, const char *help, uint64_t v)
{
	buf_addf(out, "# HELP pepsi_%s %s\n# TYPE pepsi_%s counter\npepsi_%s %llu\n", name, help, name, name,
	    (unsigned long long)v);
}

static void gauge(struct buf *out, const char *name, const char *help, uint64_t v)
{
	buf_addf(out, "# HELP pepsi_%s %s\n# TYPE pepsi_%s gauge\npepsi_%s %llu\n", name, help, name, name,
	    (unsigned long long)v);
}

/* Buckets at first × 2^i in units of `unit`; the last one is +Inf. */
static void histogram(struct buf *out, const char *name, const char *help, const uint64_t *in_bucket, double first,
    double sum, uint64_t n)
{
	uint64_t cumulated = 0;
	buf_addf(out, "# HELP pepsi_%s %s\n# TYPE pepsi_%s histogram\n", name, help, name);
	for (unsigned i = 0; i < ADMIT_BUCKETS - 1; i++) {
		cumulated += in_bucket[i];
		buf_addf(out, "pepsi_%s_bucket{le=\"%g\"} %llu\n", name, first * (double)(1u << i),
		    (unsigned long long)cumulated);
	}
	buf_addf(out, "pepsi_%s_bucket{le=\"+Inf\"} %llu\npepsi_%s_sum %g\npepsi_%s_count %llu\n", name,
	    (unsigned long long)n, name, sum, name, (unsigned long long)n);
}

void ingress_metrics(struct ingress *in, struct buf *out)
{
	struct admit_stats a = { 0 };
	if (in->admit)
		admit_stats(in->admit, &a);
	counter(out, "smtp_connections_total", "Connections accepted", in->connections);
	gauge(out, "smtp_sessions", "Sessions now", in->n_sessions);
	counter(out, "smtp_messages_accepted_total", "Messages committed", in->accepted);
	counter(out, "smtp_bytes_total", "Octets of accepted messages", in->octets);
	buf_addz(out,
	    "# HELP pepsi_smtp_rejected_total Refusals by reason\n# TYPE pepsi_smtp_rejected_total counter\n");
	for (unsigned i = 0; i < REFUSED_N; i++)
		buf_addf(out, "pepsi_smtp_rejected_total{reason=\"%s\"} %llu\n", refusal_names[i],
		    (unsigned long long)in->rejected[i]);
	static const char *const used[USED_N] = { "chunking", "binarymime", "smtputf8", "prdr", "requiretls", "deliverby",
		"futurerelease", "mt-priority", "xclient" };
	buf_addz(out, "# HELP pepsi_smtp_extension_total Messages that made use of an extension\n"
		      "# TYPE pepsi_smtp_extension_total counter\n");
	for (unsigned i = 0; i < USED_N; i++)
		buf_addf(out, "pepsi_smtp_extension_total{extension=\"%s\"} %llu\n", used[i], (unsigned long long)in->used[i]);
	counter(out, "smtp_held_total", "Messages held until a time that their sender asked for", in->held_for_sender);
	if (in->caps)
		caps_metrics(in->caps, out);
	if (in->tally)
		tally_metrics(in->tally, out);
	if (in->failures)
		failures_metrics(in->failures, out);
	counter(out, "smtp_timeouts_total", "Sessions ended by a deadline", in->timeouts);
	buf_addz(out, "# HELP pepsi_smtp_deadline_total Sessions ended by a deadline, by which\n# TYPE pepsi_smtp_deadline_total counter\n");
	for (unsigned i = 0; i < DEADLINE_N; i++)
		buf_addf(out, "pepsi_smtp_deadline_total{deadline=\"%s\"} %llu\n", deadline_names[i], (unsigned long long)in->deadlines[i]);
	counter(out, "smtp_tls_total", "TLS handshakes completed", in->tls);
	counter(out, "smtp_tls_failed_total", "TLS handshakes failed", in->tls_failed);
	counter(out, "smtp_tls_resumed_total", "TLS sessions taken up by a ticket", in->tls_resumed);
	buf_addz(out, "# HELP pepsi_smtp_iprev_total Looked-up names of clients, by result\n# TYPE pepsi_smtp_iprev_total counter\n");
	for (unsigned i = IPREV_PASS; i <= IPREV_PERMERROR; i++)
		buf_addf(out, "pepsi_smtp_iprev_total{result=\"%s\"} %llu\n", iprev_result_name((enum iprev_result)i),
		    (unsigned long long)in->iprev[i]);
	counter(out, "smtp_local_accepted_total", "Messages of users of this machine committed (pepsi-sendmail)", in->local_accepted);
	counter(out, "smtp_local_repeats_total", "Messages of users of this machine that had been taken before", in->local_repeats);
	counter(out, "smtp_proxied_total", "Connections with a PROXY header", in->proxied_total);
	certificates_metrics(in, out);
	counter(out, "smtp_clients_gone_total", "Clients gone between their final dot and the answer", in->orphans);
	dnsbl_metrics(in, out);
	if (in->recipients)
		recipients_metrics(in->recipients, out);
	if (in->greylist)
		greylist_metrics(in->greylist, out);
	gauge(out, "smtp_trickling", "Sessions whose client sends an octet now and then", in->trickling);
	counter(out, "smtp_tarpitted_total", "Replies held back (UNKNOWN_DELAY)", in->tarpitted_total);
	counter(out, "smtp_tarpit_full_total", "Replies that were not, because TARPIT_MAX were", in->tarpit_full);
	gauge(out, "smtp_tarpitted", "Replies held back now", in->tarpitted);
	counter(out, "smtp_banners_delayed_total", "Banners kept for BANNER_DELAY", in->banners_delayed);
	gauge(out, "smtp_limit_entries", "Addresses and networks whose rates are counted", in->limits ? limits_entries(in->limits) : 0);
	if (in->auth)
		auth_metrics(in->auth, out);
	if (in->before)
		before_metrics(in->before, out);
	vet_metrics(in, out);
	gauge(out, "message_memory_bytes", "Memory held by messages under way", in->house.used);
	gauge(out, "message_memory_limit_bytes", "MESSAGE_MEMORY", in->house.max);
	gauge(out, "admission_waiting", "Messages waiting for the next commit", a.waiting);
	gauge(out, "admission_in_flight", "Messages in the commit under way", a.in_flight);
	gauge(out, "admission_ids", "Queue ids in hand", a.ids);
	counter(out, "admission_failed_rows_total", "Messages the database did not take", a.failed_rows);
	histogram(out, "admission_batch_rows", "Messages per commit", a.rows_le, 1, (double)a.rows, a.batches);
	histogram(out, "admission_seconds", "Time of a commit", a.time_le, 0.0005, (double)a.time_us / 1e6,
	    a.batches);
}

void ingress_status(struct ingress *in, struct buf *out)
{
	struct admit_stats a = { 0 };
	uint64_t rejected = 0;
	if (in->admit)
		admit_stats(in->admit, &a);
	for (unsigned i = 0; i < REFUSED_N; i++)
		rejected += in->rejected[i];
	buf_addf(out,
	    "{\"connections\":%llu,\"sessions\":%u,\"accepted\":%llu,\"octets\":%llu,\"rejected\":%llu,"
	    "\"timeouts\":%llu,"
	    "\"database\":%s,\"draining\":%s,\"message_memory\":%zu,\"waiting\":%u,\"in_flight\":%u,"
	    "\"batches\":%llu,"
	    "\"rows\":%llu,\"abuse\":{\"unknown_recipient\":%llu,\"harvest\":%llu,\"rate\":%llu,\"connections\":%llu,\"dnsbl\":%llu,\"greylist\":%llu,"
	    "\"early_talk\":%llu,\"tarpitted\":%u,\"timeouts\":%llu,\"trickling\":%u,\"remembered\":%u},\"local\":{\"accepted\":%llu,\"repeats\":%llu},\"signin\":",
	    (unsigned long long)in->connections, in->n_sessions, (unsigned long long)in->accepted,
	    (unsigned long long)in->octets, (unsigned long long)rejected, (unsigned long long)in->timeouts,
	    in->database_up ? "true" : "false", in->draining ? "true" : "false", in->house.used, a.waiting,
	    a.in_flight, (unsigned long long)a.batches, (unsigned long long)a.rows, (unsigned long long)in->rejected[REFUSED_RECIPIENT],
	    (unsigned long long)in->rejected[REFUSED_HARVEST], (unsigned long long)in->rejected[REFUSED_RATE],
	    (unsigned long long)in->rejected[REFUSED_CONNECTIONS], (unsigned long long)in->rejected[REFUSED_DNSBL],
	    (unsigned long long)in->rejected[REFUSED_GREYLIST], (unsigned long long)in->rejected[REFUSED_EARLY], in->tarpitted, (unsigned long long)in->timeouts, in->trickling,
	    in->limits ? limits_entries(in->limits) : 0, (unsigned long long)in->local_accepted, (unsigned long long)in->local_repeats);
	if (in->auth)
		auth_status(in->auth, out);
	else
		buf_addz(out, "null");
	buf_addf(out, ",\"held\":%llu,\"caps\":", (unsigned long long)in->held_for_sender);
	if (in->caps)
		caps_status(in->caps, out);
	else
		buf_addz(out, "null");
	buf_addz(out, ",\"dmarc_counts\":");
	if (in->tally)
		tally_status(in->tally, out);
	else
		buf_addz(out, "null");
	buf_addz(out, ",\"dmarc_failures\":");
	if (in->failures)
		failures_status(in->failures, out);
	else
		buf_addz(out, "null");
	buf_addz(out, ",\"before\":");
	if (in->before)
		before_status(in->before, out);
	else
		buf_addz(out, "[]");
	buf_addz(out, ",\"authentication\":");
	vet_status(in, out);
	buf_addz(out, ",\"recipients\":");
	if (in->recipients)
		recipients_status(in->recipients, out);
	else
		buf_addz(out, "null");
	buf_addz(out, ",\"certificates\":[");
	certificates_status(in, out);
	buf_addz(out, "]}");
}

uint64_t ingress_octets(const struct ingress *in)
{
	return in->octets;
}
