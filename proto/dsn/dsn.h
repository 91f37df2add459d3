/* Delivery status notifications: the message that tells a sender what became of his (RFC 3461, RFC 3462/6522, RFC 3464,
 * RFC 6533 for internationalized ones). A pure writer; time and names come from the caller.
 *
 * Everything that is put in is taken for hostile: text of other servers, parameters of the client, the original itself. What
 * comes out is whole CRLF lines without bare CR, LF or NUL, and a multipart whose boundary occurs nowhere in its parts. */
#ifndef PROTO_DSN_DSN_H
#define PROTO_DSN_DSN_H

#include "proto/dsn/notify.h"
#include "proto/dsn/words.h"

enum {
	DSN_TEXT_MAX = 900,            /* octets of a remote text that are shown */
	DSN_RCPTS_MAX = 10000,         /* recipients described in one report */
	DSN_OVERHEAD_MAX = 64 * 1024 * 1024, /* octets of a report besides the returned original */
};

/* Why this system gave up, where no server's reply and no words of a stage say it. */
enum dsn_cause {
	DSN_CAUSE_NONE,
	DSN_CAUSE_OPERATOR, /* an operator returned it */
	DSN_CAUSE_STAGE,    /* it failed at `stage`; nobody knows where: the stage is empty */
	DSN_CAUSE_SLOW,     /* a stage took too long */
	DSN_CAUSE_CRASH,    /* a stage ended without an answer */
};

struct dsn_rcpt {
	struct str address;    /* final recipient, without <> */
	struct str orcpt;      /* as the client sent it: "rfc822;xtext"; empty: none */
	struct str status;     /* "5.1.1"; what is no status is replaced by the class alone */
	struct str remote_mta; /* "mx.example.net" or "[192.0.2.1]"; empty: decided here */
	unsigned code;         /* of the SMTP reply, 0: none */
	struct str reply;      /* its text, without code and status */
	struct str diagnostic; /* in words, for people; and, without a code, for Diagnostic-Code */
	struct str phase;      /* "rcpt", "data", …; empty: not known */
	enum dsn_kind action;  /* in a report of success: DELIVERED, RELAYED or EXPANDED; anything else: what the report's kind says */
	bool hidden;           /* `address` is one that leads elsewhere, where to is nobody's business (RFC 3464 §4.2): no reply, diagnostic or remote_mta is shown, code and status are */
	enum dsn_cause cause;  /* in words of the language; where there is one, `diagnostic` is for programs alone */
};

struct dsn {
	enum dsn_kind kind;  /* FAILED, DELAYED, or one of the others: a report of success */
	const struct dsn_words *words; /* NULL: the English ones */
	struct str language; /* their tag, for Content-Language; empty: not said */
	struct str hostname; /* ours */
	struct str from;     /* address that the report is from; empty: MAILER-DAEMON at hostname */
	struct str postmaster; /* whom a person can ask; empty: postmaster at hostname */
	struct str to;       /* sender of the original; not empty */
	struct str id;       /* unique here: queue id */
	int64_t now_us, arrival_us;
	int64_t retry_until_us; /* DSN_DELAYED: when we give up; 0: not said */
	struct str stage;    /* where inside this system a message got stuck, beside what the recipients' entries say; empty: nowhere */
	bool maybe;          /* an attempt may have been a delivery (RFC 5321 §4.5.3.2.6) … */
	int64_t maybe_us;    /* … when, 0: not known */
	struct str maybe_hop; /* … and with whom; empty: not known */
	struct str envid;    /* as the client sent it (xtext); empty: none */
	char ret;            /* 'F', 'H' or 0: not said (RFC 3461 §4.3) */
	bool smtputf8;       /* the original was an internationalized message */
	struct str headers, body; /* the original: header lines, body */
	size_t max_original; /* an original larger than this is returned as headers only, headers are cut there */
	const struct dsn_rcpt *rcpts;
	size_t n_rcpts;
};

struct dsn_form {
	bool eight_bit; /* the report holds 8-bit octets: BODY=8BITMIME */
	bool utf8;      /* it is an internationalized message: SMTPUTF8 */
	bool full;      /* the whole original was returned */
};

/* Appends the report's header block to headers and its body to body. Returns 0, or -1: a buffer is full, no recipients, or `to`
 * cannot be written. */
int dsn_write(const struct dsn *d, struct buf *headers, struct buf *body, struct dsn_form *ret);

/* -- pieces, for tests and other writers of reports */

/* Is it "D.S.D" with class 2, 4 or 5 (RFC 3463 §2)? */
bool dsn_status_ok(struct str s);
/* Text made safe for one line: controls become blanks, at most max octets; octets above 127 stay where utf8 is set and the
 * text is UTF-8, else each character becomes \x{HEX} (RFC 6533 §3) or '?'. Characters that are not seen or turn the direction of
 * what stands around them (U+202E and its like) become \x{HEX} in either case. No more than the first 4 * max octets are looked at, so
 * the work is bounded by max, however long the text is. */
int dsn_text(struct buf *out, struct str s, bool utf8, size_t max);
/* An address as the type "utf-8" wants it (RFC 6533 §3): as above, and "\\", "+" and "=" are written \x{HEX}, too. */
int dsn_utf8_address(struct buf *out, struct str s, bool utf8, size_t max);
/* The action that is told for a recipient. */
enum dsn_kind dsn_action(const struct dsn *d, const struct dsn_rcpt *r);

#endif
