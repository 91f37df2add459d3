/* proto/wire: what is put comes out again, and every cut or altered record is refused without being overrun. */
#include "proto/wire/page.h"
#include "proto/wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct str rcpts[] = { STR_INIT("a@example.test"), STR_INIT(""), STR_INIT("b\0c@example.test") };

static struct wire_item full(void)
{
	return (struct wire_item){ .id = 4711, .has_content = true, .received_at = -5, .body_id = INT64_MAX,
		.mail_from = STR("s@example.test"), .rcpts = rcpts, .n_rcpts = 3, .state = STR("{\"a\":1}"),
		.headers = STR("Subject: x\r\n"), .body = STR("line\r\n"), .body_size = 6 };
}

static void same(const struct wire_item *a, const struct wire_item *b)
{
	assert_int_equal(a->id, b->id);
	assert_int_equal(a->has_content, b->has_content);
	if (!a->has_content)
		return;
	assert_int_equal(a->received_at, b->received_at);
	assert_int_equal(a->body_id, b->body_id);
	assert_int_equal(a->body_size, b->body_size);
	assert_int_equal(a->body_in_fd, b->body_in_fd);
	assert_int_equal(a->n_rcpts, b->n_rcpts);
	for (size_t i = 0; i < a->n_rcpts; i++)
		assert_true(str_eq(a->rcpts[i], b->rcpts[i]));
	assert_true(str_eq(a->mail_from, b->mail_from) && str_eq(a->state, b->state));
	assert_true(str_eq(a->headers, b->headers) && str_eq(a->body, b->body));
}

static void round_trip(void **st)
{
	(void)st;
	struct wire_item in[4] = { full(), { .id = 1 }, full(), full() };
	in[2].body_in_fd = true;
	in[2].body = STR_NULL;
	in[2].body_size = UINT64_C(5000000000);
	in[3].n_rcpts = 0;
	in[3].rcpts = NULL;
	struct buf b = BUF_INIT(WIRE_DATAGRAM_MAX);
	struct arena *a = arena_new(1 << 20);
	for (int i = 0; i < 4; i++) {
		size_t before = b.n;
		assert_int_equal(wire_put(&b, &in[i]), 0);
		assert_int_equal(b.n - before, wire_size(&in[i]));
	}
	struct str s = buf_str(&b);
	struct wire_item out;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(wire_get(&s, a, &out), 1);
		same(&in[i], &out);
	}
	assert_int_equal(wire_get(&s, a, &out), 0);
	buf_free(&b);
	arena_free(a);
}

/* A record that does not fit leaves the buffer as it was, and usable. */
static void does_not_fit(void **st)
{
	(void)st;
	struct wire_item it = full();
	struct buf b = BUF_INIT(wire_size(&it) + 20);
	assert_int_equal(wire_put(&b, &it), 0);
	size_t n = b.n;
	assert_int_equal(wire_put(&b, &it), -1);
	assert_int_equal(b.n, n);
	assert_false(b.failed);
	it.has_content = false;
	assert_int_equal(wire_put(&b, &it), 0);
	buf_free(&b);
}

static void every_cut_is_refused(void **st)
{
	(void)st;
	struct wire_item it = full(), out;
	struct buf b = BUF_INIT(4096);
	struct arena *a = arena_new(1 << 20);
	assert_int_equal(wire_put(&b, &it), 0);
	for (size_t n = 1; n < b.n; n++) {
		char *exact = malloc(n); /* so that a sanitizer sees a read behind the end */
		memcpy(exact, b.p, n);
		struct str s = str_n(exact, n);
		assert_int_equal(wire_get(&s, a, &out), -1);
		assert_int_equal(s.n, n);
		free(exact);
	}
	buf_free(&b);
	arena_free(a);
}

static void altered_is_refused(void **st)
{
	(void)st;
	static const struct {
		size_t at;
		unsigned char v;
	} cases[] = {
		{ 0, 1 },      /* record length */
		{ 3, 0xff },   /* huge record length */
		{ 4, 8 },      /* unknown flag */
		{ 4, 2 },      /* descriptor without content */
		{ 4, 0 },      /* content behind a bare id */
		{ 4, 3 },      /* both an inline body and a descriptor */
		{ 12, 0x80 },  /* negative id */
		{ 29, 7 },     /* body size and body differ */
		{ 37, 0xff },  /* recipients that are not there */
		{ 40, 0xff },  /* more recipients than are allowed */
		{ 41, 0xff },  /* sender longer than the record */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wire_item it = full(), out;
		struct buf b = BUF_INIT(4096);
		struct arena *a = arena_new(1 << 20);
		assert_int_equal(wire_put(&b, &it), 0);
		b.p[cases[i].at] = (char)cases[i].v;
		struct str s = buf_str(&b);
		assert_int_equal(wire_get(&s, a, &out), -1);
		buf_free(&b);
		arena_free(a);
	}
}

