/* TLS reports as they come: the JSON, and the message around it; see tlsrpt.h. Bounded before anything is parsed; what is not needed is not
 * kept. */
#include "proto/report/tlsrpt.h"

#include "proto/auth/dmarc.h"
#include "proto/mail/header.h"
#include "proto/report/pack.h"
#include "proto/report/parts.h"

#include <json-c/json.h>
#include <stdio.h>

struct reading {
	struct arena *a;
	struct tlsrpt *r;
	size_t failures; /* kept so far */
	bool failed;     /* memory */
};

static struct json_object *member(struct json_object *o, const char *key, enum json_type type)
{
	struct json_object *v = NULL;
	return json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, key, &v) && json_object_is_type(v, type) ? v : NULL;
}

static struct str keep(struct reading *k, struct json_object *v)
{
	if (!v || !json_object_is_type(v, json_type_string))
		return STR_NULL;
	struct str s = str_n(json_object_get_string(v), (size_t)json_object_get_string_len(v));
	s = arena_str(k->a, str_n(s.p, str_utf8_cut(s, TLSRPT_TEXT_MAX)));
	k->failed |= !s.p;
	return s;
}

static struct str text(struct reading *k, struct json_object *o, const char *key)
{
	return keep(k, member(o, key, json_type_string));
}

/* As a number, or a string of digits. */
static uint64_t count(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;
	uint64_t n = 0;
	if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &v))
		return 0;
	if (json_object_is_type(v, json_type_string))
		return str_u64(str_from(json_object_get_string(v)), TLSRPT_COUNT_MAX, &n) ? 0 : n;
	int64_t i = json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : 0;
	return i < 0 ? 0 : (uint64_t)i > TLSRPT_COUNT_MAX ? TLSRPT_COUNT_MAX : (uint64_t)i;
}

/* A list of strings, or one string. */
static const struct str *list(struct reading *k, struct json_object *o, const char *key, size_t *ret_n)
{
	struct json_object *v = NULL, *one;
	*ret_n = 0;
	if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &v))
		return NULL;
	bool array = json_object_is_type(v, json_type_array);
	size_t n = array ? json_object_array_length(v) : json_object_is_type(v, json_type_string) ? 1u : 0u, kept = 0;
	if (n > TLSRPT_STRINGS_MAX)
		n = TLSRPT_STRINGS_MAX;
	struct str *s = n ? arena_calloc(k->a, n, sizeof *s) : NULL;
	k->failed |= n && !s;
	for (size_t i = 0; s && i < n; i++) {
		one = array ? json_object_array_get_idx(v, i) : v;
		if (json_object_is_type(one, json_type_string))
			s[kept++] = keep(k, one);
	}
	*ret_n = kept;
	return s;
}

static void read_failure(struct reading *k, struct json_object *o, struct tlsrpt_failure *f)
{
	f->word = text(k, o, "result-type");
	f->result = tlsrpt_result_parse(f->word);
	f->sending_ip = text(k, o, "sending-mta-ip");
	f->receiving_ip = text(k, o, "receiving-ip");
	f->mx_host = text(k, o, "receiving-mx-hostname");
	f->mx_helo = text(k, o, "receiving-mx-helo");
	f->count = count(o, "failed-session-count");
	f->info = text(k, o, "additional-information");
	f->code = text(k, o, "failure-reason-code");
}

static void read_failures(struct reading *k, struct json_object *o, struct tlsrpt_policy *p)
{
	struct json_object *v = member(o, "failure-details", json_type_array);
	size_t n = v ? json_object_array_length(v) : 0, room = TLSRPT_FAILURES_MAX - k->failures;
	if (n > room) {
		k->r->failures_cut += n - room;
		n = room;
	}
	struct tlsrpt_failure *f = n ? arena_calloc(k->a, n, sizeof *f) : NULL;
	k->failed |= n && !f;
	for (size_t i = 0; f && i < n; i++) {
		struct json_object *one = json_object_array_get_idx(v, i);
		if (json_object_is_type(one, json_type_object))
			read_failure(k, one, &f[p->n_failures++]);
	}
	k->failures += p->n_failures;
	p->failure = f;
}

