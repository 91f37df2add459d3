/* One message from process() to complete(): look-ups, waiting, results, the end. What happens on the wire is line.c's. */
#include "internet.h"

#include "count.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	GRACE_MS = 7000,     /* of the ten seconds after stop(): for the last reply of a message that is nearly over */
	LEAVE_BACK_S = 1,    /* what a worker that leaves gives back */
	RUNTIME_BACK_S = 10, /* what waited here for all its time */
};

static void look_up(struct delivery *d, dns_evaluate_fn eval, void *arg, lookup_fn fn);
static void routed(void *arg, int rc);

void delivery_free(struct delivery *d)
{
	if (!d)
		return;
	queue_drop(d);
	lookup_cancel(d->look);
	sts_ask_cancel(d->sts_ask);
	sts_held_unref(d->sts);
	d->w->host->event_free(d->grace);
	dns_answers_free(d->answers);
	if (d->prev)
		d->prev->next = d->next;
	else
		d->w->all = d->next;
	if (d->next)
		d->next->prev = d->prev;
	free(d->m.rcpts);
	arena_free(d->a);
	free(d);
}

struct delivery *delivery_find(struct worker *w, const struct pepsi_msg *msg)
{
	struct delivery *d = w->all;
	while (d && d->msg != msg)
		d = d->next;
	return d;
}

/* -- results */

struct smtp_result delivery_keep(struct delivery *d, const struct smtp_result *r)
{
	struct smtp_result c = *r;
	struct str text = arena_str(d->a, r->text);
	c.text = text.p ? text : STR("");
	return c;
}

void delivery_failed(struct delivery *d, const struct smtp_result *r, const struct relay_where *where)
{
	/* several hosts, several reasons: one that will pass is the message's, else it would be returned for one host's sake */
	if (d->failure.outcome != SMTP_OUT_NONE && d->failure.outcome != SMTP_OUT_PERMANENT && r->outcome == SMTP_OUT_PERMANENT)
		return;
	d->failure = delivery_keep(d, r);
	d->failed_at = where;
}

void delivery_failed_by(struct delivery *d, const struct relay_where *where, enum smtp_phase phase, const char *status, const char *text)
{
	struct smtp_result r = { .outcome = status[0] == '5' ? SMTP_OUT_PERMANENT : SMTP_OUT_LOST, .phase = phase, .text = str_from(text) };
	snprintf(r.status, sizeof r.status, "%s", status);
	delivery_failed(d, &r, where);
}

void delivery_unsafe(struct delivery *d, const struct relay_where *where, enum smtp_phase phase, const char *status, const char *text)
{
	const char *copy = arena_strz(d->a, str_from(text));
	d->unsafe = copy ? copy : "";
	delivery_failed_by(d, where, phase, status, text);
}

void delivery_result(struct delivery *d, size_t i, const struct smtp_result *r, const struct relay_where *where, const char *how)
{
	struct smtp_result *old = &d->m.rcpts[i].result;
	if (old->code && !r->code && relay_judge(r) == RELAY_RETRY)
		return; /* what a host said is worth more than that another one said nothing */
	*old = *r;
	d->where[i] = where;
	d->how[i] = how;
}

/* -- the end */

static int32_t terminal(struct delivery *d)
{
	struct relay_policy p = d->w->set.policy;
	p.hop = d->domain;
	p.where = d->where;
	p.wait_s = d->back_s;
	p.room = d->room;
	/* by-trace: the sender hears of a host that does not know of his deadline (RFC 2852 §4.1.5) */
	d->m.deliver_trace = d->m.deliver_trace && d->taken && d->no_deliver_by;
	return relay_decide(&p, d->w->host, d->msg, &d->m, !d->taken || d->no_dsn ? PEPSI_DSN_RELAYED : PEPSI_DSN_THERE, d->began && !d->back_s);
}

void delivery_end(struct delivery *d)
{
	const struct pepsi_host *host = d->w->host;
	struct pepsi_msg *msg = d->msg;
	host->in_hand(msg);
	if (d->failure.outcome == SMTP_OUT_NONE)
		delivery_failed_by(d, NULL, SMTP_PHASE_CONNECT, "4.3.0", "no exchanger could be tried");
	for (size_t i = 0; i < d->m.n_rcpts; i++)
		if (d->m.rcpts[i].result.outcome == SMTP_OUT_NONE)
			delivery_result(d, i, &d->failure, d->failed_at, NULL);
	log_results(d);
	int32_t rc = terminal(d);
	delivery_free(d);
	host->complete(msg, rc);
	host->in_hand(NULL);
}

enum { WHY_MAX = TRAFFIC_ERROR_MAX + 40 };

