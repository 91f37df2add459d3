/* What operators see of the resolver: metrics and the lines of `pepsi status`. */
#include "dns_internal.h"
#include "proto/dns/text.h"

static const char *const type_names[] = { "A", "NS", "CNAME", "SOA", "PTR", "MX", "TXT", "AAAA", "TLSA", "other" };

static void metric(struct buf *out, const char *name, const char *kind, const char *help)
{
	buf_addf(out, "# HELP pepsi_dns_%s %s\n# TYPE pepsi_dns_%s %s\n", name, help, name, kind);
}

static void counter(struct buf *out, const char *name, const char *help, uint64_t v)
{
	metric(out, name, "counter", help);
	buf_addf(out, "pepsi_dns_%s %llu\n", name, (unsigned long long)v);
}

static void gauge(struct buf *out, const char *name, const char *help, uint64_t v)
{
	metric(out, name, "gauge", help);
	buf_addf(out, "pepsi_dns_%s %llu\n", name, (unsigned long long)v);
}

static void per_server(const struct net_dns *d, struct buf *out, const char *name, const char *kind, const char *help, size_t member)
{
	metric(out, name, kind, help);
	for (unsigned i = 0; i < d->n_servers; i++) {
		uint64_t v;
		memcpy(&v, (const char *)&d->server[i] + member, sizeof v);
		buf_addf(out, "pepsi_dns_%s{server=\"%s\"} %llu\n", name, d->server[i].at.text, (unsigned long long)v);
	}
}

static void latency(const struct net_dns *d, struct buf *out)
{
	uint64_t sum = 0;
	metric(out, "lookup_seconds", "histogram", "Time from question to answer, of questions that were not in the cache");
	for (unsigned i = 0; i < DNS_LATENCY_BUCKETS; i++) {
		sum += d->stats.latency[i];
		buf_addf(out, "pepsi_dns_lookup_seconds_bucket{le=\"%g\"} %llu\n", 0.0005 * (double)(1u << i), (unsigned long long)sum);
	}
	buf_addf(out, "pepsi_dns_lookup_seconds_bucket{le=\"+Inf\"} %llu\npepsi_dns_lookup_seconds_sum %g\npepsi_dns_lookup_seconds_count %llu\n",
	    (unsigned long long)d->stats.flights, (double)d->stats.latency_us / 1e6, (unsigned long long)d->stats.flights);
}

void net_dns_metrics(const struct net_dns *d, struct buf *out)
{
	const struct dns_stats *s = &d->stats;
	metric(out, "answers_total", "counter", "Answers given, by type of record and result");
	for (unsigned t = 0; t < sizeof type_names / sizeof *type_names; t++)
		for (unsigned r = 0; r < 4; r++)
			if (s->answers[t][r])
				buf_addf(out, "pepsi_dns_answers_total{type=\"%s\",result=\"%s\"} %llu\n", type_names[t],
				    dns_status_name((enum dns_status)r), (unsigned long long)s->answers[t][r]);
	counter(out, "authenticated_total", "Answers given that were validated (AD)", s->authenticated);
	counter(out, "cache_hits_total", "Questions answered from the cache", s->hits);
	counter(out, "cache_misses_total", "Questions that were not in the cache", s->misses);
	counter(out, "cache_evicted_total", "Entries of the cache that had to go before their time", dns_cache_evicted(d->cache));
	gauge(out, "cache_entries", "Answers in the cache", dns_cache_entries(d->cache));
	gauge(out, "cache_bytes", "Memory of the cache", dns_cache_octets(d->cache));
	counter(out, "coalesced_total", "Questions that joined an equal one under way", s->coalesced);
	counter(out, "waited_total", "Questions that waited for their turn, their message having many under way", s->waited);
	counter(out, "tcp_total", "Queries by TCP", s->tcp);
	counter(out, "forged_total", "Replies dropped because they did not fit the question", s->forged);
	counter(out, "edns_refused_total", "Times a server did not know EDNS", s->edns_off);
	counter(out, "over_budget_total", "Questions refused because a message had used up its queries", s->budget);
	counter(out, "over_deadline_total", "Questions given up at the deadline of their message", s->deadline);
	counter(out, "over_in_flight_total", "Questions that waited because of MAX_IN_FLIGHT", s->full);
	gauge(out, "in_flight", "Questions under way", d->in_flight);
	latency(d, out);
	per_server(d, out, "queries_total", "counter", "Queries sent to a server", offsetof(struct server, queries));
	per_server(d, out, "timeouts_total", "counter", "Queries a server did not answer in time", offsetof(struct server, timeouts));
	per_server(d, out, "failures_total", "counter", "Replies that were no answer: SERVFAIL, REFUSED, malformed",
	    offsetof(struct server, failures));
	metric(out, "server_up", "gauge", "Does the server answer?");
	for (unsigned i = 0; i < d->n_servers; i++)
		buf_addf(out, "pepsi_dns_server_up{server=\"%s\"} %d\n", d->server[i].at.text, !d->server[i].down);
}

