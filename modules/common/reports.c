/* The common parts of reports.h. */
#include "reports.h"

#include "base/log.h"
#include "proto/report/mail.h"
#include "proto/smtp/address.h"
#include "count.h"
#include "query.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int reports_open(struct reports *r, const struct pepsi_host *host, const struct pepsi_conf *conf)
{
	const char *own = host->conf_str(conf, "DOMAINS"), *local = host->conf_global(conf, "pepsi", "LOCAL_DOMAINS");
	r->domains = strdup(own && *own ? own : local ? local : "");
	r->keep_s = host->conf_int(conf, "KEEP");
	r->most = host->conf_int(conf, "MAX_REPORTS");
	r->mute_days = (host->conf_int(conf, "MUTE") + 86399) / 86400;
	r->conf = conf;
	r->host = host;
	r->seen = count_new(host, conf, PEPSI_METRIC_COUNTER, "reports", "result", "stored duplicate full refused foreign notice single other away",
	    "Messages: kept, known, too many, unreadable, foreign, one of ours back, of one failure, no report, later.");
	return r->domains ? 0 : -1;
}

void reports_count(const struct reports *r, const char *what)
{
	count_add(r->host, r->seen, what, 1);
}

void reports_close(struct reports *r)
{
	free(r->domains);
}

int32_t reports_check(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	const char *own = host->conf_str(conf, "DOMAINS"), *local = host->conf_global(conf, "pepsi", "LOCAL_DOMAINS");
	struct str rest = str_from(own ? own : ""), word;
	if ((!own || !*own) && (!local || !*local))
		fault(host, report, NULL, "neither DOMAINS nor LOCAL_DOMAINS of [pepsi] is set: no report would be kept");
	while (str_word(&rest, " \t,", &word))
		if (!str_eq(word, STR("*")) && smtp_domain_check(str_starts(word, STR("*.")) ? str_skip(word, 2) : word, true))
			fault(host, report, "DOMAINS", "\"%.*s\" is no domain", STR_ARG(word));
	return PEPSI_OK;
}

bool reports_ours(const struct reports *r, struct str domain)
{
	struct str rest = str_from(r->domains), word;
	while (str_word(&rest, " \t,", &word)) {
		struct str parent = str_starts(word, STR("*.")) ? str_skip(word, 2) : word;
		if (str_eq(word, STR("*")) || smtp_domain_within(domain, parent))
			return true;
	}
	return false;
}

int32_t reports_leave(const struct pepsi_host *host, struct pepsi_msg *msg)
{
	return host->next_stage(msg) ? host->advance(msg) : host->finish(msg);
}

bool reports_verified(const struct pepsi_host *host, struct pepsi_msg *msg)
{
	struct pepsi_str s;
	return host->state_get(msg, "auth.dmarc.result", &s) == PEPSI_OK && str_eq(from_host(s), STR("pass"));
}

enum keep reports_ask(PGconn *db, const char *sql, int n, const char *const *values, char *out, size_t size, struct buf *why)
{
	char state[6] = "";
	PGresult *res = query_ask(db, sql, n, values, why, state);
	enum keep k = KEEP_AWAY;
	if (res && PQntuples(res) == 1) {
		snprintf(out, size, "%s", PQgetvalue(res, 0, 0));
		k = KEEP_OK;
	} else if (!strncmp(state, "22", 2) || !strncmp(state, "23", 2) || !strncmp(state, "54", 2)) {
		/* data, constraints, limits: the same the next time */
		k = KEEP_REFUSED;
	}
	PQclear(res);
	return k;
}

int32_t reports_kept(const struct reports *r, const struct pepsi_host *host, struct pepsi_msg *msg, enum keep k, const char *word, const char *what,
    struct buf *why)
{
	if (k != KEEP_OK)
		say(host, msg, PEPSI_LOG_WARN, "%s not stored: %s", what, buf_z(why));
	reports_count(r, k == KEEP_OK ? word : k == KEEP_AWAY ? "away" : "refused");
	return k == KEEP_OK ? host->finish(msg) : k == KEEP_REFUSED ? reports_leave(host, msg) : PEPSI_RETRY;
}

/* A report came back. address: who is muted now; "": nobody, there is no such report. */
static enum keep came_back(PGconn *db, const char *sql, const char *id, unsigned nth, int64_t days, char *address, size_t size, struct buf *why)
{
	char n[16], d[24];
	const char *values[3] = { id, n, d };
	snprintf(n, sizeof n, "%u", nth);
	snprintf(d, sizeof d, "%lld", (long long)days);
	return reports_ask(db, sql, 3, values, address, size, why);
}

int32_t reports_notice(const struct reports *r, const struct pepsi_host *host, struct pepsi_msg *msg, const struct report_mail_read *m, const char *sql,
    const char *what)
{
	struct buf why = BUF_INIT(1000);
	char address[330] = "";
	if (!*m->id || host->mail_from(msg).n) { /* notices come from the null sender */
		say(host, msg, PEPSI_LOG_INFO, "a notice of failure, but for no report");
		return reports_leave(host, msg);
	}
	enum keep k = came_back(host->database(r->conf), sql, m->id, m->nth, r->mute_days, address, sizeof address, &why);
	int32_t rc = PEPSI_RETRY;
	if (k == KEEP_OK && *address)
		say(host, msg, PEPSI_LOG_WARN, "%s came back: report=%s address=%s muted_days=%lld", what, m->id, log_address(str_from(address)), (long long)r->mute_days);
	else if (k == KEEP_OK)
		say(host, msg, PEPSI_LOG_INFO, "a notice of failure for a report that is not known: %s.%u", m->id, m->nth);
	else
		say(host, msg, PEPSI_LOG_WARN, "notice of failure not stored: %s", buf_z(&why));
	if (k != KEEP_AWAY)
		rc = k == KEEP_OK && *address ? host->finish(msg) : reports_leave(host, msg);
	buf_free(&why);
	return rc;
}
