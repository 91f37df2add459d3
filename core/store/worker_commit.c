/* Committing what the passes of a worker decided: plain outcomes of many passes folded into one statement per kind,
 * the rest op by op, all in one transaction; after an error pass by pass. See worker.h. */
#include "store/worker_internal.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

enum { CLONES_JSON_MAX = 256 * 1024 * 1024 };

static const char *const outcomes[] = { "delivered", "bounced", "discarded" };

static const char *status_name(enum store_status s)
{
	return s == STORE_PAUSED ? "paused" : s == STORE_FAILED ? "failed" : s == STORE_RUNNING ? "running" : "pending";
}

static int32_t seconds(uint32_t s)
{
	return s > INT32_MAX ? INT32_MAX : (int32_t)s;
}

/* A pause without end has no time at which it is over. */
static void put_seconds(struct params *p, uint32_t s)
{
	if (s == STORE_PAUSE_ENDLESS)
		params_null(p);
	else
		params_int4(p, seconds(s));
}

static void put_el_seconds(struct params *p, uint32_t s)
{
	if (s == STORE_PAUSE_ENDLESS)
		params_el_null(p);
	else
		params_el_int4(p, seconds(s));
}

/* --- folding --- */

enum fold { FOLD_NONE, FOLD_FINISH, FOLD_MOVE, FOLD_MOVE_STATE, FOLD_MOVE_ENVELOPE };

/* Does this pass consist of one op that can share a statement with others of its kind? All of one statement come from
 * one stage, as those of one worker do: that of the first pass. */
static enum fold fold_of(const struct store_pass *p, const char *from)
{
	const uint32_t envelope = STORE_STATE_MERGE | STORE_SET_MAIL_FROM | STORE_SET_RCPT_TO;
	const struct store_op *op = p->ops;

	if (p->n_ops != 1 || (op->from_stage != from && (!op->from_stage || !from || strcmp(op->from_stage, from) != 0)))
		return FOLD_NONE;
	switch (op->kind) {
	case STORE_OP_FINISH:
		return op->n_clones == 0 ? FOLD_FINISH : FOLD_NONE;
	case STORE_OP_PAUSE:
		if (op->n_clones > 0 || op->keep)
			return FOLD_NONE;
		return op->state ? FOLD_MOVE_STATE : FOLD_MOVE;
	case STORE_OP_MOVE:
		if (op->touched == 0)
			return FOLD_MOVE;
		if (op->touched & ~envelope)
			return FOLD_NONE;
		return op->touched == STORE_STATE_MERGE ? FOLD_MOVE_STATE : FOLD_MOVE_ENVELOPE;
	default:
		return FOLD_NONE;
	}
}

/* What a folded MOVE or PAUSE says about stage, status and time. */
static const char *op_stage(const struct store_op *op)
{
	return op->kind == STORE_OP_PAUSE ? NULL : op->stage;
}

static enum store_status op_status(const struct store_op *op)
{
	return op->kind == STORE_OP_PAUSE ? STORE_PAUSED : op->status;
}

static void put_folded_finish(struct stmt_list *l, const struct store_pass *passes, size_t n, const char *from)
{
	for (unsigned k = 0; k < 3; k++) {
		struct params *p = NULL;

		for (size_t i = 0; i < n; i++) {
			if (fold_of(&passes[i], from) != FOLD_FINISH || strcmp(passes[i].ops->outcome, outcomes[k]) != 0)
				continue;
			if (!p) {
				p = stmt_list_add(l, STMT_FINISH);
				params_array(p, PARAMS_INT8);
			}
			params_el_int8(p, passes[i].ops->id);
		}
		if (p) {
			params_array_end(p);
			params_text(p, outcomes[k]);
			params_text(p, from);
		}
	}
}

static void put_text(struct params *p, bool there, struct str s)
{
	if (there)
		params_el_octets(p, s);
	else
		params_el_null(p);
}

/* Where the recipients of this op stand in the array of all: from *at + 1 on, PostgreSQL counts from 1. */
static void put_range(struct params *p, const struct store_op *op, int32_t *at, bool end)
{
	if (!(op->touched & STORE_SET_RCPT_TO)) {
		params_el_null(p);
		return;
	}
	params_el_int4(p, end ? *at + (int32_t)op->n_rcpts : *at + 1);
	*at += (int32_t)op->n_rcpts;
}

