/* What a submission server does with the header of a message (RFC 6409): whose addresses stand in it, and what is missing. A message from
 * a user who signed in; nobody else's is touched. On a listener that is not for submission (AUTH on port 25) nothing is completed, and a
 * From may lack: what other servers hand in is not ours to mend; but whose addresses may stand there is the same. */
#ifndef INGRESS_SUBMISSION_H
#define INGRESS_SUBMISSION_H

#include "base/buf.h"

#include <stdint.h>

struct session;

struct submission {
	bool add_date, add_id;      /* RFC 6409 §8.2, §8.3 */
	bool drop_bcc;              /* Bcc is there, and nobody may see it */
	char sender[256];           /* Sender to add: several authors need one (RFC 5322 §3.6.2); empty: none */
};

enum submission_fault { SUBMISSION_OK, SUBMISSION_FORM /* 554 5.6.0 */, SUBMISSION_OWNER /* 550 5.7.1 */ };

/* Looks at the header block of a message from this session. ret: what is to be completed. Returns what is wrong with it, text says it
 * to the client. */
enum submission_fault submission_check(const struct session *s, struct str head, struct str mail_from, struct submission *ret,
    char *text, size_t size);
/* Appends the header block, completed. Returns 0 or -1: no memory. */
int submission_headers(const struct submission *sub, struct str head, const char *id, const char *hostname, int64_t now_us, struct buf *out);

#endif
