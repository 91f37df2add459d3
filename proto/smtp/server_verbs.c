/* The verbs, as one table {name, where allowed, flags, check, act}: a check may only refuse, an act may only act. Rules on
 * pipelining and abuse are flags of the table. */
#include "command.h"
#include "server_internal.h"

#include <stdio.h>

static bool helo_check(struct smtp_server *s, struct str args)
{
	if (smtp_helo_check(args))
		return true;
	smtp_server_refuse(s, 501, "5.5.4", "Name is neither a domain nor an address literal");
	return false;
}

static bool data_check(struct smtp_server *s, struct str args)
{
	(void)args;
	if (s->state != SMTP_STATE_RCPT) /* RFC 2033 §4.2: 503 */
		smtp_server_refuse(s, s->conf->lmtp ? 503 : 554, "5.5.1", "No valid recipients");
	else if (s->tx.body == SMTP_BODY_BINARYMIME) /* RFC 3030 §3 */
		smtp_server_refuse(s, 503, "5.5.1", "BODY=BINARYMIME needs BDAT");
	else
		return true;
	return false;
}

/* RFC 6531 §3.7.4.2: "VRFY text SMTPUTF8" */
static bool takes_smtputf8(const struct smtp_server *s, struct str *args)
{
	static const struct str word = STR_INIT(" SMTPUTF8");
	if (!(smtp_server_extensions(s) & SMTP_EXT_SMTPUTF8) || args->n <= word.n || !str_iends(*args, word))
		return false;
	args->n -= word.n;
	while (args->n && args->p[args->n - 1] == ' ')
		args->n--;
	return true;
}

static bool vrfy_check(struct smtp_server *s, struct str args)
{
	bool utf8 = takes_smtputf8(s, &args);
	if (utf8 ? str_is_utf8(args) : str_is_ascii(args))
		return true;
	smtp_server_refuse(s, 553, "5.6.7", utf8 ? "Not valid UTF-8" : "Not ASCII: SMTPUTF8 needed");
	return false;
}

int smtp_server_ask(struct smtp_server *s, const struct smtp_verb *v, struct str args, struct smtp_event *ret)
{
	*ret = (struct smtp_event){ .kind = v->asks, .text = args, .esmtp = s->esmtp };
	s->pending = v->asks;
	if (v->asks == SMTP_EV_HELO)
		ret->esmtp = v->name.p[0] != 'H';
	if (v->asks == SMTP_EV_VRFY || v->asks == SMTP_EV_EXPN)
		ret->smtputf8 = takes_smtputf8(s, &ret->text);
	if (v->asks == SMTP_EV_XCLIENT) {
		ret->xclient = &s->xclient;
		ret->text = STR_NULL;
	}
	if (v->asks == SMTP_EV_MAIL || v->asks == SMTP_EV_RCPT || v->asks == SMTP_EV_DATA) {
		ret->tx = &s->tx;
		ret->text = STR_NULL;
	}
	if (v->asks == SMTP_EV_RCPT)
		ret->rcpt = &s->rcpt;
	return 1;
}

/* The first chunk is a message the caller is asked about, the others belong to it. */
static int bdat(struct smtp_server *s, const struct smtp_verb *v, struct str args, struct smtp_event *ret)
{
	if (s->begun) {
		s->state = SMTP_STATE_BDAT;
		return 0;
	}
	s->tx.chunked = true;
	return smtp_server_ask(s, v, args, ret);
}

static int rset(struct smtp_server *s, const struct smtp_verb *v, struct str args, struct smtp_event *ret)
{
	(void)v, (void)args, (void)ret;
	smtp_server_abort(s, "RSET");
	if (s->state == SMTP_STATE_MAIL || s->state == SMTP_STATE_RCPT)
		smtp_server_tell(s, SMTP_EV_RESET, "RSET");
	if (s->state != SMTP_STATE_CONNECTED)
		s->state = SMTP_STATE_READY;
	s->chunk_lost = false;
	smtp_server_say(s, 250, "2.0.0", "Ok");
	return 0;
}

static int noop(struct smtp_server *s, const struct smtp_verb *v, struct str args, struct smtp_event *ret)
{
	(void)v, (void)args, (void)ret;
	smtp_server_say(s, 250, "2.0.0", "Ok");
	return 0;
}

