/* Error classes, one-line texts, connection words. */
#include "store/connect.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_rc(void **state)
{
	static const struct {
		const char *sqlstate;
		enum store_rc rc;
		bool lost;
	} cases[] = {
		{ NULL, STORE_AWAY, false }, { "", STORE_AWAY, false }, { "57P01", STORE_AWAY, true }, { "57P02", STORE_AWAY, true },
		{ "57P03", STORE_AWAY, true }, { "08006", STORE_AWAY, false }, { "25006", STORE_AWAY, true }, { "40001", STORE_RETRY, false },
		{ "40P01", STORE_RETRY, false }, { "26000", STORE_RETRY, true }, { "0A000", STORE_RETRY, true }, { "57014", STORE_RETRY, false },
		{ "55P03", STORE_RETRY, false }, { "53100", STORE_FULL, false }, { "53200", STORE_FULL, false }, { "53300", STORE_FULL, false },
		{ "58030", STORE_FULL, false }, { "XX001", STORE_FULL, false }, { "23505", STORE_REFUSED, false }, { "42501", STORE_REFUSED, false },
		{ "22021", STORE_REFUSED, false }, { "5", STORE_REFUSED, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(connect_rc(cases[i].sqlstate), cases[i].rc);
		assert_int_equal(connect_rc_session_lost(cases[i].sqlstate), cases[i].lost);
	}
}

static void test_one_line(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = { { NULL, "" }, { "", "" }, { "a\n\tb \n", "a b" }, { "\n\n", "" }, { "x\x7fy\x01", "x y" }, { "123456789abcdef", "123456789" },
		{ "12345678 \n9", "12345678" } };
	char out[10];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		connect_one_line(out, sizeof(out), cases[i].in);
		assert_string_equal(out, cases[i].out);
	}
}

/* The conninfo may name a user (then role is only the default), never another application name. */
static void test_words(void **state)
{
	struct store_params p = { .conninfo = "host=/x user=else", .role = "pepsi", .name = "pepsi dispatch" };
	struct connect_words w;
	int user = -1, dbname = -1, name = -1, n = 0;

	(void)state;
	connect_words_set(&w, &p, "other");
	for (; w.keys[n]; n++) {
		if (!strcmp(w.keys[n], "user"))
			user = n;
		if (!strcmp(w.keys[n], "dbname") && dbname < 0)
			dbname = n;
		if (!strcmp(w.keys[n], "application_name"))
			name = n;
	}
	assert_true(n < 16);
	assert_true(user >= 0 && user < dbname && dbname < name);
	assert_string_equal(w.values[dbname + 1], "other");
	p = (struct store_params){ .conninfo = "" };
	connect_words_set(&w, &p, NULL);
	for (n = 0; w.keys[n]; n++)
		assert_string_not_equal(w.keys[n], "dbname");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_rc), cmocka_unit_test(test_one_line), cmocka_unit_test(test_words) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
