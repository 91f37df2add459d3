/* Binary parameters and the reading of text arrays: exact octets, limits, every cut of an array. */
#include "store/params.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void expect(struct params *p, unsigned i, const void *octets, int n)
{
	struct params_libpq q;

	assert_true(params_get(p, &q));
	assert_int_equal(q.lengths[i], n);
	assert_int_equal(q.formats[i], 1);
	assert_non_null(q.values[i]);
	assert_memory_equal(q.values[i], octets, (size_t)n);
}

static void test_scalars(void **state)
{
	struct params_libpq q;
	struct params p;

	(void)state;
	params_init(&p);
	assert_true(params_get(&p, &q));
	params_bool(&p, true);
	params_int4(&p, -2);
	params_int8(&p, 0x0102030405060708);
	params_time(&p, INT64_C(946684800000001)); /* a microsecond after 2000-01-01 */
	params_octets(&p, str_n("a\0b", 3));
	params_octets(&p, STR_NULL);
	params_text(&p, NULL);
	params_text(&p, "");
	expect(&p, 0, "\1", 1);
	expect(&p, 1, "\xff\xff\xff\xfe", 4);
	expect(&p, 2, "\1\2\3\4\5\6\7\10", 8);
	expect(&p, 3, "\0\0\0\0\0\0\0\1", 8);
	expect(&p, 4, "a\0b", 3);
	expect(&p, 5, "", 0);
	expect(&p, 7, "", 0);
	assert_true(params_get(&p, &q));
	assert_null(q.values[6]);
	params_free(&p);
}

/* Referred values are not copied, and stand between copied ones. */
static void test_refs(void **state)
{
	static const char large[] = "not copied";
	struct params_libpq q;
	struct params p;

	(void)state;
	params_init(&p);
	params_int4(&p, 1);
	params_octets_ref(&p, str_n(large, 10));
	params_octets_ref(&p, STR_NULL);
	params_text(&p, "x");
	expect(&p, 0, "\0\0\0\1", 4);
	expect(&p, 1, large, 10);
	expect(&p, 2, "", 0);
	expect(&p, 3, "x", 1);
	assert_true(params_get(&p, &q));
	assert_ptr_equal(q.values[1], large);
	assert_int_equal(p.referred, 10);
	params_octets_ref(&p, str_n(large, (size_t)PARAMS_OCTETS + 1)); /* refused before it is looked at */
	assert_false(params_get(&p, &q));
	params_free(&p);
}

static void test_arrays(void **state)
{
	static const char texts[] = "\0\0\0\1\0\0\0\0\0\0\0\x19\0\0\0\2\0\0\0\1\0\0\0\1x\0\0\0\0";
	static const char nulls[] = "\0\0\0\1\0\0\0\1\0\0\0\x19\0\0\0\2\0\0\0\1\xff\xff\xff\xff\0\0\0\1y";
	static const char empty[] = "\0\0\0\1\0\0\0\0\0\0\0\x14\0\0\0\0\0\0\0\1";
	struct str v[] = { STR_INIT("x"), { NULL, 0 } };
	struct params p;

	(void)state;
	params_init(&p);
	params_int4(&p, 7); /* so that the array does not begin at 0 */
	params_texts(&p, v, 2);
	params_array(&p, PARAMS_TEXT);
	params_el_null(&p);
	params_el_octets(&p, STR("y"));
	params_array_end(&p);
	params_int8s(&p, NULL, 0);
	expect(&p, 1, texts, sizeof(texts) - 1);
	expect(&p, 2, nulls, sizeof(nulls) - 1);
	expect(&p, 3, empty, sizeof(empty) - 1);
	params_free(&p);
}

static void test_limits(void **state)
{
	struct params_libpq q;
	struct params p;

	(void)state;
	params_init(&p);
	for (int i = 0; i < PARAMS_MAX; i++)
		params_int4(&p, i);
	assert_true(params_get(&p, &q));
	params_int4(&p, 0); /* one too many: refused, remembered */
	assert_false(params_get(&p, &q));
	params_free(&p);
	params_init(&p);
	p.b.max = 30;
	params_int8(&p, 1);
	params_octets(&p, STR("0123456789012345678901234567890"));
	assert_false(params_get(&p, &q));
	params_free(&p);
	params_init(&p);
	p.b.max = 40;
	params_array(&p, PARAMS_INT8);
	for (int i = 0; i < 10; i++)
		params_el_int8(&p, i);
	params_el_null(&p);
	params_array_end(&p);
	assert_false(params_get(&p, &q));
	params_free(&p);
}

/* Read back what was written; every cut of it is an error or an end, never an overrun (ASan watches). */
static void test_read_texts(void **state)
{
	struct str v[] = { STR_INIT("first"), STR_INIT(""), STR_INIT("th\0ird") }, rest, one;
	struct params_libpq q;
	struct params p;

	(void)state;
	params_init(&p);
	params_texts(&p, v, 3);
	assert_true(params_get(&p, &q));
	assert_int_equal(result_texts_begin(str_n(q.values[0], (size_t)q.lengths[0]), &rest), 3);
	for (int i = 0; i < 3; i++) {
		assert_true(result_texts_next(&rest, &one));
		assert_true(str_eq(one, v[i]));
	}
	assert_false(result_texts_next(&rest, &one));
	for (size_t cut = 0; cut < (size_t)q.lengths[0]; cut++) {
		char *copy = malloc(cut + 1);
		ptrdiff_t n;
		unsigned got = 0;

		memcpy(copy, q.values[0], cut);
		n = result_texts_begin(str_n(copy, cut), &rest);
		if (n >= 0)
			while (result_texts_next(&rest, &one))
				got++;
		assert_true(n < 0 || got < 3);
		free(copy);
	}
	/* A count that cannot be, two dimensions, NULLs inside. */
	assert_int_equal(result_texts_begin(str_n("\0\0\0\1\0\0\0\0\0\0\0\x19\x7f\0\0\0\0\0\0\1", 20), &rest), -1);
	assert_int_equal(result_texts_begin(str_n("\0\0\0\2\0\0\0\0\0\0\0\x19", 12), &rest), -1);
	assert_int_equal(result_texts_begin(str_n("\0\0\0\1\0\0\0\1\0\0\0\x19\0\0\0\1\0\0\0\1\xff\xff\xff\xff", 24), &rest), -1);
	assert_int_equal(result_texts_begin(str_n("\0\0\0\0\0\0\0\0\0\0\0\x19", 12), &rest), 0);
	params_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_scalars), cmocka_unit_test(test_refs), cmocka_unit_test(test_arrays), cmocka_unit_test(test_limits),
		cmocka_unit_test(test_read_texts) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
