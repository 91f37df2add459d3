/* The HTTP/1.1 request engine (RFC 9110, RFC 9112): octets in, whole requests out. It is strict on purpose: what two
 * parsers could read in two ways (smuggling, desynchronisation) is refused here and the connection ends.
 *
 * One connection through it, told:
 *
 *     http_request_feed(r, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:8025\r\n\r\nGET /hea…", &used) → HTTP_REQUEST
 *         the caller answers r->method, r->path, …; used says where the next request begins
 *     http_request_next(r)                  forgets it
 *     http_request_feed(r, the rest, &used) → HTTP_MORE: everything was taken, more is needed
 *
 * Refused, always with the connection closed after the answer: any Transfer-Encoding, repeated or signed
 * Content-Length, a folded header line, bare CR or LF, NUL and other controls, blanks around a header's name, an empty
 * name, a missing, repeated or foreign Host, content in GET and HEAD, and whatever exceeds the limits below. It knows
 * no socket and no clock: deadlines are the caller's, who asks http_request_phase() which one runs. */
#ifndef PROTO_HTTP_REQUEST_H
#define PROTO_HTTP_REQUEST_H

#include "base/buf.h"
#include "base/str.h"

enum {
	HTTP_LINE_MAX = 8 * 1024,    /* one line, its CR LF included: 414 or 431 above */
	HTTP_HEAD_MAX = 32 * 1024,   /* request line and header together: 431 above */
	HTTP_FIELDS_MAX = 100,       /* header fields: 431 above */
	HTTP_BODY_MAX = 1024 * 1024, /* content: 413 above */
};

enum http_event {
	HTTP_MORE,     /* all input was taken, the request is not whole yet */
	HTTP_CONTINUE, /* the client waits for "100 Continue" (http_response_continue) before it sends its content */
	HTTP_REQUEST,  /* a request is whole; feed no more before http_request_next() */
	HTTP_ERROR,    /* answer with r->status and r->error, then close; the engine takes no more input */
};

enum http_phase { HTTP_IDLE, HTTP_IN_HEAD, HTTP_IN_BODY, HTTP_COMPLETE, HTTP_FAILED };

struct http_field {
	uint32_t name, name_n, value, value_n; /* offsets into head */
};

struct http_request {
	/* valid from HTTP_REQUEST until http_request_next() */
	struct str method;  /* as sent; case matters */
	struct str path;    /* undecoded, begins with '/'; "*" for OPTIONS * */
	struct str query;   /* behind the first '?', undecoded; .p NULL when there was none */
	struct str host;    /* without port, brackets kept; n 0 only for HTTP/1.0 without Host */
	struct str content; /* n octets of body */
	unsigned minor;     /* HTTP/1.minor: 0 or 1 */
	bool keep_alive;    /* may the connection serve another request? */

	/* valid at HTTP_ERROR */
	unsigned status;   /* 400, 413, 414, 417, 421, 431, 501, 505; 503 when memory is out */
	const char *error; /* one static line saying which rule */

	/* private */
	const char *hosts;
	struct buf head, body;
	struct http_field fields[HTTP_FIELDS_MAX + 1]; /* the request line first, until the header is whole */
	size_t n_fields, line;
	uint64_t length;
	enum http_phase phase;
	struct str target;
	bool cr, skipped, expects;
};

/* hosts: names this server answers to, separated by blanks, without port and case ("localhost mx.example.test"), kept by
 * the caller; IP addresses are always answered to, since no foreign name can stand for them (DNS rebinding).
 * NULL: any name. */
void http_request_init(struct http_request *r, const char *hosts);
void http_request_done(struct http_request *r);

/* Takes input up to the end of one request; *ret_used octets of it were taken. May be fed any split of the input. */
enum http_event http_request_feed(struct http_request *r, struct str in, size_t *ret_used);
/* Makes ready for the next request of the connection. Only after HTTP_REQUEST. */
void http_request_next(struct http_request *r);
enum http_phase http_request_phase(const struct http_request *r);

/* The value of a header field, trimmed; .p NULL when absent; the first when repeated. */
struct str http_request_field(const struct http_request *r, struct str name);
/* The i-th field; false behind the last. */
bool http_request_field_at(const struct http_request *r, size_t i, struct str *ret_name, struct str *ret_value);

#endif
