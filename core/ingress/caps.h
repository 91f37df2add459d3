/* Caps of accounts (quota.h) at work: what is over one is held, its owner is told, and the books survive a restart. */
#ifndef INGRESS_CAPS_H
#define INGRESS_CAPS_H

#include "base/buf.h"
#include "quota.h"
#include "store/account_use.h"

struct ingress;
struct message;
struct session;

struct caps;
struct caps *caps_new(struct ingress *in, size_t accounts); /* NULL: no memory */
void caps_free(struct caps *c); /* accepts NULL; what its database was asked has been answered */
/* The session's message, whose envelope was taken, is booked; held when over a cap. False: refused, nothing is booked. */
bool caps_take(struct caps *c, struct session *s);
/* Takes the booking back: the message was not stored. */
void caps_return(struct message *m);
/* What became of a message that was booked. */
void caps_settled(struct caps *c, struct message *m, enum store_rc rc);
/* The database is there: what a former life booked is read, once. */
void caps_database(struct caps *c);
/* Writes what has changed, at most every two seconds; now: at once. */
void caps_write(struct caps *c, bool now);
void caps_metrics(const struct caps *c, struct buf *out);
/* A JSON object. */
void caps_status(const struct caps *c, struct buf *out);

#endif
