/* Enhanced status codes (RFC 3463): "5.1.1" as three numbers, and whether one fits a reply code. */
#ifndef PROTO_SMTP_STATUS_H
#define PROTO_SMTP_STATUS_H

#include "base/str.h"

struct smtp_status {
	unsigned char class; /* 2, 4 or 5 */
	unsigned short subject, detail; /* 0 to 999 */
};

/* The code at the start of s, followed by nothing or a blank; *ret_used (may be NULL) is its length. Leading zeros are
 * refused (RFC 3463 §2). Returns 0, or -1 and *ret untouched. */
int smtp_status_parse(struct str s, struct smtp_status *ret, size_t *ret_used);
/* Does status z (a literal or a caller's text, may be NULL) parse as a whole and have the class of the reply code? */
bool smtp_status_fits(const char *z, unsigned code);

#endif
