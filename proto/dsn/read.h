/* Reading bounces: which recipient of a message did not get it, whether for good, and why. Reports of RFC 3464 and RFC 6533 are read as
 * they are meant, and notices in JSON (Amazon SES); the many other forms by the words people and programs use, in several languages and
 * charsets. For lists, suppression and success tracking.
 *
 * Everything is hostile: a bounce can be forged, so what is found here is a claim. Act on it only for recipients a message really went to
 * (VERP or SRS addresses prove that). No address is made up: each stands in the message. Work is linear in the size, results are bounded. */
#ifndef PROTO_DSN_READ_H
#define PROTO_DSN_READ_H

#include "base/arena.h"
#include "base/str.h"

enum {
	DSN_READ_RCPTS_MAX = 200,      /* recipients of one report; more are counted, not kept */
	DSN_READ_TEXT_MAX = 64 * 1024, /* octets of the text for people that are looked at, and of one delivery-status part times four */
	DSN_READ_DIAGNOSTIC_MAX = 2000,
};

enum dsn_read_reason {
	DSN_REASON_OTHER,
	/* hard: nobody will ever get mail there */
	DSN_REASON_UNKNOWN_USER,
	DSN_REASON_UNKNOWN_HOST,
	DSN_REASON_MOVED,
	DSN_REASON_NO_MAIL, /* the domain takes no mail at all (RFC 7504, RFC 7505) */
	/* soft: this mail, this sender, or this day */
	DSN_REASON_FULL,
	DSN_REASON_DISABLED, /* an account that is there, and closed for now */
	DSN_REASON_TOO_BIG,
	DSN_REASON_EXPIRED,  /* tried for too long */
	DSN_REASON_NETWORK,
	DSN_REASON_RATE,
	DSN_REASON_BLOCKED,  /* the sending host: lists, reputation, no name */
	DSN_REASON_SPAM,
	DSN_REASON_VIRUS,
	DSN_REASON_POLICY,   /* authentication, content, what a site does not want */
	DSN_REASON_SENDER,   /* the sender's address */
	DSN_REASON_RELAYING,
	DSN_REASON_PROTOCOL,
	DSN_REASON_SYSTEM,
	DSN_REASONS,
};

enum dsn_read_action { DSN_READ_FAILED, DSN_READ_DELAYED, DSN_READ_DELIVERED, DSN_READ_RELAYED, DSN_READ_EXPANDED };

struct dsn_read_rcpt {
	struct str address;    /* final recipient, local@domain; may be UTF-8; empty: the report names none */
	struct str original;   /* Original-Recipient, without its type; may be UTF-8; empty: not said */
	struct str status;     /* "5.1.1"; empty: not said */
	unsigned code;         /* SMTP reply code, 0: not said */
	struct str diagnostic; /* what the other side said, one line of UTF-8; may be empty */
	enum dsn_read_action action;
	enum dsn_read_reason reason;
	bool hard;             /* failed, and the reason is one of the hard ones */
};

struct dsn_read {
	bool report; /* it is about the fate of a message; else there are no recipients */
	bool formal; /* it has a part message/delivery-status (or global-) */
	struct dsn_read_rcpt *rcpt;
	size_t n;
	size_t dropped; /* recipients beyond DSN_READ_RCPTS_MAX */
	struct arena *mem;
};

enum { DSN_READ_MEMORY = -1, DSN_READ_LIMIT = -2 };
/* raw: the whole message. bare_lf as in proto/mail/mime.h. Everything is copied. Returns 0 (also when it is no report), or DSN_READ_*: MEMORY, or
 * LIMIT: the message passes a limit of proto/mail/mime.h; *ret is empty then. dsn_read_free() in any case is right. */
int dsn_read(struct str raw, bool bare_lf, struct dsn_read *ret);
void dsn_read_free(struct dsn_read *r);

/* "unknown-user" and so on, for logs and tables. Never NULL. */
const char *dsn_reason_text(enum dsn_read_reason reason);
bool dsn_reason_hard(enum dsn_read_reason reason);
/* What a text, a status and a reply code say together; any may be empty or 0. */
enum dsn_read_reason dsn_reason_of(struct str text, struct str status, unsigned code);

#endif
