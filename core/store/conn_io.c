/* Calls through the pipeline of one connection: sending, receiving, errors and retries. Never opens or closes the
 * connection itself: it only marks it broken; see conn.c. */
#include "store/conn_internal.h"

#include "base/check.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

void call_list_init(struct call_list *l)
{
	l->head = NULL;
	l->tail = &l->head;
}

void call_list_put(struct call_list *l, struct call *call)
{
	call->next = NULL;
	*l->tail = call;
	l->tail = &call->next;
}

struct call *call_list_take(struct call_list *l)
{
	struct call *call = l->head;

	if (call) {
		l->head = call->next;
		if (!l->head)
			l->tail = &l->head;
		call->next = NULL;
	}
	return call;
}

void *call_new(size_t size, void (*done)(struct call *, enum store_rc, const char *))
{
	struct call *call = calloc(1, size);

	if (call) {
		call->done = done;
		call->prepares = -1;
	}
	return call;
}

struct params *call_add(struct call *call, enum stmt_id id)
{
	static struct params nowhere; /* takes what a failed call is given: `failed` makes every write a no-op */

	if (call->n_stmts == call->cap_stmts) {
		unsigned cap = call->cap_stmts ? call->cap_stmts * 2 : 1;
		struct call_stmt *more = cap <= CALL_STMTS_MAX ? realloc(call->stmts, cap * sizeof(*more)) : NULL;

		if (!more) {
			call->failed = true;
			params_init(&nowhere);
			nowhere.failed = true;
			return &nowhere;
		}
		call->stmts = more;
		call->cap_stmts = cap;
	}
	call->stmts[call->n_stmts].id = id;
	params_init(&call->stmts[call->n_stmts].params);
	return &call->stmts[call->n_stmts++].params;
}

static void free_params(struct call *call)
{
	for (unsigned i = 0; i < call->n_stmts; i++)
		params_free(&call->stmts[i].params);
}

void call_free(struct call *call)
{
	free_params(call);
	free(call->stmts);
	free(call);
}

void call_end(struct store_conn *c, struct call *call, enum store_rc rc, const char *err)
{
	if (call->prepares < 0) {
		c->busy++;
		call->done(call, rc, rc == STORE_OK ? "" : err);
		c->busy--;
	}
	call_free(call);
}

void conn_end_late(struct store_conn *c)
{
	struct call *call, *last = NULL;

	/* Only those that are there now: a caller that tries again at once must not keep us here. One by one off the list,
	 * for a callback may close the connection, which ends the rest. */
	for (call = c->late.head; call; call = call->next)
		last = call;
	while (last && (call = call_list_take(&c->late))) {
		bool was_last = call == last;

		c->n_pending--;
		call_end(c, call, call->rc, call->err);
		if (was_last)
			break;
	}
}

static void fail_later(struct store_conn *c, struct call *call, enum store_rc rc, const char *err)
{
	call->rc = rc;
	connect_one_line(call->err, sizeof(call->err), err);
	call_list_put(&c->late, call);
	c->n_pending++;
	event_active(c->kick, EV_TIMEOUT, 0);
}

void call_send(struct store_conn *c, struct call *call)
{
	call->c = c;
	for (unsigned i = 0; i < call->n_stmts; i++) {
		call->failed |= call->stmts[i].params.failed || call->stmts[i].params.b.failed;
		call->octets += call->stmts[i].params.b.n + call->stmts[i].params.referred;
	}
	if (call->failed)
		fail_later(c, call, STORE_FULL, "out of memory, or more than a statement can hold");
	else if (c->state != CONN_UP || c->broken)
		fail_later(c, call, STORE_AWAY, c->why[0] ? c->why : "no connection to the database yet");
	else if (c->pending_octets > 0 && c->pending_octets + call->octets > CONN_PENDING_OCTETS)
		fail_later(c, call, STORE_FULL, "too much is waiting for the database");
	else
		conn_put(c, call);
}

/* A PREPARE has a sync of its own, so that an error of the call before cannot take it away. */
static bool prepare(struct store_conn *c, enum stmt_id id)
{
	struct call *call = call_new(sizeof(*call), NULL);

	if (!call)
		return false;
	call->c = c;
	call->prepares = (int)id;
	call->sent_us = clock_mono_us();
	call_list_put(&c->sent, call);
	c->n_pending++;
	c->prepared[id] = true;
	c->owed += 2;
	return PQsendPrepare(c->pg, stmts[id].name, stmts[id].sql, 0, NULL) == 1 && PQpipelineSync(c->pg) == 1;
}

static void note_broken(struct store_conn *c)
{
	connect_one_line(c->why, sizeof(c->why), PQerrorMessage(c->pg));
	c->broken = true;
	event_active(c->kick, EV_TIMEOUT, 0);
}

/* Writes what libpq holds, as much as the socket takes. */
static void write_out(struct store_conn *c)
{
	int rc = PQflush(c->pg);

	if (rc < 0) {
		note_broken(c);
		return;
	}
	c->blocked = rc > 0;
	if (c->blocked)
		event_add(c->ev_write, NULL);
}

static bool begin(struct store_conn *c, struct call *call)
{
	bool ok = true;

	for (unsigned i = 0; ok && i < call->n_stmts; i++)
		if (!c->prepared[call->stmts[i].id])
			ok = prepare(c, call->stmts[i].id);
	call->sent_us = clock_mono_us();
	call_list_put(&c->sent, call);
	c->feeding = call;
	return ok;
}

