/* pepsi tlsrpt send: the reports of days that are over go to where the domains' records (_smtp._tls) say now: by mail into the queue, by POST to https URIs.
 * One after the other: a run is bounded by MAX_REPORTS, each look-up and POST by its own deadline. An attempt is begun in the database before anything
 * leaves, so that two runs beside each other make one; what a target has is noted at once, and the report has one id in all attempts. A target that
 * fails is tried again for 24 hours (RFC 8460 §5.3), more and more seldom; an https URI that took nothing in that time is muted. */
#include "tool_tlsrpt.h"

#include "base/clock.h"
#include "base/log.h"
#include "fetch/post.h"
#include "tlsrpt_build.h"
#include "tool_report_run.h"

#include <stdlib.h>

enum {
	LOOKUP_S = 30,
	TRY_S = 24 * 3600,      /* behind the first attempt */
	DAY_S = 86400,
	WHY_MAX = 1200,
};

struct sending {
	struct tool_run run;
	struct tlsrpt_sender sender;
	struct reach *reach;
	const char *ca_file;
	unsigned port, timeout_s;
	int64_t mute_days;
};

struct outgoing {
	struct json_object *o;
	char domain[DNS_NAME_MAX + 1];
	char why[WHY_MAX], to[WHY_MAX];
	struct tlsrpt_lookup look;
	bool mail[TLSRPT_RUA_MAX], post[TLSRPT_RUA_MAX]; /* of look.target: it is to get one */
	size_t n_mail, n_post, n_had;                    /* n_had: who has it from an earlier attempt */
	size_t waits;                                    /* targets that failed and are worth another attempt */
};

/* -- notes */

static void add(char *list, const char *what, const char *no)
{
	size_t n = strlen(list);
	if (n + 300 < WHY_MAX)
		snprintf(list + n, WHY_MAX - n, "%s%.200s%s%.90s", n ? "; " : "", what, no ? ": " : "", no ? no : "");
}

static void note(struct sending *s, const struct outgoing *g, const char *what, const char *why)
{
	if (s->run.out) {
		struct json_object *o = json_object_new_object();
		json_object_object_add(o, "id", json_object_new_int64(cli_json_int(g->o, "id")));
		tool_add_text(o, "domain", g->domain);
		tool_add_text(o, "result", what);
		tool_add_text(o, "to", *g->to ? g->to : NULL);
		tool_add_text(o, "why", why && *why ? why : NULL);
		json_object_array_add(s->run.out, o);
	} else if (s->run.dry) {
		printf("%s: %s%s%s%s%s\n", g->domain, what, *g->to ? ": " : "", g->to, why && *why ? ": " : "", why ? why : "");
	}
}

static struct json_object *of_report(const struct outgoing *g)
{
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "id", json_object_new_int64(cli_json_int(g->o, "id")));
	return args;
}

/* The attempt is over. outcome NULL: there will be another. 0, or -1. */
static int end(struct sending *s, const struct outgoing *g, const char *outcome, const char *why)
{
	bool sent = outcome && !strcmp(outcome, "sent");
	log_info(NULL, "event=tlsrpt-report-%s domain=%s sessions=%lld to=%s why=%s dry=%d", outcome ? outcome : "later", log_qz(g->domain),
	    (long long)cli_json_int(g->o, "sessions"), log_qz(g->to), log_qz(why ? why : ""), s->run.dry);
	s->run.sent += sent;
	s->run.nowhere += outcome && !sent;
	s->run.later += !outcome;
	note(s, g, s->run.dry && sent ? "would be sent" : outcome ? outcome : "later", why);
	if (s->run.dry)
		return 0;
	struct json_object *args = of_report(g);
	tool_add_text(args, "outcome", outcome);
	tool_add_text(args, "why", why && *why ? why : NULL);
	struct json_object *o = tool_db_destinations(&s->run.db, STORE_TLSRPT_DONE, args);
	json_object_put(o);
	return o ? 0 : -1;
}

/* -- where to */

/* Why this target gets nothing; NULL: it gets a report. */
static const char *refuse(const struct sending *s, const struct tlsrpt_target *t)
{
	const char *at = strrchr(t->address, '@'), *why = NULL;
	struct post_url url;
	if (tool_is_muted(s->run.muted, t->scheme == TLSRPT_MAILTO ? t->address : t->uri))
		return "muted";
	if (t->scheme == TLSRPT_MAILTO && str_ieq(str_from(t->address), str_from(s->sender.from)))
		return "our own FROM";
	if (t->scheme == TLSRPT_MAILTO)
		return at && tool_run_excluded(&s->run, str_from(at + 1)) ? "in EXCLUDE" : NULL;
	if (post_url_read(str_from(t->uri), &url, &why))
		return why;
	return tool_run_excluded(&s->run, str_from(url.host)) ? "in EXCLUDE" : NULL;
}

