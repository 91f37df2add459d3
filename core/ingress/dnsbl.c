/* Block lists and allow lists of a session; see dnsbl.h. */
#include "dnsbl.h"

#include "base/clock.h"
#include "ingress_internal.h"
#include "base/json.h"

#include <stdlib.h>

enum { LOOKUP_S = 15 };

struct dnsbl {
	struct session *s;
	struct net_dns_group *group; /* NULL: done */
	struct net_addr peer;        /* ip of the check */
	struct dnsbl_check check;
	bool late;                   /* nobody waits for it any more */
	struct dnsbl_result results[];
};

void dnsbl_free(struct session *s)
{
	struct dnsbl *d = s->dnsbl;
	if (!d)
		return;
	s->dnsbl = NULL;
	net_dns_group_free(d->group);
	free(d);
}

static struct dnsbl_counts *counts_of(struct ingress *in, const char *zone)
{
	for (unsigned i = 0; i < in->n_dnsbl; i++)
		if (strcmp(in->dnsbl[i].zone, zone) == 0)
			return &in->dnsbl[i];
	if (in->n_dnsbl == sizeof in->dnsbl / sizeof *in->dnsbl)
		return &in->dnsbl[in->n_dnsbl - 1]; /* more than any configuration has at once: of former ones */
	struct dnsbl_counts *c = &in->dnsbl[in->n_dnsbl++];
	snprintf(c->zone, sizeof c->zone, "%s", zone);
	return c;
}

static void done(void *arg, int rc, const struct dns_answers *set)
{
	struct dnsbl *d = arg;
	struct session *s = d->s;
	(void)set;
	net_dns_group_free(d->group);
	d->group = NULL;
	for (size_t i = 0; i < d->check.n; i++) {
		struct dnsbl_counts *c = counts_of(s->in, d->check.lists[i].zone);
		struct dnsbl_result *r = &d->results[i];
		if (rc != DNS_DONE) /* memory */
			*r = (struct dnsbl_result){ .failed = true };
		*(r->listed ? &c->listed : r->failed ? &c->failed : &c->clean) += 1;
		if (r->listed)
			log_debug(&s->log, "event=dns-list zone=%s action=%s address=127.%u.%u.%u", c->zone,
			    dnsbl_action_name(d->check.lists[i].action), r->address[1], r->address[2], r->address[3]);
	}
	checks_dnsbl_done(s);
}

void dnsbl_begin(struct session *s)
{
	const struct abuse_terms *t = &s->terms->abuse;
	dnsbl_free(s);
	if (!s->in->dns || !t->n_lists || s->exempt || !net_addr_is_ip(&s->peer) || s->terms->need_auth)
		return;
	struct dnsbl *d = calloc(1, sizeof *d + t->n_lists * sizeof *d->results);
	if (!d)
		return;
	d->s = s;
	d->peer = s->peer;
	d->check = (struct dnsbl_check){ t->lists, d->results, t->n_lists, d->peer.ip, s->peer.family == AF_INET ? 4 : 16, t->dnsbl_text };
	d->group = net_dns_group_new(s->in->dns, LOOKUP_S * US_PER_S, (unsigned)(2 * t->n_lists));
	if (!d->group || !net_dns_evaluate(d->group, dnsbl_evaluate, &d->check, done, d)) {
		net_dns_group_free(d->group);
		free(d);
		return;
	}
	s->dnsbl = d;
}

bool dnsbl_open(const struct session *s)
{
	return s->dnsbl && s->dnsbl->group && !s->dnsbl->late;
}

void dnsbl_late(struct session *s)
{
	struct dnsbl *d = s->dnsbl;
	d->late = true;
	for (size_t i = 0; i < d->check.n; i++)
		counts_of(s->in, d->check.lists[i].zone)->late++;
}

/* Results are whole only when all have answered. */
static const struct dnsbl *known(const struct session *s)
{
	return s->dnsbl && !s->dnsbl->group ? s->dnsbl : NULL;
}

bool dnsbl_allowed(const struct session *s)
{
	const struct dnsbl *d = known(s);
	for (size_t i = 0; d && i < d->check.n; i++)
		if (d->results[i].listed && d->check.lists[i].action == DNSBL_ALLOW)
			return true;
	return false;
}

const struct dnsbl_list *dnsbl_refusal(const struct session *s, const struct dnsbl_result **ret)
{
	const struct dnsbl *d = known(s);
	for (enum dnsbl_action a = DNSBL_REJECT; d && !dnsbl_allowed(s) && a <= DNSBL_DEFER; a++)
		for (size_t i = 0; i < d->check.n; i++)
			if (d->results[i].listed && d->check.lists[i].action == a) {
				*ret = &d->results[i];
				return &d->check.lists[i];
			}
	return NULL;
}

static void put_lists(const struct dnsbl *d, struct buf *out, bool allow)
{
	bool any = false;
	for (size_t i = 0; i < d->check.n; i++) {
		const struct dnsbl_list *l = &d->check.lists[i];
		const struct dnsbl_result *r = &d->results[i];
		char address[16];
		if (!r->listed || (l->action == DNSBL_ALLOW) != allow)
			continue;
		if (any)
			buf_addc(out, ',');
		else {
			json_put_key(out, allow ? "dnswl" : "dnsbl");
			buf_addc(out, '[');
		}
		any = true;
		buf_addc(out, '{');
		json_put_member(out, "list", str_from(l->zone));
		snprintf(address, sizeof address, "%u.%u.%u.%u", r->address[0], r->address[1], r->address[2], r->address[3]);
		json_put_member(out, "address", str_from(address));
		if (r->text[0])
			json_put_member(out, "text", str_from(r->text));
		buf_addc(out, '}');
	}
	if (any)
		buf_addc(out, ']');
}

void dnsbl_put(const struct session *s, struct buf *out)
{
	const struct dnsbl *d = known(s);
	if (!d)
		return;
	put_lists(d, out, false);
	put_lists(d, out, true);
}

void dnsbl_metrics(const struct ingress *in, struct buf *out)
{
	if (!in->n_dnsbl)
		return;
	buf_addz(out, "# HELP pepsi_smtp_dns_list_total Clients looked up in lists of the DNS, by zone and result; late: a RCPT did not wait longer\n"
		      "# TYPE pepsi_smtp_dns_list_total counter\n");
	for (unsigned i = 0; i < in->n_dnsbl; i++) {
		const struct dnsbl_counts *c = &in->dnsbl[i];
		buf_addf(out,
		    "pepsi_smtp_dns_list_total{zone=\"%s\",result=\"listed\"} %llu\npepsi_smtp_dns_list_total{zone=\"%s\",result=\"clean\"} %llu\n"
		    "pepsi_smtp_dns_list_total{zone=\"%s\",result=\"failed\"} %llu\npepsi_smtp_dns_list_total{zone=\"%s\",result=\"late\"} %llu\n",
		    c->zone, (unsigned long long)c->listed, c->zone, (unsigned long long)c->clean, c->zone, (unsigned long long)c->failed, c->zone,
		    (unsigned long long)c->late);
	}
}
