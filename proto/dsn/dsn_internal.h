/* Shared by the files of proto/dsn. */
#ifndef PROTO_DSN_INTERNAL_H
#define PROTO_DSN_INTERNAL_H

#include "dsn.h"

/* The recipient's status if it is one, else the class that goes with the kind; written into room when it has to be made. */
const char *dsn_status(const struct dsn_rcpt *r, enum dsn_kind kind, char room[16]);

/* What a cause is called where programs and other postmasters read it. Never NULL; "" for none. */
const char *dsn_cause_text(enum dsn_cause cause);
/* The values that every text has. Into the array; b holds what has to be made, and must outlive them. */
void dsn_values(struct str values[DSN_VALUES], const struct dsn *d, struct buf *b);

/* The parts, as whole CRLF lines. */
void dsn_human_part(struct buf *out, const struct dsn *d, const struct dsn_words *words, bool full);
void dsn_status_part(struct buf *out, const struct dsn *d, bool utf8);

#endif
