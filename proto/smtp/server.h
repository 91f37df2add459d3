/* The SMTP server engine (RFC 5321): octets in, events and reply octets out. It knows no socket, clock or database.
 *
 * One message through it, told. The caller feeds what it read, asks for events until there are none, and writes what
 * smtp_server_out() holds:
 *
 *     smtp_server_feed(s, "MAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.net>\r\nDATA\r\n", …)
 *     smtp_server_next → SMTP_EV_MAIL       the caller looks at tx->mail_from and calls smtp_server_accept(s, NULL)
 *     smtp_server_next → SMTP_EV_RCPT       … relay control: smtp_server_accept() or smtp_server_reject()
 *     smtp_server_next → SMTP_EV_DATA       the caller makes room for a message and accepts: 354 goes out
 *     smtp_server_next → 0                  nothing more to do with this input
 *     smtp_server_feed(s, "Subject: x\r\n\r\nhello\r\n.\r\nQUIT\r\n", …)
 *     smtp_server_next → SMTP_EV_CHUNK      ev.chunk: message octets, dots undone; no answer wanted
 *     smtp_server_next → SMTP_EV_MESSAGE    the message is whole; the caller commits it (this may take a while: the engine
 *                                           waits, pipelined input stays inside) and answers accept("… queued as 17")
 *     smtp_server_next → SMTP_EV_QUIT       221 is in the output; write it and close
 *
 * Line ends are decided here and nowhere else: only CR LF ends a line, only CR LF . CR LF ends a message; a bare CR, a
 * bare LF or a NUL inside DATA makes the message be refused (550 5.6.0) after it was read to its true end, without an
 * SMTP_EV_MESSAGE (SMTP_EV_ABORT instead). */
#ifndef PROTO_SMTP_SERVER_H
#define PROTO_SMTP_SERVER_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "extensions.h"
#include "proto/sasl/mech.h"

struct smtp_server;

struct smtp_server_conf { /* must outlive the engine */
	struct str hostname;       /* banner, EHLO */
	unsigned extensions;       /* SMTP_EXT_*: what may be offered; smtp_server_offers() says what is at the moment */
	bool lmtp;                 /* RFC 2033: LHLO, and one reply per recipient at the end of the message */
	uint64_t size_limit;       /* octets of a message; 0: none */
	unsigned max_recipients;   /* per transaction; more get 452 4.5.3 */
	unsigned max_errors;       /* protocol errors and refusals in a session; then 421 and close */
	unsigned max_hops;         /* not checked here: the caller counts Received (kept with the other limits) */
	unsigned max_transactions; /* accepted MAILs in a session; the next gets 421 (RFC 9422 MAILMAX); 0: any number */
	unsigned deliver_by_min;   /* RFC 2852 min-by-time, seconds; 0: not told, none */
	unsigned hold_max;         /* RFC 4865: longest hold, seconds; 0: FUTURERELEASE is not offered */
	bool hold_all;             /* it is offered to all (who sign in later, and send nothing before); else with SMTP_TRUST_HOLD only */
	struct str priority_profile; /* RFC 6710, such as "MIXER"; empty: none is named */
};

/* RFC 3461 parameters and others as they came; strings live in the transaction. */
enum smtp_body { SMTP_BODY_7BIT, SMTP_BODY_8BITMIME, SMTP_BODY_BINARYMIME };
#define SMTP_NOTIFY_NEVER 1u
#define SMTP_NOTIFY_SUCCESS 2u
#define SMTP_NOTIFY_FAILURE 4u
#define SMTP_NOTIFY_DELAY 8u

struct smtp_rcpt {
	struct str address;   /* local@domain without <>, quotes only where needed; "postmaster" alone is allowed
	                         (RFC 5321 §4.5.1); a source route is gone */
	struct str local, domain; /* parts of it; domain empty for bare postmaster */
	unsigned notify;      /* SMTP_NOTIFY_* or 0: not given */
	struct str orcpt;     /* as sent, "rfc822;xtext"; empty: not given */
};

struct smtp_transaction {
	struct arena *arena;      /* lives until the transaction is over; the caller may allocate from it */
	struct str mail_from;     /* empty: the null sender */
	struct str mail_domain;
	uint64_t size;            /* SIZE=, 0: not given */
	enum smtp_body body;
	bool smtputf8;
	char ret;                 /* 'F', 'H' or 0 (RFC 3461 §4.3) */
	struct str envid;         /* as sent (xtext) */
	bool chunked;             /* the message came by BDAT */
	unsigned hold_for;        /* FUTURERELEASE (RFC 4865): seconds from MAIL on; 0: HOLDFOR not given */
	int64_t hold_until;       /* seconds since 1970; from HOLDUNTIL, or smtp_server_time() + hold_for; 0: no hold. May be
	                             in the past: then there is nothing to wait for */
	char deliver_mode;        /* DELIVERBY (RFC 2852): 'R' return when late, 'N' notify; 0: BY not given */
	int deliver_by;           /* seconds from MAIL on; with 'N' it may be zero or negative: late already */
	int64_t deliver_at;       /* smtp_server_time() + deliver_by; 0: the time is not known */
	bool deliver_trace;       /* by-trace: tell of relaying to a hop without DELIVERBY */
	bool has_priority;        /* MT-PRIORITY (RFC 6710) was given */
	int priority;             /* -9 to 9; what counts: lowered to 0 where the client may not ask for more */
	int priority_asked;
	bool require_tls;         /* REQUIRETLS (RFC 8689) */
	struct str auth;          /* AUTH= (RFC 4954 §5), as sent (xtext), "<>" or a mailbox: who says it is to be trusted for it,
	                             or it is ignored; empty: not given */
	struct str once;          /* XONCE: SMTP_ONCE_LEN hexadecimal digits; empty: not given */
	bool prdr;                /* a reply per recipient is wanted */
	struct smtp_rcpt *rcpts;  /* accepted ones */
	unsigned n_rcpts;
};