/* One statement, or the sync behind the last. After an error the server skips to the sync anyway. */
static bool feed(struct store_conn *c, struct call *call, size_t *ret_octets)
{
	struct params_libpq q;
	struct call_stmt *s = &call->stmts[call->fed];

	*ret_octets = 0;
	if (call->fed == call->n_stmts || call->rc != STORE_OK) {
		c->feeding = NULL;
		c->owed++;
		if (PQpipelineSync(c->pg) != 1)
			return false;
		if (call->once)
			free_params(call);
		return true;
	}
	call->fed++;
	c->owed++;
	*ret_octets = s->params.b.n + s->params.referred;
	return params_get(&s->params, &q) && PQsendQueryPrepared(c->pg, stmts[s->id].name, (int)s->params.n, q.values, q.lengths,
	    q.formats, 1) == 1;
}

static void feed_all(struct store_conn *c)
{
	bool ok = true, fed = false;
	size_t octets;

	while (ok && !c->broken && !c->blocked && (c->feeding || c->queued.head)) {
		ok = c->feeding || begin(c, call_list_take(&c->queued));
		ok = ok && feed(c, c->feeding, &octets);
		fed = true;
		if (ok && octets > CONN_LARGE_STMT)
			write_out(c);
	}
	if (!ok)
		note_broken(c);
	else if (fed && !c->blocked && !c->broken)
		write_out(c);
}

void conn_put(struct store_conn *c, struct call *call)
{
	call->at = 0;
	call->fed = 0;
	call->again = false;
	call->rc = STORE_OK;
	call->err[0] = '\0';
	call->sent_us = clock_mono_us();
	call_list_put(&c->queued, call);
	c->n_pending++;
	c->pending_octets += call->octets;
	feed_all(c);
}

void conn_flush(struct store_conn *c)
{
	bool was = c->blocked;

	write_out(c);
	if (was && !c->blocked) {
		c->heard_us = clock_mono_us(); /* it reads what we write: it lives */
		feed_all(c);
	}
}

/* The sync of the first call has come. */
static void finish_head(struct store_conn *c)
{
	struct call *call = call_list_take(&c->sent);

	c->n_pending--;
	c->pending_octets -= call->octets;
	c->retries += call->again;
	if (call->prepares >= 0) {
		if (call->rc != STORE_OK)
			c->prepared[call->prepares] = false;
		c->prepare_rc = call->rc;
		memcpy(c->prepare_err, call->err, sizeof(c->prepare_err));
	} else if (call->again && !call->once && ++call->tries < STORE_TRIES && !c->broken && c->state == CONN_UP) {
		conn_put(c, call);
		return;
	}
	call_end(c, call, call->rc, call->err);
}

static void one_result(struct store_conn *c, PGresult *res)
{
	struct call *call = c->sent.head;
	const char *sqlstate;

	switch (PQresultStatus(res)) {
	case PGRES_PIPELINE_SYNC:
		finish_head(c);
		break;
	case PGRES_COMMAND_OK:
	case PGRES_TUPLES_OK:
		if (call->result && call->prepares < 0 && call->rc == STORE_OK) {
			c->busy++;
			call->result(call, call->at, res);
			c->busy--;
		}
		call->at++;
		break;
	case PGRES_PIPELINE_ABORTED:
		break;
	default:
		if (call->rc != STORE_OK)
			break;
		sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);
		if (sqlstate && !strcmp(sqlstate, "26000") && c->prepare_rc != STORE_OK) {
			/* Its PREPARE, just before, was refused: that is the reason. */
			call->rc = c->prepare_rc;
			memcpy(call->err, c->prepare_err, sizeof(call->err));
			break;
		}
		call->rc = connect_rc(sqlstate);
		call->again = sqlstate && !strncmp(sqlstate, "40", 2);
		connect_result_error(call->err, sizeof(call->err), res);
		if (connect_rc_session_lost(sqlstate) || call->rc == STORE_AWAY) {
			memcpy(c->why, call->err, sizeof(c->why));
			/* A pipeline of prepared statements that the server forgot is of no use; those behind will say so too. */
			c->broken = true;
		}
	}
}

void conn_receive(struct store_conn *c)
{
	unsigned empty = 0;
	PGnotify *note;

	if (!PQconsumeInput(c->pg)) {
		connect_one_line(c->why, sizeof(c->why), PQerrorMessage(c->pg));
		c->broken = true;
		/* What the server said before it went may still be in the buffer: read on. */
	}
	c->heard_us = clock_mono_us();
	while (!c->closed && c->sent.head && c->owed > 0 && !PQisBusy(c->pg)) {
		PGresult *res = PQgetResult(c->pg);

		if (!res) {
			/* The end of one statement's results; twice in a row means that we and libpq count differently. */
			if (++empty > 2) {
				snprintf(c->why, sizeof(c->why), "lost step with the server");
				c->broken = true;
				break;
			}
			continue;
		}
		empty = 0;
		c->owed--;
		one_result(c, res);
		PQclear(res);
		if (PQstatus(c->pg) != CONNECTION_OK) {
			if (!c->why[0] || !c->broken)
				connect_one_line(c->why, sizeof(c->why), PQerrorMessage(c->pg));
			c->broken = true;
			break;
		}
	}
	while (!c->closed && (note = PQnotifies(c->pg))) {
		if (c->notify_fn) {
			c->busy++;
			c->notify_fn(c->notify_arg, note->relname, note->extra);
			c->busy--;
		}
		PQfreemem(note);
	}
	if (!c->closed && !c->broken)
		conn_flush(c);
}
