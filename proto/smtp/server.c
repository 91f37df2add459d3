/* The session: input, output and events. What the commands mean is in server_verbs.c, server_mail.c, server_data.c,
 * server_bdat.c and server_xclient.c; what the caller answers in server_answers.c. */
#include "reply.h"
#include "server_internal.h"
#include "status.h"

#include "proto/address/address.h"

#include <stdlib.h>

void smtp_server_banner(struct smtp_server *s)
{
	if (buf_addf(&s->out, "220 %.*s %s Pepsi\r\n", STR_ARG(s->conf->hostname), s->conf->lmtp ? "LMTP" : "ESMTP"))
		s->mute = true;
}

struct smtp_server *smtp_server_new(const struct smtp_server_conf *conf)
{
	struct smtp_server *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->conf = conf;
	s->in = BUF_INIT(SMTP_SERVER_INPUT_MAX);
	s->out = BUF_INIT(SMTP_SERVER_OUTPUT_MAX);
	s->command = BUF_INIT(SMTP_AUTH_LINE_MAX + SMTP_MAILBOX_MAX + 1);
	s->xclient_text = BUF_INIT(SMTP_LINE_MAX);
	smtp_server_banner(s);
	if (s->mute) {
		smtp_server_free(s);
		return NULL;
	}
	return s;
}

void smtp_server_free(struct smtp_server *s)
{
	if (!s)
		return;
	buf_free(&s->in);
	buf_free(&s->out);
	buf_free_secret(&s->command);
	buf_free(&s->xclient_text);
	smtp_server_auth_wipe(s);
	arena_free(s->tx.arena);
	free(s);
}

void smtp_server_say(struct smtp_server *s, unsigned code, const char *status, const char *text)
{
	/* Before EHLO the codes are told, too: who does not know them reads them as text. */
	bool enhanced = s->conf->extensions & SMTP_EXT_ENHANCEDSTATUSCODES && !s->helo;
	if (smtp_reply_write(&s->out, code, enhanced ? status : NULL, str_from(text)))
		s->mute = true; /* a reply is missing: the session cannot go on, whatever the caller does to the buffer */
}

void smtp_server_tell(struct smtp_server *s, enum smtp_event_kind kind, const char *why)
{
	if (s->n_queue < sizeof s->queue / sizeof *s->queue)
		s->queue[s->n_queue++] = (struct smtp_event){
			.kind = kind,
			.tx = kind == SMTP_EV_CLOSE ? NULL : &s->tx,
			.text = str_from(why),
		};
}

void smtp_server_abort(struct smtp_server *s, const char *why)
{
	if (s->begun)
		smtp_server_tell(s, SMTP_EV_ABORT, why);
	s->begun = false;
}

void smtp_server_finish(struct smtp_server *s, const char *why)
{
	if (s->state == SMTP_STATE_CLOSED)
		return;
	smtp_server_abort(s, why);
	smtp_server_tell(s, SMTP_EV_CLOSE, why);
	s->state = SMTP_STATE_CLOSED;
	s->pending = SMTP_EV_NONE;
}

void smtp_server_fail(struct smtp_server *s, unsigned code, const char *status, const char *text)
{
	if (s->state == SMTP_STATE_CLOSED)
		return;
	smtp_server_say(s, code, status, text);
	smtp_server_finish(s, text);
}

void smtp_server_count_error(struct smtp_server *s)
{
	s->errors++;
	if (s->conf->max_errors && s->errors >= s->conf->max_errors)
		smtp_server_fail(s, 421, "4.7.0", "Too many errors");
}

void smtp_server_refuse(struct smtp_server *s, unsigned code, const char *status, const char *text)
{
	smtp_server_say(s, code, status, text);
	smtp_server_count_error(s);
}