enum smtp_event_kind {
	SMTP_EV_NONE,
	SMTP_EV_HELO,     /* ev.text is the name, ev.esmtp; answer accept/reject. Between chunks of a message, too: accepted,
	                     SMTP_EV_ABORT follows; refused, the message goes on */
	SMTP_EV_MAIL,     /* ev.tx; answer */
	SMTP_EV_RCPT,     /* ev.tx, ev.rcpt (not in tx->rcpts until accepted); answer */
	SMTP_EV_DATA,     /* ev.tx has recipients; accept sends 354, or takes the first chunk (tx->chunked: BDAT) */
	SMTP_EV_CHUNK,    /* ev.chunk: lives until the next call; no answer */
	SMTP_EV_MESSAGE,  /* whole message seen; answer decides it, the transaction is over with the answer. In LMTP and with
	                     tx->prdr the answer may differ by recipient: smtp_server_answer_rcpt() before it */
	SMTP_EV_ABORT,    /* a transaction with a started message ended without one (refused content, size, RSET between
	                     chunks, connection end): drop what was spooled; no answer. ev.text says why. Comes as soon as it is known, the
	                     reply (550 5.6.0, 552 5.3.4) only when the message was read to its true end */
	SMTP_EV_RESET,    /* RSET, EHLO or a new state: an open transaction is gone; no answer */
	SMTP_EV_STARTTLS, /* input buffer was empty, 220 is in the output: write it, start TLS, then smtp_server_tls_started */
	SMTP_EV_VRFY,     /* ev.text, ev.smtputf8; answer (accept(NULL) gives 252) */
	SMTP_EV_EXPN,     /* the same, when EXPN is offered; accept with the members, a line each; accept(NULL) gives 252 */
	SMTP_EV_XCLIENT,  /* ev.xclient: a trusted proxy tells who its client is. Accept: 220 goes out and the session begins
	                     anew, with that client (and the trust the caller gives that one: smtp_server_trust() before the
	                     answer) */
	SMTP_EV_AUTH,     /* AUTH (RFC 4954): ev.mech, and with ev.initial ev.chunk is the decoded initial response (may be empty);
	                     answer by smtp_server_challenge(), or accept (235) or reject (535), which end the exchange */
	SMTP_EV_AUTH_RESPONSE, /* the client's response to a challenge, ev.chunk; answer as before */
	SMTP_EV_AUTH_CANCEL, /* the client gave up, or said what is no response, after a challenge; no answer. ev.text says which */
	SMTP_EV_QUIT,     /* 221 is in the output: write it and close */
	SMTP_EV_CLOSE,    /* the engine ended the session (421, or a 5xx to abuse, in the output): write it and close.
	                     ev.text says why. QUIT and CLOSE end an open transaction without SMTP_EV_RESET */
};

/* What XCLIENT said (Postfix's XCLIENT_README). Decoded, printable, each at most 255 octets. */
struct smtp_xclient {
	enum smtp_xclient_state { SMTP_XCLIENT_ABSENT, SMTP_XCLIENT_GIVEN, SMTP_XCLIENT_UNAVAILABLE, SMTP_XCLIENT_TEMPUNAVAIL }
	    name_is, addr_is, port_is, proto_is, helo_is, login_is, destaddr_is, destport_is;
	struct str name;           /* a domain */
	struct str addr, destaddr; /* 192.0.2.1 or 2001:db8::1, without "IPV6:" */
	uint16_t port, destport;
	bool esmtp;                /* of PROTO */
	struct str helo, login;
};

struct smtp_event {
	enum smtp_event_kind kind;
	struct smtp_transaction *tx;
	struct smtp_rcpt *rcpt;
	struct str chunk, text;
	bool esmtp;
	enum sasl_mech mech;
	bool initial;
	bool smtputf8; /* VRFY and EXPN: the client takes UTF-8 in the reply (RFC 6531 §3.7.4.2) */
	const struct smtp_xclient *xclient; /* lives until the answer */
};

/* A reply of the caller's: code 2xx..5xx, enhanced status "2.1.5" (left out by the engine where not negotiated), text
 * of one or several lines separated by \n; printable ASCII or UTF-8, anything else is replaced by '?'. */
