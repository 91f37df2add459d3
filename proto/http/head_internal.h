/* What request.c and head.c share: the checks of single lines and of the finished header. */
#ifndef PROTO_HTTP_HEAD_INTERNAL_H
#define PROTO_HTTP_HEAD_INTERNAL_H

#include "request.h"

/* Each returns 0, or -1 with r->status and r->error set. Lines come without their CR LF. */
int http_head_request_line(struct http_request *r, size_t at, size_t n);
int http_head_field(struct http_request *r, size_t at, size_t n);
/* After the empty line: Host, framing, Connection, Expect; fills the public members in. */
int http_head_finish(struct http_request *r);

int http_head_refuse(struct http_request *r, unsigned status, const char *error);

#endif
