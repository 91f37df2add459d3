/* An upgrade in place: a database made by today's program ($PEPSI_MIGRATE) is brought forward by a program that has one patch
 * more (this one is linked with patch-next.sql), mail in it stays, and today's program then refuses it. */
#include "live.h"

#include "store/migrate.h"

#include <stdio.h>
#include <stdlib.h>

static void test_upgrade(void **state)
{
	struct store_params p = { .conninfo = "", .role = "postgres", .name = "pepsi test" };
	char err[600] = "", refused[8192];
	size_t n;
	FILE *f;

	(void)state;
	unsetenv("PGUSER");
	unsetenv("PGDATABASE");
	setenv("PGUSER", "postgres", 1);
	assert_int_equal(system("\"$PEPSI_MIGRATE\" 2>/dev/null"), 0);
	live_sql("SELECT pepsi.workqueue_inject('init', 'a@b', '{c@d}', 'H: x', 'body')");
	assert_int_equal(live_sql_int("SELECT max(version) FROM pepsi.schema_version"), migrate_version() - 1);
	if (migrate_run(&p, true, err, sizeof(err)) < 0)
		fail_msg("%s", err);
	assert_int_equal(live_sql_int("SELECT max(version) FROM pepsi.schema_version"), migrate_version());
	assert_string_equal(live_sql("SELECT colour || mail_from FROM pepsi.workqueue"), "greya@b");
	assert_string_equal(live_sql("SELECT to_regclass('pepsi.later')"), "pepsi.later");
	live_check_books();
	assert_int_equal(migrate_run(&p, true, err, sizeof(err)), 0);

	f = popen("\"$PEPSI_MIGRATE\" 2>&1", "r");
	assert_non_null(f);
	n = fread(refused, 1, sizeof(refused) - 1, f);
	refused[n] = '\0';
	assert_int_not_equal(pclose(f), 0);
	assert_non_null(strstr(refused, "used by a newer release"));
	assert_string_equal(live_sql("SELECT colour || mail_from FROM pepsi.workqueue"), "greya@b");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_upgrade) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
