/* The state object: what is refused before PostgreSQL has to, merging, paths, and dsn.rcpt beside the recipients. */
#include "proto/dsn/notify.h"
#include "worker/state.h"

#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void refused(void **st)
{
	(void)st;
	static const char *const bad[] = { "", "{", "[]", "1", "null", "{} {}", "{\"a\":1,}", "{\"a\":\"\\u0000\"}",
		"{\"a\":[{\"b\":\"x\\u0000\"}]}", "{\"a\":NaN}", "{\"a\":\"\xff\"}",
		"{\"a\":\"\xf7\x99\x86\x87\"}", "{\"a\":[{\"\xf7\x99\x86\x87\":1}]}", /* json-c lets these through */
		"{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}" };
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		const char *why = NULL;
		struct json_object *o = state_parse(str_from(bad[i]), &why);
		if (o)
			fail_msg("accepted: %s", bad[i]);
		assert_non_null(why);
	}
}

static void merging(void **st)
{
	(void)st;
	static const struct {
		const char *old, *more, *kept, *want;
	} cases[] = {
		{ "{\"a\":1}", "{\"b\":2}", "{\"b\":2}", "{\"a\":1,\"b\":2}" },
		{ "{\"a\":{\"x\":1}}", "{\"a\":{\"y\":2}}", "{\"a\":{\"y\":2}}", "{\"a\":{\"y\":2}}" },
		{ "{\"a\":1,\"b\":2}", "{\"a\":null}", "{\"a\":null}", "{\"b\":2}" },
		{ "{\"a\":\"/\xc3\xa4\"}", "{}", "{}", "{\"a\":\"/\xc3\xa4\"}" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *why;
		struct arena *a = arena_new(65536);
		struct json_object *o = state_parse(str_from(cases[i].old), &why), *m = state_parse(str_from(cases[i].more), &why);
		struct json_object *pending = json_object_new_object();
		assert_int_equal(state_merge(o, m, false), 0);
		assert_int_equal(state_merge(pending, m, true), 0);
		assert_string_equal(state_text(a, o).p, cases[i].want);
		assert_string_equal(state_text(a, pending).p, cases[i].kept);
		json_object_put(o);
		json_object_put(m);
		json_object_put(pending);
		arena_free(a);
	}
}

static void paths(void **st)
{
	(void)st;
	const char *why;
	struct json_object *o = state_parse(STR("{\"dsn\":{\"ret\":\"FULL\",\"rcpt\":[{\"notify\":\"success, Failure\"},{},{\"notify\":"
					     "[\"SUCCESS\"]}]},\"n\":null}"), &why);
	assert_string_equal(json_object_get_string(state_at(o, "dsn.ret")), "FULL");
	assert_string_equal(json_object_get_string(state_at(o, "dsn.rcpt.0.notify")), "success, Failure");
	static const char *const absent[] = { "x", "n", "dsn.rcpt.9.notify", "dsn.rcpt.x", "dsn.ret.x", "dsn.rcpt.1.notify" };
	for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
		assert_null(state_at(o, absent[i]));
	assert_int_equal(state_notify(o, 0), DSN_NOTIFY_SUCCESS | DSN_NOTIFY_FAILURE);
	assert_true(state_notify(o, 2) & DSN_NOTIFY_SUCCESS);
	assert_false(state_notify(o, 1) & DSN_NOTIFY_SUCCESS);
	assert_int_equal(state_notify(o, 99), 0);
	json_object_put(o);
}

static void dsn_follows(void **st)
{
	(void)st;
	const char *why;
	struct arena *a = arena_new(65536);
	struct str old[] = { STR_INIT("a@x"), STR_INIT("b@x"), STR_INIT("c@x") };
	struct str now[] = { STR_INIT("C@x"), STR_INIT("new@x"), STR_INIT("a@x") };
	struct json_object *o = state_parse(STR("{\"dsn\":{\"envid\":\"e\",\"rcpt\":[{\"o\":1},{\"o\":2},{\"o\":3}]}}"), &why);
	struct json_object *d = state_dsn_match(o, old, 3, now, 3);
	assert_string_equal(state_text(a, d).p, "{\"envid\":\"e\",\"rcpt\":[{\"o\":3},{},{\"o\":1}]}");
	/* the original is as it was */
	assert_int_equal(json_object_array_length(state_at(o, "dsn.rcpt")), 3);
	json_object_put(d);
	json_object_put(o);
	o = state_parse(STR("{\"dsn\":{\"envid\":\"e\"}}"), &why);
	assert_null(state_dsn_match(o, old, 3, now, 3));
	json_object_put(o);
	arena_free(a);
}

static void escaping(void **st)
{
	(void)st;
	struct arena *a = arena_new(65536);
	assert_string_equal(state_escape(a, STR("a\"\\\n\x7f\xc3\xa4"), 100), "a\\\"\\\\\\u000a\\u007f\xc3\xa4");
	assert_string_equal(state_escape(a, STR("\xff\xc3\xa4"), 100), "???");
	assert_string_equal(state_escape(a, STR("ab\xc3\xa4"), 3), "ab?");
	arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(refused), cmocka_unit_test(merging), cmocka_unit_test(paths),
		cmocka_unit_test(dsn_follows), cmocka_unit_test(escaping) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
