/* One transaction: the commands, their answers, and a result for every recipient. What may be sent at all: client_admit.c. */
#include "client_internal.h"

#include "xtext.h"

enum {
	WINDOW = 16 * 1024, /* octets of commands written ahead; a message for a few recipients is one write */
	ENVID_MAX = 100,    /* RFC 3461 §4.4 */
	ORCPT_MAX = 500,    /* RFC 3461 §4.2 */
	BY_MAX = 999999999, /* RFC 2852 §4: nine digits */
};

enum smtp_outcome client_outcome(unsigned code)
{
	switch (code / 100) {
	case 2:
		return SMTP_OUT_OK;
	case 4:
		return SMTP_OUT_TRANSIENT;
	case 5:
		return SMTP_OUT_PERMANENT;
	default:
		return SMTP_OUT_PROTOCOL;
	}
}

static void set_text(struct smtp_client *c, struct smtp_result *res, struct str text)
{
	struct str copy = arena_str(c->arena, text);
	res->text = copy.p ? copy : STR(""); /* out of memory costs the text, not the result */
}

void client_result_text(struct smtp_client *c, struct smtp_result *res, enum smtp_outcome how, enum smtp_phase phase,
    const char *status, const char *text)
{
	*res = (struct smtp_result){ .outcome = how, .phase = phase };
	memcpy(res->status, status, strnlen(status, sizeof res->status - 1));
	set_text(c, res, str_from(text));
}

void client_result_reply(struct smtp_client *c, struct smtp_result *res, enum smtp_phase phase)
{
	*res = (struct smtp_result){ .outcome = client_outcome(c->reply.code), .phase = phase, .code = c->reply.code };
	memcpy(res->status, c->reply.status, sizeof res->status);
	set_text(c, res, str_n(c->reply.text, c->reply.text_n));
}

void client_undecided(struct smtp_client *c, const struct smtp_result *res)
{
	struct smtp_result r = *res;
	bool copied = false;
	for (size_t i = 0; i < c->msg->n_rcpts; i++) {
		struct smtp_result *to = &c->msg->rcpts[i].result;
		if (to->outcome != SMTP_OUT_NONE)
			continue;
		if (!copied)
			set_text(c, &r, res->text);
		copied = true;
		*to = r;
	}
}

void client_mail_done(struct smtp_client *c)
{
	c->msg = NULL;
	client_downgrade_done(c); /* it points into the message */
	client_event(c, SMTP_CEV_DONE);
}

static bool xtext_ok(struct str s, size_t max, bool utf8)
{
	if (!s.n || s.n > max || (utf8 && !str_is_utf8(s)))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 33 || s.p[i] == 127 || (!utf8 && (unsigned char)s.p[i] > 127))
			return false;
	return true;
}

/* "NEVER", or some of SUCCESS, FAILURE, DELAY separated by commas (RFC 3461 §4.1). */
static bool notify_ok(struct str s)
{
	struct str rest = s, word;
	size_t n = 0;
	if (str_ieq(s, STR("NEVER")))
		return true;
	while (n < 4 && str_word(&rest, ",", &word)) {
		if (!str_ieq(word, STR("SUCCESS")) && !str_ieq(word, STR("FAILURE")) && !str_ieq(word, STR("DELAY")))
			return false;
		n++;
	}
	return n && n < 4 && s.p[s.n - 1] != ',' && s.p[0] != ',' && !memmem(s.p, s.n, ",,", 2);
}

bool client_refuse(struct smtp_client *c, enum smtp_phase phase, const char *status, const char *text)
{
	struct smtp_result r;
	client_result_text(c, &r, SMTP_OUT_PERMANENT, phase, status, text);
	client_undecided(c, &r);
	return false;
}

