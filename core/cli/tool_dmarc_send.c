/* pepsi dmarc send: the reports whose period is over go into the queue, each to the addresses that the domain's record names now and that
 * agree to it (proto/report/rua.h). One after the other: a run is bounded by MAX_REPORTS, each look-up by its own deadline. A report is in the
 * queue and marked as sent in one transaction, so that two runs beside each other, or one that is killed, send none twice. */
#include "base/log.h"
#include "dmarc_send.h"
#include "proto/smtp/address.h"
#include "tool_reports.h"
#include "worker/resolve.h"

#include <stdlib.h>

enum {
	GRACE_S = 300,          /* behind a period's end: the reactor's last counts come some seconds later */
	LOOKUP_S = 30,          /* for all look-ups of one domain */
};

/* ---- where to */

static bool excluded(const struct dmarc_sending *s, struct str domain)
{
	return s->exclude && config_domains_has(s->exclude, domain);
}

/* Why this address gets nothing; NULL: it gets a report. size 0: not known yet. */
static const char *refuse(const struct dmarc_sending *s, const struct rua_target *t, size_t size)
{
	const char *at = strrchr(t->address, '@');
	switch (t->verdict) {
	case RUA_SCHEME:
		return "no mailto URI";
	case RUA_ADDRESS:
		return "no single address";
	case RUA_NOT_AGREED:
		return "its zone does not agree to get reports about this domain";
	case RUA_OVERRIDE:
		return "its zone names a third party";
	case RUA_REPEATED:
		return "named twice";
	case RUA_REPLACED:
		return "its zone names another address";
	case RUA_LATER:
		return "its zone cannot be asked now";
	case RUA_SEND:
		break;
	}
	if (tool_is_muted(s->muted, t->address))
		return "muted: a report came back";
	if (at && excluded(s, str_from(at + 1)))
		return "in EXCLUDE";
	if (str_ieq(str_from(t->address), str_from(s->sender.from)))
		return "our own FROM";
	/* the size in the record counts what is sent, encoded (RFC 9990 3.5) */
	return t->max && size > t->max ? "the report is longer than it takes" : NULL;
}

/* ---- one report */

static void note(struct dmarc_sending *s, const struct dmarc_outgoing *g, const char *what, const char *why)
{
	struct str domain = str_from(g->domain);
	if (s->out) {
		struct json_object *o = json_object_new_object();
		json_object_object_add(o, "id", json_object_new_int64(cli_json_int(g->o, "id")));
		if (g->failure)
			json_object_object_add(o, "failure", json_object_new_boolean(true));
		json_object_object_add(o, "domain", json_object_new_string_len(domain.p, (int)domain.n));
		dmarc_add_text(o, "result", what);
		dmarc_add_text(o, "why", why);
		json_object_array_add(s->out, o);
	} else if (s->dry) {
		cli_text_print(stdout, domain);
		printf(": %s%s%s%s\n", g->failure ? "failure report " : "", what, why ? ": " : "", why ? why : "");
	}
}

int dmarc_send_end(struct dmarc_sending *s, const struct dmarc_outgoing *g, const char *outcome, const char *why)
{
	struct json_object *period = g->o;
	if (g->failure)
		log_info(NULL, "event=dmarc-failure-%s domain=%s why=%s", outcome ? outcome : "later", log_qz(g->domain), log_qz(why));
	else
		log_info(NULL, "event=dmarc-report-%s domain=%s messages=%lld why=%s", outcome ? outcome : "later", log_qz(g->domain),
		    (long long)cli_json_int(period, "messages"), log_qz(why));
	s->nowhere += outcome != NULL;
	s->later += !outcome;
	note(s, g, outcome ? outcome : "later", why);
	if (s->dry)
		return 0;
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "id", json_object_new_int64(cli_json_int(period, "id")));
	json_object_object_add(args, "failure", json_object_new_boolean(g->failure));
	dmarc_add_text(args, "outcome", outcome);
	dmarc_add_text(args, "why", why);
	struct json_object *o = tool_db_ask(&s->db, STORE_DMARC_DONE, args);
	json_object_put(o);
	return o ? 0 : -1;
}

