/* The caller's answers, which become replies and move the session on: one for most events, one per recipient at the end of a
 * message in LMTP (RFC 2033 §4.2) and with PRDR. */
#include "server_internal.h"
#include "status.h"

#include <stdio.h>

/* Octets of a reply's text with a priority before it; the reply writer cuts lines anyway. */
enum { TEXT_MAX = 1024 };

/* A caller's reply, or the default where it has none or one that does not fit. */
struct answer {
	unsigned code;
	const char *status, *text;
};

static struct answer choose(const struct smtp_reply *r, unsigned low, unsigned high, struct answer usual)
{
	struct answer a = usual;
	if (!r)
		return a;
	if (r->code >= low && r->code <= high)
		a.code = r->code;
	if (r->text)
		a.text = r->text;
	if (smtp_status_fits(r->status, a.code))
		a.status = r->status;
	else if (usual.status && !smtp_status_fits(usual.status, a.code))
		a.status = a.code < 300 ? "2.0.0" : a.code < 500 ? "4.0.0" : "5.0.0";
	return a;
}

static void say_answer(struct smtp_server *s, const struct smtp_reply *r, unsigned code, const char *status,
    const char *text)
{
	struct answer a = choose(r, 200, 299, (struct answer){ code, status, text });
	smtp_server_say(s, a.code, a.status, a.text);
}

/* The answer to the whole message, or to one recipient of it; a 2xx tells of a priority that is not the one asked for:
 * the new one, then a text (RFC 6710, status X.3.6). */
static void say_of_message(struct smtp_server *s, struct answer a)
{
	char text[TEXT_MAX];
	if (a.code < 300 && s->tx.has_priority && s->tx.priority != s->tx.priority_asked) {
		snprintf(text, sizeof text, "%d %s", s->tx.priority, a.text);
		a.text = text;
		a.status = "2.3.6";
	}
	smtp_server_say(s, a.code, a.status, a.text);
}

static void say_to_rcpts(struct smtp_server *s, struct answer all)
{
	for (unsigned i = 0; i < s->replies; i++) {
		const struct smtp_reply *r = s->rcpt_replies ? &s->rcpt_replies[i] : NULL;
		struct answer own = { 250, "2.0.0", "" };
		say_of_message(s, r && r->code ? choose(r, r->code, r->code, own) : all);
	}
}

static void end_of_message(struct smtp_server *s, struct answer a)
{
	bool each = s->tx.prdr && s->tx.n_rcpts > 1 && a.code < 300;
	s->state = SMTP_STATE_READY;
	s->tx_stale = true;
	s->begun = false;
	if (s->conf->lmtp) {
		say_to_rcpts(s, a);
		return;
	}
	if (each) {
		smtp_server_say(s, 353, NULL, "Content analysed, a reply per recipient follows");
		say_to_rcpts(s, a);
	}
	say_of_message(s, a);
}

void smtp_server_refuse_message(struct smtp_server *s, unsigned code, const char *status, const char *text)
{
	unsigned n = s->conf->lmtp ? s->replies : 1;
	while (n--)
		smtp_server_say(s, code, status, text);
	smtp_server_count_error(s);
}

int smtp_server_answer_rcpt(struct smtp_server *s, unsigned i, const struct smtp_reply *r)
{
	struct smtp_transaction *tx = &s->tx;
	if (s->pending != SMTP_EV_MESSAGE || i >= tx->n_rcpts)
		return -1;
	if (r->code < 200 || r->code > 599 || (r->code >= 300 && r->code < 400))
		return 0;
	if (!s->rcpt_replies && !(s->rcpt_replies = arena_calloc(tx->arena, tx->n_rcpts, sizeof *s->rcpt_replies)))
		return -1;
	struct str text = r->text ? arena_str(tx->arena, str_from(r->text)) : STR_NULL;
	struct str status = r->status ? arena_str(tx->arena, str_from(r->status)) : STR_NULL;
	if ((r->text && !text.p) || (r->status && !status.p))
		return -1;
	s->rcpt_replies[i] = (struct smtp_reply){ r->code, status.p, text.p };
	return 0;
}

static void greet(struct smtp_server *s, const struct smtp_reply *r)
{
	smtp_server_abort(s, "EHLO");
	if (s->state == SMTP_STATE_MAIL || s->state == SMTP_STATE_RCPT)
		smtp_server_tell(s, SMTP_EV_RESET, "EHLO");
	s->state = SMTP_STATE_READY;
	s->esmtp = (s->command.p[0] | 0x20) != 'h'; /* EHLO, LHLO */
	s->helo = !s->esmtp;
	s->chunk_lost = false;
	smtp_server_greet(s, r ? r->text : NULL);
}

