/* Session life: input to the engine, events to the policy, replies out, deadlines, the end. One read and one
 * write per pipelined group. No timers: the tick compares deadline_us. */
#include "ingress_internal.h"

#include "base/clock.h"
#include "local.h"

#include <stdlib.h>

enum {
	EVENTS_PER_TURN = 500, /* of one session; then others get their turn */
	OUT_HIGH = 32 * 1024,  /* replies held back; then they are written first */
	COMMIT_PATIENCE_S =
	    8 * 60, /* clients wait 10 min for the answer to their final dot (RFC 5321 §4.5.3.2.6) */
};

static void on_input(void *arg, const char *p, size_t n);
static void on_eof(void *arg);
static void on_writable(void *arg);
static void on_secured(void *arg);
static void on_broken(void *arg, const char *why);
static const struct net_conn_calls calls = { on_input, on_eof, on_writable, on_secured, on_broken };

void session_log_context(struct session *s)
{
	log_ctx_set(&s->log, NULL, "session=%llu listener=%s client=%s%s%s", (unsigned long long)s->id, s->terms->name,
	    s->peer.text, s->via ? " proxy=" : "", s->via ? s->via->addr.text : "");
	if (s->user_known)
		log_ctx_set(&s->log, NULL, "session=%llu listener=%s uid=%u", (unsigned long long)s->id, s->terms->name, (unsigned)s->uid);
}

void session_trust(struct session *s)
{
	unsigned trust = 0;
	if (config_networks_has(s->terms->xclient, s->peer.text))
		trust |= SMTP_TRUST_XCLIENT;
	/* only one's own clients and users jump the queue (RFC 6710 §5.1), or have mail stored for later (RFC 4865 §4) */
	if (s->relay || s->login.n)
		trust |= SMTP_TRUST_PRIORITY | SMTP_TRUST_HOLD;
	if (s->user_known)
		trust |= SMTP_TRUST_ONCE;
	smtp_server_trust(s->engine, trust);
}

static void on_greet(evutil_socket_t fd, short what, void *arg)
{
	struct session *s = arg;
	(void)fd;
	(void)what;
	event_free(s->greet);
	s->greet = NULL;
	s->held &= ~HELD_BANNER;
	session_pump(s);
}

static void hold_banner(struct session *s)
{
	int64_t us = abuse_banner_delay(s);
	struct timeval tv = { .tv_sec = us / US_PER_S, .tv_usec = us % US_PER_S };
	if (!us)
		return;
	s->greet = evtimer_new(s->in->base, on_greet, s);
	if (!s->greet || event_add(s->greet, &tv)) {
		if (s->greet)
			event_free(s->greet);
		s->greet = NULL;
		return;
	}
	s->held |= HELD_BANNER;
	s->deadline_us += us;
	s->in->banners_delayed++;
}

/* It talks while the banner is kept from it: no SMTP client. Frees s. */
static void talked_first(struct session *s)
{
	struct buf *out = smtp_server_out(s->engine);
	ingress_refused(s->in, s, REFUSED_EARLY, "at=banner");
	buf_reset(out); /* the banner */
	buf_addf(out, "554 5.5.1 %s You talked before the banner\r\n", s->terms->hostname);
	s->held = 0;
	s->abrupt = true;
	session_flush(s);
	session_drop(s);
}

bool session_begin(struct listening *at, int fd, const struct net_addr *peer, bool relay, const struct proxy_info *via)
{
	struct ingress *in = at->in;
	struct session *s = calloc(1, sizeof *s);
	if (!s || !(s->conn = net_conn_new(in->base, fd, &calls, s))) {
		if (!s)
			evutil_closesocket(fd);
		free(s);
		return false;
	}
	s->engine = smtp_server_new(&at->terms->smtp);
	if (via && (s->via = malloc(sizeof *via)))
		*s->via = *via;
	if (!s->engine || (via && !s->via) || (at->terms->implicit_tls && net_conn_starttls(s->conn, at->terms->tls))) {
		net_conn_free(s->conn);
		smtp_server_free(s->engine);
		free(s->via);
		free(s);
		return false;
	}
	net_conn_patient(s->conn); /* the sweep looks at it */
	s->in = in;
	s->at = at;
	s->terms = terms_ref(at->terms);
	s->id = ++in->next_session;
	s->peer = *peer;
	s->relay = relay && !(via && via->unknown);
	local_begin(s);
	s->exempt = abuse_exempt(at, &s->peer, s->relay);
	s->helo = BUF_INIT(1024);
	s->login = BUF_INIT(1024);
	s->rdns = BUF_INIT(256);
	s->message.session = s;
	s->message.spool.fd = -1;
	s->started_us = clock_mono_us();
	s->deadline_us = s->started_us + s->terms->command_us;
	session_log_context(s);
	session_trust(s);
	s->next = in->sessions;
	if (s->next)
		s->next->prev = s;
	in->sessions = s;
	in->n_sessions++;
	at->sessions++;
	reverse_begin(s, true);
	dnsbl_begin(s);
	hold_banner(s);
	session_pump(s); /* the banner */
	return true;
}

