/* What is answered to each command: relay control, limits, content rules. A check here only refuses; what is accepted
 * is done by spool and admission. */
#include "ingress_internal.h"

#include "base/clock.h"
#include "local.h"
#include "proto/mail/received.h"

static void accept_usual(struct session *s)
{
	smtp_server_accept(s->engine, NULL);
}

static void reject(struct session *s, unsigned code, const char *status, const char *text)
{
	struct smtp_reply r = { code, status, text };
	smtp_server_reject(s->engine, &r);
}

/* An octet that no column of ours takes. The engine's grammar lets none through; this is the fence behind it. */
static bool storable(struct str a)
{
	for (size_t i = 0; i < a.n; i++)
		if ((unsigned char)a.p[i] < 0x20 || a.p[i] == 0x7f)
			return false;
	return str_is_utf8(a);
}

static void on_helo(struct session *s, const struct smtp_event *ev)
{
	if (!s->helo_told) {
		buf_reset(&s->helo);
		buf_adds(&s->helo, str_n(ev->text.p, ev->text.n > 512 ? 512 : ev->text.n));
	}
	s->esmtp = ev->esmtp;
	accept_usual(s);
}

static void on_mail(struct session *s, const struct smtp_event *ev)
{
	struct ingress *in = s->in;
	if (s->terms->need_auth && !s->login.n) {
		ingress_refused(in, s, REFUSED_AUTH, "at=MAIL from=%s", log_q(ev->tx->mail_from));
		reject(s, 530, "5.7.0", s->tls_protocol ? "Authentication required" : "Issue STARTTLS and sign in first"); /* RFC 4954 §6 */
	} else if (ev->tx->deliver_mode == 'R' && ev->tx->hold_until > ev->tx->deliver_at) {
		ingress_refused(in, s, REFUSED_WISH, "at=MAIL hold=%lld deliver_by=%lld", (long long)ev->tx->hold_until, (long long)ev->tx->deliver_at);
		reject(s, 501, "5.5.4", "To be returned before it is released");
	} else if (s->terms->own_envelope && !auth_may_send_as(s, ev->tx->mail_from)) {
		ingress_refused(in, s, REFUSED_SENDER, "at=MAIL account=%s from=%s", log_q(buf_str(&s->login)), log_q(ev->tx->mail_from));
		reject(s, 553, "5.7.1", "This sender address is not yours");
	} else if (!local_may_send_as(s, ev->tx->mail_from)) {
		ingress_refused(in, s, REFUSED_SENDER, "at=MAIL uid=%u from=%s", (unsigned)s->uid, log_q(ev->tx->mail_from));
		reject(s, 553, "5.7.1", "You may not send as this address");
	} else if (in->draining) {
		ingress_refused(in, s, REFUSED_DRAIN, "at=MAIL");
		reject(s, 451, "4.3.2", "Service is stopping; try again later");
	} else if (!in->database_up) {
		ingress_refused(in, s, REFUSED_DATABASE, "at=MAIL");
		reject(s, 451, "4.3.0", "Mail cannot be stored at the moment; try again later");
	} else if (in->house.used >= in->house.max) {
		ingress_refused(in, s, REFUSED_MEMORY, "at=MAIL used=%zu", in->house.used);
		reject(s, 452, "4.3.1", "Too much mail at once; try again later");
	} else if (ingress_queue_full(in)) {
		ingress_refused(in, s, REFUSED_QUEUE, "at=MAIL rows=%lld", (long long)in->queue_rows);
		reject(s, 452, "4.3.1", "Too much mail is waiting here; try again later");
	} else if (!s->exempt && !s->login.n && !limits_take(in->limits, &s->terms->abuse.rates, &s->peer, LIMIT_MESSAGES, clock_mono_us())) {
		ingress_refused(in, s, REFUSED_RATE, "at=MAIL from=%s", log_q(ev->tx->mail_from));
		reject(s, 450, "4.7.1", "Too many messages from your network; try again later");
	} else if (in->disk_low) {
		ingress_refused(in, s, REFUSED_DISK, "at=MAIL");
		reject(s, 452, "4.3.1", "Insufficient storage; try again later");
	} else if (!storable(ev->tx->mail_from)) {
		ingress_refused(in, s, REFUSED_ADDRESS, "at=MAIL from=%s", log_q(ev->tx->mail_from));
		reject(s, 553, "5.1.7", "Bad sender address");
	} else {
		vet_free(s); /* of a transaction that nobody ended */
		session_charge(s, arena_used(ev->tx->arena));
		accept_usual(s);
	}
}