/* As if the client of XCLIENT had just connected. */
static void begin_anew(struct smtp_server *s)
{
	s->state = SMTP_STATE_CONNECTED;
	s->esmtp = s->helo = s->chunk_lost = s->signed_in = false;
	s->errors = s->mails = 0;
	smtp_server_banner(s);
}

void smtp_server_accept(struct smtp_server *s, const struct smtp_reply *r)
{
	enum smtp_event_kind what = s->pending;
	s->pending = SMTP_EV_NONE;
	/* what came while the caller thought came too early all the same */
	if ((what == SMTP_EV_HELO || what == SMTP_EV_XCLIENT || what == SMTP_EV_AUTH || what == SMTP_EV_AUTH_RESPONSE ||
		(what == SMTP_EV_DATA && !s->tx.chunked)) &&
	    smtp_server_unread(s)) {
		smtp_server_fail(s, 503, "5.5.1", "Wait for the reply before you go on");
		return;
	}
	switch (what) {
	case SMTP_EV_HELO:
		greet(s, r);
		break;
	case SMTP_EV_XCLIENT:
		begin_anew(s);
		break;
	case SMTP_EV_AUTH:
	case SMTP_EV_AUTH_RESPONSE:
		smtp_server_auth_accepted(s);
		say_answer(s, r, 235, "2.7.0", "Signed in");
		break;
	case SMTP_EV_MAIL:
		s->state = SMTP_STATE_MAIL;
		s->mails++;
		s->chunk_lost = false;
		say_answer(s, r, 250, "2.1.0", "Ok");
		break;
	case SMTP_EV_RCPT:
		smtp_transaction_add_rcpt(s);
		s->state = SMTP_STATE_RCPT;
		say_answer(s, r, 250, "2.1.5", "Ok");
		break;
	case SMTP_EV_DATA:
		s->data_refused = false;
		s->begun = true;
		s->replies = s->tx.n_rcpts;
		if (s->tx.chunked) {
			smtp_server_bdat_begin(s);
			break;
		}
		smtp_server_data_begin(s);
		smtp_server_say(s, 354, NULL, r && r->text ? r->text : "End data with <CR><LF>.<CR><LF>");
		break;
	case SMTP_EV_MESSAGE:
		end_of_message(s, choose(r, 200, 299, (struct answer){ 250, "2.0.0", "Ok" }));
		break;
	case SMTP_EV_VRFY:
	case SMTP_EV_EXPN:
		say_answer(s, r, 252, "2.5.0", "Cannot verify, but will try to deliver");
		break;
	default:
		break;
	}
}

void smtp_server_reject(struct smtp_server *s, const struct smtp_reply *r)
{
	static const struct answer usual[] = {
		[SMTP_EV_HELO] = { 550, "5.7.1", "Refused" },
		[SMTP_EV_MAIL] = { 550, "5.7.1", "Sender refused" },
		[SMTP_EV_RCPT] = { 550, "5.7.1", "Recipient refused" },
		[SMTP_EV_DATA] = { 451, "4.3.0", "Not now" },
		[SMTP_EV_MESSAGE] = { 554, "5.7.1", "Message refused" },
		[SMTP_EV_VRFY] = { 550, "5.7.1", "Refused" },
		[SMTP_EV_EXPN] = { 550, "5.7.1", "Refused" },
		[SMTP_EV_XCLIENT] = { 550, "5.7.1", "Refused" },
		[SMTP_EV_AUTH] = { 535, "5.7.8", "Sign-in failed" },
		[SMTP_EV_AUTH_RESPONSE] = { 535, "5.7.8", "Sign-in failed" },
	};
	enum smtp_event_kind what = s->pending;
	if (!what)
		return;
	s->pending = SMTP_EV_NONE;
	struct answer a = choose(r, 400, 599, usual[what]);
	if (what == SMTP_EV_MAIL || what == SMTP_EV_MESSAGE) {
		s->state = SMTP_STATE_READY;
		s->tx_stale = true;
		s->begun = false;
	}
	if (what == SMTP_EV_AUTH || what == SMTP_EV_AUTH_RESPONSE)
		smtp_server_auth_rejected(s);
	if (a.code == 421) { /* the caller's way to end the session in one go */
		smtp_server_fail(s, a.code, a.status, a.text);
		return;
	}
	if (what == SMTP_EV_MESSAGE && s->conf->lmtp)
		say_to_rcpts(s, a);
	else
		smtp_server_say(s, a.code, a.status, a.text);
	if (what == SMTP_EV_DATA && s->tx.chunked) {
		smtp_server_bdat_refused(s);
		if (a.code >= 500)
			smtp_server_count_error(s);
	} else if (what == SMTP_EV_DATA && smtp_server_unread(s)) /* that must be the message: not to be run as commands */
		smtp_server_finish(s, "input behind a refused DATA");
	else if (a.code >= 500) /* a 4xx is no fault of the client's */
		smtp_server_count_error(s);
}

