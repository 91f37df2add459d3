/* Who is owed a report: the whole table of RFC 3461's NOTIFY, outcome and next hop. */
#include "proto/dsn/notify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { FAIL = 1, LATE = 2, DONE = 4, SENT = 8, LIST = 16 }; /* failed, delayed, delivered, relayed, expanded */

static const struct {
	const char *notify;
	unsigned no_dsn, dsn; /* what is owed where the next hop offers no DSN, and where it does */
	const char *onward;   /* NOTIFY of an alias's addresses once it was told as expanded */
} table[] = {
	{ "", FAIL | LATE, FAIL | LATE, "" },
	{ "NEVER", 0, 0, "NEVER" },
	{ "SUCCESS", DONE | SENT | LIST, LIST, "NEVER" },
	{ "FAILURE", FAIL, FAIL, "FAILURE" },
	{ "DELAY", LATE, LATE, "DELAY" },
	{ "SUCCESS,FAILURE", FAIL | DONE | SENT | LIST, FAIL | LIST, "FAILURE" },
	{ "SUCCESS,DELAY", LATE | DONE | SENT | LIST, LATE | LIST, "DELAY" },
	{ "FAILURE,DELAY", FAIL | LATE, FAIL | LATE, "FAILURE,DELAY" },
	{ "SUCCESS,FAILURE,DELAY", FAIL | LATE | DONE | SENT | LIST, FAIL | LATE | LIST, "FAILURE,DELAY" },
	/* other spellings, and what a client cannot send but a state can hold */
	{ "delay,Failure", FAIL | LATE, FAIL | LATE, "FAILURE,DELAY" },
	{ "NEVER,FAILURE", FAIL, FAIL, "FAILURE" },
	{ "SOMETIMES", FAIL | LATE, FAIL | LATE, "" },
};

static void test_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		unsigned notify = dsn_notify(str_from(table[i].notify));
		for (int outcome = DSN_FAILED; outcome <= DSN_EXPANDED; outcome++)
			for (int hop = 0; hop < 2; hop++) {
				unsigned owed = hop ? table[i].dsn : table[i].no_dsn;
				if (dsn_owed(notify, (enum dsn_kind)outcome, hop, false) != !!(owed & 1u << outcome))
					print_error("NOTIFY=%s outcome %d hop %d\n", table[i].notify, outcome, hop);
				assert_int_equal(dsn_owed(notify, (enum dsn_kind)outcome, hop, false), !!(owed & 1u << outcome));
				assert_false(dsn_owed(notify, (enum dsn_kind)outcome, hop, true));
			}
		assert_string_equal(dsn_notify_text(dsn_notify_onward(notify, DSN_EXPANDED)), table[i].onward);
		for (int outcome = DSN_FAILED; outcome < DSN_EXPANDED; outcome++)
			assert_int_equal(dsn_notify_onward(notify, (enum dsn_kind)outcome), notify);
	}
}

static void test_text(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits < 16; bits += 2)
		assert_int_equal(dsn_notify(str_from(dsn_notify_text(bits))), bits);
	assert_int_equal(dsn_notify(str_from(dsn_notify_text(DSN_NOTIFY_NEVER))), DSN_NOTIFY_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_table), cmocka_unit_test(test_text) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
