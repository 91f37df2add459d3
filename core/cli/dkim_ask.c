/* Authoritative servers and what they tell (dkim_ask.h). */
#include "dkim_ask.h"
#include "proto/dkim/private.h"
#include "worker/resolve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

enum { ADDRESSES_MAX = 4, PARENTS_MAX = 12, ONE_US = 5000000 };

enum answer { SAME, OTHER, NONE, SILENT };

int dkim_ask_open(const struct cli *c, const struct config *conf, struct dkim_asker *ret)
{
	struct str rest = str_from(c->args.value[CLI_SERVER]), word;
	char err[256];
	*ret = (struct dkim_asker){ .n_fixed = 0 };
	while (str_word(&rest, ", ", &word)) {
		if (ret->n_fixed == NET_DNS_SERVERS_MAX || net_dns_server_parse(word, &ret->fixed[ret->n_fixed]))
			return cli_usage(c, "--server: \"%.*s\" is no address, or one too many", STR_ARG(word));
		ret->n_fixed++;
	}
	if (resolve_settings(conf, &ret->settings, err, sizeof err))
		return cli_fail("%s", err);
	if (!(ret->base = event_base_new()))
		return cli_fail("out of memory");
	return 0;
}

void dkim_ask_close(struct dkim_asker *a)
{
	if (a->base)
		event_base_free(a->base);
	a->base = NULL;
}

const char *dkim_told_name(enum dkim_told t)
{
	static const char *const names[] = { "published", "not everywhere", "not published", "another record", "not known" };
	return names[t];
}

/* One question, through the configured resolver (server NULL) or to one server alone. NULL: memory. */
static struct dns_answer *question(struct dkim_asker *a, const struct net_dns_server *server, const char *name, enum dns_type type)
{
	struct net_dns_settings s = a->settings;
	if (server) {
		s.server[0] = *server;
		s.n_servers = 1;
		s.resolv_conf[0] = 0;
		s.lookup_us = ONE_US;
	}
	struct net_dns *d = net_dns_new(a->base, &s);
	struct net_dns_group *g = d ? net_dns_group_new(d, 0, 0) : NULL;
	struct dns_answer *r = g ? net_dns_wait(g, str_from(name), type) : NULL;
	net_dns_group_free(g);
	net_dns_free(d);
	return r;
}

static enum answer judge(const struct dns_answer *a, struct str record)
{
	if (!a || a->status == DNS_TEMPFAIL)
		return SILENT;
	if (a->status != DNS_OK || !a->n_rr)
		return NONE;
	for (size_t i = 0; i < a->n_rr; i++)
		if (a->n_rr == 1 && dkim_record_same_key(a->rr[i].data, record))
			return SAME;
	return a->n_rr == 1 && dkim_record_same_key(a->rr[0].data, STR("v=DKIM1; p=")) ? NONE : OTHER;
}

struct count {
	unsigned n, same, none, other, silent;
};

static void count(struct count *c, enum answer a, const char *server, struct buf *why)
{
	static const char *const texts[] = { NULL, "tells another record, or several", "has no record", "does not answer" };
	c->n++;
	c->same += a == SAME;
	c->none += a == NONE;
	c->other += a == OTHER;
	c->silent += a == SILENT;
	if (a != SAME)
		buf_addf(why, "%s%s %s", why->n ? "; " : "", server, texts[a]);
}

/* One server by its name: the first of its addresses that answers. */
static void ask_named(struct dkim_asker *a, const char *host, const char *name, struct str record, struct count *c, struct buf *why)
{
	static const enum dns_type types[] = { DNS_A, DNS_AAAA };
	enum answer got = SILENT;
	for (size_t t = 0; t < 2 && got == SILENT; t++) {
		struct dns_answer *ip = question(a, NULL, host, types[t]);
		for (size_t i = 0; ip && ip->status == DNS_OK && i < ip->n_rr && i < ADDRESSES_MAX && got == SILENT; i++) {
			char text[INET6_ADDRSTRLEN];
			struct net_dns_server s;
			if (!inet_ntop(types[t] == DNS_A ? AF_INET : AF_INET6, ip->rr[i].data.p, text, sizeof text) || net_dns_server_parse(str_from(text), &s))
				continue;
			struct dns_answer *r = question(a, &s, name, DNS_TXT);
			got = judge(r, record);
			dns_answer_unref(r);
		}
		dns_answer_unref(ip);
	}
	count(c, got, host, why);
}

/* The servers of the zone the name is in. */
static void ask_zone(struct dkim_asker *a, const char *name, struct str record, struct count *c, struct buf *why)
{
	const char *zone = name;
	for (unsigned up = 0; zone && *zone && up < PARENTS_MAX; up++) {
		struct dns_answer *ns = question(a, NULL, zone, DNS_NS);
		bool found = ns && ns->status == DNS_OK && ns->n_rr, lost = !ns || ns->status == DNS_TEMPFAIL;
		for (size_t i = 0; found && i < ns->n_rr && i < DKIM_ASK_SERVERS_MAX; i++) {
			char host[DNS_NAME_MAX + 1];
			snprintf(host, sizeof host, "%.*s", STR_ARG(ns->rr[i].data));
			ask_named(a, host, name, record, c, why);
		}
		if (lost)
			buf_addf(why, "%sthe name servers of %s are not known now", why->n ? "; " : "", zone);
		dns_answer_unref(ns);
		if (found || lost)
			return;
		zone = strchr(zone, '.');
		zone = zone ? zone + 1 : NULL;
	}
	buf_addf(why, "no name servers of %s are found", name);
}

enum dkim_told dkim_ask(struct dkim_asker *a, const char *domain, const char *selector, struct str record, struct buf *why)
{
	char name[DNS_NAME_MAX + 1];
	struct count c = { 0 };
	if ((size_t)snprintf(name, sizeof name, "%s._domainkey.%s", selector, domain) >= sizeof name) {
		buf_addz(why, "longer than a name may be");
		return DKIM_TOLD_UNKNOWN;
	}
	for (unsigned i = 0; i < a->n_fixed; i++) {
		struct dns_answer *r = question(a, &a->fixed[i], name, DNS_TXT);
		count(&c, judge(r, record), a->fixed[i].text, why);
		dns_answer_unref(r);
	}
	if (!a->n_fixed)
		ask_zone(a, name, record, &c, why);
	if (!c.n || (c.silent && !c.none && !c.other)) /* who is silent now says nothing against it */
		return DKIM_TOLD_UNKNOWN;
	return c.same == c.n ? DKIM_TOLD_ALL : c.none == c.n ? DKIM_TOLD_NONE : c.other == c.n ? DKIM_TOLD_OTHER : DKIM_TOLD_SOME;
}