int dmarc_send_enqueue(struct dmarc_sending *s, const struct dmarc_outgoing *g, const char *report_id, const struct buf *headers, struct str body, const char *more)
{
	struct str rcpts[DMARC_TARGETS_MAX], heads[DMARC_TARGETS_MAX];
	char list[1200] = "";
	int64_t id = 0;
	for (size_t i = 0; i < g->n; i++) {
		rcpts[i] = str_from(g->to[i]->address);
		heads[i] = buf_str(&headers[i]);
		size_t at = strlen(list);
		snprintf(list + at, sizeof list - at, "%s%s", i ? " " : "", g->to[i]->address);
	}
	if (!s->dry) {
		const struct store_dmarc_report r = { .id = cli_json_int(g->o, "id"), .failure = g->failure, .report_id = report_id, .stage = s->sender.stage,
			.mail_from = s->sender.from, .state = "{\"origin\":{\"esmtp\":true,\"smtputf8\":false,\"body\":\"7BIT\"}}", .rcpts = rcpts, .headers = heads,
			.n = g->n, .body = body };
		id = tool_db_enqueue(&s->db, &r);
		if (id <= 0)
			return id < 0 ? -1 : 0; /* another run was faster */
	}
	s->sent++;
	s->messages += g->n;
	log_info(NULL, "id=%lld event=dmarc-%s-sent domain=%s report=%s to=%s octets=%zu %s dry=%d", (long long)id, g->failure ? "failure" : "report", log_qz(g->domain),
	    report_id, log_qz(list), body.n, more, s->dry);
	note(s, g, s->dry ? "would be sent" : "sent", list);
	return 0;
}

static int enqueue(struct dmarc_sending *s, const struct dmarc_outgoing *g, const struct dmarc_built *b)
{
	struct buf headers[DMARC_TARGETS_MAX] = { 0 }, body = { 0 };
	char more[100];
	int rc = 0;
	for (size_t i = 0; i < g->n && !rc; i++) {
		buf_free(&body); /* the same for all: the boundary is made of the id */
		rc = dmarc_mail(b, &s->sender, g->to[i]->address, (unsigned)i + 1, &headers[i], &body);
	}
	snprintf(more, sizeof more, "rows=%zu left_out=%zu", b->report.n_rows, b->left_out);
	rc = rc || dmarc_send_enqueue(s, g, b->id, headers, buf_str(&body), more) ? -1 : 0;
	for (size_t i = 0; i < g->n; i++)
		buf_free(&headers[i]);
	buf_free(&body);
	return rc;
}

static void add_why(struct dmarc_outgoing *g, const struct rua_target *t, const char *no)
{
	size_t n = strlen(g->why);
	if (n + 300 < sizeof g->why)
		snprintf(g->why + n, sizeof g->why - n, "%s%.200s: %s", n ? "; " : "", t->uri, no);
}

int dmarc_send_targets(struct dmarc_sending *s, struct dmarc_outgoing *g)
{
	size_t wait = 0;
	snprintf(g->domain, sizeof g->domain, "%.*s", STR_ARG(cli_json_text(g->o, "domain")));
	g->check = (struct rua_check){ .domain = g->domain, .failures = g->failure };
	g->n = 0;
	g->why[0] = 0;
	if (excluded(s, str_from(g->domain)))
		return dmarc_send_end(s, g, "excluded", "in EXCLUDE");
	if (tool_db_resolve(&s->db, s->dns, LOOKUP_S, RUA_QUERIES, rua_evaluate, &g->check)) {
		cli_fail("%s: the DNS cannot be asked", g->domain);
		return -1;
	}
	if (g->check.state == RUA_TEMPFAIL)
		return dmarc_send_end(s, g, NULL, "its policy record cannot be read now");
	if (g->check.state == RUA_NONE)
		return dmarc_send_end(s, g, "nowhere", "its policy record names no address any more");
	for (size_t i = 0; i < g->check.n; i++) {
		const char *no = refuse(s, &g->check.target[i], 0);
		wait += g->check.target[i].verdict == RUA_LATER;
		if (!no)
			g->to[g->n++] = &g->check.target[i];
		else
			add_why(g, &g->check.target[i], no);
	}
	/* with others to send to, the one that cannot be asked now has had its chance: nobody gets a report twice */
	return g->n ? 1 : dmarc_send_end(s, g, wait ? NULL : "nowhere", g->why);
}

