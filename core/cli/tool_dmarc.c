/* pepsi dmarc list, show, received, unmute: what is counted for reports to others, and what others report. */
#include "dmarc_build.h"
#include "tool_dmarc.h"
#include "tool_reports.h"

/* Connects, asks, goes. args are taken over. NULL after a message. */
static struct json_object *ask_once(struct cli *c, enum store_dmarc_question q, struct json_object *args)
{
	struct tool_db db = { 0 };
	struct config *conf = service_config(c);
	struct json_object *o = NULL;
	if (!conf || tool_db_open(&db, conf))
		json_object_put(args);
	else
		o = tool_db_ask(&db, q, args);
	tool_db_close(&db);
	config_free(conf);
	return o;
}

/* ---- list */

static const struct cli_column periods[] = {
	{ "ID", COLUMN_NUMBER, .key = "id" },
	{ "DOMAIN", COLUMN_TEXT, .key = "domain" },
	{ "FROM (UTC)", COLUMN_TIME, .key = "begin" },
	{ "MESSAGES", COLUMN_NUMBER, .key = "messages" },
	{ "ROWS", COLUMN_NUMBER, .key = "rows" },
	{ "STATE", COLUMN_TEXT, .key = "outcome" },
	{ "TO", COLUMN_FIRST, .key = "destinations" },
	{ "WHY", COLUMN_TEXT, .key = "why" },
	{ 0 },
};

static void print_list(struct json_object *o)
{
	cli_columns_print(periods, cli_json_list(o, "reports"));
	tool_print_muted(o, "Muted, because a report came back:", false);
}

int tool_dmarc_list(struct cli *c)
{
	struct json_object *args = tool_list_arguments(c);
	if (!args)
		return CLI_USAGE;
	bool failures = c->args.set & CLI_BIT(CLI_FAILURES);
	return tool_db_print(c, ask_once(c, failures ? STORE_DMARC_FAILURES : STORE_DMARC_LIST, args), failures ? dmarc_print_failures : print_list);
}

/* ---- show */

static const struct cli_column rows[] = {
	{ "MESSAGES", COLUMN_NUMBER, .key = "messages" },
	{ "SOURCE", COLUMN_TEXT, .key = "ip", .in = "data" },
	{ "DISPOSITION", COLUMN_TEXT, .key = "disposition", .in = "data" },
	{ "DKIM", COLUMN_PASS, .key = "dkim_aligned", .in = "data" },
	{ "SPF", COLUMN_PASS, .key = "spf_aligned", .in = "data" },
	{ "FROM", COLUMN_TEXT, .key = "header_from", .in = "data" },
	{ "ENVELOPE", COLUMN_TEXT, .key = "envelope_from", .in = "data" },
	{ "REASON", COLUMN_TEXT, .key = "reason", .in = "data" },
	{ 0 },
};

static int print_xml(const struct config *conf, struct json_object *period, struct json_object *list)
{
	struct dmarc_sender s;
	struct dmarc_built b;
	if (dmarc_sender_read(&s, conf, false))
		return CLI_FAILED;
	int rc = dmarc_build(&b, &s, period, list) ? CLI_FAILED : CLI_DONE;
	if (!rc)
		fwrite(b.xml.p, 1, b.xml.n, stdout);
	dmarc_built_done(&b);
	return rc;
}

static void print_period(struct json_object *list, struct json_object *period)
{
	cli_columns_print(periods, list);
	fputs("\nPolicy: ", stdout);
	cli_text_print(stdout, cli_json_text(period, "policy"));
	putchar('\n');
	if (cli_json_int(period, "overflow"))
		printf("Messages without a row of their own: %lld\n", (long long)cli_json_int(period, "overflow"));
}

static struct json_object *ask_shown(struct tool_db *db, bool of_rows, struct json_object *args)
{
	return tool_db_ask(db, of_rows ? STORE_DMARC_ROWS : STORE_DMARC_LIST, args);
}

int tool_dmarc_show(struct cli *c)
{
	return tool_show(c, &(struct tool_shown){ "pepsi dmarc", ask_shown, CLI_XML, print_xml, print_period, rows });
}

/* ---- received */

static void print_received(struct json_object *o)
{
	static const struct cli_column domains[] = {
		{ "DOMAIN", COLUMN_TEXT, .key = "domain" },
		{ "REPORTS", COLUMN_NUMBER, .key = "reports" },
		{ "FROM", COLUMN_DAY, .key = "begin" },
		{ "UNTIL", COLUMN_DAY, .key = "end" },
		{ "MESSAGES", COLUMN_NUMBER, .key = "messages" },
		{ "PASSED", COLUMN_NUMBER, .key = "passed" },
		{ "FAILED", COLUMN_NUMBER, .key = "messages", .also = "passed" },
		{ "QUARANTINED", COLUMN_NUMBER, .key = "quarantined" },
		{ "REJECTED", COLUMN_NUMBER, .key = "rejected" },
		{ 0 },
	};
	static const struct cli_column sources[] = {
		{ "SOURCE", COLUMN_TEXT, .key = "ip" },
		{ "DOMAIN", COLUMN_TEXT, .key = "domain" },
		{ "MESSAGES", COLUMN_NUMBER, .key = "messages" },
		{ "DKIM", COLUMN_NUMBER, .key = "dkim" },
		{ "SPF", COLUMN_NUMBER, .key = "spf" },
		{ "FAILED", COLUMN_NUMBER, .key = "failed" },
		{ 0 },
	};
	static const struct cli_column reports[] = {
		{ "UNTIL", COLUMN_TIME, .key = "end" },
		{ "DOMAIN", COLUMN_TEXT, .key = "domain" },
		{ "BY", COLUMN_TEXT, .key = "org", .max = 40 },
		{ "MESSAGES", COLUMN_NUMBER, .key = "messages" },
		{ "PASSED", COLUMN_NUMBER, .key = "passed" },
		{ "SENDER", COLUMN_SENDER, .key = "mail_domain" },
		{ 0 },
	};
	static const struct tool_summary parts[] = { { "domains", NULL, domains }, { "sources", "Sources, those with most failures first:", sources },
		{ "reports", "Reports:", reports }, { 0 } };
	tool_print_summary(o, parts);
}

int tool_dmarc_received(struct cli *c)
{
	struct json_object *args = tool_list_arguments(c);
	if (!args)
		return CLI_USAGE;
	bool failures = c->args.set & CLI_BIT(CLI_FAILURES);
	return tool_db_print(c, ask_once(c, failures ? STORE_DMARC_FAILURE_SUMMARY : STORE_DMARC_SUMMARY, args),
	    failures ? dmarc_print_failures_received : print_received);
}

int tool_dmarc_unmute(struct cli *c)
{
	struct json_object *args = json_object_new_object();
	tool_add_text(args, "address", c->args.pos[0]);
	return tool_changed(c, ask_once(c, STORE_DMARC_UNMUTE, args), "was not muted");
}
