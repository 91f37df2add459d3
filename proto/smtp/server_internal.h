/* What the files server*.c and transaction.c share: the session object, and the functions each of them lends the others.
 * Nobody else includes this. */
#ifndef PROTO_SMTP_SERVER_INTERNAL_H
#define PROTO_SMTP_SERVER_INTERNAL_H

#include "data.h"
#include "line.h"
#include "server.h"

enum smtp_server_state {
	SMTP_STATE_CONNECTED, /* no HELO or EHLO yet */
	SMTP_STATE_READY,     /* greeted, no transaction */
	SMTP_STATE_MAIL,      /* a sender, no recipient */
	SMTP_STATE_RCPT,      /* at least one recipient */
	SMTP_STATE_CHUNKS,    /* between two chunks of a message */
	SMTP_STATE_DATA,      /* the message behind DATA */
	SMTP_STATE_BDAT,      /* in a chunk */
	SMTP_STATE_AUTH,      /* a challenge is out */
	SMTP_STATE_TLS,       /* 220 to STARTTLS is out */
	SMTP_STATE_CLOSED,
};
#define IN(state) (1u << SMTP_STATE_##state)

/* Output nobody fetches: a full input of the shortest commands gives less than this. */
#define SMTP_SERVER_OUTPUT_MAX (4u * 1024 * 1024)
/* While more than this waits to be written no further input is wanted. */
#define SMTP_SERVER_OUTPUT_HIGH (64u * 1024)
/* Buffers larger than this are given back between commands: 10 000 idle sessions must stay cheap. */
#define SMTP_SERVER_IDLE_KEEP 4096u
/* max_recipients of 0; the least RFC 5321 §4.5.3.1.8 allows. */
#define SMTP_SERVER_RCPTS_DEFAULT 100u

struct smtp_server {
	const struct smtp_server_conf *conf;
	enum smtp_server_state state;
	enum smtp_event_kind pending; /* the event that waits for an answer, or SMTP_EV_NONE */
	bool esmtp;                   /* EHLO, so extensions count */
	bool helo;                    /* HELO: no enhanced status codes */
	bool tls, eof;
	unsigned trust;               /* SMTP_TRUST_* */
	int64_t now;                  /* seconds since 1970, 0: not told */
	unsigned mails;               /* accepted MAILs */
	bool mute;                    /* a reply could not be written */
	bool data_refused;            /* the last command was a DATA that did not get its 354 */
	unsigned errors;

	struct buf in;      /* what was fed; used up to in_at */
	size_t in_at;
	struct buf out;
	struct buf command; /* a copy of the line at work, so that events outlive a feed */
	struct smtp_line line;
	bool long_bdat;     /* the line too long that is being skipped began as BDAT */

	struct smtp_data data;
	const char *data_fault; /* why the message is lost; NULL: it is not */
	bool begun;             /* a message the caller took, not answered and not aborted yet */
	unsigned replies;       /* how many are owed at its end */
	uint64_t chunk_left;    /* BDAT: octets of the chunk to come */
	bool chunk_last;
	bool chunk_drop;        /* refused already: only to be read over, then back to chunk_back */
	enum smtp_server_state chunk_back;
	bool chunk_lost;        /* more chunks of a lost message may be on their way: no new errors of the client's */

	struct smtp_transaction tx;
	unsigned rcpts_cap;
	bool tx_stale;        /* over, and told: to be emptied by the next call */
	struct smtp_rcpt rcpt; /* the one being asked about */
	struct smtp_reply *rcpt_replies; /* of smtp_server_answer_rcpt(), in the arena; NULL: none */
	struct smtp_xclient xclient; /* strings in xclient_text */
	struct buf xclient_text;

	unsigned mechs;       /* on offer: 1u << SASL_… */
	enum sasl_mech mech;  /* of the exchange under way */
	bool auth_initial, signed_in;
	struct buf auth;      /* the client's decoded response */

	struct smtp_event queue[4]; /* events without answer still to tell: at most RESET or ABORT, and QUIT or CLOSE */
	unsigned n_queue;
};

/* Flags of a verb. */
#define SMTP_VERB_NO_ARGS (1u << 0)
#define SMTP_VERB_NEED_ARGS (1u << 1)
/* Must end a group (RFC 2920 §3.1): the client has to wait for the reply, and one that does not is smuggling, injecting
 * (RFC 3207) or no mail client: refused, and the session ends. NOOP, VRFY, EXPN and QUIT, too, may only end a group, but
 * what follows those is harmless and let through. */
#define SMTP_VERB_SYNC (1u << 2)
#define SMTP_VERB_ABUSE (1u << 3) /* another protocol's (HTTP): the session ends */
#define SMTP_VERB_OWN_ARGS (1u << 4) /* check judges whatever the argument and the state are */
#define SMTP_VERB_SMTP (1u << 5)  /* not in LMTP */
#define SMTP_VERB_LMTP (1u << 6)  /* in LMTP only */

