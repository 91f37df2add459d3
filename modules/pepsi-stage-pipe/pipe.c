/* pepsi-stage-pipe: custom filters without C. Each message is given to a command on standard input; its JSON reply says what is
 * to become of it. Whatever goes wrong with the command is the environment's fault: the message is tried again. */
#include "command.h"
#include "count.h"
#include "input.h"
#include "reply.h"
#include "run.h"
#include "base/log.h"
#include "say.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	STRAYS_MAX = 8,                      /* commands that were killed and are not gone: beyond, no more are started */
	PASS_MAX = 4 * 1024 * 1024,          /* memory of one pass besides the header block */
	HEADERS_MAX = 8 * 1024 * 1024,       /* a header block after the changes */
	LINES_MAX = 20,                      /* of standard error in the log */
	SPARE_MS = 2500,                     /* of MAX_RUNTIME, to end a command that did not end itself */
	TIMEOUT_MIN_MS = 100,
};

static const struct pepsi_option options[] = {
	{ .name = "COMMAND", .type = PEPSI_OPT_STRING, .flags = PEPSI_OPTF_REQUIRED | PEPSI_OPTF_FILE_ONLY,
	    .help = "absolute path and fixed arguments, words in double quotes may hold blanks; no shell, no variables" },
	{ .name = "TIMEOUT", .type = PEPSI_OPT_DURATION, .def = "30 s", .min = 1, .max = 86400,
	    .help = "then the command is killed and the message tried again later" },
	{ .name = "INPUT", .type = PEPSI_OPT_CHOICE, .def = "message", .choices = "message json",
	    .help = "standard input: the message, or a line of JSON with envelope and state before it" },
	{ .name = "STAGES", .type = PEPSI_OPT_LIST, .help = "stages the command may send messages to with the action reroute" },
};

struct worker {
	const struct pepsi_host *h;
	const struct pepsi_conf *c;
	struct arena *a;     /* argv; lives as long as the worker */
	struct arena *pass;
	char **argv;
	bool json;
	const char *stages;
	pid_t strays[STRAYS_MAX];
	size_t n_strays;
	struct pepsi_metric *runs, *took;
};

static int32_t validate(const struct pepsi_host *h, const struct pepsi_conf *c, struct pepsi_report *r)
{
	const char *text = h->conf_str(c, "COMMAND"), *why, *stages = h->conf_str(c, "STAGES");
	struct str rest = str_from(stages), word;
	struct arena *a = arena_new(PASS_MAX);
	if (a && text && !command_parse(a, text, &why))
		fault(h, r, "COMMAND", "%s", why);
	arena_free(a);
	if (!h->conf_str(c, "NEXT_STAGE"))
		fault(h, r, NULL, "NEXT_STAGE is not set: where is accepted mail to go?");
	while (str_word(&rest, " \t", &word)) {
		char name[128];
		snprintf(name, sizeof name, "%.*s", STR_ARG(word));
		if (!stage_exists(h, c, name))
			fault(h, r, "STAGES", "there is no section [stage-%s]", name);
	}
	return PEPSI_OK;
}

static void close_worker(void *p)
{
	struct worker *w = p;
	if (!w)
		return;
	arena_free(w->a);
	arena_free(w->pass);
	free(w);
}

static int32_t open_worker(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	struct worker *w = calloc(1, sizeof *w);
	const char *why = "out of memory", *input = h->conf_str(c, "INPUT");
	if (w && (w->a = arena_new(PASS_MAX)) && (w->pass = arena_new(PASS_MAX)))
		w->argv = command_parse(w->a, h->conf_str(c, "COMMAND"), &why);
	if (!w || !w->argv) {
		say(h, NULL, PEPSI_LOG_ERROR, "event=pipe-command error=\"%s\"", why);
		close_worker(w);
		return PEPSI_PERMANENT;
	}
	if (access(w->argv[0], X_OK)) {
		say(h, NULL, PEPSI_LOG_ERROR, "event=pipe-command command=%s error=\"%s\"", w->argv[0], strerror(errno));
		close_worker(w);
		return PEPSI_RETRY;
	}
	w->h = h;
	w->c = c;
	w->json = input && !strcmp(input, "json");
	w->stages = h->conf_str(c, "STAGES");
	w->runs = count_new(h, c, PEPSI_METRIC_COUNTER, "runs", "end", "accept reroute reject defer invalid exit signal late too_long failed",
	    "Runs of the command: what it replied; no valid reply; or how it ended instead.");
	w->took = count_new(h, c, PEPSI_METRIC_TIMING, "run", NULL, NULL, "Time of a run of the command.");
	*ret = w;
	return PEPSI_OK;
}

