/* pepsi-sendmail, the message: made ready, sent to pepsid, or left in the drop folder when there is no answer; what was refused is
 * told as -oe says. */
#include "base/clock.h"
#include "cli_internal.h"
#include "submit/submit.h"
#include "tool_sendmail.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

struct submission {
	const struct sendmail_site *site;
	const struct sendmail_args *args;
	struct submit_addresses rcpts;
	struct submit_message text;
	struct buf from, notify, envid;
	struct buf problems;      /* for people, a line each */
	char key[SUBMIT_KEY];
	int offset_min;
	int code;                 /* the worst so far */
};

static int zone_minutes(void)
{
	time_t now = time(NULL);
	struct tm tm;
	return localtime_r(&now, &tm) ? (int)(tm.tm_gmtoff / 60) : 0;
}

/* Exit code of a refusal. */
static int code_of(const struct smtp_result *r)
{
	if (str_starts(str_from(r->status), STR("5.1.")) && strcmp(r->status, "5.1.7"))
		return EX_NOUSER;
	if (r->code == 553 || str_starts(str_from(r->status), STR("5.7.")))
		return EX_NOPERM;
	if (str_starts(str_from(r->status), STR("5.6.")) || str_starts(str_from(r->status), STR("5.3.4")) || str_starts(str_from(r->status), STR("5.1.7")))
		return EX_DATAERR;
	return EX_UNAVAILABLE;
}

static void note_code(struct submission *s, int code)
{
	if (!s->code)
		s->code = code;
}

static int copy_upper(struct buf *out, const char *z)
{
	for (; *z; z++)
		buf_addc(out, *z >= 'a' && *z <= 'z' ? (char)(*z - 32) : *z);
	return out->failed ? -1 : 0;
}

/* Envelope, header and body. 0, or an exit code after a message. */
static int make_ready(struct submission *s, struct str raw)
{
	const struct sendmail_site *site = s->site;
	const struct sendmail_args *a = s->args;
	const char *sender = a->from ? a->from : site->user;
	struct buf own = BUF_INIT(1024);
	if (submit_address_one(&s->from, str_from(sender), site->host))
		return sendmail_fail(site, EX_USAGE, "-f %s: this is no address", sender);
	if (submit_address_one(&own, str_from(site->user), site->host))
		buf_addf(&own, "nobody@%s", site->host);
	for (size_t i = 0; i < a->n_rcpts; i++)
		if (submit_addresses_add(&s->rcpts, str_from(a->rcpts[i]), site->host))
			return sendmail_fail(site, EX_DATAERR, "more than %d recipients", SUBMIT_RCPTS_MAX);
	const struct submit_options o = { .host = site->host, .from = buf_str(&s->from), .from_header = buf_str(&own), .extract = a->extract,
		.full_name = str_from(a->full_name ? a->full_name : a->from ? "" : site->full_name), .now_us = clock_wall_us(),
		.offset_min = s->offset_min, .unique = s->key };
	enum submit_fault fault = submit_prepare(&s->text, &s->rcpts, raw, &o);
	buf_free(&own);
	if (fault)
		return sendmail_fail(site, fault == SUBMIT_MEMORY ? EX_OSERR : EX_DATAERR, "%s", submit_fault_text(fault));
	if (s->rcpts.n_bad) {
		note_code(s, EX_DATAERR);
		struct str rest = buf_str(&s->rcpts.bad), line;
		while (str_word(&rest, "\n", &line))
			buf_addf(&s->problems, "%.*s: no address\n", STR_ARG(line));
	}
	if (!s->rcpts.n && !s->rcpts.n_bad)
		return sendmail_fail(site, a->extract ? EX_DATAERR : EX_USAGE, a->extract ? "the header names no recipient" :
		    "no recipient: name some, or have them read from the header with -t");
	if (a->notify && copy_upper(&s->notify, a->notify))
		return EX_OSERR;
	for (const char *p = a->envid; p && *p; p++) /* xtext (RFC 3461 §4) */
		if (*p == '+' || *p == '=')
			buf_addf(&s->envid, "+%02X", (unsigned char)*p);
		else
			buf_addc(&s->envid, *p);
	return 0;
}

