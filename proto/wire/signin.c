/* Messages between the reactor and the admin child: see signin.h. u8 op | u64 id | what the op has, integers little-endian,
 * strings as u32 length and octets, lists as u8 count and elements. One table per op would hide that both directions are the
 * same walk, so there is one walk: it counts, writes or reads. Believes no length before it has been held against what is
 * there; has no memory of its own. */
#include "signin.h"

enum walk_mode { COUNT, WRITE, READ };

struct walk {
	enum walk_mode mode;
	size_t n;        /* COUNT, WRITE: octets so far */
	char *at;        /* WRITE */
	struct str in;   /* READ */
	bool bad;
};

static void number(struct walk *w, uint64_t *v, unsigned octets)
{
	if (w->mode == READ) {
		if (w->bad || w->in.n < octets) {
			w->bad = true;
			*v = 0;
			return;
		}
		*v = 0;
		for (unsigned i = 0; i < octets; i++)
			*v |= (uint64_t)(unsigned char)w->in.p[i] << (8 * i);
		w->in = str_skip(w->in, octets);
		return;
	}
	if (w->mode == WRITE)
		for (unsigned i = 0; i < octets; i++)
			w->at[w->n + i] = (char)(*v >> (8 * i) & 0xff);
	w->n += octets;
}

static void number32(struct walk *w, uint32_t *v)
{
	uint64_t x = *v;
	number(w, &x, 4);
	*v = (uint32_t)x;
}

static void flag(struct walk *w, bool *v)
{
	uint64_t x = *v;
	number(w, &x, 1);
	if (x > 1)
		w->bad = true;
	*v = x == 1;
}

static void string(struct walk *w, struct str *s, size_t max)
{
	uint64_t n = s->n;
	if (w->mode != READ && n > max)
		w->bad = true;
	if (w->bad && w->mode != READ)
		return;
	number(w, &n, 4);
	if (w->mode == READ) {
		if (w->bad || n > max || n > w->in.n) {
			w->bad = true;
			*s = STR_NULL;
			return;
		}
		*s = str_n(w->in.p, n);
		w->in = str_skip(w->in, n);
		return;
	}
	if (w->mode == WRITE && n)
		memcpy(w->at + w->n, s->p, n);
	w->n += n;
}

/* What goes into logs and headers: no control octets, so a line stays a line whoever writes it. */
static void text(struct walk *w, struct str *s, size_t max)
{
	string(w, s, max);
	for (size_t i = 0; i < s->n && !w->bad; i++)
		if ((unsigned char)s->p[i] < 0x20 || s->p[i] == 0x7f)
			w->bad = true;
}

static void count(struct walk *w, size_t *n, size_t max)
{
	uint64_t x = *n;
	number(w, &x, 1);
	if (x > max || *n > 255)
		w->bad = true;
	*n = w->bad ? 0 : x;
}

static void walk_start(struct walk *w, struct wire_signin_start *s)
{
	text(w, &s->service, 32);
	text(w, &s->mechanism, 32);
	text(w, &s->client, 64);
	text(w, &s->local, 64);
	text(w, &s->listener, WIRE_SIGNIN_NAME_MAX);
	text(w, &s->helo, WIRE_SIGNIN_TEXT_MAX);
	text(w, &s->tls_version, 32);
	text(w, &s->tls_cipher, 64);
	count(w, &s->n_bindings, WIRE_SIGNIN_BINDINGS_MAX);
	for (size_t i = 0; i < s->n_bindings; i++) {
		text(w, &s->bindings[i].type, 32);
		string(w, &s->bindings[i].data, WIRE_SIGNIN_BINDING_MAX);
	}
	flag(w, &s->has_cert);
	flag(w, &s->cert_verified);
	string(w, &s->cert_digest, 32);
	text(w, &s->cert_subject, WIRE_SIGNIN_TEXT_MAX);
	count(w, &s->n_cert_emails, WIRE_SIGNIN_EMAILS_MAX);
	for (size_t i = 0; i < s->n_cert_emails; i++)
		text(w, &s->cert_emails[i], WIRE_SIGNIN_TEXT_MAX);
	flag(w, &s->has_initial);
	string(w, &s->initial, WIRE_SIGNIN_BLOB_MAX);
	if ((!s->has_initial && s->initial.n) || (s->has_cert ? s->cert_digest.n != 32 : s->cert_verified || s->cert_digest.n) ||
	    !s->mechanism.n)
		w->bad = true;
}

