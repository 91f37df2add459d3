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
	SMTP_STATE_DATA,      /* the message */
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
	bool mute;                    /* a reply could not be written */
	bool data_refused;            /* the last command was a DATA that did not get its 354 */
	unsigned errors;

	struct buf in;      /* what was fed; used up to in_at */
	size_t in_at;
	struct buf out;
	struct buf command; /* a copy of the line at work, so that events outlive a feed */
	struct smtp_line line;

	struct smtp_data data;
	const char *data_fault; /* why the message is lost; NULL: it is not */

	struct smtp_transaction tx;
	unsigned rcpts_cap;
	bool tx_stale;        /* over, and told: to be emptied by the next call */
	struct smtp_rcpt rcpt; /* the one being asked about */

	struct smtp_event queue[3]; /* events without answer still to tell: at most RESET or ABORT, and CLOSE */
	unsigned n_queue;
};

static inline size_t smtp_server_unread(const struct smtp_server *s)
{
	return s->in.n - s->in_at;
}

/* server.c */
/* Appends a reply; status NULL: none, and none is sent after HELO or when the extension is off. */
void smtp_server_say(struct smtp_server *s, unsigned code, const char *status, const char *text);
/* A permanent refusal: the reply, and one more error on the budget, which may end the session. */
void smtp_server_refuse(struct smtp_server *s, unsigned code, const char *status, const char *text);
/* The last reply, then SMTP_EV_ABORT if a message was begun, and SMTP_EV_CLOSE. */
void smtp_server_fail(struct smtp_server *s, unsigned code, const char *status, const char *text);
/* Queues an event without answer; why: a literal. */
void smtp_server_tell(struct smtp_server *s, enum smtp_event_kind kind, const char *why);
unsigned smtp_server_extensions(const struct smtp_server *s);

/* server_verbs.c: works on one command line. Returns 1: *ret is an event (s->pending is set if it wants an answer). */
int smtp_server_command(struct smtp_server *s, struct str line, struct smtp_event *ret);
/* Says 250 to HELO or EHLO. */
void smtp_server_greet(struct smtp_server *s, const char *text);

/* server_mail.c: the two commands with a path, and their answers. */
bool smtp_server_mail_check(struct smtp_server *s, struct str args);
bool smtp_server_rcpt_check(struct smtp_server *s, struct str args);

/* server_data.c: works on the input behind DATA. Returns 1: *ret is an event. */
int smtp_server_data(struct smtp_server *s, struct smtp_event *ret);
/* 354 was said. */
void smtp_server_data_begin(struct smtp_server *s);

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
