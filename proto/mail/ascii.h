/* Header fields of UTF-8 (RFC 6532) as fields of ASCII, for a next hop that does not know SMTPUTF8: encoded words where RFC 2047 §5 lets them stand
 * (unstructured text, phrases, comments), parameters by RFC 2231, domains as A-labels, URIs percent-encoded. What has no other form stays a fault:
 * a local part, above all. Fields of trace and of results, which only tell and do not ask (Authentication-Results, Delivered-To, the "for" of
 * Received), are left out where they cannot be told in ASCII. This is no RFC 6857, which is for reading mail, not for passing it on.
 *
 * Octets that are no UTF-8 go as charset "unknown-8bit" (RFC 1428) in unstructured fields and parameters; elsewhere as U+FFFD. Work is linear, nothing
 * recurses. */
#ifndef PROTO_MAIL_ASCII_H
#define PROTO_MAIL_ASCII_H

#include "proto/mail/header.h"

enum mail_ascii {
	MAIL_ASCII_DONE,        /* appended, whole lines of at most MAIL_LINE_MAX */
	MAIL_ASCII_LEFT_OUT,    /* of trace or results, and not to be told in ASCII: nothing appended */
	MAIL_ASCII_MEMORY = -1, /* or the buffer is full */
	MAIL_ASCII_ADDRESS = -2, /* an address whose local part is not ASCII: it has no other form */
	MAIL_ASCII_FIELD = -3,  /* something else that has none */
};

/* Appends the field. On a fault: nothing, and *ret_culprit (a piece of it, points into f; may be empty). */
enum mail_ascii mail_field_to_ascii(const struct mail_field *f, struct buf *out, struct str *ret_culprit);

/* Does the field need it: octets above 127, a line longer than MAIL_LINE_MAX, NUL, a bare CR or LF? */
bool mail_field_needs_ascii(struct str all);

/* Is the field of trace or results: may a relay take it away, or change it, without changing what was said? */
bool mail_field_is_trace(struct str name);

/* -- shared by the files that write it */

/* A field under way. Blanks between words stay as they were, and are where a line is folded when it grows beyond MAIL_LINE_WANT. */
struct mail_ascii_line {
	struct buf *out;
	size_t column, least; /* no fold before there is more on the line than `least` octets (the name) */
	bool bad;             /* a word that fits no line */
};
void mail_ascii_begin(struct mail_ascii_line *l, struct buf *out, struct str name);
/* Appends word behind blanks (which may be none: then it is not parted from what is before). */
void mail_ascii_word(struct mail_ascii_line *l, struct str blanks, struct str word);
/* Text as encoded words, the first behind blanks, then after behind the last. In charset utf-8, or unknown-8bit. */
void mail_ascii_encoded(struct mail_ascii_line *l, struct str blanks, struct str text, const char *before, const char *after);

/* ascii_structured.c: fields with a grammar. */
enum mail_ascii mail_ascii_structured(const struct mail_field *f, struct buf *out, struct str *ret_culprit);
enum { MAIL_ASCII_WORDS_MAX = 20000 }; /* words of one field that are looked at; more: no field that people write */

#endif
