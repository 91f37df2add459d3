/* The verbs, as one table {name, where allowed, flags, check, act}: a check may only refuse, an act may only act. Rules on
 * pipelining and abuse are flags of the table. */
#include "command.h"
#include "server_internal.h"

#include <stdio.h>

enum {
	NO_ARGS = 1u << 0,
	NEED_ARGS = 1u << 1,
	/* Must end a group (RFC 2920 §3.1): the client has to wait for the reply, and one that does not is smuggling,
	 * injecting (RFC 3207) or no mail client: refused, and the session ends. NOOP, VRFY, EXPN and QUIT, too, may only
	 * end a group, but what follows those is harmless and let through. */
	SYNC = 1u << 2,
	ABUSE = 1u << 3, /* another protocol's (HTTP): the session ends */
};

struct verb {
	struct str name;
	unsigned states; /* IN(state)… */
	unsigned flags;
	bool (*check)(struct smtp_server *s, struct str args); /* false: it has refused */
	int (*act)(struct smtp_server *s, const struct verb *v, struct str args, struct smtp_event *ret); /* 1: an event */
	enum smtp_event_kind asks; /* the event of ask() */
	const char *syntax;
};

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
	if (s->state == SMTP_STATE_RCPT)
		return true;
	smtp_server_refuse(s, 554, "5.5.1", "No valid recipients");
	return false;
}

static bool starttls_check(struct smtp_server *s, struct str args)
{
	(void)args;
	if (s->conf->extensions & SMTP_EXT_STARTTLS && !s->tls)
		return true;
	if (s->tls)
		smtp_server_refuse(s, 503, "5.5.1", "TLS is up already");
	else
		smtp_server_refuse(s, 502, "5.5.1", "STARTTLS is not offered");
	return false;
}

static bool expn_check(struct smtp_server *s, struct str args)
{
	(void)args;
	smtp_server_refuse(s, 502, "5.5.1", "EXPN is not offered");
	return false;
}

/* Hands the decision to the caller. */
static int ask(struct smtp_server *s, const struct verb *v, struct str args, struct smtp_event *ret)
{
	*ret = (struct smtp_event){ .kind = v->asks, .text = args, .esmtp = s->esmtp };
	s->pending = v->asks;
	if (v->asks == SMTP_EV_HELO)
		ret->esmtp = v->name.p[0] == 'E';
	if (v->asks == SMTP_EV_MAIL || v->asks == SMTP_EV_RCPT || v->asks == SMTP_EV_DATA) {
		ret->tx = &s->tx;
		ret->text = STR_NULL;
	}
	if (v->asks == SMTP_EV_RCPT)
		ret->rcpt = &s->rcpt;
	return 1;
}

static int rset(struct smtp_server *s, const struct verb *v, struct str args, struct smtp_event *ret)
{
	(void)v, (void)args, (void)ret;
	if (s->state == SMTP_STATE_MAIL || s->state == SMTP_STATE_RCPT) {
		smtp_server_tell(s, SMTP_EV_RESET, "RSET");
		s->state = SMTP_STATE_READY;
	}
	smtp_server_say(s, 250, "2.0.0", "Ok");
	return 0;
}

static int noop(struct smtp_server *s, const struct verb *v, struct str args, struct smtp_event *ret)
{
	(void)v, (void)args, (void)ret;
	smtp_server_say(s, 250, "2.0.0", "Ok");
	return 0;
}

static int help(struct smtp_server *s, const struct verb *v, struct str args, struct smtp_event *ret)
{
	(void)v, (void)args, (void)ret;
	smtp_server_say(s, 214, "2.0.0", "Commands: EHLO HELO MAIL RCPT DATA RSET NOOP VRFY QUIT, see RFC 5321");
	return 0;
}

static int quit(struct smtp_server *s, const struct verb *v, struct str args, struct smtp_event *ret)
{
	(void)v, (void)args;
	smtp_server_say(s, 221, "2.0.0", "Bye");
	s->state = SMTP_STATE_CLOSED;
	*ret = (struct smtp_event){ .kind = SMTP_EV_QUIT };
	return 1;
}

