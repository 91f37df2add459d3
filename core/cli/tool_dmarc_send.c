/* pepsi dmarc send: the reports whose period is over go into the queue, each to the addresses that the domain's record names now and that
 * agree to it (proto/report/rua.h). One after the other: a run is bounded by MAX_REPORTS, each look-up by its own deadline. A report is in the
 * queue and marked as sent in one transaction, so that two runs beside each other, or one that is killed, send none twice. */
#include "base/log.h"
#include "dmarc_build.h"
#include "dmarc_db.h"
#include "net/dns.h"
#include "proto/report/rua.h"
#include "proto/smtp/address.h"
#include "tool_dmarc.h"
#include "worker/resolve.h"

#include <event2/event.h>
#include <stdlib.h>

enum {
	GRACE_S = 300,          /* behind a period's end: the reactor's last counts come some seconds later */
	LOOKUP_S = 30,          /* for all look-ups of one domain */
	TARGETS_MAX = DMARC_URIS_MAX * 2,
};

struct sending {
	struct cli *c;
	struct dmarc_db db;
	struct dmarc_sender sender;
	struct config_domains *exclude;
	struct net_dns *dns;
	struct json_object *muted; /* array of objects */
	bool dry;
	uint64_t sent, messages, nowhere, later, failed;
	struct json_object *out;   /* --json: what was done with each */
};

/* ---- where to */

struct looking {
	struct event_base *base;
	bool done;
	int rc;
};

static void looked(void *arg, int rc, const struct dns_answers *set)
{
	struct looking *k = arg;
	(void)set;
	k->done = true;
	k->rc = rc;
	event_base_loopbreak(k->base);
}

static int look(struct sending *s, struct rua_check *check)
{
	struct looking k = { .base = s->db.base };
	struct net_dns_group *g = net_dns_group_new(s->dns, LOOKUP_S * INT64_C(1000000), RUA_QUERIES);
	if (!g || !net_dns_evaluate(g, rua_evaluate, check, looked, &k)) {
		net_dns_group_free(g);
		return -1;
	}
	while (!k.done)
		if (event_base_dispatch(s->db.base))
			break;
	net_dns_group_free(g);
	return k.done && k.rc == DNS_DONE ? 0 : -1;
}

static bool is_muted(const struct sending *s, const char *address)
{
	for (size_t i = 0; s->muted && i < json_object_array_length(s->muted); i++)
		if (str_ieq(cli_json_text(json_object_array_get_idx(s->muted, i), "address"), str_from(address)))
			return true;
	return false;
}

static bool excluded(const struct sending *s, struct str domain)
{
	return s->exclude && config_domains_has(s->exclude, domain);
}

/* Why this address gets nothing; NULL: it gets a report. size 0: not known yet. */
static const char *refuse(const struct sending *s, const struct rua_target *t, size_t size)
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
	if (is_muted(s, t->address))
		return "muted: a report came back";
	if (at && excluded(s, str_from(at + 1)))
		return "in EXCLUDE";
	if (str_ieq(str_from(t->address), str_from(s->sender.from)))
		return "our own FROM";
	/* the size in the record counts what is sent, encoded (RFC 9990 3.5) */
	return t->max && size > t->max ? "the report is longer than it takes" : NULL;
}

/* ---- one report */

static void note(struct sending *s, struct json_object *period, const char *what, const char *why)
{
	struct str domain = cli_json_text(period, "domain");
	if (s->out) {
		struct json_object *o = json_object_new_object();
		json_object_object_add(o, "id", json_object_new_int64(cli_json_int(period, "id")));
		json_object_object_add(o, "domain", json_object_new_string_len(domain.p, (int)domain.n));
		dmarc_add_text(o, "result", what);
		dmarc_add_text(o, "why", why);
		json_object_array_add(s->out, o);
	} else if (s->dry) {
		cli_text_print(stdout, domain);
		printf(": %s%s%s\n", what, why ? ": " : "", why ? why : "");
	}
}

