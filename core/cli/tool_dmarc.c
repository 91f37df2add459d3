/* pepsi dmarc list, show, received, unmute: what is counted for reports to others, and what others report. */
#include "dmarc_build.h"
#include "tool_db.h"
#include "tool_dmarc.h"

#include <time.h>

enum { LIST_MAX = 100000, LIST_DEFAULT = 100, SHOWN_ROWS = 100000 };

bool dmarc_day_ok(const struct cli *c, enum cli_opt opt)
{
	const char *text = c->args.value[opt];
	struct tm tm = { 0 };
	const char *end = text ? strptime(text, "%Y-%m-%d", &tm) : NULL;
	if (!text || (strlen(text) == 10 && end && !*end))
		return true;
	cli_usage(c, "--%s: \"%s\" is not a date such as 2026-11-30", cli_opts[opt].name, text);
	return false;
}

void dmarc_add_text(struct json_object *o, const char *key, const char *text)
{
	if (text)
		json_object_object_add(o, key, json_object_new_string(text));
}

void dmarc_time(char *out, size_t size, int64_t at, bool clock)
{
	time_t t = (time_t)at;
	struct tm tm;
	if (!gmtime_r(&t, &tm) || !(clock ? strftime(out, size, "%Y-%m-%d %H:%M", &tm) : strftime(out, size, "%Y-%m-%d", &tm)))
		snprintf(out, size, "?");
}

struct json_object *dmarc_arguments(const struct cli *c)
{
	const char *limit = c->args.value[CLI_LIMIT];
	int64_t n = limit ? cli_number(c, "--limit", limit, 1, LIST_MAX) : LIST_DEFAULT;
	if (n < 0 || !dmarc_day_ok(c, CLI_DAY) || !dmarc_day_ok(c, CLI_SINCE))
		return NULL;
	struct json_object *o = json_object_new_object();
	json_object_object_add(o, "limit", json_object_new_int64(n));
	dmarc_add_text(o, "domain", c->args.value[CLI_DOMAIN]);
	dmarc_add_text(o, "day", c->args.value[CLI_DAY]);
	dmarc_add_text(o, "since", c->args.value[CLI_SINCE]);
	return o;
}

struct json_object *dmarc_ask(struct cli *c, struct tool_db *db, int question, struct json_object *args)
{
	struct config *conf = service_config(c);
	struct json_object *o = NULL;
	if (!conf)
		json_object_put(args);
	else if (tool_db_open(db, conf))
		json_object_put(args);
	else
		o = tool_db_ask(db, (enum store_dmarc_question)question, args);
	config_free(conf);
	return o;
}

size_t dmarc_list_of(struct json_object *o, const char *key, struct json_object **ret)
{
	*ret = NULL;
	return json_object_object_get_ex(o, key, ret) && json_object_is_type(*ret, json_type_array) ? json_object_array_length(*ret) : 0;
}

/* ---- list */

static void print_periods(struct json_object *list, size_t n)
{
	struct cli_table t = { .heads = { "ID", "DOMAIN", "FROM (UTC)", "MESSAGES", "ROWS", "STATE", "TO", "WHY" }, .n = 8, .right = { [0] = true, [3] = true, [4] = true } };
	for (size_t i = 0; i < n; i++) {
		struct json_object *p = json_object_array_get_idx(list, i), *to = NULL;
		size_t n_to = dmarc_list_of(p, "destinations", &to);
		char from[32];
		dmarc_time(from, sizeof from, cli_json_int(p, "begin"), true);
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(p, "id"));
		cli_table_cell(&t, cli_json_text(p, "domain"));
		cli_table_cell(&t, str_from(from));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(p, "messages"));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(p, "rows"));
		cli_table_cell(&t, cli_json_text(p, "outcome"));
		const char *first = n_to ? json_object_get_string(json_object_array_get_idx(to, 0)) : "";
		if (n_to > 1)
			cli_table_cellf(&t, "%s +%zu", first, n_to - 1);
		else
			cli_table_cell(&t, str_from(first));
		cli_table_cell(&t, cli_json_text(p, "why"));
	}
	cli_table_print(&t, stdout);
}

