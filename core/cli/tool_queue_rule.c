/* pepsi queue hold, pepsi queue reroute: rules about mail that is queued and mail that comes. */
#include "config/config.h"
#include "tool_queue.h"

/* --- list --- */

static void text_cell(struct cli_table *t, struct json_object *o, const char *key)
{
	struct str s = cli_json_text(o, key);
	cli_table_cell(t, s.n ? s : STR("-"));
}

static void time_cell(struct cli_table *t, struct json_object *o, const char *key)
{
	char text[64];
	struct str s = cli_json_text(o, key);
	cli_text_time(text, sizeof text, s.n ? s : STR("-"));
	cli_table_cell(t, str_from(text));
}

static int list(struct cli *c, const char *action)
{
	struct cli_table t = {
		.heads = { "RULE", "SENDER", "RECIPIENT", "CLIENT", "STAGE", "TO", "SINCE (UTC)", "ENDS", "HOLDS", "REASON" },
		.max = { 0, 40, 40, 0, 24, 24, 0, 0, 0, 100 },
		.right = { [0] = true, [8] = true },
		.n = 10,
	};
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "action", json_object_new_string(action));
	struct json_object *rows = cli_ask(c, "rule.list", args, CLI_ANSWER_MS, false);
	if (!rows)
		return CLI_FAILED;
	size_t n = json_object_is_type(rows, json_type_array) ? json_object_array_length(rows) : 0;
	for (size_t i = 0; i < n && !c->json; i++) {
		struct json_object *o = json_object_array_get_idx(rows, i);
		cli_table_cellf(&t, "%" PRId64, cli_json_int(o, "id"));
		text_cell(&t, o, "sender");
		text_cell(&t, o, "recipient");
		text_cell(&t, o, "client");
		text_cell(&t, o, "stage");
		text_cell(&t, o, "to");
		time_cell(&t, o, "created_at");
		time_cell(&t, o, "expires_at");
		cli_table_cellf(&t, "%" PRId64, cli_json_int(o, "held"));
		text_cell(&t, o, "reason");
	}
	if (c->json)
		cli_json_print(rows);
	else if (n)
		cli_table_print(&t, stdout);
	else
		puts("no rules");
	buf_free(&t.cells);
	json_object_put(rows);
	return CLI_DONE;
}

/* --- add, remove --- */

static int add(struct cli *c, const char *action, const char *to)
{
	static const uint64_t alien = CLI_BIT(CLI_STATUS) | CLI_BIT(CLI_LIMIT) | CLI_BIT(CLI_ALL);
	const char *client = c->args.value[CLI_CLIENT], *how_long = c->args.value[CLI_FOR], *reason = c->args.value[CLI_REASON];
	int64_t secs = 0;
	if (c->args.set & alien)
		return cli_usage(c, "a rule is about senders, recipients, clients and stages: no --status, --limit or --all");
	if (!(c->args.set & (CLI_FILTER | CLI_BIT(CLI_CLIENT))))
		return cli_usage(c, "which mail? --sender, --destination, --recipient, --client or --stage");
	if (how_long && (config_parse_duration(str_from(how_long), &secs) || secs < 1 || secs > 366 * 86400))
		return cli_usage(c, "--for: \"%s\" is no time from 1 s to 366 d", how_long);
	struct json_object *args = queue_filters(c);
	if (!args)
		return CLI_USAGE;
	json_object_object_add(args, "action", json_object_new_string(action));
	if (to)
		json_object_object_add(args, "to", json_object_new_string(to));
	if (client)
		json_object_object_add(args, "client", json_object_new_string(client));
	if (reason)
		json_object_object_add(args, "reason", json_object_new_string(reason));
	if (secs)
		json_object_object_add(args, "for", json_object_new_int64(secs));
	if (c->args.set & CLI_BIT(CLI_DRY_RUN))
		json_object_object_add(args, "dry_run", json_object_new_boolean(true));
	struct json_object *o = cli_ask(c, "rule.add", args, CLI_ANSWER_MS, false);
	if (!o)
		return CLI_FAILED;
	int64_t n = cli_json_int(o, "count"), rule = cli_json_int(o, "rule");
	const char *what = to ? "on another way" : "held";
	if (c->json)
		cli_json_print(o);
	else if (!rule)
		printf("%" PRId64 " queued message%s would be %s\n", n, n == 1 ? "" : "s", what);
	else
		printf("rule %" PRId64 " is in force; %" PRId64 " queued message%s %s\n", rule, n, n == 1 ? "" : "s", what);
	json_object_put(o);
	return CLI_DONE;
}

static int remove_rules(struct cli *c)
{
	int64_t released = 0;
	if (c->args.n_pos < 2)
		return cli_usage(c, "which rule?");
	for (size_t i = 1; i < c->args.n_pos; i++)
		if (cli_number(c, "RULE", c->args.pos[i], 1, INT64_MAX - 1) < 0)
			return CLI_USAGE;
	for (size_t i = 1; i < c->args.n_pos; i++) {
		struct json_object *args = json_object_new_object(), *ids = json_object_new_array();
		json_object_array_add(ids, json_object_new_int64(cli_number(c, "RULE", c->args.pos[i], 1, INT64_MAX - 1)));
		json_object_object_add(args, "ids", ids);
		struct json_object *o = cli_ask(c, "rule.remove", args, CLI_ANSWER_MS, false);
		if (!o)
			return CLI_FAILED;
		released += cli_json_int(o, "count");
		json_object_put(o);
	}
	if (c->json)
		printf("{\"count\":%" PRId64 "}\n", released);
	else
		printf("removed; %" PRId64 " message%s released\n", released, released == 1 ? "" : "s");
	return CLI_DONE;
}

int tool_queue_hold(struct cli *c)
{
	const char *first = c->args.n_pos ? c->args.pos[0] : "";
	if (!strcmp(first, "remove"))
		return remove_rules(c);
	if (!strcmp(first, "list") || !strcmp(first, "add")) {
		if (c->args.n_pos > 1)
			return cli_usage(c, "hold %s takes no \"%s\"", first, c->args.pos[1]);
		return *first == 'l' ? list(c, "hold") : add(c, "hold", NULL);
	}
	if (c->args.set & (CLI_BIT(CLI_CLIENT) | CLI_BIT(CLI_FOR)))
		return cli_usage(c, "--client and --for are for a rule: hold add");
	return queue_change(c, "queue.hold", c->args.pos, c->args.n_pos, NULL, "held");
}

int tool_queue_reroute(struct cli *c)
{
	const char *const *pos = c->args.pos;
	size_t n = c->args.n_pos;
	if (n && !strcmp(pos[0], "remove"))
		return remove_rules(c);
	if (n == 1 && !strcmp(pos[0], "list"))
		return list(c, "reroute");
	if (n > 1 && !strcmp(pos[0], "add")) { /* for a stage that is called list */
		pos++;
		n--;
	}
	if (!n)
		return cli_usage(c, "to which stage?");
	if (n > 1)
		return c->args.set & CLI_RULE ? cli_usage(c, "--client, --for and --reason are for rules, not for single messages") :
						queue_change(c, "queue.set-stage", pos + 1, n - 1, pos[0], "moved");
	return add(c, "reroute", pos[0]);
}
