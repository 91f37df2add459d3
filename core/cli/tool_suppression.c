/* pepsi suppression: the recipients that pepsi-stage-suppression does not send to. Works on the database itself; pepsid need not run, and
 * what is changed counts with the next message. */
#include "tool_suppression.h"

#include "config/config.h"
#include "tool_db.h"

#include <inttypes.h>

enum { PAGE = 1000, LIMIT_MAX = 100000000 };

static int open_db(struct cli *c, struct tool_db *db, struct config **conf)
{
	*conf = service_config(c);
	return *conf ? tool_db_open(db, *conf) : CLI_FAILED;
}

static void close_db(struct tool_db *db, struct config *conf)
{
	tool_db_close(db);
	config_free(conf);
}

static void text(struct json_object *o, const char *key, const char *s)
{
	json_object_object_add(o, key, json_object_new_string(s));
}

/* --- looking */

static void cells(struct cli_table *t, struct json_object *o)
{
	static const char *const times[] = { "created_at", "expires_at" };
	char at[64];
	cli_table_cell(t, cli_json_text(o, "recipient"));
	cli_table_cell(t, cli_json_text(o, "class"));
	for (size_t i = 0; i < 2; i++) {
		struct str s = cli_json_text(o, times[i]);
		cli_text_time(at, sizeof at, s.n ? s : STR("-"));
		cli_table_cell(t, str_from(at));
	}
	cli_table_cellf(t, "%" PRId64, cli_json_int(o, "hits"));
	cli_table_cell(t, cli_json_text(o, "status"));
	cli_table_cell(t, cli_json_text(o, "reply"));
}

/* One page after another; with --json a row per line, so that the list can be exported however long it is. */
static int list(struct cli *c, const char *recipient, int64_t limit)
{
	struct cli_table t = { .heads = { "RECIPIENT", "CLASS", "SINCE (UTC)", "ENDS", "HITS", "STATUS", "WHY" }, .max = { 60, 0, 0, 0, 0, 0, 100 },
		.right = { [4] = true }, .n = 7 };
	struct tool_db db = { 0 };
	struct config *conf = NULL;
	struct buf after = BUF_INIT(4096);
	int64_t n = 0, got = 0, want = 0;
	int rc = open_db(c, &db, &conf);
	do {
		want = limit - n < PAGE ? limit - n : PAGE;
		struct json_object *args = json_object_new_object();
		json_object_object_add(args, "limit", json_object_new_int64(want));
		text(args, "after", buf_z(&after));
		if (recipient)
			text(args, "recipient", recipient);
		struct json_object *rows = rc ? NULL : tool_db_destinations(&db, STORE_SUPPRESSION_LIST, args);
		if (rc)
			json_object_put(args);
		if (!rows) {
			rc = CLI_FAILED;
			break;
		}
		got = json_object_is_type(rows, json_type_array) ? (int64_t)json_object_array_length(rows) : 0;
		for (int64_t i = 0; i < got; i++) {
			struct json_object *o = json_object_array_get_idx(rows, (size_t)i);
			if (c->json) {
				fputs(n + i ? "," : "[", stdout);
				cli_json_print(o);
			} else {
				cells(&t, o);
			}
			buf_reset(&after);
			buf_adds(&after, cli_json_text(o, "recipient"));
		}
		n += got;
		json_object_put(rows);
	} while (got == want && n < limit);
	close_db(&db, conf);
	if (!rc && c->json)
		puts(n ? "]" : "[]");
	else if (!rc && n)
		cli_table_print(&t, stdout);
	else if (!rc)
		puts("nobody");
	buf_free(&t.cells);
	buf_free(&after);
	return rc ? rc : n ? CLI_DONE : recipient && recipient[0] != '@' ? CLI_FAILED : CLI_DONE;
}

int tool_suppression_list(struct cli *c)
{
	const char *limit = c->args.value[CLI_LIMIT];
	int64_t n = limit ? cli_number(c, "--limit", limit, 1, LIMIT_MAX) : LIMIT_MAX;
	return n < 0 ? CLI_USAGE : list(c, c->args.value[CLI_RECIPIENT], n);
}

int tool_suppression_show(struct cli *c)
{
	return list(c, c->args.pos[0], 1);
}

/* --- changing */

static int change(struct cli *c, enum store_destinations_question q, const char *class)
{
	const char *how_long = c->args.value[CLI_FOR], *reason = c->args.value[CLI_REASON];
	struct tool_db db = { 0 };
	struct config *conf = NULL;
	int64_t secs = 0, n = 0;
	for (size_t i = 0; i < c->args.n_pos; i++) {
		const char *at = strrchr(c->args.pos[i], '@');
		if (!at || at == c->args.pos[i] || !at[1] || strlen(c->args.pos[i]) > 320)
			return cli_usage(c, "\"%s\" is no address; single ones are listed, not domains", c->args.pos[i]);
	}
	if (how_long && (config_parse_duration(str_from(how_long), &secs) || secs < 1))
		return cli_usage(c, "--for: \"%s\" is no time", how_long);
	int rc = open_db(c, &db, &conf);
	for (size_t i = 0; !rc && i < c->args.n_pos; i++) {
		struct json_object *args = json_object_new_object();
		text(args, "recipient", c->args.pos[i]);
		if (class)
			text(args, "class", class);
		if (reason)
			text(args, "reason", reason);
		if (secs)
			json_object_object_add(args, "for", json_object_new_int64(secs));
		struct json_object *o = tool_db_destinations(&db, q, args);
		if (!o)
			rc = CLI_FAILED;
		n += o && json_object_get_boolean(o);
		json_object_put(o);
	}
	close_db(&db, conf);
	if (rc)
		return rc;
	if (c->json)
		printf("{\"count\":%" PRId64 "}\n", n);
	else if (class)
		printf("%zu listed as %s, %" PRId64 " of them new\n", c->args.n_pos, class, n);
	else
		printf("%" PRId64 " removed\n", n);
	if (!class && n < (int64_t)c->args.n_pos)
		return cli_fail("%" PRId64 " of %zu were not on the list", (int64_t)c->args.n_pos - n, c->args.n_pos);
	return CLI_DONE;
}

int tool_suppression_add(struct cli *c)
{
	return change(c, STORE_SUPPRESSION_ADD, "manual");
}

int tool_suppression_complaint(struct cli *c)
{
	return change(c, STORE_SUPPRESSION_ADD, "complaint");
}

int tool_suppression_allow(struct cli *c)
{
	return change(c, STORE_SUPPRESSION_ADD, "allow");
}

int tool_suppression_remove(struct cli *c)
{
	return change(c, STORE_SUPPRESSION_REMOVE, NULL);
}
