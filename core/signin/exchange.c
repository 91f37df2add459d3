/* One client signing in. The mechanism is proto/sasl's, who it is the backends' matter; this file carries questions and answers between
 * them, and holds the time. An exchange is found again by number: a late answer to one that is gone finds nobody. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

/* ---- life */

struct exchange *exchange_find(struct signin *s, uint64_t serial)
{
	return map_get(&s->by_serial, serial);
}

static void exchange_free(struct exchange *x)
{
	struct signin *s = x->s;
	map_del(&s->by_id, x->id);
	map_del(&s->by_serial, x->serial);
	if (x->ticket)
		keeper_drop(x->keeper, x->ticket);
	if (x->dovecot_id)
		dovecot_forget(s->dovecot, x);
	sasl_server_free(x->sasl);
	buf_free_secret(&x->kept);
	buf_free_secret(&x->last);
	buf_free(&x->senders_text);
	explicit_bzero(x, sizeof *x);
	free(x);
}

void exchange_end_all(struct signin *s)
{
	struct exchange *x;
	size_t pos = 0;
	uint64_t id;
	while ((x = map_next(&s->by_id, &pos, &id)))
		exchange_free(x);
}

static void send_fail(struct signin *s, uint64_t id, enum wire_signin_why why, const char *account, const char *backend,
    const char *reason)
{
	struct wire_signin m = { .op = WIRE_SIGNIN_FAIL, .id = id };
	char line[200]; /* one line of plain text, whatever a library said */
	size_t n = 0;
	for (; *reason && n < sizeof line - 1; reason++)
		line[n++] = (unsigned char)*reason < 0x20 || *reason == 0x7f ? ' ' : *reason;
	m.fail = (struct wire_signin_fail){ why, str_from(account), str_from(backend), str_n(line, n) };
	s->counts_changed = true;
	signin_send(s, &m);
}

void exchange_fail(struct exchange *x, enum wire_signin_why why, const char *reason)
{
	struct signin *s = x->s;
	struct backend *b = x->backend < s->n_backends ? &s->backends[x->backend] : NULL;
	if (b && wire_signin_temporary(why))
		b->away++;
	else if (b)
		b->refused++;
	send_fail(s, x->id, why, x->account, b ? backend_name(b->kind) : "", reason);
	exchange_free(x);
}

static void succeed(struct exchange *x)
{
	struct signin *s = x->s;
	struct backend *b = &s->backends[x->backend];
	struct wire_signin m = { .op = WIRE_SIGNIN_OK, .id = x->id };
	m.ok = (struct wire_signin_ok){ .account = str_from(x->account), .backend = str_from(backend_name(b->kind)), .n_senders = x->n_senders,
		.messages_hour = x->caps[STORE_CAP_MESSAGES_HOUR], .messages_day = x->caps[STORE_CAP_MESSAGES_DAY],
		.recipients_hour = x->caps[STORE_CAP_RECIPIENTS_HOUR], .recipients_day = x->caps[STORE_CAP_RECIPIENTS_DAY] };
	for (size_t i = 0; i < x->n_senders; i++)
		m.ok.senders[i] = x->senders[i];
	b->ok++;
	s->counts_changed = true;
	if (x->row_there && x->row_stale)
		store_account_seen(s->db, m.ok.account);
	signin_send(s, &m);
	exchange_free(x);
}

static void challenge(struct exchange *x, struct str blob)
{
	struct wire_signin m = { .op = WIRE_SIGNIN_CHALLENGE, .id = x->id, .blob = blob };
	x->waiting = false;
	x->deadline = clock_mono_us() + PATIENCE_S * US_PER_S;
	signin_send(x->s, &m);
}

static void wait_for_backend(struct exchange *x)
{
	x->waiting = true;
	x->deadline = clock_mono_us() + BACKEND_S * US_PER_S;
}

/* ---- the mechanism's steps */

static enum wire_signin_why why_of(enum sasl_failure f)
{
	switch (f) {
	case SASL_F_MALFORMED:
		return WIRE_SIGNIN_MALFORMED;
	case SASL_F_IDENTITY:
		return WIRE_SIGNIN_DENIED;
	case SASL_F_LATER:
		return WIRE_SIGNIN_AWAY;
	default:
		return WIRE_SIGNIN_CREDENTIALS;
	}
}

/* The name as the mechanism has it, in its one form. A name that is none is nobody's: "". */
static void take_name(struct exchange *x)
{
	if (wire_signin_name(sasl_server_name(x->sasl), x->account) < 0)
		x->account[0] = 0;
	x->row_known = false;
}

