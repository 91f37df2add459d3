/* An upgrade from the schema that is published ($PEPSI_MIGRATE_PUBLISHED: the frozen patches alone) to this program's, with mail in every state in the
 * queue: nothing of it changes, the books hold, and what waited can be worked on. */
#include "live.h"

#include "store/migrate.h"

#include <stdio.h>
#include <stdlib.h>

enum { PUBLISHED = 4, EACH = 200 };

/* All of the queue, as one short text. */
#define QUEUE \
	"SELECT count(*) || ' ' || md5(string_agg(concat_ws('|', id, stage, status, mail_from, rcpt_to, headers, timeout, state, body_id), ',' ORDER BY id)) FROM pepsi.workqueue"
#define BODIES "SELECT count(*) || ' ' || md5(string_agg(concat_ws('|', id, body), ',' ORDER BY id)) FROM pepsi.workqueue_body"

static void test_published(void **state)
{
	struct store_params p = { .conninfo = "", .role = "postgres", .name = "pepsi test" };
	static const char *const statuses[] = { "pending", "running", "paused", "failed", "timeout" };
	char err[600] = "", queue[200], bodies[200], sql[500];

	(void)state;
	unsetenv("PGUSER");
	unsetenv("PGDATABASE");
	setenv("PGUSER", "postgres", 1);
	assert_int_equal(system("\"$PEPSI_MIGRATE_PUBLISHED\" 2>/dev/null"), 0);
	assert_int_equal(live_sql_int("SELECT max(version) FROM pepsi.schema_version"), PUBLISHED);
	assert_true(migrate_version() > PUBLISHED);
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
		snprintf(sql, sizeof sql, "SELECT count(pepsi.workqueue_inject('out', 'a' || i || '@b', ARRAY['c' || i || '@d' || i %% 7, 'e@f'], 'H: x', "
			 "convert_to(repeat('body', i), 'UTF8'))) FROM generate_series(1, %d) i", EACH);
		assert_int_equal(live_sql_int(sql), EACH);
		snprintf(sql, sizeof sql, "WITH u AS (UPDATE pepsi.workqueue SET status = '%s', timeout = CASE WHEN '%s' = 'paused' THEN now() + '1 h' ELSE timeout END, "
			 "state = state || '{\"attempts\": 3}' WHERE id IN (SELECT id FROM pepsi.workqueue ORDER BY id DESC LIMIT %d) RETURNING 1) SELECT count(*) FROM u",
			statuses[i], statuses[i], EACH);
		assert_int_equal(live_sql_int(sql), EACH);
	}
	snprintf(queue, sizeof queue, "%s", live_sql(QUEUE));
	snprintf(bodies, sizeof bodies, "%s", live_sql(BODIES));
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue JOIN pepsi.workqueue_body b ON b.id = body_id"), 5 * EACH);

	if (migrate_run(&p, true, err, sizeof err) < 0)
		fail_msg("%s", err);
	assert_int_equal(live_sql_int("SELECT max(version) FROM pepsi.schema_version"), migrate_version());
	assert_string_equal(live_sql(QUEUE), queue);
	assert_string_equal(live_sql(BODIES), bodies);
	live_check_books();
	/* no index was left half made, and what waited, or was given up, is worked on */
	assert_int_equal(live_sql_int("SELECT count(*) FROM pg_index WHERE NOT indisvalid"), 0);
	assert_int_equal(live_sql_int("SELECT pepsi.workqueue_retry(array_agg(id)) FROM pepsi.workqueue"), 3 * EACH);
	assert_int_equal(live_sql_int("SELECT count(*) FROM pepsi.workqueue WHERE status = 'pending'"), 4 * EACH);
	live_check_books();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_published) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
