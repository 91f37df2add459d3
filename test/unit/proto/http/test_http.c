/* The request engine and the response writer, by tables: what is taken, what is refused and with which status, and that
 * no way of cutting the input changes the outcome. The refused ones are the known desynchronisation cases. */
#include "proto/http/request.h"
#include "proto/http/response.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define HOSTS "localhost mx.example.test"
#define H "Host: localhost\r\n"

/* Feeds in pieces of `piece` octets until the first request or error; *ret_rest is what was not taken. */
static enum http_event feed(struct http_request *r, struct str in, size_t piece, struct str *ret_rest)
{
	enum http_event ev = HTTP_MORE;
	while (in.n) {
		size_t used = 0, n = in.n < piece ? in.n : piece;
		ev = http_request_feed(r, str_n(in.p, n), &used);
		assert_true(used <= n);
		in = str_skip(in, used);
		if (ev == HTTP_REQUEST || ev == HTTP_ERROR)
			break;
		assert_true(ev == HTTP_CONTINUE || used == n);
	}
	*ret_rest = in;
	return ev;
}

struct refused {
	const char *name;
	struct str in;
	unsigned status;
};
#define R(name, in, status) { name, STR_INIT(in), status }

static const struct refused refused[] = {
	R("two different lengths", "POST / HTTP/1.1\r\n" H "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", 400),
	R("two equal lengths", "POST / HTTP/1.1\r\n" H "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", 400),
	R("list of lengths", "POST / HTTP/1.1\r\n" H "Content-Length: 4, 4\r\n\r\nabcd", 400),
	R("signed length", "POST / HTTP/1.1\r\n" H "Content-Length: +0\r\n\r\n", 400),
	R("negative length", "POST / HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\n", 400),
	R("hexadecimal length", "POST / HTTP/1.1\r\n" H "Content-Length: 0x4\r\n\r\nabcd", 400),
	R("blank in length", "POST / HTTP/1.1\r\n" H "Content-Length: 1 0\r\n\r\n", 400),
	R("empty length", "POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n", 400),
	R("length beyond 64 bits", "POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551617\r\n\r\n", 413),
	R("length above the cap", "POST / HTTP/1.1\r\n" H "Content-Length: 1048577\r\n\r\n", 413),
	R("chunked", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
	R("identity", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n", 501),
	R("empty coding", "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n", 501),
	R("unknown coding", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n", 501),
	R("coding behind VT", "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\vchunked\r\n\r\n", 400),
	R("coding and length", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
	R("length and coding", "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
	R("two codings", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: x\r\ntransfer-encoding: chunked\r\n\r\n", 501),
	R("coding in HTTP/1.0", "POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n", 400),
	R("blank before colon", "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", 400),
	R("blank before colon of coding", "POST / HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n", 400),
	R("folded line", "GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n", 400),
	R("folded first line", "GET / HTTP/1.1\r\n X: a\r\n" H "\r\n", 400),
	R("tab-folded coding", "POST / HTTP/1.1\r\n" H "X: a\r\n\tTransfer-Encoding: chunked\r\n\r\n", 400),
	R("empty name", "GET / HTTP/1.1\r\n" H ": x\r\n\r\n", 400),
	R("no colon", "GET / HTTP/1.1\r\n" H "X\r\n\r\n", 400),
	R("odd octet in name", "GET / HTTP/1.1\r\n" H "X\xe9: 1\r\n\r\n", 400),
	R("parenthesis in name", "GET / HTTP/1.1\r\n" H "X(: 1\r\n\r\n", 400),
	R("NUL in value", "GET / HTTP/1.1\r\n" H "X: a\0b\r\n\r\n", 400),
	R("NUL in target", "GET /\0 HTTP/1.1\r\n" H "\r\n", 400),
	R("DEL in value", "GET / HTTP/1.1\r\n" H "X: \x7f\r\n\r\n", 400),
	R("bare LF after request line", "GET / HTTP/1.1\n" H "\r\n", 400),
	R("bare LF in header", "GET / HTTP/1.1\r\nHost: localhost\nX: 1\r\n\r\n", 400),
	R("bare LF at the end", "GET / HTTP/1.1\r\n" H "\n", 400),
	R("bare CR in value", "GET / HTTP/1.1\r\n" H "X: a\rb\r\n\r\n", 400),
	R("CR CR LF", "GET / HTTP/1.1\r\r\n" H "\r\n", 400),
	R("no Host", "GET / HTTP/1.1\r\n\r\n", 400),
	R("two Hosts", "GET / HTTP/1.1\r\n" H H "\r\n", 400),
	R("empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
	R("foreign Host", "GET / HTTP/1.1\r\nHost: rebound.example\r\n\r\n", 421),
	R("foreign Host, prefix of ours", "GET / HTTP/1.1\r\nHost: localhos\r\n\r\n", 421),
	R("foreign Host in HTTP/1.0", "GET / HTTP/1.0\r\nHost: rebound.example\r\n\r\n", 421),
	R("short address is a name", "GET / HTTP/1.1\r\nHost: 127.1\r\n\r\n", 421),
	R("userinfo in Host", "GET / HTTP/1.1\r\nHost: a@localhost\r\n\r\n", 400),
	R("path in Host", "GET / HTTP/1.1\r\nHost: localhost/x\r\n\r\n", 400),
	R("bad port in Host", "GET / HTTP/1.1\r\nHost: localhost:70000\r\n\r\n", 400),
	R("no port behind colon", "GET / HTTP/1.1\r\nHost: localhost:\r\n\r\n", 400),
	R("bad brackets in Host", "GET / HTTP/1.1\r\nHost: [localhost]\r\n\r\n", 400),
	R("text behind brackets", "GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n", 400),
	R("absolute target, other host", "GET http://a.test/ HTTP/1.1\r\n" H "\r\n", 400),
	R("absolute target, https", "GET https://localhost/ HTTP/1.1\r\n" H "\r\n", 400),
	R("HEAD with content", "HEAD / HTTP/1.1\r\n" H "Content-Length: 44\r\n\r\nGET /x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
	R("GET with content", "GET / HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\nx", 400),
	R("two blanks before target", "GET  / HTTP/1.1\r\n" H "\r\n", 400),
	R("two blanks before version", "GET /  HTTP/1.1\r\n" H "\r\n", 400),
	R("tab as separator", "GET\t/\tHTTP/1.1\r\n" H "\r\n", 400),
	R("blank behind version", "GET / HTTP/1.1 \r\n" H "\r\n", 400),
	R("no version", "GET /\r\n" H "\r\n", 400),
	R("lower-case version", "GET / http/1.1\r\n" H "\r\n", 400),
	R("long version", "GET / HTTP/1.10\r\n" H "\r\n", 400),
	R("HTTP/2", "PRI * HTTP/2.0\r\n\r\n", 505),
	R("HTTP/3", "GET / HTTP/3.0\r\n" H "\r\n", 505),
	R("no method", " / HTTP/1.1\r\n" H "\r\n", 400),
	R("odd method", "G(T / HTTP/1.1\r\n" H "\r\n", 400),
	R("long method", "GETGETGETGETGETGETGETGETGETGETGET / HTTP/1.1\r\n" H "\r\n", 501),
	R("relative target", "GET metrics HTTP/1.1\r\n" H "\r\n", 400),
	R("asterisk with GET", "GET * HTTP/1.1\r\n" H "\r\n", 400),
	R("CONNECT", "CONNECT localhost:25 HTTP/1.1\r\n" H "\r\n", 400),
	R("fragment", "GET /#x HTTP/1.1\r\n" H "\r\n", 400),
	R("broken escape", "GET /%4 HTTP/1.1\r\n" H "\r\n", 400),
	R("escaped NUL", "GET /%00 HTTP/1.1\r\n" H "\r\n", 400),
	R("8-bit target", "GET /\xc3\xa9 HTTP/1.1\r\n" H "\r\n", 400),
	R("backslash", "GET /\\ HTTP/1.1\r\n" H "\r\n", 400),
	R("unknown expectation", "POST / HTTP/1.1\r\n" H "Expect: 200-ok\r\n\r\n", 417),
	R("SMTP", "EHLO client.example\r\n", 400),
	R("TLS hello", "\x16\x03\x01\x02\x00\x01", 400),
	R("two empty lines", "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n", 400),
};

static void test_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		const struct refused *c = &refused[i];
		for (size_t piece = 1; piece <= c->in.n; piece++) {
			struct http_request r;
			struct str rest;
			http_request_init(&r, HOSTS);
			enum http_event ev = feed(&r, c->in, piece, &rest);
			if (ev != HTTP_ERROR || r.status != c->status)
				fail_msg("%s (pieces of %zu): event %d status %u, wanted %u", c->name, piece, (int)ev,
				    ev == HTTP_ERROR ? r.status : 0, c->status);
			assert_non_null(r.error);
			assert_false(r.keep_alive);
			/* it stays refused, whatever comes */
			size_t used = 9;
			assert_int_equal(http_request_feed(&r, STR("GET / HTTP/1.1\r\n" H "\r\n"), &used), HTTP_ERROR);
			assert_int_equal(used, 0);
			http_request_done(&r);
		}
	}
}

struct taken {
	struct str in;
	const char *method, *path, *query, *host, *content;
	bool keep_alive;
};

static const struct taken taken[] = {
	{ STR_INIT("GET /metrics HTTP/1.1\r\n" H "\r\n"), "GET", "/metrics", NULL, "localhost", "", true },
	{ STR_INIT("\r\nGET / HTTP/1.1\r\n" H "\r\n"), "GET", "/", NULL, "localhost", "", true },
	{ STR_INIT("HEAD / HTTP/1.1\r\nhost:\t127.0.0.1:8025 \r\n\r\n"), "HEAD", "/", NULL, "127.0.0.1", "", true },
	{ STR_INIT("GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n"), "GET", "/", NULL, "[2001:db8::1]", "", true },
	{ STR_INIT("GET / HTTP/1.1\r\nHost: MX.Example.Test\r\n\r\n"), "GET", "/", NULL, "MX.Example.Test", "", true },
	{ STR_INIT("GET /a%20b?q=1?2 HTTP/1.1\r\n" H "\r\n"), "GET", "/a%20b", "q=1?2", "localhost", "", true },
	{ STR_INIT("GET /? HTTP/1.1\r\n" H "\r\n"), "GET", "/", "", "localhost", "", true },
	{ STR_INIT("GET / HTTP/1.1\r\n" H "Connection: foo, Close\r\n\r\n"), "GET", "/", NULL, "localhost", "", false },
	{ STR_INIT("GET / HTTP/1.0\r\n\r\n"), "GET", "/", NULL, "", "", false },
	{ STR_INIT("GET / HTTP/1.0\r\n" H "Connection: keep-alive\r\n\r\n"), "GET", "/", NULL, "localhost", "", true },
	{ STR_INIT("GET / HTTP/1.7\r\n" H "\r\n"), "GET", "/", NULL, "localhost", "", true },
	{ STR_INIT("GET / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n"), "GET", "/", NULL, "localhost", "", true },
	{ STR_INIT("GET / HTTP/1.1\r\n" H "X: caf\xc3\xa9 \t\r\nY:\r\n\r\n"), "GET", "/", NULL, "localhost", "", true },
	{ STR_INIT("POST / HTTP/1.1\r\n" H "\r\n"), "POST", "/", NULL, "localhost", "", true },
	{ STR_INIT("POST /x HTTP/1.1\r\n" H "Content-Length: 6\r\n\r\na\r\n\r\nb"), "POST", "/x", NULL, "localhost", "a\r\n\r\nb", true },
	{ STR_INIT("OPTIONS * HTTP/1.1\r\n" H "\r\n"), "OPTIONS", "*", NULL, "localhost", "", true },
	{ STR_INIT("GET http://LOCALHOST/x?y HTTP/1.1\r\n" H "\r\n"), "GET", "/x", "y", "localhost", "", true },
	{ STR_INIT("GET HTTP://localhost HTTP/1.1\r\n" H "\r\n"), "GET", "/", NULL, "localhost", "", true },
};

static void check_is(struct str got, const char *want, const char *what, const char *in)
{
	if (!str_eq(got, str_from(want)) || (want == NULL && got.p))
		fail_msg("%s of %s: got \"%.*s\", wanted \"%s\"", what, in, STR_ARG(got), want ? want : "(none)");
}

static void test_taken(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
		const struct taken *c = &taken[i];
		for (size_t piece = 1; piece <= c->in.n; piece++) {
			struct http_request r;
			struct str rest;
			http_request_init(&r, HOSTS);
			enum http_event ev = feed(&r, c->in, piece, &rest);
			if (ev != HTTP_REQUEST)
				fail_msg("%s: event %d, %s", c->in.p, (int)ev, r.error ? r.error : "");
			assert_int_equal(rest.n, 0);
			check_is(r.method, c->method, "method", c->in.p);
			check_is(r.path, c->path, "path", c->in.p);
			check_is(r.query, c->query, "query", c->in.p);
			check_is(r.host, c->host, "host", c->in.p);
			check_is(r.content, c->content, "content", c->in.p);
			assert_int_equal(r.keep_alive, c->keep_alive);
			http_request_done(&r);
		}
	}
}

/* A request smuggled as content stays content, and what follows is the next request, at every split. */
static void test_pipeline(void **state)
{
	(void)state;
	struct str in = STR("POST /a HTTP/1.1\r\n" H "Content-Length: 37\r\n\r\n"
			    "GET /inner HTTP/1.1\r\nHost: smuggled\r\n"
			    "GET /b HTTP/1.1\r\n" H "\r\n"
			    "\r\nHEAD /c HTTP/1.1\r\n" H "\r\n");
	static const char *const paths[] = { "/a", "/b", "/c" };
	for (size_t piece = 1; piece <= in.n; piece++) {
		struct http_request r;
		struct str rest = in;
		http_request_init(&r, HOSTS);
		for (size_t i = 0; i < 3; i++) {
			assert_int_equal(feed(&r, rest, piece, &rest), HTTP_REQUEST);
			check_is(r.path, paths[i], "path", "pipeline");
			http_request_next(&r);
			assert_int_equal(http_request_phase(&r), HTTP_IDLE);
		}
		assert_int_equal(rest.n, 0);
		http_request_done(&r);
	}
}

static void test_continue(void **state)
{
	(void)state;
	struct http_request r;
	size_t used;
	http_request_init(&r, HOSTS);
	struct str head = STR("POST / HTTP/1.1\r\n" H "Expect: 100-Continue\r\nContent-Length: 3\r\n\r\n");
	assert_int_equal(http_request_feed(&r, head, &used), HTTP_CONTINUE);
	assert_int_equal(used, head.n);
	assert_int_equal(http_request_phase(&r), HTTP_IN_BODY);
	assert_int_equal(http_request_feed(&r, STR("ab"), &used), HTTP_MORE);
	assert_int_equal(http_request_feed(&r, STR("cX"), &used), HTTP_REQUEST);
	assert_int_equal(used, 1);
	check_is(r.content, "abc", "content", "continue");
	http_request_next(&r);
	/* content that is there already needs no 100 */
	struct str all = STR("POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nz");
	assert_int_equal(http_request_feed(&r, all, &used), HTTP_REQUEST);
	http_request_done(&r);
}

static enum http_event feed_made(struct http_request *r, const char *first, size_t pad, unsigned times, const char *last)
{
	struct buf b = BUF_INIT(4 << 20);
	struct str rest;
	for (unsigned i = 0; i < times; i++) {
		buf_addz(&b, i ? "X: " : first);
		for (size_t j = 0; j < pad; j++)
			buf_addc(&b, 'a');
		buf_addz(&b, i ? "\r\n" : last);
	}
	buf_addz(&b, H "\r\n");
	assert_false(b.failed);
	http_request_init(r, HOSTS);
	enum http_event ev = feed(r, buf_str(&b), b.n, &rest);
	buf_free(&b);
	return ev;
}

static void test_limits(void **state)
{
	(void)state;
	struct http_request r;
	const size_t fixed = sizeof "GET / HTTP/1.1\r\n" - 1;
	assert_int_equal(feed_made(&r, "GET /", HTTP_LINE_MAX - fixed, 1, " HTTP/1.1\r\n"), HTTP_REQUEST);
	http_request_done(&r);
	assert_int_equal(feed_made(&r, "GET /", HTTP_LINE_MAX - fixed + 1, 1, " HTTP/1.1\r\n"), HTTP_ERROR);
	assert_int_equal(r.status, 414);
	http_request_done(&r);
	assert_int_equal(feed_made(&r, "GET /", HTTP_LINE_MAX - 100, 5, " HTTP/1.1\r\n"), HTTP_ERROR);
	assert_int_equal(r.status, 431);
	assert_true(r.head.n <= HTTP_HEAD_MAX);
	http_request_done(&r);
	assert_int_equal(feed_made(&r, "GET /", 1, HTTP_FIELDS_MAX, " HTTP/1.1\r\n"), HTTP_REQUEST);
	http_request_done(&r);
	assert_int_equal(feed_made(&r, "GET /", 1, HTTP_FIELDS_MAX + 1, " HTTP/1.1\r\n"), HTTP_ERROR);
	assert_int_equal(r.status, 431);
	http_request_done(&r);
}

static void test_fields(void **state)
{
	(void)state;
	struct http_request r;
	size_t used;
	struct str n, v;
	http_request_init(&r, NULL);
	assert_int_equal(http_request_feed(&r, STR("GET / HTTP/1.1\r\nHost: any.example\r\nAccept: a\r\naccept: b\r\n\r\n"),
			     &used), HTTP_REQUEST);
	check_is(http_request_field(&r, STR("ACCEPT")), "a", "first", "fields");
	assert_true(http_request_field_at(&r, 2, &n, &v));
	check_is(v, "b", "second", "fields");
	assert_false(http_request_field_at(&r, 3, &n, &v));
	assert_null(http_request_field(&r, STR("Missing")).p);
	http_request_done(&r);
}

static void test_response(void **state)
{
	(void)state;
	struct buf b = BUF_INIT(4096);
	struct http_response r = { .status = 200, .content = STR("ok\n"), .now = 784111777, .keep_alive = true, .minor = 1 };
	assert_int_equal(http_response_write(&b, &r), 0);
	const char *text = buf_z(&b);
	assert_int_equal(strncmp(text, "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 54), 0);
	assert_non_null(strstr(text, "\r\nContent-Length: 3\r\n"));
	assert_non_null(strstr(text, "\r\n\r\nok\n"));
	assert_null(strstr(text, "Connection:"));
	buf_reset(&b);
	r.head = true;
	r.keep_alive = false;
	r.status = 405;
	r.allow = "GET, HEAD";
	assert_int_equal(http_response_write(&b, &r), 0);
	text = buf_z(&b);
	assert_non_null(strstr(text, "405 Method Not Allowed\r\n"));
	assert_non_null(strstr(text, "\r\nAllow: GET, HEAD\r\n"));
	assert_non_null(strstr(text, "\r\nContent-Length: 3\r\n"));
	assert_non_null(strstr(text, "\r\nConnection: close\r\n"));
	assert_string_equal(text + strlen(text) - 4, "\r\n\r\n");
	/* a header value cannot start a second header */
	size_t n = b.n;
	r.allow = "GET\r\nSet-Cookie: a=b";
	assert_int_equal(http_response_write(&b, &r), -1);
	assert_int_equal(b.n, n);
	buf_free(&b);
	/* what does not fit leaves nothing behind */
	struct buf small = BUF_INIT(40);
	r.allow = NULL;
	assert_int_equal(http_response_write(&small, &r), -1);
	assert_int_equal(small.n, 0);
	buf_free(&small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_pipeline),
		cmocka_unit_test(test_continue),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_response),
	};
	return cmocka_run_group_tests_name("proto/http", tests, NULL, NULL);
}
