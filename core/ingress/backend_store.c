/* Admission into PostgreSQL: the backend that is not a test's. */
#include "ingress_internal.h"

enum { QUEUE_COUNT_US = 2000000 };

static void reserve_ids(void *ctx, unsigned n, store_ids_fn fn, void *arg)
{
	const struct ingress *in = ctx;
	store_reserve_ids(in->admission, n, fn, arg);
}

static void admit(void *ctx, const struct store_message *msgs, size_t n, store_admit_fn fn, void *arg)
{
	const struct ingress *in = ctx;
	store_admit(in->admission, msgs, n, fn, arg);
}

/* Over the first connection when its own is away: what matters is the first. */
static void admit_large(void *ctx, unsigned way, const struct store_message *msgs, size_t n, store_admit_fn fn, void *arg)
{
	const struct ingress *in = ctx;
	store_admit(store_conn_up(in->large[way]) ? in->large[way] : in->admission, msgs, n, fn, arg);
}

/* --- what is asked before a RCPT is answered */

static bool lookups_up(void *ctx)
{
	const struct ingress *in = ctx;
	return in->lookups && store_conn_up(in->lookups);
}

static void lookup(void *ctx, const struct str *names, size_t n, const struct str *aliases, size_t n_aliases, store_recipient_row_fn row,
    store_recipient_done_fn done, void *arg)
{
	const struct ingress *in = ctx;
	store_recipient_lookup(in->lookups, names, n, aliases, n_aliases, row, done, arg);
}

static int account(void *ctx, uint64_t id, struct str name)
{
	const struct ingress *in = ctx;
	return auth_account(in->auth, id, name);
}

struct recipient_backend backend_recipients(struct ingress *in)
{
	return (struct recipient_backend){ in, lookups_up, lookup, account };
}

static void ask(void *ctx, const struct store_greylist_key *keys, size_t n, const struct store_greylist_terms *t, store_greylist_fn fn, void *arg)
{
	const struct ingress *in = ctx;
	store_greylist_ask(in->lookups, keys, n, t, fn, arg);
}

static void sweep(void *ctx, store_number_fn fn, void *arg)
{
	const struct ingress *in = ctx;
	store_greylist_sweep(in->lookups, fn, arg);
}

struct greylist_backend backend_greylist(struct ingress *in)
{
	return (struct greylist_backend){ in, lookups_up, ask, sweep };
}

static void on_queue_rows(void *arg, enum store_rc rc, int64_t n)
{
	struct ingress *in = arg;
	in->queue_asked = false;
	if (rc != STORE_OK)
		return; /* what is known goes on; admission says what it thinks of that database itself */
	bool was = ingress_queue_full(in);
	in->queue_rows = n;
	in->queue_accepted = in->accepted;
	if (was != ingress_queue_full(in))
		log_warn(NULL, was ? "event=queue-ok rows=%lld mail=accepted" : "event=queue-full rows=%lld mail=refused", (long long)n);
}

void backend_count_queue(struct ingress *in, int64_t now_us)
{
	if (!in->set.abuse.queue_max || in->queue_asked || now_us - in->queue_us < QUEUE_COUNT_US || !lookups_up(in))
		return;
	in->queue_us = now_us;
	in->queue_asked = true;
	store_queue_rows(in->lookups, on_queue_rows, in);
}

static struct store_conn *counting(struct ingress *in)
{
	return in->large[0] ? in->large[0] : in->admission;
}

static bool counting_up(void *ctx)
{
	struct store_conn *c = counting(ctx);
	return c && store_conn_up(c);
}

/* Behind large messages: nobody waits for it, and nobody who waits is behind it. */
static void count(void *ctx, const struct store_dmarc_tally *t, const struct store_dmarc_line *lines, size_t n, store_dmarc_lost_fn fn, void *arg)
{
	store_dmarc_tally_put(counting(ctx), t, lines, n, fn, arg);
}

struct tally_backend backend_tally(struct ingress *in)
{
	return (struct tally_backend){ in, counting_up, count };
}

static void keep_failures(void *ctx, const struct store_dmarc_failures *t, const struct store_dmarc_failure *one, size_t n, store_dmarc_lost_fn fn, void *arg)
{
	store_dmarc_failure_put(counting(ctx), t, one, n, fn, arg);
}

struct failures_backend backend_failures(struct ingress *in)
{
	return (struct failures_backend){ in, counting_up, keep_failures };
}

int ingress_start(struct ingress *in, struct event_base *base, struct store_conn *admission, struct store_conn *const *large,
    unsigned n_large, const struct ingress_sink *sink)
{
	struct admission_backend be = { reserve_ids, admit, in, admit_large, 0 };
	in->admission = admission;
	in->use_put = store_account_use_put;
	in->use_get = store_account_use_get;
	while (be.n_large < n_large && be.n_large < ADMIT_LARGE_MAX) {
		in->large[be.n_large] = large[be.n_large];
		be.n_large++;
	}
	if (ingress_start_with(in, base, &be, sink))
		return -1;
	if (store_conn_up(admission))
		ingress_database(in, true);
	return 0;
}
