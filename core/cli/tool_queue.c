/* pepsi queue: looking at messages, all through the control socket. What changes them is in tool_queue_change.c. */
#include "tool_queue.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PAGE = 500 };

struct json_object *queue_filters(const struct cli *c)
{
	static const enum cli_opt opts[] = { CLI_STAGE, CLI_STATUS, CLI_SENDER, CLI_RECIPIENT };
	const char *to = c->args.value[CLI_DESTINATION];
	struct json_object *args = json_object_new_object();
	for (size_t i = 0; i < sizeof opts / sizeof *opts; i++)
		if (c->args.value[opts[i]])
			json_object_object_add(args, cli_opts[opts[i]].name, json_object_new_string(c->args.value[opts[i]]));
	if (to && c->args.value[CLI_RECIPIENT]) {
		json_object_put(args);
		cli_usage(c, "--destination and --recipient are the same; give one");
		return NULL;
	}
	if (to) { /* example.org, as well as @example.org and ann@example.org */
		struct buf b = BUF_INIT(8192);
		buf_addf(&b, "%s%s", strchr(to, '@') ? "" : "@", to);
		json_object_object_add(args, "recipient", json_object_new_string(buf_z(&b)));
		buf_free(&b);
	}
	return args;
}

int64_t queue_limit(const struct cli *c)
{
	const char *text = c->args.value[CLI_LIMIT];
	return text ? cli_number(c, "--limit", text, 1, QUEUE_LIMIT_MAX) : 0;
}

/* --- list --- */

void queue_row_why(struct json_object *row, struct buf *ret)
{
	/* what is held waits although nothing failed: that is said in the same place */
	struct str error = cli_json_text(row, "last_error"), hold = cli_json_text(row, "hold");
	struct json_object *held = NULL;
	if (json_object_object_get_ex(row, "held", &held) && json_object_is_type(held, json_type_object)) {
		int64_t rule = cli_json_int(held, "rule");
		struct str why = cli_json_text(held, "reason");
		char by[40] = "by hand";
		if (rule)
			snprintf(by, sizeof by, "by rule %" PRId64, rule);
		buf_addf(ret, "held %s%s%.*s", by, why.n ? ": " : "", STR_ARG(why));
		return;
	}
	buf_adds(ret, error.n || !hold.n         ? error :
		str_eq(hold, STR("cap"))         ? STR("held: over a limit of its account") :
		str_eq(hold, STR("sender"))      ? STR("held, as its sender asked") :
						   hold);
}

static void row_cells(struct cli_table *t, struct json_object *row)
{
	char text[64];
	struct json_object *rcpts = NULL;
	size_t n = 0;
	cli_table_cellf(t, "%" PRId64, cli_json_int(row, "id"));
	cli_table_cell(t, cli_json_text(row, "stage"));
	cli_table_cell(t, cli_json_text(row, "status"));
	cli_text_time(text, sizeof text, cli_json_text(row, "received_at"));
	cli_table_cell(t, str_from(text));
	struct str from = cli_json_text(row, "mail_from"), to = STR("");
	cli_table_cell(t, from.n ? from : STR("<>"));
	if (json_object_object_get_ex(row, "rcpt_to", &rcpts) && json_object_is_type(rcpts, json_type_array))
		n = json_object_array_length(rcpts);
	int64_t count = cli_json_int(row, "rcpt_count"); /* the list may be cut */
	struct json_object *first = n ? json_object_array_get_idx(rcpts, 0) : NULL;
	if (json_object_is_type(first, json_type_string))
		to = str_n(json_object_get_string(first), (size_t)json_object_get_string_len(first));
	if (count < (int64_t)n)
		count = (int64_t)n;
	if (count > 1)
		cli_table_cellf(t, "%.*s +%" PRId64, STR_ARG(to), count - 1);
	else
		cli_table_cell(t, to);
	cli_text_time(text, sizeof text, cli_json_text(row, "next_attempt_at"));
	cli_table_cell(t, str_from(text));
	struct buf why = BUF_INIT(QUEUE_WHY_MAX);
	queue_row_why(row, &why);
	cli_table_cell(t, buf_str(&why));
	buf_free(&why);
}

struct listing {
	struct cli_table table;
	int64_t n, last_id;
};

