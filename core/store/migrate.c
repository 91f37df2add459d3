/* The migration runner: one transaction that takes a database from whatever version it has to ours; see migrate.h. Blocking,
 * never in the reactor. */
#include "store/migrate.h"

#include "base/log.h"
#include "store/connect.h"
#include "store/sql.h"

#include <stdio.h>
#include <stdlib.h>

enum { SERVER_MIN = 140000 };

unsigned migrate_version(void)
{
	return sql_patches_n;
}

static void migrate_notice(void *arg, const PGresult *res)
{
	const char *sev = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

	(void)arg;
	if (sev && text && !strcmp(sev, "WARNING"))
		log_warn(NULL, "database-warning text=%s", log_qz(text));
}

static PGconn *migrate_connect(const struct store_params *p, const char *database, char *err, size_t err_size)
{
	struct connect_words w;
	PGconn *pg;

	connect_words_set(&w, p, database);
	pg = PQconnectdbParams(w.keys, w.values, 1);
	if (!pg) {
		snprintf(err, err_size, "out of memory");
	} else if (PQstatus(pg) != CONNECTION_OK) {
		connect_one_line(err, err_size, PQerrorMessage(pg));
		PQfinish(pg);
		pg = NULL;
	} else {
		PQsetNoticeReceiver(pg, migrate_notice, NULL);
	}
	return pg;
}

/* Runs SQL text of ours (constants, several statements may be in it). */
static int run(PGconn *pg, const char *what, const char *sql, char *err, size_t err_size)
{
	PGresult *res = PQexec(pg, sql);
	ExecStatusType st = PQresultStatus(res);
	char text[STORE_ERR_MAX];
	int rc = 0;

	if (st != PGRES_COMMAND_OK && st != PGRES_TUPLES_OK && st != PGRES_EMPTY_QUERY) { /* a patch of comments alone is one */
		const char *at = PQresultErrorField(res, PG_DIAG_STATEMENT_POSITION);

		if (res)
			connect_result_error(text, sizeof(text), res);
		else
			connect_one_line(text, sizeof(text), PQerrorMessage(pg));
		snprintf(err, err_size, "%s: %s%s%s", what, text, at ? " at character " : "", at ? at : "");
		rc = -1;
	}
	PQclear(res);
	return rc;
}

/* One row of text values, with parameters; NULL and err on an error or no row. */
static PGresult *ask(PGconn *pg, const char *what, const char *sql, int n, const char *const *params, char *err, size_t err_size)
{
	PGresult *res = PQexecParams(pg, sql, n, NULL, params, NULL, NULL, 0);
	char text[STORE_ERR_MAX];

	if (PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) == 1)
		return res;
	if (res && PQresultStatus(res) != PGRES_TUPLES_OK)
		connect_result_error(text, sizeof(text), res);
	else
		connect_one_line(text, sizeof(text), res ? "no answer" : PQerrorMessage(pg));
	snprintf(err, err_size, "%s: %s", what, text);
	PQclear(res);
	return NULL;
}

/* Will this server keep what it has acknowledged? */
static int check_server(PGconn *pg, char *err, size_t err_size)
{
	PGresult *res;
	int rc = -1;

	if (PQserverVersion(pg) < SERVER_MIN) {
		snprintf(err, err_size, "the server is PostgreSQL %d; version 14 or newer is needed", PQserverVersion(pg) / 10000);
		return -1;
	}
	res = ask(pg, "settings",
	    "SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),"
	    " current_setting('server_encoding'), pg_is_in_recovery()::text", 0, NULL, err, err_size);
	if (!res)
		return -1;
	if (strcmp(PQgetvalue(res, 0, 0), "on") != 0)
		snprintf(err, err_size, "the server runs with fsync = off: accepted mail would be lost in a crash. Set fsync = on");
	else if (strcmp(PQgetvalue(res, 0, 1), "on") != 0)
		snprintf(err, err_size, "the server runs with full_page_writes = off: the queue could be damaged in a crash. "
		    "Set full_page_writes = on");
	else if (strcmp(PQgetvalue(res, 0, 3), "UTF8") != 0)
		snprintf(err, err_size, "the database has encoding %s; UTF8 is needed", PQgetvalue(res, 0, 3));
	else if (!strcmp(PQgetvalue(res, 0, 4), "true"))
		snprintf(err, err_size, "the server is a standby: name the primary, or add target_session_attrs=read-write");
	else
		rc = 0;
	if (rc == 0 && !strcmp(PQgetvalue(res, 0, 2), "off"))
		log_warn(NULL, "database-warning text=\"synchronous_commit is off on the server: admission sets it for itself, "
		    "but other clients that add mail would lose it in a crash\"");
	PQclear(res);
	return rc;
}

