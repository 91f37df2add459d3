/* AUTH (RFC 4954): which mechanism, its exchange, and what a failure means. The mechanisms themselves are proto/sasl's. What is
 * secret leaves this file in `out` only, which is wiped when it is written; replies go into results, our own messages never do. */
#include "client_internal.h"

#include "proto/sasl/base64.h"

#include <stdio.h>

enum {
	COMMAND_MAX = 512,  /* octets of a command line with its CRLF: RFC 5321 §4.5.3.1.4, and RFC 4954 §4 keeps it for AUTH */
	OFFER_TEXT_MAX = 160,
};

const char *smtp_auth_fault_name(enum smtp_auth_fault f)
{
	static const char *const names[] = { "none", "credentials", "weak", "transition", "no-tls", "later", "mechanism", "server", "lost" };
	return (size_t)f < sizeof names / sizeof *names ? names[f] : "?";
}

void client_auth_over(struct smtp_client *c)
{
	sasl_client_free(c->sasl);
	c->sasl = NULL;
	c->auth = (struct smtp_client_auth){ 0 };
	c->challenge = STR_NULL;
}

static void failed(struct smtp_client *c, enum smtp_auth_fault why)
{
	client_auth_over(c);
	c->fault = why;
	client_event(c, SMTP_CEV_AUTH_FAILED);
	client_ready(c);
}

/* A failure of our own, with the session intact. */
static void failed_here(struct smtp_client *c, enum smtp_auth_fault why, const char *status, const char *text)
{
	client_failure(c, SMTP_OUT_PERMANENT, status, text);
	c->failure.phase = SMTP_PHASE_AUTH;
	failed(c, why);
}

/* Room for all that one line may hold, so that growing leaves no copies of secrets behind. */
static bool secret_room(struct smtp_client *c)
{
	if (buf_room(&c->out, SASL_BASE64_SIZE(SASL_BLOB_MAX) + COMMAND_MAX)) {
		c->secret_out = true;
		return true;
	}
	client_close(c, SMTP_OUT_LOST, "out of memory");
	return false;
}

static struct sasl_client *new_sasl(struct smtp_client *c, bool could_bind)
{
	const struct smtp_client_auth *a = &c->auth;
	struct sasl_client_conf conf = { .mech = c->mech, .name = a->name, .authzid = a->authzid, .password = a->password, .token = a->token,
		.nonce = a->nonce, .binding = a->binding, .could_bind = could_bind, .host = a->host, .port = a->port };
	return sasl_client_make(&conf);
}

static void none_left(struct smtp_client *c)
{
	struct buf b = BUF_INIT(SMTP_CLIENT_TEXT_MAX);
	if (c->mechs_refused) {
		failed(c, c->fault); /* c->failure is the refusal of the last one */
		return;
	}
	if (!(c->offer.caps & SMTP_CAP_AUTH)) {
		buf_addf(&b, "sign-in is configured here and not offered by the next hop%s", c->tls ? "" : " without TLS");
	} else {
		buf_addz(&b, "no way to sign in: the next hop offers");
		for (unsigned m = 0; m < SASL_MECHS; m++)
			if (c->offer.mechs & 1u << m)
				buf_addf(&b, " %s", sasl_mech_name((enum sasl_mech)m));
		buf_addz(&b, c->offer.mechs ? ", and none of these can be used with what is configured" : " nothing known here");
	}
	failed_here(c, SMTP_AUTH_MECHANISM, "5.7.4", buf_z(&b));
	buf_free(&b);
}