static void read_policy(struct reading *k, struct json_object *o, struct tlsrpt_policy *p)
{
	struct json_object *policy = member(o, "policy", json_type_object), *summary = member(o, "summary", json_type_object);
	p->word = text(k, policy, "policy-type");
	p->type = tlsrpt_type_parse(p->word);
	p->string = list(k, policy, "policy-string", &p->n_strings);
	p->domain = text(k, policy, "policy-domain");
	p->mx = list(k, policy, "mx-host", &p->n_mx);
	p->successes = count(summary, "total-successful-session-count");
	p->failures = count(summary, "total-failure-session-count");
	read_failures(k, o, p);
}

static const char *read_policies(struct reading *k, struct json_object *root)
{
	struct json_object *v = member(root, "policies", json_type_array);
	size_t n = v ? json_object_array_length(v) : 0, kept = 0;
	if (n > TLSRPT_POLICIES_MAX) {
		k->r->policies_cut = n - TLSRPT_POLICIES_MAX;
		n = TLSRPT_POLICIES_MAX;
	}
	struct tlsrpt_policy *p = n ? arena_calloc(k->a, n, sizeof *p) : NULL;
	k->failed |= n && !p;
	for (size_t i = 0; p && i < n; i++) {
		struct json_object *one = json_object_array_get_idx(v, i);
		if (member(one, "policy", json_type_object))
			read_policy(k, one, &p[kept++]);
	}
	k->r->policy = p;
	k->r->n_policies = kept;
	return kept ? NULL : "the report has no policies";
}

static const char *read_root(struct reading *k, struct json_object *root)
{
	struct json_object *range = member(root, "date-range", json_type_object);
	struct tlsrpt *r = k->r;
	if (!json_object_is_type(root, json_type_object))
		return "the report is no JSON object";
	r->org = text(k, root, "organization-name");
	r->contact = text(k, root, "contact-info");
	r->id = text(k, root, "report-id");
	if (!k->failed && (!r->org.n || !r->id.n))
		return "the report has no organization-name or report-id";
	if (tlsrpt_time_parse(text(k, range, "start-datetime"), &r->begin) || tlsrpt_time_parse(text(k, range, "end-datetime"), &r->end) ||
	    r->end < r->begin)
		return "the report has no period";
	return read_policies(k, root);
}

int tlsrpt_read(struct str json, struct arena *a, struct tlsrpt *ret, const char **ret_why)
{
	struct tlsrpt r = { 0 };
	struct reading k = { .a = a, .r = &r };
	const char *why = NULL;
	if (json.n > TLSRPT_JSON_MAX) {
		*ret_why = "the report is too large";
		return -1;
	}
	if (str_starts(json, str_n("\xef\xbb\xbf", 3)))
		json = str_skip(json, 3);
	struct json_tokener *tok = json_tokener_new_ex(TLSRPT_DEPTH_MAX);
	if (!tok) {
		*ret_why = "out of memory";
		return -1;
	}
	json_tokener_set_flags(tok, JSON_TOKENER_VALIDATE_UTF8);
	struct json_object *root = json_tokener_parse_ex(tok, json.p ? json.p : "", (int)json.n);
	if (!root || str_trim(str_skip(json, json_tokener_get_parse_end(tok))).n)
		why = "the report is not JSON";
	else
		why = read_root(&k, root);
	if (k.failed)
		why = "the report holds too much";
	json_object_put(root);
	json_tokener_free(tok);
	if (why) {
		*ret_why = why;
		return -1;
	}
	*ret = r;
	return 0;
}

/* -- times */

static int digits(struct str s, size_t at, size_t n, int *ret)
{
	int v = 0;
	if (at + n > s.n)
		return -1;
	for (size_t i = at; i < at + n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return -1;
		v = v * 10 + (s.p[i] - '0');
	}
	*ret = v;
	return 0;
}

