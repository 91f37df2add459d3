/* Content-Transfer-Encoding (RFC 2045 §6): reading content, as leniently as everybody does, and writing it, strictly. Linear work. */
#ifndef PROTO_MAIL_TRANSFER_H
#define PROTO_MAIL_TRANSFER_H

#include "base/buf.h"
#include "base/str.h"

enum mail_transfer { MAIL_TRANSFER_7BIT, MAIL_TRANSFER_8BIT, MAIL_TRANSFER_BINARY, MAIL_TRANSFER_BASE64, MAIL_TRANSFER_QP, MAIL_TRANSFER_UNKNOWN };

/* The encoding of that name (any case); empty: 7bit. */
enum mail_transfer mail_transfer_of(struct str name);
/* Appends the content. Unknown encodings and those that are none: as it is. 0, or -1: the buffer is full. */
int mail_transfer_decode(enum mail_transfer encoding, struct str body, struct buf *out);

/* Appends text as quoted-printable (§6.7): lines of at most 76 columns, nothing but printable ASCII; CR LF stays a line end, any other CR or LF
 * becomes =0D or =0A. 0, or -1: the buffer is full. */
int mail_transfer_encode_qp(struct str text, struct buf *out);

#endif
