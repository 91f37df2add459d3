/* Turning a finished transaction into a row: envelope copy, Received, state. May not decide anything about it. */
#include "message.h"

#include "addressees.h"
#include "base/clock.h"
#include "caps.h"
#include "dnsbl.h"
#include "base/json.h"
#include "proto/mail/received.h"
#include "proxied.h"
#include "reverse.h"
#include "session.h"

#include <stdio.h>
#include <stdlib.h>

/* dsn entries of WIRE_RCPTS_MAX recipients at their longest */
enum { STATE_MAX = 64 * 1024 * 1024 };

/* RFC 3461 §4.1: NEVER stands alone, the others in a list. */
static void put_notify(struct buf *out, unsigned notify)
{
	static const struct {
		unsigned flag;
		const char *name;
	} names[] = { { SMTP_NOTIFY_NEVER, "NEVER" }, { SMTP_NOTIFY_SUCCESS, "SUCCESS" },
		{ SMTP_NOTIFY_FAILURE, "FAILURE" }, { SMTP_NOTIFY_DELAY, "DELAY" } };
	bool first = true;
	json_put_key(out, "notify");
	buf_addc(out, '"');
	for (unsigned i = 0; i < 4; i++) {
		if (!(notify & names[i].flag))
			continue;
		if (!first)
			buf_addc(out, ',');
		buf_addz(out, names[i].name);
		first = false;
	}
	buf_addc(out, '"');
}

static void put_dsn(struct buf *out, const struct smtp_transaction *tx, const struct addressee *to, size_t n)
{
	bool rcpts = false;
	for (size_t i = 0; i < n; i++)
		rcpts = rcpts || to[i].notify || to[i].rcpt->orcpt.n;
	if (!tx->ret && !tx->envid.n && !rcpts)
		return;
	buf_addc(out, '{');
	if (tx->ret)
		json_put_member(out, "ret", tx->ret == 'F' ? STR("FULL") : STR("HDRS"));
	if (tx->envid.n)
		json_put_member(out, "envid", tx->envid);
	if (rcpts) {
		json_put_key(out, "rcpt");
		buf_addc(out, '[');
		for (size_t i = 0; i < n; i++) {
			buf_addz(out, i ? ",{" : "{");
			if (to[i].notify)
				put_notify(out, to[i].notify);
			if (to[i].rcpt->orcpt.n)
				json_put_member(out, "orcpt", to[i].rcpt->orcpt);
			buf_addc(out, '}');
		}
		buf_addc(out, ']');
	}
	buf_addc(out, '}');
}

/* What the extensions of MAIL promise beyond this hop (pepsi.state(7)); times as seconds since 1970. */
static void put_wishes(struct buf *out, const struct smtp_transaction *tx)
{
	if (tx->deliver_mode) {
		json_put_key(out, "deliver_by");
		buf_addc(out, '{');
		json_put_key(out, "at");
		buf_addf(out, "%lld", (long long)tx->deliver_at);
		json_put_member(out, "mode", tx->deliver_mode == 'R' ? STR("R") : STR("N"));
		json_put_bool(out, "trace", tx->deliver_trace);
		buf_addc(out, '}');
	}
	if (tx->has_priority) {
		json_put_key(out, "priority");
		buf_addf(out, "%d", tx->priority);
	}
	if (tx->require_tls)
		json_put_bool(out, "require_tls", true);
}

