/* pepsi-stage-relay-to-maildir: delivery into the Maildirs of virtual users, under the stage's own account. Each recipient
 * has an outcome of its own; what can be tried again is tried again, what cannot goes back to the sender. */
#include "maildir.h"

#include "proto/address/address.h"
#include "relay.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { ERR_MAX = 300 };

struct worker {
	struct maildir_pattern pattern;
	bool create, lf;
	const char *host, *stage, *delimiters;
	struct relay_policy policy;
	struct relay_measure measure;
	unsigned counter;
};

static const struct pepsi_option options[] = {
	{ .name = "MAILDIR", .type = PEPSI_OPT_STRING, .flags = PEPSI_OPTF_FILE_ONLY,
	    .help = "absolute path with ${domain}, ${local} or ${address} (lower case), such as /var/mail/${domain}/${local}" },
	{ .name = "CREATE", .type = PEPSI_OPT_BOOL, .def = "YES",
	    .help = "make the folders below the part without variables (0700); NO: a mailbox that does not exist refuses mail" },
	{ .name = "NEWLINE", .type = PEPSI_OPT_CHOICE, .def = "crlf", .choices = "crlf lf",
	    .help = "line ends in the files: crlf keeps the message octet for octet as it was sent; lf is what older tools expect" },
	{ .name = "RECIPIENT_DELIMITER", .type = PEPSI_OPT_STRING,
	    .help = "octets such as +: alice+lists goes to alice, unless it has a Maildir of its own; default: that of [pepsi]" },
	{ .name = "HOME_MAILDIR", .type = PEPSI_OPT_STRING, .flags = PEPSI_OPTF_FILE_ONLY, .help = "for system users; not available in this version" },
	{ .name = "RETRY_MIN", .type = PEPSI_OPT_DURATION, .def = "1 min", .min = 1, .max = 86400,
	    .help = "wait after the first failure; doubles each time" },
	{ .name = "RETRY_MAX", .type = PEPSI_OPT_DURATION, .def = "1 h", .min = 1, .max = 604800,
	    .help = "longest wait between two attempts" },
	{ .name = "DELAY_WARNING", .type = PEPSI_OPT_DURATION, .def = "4 h", .min = 0, .max = 2592000,
	    .help = "tell the sender once when a message waits longer than this (through BOUNCE_STAGE); 0: never" },
};

static int32_t validate(const struct pepsi_host *h, const struct pepsi_conf *c, struct pepsi_report *r)
{
	struct maildir_pattern p;
	struct buf why = BUF_INIT(512);
	const char *text = h->conf_str(c, "MAILDIR");
	if (h->conf_str(c, "HOME_MAILDIR"))
		h->report(r, "HOME_MAILDIR", "delivery to system users is not available in this version: use MAILDIR");
	if (!text)
		h->report(r, "MAILDIR", "must be set, such as /var/mail/${domain}/${local}");
	else if (maildir_pattern_parse(text, &p, &why))
		h->report(r, "MAILDIR", buf_z(&why));
	buf_free(&why);
	return PEPSI_OK;
}

static int32_t open_worker(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	struct worker *w = calloc(1, sizeof *w);
	struct buf why = BUF_INIT(512);
	const char *text = h->conf_str(c, "MAILDIR"), *newline = h->conf_str(c, "NEWLINE");
	if (!w)
		return PEPSI_RETRY;
	if (!text || h->conf_str(c, "HOME_MAILDIR") || maildir_pattern_parse(text, &w->pattern, &why)) {
		say(h, NULL, PEPSI_LOG_ERROR, "MAILDIR: %s", why.n ? buf_z(&why) : "must be set, and HOME_MAILDIR must not");
		buf_free(&why);
		free(w);
		return PEPSI_PERMANENT;
	}
	w->create = h->conf_int(c, "CREATE");
	w->lf = newline && !strcmp(newline, "lf");
	w->host = h->conf_global(c, "pepsi", "HOSTNAME");
	if (!w->host)
		w->host = "localhost";
	w->delimiters = h->conf_str(c, "RECIPIENT_DELIMITER");
	if (!w->delimiters)
		w->delimiters = h->conf_global(c, "pepsi", "RECIPIENT_DELIMITER");
	w->stage = h->conf_stage_name(c);
	w->policy = (struct relay_policy){ .retry_min = h->conf_int(c, "RETRY_MIN"), .retry_max = h->conf_int(c, "RETRY_MAX"),
		.delay_warning = h->conf_int(c, "DELAY_WARNING"), .stage = w->stage, .hop = "maildir", .measure = &w->measure };
	relay_measure_open(&w->measure, h, c, false);
	*ret = w;
	return PEPSI_OK;
}

static void close_worker(void *worker)
{
	free(worker);
}

/* Addresses in trace fields have passed the grammar at admission, but rows come from elsewhere too: nothing that could end
 * the line is written. */
static bool one_line(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return false;
	return true;
}

/* RFC 5321 §4.4: Return-Path at final delivery, one, in front. Delivered-To names the mailbox. */
static int put_trace(struct buf *b, struct str from, struct str rcpt)
{
	buf_addf(b, "Return-Path: <%.*s>\r\n", STR_ARG(from));
	buf_addf(b, "Delivered-To: %.*s\r\n", STR_ARG(rcpt));
	return b->failed ? -1 : 0;
}

static struct smtp_result result(enum smtp_outcome o, const char *status, const char *text)
{
	struct smtp_result r = { .outcome = o, .phase = SMTP_PHASE_RCPT, .text = str_from(text) };
	snprintf(r.status, sizeof r.status, "%s", status);
	return r;
}

