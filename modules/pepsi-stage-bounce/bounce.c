/* pepsi-stage-bounce: turns a message that could not be delivered (or is late, or arrived where that was to be told) into
 * a delivery status notification to its sender, and sends it on to NEXT_STAGE. A bounce is never bounced: a message with
 * the null sender ends here. The report itself is proto/dsn's. */
#include "facts.h"
#include "ours.h"
#include "say.h"
#include "speech.h"

#include "base/log.h"
#include "proto/smtp/address.h"

#include <stdio.h>
#include <stdlib.h>

enum { HEADERS_MAX = 64 * 1024, ADDRESS_MAX = 512 };

struct bounce {
	char hostname[256];
	char from[ADDRESS_MAX], postmaster[ADDRESS_MAX];
	int64_t max_original;
	const char *stage, *networks;
	enum { HIDE_STRANGERS, HIDE_ALWAYS, HIDE_NEVER } hide; /* where aliases lead */
	struct speech *speech;
	struct pepsi_metric *reports, *none;
};

static const struct pepsi_option options[] = {
	{ .name = "MAX_ORIGINAL", .type = PEPSI_OPT_SIZE, .def = "50 KiB", .min = 0, .max = INT64_C(1) << 30,
	    .help = "a larger original is returned as its headers only" },
	{ .name = "FROM", .type = PEPSI_OPT_STRING,
	    .help = "whom reports are from: an address, or a domain (MAILER-DAEMON there); default: the domain of LOCAL_DOMAINS that HOSTNAME is in, or the first one" },
	{ .name = "POSTMASTER", .type = PEPSI_OPT_STRING, .help = "address that reports give for questions; default: postmaster at the domain of FROM" },
	{ .name = "HIDE_FORWARDING", .type = PEPSI_OPT_CHOICE, .def = "strangers", .choices = "strangers always never",
	    .help = "reports name the alias a sender wrote to, and not where it leads, nor what was answered there: to strangers, always or never" },
	{ .name = "LANGUAGE", .type = PEPSI_OPT_STRING, .def = "en", .help = "language of reports where nothing else says one: en, de, es, fr, or one of TEMPLATES" },
	{ .name = "SENDER_LANGUAGE_*", .type = PEPSI_OPT_MULTI,
	    .help = "PATTERN… LANGUAGE: senders (local@domain, local@*, domain, *.domain, *) whose reports are in that language; the first that matches" },
	{ .name = "FOLLOW_MESSAGE_LANGUAGE", .type = PEPSI_OPT_BOOL, .def = "YES",
	    .help = "use the language that the message's Accept-Language or Content-Language names, where there are texts in it" },
	{ .name = "TEMPLATES", .type = PEPSI_OPT_PATH, .flags = PEPSI_OPTF_FILE_ONLY,
	    .help = "folder of LANGUAGE.dsn files with texts of your own; what a file does not have stays as it comes" },
};

/* The domain of LOCAL_DOMAINS that the host is at or nearest below, else the first that has a dot, else the host itself: a domain that DKIM
 * signs for, and that its owner's DMARC policy is about. */
static void home_domain(struct buf *out, const char *local, struct str host)
{
	struct str rest = str_from(local), word;
	struct buf one = BUF_INIT(1024);
	size_t best = 0;
	while (str_word(&rest, " \t,", &word)) {
		buf_reset(&one);
		struct str d = smtp_domain_to_ascii(word, &one) || smtp_domain_check(buf_str(&one), false) ? STR_NULL : buf_str(&one);
		if (str_chr(d, '.') < 0)
			continue;
		size_t covers = smtp_domain_within(host, d) ? d.n : 0;
		if (out->n && covers <= best)
			continue;
		buf_reset(out);
		buf_adds(out, d);
		best = covers;
	}
	if (!out->n)
		buf_adds(out, host);
	buf_free(&one);
}

