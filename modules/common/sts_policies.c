/* Questions about policies of MTA-STS, and the course of a fetch; see sts_policies.h. What is kept and how it is told: sts_held.c. */
#include "base/log.h"
#include "say.h"
#include "sts_policies_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
	DUE_FIRST_MS = 60 * 1000,      /* a worker that lives shorter has better things to do */
	DUE_EVERY_MS = 10 * 60 * 1000,
	DUE_AT_ONCE = 10,
	USED_S = 30 * 86400,           /* policies of domains that no mail went to for so long are left to end */
};

static void fetch_next(struct sts_policies *p);

static int64_t now_of(const struct sts_policies *p)
{
	return p->host->now_us() / 1000000;
}

/* -- domains in memory */

static bool may_go(void *item)
{
	struct sts_known *k = item;
	return !k->fetch && !k->queued && !k->loading && !k->writes && TAILQ_EMPTY(&k->waiting);
}

static void gone(void *item)
{
	struct sts_known *k = item;
	sts_fetch_cancel(k->fetch);
	sts_held_unref(k->held);
	free(k->body);
	free(k);
}

static struct sts_known *known_of(struct sts_policies *p, const char *domain)
{
	struct sts_known *k = memory_get(&p->memory, str_from(domain));
	if (k || !(k = calloc(1, sizeof *k)))
		return k;
	k->p = p;
	TAILQ_INIT(&k->waiting);
	if (memory_put(&p->memory, str_from(domain), &k->item) == 0)
		return k;
	free(k);
	return NULL;
}

/* -- answers */

static void free_ask(struct sts_ask *a)
{
	const struct pepsi_host *host = a->p->host;
	TAILQ_REMOVE(&a->p->asks, a, all);
	if (a->known)
		TAILQ_REMOVE(&a->known->waiting, a, link);
	if (a->query)
		host->ask_cancel(a->query);
	host->event_free(a->timer);
	free(a);
}

void sts_ask_cancel(struct sts_ask *a)
{
	if (a)
		free_ask(a);
}

static void answer(struct sts_ask *a, const struct sts_held *h)
{
	sts_policies_fn fn = a->fn;
	void *arg = a->arg;
	struct pepsi_msg *msg = a->msg;
	const struct pepsi_host *host = a->p->host;
	const struct sts_held *mine = sts_held_ref(h);
	free_ask(a);
	if (fn) {
		if (msg)
			host->in_hand(msg);
		fn(arg, mine);
	}
	sts_held_unref(mine);
}

static struct sts_ask *waits(const struct sts_known *k, bool loads)
{
	struct sts_ask *a;
	TAILQ_FOREACH(a, &k->waiting, link)
		if (a->loads == loads)
			break;
	return a;
}

/* Callbacks may ask and cancel as they like: one is taken off at a time. */
static void answer_waiting(struct sts_known *k)
{
	struct sts_ask *a;
	k->writes++; /* it stays */
	while ((a = waits(k, false)))
		answer(a, sts_known_held(k, a->unknown, now_of(k->p)));
	k->writes--;
}

/* -- a fetch */

/* The domain, for a log line. */
#define DOMAIN(k) (int)(k)->item.n, (const char *)(k)->item.key

static void say_failed(const struct sts_known *k)
{
	say(k->p->host, NULL, PEPSI_LOG_WARN, "event=sts-policy-failed domain=%.*s result=%s reason=%s failures=%u%s", DOMAIN(k), tlsrpt_result_name(k->failure),
	    log_qz(k->why), k->cached.failures, k->cached.known && now_of(k->p) < sts_expires(&k->cached) ? " hint=\"the policy known before holds on\"" : "");
}

static void take_policy(struct sts_known *k, struct str body)
{
	char was[STS_ID_MAX + 1];
	struct sts_policy policy;
	const char *why;
	bool known = k->cached.known;
	int64_t now = now_of(k->p);
	snprintf(was, sizeof was, "%s", k->cached.id);
	if (sts_policy_parse(body, &policy, &why)) {
		sts_known_failed(k, TLSRPT_STS_POLICY_INVALID, str_from(why), now);
		say_failed(k);
		return;
	}
	sts_known_fetched(k, &policy, body, now);
	say(k->p->host, NULL, PEPSI_LOG_INFO, "event=sts-policy-%s domain=%.*s mode=%s id=%s max_age=%u", !known ? "new" : strcmp(was, k->cached.id) ? "changed" : "renewed",
	    DOMAIN(k), sts_mode_name(policy.mode), k->cached.id, policy.max_age);
}

