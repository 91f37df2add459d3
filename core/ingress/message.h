/* One message between its final dot and the answer of the database: content, envelope and what is stored with it.
 * Embedded in its session, which stays alive until the answer is there even when its client is gone. */
#ifndef INGRESS_MESSAGE_H
#define INGRESS_MESSAGE_H

#include "net/addr.h"
#include "proto/smtp/server.h"
#include "proto/wire/wire.h"
#include "spool.h"
#include "store/queue.h"
#include "submission.h"

#define INGRESS_FIRST_STAGE "init"

struct session;

enum { MESSAGE_SENDER_KEY = 321 }; /* of an account: as long as an address (RFC 5321), and NUL */

struct message {
	struct message *next;    /* in a gather list of the admission */
	struct session *session; /* NULL: a message of our own (notice.h) */
	struct spool spool;
	/* a copy of the envelope: the engine's transaction ends with the answer, the hand-off comes after it */
	struct buf text;         /* the strings below */
	struct str mail_from;
	struct str *rcpts;
	size_t n_rcpts, repeated; /* each once (addressees.h); those named again */
	struct buf dsn;          /* state.dsn as JSON, or empty */
	struct buf auth;         /* state.auth as JSON, or empty */
	struct buf vetted;       /* the same in words of the log, or empty */
	struct buf counted, failed; /* what its sender's 250 or 5xx makes count: a line of a DMARC report (tally.h), one for a failure report (failures.h); or empty */
	struct buf wishes;       /* members of the state: deliver_by, priority, require_tls; or empty */
	int64_t hold_until;      /* seconds since 1970: it waits in the queue till then; 0, or past: it does not */
	const char *hold_why;    /* "sender" or "cap" */
	struct submission submission; /* what is to be completed */
	unsigned booked;         /* recipients in the books of session->who (caps.h); given back by message_done() unless it was stored */
	const char *cap;         /* it is over this cap, of cap_limit; NULL: over none */
	uint32_t cap_limit;
	bool cap_tell;           /* the owner is to hear of it */
	struct str once;         /* "uid:key" of a message that is to be made once only, or empty */
	bool smtputf8, chunked;
	enum smtp_body body;
	/* made when the id is known */
	int64_t id, received_at;
	struct buf headers;      /* Received and what was sent */
	struct buf state;
	char stage[64];          /* where its way begins; empty: INGRESS_FIRST_STAGE */
	bool reserved;           /* a worker waits for it: inserted `running` */
	size_t reserved_octets;
	char sender_key[MESSAGE_SENDER_KEY]; /* as the database makes it: the account, else the network */
};

/* Copies the envelope. 0, or -1: no memory. */
int message_take(struct message *m, const struct smtp_transaction *tx);
/* The stage where its way begins. */
const char *message_stage(const struct message *m);
/* Sender or recipients anew, where not NULL. 0, or -1: no memory, nothing has changed. */
int message_set_envelope(struct message *m, const struct str *from, const struct str *rcpts, size_t n);
/* Writes the state; needs no id. 0, or -1: no memory. */
int message_state(struct message *m);
/* Writes the Received field in front of the headers, and the state unless it is there already. m->id is set. 0, or -1: no memory. */
int message_compose(struct message *m, int64_t now_us);
/* Must it wait in the queue, so that no worker may have it now? After message_compose(). */
bool message_held(const struct message *m);
/* Octets that count against batch limits and the dispatcher's reservation. */
size_t message_octets(const struct message *m);
/* The row for the store; body comes from spool_map(). */
void message_row(const struct message *m, struct str body, struct store_message *ret);
/* The row for a worker. False: too large for one datagram, so it must be read from the database. */
bool message_item(const struct message *m, struct wire_item *ret);
/* Empties it, gives everything back. */
void message_done(struct message *m);

#endif