void delivery_give_back(struct delivery *d, const struct traffic_back *b)
{
	const struct pepsi_host *host = d->w->host;
	char why[DNS_NAME_MAX + WHY_MAX];
	if (b->each_ms && PEPSI_HAS(host, pause_others)) {
		snprintf(why, sizeof why, "%s: not tried now (%s)%s%s", d->domain, b->why, *b->text ? ": " : "", b->text);
		host->in_hand(d->msg);
		host->pause_others(d->msg, b->others_s, b->each_ms, why);
	}
	delivery_back(d, b->seconds, b->why, b->text);
}

void delivery_back(struct delivery *d, uint32_t seconds, const char *why, const char *text)
{
	char all[SMTP_CLIENT_TEXT_MAX];
	snprintf(all, sizeof all, "not tried now (%s)%s%s", why, *text ? ": " : "", text);
	d->failure = (struct smtp_result){ .outcome = SMTP_OUT_NONE };
	delivery_failed_by(d, d->failed_at, SMTP_PHASE_CONNECT, "4.4.5", all);
	d->back_s = seconds ? seconds : 1;
	count_add(d->w->host, d->w->back, why, 1);
	say(d->w->host, d->msg, PEPSI_LOG_INFO, "waits domain=%s why=%s seconds=%u", d->domain, why, d->back_s);
	delivery_end(d);
}

void delivery_reset(struct delivery *d)
{
	d->line = NULL;
	d->at = d->tries = d->offered = 0;
	d->unsafe = NULL;
	d->settled = false;
	memset(d->asked, 0, d->m.n_rcpts * sizeof *d->asked);
	for (unsigned i = 0; i < d->n_hosts; i++)
		d->host[i].done = d->host[i].lacks = false;
}

/* -- look-ups */

/* All is known: the policy, and the TLSA records. */
static void plan(struct delivery *d)
{
	if (d->look || d->sts_ask)
		return;
	if (plan_make(d)) {
		const char *why;
		uint32_t rests = safety_rests(d, &why);
		if (rests)
			delivery_back(d, rests, "tls", why);
		else
			queue_add(d);
		return;
	}
	for (unsigned i = 0; i < d->n_hosts; i++)
		if (d->route.host[i].state == ROUTE_HOST_USED)
			plan_refuse(d, i);
	d->began = true;
	delivery_end(d);
}

static void records(void *arg, int rc)
{
	struct delivery *d = arg;
	d->look = NULL;
	if (rc == DNS_DONE) {
		plan(d);
		return;
	}
	delivery_failed_by(d, log_where(d, NULL), SMTP_PHASE_CONNECT, "4.3.0", "out of memory");
	delivery_end(d);
}

static void policy(void *arg, const struct sts_held *held)
{
	struct delivery *d = arg;
	d->w->host->in_hand(d->msg);
	d->sts_ask = NULL;
	d->sts = sts_held_ref(held);
	plan(d);
}

/* All addresses that are known fail: the exchangers may have moved, and what is known of them may hold for a day yet. Asked anew, once in an attempt that
 * traffic lets pass: of a dead destination that is one now and then. True: it is. */
static bool moved(struct delivery *d)
{
	if (d->fresh || !d->w->health || d->route.literal || !address_health_none(d->w->health, d->route.address, d->route.n_addresses))
		return false;
	struct dns_answers *set = dns_answers_new();
	if (!set)
		return false;
	dns_answers_free(d->answers);
	d->answers = set;
	d->fresh = true;
	say(d->w->host, d->msg, PEPSI_LOG_INFO, "event=asked-anew domain=%s addresses=%zu", d->domain, d->route.n_addresses);
	look_up(d, route_evaluate, &d->route, routed);
	if (d->look)
		lookup_fresh(d->look);
	return true;
}

static void routed(void *arg, int rc)
{
	struct delivery *d = arg;
	bool memory = rc != DNS_DONE, later = memory || d->route.state == ROUTE_TEMPORARY;
	d->look = NULL;
	if (rc == DNS_DONE && d->route.refused)
		log_refused(d);
	if (memory || d->route.state != ROUTE_FOUND)
		delivery_failed_by(d, log_where(d, NULL), SMTP_PHASE_CONNECT, memory ? "4.3.0" : d->route.status,
		    memory ? "out of memory" : d->route.reason);
	if (d->looking && queue_looked(d, later ? &d->failure : NULL) == QUEUE_KEPT)
		return;
	d->looking = false;
	if (d->failure.outcome != SMTP_OUT_NONE) {
		d->began = true;
		delivery_end(d);
		return;
	}
	d->n_hosts = (unsigned)(d->route.n_hosts < HOSTS_MAX ? d->route.n_hosts : HOSTS_MAX);
	queue_name(d);
	struct traffic_back back;
	if (!queue_would(d, &back)) {
		delivery_give_back(d, &back);
		return;
	}
	if (moved(d))
		return;
	if (d->w->sts && !d->route.literal)
		d->sts_ask = sts_policies_ask(d->w->sts, d->msg, str_from(d->domain), policy, d);
	look_up(d, plan_evaluate, d, records);
}

