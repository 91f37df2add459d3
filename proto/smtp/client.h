/* The SMTP and LMTP client engine (RFC 5321, RFC 2033): reply octets in, octets to send and events out. It knows no
 * socket, clock or name service.
 *
 * One message through it, told. The driver connects, makes an engine, and goes round: events until there are none, then
 * write what smtp_client_out() lists, then read and feed.
 *
 *     c = smtp_client_new(&conf)
 *     smtp_client_feed(c, "220 mx.example.net ESMTP\r\n", …)
 *     smtp_client_next → 0                     smtp_client_out: "EHLO relay.example.test\r\n"
 *     feed "250-mx\r\n250-PIPELINING\r\n250 STARTTLS\r\n"
 *     smtp_client_next → SMTP_CEV_READY        caps are known; the driver may call smtp_client_starttls(c) …
 *     smtp_client_next → SMTP_CEV_STARTTLS     … 220 came: the driver does the handshake, then smtp_client_tls_started(c)
 *     smtp_client_next → SMTP_CEV_READY        after the second EHLO; the driver may sign in, smtp_client_auth(c, &auth):
 *                                              "AUTH PLAIN AG1l…"; feed "235 2.7.0 ok\r\n"
 *     smtp_client_next → SMTP_CEV_SIGNED_IN, SMTP_CEV_READY; the driver calls smtp_client_send(c, &msg):
 *                                              out: MAIL, RCPT…, DATA in one piece where PIPELINING was offered
 *     feed "250 ok\r\n550 5.1.1 who?\r\n250 ok\r\n354 go\r\n"
 *                                              out: headers, CRLF, body, ".": the caller's own memory, not copied unless a
 *                                              line begins with a dot
 *     feed "250 2.0.0 queued\r\n"
 *     smtp_client_next → SMTP_CEV_DONE         every msg.rcpts[i].result is filled
 *     smtp_client_next → SMTP_CEV_READY        next message, or smtp_client_quit(c)
 *
 * What leaves never holds a bare CR, a bare LF or a NUL: content and addresses that do are refused before MAIL. A
 * message whose body does not end in CRLF gets one, since SMTP has no way to say otherwise.
 *
 * Replies: CRLF lines of one code, bounded in line, lines and total; anything else is a protocol error, which ends the
 * session. A reply to the content counts by its first line even so, also when the connection ends within it (RFC 5321 §4.2.1: all lines have one
 * code, and a client may go by any): "250-" has taken the message. Whatever ends it, each recipient of a message under way gets a result that tells how far things had come. */
#ifndef PROTO_SMTP_CLIENT_H
#define PROTO_SMTP_CLIENT_H

#include "base/str.h"
#include "proto/sasl/mech.h"

struct smtp_client;

/* What EHLO offered. */
#define SMTP_CAP_ESMTP (1u << 0) /* EHLO or LHLO was accepted */
#define SMTP_CAP_PIPELINING (1u << 1)
#define SMTP_CAP_SIZE (1u << 2)
#define SMTP_CAP_8BITMIME (1u << 3)
#define SMTP_CAP_SMTPUTF8 (1u << 4)
#define SMTP_CAP_DSN (1u << 5)
#define SMTP_CAP_ENHANCEDSTATUSCODES (1u << 6)
#define SMTP_CAP_STARTTLS (1u << 7)
#define SMTP_CAP_CHUNKING (1u << 8)  /* used as smtp_client_msg.chunking says */
#define SMTP_CAP_BINARYMIME (1u << 9)
#define SMTP_CAP_REQUIRETLS (1u << 10)
#define SMTP_CAP_DELIVERBY (1u << 11)
#define SMTP_CAP_MT_PRIORITY (1u << 12)
#define SMTP_CAP_XONCE (1u << 13)     /* ours (extensions.h) */
#define SMTP_CAP_AUTH (1u << 14)
#define SMTP_CAP_LIMITS (1u << 15)

