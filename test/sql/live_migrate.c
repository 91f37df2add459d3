/* The migration against a real server: made, made again, brought forward, refused; two at once; a server that may not be
 * trusted; a database where roles cannot be made. */
#include "live.h"

#include "store/migrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int migrate(const char *conninfo, const char *role, bool embedded, char *err)
{
	struct store_params p = { .conninfo = conninfo, .role = role, .name = "pepsi test" };

	err[0] = '\0';
	return migrate_run(&p, embedded, err, 600);
}

/* Everything that makes the schema what it is, as one text. */
static const char *shape(void)
{
	return live_sql("SELECT md5(string_agg(x, E'\\n' ORDER BY x)) FROM ("
		"SELECT 'f ' || p.oid::regprocedure || pg_get_functiondef(p.oid) || coalesce(p.proacl::text, '') FROM pg_proc p WHERE pronamespace = 'pepsi'::regnamespace"
		" UNION ALL SELECT 't ' || pg_get_triggerdef(t.oid) FROM pg_trigger t WHERE NOT tgisinternal"
		" UNION ALL SELECT 'c ' || c.oid::regclass || coalesce(c.relacl::text, '') || c.relowner::regrole FROM pg_class c WHERE relnamespace = 'pepsi'::regnamespace"
		" UNION ALL SELECT 'a ' || attrelid::regclass || attname || coalesce(attacl::text, '') FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid WHERE relnamespace = 'pepsi'::regnamespace AND attnum > 0) s(x)");
}

static void test_idempotent(void **state)
{
	char err[600], first[64];

	(void)state;
	snprintf(first, sizeof(first), "%s", shape());
	assert_int_equal(strlen(first), 32);
	for (int i = 0; i < 2; i++) {
		if (migrate("", "postgres", true, err) < 0)
			fail_msg("%s", err);
		assert_string_equal(shape(), first);
	}
	assert_int_equal(live_sql_int("SELECT max(version) FROM pepsi.schema_version"), migrate_version());
	assert_string_equal(live_sql("SELECT string_agg(DISTINCT pg_get_userbyid(relowner), ',') FROM pg_class WHERE relnamespace = 'pepsi'::regnamespace"), "pepsi-owner");
	assert_string_equal(live_sql("SELECT rolsuper::text || rolcanlogin FROM pg_roles WHERE rolname = 'pepsi-owner'"), "falsefalse");
}

/* What somebody granted by hand is taken away, and a function that somebody replaced is put right. */
static void test_put_right(void **state)
{
	char err[600], first[64];

	(void)state;
	snprintf(first, sizeof(first), "%s", shape());
	live_sql("GRANT ALL ON pepsi.workqueue TO PUBLIC; GRANT INSERT ON pepsi.config_override TO pepsi; GRANT UPDATE ON pepsi.flow_stats TO \"pepsi-ingress\";"
		 "CREATE OR REPLACE FUNCTION pepsi.iso(p timestamptz) RETURNS text LANGUAGE sql AS 'SELECT ''no''::text';"
		 "CREATE FUNCTION pepsi.stray() RETURNS int LANGUAGE sql AS 'SELECT 1'; DROP TRIGGER workqueue_count_insert ON pepsi.workqueue");
	assert_string_not_equal(shape(), first);
	assert_int_equal(migrate("", "postgres", true, err), 0);
	assert_string_equal(shape(), first);
}

static void test_newer(void **state)
{
	char err[600];

	(void)state;
	live_sql("INSERT INTO pepsi.schema_version (version, name, digest) VALUES (999, 'pepsi-0999.sql', '')");
	assert_int_equal(migrate("", "postgres", true, err), -1);
	assert_non_null(strstr(err, "999"));
	assert_non_null(strstr(err, "newer"));
	live_sql("DELETE FROM pepsi.schema_version WHERE version = 999");
	assert_int_equal(migrate("", "postgres", true, err), 0);
}

/* A database that another program of ours left half a version behind: rows stay, the patch is booked. Version 0: a schema without
 * anything in it is brought to the present. */
static void test_in_place(void **state)
{
	char err[600];

	(void)state;
	live_sql("DROP DATABASE IF EXISTS behind");
	live_sql("CREATE DATABASE behind");
	assert_int_equal(migrate("dbname=behind", "postgres", false, err), 0);
	PGconn *pg = PQconnectdb("dbname=behind user=postgres");
	PGresult *res = PQexec(pg, "INSERT INTO pepsi.workqueue_body VALUES (1, 'b'); INSERT INTO pepsi.workqueue (id, body_id, stage, mail_from, rcpt_to, headers)"
		" VALUES (1, 1, 'init', '', '{a}', 'h'); DROP FUNCTION pepsi.workqueue_finish; SELECT 1");
	assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
	PQclear(res);
	assert_int_equal(migrate("dbname=behind", "postgres", false, err), 0);
	res = PQexec(pg, "SELECT pepsi.workqueue_set_stage('{1}', 'x'), (SELECT stage FROM pepsi.workqueue)");
	assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
	assert_string_equal(PQgetvalue(res, 0, 0), "1");
	PQclear(res);
	res = PQexec(pg, "UPDATE pepsi.workqueue SET status = 'running'; SELECT pepsi.workqueue_finish('{1}', 'delivered')");
	assert_string_equal(PQgetvalue(res, 0, 0), "1");
	PQclear(res);
	PQfinish(pg);
	live_sql("DROP DATABASE behind");
}

