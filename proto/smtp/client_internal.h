/* Shared by the client_*.c files: the engine's insides. Nobody else includes this. */
#ifndef PROTO_SMTP_CLIENT_INTERNAL_H
#define PROTO_SMTP_CLIENT_INTERNAL_H

#include "base/arena.h"
#include "base/buf.h"
#include "client.h"
#include "proto/mail/downgrade.h"
#include "proto/sasl/client.h"

/* One reply under construction or complete. */
struct client_reply {
	unsigned code, lines;
	bool torn; /* a line had another code than the first */
	char status[12];
	char text[SMTP_CLIENT_TEXT_MAX + 1];
	size_t text_n;
};

/* Takes one line (without CRLF) into the reply. Returns 1: that was the last line; 0: more to come; -1: broken. */
int client_reply_line(struct client_reply *r, struct str line);
/* Makes the text valid UTF-8 without controls; called once, at the end. */
void client_reply_seal(struct client_reply *r);

/* What EHLO brought. */
struct client_offer {
	unsigned caps;
	uint64_t size_limit;
	uint64_t deliver_by_min; /* of DELIVERBY */
	unsigned mechs;          /* of AUTH, 1u << SASL_… */
	struct smtp_limits limits;
};
/* Takes one line of an EHLO reply behind the first, without the code. */
void client_offer_line(struct client_offer *o, struct str line);

/* Where the content is while it is sent. */
struct client_content {
	struct str part[5]; /* headers, CRLF, body, CRLF if the body is open, ".\r\n"; by BDAT the last is empty */
	const struct mail_downgrade *plan; /* parts 0 to 2 come from there, piece by piece: each is part 0 in its turn; NULL: from the message */
	struct mail_downgrade_reader from;
	struct buf piece;   /* the piece in hand */
	unsigned at;        /* first part not wholly sent */
	size_t off;         /* octets of it that are sent, or with stuffing copied */
	bool stuff;         /* lines begin with dots: copied into buf piece by piece */
	bool line_start;    /* the next octet copied begins a line */
	struct buf buf;     /* stuffed octets not yet sent */
	size_t buf_off;
};
/* empty: a lone dot. CHUNK: no dots; BINARY: nor a line end where there is none. plan: the message as it was made fit; NULL: as it is. */
enum client_framing { CLIENT_DOTS, CLIENT_CHUNK, CLIENT_BINARY };
void client_content_begin(struct client_content *k, const struct smtp_client_msg *m, const struct mail_downgrade *plan, bool empty, enum client_framing how);
bool client_content_over(const struct client_content *k);
size_t client_content_out(struct client_content *k, struct str *seg, size_t max);
void client_content_sent(struct client_content *k, size_t n);

enum client_state {
	CS_BANNER,
	CS_EHLO,
	CS_HELO,
	CS_READY,
	CS_STARTTLS,
	CS_AUTH,
	CS_AUTH_CANCEL, /* behind "*": the refusal is due */
	CS_HANDSHAKE, /* between 220 and smtp_client_tls_started() */
	CS_ENVELOPE,  /* MAIL, RCPT, DATA: at says which answer is due */
	CS_CONTENT,
	CS_RSET,
	CS_QUIT,
	CS_CLOSED,
};

struct smtp_client {
	const struct smtp_client_conf *conf;
	enum client_state state;
	bool tls;
	bool lost; /* no more input will come */
	const char *lost_why;
	struct client_offer offer;
	uint64_t replies;
	char name[256];        /* what the peer calls itself in its reply to the last EHLO, LHLO or HELO; "": nothing, or too long */
	uint64_t mails; /* MAIL commands of this session */
	struct buf in, out;
	size_t in_off, out_off; /* consumed octets at their fronts */
	struct client_reply reply;
	struct smtp_result failure;
	char failure_text[SMTP_CLIENT_TEXT_MAX + 1];
	enum smtp_client_event events[4]; /* DONE, READY, CLOSED at most, in a row */
	unsigned n_events;