/* Into the recipient's own Maildir or, where the address has a detail and no Maildir of its own, into that of the address
 * without it: what RECIPIENTS took for alice must not end in a folder that nobody reads. -1: no folder can have that name. */
static int put(struct worker *w, struct str rcpt, const struct maildir_message *msg, enum maildir_result *ret, char *text, size_t size,
    const char **why)
{
	char below[MAILDIR_PATH_MAX];
	struct str detail = maildir_detail(rcpt, w->delimiters);
	int named = maildir_where(&w->pattern, rcpt, below, sizeof below, why);
	*ret = MAILDIR_NO_MAILBOX;
	if (!named)
		*ret = maildir_write(w->pattern.fixed, below, w->create && !detail.n, msg, w->counter++, w->host, text, size);
	if (!detail.n || *ret != MAILDIR_NO_MAILBOX)
		return named;
	const char *at = memrchr(detail.p, '@', detail.n);
	struct buf base = BUF_INIT(1024);
	buf_addf(&base, "%.*s%.*s", (int)(detail.p - rcpt.p), rcpt.p, at ? (int)(rcpt.p + rcpt.n - at) : 0, at ? at : "");
	*why = "an address is too long";
	named = base.failed ? -1 : maildir_where(&w->pattern, buf_str(&base), below, sizeof below, why);
	buf_free(&base);
	if (!named)
		*ret = maildir_write(w->pattern.fixed, below, w->create, msg, w->counter++, w->host, text, size);
	return named;
}

/* One recipient. text: room for the reason, which the result points into. */
static struct smtp_result deliver(struct worker *w, const struct pepsi_host *h, struct pepsi_msg *m, struct str rcpt,
    struct str headers, struct str body, char *text, size_t size)
{
	const char *why;
	enum maildir_result r;
	struct str from = from_host(h->mail_from(m));
	struct buf trace = BUF_INIT(4096);
	if (!one_line(from) || !one_line(rcpt) || put_trace(&trace, from, rcpt)) {
		buf_free(&trace);
		return result(SMTP_OUT_PERMANENT, "5.1.3", "an address holds control characters or is too long");
	}
	struct maildir_message msg = { .trace = buf_str(&trace), .headers = headers, .body = body, .lf = w->lf };
	int named = put(w, rcpt, &msg, &r, text, size, &why);
	buf_free(&trace);
	if (named)
		return result(SMTP_OUT_PERMANENT, "5.1.3", why);
	switch (r) {
	case MAILDIR_OK:
		return result(SMTP_OUT_OK, "2.1.5", "delivered");
	case MAILDIR_NO_MAILBOX:
		return result(SMTP_OUT_PERMANENT, "5.1.1", "there is no such mailbox");
	case MAILDIR_UNSAFE:
		say(h, m, PEPSI_LOG_ERROR, "%s: a link or a file is in the way of a mailbox folder; it is not followed", text);
		break;
	case MAILDIR_LATER:
		break;
	}
	return result(SMTP_OUT_TRANSIENT, "4.3.0", text);
}

static struct str state_at(const struct pepsi_host *h, struct pepsi_msg *m, size_t i, const char *key)
{
	char path[64];
	struct pepsi_str s;
	snprintf(path, sizeof path, "dsn.rcpt.%zu.%s", i, key);
	return h->state_get(m, path, &s) == PEPSI_OK ? from_host(s) : STR_NULL;
}

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct worker *w = worker;
	struct pepsi_str headers, body, s;
	size_t n = h->n_rcpt(m), ok = 0;
	int32_t r = h->headers(m, &headers);
	if (r != PEPSI_OK || (r = h->body(m, &body)) != PEPSI_OK)
		return r;
	struct smtp_client_rcpt *rcpts = calloc(n ? n : 1, sizeof *rcpts);
	char (*texts)[ERR_MAX] = calloc(n ? n : 1, sizeof *texts);
	if (!rcpts || !texts || !n) {
		h->log(m, PEPSI_LOG_WARN, n ? "out of memory" : "a message without recipients");
		free(rcpts);
		free(texts);
		return n ? PEPSI_RETRY : PEPSI_PERMANENT;
	}
	bool dsn = h->state_get(m, "dsn.rcpt", &s) == PEPSI_OK;
	for (size_t i = 0; i < n; i++) {
		struct smtp_client_rcpt *to = &rcpts[i];
		to->address = from_host(h->rcpt(m, i));
		if (dsn) {
			to->notify = state_at(h, m, i, "notify");
			to->orcpt = state_at(h, m, i, "orcpt");
		}
		to->result = deliver(w, h, m, to->address, from_host(headers), from_host(body), texts[i], sizeof texts[i]);
		ok += to->result.outcome == SMTP_OUT_OK;
	}
	struct smtp_client_msg msg = { .mail_from = from_host(h->mail_from(m)), .rcpts = rcpts, .n_rcpts = n };
	if (h->state_get(m, "dsn.envid", &s) == PEPSI_OK)
		msg.envid = from_host(s);
	if (h->state_get(m, "dsn.ret", &s) == PEPSI_OK)
		msg.ret = from_host(s);
	r = relay_decide(&w->policy, h, m, &msg, PEPSI_DSN_DELIVERED, ok < n);
	free(rcpts);
	free(texts);
	return r;
}

PEPSI_STAGE(.name = "pepsi-stage-relay-to-maildir", .version = "0.1", .license = "Apache-2.0",
    .summary = "delivers into Maildirs of virtual users", .load_class = PEPSI_LOAD_FULL,
    .caps = PEPSI_CAP_DELIVER | PEPSI_CAP_FILES, PEPSI_OPTIONS(options), .validate = validate, .open = open_worker,
    .process = process, .close = close_worker);