static void put_folded_move(struct stmt_list *l, const struct store_pass *passes, size_t n, enum fold kind, const char *from)
{
	struct params *p = NULL;
	int32_t at;

#define EACH(type, put)                                                                                                \
	params_array(p, type);                                                                                           \
	for (size_t i = 0; i < n; i++) {                                                                                 \
		const struct store_op *op = passes[i].ops;                                                                 \
		if (fold_of(&passes[i], from) == kind)                                                                     \
			put;                                                                                                   \
	}                                                                                                                \
	params_array_end(p)
	for (size_t i = 0; i < n && !p; i++)
		if (fold_of(&passes[i], from) == kind)
			p = stmt_list_add(l, kind == FOLD_MOVE ? STMT_MOVE : kind == FOLD_MOVE_STATE ? STMT_MOVE_STATE : STMT_MOVE_ENVELOPE);
	if (!p)
		return;
	params_text(p, from);
	EACH(PARAMS_INT8, params_el_int8(p, op->id));
	EACH(PARAMS_TEXT, put_text(p, op_stage(op) != NULL, str_from(op_stage(op))));
	EACH(PARAMS_TEXT, params_el_octets(p, str_from(status_name(op_status(op)))));
	EACH(PARAMS_INT4, put_el_seconds(p, op->pause_s));
	if (kind == FOLD_MOVE)
		return;
	EACH(PARAMS_TEXT, put_text(p, op->state && (op->kind == STORE_OP_PAUSE || op->touched & STORE_STATE_MERGE), str_from(op->state)));
	if (kind == FOLD_MOVE_STATE)
		return;
	EACH(PARAMS_TEXT, put_text(p, op->touched & STORE_SET_MAIL_FROM, op->mail_from));
	for (int end = 0; end < 2; end++) {
		at = 0;
		EACH(PARAMS_INT4, put_range(p, op, &at, end));
	}
	EACH(PARAMS_TEXT, for (size_t k = 0; op->touched & STORE_SET_RCPT_TO && k < op->n_rcpts; k++) params_el_octets(p, op->rcpts[k]));
#undef EACH
}

/* --- op by op --- */

static void put_keep(struct params *p, const struct store_op *op)
{
	if (!op->keep) {
		params_null(p);
		return;
	}
	params_array(p, PARAMS_INT4);
	for (size_t i = 0; i < op->n_keep; i++)
		params_el_int4(p, op->keep[i] > INT32_MAX ? INT32_MAX : (int32_t)op->keep[i]);
	params_array_end(p);
}

static void put_clones(struct params *p, const struct store_op *op)
{
	struct buf b = BUF_INIT(CLONES_JSON_MAX);

	if (clone_json(&b, op->clones, op->n_clones) < 0)
		p->failed = true;
	params_octets(p, buf_str(&b));
	buf_free(&b);
}

static void put_set(struct params *p, const struct store_op *op, uint32_t flag, struct str s)
{
	if (op->touched & flag)
		params_octets(p, s);
	else
		params_null(p);
}