static int starttls(struct smtp_server *s, const struct verb *v, struct str args, struct smtp_event *ret)
{
	(void)v, (void)args;
	smtp_server_say(s, 220, "2.0.0", "Ready to start TLS");
	s->state = SMTP_STATE_TLS;
	*ret = (struct smtp_event){ .kind = SMTP_EV_STARTTLS };
	return 1;
}

#define ANY (IN(CONNECTED) | IN(READY) | IN(MAIL) | IN(RCPT))
#define TRANSACTION (IN(MAIL) | IN(RCPT))

static const struct verb verbs[] = {
	{ STR_INIT("RCPT"), TRANSACTION, NEED_ARGS, smtp_server_rcpt_check, ask, SMTP_EV_RCPT,
	    "RCPT TO:<address> [parameters]" },
	{ STR_INIT("MAIL"), IN(READY), NEED_ARGS, smtp_server_mail_check, ask, SMTP_EV_MAIL,
	    "MAIL FROM:<address> [parameters]" },
	{ STR_INIT("DATA"), TRANSACTION, NO_ARGS | SYNC, data_check, ask, SMTP_EV_DATA, "DATA" },
	{ STR_INIT("EHLO"), ANY, NEED_ARGS | SYNC, helo_check, ask, SMTP_EV_HELO, "EHLO hostname" },
	{ STR_INIT("HELO"), ANY, NEED_ARGS | SYNC, helo_check, ask, SMTP_EV_HELO, "HELO hostname" },
	{ STR_INIT("QUIT"), ANY, NO_ARGS, NULL, quit, SMTP_EV_NONE, "QUIT" },
	{ STR_INIT("RSET"), ANY, NO_ARGS, NULL, rset, SMTP_EV_NONE, "RSET" },
	{ STR_INIT("NOOP"), ANY, 0, NULL, noop, SMTP_EV_NONE, "NOOP" },
	{ STR_INIT("STARTTLS"), IN(READY), NO_ARGS | SYNC, starttls_check, starttls, SMTP_EV_NONE, "STARTTLS" },
	{ STR_INIT("VRFY"), ANY, NEED_ARGS, NULL, ask, SMTP_EV_VRFY, "VRFY address" },
	{ STR_INIT("EXPN"), ANY, 0, expn_check, noop, SMTP_EV_NONE, "EXPN list" },
	{ STR_INIT("HELP"), ANY, 0, NULL, help, SMTP_EV_NONE, "HELP" },
	{ STR_INIT("GET"), 0, ABUSE, NULL, NULL, SMTP_EV_NONE, NULL },
	{ STR_INIT("POST"), 0, ABUSE, NULL, NULL, SMTP_EV_NONE, NULL },
	{ STR_INIT("PUT"), 0, ABUSE, NULL, NULL, SMTP_EV_NONE, NULL },
	{ STR_INIT("HEAD"), 0, ABUSE, NULL, NULL, SMTP_EV_NONE, NULL },
	{ STR_INIT("PATCH"), 0, ABUSE, NULL, NULL, SMTP_EV_NONE, NULL },
	{ STR_INIT("TRACE"), 0, ABUSE, NULL, NULL, SMTP_EV_NONE, NULL },
	{ STR_INIT("DELETE"), 0, ABUSE, NULL, NULL, SMTP_EV_NONE, NULL },
	{ STR_INIT("CONNECT"), 0, ABUSE, NULL, NULL, SMTP_EV_NONE, NULL },
	{ STR_INIT("OPTIONS"), 0, ABUSE, NULL, NULL, SMTP_EV_NONE, NULL },
	{ STR_INIT("PRI"), 0, ABUSE, NULL, NULL, SMTP_EV_NONE, NULL }, /* HTTP/2 */
};

