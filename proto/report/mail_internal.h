/* What the writers of report messages share. */
#ifndef PROTO_REPORT_MAIL_INTERNAL_H
#define PROTO_REPORT_MAIL_INTERNAL_H

#include "base/buf.h"
#include "base/str.h"

/* Letters and digits, some. */
bool report_mail_plain(struct str s);
/* Nothing that means something in a header, a file name or a quoted string. */
bool report_mail_name_ok(struct str s);
bool report_mail_address_ok(struct str s);
/* Appends the From field. What of name is not ASCII is left out. */
void report_mail_from(struct str address, struct str name, struct buf *out);

#endif
