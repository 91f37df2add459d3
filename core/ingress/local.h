/* Clients of listeners with PROTOCOL local: users of this machine, whom the kernel names (SO_PEERCRED). They need no sign-in and may
 * send anywhere; who they are is recorded with each message. */
#ifndef INGRESS_LOCAL_H
#define INGRESS_LOCAL_H

#include "session.h"

/* A session begins: whose it is was found out with its connection. If that is not known the client is nobody: it may not relay. */
void local_begin(struct session *s);
/* May it name this envelope sender? TRUSTED_USERS of its listener may name any, others the null sender and their own login name at
 * HOSTNAME or a local domain. True for all other clients. */
bool local_may_send_as(struct session *s, struct str address);

struct local_senders;
/* TRUSTED_USERS of the section of t. 0, or -1: memory. Unknown accounts are warnings. */
int local_senders_read(struct terms *t, const struct config *c, struct config_faults *faults);
void local_senders_free(struct local_senders *l); /* accepts NULL */

#endif
