/* pepsi tlsrpt list, show, received, mute, unmute: what is counted for TLS reports to others (RFC 8460), and what others report. */
#include "tool_tlsrpt.h"

#include "tlsrpt_build.h"
#include "tool_dmarc.h"
#include "tool_reports.h"

enum { SHOWN_ROWS = 100000, MUTE_DAYS = 366 };

/* -- list, show */

static void print_reports_out(struct json_object *list, size_t n)
{
	struct cli_table t = { .heads = { "ID", "DOMAIN", "DAY (UTC)", "SESSIONS", "FAILED", "ROWS", "STATE", "TO", "WHY" }, .n = 9,
		.right = { [0] = true, [3] = true, [4] = true, [5] = true } };
	for (size_t i = 0; i < n; i++) {
		struct json_object *r = json_object_array_get_idx(list, i), *mailed = NULL, *posted = NULL;
		size_t n_mailed = dmarc_list_of(r, "mailed", &mailed), n_posted = dmarc_list_of(r, "posted", &posted);
		static const char *const numbers[] = { "sessions", "failures", "rows" };
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(r, "id"));
		cli_table_cell(&t, cli_json_text(r, "domain"));
		cli_table_cell(&t, cli_json_text(r, "day"));
		for (size_t k = 0; k < 3; k++)
			cli_table_cellf(&t, "%lld", (long long)cli_json_int(r, numbers[k]));
		cli_table_cell(&t, cli_json_text(r, "outcome"));
		const char *first = n_mailed ? json_object_get_string(json_object_array_get_idx(mailed, 0)) :
		    n_posted ? json_object_get_string(json_object_array_get_idx(posted, 0)) : "";
		if (n_mailed + n_posted > 1)
			cli_table_cellf(&t, "%s +%zu", first, n_mailed + n_posted - 1);
		else
			cli_table_cell(&t, str_from(first));
		cli_table_cell(&t, cli_json_text(r, "why"));
	}
	cli_table_print(&t, stdout);
}

static void print_list(struct json_object *o)
{
	struct json_object *list, *muted;
	size_t n = dmarc_list_of(o, "reports", &list), m = dmarc_list_of(o, "muted", &muted);
	print_reports_out(list, n);
	for (size_t i = 0; i < m; i++) {
		struct json_object *a = json_object_array_get_idx(muted, i);
		char until[32];
		dmarc_time(until, sizeof until, cli_json_int(a, "until"), false);
		if (!i)
			puts("\nMuted:");
		fputs("  ", stdout);
		cli_text_print(stdout, cli_json_text(a, "address"));
		printf(" until %s: ", until);
		cli_text_print(stdout, cli_json_text(a, "why"));
		putchar('\n');
	}
}

int tool_tlsrpt_list(struct cli *c)
{
	struct json_object *args = dmarc_arguments(c);
	return args ? tool_db_print(c, tool_db_once(c, STORE_TLSRPT_LIST, args), print_list) : CLI_USAGE;
}

static void print_rows(struct json_object *rows)
{
	struct cli_table t = { .heads = { "SESSIONS", "POLICY", "RESULT", "MX", "ADDRESS", "FROM", "CODE" }, .n = 7, .right = { true } };
	for (size_t i = 0; i < json_object_array_length(rows); i++) {
		struct json_object *r = json_object_array_get_idx(rows, i), *p = NULL, *f = NULL;
		json_object_object_get_ex(r, "policy", &p);
		json_object_object_get_ex(r, "failure", &f);
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(r, "sessions"));
		cli_table_cell(&t, cli_json_text(p, "type"));
		cli_table_cell(&t, f ? cli_json_text(f, "result") : STR("success"));
		static const char *const keys[] = { "mx", "receiving_ip", "sending_ip", "code" };
		for (size_t k = 0; k < 4; k++)
			cli_table_cell(&t, f ? cli_json_text(f, keys[k]) : STR(""));
	}
	cli_table_print(&t, stdout);
}

/* The report as it would be sent now; with an id of its own where it has none yet. */
static int show_report(const struct config *conf, struct json_object *o, struct json_object *rows)
{
	struct tlsrpt_sender s;
	struct tlsrpt_built b;
	char id[33];
	struct str known = cli_json_text(o, "report_id");
	snprintf(id, sizeof id, "%.*s", STR_ARG(known));
	if ((!known.n && tool_new_id(id)) || tlsrpt_sender_read(&s, conf, false))
		return CLI_FAILED;
	int rc = tlsrpt_build(&b, &s, o, rows, id) ? CLI_FAILED : CLI_DONE;
	if (!rc) {
		fwrite(b.json.p, 1, b.json.n, stdout);
		putchar('\n');
	}
	tlsrpt_built_done(&b);
	return rc;
}