static int finish(struct sending *s, struct json_object *period, const char *outcome, const char *why)
{
	struct str domain = cli_json_text(period, "domain");
	log_info(NULL, "event=dmarc-report-%s domain=%s messages=%lld why=%s", outcome ? outcome : "later", log_q(domain),
	    (long long)cli_json_int(period, "messages"), log_qz(why));
	s->nowhere += outcome != NULL;
	s->later += !outcome;
	note(s, period, outcome ? outcome : "later", why);
	if (s->dry)
		return 0;
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "id", json_object_new_int64(cli_json_int(period, "id")));
	dmarc_add_text(args, "outcome", outcome);
	dmarc_add_text(args, "why", why);
	struct json_object *o = dmarc_db_ask(&s->db, STORE_DMARC_DONE, args);
	json_object_put(o);
	return o ? 0 : -1;
}

static int enqueue(struct sending *s, struct json_object *period, const struct dmarc_built *b, const struct rua_target *const *to, size_t n)
{
	struct buf headers[TARGETS_MAX] = { 0 }, body = { 0 };
	struct str rcpts[TARGETS_MAX], heads[TARGETS_MAX];
	char list[1200] = "";
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		buf_free(&body); /* the same for all: the boundary is made of the id */
		rc = dmarc_mail(b, &s->sender, to[i]->address, (unsigned)i + 1, &headers[i], &body);
		rcpts[i] = str_from(to[i]->address);
		heads[i] = buf_str(&headers[i]);
		size_t at = strlen(list);
		snprintf(list + at, sizeof list - at, "%s%s", i ? " " : "", to[i]->address);
	}
	int64_t id = 0;
	if (!rc && !s->dry) {
		const struct store_dmarc_report r = { .id = cli_json_int(period, "id"), .report_id = b->id, .stage = s->sender.stage, .mail_from = s->sender.from,
			.state = "{\"origin\":{\"esmtp\":true,\"smtputf8\":false,\"body\":\"7BIT\"}}", .rcpts = rcpts, .headers = heads, .n = n, .body = buf_str(&body) };
		id = dmarc_db_enqueue(&s->db, &r);
		rc = id < 0 ? -1 : 0;
	}
	if (!rc && (s->dry || id > 0)) {
		s->sent++;
		s->messages += n;
		log_info(NULL, "id=%lld event=dmarc-report-sent domain=%s report=%s to=%s rows=%zu octets=%zu left_out=%zu dry=%d", (long long)id,
		    log_q(cli_json_text(period, "domain")), b->id, log_qz(list), b->report.n_rows, body.n, b->left_out, s->dry);
		note(s, period, s->dry ? "would be sent" : "sent", list);
	}
	for (size_t i = 0; i < n; i++)
		buf_free(&headers[i]);
	buf_free(&body);
	return rc;
}

/* 0, or -1: the run ends. */
static int one_report(struct sending *s, struct json_object *period)
{
	char domain[DNS_NAME_MAX + 1], why[1200] = "";
	struct rua_check check = { .domain = domain };
	const struct rua_target *to[TARGETS_MAX];
	size_t n = 0, wait = 0;
	snprintf(domain, sizeof domain, "%.*s", STR_ARG(cli_json_text(period, "domain")));
	if (excluded(s, str_from(domain)))
		return finish(s, period, "excluded", "in EXCLUDE");
	if (look(s, &check)) {
		cli_fail("%s: the DNS cannot be asked", domain);
		return -1;
	}
	if (check.state == RUA_TEMPFAIL)
		return finish(s, period, NULL, "its policy record cannot be read now");
	if (check.state == RUA_NONE)
		return finish(s, period, "nowhere", "its policy record names no address any more");
	for (size_t i = 0; i < check.n; i++) {
		const char *no = refuse(s, &check.target[i], 0);
		wait += check.target[i].verdict == RUA_LATER;
		if (!no)
			to[n++] = &check.target[i];
		else if (strlen(why) + 300 < sizeof why)
			snprintf(why + strlen(why), sizeof why - strlen(why), "%s%.200s: %s", *why ? "; " : "", check.target[i].uri, no);
	}
	/* with others to send to, the one that cannot be asked now has had its chance: nobody gets a report twice */
	if (!n)
		return finish(s, period, wait ? NULL : "nowhere", why);
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "id", json_object_new_int64(cli_json_int(period, "id")));
	json_object_object_add(args, "limit", json_object_new_int64(s->sender.max_rows));
	struct json_object *rows = dmarc_db_ask(&s->db, STORE_DMARC_ROWS, args);
	struct dmarc_built b;
	if (!rows)
		return -1;
	int rc = 0;
	if (dmarc_build(&b, &s->sender, period, rows)) {
		s->failed++;
		rc = finish(s, period, "nowhere", "the report cannot be written");
	} else {
		size_t fit = 0;
		for (size_t i = 0; i < n; i++)
			if (!refuse(s, to[i], dmarc_mail_size(&b)))
				to[fit++] = to[i];
			else
				snprintf(why + strlen(why), sizeof why - strlen(why), "%s%.200s: the report is longer than it takes", *why ? "; " : "", to[i]->uri);
		rc = fit ? enqueue(s, period, &b, to, fit) : finish(s, period, "nowhere", why);
	}
	dmarc_built_done(&b);
	json_object_put(rows);
	return rc;
}

