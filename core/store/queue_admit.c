/* Admission: ids, and messages in batches. One batch is one pipelined transaction; after an error each message stands
 * alone. Nothing is STORE_OK before its commit. */
#include "store/queue.h"

#include "store/conn_internal.h"

#include <stdlib.h>

enum {
	/* A message larger than this goes in a statement of its own, where a large body is cut; as workqueue_body_inline(). */
	ADMIT_ALONE = 64 * 1024,
	/* A body larger than this goes in pieces, so that neither side ever holds copies of all of it. */
	ADMIT_CHUNK = 8120,
	ADMIT_PIECE = 256 * ADMIT_CHUNK,
	/* Octets of one array statement; below the server's work_mem. */
	ADMIT_ARRAYS = 2 * 1024 * 1024,
	ADMIT_ROWS = 256,
	ADMIT_TRIES = 5,
};

/* --- ids --- */

struct ids_call {
	struct call call;
	store_ids_fn fn;
	void *arg;
	int64_t *ids;
	size_t n;
	bool full;
};

static void ids_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct ids_call *ic = (struct ids_call *)call;
	int n = PQntuples(res);

	(void)stmt;
	free(ic->ids);
	ic->ids = calloc((size_t)n + 1, sizeof(*ic->ids));
	if (!ic->ids) {
		ic->full = true;
		return;
	}
	for (int i = 0; i < n; i++)
		ic->ids[i] = result_int8(res, i, 0);
	ic->n = (size_t)n;
}

static void ids_done(struct call *call, enum store_rc rc, const char *err)
{
	struct ids_call *ic = (struct ids_call *)call;

	(void)err;
	if (rc == STORE_OK && ic->full)
		rc = STORE_FULL;
	ic->fn(ic->arg, rc, rc == STORE_OK ? ic->ids : NULL, rc == STORE_OK ? ic->n : 0);
	free(ic->ids);
}

void store_reserve_ids(struct store_conn *c, unsigned n, store_ids_fn fn, void *arg)
{
	struct ids_call *ic = call_new(sizeof(*ic), ids_done);

	if (!ic) {
		fn(arg, STORE_FULL, NULL, 0);
		return;
	}
	ic->fn = fn;
	ic->arg = arg;
	ic->call.result = ids_result;
	params_int4(call_add(&ic->call, STMT_RESERVE_IDS), n > 10000 ? 10000 : (int32_t)n);
	call_send(c, &ic->call);
}

/* --- messages --- */

/* A batch on its way. The messages are copied, but for the bodies, for a failing batch is sent again row by row. */
struct admission {
	struct store_conn *c;
	store_admit_fn fn;
	void *arg;
	struct store_message *msgs;
	enum store_rc *rcs;
	size_t n, waiting;
	bool *repeats;    /* each: was taken before */
	void *octets; /* what msgs point to */
};

struct admit_call {
	struct call call;
	struct admission *a;
	size_t i;       /* the message of a single */
	unsigned tries;
	bool single;
};

static size_t message_size(const struct store_message *m)
{
	size_t size = m->headers.n + m->body.n + m->state.n + m->mail_from.n + m->once.n + 128;

	for (size_t k = 0; k < m->n_rcpts; k++)
		size += m->rcpts[k].n + 8;
	return size;
}

static struct str take_copy(char **at, struct str s)
{
	struct str to = { *at, s.n };

	if (s.n > 0)
		memcpy(*at, s.p, s.n);
	*at += s.n;
	return to;
}

static void admission_free(struct admission *a)
{
	free(a->octets);
	free(a->repeats);
	free(a->msgs);
	free(a->rcs);
	free(a);
}

static struct admission *admission_new(const struct store_message *msgs, size_t n)
{
	struct admission *a = calloc(1, sizeof(*a));
	size_t size = 0, rcpts = 0;
	struct str *rcpt;
	char *at;

