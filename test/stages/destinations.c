/* A CONCURRENT stage that asks for the policy of its message's domain as a relay does (modules/common/sts_policies.h), says in the log what it got, and
 * plays what the local part says: "plain", "tls", "sts-enforce", "dane": mail went so protected (ratchet_memory.h); "good", "bad": the address 192.0.2.7
 * answered or not (address_health.h); anything else: nothing. For test/e2e/mta_sts_stage.py. Sends nothing; every message is finished. */
#include "address_health.h"
#include "known.h"
#include "ratchet_memory.h"
#include "sts_policies.h"

#include <pepsi/stage.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct worker {
	const struct pepsi_host *host;
	const struct pepsi_conf *conf;
	struct known *known;
	struct sts_policies *sts;
	struct address_health *health;
	struct ratchet_memory *ratchet;
};
struct job {
	struct worker *w;
	struct pepsi_msg *msg;
	struct sts_ask *ask;
	struct job *next;
	char local[65], domain[256];
};

static const struct route_address address = { .ip = { 192, 0, 2, 7 }, .n = 4 };

static void play(struct job *j)
{
	struct worker *w = j->w;
	enum ratchet_level level;
	unsigned char order[1];
	int64_t when = 0;
	char text[200];
	if (ratchet_level_parse(str_from(j->local), &level) == 0)
		ratchet_memory_note(w->ratchet, j->msg, str_from(j->domain), level);
	if (strcmp(j->local, "good") == 0)
		address_health_good(w->health, j->domain, &address, 300);
	if (strcmp(j->local, "bad") == 0)
		address_health_bad(w->health, j->domain, &address, 300, "connection \"timed\" out");
	size_t n = address_health_order(w->health, &address, 1, order, &when);
	snprintf(text, sizeof text, "event=probe-address n=%zu state=%s wait=%lld why=\"%s\"", n, health_state_name(address_health_state(w->health, &address)),
	    n ? 0 : (long long)(when - w->host->now_us() / 1000000), *address_health_why(w->health, &address) ? "some" : "");
	w->host->log(j->msg, PEPSI_LOG_INFO, text);
}

static void finish(struct job *j)
{
	struct worker *w = j->w;
	w->host->finish(j->msg);
	w->host->complete(j->msg, PEPSI_OK);
	free(j);
}

static struct job *jobs;

static void forget(const struct job *j)
{
	for (struct job **p = &jobs; *p; p = &(*p)->next)
		if (*p == j) {
			*p = j->next;
			return;
		}
}

static void on_policy(void *arg, const struct sts_held *held)
{
	struct job *j = arg;
	char text[700];
	struct sts_held *mine = sts_held_ref(held);
	j->ask = NULL;
	snprintf(text, sizeof text, "event=probe domain=%s mode=%s known=%d n_mx=%zu covers=%d id=%s failed=%d failure=%s unknown=%d why=\"%s\"", j->domain, sts_mode_name(mine->mode),
	    mine->known, mine->policy.n_mx, sts_policy_covers(&mine->policy, STR("mx.probe.test")), mine->known ? mine->id : "-", mine->failed,
	    mine->failed ? tlsrpt_result_name(mine->failure) : "-", mine->unknown, mine->why);
	j->w->host->log(j->msg, PEPSI_LOG_INFO, text);
	sts_held_unref(mine);
	play(j);
	forget(j);
	finish(j);
}

static int32_t process(void *worker, const struct pepsi_host *host, struct pepsi_msg *msg)
{
	struct worker *w = worker;
	struct pepsi_str rcpt = host->rcpt(msg, 0);
	struct job *j = calloc(1, sizeof *j);
	ptrdiff_t at = str_chr(str_n(rcpt.p, rcpt.n), '@');
	if (!j || at < 0) {
		free(j);
		return PEPSI_RETRY;
	}
	j->w = w;
	j->msg = msg;
	snprintf(j->local, sizeof j->local, "%.*s", (int)at, rcpt.p);
	snprintf(j->domain, sizeof j->domain, "%.*s", (int)(rcpt.n - (size_t)at - 1), rcpt.p + at + 1);
	j->ask = sts_policies_ask(w->sts, msg, str_from(j->domain), on_policy, j);
	if (!j->ask) {
		free(j);
		return PEPSI_RETRY;
	}
	j->next = jobs;
	jobs = j;
	return PEPSI_PENDING;
}

static void stop(void *worker, const struct pepsi_host *host, struct pepsi_msg *msg, uint32_t why)
{
	struct job *j = jobs;
	(void)worker;
	if (why == PEPSI_STOP_YIELD)
		return;
	while (j && j->msg != msg)
		j = j->next;
	if (!j)
		return;
	forget(j);
	sts_ask_cancel(j->ask);
	host->complete(msg, PEPSI_RETRY);
	free(j);
}

static void close_hook(void *worker)
{
	struct worker *w = worker;
	sts_policies_free(w->sts);
	address_health_free(w->health);
	ratchet_memory_free(w->ratchet);
	known_free(w->known);
	free(w);
}

static int32_t open_hook(const struct pepsi_host *host, const struct pepsi_conf *conf, void **ret)
{
	struct worker *w = calloc(1, sizeof *w);
	struct buf why = BUF_INIT(200);
	if (!w)
		return PEPSI_RETRY;
	w->host = host;
	w->conf = conf;
	if ((w->known = known_new(host, conf))) {
		w->sts = sts_policies_new(host, conf, w->known, &why);
		w->health = address_health_new(host, conf, w->known, &why);
		w->ratchet = ratchet_memory_new(host, conf, w->known);
	}
	buf_free(&why);
	*ret = w;
	if (w->sts && w->health && w->ratchet)
		return PEPSI_OK;
	close_hook(w);
	return PEPSI_RETRY;
}

PEPSI_STAGE(.name = "pepsi-stage-destinations", .version = "1", .license = "Apache-2.0", .summary = "what is known of destinations", .load_class = PEPSI_LOAD_METADATA,
    .caps = PEPSI_CAP_NET | PEPSI_CAP_DB | PEPSI_CAP_CONCURRENT, .open = open_hook, .process = process, .close = close_hook, .stop = stop);