static void on_fetched(void *arg, const struct sts_wire_answer *a)
{
	struct sts_known *k = arg;
	struct sts_policies *p = k->p;
	k->fetch = NULL;
	p->n_fetches--;
	if (a->class == STS_WIRE_OK) {
		take_policy(k, a->text);
	} else if (a->class == STS_WIRE_BUSY) {
		/* ours, not the domain's: not counted against it, and asked again with the next mail */
		struct sts_ask *w;
		TAILQ_FOREACH(w, &k->waiting, link)
			w->unknown = true;
		say(p->host, NULL, PEPSI_LOG_WARN, "event=sts-fetch-away domain=%.*s reason=%s", DOMAIN(k), log_q(a->text));
	} else {
		sts_known_failed(k, sts_wire_result(a->class), a->text, now_of(p));
		say_failed(k);
	}
	answer_waiting(k);
	fetch_next(p);
}

static void fetch_next(struct sts_policies *p)
{
	struct sts_known *k;
	while (p->n_fetches < STS_POLICIES_FETCHES && (k = TAILQ_FIRST(&p->queue))) {
		TAILQ_REMOVE(&p->queue, k, queue);
		k->queued = false;
		k->fetch = sts_fetch_new(p->host, p->conf, p->socket, str_n((const char *)k->item.key, k->item.n), on_fetched, k);
		if (k->fetch)
			p->n_fetches++;
		else /* no memory: those who wait have their deadlines */
			break;
	}
}

static void fetch(struct sts_known *k, const char *id)
{
	if (k->fetch || k->queued)
		return;
	snprintf(k->id, sizeof k->id, "%s", id);
	k->queued = true;
	TAILQ_INSERT_TAIL(&k->p->queue, k, queue);
	fetch_next(k->p);
}

/* -- questions */

static bool wait_for_table(struct sts_ask *a)
{
	a->loads = sts_known_load(a->known, !a->refresh) == 0;
	return a->loads;
}

/* The record is known, and what the table has, as far as it can be. */
static void decide(struct sts_ask *a)
{
	struct sts_known *k = a->known;
	struct sts_plan plan;
	int64_t now = now_of(a->p);
	sts_plan(&k->cached, &a->found, now, &plan);
	if (plan.fetch && !a->loaded && !k->fetch && !k->queued) { /* another worker may have been faster */
		a->loaded = true;
		if (wait_for_table(a))
			return;
	}
	if (plan.forget)
		sts_known_forget(k);
	if (plan.fetch)
		fetch(k, a->found.id);
	if (a->found.state != STS_TXT_FOUND && k->cached.failures && !k->cached.known) {
		/* what could not be fetched is not announced any more: nothing failed */
		k->cached.failures = 0;
		sts_known_changed(k);
	}
	bool under_way = k->fetch || k->queued;
	if (!plan.wait || !under_way)
		answer(a, sts_known_held(k, a->unknown, now));
}

void sts_policies_loaded(struct sts_known *k, bool good)
{
	struct sts_ask *a;
	k->writes++; /* it stays */
	while ((a = waits(k, true))) {
		a->loads = false;
		a->loaded = true;
		a->unknown |= !good && !k->cached.known && a->found.state != STS_TXT_FOUND; /* it may stand in the table, and hold */
		decide(a);
	}
	k->writes--;
}

static void on_txt(void *arg, const struct pepsi_dns *dns)
{
	struct sts_ask *a = arg;
	struct sts_policies *p = a->p;
	struct str txt[STS_TXT_MAX];
	size_t n = 0;
	a->found = (struct sts_lookup){ .domain = str_from(a->domain), .state = STS_TXT_UNKNOWN };
	a->query = NULL;
	if (a->msg)
		p->host->in_hand(a->msg);
	for (size_t i = 0; i < dns->n_rr && n < STS_TXT_MAX; i++) {
		struct pepsi_str s = pepsi_dns_at(dns, i)->data;
		if (sts_record_is(str_n(s.p, s.n)))
			txt[n++] = str_n(s.p, s.n);
	}
	if (dns->status != PEPSI_DNS_TEMPFAIL)
		sts_lookup_records(&a->found, txt, n);
	a->unknown = a->found.state == STS_TXT_UNKNOWN;

	int64_t now = now_of(p);
	struct sts_known *k = known_of(p, a->domain);
	if (!k) {
		answer(a, sts_held_unknown());
		return;
	}
	a->known = k;
	TAILQ_INSERT_TAIL(&k->waiting, a, link);
	if (k->loaded && now >= k->loaded && now - k->loaded < STS_POLICIES_FRESH_S) {
		decide(a);
		return;
	}
	a->loaded = true;
	if (!wait_for_table(a)) {
		a->unknown |= !k->cached.known && a->found.state != STS_TXT_FOUND;
		decide(a);
	}
}