int tool_dmarc_list(struct cli *c)
{
	struct tool_db db = { 0 };
	struct json_object *args = dmarc_arguments(c), *list, *muted;
	if (!args)
		return CLI_USAGE;
	bool failures = c->args.set & CLI_BIT(CLI_FAILURES);
	struct json_object *o = dmarc_ask(c, &db, failures ? STORE_DMARC_FAILURES : STORE_DMARC_LIST, args);
	if (o && c->json) {
		cli_json_print(o);
	} else if (o && failures) {
		dmarc_print_failures(o);
	} else if (o) {
		size_t n = dmarc_list_of(o, "reports", &list), m;
		print_periods(list, n);
		m = dmarc_list_of(o, "muted", &muted);
		for (size_t i = 0; i < m; i++) {
			struct json_object *a = json_object_array_get_idx(muted, i);
			char until[32];
			dmarc_time(until, sizeof until, cli_json_int(a, "until"), false);
			if (!i)
				puts("\nMuted, because a report came back:");
			fputs("  ", stdout);
			cli_text_print(stdout, cli_json_text(a, "address"));
			printf(" until %s\n", until);
		}
	}
	json_object_put(o);
	tool_db_close(&db);
	return o ? CLI_DONE : CLI_FAILED;
}

/* ---- show */

static void print_rows(struct json_object *rows)
{
	struct cli_table t = { .heads = { "MESSAGES", "SOURCE", "DISPOSITION", "DKIM", "SPF", "FROM", "ENVELOPE", "REASON" }, .n = 8, .right = { true } };
	for (size_t i = 0; i < json_object_array_length(rows); i++) {
		struct json_object *r = json_object_array_get_idx(rows, i), *d = NULL, *v = NULL;
		json_object_object_get_ex(r, "data", &d);
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(r, "messages"));
		cli_table_cell(&t, cli_json_text(d, "ip"));
		cli_table_cell(&t, cli_json_text(d, "disposition"));
		cli_table_cell(&t, json_object_object_get_ex(d, "dkim_aligned", &v) && json_object_get_boolean(v) ? STR("pass") : STR("fail"));
		cli_table_cell(&t, json_object_object_get_ex(d, "spf_aligned", &v) && json_object_get_boolean(v) ? STR("pass") : STR("fail"));
		cli_table_cell(&t, cli_json_text(d, "header_from"));
		cli_table_cell(&t, cli_json_text(d, "envelope_from"));
		cli_table_cell(&t, cli_json_text(d, "reason"));
	}
	cli_table_print(&t, stdout);
}

static int show_xml(const struct config *conf, struct json_object *period, struct json_object *rows)
{
	struct dmarc_sender s;
	struct dmarc_built b;
	if (dmarc_sender_read(&s, conf, false))
		return CLI_FAILED;
	int rc = dmarc_build(&b, &s, period, rows) ? CLI_FAILED : CLI_DONE;
	if (!rc)
		fwrite(b.xml.p, 1, b.xml.n, stdout);
	dmarc_built_done(&b);
	return rc;
}

int tool_dmarc_show(struct cli *c)
{
	struct tool_db db = { 0 };
	int64_t id = cli_number(c, "ID", c->args.pos[0], 1, INT64_MAX);
	struct config *conf = id > 0 ? service_config(c) : NULL;
	struct json_object *args = json_object_new_object(), *o = NULL, *list = NULL, *rows = NULL;
	int rc = id > 0 ? CLI_FAILED : CLI_USAGE;
	json_object_object_add(args, "limit", json_object_new_int(SHOWN_ROWS));
	json_object_object_add(args, "id", json_object_new_int64(id));
	if (!conf || tool_db_open(&db, conf) || !(o = tool_db_ask(&db, STORE_DMARC_LIST, json_object_get(args))))
		goto out;
	if (!dmarc_list_of(o, "reports", &list)) {
		cli_fail("there is no report %lld; pepsi dmarc list shows what there is", (long long)id);
		goto out;
	}
	struct json_object *period = json_object_array_get_idx(list, 0);
	if (!(rows = tool_db_ask(&db, STORE_DMARC_ROWS, json_object_get(args))))
		goto out;
	rc = CLI_DONE;
	if (c->args.set & CLI_BIT(CLI_XML)) {
		rc = show_xml(conf, period, rows);
	} else if (c->json) {
		json_object_object_add(period, "items", json_object_get(rows));
		cli_json_print(period);
	} else {
		print_periods(list, 1);
		fputs("\nPolicy: ", stdout);
		cli_text_print(stdout, cli_json_text(period, "policy"));
		putchar('\n');
		if (cli_json_int(period, "overflow"))
			printf("Messages without a row of their own: %lld\n", (long long)cli_json_int(period, "overflow"));
		putchar('\n');
		print_rows(rows);
	}
out:
	json_object_put(rows);
	json_object_put(o);
	json_object_put(args);
	tool_db_close(&db);
	config_free(conf);
	return rc;
}

/* ---- received */

