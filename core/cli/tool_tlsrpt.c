/* pepsi tlsrpt list, show, received, mute, unmute: what is counted for TLS reports to others (RFC 8460), and what others report. */
#include "tool_tlsrpt.h"

#include "tlsrpt_build.h"
#include "tool_reports.h"

enum { MUTE_DAYS = 366 };

/* -- list, show */

static const struct cli_column reports_out[] = {
	{ "ID", COLUMN_NUMBER, .key = "id" },
	{ "DOMAIN", COLUMN_TEXT, .key = "domain" },
	{ "DAY (UTC)", COLUMN_TEXT, .key = "day" },
	{ "SESSIONS", COLUMN_NUMBER, .key = "sessions" },
	{ "FAILED", COLUMN_NUMBER, .key = "failures" },
	{ "ROWS", COLUMN_NUMBER, .key = "rows" },
	{ "STATE", COLUMN_TEXT, .key = "outcome" },
	{ "TO", COLUMN_FIRST, .key = "mailed", .also = "posted" },
	{ "WHY", COLUMN_TEXT, .key = "why" },
	{ 0 },
};

static void print_list(struct json_object *o)
{
	cli_columns_print(reports_out, cli_json_list(o, "reports"));
	tool_print_muted(o, "Muted:", true);
}

int tool_tlsrpt_list(struct cli *c)
{
	struct json_object *args = tool_list_arguments(c);
	return args ? tool_db_print(c, tool_db_once(c, STORE_TLSRPT_LIST, args), print_list) : CLI_USAGE;
}

static struct str result(struct json_object *row)
{
	struct json_object *f = NULL;
	return json_object_object_get_ex(row, "failure", &f) && f ? cli_json_text(f, "result") : STR("success");
}

static const struct cli_column rows[] = {
	{ "SESSIONS", COLUMN_NUMBER, .key = "sessions" },
	{ "POLICY", COLUMN_TEXT, .key = "type", .in = "policy" },
	{ "RESULT", COLUMN_OWN, .own = result },
	{ "MX", COLUMN_TEXT, .key = "mx", .in = "failure" },
	{ "ADDRESS", COLUMN_TEXT, .key = "receiving_ip", .in = "failure" },
	{ "FROM", COLUMN_TEXT, .key = "sending_ip", .in = "failure" },
	{ "CODE", COLUMN_TEXT, .key = "code", .in = "failure" },
	{ 0 },
};

/* The report as it would be sent now; with an id of its own where it has none yet. */
static int print_report(const struct config *conf, struct json_object *o, struct json_object *list)
{
	struct tlsrpt_sender s;
	struct tlsrpt_built b;
	char id[33];
	struct str known = cli_json_text(o, "report_id");
	snprintf(id, sizeof id, "%.*s", STR_ARG(known));
	if ((!known.n && tool_new_id(id)) || tlsrpt_sender_read(&s, conf, false))
		return CLI_FAILED;
	int rc = tlsrpt_build(&b, &s, o, list, id) ? CLI_FAILED : CLI_DONE;
	if (!rc) {
		fwrite(b.json.p, 1, b.json.n, stdout);
		putchar('\n');
	}
	tlsrpt_built_done(&b);
	return rc;
}

static void print_day(struct json_object *list, struct json_object *one)
{
	cli_columns_print(reports_out, list);
	if (cli_json_int(one, "overflow"))
		printf("\nSessions without a row of their own: %lld\n", (long long)cli_json_int(one, "overflow"));
}

static struct json_object *ask_shown(struct tool_db *db, bool of_rows, struct json_object *args)
{
	return tool_db_destinations(db, of_rows ? STORE_TLSRPT_ROWS : STORE_TLSRPT_LIST, args);
}

int tool_tlsrpt_show(struct cli *c)
{
	return tool_show(c, &(struct tool_shown){ "pepsi tlsrpt", ask_shown, CLI_REPORT, print_report, print_day, rows });
}

/* -- received */

static const struct cli_column failures[] = {
	{ "DOMAIN", COLUMN_TEXT, .key = "domain" },
	{ "MX", COLUMN_TEXT, .key = "mx" },
	{ "ADDRESS", COLUMN_TEXT, .key = "ip" },
	{ "FAILURE", COLUMN_TEXT, .key = "result" },
	{ "CODE", COLUMN_TEXT, .key = "code", .max = 40 },
	{ "POLICY", COLUMN_TEXT, .key = "type" },
	{ "SESSIONS", COLUMN_NUMBER, .key = "sessions" },
	{ "BY", COLUMN_NUMBER, .key = "organisations" },
	{ "LAST", COLUMN_DAY, .key = "latest" },
	{ 0 },
};

static void print_failures(struct json_object *o)
{
	cli_columns_print(failures, cli_json_list(o, "failures"));
}

static void print_received(struct json_object *o)
{
	static const struct cli_column domains[] = {
		{ "DOMAIN", COLUMN_TEXT, .key = "domain" },
		{ "POLICY", COLUMN_TEXT, .key = "type" },
		{ "REPORTS", COLUMN_NUMBER, .key = "reports" },
		{ "BY", COLUMN_NUMBER, .key = "organisations" },
		{ "FROM", COLUMN_DAY, .key = "begin" },
		{ "UNTIL", COLUMN_DAY, .key = "end" },
		{ "WITH TLS", COLUMN_NUMBER, .key = "successes" },
		{ "FAILED", COLUMN_NUMBER, .key = "failures" },
		{ 0 },
	};
	static const struct cli_column reports_in[] = {
		{ "UNTIL", COLUMN_TIME, .key = "end" },
		{ "DOMAIN", COLUMN_TEXT, .key = "domain" },
		{ "BY", COLUMN_TEXT, .key = "org", .max = 40 },
		{ "WITH TLS", COLUMN_NUMBER, .key = "successes" },
		{ "FAILED", COLUMN_NUMBER, .key = "failures" },
		{ "SENDER", COLUMN_SENDER, .key = "mail_domain" },
		{ 0 },
	};
	static const struct tool_summary all[] = { { "domains", NULL, domains }, { "failures", "Failures, those of most sessions first:", failures },
		{ "reports", "Reports:", reports_in }, { 0 } };
	static const struct tool_summary good[] = { { "domains", NULL, domains }, { "reports", "Reports:", reports_in }, { 0 } };
	tool_print_summary(o, cli_json_length(cli_json_list(o, "failures")) ? all : good);
}

int tool_tlsrpt_received(struct cli *c)
{
	struct json_object *args = tool_list_arguments(c);
	if (!args)
		return CLI_USAGE;
	return tool_db_print(c, tool_db_once(c, STORE_TLSRPT_SUMMARY, args), c->args.set & CLI_BIT(CLI_FAILURES) ? print_failures : print_received);
}

/* -- mute, unmute */

static int change(struct cli *c, enum store_destinations_question q, struct json_object *args, const char *no)
{
	tool_add_text(args, "address", c->args.pos[0]);
	return tool_changed(c, tool_db_once(c, q, args), no);
}

int tool_tlsrpt_mute(struct cli *c)
{
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "days", json_object_new_int(MUTE_DAYS));
	tool_add_text(args, "why", "by hand");
	return change(c, STORE_TLSRPT_MUTE, args, "cannot be muted");
}

int tool_tlsrpt_unmute(struct cli *c)
{
	return change(c, STORE_TLSRPT_UNMUTE, json_object_new_object(), "was not muted");
}