/* FROM and POSTMASTER into b. Faults: told to report, or to the log. */
static void addresses(struct bounce *b, const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	static const char *const names[] = { "FROM", "POSTMASTER" }, *const locals[] = { "MAILER-DAEMON", "postmaster" };
	static const char wrong[] = "is no address and no domain (in ASCII: of an internationalized domain the A-labels)";
	char *const into[] = { b->from, b->postmaster };
	struct buf domain = BUF_INIT(1024);
	struct smtp_address a;
	home_domain(&domain, host->conf_global(conf, "pepsi", "LOCAL_DOMAINS"), str_from(b->hostname));
	for (int i = 0; i < 2; i++) {
		struct str s = str_from(host->conf_str(conf, names[i]));
		bool whole = str_chr(s, '@') >= 0, bad = s.n && (whole ? smtp_address_parse(s, false, &a) || s.n >= ADDRESS_MAX : smtp_domain_check(s, false));
		if (bad && report)
			fault(host, report, names[i], "\"%.*s\" %s", (int)(s.n > 200 ? 200 : s.n), s.p, wrong);
		else if (bad)
			say(host, NULL, PEPSI_LOG_ERROR, "%s: \"%.*s\" %s", names[i], (int)(s.n > 200 ? 200 : s.n), s.p, wrong);
		if (s.n && !bad && whole) {
			snprintf(into[i], ADDRESS_MAX, "%.*s", STR_ARG(s));
			s = a.domain;
		} else {
			s = s.n && !bad ? s : buf_str(&domain);
			snprintf(into[i], ADDRESS_MAX, "%s@%.*s", locals[i], STR_ARG(s));
		}
		if (!i && s.p != domain.p) { /* questions go where reports come from */
			buf_reset(&domain);
			buf_adds(&domain, s);
		}
	}
	buf_free(&domain);
}

static void stop(void *worker)
{
	struct bounce *b = worker;
	if (b)
		speech_free(b->speech);
	free(b);
}

static struct bounce *make(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	struct bounce *b = calloc(1, sizeof *b);
	const char *name = host->conf_global(conf, "pepsi", "HOSTNAME");
	if (!b)
		return NULL;
	snprintf(b->hostname, sizeof b->hostname, "%s", name && *name ? name : "localhost");
	b->max_original = host->conf_int(conf, "MAX_ORIGINAL");
	b->stage = host->conf_stage_name(conf);
	b->networks = host->conf_global(conf, "pepsi", "RELAY_NETWORKS");
	const char *hide = host->conf_str(conf, "HIDE_FORWARDING");
	b->hide = hide && !strcmp(hide, "always") ? HIDE_ALWAYS : hide && !strcmp(hide, "never") ? HIDE_NEVER : HIDE_STRANGERS;
	addresses(b, host, conf, report);
	if (speech_open(&b->speech, host, conf, report) != PEPSI_OK) {
		stop(b);
		return NULL;
	}
	return b;
}

static int32_t validate(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	stop(make(host, conf, report));
	return PEPSI_OK;
}

static int32_t start(const struct pepsi_host *host, const struct pepsi_conf *conf, void **ret_worker)
{
	struct bounce *b = make(host, conf, NULL);
	if (!b)
		return PEPSI_RETRY;
	if (PEPSI_HAS(host, metric)) {
		static const char *const kinds[] = { "failed", "delayed", "success" }, *const whys[] = { "muted", "null_sender", "failed" };
		b->reports = host->metric(conf, PEPSI_METRIC_COUNTER, "notifications", "kind", "Reports written to senders.");
		b->none = host->metric(conf, PEPSI_METRIC_COUNTER, "no_notifications", "why", "Messages that came and were not reported.");
		for (int i = 0; i < 3; i++) {
			host->measure(b->reports, kinds[i], 0);
			host->measure(b->none, whys[i], 0);
		}
	}
	*ret_worker = b;
	return PEPSI_OK;
}

static void count(const struct pepsi_host *host, struct pepsi_metric *m, const char *value)
{
	if (m)
		host->measure(m, value, 1);
}

/* Puts the report in the place of the message. */
static int32_t replace(const struct pepsi_host *host, struct pepsi_msg *msg, struct pepsi_str sender, const struct buf *headers,
    const struct buf *body, const struct dsn_form *form, bool require_tls)
{
	static const char *const origins[2][2] = {
		{ "{\"origin\":{\"esmtp\":true,\"smtputf8\":false,\"body\":\"7BIT\"}}",
		    "{\"origin\":{\"esmtp\":true,\"smtputf8\":false,\"body\":\"8BITMIME\"}}" },
		{ "{\"origin\":{\"esmtp\":true,\"smtputf8\":true,\"body\":\"7BIT\"}}",
		    "{\"origin\":{\"esmtp\":true,\"smtputf8\":true,\"body\":\"8BITMIME\"}}" },
	};
	const struct pepsi_str null_sender = { "", 0 };
	int32_t r = host->clear_state(msg);
	if (r == PEPSI_OK)
		r = host->merge_state(msg, origins[form->utf8][form->eight_bit]);
	if (r == PEPSI_OK && require_tls)
		r = host->merge_state(msg, "{\"require_tls\":true}");
	if (r == PEPSI_OK)
		r = host->set_mail_from(msg, null_sender);
	if (r == PEPSI_OK)
		r = host->set_rcpt_to(msg, &sender, 1);
	if (r == PEPSI_OK)
		r = host->set_headers(msg, (struct pepsi_str){ headers->p, headers->n });
	if (r == PEPSI_OK)
		r = host->set_body(msg, (struct pepsi_str){ body->p, body->n });
	return r == PEPSI_OK ? host->advance(msg) : r;
}

