/* See measure.h. */
#include "measure.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "misuse.h"
#include "proto/wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/socket.h>

enum {
	DATAGRAM_MAX = 60 * 1024, /* the dispatcher reads 64 KiB at once */
	DATAGRAMS_MAX = 4,        /* in one go; what is left comes a second later */
};

struct measured {
	TAILQ_ENTRY(measured) link;
	struct metrics_set set;
	struct buf report;
	bool reported; /* it is to be told */
	char stage[METRICS_STAGE_MAX + 1];
};

static TAILQ_HEAD(, measured) all = TAILQ_HEAD_INITIALIZER(all);
static bool reporting;
static int64_t told_at, report_at;

_Static_assert((int)PEPSI_METRIC_COUNTER == METRICS_COUNTER && (int)PEPSI_METRIC_GAUGE == METRICS_GAUGE && (int)PEPSI_METRIC_TIMING == METRICS_TIMING,
    "the kinds of the ABI are those of proto/metrics");

static struct measured *find(const char *stage)
{
	struct measured *x;
	TAILQ_FOREACH(x, &all, link)
		if (!strcasecmp(x->stage, stage))
			return x;
	return NULL;
}

static struct measured *of(const char *stage)
{
	struct measured *x = find(stage);
	if (x || strlen(stage) > METRICS_STAGE_MAX || !(x = calloc(1, sizeof *x)))
		return x;
	snprintf(x->stage, sizeof x->stage, "%s", stage);
	x->report = BUF_INIT(WIRE_REPORT_MAX);
	TAILQ_INSERT_TAIL(&all, x, link);
	return x;
}

void measure_reports(void)
{
	reporting = true;
}

/* --- host functions */

struct pepsi_metric *host_metric(const struct pepsi_conf *conf, uint32_t type, const char *name, const char *label, const char *help)
{
	struct measured *x = of(conf->stage);
	struct str n = str_from(name), l = str_from(label), h = str_from(help);
	if (!metrics_help_ok(h)) { /* numbers without an explanation are better than none */
		misuse_say("stage", conf->stage, "metric(): the help of %.60s is longer than %d octets, or no plain ASCII without quotes and backslashes", name ? name : "",
		    METRICS_HELP_MAX);
		h = STR_NULL;
	}
	struct metrics_metric *m = x ? metrics_define(&x->set, (enum metrics_kind)type, n, l, h) : NULL;
	if (m || !x)
		return (struct pepsi_metric *)(void *)m;
	if (type < METRICS_COUNTER || type > METRICS_TIMING)
		misuse_say("stage", conf->stage, "metric(): there is no type %u", type);
	else if (!metrics_name_ok(n))
		misuse_say("stage", conf->stage, "metric(): the name \"%.60s\" is not allowed: 2 to %d of a-z and _, not ending in _total, _seconds, _bucket, _sum or _count",
		    name ? name : "", METRICS_NAME_MAX);
	else if (l.n && !metrics_label_ok(l))
		misuse_say("stage", conf->stage, "metric(): the label \"%.60s\" of %s is not allowed: up to %d of a-z and _, not stage, le, quantile, job or instance", label,
		    name, METRICS_LABEL_MAX);
	else
		misuse_say("stage", conf->stage, "metric(): %s is one too many, a stage has %d", name, METRICS_MAX);
	return NULL;
}

void host_measure(struct pepsi_metric *handle, const char *value, int64_t n)
{
	struct metrics_metric *m = (struct metrics_metric *)(void *)handle;
	if (!m) /* it was complained about when it was not defined */
		return;
	if (n < 0 && m->kind != METRICS_GAUGE)
		misuse_say("stage", "-", "measure(): %s cannot become less", m->name);
	else
		metrics_measure(m, value, n);
}

int32_t host_status_report(const struct pepsi_conf *conf, const char *json)
{
	struct measured *x = of(conf->stage);
	struct str text = str_from(json ? json : "{}");
	const char *fault = text.n > WIRE_REPORT_MAX ? "it is too long" : json_object_fault(text);
	if (fault) {
		misuse_say("stage", conf->stage, "status_report(): %s", fault);
		return PEPSI_MISUSE;
	}
	if (!x)
		return PEPSI_RETRY;
	buf_reset(&x->report);
	for (size_t i = 0; i < text.n; i++) /* between its tokens; within strings they do not stand bare */
		buf_addc(&x->report, text.p[i] == '\n' || text.p[i] == '\r' ? ' ' : text.p[i]);
	x->reported = !x->report.failed;
	return x->reported ? PEPSI_OK : PEPSI_RETRY;
}