/* ---- the run */

static int sweep(struct sending *s, const struct config *conf)
{
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "keep", json_object_new_int64(config_int(conf, "pepsi-dmarc", "KEEP")));
	json_object_object_add(args, "expire", json_object_new_int64(config_int(conf, "pepsi-dmarc", "EXPIRE")));
	struct json_object *o = dmarc_db_ask(&s->db, STORE_DMARC_SWEEP, args);
	if (!o)
		return -1;
	if (cli_json_int(o, "expired"))
		log_warn(NULL, "event=dmarc-reports-expired n=%lld", (long long)cli_json_int(o, "expired"));
	json_object_put(o);
	return 0;
}

static int prepare(struct sending *s, const struct config *conf)
{
	struct net_dns_settings dns;
	char err[256];
	const char *exclude = config_str(conf, "pepsi-dmarc", "EXCLUDE");
	if (resolve_settings(conf, &dns, err, sizeof err))
		return cli_fail("%s", err);
	if (exclude && *exclude && !(s->exclude = config_domains_new(exclude)))
		return cli_fail("out of memory");
	if (dmarc_db_open(&s->db, conf))
		return CLI_FAILED;
	if (!(s->dns = net_dns_new(s->db.base, &dns)))
		return cli_fail("out of memory");
	return !s->dry && sweep(s, conf) ? CLI_FAILED : CLI_DONE;
}

static int run(struct sending *s, const struct config *conf)
{
	struct json_object *args = json_object_new_object(), *all = NULL, *due;
	int rc = 0;
	json_object_object_add(args, "limit", json_object_new_int(1));
	if (!(all = dmarc_db_ask(&s->db, STORE_DMARC_LIST, args)))
		return CLI_FAILED;
	json_object_object_get_ex(all, "muted", &s->muted);
	args = json_object_new_object();
	json_object_object_add(args, "grace", json_object_new_int(s->c->args.value[CLI_DAY] || s->dry ? 0 : GRACE_S));
	json_object_object_add(args, "limit", json_object_new_int64(config_int(conf, "pepsi-dmarc", "MAX_REPORTS")));
	dmarc_add_text(args, "day", s->c->args.value[CLI_DAY]);
	due = dmarc_db_ask(&s->db, STORE_DMARC_DUE, args);
	for (size_t i = 0; due && !rc && i < json_object_array_length(due); i++)
		rc = one_report(s, json_object_array_get_idx(due, i));
	size_t n = due ? json_object_array_length(due) : 0;
	if (due && (int64_t)n == config_int(conf, "pepsi-dmarc", "MAX_REPORTS"))
		log_warn(NULL, "event=dmarc-run-full reports=%zu text=\"MAX_REPORTS: others wait for the next run\"", n);
	json_object_put(due);
	json_object_put(all);
	s->muted = NULL;
	return due && !rc ? CLI_DONE : CLI_FAILED;
}

static void report(const struct sending *s)
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
	struct sending *s = calloc(1, sizeof *s);
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
	if (!config_int(conf, "pepsi-dmarc", "REPORTS") && !s->dry) {
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
	dmarc_db_close(&s->db);
	config_domains_free(s->exclude);
	json_object_put(s->out);
	config_free(conf);
	free(s);
	return rc;
}
