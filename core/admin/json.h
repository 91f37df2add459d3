/* Writes JSON text by hand where a tree would be waste. */
#ifndef ADMIN_JSON_H
#define ADMIN_JSON_H

#include "base/buf.h"
#include "base/str.h"

/* s as a JSON string with its quotes. Octets that are not UTF-8 become U+FFFD; controls, DEL and the C1 range become
 * escapes, so that the text is harmless on a terminal too. */
void admin_json_string(struct buf *out, struct str s);
void admin_json_stringz(struct buf *out, const char *z); /* NULL: null */
/* Appends JSON text of another hand as one line: line ends between tokens become blanks. */
void admin_json_one_line(struct buf *out, const char *json);

#endif
