/* AUTH (RFC 4954): the command, the lines of its exchange, and their answers. Mechanisms are the caller's affair; here are
 * framing, base64, limits, and where AUTH may stand. What a client says here is a secret: it is wiped where it lay. */
#include "proto/sasl/base64.h"
#include "server_internal.h"

bool smtp_server_auth_ready(const struct smtp_server *s)
{
	return s->mechs != 0;
}

void smtp_server_auth_write(const struct smtp_server *s, struct buf *out)
{
	for (unsigned m = 0; m < SASL_MECHS; m++)
		if (s->mechs & 1u << m)
			buf_addf(out, " %s", sasl_mech_name((enum sasl_mech)m));
}

void smtp_server_mechs(struct smtp_server *s, unsigned mechs)
{
	s->mechs = mechs;
}

bool smtp_server_signed_in(const struct smtp_server *s)
{
	return s->signed_in;
}

void smtp_server_auth_wipe(struct smtp_server *s)
{
	buf_free_secret(&s->auth);
	if (s->command.p)
		explicit_bzero(s->command.p, s->command.cap);
	s->command.n = 0;
}

/* The exchange is over, without success. */
static void end(struct smtp_server *s)
{
	smtp_server_auth_wipe(s);
	if (s->state == SMTP_STATE_AUTH)
		s->state = SMTP_STATE_READY;
}

static void cancel(struct smtp_server *s, unsigned code, const char *status, const char *text)
{
	smtp_server_tell(s, SMTP_EV_AUTH_CANCEL, text);
	end(s);
	smtp_server_refuse(s, code, status, text);
}

/* Decodes into s->auth. 0; 1: not base64; -1: no memory. */
static int decode(struct smtp_server *s, struct str text)
{
	buf_free_secret(&s->auth);
	s->auth = BUF_INIT(SMTP_AUTH_LINE_MAX);
	/* all room at once: growing would leave copies of a password behind */
	if (!buf_room(&s->auth, text.n / 4 * 3 + 1))
		return -1;
	return sasl_base64_decode(text, &s->auth) ? 1 : 0;
}

static int event(struct smtp_server *s, enum smtp_event_kind kind, bool initial, struct smtp_event *ret)
{
	*ret = (struct smtp_event){
		.kind = kind,
		.text = str_from(sasl_mech_name(s->mech)),
		.mech = s->mech,
		.initial = initial,
		.chunk = buf_str(&s->auth),
	};
	s->pending = kind;
	return 1;
}

static void no_memory(struct smtp_server *s)
{
	smtp_server_fail(s, 421, "4.3.0", "Insufficient system resources");
}

bool smtp_server_auth_check(struct smtp_server *s, struct str args)
{
	struct str name = args, initial = STR_NULL;
	ptrdiff_t blank = str_chr(args, ' ');
	int r = 0;
	if (s->signed_in) {
		smtp_server_refuse(s, 503, "5.5.1", "Signed in already");
		return false;
	}
	if (blank >= 0) {
		name = str_n(args.p, (size_t)blank);
		initial = str_skip(args, (size_t)blank + 1);
	}
	if (sasl_mech_parse(name, &s->mech) || !(s->mechs & 1u << s->mech)) {
		smtp_server_auth_wipe(s);
		smtp_server_refuse(s, 504, "5.5.4", "Mechanism not supported");
		return false;
	}
	s->auth_initial = initial.n > 0;
	if (initial.n && !str_eq(initial, STR("="))) /* "=": an empty response (RFC 4954 §4) */
		r = decode(s, initial);
	if (r < 0)
		no_memory(s);
	else if (r)
		smtp_server_refuse(s, 501, "5.5.2", "Initial response is no base64");
	if (r)
		smtp_server_auth_wipe(s);
	return !r;
}

int smtp_server_auth(struct smtp_server *s, const struct smtp_verb *v, struct str args, struct smtp_event *ret)
{
	(void)args;
	return event(s, v->asks, s->auth_initial, ret);
}

int smtp_server_auth_line(struct smtp_server *s, struct str line, struct smtp_event *ret)
{
	int r;
	if (smtp_server_unread(s)) { /* the client must wait for each challenge */
		smtp_server_fail(s, 503, "5.5.1", "Wait for the reply before you go on");
		return 0;
	}
	if (str_eq(line, STR("*"))) {
		cancel(s, 501, "5.7.0", "Sign-in cancelled");
		return 0;
	}
	r = decode(s, line);
	if (r < 0) {
		no_memory(s);
		return 0;
	}
	if (r) {
		cancel(s, 501, "5.5.2", "Response is no base64");
		return 0;
	}
	return event(s, SMTP_EV_AUTH_RESPONSE, true, ret);
}

void smtp_server_auth_too_long(struct smtp_server *s)
{
	cancel(s, 500, "5.5.6", "Line of the exchange is too long");
}

static bool pending(const struct smtp_server *s)
{
	return s->pending == SMTP_EV_AUTH || s->pending == SMTP_EV_AUTH_RESPONSE;
}

void smtp_server_challenge(struct smtp_server *s, struct str blob)
{
	if (!pending(s))
		return;
	s->pending = SMTP_EV_NONE;
	if (smtp_server_unread(s)) {
		smtp_server_auth_wipe(s);
		smtp_server_fail(s, 503, "5.5.1", "Wait for the reply before you go on");
		return;
	}
	s->state = SMTP_STATE_AUTH;
	/* not smtp_server_say(): this line may be long, and must not be cut */
	buf_addz(&s->out, "334 ");
	sasl_base64_encode(blob, &s->out);
	if (buf_addz(&s->out, "\r\n"))
		s->mute = true;
	smtp_server_auth_wipe(s); /* last: blob may lie in it */
}

void smtp_server_auth_accepted(struct smtp_server *s)
{
	end(s);
	s->signed_in = true;
}

void smtp_server_auth_rejected(struct smtp_server *s)
{
	end(s);
}
