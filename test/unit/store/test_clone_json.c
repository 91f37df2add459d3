/* The JSON of clones, read back with another parser. */
#include "store/worker_internal.h"

#include <pepsi/stage.h>

#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_round_trip(void **state)
{
	const struct str rcpts[] = { STR_INIT("a\"b\\c\x01\n@x"), STR_INIT("\xc3\xa9@y") }, from = STR_INIT("");
	const uint32_t idx[] = { 0, 4294967295u, 7 };
	struct store_clone c[] = {
		{ .stage = "b\"s", .status = PEPSI_CLONE_FAILED, .indices = idx, .n = 3, .state = "{\"x\":[1]}", .mail_from = &from, .token = "t1" },
		{ .stage = "s", .status = PEPSI_CLONE_RETRY, .retry_s = 4000000000u, .fresh_rcpts = true, .rcpts = rcpts, .n = 2, .token = "0123456789abcdef0123456789abcdef" },
	};
	struct buf b = BUF_INIT(10000);
	struct json_object *a, *o;

	(void)state;
	assert_int_equal(clone_json(&b, c, 2), 0);
	a = json_tokener_parse(buf_z(&b));
	assert_non_null(a);
	assert_int_equal(json_object_array_length(a), 2);
	o = json_object_array_get_idx(a, 0);
	assert_string_equal(json_object_get_string(json_object_object_get(o, "stage")), "b\"s");
	assert_string_equal(json_object_get_string(json_object_object_get(o, "status")), "failed");
	assert_string_equal(json_object_get_string(json_object_object_get(o, "mail_from")), "");
	assert_string_equal(json_object_to_json_string_ext(json_object_object_get(o, "indices"), JSON_C_TO_STRING_PLAIN), "[0,4294967295,7]");
	assert_string_equal(json_object_to_json_string_ext(json_object_object_get(o, "state"), JSON_C_TO_STRING_PLAIN), "{\"x\":[1]}");
	assert_null(json_object_object_get(o, "rcpts"));
	o = json_object_array_get_idx(a, 1);
	assert_int_equal(json_object_get_int64(json_object_object_get(o, "retry_s")), INT32_MAX);
	assert_string_equal(json_object_get_string(json_object_object_get(o, "token")), "0123456789abcdef0123456789abcdef");
	for (size_t i = 0; i < 2; i++)
		assert_string_equal(json_object_get_string(json_object_array_get_idx(json_object_object_get(o, "rcpts"), i)), rcpts[i].p);
	assert_null(json_object_object_get(o, "indices"));
	json_object_put(a);
	buf_reset(&b);
	assert_int_equal(clone_json(&b, NULL, 0), 0);
	assert_string_equal(buf_z(&b), "[]");
	buf_free(&b);
	/* Each limit short of the whole is an error, never a cut text taken for one. */
	for (size_t max = 1; max < 150; max += 7) {
		struct buf small = BUF_INIT(max);

		assert_int_equal(clone_json(&small, c, 2), -1);
		buf_free(&small);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_round_trip) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