static void look_up(struct delivery *d, dns_evaluate_fn eval, void *arg, lookup_fn fn)
{
	d->look = lookup_begin(d->w->host, d->w->conf, d->msg, d->answers, eval, arg, fn, d);
	if (!d->look)
		fn(d, -1);
}

void delivery_look(struct delivery *d)
{
	d->w->host->in_hand(d->msg);
	d->failure = (struct smtp_result){ .outcome = SMTP_OUT_NONE };
	queue_look(d);
	look_up(d, route_evaluate, &d->route, routed);
}

static int nothing(void *arg, struct dns_answers *set)
{
	(void)arg;
	(void)set;
	return DNS_DONE;
}

/* Called from the loop: now it may also go back at once. A domain that cannot be looked up costs places as a dead host does: its look-ups are
 * a destination of their own. */
static void admitted(void *arg, int rc)
{
	struct delivery *d = arg;
	(void)rc;
	d->look = NULL;
	d->looking = true;
	queue_name(d);
	queue_add(d);
}

static bool allocate(struct delivery *d)
{
	size_t n = d->m.n_rcpts;
	d->a = arena_new(TEXTS_MAX + n * 96);
	d->answers = dns_answers_new();
	d->m.rcpts = calloc(n, sizeof *d->m.rcpts);
	if (!d->a || !d->answers || !d->m.rcpts)
		return false;
	d->todo = arena_calloc(d->a, n, sizeof *d->todo);
	d->asked = arena_calloc(d->a, n, sizeof *d->asked);
	d->where = arena_calloc(d->a, n, sizeof *d->where);
	d->how = arena_calloc(d->a, n, sizeof *d->how);
	d->room = arena_calloc(d->a, n, RELAY_ROOM * sizeof *d->room);
	return d->todo && d->asked && d->where && d->how && d->room;
}

int32_t delivery_begin(struct worker *w, struct pepsi_msg *msg)
{
	const struct settings *set = &w->set;
	bool literal; /* nothing is asked for such a domain */
	int32_t rc = PEPSI_RETRY;
	if (!w->host->n_rcpt(msg))
		return PEPSI_PERMANENT;
	struct delivery *d = calloc(1, sizeof *d);
	if (!d)
		return PEPSI_RETRY;
	if (group_by_domain(w, msg, d->domain, &literal, &rc)) {
		free(d);
		return rc;
	}
	d->w = w;
	d->msg = msg;
	d->next = w->all;
	if (w->all)
		w->all->prev = d;
	w->all = d;
	d->m.n_rcpts = w->host->n_rcpt(msg);
	if (!allocate(d) || (rc = relay_load(w->host, msg, &d->m)) != PEPSI_OK)
		goto failed;
	for (size_t i = 0; i < d->m.n_rcpts; i++)
		d->todo[i] = true;
	d->loaded_at = w->host->mono_ms();
	d->m.downgrade = set->downgrade.policy;
	d->m.chunking = set->chunking;
	d->m.content = smtp_content_scan(d->m.headers, d->m.body);
	d->optional = !d->m.require_tls && tls_optional(d->m.headers);
	d->route = (struct route){ .domain = str_from(d->domain), .ipv4 = set->ipv4, .ipv6 = set->ipv6, .local_ok = set->local_ok,
		.public_only = true, .allow = set->allow, .n_allow = set->n_allow, .own = set->own, .n_own = set->n_own, .own_ip = set->own_ip, .n_own_ip = set->n_own_ip, .seed = route_mix(&w->seed) };
	rc = PEPSI_RETRY;
	d->look = lookup_begin(w->host, w->conf, msg, d->answers, literal ? route_evaluate : nothing, &d->route,
	    literal ? routed : admitted, d);
	if (!d->look)
		goto failed;
	return PEPSI_PENDING;
failed:
	delivery_free(d);
	return rc;
}

/* -- an early end */

static void grace_over(void *arg, uint32_t what)
{
	struct delivery *d = arg;
	(void)what;
	d->w->host->in_hand(d->msg);
	if (d->line)
		line_abort(d->line, "no time left for this attempt");
	else
		delivery_end(d);
}

void delivery_stop(struct delivery *d, uint32_t why)
{
	const struct pepsi_host *host = d->w->host;
	bool leave = why != PEPSI_STOP_RUNTIME;
	if (why == PEPSI_STOP_YIELD && d->line)
		return;
	if (d->line && d->line->sent) {
		/* on its way: cut now, it might arrive twice */
		if (!d->grace && (d->grace = host->event_new(d->w->conf, -1, grace_over, d)))
			host->event_arm(d->grace, 0, GRACE_MS);
		return;
	}
	if (d->line && !leave) {
		line_abort(d->line, "no time left for this attempt");
		return;
	}
	if (d->line) {
		struct line *l = d->line;
		d->line = NULL;
		l->d = NULL;
		queue_drop(d);
		line_free(l);
	}
	delivery_back(d, leave ? LEAVE_BACK_S : RUNTIME_BACK_S, leave ? "leaving" : "time", "");
}
