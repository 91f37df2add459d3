/* Requests and answers about accounts: see account.h. The same kind of walk as signin.c. */
#include "account.h"

#include "walk.h"

static void walk_senders(struct walk *w, struct str *senders, size_t *n)
{
	walk_count(w, n, WIRE_SIGNIN_SENDERS_MAX);
	for (size_t i = 0; i < *n; i++)
		walk_text(w, &senders[i], WIRE_ACCOUNT_SENDER_MAX);
}

static void walk_certificates(struct walk *w, struct str *certificates, size_t *n)
{
	walk_count(w, n, WIRE_ACCOUNT_CERTIFICATES_MAX);
	for (size_t i = 0; i < *n; i++)
		walk_text(w, &certificates[i], WIRE_ACCOUNT_CERTIFICATE_MAX);
}

static void walk_caps(struct walk *w, uint32_t *caps)
{
	for (unsigned i = 0; i < WIRE_CAPS; i++) {
		walk_number32(w, &caps[i]);
		if (caps[i] > WIRE_ACCOUNT_CAP_MAX && caps[i] != WIRE_ACCOUNT_CAP_KEEP && caps[i] != WIRE_ACCOUNT_CAP_DEFAULT)
			w->bad = true;
	}
}

static void walk_request(struct walk *w, struct wire_account_request *r)
{
	uint64_t op = r->op;
	walk_number(w, &op, 1);
	if (op < WIRE_ACCOUNT_ADD || op > WIRE_OVERLAY_LIST)
		w->bad = true;
	r->op = (enum wire_account_op)op;
	/* names and passwords as somebody typed them: what is wrong with one is said by whoever looks at it */
	walk_string(w, &r->name, WIRE_SIGNIN_TEXT_MAX);
	walk_flag(w, &r->set_password);
	walk_string(w, &r->password, 2 * WIRE_SIGNIN_PASSWORD_MAX);
	walk_flag(w, &r->set_enabled);
	walk_flag(w, &r->enabled);
	walk_flag(w, &r->set_senders);
	walk_flag(w, &r->set_certificates);
	walk_senders(w, r->senders, &r->n_senders);
	walk_certificates(w, r->certificates, &r->n_certificates);
	walk_caps(w, r->caps);
	walk_text(w, &r->section, WIRE_OVERLAY_NAME_MAX);
	walk_text(w, &r->option, WIRE_OVERLAY_NAME_MAX);
	walk_string(w, &r->value, WIRE_OVERLAY_VALUE_MAX);
}

static void walk_overlay(struct walk *w, struct wire_overlay_row *r)
{
	walk_text(w, &r->section, WIRE_OVERLAY_NAME_MAX);
	walk_text(w, &r->option, WIRE_OVERLAY_NAME_MAX);
	walk_string(w, &r->value, WIRE_OVERLAY_VALUE_MAX);
}

static void walk_answer(struct walk *w, struct wire_account_answer *a)
{
	walk_flag(w, &a->ok);
	walk_text(w, &a->error, WIRE_SIGNIN_TEXT_MAX);
	walk_flag(w, &a->more);
	walk_string(w, &a->rows, WIRE_ACCOUNT_ROWS_MAX);
}

static void walk_row(struct walk *w, struct wire_account_row *r)
{
	walk_text(w, &r->name, WIRE_SIGNIN_NAME_MAX);
	walk_flag(w, &r->has_password);
	walk_flag(w, &r->enabled);
	walk_senders(w, r->senders, &r->n_senders);
	walk_certificates(w, r->certificates, &r->n_certificates);
	walk_caps(w, r->caps);
	walk_number(w, &r->created_at, 8);
	walk_number(w, &r->changed_at, 8);
	walk_number(w, &r->signed_in_at, 8);
}

/* Two walks over a copy: the first counts, so that all room is had at once (a growing buffer would leave a password behind). */
#define PUT(out, value, fn, limit)                                                                                      \
	do {                                                                                                           \
		struct walk w = { .mode = WALK_COUNT };                                                                \
		fn(&w, &(value));                                                                                      \
		if (w.bad || w.n > (limit) || (out)->failed || (out)->n > (out)->max || w.n > (out)->max - (out)->n)     \
			return -1;                                                                                     \
		char *at = buf_room((out), w.n);                                                                       \
		if (!at)                                                                                               \
			return -1;                                                                                     \
		w = (struct walk){ .mode = WALK_WRITE, .at = at };                                                     \
		fn(&w, &(value));                                                                                      \
		(out)->n += w.n;                                                                                       \
		(out)->p[(out)->n] = 0;                                                                                \
	} while (0)

int wire_account_request_put(struct buf *out, const struct wire_account_request *r)
{
	struct wire_account_request copy = *r;
	if (out->n)
		return -1;
	PUT(out, copy, walk_request, WIRE_ACCOUNT_DATAGRAM_MAX);
	return 0;
}

int wire_account_request_get(struct str datagram, struct wire_account_request *ret)
{
	struct walk w = { .mode = WALK_READ, .in = datagram };
	memset(ret, 0, sizeof *ret);
	walk_request(&w, ret);
	return w.bad || w.in.n ? -1 : 0;
}

int wire_account_answer_put(struct buf *out, const struct wire_account_answer *a)
{
	struct wire_account_answer copy = *a;
	if (out->n)
		return -1;
	PUT(out, copy, walk_answer, WIRE_ACCOUNT_DATAGRAM_MAX);
	return 0;
}

int wire_account_answer_get(struct str datagram, struct wire_account_answer *ret)
{
	struct walk w = { .mode = WALK_READ, .in = datagram };
	memset(ret, 0, sizeof *ret);
	walk_answer(&w, ret);
	return w.bad || w.in.n ? -1 : 0;
}

int wire_account_row_put(struct buf *out, const struct wire_account_row *r)
{
	struct wire_account_row copy = *r;
	PUT(out, copy, walk_row, WIRE_ACCOUNT_ROWS_MAX);
	return 0;
}

int wire_account_row_get(struct str *rest, struct wire_account_row *ret)
{
	struct walk w = { .mode = WALK_READ, .in = *rest };
	if (!rest->n)
		return 0;
	memset(ret, 0, sizeof *ret);
	walk_row(&w, ret);
	if (w.bad)
		return -1;
	*rest = w.in;
	return 1;
}

int wire_overlay_row_put(struct buf *out, const struct wire_overlay_row *r)
{
	struct wire_overlay_row copy = *r;
	PUT(out, copy, walk_overlay, WIRE_ACCOUNT_ROWS_MAX);
	return 0;
}

int wire_overlay_row_get(struct str *rest, struct wire_overlay_row *ret)
{
	struct walk w = { .mode = WALK_READ, .in = *rest };
	if (!rest->n)
		return 0;
	memset(ret, 0, sizeof *ret);
	walk_overlay(&w, ret);
	if (w.bad)
		return -1;
	*rest = w.in;
	return 1;
}