static bool has(struct json_object *o, const char *key, const char *text)
{
	struct json_object *list = cli_json_list(o, key);
	for (size_t i = 0; i < cli_json_length(list); i++)
		if (str_ieq(str_from(json_object_get_string(json_object_array_get_idx(list, i))), str_from(text)))
			return true;
	return false;
}

/* 1: there are targets; 0: it was said why not, and noted; -1: the run ends. */
static int targets(struct sending *s, struct outgoing *g)
{
	bool by_mail = !cli_json_length(cli_json_list(g->o, "mailed"));
	g->n_had = cli_json_length(cli_json_list(g->o, "posted")) + !by_mail;
	g->look = (struct tlsrpt_lookup){ .domain = str_from(g->domain) };
	if (tool_run_excluded(&s->run, str_from(g->domain)))
		return end(s, g, "excluded", "in EXCLUDE");
	if (tool_db_resolve(&s->run.db, s->run.dns, LOOKUP_S, TLSRPT_QUERIES, tlsrpt_evaluate, &g->look)) {
		cli_fail("%s: the DNS cannot be asked", g->domain);
		return -1;
	}
	if (g->look.state == TLSRPT_TXT_UNKNOWN)
		return end(s, g, NULL, g->look.reason);
	for (size_t i = 0; i < g->look.n; i++) {
		const struct tlsrpt_target *t = &g->look.target[i];
		const char *no = refuse(s, t);
		if (no)
			add(g->why, t->uri, no);
		else if (t->scheme == TLSRPT_MAILTO)
			g->n_mail += g->mail[i] = by_mail; /* all of them at once, once */
		else if (!has(g->o, "posted", t->uri))
			g->n_post += g->post[i] = true;
	}
	if (g->n_mail + g->n_post)
		return 1;
	if (g->look.state != TLSRPT_TXT_FOUND)
		add(g->why, "_smtp._tls", g->look.reason);
	return end(s, g, g->n_had ? "sent" : "nowhere", g->why);
}

/* -- by mail */

static int mail(struct sending *s, struct outgoing *g, const struct tlsrpt_built *b)
{
	struct buf headers[TLSRPT_RUA_MAX] = { 0 }, body = { 0 };
	struct str rcpts[TLSRPT_RUA_MAX], heads[TLSRPT_RUA_MAX];
	size_t n = 0;
	int rc = 0;
	for (size_t i = 0; i < g->look.n && !rc; i++) {
		if (!g->mail[i])
			continue;
		buf_free(&body); /* the same for all: the boundary is made of the id */
		rc = tlsrpt_mail(b, &s->sender, str_from(g->domain), g->look.target[i].address, (unsigned)n + 1, &headers[n], &body);
		rcpts[n] = str_from(g->look.target[i].address);
		heads[n] = buf_str(&headers[n]);
		add(g->to, g->look.target[i].address, NULL);
		n++;
	}
	if (!rc && n && !s->run.dry) {
		const struct store_dmarc_report r = { .id = cli_json_int(g->o, "id"), .tls = true, .report_id = b->id, .stage = s->sender.stage, .mail_from = s->sender.from,
			.state = "{\"origin\":{\"esmtp\":true,\"smtputf8\":false,\"body\":\"7BIT\"}}", .rcpts = rcpts, .headers = heads, .n = n, .body = buf_str(&body) };
		int64_t id = tool_db_enqueue(&s->run.db, &r);
		rc = id < 0 ? -1 : 0;
		if (id > 0)
			log_info(NULL, "id=%lld event=tlsrpt-report-queued domain=%s report=%s to=%s octets=%zu", (long long)id, log_qz(g->domain), b->id, log_qz(g->to), body.n);
	}
	if (!rc) {
		s->run.messages += n;
		g->n_had += n > 0;
	}
	for (size_t i = 0; i < TLSRPT_RUA_MAX; i++)
		buf_free(&headers[i]);
	buf_free(&body);
	return rc;
}

/* -- by POST */

struct addresses {
	struct reach *reach;
	struct str host;
	struct reach_address to[POST_ADDRESSES_MAX];
	size_t n;
	const char *why;
};

