/* The response writer. Dates are made by hand: strftime() would follow the locale. */
#include "response.h"

#include <time.h>

const char *http_status_text(unsigned status)
{
	static const struct {
		unsigned status;
		const char *text;
	} texts[] = {
		{ 100, "Continue" }, { 200, "OK" }, { 204, "No Content" }, { 304, "Not Modified" },
		{ 400, "Bad Request" }, { 401, "Unauthorized" }, { 403, "Forbidden" }, { 404, "Not Found" },
		{ 405, "Method Not Allowed" }, { 408, "Request Timeout" }, { 409, "Conflict" }, { 413, "Content Too Large" },
		{ 414, "URI Too Long" }, { 415, "Unsupported Media Type" }, { 417, "Expectation Failed" },
		{ 421, "Misdirected Request" }, { 429, "Too Many Requests" }, { 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" }, { 501, "Not Implemented" }, { 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" }, { 505, "HTTP Version Not Supported" },
	};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (texts[i].status == status)
			return texts[i].text;
	return "Unknown";
}

static bool value_ok(const char *z)
{
	for (; z && *z; z++)
		if ((unsigned char)*z < 0x20 || *z == 0x7f)
			return false;
	return true;
}

static void add_date(struct buf *out, int64_t now)
{
	static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	time_t t = (time_t)now;
	struct tm tm;
	if (now > 0 && gmtime_r(&t, &tm))
		buf_addf(out, "Date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n", days[tm.tm_wday], tm.tm_mday,
		    months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

int http_response_write(struct buf *out, const struct http_response *r)
{
	size_t before = out->n;
	if (out->failed || !value_ok(r->type) || !value_ok(r->allow))
		return -1;
	buf_addf(out, "HTTP/1.1 %u %s\r\n", r->status, http_status_text(r->status));
	add_date(out, r->now);
	buf_addf(out, "Content-Type: %s\r\n", r->type ? r->type : "text/plain; charset=utf-8");
	buf_addf(out, "Content-Length: %zu\r\n", r->content.n);
	if (r->allow)
		buf_addf(out, "Allow: %s\r\n", r->allow);
	buf_addz(out, "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
		      "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n");
	if (!r->keep_alive)
		buf_addz(out, "Connection: close\r\n");
	else if (r->minor == 0)
		buf_addz(out, "Connection: keep-alive\r\n");
	buf_addz(out, "\r\n");
	if (!r->head)
		buf_adds(out, r->content);
	if (!out->failed)
		return 0;
	out->n = before; /* half a response would frame the next one wrongly */
	return -1;
}

int http_response_continue(struct buf *out)
{
	return buf_addz(out, "HTTP/1.1 100 Continue\r\n\r\n");
}
