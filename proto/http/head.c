/* What may stand in a request line and in header fields, and what the fields together mean for framing. Each function
 * only refuses or notes; nothing here takes input. Rules are cited from RFC 9110 and RFC 9112; where they leave a choice,
 * the narrow one is taken. */
#include "head_internal.h"

#include <arpa/inet.h>

enum { METHOD_MAX = 32 };

/* RFC 9110 §5.6.2 */
static bool is_tchar(unsigned char c)
{
	return ascii_is_alnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_hex(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

/* RFC 3986 pchar, '/' and '?'; every % begins a whole escape, and none of them hides a NUL. */
static bool path_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c == '%') {
			if (s.n - i < 3 || !is_hex((unsigned char)s.p[i + 1]) || !is_hex((unsigned char)s.p[i + 2]) ||
			    (s.p[i + 1] == '0' && s.p[i + 2] == '0'))
				return false;
			i += 2;
		} else if (!(ascii_is_alnum(c) || (c && strchr("-._~!$&'()*+,;=:@/?", c)))) {
			return false;
		}
	}
	return true;
}

int http_head_request_line(struct http_request *r, size_t at, size_t n)
{
	struct str line = str_n(r->head.p + at, n);
	ptrdiff_t sp = str_chr(line, ' ');
	if (sp <= 0)
		return http_head_refuse(r, 400, "malformed request line");
	for (ptrdiff_t i = 0; i < sp; i++)
		if (!is_tchar((unsigned char)line.p[i]))
			return http_head_refuse(r, 400, "malformed method");
	if (sp > METHOD_MAX)
		return http_head_refuse(r, 501, "unknown method");
	struct str rest = str_skip(line, (size_t)sp + 1);
	ptrdiff_t sp2 = str_chr(rest, ' ');
	if (sp2 <= 0)
		return http_head_refuse(r, 400, "malformed request line");
	struct str target = str_n(rest.p, (size_t)sp2), version = str_skip(rest, (size_t)sp2 + 1);
	/* RFC 9112 §2.3: HTTP-name is case-sensitive, exactly one digit each */
	if (version.n != 8 || !str_starts(version, STR("HTTP/")) || version.p[5] < '0' || version.p[5] > '9' ||
	    version.p[6] != '.' || version.p[7] < '0' || version.p[7] > '9')
		return http_head_refuse(r, 400, "malformed HTTP version");
	if (version.p[5] != '1')
		return http_head_refuse(r, 505, "HTTP version not supported");
	r->minor = version.p[7] == '0' ? 0 : 1;
	if (!path_ok(target))
		return http_head_refuse(r, 400, "malformed request target");
	/* the buffer may still move: keep offsets until the header is whole */
	r->fields[0] = (struct http_field){ .name = (uint32_t)at, .name_n = (uint32_t)sp,
		.value = (uint32_t)(at + (size_t)sp + 1), .value_n = (uint32_t)sp2 };
	r->n_fields = 1;
	return 0;
}

int http_head_field(struct http_request *r, size_t at, size_t n)
{
	struct str line = str_n(r->head.p + at, n);
	if (line.p[0] == ' ' || line.p[0] == '\t')
		return http_head_refuse(r, 400, "folded header line"); /* RFC 9112 §5.2 */
	ptrdiff_t colon = str_chr(line, ':');
	if (colon <= 0)
		return http_head_refuse(r, 400, colon ? "header line without colon" : "header field without name");
	for (ptrdiff_t i = 0; i < colon; i++)
		if (!is_tchar((unsigned char)line.p[i])) /* RFC 9112 §5.1: no blank before the colon either */
			return http_head_refuse(r, 400, "malformed header field name");
	if (r->n_fields == HTTP_FIELDS_MAX + 1)
		return http_head_refuse(r, 431, "too many header fields");
	size_t from = (size_t)colon + 1, to = line.n;
	while (from < to && (line.p[from] == ' ' || line.p[from] == '\t'))
		from++;
	while (to > from && (line.p[to - 1] == ' ' || line.p[to - 1] == '\t'))
		to--;
	r->fields[r->n_fields++] = (struct http_field){ .name = (uint32_t)at, .name_n = (uint32_t)colon,
		.value = (uint32_t)(at + from), .value_n = (uint32_t)(to - from) };
	return 0;
}

static bool is_address(struct str host)
{
	char text[64];
	unsigned char addr[16];
	bool v6 = host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
	if (v6)
		host = str_n(host.p + 1, host.n - 2);
	if (host.n >= sizeof text)
		return false;
	memcpy(text, host.p, host.n);
	text[host.n] = 0;
	return inet_pton(v6 ? AF_INET6 : AF_INET, text, addr) == 1;
}

/* RFC 9110 §7.2: uri-host [ ":" port ]. Cuts the port off. Returns 0 or -1. */
static int host_parse(struct str value, struct str *ret_host)
{
	size_t end = 0;
	if (value.n && value.p[0] == '[') {
		ptrdiff_t close = str_chr(value, ']');
		if (close < 0 || !is_address(str_n(value.p, (size_t)close + 1)))
			return -1;
		end = (size_t)close + 1;
	} else {
		for (; end < value.n && value.p[end] != ':'; end++) {
			unsigned char c = (unsigned char)value.p[end];
			if (!(ascii_is_alnum(c) || c == '-' || c == '.' || c == '_'))
				return -1;
		}
	}
	if (end == 0 || end > 255)
		return -1;
	if (end < value.n) {
		uint64_t port;
		if (value.p[end] != ':' || str_u64(str_skip(value, end + 1), 65535, &port))
			return -1;
	}
	*ret_host = str_n(value.p, end);
	return 0;
}

