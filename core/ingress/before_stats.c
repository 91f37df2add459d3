/* What /metrics and `pepsi status` show of pre-acceptance stages. Reads only. */
#include "before_internal.h"

static const char *const verdict_names[] = { "pass", "reject", "defer", "discard" };

static void busy_of(const struct before_pool *p, unsigned *ret_busy, unsigned *ret_ready)
{
	const struct before_worker *w;
	*ret_busy = *ret_ready = 0;
	TAILQ_FOREACH(w, &p->workers, link) {
		*ret_busy += w->busy;
		*ret_ready += w->ready && w->fd >= 0;
	}
}

static void head(struct buf *out, const char *name, const char *help, const char *type)
{
	buf_addf(out, "# HELP pepsi_%s %s\n# TYPE pepsi_%s %s\n", name, help, name, type);
}

static void times(const struct before_pool *p, struct buf *out)
{
	uint64_t cumulated = 0;
	for (unsigned i = 0; i < BEFORE_TIMES - 1; i++) {
		cumulated += p->time_le[i];
		buf_addf(out, "pepsi_before_accept_seconds_bucket{stage=\"%s\",le=\"%g\"} %llu\n", p->stage,
		    (double)(BEFORE_TIME_FIRST_US << i) / 1e6, (unsigned long long)cumulated);
	}
	buf_addf(out,
	    "pepsi_before_accept_seconds_bucket{stage=\"%s\",le=\"+Inf\"} %llu\npepsi_before_accept_seconds_sum{stage=\"%s\"} %g\n"
	    "pepsi_before_accept_seconds_count{stage=\"%s\"} %llu\n",
	    p->stage, (unsigned long long)p->times, p->stage, (double)p->time_us / 1e6, p->stage, (unsigned long long)p->times);
}

void before_metrics(const struct before *b, struct buf *out)
{
	const struct before_pool *p;
	unsigned busy, ready;
	if (TAILQ_EMPTY(&b->pools))
		return;
	head(out, "before_accept_verdicts_total", "Verdicts of stages before acceptance", "counter");
	TAILQ_FOREACH(p, &b->pools, link)
		for (unsigned i = 0; i < sizeof verdict_names / sizeof *verdict_names; i++)
			buf_addf(out, "pepsi_before_accept_verdicts_total{stage=\"%s\",verdict=\"%s\"} %llu\n", p->stage, verdict_names[i],
			    (unsigned long long)p->verdicts[WIRE_PASS + i]);
	head(out, "before_accept_failures_total", "Stages before acceptance that gave no verdict", "counter");
	TAILQ_FOREACH(p, &b->pools, link)
		for (unsigned i = 0; i < BEFORE_FAILURES; i++)
			buf_addf(out, "pepsi_before_accept_failures_total{stage=\"%s\",kind=\"%s\"} %llu\n", p->stage, before_failure_names[i],
			    (unsigned long long)p->failures[i]);
	head(out, "recipient_stage_total", "Recipients a stage was asked about (RECIPIENTS = stage:NAME), by answer", "counter");
	TAILQ_FOREACH(p, &b->pools, link)
		for (unsigned i = 0; i < BEFORE_TOLD; i++)
			buf_addf(out, "pepsi_recipient_stage_total{stage=\"%s\",answer=\"%s\"} %llu\n", p->stage, before_told_names[i],
			    (unsigned long long)p->asked[i]);
	head(out, "before_accept_seconds", "Time from a message's turn at a stage to its verdict", "histogram");
	TAILQ_FOREACH(p, &b->pools, link)
		times(p, out);
	head(out, "before_accept_waiting", "Messages that wait for a worker", "gauge");
	TAILQ_FOREACH(p, &b->pools, link)
		buf_addf(out, "pepsi_before_accept_waiting{stage=\"%s\"} %u\n", p->stage, p->n_waiting);
	head(out, "before_accept_workers", "Workers that are there, and busy", "gauge");
	TAILQ_FOREACH(p, &b->pools, link) {
		busy_of(p, &busy, &ready);
		buf_addf(out, "pepsi_before_accept_workers{stage=\"%s\",state=\"busy\"} %u\npepsi_before_accept_workers{stage=\"%s\",state=\"idle\"} %u\n",
		    p->stage, busy, p->stage, ready > busy ? ready - busy : 0);
	}
	head(out, "before_accept_clients_gone_total", "Messages dropped because their client left before the verdict", "counter");
	buf_addf(out, "pepsi_before_accept_clients_gone_total %llu\n", (unsigned long long)b->clients_gone);
}

static void put_pids(const struct before_pool *p, struct buf *out)
{
	const struct before_worker *w;
	bool first = true;
	TAILQ_FOREACH(w, &p->workers, link) {
		if (!w->pid || w->exited)
			continue;
		buf_addf(out, "%s%d", first ? "" : ",", (int)w->pid);
		first = false;
	}
	buf_addz(out, "]}");
}

void before_status(const struct before *b, struct buf *out)
{
	const struct before_pool *p;
	bool first = true;
	buf_addc(out, '[');
	TAILQ_FOREACH(p, &b->pools, link) {
		uint64_t failed = 0;
		unsigned busy, ready;
		busy_of(p, &busy, &ready);
		for (unsigned i = 0; i < BEFORE_FAILURES; i++)
			failed += p->failures[i];
		buf_addf(out,
		    "%s{\"stage\":\"%s\",\"workers\":%u,\"busy\":%u,\"waiting\":%u,\"passed\":%llu,\"rejected\":%llu,\"deferred\":%llu,"
		    "\"discarded\":%llu,\"failed\":%llu,\"recipients\":{\"known\":%llu,\"refused\":%llu,\"later\":%llu,\"silent\":%llu},\"pids\":[",
		    first ? "" : ",", p->stage, ready, busy, p->n_waiting, (unsigned long long)p->verdicts[WIRE_PASS],
		    (unsigned long long)p->verdicts[WIRE_REJECT], (unsigned long long)p->verdicts[WIRE_DEFER],
		    (unsigned long long)p->verdicts[WIRE_DISCARD], (unsigned long long)failed, (unsigned long long)p->asked[BEFORE_KNOWS],
		    (unsigned long long)p->asked[BEFORE_REFUSES], (unsigned long long)p->asked[BEFORE_LATER], (unsigned long long)p->asked[BEFORE_SILENT]);
		put_pids(p, out);
		first = false;
	}
	buf_addc(out, ']');
}
