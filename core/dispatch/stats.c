/* Statistics of the dispatcher: deltas in memory, written about once a minute, when idle and at stop; and the two
 * views of what is in memory, for `pepsi status` and /metrics. */
#include "dispatch_internal.h"

#include "base/clock.h"

#include <stdlib.h>

bool stats_dirty(const struct dispatch *d)
{
	const struct stage *st;
	if (d->d_failed || d->d_retries)
		return true;
	TAILQ_FOREACH(st, &d->stages, link)
		if (st->d_messages || st->d_time_us || st->d_kills || st->d_crashes)
			return true;
	return false;
}

struct flush {
	struct dispatch *d;
	int64_t failed, retries;
	size_t n;
	struct stage **stages;
	struct store_stage_delta *deltas;
};

static void flushed(void *arg, enum store_rc rc, const char *err)
{
	struct flush *fl = arg;
	fl->d->flushing = false;
	if (rc != STORE_OK) { /* nothing was written (or it is unknown: statistics may then count twice, mail cannot) */
		for (size_t i = 0; i < fl->n; i++) {
			fl->stages[i]->d_messages += fl->deltas[i].messages;
			fl->stages[i]->d_time_us += fl->deltas[i].time_us;
			fl->stages[i]->d_kills += fl->deltas[i].kills;
			fl->stages[i]->d_crashes += fl->deltas[i].crashes;
		}
		fl->d->d_failed += fl->failed;
		fl->d->d_retries += fl->retries;
		if (rc != STORE_AWAY)
			log_warn(NULL, "event=statistics-not-written reason=%s", log_qz(err));
	}
	dispatch_turn_soon(fl->d); /* a stop may be waiting for this */
	free(fl->stages);
	free(fl->deltas);
	free(fl);
}

void stats_flush(struct dispatch *d)
{
	struct stage *st;
	size_t n = 0;
	if (!d->db_up || d->flushing)
		return;
	d->last_flush = clock_mono_us();
	TAILQ_FOREACH(st, &d->stages, link)
		n++;
	struct flush *fl = calloc(1, sizeof *fl);
	if (!fl)
		return;
	fl->d = d;
	fl->stages = calloc(n + 1, sizeof *fl->stages);
	fl->deltas = calloc(n + 1, sizeof *fl->deltas);
	if (!fl->stages || !fl->deltas) {
		free(fl->stages);
		free(fl->deltas);
		free(fl);
		return;
	}
	TAILQ_FOREACH(st, &d->stages, link) {
		if (!st->d_messages && !st->d_time_us && !st->d_kills && !st->d_crashes)
			continue;
		fl->stages[fl->n] = st;
		fl->deltas[fl->n++] = (struct store_stage_delta){ st->name, st->d_messages, st->d_time_us, st->d_kills, st->d_crashes };
		st->d_messages = st->d_time_us = st->d_kills = st->d_crashes = 0;
	}
	fl->failed = d->d_failed;
	fl->retries = d->d_retries;
	d->d_failed = d->d_retries = 0;
	d->flushing = true;
	store_flush_stats(d->db, fl->deltas, fl->n, fl->failed, fl->retries, flushed, fl);
}

/* Stage names are configuration, already limited to printable words; escaped all the same. */
static void put_json(struct buf *b, const char *z)
{
	buf_addc(b, '"');
	for (; *z; z++) {
		if (*z == '"' || *z == '\\')
			buf_addc(b, '\\');
		if ((unsigned char)*z < 0x20)
			buf_addf(b, "\\u%04x", *z);
		else
			buf_addc(b, *z);
	}
	buf_addc(b, '"');
}

void dispatch_retries(struct dispatch *d, uint64_t total)
{
	if (total <= d->retries_reactor)
		return;
	d->retries_total += total - d->retries_reactor;
	d->d_retries += (int64_t)(total - d->retries_reactor);
	d->retries_reactor = total;
}