/* Standard error goes to the log, line by line; the last line comes back, for the reason. */
static struct str log_errors(const struct worker *w, struct pepsi_msg *m, struct str text)
{
	struct str line, last = STR_NULL;
	for (int i = 0; str_word(&text, "\r\n", &line); i++) {
		last = line;
		if (i < LINES_MAX)
			say(w->h, m, PEPSI_LOG_INFO, "event=pipe-stderr text=%s", log_q(line));
	}
	return last;
}

static int32_t again(const struct worker *w, struct pepsi_msg *m, const char *why, struct str detail)
{
	say(w->h, m, PEPSI_LOG_WARN, "%s: %s%s%.*s", w->argv[0], why, detail.n ? ": " : "", (int)(detail.n < 150 ? detail.n : 150),
	    detail.p ? detail.p : "");
	return PEPSI_RETRY;
}

/* Why this run gives no reply; false: it gives one. */
static bool wrong(const struct run_result *r, char *out, size_t size)
{
	switch (r->end) {
	case RUN_EXIT:
		if (!r->code)
			return false;
		snprintf(out, size, "exit status %d", r->code);
		break;
	case RUN_SIGNAL:
		snprintf(out, size, "ended by signal %d (%s)", r->code, strsignal(r->code));
		break;
	case RUN_LATE:
		snprintf(out, size, "did not answer in time and was killed (TIMEOUT)");
		break;
	case RUN_TOO_LONG:
		snprintf(out, size, "wrote more than %d octets and was killed", RUN_OUT_MAX);
		break;
	case RUN_FAILED:
		snprintf(out, size, "could not be started: %s", strerror(r->code));
		break;
	}
	return true;
}

/* --- what a reply asks for */

static int32_t edit(const struct worker *w, struct pepsi_msg *m, const struct reply *r)
{
	struct pepsi_str headers;
	struct buf out = BUF_INIT(HEADERS_MAX);
	int32_t rc = w->h->headers(m, &headers);
	if (!r->n_headers || rc != PEPSI_OK)
		return rc;
	if (reply_edit(r, from_host(headers), &out))
		rc = again(w, m, "asks for more headers than a message may have", STR_NULL);
	else if (!str_eq(buf_str(&out), from_host(headers)))
		rc = w->h->set_headers(m, (struct pepsi_str){ out.p ? out.p : "", out.n });
	buf_free(&out);
	return rc;
}

static bool may_go_to(const struct worker *w, const char *stage)
{
	struct str rest = str_from(w->stages), word;
	while (str_word(&rest, " \t", &word))
		if (str_ieq(word, str_from(stage)))
			return true;
	return false;
}

/* {"bounce":{…}} for the report (pepsi.state(7)); or {"last_error":…} where nobody writes one. */
static char *rejection(const struct worker *w, const struct reply *r, bool report)
{
	struct buf b = BUF_INIT(16 * REPLY_TEXT_MAX);
	buf_addz(&b, report ? "{\"bounce\":{\"kind\":\"permanent\",\"phase\":\"data\",\"enhanced_status\":\"" : "{\"last_error\":\"");
	buf_addf(&b, "%s%s", r->status, report ? "\",\"diagnostic\":\"" : " ");
	for (const char *p = r->text ? r->text : "the message was refused by a filter"; *p; p++) {
		if (*p == '"' || *p == '\\')
			buf_addf(&b, "\\%c", *p);
		else if (*p == '\t')
			buf_addz(&b, "\\t");
		else
			buf_addc(&b, *p); /* no other controls: reply_parse() saw to it */
	}
	buf_addz(&b, report ? "\"}}" : "\"}");
	char *z = b.failed ? NULL : arena_strz(w->pass, buf_str(&b));
	buf_free(&b);
	return z;
}