void net_dns_status(const struct net_dns *d, struct buf *out)
{
	buf_addf(out, "{\"source\":\"%s\",\"in_flight\":%u,\"cache_entries\":%zu,\"cache_bytes\":%zu,\"hits\":%llu,\"misses\":%llu,\"servers\":[",
	    d->s.resolv_conf[0] ? "resolv.conf" : d->n_servers && d->server[0].at.local ? "libunbound" : "SERVERS", d->in_flight, dns_cache_entries(d->cache), dns_cache_octets(d->cache),
	    (unsigned long long)d->stats.hits, (unsigned long long)d->stats.misses);
	for (unsigned i = 0; i < d->n_servers; i++) {
		const struct server *s = &d->server[i];
		buf_addf(out, "%s{\"server\":\"%s\",\"up\":%s,\"trusted\":%s,\"queries\":%llu,\"timeouts\":%llu,\"failures\":%llu,\"rtt_ms\":%.1f}",
		    i ? "," : "", s->at.text, s->down ? "false" : "true", d->s.trust_ad || s->at.loopback ? "true" : "false",
		    (unsigned long long)s->queries, (unsigned long long)s->timeouts, (unsigned long long)s->failures, (double)s->rtt_us / 1e3);
	}
	buf_addz(out, "]}");
}

/* s is printable ASCII: names, presentation form, our own texts. */
static void put_string(struct buf *out, struct str s)
{
	buf_addc(out, '"');
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '"' || s.p[i] == '\\')
			buf_addc(out, '\\');
		buf_addc(out, s.p[i]);
	}
	buf_addc(out, '"');
}

void net_dns_answer_json(const struct dns_answer *a, const struct net_dns_delivery *how, struct buf *out)
{
	const char *type = dns_type_name(a->type);
	buf_addz(out, "{\"name\":");
	put_string(out, a->name);
	buf_addf(out, ",\"type\":\"%s\",\"status\":\"%s\",\"ttl\":%u,\"authenticated\":%s,\"chain\":[", type ? type : "", dns_status_name(a->status),
	    how ? how->ttl_left : a->ttl, a->authenticated ? "true" : "false");
	for (size_t i = 0; i < a->n_chain; i++) {
		buf_addz(out, i ? "," : "");
		put_string(out, a->chain[i]);
	}
	buf_addz(out, "],\"records\":[");
	for (size_t i = 0; i < a->n_rr; i++) {
		struct buf text = BUF_INIT(5 * DNS_NAME_MAX + 5 * UINT16_MAX);
		dns_rr_text(a->type, &a->rr[i], &text);
		buf_addz(out, i ? "," : "");
		put_string(out, buf_str(&text));
		buf_free(&text);
	}
	buf_addc(out, ']');
	if (a->why) {
		buf_addz(out, ",\"why\":");
		put_string(out, str_from(a->why));
	}
	if (how) {
		buf_addf(out, ",\"cached\":%s", how->cached ? "true" : "false");
		if (how->server && how->server[0])
			buf_addf(out, ",\"server\":\"%s\",\"took_ms\":%.1f", how->server, (double)how->took_us / 1e3);
	}
	buf_addc(out, '}');
}
