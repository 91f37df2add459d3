/* See lookup.h. Each round asks all that is missing; the last answer of a round runs the evaluator. */
#include "lookup.h"

#include <stdlib.h>

enum { ROUNDS_MAX = 64 }; /* evaluators need a handful: an answer that could not be put for want of memory must not be asked for ever */

struct question {
	struct lookup *l;
	struct question *next;
	struct pepsi_query *query; /* NULL: answered */
	struct str name;           /* the set's */
	enum dns_type type;
};

struct lookup {
	const struct pepsi_host *host;
	const struct pepsi_conf *conf;
	struct pepsi_msg *msg;
	struct dns_answers *set;
	dns_evaluate_fn eval;
	void *eval_arg;
	lookup_fn fn;
	void *arg;
	struct pepsi_event *first; /* the first run comes from the loop, too */
	struct question *asked;
	size_t open;
	unsigned rounds;
	uint32_t how;              /* PEPSI_DNS_FRESH, or nothing */
};

static void forget(struct lookup *l)
{
	while (l->asked) {
		struct question *q = l->asked;
		l->asked = q->next;
		if (q->query)
			l->host->ask_cancel(q->query);
		free(q);
	}
}

void lookup_cancel(struct lookup *l)
{
	if (!l)
		return;
	forget(l);
	l->host->event_free(l->first);
	free(l);
}

void lookup_fresh(struct lookup *l)
{
	if (l->host->abi.minor >= 3)
		l->how = PEPSI_DNS_FRESH;
}

struct dns_answer *lookup_answer(struct str name, enum dns_type type, const struct pepsi_dns *a)
{
	struct dns_answer *ret = NULL;
	if (!a || a->status == PEPSI_DNS_TEMPFAIL)
		return dns_answer_fail(name, type, "the DNS gave no answer");
	struct dns_rr *rr = calloc(a->n_rr + 1, sizeof *rr);
	for (size_t i = 0; rr && i < a->n_rr; i++) {
		const struct pepsi_dns_rr *r = pepsi_dns_at(a, i);
		rr[i] = (struct dns_rr){ .data = str_n(r->data.p, r->data.n), .preference = r->preference, .usage = r->usage,
			.selector = r->selector, .matching = r->matching };
	}
	if (rr)
		ret = dns_answer_at(name, str_from(a->canonical), type, (enum dns_status)a->status, rr, a->n_rr, a->ttl,
		    a->authenticated);
	free(rr);
	return ret ? ret : dns_answer_fail(name, type, "the answer cannot be used");
}

static void run(struct lookup *l);

static void put(struct question *q, const struct pepsi_dns *a)
{
	struct dns_answer *x = lookup_answer(q->name, q->type, a);
	q->query = NULL;
	if (x)
		dns_answers_put(q->l->set, x);
}

static void answered(void *arg, const struct pepsi_dns *a)
{
	struct question *q = arg;
	struct lookup *l = q->l;
	l->host->in_hand(l->msg);
	put(q, a);
	if (--l->open == 0)
		run(l);
}

static void finish(struct lookup *l, int rc)
{
	lookup_fn fn = l->fn;
	void *arg = l->arg;
	lookup_cancel(l);
	fn(arg, rc);
}

/* Asks for all that is missing. False: memory. */
static bool ask(struct lookup *l)
{
	struct str name;
	enum dns_type type;
	forget(l);
	for (size_t i = 0; dns_answers_missing(l->set, i, &name, &type); i++) {
		struct question *q = calloc(1, sizeof *q);
		if (!q)
			return false;
		*q = (struct question){ .l = l, .next = l->asked, .name = name, .type = type };
		l->asked = q;
		q->query = l->host->ask(l->conf, NULL, name.p, (uint32_t)type | l->how, answered, q);
		if (!q->query)
			return false;
		l->open++;
	}
	return true;
}

static void run(struct lookup *l)
{
	int rc = l->eval(l->eval_arg, l->set);
	if (rc == DNS_MORE && (l->rounds++ == ROUNDS_MAX || !dns_answers_n_missing(l->set) || !ask(l)))
		rc = -1;
	if (rc != DNS_MORE)
		finish(l, rc);
}

static void begin(void *arg, uint32_t what)
{
	struct lookup *l = arg;
	(void)what;
	l->host->in_hand(l->msg);
	run(l);
}

struct lookup *lookup_begin(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_msg *msg, struct dns_answers *set,
    dns_evaluate_fn eval, void *eval_arg, lookup_fn fn, void *arg)
{
	struct lookup *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	*l = (struct lookup){ .host = host, .conf = conf, .msg = msg, .set = set, .eval = eval, .eval_arg = eval_arg, .fn = fn, .arg = arg };
	l->first = host->event_new(conf, -1, begin, l);
	if (!l->first || host->event_arm(l->first, 0, 0) != PEPSI_OK) {
		lookup_cancel(l);
		return NULL;
	}
	return l;
}
