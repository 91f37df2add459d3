/* The calls of pepsi-failure-bouncer; see bounce.h. Decides nothing: the function of the database does. */
#include "store/bounce.h"

#include "store/conn_internal.h"

#include <limits.h>

struct bounce_call {
	struct call call;
	store_bounce_row_fn row;
	union {
		store_bounce_done_fn done;
		store_bounce_wait_fn wait;
	} fn;
	void *arg;
	int64_t a, b; /* of the batch: how many, the last id; of the wait: how many, until when */
};

static enum store_bounce_action action_of(struct str s)
{
	return str_eq(s, STR("moved")) ? STORE_BOUNCE_MOVED : str_eq(s, STR("deleted")) ? STORE_BOUNCE_DELETED :
											STORE_BOUNCE_DROPPED;
}

static struct bounce_call *bounce_call_new(void (*done)(struct call *, enum store_rc, const char *),
    void (*result)(struct call *, unsigned, const PGresult *), void *arg)
{
	struct bounce_call *b = call_new(sizeof(*b), done);

	if (b) {
		b->call.result = result;
		b->arg = arg;
	}
	return b;
}

static void put_statuses(struct params *p, const struct store_bounce_rule *rule)
{
	params_array(p, PARAMS_TEXT);
	if (rule->failed)
		params_el_octets(p, STR("failed"));
	if (rule->timeout)
		params_el_octets(p, STR("timeout"));
	params_array_end(p);
}

/* --- one batch --- */

static void batch_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct bounce_call *b = (struct bounce_call *)call;
	int n = PQntuples(res);

	(void)stmt;
	b->a = n;
	for (int i = 0; i < n; i++) {
		struct store_bounce_row r = { .id = result_int8(res, i, 0), .action = action_of(result_str(res, i, 1)),
			.mail_from = result_str(res, i, 2), .stage = result_str(res, i, 3), .status = result_str(res, i, 4),
			.error = PQgetisnull(res, i, 5) ? STR_NULL : result_str(res, i, 5), .failed_at = result_str(res, i, 6) };

		b->b = r.id;
		b->row(b->arg, &r);
	}
}

static void batch_done(struct call *call, enum store_rc rc, const char *err)
{
	struct bounce_call *b = (struct bounce_call *)call;

	b->fn.done(b->arg, rc, rc == STORE_OK ? (unsigned)b->a : 0, rc == STORE_OK ? b->b : 0, err);
}

void store_failure_bounce(struct store_conn *c, const struct store_bounce_rule *rule, int64_t after, unsigned limit,
    store_bounce_row_fn row, store_bounce_done_fn done, void *arg)
{
	struct bounce_call *b = bounce_call_new(batch_done, batch_result, arg);
	struct params *p;

	if (!b) {
		done(arg, STORE_FULL, 0, 0, "out of memory");
		return;
	}
	b->row = row;
	b->fn.done = done;
	p = call_add(&b->call, STMT_FAILURE_BOUNCE);
	params_text(p, rule->stage);
	put_statuses(p, rule);
	params_int8(p, rule->min_age_us);
	params_bool(p, rule->unauthenticated);
	params_texts(p, rule->networks, rule->n_networks);
	params_int8(p, after);
	params_int4(p, limit > INT_MAX ? INT_MAX : (int32_t)limit);
	call_send(c, &b->call);
}

/* --- what is left --- */

static void wait_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct bounce_call *b = (struct bounce_call *)call;

	(void)stmt;
	if (PQntuples(res) == 1) {
		b->a = result_int8(res, 0, 0);
		b->b = result_int8(res, 0, 1);
	}
}

static void wait_done(struct call *call, enum store_rc rc, const char *err)
{
	struct bounce_call *b = (struct bounce_call *)call;

	b->fn.wait(b->arg, rc, rc == STORE_OK ? b->a : 0, rc == STORE_OK ? b->b : 0, err);
}

void store_failure_wait(struct store_conn *c, const struct store_bounce_rule *rule, store_bounce_wait_fn fn, void *arg)
{
	struct bounce_call *b = bounce_call_new(wait_done, wait_result, arg);
	struct params *p;

	if (!b) {
		fn(arg, STORE_FULL, 0, 0, "out of memory");
		return;
	}
	b->fn.wait = fn;
	p = call_add(&b->call, STMT_FAILURE_WAIT);
	params_text(p, rule->stage);
	put_statuses(p, rule);
	params_int8(p, rule->min_age_us);
	call_send(c, &b->call);
}
