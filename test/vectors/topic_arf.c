/* Topic arf: messages that are feedback reports (RFC 5965, 6591), NAME.eml: compared with the NAME.json beside it where there is one, else with what
 * the text of the machine-readable part shows without a parser. A file NAME.json stands for the message beside it. No report may be taken for a bounce. */
#include "auth.h"
#include "vectors.h"

#include "proto/mail/split.h"
#include "proto/report/arf.h"
#include "proto/report/mail.h"

#include <stdio.h>
#include <unistd.h>

/* Messages of the suites that are no feedback reports. */
static const struct {
	const char *name, *why;
} refused[] = {
	{ "exim_plain_text_only_no_arf_part.eml", "text for people only: RFC 5965 §2 wants a message/feedback-report part" },
	{ "arf-26.eml", "a list's member who wants to leave, not a report (RFC 5965 §2): no part, no reported message" },
};

static const char *why_refused(const char *file)
{
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		if (!strcmp(refused[i].name, file))
			return refused[i].why;
	return NULL;
}

static struct json_object *at(struct json_object *o, const char *key)
{
	struct json_object *m = NULL;
	return json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, key, &m) ? m : NULL;
}

/* Runs of blanks and line ends are one blank: a fold may stand in the suite's text. Octets outside of it are as they are. */
static void squeeze(struct str s, struct buf *out)
{
	buf_reset(out);
	for (struct str w; str_word(&s, " \t\r\n", &w);) {
		buf_addz(out, out->n ? " " : "");
		buf_adds(out, w);
	}
}

static void text(struct verdict *v, const char *what, struct str got, struct str want)
{
	struct buf a = BUF_INIT(1 << 20), b = BUF_INIT(1 << 20);
	squeeze(got, &a);
	squeeze(want, &b);
	if (!str_eq(buf_str(&a), buf_str(&b))) {
		buf_addf(&v->got, "%s \"", what);
		vectors_escape(buf_str(&a), &v->got);
		buf_addz(&v->got, "\" ");
		buf_addf(&v->expected, "%s \"", what);
		vectors_escape(buf_str(&b), &v->expected);
		buf_addz(&v->expected, "\" ");
	}
	buf_free(&a);
	buf_free(&b);
}

static void number(struct verdict *v, const char *what, int64_t got, int64_t want)
{
	char a[32], b[32];
	snprintf(a, sizeof a, "%lld", (long long)got);
	snprintf(b, sizeof b, "%lld", (long long)want);
	text(v, what, str_from(a), str_from(b));
}

/* "BodyHash" is bodyhash, "AuthFailure" auth-failure: letters only, without case. "Unspecified" is nothing. */
static void word(struct verdict *v, const char *what, struct str got, struct str want)
{
	char a[64], b[64];
	size_t n = 0, m = 0;
	want = str_eq(want, STR("Unspecified")) ? STR_NULL : want;
	for (size_t i = 0; i < got.n && n < sizeof a; i++)
		if ((got.p[i] | 0x20) >= 'a' && (got.p[i] | 0x20) <= 'z')
			a[n++] = (char)(got.p[i] | 0x20);
	for (size_t i = 0; i < want.n && m < sizeof b; i++)
		if ((want.p[i] | 0x20) >= 'a' && (want.p[i] | 0x20) <= 'z')
			b[m++] = (char)(want.p[i] | 0x20);
	text(v, what, str_n(a, n), str_n(b, m));
}

static struct str bare(struct str path)
{
	return path.n > 1 && path.p[0] == '<' && path.p[path.n - 1] == '>' ? str_n(path.p + 1, path.n - 2) : path;
}

static void list(struct verdict *v, const char *what, const struct arf_list *got, struct json_object *want)
{
	size_t n = json_object_is_type(want, json_type_array) ? json_object_array_length(want) : 0;
	number(v, what, (int64_t)(got->n + got->cut), (int64_t)n);
	for (size_t i = 0; i < got->n && i < n; i++)
		text(v, what, got->item[i], str_from(json_object_get_string(json_object_array_get_idx(want, i))));
}

static void compare(struct verdict *v, const struct arf *r, struct json_object *o)
{
	struct str version = r->version;
	char major[32];
	snprintf(major, sizeof major, "%lld", (long long)json_object_get_int64(at(o, "version")));
	word(v, "type", str_from(arf_kind_name(r->kind)), vectors_str(o, "feedback_type"));
	text(v, "user agent", r->user_agent, vectors_str(o, "user_agent"));
	text(v, "version", str_n(version.p, version.n < strlen(major) ? version.n : strlen(major)), str_from(major));
	number(v, "arrival", r->has_arrival ? r->arrival : -1, at(o, "arrival_date") ? json_object_get_int64(at(o, "arrival_date")) : -1);
	number(v, "incidents", (int64_t)r->incidents, json_object_get_int64(at(o, "incidents")));
	text(v, "envelope id", r->envelope_id, vectors_str(o, "original_envelope_id"));
	text(v, "mail from", r->mail_from, bare(vectors_str(o, "original_mail_from")));
	text(v, "rcpt to", r->rcpt_to.n ? r->rcpt_to.item[0] : STR_NULL, bare(vectors_str(o, "original_rcpt_to")));
	text(v, "mta", r->reporting_mta, vectors_str(o, "reporting_mta"));
	text(v, "source", r->source_ip, vectors_str(o, "source_ip"));
	number(v, "port", r->source_port, json_object_get_int64(at(o, "source_port")));
	list(v, "domains", &r->domain, at(o, "reported_domain"));
	list(v, "uris", &r->uri, at(o, "reported_uri"));
	list(v, "results", &r->auth_results, at(o, "authentication_results"));
	word(v, "failure", r->auth_failure, vectors_str(o, "auth_failure"));
	word(v, "delivery", r->delivery_result, vectors_str(o, "delivery_result"));
	word(v, "alignment", r->alignment, vectors_str(o, "identity_alignment"));
	text(v, "dkim domain", r->dkim_domain, vectors_str(o, "dkim_domain"));
	text(v, "dkim identity", r->dkim_identity, vectors_str(o, "dkim_identity"));
	text(v, "dkim selector", r->dkim_selector, vectors_str(o, "dkim_selector"));
	text(v, "dkim selector dns", r->dkim_selector_dns, vectors_str(o, "dkim_selector_dns"));
	text(v, "dkim adsp dns", r->dkim_adsp_dns, vectors_str(o, "dkim_adsp_dns"));
	text(v, "spf dns", r->spf_dns, vectors_str(o, "spf_dns"));
	/* the suite keeps a header block where nothing but that was sent */
	if (vectors_str(o, "headers").p)
		text(v, "headers", r->original.headers, vectors_str(o, "headers"));
}

