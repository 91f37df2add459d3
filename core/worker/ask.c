/* host->ask(): questions to the DNS that do not wait. A message's own are one budget, [pepsi-dns] MAX_QUERIES and MESSAGE_DEADLINE, as of
 * host->resolve(); but a message may be pending for minutes, so its time runs only while a question is under way. Those for
 * nobody's message have a budget each. */
#include "base/clock.h"
#include "concurrent.h"
#include "resolve.h"

#include <stdlib.h>

enum { ANSWER_ARENA_MAX = 4 * 1024 * 1024 };

struct pepsi_query {
	LIST_ENTRY(pepsi_query) link; /* of its message, or of those that have none */
	struct concurrent *c;
	struct pepsi_msg *msg;        /* or NULL */
	struct net_dns_group *own;    /* without a message */
	struct net_dns_ask *ask;
	pepsi_dns_fn fn;
	void *arg;
};

static struct query_list nobodys = LIST_HEAD_INITIALIZER(nobodys);

void ask_begin(struct pepsi_msg *m)
{
	struct pending *p = m->pending;
	LIST_INIT(&p->queries);
	p->dns_left_us = -1; /* nothing was asked yet */
}

/* The group of the message's questions; a new one where none is under way and time is left. */
static struct net_dns_group *group_of(struct pepsi_msg *m, struct net_dns *dns)
{
	struct pending *p = m->pending;
	const struct config *c = m->env->conf->c;
	if (p->n_queries)
		return m->dns;
	if (p->dns_left_us < 0) {
		p->dns_left_us = config_int(c, "pepsi-dns", "MESSAGE_DEADLINE");
		p->dns_left = (unsigned)config_int(c, "pepsi-dns", "MAX_QUERIES");
	}
	if (m->dns && !p->dns_left) /* used up: whoever goes on asking hears it from the old one */
		return m->dns;
	int64_t left = host_runtime_left_ms(m) * 1000 - US_PER_S;
	if (left > p->dns_left_us)
		left = p->dns_left_us;
	resolve_end(m);
	m->dns = net_dns_group_new(dns, left > 0 ? left : 1, p->dns_left);
	p->dns_since = clock_mono_us();
	return m->dns;
}

/* It is over: out of its message's list, and the time is counted when it was the last. */
static void forget(struct pepsi_query *q)
{
	struct pending *p = q->msg ? q->msg->pending : NULL;
	LIST_REMOVE(q, link);
	net_dns_group_free(q->own);
	if (p && !--p->n_queries) {
		unsigned used = net_dns_group_queries(q->msg->dns);
		int64_t took = clock_mono_us() - p->dns_since;
		p->dns_left -= used < p->dns_left ? used : p->dns_left;
		p->dns_left_us = took < p->dns_left_us ? p->dns_left_us - took : 0;
	}
	free(q);
}

static void answered(void *arg, const struct dns_answer *a)
{
	struct pepsi_query *q = arg;
	struct concurrent *c = q->c;
	struct pepsi_msg *m = q->msg;
	pepsi_dns_fn fn = q->fn;
	void *fn_arg = q->arg;
	struct arena *room = arena_new(ANSWER_ARENA_MAX);
	struct pepsi_dns *answer = room ? resolve_copy(room, a) : NULL;
	struct pepsi_dns none = { .abi = PEPSI_ABI_OF(struct pepsi_dns), .status = PEPSI_DNS_TEMPFAIL, .rr_size = sizeof(struct pepsi_dns_rr),
		.canonical = "", .why = "out of memory" };
	forget(q); /* it may be asked again from within */
	concurrent_enter(c, m);
	fn(fn_arg, answer ? answer : &none);
	concurrent_leave(c);
	arena_free(room);
}

static bool may_ask(const struct pepsi_conf *conf, const struct pepsi_msg *m, const char *name, uint32_t type, pepsi_dns_fn fn)
{
	const char *why = !fn ? "no function to call back" : m && !concurrent_alive(m) ? "for a message that is complete" :
	    !(conf->m->stage.caps & PEPSI_CAP_NET) ? "the module does not declare PEPSI_CAP_NET" : resolve_wrong(name, type);
	if (why)
		concurrent_misuse("ask(): %s", why);
	return !why;
}

struct pepsi_query *host_ask(const struct pepsi_conf *conf, struct pepsi_msg *m, const char *name, uint32_t type, pepsi_dns_fn fn, void *arg)
{
	bool fresh = type & PEPSI_DNS_FRESH;
	type &= ~PEPSI_DNS_FRESH;
	if (!concurrent_usable(conf, "ask") || !may_ask(conf, m, name, type, fn)) {
		if (concurrent_alive(m))
			pass_misuse(m, "ask() was called in a way that it refuses: see the worker's log");
		return NULL;
	}
	struct net_dns *dns = resolve_dns(conf->c);
	struct pepsi_query *q = dns ? calloc(1, sizeof *q) : NULL;
	struct net_dns_group *g = !q ? NULL : m ? group_of(m, dns) : (q->own = net_dns_group_new(dns, 0, 0));
	if (!g) {
		free(q);
		return NULL;
	}
	q->c = concurrent_here();
	q->msg = m;
	q->fn = fn;
	q->arg = arg;
	if (fresh)
		net_dns_forget(dns, str_from(name), (enum dns_type)type);
	if (!(q->ask = net_dns_query(g, str_from(name), (enum dns_type)type, answered, q))) {
		net_dns_group_free(q->own);
		free(q);
		return NULL;
	}
	LIST_INSERT_HEAD(m ? &m->pending->queries : &nobodys, q, link);
	if (m)
		m->pending->n_queries++;
	return q;
}

void host_ask_cancel(struct pepsi_query *q)
{
	if (!q)
		return;
	net_dns_cancel(q->ask);
	forget(q);
}

void ask_end(struct pepsi_msg *m)
{
	struct pepsi_query *q;
	while ((q = LIST_FIRST(&m->pending->queries)))
		host_ask_cancel(q);
	resolve_end(m);
}

void ask_end_all(void)
{
	struct pepsi_query *q;
	while ((q = LIST_FIRST(&nobodys)))
		host_ask_cancel(q);
}
