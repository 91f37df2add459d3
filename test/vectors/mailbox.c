/* Mailboxes of header fields, for suites that speak of those; see vectors.h. */
#include "vectors.h"

#include "proto/mail/addrlist.h"

bool vectors_mailbox(struct str s, struct buf *ret)
{
	struct mail_addrlist l;
	bool one = mail_addrlist_parse(&l, s) == 0 && l.n == 1 && l.item[0].kind == MAIL_ADDR_MAILBOX && !(l.bad && l.item[0].valid);
	/* a bare address stays as it stands: what RFC 5322 reads more leniently (quoted words with dots between) is for SMTP to refuse */
	if (one)
		buf_adds(ret, l.item[0].angle || l.item[0].comment.p ? l.item[0].address : s);
	mail_addrlist_free(&l);
	return one;
}
