/* Shared by the files of the socket of `pepsi account`: one peer, one request at a time, one answer to each.
 *   accounts.c            the socket, who may connect, datagrams in, answers out
 *   accounts_table.c      requests about accounts
 *   accounts_recipient.c  requests about the table of recipients
 *   accounts_overlay.c    requests about what is laid over the configuration
 * The last three each see to it that exactly one of the peer_ functions below is called, now or from a later callback; until then
 * the peer lives and nothing more is read from it, afterwards it may be gone. */
#ifndef SIGNIN_ACCOUNTS_INTERNAL_H
#define SIGNIN_ACCOUNTS_INTERNAL_H

#include "internal.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

struct peer {
	LIST_ENTRY(peer) link;
	struct accounts *a;
	int fd;
	struct event *ev;
	struct ucred who;
	enum wire_account_op op;
	char name[WIRE_SIGNIN_NAME_MAX + 1];
	struct buf kept;         /* senders and certificates */
	struct str senders[WIRE_SIGNIN_SENDERS_MAX];
	struct str certificates[WIRE_ACCOUNT_CERTIFICATES_MAX];
	struct store_account_change change;
	struct buf rows;
	bool more;
	struct buf held;         /* a request for which the database is not there yet, until held_until */
	int64_t held_until;
};

struct accounts {
	int fd;
	uid_t owner;
	struct signin *s;
	struct event *ev;
	LIST_HEAD(, peer) peers;
	unsigned n;
};

/* ---- accounts.c: the answers. Each ends the request, and the peer where it cannot be sent. */
/* No, and why, for the operator; control characters are replaced. */
void peer_refuse(struct peer *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* No, because of the database. */
void peer_database_no(struct peer *p, enum store_rc rc, const char *err);
/* Yes, with p->rows and p->more. */
void peer_done(struct peer *p);
/* A listing is at its end, or failed; full: as many rows as a page has, so there may be more. */
void peer_listed(struct peer *p, enum store_rc rc, bool full, const char *err);

/* ---- the requests; r lives until the function returns */
/* WIRE_ACCOUNT_* */
void accounts_account(struct peer *p, const struct wire_account_request *r);
/* The row goes to p->rows; when they are enough, p->more is set instead: the rest is asked for again, behind the last one that was told. */
void accounts_row(struct peer *p, const struct store_account *a);
/* WIRE_RECIPIENT_* */
void accounts_recipient(struct peer *p, const struct wire_account_request *r);
/* WIRE_OVERLAY_* */
void accounts_overlay(struct peer *p, const struct wire_account_request *r);

#endif
