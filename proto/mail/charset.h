/* Text in the charsets of mail made UTF-8: the 8-bit ones, and those of Japanese (ISO-2022-JP, Shift_JIS, EUC-JP) and Chinese (GB2312, GBK, GB18030,
 * Big5; charset_wide.c). Tables of our own: iconv() would load modules from disk, which is I/O. */
#ifndef PROTO_MAIL_CHARSET_H
#define PROTO_MAIL_CHARSET_H

#include "base/buf.h"
#include "base/str.h"

/* Appends octets, which are text in the charset of that name (any case, IANA names and usual aliases), as UTF-8. Octets that
 * stand for nothing become U+FFFD. Returns 0; 1: an unknown charset, nothing appended; -1: the buffer is full. */
int mail_charset_to_utf8(struct str charset, struct str octets, struct buf *out);

/* Appends text that should be UTF-8: what is not becomes U+FFFD, controls (C0, DEL, C1) become blanks. 0, or -1: full. */
int mail_charset_clean(struct str text, struct buf *out);

/* Internal: one character; what is none becomes U+FFFD. 0, or -1: full. */
int mail_charset_put(struct buf *out, uint32_t c);
/* Internal: mail_charset_to_utf8() for charsets of several octets a character. */
int mail_charset_wide_to_utf8(struct str charset, struct str octets, struct buf *out);

/* Internal: U+0080 and up of one charset, 0: undefined. */
struct mail_charset {
	const char *name;
	uint16_t high[128];
};
extern const struct mail_charset mail_charsets[];
extern const size_t mail_charsets_n;

#endif
