/* pepsi queue destinations: what the workers of relaying stages report of where mail goes (host->status_report(), its member "destinations"), from all of
 * them, worst first. The reports are a module's: whatever is no object, or lacks something, is shown as far as it goes. */
#include "tool_queue.h"

#include <fnmatch.h>
#include <strings.h>

struct row {
	struct json_object *o;   /* of the report */
	struct json_object *from; /* {"stage":…,"pid":…,"age_s":…} */
	size_t at;               /* in its report */
};

/* A number of a module's, small enough to be added to another. */
static int64_t number(struct json_object *o, const char *key)
{
	int64_t n = cli_json_int(o, key), most = INT64_C(1) << 50;
	return n > most ? most : n < -most ? -most : n;
}

static bool fits(struct str name, const char *pattern)
{
	char z[512];
	size_t n = pattern ? strlen(pattern) : 0;
	if (!pattern)
		return true;
	snprintf(z, sizeof z, "%.*s", STR_ARG(name));
	if (strpbrk(pattern, "*?["))
		return fnmatch(pattern, z, FNM_CASEFOLD) == 0;
	if (str_starts(name, STR("?"))) /* being looked up */
		name = str_skip(name, 1);
	return str_ieq(name, str_from(pattern)) || (name.n > n && name.p[name.n - n - 1] == '.' && str_iends(name, str_from(pattern)));
}

/* What was left when it was told, less what has passed since. */
static int64_t left_ms(const struct row *r)
{
	int64_t ms = number(r->o, "backoff_ms") - number(r->from, "age_s") * 1000;
	return ms > 0 ? ms : 0;
}

/* A rest that has ended since: the next message tries. */
static struct str state_of(const struct row *r)
{
	struct str s = cli_json_text(r->o, "state");
	return str_eq(s, STR("backoff")) && !left_ms(r) ? STR("probe") : s;
}

static unsigned rank(const struct row *r)
{
	static const char *const worst_first[] = { "unsafe", "backoff", "probe", "slow", "new", "good" };
	struct str s = state_of(r);
	unsigned i = 0;
	while (i < sizeof worst_first / sizeof *worst_first && !str_eq(s, str_from(worst_first[i])))
		i++;
	return i;
}

