/* The structure of a message (RFC 2045, 2046): which parts there are and which octets belong to each. Nothing is decoded and nothing is copied:
 * all texts but type, charset and boundary point into the message, and together they are all of it:
 *
 *     part      = head gap content            gap: the empty line; missing where the message has none
 *     content   = text                                                             leaf
 *               | preamble (delimiter part)* [close epilogue]                      multipart: `delimiter` stands with the part behind it
 *               | part                                                             message/rfc822, message/global
 *
 * so that what is not changed is written back octet by octet (mail_mime_write). Hostile messages are fine: work is linear in the size,
 * nothing recurses, and what passes a limit is refused as a whole, best at the end of DATA. `odd` says where other readers may see other
 * parts: whoever decides by the content should look at it. */
#ifndef PROTO_MAIL_MIME_H
#define PROTO_MAIL_MIME_H

#include "proto/mail/transfer.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

enum {
	MAIL_MIME_DEPTH_MAX = 50,              /* parts within parts */
	MAIL_MIME_PARTS_MAX = 10000,
	MAIL_MIME_HEAD_OCTETS_MAX = 1 << 20,   /* of one head */
	MAIL_MIME_HEAD_LINES_MAX = 10000,
	MAIL_MIME_BOUNDARY_MAX = 8192,         /* RFC 2046 §5.1.1 says 70; longer ones occur */
};
#define MAIL_MIME_NONE SIZE_MAX

enum mail_mime_kind { MAIL_MIME_LEAF, MAIL_MIME_MULTIPART, MAIL_MIME_MESSAGE };

/* What is odd about a message; bits. */
enum {
	MAIL_MIME_BAD_HEAD = 1 << 0,    /* lines among the fields that are none, or a head without an empty line behind it */
	MAIL_MIME_UNCLOSED = 1 << 1,    /* a multipart without its last delimiter */
	MAIL_MIME_NO_BOUNDARY = 1 << 2, /* a multipart without a usable boundary: a leaf here */
	MAIL_MIME_AMBIGUOUS = 1 << 3,   /* a delimiter with text behind it, or two boundaries that fit a line */
	MAIL_MIME_ENCODED = 1 << 4,     /* an encoding on a multipart, where RFC 2045 §6.4 allows none */
	MAIL_MIME_TWICE = 1 << 5,       /* Content-Type or Content-Transfer-Encoding twice: the first counts */
	MAIL_MIME_BAD_TYPE = 1 << 6,    /* a Content-Type with broken syntax, or too many parameters */
	MAIL_MIME_NO_PARTS = 1 << 7,    /* a multipart in which its boundary does not occur */
};

struct mail_mime_part {
	size_t parent, child, next; /* MAIL_MIME_NONE: there is none. child: the first; next: the next of the same parent */
	unsigned depth;             /* 0: the message itself */
	enum mail_mime_kind kind;
	enum mail_transfer encoding;
	struct str type;      /* "text/plain", lower case; the default of RFC 2045 §5.2 or 2046 §5.1.5 where none is said, or none that can be read */
	struct str charset;   /* as written, lower case is not made; empty: none */
	struct str delimiter; /* the line before this part, with the line end before it; empty: not in a multipart */
	struct str head;      /* whole lines */
	struct str gap;
	struct str body;      /* all the content, without the line end that belongs to the next delimiter */
	struct str preamble, close, epilogue; /* MULTIPART; close with the line end before it, and its own */
	struct str all;       /* head, gap and body */
};

struct mail_mime {
	struct mail_mime_part *part; /* n of them, in the order of the message; [0] is the message itself */
	size_t n;
	unsigned odd;      /* MAIL_MIME_* */
	const char *limit; /* after MAIL_MIME_LIMIT: which, in words */
	uint64_t steps;    /* octets looked at, for tests of cost */
	struct str raw;
	size_t cap;
	struct arena *mem; /* not yours */
};

enum { MAIL_MIME_MEMORY = -1, MAIL_MIME_LIMIT = -2 };
/* raw: the whole message, which must outlive *ret. Only CR LF ends a line, as everywhere; bare_lf: LF does, too, for files of other origin.
 * Returns 0, or MAIL_MIME_MEMORY or _LIMIT: *ret has no parts then. mail_mime_free() in any case is right. */
int mail_mime_parse(struct mail_mime *ret, struct str raw, bool bare_lf);
/* The same of a message in the two pieces that a queue has (split.h), without putting them together. Part 0's head is all of `headers`, its gap is
 * empty, and its `all` is its body only; all else is as above, raw being the body. Not for mail_mime_write(). */
int mail_mime_parse_pieces(struct mail_mime *ret, struct str headers, struct str body);
void mail_mime_free(struct mail_mime *m);

/* Appends the message. replace (may be NULL) is asked for each part, outer before inner: 0: as it is; 1: it has appended what stands for head, gap
 * and body, and parts within are not asked; -1: give up. Without it, or when it only says 0, what is written is what was read. Returns 0, or
 * -1: given up, or the buffer is full. */
typedef int mail_mime_replace_fn(void *arg, const struct mail_mime *m, size_t part, struct buf *out);
int mail_mime_write(const struct mail_mime *m, mail_mime_replace_fn *replace, void *arg, struct buf *out);

#endif
