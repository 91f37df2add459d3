/* What pack.c and zip.c share. */
#ifndef PROTO_REPORT_PACK_INTERNAL_H
#define PROTO_REPORT_PACK_INTERNAL_H

#include "proto/report/pack.h"

/* Inflates one stream of `data` in the framing of `bits` (inflateInit2), appending to out; `packed` is what the ratio is reckoned by.
 * *ret_used: octets of data it took. 0, or -1 with *ret_why. */
int report_inflate(struct str data, int bits, size_t packed, struct buf *out, size_t *ret_used, const char **ret_why);
/* The one report of a zip archive. */
int report_unzip(struct str data, struct buf *out, const char **ret_why);

#endif
