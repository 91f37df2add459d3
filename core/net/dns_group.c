/* Groups, the budget of one message or connection in queries and in time; evaluators run within them; and the way of waiting for
 * processes that have no loop of their own. */
#include "dns_internal.h"

#include <stdio.h>
#include <stdlib.h>

struct net_dns_group *net_dns_group_new(struct net_dns *d, int64_t deadline_us, unsigned max_queries)
{
	struct net_dns_group *g = calloc(1, sizeof *g);
	if (!g)
		return NULL;
	g->d = d;
	g->deadline_us = clock_mono_us() + (deadline_us ? deadline_us : d->s.message_us);
	g->max_queries = max_queries ? max_queries : d->s.max_queries;
	TAILQ_INIT(&g->asks);
	TAILQ_INIT(&g->waiting);
	TAILQ_INIT(&g->evaluations);
	d->groups++;
	return g;
}

void net_dns_group_free(struct net_dns_group *g)
{
	if (!g)
		return;
	while (!TAILQ_EMPTY(&g->evaluations))
		net_dns_evaluation_cancel(TAILQ_FIRST(&g->evaluations));
	while (!TAILQ_EMPTY(&g->asks))
		net_dns_cancel(TAILQ_FIRST(&g->asks));
	if (g->timer)
		event_free(g->timer);
	g->d->groups--;
	free(g);
}

unsigned net_dns_group_queries(const struct net_dns_group *g)
{
	return g->queries;
}

struct net_dns *net_dns_of(const struct net_dns_group *g)
{
	return g->d;
}

/* The time is up: what is under way is answered now, what is ready stays what it is. */
static void late(evutil_socket_t fd, short what, void *arg)
{
	struct net_dns_group *g = arg;
	struct net_dns_delivery how = { .server = "" };
	struct net_dns_ask *ask;
	(void)fd;
	(void)what;
	g->late = true;
	TAILQ_FOREACH(ask, &g->asks, in_group) {
		struct flight *f = ask->f;
		if (ask->waits) {
			struct dns_answer *a = dns_failed(g->d, str_from(ask->waits), ask->type, "deadline passed");
			g->d->stats.deadline++;
			dns_group_unwait(ask);
			dns_ask_ready(ask, a, &how);
		}
		if (!f)
			continue;
		g->d->stats.deadline++;
		TAILQ_REMOVE(&f->asks, ask, link);
		dns_ask_ready(ask, dns_failed(g->d, str_n(f->name, f->name_n), f->type, "deadline passed"), &how);
		dns_flight_left(f);
	}
}

bool dns_group_may_ask(struct net_dns_group *g, const char **ret_why)
{
	int64_t left = g->deadline_us - clock_mono_us();
	if (g->late || left <= 0) {
		g->d->stats.deadline++;
		*ret_why = "deadline passed";
		return false;
	}
	if (g->queries >= g->max_queries) {
		g->d->stats.budget++;
		*ret_why = "query budget used up";
		return false;
	}
	if (!g->timer) {
		struct timeval tv = { .tv_sec = left / US_PER_S, .tv_usec = left % US_PER_S };
		g->timer = evtimer_new(g->d->base, late, g);
		if (!g->timer || event_add(g->timer, &tv)) {
			*ret_why = "out of memory";
			return false;
		}
	}
	g->queries++;
	return true;
}

/* ---- many questions of one group */

/* A message may ask for many names at once, and whoever wrote it may see to it that each takes its time. So that some hundred such
 * messages do not take every question there may be under way from all others, a group has only some at a time; the rest wait. So does
 * everybody's next one where there is no place at all: an answer "not now" would be a verdict that a sender can bring about. */
bool dns_group_has_room(const struct net_dns_group *g)
{
	const struct net_dns *d = g->d;
	if (d->in_flight >= d->s.max_in_flight)
		return false;
	return g->open < (d->in_flight < d->s.max_in_flight / 2 ? DNS_GROUP_OPEN : d->in_flight < d->s.max_in_flight / 4 * 3 ? DNS_GROUP_OPEN_BUSY : 1);
}

int dns_group_wait(struct net_dns_ask *ask, struct str name)
{
	struct net_dns_group *g = ask->g;
	if (!(ask->waits = str_dupz(name)))
		return -1;
	if (TAILQ_EMPTY(&g->waiting))
		TAILQ_INSERT_TAIL(&g->d->hungry, g, hungry);
	TAILQ_INSERT_TAIL(&g->waiting, ask, link);
	g->d->stats.waited++;
	g->d->stats.full += g->d->in_flight >= g->d->s.max_in_flight;
	return 0;
}

void dns_group_unwait(struct net_dns_ask *ask)
{
	struct net_dns_group *g = ask->g;
	TAILQ_REMOVE(&g->waiting, ask, link);
	if (TAILQ_EMPTY(&g->waiting))
		TAILQ_REMOVE(&g->d->hungry, g, hungry);
	free(ask->waits);
	ask->waits = NULL;
}

static void launch_waiting(struct net_dns_ask *ask)
{
	struct net_dns *d = ask->g->d;
	struct net_dns_delivery how = { .server = "", .cached = true };
	char name[DNS_NAME_MAX + 1];
	struct str asked = str_n(name, (size_t)snprintf(name, sizeof name, "%s", ask->waits));
	dns_group_unwait(ask);
	struct dns_answer *known = dns_cache_get(d->cache, asked, ask->type, clock_mono_us(), &how.ttl_left);
	if (known) /* somebody else asked meanwhile */
		dns_ask_ready(ask, known, &how);
	else
		dns_ask_launch(ask, asked);
}

