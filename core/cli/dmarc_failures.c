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
		s->failed++;
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
	struct json_object *due = tool_db_ask(&s->db, STORE_DMARC_FAILURES, args);
	if (!json_object_is_type(due, json_type_array))
		rc = -1;
	for (size_t i = 0; !rc && i < json_object_array_length(due); i++)
		rc = one_failure(s, json_object_array_get_idx(due, i));
	json_object_put(due);
	return rc;
}

/* ---- shown */

static void cell_time(struct cli_table *t, struct json_object *o, const char *key)
{
	char text[32];
	dmarc_time(text, sizeof text, cli_json_int(o, key), true);
	cli_table_cell(t, cli_json_int(o, key) ? str_from(text) : STR("-"));
}

void dmarc_print_failures(struct json_object *list)
{
	struct cli_table t = { .heads = { "ID", "DOMAIN", "AT (UTC)", "FAILED", "SOURCE", "DONE", "STATE", "TO", "WHY" }, .n = 9, .right = { [0] = true } };
	size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
	for (size_t i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(list, i), *d = NULL, *to = NULL;
		json_object_object_get_ex(o, "data", &d);
		size_t n_to = dmarc_list_of(o, "destinations", &to);
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(o, "id"));
		cli_table_cell(&t, cli_json_text(o, "domain"));
		cell_time(&t, o, "at");
		cli_table_cell(&t, cli_json_text(d, "failure"));
		cli_table_cell(&t, cli_json_text(d, "ip"));
		cli_table_cell(&t, cli_json_text(d, "result"));
		cli_table_cell(&t, cli_json_text(o, "outcome"));
		const char *first = n_to ? json_object_get_string(json_object_array_get_idx(to, 0)) : NULL;
		cli_table_cell(&t, str_from(first ? first : ""));
		cli_table_cell(&t, cli_json_text(o, "why"));
	}
	cli_table_print(&t, stdout);
}

static void print_domains(struct json_object *list, size_t n)
{
	struct cli_table t = { .heads = { "DOMAIN", "FAILED", "REPORTS", "MESSAGES", "REJECTED", "SOURCES", "FROM", "UNTIL" }, .n = 8,
		.right = { [2] = true, [3] = true, [4] = true, [5] = true } };
	static const char *const numbers[] = { "reports", "incidents", "rejected", "sources" };
	for (size_t i = 0; i < n; i++) {
		struct json_object *d = json_object_array_get_idx(list, i);
		cli_table_cell(&t, cli_json_text(d, "domain"));
		cli_table_cell(&t, cli_json_text(d, "failure"));
		for (size_t k = 0; k < 4; k++)
			cli_table_cellf(&t, "%lld", (long long)cli_json_int(d, numbers[k]));
		cell_time(&t, d, "begin");
		cell_time(&t, d, "end");
	}
	cli_table_print(&t, stdout);
}

static void print_sources(struct json_object *list, size_t n)
{
	struct cli_table t = { .heads = { "SOURCE", "DOMAIN", "MESSAGES", "REPORTS", "LAST" }, .n = 5, .right = { [2] = true, [3] = true } };
	for (size_t i = 0; i < n; i++) {
		struct json_object *s = json_object_array_get_idx(list, i);
		cli_table_cell(&t, cli_json_text(s, "ip"));
		cli_table_cell(&t, cli_json_text(s, "domain"));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(s, "incidents"));
		cli_table_cellf(&t, "%lld", (long long)cli_json_int(s, "reports"));
		cell_time(&t, s, "latest");
	}
	cli_table_print(&t, stdout);
}

static void print_reports(struct json_object *list, size_t n)
{
	struct cli_table t = { .heads = { "RECEIVED", "DOMAIN", "FAILED", "ALIGNED", "SOURCE", "ENVELOPE", "DONE", "SENDER" }, .n = 8, .max = { [5] = 40 } };
	for (size_t i = 0; i < n; i++) {
		struct json_object *r = json_object_array_get_idx(list, i), *d = NULL, *v = NULL;
		json_object_object_get_ex(r, "detail", &d);
		cell_time(&t, r, "received");
		cli_table_cell(&t, cli_json_text(r, "domain"));
		cli_table_cell(&t, cli_json_text(r, "failure"));
		cli_table_cell(&t, cli_json_text(d, "alignment"));
		cli_table_cell(&t, cli_json_text(r, "ip"));
		cli_table_cell(&t, cli_json_text(d, "mail_from"));
		cli_table_cell(&t, cli_json_text(r, "result"));
		cli_table_cell(&t, json_object_object_get_ex(r, "verified", &v) && json_object_get_boolean(v) ? cli_json_text(r, "mail_domain") : STR("not verified"));
	}
	cli_table_print(&t, stdout);
}

void dmarc_print_failures_received(struct json_object *o)
{
	struct json_object *list;
	size_t n = dmarc_list_of(o, "domains", &list);
	print_domains(list, n);
	if (!n)
		return;
	printf("\nSources, those with most failures first:\n\n");
	n = dmarc_list_of(o, "sources", &list);
	print_sources(list, n);
	printf("\nReports:\n\n");
	n = dmarc_list_of(o, "reports", &list);
	print_reports(list, n);
}
