/* Dates as mail writes them (RFC 5322 §3.3), written and read. The time comes from the caller. */
#ifndef PROTO_MAIL_DATE_H
#define PROTO_MAIL_DATE_H

#include "base/buf.h"

#include <stdint.h>

enum { MAIL_DATE_SIZE = 40 };

/* "Mon, 30 Nov 2026 11:12:44 +0000" of a time in microseconds since the Unix epoch, shown in the zone that is
 * offset_min minutes east of Greenwich (0: UTC). Years are limited to 1900..9999: times beyond are shown as the
 * nearest of these. Returns 0, or -1: the buffer is full. */
int mail_date_write(struct buf *out, int64_t us, int offset_min);

/* Reads a date, as leniently as §4.3 and the senders of two decades ask for: comments, blanks anywhere, no day of the week or a wrong one, no
 * seconds, years of two or three digits, zones by name (North American ones; others count as UTC). *ret is in seconds since the epoch. Returns 0, or -1:
 * no date, or a day or time that there is not; *ret is untouched then. */
int mail_date_read(struct str value, int64_t *ret);

#endif