void dns_groups_turn(struct net_dns *d)
{
	bool any = true;
	while (any) {
		struct net_dns_group *g, *next;
		any = false;
		for (g = TAILQ_FIRST(&d->hungry); g && d->in_flight < d->s.max_in_flight; g = next) {
			next = TAILQ_NEXT(g, hungry);
			if (!dns_group_has_room(g))
				continue;
			launch_waiting(TAILQ_FIRST(&g->waiting)); /* calls nobody: at most the ready list grows */
			if (!TAILQ_EMPTY(&g->waiting)) { /* where places are few, each group in its turn has one */
				TAILQ_REMOVE(&d->hungry, g, hungry);
				TAILQ_INSERT_TAIL(&d->hungry, g, hungry);
			}
			any = true;
		}
	}
}

/* ---- evaluators */

static void make_ready(struct net_dns_evaluation *e)
{
	struct net_dns *d = e->g->d;
	if (e->is_ready)
		return;
	e->is_ready = true;
	TAILQ_INSERT_TAIL(&d->evaluations_ready, e, ready);
	d->n_evaluations_ready++;
	dns_wake(d);
}

static void not_ready(struct net_dns_evaluation *e)
{
	if (!e->is_ready)
		return;
	e->is_ready = false;
	TAILQ_REMOVE(&e->g->d->evaluations_ready, e, ready);
	e->g->d->n_evaluations_ready--;
}

struct net_dns_evaluation *net_dns_evaluate(struct net_dns_group *g, dns_evaluate_fn fn, void *fn_arg, net_dns_done_fn done, void *arg)
{
	struct net_dns_evaluation *e = calloc(1, sizeof *e);
	if (!e)
		return NULL;
	*e = (struct net_dns_evaluation){ .g = g, .fn = fn, .fn_arg = fn_arg, .done = done, .arg = arg, .set = dns_answers_new() };
	if (!e->set) {
		free(e);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&g->evaluations, e, in_group);
	make_ready(e);
	return e;
}

static void answered(void *arg, const struct dns_answer *a);

void net_dns_evaluation_cancel(struct net_dns_evaluation *e)
{
	struct net_dns_ask *ask, *next;
	for (ask = e->open ? TAILQ_FIRST(&e->g->asks) : NULL; ask; ask = next) {
		next = TAILQ_NEXT(ask, in_group);
		if (ask->fn == answered && ask->arg == e)
			net_dns_cancel(ask);
	}
	not_ready(e);
	TAILQ_REMOVE(&e->g->evaluations, e, in_group);
	dns_answers_free(e->set);
	free(e);
}

/* Those that come together are one round: the evaluator runs when the last of what it missed is there. */
static void answered(void *arg, const struct dns_answer *a)
{
	struct net_dns_evaluation *e = arg;
	if (a == e->g->d->no_memory) /* it has another name: what was missing would stay missing */
		e->failed = true;
	else
		dns_answers_put(e->set, dns_answer_ref(a));
	if (!--e->open)
		make_ready(e);
}

/* Asks for all that is missing. Returns how many; 0: nothing is. */
static unsigned resolve(struct net_dns_evaluation *e)
{
	struct str name;
	enum dns_type type;
	for (size_t i = 0; dns_answers_missing(e->set, i, &name, &type); i++)
		if (net_dns_query(e->g, name, type, answered, e))
			e->open++;
	return e->open;
}

static void finish(struct net_dns_evaluation *e, int rc)
{
	struct dns_answers *set = e->set;
	net_dns_done_fn done = e->done;
	void *arg = e->arg;
	e->set = NULL;
	net_dns_evaluation_cancel(e);
	done(arg, rc, set);
	dns_answers_free(set);
}

void dns_evaluations_turn(struct net_dns *d)
{
	struct net_dns_evaluation *e;
	int64_t until = clock_mono_us() + DNS_TURN_US;
	for (size_t n = d->n_evaluations_ready; n && (e = TAILQ_FIRST(&d->evaluations_ready)) && clock_mono_us() < until; n--) {
		not_ready(e);
		int rc = e->failed ? -1 : e->fn(e->fn_arg, e->set);
		if (rc != DNS_MORE)
			finish(e, rc);
		else if (!resolve(e)) /* its bug, or no memory */
			finish(e, -1);
	}
}

/* ---- waiting */

struct waiting {
	struct dns_answer *answer;
};

static void arrived(void *arg, const struct dns_answer *a)
{
	struct waiting *w = arg;
	w->answer = dns_answer_ref(a);
}

struct dns_answer *net_dns_wait(struct net_dns_group *g, struct str name, enum dns_type type)
{
	struct waiting w = { NULL };
	struct net_dns_ask *ask = net_dns_query(g, name, type, arrived, &w);
	while (ask && !w.answer)
		if (event_base_loop(g->d->base, EVLOOP_ONCE)) { /* it failed, or has nothing to wait for: neither can be */
			net_dns_cancel(ask);
			return NULL;
		}
	return w.answer;
}
