/* xtext (RFC 3461 §4) and the address encodings of RFC 6533: how ENVID and ORCPT carry octets that a parameter cannot.
 * What decodes to a control character is refused here, so that no decoded value can end a line or a header field in
 * whatever we write later. */
#ifndef PROTO_SMTP_XTEXT_H
#define PROTO_SMTP_XTEXT_H

#include "base/buf.h"

/* Longest forms as sent (RFC 3461 §4.4 and §4.2). */
#define SMTP_ONCE_LEN 32u
#define SMTP_ENVID_MAX 100u
#define SMTP_ORCPT_MAX 500u
#define SMTP_AUTH_PARAM_MAX 500u /* RFC 4954 §3 */

/* Decodes xtext: appended to out, or only checked when out is NULL. Returns 0, or -1: empty, bad encoding, an octet below
 * 0x20 or equal to 0x7f, not ASCII, or no memory (out may hold a part then). */
int smtp_xtext_decode(struct str in, struct buf *out);
/* Appends the xtext form of any octets. Returns 0, or -1: no memory. */
int smtp_xtext_encode(struct str in, struct buf *out);

/* An ORCPT value, "addr-type;address" (RFC 3461 §4.2, RFC 6533 §3): for "utf-8" with \x{HEX} escapes, and UTF-8 itself
 * when `utf8`; for all other types xtext, which for "rfc822" may hold UTF-8 when `utf8` (Postfix sends it so). The decoded
 * address is appended to out (may be NULL); *ret_type (may be NULL) is the type as sent, or "utf-8" for an address of
 * "rfc822" outside ASCII. Returns 0, or -1 as above. */
int smtp_orcpt_decode(struct str in, bool utf8, struct str *ret_type, struct buf *out);
/* Appends an ORCPT value of type "utf-8" in its form for a peer without SMTPUTF8: \x{HEX} for what is not ASCII (RFC 6533 §3, utf-8-addr-xtext). Others
 * are appended as they are. Returns 0, or -1: no UTF-8, not ASCII and of another type, or no memory; out is as before then. */
int smtp_orcpt_to_ascii(struct str in, struct buf *out);

#endif
