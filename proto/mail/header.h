/* Reading and writing header fields (RFC 5322 §2.2). A header block is what mail_split() gives: whole lines with CRLF,
 * without the empty line. Hostile blocks are fine everywhere: lines that are no fields are stepped over, work is
 * linear, nothing recurses. */
#ifndef PROTO_MAIL_HEADER_H
#define PROTO_MAIL_HEADER_H

#include "base/buf.h"
#include "base/str.h"

enum {
	MAIL_LINE_WANT = 78, /* RFC 5322 §2.1.1: a line SHOULD be no longer, without CRLF */
	MAIL_LINE_MAX = 998, /* and MUST be no longer */
};

struct mail_field {
	struct str name;  /* as written */
	struct str value; /* behind the colon, folds inside, without the last CRLF */
	struct str all;   /* the whole field with its CRLF */
};

/* Does the line begin a field: a name of printable ASCII without colon, perhaps blanks (RFC 5322 §4.5), a colon? */
bool mail_field_line_ok(struct str line);

/* Takes the next field off the front of *rest. 1: *ret is filled. 0: at the end. -1: a line that is no field (with its
 * continuation lines) was taken off; ret->all holds it; go on. */
int mail_field_next(struct str *rest, struct mail_field *ret);

/* The nth (from 0) field of that name, any case. Returns 0, or -1: there is none; *ret is untouched then. */
int mail_field_find(struct str headers, struct str name, size_t nth, struct mail_field *ret);

/* How many fields of that name; stops counting at `most` (0: never). */
size_t mail_field_count(struct str headers, struct str name, size_t most);

/* Appends a value unfolded (RFC 5322 §2.2.3: each CRLF before a blank removed) and without the blanks around it. NUL,
 * CR and LF that are no fold become blanks. Returns 0, or -1: the buffer is full. */
int mail_field_unfold(struct buf *out, struct str value);

/* Behind the white space, folds and comments (RFC 5322 §3.2.2) that stand at s.p[i]; nesting is counted. A comment that is not closed goes to the end, s.n. */
size_t mail_skip_cfws(struct str s, size_t i);

/* Can the block be stored and sent as it is: empty or ending in CRLF, no empty line, no bare CR or LF, no NUL, no blank at its front? */
bool mail_headers_sendable(struct str headers);

/* Writes "Name: value" and CRLF, folded at blanks so that lines stay within MAIL_LINE_WANT where the words allow it.
 * value is one line of text; runs of blanks become one where it is folded. The one encoder all our header fields pass: CR, LF,
 * NUL and other controls (tab aside) are refused, whatever wrote them. Returns 0, or -1: refused or buffer full; the buffer is as
 * before then, but `failed` when it was full. */
int mail_field_write(struct buf *out, struct str name, struct str value);

/* A writer of folded text for fields that are made of pieces. Each piece goes behind a blank, on a new line (CRLF TAB)
 * when it would pass MAIL_LINE_WANT; a piece is never broken. */
struct mail_fold {
	struct buf *out;
	size_t column; /* octets on this line so far */
	bool bad;      /* a piece was refused (CR, LF, NUL, control): sticky */
};
/* Begins a field: writes "Name:". */
void mail_fold_begin(struct mail_fold *f, struct buf *out, struct str name);
void mail_fold_piece(struct mail_fold *f, struct str piece);
/* Writes the piece without the blank before it, on the same line. */
void mail_fold_glue(struct mail_fold *f, struct str piece);
/* Begins a new line whatever the column. */
void mail_fold_newline(struct mail_fold *f);
/* Ends the field with CRLF. Returns 0, or -1: a piece was refused or the buffer is full. */
int mail_fold_end(struct mail_fold *f);

#endif
