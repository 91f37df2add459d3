/* A session's worth for TLS reports (RFC 8460): from what tls_judge() tells to the records of tls_results.h. */
#include "internet.h"

#include <stdio.h>

enum { STRINGS_MAX = 300 };

/* "3 1 1 0F2A…" of each TLSA record, in the delivery's memory. */
static size_t tlsa(struct delivery *d, const struct dane_lookup *l, struct str *ret)
{
	size_t n = 0;
	for (size_t i = 0; l->tlsa && i < l->tlsa->n_rr && n < 32; i++) {
		const struct dns_rr *rr = &l->tlsa->rr[i];
		struct buf b = BUF_INIT(2100);
		buf_addf(&b, "%u %u %u ", rr->usage, rr->selector, rr->matching);
		for (size_t k = 0; k < rr->data.n && !b.failed; k++)
			buf_addf(&b, "%02x", (unsigned char)rr->data.p[k]);
		ret[n] = arena_str(d->a, buf_str(&b)); /* a whole certificate is cut: it is as long as the report */
		n += ret[n].p != NULL;
		buf_free(&b);
	}
	return n;
}

static size_t lines(const struct sts_held *h, struct str *ret)
{
	struct str rest = h->body, line;
	size_t n = 0;
	while (n < STRINGS_MAX && str_word(&rest, "\r\n", &line))
		ret[n++] = line;
	return n;
}

void results_tell(struct delivery *d, unsigned h, const struct tls_verdict *v, const struct line *l)
{
	struct str string[STRINGS_MAX];
	if (!d->w->results || d->route.literal)
		return;
	for (size_t i = 0; i < v->n_reports; i++) {
		const struct tls_report *t = &v->report[i];
		struct tls_result r = { .domain = d->route.name, .type = t->policy, .success = t->success, .failure = t->failure,
			.mx_host = d->route.host[h].name, .code = t->code, .string = string };
		char from[64] = "";
		if (t->policy == TLSRPT_TLSA) {
			r.n_strings = tlsa(d, &d->host[h].dane, string);
			r.base = d->host[h].dane.base;
		} else if (t->policy == TLSRPT_STS && d->sts && d->sts->known) {
			r.n_strings = lines(d->sts, string);
			r.mx = d->sts->policy.mx;
			r.n_mx = d->sts->policy.n_mx;
		}
		if (l) {
			r.receiving_ip = l->ip_text;
			if (*log_from(l, from, sizeof from) != '-')
				r.sending_ip = from;
		}
		tls_results_add(d->w->results, &r);
	}
}
