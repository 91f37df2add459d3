/* A message made fit for a next hop that takes less than it needs: 8-bit content without 8BITMIME (RFC 6152 §3), binary content without BINARYMIME
 * (RFC 3030 §3), fields of UTF-8 without SMTPUTF8 (RFC 6531 §3). Only what needs it changes: the content of a part becomes quoted-printable or base64
 * (for text quoted-printable unless base64 is a good deal shorter; base64 for all else), with its Content-Transfer-Encoding and what follows from it (the labels of multiparts around
 * it, a missing MIME-Version); a field becomes ASCII (ascii.h). All other octets stay.
 *
 * Never changed is what is signed or encrypted as it stands: all that is within multipart/signed and multipart/encrypted. message/rfc822 and
 * multiparts have no encoding of their own (RFC 2045 §6.4): their parts do; message/global may have one (RFC 6532 §3.7). What cannot be done within
 * these rules is a fault, with a status and words for the sender.
 *
 *     struct mail_downgrade d;
 *     if (mail_downgrade_plan(&d, headers, body, MAIL_LACKS_8BIT) == 0 && d.changed) {
 *             d.size octets come of it:
 *             mail_downgrade_begin(&d, &r);
 *             while (mail_downgrade_next(&r, &out, 16384)) …                   // headers, CR LF, body
 *     }
 *     mail_downgrade_free(&d);
 *
 * Memory: some hundred octets a part, and the fields that are written anew; content is encoded while it is read, from the caller's memory. Work is
 * linear; the plan takes about 2 ms a megabyte, a quarter of what the writing takes: who must not wait writes in pieces. Nothing recurses. */
#ifndef PROTO_MAIL_DOWNGRADE_H
#define PROTO_MAIL_DOWNGRADE_H

#include "proto/mail/mime.h"

/* What the next hop does not take; bits. */
enum {
	MAIL_LACKS_8BIT = 1 << 0,   /* octets above 127, anywhere */
	MAIL_LACKS_BINARY = 1 << 1, /* lines above 998 octets, NUL, CR and LF that are no line ends */
	MAIL_LACKS_UTF8 = 1 << 2,   /* octets above 127 in fields, those of parts included */
};

enum { MAIL_DOWNGRADE_HEADS_MAX = 16 << 20 }; /* octets of all heads written anew */

struct mail_piece {
	struct str text;
	enum mail_encode how;
};

enum mail_downgrade_fault {
	MAIL_DOWNGRADE_FINE,
	MAIL_DOWNGRADE_MEMORY,  /* not the message's fault */
	MAIL_DOWNGRADE_ADDRESS, /* an address of the header has no ASCII form: 5.6.7 */
	MAIL_DOWNGRADE_FIELD,   /* another field has none: 5.6.7, or 5.6.3 without MAIL_LACKS_UTF8 */
	MAIL_DOWNGRADE_SIGNED,  /* what must change is signed or encrypted as it stands: 5.6.3 */
	MAIL_DOWNGRADE_TYPE,    /* … has a type that may not be encoded: 5.6.3 */
	MAIL_DOWNGRADE_BROKEN,  /* … belongs to no part, or nobody knows how it is encoded: 5.6.3 */
	MAIL_DOWNGRADE_LIMIT,   /* a limit of mime.h, or of our own: 5.6.3 */
};

struct mail_downgrade {
	struct mail_piece *piece; /* n of them; the first n_head are the headers */
	size_t n, n_head;
	uint64_t size;            /* of all that comes out; the empty line between included */
	bool changed;             /* false: the message may go as it is */
	bool breaks;              /* a signature over the message (DKIM, ARC) does not survive: more than fields of trace has changed */
	bool eight;               /* octets above 127 are left */
	bool open;                /* its last line has no end */
	unsigned parts, fields, left_out; /* encoded; written anew; left out */
	enum mail_downgrade_fault fault;
	const char *status;       /* of the fault: "5.6.3" … */
	char why[256];            /* of the fault, in words: UTF-8 without controls */
	size_t cap;
	struct arena *mem;        /* not yours */
};

/* lacks: MAIL_LACKS_*. headers: whole lines, body: the rest; both must outlive *ret. Returns 0, or -1: ret->fault. mail_downgrade_free() in any case is
 * right. */
int mail_downgrade_plan(struct mail_downgrade *ret, struct str headers, struct str body, unsigned lacks);
void mail_downgrade_free(struct mail_downgrade *d);

/* Is there a field that signs the message as a whole (DKIM-Signature, ARC-Message-Signature)? */
bool mail_is_signed(struct str headers);

struct mail_downgrade_reader {
	const struct mail_downgrade *d;
	size_t at;
	struct mail_encoder e;
};
void mail_downgrade_begin(const struct mail_downgrade *d, struct mail_downgrade_reader *r);
/* Appends about `want` octets. False: nothing is left, nothing was appended. */
bool mail_downgrade_next(struct mail_downgrade_reader *r, struct buf *out, size_t want);
/* All of one half, for whoever keeps the message in two. 0, or -1: the buffer is full. */
int mail_downgrade_headers(const struct mail_downgrade *d, struct buf *out);
int mail_downgrade_body(const struct mail_downgrade *d, struct buf *out);

/* -- downgrade_head.c */

struct mail_head_change {
	struct str head;
	const char *encoding; /* the new Content-Transfer-Encoding; NULL: as it is */
	bool version;         /* a MIME-Version, if there is none */
	const char *charset;  /* a Content-Type text/plain of that charset, if there is none; NULL: not */
	bool ascii;           /* its fields are to be ASCII */
	bool close;           /* an empty line behind it */
};
/* Appends the head. False: d->fault is set. */
bool mail_head_write(struct mail_downgrade *d, const struct mail_head_change *c, unsigned lacks, struct buf *out);
void mail_downgrade_fail(struct mail_downgrade *d, enum mail_downgrade_fault fault, const char *status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