/* One row of the table in server_verbs.c. A check may only refuse, an act may only act. */
struct smtp_verb {
	struct str name;
	unsigned states;    /* IN(state)…; else 503 */
	unsigned flags;     /* SMTP_VERB_* */
	unsigned extension; /* must be offered at the moment, else 502; 0: none */
	bool (*check)(struct smtp_server *s, struct str args); /* false: it has refused; may be NULL */
	int (*act)(struct smtp_server *s, const struct smtp_verb *v, struct str args, struct smtp_event *ret); /* 1: an event */
	enum smtp_event_kind asks; /* the event of smtp_server_ask() */
	const char *syntax;
};

static inline size_t smtp_server_unread(const struct smtp_server *s)
{
	return s->in.n - s->in_at;
}

/* server.c */
void smtp_server_banner(struct smtp_server *s);
/* One error more; the last one the budget has ends the session. */
void smtp_server_count_error(struct smtp_server *s);
/* Ends the session without a word: SMTP_EV_ABORT if a message was begun, SMTP_EV_CLOSE, and no more input. why: a literal. */
void smtp_server_finish(struct smtp_server *s, const char *why);
/* A message was begun: it is lost, and the caller is told. why: a literal. */
void smtp_server_abort(struct smtp_server *s, const char *why);
/* Appends a reply; status NULL: none, and none is sent after HELO or when the extension is off. */
void smtp_server_say(struct smtp_server *s, unsigned code, const char *status, const char *text);
/* A permanent refusal: the reply, and one more error on the budget, which may end the session. */
void smtp_server_refuse(struct smtp_server *s, unsigned code, const char *status, const char *text);
/* The last reply, then SMTP_EV_ABORT if a message was begun, and SMTP_EV_CLOSE. */
void smtp_server_fail(struct smtp_server *s, unsigned code, const char *status, const char *text);
/* Queues an event without answer; why: a literal. */
void smtp_server_tell(struct smtp_server *s, enum smtp_event_kind kind, const char *why);
/* extensions.c: those in force: what is offered, after EHLO. */
unsigned smtp_server_extensions(const struct smtp_server *s);
/* transaction.c */
unsigned smtp_server_max_rcpts(const struct smtp_server *s);

/* server_answers.c: says to each what the end of a message owes it; fault replies count one error. */
void smtp_server_refuse_message(struct smtp_server *s, unsigned code, const char *status, const char *text);

/* server_verbs.c: works on one command line. Returns 1: *ret is an event (s->pending is set if it wants an answer). */
int smtp_server_command(struct smtp_server *s, struct str line, struct smtp_event *ret);
/* An act: hands the decision to the caller as event v->asks, and waits for its answer. */
int smtp_server_ask(struct smtp_server *s, const struct smtp_verb *v, struct str args, struct smtp_event *ret);
/* Says 250 to HELO, EHLO or LHLO. */
void smtp_server_greet(struct smtp_server *s, const char *text);

/* server_mail.c: the two commands with a path, and their answers. */
bool smtp_server_mail_check(struct smtp_server *s, struct str args);
bool smtp_server_rcpt_check(struct smtp_server *s, struct str args);

/* server_data.c: works on the input behind DATA. Returns 1: *ret is an event. */
int smtp_server_data(struct smtp_server *s, struct smtp_event *ret);
/* 354 was said. */
void smtp_server_data_begin(struct smtp_server *s);

/* server_bdat.c: the BDAT command (RFC 3030): its check, which refuses and reads over, or begins a chunk; and the octets
 * behind it. smtp_server_bdat() returns 1: *ret is an event, 2: something was done, 0: more input is needed. */
bool smtp_server_bdat_check(struct smtp_server *s, struct str args);
int smtp_server_bdat(struct smtp_server *s, struct smtp_event *ret);
/* The caller took the first chunk's message, or did not. */
void smtp_server_bdat_begin(struct smtp_server *s);
void smtp_server_bdat_refused(struct smtp_server *s);

/* server_xclient.c: fills s->xclient, or refuses. */
bool smtp_server_xclient_check(struct smtp_server *s, struct str args);

/* server_auth.c: the AUTH verb, a line of its exchange (1: *ret is an event), and its end. */
bool smtp_server_auth_ready(const struct smtp_server *s);
void smtp_server_auth_write(const struct smtp_server *s, struct buf *out);
bool smtp_server_auth_check(struct smtp_server *s, struct str args);
int smtp_server_auth(struct smtp_server *s, const struct smtp_verb *v, struct str args, struct smtp_event *ret);
int smtp_server_auth_line(struct smtp_server *s, struct str line, struct smtp_event *ret);
void smtp_server_auth_too_long(struct smtp_server *s);
void smtp_server_auth_accepted(struct smtp_server *s);
void smtp_server_auth_rejected(struct smtp_server *s);
/* What the client said lies nowhere any more. */
void smtp_server_auth_wipe(struct smtp_server *s);

/* transaction.c */
/* Begins one. Returns 0, or -1: no memory. */
int smtp_transaction_begin(struct smtp_server *s);
/* Room for one more recipient, and s->rcpt's strings copied into the arena. Returns 0, or -1. */
int smtp_transaction_keep_rcpt(struct smtp_server *s);
/* Takes s->rcpt, kept before: cannot fail. */
void smtp_transaction_add_rcpt(struct smtp_server *s);
/* Forgets it all. */
void smtp_transaction_clear(struct smtp_server *s);

#endif
