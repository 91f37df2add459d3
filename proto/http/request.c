/* The stream side of the request engine: where a line ends, where a request ends, and the limits on both. What stands in
 * the lines is judged in head.c. Line ends are decided here and nowhere else. */
#include "request.h"

#include "head_internal.h"

void http_request_init(struct http_request *r, const char *hosts)
{
	*r = (struct http_request){ .hosts = hosts, .head = BUF_INIT(HTTP_HEAD_MAX), .body = BUF_INIT(HTTP_BODY_MAX) };
}

void http_request_done(struct http_request *r)
{
	buf_free(&r->head);
	buf_free(&r->body);
}

void http_request_next(struct http_request *r)
{
	struct buf head = r->head, body = r->body;
	buf_reset(&head);
	if (body.cap > HTTP_HEAD_MAX)
		buf_free(&body); /* one large request does not pin its memory for an idle connection */
	else
		buf_reset(&body);
	*r = (struct http_request){ .hosts = r->hosts, .head = head, .body = body };
}

enum http_phase http_request_phase(const struct http_request *r)
{
	return r->phase;
}

int http_head_refuse(struct http_request *r, unsigned status, const char *error)
{
	r->status = status;
	r->error = error;
	r->keep_alive = false;
	r->phase = HTTP_FAILED;
	return -1;
}

/* One line is complete: head[line .. n-2). Returns 1 at the empty line that ends the header, 0, or -1. */
static int take_line(struct http_request *r)
{
	size_t at = r->line, n = r->head.n - 2 - at;
	r->line = r->head.n;
	if (at == 0 && n == 0) {
		/* RFC 9112 §2.2: an empty line before the request line is ignored; one, not a stream of them */
		if (r->skipped)
			return http_head_refuse(r, 400, "empty lines before the request line");
		r->skipped = true;
		buf_reset(&r->head);
		r->line = 0;
		return 0;
	}
	if (at == 0)
		return http_head_request_line(r, at, n);
	if (n == 0)
		return http_head_finish(r) ? -1 : 1;
	return http_head_field(r, at, n);
}

static int take_octet(struct http_request *r, unsigned char c)
{
	if (r->cr) {
		if (c != '\n')
			return http_head_refuse(r, 400, "bare CR in the header");
	} else if (c == '\n') {
		return http_head_refuse(r, 400, "bare LF in the header");
	} else if ((c < 0x20 && c != '\t' && c != '\r') || c == 0x7f) {
		return http_head_refuse(r, 400, "control character in the header");
	}
	if (r->head.n - r->line >= HTTP_LINE_MAX)
		return r->line ? http_head_refuse(r, 431, "header line too long") :
				 http_head_refuse(r, 414, "request line too long");
	if (buf_addc(&r->head, (char)c)) {
		if (r->head.n >= HTTP_HEAD_MAX)
			return http_head_refuse(r, 431, "header too large");
		return http_head_refuse(r, 503, "out of memory");
	}
	r->cr = c == '\r';
	return c == '\n' ? take_line(r) : 0;
}

static enum http_event complete(struct http_request *r)
{
	r->content = buf_str(&r->body);
	r->phase = HTTP_COMPLETE;
	return HTTP_REQUEST;
}

static enum http_event feed_body(struct http_request *r, struct str in, size_t *used)
{
	size_t want = (size_t)r->length - r->body.n, n = in.n < want ? in.n : want;
	if (buf_add(&r->body, in.p, n)) {
		http_head_refuse(r, 503, "out of memory");
		return HTTP_ERROR;
	}
	*used += n;
	return r->body.n == r->length ? complete(r) : HTTP_MORE;
}

enum http_event http_request_feed(struct http_request *r, struct str in, size_t *ret_used)
{
	size_t used = 0;
	enum http_event ev = HTTP_MORE;
	if (r->phase == HTTP_FAILED || r->phase == HTTP_COMPLETE) {
		*ret_used = 0;
		return r->phase == HTTP_FAILED ? HTTP_ERROR : HTTP_REQUEST;
	}
	while (used < in.n && r->phase != HTTP_IN_BODY) {
		if (r->phase == HTTP_IDLE)
			r->phase = HTTP_IN_HEAD;
		int rc = take_octet(r, (unsigned char)in.p[used++]);
		if (rc < 0) {
			ev = HTTP_ERROR;
			break;
		}
		if (rc == 0)
			continue;
		if (r->length == 0) {
			ev = complete(r);
			break;
		}
		r->phase = HTTP_IN_BODY;
		if (r->expects && used == in.n) {
			/* RFC 9110 §10.1.1: no 100 when the content is coming already */
			ev = HTTP_CONTINUE;
			break;
		}
	}
	if (r->phase == HTTP_IN_BODY && used < in.n)
		ev = feed_body(r, str_skip(in, used), &used);
	*ret_used = used;
	return ev;
}

bool http_request_field_at(const struct http_request *r, size_t i, struct str *ret_name, struct str *ret_value)
{
	if (i >= r->n_fields)
		return false;
	*ret_name = str_n(r->head.p + r->fields[i].name, r->fields[i].name_n);
	*ret_value = str_n(r->head.p + r->fields[i].value, r->fields[i].value_n);
	return true;
}

struct str http_request_field(const struct http_request *r, struct str name)
{
	struct str n, v;
	for (size_t i = 0; http_request_field_at(r, i, &n, &v); i++)
		if (str_ieq(n, name))
			return v;
	return STR_NULL;
}