static void too_many_recipients(void **st)
{
	(void)st;
	struct wire_item it = full();
	struct buf b = BUF_INIT(WIRE_DATAGRAM_MAX);
	it.n_rcpts = WIRE_RCPTS_MAX + 1;
	assert_int_equal(wire_put(&b, &it), -1);
	assert_int_equal(b.n, 0);
}

static void status_lines(void **st)
{
	(void)st;
	static const struct wire_status in[] = { { .status = 0, .json = STR_INIT("") }, { .status = 1, .json = STR_INIT("{\"error\":\"x\"}") }, { .status = 0, .json = STR_INIT("{}") }, { .status = WIRE_READY, .json = STR_INIT("") },
		{ .status = WIRE_READY, .by_id = true }, { .status = 0, .id = 7 }, { .status = 1, .json = STR_INIT("{\"error\":\"x\"}"), .id = INT64_MAX }, { .status = WIRE_LEAVING, .json = STR_INIT("") },
		{ .status = WIRE_METRIC, .json = STR_INIT("4:here c x - - 1") }, { .status = WIRE_REPORT, .json = STR_INIT("4:here {}") } };
	enum { N = sizeof in / sizeof *in };
	struct buf b = BUF_INIT(4096);
	struct wire_status out;
	for (int i = 0; i < N; i++)
		assert_int_equal(wire_status_put(&b, &in[i]), 0);
	assert_string_equal(b.p, "0\n1 {\"error\":\"x\"}\n0 {}\n2\n2 ids\n0 7\n1 9223372036854775807 {\"error\":\"x\"}\n3\n4 4:here c x - - 1\n5 4:here {}\n");
	size_t pos = 0;
	for (int i = 0; i < N; i++) {
		assert_int_equal(wire_status_get(&b, &pos, &out), 1);
		assert_int_equal(out.status, in[i].status);
		assert_int_equal(out.id, in[i].id);
		assert_int_equal(out.by_id, in[i].by_id);
		assert_true(str_eq(out.json, in[i].json));
	}
	assert_int_equal(wire_status_get(&b, &pos, &out), 0);
	buf_free(&b);
}

static void status_refused(void **st)
{
	(void)st;
	struct buf b = BUF_INIT(3 * WIRE_LINE_MAX);
	static char big[WIRE_LINE_MAX + 1];
	static const struct wire_status bad[] = { { .status = WIRE_METRIC, .json = STR_INIT("") }, { .status = WIRE_REPORT, .json = STR_INIT("") }, { .status = WIRE_METRIC, .id = 1, .json = STR_INIT("x") },
		{ .status = WIRE_REPORT, .json = STR_INIT("x\ny") }, { .status = WIRE_METRIC, .json = { big, sizeof big - 3 } }, { .status = 6, .json = STR_INIT("") }, { .status = WIRE_READY, .json = STR_INIT("{}") }, { .status = WIRE_LEAVING, .json = STR_INIT("{}") },
		{ .status = WIRE_READY, .id = 1 }, { .status = 0, .by_id = true }, { .status = 0, .id = -1 }, { .status = -1, .json = STR_INIT("") }, { .status = 0, .json = STR_INIT("{\n}") },
		{ .status = 0, .json = STR_INIT("x") }, { .json = { big, sizeof big - 3 } } };
	memset(big, ' ', sizeof big);
	big[0] = '{';
	big[sizeof big - 4] = '}';
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(wire_status_put(&b, &bad[i]), -1);
	assert_int_equal(b.n, 0);
	/* the longest line that is allowed goes through both */
	big[sizeof big - 5] = '}';
	assert_int_equal(wire_status_put(&b, &(struct wire_status){ .json = { big, WIRE_LINE_MAX - 3 } }), 0);
	size_t pos = 0;
	struct wire_status out;
	assert_int_equal(b.n, WIRE_LINE_MAX);
	assert_int_equal(wire_status_get(&b, &pos, &out), 1);

	static const char *const lines[] = { "\n", "4\n", "4 \n", "5\n", "4x\n", "4 x\r\n", "6\n", "6 x\n", "2 {}\n", "3 {}\n", "2 7\n", "2 ids \n", "0 ids\n", "0 0\n", "0 07\n", "0 7 \n", "0 7x\n", "0 7 7\n", "0 -7\n", "0 9223372036854775808\n", "/\n", "00\n", "0 \n", "0 x\n", "0 {\n", "0{}\n", "1  {}\n", "hello\n", "0 {}\r\n" };
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		buf_reset(&b);
		buf_addz(&b, lines[i]);
		pos = 0;
		assert_int_equal(wire_status_get(&b, &pos, &out), -1);
	}
	/* a report may be longer than any other line, up to its own limit */
	struct buf r = BUF_INIT(2 * WIRE_REPORT_LINE_MAX);
	static char report[WIRE_REPORT_LINE_MAX];
	memset(report, 'x', sizeof report);
	assert_int_equal(wire_status_put(&r, &(struct wire_status){ .status = WIRE_REPORT, .json = { report, sizeof report - 2 } }), -1);
	assert_int_equal(wire_status_put(&r, &(struct wire_status){ .status = WIRE_REPORT, .json = { report, sizeof report - 3 } }), 0);
	pos = 0;
	assert_int_equal(wire_status_get(&r, &pos, &out), 1);
	assert_int_equal(out.json.n, sizeof report - 3);
	buf_reset(&r);
	buf_addz(&r, "5 ");
	buf_add(&r, report, sizeof report);
	pos = 0;
	assert_int_equal(wire_status_get(&r, &pos, &out), -1);
	buf_free(&r);
	/* no end in sight */
	buf_reset(&b);
	for (int i = 0; i < WIRE_LINE_MAX - 1; i++)
		buf_addc(&b, '0');
	pos = 0;
	assert_int_equal(wire_status_get(&b, &pos, &out), 0);
	buf_addc(&b, '0');
	assert_int_equal(wire_status_get(&b, &pos, &out), -1);
	buf_free(&b);
}