static bool choose(struct smtp_client *c, bool *could_bind)
{
	struct buf offer = BUF_INIT(OFFER_TEXT_MAX);
	const struct smtp_client_auth *a = &c->auth;
	unsigned mechs = c->offer.mechs & ~c->mechs_refused & (a->mechs ? a->mechs : ~0u);
	if (!a->nonce.n)
		mechs &= ~(1u << SASL_SCRAM_SHA_256 | 1u << SASL_SCRAM_SHA_256_PLUS);
	for (unsigned m = 0; m < SASL_MECHS; m++)
		if (mechs & 1u << m)
			buf_addf(&offer, "%s ", sasl_mech_name((enum sasl_mech)m));
	int r = sasl_client_choose(buf_str(&offer), a->password.n > 0, a->token.n > 0, a->binding.type.n > 0, a->external, &c->mech, could_bind);
	/* "y" says that -PLUS was not on offer (RFC 5802 §6): that it was refused or is not allowed here is no lie of somebody's */
	*could_bind = *could_bind && !(c->offer.mechs & 1u << SASL_SCRAM_SHA_256_PLUS);
	buf_free(&offer);
	return r == 0;
}

static void begin(struct smtp_client *c)
{
	struct buf first = BUF_INIT(SASL_BLOB_MAX);
	bool could_bind = false;
	int r = -1;
	sasl_client_free(c->sasl);
	c->sasl = NULL;
	if (!choose(c, &could_bind)) {
		none_left(c);
		return;
	}
	const char *name = sasl_mech_name(c->mech);
	c->sasl = new_sasl(c, could_bind);
	if (c->sasl && buf_room(&first, SASL_BLOB_MAX))
		r = sasl_client_first(c->sasl, &first);
	if (r > 0 && strlen("AUTH  \r\n") + strlen(name) + SASL_BASE64_SIZE(first.n) > COMMAND_MAX) {
		/* it goes as an answer to an empty challenge; the exchange begins anew for that, nothing of it was told */
		sasl_client_free(c->sasl);
		c->sasl = new_sasl(c, could_bind);
		r = c->sasl ? 0 : -1;
	}
	if (r < 0) {
		buf_free_secret(&first);
		failed_here(c, SMTP_AUTH_MECHANISM, "5.7.8", "the name, the password or the token cannot be sent as they are");
		return;
	}
	if (secret_room(c)) {
		c->state = CS_AUTH;
		buf_addf(&c->out, "AUTH %s", name);
		if (r > 0) {
			buf_addz(&c->out, first.n ? " " : " ="); /* RFC 4954 §4: an empty one */
			sasl_base64_encode(buf_str(&first), &c->out);
		}
		buf_add(&c->out, "\r\n", 2);
	}
	buf_free_secret(&first);
}

int smtp_client_auth(struct smtp_client *c, const struct smtp_client_auth *auth)
{
	if (c->state != CS_READY || c->n_events || c->signed_in || c->conf->lmtp)
		return -1;
	c->auth = *auth;
	c->fault = SMTP_AUTH_NONE;
	c->mech = SASL_MECHS;
	c->mechs_refused = 0;
	if (!c->tls && !auth->without_tls)
		failed_here(c, SMTP_AUTH_NO_TLS, "5.7.11", "signing in without TLS would show the password to everybody on the way");
	else
		begin(c);
	return 0;
}

/* "*" (RFC 4954 §4): the server must refuse now. Its words would not help anybody; ours stay. */
static void cancel(struct smtp_client *c, const char *why)
{
	client_failure(c, SMTP_OUT_PERMANENT, "5.7.8", why);
	c->state = CS_AUTH_CANCEL;
	if (buf_addz(&c->out, "*\r\n"))
		client_close(c, SMTP_OUT_LOST, "out of memory");
}

