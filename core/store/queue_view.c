/* What operators see and repair: counts, lists, single messages. See queue.h. JSON is made by the server. */
#include "store/queue.h"

#include "store/conn_internal.h"

#include <stdlib.h>

enum { LIST_DEFAULT = 1000, LIST_MAX = 10000, CAT_MAX = 16 * 1024 * 1024 };

struct view_call {
	struct call call;
	union {
		store_counts_fn counts;
		store_json_fn json;
		store_data_fn data;
		store_change_fn change;
		store_rule_fn rule;
	} fn;
	void *arg;
	struct store_counts counts;
	struct store_changed changed;
	char *text; /* NUL-terminated copy */
	size_t n;
	int64_t total;
	bool full;
};

static struct view_call *view_call_new(void (*done)(struct call *, enum store_rc, const char *),
    void (*result)(struct call *, unsigned, const PGresult *), void *arg)
{
	struct view_call *v = call_new(sizeof(*v), done);

	if (v) {
		v->call.result = result;
		v->arg = arg;
		v->total = -1;
	}
	return v;
}

static void keep_text(struct view_call *v, struct str s)
{
	free(v->text);
	v->text = str_dupz(s);
	v->n = v->text ? s.n : 0;
	v->full = !v->text;
}

/* --- counts --- */

static void counts_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct store_counts *k = &((struct view_call *)call)->counts;

	(void)stmt;
	if (PQntuples(res) != 1)
		return;
	k->total = result_int8(res, 0, 0);
	k->pending = result_int8(res, 0, 1);
	k->paused = result_int8(res, 0, 2);
	k->failed = result_int8(res, 0, 3);
	k->timeout = result_int8(res, 0, 4);
	k->running = k->total - k->pending - k->paused - k->failed - k->timeout;
	k->accepted = result_int8(res, 0, 5);
	k->received = result_int8(res, 0, 6);
	k->delivered = result_int8(res, 0, 7);
	k->bounced = result_int8(res, 0, 8);
	k->discarded = result_int8(res, 0, 9);
	struct str rest = result_str(res, 0, 10), word;
	int64_t *const known[] = { &k->sts_policies, &k->sts_enforced, &k->sts_failing, &k->destinations_weaker, &k->addresses_failing,
		&k->tlsrpt_waiting, &k->tlsrpt_received, &k->tlsrpt_failures };
	for (size_t i = 0; i < sizeof known / sizeof *known && str_word(&rest, " ", &word); i++) {
		uint64_t n;
		*known[i] = str_u64(word, INT64_MAX, &n) ? 0 : (int64_t)n;
	}
	k->held = result_int8(res, 0, 11);
	k->hold_rules = result_int8(res, 0, 12);
	k->reroute_rules = result_int8(res, 0, 13);
}

static void counts_done(struct call *call, enum store_rc rc, const char *err)
{
	struct view_call *v = (struct view_call *)call;

	(void)err;
	v->fn.counts(v->arg, rc, &v->counts);
}

void store_counts(struct store_conn *c, store_counts_fn fn, void *arg)
{
	struct view_call *v = view_call_new(counts_done, counts_result, arg);

	if (!v) {
		struct store_counts none = { .total = 0 };

		fn(arg, STORE_FULL, &none);
		return;
	}
	v->fn.counts = fn;
	call_add(&v->call, STMT_COUNTS);
	call_send(c, &v->call);
}

/* --- JSON --- */

static void json_result(struct call *call, unsigned stmt, const PGresult *res)
{
	(void)stmt;
	if (PQntuples(res) == 1)
		keep_text((struct view_call *)call, result_str(res, 0, 0));
}

static void json_done(struct call *call, enum store_rc rc, const char *err)
{
	struct view_call *v = (struct view_call *)call;

	if (rc == STORE_OK && !v->text) {
		rc = STORE_FULL;
		err = "out of memory";
	}
	v->fn.json(v->arg, rc, rc == STORE_OK ? v->text : NULL, err);
	free(v->text);
}

static struct view_call *json_call(store_json_fn fn, void *arg)
{
	struct view_call *v = view_call_new(json_done, json_result, arg);

	if (v)
		v->fn.json = fn;
	else
		fn(arg, STORE_FULL, NULL, "out of memory");
	return v;
}

static void put_filter(struct params *p, const struct store_filter *f, unsigned limit)
{
	if (f->n_ids)
		params_int8s(p, f->ids, f->n_ids);
	else
		params_null(p);
	params_text(p, f->stage);
	params_text(p, f->status);
	params_text(p, f->sender);
	params_text(p, f->recipient);
	if (f->after_id)
		params_int8(p, f->after_id);
	else
		params_null(p);
	params_int4(p, limit > INT32_MAX ? INT32_MAX : (int32_t)limit);
}

static unsigned limit_of(const struct store_filter *f)
{
	return f->limit ? f->limit : LIST_DEFAULT;
}

void store_queue_list(struct store_conn *c, const struct store_filter *f, store_json_fn fn, void *arg)
{
	struct view_call *v = json_call(fn, arg);

	if (!v)
		return;
	put_filter(call_add(&v->call, STMT_LIST), f, limit_of(f) > LIST_MAX ? LIST_MAX : limit_of(f));
	call_send(c, &v->call);
}

void store_queue_show(struct store_conn *c, int64_t id, store_json_fn fn, void *arg)
{
	struct view_call *v = json_call(fn, arg);

	if (!v)
		return;
	params_int8(call_add(&v->call, STMT_SHOW), id);
	call_send(c, &v->call);
}

