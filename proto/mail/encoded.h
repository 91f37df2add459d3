/* Encoded words (RFC 2047), both ways: header text in other charsets as ASCII. Readers are lenient (a word may be longer than 75
 * octets, RFC 2231 §5 language tags are skipped), do linear work and give clean UTF-8: no controls, nothing invalid. */
#ifndef PROTO_MAIL_ENCODED_H
#define PROTO_MAIL_ENCODED_H

#include "base/buf.h"
#include "base/str.h"

/* How many octets at the start of s are an encoded word by its form ("=?charset?B?text?="); 0: none. */
size_t mail_encoded_span(struct str s);

/* A text being read piece by piece: the blanks between two encoded words are no part of it (RFC 2047 §6.2). */
struct mail_decoder {
	struct buf *out;
	bool last;  /* the text so far ends in an encoded word */
	bool blank; /* blanks were read, and not written yet */
	size_t more; /* how many besides that one */
};
/* Appends a piece of text (folds are blanks), decoding the encoded words that stand alone between blanks. squeeze: a run of blanks
 * becomes one. A blank at the end of the piece waits for the next. Returns 0, or -1: the buffer is full. */
int mail_decoder_add(struct mail_decoder *d, struct str text, bool squeeze);
/* Writes the blanks that wait. Same return values. */
int mail_decoder_end(struct mail_decoder *d);

/* A whole value, as of Subject: unfolded, decoded, without the blanks around it. Same return values. */
int mail_encoded_decode(struct str value, struct buf *out);

/* Takes as much of valid UTF-8 text off the front of *rest as fits one encoded word of at most 75 octets, and appends that. Text in
 * several encoded words with blanks between them is read back as one. False: *rest is empty. */
bool mail_encoded_next(struct str *rest, struct buf *out);
/* The same in another charset: a name short enough to leave room ("unknown-8bit" for octets of which nobody knows). Only UTF-8 is not parted within a
 * character. */
bool mail_encoded_next_in(const char *charset, struct str *rest, struct buf *out);

/* Writes text of any language as an unstructured field, through the one encoder of header.h. utf8: text above 127 may stand as it is (RFC 6532).
 * Returns 0, or -1: no UTF-8, a control character in it, or the buffer is full. */
int mail_encoded_field(struct buf *out, struct str name, struct str text, bool utf8);

#endif