static void step(struct exchange *x, enum sasl_server_state state)
{
	switch (state) {
	case SASL_CHALLENGE:
		challenge(x, sasl_server_challenge(x->sasl));
		break;
	case SASL_NEED_PASSWORD:
		take_name(x);
		wait_for_backend(x);
		backend_password(x);
		break;
	case SASL_NEED_VERIFIER:
		take_name(x);
		wait_for_backend(x);
		backend_verifier(x);
		break;
	case SASL_NEED_TOKEN:
		take_name(x);
		wait_for_backend(x);
		oauth_check(x->s->oauth, x);
		break;
	case SASL_NEED_CERTIFICATE:
		take_name(x);
		wait_for_backend(x);
		backend_certificate(x);
		break;
	case SASL_NEED_ACCOUNT: /* SCRAM: proved by the verifier of x->account */
		wait_for_backend(x);
		backend_policy(x);
		break;
	case SASL_OK:
		succeed(x);
		break;
	case SASL_FAIL:
		exchange_fail(x, x->why ? x->why : why_of(sasl_server_failure(x->sasl)), x->reason[0] ? x->reason : sasl_server_reason(x->sasl));
		break;
	}
}

static void note(struct exchange *x, enum wire_signin_why why, const char *reason)
{
	x->why = why;
	snprintf(x->reason, sizeof x->reason, "%s", reason);
}

void exchange_verdict(struct exchange *x, enum verdict v, bool final, struct str account, const char *reason)
{
	static const enum wire_signin_why whys[] = { [VERDICT_NO] = WIRE_SIGNIN_CREDENTIALS, [VERDICT_DISABLED] = WIRE_SIGNIN_DISABLED,
		[VERDICT_DENIED] = WIRE_SIGNIN_DENIED, [VERDICT_AWAY] = WIRE_SIGNIN_AWAY, [VERDICT_BUSY] = WIRE_SIGNIN_BUSY };
	char name[WIRE_SIGNIN_NAME_MAX + 1];
	explicit_bzero(x->phc, sizeof x->phc);
	if (v == VERDICT_YES) {
		if (wire_signin_name(account, name) < 0) {
			exchange_verdict(x, VERDICT_DENIED, true, STR_NULL, "the backend's account name has no usable form");
			return;
		}
		if (strcmp(name, x->account) != 0) {
			memcpy(x->account, name, sizeof name);
			x->row_known = false;
		}
		backend_policy(x);
		return;
	}
	if (v == VERDICT_NO && !final && x->sasl && sasl_server_state(x->sasl) == SASL_NEED_PASSWORD && backend_next(x)) {
		backend_password(x);
		return;
	}
	note(x, whys[v], reason);
	if (!x->sasl)
		exchange_fail(x, x->why, x->reason);
	else
		step(x, sasl_server_answer(x->sasl, v == VERDICT_AWAY || v == VERDICT_BUSY ? SASL_LATER : SASL_NO, STR_NULL));
}

void exchange_verifier(struct exchange *x, struct str text)
{
	struct scram_verifier v;
	bool good = text.n && scram_verifier_parse(text, &v) == 0;
	/* whether there is such an account or not, "Bob" and "bob" must look like one name; without memory it is a try that fails later */
	sasl_server_one_form(x->sasl, str_from(x->account));
	enum sasl_server_state st = sasl_server_verifier(x->sasl, good ? &v : NULL);
	if (good)
		scram_verifier_wipe(&v);
	else
		note(x, WIRE_SIGNIN_CREDENTIALS, text.n ? "the stored SCRAM verifier cannot be read" : "no such account, or it has no password");
	step(x, st);
}

void exchange_accepted(struct exchange *x)
{
	if (x->sasl) {
		step(x, sasl_server_answer(x->sasl, SASL_YES, str_from(x->account)));
	} else if (x->last.n && !x->last_sent) {
		x->last_sent = true; /* SMTP has no place for it beside the 235 (RFC 4954 §4) */
		challenge(x, buf_str(&x->last));
	} else {
		succeed(x);
	}
}

void exchange_relay_challenge(struct exchange *x, struct str blob)
{
	challenge(x, blob);
}

/* ---- what the reactor says */

static bool keep(struct buf *to, struct str *s)
{
	size_t at = to->n;
	if (buf_adds(to, *s))
		return false;
	*s = str_n(s->n ? to->p + at : NULL, s->n);
	return true;
}

/* Strings of the datagram into the exchange's own memory. */
static bool keep_start(struct exchange *x, const struct wire_signin_start *from)
{
	struct wire_signin_start *st = &x->start;
	*st = *from;
	st->initial = STR_NULL; /* the mechanism has its copy */
	st->backends = STR_NULL; /* x->allowed */
	x->kept = BUF_INIT(WIRE_SIGNIN_DATAGRAM_MAX);
	if (!buf_room(&x->kept, 24 * 1024)) /* more than all fields below can be: it must not move */
		return false;
	bool ok = keep(&x->kept, &st->service) && keep(&x->kept, &st->mechanism) && keep(&x->kept, &st->client) && keep(&x->kept, &st->local) &&
	    keep(&x->kept, &st->listener) && keep(&x->kept, &st->helo) && keep(&x->kept, &st->tls_version) && keep(&x->kept, &st->tls_cipher) &&
	    keep(&x->kept, &st->cert_digest) && keep(&x->kept, &st->cert_subject);
	for (size_t i = 0; ok && i < st->n_bindings; i++)
		ok = keep(&x->kept, &st->bindings[i].type) && keep(&x->kept, &st->bindings[i].data);
	for (size_t i = 0; ok && i < st->n_cert_emails; i++)
		ok = keep(&x->kept, &st->cert_emails[i]);
	return ok;
}

