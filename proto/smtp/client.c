/* The client engine's session: input to replies, replies to states, the end of it all. Transactions are in
 * client_mail.c. No I/O and no clock; the driver decides about time. */
#include "client_internal.h"

#include <openssl/crypto.h>
#include <stdlib.h>

enum { ARENA_MAX = 4 * 1024 * 1024, OUT_MAX = 64 * 1024 };

const char *smtp_phase_name(enum smtp_phase p)
{
	static const char *const names[] = { "connect", "banner", "ehlo", "starttls", "auth", "idle", "mail", "rcpt", "data", "dot",
		"rset", "quit" };
	return (size_t)p < sizeof names / sizeof *names ? names[p] : "?";
}

enum smtp_phase smtp_client_phase(const struct smtp_client *c)
{
	switch (c->state) {
	case CS_BANNER:
		return SMTP_PHASE_BANNER;
	case CS_EHLO:
	case CS_HELO:
		return SMTP_PHASE_EHLO;
	case CS_STARTTLS:
	case CS_HANDSHAKE:
		return SMTP_PHASE_STARTTLS;
	case CS_AUTH:
	case CS_AUTH_CANCEL:
		return SMTP_PHASE_AUTH;
	case CS_ENVELOPE:
		return !c->at ? SMTP_PHASE_MAIL : c->at <= c->msg->n_rcpts ? SMTP_PHASE_RCPT : SMTP_PHASE_DATA;
	case CS_CONTENT:
		return SMTP_PHASE_DOT;
	case CS_RSET:
		return SMTP_PHASE_RSET;
	case CS_QUIT:
		return SMTP_PHASE_QUIT;
	case CS_READY:
		break;
	case CS_CLOSED:
		return c->failure.phase;
	}
	return SMTP_PHASE_IDLE;
}

void client_event(struct smtp_client *c, enum smtp_client_event ev)
{
	if (c->n_events < sizeof c->events / sizeof *c->events)
		c->events[c->n_events++] = ev;
}

void client_failure(struct smtp_client *c, enum smtp_outcome how, const char *status, const char *text)
{
	size_t n = strnlen(text, SMTP_CLIENT_TEXT_MAX);
	c->failure = (struct smtp_result){ .outcome = how, .phase = smtp_client_phase(c) };
	memcpy(c->failure_text, text, n);
	c->failure_text[n] = 0;
	memcpy(c->failure.status, status, strnlen(status, sizeof c->failure.status - 1));
	c->failure.text = str_n(c->failure_text, n);
}

static void end(struct smtp_client *c)
{
	if (c->sasl)
		c->fault = SMTP_AUTH_LOST;
	client_auth_over(c);
	if (c->msg) {
		client_undecided(c, c->mail_refused ? &c->mail_result : &c->failure);
		client_mail_done(c);
	}
	c->state = CS_CLOSED;
	client_event(c, SMTP_CEV_CLOSED);
}

/* The reply to the content has begun and will not come to an end that can be read. Every line of a reply has its code, and one may go by any of
 * them (RFC 5321 §4.2.1): what "250-" has taken is not sent once more, however the rest of it comes. */
static void half_answered(struct smtp_client *c)
{
	if (!c->reply.lines || c->reply.torn || client_outcome(c->reply.code) == SMTP_OUT_PROTOCOL)
		return;
	client_reply_seal(&c->reply);
	client_content_result(c);
}

void client_close(struct smtp_client *c, enum smtp_outcome how, const char *text)
{
	if (c->state == CS_CLOSED)
		return;
	/* a reply that was not one of success or failure says nothing, too */
	bool maybe = c->state == CS_CONTENT && c->msg && client_content_over(&c->content) && c->out.n == c->out_off;
	client_failure(c, how, how == SMTP_OUT_LOST ? "4.4.2" : how == SMTP_OUT_PROTOCOL ? "4.5.0" : "", text);
	c->failure.maybe = maybe;
	if (maybe)
		half_answered(c);
	end(c);
}

void client_failure_reply(struct smtp_client *c)
{
	enum smtp_outcome how = client_outcome(c->reply.code);
	client_failure(c, how, c->reply.status, c->reply.text);
	c->failure.code = c->reply.code;
}

void client_close_reply(struct smtp_client *c)
{
	client_failure_reply(c);
	end(c);
}

static void put(struct smtp_client *c, const char *verb, struct str arg)
{
	buf_addz(&c->out, verb);
	if (arg.n) {
		buf_addc(&c->out, ' ');
		buf_adds(&c->out, arg);
	}
	buf_add(&c->out, "\r\n", 2);
	if (c->out.failed)
		client_close(c, SMTP_OUT_LOST, "out of memory");
}

static void greet(struct smtp_client *c)
{
	c->offer = (struct client_offer){ 0 };
	c->state = CS_EHLO;
	put(c, c->conf->lmtp ? "LHLO" : "EHLO", c->conf->helo);
}

