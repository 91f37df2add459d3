/* pepsi-stage-bounce: turns a message that could not be delivered (or is late, or arrived where that was to be told) into
 * a delivery status notification to its sender, and sends it on to NEXT_STAGE. A bounce is never bounced: a message with
 * the null sender ends here. The report itself is proto/dsn's. */
#include "facts.h"

#include <stdio.h>
#include <stdlib.h>

enum { HEADERS_MAX = 64 * 1024 };

struct bounce {
	char hostname[256];
	int64_t max_original;
};

static const struct pepsi_option options[] = {
	{ "MAX_ORIGINAL", PEPSI_OPT_SIZE, 0, "50 KiB", 0, INT64_C(1) << 30, NULL,
	    "a larger original is returned as its headers only" },
};

static int32_t start(const struct pepsi_host *host, const struct pepsi_conf *conf, void **ret_worker)
{
	struct bounce *b = calloc(1, sizeof *b);
	const char *name = host->conf_global(conf, "pepsi", "HOSTNAME");
	if (!b)
		return PEPSI_RETRY;
	snprintf(b->hostname, sizeof b->hostname, "%s", name && *name ? name : "localhost");
	b->max_original = host->conf_int(conf, "MAX_ORIGINAL");
	*ret_worker = b;
	return PEPSI_OK;
}

static void stop(void *worker)
{
	free(worker);
}

static void say(const struct pepsi_host *host, struct pepsi_msg *msg, int32_t level, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void say(const struct pepsi_host *host, struct pepsi_msg *msg, int32_t level, const char *fmt, ...)
{
	struct buf b = BUF_INIT(2000);
	va_list ap;
	va_start(ap, fmt);
	buf_vaddf(&b, fmt, ap);
	va_end(ap);
	host->log(msg, level, buf_z(&b));
	buf_free(&b);
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
	struct dsn d = { .kind = f->kind, .hostname = str_from(w->hostname), .to = str_n(sender.p, sender.n), .id = str_from(id),
		.now_us = host->now_us(), .arrival_us = host->received_at(msg), .stage = f->stage, .note = str_from(f->note), .envid = f->envid, .ret = f->ret,
		.smtputf8 = f->smtputf8, .headers = str_n(h.p ? h.p : room, h.n), .body = str_n(b.p ? b.p : room, b.n),
		.max_original = (size_t)w->max_original, .rcpts = f->rcpts, .n_rcpts = f->n };
	struct buf headers = BUF_INIT(HEADERS_MAX), body = BUF_INIT(DSN_OVERHEAD_MAX * (size_t)3 + d.max_original);
	struct dsn_form form;
	if (dsn_write(&d, &headers, &body, &form)) {
		say(host, msg, PEPSI_LOG_ERROR, "no report can be written to <%.*s>", (int)(sender.n > 256 ? 256 : sender.n), sender.p);
		r = PEPSI_PERMANENT;
	} else {
		say(host, msg, PEPSI_LOG_INFO, "report to=<%.*s> kind=%s rcpts=%zu first=<%.*s> status=%.*s original=%s",
		    (int)(sender.n > 256 ? 256 : sender.n), sender.p,
		    f->kind == DSN_FAILED ? "failed" : f->kind == DSN_DELAYED ? "delayed" : "success", f->n,
		    STR_ARG(f->rcpts[0].address), STR_ARG(f->rcpts[0].status), form.full ? "full" : "headers");
		r = replace(host, msg, sender, &headers, &body, &form, f->require_tls);
	}
	buf_free(&headers);
	buf_free(&body);
	return r;
}

static int32_t process(void *worker, const struct pepsi_host *host, struct pepsi_msg *msg)
{
	struct pepsi_str sender = host->mail_from(msg);
	struct facts f;
	int32_t r;
	if (!sender.n) {
		struct pepsi_str why;
		bool has = host->state_get(msg, "last_error", &why) == PEPSI_OK;
		say(host, msg, PEPSI_LOG_WARN, "dropped: a report or another message of the null sender could not be delivered%s%.*s",
		    has ? ": " : "", has ? (int)(why.n > 512 ? 512 : why.n) : 0, has ? why.p : "");
		return host->finish(msg);
	}
	r = facts_read(&f, host, msg);
	if (r != PEPSI_OK)
		goto out;
	if (!f.n) {
		say(host, msg, PEPSI_LOG_INFO, "no report to <%.*s>: the sender did not ask for one (%zu recipients)",
		    (int)(sender.n > 256 ? 256 : sender.n), sender.p, f.muted);
		r = host->finish(msg);
		goto out;
	}
	if (!host->next_stage(msg)) {
		say(host, msg, PEPSI_LOG_ERROR, "NEXT_STAGE is not set: there is no way to send the report");
		r = PEPSI_PERMANENT;
		goto out;
	}
	r = report(worker, host, msg, sender, &f);
out:
	facts_done(&f);
	return r;
}

PEPSI_STAGE(.name = "pepsi-stage-bounce", .version = "1.0", .license = "Apache-2.0",
    .summary = "tells senders what became of their messages (delivery status notifications)", .load_class = PEPSI_LOAD_FULL,
    .caps = PEPSI_CAP_BOUNCE | PEPSI_CAP_REWRITES, PEPSI_OPTIONS(options), .open = start, .process = process, .close = stop);
