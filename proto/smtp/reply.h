/* Reply text of the server side (RFC 5321 §4.2): the one place that turns a code and a text into reply lines, so that no
 * text, wherever it comes from, can begin a line of its own or carry a control character. */
#ifndef PROTO_SMTP_REPLY_H
#define PROTO_SMTP_REPLY_H

#include "base/buf.h"

/* Octets of a reply line with its CRLF (RFC 5321 §4.5.3.1.5), and lines of one reply (ours: nobody reads more). */
#define SMTP_REPLY_LINE_MAX 512u
#define SMTP_REPLY_LINES_MAX 32u

/* Appends "code[-status] text" line by line; text is split at \n, each line cut where it would be too long (between
 * characters), what is neither printable ASCII nor UTF-8 becomes '?'. status NULL: none. Returns 0, or -1: out is full. */
int smtp_reply_write(struct buf *out, unsigned code, const char *status, struct str text);

#endif