void store_stats(struct store_conn *c, store_json_fn fn, void *arg)
{
	struct view_call *v = json_call(fn, arg);

	if (!v)
		return;
	call_add(&v->call, STMT_STATS);
	call_send(c, &v->call);
}

/* --- content --- */

static void cat_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct view_call *v = (struct view_call *)call;

	(void)stmt;
	if (PQntuples(res) == 1) {
		v->total = result_int8(res, 0, 0);
		keep_text(v, result_str(res, 0, 1));
	}
}

static void cat_done(struct call *call, enum store_rc rc, const char *err)
{
	struct view_call *v = (struct view_call *)call;

	(void)err;
	if (rc == STORE_OK && v->full)
		rc = STORE_FULL;
	v->fn.data(v->arg, rc, rc == STORE_OK ? str_n(v->text, v->n) : STR_NULL, rc == STORE_OK ? v->total : -1);
	free(v->text);
}

void store_queue_cat(struct store_conn *c, int64_t id, int64_t offset, int32_t limit, store_data_fn fn, void *arg)
{
	struct view_call *v = view_call_new(cat_done, cat_result, arg);
	struct params *p;

	if (!v) {
		fn(arg, STORE_FULL, STR_NULL, -1);
		return;
	}
	v->fn.data = fn;
	p = call_add(&v->call, STMT_CAT);
	params_int8(p, id);
	params_int8(p, offset);
	params_int4(p, limit > CAT_MAX ? CAT_MAX : limit);
	call_send(c, &v->call);
}

/* --- repairs --- */

static void change_result(struct call *call, unsigned stmt, const PGresult *res)
{
	(void)stmt;
	if (PQntuples(res) == 1)
		((struct view_call *)call)->changed = (struct store_changed){ .matched = (unsigned)result_int4(res, 0, 0),
			.changed = (unsigned)result_int4(res, 0, 1), .last_id = result_int8(res, 0, 2) };
}

static void change_done(struct call *call, enum store_rc rc, const char *err)
{
	static const struct store_changed none;
	struct view_call *v = (struct view_call *)call;

	v->fn.change(v->arg, rc, rc == STORE_OK ? &v->changed : &none, err);
}

static struct view_call *change_call(store_change_fn fn, void *arg)
{
	static const struct store_changed none;
	struct view_call *v = view_call_new(change_done, change_result, arg);

	if (v)
		v->fn.change = fn;
	else
		fn(arg, STORE_FULL, &none, "out of memory");
	return v;
}

void store_queue_change(struct store_conn *c, enum store_change what, const struct store_filter *f, const char *to, bool dry,
    store_change_fn fn, void *arg)
{
	static const char *const names[] = { "delete", "retry", "set-stage", "hold", "release" };
	struct view_call *v = change_call(fn, arg);
	struct params *p;

	if (!v)
		return;
	p = call_add(&v->call, STMT_CHANGE);
	put_filter(p, f, limit_of(f));
	params_text(p, names[what]);
	params_text(p, to);
	params_bool(p, dry);
	call_send(c, &v->call);
}

/* --- rules --- */

static void rule_result(struct call *call, unsigned stmt, const PGresult *res)
{
	(void)stmt;
	if (PQntuples(res) == 1)
		((struct view_call *)call)->total = result_int8(res, 0, 0);
}

static void rule_done(struct call *call, enum store_rc rc, const char *err)
{
	struct view_call *v = (struct view_call *)call;

	v->fn.rule(v->arg, rc, rc == STORE_OK && v->total > 0 ? v->total : 0, err);
}

static struct params *rule_call(enum stmt_id id, store_rule_fn fn, void *arg, struct view_call **ret)
{
	*ret = view_call_new(rule_done, rule_result, arg);
	if (!*ret) {
		fn(arg, STORE_FULL, 0, "out of memory");
		return NULL;
	}
	(*ret)->fn.rule = fn;
	return call_add(&(*ret)->call, id);
}

void store_rule_add(struct store_conn *c, const char *rule, store_rule_fn fn, void *arg)
{
	struct view_call *v;
	struct params *p = rule_call(STMT_RULE_ADD, fn, arg, &v);

	if (!p)
		return;
	params_text(p, rule);
	call_send(c, &v->call);
}

void store_rule_remove(struct store_conn *c, int64_t id, store_rule_fn fn, void *arg)
{
	struct view_call *v;
	struct params *p = rule_call(STMT_RULE_REMOVE, fn, arg, &v);

	if (!p)
		return;
	params_int8(p, id);
	call_send(c, &v->call);
}

void store_rule_release(struct store_conn *c, int64_t id, unsigned limit, store_rule_fn fn, void *arg)
{
	struct view_call *v;
	struct params *p = rule_call(STMT_RULE_RELEASE, fn, arg, &v);

	if (!p)
		return;
	params_int8(p, id);
	params_int4(p, (int32_t)limit);
	call_send(c, &v->call);
}

void store_rule_list(struct store_conn *c, const char *action, store_json_fn fn, void *arg)
{
	struct view_call *v = json_call(fn, arg);

	if (!v)
		return;
	params_text(call_add(&v->call, STMT_RULE_LIST), action);
	call_send(c, &v->call);
}

void store_rule_apply(struct store_conn *c, int64_t id, const char *rule, bool dry, int64_t after_id, unsigned limit, store_change_fn fn, void *arg)
{
	struct view_call *v = change_call(fn, arg);
	struct params *p;

	if (!v)
		return;
	p = call_add(&v->call, STMT_RULE_APPLY);
	params_int8(p, id);
	params_text(p, rule ? rule : "{}");
	params_bool(p, dry);
	params_int8(p, after_id);
	params_int4(p, (int32_t)limit);
	call_send(c, &v->call);
}
