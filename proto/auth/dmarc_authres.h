/* What DMARC found, as a result for Authentication-Results (RFC 8601 §2.7.1, RFC 9989 §4.9). */
#ifndef PROTO_AUTH_DMARC_AUTHRES_H
#define PROTO_AUTH_DMARC_AUTHRES_H

#include "proto/auth/authres.h"
#include "proto/auth/dmarc.h"

struct dmarc_authres {
	struct authres_result result; /* for authres_write(); points into this and into the check */
	char comment[96];
};
/* Fills *ret of a finished check: dmarc=fail (p=reject dis=none) header.from=example.org. *ret must not be moved afterwards. */
void dmarc_authres(const struct dmarc_check *c, struct dmarc_authres *ret);

#endif