static int make_nonce(char *out, size_t size)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned char r[32];
	if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r || size < sizeof r + 1)
		return -1;
	for (size_t i = 0; i < sizeof r; i++)
		out[i] = digits[r[i] & 63];
	out[sizeof r] = 0;
	return 0;
}

static struct sasl_server *make_mechanism(struct exchange *x)
{
	struct sasl_server_conf conf = { .dummy_key = str_n(x->s->dummy_key, sizeof x->s->dummy_key), .n_bindings = x->start.n_bindings,
		.plus_offered = x->start.plus_offered };
	char nonce[40];
	const char *scope = config_str(x->s->config, "pepsi-signin", "OAUTH_SCOPE"),
		   *openid = config_str(x->s->config, "pepsi-signin", "OAUTH_DISCOVERY");
	if (sasl_mech_parse(x->start.mechanism, &conf.mech) || make_nonce(nonce, sizeof nonce))
		return NULL;
	conf.nonce = str_from(nonce);
	conf.scope = str_from(scope);
	conf.openid_configuration = str_from(openid);
	for (size_t i = 0; i < conf.n_bindings; i++)
		conf.bindings[i] = (struct sasl_binding){ x->start.bindings[i].type, x->start.bindings[i].data };
	return sasl_server_make(&conf);
}

static void start(struct signin *s, uint64_t id, const struct wire_signin_start *st)
{
	struct exchange *x = map_get(&s->by_id, id);
	bool relay;
	if (x) { /* it has forgotten the old one */
		log_error(NULL, "event=signin-reused id=%llu", (unsigned long long)id);
		exchange_free(x);
	}
	if (s->by_id.n >= EXCHANGES_MAX || !(x = calloc(1, sizeof *x))) {
		send_fail(s, id, WIRE_SIGNIN_BUSY, "", "", "too many clients are signing in at once");
		return;
	}
	x->s = s;
	x->id = id;
	x->serial = ++s->next_serial;
	x->last = BUF_INIT(WIRE_SIGNIN_BLOB_MAX);
	x->senders_text = BUF_INIT(64 * 1024);
	x->allowed = backend_mask(s, st->backends);
	x->backend = backend_choose(s, x->allowed, st->mechanism, &relay);
	if (!keep_start(x, st) || map_put(&s->by_id, id, x) || map_put(&s->by_serial, x->serial, x)) {
		send_fail(s, id, WIRE_SIGNIN_BUSY, "", "", "out of memory");
		exchange_free(x);
	} else if (x->backend == s->n_backends) {
		exchange_fail(x, WIRE_SIGNIN_MECHANISM, "no backend has this mechanism, or the one that has is away");
	} else if (relay) {
		wait_for_backend(x);
		if (dovecot_begin(s->dovecot, x, x->start.mechanism, st->has_initial, st->initial))
			exchange_fail(x, WIRE_SIGNIN_AWAY, "Dovecot's auth service is away");
	} else if (!(x->sasl = make_mechanism(x))) {
		exchange_fail(x, WIRE_SIGNIN_BUSY, "the mechanism could not be set up (memory, or a channel binding without form)");
	} else {
		step(x, sasl_server_feed(x->sasl, st->has_initial, st->initial));
	}
}

void exchange_message(struct signin *s, const struct wire_signin *m)
{
	struct exchange *x;
	switch (m->op) {
	case WIRE_SIGNIN_START:
		start(s, m->id, &m->start);
		break;
	case WIRE_SIGNIN_CONT:
		if (!(x = map_get(&s->by_id, m->id))) {
			send_fail(s, m->id, WIRE_SIGNIN_AWAY, "", "", "the client took too long");
		} else if (x->waiting) {
			exchange_fail(x, WIRE_SIGNIN_MALFORMED, "a message out of turn");
		} else if (x->sasl) {
			step(x, sasl_server_feed(x->sasl, true, m->blob));
		} else if (x->last_sent) {
			if (m->blob.n)
				exchange_fail(x, WIRE_SIGNIN_MALFORMED, "a message behind the end");
			else
				succeed(x);
		} else {
			wait_for_backend(x);
			if (dovecot_continue(s->dovecot, x, m->blob))
				exchange_fail(x, WIRE_SIGNIN_AWAY, "Dovecot's auth service went away");
		}
		break;
	case WIRE_SIGNIN_CANCEL:
		if ((x = map_get(&s->by_id, m->id)))
			exchange_free(x);
		s->counts_changed = true;
		break;
	case WIRE_SIGNIN_SYSTEM:
		system_ask(s, m);
		break;
	default:
		log_error(NULL, "event=signin-garbage op=%d", (int)m->op);
		signin_stop(s, 1);
	}
}

void exchange_tick(struct signin *s, int64_t now)
{
	struct exchange *x;
	size_t pos = 0;
	uint64_t id;
	while ((x = map_next(&s->by_id, &pos, &id))) {
		if (now < x->deadline)
			continue;
		if (x->waiting)
			exchange_fail(x, WIRE_SIGNIN_AWAY, "a backend did not answer in time");
		else
			exchange_free(x); /* its next message is told so */
	}
}