static void put_op(struct stmt_list *l, const struct store_op *op, int64_t pass_id)
{
	struct params *p;

	switch (op->kind) {
	case STORE_OP_MOVE:
		p = stmt_list_add(l, STMT_MOVE_FULL);
		params_int8(p, op->id);
		params_text(p, op->stage);
		params_text(p, status_name(op->status));
		put_seconds(p, op->pause_s);
		params_text(p, op->touched & (STORE_STATE_MERGE | STORE_STATE_REPLACE) ? op->state : NULL);
		params_bool(p, op->touched & STORE_STATE_REPLACE);
		put_set(p, op, STORE_SET_HEADERS, op->headers);
		put_set(p, op, STORE_SET_MAIL_FROM, op->mail_from);
		if (op->touched & STORE_SET_RCPT_TO)
			params_texts(p, op->rcpts, op->n_rcpts);
		else
			params_null(p);
		put_set(p, op, STORE_SET_BODY, op->body);
		params_text(p, op->from_stage);
		break;
	case STORE_OP_PAUSE:
		p = stmt_list_add(l, STMT_PAUSE);
		params_int8(p, op->id);
		put_seconds(p, op->pause_s);
		params_text(p, op->state);
		put_keep(p, op);
		put_clones(p, op);
		params_text(p, op->from_stage);
		break;
	case STORE_OP_FINISH:
		p = stmt_list_add(l, STMT_FINISH_CLONES);
		params_int8(p, op->id);
		params_text(p, op->outcome);
		put_clones(p, op);
		params_text(p, op->from_stage);
		break;
	case STORE_OP_SPLIT:
		p = stmt_list_add(l, STMT_SPLIT);
		params_int8(p, op->id);
		put_keep(p, op);
		put_clones(p, op);
		params_text(p, op->from_stage);
		break;
	case STORE_OP_INJECT:
		p = stmt_list_add(l, STMT_INJECT);
		params_text(p, op->stage);
		params_octets(p, op->mail_from);
		params_texts(p, op->rcpts, op->n_rcpts);
		params_octets(p, op->headers);
		params_octets(p, op->body);
		params_text(p, op->state ? op->state : "{}");
		params_int8(p, pass_id);
		params_text(p, op->from_stage);
		break;
	}
}

/* Arriving at the stage where the pass goes on; then what acts only while the row is running; the terminal last. */
static int turn_of(const struct store_op *op)
{
	if (op->kind == STORE_OP_MOVE && op->status == STORE_RUNNING)
		return 0;
	return op->kind == STORE_OP_SPLIT || op->kind == STORE_OP_INJECT ? 1 : 2;
}

static void put_pass(struct stmt_list *l, const struct store_pass *p)
{
	for (int turn = 0; turn < 3; turn++)
		for (size_t i = 0; i < p->n_ops; i++)
			if (turn_of(&p->ops[i]) == turn)
				put_op(l, &p->ops[i], p->id);
}

/* Says what is wrong with a pass before the database is bothered, or NULL. */
static const char *pass_fault(const struct store_pass *p)
{
	for (size_t i = 0; i < p->n_ops; i++) {
		const struct store_op *op = &p->ops[i];

		if ((unsigned)op->kind > STORE_OP_INJECT)
			return "unknown kind of operation";
		if (op->kind == STORE_OP_FINISH) {
			bool known = false;

			for (unsigned k = 0; k < 3; k++)
				known |= op->outcome && !strcmp(op->outcome, outcomes[k]);
			if (!known)
				return "finish without a known outcome";
		}
		if (op->kind == STORE_OP_INJECT && !op->stage)
			return "side message without a stage";
		if (op->kind == STORE_OP_MOVE && (op->touched & STORE_STATE_MERGE) && (op->touched & STORE_STATE_REPLACE))
			return "state both merged and replaced";
		for (size_t k = 0; k < op->n_clones; k++)
			if (!op->clones[k].stage || !op->clones[k].token[0])
				return "clone without a stage or token";
	}
	return NULL;
}

/* --- what waits for the same destinations --- */

/* A later pass of the batch knows better what is to be done with the same domain. */
static bool told_again(const struct store_pass *passes, size_t n, size_t i)
{
	const struct store_put_off *o = passes[i].put_off, *k;

	while (++i < n)
		if ((k = passes[i].put_off) && str_ieq(k->domain, o->domain) && !strcmp(k->stage, o->stage))
			return true;
	return false;
}

/* One statement for all. The last of the transaction: the rows it locks are those that a claim may be after. */
static bool put_off_others(struct stmt_list *l, const struct store_pass *passes, size_t n)
{
	struct params *p = NULL;

#define EACH(type, put)                                                                                                \
	params_array(p, type);                                                                                           \
	for (size_t i = 0; i < n; i++) {                                                                                 \
		const struct store_put_off *o = passes[i].put_off;                                                         \
		if (o && !told_again(passes, n, i))                                                                        \
			put;                                                                                                   \
	}                                                                                                                \
	params_array_end(p)
	for (size_t i = 0; i < n && !p; i++)
		if (passes[i].put_off)
			p = stmt_list_add(l, STMT_PUT_OFF);
	if (!p)
		return false;
	EACH(PARAMS_TEXT, params_el_octets(p, str_from(o->stage)));
	EACH(PARAMS_TEXT, params_el_octets(p, o->domain));
	EACH(PARAMS_INT4, params_el_int4(p, seconds(o->first_s)));
	EACH(PARAMS_INT4, params_el_int4(p, seconds(o->each_ms)));
	EACH(PARAMS_TEXT, params_el_octets(p, str_from(o->error)));
	EACH(PARAMS_INT8, params_el_int8(p, o->life_s));
#undef EACH
	return true;
}

