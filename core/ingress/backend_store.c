/* Admission into PostgreSQL: the backend that is not a test's. */
#include "ingress_internal.h"

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
