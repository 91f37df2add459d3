/* Messages of the ingress's own, to its users: with the null sender, Auto-Submitted (RFC 3834), into the queue like any other. */
#ifndef INGRESS_NOTICE_H
#define INGRESS_NOTICE_H

#include "base/str.h"
#include "store/conn.h"

struct ingress;
struct message;

/* text: lines with CRLF, UTF-8. Returns 0, or -1: no memory, or the spool is full. What becomes of it is logged. */
int notice_send(struct ingress *in, struct str to, bool smtputf8, const char *subject, struct str text);
/* The database has answered for it. */
void notice_settled(struct ingress *in, struct message *m, enum store_rc rc);
/* Those under way, at the end. */
void notice_free_all(struct ingress *in);

#endif