/* Bare postmaster is ours where any domain is, and for our own clients. 0: accepted, the address completed. */
static int complete_postmaster(struct session *s, const struct smtp_event *ev)
{
	struct str full = str_from(s->terms->postmaster);
	ptrdiff_t at = str_chr(full, '@');
	if ((!s->terms->has_local && !s->relay && !s->login.n) || at < 0)
		return -1;
	full = arena_str(ev->tx->arena, full);
	if (!full.p)
		return -1;
	ev->rcpt->address = full;
	ev->rcpt->local = str_n(full.p, (size_t)at);
	ev->rcpt->domain = str_skip(full, (size_t)at + 1);
	return 0;
}

static void on_rcpt(struct session *s, const struct smtp_event *ev)
{
	struct smtp_rcpt *r = ev->rcpt;
	struct spool_house *house = &s->in->house;
	bool ok = true, local;
	session_charge(s, arena_used(ev->tx->arena)); /* refused recipients stay in it, too */
	if (house->used > house->max) {
		/* the end, not a 452: only so is what this session holds free for others */
		ingress_refused(s->in, s, REFUSED_MEMORY, "at=RCPT rcpts=%u used=%zu", ev->tx->n_rcpts, house->used);
		reject(s, 421, "4.3.1", "Too much mail at once; try again later");
		return;
	}
	if (!storable(r->address)) {
		ingress_refused(s->in, s, REFUSED_ADDRESS, "at=RCPT to=%s", log_q(r->address));
		reject(s, 553, "5.1.3", "Bad recipient address");
		return;
	}
	local = !r->domain.n || config_domains_has(s->terms->local, r->domain);
	if (!r->domain.n)
		ok = complete_postmaster(s, ev) == 0;
	else
		ok = s->relay || s->login.n || local;
	if (ok && !s->exempt && !s->login.n &&
	    !limits_take(s->in->limits, &s->terms->abuse.rates, &s->peer, LIMIT_RECIPIENTS, clock_mono_us())) {
		ingress_refused(s->in, s, REFUSED_RATE, "at=RCPT from=%s to=%s", log_q(ev->tx->mail_from), log_q(r->address));
		reject(s, 450, "4.7.1", "Too many recipients from your network; try again later");
		return;
	}
	if (ok) {
		checks_rcpt(s, ev, local);
		return;
	}
	ingress_refused(s->in, s, REFUSED_RELAY, "from=%s to=%s", log_q(ev->tx->mail_from), log_q(r->address));
	reject(s, 550, "5.7.1", "Relaying denied");
}

void policy_data_begin(struct session *s)
{
	spool_init(&s->message.spool, &s->in->house);
	s->has_spool = true;
	s->data_us = clock_mono_us();
	accept_usual(s);
}

static void drop_content(struct session *s)
{
	vet_free(s);
	message_done(&s->message);
	s->has_spool = false;
	session_charge(s, 0);
}

static void refuse_content(struct session *s, enum refusal why, unsigned code, const char *status, const char *text)
{
	ingress_refused(s->in, s, why, "at=DATA size=%llu reason=%s", (unsigned long long)s->message.spool.size,
	    log_qz(text));
	drop_content(s);
	reject(s, code, status, text);
}

static void count_use(struct ingress *in, const struct smtp_transaction *tx)
{
	in->used[USED_CHUNKING] += tx->chunked;
	in->used[USED_BINARYMIME] += tx->body == SMTP_BODY_BINARYMIME;
	in->used[USED_SMTPUTF8] += tx->smtputf8;
	in->used[USED_PRDR] += tx->prdr;
	in->used[USED_REQUIRETLS] += tx->require_tls;
	in->used[USED_DELIVERBY] += tx->deliver_mode != 0;
	in->used[USED_FUTURERELEASE] += tx->hold_until != 0;
	in->used[USED_MT_PRIORITY] += tx->has_priority;
}

int policy_vetted(struct session *s)
{
	if (s->terms->n_before && !(s->login.n && s->terms->before_spares))
		return before_submit(s->in->before, s);
	s->awaiting = true;
	admit_submit(s->in->admit, &s->message);
	return 0;
}

void policy_refuse_vetted(struct session *s, const struct smtp_reply *r)
{
	drop_content(s);
	smtp_server_reject(s->engine, r);
}