int smtp_client_send(struct smtp_client *c, struct smtp_client_msg *m)
{
	if (c->state != CS_READY || c->n_events || !m->n_rcpts || smtp_client_full(c))
		return -1;
	arena_reset(c->arena);
	c->msg = m;
	m->mail_accepted = c->mail_refused = false;
	for (size_t i = 0; i < m->n_rcpts; i++)
		m->rcpts[i].result = (struct smtp_result){ .text = STR("") };
	if (c->in.n > c->in_off) {
		client_close(c, SMTP_OUT_PROTOCOL, "reply without a command");
		return 0;
	}
	if (!client_admit(c)) {
		client_mail_done(c);
		client_event(c, SMTP_CEV_READY);
		return 0;
	}
	c->state = CS_ENVELOPE;
	c->at = c->cmd = c->accepted = 0;
	client_mail_fill(c);
	return 0;
}

static void put_mail(struct smtp_client *c)
{
	const struct smtp_client_msg *m = c->msg;
	struct buf *b = &c->out;
	c->mails++;
	buf_addz(b, "MAIL FROM:<");
	client_address_put(c, m->mail_from, b);
	buf_addc(b, '>');
	if (c->offer.caps & SMTP_CAP_SIZE)
		buf_addf(b, " SIZE=%llu", (unsigned long long)client_size(c));
	if (c->binary)
		buf_addz(b, " BODY=BINARYMIME");
	if (c->eight)
		buf_addz(b, " BODY=8BITMIME");
	if (c->utf8)
		buf_addz(b, " SMTPUTF8");
	if (m->require_tls && c->tls && c->offer.caps & SMTP_CAP_REQUIRETLS)
		buf_addz(b, " REQUIRETLS");
	if (m->deliver_mode && c->offer.caps & SMTP_CAP_DELIVERBY) {
		int64_t by = m->deliver_by > BY_MAX ? BY_MAX : m->deliver_by < -BY_MAX ? -BY_MAX : m->deliver_by;
		buf_addf(b, " BY=%lld;%c%s", (long long)by, m->deliver_mode, m->deliver_trace ? "T" : "");
	}
	if (m->has_priority && m->priority >= -9 && m->priority <= 9 && c->offer.caps & SMTP_CAP_MT_PRIORITY)
		buf_addf(b, " MT-PRIORITY=%d", m->priority);
	if (c->offer.caps & SMTP_CAP_DSN) {
		if (str_ieq(m->ret, STR("FULL")) || str_ieq(m->ret, STR("HDRS"))) {
			buf_addz(b, " RET=");
			buf_adds(b, m->ret);
		}
		if (xtext_ok(m->envid, ENVID_MAX, false)) {
			buf_addz(b, " ENVID=");
			buf_adds(b, m->envid);
		}
	}
	if (c->offer.caps & SMTP_CAP_XONCE && m->once.n == SMTP_ONCE_LEN && xtext_ok(m->once, SMTP_ONCE_LEN, false)) {
		buf_addz(b, " XONCE=");
		buf_adds(b, m->once);
	}
	buf_add(b, "\r\n", 2);
}

static void put_rcpt(struct smtp_client *c, const struct smtp_client_rcpt *r)
{
	struct buf *b = &c->out;
	buf_addz(b, "RCPT TO:<");
	client_address_put(c, r->address, b);
	buf_addc(b, '>');
	if (c->offer.caps & SMTP_CAP_DSN) {
		if (notify_ok(r->notify)) {
			buf_addz(b, " NOTIFY=");
			buf_adds(b, r->notify);
		}
		struct buf ascii = BUF_INIT(ORCPT_MAX);
		struct str orcpt = r->orcpt;
		if (!c->utf8 && !str_is_ascii(orcpt) && smtp_orcpt_to_ascii(orcpt, &ascii) == 0)
			orcpt = buf_str(&ascii);
		if (str_chr(orcpt, ';') > 0 && xtext_ok(orcpt, ORCPT_MAX, c->utf8)) {
			buf_addz(b, " ORCPT=");
			buf_adds(b, orcpt);
		}
		buf_free(&ascii);
	}
	buf_add(b, "\r\n", 2);
}

