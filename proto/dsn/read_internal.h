/* Shared inside the bounce reader: what is gathered of a message before it is judged. */
#ifndef PROTO_DSN_READ_INTERNAL_H
#define PROTO_DSN_READ_INTERNAL_H

#include "read.h"

#include "base/buf.h"

struct dsn_gather {
	struct dsn_read *r;
	struct buf human;    /* the text for people, decoded, LF lines; of the message that came back nothing */
	struct buf returned; /* its header fields, or what is there of it */
	struct str from, to, subject; /* of the bounce itself */
	struct str failed;   /* X-Failed-Recipients */
	bool bounce_subject; /* the subject is one of a bounce */
	bool strong_words;   /* it says so in words that only a bounce has */
	bool failure_words;  /* the text says that something was not delivered */
	bool delay_words;    /* … not yet */
	bool memory;         /* out of it */
};

/* Adds a recipient, or gives the one that is there. NULL: no room. */
struct dsn_read_rcpt *dsn_read_add(struct dsn_gather *g, struct str address);
/* The one that is there, or NULL. */
struct dsn_read_rcpt *dsn_read_known(struct dsn_gather *g, struct str address);
/* Reads a delivery-status part's content. */
void dsn_read_status(struct dsn_gather *g, struct str text);
/* Looks for the words above; dsn_read_human() does it. */
void dsn_read_signs(struct dsn_gather *g);
/* A text that is a notice in JSON: adds whom it names. False: it is none. */
bool dsn_read_json(struct dsn_gather *g, struct str text);
/* Finds recipients in the text for people, and what it says of each. */
void dsn_read_human(struct dsn_gather *g);
/* Cuts text where the message that came back begins: *human is what stands before. */
void dsn_read_cut(struct str text, struct str *human, struct str *returned);
/* The next address in the text from *at on; advances *at behind it. False: none. */
bool dsn_read_address(struct str text, size_t *at, struct str *ret);
/* Text as UTF-8 without controls but line ends: itself, or appended to out. Who names no charset has UTF-8 or, where it is none, windows-1252; who uses
 * escape sequences means ISO-2022-JP. */
struct str dsn_read_utf8(struct str charset, struct str text, struct buf *out);
/* Text as one line of UTF-8, at most DSN_READ_DIAGNOSTIC_MAX. */
struct str dsn_read_line(struct dsn_gather *g, struct str text);
/* HTML as lines of text: tags go, some of them are line ends. */
void dsn_read_strip_html(struct str s, struct buf *out);
/* Finds "5.1.1" and "550" in a text. */
struct str dsn_read_find_status(struct str text);
unsigned dsn_read_find_code(struct str text);
/* Appends a text as phrases are written (read_words.inc): in lower case, without accents, with single blanks; at most DSN_READ_TEXT_MAX. */
void dsn_read_fold(struct str text, struct buf *out);
/* The one table of words; weak: those that say less than a status does. DSN_REASON_OTHER: nothing known in it. */
enum dsn_read_reason dsn_reason_words(struct str text, bool weak);

#endif
