/* Reports made of counts. What does not fit into MAX_SIZE is left out from the end, where the rows with the fewest messages stand, and the
 * report says how much that was: never less without a word. */
#include "dmarc_build.h"

#include "base/clock.h"
#include "proto/report/mail.h"
#include "proto/report/pack.h"
#include "tool_reports.h"

#include <stdarg.h>
#include <stddef.h>
#include <time.h>

enum { HEADERS_MAX = 16 * 1024, TEXT_MAX = 2000 };

int dmarc_sender_read(struct dmarc_sender *s, const struct config *conf, bool to_send)
{
	static const char sec[] = "pepsi-dmarc";
	const char *info = config_str(conf, sec, "CONTACT_INFO");
	const struct tool_sender t = { s->host, sizeof s->host, s->org, sizeof s->org, s->contact, sizeof s->contact, s->from, sizeof s->from, s->stage, sizeof s->stage };
	*s = (struct dmarc_sender){ .max_size = (size_t)config_int(conf, sec, "MAX_SIZE"), .max_rows = config_int(conf, sec, "MAX_ROWS") };
	snprintf(s->info, sizeof s->info, "%s", info ? info : "");
	return tool_sender_read(&t, conf, sec, to_send);
}

static bool flag(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;
	return json_object_object_get_ex(o, key, &v) && json_object_get_boolean(v);
}

/* "p=none sp=none … by=treewalk" */
static void read_policy(struct str text, struct report_policy *p)
{
	static const struct {
		const char *name;
		size_t at;
	} words[] = {
		{ "p", offsetof(struct report_policy, p) }, { "sp", offsetof(struct report_policy, sp) }, { "np", offsetof(struct report_policy, np) },
		{ "adkim", offsetof(struct report_policy, adkim) }, { "aspf", offsetof(struct report_policy, aspf) }, { "fo", offsetof(struct report_policy, fo) },
		{ "t", offsetof(struct report_policy, testing) }, { "by", offsetof(struct report_policy, discovery) },
	};
	for (struct str w; str_word(&text, " ", &w);) {
		ptrdiff_t eq = str_chr(w, '=');
		for (size_t i = 0; eq > 0 && i < sizeof words / sizeof *words; i++)
			if (str_eq(str_n(w.p, (size_t)eq), str_from(words[i].name))) {
				struct str v = str_skip(w, (size_t)eq + 1);
				memcpy((char *)p + words[i].at, &v, sizeof v);
			}
	}
}

static int read_row(struct arena *a, struct json_object *o, struct report_row *w)
{
	struct json_object *data = NULL, *list = NULL, *spf = NULL;
	if (!json_object_object_get_ex(o, "data", &data))
		return -1;
	*w = (struct report_row){ .source_ip = cli_json_text(data, "ip"), .count = (uint64_t)cli_json_int(o, "messages"),
		.disposition = cli_json_text(data, "disposition"), .dkim_pass = flag(data, "dkim_aligned"), .spf_pass = flag(data, "spf_aligned"),
		.header_from = cli_json_text(data, "header_from"), .envelope_from = cli_json_text(data, "envelope_from"),
		.envelope_to = cli_json_text(data, "envelope_to") };
	if (cli_json_text(data, "reason").n) {
		w->reason[0] = (struct report_reason){ cli_json_text(data, "reason"), cli_json_text(data, "comment") };
		w->n_reasons = 1;
	}
	if (json_object_object_get_ex(data, "spf", &spf)) {
		w->has_spf = true;
		w->spf_domain = cli_json_text(spf, "domain");
		w->spf_result = cli_json_text(spf, "result");
	}
	if (json_object_object_get_ex(data, "dkim", &list) && json_object_is_type(list, json_type_array)) {
		size_t n = json_object_array_length(list);
		struct report_dkim *d = arena_calloc(a, n ? n : 1, sizeof *d);
		if (!d)
			return -1;
		for (size_t i = 0; i < n; i++) {
			struct json_object *x = json_object_array_get_idx(list, i);
			d[i] = (struct report_dkim){ cli_json_text(x, "domain"), cli_json_text(x, "selector"), cli_json_text(x, "result"), STR_NULL };
		}
		w->dkim = d;
		w->n_dkim = n;
	}
	return 0;
}

static void say(struct dmarc_built *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct dmarc_built *b, const char *fmt, ...)
{
	size_t n = strlen(b->error);
	va_list ap;
	va_start(ap, fmt);
	if (n + 2 < sizeof b->error) {
		if (n)
			b->error[n++] = ' ';
		vsnprintf(b->error + n, sizeof b->error - n, fmt, ap);
	}
	va_end(ap);
	b->report.error = str_from(b->error);
}

static int pack(struct dmarc_built *b)
{
	buf_reset(&b->xml);
	buf_reset(&b->packed);
	return report_write(&b->report, &b->xml) || report_gzip(buf_str(&b->xml), &b->packed) ? -1 : 0;
}

