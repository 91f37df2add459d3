/* Content: the scan, dot-stuffing at every length around the copy window, many recipients, and the limits. */
#include "peer.h"

#include "base/buf.h"

#include <stdlib.h>

void test_content(void **state);
void test_stuffing(void **state);
void test_many_recipients(void **state);
void test_limits(void **state);

void test_content(void **state)
{
	static const struct {
		struct str h, b;
		unsigned found;
	} cases[] = {
		{ STR_INIT(""), STR_INIT(""), 0 },
		{ STR_INIT("A: b\r\n"), STR_INIT("x\r\n"), 0 },
		{ STR_INIT("A: b\r\n"), STR_INIT("x"), SMTP_CONTENT_OPEN },
		{ STR_INIT("A: b"), STR_INIT("x\r\n"), SMTP_CONTENT_BAD | SMTP_CONTENT_HEADER_BAD },
		{ STR_INIT("A: b\r"), STR_INIT("x\r\n"), SMTP_CONTENT_BAD | SMTP_CONTENT_HEADER_BAD },
		{ STR_INIT("A: b\n"), STR_INIT("x\r\n"), SMTP_CONTENT_BAD | SMTP_CONTENT_HEADER_BAD },
		{ STR_INIT(""), STR_INIT("\n"), SMTP_CONTENT_BAD },
		{ STR_INIT(""), STR_INIT("\r"), SMTP_CONTENT_BAD },
		{ STR_INIT(""), STR_INIT("a\r\nb\rc\r\n"), SMTP_CONTENT_BAD },
		{ STR_INIT(""), STR_INIT("a\r\r\n"), SMTP_CONTENT_BAD },
		{ STR_INIT(""), STR_INIT("a\n\r\n"), SMTP_CONTENT_BAD },
		{ STR_INIT(""), STR_INIT("a\r\nb\r"), SMTP_CONTENT_BAD },
		{ STR_INIT(""), STR_INIT("a\0b\r\n"), SMTP_CONTENT_BAD },
		{ STR_INIT(".\r\n"), STR_INIT(""), SMTP_CONTENT_DOTS },
		{ STR_INIT(""), STR_INIT("a\r\n.b"), SMTP_CONTENT_DOTS | SMTP_CONTENT_OPEN },
		{ STR_INIT(""), STR_INIT("a.\r\nb.\r\n"), 0 },
		{ STR_INIT("A: \xe9\r\n"), STR_INIT("x\r\n"), SMTP_CONTENT_HEADER_8BIT },
		{ STR_INIT("A: b\r\n"), STR_INIT("12345678\x80\r\n"), SMTP_CONTENT_BODY_8BIT },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(smtp_content_scan(cases[i].h, cases[i].b), cases[i].found | SMTP_CONTENT_SCANNED);
}

static void drain(struct smtp_client *c, struct buf *to, size_t step)
{
	struct str seg[SMTP_CLIENT_SEGMENTS];
	size_t n;
	while ((n = smtp_client_out(c, seg))) {
		size_t left = step;
		for (size_t i = 0; i < n && left; i++) {
			size_t take = seg[i].n < left ? seg[i].n : left;
			assert_int_equal(buf_add(to, seg[i].p, take), 0);
			left -= take;
		}
		smtp_client_sent(c, step - left);
	}
}

static struct smtp_client *ready(const struct smtp_client_conf *conf)
{
	struct smtp_client *c = smtp_client_new(conf);
	struct buf hello = BUF_INIT(100);
	assert_non_null(c);
	smtp_client_feed(c, "220 mx\r\n", 8);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_NONE);
	drain(c, &hello, SIZE_MAX);
	assert_string_equal(buf_z(&hello), "EHLO us\r\n");
	buf_free(&hello);
	smtp_client_feed(c, "250-mx\r\n250 PIPELINING\r\n", 24);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_READY);
	return c;
}

/* The receiver's rule (RFC 5321 §4.5.2): what arrives, undone, is what was given. */
void test_stuffing(void **state)
{
	struct smtp_client_conf conf = { .helo = STR("us") };
	struct smtp_client_rcpt rcpt = { .address = STR("c@d") };
	static const size_t steps[] = { 1u << 20, 4096, 32768, 32769, 13 };
	(void)state;
	for (size_t pad = 32750; pad < 32775; pad++) {
		struct buf body = BUF_INIT(1 << 20), want = BUF_INIT(1 << 20), got = BUF_INIT(1 << 20), env = BUF_INIT(1 << 20);
		for (size_t i = 0; i < pad; i++)
			buf_addc(&body, 'x');
		buf_addz(&body, "\r\n.\r\n..\r\n");
		for (size_t i = 0; i < 20000; i++)
			buf_addz(&body, i % 3 ? ".\r\n" : "..a\r\n");
		struct smtp_client_msg m = { .headers = STR("A: b\r\n"), .body = buf_str(&body), .rcpts = &rcpt, .n_rcpts = 1 };
		struct smtp_client *c = ready(&conf);
		assert_int_equal(smtp_client_send(c, &m), 0);
		drain(c, &env, SIZE_MAX);
		smtp_client_feed(c, "250 1\r\n250 2\r\n354 3\r\n", 21);
		assert_int_equal(smtp_client_next(c), SMTP_CEV_NONE);
		drain(c, &got, steps[pad % 5]);
		bool start = true;
		size_t i = 0;
		while (i < got.n) {
			if (start && got.p[i] == '.') {
				i++;
				if (got.p[i] == '\r')
					break;
			}
			start = got.p[i] == '\n';
			buf_addc(&want, got.p[i++]);
		}
		assert_int_equal(got.n - i, 2); /* the lone dot was the last line */
		assert_int_equal(want.n, 6 + 2 + body.n);
		assert_memory_equal(want.p, "A: b\r\n\r\n", 8);
		assert_memory_equal(want.p + 8, body.p, body.n);
		smtp_client_feed(c, "250 ok\r\n", 8);
		assert_int_equal(smtp_client_next(c), SMTP_CEV_DONE);
		assert_int_equal(rcpt.result.outcome, SMTP_OUT_OK);
		smtp_client_free(c);
		buf_free(&body);
		buf_free(&want);
		buf_free(&got);
		buf_free(&env);
	}
}

