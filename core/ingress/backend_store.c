/* Admission into PostgreSQL: the backend that is not a test's. */
#include "ingress_internal.h"

static void reserve_ids(void *ctx, unsigned n, store_ids_fn fn, void *arg)
{
	store_reserve_ids(ctx, n, fn, arg);
}

static void admit(void *ctx, const struct store_message *msgs, size_t n, store_admit_fn fn, void *arg)
{
	store_admit(ctx, msgs, n, fn, arg);
}

int ingress_start(
    struct ingress *in, struct event_base *base, struct store_conn *admission, const struct ingress_sink *sink)
{
	struct admission_backend be = { reserve_ids, admit, admission };
	if (ingress_start_with(in, base, &be, sink))
		return -1;
	if (store_conn_up(admission))
		ingress_database(in, true);
	return 0;
}