/* --- committing --- */

static void answer(struct store_pass *p, enum store_rc rc, const char *err)
{
	p->rc = rc;
	connect_one_line(p->err, sizeof(p->err), rc == STORE_OK ? "" : err);
}

/* How many the last statement has put off. */
struct counting {
	unsigned at; /* that statement */
	uint64_t n;
};

static void counted(void *arg, unsigned stmt, const PGresult *res)
{
	struct counting *c = arg;

	if (stmt == c->at && PQntuples(res) == 1)
		c->n = (uint64_t)result_int4(res, 0, 0);
}

/* All passes without a fault of their own, as one transaction. */
static enum store_rc commit_together(struct store_worker *w, struct store_pass *passes, size_t n, bool others, char *err, size_t err_size)
{
	struct stmt_list l = { .v = NULL };
	struct counting c = { .n = 0 };
	enum store_rc rc = STORE_OK;
	bool again = false;

	const char *from = n > 0 && passes->n_ops > 0 ? passes->ops->from_stage : NULL;

	put_folded_finish(&l, passes, n, from);
	for (enum fold kind = FOLD_MOVE; kind <= FOLD_MOVE_ENVELOPE; kind++)
		put_folded_move(&l, passes, n, kind, from);
	for (size_t i = 0; i < n; i++)
		if (fold_of(&passes[i], from) == FOLD_NONE)
			put_pass(&l, &passes[i]);
	others = others && put_off_others(&l, passes, n);
	c.at = l.n ? l.n - 1 : 0;
	for (unsigned tries = 0; l.n > 0 && tries < STORE_TRIES; tries++) {
		rc = worker_run(w, &l, others ? counted : NULL, &c, err, err_size, &again);
		if (!again)
			break;
		worker_retry_wait(w, tries);
	}
	stmt_list_free(&l);
	if (rc == STORE_OK && c.n) {
		log_info(NULL, "event=put-off rows=%llu with=%zu hint=\"they wait for destinations that take nothing, or little, now\"",
		    (unsigned long long)c.n, n);
		worker_put_off(w, c.n);
	}
	return rc;
}

enum store_rc store_worker_commit(struct store_worker *w, struct store_pass *passes, size_t n)
{
	char err[STORE_ERR_MAX] = "";
	enum store_rc rc = STORE_OK;
	bool faults = false, others = false;

	for (size_t i = 0; i < n; i++) {
		const char *fault = pass_fault(&passes[i]);

		answer(&passes[i], fault ? STORE_REFUSED : STORE_OK, fault);
		faults |= fault != NULL;
		others |= passes[i].put_off != NULL;
	}
	if (!faults) {
		rc = commit_together(w, passes, n, others, err, sizeof(err));
		if (rc != STORE_OK && rc != STORE_AWAY && others) { /* what was for others' sake is no message's fault */
			log_warn(NULL, "event=not-put-off error=%s hint=\"these messages come one by one\"", log_qz(err));
			rc = commit_together(w, passes, n, false, err, sizeof(err));
		}
		if (rc == STORE_OK)
			return STORE_OK;
		if (rc == STORE_AWAY || n == 1) {
			for (size_t i = 0; i < n; i++)
				answer(&passes[i], rc, err);
			return rc == STORE_AWAY ? STORE_AWAY : STORE_OK;
		}
	}
	/* One of them is to blame: each stands for itself now. */
	rc = STORE_OK;
	for (size_t i = 0; i < n; i++) {
		if (passes[i].rc != STORE_OK)
			continue;
		if (rc != STORE_AWAY)
			rc = commit_together(w, &passes[i], 1, false, err, sizeof(err));
		answer(&passes[i], rc, err);
	}
	return rc == STORE_AWAY ? STORE_AWAY : STORE_OK;
}
