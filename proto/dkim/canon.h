/* Canonicalisation (RFC 6376 §3.4). What comes out goes to a sink, in pieces; nothing is kept but a few counters and one
 * small buffer, whatever the size of the message. */
#ifndef PROTO_DKIM_CANON_H
#define PROTO_DKIM_CANON_H

#include "base/str.h"

enum dkim_canon { DKIM_SIMPLE, DKIM_RELAXED };

typedef void dkim_sink_fn(void *arg, const char *p, size_t n);

/* Collects small pieces before they go to the sink. */
struct dkim_out {
	dkim_sink_fn *sink;
	void *arg;
	size_t n;
	char b[2048];
};
void dkim_out_add(struct dkim_out *o, const char *p, size_t n);
/* Sends what is left. */
void dkim_out_flush(struct dkim_out *o);

/* One header field with its CRLF (one is added when it is missing). Octets [cut, cut_end) of it are left out; own: the
 * field is the signature itself, its last CRLF is left out (§3.7). */
void dkim_canon_field(enum dkim_canon c, struct str field, size_t cut, size_t cut_end, bool own, struct dkim_out *o);

/* A body, in pieces cut anywhere. Begin with { .canon = …, .out = { .sink = …, .arg = … } }. */
struct dkim_canon_body {
	enum dkim_canon canon;
	bool any;        /* something other than empty lines was sent */
	bool cr;         /* a CR was the last octet */
	bool blank;      /* relaxed: blanks were seen and not yet sent */
	uint64_t lines;  /* CRLFs seen and not yet sent: those at the end never are */
	struct dkim_out out;
};
void dkim_canon_body_add(struct dkim_canon_body *b, const char *p, size_t n);
void dkim_canon_body_end(struct dkim_canon_body *b);

#endif
