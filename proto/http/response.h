/* Writes HTTP/1.1 responses. The one path by which a response leaves: length always given, never a transfer coding, and
 * the headers that keep a browser from guessing or caching always present. */
#ifndef PROTO_HTTP_RESPONSE_H
#define PROTO_HTTP_RESPONSE_H

#include "base/buf.h"
#include "base/str.h"

struct http_response {
	unsigned status;
	const char *type;   /* Content-Type; NULL: "text/plain; charset=utf-8" */
	const char *allow;  /* Allow, for 405; or NULL */
	struct str content;
	int64_t now;        /* Unix seconds for Date (RFC 9110 §6.6.1); 0: none */
	bool head;          /* answers HEAD: all headers, no content */
	bool keep_alive;    /* else "Connection: close", and the caller closes after it */
	unsigned minor;     /* of the request: HTTP/1.0 wants keep-alive said aloud */
};

/* 0, or -1 when out is full or a header value holds what may not stand in a header (nothing is appended then). */
int http_response_write(struct buf *out, const struct http_response *r);
/* "HTTP/1.1 100 Continue". */
int http_response_continue(struct buf *out);
/* "Not Found" for 404; "Unknown" for a status not used here. */
const char *http_status_text(unsigned status);

#endif