static void on_deadline(void *arg, uint32_t what)
{
	struct sts_ask *a = arg;
	struct sts_known *k = a->known ? a->known : memory_get(&a->p->memory, str_from(a->domain));
	(void)what;
	a->unknown |= a->query || a->known;
	answer(a, k ? sts_known_held(k, a->unknown, now_of(a->p)) : a->unknown ? sts_held_unknown() : sts_held_none());
}

static struct sts_ask *ask(struct sts_policies *p, struct pepsi_msg *msg, struct str domain, bool refresh, sts_policies_fn fn, void *arg)
{
	char name[DNS_NAME_MAX + 16];
	struct sts_ask *a = calloc(1, sizeof *a);
	if (!a)
		return NULL;
	*a = (struct sts_ask){ .p = p, .msg = msg, .refresh = refresh, .fn = fn, .arg = arg };
	TAILQ_INSERT_TAIL(&p->asks, a, all);
	a->timer = p->host->event_new(p->conf, -1, on_deadline, a);
	bool has_name = sts_lookup_name(domain, name, sizeof name) == 0 && dns_name_fold(domain, a->domain) >= 0;
	if (!a->timer || p->host->event_arm(a->timer, 0, has_name ? STS_POLICIES_WAIT_MS : 0) != PEPSI_OK ||
	    (has_name && !(a->query = p->host->ask(p->conf, msg, name, PEPSI_DNS_TXT, on_txt, a)))) {
		free_ask(a);
		return NULL;
	}
	return a;
}

struct sts_ask *sts_policies_ask(struct sts_policies *p, struct pepsi_msg *msg, struct str domain, sts_policies_fn fn, void *arg)
{
	return ask(p, msg, domain, false, fn, arg);
}

/* -- policies that grow old (RFC 8461 §10.2) */

static void on_due(void *arg, const PGresult *r)
{
	struct sts_policies *p = arg;
	for (int i = 0; r && i < PQntuples(r); i++)
		ask(p, NULL, str_from(PQgetvalue(r, i, 0)), true, NULL, NULL);
	p->host->event_arm(p->tick, 0, DUE_EVERY_MS);
}

static void on_tick(void *arg, uint32_t what)
{
	struct sts_policies *p = arg;
	char limit[16], used[16];
	const char *values[] = { limit, used };
	(void)what;
	snprintf(limit, sizeof limit, "%d", DUE_AT_ONCE);
	snprintf(used, sizeof used, "%d", USED_S);
	if (known_ask(p->known, "SELECT pepsi.sts_policy_due($1::integer, $2::bigint)", 2, values, on_due, p))
		on_due(p, NULL);
}

/* -- life */

struct sts_policies *sts_policies_new(const struct pepsi_host *host, const struct pepsi_conf *conf, struct known *known, struct buf *why)
{
	struct sts_policies *p = calloc(1, sizeof *p);
	const char *state = host->conf_global(conf, "pepsi", "STATE_DIR");
	struct buf socket = BUF_INIT(4096);
	uint64_t seed = 0;
	buf_addf(&socket, "%s/" STS_WIRE_SOCKET, state ? state : "");
	if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
		seed = (uint64_t)host->now_us();
	if (p) {
		p->host = host;
		p->conf = conf;
		p->known = known;
		memory_init(&p->memory, STS_POLICIES_KEPT, seed, may_go, gone);
		TAILQ_INIT(&p->queue);
		TAILQ_INIT(&p->asks);
		p->socket = socket.failed ? NULL : str_dupz(buf_str(&socket));
		p->tick = host->event_new(conf, -1, on_tick, p);
	}
	buf_free(&socket);
	if (p && p->socket && p->tick && host->event_arm(p->tick, 0, DUE_FIRST_MS + (int64_t)(seed % DUE_EVERY_MS)) == PEPSI_OK)
		return p;
	buf_addz(why, "out of memory");
	sts_policies_free(p);
	return NULL;
}

void sts_policies_free(struct sts_policies *p)
{
	if (!p)
		return;
	known_settle(p->known);
	p->host->event_free(p->tick);
	while (!TAILQ_EMPTY(&p->asks)) /* renewals that nobody waits for */
		free_ask(TAILQ_FIRST(&p->asks));
	memory_done(&p->memory);
	free(p->socket);
	free(p);
}
