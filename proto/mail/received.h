/* The trace field we put on top of each message (RFC 5321 §4.4), and counting those of others (loop detection, §6.3). */
#ifndef PROTO_MAIL_RECEIVED_H
#define PROTO_MAIL_RECEIVED_H

#include "base/buf.h"
#include "base/str.h"

struct mail_received {
	struct str helo;     /* what the client called itself; any octets: what the grammar does not allow is shown as '?' */
	struct str ip;       /* "192.0.2.1" or "2001:db8::1"; empty: none (local submission) */
	struct str rdns;     /* name of the address, verified; empty: not known */
	struct str user;     /* "userid 1000", of a local client; empty: none. Shown without ip only */
	struct str protocol; /* "SMTP", "ESMTP", "ESMTPS", "ESMTPSA", "LMTP", "UTF8SMTP", … (RFC 3848, RFC 6531) */
	struct str tls;      /* "TLSv1.3 TLS_AES_256_GCM_SHA384"; empty: none */
	struct str hostname; /* ours; required */
	struct str id;       /* queue id; empty: the clause is left out */
	struct str rcpt;     /* the only recipient, without <>; empty: the clause is left out (several: one must not learn
	                      * of the other) */
	bool utf8;           /* the transaction was SMTPUTF8: helo and rcpt may hold UTF-8; else such a rcpt is left out */
	int64_t time_us;     /* microseconds since the epoch */
	int offset_min;      /* zone to show, minutes east of Greenwich */
};

/* Appends "Received: …" with its CRLF, folded to 78 columns where the words allow it. No CR, LF or NUL of a member can
 * get in. Returns 0, or -1: the buffer is full. */
int mail_received_write(struct buf *out, const struct mail_received *r);

/* Reads the value of a Received field, unfolded (mail_field_unfold): one of ours, or of anybody who writes the clauses of RFC 5321 §4.4 in
 * that way: helo, rdns, ip, hostname, protocol and id of *ret point into value, the rest is empty. Comments may nest. Returns 0, or -1: there is no "by". */
int mail_received_read(struct str value, struct mail_received *ret);

/* Number of Received fields; stops at `most` (0: never), which is all a loop check needs. */
size_t mail_received_count(struct str headers, size_t most);

#endif