static void walk_ok(struct walk *w, struct wire_signin_ok *o)
{
	text(w, &o->account, WIRE_SIGNIN_NAME_MAX);
	text(w, &o->backend, 32);
	count(w, &o->n_senders, WIRE_SIGNIN_SENDERS_MAX);
	for (size_t i = 0; i < o->n_senders; i++)
		text(w, &o->senders[i], 320);
	number32(w, &o->messages_hour);
	number32(w, &o->messages_day);
	number32(w, &o->recipients_hour);
	number32(w, &o->recipients_day);
	if (!o->account.n)
		w->bad = true;
}

static void walk_fail(struct walk *w, struct wire_signin_fail *f)
{
	uint64_t why = f->why;
	number(w, &why, 1);
	if (why < WIRE_SIGNIN_CREDENTIALS || why > WIRE_SIGNIN_AWAY)
		w->bad = true;
	f->why = (enum wire_signin_why)why;
	text(w, &f->account, WIRE_SIGNIN_NAME_MAX);
	text(w, &f->backend, 32);
	text(w, &f->reason, WIRE_SIGNIN_TEXT_MAX);
}

static void walk_counts(struct walk *w, struct wire_signin_counts *c)
{
	number32(w, &c->hashing);
	number32(w, &c->hashing_max);
	number32(w, &c->queued);
	number32(w, &c->queue_max);
	number32(w, &c->exchanges);
	number(w, &c->hashed, 8);
	number(w, &c->hash_us, 8);
	number(w, &c->busy, 8);
	count(w, &c->n_backends, WIRE_SIGNIN_BACKENDS_MAX);
	for (size_t i = 0; i < c->n_backends; i++) {
		text(w, &c->backends[i].name, 32);
		flag(w, &c->backends[i].up);
		number(w, &c->backends[i].ok, 8);
		number(w, &c->backends[i].refused, 8);
		number(w, &c->backends[i].away, 8);
	}
}

static void walk(struct walk *w, struct wire_signin *m)
{
	uint64_t op = m->op;
	number(w, &op, 1);
	if (op < WIRE_SIGNIN_START || op > WIRE_SIGNIN_COUNTS)
		w->bad = true;
	if (w->bad)
		return;
	m->op = (enum wire_signin_op)op;
	number(w, &m->id, 8);
	if ((m->id == 0) != (m->op >= WIRE_SIGNIN_OFFER))
		w->bad = true;
	switch (m->op) {
	case WIRE_SIGNIN_START:
		walk_start(w, &m->start);
		break;
	case WIRE_SIGNIN_CONT:
	case WIRE_SIGNIN_CHALLENGE:
		string(w, &m->blob, WIRE_SIGNIN_BLOB_MAX);
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
		text(w, &m->offer.mechanisms, WIRE_SIGNIN_TEXT_MAX);
		break;
	case WIRE_SIGNIN_COUNTS:
		walk_counts(w, &m->counts);
		break;
	}
}

int wire_signin_put(struct buf *out, const struct wire_signin *m)
{
	struct wire_signin copy = *m; /* the walk takes what it may write to, and when not reading writes nothing new */
	struct walk w = { .mode = COUNT };
	walk(&w, &copy);
	if (w.bad || out->n || w.n > WIRE_SIGNIN_DATAGRAM_MAX)
		return -1;
	/* all room at once: growing would leave copies of a secret behind */
	char *at = buf_room(out, w.n);
	if (!at) {
		buf_reset(out);
		return -1;
	}
	copy = *m;
	w = (struct walk){ .mode = WRITE, .at = at };
	walk(&w, &copy);
	out->n = w.n;
	out->p[out->n] = 0;
	return 0;
}

int wire_signin_get(struct str datagram, struct wire_signin *ret)
{
	struct wire_signin m;
	struct walk w = { .mode = READ, .in = datagram };
	memset(&m, 0, sizeof m);
	if (datagram.n > WIRE_SIGNIN_DATAGRAM_MAX)
		return -1;
	walk(&w, &m);
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
