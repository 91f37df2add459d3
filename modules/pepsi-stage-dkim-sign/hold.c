/* Which signatures of our own hold (seal.h), by the verifier of proto/dkim. Apart from seal.c: both libraries have a struct dkim. */
#include "seal.h"
#include "proto/dkim/dkim.h"
#include "proto/dkim/tags.h"
#include "proto/mail/header.h"

#include <stdio.h>

/* The job a signature field claims to come from, or -1. */
static int job_of(const struct seal_job *jobs, size_t n, struct str value)
{
	struct dkim_tags t;
	const char *why;
	if (dkim_tags_parse(value, &t, &why))
		return -1;
	const struct dkim_tag *d = dkim_tags_get(&t, "d"), *s = dkim_tags_get(&t, "s");
	for (size_t i = 0; d && s && i < n; i++)
		if (str_ieq(d->value, str_from(jobs[i].domain)) && str_ieq(s->value, str_from(jobs[i].key->selector)))
			return (int)i;
	return -1;
}

/* The block that our verifier gets: those signatures of ours, and all other fields but signatures. */
static int block_of(const struct seal_job *jobs, size_t n, struct str signatures, struct str headers, struct buf *out)
{
	struct mail_field f;
	size_t found = 0;
	for (int r; (r = mail_field_next(&signatures, &f)) != 0;)
		if (r > 0 && str_ieq(f.name, STR("DKIM-Signature")) && found < SEAL_SIGNATURES_MAX && job_of(jobs, n, f.value) >= 0) {
			found++;
			if (buf_adds(out, f.all))
				return -1;
		}
	for (int r; found && (r = mail_field_next(&headers, &f)) != 0;)
		if (r > 0 && !str_ieq(f.name, STR("DKIM-Signature")) && buf_adds(out, f.all))
			return -1;
	return (int)found;
}

static struct dns_answers *answers_of(const struct seal_job *jobs, size_t n)
{
	struct dns_answers *set = dns_answers_new();
	for (size_t i = 0; set && i < n; i++) {
		char name[DKIM_SELECTOR_MAX + KEYDIR_DOMAIN_MAX + 20];
		const struct dns_rr rr = { .data = buf_str(&jobs[i].key->record) };
		snprintf(name, sizeof name, "%s._domainkey.%s", jobs[i].key->selector, jobs[i].domain);
		if (dns_answers_put(set, dns_answer_new(str_from(name), DNS_TXT, DNS_OK, &rr, 1, 60, false))) {
			dns_answers_free(set);
			return NULL;
		}
	}
	return set;
}

int seal_holds(const struct seal_job *jobs, size_t n, struct str signatures, struct str headers, struct str body, int64_t now)
{
	const struct dkim_policy policy = { .now = now };
	struct buf block = BUF_INIT(signatures.n + headers.n + 1);
	struct dkim *d = NULL;
	struct dns_answers *set = NULL;
	int found = block_of(jobs, n, signatures, headers, &block), holds = found < 0 ? -1 : 0;
	if (found <= 0)
		goto out;
	holds = -1;
	if (!(d = dkim_new(&policy)) || !(set = answers_of(jobs, n)) || dkim_headers(d, buf_str(&block)))
		goto out;
	dkim_body_feed(d, body.p, body.n);
	dkim_body_end(d);
	if (dkim_evaluate(d, set) != DNS_DONE)
		goto out;
	holds = 0;
	for (size_t i = 0; i < dkim_n(d); i++) {
		const struct dkim_signature *g = dkim_signature(d, i);
		if (g->result != DKIM_PASS || g->has_length)
			continue;
		for (size_t j = 0; j < n; j++)
			if (str_ieq(g->domain, str_from(jobs[j].domain)) && str_ieq(g->selector, str_from(jobs[j].key->selector)))
				holds |= 1 << j;
	}
out:
	dkim_release(d);
	dns_answers_free(set);
	buf_free(&block);
	return holds;
}
