/* Answers that are not known at once: a RCPT that waits for block lists, for whoever knows who lives here, for the greylist, or for the
 * end of a delay; DATA of the null sender; VRFY of who signed in. The engine waits for its answer meanwhile, input stays in its
 * buffer; nothing else is held: no worker, no thread, a timer and some hundred octets. One a session. */
#ifndef INGRESS_CHECKS_H
#define INGRESS_CHECKS_H

#include "proto/smtp/server.h"

struct session;
struct ingress;

/* Relay control has said yes. Answers now or later. local: the domain is one of ours. */
void checks_rcpt(struct session *s, const struct smtp_event *ev, bool local);
/* True: it is taken over, and policy_data_begin() or a refusal follows. */
bool checks_data(struct session *s, const struct smtp_event *ev);
void checks_vrfy(struct session *s, const struct smtp_event *ev);
/* The lists have answered; may free s. */
void checks_dnsbl_done(struct session *s);
/* Nobody waits for the answer any more. */
void checks_free(struct session *s);

#endif
