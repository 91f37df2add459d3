/* The texts of reports for people, one set per language: subjects, sentences, advice, with placeholders for what is known only when a report is
 * written. Sets come with the library (words/NAME.dsn); an operator's file replaces what it names. The form of such a file is in
 * pepsi-stage-bounce(7). Parsing and filling in only: whoever has a file reads it.
 *
 * There is no language of expressions: a value is put in as it is and never looked at again, so nothing of a message can become a placeholder. */
#ifndef PROTO_DSN_WORDS_H
#define PROTO_DSN_WORDS_H

#include "base/buf.h"
#include "base/str.h"

enum {
	DSN_WORDS_FILE_MAX = 256 * 1024, /* octets of a file */
	DSN_WORDS_TEXT_MAX = 4000,       /* octets of one text */
	DSN_WORDS_WORD_MAX = 200,        /* octets of one word in it: lines must not grow beyond what mail allows */
	DSN_LANGUAGE_MAX = 35,           /* octets of a language tag (RFC 5646 §4.4.1) */
};

/* What a placeholder stands for; unset values are empty. */
enum dsn_value { DSN_V_HOST, DSN_V_POSTMASTER, DSN_V_SENDER, DSN_V_ID, /* in every text */
	DSN_V_STAGE, DSN_V_DATE, DSN_V_HOP, DSN_V_ORIGINAL, DSN_V_RECIPIENT, DSN_V_MTA, DSN_V_CODE, DSN_V_TEXT, DSN_VALUES };

struct dsn_words;
/* line: from 1, in the file. text: one clause. */
typedef void dsn_words_fault_fn(void *arg, unsigned line, const char *text);

/* Parses a file. What it does not have comes from `base` (may be NULL), which must live as long. Every fault is told (fn may be NULL); a text
 * with a fault is left out, so that base's stands. Returns NULL only without memory, or when the file is larger than DSN_WORDS_FILE_MAX
 * (told, too). */
struct dsn_words *dsn_words_parse(struct str file, const struct dsn_words *base, dsn_words_fault_fn *fn, void *arg);
void dsn_words_free(struct dsn_words *w);

/* The sets that come along: their tags ("en" is the first), and their files. Returns false beyond the last. */
bool dsn_words_builtin(size_t i, struct str *ret_language, struct str *ret_file);

/* Appends the text of that name ("failed.one"), filled in; paragraphs are separated by "\n\n". Returns false, with nothing appended: there is
 * none of that name, or it is empty. */
bool dsn_words_fill(struct buf *out, const struct dsn_words *w, const char *name, const struct str values[DSN_VALUES]);
/* How many texts a set can have, and the name of one: for tests. */
size_t dsn_words_names(void);
const char *dsn_words_name(size_t i);

/* Is it the form of a language tag: letters, digits, hyphens, at most DSN_LANGUAGE_MAX? */
bool dsn_language_ok(struct str tag);

#endif