	/* signing in */
	struct sasl_client *sasl;     /* NULL but in CS_AUTH and CS_AUTH_CANCEL */
	struct smtp_client_auth auth; /* the caller's; zeroed when it is over */
	enum sasl_mech mech;          /* tried last; SASL_MECHS: none */
	unsigned mechs_refused;
	bool signed_in, secret_out;   /* secret_out: what is in `out` is wiped when it is written */
	struct str challenge;         /* text of the 334 just read, in `in` */
	enum smtp_auth_fault fault;

	/* the transaction */
	struct smtp_client_msg *msg;
	struct arena *arena;  /* result texts */
	/* Recipients refused here have an outcome before MAIL is sent and are stepped over; an accepted one has outcome
	 * NONE and phase DOT until its fate is known. */
	size_t cmd;           /* next command to write: 0 MAIL, 1…n RCPT of rcpts[cmd-1], n+1 DATA, n+2 none */
	size_t at;            /* next answer due, counted alike; in CS_CONTENT of LMTP: rcpts[at] */
	size_t accepted;      /* RCPT answered 2xx */
	bool mail_refused;    /* and mail_result is what every recipient will get */
	struct smtp_result mail_result;
	bool utf8, eight;     /* SMTPUTF8 and BODY=8BITMIME go onto MAIL */
	bool bdat;            /* one chunk instead of DATA, when the answers to RCPT are there */
	bool binary;          /* BODY=BINARYMIME as well */
	struct mail_downgrade *plan; /* the message made fit for this peer; NULL: it goes as it is */
	struct client_content content;
};

/* The session's own result, from words of ours or from the current reply. */
void client_failure(struct smtp_client *c, enum smtp_outcome how, const char *status, const char *text);
void client_failure_reply(struct smtp_client *c);
void client_event(struct smtp_client *c, enum smtp_client_event ev);
/* Fills c->failure, gives undecided recipients the same result, ends the session. */
void client_close(struct smtp_client *c, enum smtp_outcome how, const char *text);
void client_close_reply(struct smtp_client *c);
void client_ready(struct smtp_client *c);

/* client_auth.c */
/* An answer in CS_AUTH or CS_AUTH_CANCEL. */
void client_auth_answer(struct smtp_client *c);
/* Forgets what was signed in with; accepts that there is nothing. */
void client_auth_over(struct smtp_client *c);

/* client_downgrade.c */
/* Makes content fit for a peer that lacks so much (MAIL_LACKS_*): c->plan, or NULL where it is fit already. False: all are refused. */
bool client_downgrade(struct smtp_client *c, unsigned lacks);
void client_downgrade_done(struct smtp_client *c);
/* Can the address be sent without SMTPUTF8? */
bool client_address_ascii(struct str address);
/* Appends it as this transaction has it: with A-labels where SMTPUTF8 is not declared. */
void client_address_put(const struct smtp_client *c, struct str address, struct buf *out);
/* A result that says of an address that it cannot be. */
void client_address_result(struct smtp_client *c, struct smtp_result *res, enum smtp_phase phase, struct str address);

/* client_admit.c */
/* Everything that can be decided without the peer: what is refused has its result. Returns false when no recipient is left. */
bool client_admit(struct smtp_client *c);
/* Octets of the content as they will be sent, dots apart. */
uint64_t client_size(const struct smtp_client *c);

/* client_mail.c */
/* Gives all the others this result, of ours and permanent; returns false. */
bool client_refuse(struct smtp_client *c, enum smtp_phase phase, const char *status, const char *text);
/* Adds commands to the output: as many as PIPELINING and a window of octets allow. */
void client_mail_fill(struct smtp_client *c);
/* A result out of the current reply. */
void client_result_reply(struct smtp_client *c, struct smtp_result *res, enum smtp_phase phase);
void client_result_text(struct smtp_client *c, struct smtp_result *res, enum smtp_outcome how, enum smtp_phase phase,
    const char *status, const char *text);
enum smtp_outcome client_outcome(unsigned code);
/* Answers of CS_ENVELOPE and CS_CONTENT. */
void client_mail_answer(struct smtp_client *c);
void client_content_answer(struct smtp_client *c);
/* The current reply as the result of the content: of all that are undecided, in LMTP of the next one. */
void client_content_result(struct smtp_client *c);
/* Gives every recipient without an outcome this one. */
void client_undecided(struct smtp_client *c, const struct smtp_result *res);
void client_mail_done(struct smtp_client *c);

#endif