/* Steps over recipients refused here. */
static size_t skip(const struct smtp_client *c, size_t i)
{
	while (i && i <= c->msg->n_rcpts && c->msg->rcpts[i - 1].result.outcome != SMTP_OUT_NONE)
		i++;
	return i;
}

void client_mail_fill(struct smtp_client *c)
{
	size_t n = c->msg->n_rcpts;
	while (c->cmd <= n + !c->bdat && c->out.n - c->out_off < WINDOW) {
		if (!(c->offer.caps & SMTP_CAP_PIPELINING) && c->cmd != c->at)
			break;
		if (c->cmd == n + 1 && c->msg->whole && c->at != c->cmd)
			break; /* only when all answers to RCPT are there */
		if (c->cmd == 0)
			put_mail(c);
		else if (c->cmd <= n)
			put_rcpt(c, &c->msg->rcpts[c->cmd - 1]);
		else
			buf_addz(&c->out, "DATA\r\n"); /* the last of its group (RFC 2920 §3.1) */
		c->cmd = skip(c, c->cmd + 1);
	}
	if (c->out.failed)
		client_close(c, SMTP_OUT_LOST, "out of memory");
}

/* The transaction did not end with a dot: the peer may still hold part of it. */
static void reset(struct smtp_client *c)
{
	client_mail_done(c);
	c->state = CS_RSET;
	if (buf_addz(&c->out, "RSET\r\n"))
		client_close(c, SMTP_OUT_LOST, "out of memory");
}

/* The whole message as one chunk (RFC 3030 §2): somebody will have it. */
static void begin_bdat(struct smtp_client *c)
{
	if (c->mail_refused) { /* a recipient without a sender */
		client_close(c, SMTP_OUT_PROTOCOL, "RCPT accepted without MAIL");
		return;
	}
	buf_addf(&c->out, "BDAT %llu LAST\r\n", (unsigned long long)client_size(c));
	if (c->out.failed) {
		client_close(c, SMTP_OUT_LOST, "out of memory");
		return;
	}
	client_content_begin(&c->content, c->msg, NULL, false, c->binary ? CLIENT_BINARY : CLIENT_CHUNK);
	c->at = 0;
	c->state = CS_CONTENT;
}

static void data_answer(struct smtp_client *c)
{
	if (c->reply.code == 354) {
		if (c->mail_refused || (!c->accepted && c->conf->lmtp)) {
			/* RFC 2033 §4.2: DATA must fail without recipients; we could not tell what a dot would do */
			client_close(c, SMTP_OUT_PROTOCOL, "DATA accepted without a recipient");
			return;
		}
		client_content_begin(&c->content, c->msg, c->plan, !c->accepted, CLIENT_DOTS); /* none: a lone dot is due (RFC 2920 §3.1) */
		c->at = 0;
		c->state = CS_CONTENT;
		return;
	}
	if (c->reply.code / 100 < 4) {
		client_close(c, SMTP_OUT_PROTOCOL, "DATA answered with a success code");
		return;
	}
	struct smtp_result r = c->mail_result;
	if (!c->mail_refused)
		client_result_reply(c, &r, SMTP_PHASE_DATA);
	client_undecided(c, &r);
	reset(c);
}

static bool one_waits(const struct smtp_client *c)
{
	for (size_t i = 0; i < c->msg->n_rcpts; i++)
		if (c->msg->rcpts[i].result.outcome == SMTP_OUT_TRANSIENT)
			return true;
	return false;
}

/* The last answer to RCPT was a 4xx, or one before it. */
static void give_up(struct smtp_client *c)
{
	struct smtp_result r = { .outcome = SMTP_OUT_TRANSIENT, .phase = SMTP_PHASE_RCPT, .text = STR("another recipient has to wait") };
	client_undecided(c, &r);
	reset(c);
}