static void challenged(struct smtp_client *c)
{
	struct buf in = BUF_INIT(SASL_BLOB_MAX), out = BUF_INIT(SASL_BLOB_MAX);
	char why[SMTP_CLIENT_TEXT_MAX] = "the challenge of the next hop is broken";
	bool ok = sasl_base64_decode(c->challenge, &in) == 0 && buf_room(&out, SASL_BLOB_MAX);
	if (ok && sasl_client_answer(c->sasl, buf_str(&in), &out)) {
		struct str e = sasl_client_error(c->sasl);
		ok = false;
		/* what stands there may be the server's: only what is plainly text */
		if (e.n && e.n < sizeof why / 2 && str_is_ascii(e) && !memchr(e.p, 0, e.n) && (unsigned char)e.p[0] > 32)
			snprintf(why, sizeof why, "the next hop broke off: %.*s", STR_ARG(e));
		for (char *p = why; *p; p++)
			if ((unsigned char)*p < 32 || *p == 127)
				*p = '?';
	}
	if (!ok) {
		cancel(c, why);
	} else if (secret_room(c)) {
		sasl_base64_encode(buf_str(&out), &c->out);
		buf_add(&c->out, "\r\n", 2);
	}
	buf_free_secret(&in);
	buf_free_secret(&out);
}

static enum smtp_auth_fault fault_of(unsigned code)
{
	switch (code) {
	case 432:
		return SMTP_AUTH_TRANSITION;
	case 534:
		return SMTP_AUTH_WEAK;
	case 538:
		return SMTP_AUTH_NO_TLS;
	case 500:
	case 501:
	case 502:
	case 503:
	case 504:
		return SMTP_AUTH_MECHANISM;
	default:
		return code / 100 == 4 ? SMTP_AUTH_LATER : SMTP_AUTH_CREDENTIALS;
	}
}

/* What a refused token is refused for (RFC 7628 §3.2.2) stands in the challenge before the refusal. */
static void add_error(struct smtp_client *c)
{
	struct str e = sasl_client_error(c->sasl);
	size_t n = c->reply.text_n;
	if (!e.n || n + e.n + 3 > SMTP_CLIENT_TEXT_MAX || !str_is_utf8(e))
		return;
	snprintf(c->reply.text + n, sizeof c->reply.text - n, "%s(%.*s)", n ? " " : "", STR_ARG(e));
	c->reply.text_n = n + strlen(c->reply.text + n);
	client_reply_seal(&c->reply);
}

static void refused(struct smtp_client *c)
{
	c->fault = fault_of(c->reply.code);
	add_error(c);
	client_failure_reply(c);
	c->mechs_refused |= 1u << c->mech;
	/* wrong credentials are not tried a second time: each try counts where tries are counted */
	if (c->reply.code == 504 || c->reply.code == 534)
		begin(c);
	else
		failed(c, c->fault);
}

void client_auth_answer(struct smtp_client *c)
{
	unsigned code = c->reply.code;
	if (c->state == CS_AUTH_CANCEL) {
		if (code / 100 < 4)
			client_close(c, SMTP_OUT_PROTOCOL, "AUTH was cancelled, and not refused");
		else
			failed(c, SMTP_AUTH_SERVER);
		return;
	}
	if (code == 334 && c->reply.lines == 1) {
		challenged(c);
	} else if (code / 100 == 2) {
		if (!sasl_client_over(c->sasl)) {
			c->fault = SMTP_AUTH_SERVER;
			client_auth_over(c);
			client_close(c, SMTP_OUT_PROTOCOL, "the next hop let us in without proving that it knows us");
			return;
		}
		client_auth_over(c);
		c->signed_in = true;
		c->fault = SMTP_AUTH_NONE; /* of a mechanism before */
		client_event(c, SMTP_CEV_SIGNED_IN);
		client_ready(c);
	} else if (code / 100 >= 4) {
		refused(c);
	} else {
		client_close(c, SMTP_OUT_PROTOCOL, "3xx that is no challenge");
	}
}

enum smtp_auth_fault smtp_client_auth_fault(const struct smtp_client *c)
{
	return c->fault;
}

const char *smtp_client_auth_mech(const struct smtp_client *c)
{
	return c->mech == SASL_MECHS ? NULL : sasl_mech_name(c->mech);
}

unsigned smtp_client_auth_offer(const struct smtp_client *c)
{
	return c->offer.mechs;
}
