/* base: strings, buffers, arenas, maps, the log's escaping. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void test_str(void **state)
{
	struct str rest = STR("  one two\tthree "), word;
	uint64_t v = 7;
	(void)state;
	struct str parts = STR_INIT("ab\0\0c");
	assert_true(str_eq(str_next_z(&parts), STR("ab")) && str_next_z(&parts).n == 0 && str_eq(str_next_z(&parts), STR("c")) && str_next_z(&parts).n == 0);
	assert_true(str_eq(str_behind(STR("a@b@c"), '@'), STR("c")) && !str_behind(STR("abc"), '@').p && str_behind(STR("a@"), '@').n == 0);
	assert_true(str_ieq(STR("Example.ORG"), STR("eXAMPLE.org")));
	assert_false(str_ieq(STR("\xc3\x84"), STR("\xc3\xa4"))); /* octets above 127 are not folded */
	assert_true(str_iends(STR("a.example"), STR(".EXAMPLE")));
	assert_false(str_iends(STR("le"), STR(".example")));
	assert_true(str_word(&rest, " \t", &word) && str_eq(word, STR("one")));
	assert_true(str_word(&rest, " \t", &word) && str_eq(word, STR("two")));
	assert_true(str_word(&rest, " \t", &word) && str_eq(word, STR("three")));
	assert_false(str_word(&rest, " \t", &word));
	assert_int_equal(str_u64(STR("18446744073709551615"), UINT64_MAX, &v), 0);
	assert_true(v == UINT64_MAX);
	assert_int_equal(str_u64(STR("18446744073709551616"), UINT64_MAX, &v), -1);
	assert_int_equal(str_u64(STR("11"), 10, &v), -1);
	assert_int_equal(str_u64(STR("+1"), 10, &v), -1);
	assert_int_equal(str_u64(STR(""), 10, &v), -1);
	assert_int_equal(str_u64(STR(" 1"), 10, &v), -1);
	assert_true(v == UINT64_MAX);
	assert_true(str_eq(str_trim(STR(" \r\n x y\t")), STR("x y")));
	assert_int_equal(str_skip(STR("abc"), 9).n, 0);
	assert_true(str_eq_secret(STR("abc"), STR("abc")));
	assert_false(str_eq_secret(STR("abc"), STR("abd")));
}

