/* pepsi-stage-tlsrpt-report: takes the mail of a report address. TLS reports of others (RFC 8460) are read, held against bounds and kept in the database,
 * once each, for `pepsi tlsrpt received`; a notice that a report of ours could not be delivered mutes the address it went to. Everything else goes on to
 * NEXT_STAGE, or ends here. What a report says is its sender's word and decides nothing. */
#include "base/log.h"
#include "proto/dns/answers.h"
#include "proto/report/mail.h"
#include "proto/report/tlsrpt.h"
#include "reports.h"
#include "say.h"

#include <json-c/json.h>
#include <stdlib.h>

enum { ATTACHMENT_MAX = 2 << 20, PERIOD_MAX_S = 32 * 86400 }; /* packed; a report covers a day, and some are late or long */

static const struct pepsi_option options[] = { REPORTS_OPTIONS };

static int32_t start(const struct pepsi_host *host, const struct pepsi_conf *conf, void **ret_worker)
{
	struct reports *s = calloc(1, sizeof *s);
	if (!s || reports_open(s, host, conf)) {
		free(s);
		return PEPSI_RETRY;
	}
	*ret_worker = s;
	return PEPSI_OK;
}

static void stop(void *worker)
{
	reports_close(worker);
	free(worker);
}

/* -- what it says */

static void put(struct json_object *o, const char *key, struct str s)
{
	json_object_object_add(o, key, json_object_new_string_len(s.n ? s.p : "", (int)s.n));
}

static void put_number(struct json_object *o, const char *key, uint64_t n)
{
	json_object_object_add(o, key, json_object_new_int64((int64_t)n));
}

/* Whom it is about, of ours, folded: a policy's domain; that of a TLSA record may be an exchanger that is elsewhere, so the header counts, too. False: nobody. */
static bool about(const struct reports *s, const struct tlsrpt *r, const struct tlsrpt_mail *m, char ret[DNS_NAME_MAX + 1])
{
	for (size_t i = 0; i < r->n_policies; i++)
		if (r->policy[i].type != TLSRPT_TLSA && dns_name_fold(r->policy[i].domain, ret) > 0 && reports_ours(s, str_from(ret)))
			return true;
	for (size_t i = 0; i < r->n_policies; i++)
		if (r->policy[i].type == TLSRPT_TLSA) {
			if (*m->domain && dns_name_fold(str_from(m->domain), ret) > 0 && reports_ours(s, str_from(ret)))
				return true;
			if (dns_name_fold(r->policy[i].domain, ret) > 0 && reports_ours(s, str_from(ret)))
				return true;
		}
	return false;
}

/* Of several domains in one report those of others are left out. */
static bool counts(const struct reports *s, const struct tlsrpt_policy *p)
{
	char domain[DNS_NAME_MAX + 1];
	return p->type == TLSRPT_TLSA || (dns_name_fold(p->domain, domain) > 0 && reports_ours(s, str_from(domain)));
}

/* NULL, or what is wrong with its numbers. */
static const char *wrong(const struct tlsrpt *r)
{
	if (r->end < r->begin || r->end - r->begin > PERIOD_MAX_S)
		return "its period is none";
	for (size_t i = 0; i < r->n_policies; i++) {
		const struct tlsrpt_policy *p = &r->policy[i];
		if (p->successes >= TLSRPT_COUNT_MAX || p->failures >= TLSRPT_COUNT_MAX)
			return "it counts more sessions than there are";
		for (size_t k = 0; k < p->n_failures; k++)
			if (p->failure[k].count > p->failures)
				return "more sessions failed in one way than in all";
	}
	return NULL;
}

static struct json_object *whole(const struct reports *s, const struct tlsrpt *r, const struct tlsrpt_mail *m, const char *domain, bool verified)
{
	struct json_object *o = json_object_new_object(), *policies = json_object_new_array(), *failures = json_object_new_array();
	put(o, "domain", str_from(domain));
	put(o, "org", r->org);
	put(o, "report_id", r->id);
	put(o, "contact", r->contact);
	json_object_object_add(o, "begin", json_object_new_int64(r->begin));
	json_object_object_add(o, "end", json_object_new_int64(r->end));
	put(o, "mail_domain", str_from(m->from));
	json_object_object_add(o, "verified", json_object_new_boolean(verified));
	json_object_object_add(o, "keep", json_object_new_int64(s->keep_s));
	json_object_object_add(o, "most", json_object_new_int64(s->most));
	for (size_t i = 0; i < r->n_policies; i++) {
		const struct tlsrpt_policy *p = &r->policy[i];
		struct json_object *x = json_object_new_object();
		const char *type = tlsrpt_type_name(p->type);
		if (!counts(s, p)) {
			json_object_put(x);
			continue;
		}
		put(x, "type", *type ? str_from(type) : p->word);
		put(x, "domain", p->domain);
		put_number(x, "successes", p->successes);
		put_number(x, "failures", p->failures);
		json_object_array_add(policies, x);
		for (size_t k = 0; k < p->n_failures; k++) {
			const struct tlsrpt_failure *f = &p->failure[k];
			const char *result = tlsrpt_result_name(f->result);
			x = json_object_new_object();
			put(x, "type", *type ? str_from(type) : p->word);
			put(x, "result", *result ? str_from(result) : f->word);
			put(x, "mx", f->mx_host.n ? f->mx_host : f->mx_helo);
			put(x, "receiving_ip", f->receiving_ip);
			put(x, "sending_ip", f->sending_ip);
			put(x, "code", f->code.n ? f->code : f->info);
			put_number(x, "sessions", f->count);
			json_object_array_add(failures, x);
		}
	}
	json_object_object_add(o, "policies", policies);
	json_object_object_add(o, "failures", failures);
	return o;
}

