/* Messages between the reactor and the admin child: see signin.h. u8 op | u64 id | what the op has, by walk.h. Has no memory of
 * its own and keeps nothing. */
#include "signin.h"

#include "walk.h"

static void walk_start(struct walk *w, struct wire_signin_start *s)
{
	walk_text(w, &s->service, 32);
	walk_text(w, &s->mechanism, 32);
	walk_text(w, &s->client, 64);
	walk_text(w, &s->local, 64);
	walk_text(w, &s->listener, WIRE_SIGNIN_NAME_MAX);
	walk_text(w, &s->backends, WIRE_SIGNIN_TEXT_MAX);
	walk_text(w, &s->helo, WIRE_SIGNIN_TEXT_MAX);
	walk_text(w, &s->tls_version, 32);
	walk_text(w, &s->tls_cipher, 64);
	walk_count(w, &s->n_bindings, WIRE_SIGNIN_BINDINGS_MAX);
	for (size_t i = 0; i < s->n_bindings; i++) {
		walk_text(w, &s->bindings[i].type, 32);
		walk_string(w, &s->bindings[i].data, WIRE_SIGNIN_BINDING_MAX);
	}
	walk_flag(w, &s->plus_offered);
	walk_flag(w, &s->has_cert);
	walk_flag(w, &s->cert_verified);
	walk_string(w, &s->cert_digest, 32);
	walk_text(w, &s->cert_subject, WIRE_SIGNIN_TEXT_MAX);
	walk_count(w, &s->n_cert_emails, WIRE_SIGNIN_EMAILS_MAX);
	for (size_t i = 0; i < s->n_cert_emails; i++)
		walk_text(w, &s->cert_emails[i], WIRE_SIGNIN_TEXT_MAX);
	walk_flag(w, &s->has_initial);
	walk_string(w, &s->initial, WIRE_SIGNIN_BLOB_MAX);
	if ((!s->has_initial && s->initial.n) || (s->has_cert ? s->cert_digest.n != 32 : s->cert_verified || s->cert_digest.n) ||
	    !s->mechanism.n)
		w->bad = true;
}

static void walk_ok(struct walk *w, struct wire_signin_ok *o)
{
	walk_text(w, &o->account, WIRE_SIGNIN_NAME_MAX);
	walk_text(w, &o->backend, 32);
	walk_count(w, &o->n_senders, WIRE_SIGNIN_SENDERS_MAX);
	for (size_t i = 0; i < o->n_senders; i++)
		walk_text(w, &o->senders[i], 320);
	walk_number32(w, &o->messages_hour);
	walk_number32(w, &o->messages_day);
	walk_number32(w, &o->recipients_hour);
	walk_number32(w, &o->recipients_day);
	if (!o->account.n)
		w->bad = true;
}

static void walk_fail(struct walk *w, struct wire_signin_fail *f)
{
	uint64_t why = f->why;
	walk_number(w, &why, 1);
	if (why < WIRE_SIGNIN_CREDENTIALS || why > WIRE_SIGNIN_AWAY)
		w->bad = true;
	f->why = (enum wire_signin_why)why;
	walk_text(w, &f->account, WIRE_SIGNIN_NAME_MAX);
	walk_text(w, &f->backend, 32);
	walk_text(w, &f->reason, WIRE_SIGNIN_TEXT_MAX);
}

static void walk_offer(struct walk *w, struct wire_signin_offer *o)
{
	walk_text(w, &o->mechanisms, WIRE_SIGNIN_TEXT_MAX);
	walk_count(w, &o->n_backends, WIRE_SIGNIN_BACKENDS_MAX);
	for (size_t i = 0; i < o->n_backends; i++) {
		walk_text(w, &o->backends[i].name, 32);
		walk_text(w, &o->backends[i].mechanisms, WIRE_SIGNIN_TEXT_MAX);
	}
}