static const struct verb *find(struct str name)
{
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (str_ieq(name, verbs[i].name))
			return &verbs[i];
	return NULL;
}

static void out_of_order(struct smtp_server *s, const struct verb *v)
{
	const char *text = "Not now";
	if (s->state == SMTP_STATE_CONNECTED)
		text = "Send EHLO or HELO first";
	else if (v->asks == SMTP_EV_RCPT || v->asks == SMTP_EV_DATA)
		text = "Need MAIL first";
	else if (v->asks == SMTP_EV_MAIL)
		text = "Sender already given";
	else if (v->act == starttls)
		text = "A transaction is open";
	smtp_server_refuse(s, 503, "5.5.1", text);
}

static bool args_fit(struct smtp_server *s, const struct verb *v, struct str args)
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

int smtp_server_command(struct smtp_server *s, struct str line, struct smtp_event *ret)
{
	struct str name, args;
	bool was_refused = s->data_refused;
	smtp_command_split(line, &name, &args);
	const struct verb *v = find(name);
	s->data_refused = false;
	if (!v) {
		if (was_refused) /* the text of the message whose DATA was refused would now run as commands */
			smtp_server_fail(s, 503, "5.5.1", "DATA was refused, its message is not wanted");
		else
			smtp_server_refuse(s, 500, "5.5.2", "Command not recognized");
		return 0;
	}
	if (v->flags & ABUSE) {
		smtp_server_fail(s, 554, "5.7.0", "This is SMTP, not HTTP");
		return 0;
	}
	if (v->flags & SYNC && smtp_server_unread(s)) {
		smtp_server_fail(s, 503, "5.5.1", "Wait for the reply before you go on");
		return 0;
	}
	s->data_refused = v->asks == SMTP_EV_DATA; /* until 354 is said */
	if (!(s->state != SMTP_STATE_CLOSED && v->states & 1u << s->state)) {
		out_of_order(s, v);
		return 0;
	}
	if (!args_fit(s, v, args) || (v->check && !v->check(s, args)))
		return 0;
	return v->act(s, v, args, ret);
}

void smtp_server_greet(struct smtp_server *s, const char *text)
{
	static const struct {
		unsigned bit;
		const char *line;
	} names[] = {
		{ SMTP_EXT_PIPELINING, "PIPELINING" },
		{ SMTP_EXT_SIZE, "SIZE" },
		{ SMTP_EXT_8BITMIME, "8BITMIME" },
		{ SMTP_EXT_SMTPUTF8, "SMTPUTF8" },
		{ SMTP_EXT_ENHANCEDSTATUSCODES, "ENHANCEDSTATUSCODES" },
		{ SMTP_EXT_DSN, "DSN" },
		{ SMTP_EXT_STARTTLS, "STARTTLS" },
	};
	struct str host = s->conf->hostname;
	char reply[1024];
	size_t at = 0;
	unsigned ext = smtp_server_extensions(s);
	int n = snprintf(reply, sizeof reply, "%.*s%s%.200s", (int)(host.n > SMTP_DOMAIN_MAX ? SMTP_DOMAIN_MAX : host.n),
	    host.n ? host.p : "", text ? " " : "", text ? text : "");
	at = n > 0 ? (size_t)n : 0;
	for (size_t i = 0; i < at; i++)
		if (reply[i] == '\n') /* the caller's text is one line here: the next ones are keywords */
			reply[i] = ' ';
	for (size_t i = 0; i < sizeof names / sizeof *names && at < sizeof reply; i++) {
		if (!(ext & names[i].bit))
			continue;
		n = names[i].bit == SMTP_EXT_SIZE ?
		    snprintf(reply + at, sizeof reply - at, "\n%s %llu", names[i].line,
			(unsigned long long)s->conf->size_limit) :
		    snprintf(reply + at, sizeof reply - at, "\n%s", names[i].line);
		at += n > 0 ? (size_t)n : 0;
	}
	smtp_server_say(s, 250, NULL, reply);
}