/* Commands are written in windows, and content goes out without a copy. */
void test_many_recipients(void **state)
{
	enum { N = 3000 };
	struct smtp_client_conf conf = { .helo = STR("us") };
	struct smtp_client_rcpt *rcpts = calloc(N, sizeof *rcpts);
	struct str seg[SMTP_CLIENT_SEGMENTS];
	struct smtp_client_msg m = { .mail_from = STR("a@b"), .headers = STR("A: b\r\n"), .body = STR("x\r\n"), .rcpts = rcpts,
		.n_rcpts = N };
	struct buf out = BUF_INIT(1 << 20);
	(void)state;
	assert_non_null(rcpts);
	for (size_t i = 0; i < N; i++)
		rcpts[i].address = STR("somebody@example.net");
	struct smtp_client *c = ready(&conf);
	assert_int_equal(smtp_client_send(c, &m), 0);
	assert_int_equal(smtp_client_out(c, seg), 1);
	assert_true(seg[0].n < 20000);
	drain(c, &out, SIZE_MAX);
	assert_memory_equal(out.p + out.n - 6, "DATA\r\n", 6);
	for (size_t i = 0; i < N + 1; i++) {
		const char *r = i % 7 == 3 ? "550 no\r\n" : "250 ok\r\n";
		smtp_client_feed(c, r, 8);
		assert_int_equal(smtp_client_next(c), SMTP_CEV_NONE);
	}
	smtp_client_feed(c, "354 x\r\n", 7);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_NONE);
	assert_int_equal(smtp_client_out(c, seg), 4);
	assert_ptr_equal(seg[0].p, m.headers.p);
	assert_ptr_equal(seg[2].p, m.body.p);
	drain(c, &out, SIZE_MAX);
	smtp_client_feed(c, "250 ok\r\n", 8);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_DONE);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(rcpts[i].result.outcome, (i + 1) % 7 == 3 ? SMTP_OUT_PERMANENT : SMTP_OUT_OK);
	smtp_client_free(c);
	buf_free(&out);
	free(rcpts);
}

void test_limits(void **state)
{
	struct smtp_client_conf conf = { .helo = STR("us") }, bad = { .helo = STR("u s") }, none = { 0 };
	(void)state;
	assert_null(smtp_client_new(&bad));
	assert_null(smtp_client_new(&none));
	struct smtp_client *c = smtp_client_new(&conf);
	for (int i = 0; i < SMTP_CLIENT_LINES_MAX; i++) {
		smtp_client_feed(c, "220-x\r\n", 7);
		assert_int_equal(smtp_client_next(c), SMTP_CEV_NONE);
	}
	smtp_client_feed(c, "220 x\r\n", 7);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_CLOSED);
	assert_int_equal(smtp_client_failure(c)->outcome, SMTP_OUT_PROTOCOL);
	smtp_client_free(c);
	/* unread input is bounded */
	static const char lines[1000];
	c = smtp_client_new(&conf);
	int r = 0;
	for (int i = 0; i < 100 && !r; i++)
		r = smtp_client_feed(c, lines, sizeof lines);
	assert_int_equal(r, -1);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_CLOSED);
	smtp_client_free(c);
	/* reply text is cut at a character */
	c = smtp_client_new(&conf);
	struct buf b = BUF_INIT(4096);
	buf_addz(&b, "554 xy");
	for (int i = 0; i < 400; i++)
		buf_addz(&b, "\xc3\xa9");
	buf_addz(&b, "\r\n");
	for (size_t cut = 0; cut < 2; cut++) {
		smtp_client_feed(c, b.p, 4);
		smtp_client_feed(c, b.p + 4 + cut, b.n - 4 - cut);
		assert_int_equal(smtp_client_next(c), SMTP_CEV_CLOSED);
		assert_int_equal(smtp_client_failure(c)->text.n, SMTP_CLIENT_TEXT_MAX - cut);
		assert_true(str_is_utf8(smtp_client_failure(c)->text));
		smtp_client_free(c);
		c = smtp_client_new(&conf);
	}
	buf_free(&b);
	smtp_client_free(c);
}