static int compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int64_t w = number(y->o, "waiting") - number(x->o, "waiting");
	unsigned r = rank(x), s = rank(y);
	if (r != s)
		return r < s ? -1 : 1;
	return w ? (w < 0 ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

/* *ret from malloc; the rows borrow from reports. */
static size_t collect(struct json_object *reports, const char *pattern, struct row **ret)
{
	size_t n = 0, most = 0;
	*ret = NULL;
	for (size_t i = 0; json_object_is_type(reports, json_type_array) && i < json_object_array_length(reports); i++) {
		struct json_object *from = json_object_array_get_idx(reports, i), *r = NULL, *list = NULL;
		if (!json_object_object_get_ex(from, "report", &r) || !json_object_object_get_ex(r, "destinations", &list) ||
		    !json_object_is_type(list, json_type_array))
			continue;
		struct row *more = realloc(*ret, (most += json_object_array_length(list)) * sizeof **ret + 1);
		if (!more)
			return n;
		*ret = more;
		for (size_t k = 0; k < json_object_array_length(list); k++) {
			struct json_object *o = json_object_array_get_idx(list, k);
			if (json_object_is_type(o, json_type_object) && fits(cli_json_text(o, "destination"), pattern))
				more[n++] = (struct row){ o, from, k };
		}
	}
	if (n)
		qsort(*ret, n, sizeof **ret, compare);
	return n;
}

static void print_json(const struct row *rows, size_t n)
{
	struct json_object *all = json_object_new_array();
	for (size_t i = 0; i < n; i++) {
		struct json_object *o = rows[i].o;
		int64_t left = left_ms(&rows[i]);
		struct str state = state_of(&rows[i]);
		if (str_eq(state, STR("probe")))
			json_object_object_add(o, "state", json_object_new_string(state.p));
		json_object_object_add(o, "backoff_ms", json_object_new_int64(left));
		json_object_object_add(o, "stage", json_object_new_string(cli_json_text(rows[i].from, "stage").p));
		json_object_object_add(o, "pid", json_object_new_int64(number(rows[i].from, "pid")));
		json_object_object_add(o, "age_s", json_object_new_int64(number(rows[i].from, "age_s")));
		json_object_array_add(all, json_object_get(o));
	}
	cli_json_print(all);
	json_object_put(all);
}

static void trouble(struct cli_table *t, const struct row *r)
{
	struct str what = cli_json_text(r->o, "trouble"), error = cli_json_text(r->o, "error");
	char ago[64];
	if (!what.n) {
		cli_table_cell(t, STR("-"));
		return;
	}
	cli_text_duration(ago, sizeof ago, number(r->o, "trouble_ago_ms") / 1000 + number(r->from, "age_s"));
	cli_table_cellf(t, "%.*s, %s ago%s%.*s", STR_ARG(what), ago, error.n ? ": " : "", STR_ARG(error));
}

static void print_table(const struct row *rows, size_t n)
{
	struct cli_table t = {
		.heads = { "DESTINATION", "STAGE", "STATE", "OPEN", "LIMIT", "WAITING", "SENT", "REFUSED", "FAILED", "TLS", "TROUBLE" },
		.max = { 50, 24, 30, 0, 0, 0, 0, 0, 0, 24, 160 },
		.right = { [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true },
		.n = 11,
	};
	for (size_t i = 0; i < n; i++) {
		struct json_object *o = rows[i].o;
		struct str state = state_of(&rows[i]), tls = cli_json_text(o, "tls");
		int64_t left = left_ms(&rows[i]), window = number(o, "window");
		char span[64];
		cli_table_cell(&t, cli_json_text(o, "destination"));
		cli_table_cell(&t, cli_json_text(rows[i].from, "stage"));
		cli_text_duration(span, sizeof span, (left + 999) / 1000);
		if (left)
			cli_table_cellf(&t, "%.*s %s", STR_ARG(state), span);
		else
			cli_table_cell(&t, state.n ? state : STR("-"));
		cli_table_cellf(&t, "%" PRId64, number(o, "working") + number(o, "idle"));
		cli_table_cellf(&t, "%" PRId64, window ? window : number(o, "concurrency"));
		cli_table_cellf(&t, "%" PRId64, number(o, "waiting"));
		cli_table_cellf(&t, "%" PRId64, number(o, "sent"));
		cli_table_cellf(&t, "%" PRId64, number(o, "refused"));
		cli_table_cellf(&t, "%" PRId64, number(o, "failed"));
		cli_table_cell(&t, tls.n ? tls : json_object_object_get_ex(o, "tls", NULL) ? STR("none") : STR("-"));
		trouble(&t, &rows[i]);
	}
	cli_table_print(&t, stdout);
	buf_free(&t.cells);
}

int tool_queue_destinations(struct cli *c)
{
	const char *stage = c->args.value[CLI_STAGE], *pattern = c->args.n_pos ? c->args.pos[0] : NULL;
	int64_t limit = queue_limit(c);
	struct row *rows;
	if (limit < 0)
		return CLI_USAGE;
	struct json_object *args = json_object_new_object();
	if (stage)
		json_object_object_add(args, "stage", json_object_new_string(stage));
	struct json_object *reports = cli_ask(c, "reports", args, CLI_ANSWER_MS, false);
	if (!reports)
		return CLI_FAILED;
	size_t n = collect(reports, pattern, &rows);
	if (limit && (size_t)limit < n)
		n = (size_t)limit;
	if (c->json)
		print_json(rows, n);
	else if (n)
		print_table(rows, n);
	else
		puts(pattern ? "no worker knows such a destination" : "no worker knows a destination");
	free(rows);
	json_object_put(reports);
	return CLI_DONE;
}
