/* Internet date and time in UTC (RFC 3339 as RFC 4865 narrows it): "2026-07-09T12:30:00Z". Seconds since 1970, no
 * clock, no time zone. */
#ifndef PROTO_SMTP_DATETIME_H
#define PROTO_SMTP_DATETIME_H

#include "base/buf.h"
#include "base/str.h"

/* The whole of s; T and Z in either case; a fraction of a second is checked and dropped; second 60 counts as the next
 * one. Years 1970 to 9999. Returns 0, or -1 and *ret untouched. */
int smtp_datetime_parse(struct str s, int64_t *ret);
/* Appends it; t of the same range, else nothing is appended. Returns 0 or -1. */
int smtp_datetime_write(int64_t t, struct buf *out);

#endif