void session_charge(struct session *s, size_t octets)
{
	s->in->house.used += octets - s->envelope; /* modular: also when it shrinks */
	s->envelope = octets;
}

void session_free(struct session *s)
{
	struct ingress *in = s->in;
	if (s->before)
		before_cancel(s);
	vet_free(s);
	checks_free(s);
	auth_forget(s);
	auth_drop_who(s);
	session_charge(s, 0);
	net_conn_free(s->conn);
	smtp_server_free(s->engine);
	message_done(&s->message);
	buf_free(&s->helo);
	buf_free(&s->login);
	buf_free(&s->rdns);
	reverse_free(s);
	dnsbl_free(s);
	if (s->greet)
		event_free(s->greet);
	free(s->via);
	free(s->identity);
	if (in->sweep_at == s)
		in->sweep_at = s->next;
	if (in->looked_at == s)
		in->looked_at = NULL;
	if (in->drain_at == s)
		in->drain_at = s->next;
	if (s->prev)
		s->prev->next = s->next;
	else
		in->sessions = s->next;
	if (s->next)
		s->next->prev = s->prev;
	if (s->queued) {
		struct session **at = &in->resume_head;
		while (*at != s)
			at = &(*at)->resume_next;
		*at = s->resume_next;
		if (!*at)
			in->resume_tail = at;
	}
	clients_leave(&in->clients, &s->peer);
	clients_leave(&in->networks, &s->peer);
	listening_leave(s->at);
	in->n_sessions--;
	terms_unref(s->terms);
	free(s);
	ingress_session_gone(in);
}

void session_drop(struct session *s)
{
	if (s->conn && s->abrupt)
		net_conn_drain(s->conn);
	net_conn_free(s->conn);
	s->conn = NULL;
	if (s->before) { /* nothing was promised, nothing is kept */
		before_drop(s);
		s->awaiting = false;
	}
	if (vet_waits(s)) { /* the same */
		log_info(&s->log, "event=authentication verdict=dropped reason=\"the client is gone\" from=%s rcpts=%zu", log_q(s->message.mail_from),
		    s->message.n_rcpts);
		vet_free(s);
		s->awaiting = false;
	}
	if (s->awaiting)
		s->in->orphans++;
	else
		session_free(s);
}

/* Progress was made: the time for the next command begins. Within DATA what counts is the whole message. */
static void restart_deadline(struct session *s)
{
	int64_t now = clock_mono_us();
	if (s->awaiting)
		s->deadline_us = now + COMMIT_PATIENCE_S * US_PER_S;
	else if (s->has_spool)
		s->deadline_us = s->data_us + s->terms->command_us +
		    (int64_t)(s->message.spool.size / s->terms->data_rate) * US_PER_S;
	else
		s->deadline_us = now + s->terms->command_us + s->postponed_us;
}

void session_postpone(struct session *s, int64_t us)
{
	s->postponed_us = us;
	restart_deadline(s); /* also where no event of this turn will do it */
}

void session_answered(struct session *s)
{
	s->postponed_us = 0;
	if (!s->conn)
		return;
	restart_deadline(s);
	session_pump(s);
}

static void set_reading(struct session *s)
{
	net_conn_read(s->conn,
	    !s->eof && !s->blocked && !s->closing && !s->starttls && smtp_server_wants_input(s->engine));
}

void session_flush(struct session *s)
{
	struct buf *out = smtp_server_out(s->engine);
	if (!s->conn || !out->n || net_conn_securing(s->conn)) /* within the handshake: the banner waits for its end */
		return;
	int r = net_conn_write(s->conn, out);
	s->blocked = r == 0;
	if (r < 0) {
		log_debug(&s->log, "event=write-failed state=%s", smtp_server_state_name(s->engine));
		net_conn_free(s->conn);
		s->conn = NULL;
	}
}

/* What is to be done when everything has been written. Returns false when the connection (and perhaps s) is gone. */
static bool settle_output(struct session *s, bool more)
{
	if (!s->conn) { /* the write failed */
		session_drop(s);
		return false;
	}
	if (s->blocked)
		return true;
	if (s->closing || (s->eof_told && !more && !s->awaiting && !s->check)) {
		session_drop(s);
		return false;
	}
	if (s->starttls) {
		s->starttls = false;
		if (net_conn_starttls(s->conn, s->terms->tls)) {
			log_warn(&s->log, "event=starttls-failed error=\"out of memory\"");
			session_drop(s);
			return false;
		}
	}
	return true;
}

