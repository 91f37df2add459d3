/* Cuts a message into what the queue stores: raw = headers || CRLF || body, headers without the empty line. */
#ifndef PROTO_MAIL_SPLIT_H
#define PROTO_MAIL_SPLIT_H

#include "base/str.h"

struct mail_split {
	struct str headers; /* whole lines, each ending in CRLF; may be empty; points into raw */
	struct str body;    /* may be empty; points into raw */
	/* false: raw had no empty line, or is mail_headless(). headers || CRLF || body is then one CRLF longer than raw, the only
	 * cases in which storing a message changes it. Everything up to the first line that can be no header field is the
	 * headers; the rest is the body. */
	bool separated;
	/* true: the last header line had no CRLF (raw ended in it; never so behind SMTP). The caller appends one, or the
	 * headers are no whole lines. */
	bool unterminated;
};

/* Always succeeds. Only CR LF ends a line here; a bare CR or LF is part of its line, and refusing it is the business of
 * whoever let the message in. Cut at the first empty line (RFC 5322 §2.1), whatever the lines before it look like, unless the
 * message is mail_headless(). */
void mail_split(struct str raw, struct mail_split *ret);

/* Does the message begin with a blank? Its first line would continue whatever field is put in front of it (our
 * Authentication-Results, say, into which a sender could write so), so it has no headers: all of it is body. One octet is
 * enough to tell. */
bool mail_headless(struct str raw);

#endif
