/* Automatic replies (RFC 3834; the rules of RFC 5230 for vacation notices): whether to answer a message, whether it is such an answer itself, and the
 * header of the answer. No I/O, no clock, no memory of whom one has answered: the caller asks once per sender in MAIL_AUTOREPLY_DAYS (RFC 5230 §4.2),
 * sends from the null sender (RFC 3834 §3.3), and to the envelope sender only (§4).
 *
 *     struct mail_autoreply in = { .headers = h, .mail_from = from, .own = addresses, .n_own = n };
 *     if (mail_autoreply_decide(&in) == MAIL_AUTOREPLY_ANSWER && not answered lately)
 *             mail_autoreply_write(&in, &how, &out);
 *
 * Two responders wired together exchange one message at most: what is written here is never answered. */
#ifndef PROTO_MAIL_AUTOREPLY_H
#define PROTO_MAIL_AUTOREPLY_H

#include "base/buf.h"
#include "base/str.h"

enum {
	MAIL_AUTOREPLY_DAYS = 7,
	MAIL_AUTOREPLY_SUBJECT_MAX = 200, /* octets of the original's subject that are taken over */
	MAIL_AUTOREPLY_IDS_MAX = 20,      /* message-ids in References; the first and the last ones stay */
};

enum mail_autoreply_why {
	MAIL_AUTOREPLY_ANSWER,
	MAIL_AUTOREPLY_NULL_SENDER,   /* RFC 3834 §2 */
	MAIL_AUTOREPLY_BAD_SENDER,    /* not an address */
	MAIL_AUTOREPLY_SYSTEM_SENDER, /* postmasters, list managers: RFC 5230 §4.6 */
	MAIL_AUTOREPLY_OWN,           /* from an own address */
	MAIL_AUTOREPLY_AUTOMATIC,     /* Auto-Submitted (RFC 3834 §5), or what others used before it */
	MAIL_AUTOREPLY_SUPPRESSED,    /* the sender's software asks for none (X-Auto-Response-Suppress) */
	MAIL_AUTOREPLY_LIST,          /* a List-* field (RFC 2369, RFC 2919) */
	MAIL_AUTOREPLY_BULK,          /* Precedence: bulk, list, junk */
	MAIL_AUTOREPLY_NOT_ADDRESSED, /* no own address in To, Cc or Bcc (RFC 5230 §4.5) */
	MAIL_AUTOREPLY_MEMORY,        /* could not be found out: do not answer now */
};

struct mail_autoreply {
	struct str headers;    /* of the message, as mail_split() gives them */
	struct str mail_from;  /* envelope sender, without <>; empty: the null sender */
	const struct str *own; /* the addresses of him who answers: envelope recipient and its like; n_own of them */
	size_t n_own;
};

enum mail_autoreply_why mail_autoreply_decide(const struct mail_autoreply *in);

/* Is the message an automatic reply itself, as opposed to a bounce, a list's or a person's? Such mail is neither posted to a list nor counted as
 * a bounce. */
bool mail_autoreply_is(struct str headers);

/* "null-sender" and so on, for logs. Never NULL. */
const char *mail_autoreply_text(enum mail_autoreply_why why);

struct mail_autoreply_how {
	struct str from;       /* own address, addr-spec */
	struct str name;       /* display name in UTF-8; empty: none */
	struct str subject;    /* UTF-8; empty: "Auto: " and the original's (RFC 3834 §3.1.5) */
	struct str message_id; /* "id@host", unique */
	int64_t now_us;
	bool eight_bit;        /* the text that follows is UTF-8 with octets above 127, else plain ASCII */
	bool utf8;             /* the addressee's next hop takes SMTPUTF8: addresses may be UTF-8 */
};
/* Appends the answer's header block: From, To, Subject, Date, Message-ID, In-Reply-To and References (RFC 3834 §3.1.6), Auto-Submitted: auto-replied,
 * and the MIME fields of a text. Returns 0, or -1: the buffer is full, or an address cannot be written; the buffer is as before then. */
int mail_autoreply_write(const struct mail_autoreply *in, const struct mail_autoreply_how *how, struct buf *out);

#endif
