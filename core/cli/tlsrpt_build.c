/* TLS reports made of counts: rows of one policy together, successes and failures. */
#include "tlsrpt_build.h"

#include "base/clock.h"
#include "proto/report/mail.h"
#include "proto/report/pack.h"
#include "tool_reports.h"

enum { DAY_S = 86400, HEADERS_MAX = 16 * 1024, TEXT_MAX = 2000, ARENA_MAX = 64 << 20, REPORT_MAX = 256 << 20 };

int tlsrpt_sender_read(struct tlsrpt_sender *s, const struct config *conf, bool to_send)
{
	static const char sec[] = "pepsi-tlsrpt";
	const struct tool_sender t = { s->host, sizeof s->host, s->org, sizeof s->org, s->contact, sizeof s->contact, s->from, sizeof s->from, s->stage, sizeof s->stage };
	s->max_size = (size_t)config_int(conf, sec, "MAX_SIZE");
	s->max_rows = config_int(conf, sec, "MAX_ROWS");
	return tool_sender_read(&t, conf, sec, to_send);
}

/* A list of texts, in the arena's array. */
static const struct str *texts(struct arena *a, struct json_object *o, const char *key, size_t *ret_n)
{
	struct json_object *list = cli_json_list(o, key);
	size_t n = cli_json_length(list);
	struct str *s = arena_calloc(a, n ? n : 1, sizeof *s);
	*ret_n = s ? n : 0;
	for (size_t i = 0; s && i < n; i++) {
		struct json_object *x = json_object_array_get_idx(list, i);
		s[i] = json_object_is_type(x, json_type_string) ? str_n(json_object_get_string(x), (size_t)json_object_get_string_len(x)) : STR("");
	}
	return s;
}

static void read_failure(struct json_object *f, uint64_t sessions, struct tlsrpt_failure *ret)
{
	*ret = (struct tlsrpt_failure){ .result = tlsrpt_result_parse(cli_json_text(f, "result")), .sending_ip = cli_json_text(f, "sending_ip"),
		.receiving_ip = cli_json_text(f, "receiving_ip"), .mx_host = cli_json_text(f, "mx"), .mx_helo = cli_json_text(f, "helo"), .count = sessions,
		.code = cli_json_text(f, "code") };
	if (ret->result == TLSRPT_OTHER_RESULT) { /* no word of RFC 8460: one of ours that is newer than this program */
		ret->result = TLSRPT_VALIDATION_FAILURE;
		ret->code = cli_json_text(f, "result");
	}
}

/* Rows of one policy stand together. */
static int read_rows(struct tlsrpt_built *b, struct json_object *rows, struct str domain)
{
	size_t n = json_object_array_length(rows);
	struct tlsrpt_policy *policy = arena_calloc(b->arena, n ? n : 1, sizeof *policy), *p = NULL;
	struct tlsrpt_failure *failure = arena_calloc(b->arena, n ? n : 1, sizeof *failure);
	struct json_object *last = NULL;
	if (!policy || !failure)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct json_object *row = json_object_array_get_idx(rows, i), *o = NULL, *f = NULL;
		int64_t sessions = cli_json_int(row, "sessions");
		if (!json_object_object_get_ex(row, "policy", &o) || sessions <= 0 || tlsrpt_type_parse(cli_json_text(o, "type")) == TLSRPT_OTHER_TYPE)
			continue;
		if (!p || !json_object_equal(o, last)) {
			struct str own = cli_json_text(o, "domain");
			p = &policy[b->report.n_policies++];
			*p = (struct tlsrpt_policy){ .type = tlsrpt_type_parse(cli_json_text(o, "type")), .domain = own.n ? own : domain, .failure = failure };
			p->string = texts(b->arena, o, "strings", &p->n_strings);
			p->mx = texts(b->arena, o, "mx", &p->n_mx);
			last = o;
		}
		if (json_object_object_get_ex(row, "failure", &f) && json_object_is_type(f, json_type_object)) {
			read_failure(f, (uint64_t)sessions, failure++);
			p->n_failures++;
			p->failures += (uint64_t)sessions;
		} else {
			p->successes += (uint64_t)sessions;
		}
	}
	b->report.policy = policy;
	return 0;
}

static struct report_mail mail_of(const struct tlsrpt_built *b, const struct tlsrpt_sender *s, struct str domain)
{
	return (struct report_mail){ .submitter = str_from(s->host), .domain = domain, .id = str_from(b->id), .begin = b->report.begin, .end = b->report.end,
		.now_us = clock_wall_us(), .from = str_from(s->from), .from_name = str_from(s->org), .packed = buf_str(&b->packed), .tls = true };
}

int tlsrpt_build(struct tlsrpt_built *b, const struct tlsrpt_sender *s, struct json_object *o, struct json_object *rows, const char *id)
{
	struct str domain = cli_json_text(o, "domain");
	struct buf full = BUF_INIT(sizeof b->full_id - 1);
	*b = (struct tlsrpt_built){ .json = BUF_INIT(REPORT_MAX), .packed = BUF_INIT(REPORT_MAX), .arena = arena_new(ARENA_MAX) };
	snprintf(b->id, sizeof b->id, "%s", id);
	b->report = (struct tlsrpt){ .org = str_from(s->org), .contact = str_from(s->contact), .begin = cli_json_int(o, "begin"),
		.end = cli_json_int(o, "begin") + DAY_S - 1 };
	const struct report_mail m = mail_of(b, s, domain);
	int rc = !b->arena || report_mail_id(&m, &full) || read_rows(b, rows, domain) ? -1 : 0;
	if (!rc) {
		snprintf(b->full_id, sizeof b->full_id, "%s", buf_z(&full));
		b->report.id = str_from(b->full_id);
		rc = tlsrpt_write(&b->report, &b->json) || report_gzip(buf_str(&b->json), &b->packed) ? -1 : 0;
	}
	buf_free(&full);
	if (rc)
		cli_fail("%.*s: the report cannot be written", STR_ARG(domain));
	return rc;
}

void tlsrpt_built_done(struct tlsrpt_built *b)
{
	buf_free(&b->json);
	buf_free(&b->packed);
	arena_free(b->arena);
	b->arena = NULL;
}

int tlsrpt_mail(const struct tlsrpt_built *b, const struct tlsrpt_sender *s, struct str domain, const char *to, unsigned nth, struct buf *headers, struct buf *body)
{
	struct buf text = BUF_INIT(TEXT_MAX);
	uint64_t good = 0, bad = 0;
	char day[16];
	*headers = BUF_INIT(HEADERS_MAX);
	*body = BUF_INIT(512u << 20);
	for (size_t i = 0; i < b->report.n_policies; i++) {
		good += b->report.policy[i].successes;
		bad += b->report.policy[i].failures;
	}
	cli_time(day, sizeof day, b->report.begin, false);
	buf_addf(&text, "This is a TLS report (RFC 8460) for %.*s,\r\nmade by %s.\r\n\r\n%s (UTC): %llu sessions with TLS, %llu that failed.\r\n\r\n"
	    "The report itself is attached. It goes to the addresses that the record\r\n_smtp._tls.%.*s names.\r\n", STR_ARG(domain), s->host, day,
	    (unsigned long long)good, (unsigned long long)bad, STR_ARG(domain));
	struct report_mail m = mail_of(b, s, domain);
	m.nth = nth;
	m.to = str_from(to);
	m.text = buf_str(&text);
	int rc = text.failed || report_mail_write(&m, headers, body) ? -1 : 0;
	buf_free(&text);
	if (rc)
		cli_fail("%.*s: the message to %s cannot be written", STR_ARG(domain), to);
	return rc;
}