/* The value of the first line that begins so, behind the part's type. */
static struct str line_of(struct str message, const char *name)
{
	static const char part[] = "message/feedback-report";
	bool inside = false;
	struct str line;
	while (str_word(&message, "\r\n", &line)) {
		for (size_t i = 0; !inside && i + sizeof part - 1 <= line.n && str_istarts(line, STR("Content-Type:")); i++)
			inside = str_istarts(str_skip(line, i), STR("message/feedback-report"));
		if (inside && str_istarts(line, str_from(name)))
			return str_trim(str_skip(line, strlen(name)));
	}
	return STR_NULL;
}

static bool holds(struct str s, const char *z)
{
	size_t n = strlen(z);
	for (size_t i = 0; i + n <= s.n; i++)
		if (str_ieq(str_n(s.p + i, n), str_from(z)))
			return true;
	return false;
}

static void compare_text(struct verdict *v, const struct arf *r, struct str message)
{
	if (r->loose) { /* Outlook.com's have no such part */
		text(v, "type", r->type, STR("abuse"));
		number(v, "has a source", r->source_ip.n > 0, 1);
		number(v, "has a recipient", (int64_t)r->rcpt_to.n, 1);
	} else {
		word(v, "type", r->type, line_of(message, "Feedback-Type:"));
		text(v, "user agent", r->user_agent, line_of(message, "User-Agent:"));
		text(v, "source", r->source_ip, line_of(message, "Source-IP:"));
		text(v, "mail from", r->mail_from, bare(line_of(message, "Original-Mail-From:")));
		text(v, "domain", r->domain.n ? r->domain.item[0] : STR_NULL, line_of(message, "Reported-Domain:"));
		word(v, "failure", r->auth_failure, line_of(message, "Auth-Failure:"));
		number(v, "has a date", r->has_arrival, line_of(message, "Arrival-Date:").n || line_of(message, "Received-Date:").n);
	}
	if (holds(message, "Content-Type: message/rfc822") || holds(message, "Content-Type: text/rfc822-header"))
		number(v, "has an original", r->original.there, 1);
}

static bool beside(struct str path, const char *ending, struct buf *out)
{
	size_t dot = path.n;
	while (dot && path.p[dot - 1] != '.')
		dot--;
	buf_reset(out);
	buf_adds(out, str_n(path.p, dot));
	buf_addz(out, ending);
	return !out->failed && access(buf_z(out), R_OK) == 0;
}

void topic_arf(const char *file, struct json_object *one, struct verdict *v)
{
	struct str path = vectors_str(one, "path");
	struct buf other = BUF_INIT(4096), json = BUF_INIT(4096), raw = BUF_INIT(16 << 20), message = BUF_INIT(32 << 20);
	struct arena *a = arena_new(ARF_MEMORY_MAX);
	struct json_object *want = NULL;
	struct report_mail_read m;
	struct mail_split s;
	struct arf r;
	const char *why = NULL, *no = why_refused(file);
	if (str_iends(path, STR(".json")) && beside(path, "eml", &other))
		path = buf_str(&other);
	if (beside(path, "json", &json))
		want = json_object_from_file(buf_z(&json));
	if (auth_read_file(path.p, &raw))
		buf_addz(&v->expected, "a file");
	auth_crlf(buf_str(&raw), &message);
	mail_split(buf_str(&message), &s);
	if (arf_read(s.headers, s.body, a, &r, &why)) {
		if (!no && !want && !holds(buf_str(&message), "message/feedback-report"))
			no = "there is no message/feedback-report in it (RFC 5965 §2)";
		v->ok = no != NULL;
		v->note = no;
		buf_addz(&v->expected, "a feedback report");
		buf_addf(&v->got, "none: %s", why);
	} else if (no) {
		buf_addz(&v->expected, no);
		buf_addz(&v->got, "a feedback report");
	} else {
		if (want)
			compare(v, &r, want);
		else
			compare_text(v, &r, buf_str(&message));
		v->ok = !v->expected.n;
	}
	report_mail_read(s.headers, s.body, 16 << 20, &m);
	if (m.kind == REPORT_MAIL_FAILED) {
		v->ok = false;
		buf_addz(&v->expected, " no bounce");
		buf_addz(&v->got, " a bounce");
	}
	report_mail_done(&m);
	json_object_put(want);
	buf_free(&other);
	buf_free(&json);
	buf_free(&raw);
	buf_free(&message);
	arena_free(a);
}