/* Limits on what a peer can make us keep. RFC 5321 §4.5.3.1.5 has 512 octets a line; real servers pass that. */
enum {
	SMTP_CLIENT_LINE_MAX = 2048,       /* octets of a reply line */
	SMTP_CLIENT_AUTH_LINE_MAX = 16400, /* … while signing in: a challenge of SASL_BLOB_MAX; RFC 4954 §4 asks for 12288 */
	SMTP_CLIENT_LINES_MAX = 128,       /* lines of a reply */
	SMTP_CLIENT_INPUT_MAX = 64 * 1024, /* unread input */
	SMTP_CLIENT_TEXT_MAX = 512,        /* octets of reply text kept */
	SMTP_CLIENT_ADDRESS_MAX = 1024,    /* octets of an address we would send */
	SMTP_CLIENT_SEGMENTS = 6,          /* most entries of smtp_client_out() */
};

enum smtp_phase {
	SMTP_PHASE_CONNECT, /* never the engine's: for drivers that keep one enum */
	SMTP_PHASE_BANNER,
	SMTP_PHASE_EHLO,
	SMTP_PHASE_STARTTLS,
	SMTP_PHASE_AUTH,
	SMTP_PHASE_IDLE, /* ready, no message under way */
	SMTP_PHASE_MAIL,
	SMTP_PHASE_RCPT,
	SMTP_PHASE_DATA,
	SMTP_PHASE_DOT, /* content and what follows until the last reply */
	SMTP_PHASE_RSET,
	SMTP_PHASE_QUIT,
};
/* "connect", "banner", … */
const char *smtp_phase_name(enum smtp_phase p);

enum smtp_outcome {
	SMTP_OUT_NONE,      /* not decided */
	SMTP_OUT_OK,        /* accepted by the peer */
	SMTP_OUT_TRANSIENT, /* 4xx */
	SMTP_OUT_PERMANENT, /* 5xx, or refused here before it was sent (code 0) */
	SMTP_OUT_LOST,      /* the connection ended or timed out; in phase dot the peer may have the message all the same */
	SMTP_OUT_PROTOCOL,  /* the peer broke the protocol */
};

struct smtp_result {
	enum smtp_outcome outcome;
	enum smtp_phase phase; /* what was being answered */
	unsigned code;         /* of the reply, 0: none */
	char status[12];       /* enhanced status "5.1.1", "" when none was given */
	struct str text;       /* reply text without codes, lines joined by blanks: valid UTF-8 without controls, at most
	                        * SMTP_CLIENT_TEXT_MAX octets; or our own words. NUL-terminated. Lives until the next
	                        * smtp_client_send() or smtp_client_free() */
	bool maybe;            /* the session ended behind the final dot and before its reply: the peer may have the message, and
	                        * another attempt may make it a second one (RFC 5321 §4.5.3.2.6, RFC 1047) */
};

struct smtp_client_conf { /* must outlive the engine */
	struct str helo; /* our name for EHLO; no blanks or controls */
	bool lmtp;       /* LHLO, and one reply per recipient behind the dot */
	bool tls;        /* the connection was TLS before the first octet (port 465, RFC 8314 §3.3) */
};

/* What to sign in with. Everything must live until SMTP_CEV_SIGNED_IN, SMTP_CEV_AUTH_FAILED or SMTP_CEV_CLOSED; the engine's copies
 * are wiped then. */
struct smtp_client_auth {
	struct str name;       /* who we are there */
	struct str authzid;    /* whom to act for; empty: the same */
	struct str password;   /* for SCRAM, PLAIN, LOGIN; or */
	struct str token;      /* an access token, for OAUTHBEARER and XOAUTH2 */
	bool external;         /* EXTERNAL may be used: TLS showed our certificate */
	struct str nonce;      /* random, sasl_nonce_ok(); empty: no SCRAM */
	struct sasl_binding binding; /* of this TLS session; type empty: no SCRAM-…-PLUS */
	struct str host;       /* for OAUTHBEARER: the server as the operator names it, and its port; may be empty and 0 */
	unsigned port;
	unsigned mechs;        /* those allowed, 1u << SASL_…; 0: all */
	bool without_tls;      /* the operator says so, for a peer on this host: else nothing is sent without TLS */
};

