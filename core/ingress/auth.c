/* Exchanges: from the engine's AUTH to its answer, with the throttling in between. See auth.h. A reply to a client never
 * tells more than that the sign-in failed; why, is in the log. */
#include "auth_internal.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum { FAILURE_LINES_A_SECOND = 20, LEVEL_MAX = 2 };

const char *const auth_result_names[AUTH_RESULTS] = { "ok", "credentials", "disabled", "denied", "malformed", "mechanism", "busy",
	"away", "timeout", "throttled", "cancelled" };

static const struct smtp_reply reply_no = { 535, "5.7.8", "Sign-in failed: name or password is wrong" };
static const struct smtp_reply reply_malformed = { 501, "5.5.2", "Not a message of this mechanism" };
static const struct smtp_reply reply_mechanism = { 504, "5.5.4", "Mechanism not supported" };
static const struct smtp_reply reply_later = { 454, "4.7.0", "Sign-in is not possible at the moment; try again later" };
static const struct smtp_reply reply_throttled = { 454, "4.7.0", "Too many failed sign-ins; try again later" };
static const struct smtp_reply reply_enough = { 421, "4.7.0", "Too many failed sign-ins" };

/* --- life --- */

struct auth *auth_new(struct ingress *in, const struct auth_settings *set)
{
	struct auth *a = calloc(1, sizeof *a);
	if (!a || !(a->guesses = guesses_new(&set->guess))) {
		free(a);
		return NULL;
	}
	a->in = in;
	a->set = *set;
	a->fd = -1;
	a->line_end = &a->line;
	a->offer = (1u << SASL_MECHS) - 1; /* until the child says what it has: 454 is better than no AUTH at all */
	return a;
}

void auth_settings(struct auth *a, const struct auth_settings *set)
{
	a->set = *set;
	guesses_limits(a->guesses, &set->guess);
}

static struct exchange *exchange_new(struct auth *a, struct session *s, enum sasl_mech mech)
{
	struct exchange *x = calloc(1, sizeof *x);
	if (!x)
		return NULL;
	x->id = ++a->last_id;
	if (map_put(&a->by_id, x->id, x)) {
		free(x);
		return NULL;
	}
	x->auth = a;
	x->session = s;
	x->mech = mech;
	x->state = EXCHANGE_CLIENT;
	x->begun_us = x->since_us = clock_mono_us();
	x->next = a->all;
	if (x->next)
		x->next->prev = x;
	a->all = x;
	a->n++;
	s->exchange = x;
	return x;
}

static void exchange_free(struct exchange *x)
{
	struct auth *a = x->auth;
	auth_unask(x);
	if (x->timer) {
		event_free(x->timer);
		a->n_held--;
	}
	buf_free_secret(&x->message);
	map_del(&a->by_id, x->id);
	*(x->prev ? &x->prev->next : &a->all) = x->next;
	if (x->next)
		x->next->prev = x->prev;
	a->n--;
	x->session->exchange = NULL;
	free(x);
}

void auth_free(struct auth *a)
{
	if (!a)
		return;
	while (a->all)
		exchange_free(a->all);
	auth_peer(a, -1);
	map_done(&a->by_id);
	guesses_free(a->guesses);
	free(a);
}

/* --- telling --- */

static bool may_log(struct auth *a, enum auth_result r)
{
	int64_t second = clock_mono_us() / US_PER_S;
	if (r == AUTH_OK)
		return true;
	if (second != a->line_second) {
		a->line_second = second;
		a->lines = 0;
	}
	if (a->lines++ < FAILURE_LINES_A_SECOND)
		return true;
	a->unlogged++;
	return false;
}

static void tell(struct auth *a, const struct session *s, enum sasl_mech mech, enum auth_result r, struct str account,
    struct str backend, struct str reason)
{
	a->attempts[mech][r]++;
	if (may_log(a, r))
		log_info(&s->log, "event=signin result=%s mech=%s account=%s backend=%s tls=%s tries=%u%s%s", auth_result_names[r],
		    sasl_mech_name(mech), log_q(account), log_q(backend), s->tls_protocol ? s->tls_protocol : "none",
		    s->failed_signins, reason.n ? " reason=" : "", reason.n ? log_q(reason) : "");
}

/* Gives the answer to the engine; the exchange is over. Does not let the session go on. */
static void settle(struct exchange *x, const struct smtp_reply *r)
{
	struct session *s = x->session;
	exchange_free(x);
	if (!s->conn)
		return;
	if (r)
		smtp_server_reject(s->engine, r);
	else
		smtp_server_accept(s->engine, NULL);
	s->deadline_us = clock_mono_us() + s->terms->command_us;
}