static int quit(struct smtp_server *s, const struct smtp_verb *v, struct str args, struct smtp_event *ret)
{
	(void)v, (void)args, (void)ret;
	smtp_server_abort(s, "QUIT");
	smtp_server_say(s, 221, "2.0.0", "Bye");
	s->state = SMTP_STATE_CLOSED;
	smtp_server_tell(s, SMTP_EV_QUIT, "QUIT");
	return 0;
}

static int starttls(struct smtp_server *s, const struct smtp_verb *v, struct str args, struct smtp_event *ret)
{
	(void)v, (void)args;
	smtp_server_say(s, 220, "2.0.0", "Ready to start TLS");
	s->state = SMTP_STATE_TLS;
	*ret = (struct smtp_event){ .kind = SMTP_EV_STARTTLS };
	return 1;
}

static int help(struct smtp_server *s, const struct smtp_verb *v, struct str args, struct smtp_event *ret);

#define ANY (IN(CONNECTED) | IN(READY) | IN(MAIL) | IN(RCPT) | IN(CHUNKS))
#define TRANSACTION (IN(MAIL) | IN(RCPT))
#define NO_ARGS SMTP_VERB_NO_ARGS
#define NEED_ARGS SMTP_VERB_NEED_ARGS
#define SYNC SMTP_VERB_SYNC
#define PLAIN_VERB(NAME, STATES, FLAGS, CHECK, ACT, SYNTAX)                                                            \
	{ STR_INIT(NAME), STATES, FLAGS, 0, CHECK, ACT, SMTP_EV_NONE, SYNTAX }
#define ASK_VERB(NAME, STATES, FLAGS, CHECK, EVENT, SYNTAX)                                                            \
	{ STR_INIT(NAME), STATES, FLAGS, 0, CHECK, smtp_server_ask, EVENT, SYNTAX }
#define ABUSE_VERB(NAME) { STR_INIT(NAME), 0, SMTP_VERB_ABUSE, 0, NULL, NULL, SMTP_EV_NONE, NULL }

static const struct smtp_verb verbs[] = {
	ASK_VERB("RCPT", TRANSACTION, NEED_ARGS, smtp_server_rcpt_check, SMTP_EV_RCPT, "RCPT TO:<address> [parameters]"),
	ASK_VERB("MAIL", IN(READY), NEED_ARGS, smtp_server_mail_check, SMTP_EV_MAIL, "MAIL FROM:<address> [parameters]"),
	ASK_VERB("DATA", TRANSACTION, NO_ARGS | SYNC, data_check, SMTP_EV_DATA, "DATA"),
	/* whatever is wrong with it, its chunk is behind it: so it is judged in every state, and never merely refused */
	{ STR_INIT("BDAT"), ANY, SMTP_VERB_OWN_ARGS, SMTP_EXT_CHUNKING, smtp_server_bdat_check, bdat, SMTP_EV_DATA,
	    "BDAT size [LAST]" },
	ASK_VERB("EHLO", ANY, NEED_ARGS | SYNC | SMTP_VERB_SMTP, helo_check, SMTP_EV_HELO, "EHLO hostname"),
	ASK_VERB("HELO", ANY, NEED_ARGS | SYNC | SMTP_VERB_SMTP, helo_check, SMTP_EV_HELO, "HELO hostname"),
	ASK_VERB("LHLO", ANY, NEED_ARGS | SYNC | SMTP_VERB_LMTP, helo_check, SMTP_EV_HELO, "LHLO hostname"),
	PLAIN_VERB("QUIT", ANY, NO_ARGS, NULL, quit, "QUIT"),
	PLAIN_VERB("RSET", ANY, NO_ARGS, NULL, rset, "RSET"),
	PLAIN_VERB("NOOP", ANY, 0, NULL, noop, "NOOP"),
	{ STR_INIT("STARTTLS"), IN(READY), NO_ARGS | SYNC, SMTP_EXT_STARTTLS, NULL, starttls, SMTP_EV_NONE, "STARTTLS" },
	{ STR_INIT("AUTH"), IN(READY), NEED_ARGS | SYNC, SMTP_EXT_AUTH, smtp_server_auth_check, smtp_server_auth, SMTP_EV_AUTH,
	    "AUTH mechanism [initial-response]" },
	ASK_VERB("VRFY", ANY, NEED_ARGS, vrfy_check, SMTP_EV_VRFY, "VRFY address"),
	{ STR_INIT("EXPN"), ANY, NEED_ARGS, SMTP_EXT_EXPN, vrfy_check, smtp_server_ask, SMTP_EV_EXPN, "EXPN list" },
	{ STR_INIT("HELP"), ANY, 0, SMTP_EXT_HELP, NULL, help, SMTP_EV_NONE, "HELP" },
	{ STR_INIT("XCLIENT"), IN(CONNECTED) | IN(READY), NEED_ARGS | SYNC, SMTP_EXT_XCLIENT, smtp_server_xclient_check,
	    smtp_server_ask, SMTP_EV_XCLIENT, "XCLIENT attribute=value ..." },
	ABUSE_VERB("GET"),
	ABUSE_VERB("POST"),
	ABUSE_VERB("PUT"),
	ABUSE_VERB("HEAD"),
	ABUSE_VERB("PATCH"),
	ABUSE_VERB("TRACE"),
	ABUSE_VERB("DELETE"),
	ABUSE_VERB("CONNECT"),
	ABUSE_VERB("OPTIONS"),
	ABUSE_VERB("PRI"), /* HTTP/2 */
};