static void on_message(struct session *s, const struct smtp_event *ev)
{
	struct message *m = &s->message;
	enum spool_fault fault = spool_finish(&m->spool);
	switch (fault) {
	case SPOOL_OK:
		break;
	case SPOOL_FULL:
		refuse_content(s, REFUSED_MEMORY, 452, "4.3.1", "Too much mail at once; try again later");
		return;
	case SPOOL_DISK:
		log_error(&s->log, "event=spool-failed folder=%s error=%s", s->in->house.dir,
		    log_qz(strerror(m->spool.spool_errno)));
		refuse_content(s, REFUSED_DISK, 452, "4.3.1", "Insufficient storage; try again later");
		return;
	case SPOOL_HEADERS_LONG:
		refuse_content(s, REFUSED_HEADERS, 554, "5.6.0", "Message header is too large");
		return;
	case SPOOL_HEADERS_MANY:
		refuse_content(s, REFUSED_HEADERS, 554, "5.6.0", "Message header has too many lines");
		return;
	}
	/* RFC 5321 §6.3 */
	if (s->terms->max_hops &&
	    mail_received_count(buf_str(&m->spool.head), s->terms->max_hops + 1) > s->terms->max_hops) {
		refuse_content(s, REFUSED_LOOP, 554, "5.4.6", "Too many hops: mail loop");
		return;
	}
	if (s->login.n && (s->terms->need_auth || (s->terms->own_header && !auth_may_send_as_any(s)))) {
		char text[400];
		enum submission_fault f = submission_check(s, buf_str(&m->spool.head), ev->tx->mail_from, &m->submission, text, sizeof text);
		if (f) {
			refuse_content(s, f == SUBMISSION_OWNER ? REFUSED_FROM : REFUSED_FORM, f == SUBMISSION_OWNER ? 550 : 554,
			    f == SUBMISSION_OWNER ? "5.7.1" : "5.6.0", text);
			return;
		}
	}
	count_use(s->in, ev->tx);
	if (message_take(m, ev->tx)) {
		refuse_content(s, REFUSED_MEMORY, 452, "4.3.1", "Out of memory; try again later");
		return;
	}
	if (!caps_take(s->in->caps, s)) {
		refuse_content(s, REFUSED_CAP, 450, "4.7.1", "Too much mail of this account waits already; try again later");
		return;
	}
	session_charge(s, 2 * s->envelope); /* the copy */
	if (vet_message(s) == VET_PASS && policy_vetted(s))
		refuse_content(s, REFUSED_MEMORY, 452, "4.3.1", "Out of memory; try again later");
}

void policy_event(struct session *s, const struct smtp_event *ev)
{
	switch (ev->kind) {
	case SMTP_EV_NONE:
		break;
	case SMTP_EV_RESET:
		vet_free(s);
		session_charge(s, 0);
		break;
	case SMTP_EV_HELO:
		on_helo(s, ev);
		break;
	case SMTP_EV_MAIL:
		on_mail(s, ev);
		break;
	case SMTP_EV_RCPT:
		on_rcpt(s, ev);
		break;
	case SMTP_EV_DATA:
		if (!checks_data(s, ev))
			policy_data_begin(s);
		break;
	case SMTP_EV_CHUNK:
		spool_add(&s->message.spool, ev->chunk);
		vet_content(s, ev->chunk);
		break;
	case SMTP_EV_MESSAGE:
		on_message(s, ev);
		break;
	case SMTP_EV_ABORT:
		ingress_refused(s->in, s, REFUSED_CONTENT, "at=DATA size=%llu reason=%s",
		    (unsigned long long)s->message.spool.size, log_q(ev->text));
		drop_content(s);
		break;
	case SMTP_EV_STARTTLS:
		s->starttls = true;
		break;
	case SMTP_EV_VRFY:
		checks_vrfy(s, ev);
		break;
	case SMTP_EV_EXPN: /* 252: nobody is told who is on a list */
		accept_usual(s);
		break;
	case SMTP_EV_XCLIENT:
		xclient_take(s, ev->xclient);
		break;
	case SMTP_EV_AUTH:
	case SMTP_EV_AUTH_RESPONSE:
	case SMTP_EV_AUTH_CANCEL:
		auth_event(s, ev);
		break;
	case SMTP_EV_QUIT:
		s->closing = true;
		session_charge(s, 0);
		break;
	case SMTP_EV_CLOSE:
		s->closing = true;
		session_charge(s, 0);
		s->abrupt = !s->eof;
		break;
	}
}