/* ---- the drop folder */

static int leave(const struct submission *s, struct smtp_client_msg *msg, const char *why)
{
	const struct sendmail_site *site = s->site;
	struct statvfs fs;
	struct buf text = BUF_INIT(msg->headers.n + msg->body.n + (4 << 20));
	if (!config_int(site->config, "pepsi-sendmail", "DROP"))
		return sendmail_fail(site, EX_TEMPFAIL, "pepsid does not take the message now: %s", why);
	if (statvfs(site->drop, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < site->min_free + msg->headers.n + msg->body.n)
		return sendmail_fail(site, EX_TEMPFAIL, "pepsid does not answer (%s), and %s has too little free space", why, site->drop);
	umask(077);
	int r = submit_drop_compose(&text, msg) || submit_drop_write(site->drop, buf_str(&text), s->key);
	int e = text.failed ? ENOMEM : errno;
	buf_free(&text);
	if (!r) {
		if (s->args->verbose)
			printf("%s: pepsid does not answer (%s); the message waits for it in %s\n", site->program, why, site->drop);
		return 0;
	}
	return sendmail_fail(site, e == EACCES || e == EPERM || e == EROFS ? EX_CANTCREAT : EX_TEMPFAIL,
	    "pepsid does not answer (%s), and the message cannot be left in %s: %s", why, site->drop, strerror(e));
}

/* ---- sending */

static bool is_open(const struct smtp_result *r)
{
	return r->outcome != SMTP_OUT_OK && r->outcome != SMTP_OUT_PERMANENT;
}

/* Takes those out that were refused; what is left is to be sent later. */
static void keep_open(struct smtp_client_msg *msg)
{
	size_t n = 0;
	for (size_t i = 0; i < msg->n_rcpts; i++)
		if (is_open(&msg->rcpts[i].result))
			msg->rcpts[n++] = msg->rcpts[i];
	msg->n_rcpts = n;
}

/* Sends it, or leaves it. Refusals go into the problems. 0, or an exit code. */
static int send_or_leave(struct submission *s, struct smtp_client_msg *msg)
{
	char reply[SUBMIT_REPLY] = "", why[SUBMIT_REPLY] = "";
	size_t refused = 0;
	int fd = submit_connect(s->site->socket);
	if (fd < 0) {
		snprintf(why, sizeof why, "%s", errno == ENOENT ? "it is not running" : strerror(errno));
		return leave(s, msg, why);
	}
	submit_send(fd, "localhost", msg, reply);
	submit_problems(&s->problems, msg, &refused);
	for (size_t i = 0; i < msg->n_rcpts; i++) {
		const struct smtp_result *r = &msg->rcpts[i].result;
		if (r->outcome == SMTP_OUT_PERMANENT)
			note_code(s, code_of(r));
		else if (is_open(r) && !why[0])
			snprintf(why, sizeof why, "%.*s", STR_ARG(r->text));
	}
	if (reply[0] && s->args->verbose)
		printf("%s: %s\n", s->site->program, reply);
	keep_open(msg);
	return msg->n_rcpts ? leave(s, msg, why[0] ? why : "no answer") : 0;
}

/* The letter of -oem. */
static int mail_report(struct submission *s)
{
	struct submit_message m = { .headers = BUF_INIT(64 * 1024), .body = BUF_INIT(4 << 20) };
	struct smtp_client_rcpt to = { .address = buf_str(&s->from) };
	const struct smtp_client_msg about = { .headers = buf_str(&s->text.headers) };
	struct submission report = { .site = s->site, .args = s->args, .problems = BUF_INIT(64 * 1024) };
	if (submit_key(report.key) || submit_report(&m, &about, buf_str(&s->problems), s->site->host, buf_str(&s->from), clock_wall_us(),
	    s->offset_min, report.key))
		return -1;
	struct smtp_client_msg msg = { .headers = buf_str(&m.headers), .body = buf_str(&m.body), .body_8bit = m.eight, .rcpts = &to, .n_rcpts = 1,
		.whole = true, .once = str_from(report.key), .smtputf8 = !str_is_ascii(buf_str(&s->from)) };
	int r = send_or_leave(&report, &msg) || report.code ? -1 : 0;
	buf_free(&m.headers);
	buf_free(&m.body);
	buf_free(&report.problems);
	return r;
}

static int tell(struct submission *s)
{
	enum sendmail_errors how = s->args->errors;
	if (how == SENDMAIL_QUIET)
		return s->code;
	if (how != SENDMAIL_PRINT && s->from.n && mail_report(s) == 0)
		return how == SENDMAIL_MAIL_OK ? EX_OK : s->code;
	struct str rest = buf_str(&s->problems), line;
	while (str_word(&rest, "\n", &line))
		sendmail_fail(s->site, 0, "%.*s", STR_ARG(line));
	return s->code;
}

static int run(struct submission *s, struct buf *raw)
{
	int r = submit_key(s->key) ? sendmail_fail(s->site, EX_OSERR, "the kernel gives no random octets") : make_ready(s, buf_str(raw));
	if (r)
		return r;
	buf_free(raw);
	struct smtp_client_msg msg = { .mail_from = buf_str(&s->from), .headers = buf_str(&s->text.headers), .body = buf_str(&s->text.body),
		.body_8bit = s->text.eight || s->args->body_8bit, .whole = true, .once = str_from(s->key), .n_rcpts = s->rcpts.n,
		.ret = str_from(s->args->ret ? str_ieq(str_from(s->args->ret), STR("full")) ? "FULL" : "HDRS" : ""), .envid = buf_str(&s->envid),
		.smtputf8 = s->rcpts.utf8 || !str_is_ascii(buf_str(&s->from)) };
	msg.rcpts = calloc(s->rcpts.n ? s->rcpts.n : 1, sizeof *msg.rcpts);
	if (!msg.rcpts)
		return sendmail_fail(s->site, EX_OSERR, "out of memory");
	const char *p = s->rcpts.text.p;
	for (size_t i = 0; i < s->rcpts.n; i++, p += strlen(p) + 1)
		msg.rcpts[i] = (struct smtp_client_rcpt){ .address = str_from(p), .notify = buf_str(&s->notify) };
	r = msg.n_rcpts ? send_or_leave(s, &msg) : 0;
	free(msg.rcpts);
	if (s->code && s->problems.n) {
		int told = tell(s);
		return r ? r : told;
	}
	return r;
}

int sendmail_submit(const struct sendmail_site *site, const struct sendmail_args *a)
{
	struct buf raw;
	size_t limit = (size_t)site->size_limit;
	int r = sendmail_read(site, a, &raw);
	if (!r) {
		struct submission s = { .site = site, .args = a, .from = BUF_INIT(1024), .notify = BUF_INIT(64), .envid = BUF_INIT(512),
			.problems = BUF_INIT(1 << 20), .offset_min = zone_minutes(),
			.text = { .headers = BUF_INIT(SUBMIT_HEADER_MAX + 64 * 1024), .body = BUF_INIT(limit + 2) } };
		submit_addresses_init(&s.rcpts);
		r = run(&s, &raw);
		submit_addresses_done(&s.rcpts);
		buf_free(&s.from);
		buf_free(&s.notify);
		buf_free(&s.envid);
		buf_free(&s.problems);
		buf_free(&s.text.headers);
		buf_free(&s.text.body);
	}
	buf_free(&raw);
	return r;
}