static bool spoken(const struct smtp_server *s, const struct smtp_verb *v)
{
	return !(v->flags & (s->conf->lmtp ? SMTP_VERB_SMTP : SMTP_VERB_LMTP)) && !(v->flags & SMTP_VERB_ABUSE);
}

static bool offered(const struct smtp_server *s, const struct smtp_verb *v)
{
	return !v->extension || smtp_server_offers(s) & v->extension;
}

static const struct smtp_verb *find(struct str name)
{
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (str_ieq(name, verbs[i].name))
			return &verbs[i];
	return NULL;
}

static int help(struct smtp_server *s, const struct smtp_verb *v, struct str args, struct smtp_event *ret)
{
	char text[512] = "Commands:";
	size_t at = strlen(text);
	(void)ret;
	const struct smtp_verb *about = find(args);
	if (about && spoken(s, about) && offered(s, about)) {
		snprintf(text, sizeof text, "Syntax: %s", about->syntax);
		smtp_server_say(s, 214, "2.0.0", text);
		return 0;
	}
	for (v = verbs; v < verbs + sizeof verbs / sizeof *verbs; v++)
		if (spoken(s, v) && offered(s, v) && at < sizeof text) {
			int n = snprintf(text + at, sizeof text - at, " %.*s", STR_ARG(v->name));
			at += n > 0 ? (size_t)n : 0;
		}
	smtp_server_say(s, 214, "2.0.0", text);
	return 0;
}

static void not_offered(struct smtp_server *s, const struct smtp_verb *v)
{
	char text[80];
	if (v->extension == SMTP_EXT_STARTTLS && s->tls) {
		smtp_server_refuse(s, 503, "5.5.1", "TLS is up already");
	} else if (v->extension == SMTP_EXT_AUTH && s->conf->extensions & SMTP_EXT_AUTH && !s->tls) {
		smtp_server_refuse(s, 538, "5.7.11", "Issue STARTTLS first"); /* RFC 4954 §6 */
	} else if (v->extension == SMTP_EXT_XCLIENT && s->conf->extensions & SMTP_EXT_XCLIENT) {
		smtp_server_refuse(s, 550, "5.7.1", "Not authorized to use XCLIENT");
	} else {
		snprintf(text, sizeof text, "%.*s is not offered", STR_ARG(v->name));
		smtp_server_refuse(s, 502, "5.5.1", text);
	}
}

static void out_of_order(struct smtp_server *s, const struct smtp_verb *v)
{
	const char *text = "Not now";
	if (s->state == SMTP_STATE_CONNECTED)
		text = s->conf->lmtp ? "Send LHLO first" : "Send EHLO or HELO first";
	else if (s->state == SMTP_STATE_CHUNKS)
		text = "Only BDAT or RSET may follow BDAT";
	else if (v->asks == SMTP_EV_RCPT || v->asks == SMTP_EV_DATA)
		text = "Need MAIL first";
	else if (v->asks == SMTP_EV_MAIL)
		text = "Sender already given";
	else if (v->states & IN(READY))
		text = "A transaction is open";
	smtp_server_refuse(s, 503, "5.5.1", text);
}