int smtp_server_feed(struct smtp_server *s, const char *p, size_t n)
{
	if (s->state == SMTP_STATE_CLOSED)
		return 0;
	if (s->state == SMTP_STATE_TLS && n)
		return -1;
	if (s->in_at) {
		buf_consume(&s->in, s->in_at);
		s->in_at = 0;
	}
	return buf_add(&s->in, p, n);
}

void smtp_server_eof(struct smtp_server *s)
{
	s->eof = true;
}

static int command_step(struct smtp_server *s, struct smtp_event *ret)
{
	struct str line;
	size_t used;
	if (!smtp_server_unread(s))
		return 0;
	struct str unread = str_n(s->in.p + s->in_at, smtp_server_unread(s));
	bool begins = !s->line.skipped, bdat = str_istarts(unread, STR("BDAT"));
	bool auth = s->state == SMTP_STATE_AUTH;
	if (begins)
		s->line.max = auth || str_istarts(unread, STR("AUTH ")) ? SMTP_AUTH_LINE_MAX - 2 : 0;
	enum smtp_line_result r = smtp_line_next(&s->line, unread.p, unread.n, &used, &line);
	s->in_at += used;
	if (begins && (s->line.skipped || r == SMTP_LINE_TOO_LONG))
		s->long_bdat = bdat;
	switch (r) {
	case SMTP_LINE_MORE:
		return 0;
	case SMTP_LINE_TOO_LONG:
		if (s->long_bdat) /* how long its chunk is nobody knows: not to be run as commands */
			smtp_server_fail(s, 500, "5.5.2", "Line too long");
		else if (auth)
			smtp_server_auth_too_long(s);
		else
			smtp_server_refuse(s, 500, "5.5.2", "Line too long");
		return 2;
	case SMTP_LINE_FLOOD:
		smtp_server_fail(s, 500, "5.5.2", "Line without end");
		return 2;
	case SMTP_LINE_BARE_CR:
	case SMTP_LINE_BARE_LF:
		smtp_server_fail(s, 500, "5.5.2", "Lines end with CR LF, neither may stand alone");
		return 2;
	case SMTP_LINE_NUL:
		smtp_server_fail(s, 500, "5.5.2", "NUL octet in a command");
		return 2;
	case SMTP_LINE_OK:
		break;
	}
	buf_reset(&s->command);
	/* with room behind it for an address in canonical form, so that the buffer does not move again */
	if (buf_adds(&s->command, line) || !buf_room(&s->command, SMTP_MAILBOX_MAX + 1)) {
		smtp_server_fail(s, 421, "4.3.0", "Insufficient system resources");
		return 2;
	}
	if (s->line.max) /* a password may be in it */
		explicit_bzero(s->in.p + s->in_at - used, used);
	if (auth)
		return smtp_server_auth_line(s, buf_str(&s->command), ret) ? 1 : 2;
	return smtp_server_command(s, buf_str(&s->command), ret) ? 1 : 2;
}

static int pop(struct smtp_server *s, struct smtp_event *ret)
{
	*ret = s->queue[0];
	for (unsigned i = 1; i < s->n_queue; i++)
		s->queue[i - 1] = s->queue[i];
	s->n_queue--;
	if (ret->kind == SMTP_EV_ABORT || ret->kind == SMTP_EV_RESET)
		s->tx_stale = true;
	return 1;
}

void smtp_server_trim(struct smtp_server *s)
{
	if (!smtp_server_unread(s)) {
		s->in.n = s->in_at = 0;
		if (s->in.cap > SMTP_SERVER_IDLE_KEEP)
			buf_free(&s->in);
	}
	if (!s->out.n && s->out.cap > SMTP_SERVER_IDLE_KEEP)
		buf_free(&s->out);
}

/* Memory that only a burst needed goes back. */
static void rest(struct smtp_server *s)
{
	if ((s->state == SMTP_STATE_DATA || s->state == SMTP_STATE_BDAT) && !smtp_server_unread(s))
		s->in.n = s->in_at = 0; /* the next chunk is on its way */
	else
		smtp_server_trim(s);
}

