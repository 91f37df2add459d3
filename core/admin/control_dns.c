/* The command "dns": one question through the daemon's own resolver, with its cache and its view of the servers, for `pepsi dns`. */
#include "control_internal.h"

#include "net/dns.h"

#include <stdlib.h>

enum { ANSWER_MS = 70 * 1000 }; /* longer than the longest LOOKUP_DEADLINE */

struct control_lookup {
	struct control_lookup *next;
	struct admin *a;
	struct admin_ticket *ticket;
	struct net_dns_group *group;
};

static void lookup_free(struct control_lookup *l)
{
	struct control_lookup **at = &l->a->lookups;
	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	net_dns_group_free(l->group);
	free(l);
}

void control_dns_forget(struct admin *a)
{
	while (a->lookups) {
		admin_ticket_redeem(a->lookups->ticket);
		lookup_free(a->lookups);
	}
}

static void on_answer(void *arg, const struct dns_answer *answer)
{
	struct control_lookup *l = arg;
	struct net_dns_delivery how = net_dns_delivery(net_dns_of(l->group));
	struct control_peer *c = (struct control_peer *)admin_ticket_redeem(l->ticket);
	lookup_free(l);
	if (!c)
		return;
	struct buf json = BUF_INIT(CONTROL_ANSWER_MAX / 2);
	net_dns_answer_json(answer, &how, &json);
	if (json.failed)
		control_answer_error(c, "the answer is too large to be shown", "");
	else
		control_answer(c, buf_z(&json));
	buf_free(&json);
	control_go(c);
}

void control_dns_run(struct control_peer *c)
{
	struct admin *a = c->p.a;
	struct net_dns *dns = a->source.dns ? a->source.dns(a->source.arg) : NULL;
	enum dns_type type;
	if (!dns) {
		control_answer_error(c, "this daemon has no resolver", "");
		return;
	}
	if (dns_type_parse(str_from(c->req.type), &type)) {
		control_answer_error(c, "unknown type of record", "A, AAAA, MX, TXT, PTR, NS, CNAME, SOA or TLSA");
		return;
	}
	struct control_lookup *l = calloc(1, sizeof *l);
	if (l) {
		l->a = a;
		l->next = a->lookups;
		a->lookups = l;
		l->group = net_dns_group_new(dns, 0, 0);
		l->ticket = admin_ticket_new(&c->p);
	}
	if (l && l->group && l->ticket && net_dns_query(l->group, str_from(c->req.name_asked), type, on_answer, l)) {
		admin_peer_deadline(&c->p, ANSWER_MS);
		return;
	}
	if (l && l->ticket)
		admin_ticket_redeem(l->ticket);
	if (l)
		lookup_free(l);
	control_answer_error(c, "out of memory", "");
}