	if (!a)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size += strlen(msgs[i].stage) + 1 + msgs[i].mail_from.n + msgs[i].state.n + msgs[i].headers.n + msgs[i].once.n;
		for (size_t k = 0; k < msgs[i].n_rcpts; k++)
			size += msgs[i].rcpts[k].n;
		rcpts += msgs[i].n_rcpts;
	}
	a->n = n;
	a->msgs = calloc(n + 1, sizeof(*a->msgs));
	a->rcs = calloc(n + 1, sizeof(*a->rcs));
	a->repeats = calloc(n + 1, sizeof(*a->repeats));
	a->octets = malloc(rcpts * sizeof(*rcpt) + size + 1);
	if (!a->msgs || !a->rcs || !a->repeats || !a->octets) {
		admission_free(a);
		return NULL;
	}
	rcpt = a->octets;
	at = (char *)(rcpt + rcpts);
	for (size_t i = 0; i < n; i++) {
		struct store_message *m = &a->msgs[i];

		*m = msgs[i];
		m->stage = take_copy(&at, str_n(msgs[i].stage, strlen(msgs[i].stage) + 1)).p;
		m->mail_from = take_copy(&at, msgs[i].mail_from);
		m->state = take_copy(&at, msgs[i].state);
		m->headers = take_copy(&at, msgs[i].headers);
		m->once = take_copy(&at, msgs[i].once);
		m->rcpts = rcpt;
		for (size_t k = 0; k < m->n_rcpts; k++)
			*rcpt++ = take_copy(&at, msgs[i].rcpts[k]);
	}
	return a;
}

static void put_pieces(struct call *call, const struct store_message *m)
{
	for (size_t at = 0; at < m->body.n; at += ADMIT_PIECE) {
		struct params *p = call_add(call, STMT_BODY_PIECE);
		struct str rest = str_skip(m->body, at);

		params_int8(p, m->id);
		params_int8(p, (int64_t)m->body.n);
		params_int4(p, (int32_t)(at / ADMIT_CHUNK));
		params_octets_ref(p, str_n(rest.p, rest.n < ADMIT_PIECE ? rest.n : ADMIT_PIECE));
	}
}

static void put_one(struct call *call, const struct store_message *m)
{
	bool pieces = m->body.n > ADMIT_PIECE;
	struct params *p;

	if (pieces)
		put_pieces(call, m);
	p = call_add(call, m->once.n ? STMT_ADD_ONCE : STMT_ADD);
	if (m->once.n)
		params_octets(p, m->once);
	params_int8(p, m->id);
	params_text(p, m->stage);
	params_bool(p, m->running);
	params_time(p, m->received_at);
	params_octets(p, m->mail_from);
	params_texts(p, m->rcpts, m->n_rcpts);
	params_octets(p, m->state);
	params_octets(p, m->headers);
	if (pieces)
		params_null(p);
	else
		params_octets_ref(p, m->body);
}

/* The messages `pick` (indices, n of them) as parallel arrays. */
static void put_arrays(struct call *call, const struct store_message *msgs, const size_t *pick, size_t n)
{
	struct params *p = call_add(call, STMT_ADD_BATCH);
	int32_t at = 0;

#define EACH(type, put)                                                                                                \
	params_array(p, type);                                                                                           \
	for (size_t i = 0; i < n; i++) {                                                                                 \
		const struct store_message *m = &msgs[pick[i]];                                                            \
		put;                                                                                                         \
	}                                                                                                                \
	params_array_end(p)
	EACH(PARAMS_INT8, params_el_int8(p, m->id));
	EACH(PARAMS_TEXT, params_el_octets(p, str_from(m->stage)));
	EACH(PARAMS_BOOL, params_el_bool(p, m->running));
	EACH(PARAMS_TIME, params_el_time(p, m->received_at));
	EACH(PARAMS_TEXT, params_el_octets(p, m->mail_from));
	EACH(PARAMS_TEXT, for (size_t k = 0; k < m->n_rcpts; k++) params_el_octets(p, m->rcpts[k]));
	EACH(PARAMS_INT4, params_el_int4(p, at + 1); at += (int32_t)m->n_rcpts);
	at = 0;
	EACH(PARAMS_INT4, at += (int32_t)m->n_rcpts; params_el_int4(p, at));
	EACH(PARAMS_TEXT, params_el_octets(p, m->state));
	EACH(PARAMS_BYTEA, params_el_octets(p, m->headers));
	EACH(PARAMS_BYTEA, params_el_octets(p, m->body));
#undef EACH
}