/* Why signing in failed, as far as it matters to what is done next. */
enum smtp_auth_fault {
	SMTP_AUTH_NONE,        /* it did not */
	SMTP_AUTH_CREDENTIALS, /* 535 and its kin: name, password or token are wrong, or they are not wanted here */
	SMTP_AUTH_WEAK,        /* 534: the mechanism is not strong enough, or the account wants another kind of password */
	SMTP_AUTH_TRANSITION,  /* 432: sign in with PLAIN once, or otherwise renew the password */
	SMTP_AUTH_NO_TLS,      /* 538, or we would have had to do it without TLS */
	SMTP_AUTH_LATER,       /* 454 and other 4xx: the server cannot check it now */
	SMTP_AUTH_MECHANISM,   /* 504, or nothing is on offer that we can and may use */
	SMTP_AUTH_SERVER,      /* the server does not know us (SCRAM), or broke the mechanism's rules */
	SMTP_AUTH_LOST,        /* the connection ended */
};
/* "none", "credentials", … */
const char *smtp_auth_fault_name(enum smtp_auth_fault f);

/* What the peer said it will take at most (RFC 9422); 0: not said. */
struct smtp_limits {
	uint32_t mail_max;        /* MAILMAX: transactions in a session */
	uint32_t rcpt_max;        /* RCPTMAX: RCPTs in a transaction */
	uint32_t rcpt_domain_max; /* RCPTDOMAINMAX: different domains in them */
};

struct smtp_client_rcpt {
	struct str address;        /* without <> */
	struct str notify, orcpt;  /* RFC 3461, as they came ("SUCCESS,FAILURE"; "rfc822;xtext"); empty: none. What does not
	                            * fit the grammar is left out */
	struct smtp_result result; /* filled by the engine */
	bool dsn_passed;           /* out, with an outcome of OK: the peer offers DSN and was told all this: its reports are its duty now (RFC 3461 §5.2) */
};

/* What smtp_content_scan() found. */
#define SMTP_CONTENT_SCANNED (1u << 0)
#define SMTP_CONTENT_BAD (1u << 1)         /* bare CR, bare LF, NUL, or headers that are no whole lines: never sent */
#define SMTP_CONTENT_HEADER_8BIT (1u << 2)
#define SMTP_CONTENT_BODY_8BIT (1u << 3)
#define SMTP_CONTENT_DOTS (1u << 4)        /* a line begins with a dot: content is copied while it is sent */
#define SMTP_CONTENT_OPEN (1u << 5)        /* the body's last line has no CRLF: one is added */
#define SMTP_CONTENT_LONG (1u << 6)        /* a line has more than the 998 octets of RFC 5321 §4.5.3.1.6 */
#define SMTP_CONTENT_HEADER_BAD (1u << 7)  /* what is bad is in the headers: not even BDAT may carry it (RFC 3030 §3) */
unsigned smtp_content_scan(struct str headers, struct str body);

/* May content be converted for a peer that lacks what it needs (8BITMIME, BINARYMIME, SMTPUTF8; proto/mail/downgrade.h)? It breaks signatures over the
 * message. The envelope is no content: where only the domain of an address is not ASCII, a peer without SMTPUTF8 gets its A-labels in any case. */
enum smtp_downgrade {
	SMTP_DOWNGRADE_NEVER,    /* it is refused instead */
	SMTP_DOWNGRADE_UNSIGNED, /* unless it bears a signature that would break (DKIM, ARC) */
	SMTP_DOWNGRADE_ALWAYS,
};

/* When content goes by BDAT, in one chunk (RFC 3030), to a peer that offers CHUNKING, instead of DATA. Text is the same octets by both, a last line
 * without an end gets one; what is converted goes by DATA always. */
enum smtp_chunking {
	SMTP_CHUNKING_BINARY, /* what has to: binary content, where BINARYMIME is offered, too */
	SMTP_CHUNKING_ALWAYS, /* text as well: no dots to double, and the peer counts what it gets */
	SMTP_CHUNKING_NEVER,  /* binary content is treated as if the peer did not take it */
};

/* What was done to it. */
struct smtp_downgraded {
	unsigned lacks;  /* what the peer lacks, MAIL_LACKS_*; 0: the content went as it is */
	unsigned parts, fields, left_out; /* encoded; written anew; left out: fields of trace */
	bool envelope;   /* addresses went with A-labels */
	bool breaks;     /* a signature of the message (DKIM, ARC) did not survive */
};
/* "8BITMIME,SMTPUTF8": the names of what is lacking. */
const char *smtp_lacking(unsigned lacks);