static void print_domains(struct json_object *list, size_t n)
{
	struct cli_table t = { .heads = { "DOMAIN", "REPORTS", "FROM", "UNTIL", "MESSAGES", "PASSED", "FAILED", "QUARANTINED", "REJECTED" }, .n = 9,
		.right = { [1] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true } };
	for (size_t i = 0; i < n; i++) {
		struct json_object *d = json_object_array_get_idx(list, i);
		int64_t all = cli_json_int(d, "messages"), passed = cli_json_int(d, "passed");
		char from[16], until[16];
		dmarc_time(from, sizeof from, cli_json_int(d, "begin"), false);
		dmarc_time(until, sizeof until, cli_json_int(d, "end"), false);
		cli_table_cell(&t, cli_json_text(d, "domain"));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(d, "reports"));
		cli_table_cell(&t, str_from(from));
		cli_table_cell(&t, str_from(until));
		cli_table_cellf(&t, "%lld", (long long)all);
		cli_table_cellf(&t, "%lld", (long long)passed);
		cli_table_cellf(&t, "%lld", (long long)(all - passed));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(d, "quarantined"));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(d, "rejected"));
	}
	cli_table_print(&t, stdout);
}

static void print_sources(struct json_object *list, size_t n)
{
	struct cli_table t = { .heads = { "SOURCE", "DOMAIN", "MESSAGES", "DKIM", "SPF", "FAILED" }, .n = 6,
		.right = { [2] = true, [3] = true, [4] = true, [5] = true } };
	for (size_t i = 0; i < n; i++) {
		struct json_object *s = json_object_array_get_idx(list, i);
		cli_table_cell(&t, cli_json_text(s, "ip"));
		cli_table_cell(&t, cli_json_text(s, "domain"));
		static const char *const numbers[] = { "messages", "dkim", "spf", "failed" };
		for (size_t k = 0; k < 4; k++)
			cli_table_cellf(&t, "%lld", (long long)cli_json_int(s, numbers[k]));
	}
	cli_table_print(&t, stdout);
}

static void print_reports(struct json_object *list, size_t n)
{
	struct cli_table t = { .heads = { "UNTIL", "DOMAIN", "BY", "MESSAGES", "PASSED", "SENDER" }, .n = 6, .max = { [2] = 40 }, .right = { [3] = true, [4] = true } };
	for (size_t i = 0; i < n; i++) {
		struct json_object *r = json_object_array_get_idx(list, i), *v = NULL;
		char until[32];
		dmarc_time(until, sizeof until, cli_json_int(r, "end"), true);
		cli_table_cell(&t, str_from(until));
		cli_table_cell(&t, cli_json_text(r, "domain"));
		cli_table_cell(&t, cli_json_text(r, "org"));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(r, "messages"));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(r, "passed"));
		cli_table_cell(&t, json_object_object_get_ex(r, "verified", &v) && json_object_get_boolean(v) ? cli_json_text(r, "mail_domain") : STR("not verified"));
	}
	cli_table_print(&t, stdout);
}

int tool_dmarc_received(struct cli *c)
{
	struct tool_db db = { 0 };
	struct json_object *args = dmarc_arguments(c), *list;
	if (!args)
		return CLI_USAGE;
	bool failures = c->args.set & CLI_BIT(CLI_FAILURES);
	struct json_object *o = dmarc_ask(c, &db, failures ? STORE_DMARC_FAILURE_SUMMARY : STORE_DMARC_SUMMARY, args);
	if (o && c->json) {
		cli_json_print(o);
	} else if (o && failures) {
		dmarc_print_failures_received(o);
	} else if (o) {
		size_t n = dmarc_list_of(o, "domains", &list);
		print_domains(list, n);
		if (n) {
			printf("\nSources, those with most failures first:\n\n");
			n = dmarc_list_of(o, "sources", &list);
			print_sources(list, n);
			printf("\nReports:\n\n");
			n = dmarc_list_of(o, "reports", &list);
			print_reports(list, n);
		}
	}
	json_object_put(o);
	tool_db_close(&db);
	return o ? CLI_DONE : CLI_FAILED;
}

int tool_dmarc_unmute(struct cli *c)
{
	struct tool_db db = { 0 };
	struct json_object *args = json_object_new_object();
	dmarc_add_text(args, "address", c->args.pos[0]);
	struct json_object *o = dmarc_ask(c, &db, STORE_DMARC_UNMUTE, args);
	bool was = o && json_object_get_boolean(o), answered = o != NULL;
	json_object_put(o);
	tool_db_close(&db);
	if (answered && !was)
		return cli_fail("%s was not muted", c->args.pos[0]);
	if (was && c->json)
		puts("{\"ok\":true}");
	return was ? CLI_DONE : CLI_FAILED;
}
