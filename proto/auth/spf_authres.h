/* What SPF found, as a result for Authentication-Results (RFC 8601 §2.7.2), and as a Received-SPF field (RFC 7208 §9.1). */
#ifndef PROTO_AUTH_SPF_AUTHRES_H
#define PROTO_AUTH_SPF_AUTHRES_H

#include "proto/auth/authres.h"
#include "proto/auth/spf.h"

struct spf_authres {
	struct authres_result result; /* for authres_write(); points into this and into the check */
	char comment[AUTHRES_VALUE_MAX + 1];
};
/* Fills *ret of a finished check: spf=fail (-all in the record of example.org) smtp.mailfrom=user@example.org; smtp.helo where it is the
 * HELO name that was checked. *ret must not be moved afterwards. */
void spf_authres(const struct spf_check *c, struct spf_authres *ret);

/* Appends a whole Received-SPF field, folded, with CRLF, through the one encoder (mail/header.h). Values from outside are quoted; what is
 * not printable ASCII in them becomes "?". receiver: our name. Returns 0, or -1: full; the buffer is as before then. */
int spf_received_write(struct buf *out, const struct spf_check *c, struct str receiver);

#endif
