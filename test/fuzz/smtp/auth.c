/* Sessions with AUTH: the first octets choose what is on offer and seed the caller's answers and the cuts, the rest is what
 * the client says. Checked: when a sign-in may be asked about, that every exchange ends once, that nobody is signed in who was
 * not accepted, that output is reply lines. */
#include "fuzz.h"

#include "proto/sasl/base64.h"
#include "proto/smtp/server.h"

static uint32_t seed;

static uint32_t dice(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

struct caller {
	struct smtp_server *s;
	bool exchange, in_mail, accepted, over;
};

static void check_output(struct caller *c)
{
	struct buf *out = smtp_server_out(c->s);
	for (size_t i = 0; i < out->n;) {
		must(out->n - i >= 6 && out->p[i] >= '2' && out->p[i] <= '5' && (out->p[i + 3] == ' ' || out->p[i + 3] == '-'));
		size_t from = i + 4;
		bool challenge = !memcmp(out->p + i, "334", 3);
		for (i += 4; out->p[i] != '\r'; i++)
			must((unsigned char)out->p[i] >= 32 && out->p[i] != 127);
		if (challenge) {
			struct buf b = BUF_INIT(SASL_BLOB_MAX + 8);
			must(!sasl_base64_decode(str_n(out->p + from, i - from), &b));
			buf_free(&b);
		}
		must(out->p[i + 1] == '\n');
		i += 2;
	}
	buf_consume(out, out->n);
}

static void answer(struct caller *c, const struct smtp_event *ev)
{
	static const struct smtp_reply replies[] = { { 535, "5.7.8", NULL }, { 454, "4.7.0", "later" }, { 421, "4.7.0", "enough" } };
	uint32_t r = dice(8);
	must(ev->chunk.n <= SASL_BLOB_MAX);
	if (r < 3) {
		smtp_server_challenge(c->s, r ? str_n("challenge", dice(10)) : ev->chunk);
		c->exchange = !strcmp(smtp_server_state_name(c->s), "auth");
	} else if (r < 5) {
		c->exchange = false;
		smtp_server_accept(c->s, NULL);
		/* input behind its back ends the session instead */
		must(smtp_server_signed_in(c->s) || !strcmp(smtp_server_state_name(c->s), "closed"));
		c->accepted = smtp_server_signed_in(c->s);
	} else {
		c->exchange = false;
		smtp_server_reject(c->s, &replies[r - 5]);
	}
}

static void event(struct caller *c, const struct smtp_event *ev)
{
	must(!c->over);
	must(smtp_server_signed_in(c->s) == c->accepted);
	switch (ev->kind) {
	case SMTP_EV_AUTH:
		must(!c->exchange && !c->accepted && !c->in_mail && (ev->initial || !ev->chunk.n));
		answer(c, ev);
		break;
	case SMTP_EV_AUTH_RESPONSE:
		must(c->exchange && ev->initial);
		answer(c, ev);
		break;
	case SMTP_EV_AUTH_CANCEL:
		must(c->exchange && ev->text.n);
		c->exchange = false;
		break;
	case SMTP_EV_STARTTLS:
		check_output(c);
		smtp_server_tls_started(c->s);
		c->accepted = false;
		smtp_server_mechs(c->s, dice(1u << SASL_MECHS));
		break;
	case SMTP_EV_MAIL:
		c->in_mail = true;
		must(!ev->tx->auth.n || str_is_ascii(ev->tx->auth));
		smtp_server_accept(c->s, NULL);
		break;
	case SMTP_EV_RESET:
		c->in_mail = false;
		break;
	case SMTP_EV_MESSAGE:
	case SMTP_EV_ABORT:
		c->in_mail = false;
		smtp_server_accept(c->s, NULL);
		break;
	case SMTP_EV_QUIT:
	case SMTP_EV_CLOSE:
		c->over = true;
		break;
	default:
		must(!c->exchange);
		smtp_server_accept(c->s, NULL);
		break;
	}
}

static void pump(struct caller *c)
{
	struct smtp_event ev;
	while (smtp_server_next(c->s, &ev))
		event(c, &ev);
	check_output(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct smtp_server_conf conf = { .hostname = STR("mx.example.test"), .max_recipients = 3, .max_errors = 6 };
	struct caller c = { 0 };
	if (size < 4)
		return 0;
	conf.extensions = SMTP_EXT_ALL_PLAIN | SMTP_EXT_AUTH | (data[0] & 0x80 ? SMTP_EXT_STARTTLS : 0);
	seed = data[1];
	size_t step = 1 + (size_t)data[2] * 64;
	c.s = smtp_server_new(&conf);
	must(c.s);
	if (!(data[0] & 0x80)) {
		smtp_server_tls_started(c.s);
		smtp_server_mechs(c.s, data[0] & ((1u << SASL_MECHS) - 1));
	}
	for (size_t at = 3; at < size && !c.over;) {
		const uint8_t *nl = memchr(data + at, '\n', size - at);
		size_t n = nl && dice(8) ? (size_t)(nl - data) + 1 - at : step;
		n = n < size - at ? n : size - at;
		n = n < SMTP_SERVER_FEED_MAX ? n : SMTP_SERVER_FEED_MAX;
		must(!smtp_server_feed(c.s, (const char *)data + at, n));
		pump(&c);
		at += n;
	}
	smtp_server_eof(c.s);
	pump(&c);
	must(c.over);
	smtp_server_free(c.s);
	return 0;
}