/* -- a message */

static int32_t keep(const struct reports *s, const struct pepsi_host *host, struct pepsi_msg *msg, const struct tlsrpt *r, const struct tlsrpt_mail *m, const char *domain)
{
	struct json_object *o = whole(s, r, m, domain, reports_verified(host, msg));
	const char *value = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	struct buf why = BUF_INIT(1000);
	char word[32] = "";
	enum keep k = reports_ask(host->database(s->conf), "SELECT pepsi.tlsrpt_received_add($1::jsonb)", 1, &value, word, sizeof word, &why);
	uint64_t good = 0, bad = 0;
	for (size_t i = 0; i < r->n_policies; i++) {
		good += r->policy[i].successes;
		bad += r->policy[i].failures;
	}
	if (k == KEEP_OK)
		say(host, msg, str_eq(str_from(word), STR("full")) ? PEPSI_LOG_WARN : PEPSI_LOG_INFO,
		    "tls report %s domain=%s org=%s report=%s from=%s successes=%llu failures=%llu cut=%zu", word, domain, log_q(r->org), log_q(r->id),
		    *m->from ? m->from : "?", (unsigned long long)good, (unsigned long long)bad, r->policies_cut + r->failures_cut);
	int32_t rc = reports_kept(s, host, msg, k, word, "tls report", &why);
	json_object_put(o);
	buf_free(&why);
	return rc;
}

static int32_t report(const struct reports *s, const struct pepsi_host *host, struct pepsi_msg *msg, const struct tlsrpt_mail *m)
{
	struct buf json = BUF_INIT(TLSRPT_JSON_MAX);
	struct arena *a = arena_new(TLSRPT_MEMORY_MAX);
	struct tlsrpt r;
	const char *why = "out of memory";
	char domain[DNS_NAME_MAX + 1];
	int32_t rc;
	if (!a)
		return PEPSI_RETRY;
	if (tlsrpt_unpack(buf_str(&m->data), &json, &why) || tlsrpt_read(buf_str(&json), a, &r, &why) || (why = wrong(&r))) {
		reports_count(s, "refused");
		say(host, msg, PEPSI_LOG_WARN, "tls report refused from=%s: %s", *m->from ? m->from : "?", why);
		rc = reports_leave(host, msg);
	} else if (!about(s, &r, m, domain)) {
		reports_count(s, "foreign");
		say(host, msg, PEPSI_LOG_WARN, "tls report foreign from=%s domain=%s: not one of DOMAINS", *m->from ? m->from : "?", log_q(r.policy[0].domain));
		rc = reports_leave(host, msg);
	} else {
		rc = keep(s, host, msg, &r, m, domain);
	}
	buf_free(&json);
	arena_free(a);
	return rc;
}

static int32_t process(void *worker, const struct pepsi_host *host, struct pepsi_msg *msg)
{
	const struct reports *s = worker;
	struct pepsi_str h, b;
	struct tlsrpt_mail m;
	int32_t rc = host->headers(msg, &h);
	if (rc == PEPSI_OK)
		rc = host->body(msg, &b);
	if (rc != PEPSI_OK)
		return rc;
	tlsrpt_mail_read(from_host(h), from_host(b), ATTACHMENT_MAX, &m);
	if (m.found) {
		rc = report(s, host, msg, &m);
	} else {
		struct report_mail_read other;
		report_mail_read(from_host(h), from_host(b), ATTACHMENT_MAX, &other);
		reports_count(s, other.kind == REPORT_MAIL_FAILED ? "notice" : "other");
		if (other.kind == REPORT_MAIL_FAILED) {
			rc = reports_notice(s, host, msg, &other, "SELECT coalesce(pepsi.tlsrpt_came_back($1::text, $2::integer, $3::integer, 'a report came back'), '')",
			    "tls report");
		} else {
			say(host, msg, PEPSI_LOG_INFO, "no tls report, from=%s: %s", *m.from ? m.from : "?", m.why);
			rc = reports_leave(host, msg);
		}
		report_mail_done(&other);
	}
	tlsrpt_mail_done(&m);
	return rc;
}

PEPSI_STAGE(.name = "pepsi-stage-tlsrpt-report", .version = "1.0", .license = "Apache-2.0",
    .summary = "keeps TLS reports that come in, and mutes addresses that reports come back from", .load_class = PEPSI_LOAD_FULL,
    .caps = PEPSI_CAP_DB | PEPSI_CAP_DELIVER, PEPSI_OPTIONS(options), .validate = reports_check, .open = start, .process = process, .close = stop);
