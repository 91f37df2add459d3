/* pepsi-stage-dmarc-report: takes the mail of a report address. DMARC aggregate reports of others are read, held against bounds and kept in the
 * database, once each, for `pepsi dmarc received`; a notice that a report of ours could not be delivered mutes the address it went to. Everything
 * else goes on to NEXT_STAGE, or ends here. What a report says is its sender's word and decides nothing. */
#include "keep.h"
#include "base/log.h"
#include "proto/report/arf.h"
#include "proto/report/mail.h"
#include "proto/report/pack.h"
#include "say.h"

#include <stdlib.h>

enum { ATTACHMENT_MAX = 16 << 20 }; /* packed */

struct stage {
	struct reports reports;
	int64_t most_failures;
};

static const struct pepsi_option options[] = {
	REPORTS_OPTIONS,
	{ "MAX_FAILURES", PEPSI_OPT_INT, 0, "1000", 0, 1000000, NULL,
	    "failure reports kept of one day, a tenth of them of one sender; 0: none. All go on to NEXT_STAGE" },
};

static int32_t start(const struct pepsi_host *host, const struct pepsi_conf *conf, void **ret_worker)
{
	struct stage *s = calloc(1, sizeof *s);
	if (!s || reports_open(&s->reports, host, conf)) {
		free(s);
		return PEPSI_RETRY;
	}
	s->most_failures = host->conf_int(conf, "MAX_FAILURES");
	*ret_worker = s;
	return PEPSI_OK;
}

static void stop(void *worker)
{
	struct stage *s = worker;
	reports_close(&s->reports);
	free(s);
}

static int32_t keep(const struct stage *s, const struct pepsi_host *host, struct pepsi_msg *msg, const struct report *r, const char *from)
{
	const struct keep_terms t = { .mail_domain = from, .verified = reports_verified(host, msg), .keep_s = s->reports.keep_s, .most = s->reports.most };
	struct buf why = BUF_INIT(1000);
	char word[32] = "";
	enum keep k = keep_report(host->database(s->reports.conf), r, &t, word, sizeof word, &why);
	if (k == KEEP_OK)
		say(host, msg, str_eq(str_from(word), STR("full")) ? PEPSI_LOG_WARN : PEPSI_LOG_INFO,
		    "dmarc report %s domain=%.*s org=%s report=%s from=%s verified=%d rows=%zu bad=%zu cut=%zu", word, STR_ARG(r->policy.domain),
		    log_q(r->org), log_q(r->id), *from ? from : "?", t.verified, r->n_rows, r->rows_bad, r->rows_cut);
	int32_t rc = reports_kept(&s->reports, host, msg, k, word, "dmarc report", &why);
	buf_free(&why);
	return rc;
}

static int32_t report(const struct stage *s, const struct pepsi_host *host, struct pepsi_msg *msg, const struct report_mail_read *m)
{
	struct buf xml = BUF_INIT(REPORT_XML_MAX);
	struct arena *a = arena_new(REPORT_MEMORY_MAX);
	struct report r;
	const char *why = "out of memory";
	int32_t rc;
	if (!a)
		return PEPSI_RETRY;
	if (report_unpack(buf_str(&m->data), &xml, &why) || report_read(buf_str(&xml), a, &r, &why)) {
		reports_count(&s->reports, "refused");
		say(host, msg, PEPSI_LOG_WARN, "dmarc report unreadable from=%s: %s", *m->from ? m->from : "?", why);
		rc = reports_leave(host, msg);
	} else if (!reports_ours(&s->reports, r.policy.domain)) {
		reports_count(&s->reports, "foreign");
		say(host, msg, PEPSI_LOG_WARN, "dmarc report foreign from=%s domain=%.*s: not one of DOMAINS", *m->from ? m->from : "?", STR_ARG(r.policy.domain));
		rc = reports_leave(host, msg);
	} else {
		rc = keep(s, host, msg, &r, m->from);
	}
	buf_free(&xml);
	arena_free(a);
	return rc;
}

static struct str or(struct str s, const char *z)
{
	return s.n ? s : str_from(z);
}

/* Whom it is about, of ours; empty: nobody. */
static struct str reported(const struct stage *s, const struct arf *r)
{
	for (size_t i = 0; i < r->domain.n; i++)
		if (reports_ours(&s->reports, r->domain.item[i]))
			return r->domain.item[i];
	return !r->domain.n && r->original.from.n && reports_ours(&s->reports, r->original.from) ? r->original.from : STR_NULL;
}