bool dmarc_send_fits(const struct dmarc_sending *s, const struct rua_target *t, size_t size)
{
	return !refuse(s, t, size);
}

/* 0, or -1: the run ends. */
static int one_report(struct dmarc_sending *s, struct json_object *period)
{
	struct dmarc_outgoing g = { .o = period };
	int rc = dmarc_send_targets(s, &g);
	if (rc <= 0)
		return rc;
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "id", json_object_new_int64(cli_json_int(period, "id")));
	json_object_object_add(args, "limit", json_object_new_int64(s->sender.max_rows));
	struct json_object *rows = tool_db_ask(&s->db, STORE_DMARC_ROWS, args);
	struct dmarc_built b;
	if (!rows)
		return -1;
	if (dmarc_build(&b, &s->sender, period, rows)) {
		s->failed++;
		rc = dmarc_send_end(s, &g, "nowhere", "the report cannot be written");
	} else {
		size_t fit = 0;
		for (size_t i = 0; i < g.n; i++)
			if (dmarc_send_fits(s, g.to[i], dmarc_mail_size(&b)))
				g.to[fit++] = g.to[i];
			else
				add_why(&g, g.to[i], "the report is longer than it takes");
		g.n = fit;
		rc = fit ? enqueue(s, &g, &b) : dmarc_send_end(s, &g, "nowhere", g.why);
	}
	dmarc_built_done(&b);
	json_object_put(rows);
	return rc;
}

/* ---- the run */

static int sweep(struct dmarc_sending *s, const struct config *conf)
{
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "keep", json_object_new_int64(config_int(conf, "pepsi-dmarc", "KEEP")));
	json_object_object_add(args, "expire", json_object_new_int64(config_int(conf, "pepsi-dmarc", "EXPIRE")));
	struct json_object *o = tool_db_ask(&s->db, STORE_DMARC_SWEEP, args);
	if (!o)
		return -1;
	if (cli_json_int(o, "expired"))
		log_warn(NULL, "event=dmarc-reports-expired n=%lld", (long long)cli_json_int(o, "expired"));
	json_object_put(o);
	return 0;
}

static int prepare(struct dmarc_sending *s, const struct config *conf)
{
	struct net_dns_settings dns;
	char err[256];
	const char *exclude = config_str(conf, "pepsi-dmarc", "EXCLUDE");
	if (resolve_settings(conf, &dns, err, sizeof err))
		return cli_fail("%s", err);
	if (exclude && *exclude && !(s->exclude = config_domains_new(exclude)))
		return cli_fail("out of memory");
	if (tool_db_open(&s->db, conf))
		return CLI_FAILED;
	if (!(s->dns = net_dns_new(s->db.base, &dns)))
		return cli_fail("out of memory");
	return !s->dry && sweep(s, conf) ? CLI_FAILED : CLI_DONE;
}