/* The embedded cluster: its database and the owner of everything in it. */
static int make_database(const struct store_params *admin, char *err, size_t err_size)
{
	PGconn *pg = migrate_connect(admin, "postgres", err, err_size);
	PGresult *res;
	int rc = -1;

	if (!pg)
		return -1;
	/* A session lock, for CREATE DATABASE cannot run in a transaction. Given up with the connection. */
	if (run(pg, "lock", "SELECT pg_advisory_lock(7061737369)", err, err_size) < 0)
		goto out;
	res = ask(pg, "catalog",
	    "SELECT (SELECT count(*) FROM pg_database WHERE datname = 'pepsi'), (SELECT count(*) FROM pg_roles WHERE rolname = 'pepsi-owner')",
	    0, NULL, err, err_size);
	if (!res)
		goto out;
	rc = 0;
	if (!strcmp(PQgetvalue(res, 0, 1), "0"))
		rc = run(pg, "owner", "CREATE ROLE \"pepsi-owner\" NOLOGIN", err, err_size);
	if (rc == 0 && !strcmp(PQgetvalue(res, 0, 0), "0"))
		rc = run(pg, "database", "CREATE DATABASE pepsi OWNER \"pepsi-owner\" ENCODING 'UTF8' TEMPLATE template0", err, err_size);
	PQclear(res);
out:
	PQfinish(pg);
	return rc;
}

static int apply_patches(PGconn *pg, char *err, size_t err_size)
{
	PGresult *res = ask(pg, "schema version", "SELECT to_regclass('pepsi.schema_version') IS NOT NULL", 0, NULL, err, err_size);
	unsigned have = 0;
	bool known;

	if (!res)
		return -1;
	known = !strcmp(PQgetvalue(res, 0, 0), "t");
	PQclear(res);
	if (known) {
		uint64_t v;

		res = ask(pg, "schema version", "SELECT coalesce(max(version), 0) FROM pepsi.schema_version", 0, NULL, err, err_size);
		if (!res)
			return -1;
		if (str_u64(str_from(PQgetvalue(res, 0, 0)), 1000000, &v) < 0)
			v = 0;
		have = (unsigned)v;
		PQclear(res);
	}
	if (have > sql_patches_n) {
		snprintf(err, err_size, "the database has schema version %u, this program knows %u: it was used by a newer release. "
		    "Install that release or newer, or restore a backup from before the upgrade", have, sql_patches_n);
		return -1;
	}
	for (unsigned v = 1; v <= sql_patches_n; v++) {
		char name[32], number[16];
		const char *params[] = { number, name, sql_patches[v - 1] };

		snprintf(name, sizeof(name), "pepsi-%04u.sql", v);
		snprintf(number, sizeof(number), "%u", v);
		if (v <= have) {
			res = ask(pg, name, "SELECT count(*) FROM pepsi.schema_version WHERE version = $1::integer AND digest = md5($3)"
			    " AND $2::text <> ''", 3, params, err, err_size);
			if (!res)
				return -1;
			if (strcmp(PQgetvalue(res, 0, 0), "1") != 0)
				log_warn(NULL, "schema-differs patch=%s text=\"the database was made with another text of this patch\"", name);
			PQclear(res);
			continue;
		}
		if (run(pg, name, sql_patches[v - 1], err, err_size) < 0)
			return -1;
		res = ask(pg, name, "INSERT INTO pepsi.schema_version (version, name, digest) VALUES ($1::integer, $2, md5($3)) RETURNING 1",
		    3, params, err, err_size);
		if (!res)
			return -1;
		PQclear(res);
		log_info(NULL, "schema-patch name=%s", name);
	}
	return 0;
}

int migrate_run(const struct store_params *admin, bool embedded, char *err, size_t err_size)
{
	PGconn *pg;
	int rc = -1;

	if (embedded && make_database(admin, err, err_size) < 0)
		return -1;
	pg = migrate_connect(admin, embedded ? "pepsi" : NULL, err, err_size);
	if (!pg)
		return -1;
	if (check_server(pg, err, err_size) < 0)
		goto out;
	/* Nothing here may be cut short by a server's general limits, and nothing may hang for ever behind a reader. */
	if (run(pg, "settings", "SET statement_timeout = 0; SET lock_timeout = '60s'; SET synchronous_commit = on;"
	    " SET client_min_messages = warning", err, err_size) < 0 ||
	    run(pg, "begin", "BEGIN ISOLATION LEVEL READ COMMITTED", err, err_size) < 0 ||
	    run(pg, "lock", "SELECT pg_advisory_xact_lock(7061737370)", err, err_size) < 0 ||
	    run(pg, "roles.sql", sql_roles, err, err_size) < 0)
		goto out;
	if (embedded && (run(pg, "owner", "SET LOCAL ROLE \"pepsi-owner\"", err, err_size) < 0 ||
	    run(pg, "database", "REVOKE ALL ON DATABASE pepsi FROM PUBLIC; GRANT CONNECT ON DATABASE pepsi TO pepsi, \"pepsi-ingress\","
	    " \"pepsi-httpd\", \"pepsi-config\", \"pepsi-crypto\", \"pepsi-telemetry\"", err, err_size) < 0))
		goto out;
	if (apply_patches(pg, err, err_size) < 0 ||
	    run(pg, "procedures.sql", sql_procedures, err, err_size) < 0 ||
	    run(pg, "grants.sql", sql_grants, err, err_size) < 0 ||
	    run(pg, "commit", "COMMIT", err, err_size) < 0)
		goto out;
	rc = 0;
out:
	PQfinish(pg);
	return rc;
}
