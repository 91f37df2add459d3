/* The calls on pepsi.config_override; see overlay.h. Decides nothing about what may stand there. */
#include "store/overlay.h"

#include "store/worker_internal.h"

struct overlay_call {
	struct call call;
	store_overlay_row_fn row;
	store_overlay_done_fn done;
	void *arg;
	unsigned n;
};

static unsigned tell_rows(const PGresult *res, store_overlay_row_fn row, void *arg)
{
	for (int i = 0; row && i < PQntuples(res); i++)
		row(arg, result_str(res, i, 0), result_str(res, i, 1), result_str(res, i, 2));
	return (unsigned)PQntuples(res);
}

static void result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct overlay_call *o = (struct overlay_call *)call;

	(void)stmt;
	o->n += tell_rows(res, o->row, o->arg);
}

static void done(struct call *call, enum store_rc rc, const char *err)
{
	struct overlay_call *o = (struct overlay_call *)call;

	o->done(o->arg, rc, rc == STORE_OK ? o->n : 0, err);
}

static struct overlay_call *make(store_overlay_row_fn row, store_overlay_done_fn fn, void *arg)
{
	struct overlay_call *o = call_new(sizeof(*o), done);

	if (!o) {
		fn(arg, STORE_FULL, 0, "out of memory");
		return NULL;
	}
	o->call.result = result;
	o->call.once = row; /* rows were told already */
	o->row = row;
	o->done = fn;
	o->arg = arg;
	return o;
}

void store_overlay_set(struct store_conn *c, struct str section, struct str option, struct str value, store_overlay_done_fn fn, void *arg)
{
	struct overlay_call *o = make(NULL, fn, arg);
	struct params *p;

	if (!o)
		return;
	p = call_add(&o->call, STMT_OVERLAY_SET);
	params_octets(p, section);
	params_octets(p, option);
	params_octets(p, value);
	call_send(c, &o->call);
}

void store_overlay_unset(struct store_conn *c, struct str section, struct str option, store_overlay_done_fn fn, void *arg)
{
	struct overlay_call *o = make(NULL, fn, arg);
	struct params *p;

	if (!o)
		return;
	p = call_add(&o->call, STMT_OVERLAY_UNSET);
	params_octets(p, section);
	params_octets(p, option);
	call_send(c, &o->call);
}

void store_overlay_list(struct store_conn *c, struct str section, struct str option, store_overlay_row_fn row, store_overlay_done_fn fn,
    void *arg)
{
	struct overlay_call *o = make(row, fn, arg);
	struct params *p;

	if (!o)
		return;
	p = call_add(&o->call, STMT_OVERLAY_LIST);
	params_octets(p, section);
	params_octets(p, option);
	params_int4(p, STORE_OVERLAY_PAGE);
	call_send(c, &o->call);
}

struct load {
	store_overlay_row_fn row;
	void *arg;
};

static void loaded(void *arg, unsigned stmt, const PGresult *res)
{
	struct load *l = arg;

	(void)stmt;
	tell_rows(res, l->row, l->arg);
}

enum store_rc store_worker_overlay(struct store_worker *w, unsigned max, store_overlay_row_fn row, void *arg, char *err, size_t err_size)
{
	struct load l = { row, arg };
	struct stmt_list list = { .v = NULL };
	enum store_rc rc;
	bool again;

	params_int4(stmt_list_add(&list, STMT_OVERLAY_LOAD), (int32_t)max);
	rc = worker_run(w, &list, loaded, &l, err, err_size, &again);
	stmt_list_free(&list);
	return rc;
}
