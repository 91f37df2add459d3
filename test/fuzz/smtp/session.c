/* A whole session: the first octets choose the configuration, what the client may do, and seed the caller's answers and the cuts
 * of the input; the rest is what the client says. Checks what a caller relies on: which event may follow which, that each begun message ends once,
 * that an accepted message is sound, and that the output is nothing but reply lines. */
#include "fuzz.h"

#include "proto/smtp/server.h"

enum { HEAD = 7 };

static uint32_t seed;

static uint32_t dice(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

struct caller {
	struct smtp_server *s;
	bool mail, message, over, tls, binary, chunked;
	bool aborts;    /* EHLO between chunks was accepted: what had begun must end first */
	uint64_t size;
	char last;      /* octet of the message */
	unsigned empty_line; /* octets of CR LF CR LF seen; a message may begin in the middle of it */
	bool at_start;  /* nothing of the message yet */
};

static void check_chunk(struct caller *c, struct str chunk)
{
	must(c->message && chunk.n);
	for (size_t i = 0; i < chunk.n; i++) {
		if (!c->binary || c->empty_line < 4) {
			must(chunk.p[i]);
			/* a CR at the end of a chunk may turn out to be bare, but nothing follows it then */
			must(c->last != '\r' || chunk.p[i] == '\n');
			must(chunk.p[i] != '\n' || c->last == '\r');
		}
		if (c->empty_line < 4)
			c->empty_line = chunk.p[i] == "\r\n\r\n"[c->empty_line] ? c->empty_line + 1 : chunk.p[i] == '\r';
		c->last = chunk.p[i];
	}
	c->at_start = false;
	c->size += chunk.n;
}

/* Takes what is to be written: whole lines of three digits, a separator, and text without control characters. */
static void check_output(struct caller *c)
{
	struct buf *out = smtp_server_out(c->s);
	size_t i = 0;
	while (i < out->n) {
		must(out->n - i >= 6 && out->p[i] >= '2' && out->p[i] <= '5' && (out->p[i + 3] == ' ' || out->p[i + 3] == '-'));
		for (i += 4; out->p[i] != '\r'; i++)
			must((unsigned char)out->p[i] >= 32 && out->p[i] != 127);
		must(out->p[i + 1] == '\n');
		i += 2;
	}
	buf_consume(out, out->n);
}

/* Was it accepted? */
static bool answer(struct caller *c)
{
	static const struct smtp_reply replies[] = {
		{ 550, "5.1.1", "no\nsuch\r\nuser" }, { 451, "4.3.0", NULL }, { 421, NULL, "\xff\xfe" }, { 0, "x", "" },
	};
	uint32_t r = dice(16);
	if (r < 12)
		smtp_server_accept(c->s, r == 0 ? &replies[3] : NULL);
	else
		smtp_server_reject(c->s, r == 15 ? NULL : &replies[r - 12]);
	return r < 12;
}

static void event(struct caller *c, const struct smtp_event *ev)
{
	must(!c->over && (!c->aborts || ev->kind == SMTP_EV_ABORT));
	switch (ev->kind) {
	case SMTP_EV_NONE:
		must(false);
		break;
	case SMTP_EV_HELO:
		/* between chunks, too: one that is refused changes nothing (RFC 5321 §4.1.4) */
		must(ev->text.n && str_is_ascii(ev->text) && (!c->message || c->chunked));
		c->aborts = answer(c) && c->message;
		break;
	case SMTP_EV_MAIL:
		must(!c->message && !ev->tx->n_rcpts && (!ev->tx->mail_domain.n || ev->tx->mail_from.n));
		answer(c);
		break;
	case SMTP_EV_RCPT:
		must(!c->message && ev->rcpt->address.n && ev->rcpt->local.n);
		must(ev->tx->smtputf8 || str_is_ascii(ev->rcpt->address));
		answer(c);
		break;
	case SMTP_EV_DATA:
		must(!c->message && ev->tx->n_rcpts);
		c->at_start = true;
		c->last = 0;
		c->size = 0;
		c->empty_line = 2;
		c->chunked = ev->tx->chunked;
		c->binary = ev->tx->body == SMTP_BODY_BINARYMIME;
		must(!c->binary || c->chunked);
		c->message = answer(c) && strcmp(smtp_server_state_name(c->s), "closed");
		must(!c->message || !strcmp(smtp_server_state_name(c->s), c->chunked ? "bdat" : "data"));
		break;
	case SMTP_EV_CHUNK:
		check_chunk(c, ev->chunk);
		break;
	case SMTP_EV_MESSAGE:
		must(c->message && ev->tx->n_rcpts && c->size <= 2000);
		must(c->at_start || c->last == '\n' || (c->chunked && (c->binary || c->last != '\r')));
		c->message = false;
		for (unsigned i = dice(4); i < ev->tx->n_rcpts; i++)
			must(!smtp_server_answer_rcpt(c->s, i, &(struct smtp_reply){ dice(600), "4.2.2", "of my own\nin two lines" }));
		if (!dice(20))
			smtp_server_shutdown(c->s, NULL, NULL);
		answer(c);
		break;
	case SMTP_EV_ABORT:
		must(ev->text.n);
		/* after a shutdown while the message waited for its answer, the message was told already */
		c->message = c->aborts = false;
		break;
	case SMTP_EV_RESET:
		must(!c->message);
		break;
	case SMTP_EV_STARTTLS:
		must(!c->tls);
		must(smtp_server_feed(c->s, "x", 1) == -1);
		check_output(c);
		smtp_server_tls_started(c->s);
		c->tls = true;
		break;
	case SMTP_EV_VRFY:
	case SMTP_EV_EXPN:
	case SMTP_EV_XCLIENT:
		answer(c);
		break;
	case SMTP_EV_AUTH:
	case SMTP_EV_AUTH_RESPONSE:
	case SMTP_EV_AUTH_CANCEL:
		must(false); /* no mechanism is on offer: fuzz target smtp_auth */
		break;
	case SMTP_EV_QUIT:
	case SMTP_EV_CLOSE:
		must(!c->message);
		c->over = true;
		break;
	}
}

static void pump(struct caller *c)
{
	struct smtp_event ev;
	while (smtp_server_next(c->s, &ev))
		event(c, &ev);
	must(!smtp_server_next(c->s, &ev)); /* 0 stays 0 */
	check_output(c);
	smtp_server_idle(c->s);
	smtp_server_wants_input(c->s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct smtp_server_conf conf = { .hostname = STR("mx.example.test"), .max_recipients = 3, .hold_max = 1000, .deliver_by_min = 5 };
	struct caller c = { 0 };
	if (size < HEAD)
		return 0;
	conf.extensions = data[0] | (unsigned)data[1] << 8 | (unsigned)data[2] << 16;
	conf.size_limit = data[3] & 1 ? 2000 : 0;
	conf.max_errors = data[3] >> 1 & 15;
	conf.lmtp = data[3] & 32;
	conf.max_transactions = data[3] >> 6;
	seed = data[5];
	size_t step = 1 + (size_t)data[6] * 4;
	c.s = smtp_server_new(&conf);
	must(c.s);
	smtp_server_trust(c.s, data[4] & 3);
	smtp_server_time(c.s, data[4] & 4 ? 1783600200 : 0);
	if (data[4] & 8)
		smtp_server_mechs(c.s, ~0u);
	for (size_t at = HEAD; at < size && !c.over; ) {
		/* lines are fed as one piece, mostly: a cut one keeps what must end a group from being answered */
		const uint8_t *nl = memchr(data + at, '\n', size - at);
		size_t n = nl && dice(4) ? (size_t)(nl - data) + 1 - at : step;
		n = n < size - at ? n : size - at;
		if (conf.size_limit == 0 && c.size > 2000)
			break;
		must(!smtp_server_feed(c.s, (const char *)data + at, n));
		pump(&c);
		at += n;
	}
	if (dice(2))
		smtp_server_eof(c.s);
	else
		smtp_server_shutdown(c.s, "4.3.2", "stopping");
	pump(&c);
	must(c.over);
	smtp_server_free(c.s);
	return 0;
}
