/* Topic tlsrpt (RFC 8460): {"record", "valid", "rua"}; reports, NAME.json, and messages that carry one, NAME.eml. A report is read, compared with
 * what the file says (of a message: the NAME.json beside it, where there is one), written, and read again. */
#include "vectors.h"

#include "proto/mail/split.h"
#include "proto/report/tlsrpt.h"

#include <stdio.h>

static void judge_record(struct json_object *one, struct verdict *v)
{
	struct tlsrpt_record r = { 0 };
	struct json_object *rua;
	const char *why = NULL;
	bool valid = false, ok = tlsrpt_record_parse(vectors_str(one, "record"), &r, &why) == 0;
	vectors_bool(one, "valid", &valid);
	buf_addz(&v->expected, valid ? "valid" : "invalid");
	buf_addf(&v->got, "%s %s", ok ? "valid" : "invalid", why && !ok ? why : "");
	v->ok = ok == valid;
	if (!v->ok || !ok || !json_object_object_get_ex(one, "rua", &rua))
		return;
	v->ok = json_object_array_length(rua) == r.n + r.cut;
	for (size_t i = 0; v->ok && i < r.n; i++) {
		struct json_object *uri = json_object_array_get_idx(rua, i);
		v->ok = str_eq(r.uri[i], str_n(json_object_get_string(uri), (size_t)json_object_get_string_len(uri)));
		buf_addf(&v->got, " %.*s", STR_ARG(r.uri[i]));
	}
}

/* -- reports, compared with plain JSON */

static struct json_object *at(struct json_object *o, const char *key)
{
	struct json_object *m = NULL;
	return json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, key, &m) ? m : NULL;
}

static bool differs(struct verdict *v, const char *what, struct str got, struct str want)
{
	if (str_eq(got, want))
		return false;
	buf_addf(&v->got, "%s \"%.*s\"", what, STR_ARG(got));
	buf_addf(&v->expected, "%s \"%.*s\"", what, STR_ARG(want));
	return true;
}

static bool differs_n(struct verdict *v, const char *what, uint64_t got, uint64_t want)
{
	if (got == want)
		return false;
	buf_addf(&v->got, "%s %llu", what, (unsigned long long)got);
	buf_addf(&v->expected, "%s %llu", what, (unsigned long long)want);
	return true;
}

static uint64_t number(struct json_object *o, const char *key)
{
	struct json_object *n = at(o, key);
	return n ? (uint64_t)json_object_get_int64(n) : 0;
}

static bool differs_list(struct verdict *v, const char *what, const struct str *s, size_t n, struct json_object *want)
{
	bool array = json_object_is_type(want, json_type_array);
	if (differs_n(v, what, n, array ? json_object_array_length(want) : want ? 1 : 0))
		return true;
	for (size_t i = 0; i < n; i++)
		if (differs(v, what, s[i], str_from(json_object_get_string(array ? json_object_array_get_idx(want, i) : want))))
			return true;
	return false;
}

static bool differs_failure(struct verdict *v, const struct tlsrpt_failure *f, struct json_object *want)
{
	return differs(v, "result-type", f->result == TLSRPT_OTHER_RESULT ? f->word : str_from(tlsrpt_result_name(f->result)),
		   vectors_str(want, "result-type")) ||
	    differs(v, "sending-mta-ip", f->sending_ip, vectors_str(want, "sending-mta-ip")) ||
	    differs(v, "receiving-ip", f->receiving_ip, vectors_str(want, "receiving-ip")) ||
	    differs(v, "receiving-mx-hostname", f->mx_host, vectors_str(want, "receiving-mx-hostname")) ||
	    differs(v, "receiving-mx-helo", f->mx_helo, vectors_str(want, "receiving-mx-helo")) ||
	    differs_n(v, "failed-session-count", f->count, number(want, "failed-session-count")) ||
	    differs(v, "failure-reason-code", f->code, vectors_str(want, "failure-reason-code")) ||
	    differs(v, "additional-information", f->info, vectors_str(want, "additional-information"));
}

static bool differs_policy(struct verdict *v, const struct tlsrpt_policy *p, struct json_object *want)
{
	struct json_object *policy = at(want, "policy"), *failures = at(want, "failure-details"), *summary = at(want, "summary");
	if (differs(v, "policy-type", p->type == TLSRPT_OTHER_TYPE ? p->word : str_from(tlsrpt_type_name(p->type)), vectors_str(policy, "policy-type")) ||
	    differs(v, "policy-domain", p->domain, vectors_str(policy, "policy-domain")) ||
	    differs_list(v, "policy-string", p->string, p->n_strings, at(policy, "policy-string")) ||
	    differs_list(v, "mx-host", p->mx, p->n_mx, at(policy, "mx-host")) ||
	    differs_n(v, "successes", p->successes, number(summary, "total-successful-session-count")) ||
	    differs_n(v, "failures", p->failures, number(summary, "total-failure-session-count")) ||
	    differs_n(v, "failure-details", p->n_failures, failures ? json_object_array_length(failures) : 0))
		return true;
	for (size_t i = 0; i < p->n_failures; i++)
		if (differs_failure(v, &p->failure[i], json_object_array_get_idx(failures, i)))
			return true;
	return false;
}