void auth_give_up(struct exchange *x, enum auth_result why, const char *reason)
{
	struct session *s = x->session;
	tell(x->auth, s, x->mech, why, STR_NULL, STR_NULL, str_from(reason));
	settle(x, &reply_later);
	session_pump(s);
}

/* --- holding back --- */

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct exchange *x = arg;
	struct session *s = x->session;
	(void)fd;
	(void)what;
	event_free(x->timer);
	x->timer = NULL;
	x->auth->n_held--;
	if (x->state == EXCHANGE_REPLY) {
		struct smtp_reply r = x->reply;
		settle(x, &r);
		session_pump(s);
	} else if (x->auth->fd < 0) {
		auth_give_up(x, AUTH_AWAY, "no admin child");
	} else {
		x->state = EXCHANGE_WAITING;
		x->behind = NULL;
		*x->auth->line_end = x;
		x->auth->line_end = &x->behind;
		x->auth->n_line++;
		x->since_us = clock_mono_us();
		auth_send(x->auth);
	}
}

static int64_t delay(const struct auth *a, unsigned level)
{
	return a->set.delay_us << (level > LEVEL_MAX ? LEVEL_MAX : level);
}

static int hold(struct exchange *x, enum exchange_state state, int64_t us)
{
	struct timeval tv = { us / US_PER_S, us % US_PER_S };
	x->state = state;
	x->timer = evtimer_new(x->auth->in->base, on_timer, x);
	if (!x->timer)
		return -1;
	x->auth->n_held++;
	if (evtimer_add(x->timer, &tv) == 0)
		return 0;
	event_free(x->timer);
	x->timer = NULL;
	x->auth->n_held--;
	return -1;
}

/* A refusal that costs the client time. Where a timer cannot be had it comes at once. Async: the session goes on here. */
static void refuse(struct exchange *x, const struct smtp_reply *r, unsigned level, bool async)
{
	struct session *s = x->session;
	struct auth *a = x->auth;
	bool last = ++s->failed_signins >= a->set.tries && a->set.tries;
	auth_unask(x);
	x->known = false;
	x->reply = last ? reply_enough : *r;
	if (delay(a, level) && !hold(x, EXCHANGE_REPLY, delay(a, level)))
		return;
	struct smtp_reply now = x->reply;
	x->state = EXCHANGE_REPLY;
	settle(x, &now);
	if (async)
		session_pump(s);
}

/* --- what is offered --- */

/* The channel bindings of the connection (RFC 9266, RFC 5929 §4). */
static size_t bindings(const struct session *s, struct wire_signin_binding *ret, unsigned char exporter[32], unsigned char end_point[64])
{
	size_t n = 0, k;
	if (s->conn && !net_conn_tls_exporter(s->conn, exporter))
		ret[n++] = (struct wire_signin_binding){ STR("tls-exporter"), str_n((char *)exporter, 32) };
	if (s->conn && !net_conn_tls_server_end_point(s->conn, end_point, &k))
		ret[n++] = (struct wire_signin_binding){ STR("tls-server-end-point"), str_n((char *)end_point, k) };
	return n;
}

void auth_offer(struct session *s)
{
	struct wire_signin_binding b[WIRE_SIGNIN_BINDINGS_MAX];
	unsigned char exporter[32], end_point[64];
	struct str rest = str_from(s->terms->auth), word;
	unsigned mechs = 0;
	enum sasl_mech m;
	while (s->tls_protocol && str_word(&rest, " \t,", &word))
		if (!sasl_mech_parse(word, &m))
			mechs |= 1u << m;
	mechs &= s->in->auth ? auth_has(s->in->auth, str_from(s->terms->backends)) : 0;
	if (mechs & 1u << SASL_SCRAM_SHA_256_PLUS && !bindings(s, b, exporter, end_point))
		mechs &= ~(1u << SASL_SCRAM_SHA_256_PLUS);
	if (!s->identity)
		mechs &= ~(1u << SASL_EXTERNAL);
	s->mechs = mechs;
	smtp_server_mechs(s->engine, mechs);
}

/* --- questions --- */

static struct str service(const struct session *s)
{
	if (s->terms->lmtp)
		return STR("lmtp");
	return s->terms->need_auth ? STR("submission") : STR("smtp");
}

