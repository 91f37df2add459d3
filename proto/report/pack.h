/* Packing a report and unpacking one that came: gzip (RFC 1952), the one file of a zip archive, or nothing at all. With bounds: what
 * comes out is at most so long, and at most REPORT_RATIO_MAX times what went in (beyond REPORT_RATIO_FREE), so that a bomb costs little. */
#ifndef PROTO_REPORT_PACK_H
#define PROTO_REPORT_PACK_H

#include "base/buf.h"
#include "base/str.h"

enum {
	REPORT_RATIO_MAX = 200,        /* real reports reach 60 */
	REPORT_RATIO_FREE = 256 * 1024, /* octets that any input may give */
	REPORT_ZIP_FILES = 16,         /* files of an archive looked at */
};

enum report_packing { REPORT_UNKNOWN, REPORT_XML, REPORT_GZIP, REPORT_ZIP };
/* What these octets are, by their beginning. What a sender calls them is often wrong. */
enum report_packing report_packing(struct str data);

/* Appends the gzip form; the same octets give the same form. 0, or -1: full, or memory. */
int report_gzip(struct str data, struct buf *out);
/* Appends what is in it. 0, or -1 with *ret_why a constant clause: not packed as it should be, damaged, too large (out.max), a bomb. out may
 * hold a part then. */
int report_unpack(struct str data, struct buf *out, const char **ret_why);

#endif
