/* The calls on pepsi.mail_account; see account.h. Decides nothing about who may come in. */
#include "store/account.h"

#include "store/conn_internal.h"

#include "base/arena.h"

struct account_call {
	struct call call;
	union {
		store_account_fn one;
		store_account_done_fn done;
	} fn;
	store_account_row_fn row;
	void *arg;
	unsigned n;
	struct arena *copy;        /* of `found` */
	struct store_account found;
	bool no_memory;
};

enum { COPY_MAX = 64 * 1024 };

static struct account_call *account_call_new(void (*done)(struct call *, enum store_rc, const char *),
    void (*result)(struct call *, unsigned, const PGresult *), void *arg)
{
	struct account_call *a = call_new(sizeof(*a), done);

	if (a) {
		a->call.result = result;
		a->arg = arg;
	}
	return a;
}

static struct str maybe(const PGresult *res, int row, int col)
{
	struct str s = result_str(res, row, col);

	if (PQgetisnull(res, row, col))
		return STR_NULL;
	return s.p ? s : STR("");
}

static size_t read_texts(const PGresult *res, int row, int col, struct str *to, size_t max)
{
	struct str rest;
	size_t n = 0;

	if (result_texts_begin(result_str(res, row, col), &rest) > 0)
		while (n < max && result_texts_next(&rest, &to[n]))
			n++;
	return n;
}

/* The columns of STMT_ACCOUNT_GET and _LIST, which differ in the two digests. */
static void read_row(const PGresult *res, int row, struct store_account *a)
{
	int col = 0;

	memset(a, 0, sizeof(*a));
	a->name = result_str(res, row, col++);
	a->password = maybe(res, row, col++);
	a->scram = maybe(res, row, col++);
	a->has_password = result_bool(res, row, col++);
	a->enabled = result_bool(res, row, col++);
	a->n_senders = read_texts(res, row, col++, a->senders, STORE_ACCOUNT_SENDERS_MAX);
	a->n_certificates = read_texts(res, row, col++, a->certificates, STORE_ACCOUNT_CERTIFICATES_MAX);
	for (unsigned i = 0; i < STORE_CAPS; i++, col++)
		a->caps[i] = PQgetisnull(res, row, col) ? -1 : result_int4(res, row, col);
	a->created_at = result_time(res, row, col++);
	a->changed_at = result_time(res, row, col++);
	a->signed_in_at = PQgetisnull(res, row, col) ? 0 : result_time(res, row, col);
}

/* --- reading --- */

static bool keep(struct arena *a, struct str *s)
{
	if (!s->p)
		return true;
	*s = arena_str(a, *s);
	return s->p;
}

static void forget(struct account_call *a)
{
	if (a->found.password.p)
		explicit_bzero((char *)(uintptr_t)a->found.password.p, a->found.password.n);
	if (a->found.scram.p)
		explicit_bzero((char *)(uintptr_t)a->found.scram.p, a->found.scram.n);
	memset(&a->found, 0, sizeof(a->found));
	arena_free(a->copy);
	a->copy = NULL;
}

static void get_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct account_call *a = (struct account_call *)call;
	struct store_account row, *f = &a->found;
	bool ok;

	(void)stmt;
	forget(a);
	a->no_memory = false;
	if (PQntuples(res) != 1)
		return;
	read_row(res, 0, &row);
	a->copy = arena_new(COPY_MAX);
	ok = a->copy && keep(a->copy, &row.name);
	if (ok)
		*f = row;
	f->password = f->scram = STR_NULL; /* until they are copies, forget() must not touch them */
	if (ok && (ok = keep(a->copy, &row.password)))
		f->password = row.password;
	if (ok && (ok = keep(a->copy, &row.scram)))
		f->scram = row.scram;
	for (size_t i = 0; ok && i < f->n_senders; i++)
		ok = keep(a->copy, &f->senders[i]);
	for (size_t i = 0; ok && i < f->n_certificates; i++)
		ok = keep(a->copy, &f->certificates[i]);
	a->no_memory = !ok;
}

static void get_done(struct call *call, enum store_rc rc, const char *err)
{
	struct account_call *a = (struct account_call *)call;

	if (rc == STORE_OK && a->no_memory)
		a->fn.one(a->arg, STORE_FULL, NULL, "out of memory");
	else
		a->fn.one(a->arg, rc, rc == STORE_OK && a->found.name.p ? &a->found : NULL, err);
	forget(a);
}

static void get_by(struct store_conn *c, enum stmt_id stmt, struct str key, store_account_fn fn, void *arg)
{
	struct account_call *a = account_call_new(get_done, get_result, arg);

	if (!a) {
		fn(arg, STORE_FULL, NULL, "out of memory");
		return;
	}
	a->fn.one = fn;
	params_octets(call_add(&a->call, stmt), key);
	call_send(c, &a->call);
}

