/* Base64 as SASL profiles carry it (RFC 4648 §4): strict, so that one sequence of octets has one form only. No line ends,
 * no blanks, padding where it belongs, and no bits set that encode nothing. */
#ifndef PROTO_SASL_BASE64_H
#define PROTO_SASL_BASE64_H

#include "base/buf.h"

/* Characters that n octets take. */
#define SASL_BASE64_SIZE(n) (((n) + 2) / 3 * 4)

/* Appends the encoded form. 0, or -1: the limit of out or memory is exceeded. */
int sasl_base64_encode(struct str in, struct buf *out);
/* Appends the octets. 0; or -1: not Base64, or they do not fit (out may hold a part then). The empty string is no octets. */
int sasl_base64_decode(struct str in, struct buf *out);

#endif