void dispatch_status(struct dispatch *d, struct buf *b)
{
	struct stage *st;
	bool first = true;
	page_retries(d);
	buf_addz(b, "\"stages\":[");
	TAILQ_FOREACH(st, &d->stages, link) {
		if (st->removed && !st->in_flight && !st->n_workers)
			continue;
		buf_addz(b, first ? "{\"name\":" : ",{\"name\":");
		first = false;
		put_json(b, st->name);
		buf_addz(b, ",\"program\":");
		put_json(b, st->program ? st->program : "");
		buf_addf(b, ",\"workers\":%u,\"starting\":%u,\"leaving\":%u,\"in_flight\":%u,\"done\":%llu,\"fused\":%llu,\"crashes\":%llu,\"overruns\":%llu,"
			    "\"errors\":%llu,\"named\":%llu,\"separated\":%llu,\"suspects\":%u,\"mean_ms\":%.3f,\"pids\":[",
		    st->n_workers, st->n_starting, pool_leaving(st), st->in_flight, (unsigned long long)st->done, (unsigned long long)st->fused,
		    (unsigned long long)st->crashes,
		    (unsigned long long)st->kills, (unsigned long long)st->errors, (unsigned long long)st->named,
		    (unsigned long long)st->separated, st->n_suspects, (double)st->avg_us / 1000);
		struct worker *w;
		bool more = false;
		const char *sep = "";
		TAILQ_FOREACH(w, &st->workers, link)
			if (w->pid) {
				buf_addf(b, more ? ",%d" : "%d", (int)w->pid);
				more = true;
			}
		buf_addz(b, "],\"held\":["); /* of each of them: messages handed to it and not answered */
		TAILQ_FOREACH(w, &st->workers, link)
			if (w->pid) {
				buf_addf(b, "%s%u", sep, w->n_sent);
				sep = ",";
			}
		buf_addf(b, "],\"concurrent\":%s,", st->many ? "true" : "false");
		measure_status(st, b);
		buf_addz(b, ",\"trouble\":");
		put_json(b, st->cooldown_until ? st->trouble : "");
		buf_addc(b, '}');
	}
	buf_addf(b, "],\"dispatch\":{\"claims\":%llu,\"claimed\":%llu,\"requeued\":%llu,\"put_off\":%llu,\"crowded\":%zu,\"given_up\":%llu,\"expired\":%llu,\"serialization_failures\":%llu}",
	    (unsigned long long)d->claims_total, (unsigned long long)d->claimed_total, (unsigned long long)d->requeued_total,
	    (unsigned long long)page_sums(d).put_off, d->crowds.n, (unsigned long long)d->failed_total, (unsigned long long)d->expired_total, (unsigned long long)d->retries_total);
}

struct metric {
	const char *name, *type, *help;
	uint64_t (*get)(const struct stage *st);
};

static uint64_t get_done(const struct stage *st) { return st->done; }
static uint64_t get_fused(const struct stage *st) { return st->fused; }
static uint64_t get_crashes(const struct stage *st) { return st->crashes; }
static uint64_t get_kills(const struct stage *st) { return st->kills; }
static uint64_t get_named(const struct stage *st) { return st->named; }
static uint64_t get_separated(const struct stage *st) { return st->separated; }
static uint64_t get_errors(const struct stage *st) { return st->errors; }
static uint64_t get_claims(const struct stage *st) { return st->claims; }
static uint64_t get_hand_offs(const struct stage *st) { return st->hand_offs; }
static uint64_t get_workers(const struct stage *st) { return st->n_workers; }
static uint64_t get_leaving(const struct stage *st) { return pool_leaving(st); }
static uint64_t get_held(const struct stage *st)
{
	const struct worker *w;
	uint64_t n = 0;
	TAILQ_FOREACH(w, &st->workers, link)
		n += w->n_sent;
	return n;
}
static uint64_t get_in_flight(const struct stage *st) { return st->in_flight; }