/* Text of a peer as a wire text takes it: no controls, not too long. */
static struct str fit(struct str t)
{
	for (size_t i = 0; i < t.n; i++)
		if ((unsigned char)t.p[i] < 0x20 || t.p[i] == 0x7f)
			return STR_NULL;
	return str_n(t.p, t.n > 255 ? 255 : t.n);
}

/* START, put into the line or, where its network guesses, held back first. 0 or -1. */
static int start(struct exchange *x, const struct smtp_event *ev, int64_t held_us)
{
	struct session *s = x->session;
	struct wire_signin m = { .op = WIRE_SIGNIN_START, .id = x->id };
	unsigned char exporter[32], end_point[64], digest[32];
	m.start = (struct wire_signin_start){
		.service = service(s),
		.mechanism = str_from(sasl_mech_name(x->mech)),
		.client = s->peer.family == AF_INET || s->peer.family == AF_INET6 ? str_from(s->peer.text) : STR_NULL,
		.listener = str_from(s->terms->name),
		.backends = str_from(s->terms->backends),
		.helo = fit(buf_str(&s->helo)),
		.tls_version = str_from(s->tls_protocol),
		.tls_cipher = str_from(s->tls_cipher),
		.has_initial = ev->initial,
		.initial = ev->chunk,
	};
	/* only where -PLUS was on offer: else a client that says it saw none (flag 'y') is right */
	m.start.plus_offered = s->mechs & 1u << SASL_SCRAM_SHA_256_PLUS;
	if (m.start.plus_offered)
		m.start.n_bindings = bindings(s, m.start.bindings, exporter, end_point);
	if (s->identity && !str_unhex(str_from(s->identity->fingerprint), digest, sizeof digest)) {
		m.start.has_cert = m.start.cert_verified = true;
		m.start.cert_digest = str_n((char *)digest, sizeof digest);
		m.start.cert_subject = fit(str_from(s->identity->subject));
		if (s->identity->email[0])
			m.start.cert_emails[m.start.n_cert_emails++] = str_from(s->identity->email);
	}
	if (!held_us)
		return auth_ask(x, &m);
	x->message = BUF_INIT(WIRE_SIGNIN_DATAGRAM_MAX);
	if (!buf_room(&x->message, 2 * WIRE_SIGNIN_BLOB_MAX) || wire_signin_put(&x->message, &m))
		return -1;
	return hold(x, EXCHANGE_HELD, held_us);
}

/* No exchange, the answer is there at once. */
static void refuse_now(struct session *s, enum sasl_mech mech, enum auth_result why, const char *reason)
{
	tell(s->in->auth, s, mech, why, STR_NULL, STR_NULL, str_from(reason));
	smtp_server_reject(s->engine, &reply_later);
}

static void begin(struct session *s, const struct smtp_event *ev)
{
	struct auth *a = s->in->auth;
	int64_t now = clock_mono_us();
	bool spent = guess_network_spent(a->guesses, &s->peer, now);
	struct exchange *x;
	if (a->fd < 0) {
		refuse_now(s, ev->mech, AUTH_AWAY, "no admin child");
		return;
	}
	if (a->n_line >= a->set.queue && a->n_asked >= a->set.concurrency) {
		refuse_now(s, ev->mech, AUTH_BUSY, "too many sign-ins at once");
		return;
	}
	x = exchange_new(a, s, ev->mech);
	if (!x) {
		refuse_now(s, ev->mech, AUTH_BUSY, "out of memory");
		return;
	}
	if (spent && !guess_network_known(a->guesses, &s->peer)) {
		tell(a, s, x->mech, AUTH_THROTTLED, STR_NULL, STR_NULL, STR("too many failures from this network"));
		refuse(x, &reply_throttled, LEVEL_MAX, false);
		return;
	}
	/* somebody signed in from there before: not shut out, but made to wait */
	if (start(x, ev, spent ? delay(a, LEVEL_MAX) : 0)) {
		exchange_free(x);
		refuse_now(s, ev->mech, AUTH_BUSY, "out of memory");
	}
}

static void go_on(struct session *s, const struct smtp_event *ev)
{
	struct exchange *x = s->exchange;
	struct wire_signin m = { .op = WIRE_SIGNIN_CONT, .id = x ? x->id : 0, .blob = ev->chunk };
	if (!x || x->state != EXCHANGE_CLIENT || x->lost || x->auth->fd < 0 || auth_ask(x, &m)) {
		tell(s->in->auth, s, ev->mech, AUTH_AWAY, STR_NULL, STR_NULL, STR("the admin child was lost in the exchange"));
		if (x)
			exchange_free(x);
		smtp_server_reject(s->engine, &reply_later);
	}
}