int message_take(struct message *m, const struct smtp_transaction *tx)
{
	char user[32] = "";
	if (m->session && m->session->user_known && tx->once.n) /* users cannot meet each other's keys */
		snprintf(user, sizeof user, "%u:", (unsigned)m->session->uid);
	size_t n = tx->mail_from.n + strlen(user) + tx->once.n;
	for (unsigned i = 0; i < tx->n_rcpts; i++)
		n += tx->rcpts[i].address.n;
	m->text = BUF_INIT(n);
	m->dsn = BUF_INIT(STATE_MAX);
	m->wishes = BUF_INIT(1024);
	if (!buf_room(&m->text, n))
		return -1;
	struct addressee *to = calloc(tx->n_rcpts + 1, sizeof *to);
	m->rcpts = calloc(tx->n_rcpts + 1, sizeof *m->rcpts);
	if (!to || !m->rcpts) {
		free(to);
		return -1;
	}
	m->n_rcpts = addressees_once(tx, to);
	m->repeated = tx->n_rcpts - m->n_rcpts;
	/* the buffer does not move any more: pointers into it hold */
	buf_adds(&m->text, tx->mail_from);
	m->mail_from = buf_str(&m->text);
	for (size_t i = 0; i < m->n_rcpts; i++) {
		m->rcpts[i] = str_n(m->text.p + m->text.n, to[i].rcpt->address.n);
		buf_adds(&m->text, to[i].rcpt->address);
	}
	m->once = str_n(m->text.p + m->text.n, *user ? strlen(user) + tx->once.n : 0);
	if (*user) {
		buf_addz(&m->text, user);
		buf_adds(&m->text, tx->once);
	}
	m->smtputf8 = tx->smtputf8;
	m->body = tx->body;
	m->chunked = tx->chunked;
	put_dsn(&m->dsn, tx, to, m->n_rcpts);
	free(to);
	put_wishes(&m->wishes, tx);
	m->hold_until = tx->hold_until + (tx->hold_for > 0); /* the present second had begun: never less than was asked for */
	m->hold_why = "sender";
	return m->text.failed || m->dsn.failed || m->wishes.failed ? -1 : 0;
}

/* RFC 3848; RFC 6531 §4.3 for the UTF8 forms, which are extended by nature. */
static struct str protocol(const struct session *s, bool utf8, char out[16])
{
	bool lmtp = s->terms->lmtp;
	if (!lmtp && !utf8 && !s->esmtp && !s->tls_protocol)
		return STR("SMTP");
	snprintf(out, 16, "%s%s%s%s", utf8 ? "UTF8" : "", lmtp ? "LMTP" : utf8 ? "SMTP" : "ESMTP", s->tls_protocol ? "S" : "",
	    s->login.n ? "A" : "");
	return str_from(out);
}

static void put_tls(struct buf *out, const struct session *s)
{
	json_put_key(out, "tls");
	buf_addc(out, '{');
	json_put_member(out, "protocol", str_from(s->tls_protocol));
	json_put_member(out, "cipher", str_from(s->tls_cipher));
	json_put_key(out, "bits");
	buf_addf(out, "%d", s->tls_bits);
	if (s->identity) {
		json_put_member(out, "client_subject", str_from(s->identity->subject));
		json_put_member(out, "client_fingerprint", str_from(s->identity->fingerprint));
	}
	buf_addc(out, '}');
}

static void put_proxy(struct buf *out, const struct proxy_info *via)
{
	json_put_key(out, "proxy");
	buf_addc(out, '{');
	json_put_member(out, "ip", str_from(via->addr.text));
	if (via->authority[0])
		json_put_member(out, "authority", str_from(via->authority));
	if (via->alpn[0])
		json_put_member(out, "alpn", str_from(via->alpn));
	if (via->tls_version[0])
		json_put_member(out, "tls_protocol", str_from(via->tls_version));
	if (via->tls_cipher[0])
		json_put_member(out, "tls_cipher", str_from(via->tls_cipher));
	buf_addc(out, '}');
}

static struct str body_name(enum smtp_body b)
{
	switch (b) {
	case SMTP_BODY_7BIT:
		break;
	case SMTP_BODY_8BITMIME:
		return STR("8BITMIME");
	case SMTP_BODY_BINARYMIME:
		return STR("BINARYMIME");
	}
	return STR("7BIT");
}

static void put_hold(struct buf *out, const struct message *m)
{
	json_put_key(out, "hold");
	buf_addc(out, '{');
	json_put_key(out, "until");
	buf_addf(out, "%lld", (long long)m->hold_until);
	json_put_member(out, "why", str_from(m->hold_why));
	buf_addc(out, '}');
}