void dispatch_metrics(struct dispatch *d, struct buf *b)
{
	static const struct metric metrics[] = {
		{ "pepsi_stage_messages_total", "counter", "Messages a stage has answered.", get_done },
		{ "pepsi_stage_fused_total", "counter", "Of these, in the pass of a stage before, without a transition of their own.", get_fused },
		{ "pepsi_stage_crashes_total", "counter", "Workers that died.", get_crashes },
		{ "pepsi_stage_overruns_total", "counter", "Workers killed for MAX_RUNTIME.", get_kills },
		{ "pepsi_stage_culprits_named_total", "counter",
		    "Crashes and overruns with several messages in flight whose culprit the worker's page named.", get_named },
		{ "pepsi_stage_separated_total", "counter",
		    "Messages that were tried again one at a time, since nothing told which of them took the worker along.", get_separated },
		{ "pepsi_stage_errors_total", "counter", "Passes whose outcome could not be written.", get_errors },
		{ "pepsi_stage_claimed_total", "counter", "Rows claimed from the database.", get_claims },
		{ "pepsi_stage_handed_off_total", "counter", "Rows that came straight from the ingress.", get_hand_offs },
		{ "pepsi_stage_workers", "gauge", "Worker processes.", get_workers },
		{ "pepsi_stage_workers_leaving", "gauge", "Of these, those that hold no message and were told to go.", get_leaving },
		{ "pepsi_stage_held", "gauge", "Messages handed to workers and not answered yet; of workers that drive many at once: pending ones.", get_held },
		{ "pepsi_stage_in_flight", "gauge", "Messages held for or by workers.", get_in_flight },
	};
	struct stage *st;
	page_retries(d);
	for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
		buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n", metrics[i].name, metrics[i].help, metrics[i].name, metrics[i].type);
		TAILQ_FOREACH(st, &d->stages, link) {
			buf_addf(b, "%s{stage=", metrics[i].name);
			put_json(b, st->name);
			buf_addf(b, "} %llu\n", (unsigned long long)metrics[i].get(st));
		}
	}
	buf_addf(b, "# HELP pepsi_dispatch_claims_total Claim statements.\n# TYPE pepsi_dispatch_claims_total counter\n"
		    "pepsi_dispatch_claims_total %llu\n", (unsigned long long)d->claims_total);
	buf_addf(b, "# HELP pepsi_dispatch_crowded_domains Domains more of whose messages are due than were let go: one goes first.\n"
		    "# TYPE pepsi_dispatch_crowded_domains gauge\npepsi_dispatch_crowded_domains %zu\n"
		    "# HELP pepsi_dispatch_crowded_domains_total Domains that were so.\n# TYPE pepsi_dispatch_crowded_domains_total counter\n"
		    "pepsi_dispatch_crowded_domains_total %llu\n", d->crowds.n, (unsigned long long)d->crowds_total);
	struct page_costs n = page_sums(d);
	const struct {
		const char *name, *help;
		uint64_t n;
	} costs[] = { { "selects", "Statements with which workers loaded rows.", n.selects },
		{ "writes", "Statements with which workers changed rows; one for many rows where their outcomes are of one kind.", n.writes },
		{ "round_trips", "Transactions that workers waited for.", n.trips },
		{ "put_off", "Rows that were put off with another one of their destination, without being claimed.", n.put_off } };
	for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
		buf_addf(b, "# HELP pepsi_worker_%s_total %s\n# TYPE pepsi_worker_%s_total counter\npepsi_worker_%s_total %llu\n", costs[i].name,
		    costs[i].help, costs[i].name, costs[i].name, (unsigned long long)costs[i].n);
	buf_addf(b, "# HELP pepsi_serialization_failures_total Serialization failures and deadlocks (40001, 40P01) of queue writes, each tried again.\n"
		    "# TYPE pepsi_serialization_failures_total counter\npepsi_serialization_failures_total %llu\n",
	    (unsigned long long)d->retries_total);
	buf_addf(b, "# HELP pepsi_dispatch_given_up_total Messages that ended failed or timeout.\n"
		    "# TYPE pepsi_dispatch_given_up_total counter\npepsi_dispatch_given_up_total %llu\n",
	    (unsigned long long)d->failed_total);
	buf_addf(b, "# HELP pepsi_dispatch_expired_total Messages whose MAX_LIFETIME ended where no worker had them.\n"
		    "# TYPE pepsi_dispatch_expired_total counter\npepsi_dispatch_expired_total %llu\n",
	    (unsigned long long)d->expired_total);
	measure_metrics(d, b);
}
