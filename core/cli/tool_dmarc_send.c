/* pepsi dmarc send: the reports whose period is over go into the queue, each to the addresses that the domain's record names now and that
 * agree to it (proto/report/rua.h). One after the other: a run is bounded by MAX_REPORTS, each look-up by its own deadline. A report is in the
 * queue and marked as sent in one transaction, so that two runs beside each other, or one that is killed, send none twice. */
#include "base/log.h"
#include "dmarc_send.h"
#include "proto/address/address.h"

#include <stdlib.h>

enum {
	LOOKUP_S = 30,          /* for all look-ups of one domain */
};

/* ---- where to */

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
	if (tool_is_muted(s->run.muted, t->address))
		return "muted: a report came back";
	if (at && tool_run_excluded(&s->run, str_from(at + 1)))
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
	if (s->run.out) {
		struct json_object *o = json_object_new_object();
		json_object_object_add(o, "id", json_object_new_int64(cli_json_int(g->o, "id")));
		if (g->failure)
			json_object_object_add(o, "failure", json_object_new_boolean(true));
		json_object_object_add(o, "domain", json_object_new_string_len(domain.p, (int)domain.n));
		tool_add_text(o, "result", what);
		tool_add_text(o, "why", why);
		json_object_array_add(s->run.out, o);
	} else if (s->run.dry) {
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
	s->run.nowhere += outcome != NULL;
	s->run.later += !outcome;
	note(s, g, outcome ? outcome : "later", why);
	if (s->run.dry)
		return 0;
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "id", json_object_new_int64(cli_json_int(period, "id")));
	json_object_object_add(args, "failure", json_object_new_boolean(g->failure));
	tool_add_text(args, "outcome", outcome);
	tool_add_text(args, "why", why);
	struct json_object *o = tool_db_ask(&s->run.db, STORE_DMARC_DONE, args);
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
	if (!s->run.dry) {
		const struct store_dmarc_report r = { .id = cli_json_int(g->o, "id"), .failure = g->failure, .report_id = report_id, .stage = s->sender.stage,
			.mail_from = s->sender.from, .state = "{\"origin\":{\"esmtp\":true,\"smtputf8\":false,\"body\":\"7BIT\"}}", .rcpts = rcpts, .headers = heads,
			.n = g->n, .body = body };
		id = tool_db_enqueue(&s->run.db, &r);
		if (id <= 0)
			return id < 0 ? -1 : 0; /* another run was faster */
	}
	s->run.sent++;
	s->run.messages += g->n;
	log_info(NULL, "id=%lld event=dmarc-%s-sent domain=%s report=%s to=%s octets=%zu %s dry=%d", (long long)id, g->failure ? "failure" : "report", log_qz(g->domain),
	    report_id, log_qz(list), body.n, more, s->run.dry);
	note(s, g, s->run.dry ? "would be sent" : "sent", list);
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
	if (tool_run_excluded(&s->run, str_from(g->domain)))
		return dmarc_send_end(s, g, "excluded", "in EXCLUDE");
	if (tool_db_resolve(&s->run.db, s->run.dns, LOOKUP_S, RUA_QUERIES, rua_evaluate, &g->check)) {
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
static int one_report(void *arg, struct json_object *period)
{
	struct dmarc_sending *s = arg;
	struct dmarc_outgoing g = { .o = period };
	int rc = dmarc_send_targets(s, &g);
	if (rc <= 0)
		return rc;
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "id", json_object_new_int64(cli_json_int(period, "id")));
	json_object_object_add(args, "limit", json_object_new_int64(s->sender.max_rows));
	struct json_object *rows = tool_db_ask(&s->run.db, STORE_DMARC_ROWS, args);
	struct dmarc_built b;
	if (!rows)
		return -1;
	if (dmarc_build(&b, &s->sender, period, rows)) {
		s->run.failed++;
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

static bool on(const struct config *conf)
{
	return config_int(conf, "pepsi-dmarc", "REPORTS") || config_int(conf, "pepsi-dmarc", "FAILURE_REPORTS");
}

static int prepare(void *arg, const struct config *conf)
{
	struct dmarc_sending *s = arg;
	return dmarc_sender_read(&s->sender, conf, !s->run.dry) ? CLI_FAILED : CLI_DONE;
}

static struct json_object *ask(struct tool_db *db, enum tool_run_question q, struct json_object *args)
{
	static const enum store_dmarc_question questions[] = { [TOOL_RUN_SWEEP] = STORE_DMARC_SWEEP, [TOOL_RUN_LIST] = STORE_DMARC_LIST,
		[TOOL_RUN_DUE] = STORE_DMARC_DUE };
	return tool_db_ask(db, questions[q], args);
}

static int send_reports(void *arg, const struct config *conf);
static const struct tool_run_kind kind = { "dmarc", "pepsi-dmarc", false, on, prepare, ask, send_reports };

static int send_reports(void *arg, const struct config *conf)
{
	struct dmarc_sending *s = arg;
	bool only = s->run.c->args.set & CLI_BIT(CLI_FAILURES);
	int rc = 0;
	if (!only && (config_int(conf, "pepsi-dmarc", "REPORTS") || s->run.dry))
		rc = tool_run_due(&s->run, &kind, conf, one_report, s);
	if (!rc && !s->run.c->args.value[CLI_DAY] && (config_int(conf, "pepsi-dmarc", "FAILURE_REPORTS") || s->run.dry))
		rc = dmarc_send_failures(s, conf);
	return rc;
}

int tool_dmarc_send(struct cli *c)
{
	struct dmarc_sending *s = calloc(1, sizeof *s);
	int rc = s ? tool_run(c, &s->run, &kind, s) : cli_fail("out of memory");
	free(s);
	return rc;
}
