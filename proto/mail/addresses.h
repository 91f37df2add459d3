/* The addresses in a From, Sender or To field (RFC 5322 §3.4, with the obsolete forms of §4.4), for whoever must know which they are.
 * Reads only: no display names, no repair. Hostile text is fine: linear, nothing recurses, nothing is allocated. */
#ifndef PROTO_MAIL_ADDRESSES_H
#define PROTO_MAIL_ADDRESSES_H

#include "base/str.h"

enum { MAIL_ADDRESS_OCTETS = 1000, MAIL_ADDRESSES_MAX = 1000 };

struct mail_addresses {
	struct str rest;
	unsigned n;                       /* given so far */
	char address[MAIL_ADDRESS_OCTETS];
};

void mail_addresses_begin(struct mail_addresses *m, struct str value);
/* 1: *ret is the next address, local@domain without blanks, comments, source route or <>, as it was written otherwise (it may be
 * no valid one); it lives until the next call. 0: the end. -1: the text is no address list: something is not closed, an element
 * without an address, text behind <…>, more than the limits above; the rest is not told. Groups are read as what they hold. */
int mail_addresses_next(struct mail_addresses *m, struct str *ret);

#endif