/* Fills one call with messages from *at on, as many as one transaction may hold. */
static void put_batch(struct call *call, const struct store_message *msgs, size_t n)
{
	size_t pick[ADMIT_ROWS], picked = 0, octets = 0;

	for (size_t i = 0; i < n; i++) {
		size_t size = message_size(&msgs[i]);

		if (n == 1 || size > ADMIT_ALONE || msgs[i].once.n) {
			put_one(call, &msgs[i]);
			continue;
		}
		if (picked == ADMIT_ROWS || (picked > 0 && octets + size > ADMIT_ARRAYS)) {
			put_arrays(call, msgs, pick, picked);
			picked = octets = 0;
		}
		pick[picked++] = i;
		octets += size;
	}
	if (picked > 0)
		put_arrays(call, msgs, pick, picked);
}

/* The one answer that says something: a message that was taken before has no id. */
static void added(struct call *call, unsigned stmt, const PGresult *res)
{
	struct admit_call *ac = (struct admit_call *)call;
	struct admission *a = ac->a;

	if (call->stmts[stmt].id != STMT_ADD_ONCE || PQntuples(res) != 1 || !PQgetisnull(res, 0, 0))
		return;
	if (ac->single) {
		a->repeats[ac->i] = true;
		return;
	}
	size_t before = 0, i = 0;
	for (unsigned k = 0; k < stmt; k++) /* the statements stand in the order of the messages */
		before += call->stmts[k].id == STMT_ADD_ONCE;
	while (i < a->n && (!a->msgs[i].once.n || before--))
		i++;
	if (i < a->n)
		a->repeats[i] = true;
}

static void one_over(struct admission *a)
{
	if (--a->waiting > 0)
		return;
	a->fn(a->arg, a->rcs, a->n);
	admission_free(a);
}

static void send_single(struct admission *a, size_t i, unsigned tries);

static void single_done(struct call *call, enum store_rc rc, const char *err)
{
	struct admit_call *ac = (struct admit_call *)call;

	(void)err;
	if (rc == STORE_RETRY && ac->tries + 1 < ADMIT_TRIES) {
		send_single(ac->a, ac->i, ac->tries + 1);
		return;
	}
	ac->a->rcs[ac->i] = rc == STORE_OK && ac->a->repeats[ac->i] ? STORE_REPEAT : rc;
	one_over(ac->a);
}

static void send_single(struct admission *a, size_t i, unsigned tries)
{
	struct admit_call *ac = call_new(sizeof(*ac), single_done);

	if (!ac) {
		a->rcs[i] = STORE_FULL;
		one_over(a);
		return;
	}
	ac->a = a;
	ac->i = i;
	ac->tries = tries;
	ac->single = true;
	a->repeats[i] = false;
	ac->call.once = true;
	ac->call.result = added;
	put_one(&ac->call, &a->msgs[i]);
	call_send(a->c, &ac->call);
}

static void batch_done(struct call *call, enum store_rc rc, const char *err)
{
	struct admission *a = ((struct admit_call *)call)->a;

	(void)err;
	/* AWAY: nobody knows whether it happened, so nothing may be sent again. */
	if (rc == STORE_OK || rc == STORE_AWAY || (a->n == 1 && rc != STORE_RETRY)) {
		for (size_t i = 0; i < a->n; i++)
			a->rcs[i] = rc == STORE_OK && a->repeats[i] ? STORE_REPEAT : rc;
		a->waiting = 1;
		one_over(a);
		return;
	}
	a->waiting = a->n + 1; /* one for this loop, so that a is there until its end */
	for (size_t i = 0, n = a->n; i < n; i++)
		send_single(a, i, 0);
	one_over(a);
}

void store_admit(struct store_conn *c, const struct store_message *msgs, size_t n, store_admit_fn fn, void *arg)
{
	struct admission *a = n <= STORE_ADMIT_MAX ? admission_new(msgs, n) : NULL;
	struct admit_call *ac = a ? call_new(sizeof(*ac), batch_done) : NULL;

	if (!ac) {
		static enum store_rc full[STORE_ADMIT_MAX]; /* an answer that needs no memory */

		for (size_t i = 0; i < STORE_ADMIT_MAX; i++)
			full[i] = STORE_FULL;
		if (a)
			admission_free(a);
		fn(arg, full, n <= STORE_ADMIT_MAX ? n : STORE_ADMIT_MAX);
		return;
	}
	a->c = c;
	a->fn = fn;
	a->arg = arg;
	ac->a = a;
	ac->call.once = true;
	ac->call.result = added;
	put_batch(&ac->call, a->msgs, n);
	call_send(c, &ac->call);
}