void auth_event(struct session *s, const struct smtp_event *ev)
{
	if (ev->kind == SMTP_EV_AUTH_CANCEL) {
		if (s->exchange) {
			tell(s->in->auth, s, s->exchange->mech, AUTH_CANCELLED, STR_NULL, STR_NULL, ev->text);
			s->failed_signins++;
			exchange_free(s->exchange);
		}
		return;
	}
	if (ev->kind == SMTP_EV_AUTH)
		begin(s, ev);
	else
		go_on(s, ev);
}

void auth_forget(struct session *s)
{
	if (!s->exchange)
		return;
	if (s->exchange->state != EXCHANGE_REPLY)
		tell(s->in->auth, s, s->exchange->mech, AUTH_CANCELLED, STR_NULL, STR_NULL, STR("the client went"));
	/* The work was done for nobody: its network pays for that as for a failure, or whoever leaves in time could have passwords
	 * checked without end. Whose account it was is not known, and not its owner's fault. */
	if (s->exchange->state == EXCHANGE_ASKED)
		guess_failed(s->in->auth->guesses, STR_NULL, &s->peer, clock_mono_us());
	exchange_free(s->exchange);
}

void auth_drop_who(struct session *s)
{
	if (!s->who)
		return;
	buf_free(&s->who->senders);
	free(s->who);
	s->who = NULL;
}

/* --- answers --- */

static struct signed_in *take_ok(const struct exchange *x, const struct wire_signin_ok *ok)
{
	struct signed_in *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	snprintf(w->account, sizeof w->account, "%.*s", STR_ARG(ok->account));
	snprintf(w->backend, sizeof w->backend, "%.*s", STR_ARG(ok->backend));
	w->mech = x->mech;
	w->messages_hour = ok->messages_hour;
	w->messages_day = ok->messages_day;
	w->recipients_hour = ok->recipients_hour;
	w->recipients_day = ok->recipients_day;
	w->senders = BUF_INIT(WIRE_SIGNIN_SENDERS_MAX * (WIRE_SIGNIN_TEXT_MAX + 1));
	for (size_t i = 0; i < ok->n_senders; i++) {
		buf_adds(&w->senders, ok->senders[i]);
		buf_addc(&w->senders, 0);
		w->n_senders++;
	}
	if (!w->senders.failed)
		return w;
	buf_free(&w->senders);
	free(w);
	return NULL;
}

static void on_ok(struct exchange *x, const struct wire_signin_ok *ok)
{
	struct auth *a = x->auth;
	struct session *s = x->session;
	int64_t now = clock_mono_us();
	/* right and wrong passwords must look alike while the account's tries are spent, except where its owner is at home */
	if (guess_account_spent(a->guesses, ok->account, now) && !guess_account_known(a->guesses, ok->account, &s->peer)) {
		tell(a, s, x->mech, AUTH_THROTTLED, ok->account, ok->backend, STR("too many failures of this account"));
		refuse(x, &reply_throttled, LEVEL_MAX, true);
		return;
	}
	struct signed_in *w = ok->account.n ? take_ok(x, ok) : NULL;
	buf_reset(&s->login);
	if (!w || buf_adds(&s->login, ok->account)) {
		if (w)
			buf_free(&w->senders);
		free(w);
		buf_reset(&s->login);
		auth_give_up(x, AUTH_BUSY, ok->account.n ? "out of memory" : "no account in the answer");
		return;
	}
	guess_succeeded(a->guesses, ok->account, &s->peer, now);
	s->who = w;
	session_trust(s);
	s->failed_signins = 0;
	tell(a, s, x->mech, AUTH_OK, ok->account, ok->backend, STR_NULL);
	settle(x, NULL);
	session_pump(s);
}

