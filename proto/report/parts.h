/* The parts of a MIME message (RFC 2045, 2046), as far as reading reports needs them: a walk over the leaves, and their content decoded. Hostile
 * input is fine: bounded depth and number of parts, work linear in size times depth, nothing is copied before it is decoded. */
#ifndef PROTO_REPORT_PARTS_H
#define PROTO_REPORT_PARTS_H

#include "base/buf.h"
#include "base/str.h"

enum {
	PARTS_DEPTH_MAX = 8,
	PARTS_MAX = 64,
	PARTS_TYPE_MAX = 80,
};

struct parts_part {
	char type[PARTS_TYPE_MAX]; /* "application/gzip", lower case; "text/plain" where none is said */
	struct str headers, body;  /* as they stand in the message; body without the CRLF before the boundary */
	struct str encoding;       /* the value of Content-Transfer-Encoding, without comments; may be empty */
	unsigned depth;            /* 0: the message itself is not multipart */
};
/* Each leaf in order, until fn returns true. message/rfc822 is a leaf. Returns whether fn did. */
typedef bool parts_fn(void *arg, const struct parts_part *p);
bool parts_walk(struct str headers, struct str body, parts_fn *fn, void *arg);
/* Appends the content. Base64 and quoted-printable are read leniently, as everybody does; unknown encodings as they are. 0, or -1: full. */
int parts_decode(const struct parts_part *p, struct buf *out);
/* The value of a parameter of a field like Content-Type, unquoted, into out. 0, or -1: not there, or longer than out. */
int parts_parameter(struct str value, struct str name, char *out, size_t size);

#endif