/* An error in the middle leaves nothing behind. */
static void test_all_or_nothing(void **state)
{
	char err[600];

	(void)state;
	live_sql("CREATE DATABASE half");
	PGconn *pg = PQconnectdb("dbname=half user=postgres");
	PQclear(PQexec(pg, "CREATE SCHEMA pepsi; CREATE TABLE pepsi.stage_stats (x int)")); /* somebody else's */
	assert_int_equal(migrate("dbname=half", "postgres", false, err), -1);
	assert_non_null(strstr(err, "pepsi-0001.sql"));
	PGresult *res = PQexec(pg, "SELECT string_agg(relname, ',') FROM pg_class WHERE relnamespace = 'pepsi'::regnamespace");
	assert_string_equal(PQgetvalue(res, 0, 0), "stage_stats");
	PQclear(res);
	PQfinish(pg);
	live_sql("DROP DATABASE half");
}

static void test_two_at_once(void **state)
{
	pid_t pids[3];

	(void)state;
	live_sql("CREATE DATABASE twins");
	for (int i = 0; i < 3; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			char err[600];

			_exit(migrate("dbname=twins", "postgres", false, err) == 0 ? 0 : 1);
		}
	}
	for (int i = 0; i < 3; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	live_sql("DROP DATABASE twins");
}

/* A server where we may make a schema but no roles. */
static void test_without_createrole(void **state)
{
	char err[600];

	(void)state;
	live_sql("CREATE ROLE plain LOGIN");
	live_sql("CREATE DATABASE plainly OWNER plain");
	assert_int_equal(migrate("dbname=plainly", "plain", false, err), 0);
	/* and one whose only role is ours: it owns the schema and keeps its rights */
	live_sql("CREATE DATABASE ours OWNER pepsi");
	assert_int_equal(migrate("dbname=ours", "pepsi", false, err), 0);
	assert_int_equal(migrate("dbname=ours", "pepsi", false, err), 0);
	PGconn *pg = PQconnectdb("dbname=ours user=pepsi");
	PGresult *res = PQexec(pg, "SELECT pepsi.workqueue_inject('init', '', '{a@b}', 'h', 'b')");
	assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
	PQclear(res);
	PQfinish(pg);
	live_sql("DROP DATABASE ours");
	live_sql("DROP DATABASE plainly");
	live_sql("DROP ROLE plain");
	/* no right to make a schema: a clear error */
	live_sql("CREATE ROLE guest LOGIN");
	live_sql("CREATE DATABASE closed");
	assert_int_equal(migrate("dbname=closed", "guest", false, err), -1);
	assert_non_null(strstr(err, "permission denied"));
	live_sql("DROP DATABASE closed");
	live_sql("DROP ROLE guest");
}

static void test_untrusted_server(void **state)
{
	static const char *const settings[] = { "fsync", "full_page_writes" };
	char err[600], sql[200];

	(void)state;
	for (int i = 0; i < 2; i++) {
		snprintf(sql, sizeof(sql), "ALTER SYSTEM SET %s = off", settings[i]);
		live_sql(sql);
		live_sql("SELECT pg_reload_conf(), pg_sleep(0.2)");
		assert_int_equal(migrate("", "postgres", true, err), -1);
		assert_non_null(strstr(err, settings[i]));
		snprintf(sql, sizeof(sql), "ALTER SYSTEM RESET %s", settings[i]);
		live_sql(sql);
		live_sql("SELECT pg_reload_conf(), pg_sleep(0.2)");
	}
	assert_int_equal(migrate("", "postgres", true, err), 0);
	live_sql("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
	assert_int_equal(migrate("dbname=latin", "postgres", false, err), -1);
	assert_non_null(strstr(err, "UTF8"));
	live_sql("DROP DATABASE latin");
	assert_int_equal(migrate("host=/nonexistent", "postgres", true, err), -1);
	assert_non_null(strstr(err, "/nonexistent"));
	assert_null(strchr(err, '\n'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_idempotent), cmocka_unit_test(test_put_right), cmocka_unit_test(test_newer), cmocka_unit_test(test_in_place),
		cmocka_unit_test(test_all_or_nothing), cmocka_unit_test(test_two_at_once), cmocka_unit_test(test_without_createrole),
		cmocka_unit_test(test_untrusted_server),
	};

	return cmocka_run_group_tests(tests, live_setup, live_teardown);
}