static void on_fail(struct exchange *x, const struct wire_signin_fail *f)
{
	static const enum auth_result results[] = {
		[WIRE_SIGNIN_CREDENTIALS] = AUTH_CREDENTIALS,
		[WIRE_SIGNIN_DISABLED] = AUTH_DISABLED,
		[WIRE_SIGNIN_DENIED] = AUTH_DENIED,
		[WIRE_SIGNIN_MALFORMED] = AUTH_MALFORMED,
		[WIRE_SIGNIN_MECHANISM] = AUTH_MECHANISM,
		[WIRE_SIGNIN_BUSY] = AUTH_BUSY,
		[WIRE_SIGNIN_AWAY] = AUTH_AWAY,
	};
	struct auth *a = x->auth;
	struct session *s = x->session;
	int64_t now = clock_mono_us();
	enum auth_result r = results[f->why];
	const struct smtp_reply *reply = &reply_no;
	tell(a, s, x->mech, r, f->account, f->backend, f->reason);
	if (wire_signin_temporary(f->why)) {
		settle(x, &reply_later);
		session_pump(s);
		return;
	}
	if (f->why == WIRE_SIGNIN_MALFORMED)
		reply = &reply_malformed;
	else if (f->why == WIRE_SIGNIN_MECHANISM)
		reply = &reply_mechanism;
	else if (guess_account_spent(a->guesses, f->account, now) && !guess_account_known(a->guesses, f->account, &s->peer))
		reply = &reply_throttled;
	unsigned level = reply == &reply_throttled ? LEVEL_MAX : guess_level(a->guesses, f->account, &s->peer, now);
	if (f->why != WIRE_SIGNIN_MECHANISM)
		guess_failed(a->guesses, f->account, &s->peer, now);
	refuse(x, reply, level, true);
}

void auth_answered(struct auth *a, const struct wire_signin *m)
{
	struct exchange *x = map_get(&a->by_id, m->id);
	if (!x || x->state != EXCHANGE_ASKED || x->lost) { /* cancelled meanwhile, or timed out */
		a->late_answers++;
		return;
	}
	struct session *s = x->session;
	a->n_asked--;
	a->answers++;
	a->answer_us += clock_mono_us() - x->since_us;
	x->state = EXCHANGE_CLIENT;
	if (m->op == WIRE_SIGNIN_CHALLENGE) {
		smtp_server_challenge(s->engine, m->blob);
		s->deadline_us = clock_mono_us() + s->terms->command_us;
		session_pump(s);
		return;
	}
	x->known = false; /* OK and FAIL end it there */
	if (m->op == WIRE_SIGNIN_OK)
		on_ok(x, &m->ok);
	else
		on_fail(x, &m->fail);
}

void auth_peer_gone(struct auth *a)
{
	struct exchange *x, *again;
	do { /* giving up frees sessions, and with them perhaps other exchanges: begin anew each time */
		again = NULL;
		for (x = a->all; x && !again; x = x->next) {
			if (x->known)
				x->lost = true;
			if (x->state == EXCHANGE_ASKED || x->state == EXCHANGE_WAITING)
				again = x;
		}
		if (again)
			auth_give_up(again, AUTH_AWAY, "the admin child is gone");
	} while (again && a->fd < 0);
}

void auth_sweep(struct auth *a, int64_t now_us)
{
	struct exchange *late;
	do {
		late = NULL;
		for (struct exchange *x = a->all; x && !late; x = x->next)
			if ((x->state == EXCHANGE_ASKED || x->state == EXCHANGE_WAITING) && now_us - x->since_us > a->set.timeout_us)
				late = x;
		if (late)
			auth_give_up(late, AUTH_TIMEOUT, "the admin child does not answer");
	} while (late);
	auth_send(a);
}

bool auth_may_send_as(const struct session *s, struct str address)
{
	const struct signed_in *w = s->who;
	ptrdiff_t at = -1;
	if (!address.n)
		return true;
	if (!w) /* by XCLIENT: what else the account may send as nobody said, and users are not freed of the rule by their proxy */
		return !s->login.n || !s->terms->need_auth || str_ieq(address, buf_str(&s->login));
	if (str_ieq(address, str_from(w->account)))
		return true;
	for (size_t i = 0; i < address.n; i++)
		if (address.p[i] == '@')
			at = (ptrdiff_t)i;
	struct str domain = at < 0 ? STR_NULL : str_skip(address, (size_t)at);
	const char *p = w->senders.p;
	for (size_t i = 0; i < w->n_senders; i++, p += strlen(p) + 1) {
		struct str one = str_from(p);
		if (str_eq(one, STR("*")) || str_ieq(one, address) || (one.n > 1 && one.p[0] == '@' && str_ieq(one, domain)))
			return true;
	}
	return false;
}

bool auth_may_send_as_any(const struct session *s)
{
	const struct signed_in *w = s->who;
	const char *p = w ? w->senders.p : NULL;
	for (size_t i = 0; w && i < w->n_senders; i++, p += strlen(p) + 1)
		if (strcmp(p, "*") == 0)
			return true;
	return !w;
}