/* Days from 1970-01-01, in the Gregorian calendar. */
static int64_t days(int y, int m, int d)
{
	y -= m <= 2;
	int era = y / 400, yoe = y - era * 400, doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
	return (int64_t)era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

/* "Z", "+01:00"; nothing is UTC, too: some forget it. */
static int zone(struct str s, int *ret_minutes)
{
	int h, m;
	*ret_minutes = 0;
	if (!s.n || str_ieq(s, STR("Z")))
		return 0;
	if ((s.p[0] != '+' && s.p[0] != '-') || s.n != 6 || s.p[3] != ':' || digits(s, 1, 2, &h) || digits(s, 4, 2, &m) || h > 23 || m > 59)
		return -1;
	*ret_minutes = s.p[0] == '-' ? -(h * 60 + m) : h * 60 + m;
	return 0;
}

int tlsrpt_time_parse(struct str s, int64_t *ret)
{
	static const unsigned char lengths[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int y, mo, d, h, mi, sec, offset;
	size_t at = 19;
	s = str_trim(s);
	if (s.n < 19 || digits(s, 0, 4, &y) || s.p[4] != '-' || digits(s, 5, 2, &mo) || s.p[7] != '-' || digits(s, 8, 2, &d) ||
	    !strchr("Tt ", s.p[10]) || !s.p[10] || digits(s, 11, 2, &h) || s.p[13] != ':' || digits(s, 14, 2, &mi) || s.p[16] != ':' ||
	    digits(s, 17, 2, &sec))
		return -1;
	if (y < 1970 || mo < 1 || mo > 12 || d < 1 || d > lengths[mo - 1] || h > 23 || mi > 59 || sec > 60)
		return -1;
	if (at < s.n && s.p[at] == '.')
		for (at++; at < s.n && s.p[at] >= '0' && s.p[at] <= '9';)
			at++;
	if (zone(str_skip(s, at), &offset))
		return -1;
	*ret = days(y, mo, d) * 86400 + h * 3600 + mi * 60 + sec - offset * 60;
	return 0;
}

/* -- the message */

struct look {
	struct tlsrpt_mail *m;
	bool too_large;
};

static bool is_json(struct str data)
{
	if (str_starts(data, str_n("\xef\xbb\xbf", 3)))
		data = str_skip(data, 3);
	data = str_trim(data);
	return data.n && data.p[0] == '{';
}

/* By what it is, and by what it is called only where that is the word of RFC 8460: names and types are wrong as often as not. */
static bool on_part(void *arg, const struct parts_part *p)
{
	struct look *k = arg;
	struct str type = str_from(p->type);
	bool named = str_starts(type, STR("application/tlsrpt"));
	if (!named && (str_starts(type, STR("text/")) || str_starts(type, STR("message/"))) && !str_eq(type, STR("text/json")))
		return false;
	buf_reset(&k->m->data);
	if (parts_decode(p, &k->m->data)) {
		k->too_large = true;
		return false;
	}
	struct str data = buf_str(&k->m->data);
	enum report_packing packing = report_packing(data);
	return packing == REPORT_GZIP || packing == REPORT_ZIP || is_json(data);
}

static void read_domain(struct str headers, struct str name, char *out)
{
	struct mail_field f;
	char folded[DNS_NAME_MAX + 1];
	out[0] = 0;
	if (mail_field_find(headers, name, 0, &f) == 0 && dns_name_fold(str_trim(f.value), folded) > 0)
		snprintf(out, 254, "%s", folded);
}

void tlsrpt_mail_read(struct str headers, struct str body, size_t max, struct tlsrpt_mail *ret)
{
	struct look k = { .m = ret };
	struct dmarc_author author;
	*ret = (struct tlsrpt_mail){ .data = BUF_INIT(max) };
	dmarc_author(headers, &author);
	if (author.state == DMARC_AUTHOR_OK)
		snprintf(ret->from, sizeof ret->from, "%s", author.domain[0]);
	read_domain(headers, STR("TLS-Report-Domain"), ret->domain);
	read_domain(headers, STR("TLS-Report-Submitter"), ret->submitter);
	ret->found = parts_walk(headers, body, on_part, &k);
	if (ret->found)
		return;
	ret->why = k.too_large ? "what is attached is too large" : "no report is attached";
	buf_free(&ret->data);
}

void tlsrpt_mail_done(struct tlsrpt_mail *m)
{
	buf_free(&m->data);
}

int tlsrpt_unpack(struct str data, struct buf *out, const char **ret_why)
{
	if (!is_json(data))
		return report_unpack(data, out, ret_why);
	*ret_why = "it is too large";
	return buf_adds(out, data);
}
