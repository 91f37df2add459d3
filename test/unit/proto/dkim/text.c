/* Tag lists, the forms of values, canonicalisation: tables. */
#include "base/buf.h"
#include "proto/dkim/canon.h"
#include "proto/dkim/tags.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void tag_lists(void **st)
{
	/* as name=value|…, or NULL: an error */
	static const struct {
		const char *text, *list;
	} c[] = {
		{ "a=b", "a=b|" },
		{ "a=b;", "a=b|" },
		{ " a = b ; ", "a=b|" },
		{ "a=b; c=d", "a=b|c=d|" },
		{ "a=", "a=|" },
		{ "a=;b=", "a=|b=|" },
		{ "a==b", "a==b|" },
		{ "a=b c", "a=b c|" },
		{ "a\r\n\t=\r\n b\r\n c \r\n ;\r\n d=e", "a=b\r\n c|d=e|" },
		{ "a_1=x", "a_1=x|" },
		{ "a=\xc3\xa4", "a=\xc3\xa4|" },
		{ "A=1; a=2", "A=1|a=2|" },
		{ "", NULL },
		{ "   ", NULL },
		{ ";", NULL },
		{ "a=b;;", NULL },
		{ "a=b;;c=d", NULL },
		{ "a", NULL },
		{ "a=b; c", NULL },
		{ "1a=b", NULL },
		{ "_=b", NULL },
		{ "a b=c", NULL },
		{ "a-b=c", NULL },
		{ "=b", NULL },
		{ "a=b; a=c", NULL },
		{ "a=b; c=d; a=b", NULL },
		{ "a=b\001", NULL },
		{ "a=b\177", NULL },
		{ "a=b\n c", NULL },
		{ "a=b\rc", NULL },
		{ "a=b\r\nc=d", NULL },
		{ "a=\xff", NULL },
	};
	(void)st;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		struct dkim_tags t;
		struct buf b = BUF_INIT(1000);
		const char *why = NULL;
		int r = dkim_tags_parse(str_from(c[i].text), &t, &why);
		for (size_t k = 0; !r && k < t.n; k++)
			buf_addf(&b, "%.*s=%.*s|", STR_ARG(t.tag[k].name), STR_ARG(t.tag[k].value));
		if (!c[i].list ? !r || !why : r || strcmp(buf_z(&b), c[i].list) != 0)
			fail_msg("%s: %d %s", c[i].text, r, buf_z(&b));
		buf_free(&b);
	}
	struct buf many = BUF_INIT(1 << 20);
	struct dkim_tags t;
	const char *why;
	for (int i = 0; i < DKIM_TAGS_MAX; i++)
		buf_addf(&many, "t%d=x;", i);
	assert_int_equal(dkim_tags_parse(buf_str(&many), &t, &why), 0);
	buf_addz(&many, "more=x");
	assert_int_equal(dkim_tags_parse(buf_str(&many), &t, &why), -1);
	buf_free(&many);
	/* what is cut out: all between "=" and ";" */
	struct str s = STR("v=1; b = a b ; c=d");
	assert_int_equal(dkim_tags_parse(s, &t, &why), 0);
	const struct dkim_tag *tag = dkim_tags_get(&t, "b");
	assert_non_null(tag);
	assert_int_equal(tag->begin, 8);
	assert_int_equal(tag->end, 13);
	assert_null(dkim_tags_get(&t, "B"));
}

static void values(void **st)
{
	static const struct {
		const char *text;
		long n;
		const char *octets;
	} b64[] = {
		{ "", 0, "" }, { "YQ==", 1, "a" }, { "YQ", 1, "a" }, { "YWI=", 2, "ab" }, { "YWI", 2, "ab" }, { "YWJj", 3, "abc" },
		{ "Y W\r\n\tJ j", 3, "abc" }, { "YWI =", 2, "ab" }, { "YWJjZA = =", 4, "abcd" }, { "YWJjY", -1, "" }, { "Y", -1, "" },
		{ "YQ=", -1, "" }, { "YWI==", -1, "" }, { "YWJj=", -1, "" }, { "YQ==YQ==", -1, "" }, { "Y_Q=", -1, "" }, { "YQ===", -1, "" },
		{ "YWJjZGVmZ2hp", -1, "" }, /* longer than the room */
	};
	static const struct {
		const char *text, *out;
	} qp[] = { { "abc", "abc" }, { "a=40b", "a@b" }, { "=6Along@x", "jlong@x" }, { "a b\r\n c", "abc" }, { "a=4", NULL }, { "a=", NULL },
		{ "a=4g", NULL }, { "=2eX", ".X" } };
	static const struct {
		const char *text;
		int r;
		uint64_t n;
	} num[] = { { "0", 0, 0 }, { "1", 0, 1 }, { "999999999999", 0, 999999999999 }, { "1000000000000", 0, UINT64_MAX },
		{ "99999999999999999999999999999999", 0, UINT64_MAX }, { "000000000000000000000000000000001", 0, 1 }, { "", -1, 0 }, { "-1", -1, 0 },
		{ "1 2", -1, 0 }, { "0x1", -1, 0 }, { "12345678901234567890123456789012345678901234567890123456789012345678901234567", -1, 0 } };
	(void)st;
	for (size_t i = 0; i < sizeof b64 / sizeof *b64; i++) {
		unsigned char out[8];
		long n = dkim_base64(str_from(b64[i].text), out, sizeof out);
		if (n != b64[i].n || (n > 0 && memcmp(out, b64[i].octets, (size_t)n) != 0))
			fail_msg("%s: %ld", b64[i].text, n);
	}
	for (size_t i = 0; i < sizeof qp / sizeof *qp; i++) {
		char out[100];
		long n = dkim_unquote(str_from(qp[i].text), out);
		if (qp[i].out ? n != (long)strlen(qp[i].out) || memcmp(out, qp[i].out, (size_t)n) != 0 : n != -1)
			fail_msg("%s: %ld", qp[i].text, n);
	}
	for (size_t i = 0; i < sizeof num / sizeof *num; i++) {
		uint64_t v = 0;
		int r = dkim_number(str_from(num[i].text), &v);
		if (r != num[i].r || (!r && v != num[i].n))
			fail_msg("%s", num[i].text);
	}
	assert_true(dkim_tags_lists(STR("y : s"), STR("s")));
	assert_true(dkim_tags_lists(STR("y:\r\n s"), STR("s")));
	assert_false(dkim_tags_lists(STR("y:ss"), STR("s")));
	assert_true(dkim_tags_lists(STR(""), STR("")));
}