/* A dns_evaluate_fn. */
static int resolve(void *arg, struct dns_answers *set)
{
	static const enum dns_type types[] = { DNS_A, DNS_AAAA };
	struct addresses *r = arg;
	bool more = false;
	r->n = 0;
	r->why = "its host has no address";
	for (size_t k = 0; k < 2; k++) {
		const struct dns_answer *a = dns_answers_get(set, r->host, types[k]);
		if (!a) {
			more = true;
			continue;
		}
		if (a->status == DNS_TEMPFAIL)
			r->why = "its host cannot be looked up";
		for (size_t i = 0; i < a->n_rr && r->n < POST_ADDRESSES_MAX; i++) {
			struct str ip = a->rr[i].data;
			const char *no = ip.n == 4 || ip.n == 16 ? reach_refused(r->reach, (const unsigned char *)ip.p, ip.n) : "none";
			if (no) {
				r->why = "its host has an address that is not connected to";
				continue;
			}
			r->to[r->n].n = (unsigned char)ip.n;
			memcpy(r->to[r->n++].ip, ip.p, ip.n);
		}
	}
	return more ? DNS_MORE : DNS_DONE;
}

static int post_one(struct sending *s, const struct outgoing *g, const struct tlsrpt_target *t, const struct tlsrpt_built *b, char *why, size_t size)
{
	struct post_url url;
	const char *no;
	if (post_url_read(str_from(t->uri), &url, &no)) {
		snprintf(why, size, "%s", no);
		return -1;
	}
	struct addresses r = { .reach = s->reach, .host = str_from(url.host) };
	if (tool_db_resolve(&s->run.db, s->run.dns, LOOKUP_S, 2, resolve, &r) || !r.n) {
		snprintf(why, size, "%s", r.why ? r.why : "the DNS cannot be asked");
		return -1;
	}
	if (s->run.dry)
		return 0;
	const struct post p = { .uri = t->uri, .url = &url, .type = TLSRPT_TYPE_GZIP, .body = buf_str(&b->packed), .reach = s->reach, .to = r.to, .n_to = r.n,
		.timeout_s = s->timeout_s, .port = s->port, .ca_file = s->ca_file };
	int rc = post_send(&p, why, size);
	log_info(NULL, "event=tlsrpt-report-%s domain=%s report=%s uri=%s octets=%zu why=%s", rc ? "not-posted" : "posted", log_qz(g->domain), b->id, log_qz(t->uri),
	    b->packed.n, rc ? log_qz(why) : "-");
	return rc;
}

static int mute(struct sending *s, const char *uri)
{
	struct json_object *args = json_object_new_object();
	tool_add_text(args, "address", uri);
	json_object_object_add(args, "days", json_object_new_int64(s->mute_days));
	tool_add_text(args, "why", "it took no report for 24 hours");
	struct json_object *o = tool_db_destinations(&s->run.db, STORE_TLSRPT_MUTE, args);
	log_warn(NULL, "event=tlsrpt-muted uri=%s days=%lld", log_qz(uri), (long long)s->mute_days);
	json_object_put(o);
	return o ? 0 : -1;
}

static int post(struct sending *s, struct outgoing *g, const struct tlsrpt_built *b)
{
	int64_t first = cli_json_int(g->o, "first");
	bool last = first && clock_wall_us() / US_PER_S - first >= TRY_S;
	int rc = 0;
	for (size_t i = 0; i < g->look.n && !rc; i++) {
		const struct tlsrpt_target *t = &g->look.target[i];
		char why[200] = "";
		if (!g->post[i])
			continue;
		if (post_one(s, g, t, b, why, sizeof why)) {
			add(g->why, t->uri, why);
			g->waits += !last;
			rc = last && !s->run.dry ? mute(s, t->uri) : 0;
			continue;
		}
		add(g->to, t->uri, NULL);
		s->run.posts++;
		g->n_had++;
		if (s->run.dry)
			continue;
		struct json_object *args = of_report(g);
		tool_add_text(args, "posted", t->uri);
		struct json_object *o = tool_db_destinations(&s->run.db, STORE_TLSRPT_POSTED, args);
		rc = o ? 0 : -1;
		json_object_put(o);
	}
	return rc;
}

/* -- one report */

