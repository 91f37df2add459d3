/* The recipients of a transaction, each once. A client may name one as often as it likes, and hears 250 each time; he gets the message once, as from any
 * other mail system: a thousand times the same RCPT would be a thousand copies in a mailbox for the price of one. Knows no session and no message. */
#ifndef INGRESS_ADDRESSEES_H
#define INGRESS_ADDRESSEES_H

#include "proto/smtp/server.h"

struct addressee {
	const struct smtp_rcpt *rcpt; /* as he was named first, with the ORCPT of that */
	unsigned notify;              /* what was wished for him any time: SMTP_NOTIFY_*, 0: nothing */
};

/* Fills out, which has room for all of tx->rcpts, in their order. Two are one where they differ in letter case (ASCII) at most: local
 * parts may differ in that by the letter (RFC 5321 §2.4), and nowhere do. Returns how many there are. */
size_t addressees_once(const struct smtp_transaction *tx, struct addressee *out);

#endif