static void to_buf(void *arg, const char *p, size_t n)
{
	buf_add(arg, p, n);
}

static void bodies(void **st)
{
	static const struct {
		const char *in, *simple, *relaxed;
	} c[] = {
		{ "", "\r\n", "" },
		{ "\r\n", "\r\n", "" },
		{ "\r\n\r\n\r\n", "\r\n", "" },
		{ " \r\n\t\r\n", " \r\n\t\r\n", "" },
		{ "  ", "  \r\n", "" },
		{ "a", "a\r\n", "a\r\n" },
		{ "a\r\n", "a\r\n", "a\r\n" },
		{ "a\r\n\r\n", "a\r\n", "a\r\n" },
		{ "a \r\n \r\n", "a \r\n \r\n", "a\r\n" },
		{ " a\t b \r\n", " a\t b \r\n", " a b\r\n" },
		{ "\r\n\r\na", "\r\n\r\na\r\n", "\r\n\r\na\r\n" },
		{ " C \r\nD \t E\r\n\r\n\r\n", " C \r\nD \t E\r\n", " C\r\nD E\r\n" },
		{ "a\r", "a\r\r\n", "a\r\r\n" },
		{ "a\rb\r\n", "a\rb\r\n", "a\rb\r\n" },
		{ "a\r\r\n", "a\r\r\n", "a\r\r\n" },
		{ "a \r\r\n", "a \r\r\n", "a \r\r\n" },
		{ "a\nb", "a\nb\r\n", "a\nb\r\n" },
		{ "\n", "\n\r\n", "\n\r\n" },
		{ "a  ", "a  \r\n", "a\r\n" },
		{ "a\r\n ", "a\r\n \r\n", "a\r\n" },
		{ "a\r\n b", "a\r\n b\r\n", "a\r\n b\r\n" },
	};
	(void)st;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++)
		for (size_t piece = 1; piece < 5; piece++)
			for (int relaxed = 0; relaxed < 2; relaxed++) {
				struct buf b = BUF_INIT(1000);
				struct dkim_canon_body cb = { .canon = relaxed ? DKIM_RELAXED : DKIM_SIMPLE,
					.out = { .sink = to_buf, .arg = &b } };
				size_t n = strlen(c[i].in);
				for (size_t k = 0; k < n; k += piece)
					dkim_canon_body_add(&cb, c[i].in + k, piece < n - k ? piece : n - k);
				dkim_canon_body_end(&cb);
				if (strcmp(buf_z(&b), relaxed ? c[i].relaxed : c[i].simple) != 0)
					fail_msg("body %zu relaxed %d by %zu: \"%s\"", i, relaxed, piece, buf_z(&b));
				buf_free(&b);
			}
}

static void fields(void **st)
{
	static const struct {
		const char *in, *simple, *relaxed;
		size_t cut, cut_end;
		bool own;
	} c[] = {
		{ "A: X\r\n", "A: X\r\n", "a:X\r\n", 0, 0, false },
		{ "B : Y\t\r\n\tZ  \r\n", "B : Y\t\r\n\tZ  \r\n", "b:Y Z\r\n", 0, 0, false },
		{ "A:\r\n", "A:\r\n", "a:\r\n", 0, 0, false },
		{ "A: \r\n \r\n", "A: \r\n \r\n", "a:\r\n", 0, 0, false },
		{ "A:b:c", "A:b:c\r\n", "a:b:c\r\n", 0, 0, false },
		{ "A: b=xy; c\r\n", "A: b=; c", "a:b=; c", 5, 7, true },
		{ "A: c; b=x\r\n y\r\n", "A: c; b=", "a:c; b=", 8, 13, true },
		{ "Subject: \xc3\x84  b\r\n", "Subject: \xc3\x84  b\r\n", "subject:\xc3\x84 b\r\n", 0, 0, false },
	};
	(void)st;
	for (size_t i = 0; i < sizeof c / sizeof *c; i++)
		for (int relaxed = 0; relaxed < 2; relaxed++) {
			struct buf b = BUF_INIT(1000);
			struct dkim_out o = { .sink = to_buf, .arg = &b };
			dkim_canon_field(relaxed ? DKIM_RELAXED : DKIM_SIMPLE, str_from(c[i].in), c[i].cut, c[i].cut_end, c[i].own, &o);
			dkim_out_flush(&o);
			if (strcmp(buf_z(&b), relaxed ? c[i].relaxed : c[i].simple) != 0)
				fail_msg("field %zu relaxed %d: \"%s\"", i, relaxed, buf_z(&b));
			buf_free(&b);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tag_lists),
		cmocka_unit_test(values),
		cmocka_unit_test(bodies),
		cmocka_unit_test(fields),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