static void put_state(struct buf *out, const struct message *m, const struct session *s)
{
	buf_addz(out, "{\"origin\":{");
	json_put_member(out, "ip", str_from(s->peer.text));
	json_put_key(out, "port");
	buf_addf(out, "%u", s->peer.port);
	json_put_member(out, "helo", buf_str(&s->helo));
	if (s->rdns.n)
		json_put_member(out, "rdns", buf_str(&s->rdns));
	if (reverse_result(s) != IPREV_NONE)
		json_put_member(out, "iprev", str_from(iprev_result_name(reverse_result(s))));
	dnsbl_put(s, out);
	json_put_bool(out, "esmtp", s->esmtp);
	json_put_bool(out, "smtputf8", m->smtputf8);
	json_put_member(out, "body", body_name(m->body));
	json_put_member(out, "listener", str_from(s->terms->name));
	if (s->login.n)
		json_put_member(out, "account", buf_str(&s->login));
	if (s->user_known) {
		char account[32];
		snprintf(account, sizeof account, "uid:%u", (unsigned)s->uid);
		json_put_member(out, "account", str_from(account));
		json_put_key(out, "uid");
		buf_addf(out, "%u", (unsigned)s->uid);
	}
	if (s->tls_protocol)
		put_tls(out, s);
	if (s->via)
		put_proxy(out, s->via);
	json_put_member(out, "authserv_id", str_from(s->terms->hostname));
	buf_addc(out, '}');
	if (m->hold_until)
		put_hold(out, m);
	if (m->auth.n) {
		json_put_key(out, "auth");
		buf_adds(out, buf_str(&m->auth));
	}
	if (m->wishes.n) {
		buf_addc(out, ',');
		buf_adds(out, buf_str(&m->wishes));
	}
	if (m->dsn.n) {
		json_put_key(out, "dsn");
		buf_adds(out, buf_str(&m->dsn));
	}
	buf_addc(out, '}');
}

bool message_held(const struct message *m)
{
	return m->hold_until && m->hold_until * US_PER_S >= m->received_at;
}

/* Ours: there was no client whose trace could be put on it. */
static int compose_own(struct message *m)
{
	m->headers = BUF_INIT(m->spool.head.n + 16);
	m->state = BUF_INIT(256);
	buf_adds(&m->headers, buf_str(&m->spool.head));
	buf_addz(&m->state, "{\"origin\":{");
	json_put_bool(&m->state, "esmtp", true);
	json_put_bool(&m->state, "smtputf8", m->smtputf8);
	json_put_member(&m->state, "body", body_name(m->body));
	buf_addz(&m->state, "}}");
	return m->headers.failed || m->state.failed ? -1 : 0;
}

const char *message_stage(const struct message *m)
{
	return m->stage[0] ? m->stage : INGRESS_FIRST_STAGE;
}

int message_set_envelope(struct message *m, const struct str *from, const struct str *rcpts, size_t n)
{
	struct str sender = from ? *from : m->mail_from;
	const struct str *to = rcpts ? rcpts : m->rcpts;
	size_t n_to = rcpts ? n : m->n_rcpts, octets = sender.n;
	for (size_t i = 0; i < n_to; i++)
		octets += to[i].n;
	struct buf text = BUF_INIT(octets);
	struct str *list = calloc(n_to ? n_to : 1, sizeof *list);
	if (!list || !buf_room(&text, octets)) {
		free(list);
		buf_free(&text);
		return -1;
	}
	/* as in message_take(): from here on it does not move */
	buf_adds(&text, sender);
	sender = buf_str(&text);
	for (size_t i = 0; i < n_to; i++) {
		list[i] = str_n(text.p + text.n, to[i].n);
		buf_adds(&text, to[i]);
	}
	buf_free(&m->text);
	free(m->rcpts);
	m->text = text;
	m->mail_from = sender;
	m->rcpts = list;
	m->n_rcpts = n_to;
	return 0;
}

int message_state(struct message *m)
{
	m->state = BUF_INIT(STATE_MAX);
	put_state(&m->state, m, m->session);
	return m->state.failed ? -1 : 0;
}

