/* The calls of dmarc.h. */
#include "store/dmarc.h"

#include "store/conn_internal.h"

#include <stdlib.h>

struct dmarc_call {
	struct call call;
	union {
		store_dmarc_lost_fn lost;
		store_dmarc_json_fn json;
		store_dmarc_sent_fn sent;
	} fn;
	void *arg;
	int64_t number;
	char *text;
	size_t n;
};

static struct dmarc_call *dmarc_call_new(void (*done)(struct call *, enum store_rc, const char *),
    void (*result)(struct call *, unsigned, const PGresult *), void *arg)
{
	struct dmarc_call *d = call_new(sizeof(*d), done);

	if (d) {
		d->call.result = result;
		d->arg = arg;
	}
	return d;
}

static void number_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct dmarc_call *d = (struct dmarc_call *)call;

	(void)stmt;
	d->number = PQntuples(res) == 1 ? result_int8(res, 0, 0) : 0;
}

static void put_done(struct call *call, enum store_rc rc, const char *err)
{
	struct dmarc_call *d = (struct dmarc_call *)call;

	d->fn.lost(d->arg, rc, rc == STORE_OK ? d->number : 0, err);
}

void store_dmarc_tally_put(struct store_conn *c, const struct store_dmarc_tally *t, const struct store_dmarc_line *lines, size_t n,
    store_dmarc_lost_fn fn, void *arg)
{
	struct dmarc_call *d = n <= STORE_DMARC_TALLY_MAX ? dmarc_call_new(put_done, number_result, arg) : NULL;
	struct params *p;

	if (!d) {
		fn(arg, STORE_FULL, 0, "out of memory");
		return;
	}
	d->fn.lost = fn;
	p = call_add(&d->call, STMT_DMARC_TALLY_PUT);
	params_text(p, t->source);
	params_int8(p, t->seq);
	params_int4(p, t->max_rows);
	params_int4(p, t->max_periods);
	PARAMS_EACH(p, PARAMS_TIME, n, params_el_time(p, lines[i].begin));
	PARAMS_EACH(p, PARAMS_TIME, n, params_el_time(p, lines[i].end));
	PARAMS_EACH(p, PARAMS_TEXT, n, params_el_octets(p, lines[i].domain));
	PARAMS_EACH(p, PARAMS_TEXT, n, params_el_octets(p, lines[i].org));
	PARAMS_EACH(p, PARAMS_TEXT, n, params_el_octets(p, lines[i].policy));
	PARAMS_EACH(p, PARAMS_TEXT, n, params_el_octets(p, lines[i].data));
	PARAMS_EACH(p, PARAMS_INT8, n, params_el_int8(p, lines[i].messages));
	call_send(c, &d->call);
}

void store_dmarc_failure_put(struct store_conn *c, const struct store_dmarc_failures *t, const struct store_dmarc_failure *one, size_t n,
    store_dmarc_lost_fn fn, void *arg)
{
	struct dmarc_call *d = n <= STORE_DMARC_TALLY_MAX ? dmarc_call_new(put_done, number_result, arg) : NULL;
	struct params *p;

	if (!d) {
		fn(arg, STORE_FULL, 0, "out of memory");
		return;
	}
	d->fn.lost = fn;
	p = call_add(&d->call, STMT_DMARC_FAILURE_PUT);
	params_text(p, t->source);
	params_int8(p, t->seq);
	params_int4(p, t->most_org);
	params_int4(p, t->most);
	PARAMS_EACH(p, PARAMS_TIME, n, params_el_time(p, one[i].at));
	PARAMS_EACH(p, PARAMS_TEXT, n, params_el_octets(p, one[i].domain));
	PARAMS_EACH(p, PARAMS_TEXT, n, params_el_octets(p, one[i].org));
	PARAMS_EACH(p, PARAMS_TEXT, n, params_el_octets(p, one[i].data));
	PARAMS_EACH(p, PARAMS_BYTEA, n, params_el_octets(p, one[i].headers));
	call_send(c, &d->call);
}

static void json_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct dmarc_call *d = (struct dmarc_call *)call;
	struct str s = PQntuples(res) == 1 ? result_str(res, 0, 0) : STR_NULL;

	(void)stmt;
	free(d->text);
	d->text = str_dupz(s);
	d->n = d->text ? s.n : 0;
}

static void json_done(struct call *call, enum store_rc rc, const char *err)
{
	struct dmarc_call *d = (struct dmarc_call *)call;

	if (rc == STORE_OK && !d->text) {
		rc = STORE_FULL;
		err = "out of memory";
	}
	d->fn.json(d->arg, rc, rc == STORE_OK ? str_n(d->text, d->n) : STR_NULL, err);
	free(d->text);
}

void store_dmarc_ask(struct store_conn *c, enum store_dmarc_question q, const char *args, store_dmarc_json_fn fn, void *arg)
{
	static const enum stmt_id ids[STORE_DMARC_QUESTIONS] = { STMT_DMARC_DUE, STMT_DMARC_ROWS, STMT_DMARC_DONE, STMT_DMARC_LIST, STMT_DMARC_UNMUTE,
		STMT_DMARC_SWEEP, STMT_DMARC_SUMMARY, STMT_DMARC_FAILURES, STMT_DMARC_FAILURE_SUMMARY };
	struct dmarc_call *d = dmarc_call_new(json_done, json_result, arg);

	if (!d) {
		fn(arg, STORE_FULL, STR_NULL, "out of memory");
		return;
	}
	d->fn.json = fn;
	params_text(call_add(&d->call, ids[q]), args);
	call_send(c, &d->call);
}

static void sent_done(struct call *call, enum store_rc rc, const char *err)
{
	struct dmarc_call *d = (struct dmarc_call *)call;

	d->fn.sent(d->arg, rc, rc == STORE_OK ? d->number : 0, err);
}

void store_dmarc_enqueue(struct store_conn *c, const struct store_dmarc_report *r, store_dmarc_sent_fn fn, void *arg)
{
	struct dmarc_call *d = dmarc_call_new(sent_done, number_result, arg);
	struct params *p;

	if (!d) {
		fn(arg, STORE_FULL, 0, "out of memory");
		return;
	}
	d->fn.sent = fn;
	p = call_add(&d->call, r->tls ? STMT_TLSRPT_ENQUEUE : STMT_DMARC_ENQUEUE);
	params_int8(p, r->id);
	params_text(p, r->report_id);
	params_text(p, r->stage);
	params_text(p, r->mail_from);
	params_texts(p, r->rcpts, r->n);
	params_array(p, PARAMS_BYTEA);
	for (size_t i = 0; i < r->n; i++)
		params_el_octets(p, r->headers[i]);
	params_array_end(p);
	params_octets(p, r->body);
	params_text(p, r->state);
	if (!r->tls)
		params_bool(p, r->failure);
	call_send(c, &d->call);
}