static void take_row(const struct cli *c, struct listing *l, struct json_object *row)
{
	if (c->json) {
		fputs(l->n ? "," : "[", stdout);
		/* cli_json_print ends the line: one row per line */
		cli_json_print(row);
	} else {
		row_cells(&l->table, row);
	}
	l->n++;
	l->last_id = cli_json_int(row, "id");
}

/* One page. Rows in it, or -1. */
static int64_t take_page(struct cli *c, struct listing *l, int64_t want)
{
	struct json_object *args = queue_filters(c);
	int64_t before = l->last_id;
	if (!args)
		return -1;
	json_object_object_add(args, "limit", json_object_new_int64(want));
	if (before > 0)
		json_object_object_add(args, "after_id", json_object_new_int64(before));
	struct json_object *rows = cli_ask(c, "queue.list", args, CLI_ANSWER_MS, false);
	if (!rows)
		return -1;
	size_t n = json_object_is_type(rows, json_type_array) ? json_object_array_length(rows) : 0;
	for (size_t i = 0; i < n; i++)
		take_row(c, l, json_object_array_get_idx(rows, i));
	json_object_put(rows);
	/* a page that does not go forward would be asked for for ever */
	return n && l->last_id <= before ? 0 : (int64_t)n;
}

int tool_queue_list(struct cli *c)
{
	struct listing l = { .table = {
		.heads = { "ID", "STAGE", "STATUS", "RECEIVED (UTC)", "FROM", "TO", "NEXT TRY", "LAST ERROR" },
		.max = { 0, 24, 0, 0, 40, 40, 0, 100 },
		.right = { true },
		.n = 8,
	} };
	int64_t limit = queue_limit(c), n = 0;
	int rc = CLI_DONE;
	if (limit < 0)
		return CLI_USAGE;
	do {
		int64_t want = limit && limit - l.n < PAGE ? limit - l.n : PAGE;
		n = want ? take_page(c, &l, want) : 0;
		if (n < 0)
			rc = CLI_FAILED;
		if (n < want)
			break;
	} while (n);
	if (c->json && rc == CLI_DONE)
		puts(l.n ? "]" : "[]");
	else if (!c->json && l.n)
		cli_table_print(&l.table, stdout);
	else if (!c->json && rc == CLI_DONE)
		puts("no messages");
	buf_free(&l.table.cells);
	return rc;
}

/* --- show, cat --- */

static struct json_object *one_id(const struct cli *c)
{
	int64_t id = cli_number(c, "ID", c->args.pos[0], 1, INT64_MAX - 1);
	if (id < 0)
		return NULL;
	struct json_object *args = json_object_new_object(), *ids = json_object_new_array();
	json_object_array_add(ids, json_object_new_int64(id));
	json_object_object_add(args, "ids", ids);
	return args;
}

static void print_value(const char *key, struct json_object *v, unsigned depth)
{
	struct buf name = BUF_INIT(4096);
	cli_text_safe(&name, str_from(key), 60);
	printf("%*s%-*s ", (int)depth * 2, "", depth ? 0 : 16, buf_z(&name));
	buf_free(&name);
	if (json_object_is_type(v, json_type_object) && json_object_object_length(v) && depth < 6) {
		putchar('\n');
		json_object_object_foreach(v, k, member)
			print_value(k, member, depth + 1);
		return;
	}
	if (json_object_is_type(v, json_type_string))
		cli_text_print(stdout, str_n(json_object_get_string(v), (size_t)json_object_get_string_len(v)));
	else if (json_object_is_type(v, json_type_null))
		putchar('-');
	else
		cli_text_print(stdout, str_from(json_object_to_json_string_ext(v,
		    JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)));
	putchar('\n');
}

static void say_text(const char *before, struct str s)
{
	if (s.n) {
		fputs(before, stdout);
		cli_text_print(stdout, s);
	}
}

