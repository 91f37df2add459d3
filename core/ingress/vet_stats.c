/* What /metrics, `pepsi status` and the log show of authentication. */
#include "vet_internal.h"

#include <stdlib.h>

struct vet_counts *vet_counts_new(void)
{
	struct vet_counts *n = calloc(1, sizeof *n);
	if (n)
		n->keys = dkim_keys_new();
	return n;
}

void vet_counts_free(struct vet_counts *n)
{
	if (n)
		dkim_keys_free(n->keys);
	free(n);
}

void vet_count(struct vet_counts *n, const struct vet *v)
{
	const struct verify_verdict *r = verify_verdict(v->v);
	n->messages++;
	n->queries += v->queries;
	n->spent_us += (uint64_t)v->spent_us;
	n->abandoned += v->abandoned;
	n->temporary += verify_temporary(r);
	n->overridden += r->override == VERIFY_TRUSTED_SEALER;
	if (r->spf)
		n->spf[r->spf->result]++;
	if (r->spf_helo)
		n->helo[r->spf_helo->result]++;
	if (r->dkim_checked)
		n->dkim[verify_dkim_result(r)]++;
	if (r->arc)
		n->arc[r->arc->result == DKIM_FAIL && r->arc->temporary ? DKIM_TEMPERROR : r->arc->result]++;
	if (r->dmarc)
		n->dmarc[r->dmarc->result]++;
}

void vet_log(const struct message *m)
{
	if (m->vetted.n && log_max() >= LOG_LV_INFO)
		log_info(NULL, "id=%lld event=authenticated %s", (long long)m->id, buf_z(&m->vetted));
}

static void line(struct buf *out, enum verify_method m, const char *result, uint64_t n)
{
	buf_addf(out, "pepsi_authentication_total{method=\"%s\",result=\"%s\"} %llu\n", verify_method_name(m), result, (unsigned long long)n);
}

static void counter(struct buf *out, const char *name, const char *help, uint64_t v)
{
	buf_addf(out, "# HELP pepsi_authentication_%s %s\n# TYPE pepsi_authentication_%s counter\npepsi_authentication_%s %llu\n", name, help, name,
	    name, (unsigned long long)v);
}

static void seconds(struct buf *out, const char *name, const char *help, uint64_t us)
{
	buf_addf(out, "# HELP pepsi_authentication_%s %s\n# TYPE pepsi_authentication_%s counter\npepsi_authentication_%s %llu.%06u\n", name, help,
	    name, name, (unsigned long long)(us / 1000000), (unsigned)(us % 1000000));
}

void vet_metrics(const struct ingress *in, struct buf *out)
{
	const struct vet_counts *n = in->vet;
	buf_addz(out, "# HELP pepsi_authentication_total Messages from outside by method and result (of several signatures the best)\n"
		      "# TYPE pepsi_authentication_total counter\n");
	for (unsigned i = 0; i <= SPF_PERMERROR; i++)
		line(out, VERIFY_MAILFROM, spf_result_name((enum spf_result)i), n->spf[i]);
	for (unsigned i = 0; i <= SPF_PERMERROR; i++)
		line(out, VERIFY_HELO, spf_result_name((enum spf_result)i), n->helo[i]);
	for (unsigned i = 0; i <= DKIM_PERMERROR; i++)
		line(out, VERIFY_DKIM, dkim_result_name((enum dkim_result)i), n->dkim[i]);
	for (unsigned i = 0; i <= DKIM_PERMERROR; i++)
		line(out, VERIFY_ARC, dkim_result_name((enum dkim_result)i), n->arc[i]);
	for (unsigned i = 0; i <= DMARC_RESULT_PERMERROR; i++)
		line(out, VERIFY_DMARC, dmarc_result_name((enum dmarc_result)i), n->dmarc[i]);
	buf_addz(out, "# HELP pepsi_authentication_refused_total Messages refused for good, by the method that asked for it\n"
		      "# TYPE pepsi_authentication_refused_total counter\n");
	for (unsigned i = VERIFY_MAILFROM; i < VERIFY_METHODS; i++)
		buf_addf(out, "pepsi_authentication_refused_total{method=\"%s\"} %llu\n", verify_method_name((enum verify_method)i),
		    (unsigned long long)n->refused[i]);
	counter(out, "messages_total", "Messages that were looked at", n->messages);
	counter(out, "deferred_total", "Messages answered with 451 because something could not be looked up (AUTHENTICATION_TEMPERROR)", n->deferred);
	counter(out, "quarantined_total", "Messages that a DMARC policy put into quarantine", n->quarantined);
	counter(out, "overridden_total", "DMARC policies not applied because of a listed ARC sealer", n->overridden);
	counter(out, "temporary_total", "Messages with a result of temperror", n->temporary);
	counter(out, "abandoned_total", "Evaluations that ended for want of memory", n->abandoned);
	counter(out, "unasked_total", "Evaluations whose client had used up AUTHENTICATION_QUERIES_PER_MINUTE", n->unasked);
	counter(out, "forged_total", "Authentication-Results of others in our name, taken out", n->forged);
	counter(out, "queries_total", "Questions to the DNS servers for it, beyond what the cache knew", n->queries);
	seconds(out, "wait_seconds_total", "Time that whole messages waited for their verdict", n->wait_us);
	seconds(out, "busy_seconds_total", "Time of the reactor's thread spent on it", n->spent_us);
}

void vet_status(const struct ingress *in, struct buf *out)
{
	const struct vet_counts *n = in->vet;
	uint64_t refused = 0;
	for (unsigned i = 0; i < VERIFY_METHODS; i++)
		refused += n->refused[i];
	buf_addf(out,
	    "{\"messages\":%llu,\"passed\":%llu,\"refused\":%llu,\"deferred\":%llu,\"quarantined\":%llu,\"overridden\":%llu,\"temporary\":%llu,"
	    "\"forged\":%llu,\"queries\":%llu,\"waiting_ms\":%llu,\"cpu_us\":%llu}",
	    (unsigned long long)n->messages, (unsigned long long)n->passed, (unsigned long long)refused, (unsigned long long)n->deferred,
	    (unsigned long long)n->quarantined, (unsigned long long)n->overridden, (unsigned long long)n->temporary, (unsigned long long)n->forged,
	    (unsigned long long)n->queries, (unsigned long long)(n->wait_us / 1000), (unsigned long long)n->spent_us);
}