static bool host_known(const char *hosts, struct str host)
{
	struct str rest = str_from(hosts), name;
	if (!hosts || is_address(host))
		return true;
	while (str_word(&rest, " \t", &name))
		if (str_ieq(name, host))
			return true;
	return false;
}

/* Finds the one field of this name. 1 found, 0 absent, -1 more than once. */
static int only(const struct http_request *r, struct str name, struct str *ret_value)
{
	struct str n, v;
	int found = 0;
	for (size_t i = 0; http_request_field_at(r, i, &n, &v); i++)
		if (str_ieq(n, name)) {
			if (found)
				return -1;
			found = 1;
			*ret_value = v;
		}
	return found;
}

static int check_framing(struct http_request *r, bool bodyless)
{
	struct str v;
	int te = only(r, STR("Transfer-Encoding"), &v), cl = only(r, STR("Content-Length"), &v);
	/* RFC 9112 §6.1: both together is an attack until shown otherwise; alone it is a coding we do not have */
	if (te && r->minor == 0)
		return http_head_refuse(r, 400, "Transfer-Encoding in HTTP/1.0");
	if (te && cl)
		return http_head_refuse(r, 400, "Transfer-Encoding beside Content-Length");
	if (te)
		return http_head_refuse(r, 501, "Transfer-Encoding is not supported");
	if (cl < 0)
		return http_head_refuse(r, 400, "more than one Content-Length");
	if (cl == 0)
		return 0;
	for (size_t i = 0; i < v.n; i++) /* RFC 9110 §8.6: digits, no sign, no list */
		if (v.p[i] < '0' || v.p[i] > '9')
			return http_head_refuse(r, 400, "malformed Content-Length");
	if (!v.n)
		return http_head_refuse(r, 400, "malformed Content-Length");
	if (str_u64(v, HTTP_BODY_MAX, &r->length))
		return http_head_refuse(r, 413, "content too large");
	if (r->length && bodyless)
		return http_head_refuse(r, 400, "content in a GET or HEAD request");
	return 0;
}

static int check_host(struct http_request *r, struct str authority)
{
	struct str v;
	int n = only(r, STR("Host"), &v);
	if (n < 0)
		return http_head_refuse(r, 400, "more than one Host");
	if (n == 0 && r->minor > 0)
		return http_head_refuse(r, 400, "Host is missing"); /* RFC 9112 §3.2 */
	if (n && host_parse(v, &r->host))
		return http_head_refuse(r, 400, "malformed Host");
	/* an absolute target must name the same host; a proxy's idea of it and ours must not differ */
	if (authority.p && (n == 0 || !str_ieq(authority, v)))
		return http_head_refuse(r, 400, "Host differs from the request target");
	if (n && !host_known(r->hosts, r->host))
		return http_head_refuse(r, 421, "this server does not answer to that Host");
	return 0;
}

static int check_target(struct http_request *r, struct str *ret_authority)
{
	struct str t = r->target;
	*ret_authority = STR_NULL;
	if (str_eq(t, STR("*")) && str_eq(r->method, STR("OPTIONS"))) {
		r->path = t;
		return 0;
	}
	if (str_istarts(t, STR("http://"))) { /* RFC 9112 §3.2.2: a server takes the absolute form */
		t = str_skip(t, 7);
		size_t end = 0;
		while (end < t.n && t.p[end] != '/' && t.p[end] != '?')
			end++;
		*ret_authority = str_n(t.p, end);
		t = str_skip(t, end);
		if (!t.n)
			t = STR("/");
	}
	if (t.p[0] != '/')
		return http_head_refuse(r, 400, "malformed request target");
	ptrdiff_t q = str_chr(t, '?');
	r->path = q < 0 ? t : str_n(t.p, (size_t)q);
	r->query = q < 0 ? STR_NULL : str_skip(t, (size_t)q + 1);
	return 0;
}

static int check_connection(struct http_request *r)
{
	struct str n, v, word;
	bool close = false, keep = false;
	for (size_t i = 0; http_request_field_at(r, i, &n, &v); i++) {
		if (!str_ieq(n, STR("Connection")))
			continue;
		while (str_word(&v, ", \t", &word)) {
			close |= str_ieq(word, STR("close"));
			keep |= str_ieq(word, STR("keep-alive"));
		}
	}
	r->keep_alive = !close && (r->minor > 0 || keep); /* RFC 9112 §9.3 */
	int e = only(r, STR("Expect"), &v);
	if (e < 0 || (e && !str_ieq(v, STR("100-continue"))))
		return http_head_refuse(r, 417, "unknown expectation");
	r->expects = e && r->minor > 0;
	return 0;
}

int http_head_finish(struct http_request *r)
{
	struct str authority;
	/* fields[0] held the request line's offsets; take it out */
	r->method = str_n(r->head.p + r->fields[0].name, r->fields[0].name_n);
	r->target = str_n(r->head.p + r->fields[0].value, r->fields[0].value_n);
	r->n_fields--;
	memmove(r->fields, r->fields + 1, r->n_fields * sizeof *r->fields);
	bool bodyless = str_eq(r->method, STR("GET")) || str_eq(r->method, STR("HEAD"));
	if (check_target(r, &authority) || check_framing(r, bodyless) || check_host(r, authority) || check_connection(r))
		return -1;
	return 0;
}