void client_mail_answer(struct smtp_client *c)
{
	bool pipelined = c->offer.caps & SMTP_CAP_PIPELINING;
	size_t n = c->msg->n_rcpts;
	enum smtp_outcome how = client_outcome(c->reply.code);
	if (c->at >= c->cmd) { /* the command it would answer is not written yet */
		client_close(c, SMTP_OUT_PROTOCOL, "reply without a command");
		return;
	}
	if (c->at == n + 1) {
		data_answer(c);
		return;
	}
	if (how == SMTP_OUT_PROTOCOL) {
		client_close(c, how, "3xx where success or failure was due");
		return;
	}
	if (c->at == 0) {
		c->msg->mail_accepted = how == SMTP_OUT_OK;
		if (how != SMTP_OUT_OK) {
			struct smtp_result r;
			client_result_reply(c, &r, SMTP_PHASE_MAIL);
			if (!pipelined) {
				client_undecided(c, &r);
				client_mail_done(c);
				client_ready(c);
				return;
			}
			/* the answers to RCPT and DATA are still due; outcomes come at the end, since skip() reads them */
			c->mail_refused = true;
			c->mail_result = r;
		}
		c->at = skip(c, 1);
		return;
	}
	struct smtp_result *res = &c->msg->rcpts[c->at - 1].result;
	if (how == SMTP_OUT_OK) {
		res->phase = SMTP_PHASE_DOT;
		c->msg->rcpts[c->at - 1].dsn_passed = c->offer.caps & SMTP_CAP_DSN;
		c->accepted++;
	} else if (!c->mail_refused) {
		client_result_reply(c, res, SMTP_PHASE_RCPT);
		if (c->reply.code == 552) /* RFC 5321 §4.5.3.1.10: an old way to say 452 */
			res->outcome = SMTP_OUT_TRANSIENT;
	}
	c->at = skip(c, c->at + 1);
	if (c->at == n + 1 && c->msg->whole && !c->mail_refused && one_waits(c)) {
		give_up(c);
	} else if (c->at == n + 1 && !c->accepted && (!pipelined || c->bdat)) {
		client_undecided(c, &c->mail_result); /* MAIL refused: pipelined ones have no answer of their own */
		reset(c);
	} else if (c->at == n + 1 && c->bdat) {
		begin_bdat(c);
	}
}

void client_content_result(struct smtp_client *c)
{
	struct smtp_client_msg *m = c->msg;
	struct smtp_result r;
	if (!c->conf->lmtp) {
		client_result_reply(c, &r, SMTP_PHASE_DOT);
		client_undecided(c, &r);
		return;
	}
	/* RFC 2033 §4.2: one reply for each accepted recipient, in the order of RCPT */
	while (c->at < m->n_rcpts && m->rcpts[c->at].result.outcome != SMTP_OUT_NONE)
		c->at++;
	if (c->at < m->n_rcpts) {
		client_result_reply(c, &m->rcpts[c->at].result, SMTP_PHASE_DOT);
		c->at++;
		c->accepted--;
	}
}

void client_content_answer(struct smtp_client *c)
{
	bool over = client_content_over(&c->content) && c->out.n == c->out_off;
	enum smtp_outcome how = client_outcome(c->reply.code);
	if (how == SMTP_OUT_PROTOCOL || (how == SMTP_OUT_OK && !over)) {
		client_close(c, SMTP_OUT_PROTOCOL, "wrong reply to the message content");
		return;
	}
	if (!over) { /* refused while it was still being sent, for all: the stream cannot be picked up again */
		struct smtp_result r;
		client_result_reply(c, &r, SMTP_PHASE_DOT);
		client_undecided(c, &r);
		client_close_reply(c);
		return;
	}
	client_content_result(c);
	if (!c->conf->lmtp || !c->accepted) {
		client_mail_done(c);
		client_ready(c);
	}
}