/* What the dispatcher noted of the workers that this message cost (pepsi.state(7)), in words, before all else is shown. */
static void print_culprit(struct json_object *row)
{
	struct json_object *state = NULL, *error = NULL, *report = NULL, *frames = NULL;
	if (!json_object_object_get_ex(row, "state", &state) || !json_object_object_get_ex(state, "dispatch_error", &error) ||
	    !json_object_is_type(error, json_type_object))
		return;
	printf("%-16s ", "culprit");
	printf("%" PRId64 " crashes, %" PRId64 " overruns", cli_json_int(error, "crashes"), cli_json_int(error, "overruns"));
	say_text(", the last at ", cli_json_text(error, "at"));
	putchar('\n');
	if (!json_object_object_get_ex(error, "report", &report) || !json_object_is_type(report, json_type_object))
		return;
	printf("%-16s ", "");
	say_text("stage ", cli_json_text(report, "stage"));
	say_text(" in a worker of ", cli_json_text(report, "worker_stage"));
	say_text(", ", cli_json_text(report, "program"));
	say_text(" ", cli_json_text(report, "version"));
	say_text(": ", cli_json_text(report, "what"));
	putchar('\n');
	int64_t held = cli_json_int(report, "held");
	if (held > 1) {
		printf("%-16s named by the worker's page among %" PRId64 " messages in flight", "", held);
		putchar('\n');
	} else if (held == 1) {
		printf("%-16s it was alone with its worker\n", "");
	}
	if (!json_object_object_get_ex(report, "backtrace", &frames) || !json_object_is_type(frames, json_type_array))
		return;
	for (size_t i = 0; i < json_object_array_length(frames); i++) {
		struct json_object *f = json_object_array_get_idx(frames, i);
		printf("%-16s ", "");
		say_text("  ", json_object_is_type(f, json_type_string) ? str_from(json_object_get_string(f)) : STR_NULL);
		putchar('\n');
	}
}

int tool_queue_show(struct cli *c)
{
	struct json_object *args = one_id(c);
	if (!args)
		return CLI_USAGE;
	struct json_object *o = cli_ask(c, "queue.show", args, CLI_ANSWER_MS, false);
	if (!o)
		return CLI_FAILED;
	if (c->json || !json_object_is_type(o, json_type_object)) {
		cli_json_print(o);
	} else {
		print_culprit(o);
		json_object_object_foreach(o, key, v)
			print_value(key, v, 0);
	}
	json_object_put(o);
	return CLI_DONE;
}

/* Octets that are no UTF-8 cannot stand in JSON: base64 then. */
static struct json_object *base64(struct str s)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	struct buf out = BUF_INIT(s.n / 3 * 4 + 8);
	for (size_t i = 0; i < s.n; i += 3) {
		const unsigned char *p = (const unsigned char *)s.p + i;
		size_t n = s.n - i;
		unsigned v = (unsigned)p[0] << 16 | (n > 1 ? (unsigned)p[1] << 8 : 0) | (n > 2 ? p[2] : 0u);
		char four[4] = { digits[v >> 18], digits[v >> 12 & 63], n > 1 ? digits[v >> 6 & 63] : '=', n > 2 ? digits[v & 63] : '=' };
		buf_add(&out, four, 4);
	}
	struct json_object *o = json_object_new_string_len(out.n ? out.p : "", (int)out.n);
	buf_free(&out);
	return o;
}

static int cat_json(struct cli *c, struct json_object *args)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	int64_t id = cli_number(c, "ID", c->args.pos[0], 1, INT64_MAX - 1);
	if (!f) {
		json_object_put(args);
		return cli_fail("out of memory");
	}
	int rc = cli_ask_raw(c, "queue.cat", args, f);
	if (fclose(f) || n > INT32_MAX / 2)
		rc = cli_fail("out of memory");
	if (rc == CLI_DONE) {
		struct json_object *o = json_object_new_object();
		bool plain = str_is_utf8(str_n(text, n));
		json_object_object_add(o, "id", json_object_new_int64(id));
		json_object_object_add(o, "length", json_object_new_int64((int64_t)n));
		json_object_object_add(o, "encoding", json_object_new_string(plain ? "utf-8" : "base64"));
		json_object_object_add(o, "message", plain ? json_object_new_string_len(text, (int)n) : base64(str_n(text, n)));
		cli_json_print(o);
		json_object_put(o);
	}
	free(text);
	return rc;
}

int tool_queue_cat(struct cli *c)
{
	struct json_object *args = one_id(c);
	if (!args)
		return CLI_USAGE;
	return c->json ? cat_json(c, args) : cli_ask_raw(c, "queue.cat", args, stdout);
}