static int32_t obey(struct worker *w, struct pepsi_msg *m, const struct reply *r)
{
	const struct pepsi_host *h = w->h;
	const char *bounce = h->bounce_stage(m), *state;
	int32_t rc;
	switch (r->action) {
	case REPLY_ACCEPT:
		rc = edit(w, m, r);
		return rc == PEPSI_OK ? h->advance(m) : rc; /* never finish: a filter without a way out would drop mail */
	case REPLY_REROUTE:
		if (!may_go_to(w, r->stage))
			return again(w, m, "names a stage that STAGES does not", str_from(r->stage));
		rc = edit(w, m, r);
		return rc == PEPSI_OK ? h->advance_to(m, r->stage) : rc;
	case REPLY_REJECT:
		if (!(state = rejection(w, r, bounce != NULL)))
			return PEPSI_RETRY;
		return bounce ? h->reroute(m, bounce, state) : h->fail(m, state);
	case REPLY_DEFER:
		break;
	}
	/* beyond MAX_LIFETIME the host's way ends in a report; before, the command's wish counts */
	if (!r->seconds || h->lifetime_left(m) <= 0)
		return again(w, m, "defers the message", str_from(r->text));
	say(h, m, PEPSI_LOG_WARN, "%s: defers the message%s%s", w->argv[0], r->text ? ": " : "", r->text ? r->text : "");
	return h->pause(m, NULL, r->seconds);
}

static void reap(struct worker *w)
{
	size_t n = 0;
	for (size_t i = 0; i < w->n_strays; i++)
		if (waitpid(w->strays[i], NULL, WNOHANG) == 0)
			w->strays[n++] = w->strays[i];
	w->n_strays = n;
}

static int32_t judge(struct worker *w, struct pepsi_msg *m, const struct run_result *r)
{
	static const char *const ends[] = { [RUN_EXIT] = "exit", [RUN_SIGNAL] = "signal", [RUN_LATE] = "late", [RUN_TOO_LONG] = "too_long", [RUN_FAILED] = "failed" };
	static const char *const actions[] = { [REPLY_ACCEPT] = "accept", [REPLY_REJECT] = "reject", [REPLY_DEFER] = "defer", [REPLY_REROUTE] = "reroute" };
	struct reply reply;
	struct buf why = BUF_INIT(1024);
	char text[200];
	struct str last = log_errors(w, m, buf_str(&r->err));
	if (r->stray) {
		say(w->h, m, PEPSI_LOG_ERROR, "event=pipe-stray pid=%d hint=\"killed, and not gone\"", (int)r->stray);
		w->strays[w->n_strays++] = r->stray;
	}
	if (wrong(r, text, sizeof text)) {
		count_add(w->h, w->runs, ends[r->end], 1);
		return again(w, m, text, last);
	}
	bool valid = !reply_parse(w->pass, buf_str(&r->out), &reply, &why);
	count_add(w->h, w->runs, valid ? actions[reply.action] : "invalid", 1);
	int32_t rc = valid ? obey(w, m, &reply) : again(w, m, "gave no valid reply", buf_str(&why));
	buf_free(&why);
	return rc;
}

static int32_t process(void *p, const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct worker *w = p;
	const char *stage = h->conf_stage_name(w->c);
	int64_t timeout = h->conf_int(w->c, "TIMEOUT") * 1000, left = h->runtime_left_ms(m) - SPARE_MS;
	struct run_result r;
	arena_reset(w->pass);
	reap(w);
	if (w->n_strays == STRAYS_MAX)
		return again(w, m, "too many runs that were killed are not gone", STR_NULL);
	struct run_job job = { .argv = w->argv, .memory = (uint64_t)h->conf_int(w->c, "MEMORY_LIMIT"),
		.envp = input_environment(w->pass, h, m, stage, h->conf_global(w->c, "pepsi", "HOSTNAME")),
		.timeout_ms = timeout < left ? timeout : left > TIMEOUT_MIN_MS ? left : TIMEOUT_MIN_MS };
	job.cpu_s = (uint64_t)job.timeout_ms / 1000 + 1;
	job.in = input_open(h, m, stage, w->json);
	if (job.in < 0 || !job.envp) {
		if (job.in >= 0)
			close(job.in);
		return again(w, m, "no memory for its input", STR_NULL);
	}
	int64_t began = h->now_us();
	run_command(&job, &r);
	count_add(h, w->took, NULL, h->now_us() > began ? h->now_us() - began : 0);
	close(job.in);
	int32_t rc = judge(w, m, &r);
	run_done(&r);
	return rc;
}

PEPSI_STAGE(.name = "pepsi-stage-pipe", .version = "0.1", .license = "Apache-2.0",
    .summary = "asks a command what is to become of a message", .load_class = PEPSI_LOAD_FULL, .caps = PEPSI_CAP_HELPER | PEPSI_CAP_REWRITES,
    PEPSI_OPTIONS(options), .validate = validate, .open = open_worker, .process = process, .close = close_worker);
