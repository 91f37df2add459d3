/* What each exchanger of a delivery demands (proto/relay/tls.h): TLSA records, MTA-STS, the operator, the message; and whether a session meets it. */
#include "internet.h"

#include <stdio.h>

int plan_evaluate(void *arg, struct dns_answers *set)
{
	struct delivery *d = arg;
	bool more = false;
	if (!d->w->set.dane)
		return DNS_DONE;
	for (unsigned i = 0; i < d->n_hosts; i++) {
		struct dane_lookup *l = &d->host[i].dane;
		if (d->route.host[i].state != ROUTE_HOST_USED || !d->route.host[i].name[0])
			continue; /* an address literal has no TLSA records */
		*l = (struct dane_lookup){ .host = str_from(d->route.host[i].name), .port = d->w->set.port, .ipv4 = d->w->set.ipv4,
			.ipv6 = d->w->set.ipv6 };
		more |= dane_evaluate(l, set) == DNS_MORE;
	}
	return more ? DNS_MORE : DNS_DONE;
}

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
	const unsigned char *c = p;
	for (size_t i = 0; i < n; i++)
		h = (h ^ c[i]) * UINT64_C(0x100000001b3);
	return h;
}

/* A session that was made under other demands is not this message's: what was checked of the other side may differ. */
static uint64_t tag_of(const struct delivery *d)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	bool own = false;
	for (unsigned i = 0; i < d->n_hosts; i++) {
		const struct tls_need *n = &d->host[i].need;
		const struct dane_lookup *l = &d->host[i].dane;
		unsigned char bits = (unsigned char)(n->usable | n->try_tls << 1 | n->encrypt << 2 | n->dane << 3 | n->pkix << 4 |
						     n->requiretls << 5 | n->verify << 6);
		h = mix(h, &bits, 1);
		own |= n->dane || n->pkix || n->verify;
		for (size_t k = 0; n->dane && k < l->tlsa->n_rr; k++)
			h = mix(h, l->tlsa->rr[k].data.p, l->tlsa->rr[k].data.n);
	}
	return own ? mix(h, d->domain, strlen(d->domain)) : h; /* reference names and policies are the domain's */
}

unsigned plan_make(struct delivery *d)
{
	unsigned usable = 0;
	d->site = settings_tls(&d->w->set, d->route.name);
	for (unsigned i = 0; i < d->n_hosts; i++) {
		struct plan_host *h = &d->host[i];
		h->rules = (struct tls_rules){ .site = d->site->policy, .site_named = d->site->names, .dane = d->w->set.dane ? h->dane.status : DANE_NONE, .mx_secure = d->route.mx_secure,
			.requiretls = d->m.require_tls && d->m.mail_from.n, .optional = d->optional }; /* RFC 8689 §5: a report goes all the same */
		if (d->sts) {
			h->rules.sts = d->sts->mode;
			h->rules.sts_covers = d->sts->known && sts_policy_covers(&d->sts->policy, str_from(d->route.host[i].name));
			h->rules.sts_failed = d->sts->failed;
			h->rules.sts_failure = d->sts->failure;
		}
		tls_need(&h->rules, &h->need);
		usable += d->route.host[i].state == ROUTE_HOST_USED && h->need.usable;
	}
	char sender[DNS_NAME_MAX + 1];
	struct source_ask ask = line_ask(d, 4, sender);
	unsigned pool = d->w->set.sources ? source_pool(d->w->set.sources, &ask) : 0;
	d->tag = mix(tag_of(d), &pool, sizeof pool);
	return usable;
}

static bool look(struct delivery *d, unsigned i, const struct session_facts *f, enum dane_verdict *ret)
{
	const struct plan_host *h = &d->host[i];
	const struct route_host *host = &d->route.host[i];
	struct dane_check c = { .rr = h->dane.tlsa->rr, .n_rr = h->dane.tlsa->n_rr, .chain = f->chain,
		.now = d->w->host->now_us() / 1000000 };
	c.n_names = dane_names(&h->dane, host->name, d->route.name, d->route.canonical, d->route.mx_secure, c.name);
	bool ok = dane_check(&c);
	*ret = c.verdict;
	return ok;
}

void plan_refuse(struct delivery *d, unsigned i)
{
	struct tls_verdict v;
	char text[SMTP_CLIENT_TEXT_MAX];
	if (d->host[i].told)
		return;
	d->host[i].told = true;
	tls_judge(&d->host[i].rules, &d->host[i].need, NULL, &v);
	results_tell(d, i, &v, NULL);
	snprintf(text, sizeof text, "%s: %s", d->route.host[i].name, v.reason);
	delivery_unsafe(d, log_where(d, NULL), SMTP_PHASE_CONNECT, v.status, text);
}

bool plan_judge(struct delivery *d, unsigned i, const struct session_facts *f, bool plain, struct tls_verdict *ret, const char **ret_verified,
    enum ratchet_level *ret_level)
{
	struct plan_host *h = &d->host[i];
	/* over a second connection without TLS what the first one offered still counts */
	struct tls_seen seen = { .starttls = f->starttls || plain, .refused = f->refused, .tls = f->tls, .requiretls = f->tls && (f->caps & SMTP_CAP_REQUIRETLS),
		.dane = DANE_NO_CERT, .pkix_error = f->pkix_error };
	seen.site_error = f->tls && d->site->names ? hop_tls_chain_error(d->w->env.tls, f->chain, d->site->names) : f->pkix_error;
	bool dane = f->tls && h->need.dane_look && look(d, i, f, &seen.dane);
	tls_judge(&h->rules, &h->need, &seen, ret);
	*ret_verified = !f->tls ? "no" : dane ? "dane" : f->pkix_error != 0 && seen.site_error != 0 ? "no" : h->rules.sts == STS_ENFORCE && f->pkix_error == 0 ? "mta-sts" : "pkix";
	*ret_level = ratchet_level(&h->rules, &seen, ret);
	return ret->go;
}

uint32_t plan_ttl(const struct delivery *d, const struct route_address *a)
{
	const struct dns_answer *x = dns_answers_peek(d->answers, str_from(d->route.host[a->host].name), a->n == 4 ? DNS_A : DNS_AAAA);
	return x ? x->ttl : 0;
}