struct smtp_client_msg { /* the caller's, unchanged until SMTP_CEV_DONE */
	struct str mail_from; /* empty: the null sender */
	struct str headers, body; /* sent as headers, CRLF, body; headers are whole lines */
	unsigned content;     /* smtp_content_scan(), or 0: the engine scans */
	bool body_8bit;       /* the sender declared BODY=8BITMIME; content with 8-bit octets counts as declared */
	bool body_binary;     /* the sender declared BODY=BINARYMIME: what is text all the same is sent as 8BITMIME, the rest by BDAT to a
	                       * peer with CHUNKING and BINARYMIME, or not at all */
	bool smtputf8;        /* the sender declared SMTPUTF8 */
	bool whole;           /* when a recipient is refused for now (4xx) the others do not get it either: all are TRANSIENT then */
	struct str once;      /* key that makes the message unique, for XONCE; empty: none. Left out where the peer has none */
	bool require_tls;     /* REQUIRETLS (RFC 8689): refused with 5.7.30 when the session has no TLS or the peer does not offer it; with
	                       * the null sender sent all the same (§5). Whether the certificate was checked is the driver's to know. Not
	                       * looked at in LMTP, which is final delivery */
	bool has_priority;    /* MT-PRIORITY (RFC 6710), told to a peer that offers it */
	int priority;         /* -9 to 9 */
	char deliver_mode;    /* DELIVERBY (RFC 2852): 'R' or 'N', 0: none */
	int64_t deliver_by;   /* seconds left; with 'R' above 0 */
	bool deliver_trace;
	struct str ret, envid; /* RFC 3461: "FULL" or "HDRS"; xtext; empty: none */
	struct smtp_client_rcpt *rcpts;
	size_t n_rcpts;
	enum smtp_downgrade downgrade;
	enum smtp_chunking chunking;
	bool chunked;         /* out: it went by BDAT, or would have */
	struct smtp_downgraded downgraded; /* out: filled before anything is sent */
	bool mail_accepted;   /* out: MAIL got its 2xx; false behind a failure: the peer acknowledged nothing of this message */
};

enum smtp_client_event {
	SMTP_CEV_NONE,        /* nothing until output is written or input fed */
	SMTP_CEV_READY,       /* EHLO is over (again), or a message is: send, starttls or quit */
	SMTP_CEV_STARTTLS,    /* 220 came, what lay behind it is dropped: start TLS, then smtp_client_tls_started() */
	SMTP_CEV_TLS_REFUSED, /* no 220; smtp_client_failure() tells; the session goes on in plain text (READY follows) */
	SMTP_CEV_DONE,        /* results of the message are filled; exactly once per smtp_client_send() */
	SMTP_CEV_CLOSED,      /* the session is over: close the socket. smtp_client_failure() tells why; outcome OK: QUIT */
	SMTP_CEV_SIGNED_IN,   /* AUTH succeeded; READY follows */
	SMTP_CEV_AUTH_FAILED, /* it did not; smtp_client_failure() and smtp_client_auth_fault() tell; the session goes on (READY follows) */
};

/* NULL: out of memory, or conf->helo cannot be sent. */
struct smtp_client *smtp_client_new(const struct smtp_client_conf *conf);
void smtp_client_free(struct smtp_client *c);

/* Takes all of it. Returns 0, or -1: more unread input than SMTP_CLIENT_INPUT_MAX or out of memory; the session is over
 * then (CLOSED, protocol error). Ignored between SMTP_CEV_STARTTLS and smtp_client_tls_started(), and after CLOSED. */
int smtp_client_feed(struct smtp_client *c, const char *p, size_t n);
/* The connection ended, or the driver gave it up; why goes into the results ("timed out after 300 s"), NULL: "connection
 * closed by the other side". Input fed before still counts: drain events first, and these follow. */
void smtp_client_lost(struct smtp_client *c, const char *why);
enum smtp_client_event smtp_client_next(struct smtp_client *c);