static void test_utf8(void **state)
{
	static const struct {
		struct str s;
		bool ok;
	} cases[] = {
		{ STR_INIT("plain"), true },
		{ STR_INIT("\xc3\xa4"), true },
		{ STR_INIT("\xe2\x82\xac"), true },
		{ STR_INIT("\xf0\x9f\x98\x80"), true },
		{ STR_INIT("\xf4\x8f\xbf\xbf"), true },
		{ STR_INIT("\xf4\x90\x80\x80"), false }, /* above U+10FFFF */
		{ STR_INIT("\xed\xa0\x80"), false },     /* surrogate */
		{ STR_INIT("\xc0\x80"), false },         /* overlong */
		{ STR_INIT("\xe0\x9f\xbf"), false },
		{ STR_INIT("\xf0\x8f\xbf\xbf"), false },
		{ STR_INIT("\x80"), false },
		{ STR_INIT("\xc3"), false },
		{ STR_INIT("a\xe2\x82"), false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(str_is_utf8(cases[i].s), cases[i].ok);
}

/* Every cut of a text with characters of one to four octets leaves whole ones, and no fewer than must be. */
static void test_utf8_cut(void **state)
{
	struct str s = STR("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z"), bad = STR("\x80\x80\x80\x80\x80\x80");
	static const size_t left[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11 };
	(void)state;
	for (size_t max = 0; max < sizeof left / sizeof *left; max++) {
		assert_int_equal(str_utf8_cut(s, max), left[max]);
		assert_true(str_is_utf8(str_n(s.p, str_utf8_cut(s, max))));
	}
	assert_int_equal(str_utf8_cut(STR_NULL, 5), 0);
	assert_int_equal(str_utf8_cut(bad, 0), 0);
	assert_int_equal(str_utf8_cut(bad, 5), 5);
}

/* Letters, digits and hexadecimal digits are those of ASCII: each octet is asked. */
static void test_ascii(void **state)
{
	static const char digits[] = "0123456789abcdef";
	(void)state;
	for (int i = 0; i < 256; i++) {
		char c = (char)i, low = ascii_lower(c);
		const char *at = i ? memchr(digits, low, 16) : NULL;
		bool letter = i < 128 && isalpha(i), digit = i >= '0' && i <= '9';
		assert_int_equal(ascii_is_alpha(c), letter);
		assert_int_equal(ascii_is_digit(c), digit);
		assert_int_equal(ascii_is_alnum(c), letter || digit);
		assert_int_equal(ascii_hex(c), at ? at - digits : -1);
		assert_int_equal(ascii_is_hex(c), at != NULL);
	}
}

static void test_unhex(void **state)
{
	unsigned char out[3] = { 0 };
	(void)state;
	assert_int_equal(str_unhex(STR("00fFa9"), out, 3), 0);
	assert_memory_equal(out, "\x00\xff\xa9", 3);
	assert_int_equal(str_unhex(STR_NULL, out, 0), 0);
	assert_int_equal(str_unhex(STR("00ff"), out, 3), -1);
	assert_int_equal(str_unhex(STR("00ffa9a"), out, 3), -1);
	assert_int_equal(str_unhex(STR("00ffg9"), out, 3), -1);
	assert_int_equal(str_unhex(STR("00ff9 "), out, 3), -1);
	assert_int_equal(str_unhex(STR_NULL, out, 1), -1);
}

static void test_nearest(void **state)
{
	static const char *const names[] = { "NEXT_STAGE", "BOUNCE_STAGE", "PARALLELISM", "HOST" };
	(void)state;
	assert_string_equal(str_nearest(STR("NEXT_STAG"), names, 4), "NEXT_STAGE");
	assert_string_equal(str_nearest(STR("paralelism"), names, 4), "PARALLELISM");
	assert_string_equal(str_nearest(STR("HSOT"), names, 4), "HOST");
	assert_null(str_nearest(STR("ZEBRA"), names, 4));
	assert_int_equal(str_distance(STR("ab"), STR("ba")), 1);
}

static void test_buf(void **state)
{
	struct buf b = BUF_INIT(10);
	(void)state;
	assert_int_equal(buf_addz(&b, "12345"), 0);
	assert_int_equal(buf_addf(&b, "%d", 678), 0);
	assert_string_equal(buf_z(&b), "12345678");
	assert_int_equal(buf_addz(&b, "abc"), -1);
	assert_true(b.failed);
	assert_int_equal(buf_addc(&b, 'x'), -1); /* sticky */
	assert_string_equal(buf_z(&b), "12345678");
	buf_reset(&b);
	assert_int_equal(buf_addz(&b, "1234567890"), 0);
	buf_consume(&b, 4);
	assert_string_equal(buf_z(&b), "567890");
	buf_consume(&b, 99);
	assert_string_equal(buf_z(&b), "");
	buf_free(&b);
	assert_string_equal(buf_z(&b), "");
}

/* Formatting into the room there is, to the octet, and beyond it, and beyond the limit. */
static void test_buf_format(void **state)
{
	static const char text[] = "abcdefghijklmnopqrstuvwxyz";
	(void)state;
	for (size_t at = 230; at < 262; at++)
		for (size_t n = 0; n <= 26; n++) {
			struct buf b = BUF_INIT(280);
			for (size_t i = 0; i < at; i++)
				assert_int_equal(buf_addc(&b, '.'), 0);
			int r = buf_addf(&b, "%.*s", (int)n, text);
			assert_int_equal(r, at + n <= 280 ? 0 : -1);
			assert_int_equal(b.n, at + n <= 280 ? at + n : at);
			assert_int_equal(strlen(b.p), b.n);
			assert_memory_equal(b.p + at, text, b.n - at);
			buf_free(&b);
		}
	struct buf none = BUF_INIT(2);
	assert_int_equal(buf_addf(&none, "%s", "abc"), -1);
	assert_int_equal(buf_addf(&none, "%s", "a"), -1);
	buf_free(&none);
}

static void test_arena(void **state)
{
	struct arena *a = arena_new(100000);
	(void)state;
	assert_non_null(a);
	for (size_t i = 1; i < 3000; i += 37) {
		char *p = arena_alloc(a, i);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
		for (size_t j = 0; j < i; j++) {
			assert_int_equal(p[j], 0);
			p[j] = 'x';
		}
		if (i % 500 < 37)
			arena_reset(a);
	}
	assert_null(arena_alloc(a, 200000));
	assert_null(arena_alloc(a, SIZE_MAX));
	assert_null(arena_calloc(a, SIZE_MAX / 2, 4));
	assert_string_equal(arena_printf(a, "%s-%d", "x", 5), "x-5");
	arena_free(a);
	arena_free(NULL);
}

static void test_map(void **state)
{
	struct map m = { 0 };
	static int values[5000];
	size_t pos = 0, seen = 0;
	uint64_t key;
	(void)state;
	assert_null(map_get(&m, 1));
	assert_null(map_del(&m, 1));
	for (uint64_t round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < 5000; i++)
			assert_int_equal(map_put(&m, i * 977, &values[i]), 0);
		assert_int_equal(m.n, 5000);
		for (uint64_t i = 0; i < 5000; i += 2)
			assert_ptr_equal(map_del(&m, i * 977), &values[i]);
		for (uint64_t i = 0; i < 5000; i++)
			assert_ptr_equal(map_get(&m, i * 977), i % 2 ? &values[i] : NULL);
	}
	while (map_next(&m, &pos, &key)) {
		assert_int_equal(key % 977, 0);
		seen++;
	}
	assert_int_equal(seen, 2500);
	/* a map that lives long and stays small does not grow by its tombstones */
	size_t cap = m.cap;
	for (uint64_t i = 0; i < 200000; i++) {
		map_put(&m, 1000000000 + i, &values[0]);
		map_del(&m, 1000000000 + i);
	}
	assert_true(m.cap <= cap * 2);
	map_done(&m);
}

static void test_log_stays_one_line(void **state)
{
	int p[2], keep = dup(STDERR_FILENO);
	char line[4096];
	struct log_ctx outer, inner;
	(void)state;
	assert_int_equal(pipe(p), 0);
	dup2(p[1], STDERR_FILENO);
	log_ctx_set(&outer, NULL, "listener=mx");
	log_ctx_set(&inner, &outer, "id=12");
	log_info(&inner, "event=x from=%s raw=%s", log_q(STR("a\"b\r\n<2>evil\x7f\xc2\x9b[2J\xe2\x80\xae\xc3\xbc\xc2")), "one\ntwo");
	log_debug(NULL, "not at this level");
	dup2(keep, STDERR_FILENO);
	close(p[1]);
	ssize_t n = read(p[0], line, sizeof line - 1);
	assert_true(n > 0);
	line[n] = 0;
	assert_ptr_equal(strchr(line, '\n'), line + n - 1);
	assert_non_null(strstr(line, "listener=mx id=12 event=x from=\"a\\\"b\\x0d\\x0a<2>evil\\x7f\\xc2\\x9b[2J\\xe2\\x80\\xae\xc3\xbc\xc2\" raw=one\\x0atwo\n"));
	assert_null(strstr(line, "not at this"));
	close(p[0]);
	close(keep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_str),     cmocka_unit_test(test_utf8),  cmocka_unit_test(test_utf8_cut),
		cmocka_unit_test(test_nearest), cmocka_unit_test(test_ascii), cmocka_unit_test(test_unhex),
		cmocka_unit_test(test_buf), cmocka_unit_test(test_buf_format), cmocka_unit_test(test_arena), cmocka_unit_test(test_map),
		cmocka_unit_test(test_log_stays_one_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