int tool_tlsrpt_show(struct cli *c)
{
	struct tool_db db = { 0 };
	int64_t id = cli_number(c, "ID", c->args.pos[0], 1, INT64_MAX);
	struct config *conf = id > 0 ? service_config(c) : NULL;
	struct json_object *args = json_object_new_object(), *o = NULL, *list = NULL, *rows = NULL;
	int rc = id > 0 ? CLI_FAILED : CLI_USAGE;
	json_object_object_add(args, "limit", json_object_new_int(SHOWN_ROWS));
	json_object_object_add(args, "id", json_object_new_int64(id));
	if (!conf || tool_db_open(&db, conf) || !(o = tool_db_destinations(&db, STORE_TLSRPT_LIST, json_object_get(args))))
		goto out;
	if (!dmarc_list_of(o, "reports", &list)) {
		cli_fail("there is no report %lld; pepsi tlsrpt list shows what there is", (long long)id);
		goto out;
	}
	struct json_object *one = json_object_array_get_idx(list, 0);
	if (!(rows = tool_db_destinations(&db, STORE_TLSRPT_ROWS, json_object_get(args))))
		goto out;
	rc = CLI_DONE;
	if (c->args.set & CLI_BIT(CLI_REPORT)) {
		rc = show_report(conf, one, rows);
	} else if (c->json) {
		json_object_object_add(one, "items", json_object_get(rows));
		cli_json_print(one);
	} else {
		print_reports_out(list, 1);
		if (cli_json_int(one, "overflow"))
			printf("\nSessions without a row of their own: %lld\n", (long long)cli_json_int(one, "overflow"));
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

/* -- received */

static void print_domains(struct json_object *list, size_t n)
{
	struct cli_table t = { .heads = { "DOMAIN", "POLICY", "REPORTS", "BY", "FROM", "UNTIL", "WITH TLS", "FAILED" }, .n = 8,
		.right = { [2] = true, [3] = true, [6] = true, [7] = true } };
	for (size_t i = 0; i < n; i++) {
		struct json_object *d = json_object_array_get_idx(list, i);
		char from[16], until[16];
		dmarc_time(from, sizeof from, cli_json_int(d, "begin"), false);
		dmarc_time(until, sizeof until, cli_json_int(d, "end"), false);
		cli_table_cell(&t, cli_json_text(d, "domain"));
		cli_table_cell(&t, cli_json_text(d, "type"));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(d, "reports"));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(d, "organisations"));
		cli_table_cell(&t, str_from(from));
		cli_table_cell(&t, str_from(until));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(d, "successes"));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(d, "failures"));
	}
	cli_table_print(&t, stdout);
}

static void print_failures(struct json_object *o)
{
	struct cli_table t = { .heads = { "DOMAIN", "MX", "ADDRESS", "FAILURE", "CODE", "POLICY", "SESSIONS", "BY", "LAST" }, .n = 9, .max = { [4] = 40 },
		.right = { [6] = true, [7] = true } };
	struct json_object *list;
	size_t n = dmarc_list_of(o, "failures", &list);
	for (size_t i = 0; i < n; i++) {
		struct json_object *f = json_object_array_get_idx(list, i);
		static const char *const keys[] = { "domain", "mx", "ip", "result", "code", "type" };
		char day[16];
		dmarc_time(day, sizeof day, cli_json_int(f, "latest"), false);
		for (size_t k = 0; k < 6; k++)
			cli_table_cell(&t, cli_json_text(f, keys[k]));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(f, "sessions"));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(f, "organisations"));
		cli_table_cell(&t, str_from(day));
	}
	cli_table_print(&t, stdout);
}

static void print_reports_in(struct json_object *list, size_t n)
{
	struct cli_table t = { .heads = { "UNTIL", "DOMAIN", "BY", "WITH TLS", "FAILED", "SENDER" }, .n = 6, .max = { [2] = 40 }, .right = { [3] = true, [4] = true } };
	for (size_t i = 0; i < n; i++) {
		struct json_object *r = json_object_array_get_idx(list, i), *v = NULL;
		char until[32];
		dmarc_time(until, sizeof until, cli_json_int(r, "end"), true);
		cli_table_cell(&t, str_from(until));
		cli_table_cell(&t, cli_json_text(r, "domain"));
		cli_table_cell(&t, cli_json_text(r, "org"));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(r, "successes"));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(r, "failures"));
		cli_table_cell(&t, json_object_object_get_ex(r, "verified", &v) && json_object_get_boolean(v) ? cli_json_text(r, "mail_domain") : STR("not verified"));
	}
	cli_table_print(&t, stdout);
}

static void print_received(struct json_object *o)
{
	struct json_object *list;
	size_t n = dmarc_list_of(o, "domains", &list);
	print_domains(list, n);
	if (!n)
		return;
	if (dmarc_list_of(o, "failures", &list)) {
		puts("\nFailures, those of most sessions first:\n");
		print_failures(o);
	}
	puts("\nReports:\n");
	n = dmarc_list_of(o, "reports", &list);
	print_reports_in(list, n);
}

int tool_tlsrpt_received(struct cli *c)
{
	struct json_object *args = dmarc_arguments(c);
	if (!args)
		return CLI_USAGE;
	return tool_db_print(c, tool_db_once(c, STORE_TLSRPT_SUMMARY, args), c->args.set & CLI_BIT(CLI_FAILURES) ? print_failures : print_received);
}

/* -- mute, unmute */

static int change(struct cli *c, enum store_destinations_question q, struct json_object *args, const char *no)
{
	dmarc_add_text(args, "address", c->args.pos[0]);
	struct json_object *o = tool_db_once(c, q, args);
	bool answered = o != NULL, done = o && json_object_get_boolean(o);
	json_object_put(o);
	if (answered && !done)
		return cli_fail("%s %s", c->args.pos[0], no);
	if (done && c->json)
		puts("{\"ok\":true}");
	return done ? CLI_DONE : CLI_FAILED;
}

int tool_tlsrpt_mute(struct cli *c)
{
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "days", json_object_new_int(MUTE_DAYS));
	dmarc_add_text(args, "why", "by hand");
	return change(c, STORE_TLSRPT_MUTE, args, "cannot be muted");
}

int tool_tlsrpt_unmute(struct cli *c)
{
	return change(c, STORE_TLSRPT_UNMUTE, json_object_new_object(), "was not muted");
}