/* The first n rows, and what is said about the others. */
static int cut(struct dmarc_built *b, const char *before, size_t all, size_t n)
{
	int64_t left = 0;
	for (size_t i = n; i < all; i++)
		left += (int64_t)b->report.row[i].count;
	b->report.n_rows = n;
	snprintf(b->error, sizeof b->error, "%s", before);
	say(b, "%zu rows with %lld messages were left out, because the report would have been too long.", all - n, (long long)left);
	return pack(b);
}

/* As many rows as fit, to a sixteenth of them: a few rounds, whatever the size. */
static int fit(struct dmarc_built *b, size_t max)
{
	size_t all = b->report.n_rows, fits = 0, not = all;
	char before[sizeof b->error];
	snprintf(before, sizeof before, "%s", b->error);
	while (not - fits > 1 && (!fits || not - fits > all / 16)) {
		size_t n = fits + (not - fits) / 2;
		if (cut(b, before, all, n))
			return -1;
		if (dmarc_mail_size(b) > max)
			not = n;
		else
			fits = n;
	}
	b->left_out = all - fits;
	return fits ? cut(b, before, all, fits) : -1;
}

int dmarc_build(struct dmarc_built *b, const struct dmarc_sender *s, struct json_object *period, struct json_object *rows)
{
	size_t n = json_object_array_length(rows);
	int64_t overflow = cli_json_int(period, "overflow");
	*b = (struct dmarc_built){ .xml = BUF_INIT(256u << 20), .packed = BUF_INIT(256u << 20) };
	b->arena = arena_new(512u << 20);
	struct report_row *row = b->arena ? arena_calloc(b->arena, n ? n : 1, sizeof *row) : NULL;
	if (!row || tool_new_id(b->id)) {
		cli_fail("out of memory");
		return -1;
	}
	struct report *r = &b->report;
	*r = (struct report){ .org = str_from(s->org), .email = str_from(s->contact), .contact = str_from(s->info), .id = str_from(b->id),
		.generator = STR("Pepsi " PEPSI_VERSION), .begin = cli_json_int(period, "begin"), .end = cli_json_int(period, "end") - 1,
		.policy = { .domain = cli_json_text(period, "domain") }, .row = row };
	read_policy(cli_json_text(period, "policy"), &r->policy);
	for (size_t i = 0; i < n; i++)
		if (!read_row(b->arena, json_object_array_get_idx(rows, i), &row[r->n_rows]))
			r->n_rows++;
	if (overflow)
		say(b, "%lld further messages were not itemised, because there were too many different ones.", (long long)overflow);
	if (!r->n_rows) {
		cli_fail("%.*s: there is nothing to report", STR_ARG(r->policy.domain));
		return -1;
	}
	if (pack(b) || (dmarc_mail_size(b) > s->max_size && fit(b, s->max_size))) {
		cli_fail("%.*s: the report cannot be written", STR_ARG(r->policy.domain));
		return -1;
	}
	return 0;
}

void dmarc_built_done(struct dmarc_built *b)
{
	buf_free(&b->xml);
	buf_free(&b->packed);
	arena_free(b->arena);
	b->arena = NULL;
}

size_t dmarc_mail_size(const struct dmarc_built *b)
{
	return (b->packed.n + 56) / 57 * 78 + 2048;
}

static void day(int64_t at, char *out, size_t size)
{
	time_t t = (time_t)at;
	struct tm tm;
	if (!gmtime_r(&t, &tm) || !strftime(out, size, "%Y-%m-%d %H:%M", &tm))
		snprintf(out, size, "?");
}

int dmarc_mail(const struct dmarc_built *b, const struct dmarc_sender *s, const char *to, unsigned nth, struct buf *headers, struct buf *body)
{
	struct buf text = BUF_INIT(TEXT_MAX);
	char from[32], until[32];
	uint64_t messages = 0;
	*headers = BUF_INIT(HEADERS_MAX);
	*body = BUF_INIT(512u << 20);
	for (size_t i = 0; i < b->report.n_rows; i++)
		messages += b->report.row[i].count;
	day(b->report.begin, from, sizeof from);
	day(b->report.end + 1, until, sizeof until);
	buf_addf(&text, "This is a DMARC aggregate report (RFC 9990) for %.*s,\r\nmade by %s.\r\n\r\nFrom %s to %s UTC, %llu messages in %zu rows.\r\n",
	    STR_ARG(b->report.policy.domain), s->host, from, until, (unsigned long long)messages, b->report.n_rows);
	if (*b->error)
		buf_addf(&text, "%s\r\n", b->error);
	buf_addz(&text, "\r\nThe report itself is attached. It goes to the addresses that the rua tag of the\r\nDMARC policy record names.\r\n");
	const struct report_mail m = { .submitter = str_from(s->host), .domain = b->report.policy.domain, .id = str_from(b->id), .nth = nth,
		.begin = b->report.begin, .end = b->report.end, .now_us = clock_wall_us(), .from = str_from(s->from), .from_name = str_from(s->org),
		.to = str_from(to), .packed = buf_str(&b->packed), .text = buf_str(&text) };
	int rc = text.failed || report_mail_write(&m, headers, body) ? -1 : 0;
	buf_free(&text);
	if (rc)
		cli_fail("%.*s: the message to %s cannot be written", STR_ARG(b->report.policy.domain), to);
	return rc;
}