void client_ready(struct smtp_client *c)
{
	if (c->in.n > c->in_off) {
		/* a reply to nothing: the next answers would be taken for the wrong commands */
		c->state = CS_READY;
		client_close(c, SMTP_OUT_PROTOCOL, "reply without a command");
		return;
	}
	c->state = CS_READY;
	client_event(c, SMTP_CEV_READY);
}

struct smtp_client *smtp_client_new(const struct smtp_client_conf *conf)
{
	bool ok = conf->helo.n && conf->helo.n <= 255;
	for (size_t i = 0; i < conf->helo.n; i++)
		ok &= conf->helo.p[i] > 32 && conf->helo.p[i] < 127;
	struct smtp_client *c = ok ? calloc(1, sizeof *c) : NULL;
	if (!c)
		return NULL;
	c->conf = conf;
	c->tls = conf->tls;
	c->mech = SASL_MECHS;
	c->in = BUF_INIT(SMTP_CLIENT_INPUT_MAX);
	c->out = BUF_INIT(OUT_MAX);
	c->content.buf = BUF_INIT(OUT_MAX);
	c->content.piece = BUF_INIT(OUT_MAX);
	c->arena = arena_new(ARENA_MAX);
	if (!c->arena) {
		free(c);
		return NULL;
	}
	return c;
}

void smtp_client_free(struct smtp_client *c)
{
	if (!c)
		return;
	client_auth_over(c);
	buf_free(&c->in);
	buf_free_secret(&c->out);
	buf_free(&c->content.buf);
	buf_free(&c->content.piece);
	client_downgrade_done(c);
	arena_free(c->arena);
	free(c);
}

int smtp_client_feed(struct smtp_client *c, const char *p, size_t n)
{
	if (c->state == CS_CLOSED || c->state == CS_HANDSHAKE)
		return 0;
	if (c->in_off) {
		buf_consume(&c->in, c->in_off);
		c->in_off = 0;
	}
	if (buf_add(&c->in, p, n) == 0)
		return 0;
	client_close(c, SMTP_OUT_PROTOCOL, "more reply text than any command asks for");
	return -1;
}

void smtp_client_lost(struct smtp_client *c, const char *why)
{
	if (c->lost)
		return;
	c->lost = true;
	c->lost_why = why ? why : "connection closed by the other side";
}

/* "250 mail.example.org greets you": RFC 5321 §4.1.1.1 has its name first. */
static void take_name(struct smtp_client *c)
{
	struct str text = str_n(c->reply.text, c->reply.text_n), word;
	bool fits = str_word(&text, " \t", &word) && word.n < sizeof c->name;
	snprintf(c->name, sizeof c->name, "%.*s", fits ? (int)word.n : 0, fits ? word.p : "");
}

/* A whole reply is there, sealed. */
static void answer(struct smtp_client *c)
{
	unsigned class = c->reply.code / 100;
	c->replies++;
	if (c->reply.code == 421 && c->state != CS_QUIT) { /* RFC 5321 §3.8: may answer any command */
		client_close_reply(c);
		return;
	}
	switch (c->state) {
	case CS_BANNER:
		if (class == 2)
			greet(c);
		else
			client_close_reply(c);
		return;
	case CS_EHLO:
		if (class == 2) {
			c->offer.caps |= SMTP_CAP_ESMTP;
			take_name(c);
			client_ready(c);
			return;
		}
		c->offer = (struct client_offer){ 0 };
		if (class == 5 && !c->conf->lmtp) { /* RFC 5321 §3.2: an old server */
			c->state = CS_HELO;
			put(c, "HELO", c->conf->helo);
			return;
		}
		client_close_reply(c);
		return;
	case CS_HELO:
		if (class == 2) {
			take_name(c);
			client_ready(c);
		} else {
			client_close_reply(c);
		}
		return;
	case CS_STARTTLS:
		if (c->reply.code == 220) {
			/* what came behind it in plain text is an attacker's (RFC 3207, CVE-2011-0411 and kin) */
			buf_reset(&c->in);
			c->in_off = 0;
			c->state = CS_HANDSHAKE;
			client_event(c, SMTP_CEV_STARTTLS);
			return;
		}
		client_failure_reply(c);
		client_event(c, SMTP_CEV_TLS_REFUSED);
		client_ready(c);
		return;
	case CS_AUTH:
	case CS_AUTH_CANCEL:
		client_auth_answer(c);
		return;
	case CS_ENVELOPE:
		client_mail_answer(c);
		return;
	case CS_CONTENT:
		client_content_answer(c);
		return;
	case CS_RSET:
		if (class == 2)
			client_ready(c);
		else
			client_close_reply(c);
		return;
	case CS_QUIT:
		client_close(c, SMTP_OUT_OK, "");
		return;
	case CS_READY:
		client_close(c, SMTP_OUT_PROTOCOL, "reply without a command");
		return;
	case CS_HANDSHAKE:
	case CS_CLOSED:
		return;
	}
}

