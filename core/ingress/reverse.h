/* The name of a client's address, looked up while it talks: iprev (RFC 8601 §3). Begun with the session and again when a trusted
 * host says for whom it speaks; nothing waits for it but, if so configured, the banner, and that only for so long. */
#ifndef INGRESS_REVERSE_H
#define INGRESS_REVERSE_H

#include "proto/dns/iprev.h"

struct session;
struct reverse;

/* Forgets what was found and looks s->peer up, unless it has no address, is this very host (127.0.0.1, ::1), or the listener
 * does not want it. With `hold`, s->held is set while the banner is to wait (REVERSE_DNS_WAIT). */
void reverse_begin(struct session *s, bool hold);
/* What is known now; IPREV_NONE: not looked up, or not yet. The name, when verified, is s->rdns. */
enum iprev_result reverse_result(const struct session *s);
void reverse_free(struct session *s);

#endif
