/* The waiting of tool_db.h. */
#include "tool_db.h"

#include <event2/event.h>
#include <stdlib.h>

/* What a row holds is shown, or passed over, however deep: one that nobody should have written keeps no other from being sent. PostgreSQL takes a few
 * thousand levels. */
enum { DEPTH_MAX = 10000 };

static void on_state(void *arg, struct store_conn *c, bool up, const char *err)
{
	struct tool_db *db = arg;
	(void)c;
	db->up = up;
	db->down = !up;
	if (!up)
		snprintf(db->err, sizeof db->err, "%s", err);
	event_base_loopbreak(db->base);
}

int tool_db_open(struct tool_db *db, const struct config *conf)
{
	struct store_params p = { .conninfo = db->conninfo, .role = "pepsi", .name = "pepsi tool" };
	*db = (struct tool_db){ 0 };
	if (service_leave_root(config_str(conf, "pepsi", "USER")) || service_conninfo(conf, db->conninfo))
		return CLI_FAILED;
	db->base = event_base_new();
	db->conn = db->base ? store_conn_open(db->base, &p, on_state, db) : NULL;
	if (!db->conn)
		return cli_fail("out of memory");
	while (!db->up && !db->down)
		if (event_base_dispatch(db->base))
			break;
	return db->up ? CLI_DONE : cli_fail("no connection to the database: %s", db->err);
}

void tool_db_close(struct tool_db *db)
{
	store_conn_close(db->conn);
	if (db->base)
		event_base_free(db->base);
	*db = (struct tool_db){ 0 };
}

/* Each call is answered, by an error at the latest. */
static bool wait_for(struct tool_db *db)
{
	while (!db->done)
		if (event_base_dispatch(db->base) < 0)
			return false;
	return true;
}

static void finish(struct tool_db *db, enum store_rc rc, const char *err)
{
	db->rc = rc;
	db->done = true;
	if (rc != STORE_OK)
		snprintf(db->err, sizeof db->err, "%s", err);
	event_base_loopbreak(db->base);
}

static void on_json(void *arg, enum store_rc rc, struct str json, const char *err)
{
	struct tool_db *db = arg;
	struct json_tokener *t = rc == STORE_OK ? json_tokener_new_ex(DEPTH_MAX) : NULL;
	db->answer = t && json.n <= INT32_MAX ? json_tokener_parse_ex(t, json.p, (int)json.n + 1) : NULL;
	bool read = t && (db->answer || json_tokener_get_error(t) == json_tokener_success); /* null is an answer */
	if (t)
		json_tokener_free(t);
	finish(db, rc == STORE_OK && !read ? STORE_FULL : rc, rc == STORE_OK ? "the answer cannot be read" : err);
}

struct json_object *tool_db_ask(struct tool_db *db, enum store_dmarc_question q, struct json_object *args)
{
	db->done = false;
	db->answer = NULL;
	store_dmarc_ask(db->conn, q, json_object_to_json_string_ext(args, JSON_C_TO_STRING_PLAIN), on_json, db);
	json_object_put(args);
	if (wait_for(db) && db->rc == STORE_OK && db->answer)
		return db->answer;
	cli_fail("the database: %s", db->rc == STORE_OK ? "the answer cannot be read" : db->err);
	return NULL;
}

static void on_text(void *arg, enum store_rc rc, const char *json, const char *err)
{
	on_json(arg, rc, str_from(json ? json : ""), err);
}

bool tool_db_ask_null(struct tool_db *db, enum store_destinations_question q, struct json_object *args, struct json_object **ret)
{
	db->done = false;
	db->answer = NULL;
	store_destinations_ask(db->conn, q, json_object_to_json_string_ext(args, JSON_C_TO_STRING_PLAIN), on_text, db);
	json_object_put(args);
	bool good = wait_for(db) && db->rc == STORE_OK;
	*ret = good ? db->answer : NULL;
	if (!good)
		cli_fail("the database: %s", db->err);
	return good;
}

struct json_object *tool_db_destinations(struct tool_db *db, enum store_destinations_question q, struct json_object *args)
{
	struct json_object *o;
	if (tool_db_ask_null(db, q, args, &o) && !o)
		cli_fail("the database: the answer cannot be read");
	return o;
}

struct json_object *tool_db_once(struct cli *c, enum store_destinations_question q, struct json_object *args)
{
	struct tool_db db = { 0 };
	struct config *conf = args ? service_config(c) : NULL;
	struct json_object *o = NULL;
	if (!conf || tool_db_open(&db, conf))
		json_object_put(args);
	else
		o = tool_db_destinations(&db, q, args);
	tool_db_close(&db);
	config_free(conf);
	return o;
}

int tool_db_print(struct cli *c, struct json_object *o, void (*print)(struct json_object *))
{
	if (!o)
		return CLI_FAILED;
	if (c->json)
		cli_json_print(o);
	else
		print(o);
	json_object_put(o);
	return CLI_DONE;
}

static void on_sent(void *arg, enum store_rc rc, int64_t first, const char *err)
{
	struct tool_db *db = arg;
	db->first = first;
	finish(db, rc, err);
}

int64_t tool_db_enqueue(struct tool_db *db, const struct store_dmarc_report *r)
{
	db->done = false;
	store_dmarc_enqueue(db->conn, r, on_sent, db);
	if (wait_for(db) && db->rc == STORE_OK)
		return db->first;
	cli_fail("the report was not stored: %s", db->err);
	return -1;
}
