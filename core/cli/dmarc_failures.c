/* pepsi dmarc and failure reports (RFC 9991): those that wait are sent, one message each, to the addresses that the domain's record names now in ruf and that
 * agree to it, as aggregate reports are; those that were sent or came from others are shown. */
#include "base/clock.h"
#include "base/log.h"
#include "dmarc_send.h"
#include "proto/report/arf_write.h"
#include "proto/sasl/base64.h"
#include "tool_reports.h"

enum { RUN_MAX = 1000, HEADERS_MAX = 16 * 1024, BODY_MAX = 128 * 1024 };

/* ---- sending */

static struct arf_mail mail_of(const struct dmarc_sending *s, const struct dmarc_outgoing *g, struct str headers, const char *id)
{
	struct json_object *d = NULL;
	json_object_object_get_ex(g->o, "data", &d);
	return (struct arf_mail){ .submitter = str_from(s->sender.host), .id = str_from(id), .from = str_from(s->sender.from), .from_name = str_from(s->sender.org),
		.now_us = clock_wall_us(), .arrival_us = cli_json_int(g->o, "at") * US_PER_S, .user_agent = STR("Pepsi/" PEPSI_VERSION), .domain = str_from(g->domain),
		.auth_failure = cli_json_text(d, "failure"), .delivery_result = cli_json_text(d, "result"), .alignment = cli_json_text(d, "alignment"),
		.source_ip = cli_json_text(d, "ip"), .mail_from = cli_json_text(d, "mail_from"), .auth_results = cli_json_text(d, "auth_results"),
		.dkim_domain = cli_json_text(d, "dkim_domain"), .dkim_selector = cli_json_text(d, "dkim_selector"), .spf_domain = cli_json_text(d, "spf_domain"),
		.headers = headers };
}

static int one_failure(struct dmarc_sending *s, struct json_object *o)
{
	struct dmarc_outgoing g = { .o = o, .failure = true };
	struct buf headers[DMARC_TARGETS_MAX] = { 0 }, body = { 0 }, told = BUF_INIT(ARF_TOLD_MAX);
	char id[33];
	int rc = dmarc_send_targets(s, &g);
	if (rc <= 0)
		return rc;
	bool bad = tool_new_id(id) || sasl_base64_decode(cli_json_text(o, "headers"), &told);
	struct arf_mail m = mail_of(s, &g, buf_str(&told), id);
	for (size_t i = 0; i < g.n && !bad; i++) {
		m.to = str_from(g.to[i]->address);
		m.nth = (unsigned)i + 1;
		buf_free(&body); /* the same for all */
		headers[i] = BUF_INIT(HEADERS_MAX);
		body = BUF_INIT(BODY_MAX);
		bad = arf_write(&m, &headers[i], &body);
	}
	if (bad) {
		s->run.failed++;
		rc = dmarc_send_end(s, &g, "nowhere", "the report cannot be written");
	} else {
		rc = dmarc_send_enqueue(s, &g, id, headers, buf_str(&body), "kind=failure");
	}
	for (size_t i = 0; i < g.n; i++)
		buf_free(&headers[i]);
	buf_free(&body);
	buf_free(&told);
	return rc;
}

int dmarc_send_failures(struct dmarc_sending *s, const struct config *conf)
{
	struct json_object *args = json_object_new_object();
	int64_t most = config_int(conf, "pepsi-dmarc", "MAX_FAILURES");
	int rc = 0;
	json_object_object_add(args, "limit", json_object_new_int64(most < RUN_MAX ? most : RUN_MAX));
	json_object_object_add(args, "due", json_object_new_boolean(true));
	struct json_object *due = tool_db_ask(&s->run.db, STORE_DMARC_FAILURES, args);
	if (!json_object_is_type(due, json_type_array))
		rc = -1;
	for (size_t i = 0; !rc && i < json_object_array_length(due); i++)
		rc = one_failure(s, json_object_array_get_idx(due, i));
	json_object_put(due);
	return rc;
}

/* ---- shown */

void dmarc_print_failures(struct json_object *list)
{
	static const struct cli_column failures[] = {
		{ "ID", COLUMN_NUMBER, .key = "id" },
		{ "DOMAIN", COLUMN_TEXT, .key = "domain" },
		{ "AT (UTC)", COLUMN_TIME, .key = "at" },
		{ "FAILED", COLUMN_TEXT, .key = "failure", .in = "data" },
		{ "SOURCE", COLUMN_TEXT, .key = "ip", .in = "data" },
		{ "DONE", COLUMN_TEXT, .key = "result", .in = "data" },
		{ "STATE", COLUMN_TEXT, .key = "outcome" },
		{ "TO", COLUMN_FIRST, .key = "destinations" },
		{ "WHY", COLUMN_TEXT, .key = "why" },
		{ 0 },
	};
	cli_columns_print(failures, list);
}

void dmarc_print_failures_received(struct json_object *o)
{
	static const struct cli_column domains[] = {
		{ "DOMAIN", COLUMN_TEXT, .key = "domain" },
		{ "FAILED", COLUMN_TEXT, .key = "failure" },
		{ "REPORTS", COLUMN_NUMBER, .key = "reports" },
		{ "MESSAGES", COLUMN_NUMBER, .key = "incidents" },
		{ "REJECTED", COLUMN_NUMBER, .key = "rejected" },
		{ "SOURCES", COLUMN_NUMBER, .key = "sources" },
		{ "FROM", COLUMN_TIME, .key = "begin" },
		{ "UNTIL", COLUMN_TIME, .key = "end" },
		{ 0 },
	};
	static const struct cli_column sources[] = {
		{ "SOURCE", COLUMN_TEXT, .key = "ip" },
		{ "DOMAIN", COLUMN_TEXT, .key = "domain" },
		{ "MESSAGES", COLUMN_NUMBER, .key = "incidents" },
		{ "REPORTS", COLUMN_NUMBER, .key = "reports" },
		{ "LAST", COLUMN_TIME, .key = "latest" },
		{ 0 },
	};
	static const struct cli_column reports[] = {
		{ "RECEIVED", COLUMN_TIME, .key = "received" },
		{ "DOMAIN", COLUMN_TEXT, .key = "domain" },
		{ "FAILED", COLUMN_TEXT, .key = "failure" },
		{ "ALIGNED", COLUMN_TEXT, .key = "alignment", .in = "detail" },
		{ "SOURCE", COLUMN_TEXT, .key = "ip" },
		{ "ENVELOPE", COLUMN_TEXT, .key = "mail_from", .in = "detail", .max = 40 },
		{ "DONE", COLUMN_TEXT, .key = "result" },
		{ "SENDER", COLUMN_SENDER, .key = "mail_domain" },
		{ 0 },
	};
	static const struct tool_summary parts[] = { { "domains", NULL, domains }, { "sources", "Sources, those with most failures first:", sources },
		{ "reports", "Reports:", reports }, { 0 } };
	tool_print_summary(o, parts);
}
