/* What a reply, or the lack of one, says of the destination as such: whether fewer connections would do, fewer messages, a pause, or nothing
 * (it speaks of one message or mailbox only). A pure function of the result (proto/smtp/client.h): the phase, the reply code, the enhanced
 * status (RFC 3463, RFC 5248, RFC 7372), and phrases that mail systems use. Replies are a stranger's text: nothing in them can make us do
 * more than slow down, and that for a bounded time. */
#ifndef PROTO_RELAY_TROUBLE_H
#define PROTO_RELAY_TROUBLE_H

#include "proto/smtp/client.h"

enum trouble {
	TROUBLE_NONE,        /* accepted */
	/* the destination wants less of us */
	TROUBLE_CONNECTIONS, /* too many connections at once */
	TROUBLE_RATE,        /* too many messages, or too fast */
	TROUBLE_BLOCKED,     /* it refuses our address: a block list, reputation, no reverse name */
	/* the destination is not well */
	TROUBLE_UNREACHABLE, /* no connection: refused, timed out, no route */
	TROUBLE_LOST,        /* the connection ended or fell silent within the session */
	TROUBLE_SYSTEM,      /* it says that it is not well, or not accepting mail now: 421, 4.3.x, 4.4.x */
	TROUBLE_PROTOCOL,    /* it speaks no SMTP */
	TROUBLE_DNS,         /* its exchangers could not be looked up */
	/* about this message, mailbox or domain; the destination itself is well */
	TROUBLE_TLS,         /* no session as safe as this domain's mail must be: others at the same hosts may ask for less */
	TROUBLE_GREYLISTED,
	TROUBLE_MAILBOX,     /* busy, full, over its own quota or rate */
	TROUBLE_RECIPIENT,   /* no such user and the like */
	TROUBLE_POLICY,      /* content, sender, authentication */
	TROUBLE_OTHER,       /* a refusal that says nothing */
	TROUBLE_LOCAL,       /* our own fault: no route of that family, no socket, source address gone; never told by a reply */
	TROUBLE_N,
};
/* "none", "connections", "rate", "blocked", "unreachable", … "local": stable words for metrics and status */
const char *trouble_name(enum trouble t);

/* r->text is read up to SMTP_CLIENT_TEXT_MAX octets. A result with an outcome of SMTP_OUT_NONE or _OK is TROUBLE_NONE. */
enum trouble trouble_of(const struct smtp_result *r);
/* Is it about the session or destination, so that other messages would fare the same? */
bool trouble_is_destination(enum trouble t);

enum { TROUBLE_TEXT_MAX = 160 }; /* octets */
/* "452 4.2.2 mailbox full": code, status and text as far as there are any, printable, cut between characters. */
void trouble_text(const struct smtp_result *r, char ret[TROUBLE_TEXT_MAX + 1]);

#endif