static bool args_fit(struct smtp_server *s, const struct smtp_verb *v, struct str args)
{
	char text[80];
	bool control = false;
	for (size_t i = 0; i < args.n; i++)
		control = control || (unsigned char)args.p[i] < 32 || args.p[i] == 127;
	if (!control && !(v->flags & NO_ARGS && args.n) && !(v->flags & NEED_ARGS && !args.n))
		return true;
	snprintf(text, sizeof text, "Syntax: %s", v->syntax);
	smtp_server_refuse(s, 501, "5.5.4", text);
	return false;
}

/* No verb of ours: false, and it is refused. */
static bool known(struct smtp_server *s, const struct smtp_verb *v, struct str name, bool was_refused)
{
	if (!v && was_refused) /* the text of the message whose DATA was refused would now run as commands */
		smtp_server_fail(s, 503, "5.5.1", "DATA was refused, its message is not wanted");
	else if (!v && str_istarts(name, STR("BDAT"))) /* and so would what somebody before us takes for a chunk */
		smtp_server_fail(s, 501, "5.5.4", "Syntax: BDAT size [LAST]");
	else if (!v)
		smtp_server_refuse(s, 500, "5.5.2", "Command not recognized");
	else if (v->flags & SMTP_VERB_ABUSE)
		smtp_server_fail(s, 554, "5.7.0", "This is SMTP, not HTTP");
	else if (!spoken(s, v))
		smtp_server_refuse(s, 500, "5.5.1", s->conf->lmtp ? "This is LMTP: send LHLO" : "This is not LMTP");
	else
		return true;
	return false;
}

int smtp_server_command(struct smtp_server *s, struct str line, struct smtp_event *ret)
{
	struct str name, args;
	bool was_refused = s->data_refused;
	smtp_command_split(line, &name, &args);
	const struct smtp_verb *v = find(name);
	s->data_refused = false;
	if (!known(s, v, name, was_refused))
		return 0;
	if (v->flags & SYNC && smtp_server_unread(s)) {
		smtp_server_fail(s, 503, "5.5.1", "Wait for the reply before you go on");
		return 0;
	}
	s->data_refused = v->asks == SMTP_EV_DATA && v->flags & SYNC; /* until 354 is said */
	if (!(s->state != SMTP_STATE_CLOSED && v->states & 1u << s->state)) {
		out_of_order(s, v);
		return 0;
	}
	if (!(v->flags & SMTP_VERB_OWN_ARGS) && !offered(s, v)) {
		not_offered(s, v);
		return 0;
	}
	if ((!(v->flags & SMTP_VERB_OWN_ARGS) && !args_fit(s, v, args)) || (v->check && !v->check(s, args)))
		return 0;
	return v->act(s, v, args, ret);
}

void smtp_server_greet(struct smtp_server *s, const char *text)
{
	struct str host = s->conf->hostname;
	struct buf reply = BUF_INIT(4096);
	unsigned ext = smtp_server_extensions(s);
	buf_add(&reply, host.p, host.n > SMTP_DOMAIN_MAX ? SMTP_DOMAIN_MAX : host.n);
	if (text)
		buf_addf(&reply, " %.200s", text);
	for (size_t i = 0; i < reply.n; i++)
		if (reply.p[i] == '\n') /* the caller's text is one line here: the next ones are keywords */
			reply.p[i] = ' ';
	for (size_t i = 0; i < smtp_extensions_n; i++) {
		const struct smtp_extension *x = &smtp_extensions[i];
		if (!(ext & x->bit))
			continue;
		buf_addc(&reply, '\n');
		buf_adds(&reply, x->keyword);
		if (x->write)
			x->write(s, &reply);
	}
	if (reply.failed)
		smtp_server_fail(s, 421, "4.3.0", "Insufficient system resources");
	else
		smtp_server_say(s, 250, NULL, buf_z(&reply));
	buf_free(&reply);
}
