/* The pieces Authentication-Results fields are made of. Internal. */
#ifndef PROTO_AUTH_AUTHRES_SCAN_H
#define PROTO_AUTH_AUTHRES_SCAN_H

#include "base/buf.h"
#include "base/str.h"

/* Steps over blanks, folds and comments (RFC 5322 §3.2.2). False: a comment without end, or too deep; *s is at its end then. */
bool authres_skip_cfws(struct str *s);
/* A value that is a quoted string: what it says appended to out; *s moves behind it. False: not closed. */
bool authres_take_quoted(struct str *s, struct buf *out);
/* token of RFC 2045 §5.1, and octets above 127 */
bool authres_is_token(char c);
/* Keyword (RFC 5321 §4.1.2) at the start; its length, 0: none. Underscores pass, for some use them. */
size_t authres_keyword(struct str s);

#endif
