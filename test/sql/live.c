/* See live.h. */
#include "live.h"

#include "base/log.h"
#include "store/migrate.h"

#include <stdio.h>
#include <stdlib.h>

struct event_base *live_base;
static PGconn *super;

struct store_params live_params(const char *role)
{
	return (struct store_params){ .conninfo = "dbname=pepsi", .role = role, .name = "pepsi test" };
}

int live_setup(void **state)
{
	struct store_params p = { .conninfo = "", .role = "postgres", .name = "pepsi test" };
	char err[600];

	(void)state;
	log_setup(LOG_LV_ERROR, "test");
	/* Roles are chosen per connection; the environment's must not win. */
	unsetenv("PGUSER");
	unsetenv("PGDATABASE");
	if (migrate_run(&p, true, err, sizeof(err)) < 0) {
		print_error("migrate: %s\n", err);
		return -1;
	}
	live_base = event_base_new();
	return live_base ? 0 : -1;
}

int live_teardown(void **state)
{
	(void)state;
	PQfinish(super);
	super = NULL;
	event_base_free(live_base);
	return 0;
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

static void run(const bool *flag, int ms)
{
	bool over = false;
	struct event *end = evtimer_new(live_base, on_end, &over);
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000 };

	assert_non_null(end);
	event_add(end, &tv);
	while (!over && !(flag && *flag))
		event_base_loop(live_base, EVLOOP_ONCE);
	event_free(end);
}

void live_until(const bool *flag)
{
	run(flag, 20000);
	assert_true(*flag);
}

void live_run_ms(int ms)
{
	run(NULL, ms);
}

static void on_state(void *arg, struct store_conn *c, bool up, const char *err)
{
	(void)c;
	(void)err;
	*(bool *)arg = up;
}

struct store_conn *live_open_later(const char *role, bool *up)
{
	struct store_params p = live_params(role);

	*up = false;
	return store_conn_open(live_base, &p, on_state, up);
}

struct store_conn *live_open(const char *role, bool async_commit)
{
	static bool up[16]; /* outlives the connections */
	static unsigned n;
	struct store_params p = live_params(role);
	struct store_conn *c;
	bool *mine = &up[n++ % 16];

	*mine = false;
	p.async_commit = async_commit;
	c = store_conn_open(live_base, &p, on_state, mine);
	assert_non_null(c);
	live_until(mine);
	assert_true(store_conn_up(c));
	return c;
}

const char *live_sql(const char *sql)
{
	static char value[65536];
	PGresult *res;

	if (!super)
		super = PQconnectdb("dbname=pepsi user=postgres");
	res = PQexec(super, sql);
	if (PQresultStatus(res) != PGRES_TUPLES_OK && PQresultStatus(res) != PGRES_COMMAND_OK)
		fail_msg("%s: %s", sql, PQerrorMessage(super));
	snprintf(value, sizeof(value), "%s", PQntuples(res) > 0 ? PQgetvalue(res, 0, 0) : "");
	PQclear(res);
	return value;
}

long long live_sql_int(const char *sql)
{
	return strtoll(live_sql(sql), NULL, 10);
}

void live_check_books(void)
{
	assert_string_equal(live_sql("SELECT sum(accepted) - sum(delivered) - sum(bounced) - sum(discarded)"
		" - (SELECT count(*) FROM pepsi.workqueue) FROM pepsi.flow_stats"), "0");
	assert_string_equal(live_sql("SELECT count(*) FROM pepsi.workqueue w LEFT JOIN pepsi.workqueue_body b ON b.id = w.body_id"
		" WHERE b.id IS NULL"), "0");
	assert_string_equal(live_sql("SELECT count(*) FROM pepsi.workqueue_body b WHERE NOT EXISTS (SELECT FROM pepsi.workqueue w"
		" WHERE w.body_id = b.id)"), "0");
}

void live_server(const char *what)
{
	char command[300];

	snprintf(command, sizeof(command), "\"$PG_CTL\" %s >/dev/null 2>&1", what);
	assert_int_equal(system(command), 0);
	if (!strncmp(what, "stop", 4)) {
		PQfinish(super);
		super = NULL;
	}
}
