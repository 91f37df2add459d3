/* pepsi queue: what changes messages, by ids or filters: delete, retry, set-stage, hold, release. Everything is decided and done by pepsid;
 * here are words. Rules are in tool_queue_rule.c. */
#include "tool_queue.h"

enum { IDS_PER_REQUEST = 1000 };

static bool dry_run(const struct cli *c)
{
	return c->args.set & CLI_BIT(CLI_DRY_RUN);
}

/* What else keeps a command from a message. */
static const char *because(const char *cmd)
{
	return !strcmp(cmd, "queue.release") ? ", or not held" : !strcmp(cmd, "queue.hold") ? ", or held already, or given up (retry)" :
	    !strcmp(cmd, "queue.retry") ? ", or due already, or held (release)" : "";
}

static int report(const struct cli *c, int64_t n, int64_t matched, const char *what)
{
	bool dry = dry_run(c);
	if (c->json) {
		printf("{\"count\":%" PRId64 ",\"matched\":%" PRId64 ",\"dry_run\":%s}\n", n, matched, dry ? "true" : "false");
		return CLI_DONE;
	}
	printf("%" PRId64 " message%s %s%s", n, n == 1 ? "" : "s", dry ? "would be " : "", what);
	if (matched > n)
		printf("; %" PRId64 " more match and %s not: a worker has them, they are held, or are so already", matched - n,
		    dry ? "would" : "were");
	putchar('\n');
	return CLI_DONE;
}

/* Returns the number changed, or -1. */
static int64_t change(struct cli *c, const char *cmd, struct json_object *args, const char *to, int64_t *matched)
{
	if (to)
		json_object_object_add(args, "to", json_object_new_string(to));
	if (dry_run(c))
		json_object_object_add(args, "dry_run", json_object_new_boolean(true));
	if (c->args.value[CLI_REASON])
		json_object_object_add(args, "reason", json_object_new_string(c->args.value[CLI_REASON]));
	struct json_object *o = cli_ask(c, cmd, args, CLI_ANSWER_MS, false);
	int64_t n = o ? cli_json_int(o, "count") : -1;
	if (o)
		*matched += cli_json_int(o, "matched");
	json_object_put(o);
	return n;
}

static int change_ids(struct cli *c, const char *cmd, const char *const *ids, size_t n, const char *to, const char *what)
{
	int64_t changed = 0, matched = 0;
	for (size_t i = 0; i < n; i++) /* all are looked at before the first is touched */
		if (cli_number(c, "ID", ids[i], 1, INT64_MAX - 1) < 0)
			return CLI_USAGE;
	for (size_t i = 0; i < n;) {
		struct json_object *args = json_object_new_object(), *list = json_object_new_array();
		for (size_t j = 0; j < IDS_PER_REQUEST && i < n; j++, i++)
			json_object_array_add(list, json_object_new_int64(cli_number(c, "ID", ids[i], 1, INT64_MAX - 1)));
		json_object_object_add(args, "ids", list);
		int64_t k = change(c, cmd, args, to, &matched);
		if (k < 0)
			return CLI_FAILED;
		changed += k;
	}
	report(c, changed, changed, what);
	if (changed < (int64_t)n)
		return cli_fail("%" PRId64 " of %zu message%s %s not %s: gone, or a worker has them right now%s", (int64_t)n - changed, n,
		    n == 1 ? "" : "s", dry_run(c) ? "would be" : (int64_t)n - changed == 1 ? "was" : "were", what, because(cmd));
	return CLI_DONE;
}

int queue_change(struct cli *c, const char *cmd, const char *const *ids, size_t n_ids, const char *to, const char *what)
{
	uint64_t selects = c->args.set & (CLI_FILTER | CLI_BIT(CLI_LIMIT) | CLI_BIT(CLI_ALL));
	int64_t limit = queue_limit(c), matched = 0;
	if (limit < 0)
		return CLI_USAGE;
	if (n_ids && selects)
		return cli_usage(c, "either ids or filters, not both");
	if (n_ids)
		return change_ids(c, cmd, ids, n_ids, to, what);
	if (!(selects & ~CLI_BIT(CLI_LIMIT)))
		return cli_usage(c, "which messages? Name ids or filters, or --all");
	struct json_object *args = queue_filters(c);
	if (!args)
		return CLI_USAGE;
	if (limit)
		json_object_object_add(args, "limit", json_object_new_int64(limit));
	if (selects & CLI_BIT(CLI_ALL))
		json_object_object_add(args, "all", json_object_new_boolean(true));
	int64_t n = change(c, cmd, args, to, &matched);
	return n < 0 ? CLI_FAILED : report(c, n, matched, what);
}

int tool_queue_delete(struct cli *c)
{
	return queue_change(c, "queue.delete", c->args.pos, c->args.n_pos, NULL, "deleted");
}

int tool_queue_retry(struct cli *c)
{
	return queue_change(c, "queue.retry", c->args.pos, c->args.n_pos, NULL, "made to run again");
}

int tool_queue_set_stage(struct cli *c)
{
	return queue_change(c, "queue.set-stage", c->args.pos + 1, c->args.n_pos - 1, c->args.pos[0], "moved");
}

int tool_queue_release(struct cli *c)
{
	return queue_change(c, "queue.release", c->args.pos, c->args.n_pos, NULL, "released");
}
