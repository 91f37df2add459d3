/* The calls of account_use.h. */
#include "store/account_use.h"

#include "store/conn_internal.h"

#include <stdlib.h>

struct use_call {
	struct call call;
	store_done_fn done;
	store_account_use_fn got;
	void *arg;
	struct store_account_use *lines;
	char *names;
	size_t n;
	bool no_memory;
};

static void put_done(struct call *call, enum store_rc rc, const char *err)
{
	struct use_call *u = (struct use_call *)call;

	u->done(u->arg, rc, err);
}

void store_account_use_put(struct store_conn *c, const struct store_account_use *lines, size_t n, store_done_fn fn, void *arg)
{
	struct use_call *u = n <= STORE_ACCOUNT_USE_MAX ? call_new(sizeof(*u), put_done) : NULL;
	struct params *p;

	if (!u) {
		fn(arg, STORE_FULL, "out of memory");
		return;
	}
	u->done = fn;
	u->arg = arg;
	p = call_add(&u->call, STMT_ACCOUNT_USE_PUT);
	PARAMS_EACH(p, PARAMS_TEXT, n, params_el_octets(p, lines[i].name));
	PARAMS_EACH(p, PARAMS_TIME, n, params_el_time(p, lines[i].hour_at));
	PARAMS_EACH(p, PARAMS_TIME, n, params_el_time(p, lines[i].day_at));
	PARAMS_EACH(p, PARAMS_INT8, n, params_el_int8(p, lines[i].messages_hour));
	PARAMS_EACH(p, PARAMS_INT8, n, params_el_int8(p, lines[i].messages_day));
	PARAMS_EACH(p, PARAMS_INT8, n, params_el_int8(p, lines[i].recipients_hour));
	PARAMS_EACH(p, PARAMS_INT8, n, params_el_int8(p, lines[i].recipients_day));
	PARAMS_EACH(p, PARAMS_TIME, n, params_el_time(p, lines[i].told_at));
	call_send(c, &u->call);
}

static void got_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct use_call *u = (struct use_call *)call;
	size_t n = (size_t)PQntuples(res), octets = 1;
	char *at;

	(void)stmt;
	free(u->lines);
	free(u->names);
	for (size_t i = 0; i < n; i++)
		octets += result_str(res, (int)i, 0).n;
	u->lines = calloc(n + 1, sizeof(*u->lines));
	u->names = at = malloc(octets);
	u->no_memory = !u->lines || !u->names;
	u->n = u->no_memory ? 0 : n;
	for (int i = 0; (size_t)i < u->n; i++) {
		struct str name = result_str(res, i, 0);

		u->lines[i] = (struct store_account_use){ .name = { at, name.n }, .hour_at = result_time(res, i, 1), .day_at = result_time(res, i, 2),
			.messages_hour = result_int8(res, i, 3), .messages_day = result_int8(res, i, 4), .recipients_hour = result_int8(res, i, 5),
			.recipients_day = result_int8(res, i, 6), .told_at = result_time(res, i, 7) };
		if (name.n > 0)
			memcpy(at, name.p, name.n);
		at += name.n;
	}
}

static void got_done(struct call *call, enum store_rc rc, const char *err)
{
	struct use_call *u = (struct use_call *)call;

	(void)err;
	if (rc == STORE_OK && u->no_memory)
		rc = STORE_FULL;
	u->got(u->arg, rc, u->lines, rc == STORE_OK ? u->n : 0);
	free(u->lines);
	free(u->names);
}

void store_account_use_get(struct store_conn *c, store_account_use_fn fn, void *arg)
{
	struct use_call *u = call_new(sizeof(*u), got_done);

	if (!u) {
		fn(arg, STORE_FULL, NULL, 0);
		return;
	}
	u->call.result = got_result;
	u->got = fn;
	u->arg = arg;
	params_int4(call_add(&u->call, STMT_ACCOUNT_USE_GET), STORE_ACCOUNT_USE_MAX);
	call_send(c, &u->call);
}