void session_pump(struct session *s)
{
	struct buf *out = smtp_server_out(s->engine);
	struct smtp_event ev;
	size_t before = out->n;
	bool more = false;
	unsigned n = 0;
	if (!s->conn || s->held)
		return;
	smtp_server_time(s->engine, clock_wall_us() / US_PER_S);
	for (;;) {
		more = false;
		if (s->closing || s->starttls || s->awaiting || net_conn_securing(s->conn))
			break;
		if (n == EVENTS_PER_TURN || out->n > OUT_HIGH) {
			more = true;
			break;
		}
		if (smtp_server_next(s->engine, &ev) != 1) {
			if (!s->eof || s->eof_told)
				break;
			/* all that came before the end of the peer's side has been dealt with */
			s->eof_told = true;
			smtp_server_eof(s->engine);
			continue;
		}
		policy_event(s, &ev);
		n++;
	}
	if (n || out->n > before)
		restart_deadline(s);
	session_flush(s);
	if (!settle_output(s, more))
		return;
	if (more && !s->blocked)
		ingress_resume_later(s->in, s);
	if (s->in->draining && !more && !s->awaiting && !s->closing && smtp_server_idle(s->engine)) {
		session_shutdown(s, "4.3.2", "Service is stopping");
		return;
	}
	set_reading(s);
}

void session_shutdown(struct session *s, const char *status, const char *text)
{
	if (!s->conn || net_conn_securing(s->conn) || s->blocked || s->closing) {
		session_drop(s); /* nobody would hear it */
		return;
	}
	checks_free(s);
	s->abrupt = true;
	s->held = 0;
	smtp_server_shutdown(s->engine, status, text);
	session_pump(s);
}

void session_settled(struct session *s)
{
	s->awaiting = false;
	s->has_spool = false;
	vet_free(s);
	message_done(&s->message);
	session_charge(s, 0);
	if (!s->conn) {
		session_free(s);
		return;
	}
	restart_deadline(s);
	session_pump(s);
}

static void on_input(void *arg, const char *p, size_t n)
{
	struct session *s = arg;
	if (s->held && !s->terms->implicit_tls) {
		talked_first(s);
		return;
	}
	if (s->closing || s->starttls)
		return; /* behind QUIT: nobody listens. Behind STARTTLS the engine has seen to it that nothing
		           is left */
	if (smtp_server_feed(s->engine, p, n)) {
		log_warn(&s->log, "event=overfed state=%s", smtp_server_state_name(s->engine));
		session_drop(s);
		return;
	}
	session_pump(s);
}

static void on_eof(void *arg)
{
	struct session *s = arg;
	s->eof = true;
	session_pump(s);
}

static void on_writable(void *arg)
{
	struct session *s = arg;
	s->blocked = false;
	session_pump(s);
}

static void on_secured(void *arg)
{
	struct session *s = arg;
	s->in->tls++;
	s->in->tls_resumed += net_conn_tls_resumed(s->conn);
	s->tls_protocol = net_conn_tls_protocol(s->conn);
	s->tls_cipher = net_conn_tls_cipher(s->conn);
	s->tls_bits = net_conn_tls_bits(s->conn);
	const struct net_tls_identity *id = net_conn_tls_client_identity(s->conn);
	/* a copy: a message outlives its connection */
	if (id && (s->identity = malloc(sizeof *id)))
		*s->identity = *id;
	/* all that was said outside is forgotten; who sits behind a trusted XCLIENT is not the client's word */
	if (!s->helo_told)
		buf_reset(&s->helo);
	s->esmtp = false;
	smtp_server_tls_started(s->engine);
	auth_offer(s);
	log_debug(&s->log, "event=tls protocol=%s cipher=%s bits=%d resumed=%d sni=%s subject=%s", s->tls_protocol, s->tls_cipher,
	    s->tls_bits, net_conn_tls_resumed(s->conn), log_qz(net_conn_tls_server_name(s->conn) ? net_conn_tls_server_name(s->conn) : ""),
	    log_qz(s->identity ? s->identity->subject : ""));
	s->deadline_us = clock_mono_us() + s->terms->command_us;
	session_pump(s);
}

static void on_broken(void *arg, const char *why)
{
	struct session *s = arg;
	if (net_conn_securing(s->conn)) {
		s->in->tls_failed++;
		log_info(&s->log, "event=tls-failed error=%s", log_qz(why));
	} else {
		log_debug(&s->log, "event=connection-lost state=%s error=%s", smtp_server_state_name(s->engine),
		    log_qz(why));
	}
	session_drop(s);
}
