/* The calls on recipients and on the greylist; see recipient.h. Decides nothing. */
#include "store/recipient.h"

#include "store/conn_internal.h"

#include <stdlib.h>

enum { SWEEP_ROWS = 10000 };

struct recipient_call {
	struct call call;
	union {
		store_recipient_done_fn done;
		store_greylist_fn greylist;
		store_number_fn number;
	} fn;
	store_recipient_row_fn row;
	void *arg;
	unsigned n;
	int64_t number;
	size_t asked;
	int32_t *waits;
};

static struct recipient_call *make(void (*done)(struct call *, enum store_rc, const char *),
    void (*result)(struct call *, unsigned, const PGresult *), void *arg)
{
	struct recipient_call *r = call_new(sizeof(*r), done);

	if (r) {
		r->call.result = result;
		r->arg = arg;
	}
	return r;
}

/* --- names */

static void rows_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct recipient_call *r = (struct recipient_call *)call;

	(void)stmt;
	for (int i = 0; i < PQntuples(res); i++, r->n++)
		r->row(r->arg, result_str(res, i, 0), PQnfields(res) > 1 && result_bool(res, i, 1));
}

static void count_result(struct call *call, unsigned stmt, const PGresult *res)
{
	(void)stmt;
	((struct recipient_call *)call)->n = (unsigned)PQntuples(res);
}

static void counted(struct call *call, enum store_rc rc, const char *err)
{
	struct recipient_call *r = (struct recipient_call *)call;

	r->fn.done(r->arg, rc, rc == STORE_OK ? r->n : 0, err);
}

static struct recipient_call *naming(void (*result)(struct call *, unsigned, const PGresult *), store_recipient_row_fn row,
    store_recipient_done_fn done, void *arg)
{
	struct recipient_call *r = make(counted, result, arg);

	if (!r) {
		done(arg, STORE_FULL, 0, "out of memory");
		return NULL;
	}
	r->call.once = row; /* rows were told already */
	r->fn.done = done;
	r->row = row;
	return r;
}

void store_recipient_lookup(struct store_conn *c, const struct str *names, size_t n, const struct str *aliases, size_t n_aliases,
    store_recipient_row_fn row, store_recipient_done_fn done, void *arg)
{
	struct recipient_call *r = naming(rows_result, row, done, arg);
	struct params *p;

	if (!r)
		return;
	p = call_add(&r->call, STMT_RECIPIENT_LOOKUP);
	params_texts(p, names, n);
	params_texts(p, aliases, n_aliases);
	call_send(c, &r->call);
}

void store_recipient_add(struct store_conn *c, struct str address, store_recipient_done_fn done, void *arg)
{
	struct recipient_call *r = naming(count_result, NULL, done, arg);

	if (!r)
		return;
	params_octets(call_add(&r->call, STMT_RECIPIENT_ADD), address);
	call_send(c, &r->call);
}

void store_recipient_remove(struct store_conn *c, struct str address, store_recipient_done_fn done, void *arg)
{
	struct recipient_call *r = naming(count_result, NULL, done, arg);

	if (!r)
		return;
	params_octets(call_add(&r->call, STMT_RECIPIENT_REMOVE), address);
	call_send(c, &r->call);
}

void store_recipient_list(struct store_conn *c, struct str after, store_recipient_row_fn row, store_recipient_done_fn done, void *arg)
{
	struct recipient_call *r = naming(rows_result, row, done, arg);
	struct params *p;

	if (!r)
		return;
	p = call_add(&r->call, STMT_RECIPIENT_LIST);
	params_octets(p, after);
	params_int4(p, STORE_RECIPIENT_PAGE);
	call_send(c, &r->call);
}

/* --- greylist */

/* An array that is not as long as the question is answered as if the database were away. */
static void waits_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct recipient_call *r = (struct recipient_call *)call;

	(void)stmt;
	free(r->waits);
	r->waits = NULL;
	if (PQntuples(res) != (int)r->asked)
		return;
	r->waits = calloc(r->asked ? r->asked : 1, sizeof(*r->waits));
	for (size_t i = 0; r->waits && i < r->asked; i++)
		r->waits[i] = result_int4(res, (int)i, 0);
}

static void waits_done(struct call *call, enum store_rc rc, const char *err)
{
	struct recipient_call *r = (struct recipient_call *)call;

	(void)err;
	if (rc == STORE_OK && !r->waits)
		rc = STORE_FULL;
	r->fn.greylist(r->arg, rc, rc == STORE_OK ? r->waits : NULL, rc == STORE_OK ? r->asked : 0);
	free(r->waits);
}

void store_greylist_ask(struct store_conn *c, const struct store_greylist_key *keys, size_t n, const struct store_greylist_terms *t,
    store_greylist_fn fn, void *arg)
{
	struct recipient_call *r = n <= STORE_GREYLIST_MAX ? make(waits_done, waits_result, arg) : NULL;
	struct params *p;

	if (!r) {
		fn(arg, STORE_FULL, NULL, 0);
		return;
	}
	r->fn.greylist = fn;
	r->asked = n;
	p = call_add(&r->call, STMT_GREYLIST_ASK);
	params_array(p, PARAMS_BYTEA);
	for (size_t i = 0; i < n; i++)
		params_el_octets(p, str_n((const char *)keys[i].triplet, STORE_GREYLIST_KEY));
	params_array_end(p);
	params_array(p, PARAMS_BYTEA);
	for (size_t i = 0; i < n; i++)
		params_el_octets(p, str_n((const char *)keys[i].net, STORE_GREYLIST_KEY));
	params_array_end(p);
	params_int4(p, t->delay_s);
	params_int4(p, t->window_s);
	params_int4(p, t->life_s);
	params_int4(p, t->auto_passes);
	call_send(c, &r->call);
}

/* --- numbers */

static void number_result(struct call *call, unsigned stmt, const PGresult *res)
{
	(void)stmt;
	if (PQntuples(res) == 1)
		((struct recipient_call *)call)->number = result_int8(res, 0, 0);
}

static void number_done(struct call *call, enum store_rc rc, const char *err)
{
	struct recipient_call *r = (struct recipient_call *)call;

	(void)err;
	r->fn.number(r->arg, rc, rc == STORE_OK ? r->number : 0);
}

static struct recipient_call *numbering(store_number_fn fn, void *arg)
{
	struct recipient_call *r = make(number_done, number_result, arg);

	if (r)
		r->fn.number = fn;
	else
		fn(arg, STORE_FULL, 0);
	return r;
}

void store_greylist_sweep(struct store_conn *c, store_number_fn fn, void *arg)
{
	struct recipient_call *r = numbering(fn, arg);

	if (!r)
		return;
	params_int4(call_add(&r->call, STMT_GREYLIST_SWEEP), SWEEP_ROWS);
	call_send(c, &r->call);
}

void store_queue_rows(struct store_conn *c, store_number_fn fn, void *arg)
{
	struct recipient_call *r = numbering(fn, arg);

	if (!r)
		return;
	call_add(&r->call, STMT_QUEUE_ROWS);
	call_send(c, &r->call);
}