/* Its rows, as many as fit. NULL after a message. */
static struct json_object *build(struct sending *s, const struct outgoing *g, struct tlsrpt_built *b, const char *id)
{
	for (int64_t most = s->sender.max_rows;; most /= 2) {
		struct json_object *args = of_report(g), *rows;
		json_object_object_add(args, "limit", json_object_new_int64(most));
		if (!(rows = tool_db_destinations(&s->run.db, STORE_TLSRPT_ROWS, args)))
			return NULL;
		if (!tlsrpt_build(b, &s->sender, g->o, rows, id) && b->packed.n <= s->sender.max_size) {
			if (most < cli_json_int(g->o, "rows") || cli_json_int(g->o, "overflow"))
				log_warn(NULL, "event=tlsrpt-report-cut domain=%s rows=%lld of=%lld sessions_without_row=%lld", log_qz(g->domain), (long long)most,
				    (long long)cli_json_int(g->o, "rows"), (long long)cli_json_int(g->o, "overflow"));
			return rows;
		}
		bool large = b->packed.n > s->sender.max_size;
		tlsrpt_built_done(b);
		json_object_put(rows);
		if (!large || most < 2)
			return NULL;
	}
}

/* 0, or -1: the run ends. */
static int one_report(void *arg, struct json_object *listed)
{
	struct sending *s = arg;
	struct outgoing g = { .o = listed };
	struct json_object *begun = NULL, *rows = NULL;
	struct tlsrpt_built b = { 0 };
	char id[33];
	if (tool_new_id(id)) {
		cli_fail("no random octets");
		return -1;
	}
	snprintf(g.domain, sizeof g.domain, "%.*s", STR_ARG(cli_json_text(g.o, "domain")));
	if (!s->run.dry) {
		struct json_object *args = of_report(&g);
		tool_add_text(args, "report_id", id);
		if (!tool_db_ask_null(&s->run.db, STORE_TLSRPT_BEGIN, args, &begun))
			return -1;
		if (!begun)
			return 0; /* another run was faster */
		g.o = begun;
		snprintf(id, sizeof id, "%.*s", STR_ARG(cli_json_text(begun, "report_id")));
	}
	int rc = targets(s, &g);
	if (rc > 0) {
		rows = build(s, &g, &b, id);
		if (!rows) {
			s->run.failed++;
			rc = end(s, &g, "nowhere", "the report cannot be written");
		} else {
			rc = mail(s, &g, &b) || post(s, &g, &b) ? -1 : end(s, &g, g.waits ? NULL : g.n_had ? "sent" : "nowhere", g.why);
		}
		tlsrpt_built_done(&b);
	}
	json_object_put(rows);
	json_object_put(begun);
	return rc;
}

/* -- the run */

static bool on(const struct config *conf)
{
	return config_int(conf, "pepsi-tlsrpt", "REPORTS");
}

static int prepare(void *arg, const struct config *conf)
{
	static const char sec[] = "pepsi-tlsrpt";
	struct sending *s = arg;
	s->ca_file = config_str(conf, sec, "CA_FILE");
	s->port = (unsigned)config_int(conf, sec, "HTTPS_PORT");
	s->timeout_s = (unsigned)config_int(conf, sec, "HTTPS_TIMEOUT");
	s->mute_days = (config_int(conf, sec, "MUTE") + DAY_S - 1) / DAY_S;
	if (!(s->reach = reach_new(config_str(conf, sec, "ALLOW_NETWORKS"))))
		return cli_fail("out of memory");
	return tlsrpt_sender_read(&s->sender, conf, !s->run.dry) ? CLI_FAILED : CLI_DONE;
}

static struct json_object *ask(struct tool_db *db, enum tool_run_question q, struct json_object *args)
{
	static const enum store_destinations_question questions[] = { [TOOL_RUN_SWEEP] = STORE_TLSRPT_SWEEP, [TOOL_RUN_LIST] = STORE_TLSRPT_LIST,
		[TOOL_RUN_DUE] = STORE_TLSRPT_DUE };
	return tool_db_destinations(db, questions[q], args);
}

static int send_reports(void *arg, const struct config *conf);
static const struct tool_run_kind kind = { "tlsrpt", "pepsi-tlsrpt", true, on, prepare, ask, send_reports };

static int send_reports(void *arg, const struct config *conf)
{
	struct sending *s = arg;
	return tool_run_due(&s->run, &kind, conf, one_report, s);
}

int tool_tlsrpt_send(struct cli *c)
{
	struct sending *s = calloc(1, sizeof *s);
	int rc = s ? tool_run(c, &s->run, &kind, s) : cli_fail("out of memory");
	if (s)
		reach_free(s->reach);
	free(s);
	return rc;
}