/* What it says of a failure, without the person whose mail it was. */
static int32_t keep_single(const struct stage *s, const struct pepsi_host *host, struct pepsi_msg *msg, const struct arf *r, const char *from)
{
	const struct keep_terms t = { .mail_domain = from, .verified = reports_verified(host, msg), .keep_s = s->reports.keep_s, .most = s->most_failures };
	struct str domain = reported(s, r);
	struct buf why = BUF_INIT(1000);
	char word[32] = "";
	if (r->kind != ARF_AUTH_FAILURE || !s->most_failures || !domain.n)
		return PEPSI_OK;
	enum keep k = keep_failure(host->database(s->reports.conf), r, domain, &t, word, sizeof word, &why);
	if (k == KEEP_OK)
		say(host, msg, str_eq(str_from(word), STR("full")) ? PEPSI_LOG_WARN : PEPSI_LOG_INFO, "failure report %s domain=%.*s from=%s verified=%d", word, STR_ARG(domain),
		    *from ? from : "?", t.verified);
	else
		say(host, msg, PEPSI_LOG_WARN, "failure report not stored: %s", buf_z(&why));
	buf_free(&why);
	return k == KEEP_AWAY ? PEPSI_RETRY : PEPSI_OK;
}

/* A report about one message: named in the log, summed up, and passed on. 1: it was one; 0: it was none; PEPSI_RETRY. */
static int32_t single(const struct stage *s, const struct pepsi_host *host, struct pepsi_msg *msg, struct str headers, struct str body, const char *from)
{
	struct arena *a = arena_new(ARF_MEMORY_MAX);
	struct arf r;
	const char *why = "out of memory";
	bool read = a && !arf_read(headers, body, a, &r, &why);
	int32_t rc = read;
	if (read && keep_single(s, host, msg, &r, from) != PEPSI_OK)
		rc = PEPSI_RETRY;
	else if (read)
		say(host, msg, PEPSI_LOG_INFO, "feedback report kind=%s from=%s domain=%.*s author=%.*s source=%.*s failure=%.*s result=%.*s incidents=%llu%s%s",
		    arf_kind_name(r.kind), *from ? from : "?", STR_ARG(or(r.domain.n ? r.domain.item[0] : STR_NULL, "?")), STR_ARG(or(r.original.from, "?")),
		    STR_ARG(or(r.source_ip, "?")), STR_ARG(or(r.auth_failure, "-")), STR_ARG(or(r.delivery_result, "-")), (unsigned long long)r.incidents,
		    r.flaw ? ": " : "", r.flaw ? r.flaw : "");
	arena_free(a);
	return rc;
}

static int32_t process(void *worker, const struct pepsi_host *host, struct pepsi_msg *msg)
{
	const struct stage *s = worker;
	struct pepsi_str h, b;
	struct report_mail_read m;
	int32_t rc = host->headers(msg, &h);
	if (rc == PEPSI_OK)
		rc = host->body(msg, &b);
	if (rc != PEPSI_OK)
		return rc;
	report_mail_read(from_host(h), from_host(b), ATTACHMENT_MAX, &m);
	switch (m.kind) {
	case REPORT_MAIL_REPORT:
		rc = report(s, host, msg, &m);
		break;
	case REPORT_MAIL_FAILED:
		reports_count(&s->reports, "notice");
		rc = reports_notice(&s->reports, host, msg, &m, "SELECT coalesce(pepsi.dmarc_mute($1::text, $2::integer, $3::integer, 'a report came back'), '')",
		    "dmarc report");
		break;
	case REPORT_MAIL_SINGLE:
	default:
		rc = single(s, host, msg, from_host(h), from_host(b), m.from);
		reports_count(&s->reports, rc == 1 ? "single" : rc == PEPSI_RETRY ? "away" : m.kind == REPORT_MAIL_SINGLE ? "refused" : "other");
		if (!rc && m.kind == REPORT_MAIL_SINGLE)
			say(host, msg, PEPSI_LOG_INFO, "feedback report unreadable from=%s", *m.from ? m.from : "?");
		else if (!rc)
			say(host, msg, PEPSI_LOG_INFO, "no dmarc report, from=%s: %s", *m.from ? m.from : "?", m.why);
		if (rc != PEPSI_RETRY)
			rc = reports_leave(host, msg);
		break;
	}
	report_mail_done(&m);
	return rc;
}

PEPSI_STAGE(.name = "pepsi-stage-dmarc-report", .version = "1.0", .license = "Apache-2.0",
    .summary = "keeps DMARC aggregate reports that come in, and mutes addresses that reports come back from", .load_class = PEPSI_LOAD_FULL,
    .caps = PEPSI_CAP_DB | PEPSI_CAP_DELIVER, PEPSI_OPTIONS(options), .validate = reports_check, .open = start, .process = process, .close = stop);