/* Takes one line off the input. Returns 1: did something; 0: no whole line there. */
static int take_line(struct smtp_client *c)
{
	struct str rest = str_skip(buf_str(&c->in), c->in_off), line;
	ptrdiff_t nl = str_chr(rest, '\n'), most = c->state == CS_AUTH ? SMTP_CLIENT_AUTH_LINE_MAX : SMTP_CLIENT_LINE_MAX;
	if (nl > most || (nl < 0 && rest.n > (size_t)most)) {
		client_close(c, SMTP_OUT_PROTOCOL, "reply line too long");
		return 1;
	}
	if (nl < 0)
		return 0;
	if (!nl || rest.p[nl - 1] != '\r') {
		client_close(c, SMTP_OUT_PROTOCOL, "reply line does not end in CR LF");
		return 1;
	}
	line = str_n(rest.p, (size_t)nl - 1);
	c->in_off += (size_t)nl + 1;
	int r = client_reply_line(&c->reply, line);
	if (r < 0) {
		client_close(c, SMTP_OUT_PROTOCOL, "malformed reply");
		return 1;
	}
	if (c->state == CS_EHLO && c->reply.lines > 1)
		client_offer_line(&c->offer, str_skip(line, 4));
	if (r) {
		c->challenge = str_skip(line, 4);
		client_reply_seal(&c->reply);
		answer(c);
		c->reply = (struct client_reply){ 0 };
		c->challenge = STR_NULL;
	}
	return 1;
}

enum smtp_client_event smtp_client_next(struct smtp_client *c)
{
	for (;;) {
		if (c->n_events) {
			enum smtp_client_event ev = c->events[0];
			memmove(c->events, c->events + 1, --c->n_events * sizeof *c->events);
			return ev;
		}
		if (c->state == CS_CLOSED)
			return SMTP_CEV_NONE;
		if (c->state != CS_HANDSHAKE && take_line(c))
			continue;
		if (!c->lost)
			return SMTP_CEV_NONE;
		client_close(c, c->state == CS_QUIT ? SMTP_OUT_OK : SMTP_OUT_LOST, c->lost_why);
	}
}

size_t smtp_client_out(struct smtp_client *c, struct str seg[SMTP_CLIENT_SEGMENTS])
{
	size_t n = 0;
	if (c->state == CS_ENVELOPE)
		client_mail_fill(c);
	if (c->state == CS_CLOSED || c->state == CS_HANDSHAKE)
		return 0;
	if (c->out.n > c->out_off)
		seg[n++] = str_skip(buf_str(&c->out), c->out_off);
	if (c->state == CS_CONTENT)
		n += client_content_out(&c->content, seg + n, SMTP_CLIENT_SEGMENTS - n);
	return n;
}

void smtp_client_sent(struct smtp_client *c, size_t n)
{
	size_t mine = c->out.n - c->out_off;
	if (n < mine) {
		c->out_off += n;
		return;
	}
	if (c->secret_out && c->out.p)
		OPENSSL_cleanse(c->out.p, c->out.n);
	c->secret_out = false;
	buf_reset(&c->out);
	c->out_off = 0;
	if (n > mine && c->state == CS_CONTENT)
		client_content_sent(&c->content, n - mine);
}

int smtp_client_starttls(struct smtp_client *c)
{
	if (c->state != CS_READY || c->n_events || c->tls)
		return -1;
	c->state = CS_STARTTLS;
	put(c, "STARTTLS", STR_NULL);
	return 0;
}

int smtp_client_quit(struct smtp_client *c)
{
	if (c->state != CS_READY || c->n_events)
		return -1;
	c->state = CS_QUIT;
	put(c, "QUIT", STR_NULL);
	return 0;
}

void smtp_client_tls_started(struct smtp_client *c)
{
	if (c->state != CS_HANDSHAKE)
		return;
	c->tls = true;
	buf_reset(&c->in);
	buf_reset(&c->out);
	c->in_off = c->out_off = 0;
	greet(c);
}

struct str smtp_client_name(const struct smtp_client *c)
{
	return str_from(c->name);
}

unsigned smtp_client_caps(const struct smtp_client *c, uint64_t *ret_size)
{
	if (ret_size)
		*ret_size = c->offer.size_limit;
	return c->offer.caps;
}

uint64_t smtp_client_replies(const struct smtp_client *c)
{
	return c->replies;
}

const struct smtp_result *smtp_client_failure(const struct smtp_client *c)
{
	return &c->failure;
}

struct smtp_limits smtp_client_limits(const struct smtp_client *c)
{
	return c->offer.limits;
}

bool smtp_client_full(const struct smtp_client *c)
{
	return c->offer.limits.mail_max && c->mails >= c->offer.limits.mail_max;
}