static const char *kind_name(enum dsn_kind kind)
{
	return kind == DSN_FAILED ? "failed" : kind == DSN_DELAYED ? "delayed" : "success";
}

static int32_t report(const struct bounce *w, const struct pepsi_host *host, struct pepsi_msg *msg, struct pepsi_str sender,
    const struct facts *f)
{
	struct pepsi_str h, b;
	char id[32], room[1] = "";
	int32_t r = host->headers(msg, &h);
	if (r == PEPSI_OK)
		r = host->body(msg, &b);
	if (r != PEPSI_OK)
		return r;
	snprintf(id, sizeof id, "%lld", (long long)host->id(msg));
	struct dsn d = { .kind = f->kind, .hostname = str_from(w->hostname), .from = str_from(w->from), .postmaster = str_from(w->postmaster),
		.to = from_host(sender), .id = str_from(id), .now_us = host->now_us(), .arrival_us = host->received_at(msg),
		.retry_until_us = f->retry_until_us, .stage = f->stage, .maybe = f->maybe, .maybe_us = f->maybe_us, .maybe_hop = f->maybe_hop,
		.envid = f->envid, .ret = f->ret, .smtputf8 = f->smtputf8, .headers = str_n(h.p ? h.p : room, h.n),
		.body = str_n(b.p ? b.p : room, b.n), .max_original = (size_t)w->max_original, .rcpts = f->rcpts, .n_rcpts = f->n };
	d.words = speech_for(w->speech, d.to, d.headers, &d.language);
	struct buf headers = BUF_INIT(HEADERS_MAX), body = BUF_INIT(DSN_OVERHEAD_MAX * (size_t)3 + d.max_original);
	struct dsn_form form;
	if (dsn_write(&d, &headers, &body, &form)) {
		say(host, msg, PEPSI_LOG_ERROR, "no report can be written to=%s", log_address(from_host(sender)));
		count(host, w->none, "failed");
		r = PEPSI_PERMANENT;
	} else {
		count(host, w->reports, kind_name(f->kind));
		say(host, msg, PEPSI_LOG_INFO, "report to=%s kind=%s rcpts=%zu muted=%zu hidden=%zu first=%s status=%.*s original=%s language=%.*s",
		    log_address(from_host(sender)), kind_name(f->kind), f->n, f->muted, f->hidden, log_address(f->rcpts[0].address), STR_ARG(f->rcpts[0].status),
		    form.full ? "full" : "headers", STR_ARG(d.language));
		r = replace(host, msg, sender, &headers, &body, &form, f->require_tls);
	}
	buf_free(&headers);
	buf_free(&body);
	return r;
}

static int32_t process(void *worker, const struct pepsi_host *host, struct pepsi_msg *msg)
{
	struct pepsi_str sender = host->mail_from(msg);
	const struct bounce *w = worker;
	struct facts f;
	int32_t r;
	if (!sender.n) {
		struct pepsi_str why;
		bool has = host->state_get(msg, "last_error", &why) == PEPSI_OK;
		say(host, msg, PEPSI_LOG_WARN, "dropped: a report or another message of the null sender could not be delivered%s%s", has ? " why=" : "",
		    has ? log_q(from_host(why)) : "");
		count(host, w->none, "null_sender");
		return host->finish(msg);
	}
	r = facts_read(&f, host, msg, w->stage, w->hide == HIDE_ALWAYS || (w->hide == HIDE_STRANGERS && !ours_sent(host, msg, w->networks)));
	if (r != PEPSI_OK)
		goto out;
	if (!f.n) {
		say(host, msg, PEPSI_LOG_INFO, "no report to %s: the sender did not ask for one (kind=%s, %zu recipients)", log_address(from_host(sender)),
		    kind_name(f.kind), f.muted);
		count(host, w->none, "muted");
		r = host->finish(msg);
		goto out;
	}
	if (!host->next_stage(msg)) {
		say(host, msg, PEPSI_LOG_ERROR, "NEXT_STAGE is not set: there is no way to send the report");
		r = PEPSI_PERMANENT;
		goto out;
	}
	r = report(w, host, msg, sender, &f);
out:
	facts_done(&f);
	return r;
}

PEPSI_STAGE(.name = "pepsi-stage-bounce", .version = "1.1", .license = "Apache-2.0",
    .summary = "tells senders what became of their messages (delivery status notifications)", .load_class = PEPSI_LOAD_FULL,
    .caps = PEPSI_CAP_BOUNCE | PEPSI_CAP_REWRITES, PEPSI_OPTIONS(options), .validate = validate, .open = start, .process = process, .close = stop);