void store_account_get(struct store_conn *c, struct str name, store_account_fn fn, void *arg)
{
	get_by(c, STMT_ACCOUNT_GET, name, fn, arg);
}

void store_account_by_certificate(struct store_conn *c, struct str digest, store_account_fn fn, void *arg)
{
	get_by(c, STMT_ACCOUNT_BY_CERTIFICATE, digest, fn, arg);
}

static void list_result(struct call *call, unsigned stmt, const PGresult *res)
{
	struct account_call *a = (struct account_call *)call;
	struct store_account row;

	(void)stmt;
	a->n = 0;
	for (int i = 0; i < PQntuples(res); i++, a->n++) {
		read_row(res, i, &row);
		a->row(a->arg, &row);
	}
}

static void counted_done(struct call *call, enum store_rc rc, const char *err)
{
	struct account_call *a = (struct account_call *)call;

	a->fn.done(a->arg, rc, rc == STORE_OK ? a->n : 0, err);
}

void store_account_list(struct store_conn *c, struct str after, unsigned limit, store_account_row_fn row, store_account_done_fn done,
    void *arg)
{
	struct account_call *a = account_call_new(counted_done, list_result, arg);
	struct params *p;

	if (!a) {
		done(arg, STORE_FULL, 0, "out of memory");
		return;
	}
	a->call.once = true; /* rows were told already */
	a->fn.done = done;
	a->row = row;
	p = call_add(&a->call, STMT_ACCOUNT_LIST);
	params_octets(p, after);
	params_int4(p, (int32_t)(limit && limit < STORE_ACCOUNT_PAGE ? limit : STORE_ACCOUNT_PAGE));
	call_send(c, &a->call);
}

/* --- writing --- */

static void count_result(struct call *call, unsigned stmt, const PGresult *res)
{
	(void)stmt;
	((struct account_call *)call)->n = (unsigned)PQntuples(res);
}

static void put_or_null(struct params *p, struct str s)
{
	if (s.p)
		params_octets(p, s);
	else
		params_null(p);
}

static struct account_call *writing(store_account_done_fn done, void *arg)
{
	struct account_call *a = account_call_new(counted_done, count_result, arg);

	if (a)
		a->fn.done = done;
	else
		done(arg, STORE_FULL, 0, "out of memory");
	return a;
}

void store_account_add(struct store_conn *c, const struct store_account *account, store_account_done_fn done, void *arg)
{
	struct account_call *a = writing(done, arg);
	struct params *p;

	if (!a)
		return;
	p = call_add(&a->call, STMT_ACCOUNT_ADD);
	params_octets(p, account->name);
	put_or_null(p, account->password);
	put_or_null(p, account->scram);
	params_bool(p, account->enabled);
	params_texts(p, account->senders, account->n_senders);
	params_texts(p, account->certificates, account->n_certificates);
	for (unsigned i = 0; i < STORE_CAPS; i++)
		params_int4(p, account->caps[i]);
	call_send(c, &a->call);
}

void store_account_change(struct store_conn *c, const struct store_account_change *ch, store_account_done_fn done, void *arg)
{
	struct account_call *a = writing(done, arg);
	struct params *p;

	if (!a)
		return;
	p = call_add(&a->call, STMT_ACCOUNT_CHANGE);
	params_octets(p, ch->name);
	put_or_null(p, ch->password);
	put_or_null(p, ch->scram);
	if (ch->set_enabled)
		params_bool(p, ch->enabled);
	else
		params_null(p);
	if (ch->set_senders)
		params_texts(p, ch->senders, ch->n_senders);
	else
		params_null(p);
	if (ch->set_certificates)
		params_texts(p, ch->certificates, ch->n_certificates);
	else
		params_null(p);
	for (unsigned i = 0; i < STORE_CAPS; i++)
		if (ch->caps[i] == STORE_CAP_KEEP)
			params_null(p);
		else
			params_int4(p, ch->caps[i]);
	call_send(c, &a->call);
}

void store_account_remove(struct store_conn *c, struct str name, store_account_done_fn done, void *arg)
{
	struct account_call *a = writing(done, arg);

	if (!a)
		return;
	params_octets(call_add(&a->call, STMT_ACCOUNT_REMOVE), name);
	call_send(c, &a->call);
}

static void seen_done(struct call *call, enum store_rc rc, const char *err)
{
	(void)call;
	(void)rc;
	(void)err;
}

void store_account_seen(struct store_conn *c, struct str name)
{
	struct account_call *a = account_call_new(seen_done, NULL, NULL);

	if (!a)
		return;
	params_octets(call_add(&a->call, STMT_ACCOUNT_SEEN), name);
	call_send(c, &a->call);
}