struct smtp_reply {
	unsigned code;
	const char *status;
	const char *text;
};

/* What the caller knows of the client. */
#define SMTP_TRUST_XCLIENT (1u << 0)  /* may say who it speaks for */
#define SMTP_TRUST_PRIORITY (1u << 1) /* may ask for a priority above 0 */
#define SMTP_TRUST_HOLD (1u << 2)     /* may have messages held (FUTURERELEASE) */
#define SMTP_TRUST_ONCE (1u << 3)     /* is known well enough for a key that makes a message unique */

/* NULL when memory is out. The banner (220) is in the output at once. */
struct smtp_server *smtp_server_new(const struct smtp_server_conf *conf);
void smtp_server_free(struct smtp_server *s);
/* Takes all of it (copied; at most SMTP_SERVER_INPUT_MAX is kept, so stop reading while smtp_server_wants_input() is
 * false; while it is true, up to SMTP_SERVER_FEED_MAX octets fit). Returns 0, or -1: out of memory or overfed, or
 * plaintext between SMTP_EV_STARTTLS and smtp_server_tls_started(); close the connection. After the end of the
 * session (QUIT, CLOSE) input is ignored. */
#define SMTP_SERVER_INPUT_MAX (256u * 1024)
#define SMTP_SERVER_FEED_MAX (64u * 1024)
int smtp_server_feed(struct smtp_server *s, const char *p, size_t n);
/* The peer closed its side: what it sent before is still worked off, then come SMTP_EV_ABORT, if a message had begun,
 * and SMTP_EV_CLOSE (with nothing to say to anybody). */
void smtp_server_eof(struct smtp_server *s);
/* 1: *ret is filled. 0: nothing to do until input, or until the pending event is answered. */
int smtp_server_next(struct smtp_server *s, struct smtp_event *ret);
/* Answers to the pending event; ignored when none is pending (a late answer to an ended session). NULL: the usual text
 * ("2.1.0 Ok"). */
void smtp_server_accept(struct smtp_server *s, const struct smtp_reply *reply);
void smtp_server_reject(struct smtp_server *s, const struct smtp_reply *reply);
/* Before the answer to SMTP_EV_MESSAGE: what recipient i of tx->rcpts is told (2xx to 5xx, else ignored), copied. Those
 * not named are told the answer. Used in LMTP (RFC 2033 §4.2), and with tx->prdr and several recipients when the answer is
 * accept: 353, a reply per recipient, then the answer (draft-hall-prdr). Returns 0, or -1: no memory, none pending, no
 * such recipient. */
int smtp_server_answer_rcpt(struct smtp_server *s, unsigned i, const struct smtp_reply *reply);
/* Sends a challenge (334) as answer to SMTP_EV_AUTH or SMTP_EV_AUTH_RESPONSE. blob: at most SASL_BLOB_MAX octets. */
void smtp_server_challenge(struct smtp_server *s, struct str blob);
/* The mechanisms on offer from now on, a bit 1u << SASL_… each; 0, as at the beginning: no AUTH. Which are allowed where (inside
 * TLS only, -PLUS with a channel binding only) is the caller's to decide; the engine forgets all when TLS begins. */
void smtp_server_mechs(struct smtp_server *s, unsigned mechs);
/* Was an AUTH accepted? */
bool smtp_server_signed_in(const struct smtp_server *s);
/* Ends the session with 421 (time-out, shutdown, too many): SMTP_EV_ABORT if needed, then SMTP_EV_CLOSE follow. */
void smtp_server_shutdown(struct smtp_server *s, const char *status, const char *text);
/* Gives back what empty buffers hold: for a session that says nothing at the moment, wherever it is. Within DATA the engine
 * itself keeps them from chunk to chunk. */
void smtp_server_trim(struct smtp_server *s);
bool smtp_server_wants_input(const struct smtp_server *s);
/* Is the client owed nothing (an answer, output to write, a command begun) and in no transaction? A drain may end it
 * here by smtp_server_shutdown(). */
bool smtp_server_idle(const struct smtp_server *s);
/* Has the client sent more already than what is being answered (pipelining)? */
bool smtp_server_pipelined(const struct smtp_server *s);
/* SMTP_TRUST_*: counts from the next command on; none at the beginning. */
void smtp_server_trust(struct smtp_server *s, unsigned trust);
/* The time, seconds since 1970, to be told before events are asked for: FUTURERELEASE and DELIVERBY count by it,
 * and are not offered while it is unknown. */
void smtp_server_time(struct smtp_server *s, int64_t now);
/* What EHLO would offer now: SMTP_EXT_*. */
unsigned smtp_server_offers(const struct smtp_server *s);
/* TLS is up: everything learnt in plaintext is forgotten (RFC 3207 §4.2). Also at the very beginning, where TLS came before
 * the first octet (RFC 8314 §3.3). */
void smtp_server_tls_started(struct smtp_server *s);
/* Reply octets to write; the caller consumes what it wrote by buf_consume(). */
struct buf *smtp_server_out(struct smtp_server *s);
/* The printable state name, for logs. */
const char *smtp_server_state_name(const struct smtp_server *s);

#endif