/* The octets to write next, in order; returns how many entries of seg are filled. They live until the next call of any
 * function but this one. smtp_client_sent() says how many octets of them were written. */
size_t smtp_client_out(struct smtp_client *c, struct str seg[SMTP_CLIENT_SEGMENTS]);
void smtp_client_sent(struct smtp_client *c, size_t n);

/* Allowed after SMTP_CEV_READY, else -1 and nothing happens. */
int smtp_client_starttls(struct smtp_client *c);
/* Signs in: the strongest mechanism first of those that the peer offers and for which there is what they need; a refusal of the
 * mechanism (504, 534) moves on to the next, a refusal of the credentials does not. The initial response goes along with AUTH where it
 * fits into a command line (RFC 4954 §4). SMTP_CEV_SIGNED_IN or _AUTH_FAILED follows in any case, or CLOSED. Whether the peer is who it
 * should be, and so may be told a password, is the driver's to know: call this only when it is. Returns 0, or -1: not ready, or
 * signed in already. */
int smtp_client_auth(struct smtp_client *c, const struct smtp_client_auth *auth);
/* What the message needs and the peer does not offer (MAIL_LACKS_*), before it is begun: its content would be converted or refused, or its addresses be
 * given with A-labels or refused. 0: it can go as it is. Looks through the content once and keeps that in m->content. When the engine is ready. */
unsigned smtp_client_lacks(const struct smtp_client *c, struct smtp_client_msg *m);

/* Begins a transaction. The results may be there at once (refused here, without a word to the peer): SMTP_CEV_DONE
 * follows in any case. Refused here: bad content 5.6.0; content that the peer does not take, where it may not be converted or cannot be: binary (long
 * lines count, too) without BDAT and BINARYMIME 5.6.3, 8-bit without 8BITMIME 5.6.3, UTF-8 addresses (one with an ASCII local part has another form)
 * or, if smtputf8, fields without SMTPUTF8 5.6.7; REQUIRETLS 5.7.30; a time that is
 * too short for the peer (DELIVERBY, mode R) 5.4.7, and a peer without DELIVERBY 5.3.3; addresses that cannot be sent 5.1.7/5.1.3; larger than the
 * peer's SIZE 5.3.4. Recipients beyond what LIMITS allow in a transaction are TRANSIENT with 4.5.3 and code 0: send them in another one. Returns 0,
 * or -1: not ready, no recipients, or smtp_client_full(). */
int smtp_client_send(struct smtp_client *c, struct smtp_client_msg *msg);
/* Sends QUIT; SMTP_CEV_CLOSED follows with the reply or the end of the connection. */
int smtp_client_quit(struct smtp_client *c);
/* The handshake is done: everything learnt in plain text is forgotten (RFC 3207 §4.2) and EHLO goes out again. */
void smtp_client_tls_started(struct smtp_client *c);

/* SMTP_CAP_*; *ret_size (may be NULL): the peer's limit, 0: none given. */
unsigned smtp_client_caps(const struct smtp_client *c, uint64_t *ret_size);
/* What the peer calls itself in its reply to EHLO, LHLO or HELO: its first word, printable; "": nothing, or more than 255 octets. A claim, no more. */
struct str smtp_client_name(const struct smtp_client *c);
enum smtp_phase smtp_client_phase(const struct smtp_client *c);
/* Grows with each whole reply: what a driver restarts its deadline by. */
uint64_t smtp_client_replies(const struct smtp_client *c);
/* How the session ended (after CLOSED), or TLS was refused, or signing in failed. */
const struct smtp_result *smtp_client_failure(const struct smtp_client *c);
enum smtp_auth_fault smtp_client_auth_fault(const struct smtp_client *c);
/* The mechanism that was used last, "SCRAM-SHA-256"; NULL: none. */
const char *smtp_client_auth_mech(const struct smtp_client *c);
/* The mechanisms on offer that this engine knows, 1u << SASL_…. */
unsigned smtp_client_auth_offer(const struct smtp_client *c);
struct smtp_limits smtp_client_limits(const struct smtp_client *c);
/* Has the session had as many transactions as the peer takes (MAILMAX)? Then quit and connect anew. */
bool smtp_client_full(const struct smtp_client *c);

#endif