int smtp_server_next(struct smtp_server *s, struct smtp_event *ret)
{
	if (s->tx_stale)
		smtp_transaction_clear(s);
	for (;;) {
		int r;
		if (s->n_queue)
			return pop(s, ret);
		if (s->pending || s->state == SMTP_STATE_CLOSED)
			return 0;
		if (s->mute) {
			smtp_server_finish(s, "output not fetched, or out of memory");
			continue;
		}
		if (s->state == SMTP_STATE_DATA) {
			size_t before = s->in_at;
			r = smtp_server_data(s, ret);
			if (!r && s->in_at != before)
				continue;
		} else if (s->state == SMTP_STATE_BDAT) {
			r = smtp_server_bdat(s, ret);
		} else {
			r = s->state == SMTP_STATE_TLS ? 0 : command_step(s, ret);
		}
		if (r == 1)
			return 1;
		if (r == 2)
			continue;
		if (s->eof) {
			smtp_server_finish(s, "connection closed by the peer");
			continue;
		}
		rest(s);
		return 0;
	}
}

void smtp_server_shutdown(struct smtp_server *s, const char *status, const char *text)
{
	smtp_server_fail(s, 421, smtp_status_fits(status, 421) ? status : "4.3.2", text ? text : "Service closing");
}

bool smtp_server_wants_input(const struct smtp_server *s)
{
	return s->state != SMTP_STATE_CLOSED && s->state != SMTP_STATE_TLS && !s->eof &&
	    smtp_server_unread(s) <= SMTP_SERVER_INPUT_MAX - SMTP_SERVER_FEED_MAX && s->out.n <= SMTP_SERVER_OUTPUT_HIGH;
}

bool smtp_server_idle(const struct smtp_server *s)
{
	return (s->state == SMTP_STATE_CONNECTED || s->state == SMTP_STATE_READY) && !s->pending && !s->n_queue &&
	    !smtp_server_unread(s) && !s->line.skipped && !s->out.n;
}

bool smtp_server_pipelined(const struct smtp_server *s)
{
	return smtp_server_unread(s) > 0;
}

void smtp_server_tls_started(struct smtp_server *s)
{
	if (s->state == SMTP_STATE_CONNECTED && !s->tls && !smtp_server_unread(s) && !s->line.skipped) {
		s->tls = true;
		return;
	}
	if (s->state != SMTP_STATE_TLS)
		return;
	/* all but the error budget: a client must not refill it by turning to TLS */
	smtp_transaction_clear(s);
	buf_free(&s->in);
	buf_free(&s->command);
	s->in_at = 0;
	s->line = (struct smtp_line){ 0 };
	s->esmtp = s->helo = s->data_refused = s->chunk_lost = s->signed_in = false;
	s->mechs = 0;
	s->tls = true;
	s->state = SMTP_STATE_CONNECTED;
}

void smtp_server_trust(struct smtp_server *s, unsigned trust)
{
	s->trust = trust;
}

void smtp_server_time(struct smtp_server *s, int64_t now)
{
	s->now = now;
}

struct buf *smtp_server_out(struct smtp_server *s)
{
	return &s->out;
}

const char *smtp_server_state_name(const struct smtp_server *s)
{
	static const char *const names[] = {
		[SMTP_STATE_CONNECTED] = "connected",
		[SMTP_STATE_READY] = "ready",
		[SMTP_STATE_MAIL] = "mail",
		[SMTP_STATE_RCPT] = "rcpt",
		[SMTP_STATE_CHUNKS] = "bdat",
		[SMTP_STATE_DATA] = "data",
		[SMTP_STATE_BDAT] = "bdat",
		[SMTP_STATE_AUTH] = "auth",
		[SMTP_STATE_TLS] = "starttls",
		[SMTP_STATE_CLOSED] = "closed",
	};
	return names[s->state];
}