/* The shared page: what was written is read; what was not written by its rules is cut and cleaned. */
static void page(void **st)
{
	(void)st;
	static union {
		struct wire_page p;
		char octets[WIRE_PAGE_SIZE];
	} pg;
	struct wire_page_copy c;
	char line[40], longest[300];
	wire_page_read(&pg.p, &c);
	assert_false(c.steady); /* no magic */
	pg.p.magic = WIRE_PAGE_MAGIC;
	wire_page_hop(&pg.p, 7, 2, 1234, "b", "pepsi-stage-b", NULL);
	wire_page_read(&pg.p, &c);
	assert_true(c.steady);
	assert_int_equal(c.id, 7);
	assert_int_equal(c.hop, 2);
	assert_int_equal(c.since, 1234);
	assert_string_equal(c.stage, "b");
	assert_string_equal(c.version, "");
	wire_page_hop(&pg.p, 8, 0, 5, NULL, NULL, NULL); /* names stay */
	wire_page_read(&pg.p, &c);
	assert_string_equal(c.module, "pepsi-stage-b");
	pg.p.seq++; /* died while it was writing */
	wire_page_read(&pg.p, &c);
	assert_false(c.steady);
	assert_int_equal(c.id, 8);
	memset(longest, 'x', sizeof longest - 1);
	longest[sizeof longest - 1] = 0;
	wire_page_hop(&pg.p, 8, 0, 5, longest, longest, "\x1b[2J\xff");
	wire_page_read(&pg.p, &c);
	assert_true(c.steady);
	assert_int_equal(strlen(c.stage), sizeof c.stage - 1);
	assert_string_equal(c.version, "?[2J?");

	assert_false(wire_page_frame(&pg, 0, line, sizeof line));
	snprintf(pg.octets + WIRE_PAGE_TRACE, WIRE_PAGE_TRACE_MAX, "one\ntwo\t!\n%s", longest);
	assert_true(wire_page_frame(&pg, 0, line, sizeof line));
	assert_string_equal(line, "one");
	assert_true(wire_page_frame(&pg, 1, line, sizeof line));
	assert_string_equal(line, "two?!");
	assert_true(wire_page_frame(&pg, 2, line, sizeof line));
	assert_int_equal(strlen(line), sizeof line - 1);
	assert_false(wire_page_frame(&pg, 3, line, sizeof line));
	memset(pg.octets + WIRE_PAGE_TRACE, 'y', WIRE_PAGE_TRACE_MAX); /* no end: that of its part */
	assert_true(wire_page_frame(&pg, 0, line, sizeof line));
	assert_false(wire_page_frame(&pg, WIRE_PAGE_FRAMES, line, sizeof line));

	assert_false(wire_page_avoids(&pg, "yyyy"));
	wire_page_avoid(&pg, 0, "relay");
	wire_page_avoid(&pg, WIRE_PAGE_AVOID_MAX - 1, longest);
	wire_page_avoid(&pg, WIRE_PAGE_AVOID_MAX, "beyond");
	assert_true(wire_page_avoids(&pg, "relay"));
	assert_false(wire_page_avoids(&pg, "rela"));
	assert_false(wire_page_avoids(&pg, "relays"));
	assert_false(wire_page_avoids(&pg, "beyond"));
	assert_false(wire_page_avoids(&pg, ""));
	wire_page_avoid(&pg, 0, "");
	assert_false(wire_page_avoids(&pg, "relay"));
	wire_page_avoid(&pg, 1, "*");
	assert_true(wire_page_avoids(&pg, "relay"));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(round_trip), cmocka_unit_test(does_not_fit),
		cmocka_unit_test(every_cut_is_refused), cmocka_unit_test(altered_is_refused),
		cmocka_unit_test(too_many_recipients), cmocka_unit_test(status_lines), cmocka_unit_test(page), cmocka_unit_test(status_refused) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