static void walk_counts(struct walk *w, struct wire_signin_counts *c)
{
	walk_number32(w, &c->hashing);
	walk_number32(w, &c->hashing_max);
	walk_number32(w, &c->queued);
	walk_number32(w, &c->queue_max);
	walk_number32(w, &c->exchanges);
	walk_number(w, &c->hashed, 8);
	walk_number(w, &c->hash_us, 8);
	walk_number(w, &c->busy, 8);
	walk_count(w, &c->n_backends, WIRE_SIGNIN_BACKENDS_MAX);
	for (size_t i = 0; i < c->n_backends; i++) {
		walk_text(w, &c->backends[i].name, 32);
		walk_flag(w, &c->backends[i].up);
		walk_number(w, &c->backends[i].ok, 8);
		walk_number(w, &c->backends[i].refused, 8);
		walk_number(w, &c->backends[i].away, 8);
	}
}

static void walk_message(struct walk *w, struct wire_signin *m)
{
	uint64_t op = m->op;
	walk_number(w, &op, 1);
	if (op < WIRE_SIGNIN_START || op > WIRE_SIGNIN_SYSTEM_IS)
		w->bad = true;
	if (w->bad)
		return;
	m->op = (enum wire_signin_op)op;
	walk_number(w, &m->id, 8);
	if ((m->id == 0) != (m->op == WIRE_SIGNIN_OFFER || m->op == WIRE_SIGNIN_COUNTS))
		w->bad = true;
	switch (m->op) {
	case WIRE_SIGNIN_START:
		walk_start(w, &m->start);
		break;
	case WIRE_SIGNIN_CONT:
	case WIRE_SIGNIN_CHALLENGE:
		walk_string(w, &m->blob, WIRE_SIGNIN_BLOB_MAX);
		break;
	case WIRE_SIGNIN_CANCEL:
		break;
	case WIRE_SIGNIN_OK:
		walk_ok(w, &m->ok);
		break;
	case WIRE_SIGNIN_FAIL:
		walk_fail(w, &m->fail);
		break;
	case WIRE_SIGNIN_OFFER:
		walk_offer(w, &m->offer);
		break;
	case WIRE_SIGNIN_COUNTS:
		walk_counts(w, &m->counts);
		break;
	case WIRE_SIGNIN_SYSTEM:
		walk_string(w, &m->system, WIRE_SIGNIN_NAME_MAX);
		if (!m->system.n)
			w->bad = true;
		break;
	case WIRE_SIGNIN_SYSTEM_IS: {
		uint64_t is = m->system_is;
		walk_number(w, &is, 1);
		if (is < WIRE_SYSTEM_YES || is > WIRE_SYSTEM_AWAY)
			w->bad = true;
		m->system_is = (enum wire_signin_system)is;
		break;
	}
	}
}

int wire_signin_put(struct buf *out, const struct wire_signin *m)
{
	struct wire_signin copy = *m; /* the walk takes what it may write to, and when not reading writes nothing new */
	struct walk w = { .mode = WALK_COUNT };
	walk_message(&w, &copy);
	if (w.bad || out->n || w.n > WIRE_SIGNIN_DATAGRAM_MAX)
		return -1;
	/* all room at once: growing would leave copies of a secret behind */
	char *at = buf_room(out, w.n);
	if (!at) {
		buf_reset(out);
		return -1;
	}
	copy = *m;
	w = (struct walk){ .mode = WALK_WRITE, .at = at };
	walk_message(&w, &copy);
	out->n = w.n;
	out->p[out->n] = 0;
	return 0;
}

int wire_signin_get(struct str datagram, struct wire_signin *ret)
{
	struct wire_signin m;
	struct walk w = { .mode = WALK_READ, .in = datagram };
	memset(&m, 0, sizeof m);
	if (datagram.n > WIRE_SIGNIN_DATAGRAM_MAX)
		return -1;
	walk_message(&w, &m);
	if (w.bad || w.in.n)
		return -1;
	*ret = m;
	return 0;
}

bool wire_signin_temporary(enum wire_signin_why why)
{
	return why == WIRE_SIGNIN_BUSY || why == WIRE_SIGNIN_AWAY;
}

const char *wire_signin_why_name(enum wire_signin_why why)
{
	static const char *const names[] = { "?", "credentials", "disabled", "denied", "malformed", "mechanism", "busy", "away" };
	return names[why >= WIRE_SIGNIN_CREDENTIALS && why <= WIRE_SIGNIN_AWAY ? why : 0];
}

void wire_signin_wipe(void *p, size_t n)
{
	if (p && n)
		explicit_bzero(p, n);
}
