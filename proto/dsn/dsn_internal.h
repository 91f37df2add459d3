/* Shared by the files of proto/dsn. */
#ifndef PROTO_DSN_INTERNAL_H
#define PROTO_DSN_INTERNAL_H

#include "dsn.h"

/* The recipient's status if it is one, else the class that goes with the kind; written into room when it has to be made. */
const char *dsn_status(const struct dsn_rcpt *r, enum dsn_kind kind, char room[16]);

/* The parts, as whole CRLF lines. */
void dsn_human_part(struct buf *out, const struct dsn *d, bool full, bool utf8);
void dsn_status_part(struct buf *out, const struct dsn *d, bool utf8);

#endif
