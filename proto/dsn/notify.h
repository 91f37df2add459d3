/* Who is owed a report: the rules of RFC 3461 about NOTIFY as functions of what was asked for, what happened and what the next hop can do.
 * Pure; every part that decides about reports asks here, so that there is one table of them (test/unit/proto/dsn/notify.c). */
#ifndef PROTO_DSN_NOTIFY_H
#define PROTO_DSN_NOTIFY_H

#include "base/str.h"

/* What became of a recipient: the Action of RFC 3464 §2.3.3. */
enum dsn_kind { DSN_FAILED, DSN_DELAYED, DSN_DELIVERED, DSN_RELAYED, DSN_EXPANDED };

/* NOTIFY as bits; 0: none was given (§4.1). */
enum { DSN_NOTIFY_NEVER = 1, DSN_NOTIFY_SUCCESS = 2, DSN_NOTIFY_FAILURE = 4, DSN_NOTIFY_DELAY = 8 };

/* Reads "NEVER" or words separated by commas, in any case. A text without a known word counts as none: a failure must not be kept silent
 * because somebody's state is broken. NEVER beside others: the others count. */
unsigned dsn_notify(struct str text);
/* The same back, for a state or a RCPT command; "" for 0. Static text. */
const char *dsn_notify_text(unsigned notify);

/* Do we have to tell the sender of this outcome? hop_dsn: the message was handed to a server that offers DSN, and takes the duty over
 * (§5.2.1; for §5.2.2 it is false). null_sender: the message has nobody who could be told (a report, above all). */
bool dsn_owed(unsigned notify, enum dsn_kind outcome, bool hop_dsn, bool null_sender);

/* What goes on with the recipient's copies: an alias of several that was reported as expanded is not reported as delivered, too (§5.2.7.3). */
unsigned dsn_notify_onward(unsigned notify, enum dsn_kind outcome);

#endif