static bool differs_report(struct verdict *v, const struct tlsrpt *r, struct json_object *want)
{
	struct json_object *policies = at(want, "policies"), *range = at(want, "date-range");
	int64_t begin = -1, end = -1;
	tlsrpt_time_parse(vectors_str(range, "start-datetime"), &begin);
	tlsrpt_time_parse(vectors_str(range, "end-datetime"), &end);
	if (differs(v, "organization-name", r->org, vectors_str(want, "organization-name")) ||
	    differs(v, "contact-info", r->contact, vectors_str(want, "contact-info")) ||
	    differs(v, "report-id", r->id, vectors_str(want, "report-id")) || differs_n(v, "begin", (uint64_t)r->begin, (uint64_t)begin) ||
	    differs_n(v, "end", (uint64_t)r->end, (uint64_t)end) ||
	    differs_n(v, "policies", r->n_policies, policies ? json_object_array_length(policies) : 0))
		return true;
	for (size_t i = 0; i < r->n_policies; i++)
		if (differs_policy(v, &r->policy[i], json_object_array_get_idx(policies, i)))
			return true;
	return false;
}

/* A report that we would write: all that we have words for. */
static bool ours(const struct tlsrpt *r)
{
	for (size_t i = 0; i < r->n_policies; i++) {
		if (r->policy[i].type == TLSRPT_OTHER_TYPE || !r->policy[i].domain.n)
			return false;
		for (size_t k = 0; k < r->policy[i].n_failures; k++)
			if (r->policy[i].failure[k].result == TLSRPT_OTHER_RESULT)
				return false;
	}
	return r->contact.n > 0;
}

static void judge_report(struct str json, struct json_object *want, struct verdict *v)
{
	struct arena *a = arena_new(TLSRPT_MEMORY_MAX);
	struct buf again = BUF_INIT(TLSRPT_JSON_MAX);
	struct tlsrpt r, back;
	const char *why = NULL;
	if (tlsrpt_read(json, a, &r, &why)) {
		buf_addf(&v->got, "not read: %s", why);
	} else if (!want || !differs_report(v, &r, want)) {
		v->ok = true;
		if (ours(&r)) {
			/* the same members as the sample has */
			if (tlsrpt_write(&r, &again) || tlsrpt_read(buf_str(&again), a, &back, &why)) {
				buf_addf(&v->got, "not written and read again: %s", why ? why : "");
				v->ok = false;
			} else if (want) {
				v->ok = !differs_report(v, &back, want);
			}
		}
	}
	buf_free(&again);
	arena_free(a);
}

static bool whole(const char *path, bool crlf, struct buf *out)
{
	FILE *f = fopen(path, "re");
	int c, last = 0;
	if (!f)
		return false;
	for (; (c = getc(f)) != EOF; last = c) {
		if (crlf && c == '\n' && last != '\r')
			buf_addc(out, '\r');
		buf_addc(out, (char)c);
	}
	fclose(f);
	return !out->failed;
}

static void judge_mail(const char *path, struct verdict *v)
{
	struct buf raw = BUF_INIT(16 << 20), json = BUF_INIT(TLSRPT_JSON_MAX), name = BUF_INIT(4096);
	struct mail_split s;
	struct tlsrpt_mail m = { .data = BUF_INIT(0) };
	const char *why = NULL;
	buf_addf(&name, "%.*s.json", (int)strlen(path) - 4, path);
	struct json_object *want = json_object_from_file(buf_z(&name));
	if (!whole(path, true, &raw)) {
		buf_addz(&v->got, "cannot be opened");
	} else {
		mail_split(buf_str(&raw), &s);
		tlsrpt_mail_read(s.headers, s.body, 1 << 20, &m);
		if (!m.found || tlsrpt_unpack(buf_str(&m.data), &json, &why))
			buf_addf(&v->got, "no report: %s", m.found ? why : m.why);
		else
			judge_report(buf_str(&json), want, v);
	}
	if (v->ok && (!*m.domain || !*m.submitter)) {
		v->ok = false;
		buf_addz(&v->got, "no TLS-Report-Domain or TLS-Report-Submitter");
	}
	tlsrpt_mail_done(&m);
	json_object_put(want);
	buf_free(&raw);
	buf_free(&json);
	buf_free(&name);
}

void topic_tlsrpt(const char *file, struct json_object *one, struct verdict *v)
{
	struct str path = vectors_str(one, "path");
	(void)file;
	if (!path.p) {
		judge_record(one, v);
	} else if (str_iends(path, STR(".eml"))) {
		judge_mail(path.p, v);
	} else {
		struct buf json = BUF_INIT(TLSRPT_JSON_MAX);
		struct json_object *want = json_object_from_file(path.p);
		if (want && whole(path.p, false, &json))
			judge_report(buf_str(&json), want, v);
		json_object_put(want);
		buf_free(&json);
	}
}