int message_compose(struct message *m, int64_t now_us)
{
	const struct session *s = m->session;
	if (!s) {
		m->received_at = now_us;
		return compose_own(m);
	}
	bool hide = s->terms->hide_client && s->login.n;
	char id[24], tls[128] = "", with[16], user[32] = "";
	snprintf(id, sizeof id, "%lld", (long long)m->id);
	if (s->tls_protocol)
		snprintf(tls, sizeof tls, "%s %s %d bits", s->tls_protocol, s->tls_cipher, s->tls_bits);
	if (s->user_known)
		snprintf(user, sizeof user, "userid %u", (unsigned)s->uid);
	m->received_at = now_us;
	m->headers = BUF_INIT(m->spool.head.n + 8192);
	if (!m->state.n && message_state(m))
		return -1;
	struct mail_received r = {
		.helo = hide ? str_from(s->terms->hostname) : buf_str(&s->helo),
		.ip = !hide && net_addr_is_ip(&s->peer) ? str_from(s->peer.text) : STR_NULL,
		.rdns = hide ? STR_NULL : buf_str(&s->rdns),
		.user = str_from(user),
		.protocol = protocol(s, m->smtputf8, with),
		.tls = str_from(tls),
		.hostname = str_from(s->terms->hostname),
		.id = str_from(id),
		.rcpt = m->n_rcpts == 1 ? m->rcpts[0] : STR_NULL,
		.utf8 = m->smtputf8,
		.time_us = now_us,
	};
	if (!buf_room(&m->headers, m->spool.head.n + 512) || mail_received_write(&m->headers, &r) ||
	    submission_headers(&m->submission, buf_str(&m->spool.head), id, s->terms->hostname, now_us, &m->headers))
		return -1;
	if (s->user_known)
		snprintf(m->sender_key, sizeof m->sender_key, "uid:%u", (unsigned)s->uid);
	else if (s->login.n)
		snprintf(m->sender_key, sizeof m->sender_key, "%.*s", STR_ARG(buf_str(&s->login)));
	else
		net_addr_sender_key(&s->peer, m->sender_key);
	return 0;
}

size_t message_octets(const struct message *m)
{
	return m->spool.head.n + (size_t)spool_body_size(&m->spool) + m->text.n + m->dsn.n + m->wishes.n + m->auth.n + 1024;
}

void message_row(const struct message *m, struct str body, struct store_message *ret)
{
	*ret = (struct store_message){
		.id = m->id,
		.stage = message_stage(m),
		.running = m->reserved,
		.received_at = m->received_at,
		.mail_from = m->mail_from,
		.rcpts = m->rcpts,
		.n_rcpts = m->n_rcpts,
		.state = buf_str(&m->state),
		.headers = buf_str(&m->headers),
		.body = body,
		.once = m->once,
	};
}

bool message_item(const struct message *m, struct wire_item *ret)
{
	uint64_t size = spool_body_size(&m->spool);
	*ret = (struct wire_item){
		.id = m->id,
		.has_content = true,
		.received_at = m->received_at,
		.body_id = m->id,
		.mail_from = m->mail_from,
		.rcpts = m->rcpts,
		.n_rcpts = m->n_rcpts,
		.state = buf_str(&m->state),
		.headers = buf_str(&m->headers),
		.body_in_fd = m->spool.fd >= 0 || size > WIRE_INLINE_MAX,
		.body_size = size,
	};
	if (!ret->body_in_fd)
		ret->body = buf_str(&m->spool.body);
	return m->n_rcpts <= WIRE_RCPTS_MAX && wire_size(ret) <= WIRE_DATAGRAM_MAX;
}

void message_done(struct message *m)
{
	spool_done(&m->spool);
	free(m->rcpts);
	m->rcpts = NULL;
	m->n_rcpts = 0;
	m->hold_until = 0;
	if (m->booked)
		caps_return(m);
	m->cap_tell = false;
	m->cap = NULL;
	m->submission = (struct submission){ 0 };
	buf_free(&m->text);
	buf_free(&m->dsn);
	buf_free(&m->wishes);
	buf_free(&m->auth);
	buf_free(&m->vetted);
	buf_free(&m->counted);
	buf_free(&m->failed);
	buf_free(&m->headers);
	buf_free(&m->state);
	m->stage[0] = 0;
}
