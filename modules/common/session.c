/* The session's states and its clock; see session.h. All work is done in on_event(), which the loop calls; the other functions only set things
 * up and arm. */
#include "session_internal.h"

#include <errno.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	QUIT_MS = 5000,  /* waited for the answer to QUIT (RFC 5321 asks for patience, not for mail's sake) */
	READS_MAX = 32,  /* pieces read in one callback */
};

static int64_t now_ms(const struct session *s)
{
	return s->env->host->mono_ms();
}

static void close_socket(struct session *s)
{
	s->env->host->event_free(s->ev);
	s->ev = NULL;
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static void destroy(struct session *s)
{
	close_socket(s);
	hop_tls_free(s->tls);
	smtp_client_free(s->c);
	if (s->prev)
		s->prev->next = s->next;
	else
		s->env->all = s->next;
	if (s->next)
		s->next->prev = s->prev;
	s->env->n--;
	free(s);
}

void session_free(struct session *s)
{
	if (!s)
		return;
	s->fn = NULL;
	if (s->busy) {
		s->dead = true;
		close_socket(s);
	} else {
		destroy(s);
	}
}

void session_env_done(struct session_env *env)
{
	while (env->all)
		destroy(env->all);
}

/* -- ends */

static void tell(struct session *s, enum session_event ev)
{
	if (s->fn)
		s->fn(s->arg, s, ev);
}

/* Before or beside the engine. */
static void fail(struct session *s, enum smtp_phase phase, const char *status, const char *text)
{
	snprintf(s->text, sizeof s->text, "%s", text);
	s->failure = (struct smtp_result){ .outcome = SMTP_OUT_LOST, .phase = phase, .text = str_from(s->text) };
	snprintf(s->failure.status, sizeof s->failure.status, "%s", status);
}

static void over(struct session *s)
{
	close_socket(s);
	s->state = SESSION_ENDED;
	if (s->fn)
		tell(s, SESSION_OVER);
	else
		s->dead = true;
}

/* -- time */

static int64_t phase_ms(const struct session *s)
{
	const struct session_times *t = &s->env->times;
	if (s->state == SESSION_CONNECTING)
		return t->connect;
	if (!s->fn)
		return QUIT_MS;
	if (s->state == SESSION_SHAKING)
		return t->greeting;
	switch (smtp_client_phase(s->c)) {
	case SMTP_PHASE_CONNECT:
	case SMTP_PHASE_BANNER:
	case SMTP_PHASE_EHLO:
	case SMTP_PHASE_STARTTLS:
		return t->greeting;
	case SMTP_PHASE_IDLE:
		return t->idle;
	case SMTP_PHASE_DOT: {
		struct str seg[SMTP_CLIENT_SEGMENTS];
		return smtp_client_out(s->c, seg) ? t->block : t->dot;
	}
	default:
		return t->command;
	}
}

static bool working(const struct session *s)
{
	return s->fn && !(s->ready && smtp_client_phase(s->c) == SMTP_PHASE_IDLE);
}

/* When patience ends; *ret_whole: because of the whole, not of the last step. */
static int64_t deadline(const struct session *s, bool *ret_whole)
{
	int64_t end = s->since + phase_ms(s), whole = s->began + s->env->times.whole;
	*ret_whole = working(s) && whole < end;
	return *ret_whole ? whole : end;
}

static void arm(struct session *s, uint32_t what)
{
	bool whole;
	int64_t left = deadline(s, &whole) - now_ms(s);
	if (s->env->host->event_arm(s->ev, what, left > 0 ? left : 0) == PEPSI_OK)
		return;
	/* without a wake-up it would hang for ever */
	fail(s, SMTP_PHASE_CONNECT, "4.3.0", "out of memory");
	over(s);
}

static void timed_out(struct session *s)
{
	bool whole;
	int64_t limit = phase_ms(s);
	deadline(s, &whole);
	if (whole)
		limit = s->env->times.whole;
	session_lost(s, "timed out after %lld %s without %s", (long long)(limit < 1000 ? limit : limit / 1000), limit < 1000 ? "ms" : "s",
	    whole ? "an end" : "an answer");
}

/* -- connecting */

static void connected(struct session *s)
{
	struct buf why = BUF_INIT(SMTP_CLIENT_TEXT_MAX);
	if (hop_connect_end(s->fd, &s->to, &why)) {
		fail(s, SMTP_PHASE_CONNECT, "4.4.1", buf_z(&why));
		buf_free(&why);
		over(s);
		return;
	}
	s->facts.connected = true;
	s->state = SESSION_TALKING;
	s->since = now_ms(s);
}

static void begin(struct session *s)
{
	struct buf why = BUF_INIT(SMTP_CLIENT_TEXT_MAX);
	bool now = false;
	s->fd = hop_connect_begin(&s->to, s->from.len ? &s->from : NULL, &now, &why);
	int err = errno;
	if (s->fd >= 0) {
		/* the event so far was a timer */
		s->env->host->event_free(s->ev);
		s->ev = NULL;
	}
	s->facts.no_source = s->fd < 0 && s->from.len && str_starts(buf_str(&why), STR("bind to "));
	/* descriptors, memory: what this machine is out of says nothing of the other one */
	bool ours = s->facts.no_source || (s->fd < 0 && (err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM));
	fail(s, SMTP_PHASE_CONNECT, ours ? "4.3.0" : "4.4.1", buf_z(&why));
	buf_free(&why);
}

/* -- TLS */

static void facts_of_tls(struct session *s)
{
	s->facts.tls = true;
	s->facts.pkix_error = hop_tls_error(s->tls);
	s->facts.tls_text = hop_tls_describe(s->tls);
}

static void shaking_failed(struct session *s, const char *why)
{
	s->facts.tls_failed = true;
	fail(s, SMTP_PHASE_STARTTLS, "4.7.5", why);
	over(s);
}

static void shake(struct session *s, bool can_read, bool late)
{
	struct buf why = BUF_INIT(SMTP_CLIENT_TEXT_MAX);
	bool moved = false;
	int got = 1;
	for (int i = 0; i < READS_MAX; i++) {
		int r = hop_tls_handshake(s->tls, &why);
		bool written = session_write_cipher(s, &moved); /* also the alert of a failed one */
		if (r < 0) {
			shaking_failed(s, buf_z(&why));
			break;
		}
		if (r > 0 && written) {
			facts_of_tls(s);
			smtp_client_tls_started(s->c);
			s->state = SESSION_TALKING;
			s->since = now_ms(s);
			break;
		}
		got = can_read ? session_read_handshake(s) : 0;
		if (got < 0 || s->no_more_output) {
			shaking_failed(s, "TLS handshake: connection lost");
			break;
		}
		if (!got) {
			if (late)
				shaking_failed(s, "TLS handshake: timed out");
			else
				arm(s, PEPSI_IO_READ | (written ? 0 : PEPSI_IO_WRITE));
			break;
		}
		can_read = true;
		if (i == READS_MAX - 1)
			arm(s, PEPSI_IO_READ | PEPSI_IO_WRITE);
	}
	buf_free(&why);
}

static void start_tls(struct session *s)
{
	s->tls = hop_tls_new(s->env->tls, s->name);
	if (!s->tls) {
		shaking_failed(s, "TLS: out of memory");
		return;
	}
	s->state = SESSION_SHAKING;
	s->since = now_ms(s);
}

/* -- talking */

/* EHLO is over: TLS first, if it may be; else the owner is told. */
static void ready(struct session *s)
{
	s->facts.greeted = true;
	s->facts.caps = smtp_client_caps(s->c, NULL);
	if (s->facts.caps & SMTP_CAP_STARTTLS)
		s->facts.starttls = true;
	if (s->may_tls && s->env->tls && !s->facts.tls && (s->facts.caps & SMTP_CAP_STARTTLS)) {
		s->may_tls = false; /* asked once: refused, it goes on in plain text, and the owner sees that */
		if (smtp_client_starttls(s->c) == 0)
			return;
	}
	if (!s->fn) { /* nobody's any more: it was in the middle of a RSET */
		smtp_client_quit(s->c);
		return;
	}
	s->ready = true;
	s->since = now_ms(s);
	tell(s, SESSION_READY);
}

/* One event of the engine. */
static void engine_event(struct session *s, enum smtp_client_event ev)
{
	switch (ev) {
	case SMTP_CEV_READY:
		ready(s);
		return;
	case SMTP_CEV_STARTTLS:
		start_tls(s);
		return;
	case SMTP_CEV_DONE:
		s->facts.messages++;
		s->ready = false;
		tell(s, SESSION_DONE);
		return;
	case SMTP_CEV_CLOSED:
		s->failure = *smtp_client_failure(s->c);
		over(s);
		return;
	case SMTP_CEV_TLS_REFUSED: { /* READY follows */
		const struct smtp_result *r = smtp_client_failure(s->c);
		snprintf(s->refused, sizeof s->refused, "%u%s%s %.*s", r->code, r->status[0] ? " " : "", r->status, STR_ARG(r->text));
		s->facts.refused = s->refused;
		return;
	}
	default:
		return;
	}
}

static void talk(struct session *s)
{
	for (int reads = 0; s->state == SESSION_TALKING && !s->dead;) {
		enum smtp_client_event ev = smtp_client_next(s->c);
		bool moved = false, written;
		if (ev) {
			engine_event(s, ev);
			continue;
		}
		if (s->tls && session_read_tls(s)) /* what came along with the handshake would otherwise wait for more */
			continue;
		if ((ev = smtp_client_next(s->c)) != SMTP_CEV_NONE) {
			engine_event(s, ev);
			continue;
		}
		written = session_write(s, &moved);
		/* each whole reply and each octet of content that leaves starts the clock anew; single octets of a reply do not */
		if (moved || smtp_client_replies(s->c) != s->replies) {
			s->replies = smtp_client_replies(s->c);
			s->since = now_ms(s);
		}
		int r = reads < READS_MAX ? session_read(s) : 0;
		if (r) {
			reads++;
			continue;
		}
		bool whole;
		if (now_ms(s) >= deadline(s, &whole)) {
			if (s->ready && s->fn) /* idle for too long: it may still be polite */
				tell(s, SESSION_STALE);
			else
				timed_out(s);
			s->since = now_ms(s);
			continue;
		}
		arm(s, PEPSI_IO_READ | (written ? 0 : PEPSI_IO_WRITE));
		return;
	}
}

static void on_event(void *arg, uint32_t what)
{
	struct session *s = arg;
	bool late = what & PEPSI_IO_TIMEOUT;
	s->env->host->in_hand(s->msg);
	s->busy = true;
	if (s->state == SESSION_CONNECTING && s->fd < 0) {
		begin(s);
		if (s->fd >= 0 && !(s->ev = s->env->host->event_new(s->env->conf, s->fd, on_event, s)))
			fail(s, SMTP_PHASE_CONNECT, "4.3.0", "out of memory");
		if (s->ev && s->fd >= 0)
			arm(s, PEPSI_IO_WRITE);
		else
			over(s);
	} else if (s->state == SESSION_CONNECTING && late) {
		struct buf why = BUF_INIT(SMTP_CLIENT_TEXT_MAX);
		buf_addz(&why, "connect to ");
		hop_address_text(&why, &s->to);
		buf_addz(&why, ": timed out");
		fail(s, SMTP_PHASE_CONNECT, "4.4.1", buf_z(&why));
		buf_free(&why);
		over(s);
	} else if (s->state == SESSION_CONNECTING) {
		connected(s);
	}
	for (int i = 0; i < 4 && !s->dead; i++) { /* a handshake follows talk, and talk a handshake, once each */
		enum session_state was = s->state;
		if (was == SESSION_TALKING)
			talk(s);
		else if (was == SESSION_SHAKING)
			shake(s, i == 0 && (what & PEPSI_IO_READ), late);
		if (s->state == was)
			break;
		late = false;
	}
	s->busy = false;
	if (s->dead)
		destroy(s);
}

/* -- the owner's side */

struct session *session_new(struct session_env *env, const struct session_peer *peer, session_fn fn, void *arg)
{
	struct session *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->env = env;
	s->to = peer->to;
	s->from = peer->from;
	s->may_tls = peer->tls;
	s->fn = fn;
	s->arg = arg;
	s->fd = -1;
	s->facts.tls_text = "";
	s->facts.pkix_error = X509_V_ERR_UNSPECIFIED;
	snprintf(s->helo, sizeof s->helo, "%s", peer->helo);
	snprintf(s->name, sizeof s->name, "%s", peer->name);
	if (!s->name[0]) { /* an address: no SNI, and the certificate would have to name it */
		struct buf b = BUF_INIT(sizeof s->name);
		hop_address_text(&b, &s->to);
		struct str t = buf_str(&b);
		while (t.n && t.p[t.n - 1] != ':')
			t.n--;
		t.n -= t.n > 0;
		if (t.n && t.p[0] == '[')
			t = str_n(t.p + 1, t.n - 2);
		snprintf(s->name, sizeof s->name, "%.*s", STR_ARG(t));
		buf_free(&b);
	}
	s->engine.helo = str_from(s->helo);
	s->since = s->began = env->host->mono_ms();
	s->next = env->all;
	if (env->all)
		env->all->prev = s;
	env->all = s;
	env->n++;
	s->c = smtp_client_new(&s->engine);
	s->ev = env->host->event_new(env->conf, -1, on_event, s);
	if (!s->c || !s->ev || env->host->event_arm(s->ev, 0, 0) != PEPSI_OK) {
		destroy(s);
		return NULL;
	}
	return s;
}

void session_own(struct session *s, session_fn fn, void *arg)
{
	s->fn = fn;
	s->arg = arg;
}

void session_for(struct session *s, struct pepsi_msg *msg)
{
	s->msg = msg;
	if (s->busy)
		s->env->host->in_hand(msg);
}

/* Something changed outside on_event(): come back soon. */
static void wake(struct session *s)
{
	if (!s->busy && s->ev)
		s->env->host->event_arm(s->ev, 0, 0);
}

bool session_is_ready(const struct session *s)
{
	return s->state == SESSION_TALKING && s->ready;
}

int session_send(struct session *s, struct smtp_client_msg *m)
{
	if (s->state != SESSION_TALKING || !s->ready || smtp_client_send(s->c, m))
		return -1;
	s->ready = false;
	s->since = s->began = now_ms(s);
	wake(s);
	return 0;
}

void session_quit(struct session *s)
{
	if (!s)
		return;
	s->fn = NULL;
	s->msg = NULL;
	enum smtp_phase phase = s->state == SESSION_TALKING ? smtp_client_phase(s->c) : SMTP_PHASE_CONNECT;
	if ((phase != SMTP_PHASE_IDLE && phase != SMTP_PHASE_RSET) || (smtp_client_quit(s->c) && !s->facts.greeted)) {
		session_free(s);
		return;
	}
	s->since = now_ms(s);
	wake(s);
}

void session_give_up(struct session *s, const char *why)
{
	if (s->state == SESSION_ENDED)
		return;
	session_lost(s, "%s", why);
	s->state = SESSION_TALKING; /* where the engine's word is heard */
	wake(s);
}

bool session_at_dot(const struct session *s)
{
	struct str seg[SMTP_CLIENT_SEGMENTS];
	return s->state == SESSION_TALKING && smtp_client_phase(s->c) == SMTP_PHASE_DOT && !smtp_client_out(s->c, seg);
}

const struct session_facts *session_facts(struct session *s)
{
	/* asked for anew: a ticket that comes behind the handshake makes OpenSSL copy the session, and free what was there */
	s->facts.chain = s->facts.tls ? hop_tls_chain(s->tls) : NULL;
	return &s->facts;
}

const struct smtp_client *session_engine(const struct session *s)
{
	return s->c;
}

const struct smtp_result *session_failure(const struct session *s)
{
	return &s->failure;
}

bool session_local(const struct session *s, struct hop_address *ret)
{
	ret->len = sizeof ret->sa;
	return s->fd >= 0 && getsockname(s->fd, (void *)&ret->sa, &ret->len) == 0;
}