static int send_periods(struct dmarc_sending *s, const struct config *conf)
{
	struct json_object *args = json_object_new_object(), *due;
	int64_t most = config_int(conf, "pepsi-dmarc", "MAX_REPORTS");
	int rc = 0;
	json_object_object_add(args, "grace", json_object_new_int(s->c->args.value[CLI_DAY] || s->dry ? 0 : GRACE_S));
	json_object_object_add(args, "limit", json_object_new_int64(most));
	dmarc_add_text(args, "day", s->c->args.value[CLI_DAY]);
	due = tool_db_ask(&s->db, STORE_DMARC_DUE, args);
	for (size_t i = 0; due && !rc && i < json_object_array_length(due); i++)
		rc = one_report(s, json_object_array_get_idx(due, i));
	size_t n = due ? json_object_array_length(due) : 0;
	if (due && (int64_t)n == most)
		log_warn(NULL, "event=dmarc-run-full reports=%zu text=\"MAX_REPORTS: others wait for the next run\"", n);
	rc = due ? rc : -1;
	json_object_put(due);
	return rc;
}

static int run(struct dmarc_sending *s, const struct config *conf)
{
	struct json_object *args = json_object_new_object(), *all = NULL;
	bool only = s->c->args.set & CLI_BIT(CLI_FAILURES);
	int rc = 0;
	json_object_object_add(args, "limit", json_object_new_int(1));
	if (!(all = tool_db_ask(&s->db, STORE_DMARC_LIST, args)))
		return CLI_FAILED;
	json_object_object_get_ex(all, "muted", &s->muted);
	if (!only && (config_int(conf, "pepsi-dmarc", "REPORTS") || s->dry))
		rc = send_periods(s, conf);
	if (!rc && !s->c->args.value[CLI_DAY] && (config_int(conf, "pepsi-dmarc", "FAILURE_REPORTS") || s->dry))
		rc = dmarc_send_failures(s, conf);
	json_object_put(all);
	s->muted = NULL;
	return rc ? CLI_FAILED : CLI_DONE;
}

static void report(const struct dmarc_sending *s)
{
	log_info(NULL, "event=dmarc-run sent=%llu messages=%llu nowhere=%llu later=%llu failed=%llu dry=%d", (unsigned long long)s->sent,
	    (unsigned long long)s->messages, (unsigned long long)s->nowhere, (unsigned long long)s->later, (unsigned long long)s->failed, s->dry);
	if (!s->out)
		return;
	struct json_object *o = json_object_new_object();
	json_object_object_add(o, "sent", json_object_new_int64((int64_t)s->sent));
	json_object_object_add(o, "messages", json_object_new_int64((int64_t)s->messages));
	json_object_object_add(o, "nowhere", json_object_new_int64((int64_t)s->nowhere));
	json_object_object_add(o, "later", json_object_new_int64((int64_t)s->later));
	json_object_object_add(o, "reports", json_object_get(s->out));
	cli_json_print(o);
	json_object_put(o);
}

int tool_dmarc_send(struct cli *c)
{
	struct dmarc_sending *s = calloc(1, sizeof *s);
	struct config *conf = NULL;
	int rc = CLI_FAILED;
	if (!s)
		return cli_fail("out of memory");
	if (!dmarc_day_ok(c, CLI_DAY)) {
		free(s);
		return CLI_USAGE;
	}
	s->c = c;
	s->dry = c->args.set & CLI_BIT(CLI_DRY_RUN);
	s->out = c->json ? json_object_new_array() : NULL;
	if (!(conf = service_config(c)))
		goto out;
	if (!config_int(conf, "pepsi-dmarc", "REPORTS") && !config_int(conf, "pepsi-dmarc", "FAILURE_REPORTS") && !s->dry) {
		/* the timer may be there all the same */
		log_info(NULL, "event=dmarc-run text=\"[pepsi-dmarc] REPORTS = NO: nothing is sent\"");
		report(s);
		rc = CLI_DONE;
		goto out;
	}
	if (dmarc_sender_read(&s->sender, conf, !s->dry) || prepare(s, conf))
		goto out;
	rc = run(s, conf);
	report(s);
out:
	net_dns_free(s->dns);
	tool_db_close(&s->db);
	config_domains_free(s->exclude);
	json_object_put(s->out);
	config_free(conf);
	free(s);
	return rc;
}