/* --- telling */

/* One datagram. Returns whether there is more to tell. */
static bool tell_metrics(measure_send_fn fn, void *arg, struct buf *b)
{
	struct measured *x;
	bool more = false;
	buf_reset(b);
	TAILQ_FOREACH(x, &all, link)
		more |= metrics_tell(&x->set, str_from(x->stage), b, DATAGRAM_MAX - b->n);
	bool sent = b->n && !b->failed && fn(arg, buf_str(b));
	TAILQ_FOREACH(x, &all, link)
		if (x->set.changed)
			metrics_told(&x->set, sent);
	return sent && more;
}

static void tell_report(measure_send_fn fn, void *arg, struct measured *x, struct buf *b)
{
	buf_reset(b);
	if (!metrics_report_put(b, str_from(x->stage), buf_str(&x->report)) && fn(arg, buf_str(b)))
		x->reported = false;
}

void measure_tell_by(measure_send_fn fn, void *arg, bool now)
{
	int64_t at = clock_mono_us();
	struct measured *x;
	if (TAILQ_EMPTY(&all) || (!now && at - told_at < MEASURE_TELL_US))
		return;
	told_at = at;
	struct buf b = BUF_INIT(DATAGRAM_MAX);
	for (unsigned i = 0; i < DATAGRAMS_MAX && tell_metrics(fn, arg, &b); i++)
		;
	if (reporting && (now || at - report_at >= MEASURE_REPORT_US))
		TAILQ_FOREACH(x, &all, link)
			if (x->reported) {
				report_at = at;
				tell_report(fn, arg, x, &b);
			}
	buf_free(&b);
}

static bool send_all(void *arg, struct str lines)
{
	const int *fd = arg;
	return send(*fd, lines.p, lines.n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)lines.n; /* datagrams: all or nothing */
}

void measure_tell(int fd, bool now)
{
	if (fd >= 0)
		measure_tell_by(send_all, &fd, now);
}

int measure_due_ms(void)
{
	const struct measured *x;
	int64_t due = INT64_MAX, now = clock_mono_us();
	TAILQ_FOREACH(x, &all, link) {
		if (x->set.changed && told_at + MEASURE_TELL_US < due)
			due = told_at + MEASURE_TELL_US;
		int64_t report = report_at + MEASURE_REPORT_US > told_at + MEASURE_TELL_US ? report_at + MEASURE_REPORT_US : told_at + MEASURE_TELL_US;
		if (reporting && x->reported && report < due)
			due = report;
	}
	if (due == INT64_MAX)
		return -1;
	return due <= now ? 0 : (int)((due - now) / 1000) + 1;
}

const struct metrics_set *measure_set(const char *stage)
{
	const struct measured *x = find(stage);
	return x ? &x->set : NULL;
}

struct str measure_report(const char *stage)
{
	const struct measured *x = find(stage);
	return x ? buf_str(&x->report) : STR_NULL;
}

void measure_each(const char *stage, void (*fn)(const char *line))
{
	const struct measured *x = find(stage);
	struct buf text = BUF_INIT(256 * 1024);
	struct str rest, line;
	if (!x)
		return;
	struct metrics_stage s = { str_from(x->stage), &x->set };
	metrics_show(&s, 1, &text, text.max);
	rest = buf_str(&text);
	while (str_word(&rest, "\n", &line)) {
		char *z = line.p[0] != '#' ? str_dupz(line) : NULL;
		if (z)
			fn(z);
		free(z);
	}
	buf_free(&text);
	if (x->report.n)
		fn(buf_z(&x->report));
}

void measure_done(void)
{
	struct measured *x;
	while ((x = TAILQ_FIRST(&all))) {
		TAILQ_REMOVE(&all, x, link);
		metrics_set_done(&x->set);
		buf_free(&x->report);
		free(x);
	}
	reporting = false;
	told_at = report_at = 0;
}
