/* Topic dmarc-reports: aggregate reports as files, NAME.xml, .zip, .gz, and messages that carry one, NAME.eml. A report is read and compared with the
 * NAME.json beside it where there is one; else with what its text shows without a parser (records, counts) and its name says (RFC 7489 §7.2.1.1). Then
 * it is written and read again. A file NAME.json stands for the report beside it. */
#include "auth.h"
#include "vectors.h"

#include "proto/mail/split.h"
#include "proto/report/dmarc.h"
#include "proto/report/mail.h"
#include "proto/report/pack.h"

#include <stdio.h>
#include <unistd.h>

/* Files that hold no report that may be read. What is not well-formed is no XML (XML 1.0 §1.2: a fatal error, after which no processor goes on); tools
 * that mend such reports guess what was meant, and a guess would be counted like what was said. */
static const struct {
	const char *name, *why;
} refused[] = {
	{ "invalid_xml.xml", "not well-formed: a bare address in the place of an element (XML 1.0 §3.1)" },
	{ "invalid_utf_8.xml", "not well-formed: octets that are no UTF-8 (XML 1.0 §4.3.3)" },
	{ "ikea.com!example.de!1538690400!1538776800.xml", "not well-formed: xs:schema is never closed (XML 1.0 §2.1), and the root is not feedback (RFC 9990 App. A)" },
	{ "bad.com!example.com!1337140800!1337227200.xml", "not well-formed: a bare < in a domain (XML 1.0 §2.4), and no end" },
};

static const char *why_refused(const char *file)
{
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		if (!strcmp(refused[i].name, file))
			return refused[i].why;
	return NULL;
}

/* -- comparison with JSON */

static struct json_object *at(struct json_object *o, const char *key)
{
	struct json_object *m = NULL;
	return json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, key, &m) ? m : NULL;
}

static void differ(struct verdict *v, const char *what, struct str got, struct str want)
{
	buf_addf(&v->got, "%s \"", what);
	vectors_escape(got, &v->got);
	buf_addz(&v->got, "\" ");
	buf_addf(&v->expected, "%s \"", what);
	vectors_escape(want, &v->expected);
	buf_addz(&v->expected, "\" ");
}

static void text(struct verdict *v, const char *what, struct str got, struct str want)
{
	if (!str_eq(got, want))
		differ(v, what, got, want);
}

static void number(struct verdict *v, const char *what, int64_t got, int64_t want)
{
	char a[32], b[32];
	snprintf(a, sizeof a, "%lld", (long long)got);
	snprintf(b, sizeof b, "%lld", (long long)want);
	text(v, what, str_from(a), str_from(b));
}

/* "TrustedForwarder" is trusted_forwarder; "Relaxed", r; "Unspecified", nothing. Old words are what report_word() makes of them. */
static void word(struct verdict *v, const char *what, enum report_words list, struct str got, struct str want)
{
	char name[64];
	size_t n = 0;
	struct str w = STR_NULL;
	if (want.p && !str_eq(want, STR("Unspecified"))) {
		for (size_t i = 0; i < want.n && n + 2 < sizeof name; i++) {
			bool upper = want.p[i] >= 'A' && want.p[i] <= 'Z';
			if (upper && i && list == REPORT_OVERRIDES)
				name[n++] = '_';
			name[n++] = (char)(upper ? want.p[i] | 0x20 : want.p[i]);
		}
		w = report_word(list, str_n(name, list == REPORT_ALIGNMENTS && n ? 1 : n));
		if (!w.n)
			w = want; /* a word that nobody knows: shown, and never equal */
	}
	text(v, what, got, w);
}

static void compare_dkim(struct verdict *v, const struct report_row *w, struct json_object *list)
{
	size_t k = 0;
	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		if (str_eq(vectors_str(o, "result"), STR("Unspecified")))
			continue; /* a signature of which nothing is said is not kept */
		const struct report_dkim *d = k < w->n_dkim ? &w->dkim[k] : &(const struct report_dkim){ 0 };
		text(v, "dkim domain", d->domain, vectors_str(o, "domain"));
		text(v, "selector", d->selector, vectors_str(o, "selector"));
		word(v, "dkim result", REPORT_DKIM_RESULTS, d->result, vectors_str(o, "result"));
		text(v, "dkim human", d->human, vectors_str(o, "human_result"));
		k++;
	}
	number(v, "signatures", (int64_t)w->n_dkim, (int64_t)k);
}

/* Of several SPF results the first that is one counts (RFC 9990 has one). */
static void compare_spf(struct verdict *v, const struct report_row *w, struct json_object *list)
{
	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		if (str_eq(vectors_str(o, "result"), STR("Unspecified")))
			continue;
		text(v, "spf domain", w->spf_domain, vectors_str(o, "domain"));
		word(v, "spf result", REPORT_SPF_RESULTS, w->spf_result, vectors_str(o, "result"));
		text(v, "spf human", w->spf_human, vectors_str(o, "human_result"));
		number(v, "has spf", w->has_spf, 1);
		return;
	}
	number(v, "has spf", w->has_spf, 0);
}

static void compare_row(struct verdict *v, const struct report_row *w, struct json_object *o)
{
	struct json_object *row = at(o, "row"), *done = at(row, "policy_evaluated"), *ids = at(o, "identifiers"), *reasons = at(done, "reason");
	text(v, "source", w->source_ip, vectors_str(row, "source_ip"));
	number(v, "count", (int64_t)w->count, json_object_get_int64(at(row, "count")));
	word(v, "disposition", REPORT_DISPOSITIONS, w->disposition, vectors_str(done, "disposition"));
	number(v, "dkim aligned", w->dkim_pass, str_eq(vectors_str(done, "dkim"), STR("Pass")));
	number(v, "spf aligned", w->spf_pass, str_eq(vectors_str(done, "spf"), STR("Pass")));
	text(v, "from", w->header_from, vectors_str(ids, "header_from"));
	text(v, "envelope_from", w->envelope_from, vectors_str(ids, "envelope_from"));
	text(v, "envelope_to", w->envelope_to, vectors_str(ids, "envelope_to"));
	size_t n = reasons ? json_object_array_length(reasons) : 0;
	number(v, "reasons", (int64_t)w->n_reasons, n < REPORT_REASONS_MAX ? (int64_t)n : REPORT_REASONS_MAX);
	for (size_t i = 0; i < w->n_reasons && i < n; i++) {
		struct json_object *r = json_object_array_get_idx(reasons, i);
		word(v, "reason", REPORT_OVERRIDES, w->reason[i].type, vectors_str(r, "type_"));
		text(v, "comment", w->reason[i].comment, vectors_str(r, "comment"));
	}
	compare_dkim(v, w, at(at(o, "auth_results"), "dkim"));
	compare_spf(v, w, at(at(o, "auth_results"), "spf"));
}

static void compare(struct verdict *v, const struct report *r, struct json_object *o)
{
	struct json_object *meta = at(o, "report_metadata"), *range = at(meta, "date_range"), *policy = at(o, "policy_published"), *rows = at(o, "record"),
			   *errors = at(meta, "error");
	bool testing = false;
	text(v, "org", r->org, vectors_str(meta, "org_name"));
	text(v, "email", r->email, vectors_str(meta, "email"));
	text(v, "contact", r->contact, vectors_str(meta, "extra_contact_info"));
	text(v, "id", r->id, vectors_str(meta, "report_id"));
	if (at(meta, "generator"))
		text(v, "generator", r->generator, vectors_str(meta, "generator"));
	number(v, "begin", r->begin, json_object_get_int64(at(range, "begin")));
	number(v, "end", r->end, json_object_get_int64(at(range, "end")));
	text(v, "error", r->error, errors && json_object_array_length(errors) ? str_from(json_object_get_string(json_object_array_get_idx(errors, 0))) : STR_NULL);
	text(v, "domain", r->policy.domain, vectors_str(policy, "domain"));
	word(v, "p", REPORT_POLICIES, r->policy.p, vectors_str(policy, "p"));
	word(v, "sp", REPORT_POLICIES, r->policy.sp, vectors_str(policy, "sp"));
	if (at(policy, "np"))
		word(v, "np", REPORT_POLICIES, r->policy.np, vectors_str(policy, "np"));
	word(v, "adkim", REPORT_ALIGNMENTS, r->policy.adkim, vectors_str(policy, "adkim"));
	word(v, "aspf", REPORT_ALIGNMENTS, r->policy.aspf, vectors_str(policy, "aspf"));
	text(v, "fo", r->policy.fo, vectors_str(policy, "fo"));
	vectors_bool(policy, "testing", &testing);
	number(v, "testing", str_eq(r->policy.testing, STR("y")), testing);
	size_t n = rows ? json_object_array_length(rows) : 0;
	number(v, "rows", (int64_t)r->n_rows, (int64_t)n);
	for (size_t i = 0; i < r->n_rows && i < n; i++)
		compare_row(v, &r->row[i], json_object_array_get_idx(rows, i));
}

/* -- without JSON */

static size_t occurrences(struct str s, const char *z, uint64_t *ret_sum)
{
	size_t n = 0, len = strlen(z);
	for (size_t i = 0; i + len <= s.n; i++)
		if (!memcmp(s.p + i, z, len)) {
			uint64_t value = 0;
			for (size_t k = i + len; k < s.n && s.p[k] >= '0' && s.p[k] <= '9'; k++)
				value = value * 10 + (uint64_t)(s.p[k] - '0');
			n++;
			if (ret_sum)
				*ret_sum += value;
		}
	return n;
}

/* "receiver!domain!begin!end…"; other names say nothing. */
static void compare_name(struct verdict *v, const struct report *r, const char *file)
{
	struct str rest = str_from(file), part[4];
	uint64_t begin, end;
	for (int i = 0; i < 4; i++) {
		ptrdiff_t to = str_chr(rest, '!');
		if (to < 0 && i < 3)
			return;
		part[i] = to < 0 ? rest : str_n(rest.p, (size_t)to);
		rest = str_skip(rest, to < 0 ? rest.n : (size_t)to + 1);
	}
	ptrdiff_t dot = str_chr(part[3], '.');
	if (str_u64(part[2], UINT64_C(1) << 40, &begin) || str_u64(dot < 0 ? part[3] : str_n(part[3].p, (size_t)dot), UINT64_C(1) << 40, &end))
		return;
	text(v, "domain", r->policy.domain, part[1]);
	number(v, "begin", r->begin, (int64_t)begin);
	number(v, "end", r->end, (int64_t)end);
}

static void compare_text(struct verdict *v, const struct report *r, struct str xml)
{
	uint64_t said = 0, sum = 0;
	size_t records = occurrences(xml, "<record>", NULL);
	occurrences(xml, "<count>", &said);
	for (size_t i = 0; i < r->n_rows; i++)
		sum += r->row[i].count;
	number(v, "rows", (int64_t)(r->n_rows + r->rows_cut + r->rows_bad), (int64_t)records);
	number(v, "unusable rows", (int64_t)r->rows_bad, 0);
	number(v, "messages", (int64_t)sum, (int64_t)said);
	number(v, "of RFC 9990", r->rfc9990, occurrences(xml, REPORT_NAMESPACE, NULL) > 0);
}

/* What was read can be written, and is the same then. Reports without p cannot: the schema needs one. */
static void write_again(struct verdict *v, const struct report *r)
{
	struct arena *a = arena_new(REPORT_MEMORY_MAX);
	struct buf xml = BUF_INIT(REPORT_XML_MAX);
	struct report back = { 0 };
	const char *why = "it cannot be written";
	if (!r->n_rows || !r->policy.p.n)
		goto out;
	if (report_write(r, &xml) || report_read(buf_str(&xml), a, &back, &why)) {
		differ(v, "written again", str_from(why), STR("read again"));
		goto out;
	}
	text(v, "org again", back.org, r->org);
	number(v, "rows again", (int64_t)back.n_rows, (int64_t)r->n_rows);
	for (size_t i = 0; i < back.n_rows && i < r->n_rows; i++) {
		const struct report_row *x = &back.row[i], *y = &r->row[i];
		text(v, "source again", x->source_ip, y->source_ip);
		text(v, "from again", x->header_from, y->header_from);
		text(v, "disposition again", x->disposition, y->disposition);
		text(v, "spf again", x->spf_result, y->spf_result);
		number(v, "count again", (int64_t)x->count, (int64_t)y->count);
		number(v, "signatures again", (int64_t)x->n_dkim, (int64_t)y->n_dkim);
		number(v, "reasons again", (int64_t)x->n_reasons, (int64_t)y->n_reasons);
	}
out:
	arena_free(a);
	buf_free(&xml);
}

/* -- files */

/* The path with another ending, when there is such a file. */
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

/* The XML of a file of any kind. */
static int extract(struct str path, struct buf *xml, const char **ret_why)
{
	struct buf raw = BUF_INIT(16 << 20), crlf = BUF_INIT(32 << 20);
	int rc = -1;
	if (auth_read_file(path.p, &raw)) {
		*ret_why = "the file cannot be read";
	} else if (str_iends(path, STR(".eml"))) {
		struct mail_split s;
		struct report_mail_read m;
		auth_crlf(buf_str(&raw), &crlf);
		mail_split(buf_str(&crlf), &s);
		report_mail_read(s.headers, s.body, 16 << 20, &m);
		*ret_why = m.why ? m.why : "no report";
		if (m.kind == REPORT_MAIL_REPORT)
			rc = report_unpack(buf_str(&m.data), xml, ret_why);
		report_mail_done(&m);
	} else {
		rc = report_unpack(buf_str(&raw), xml, ret_why);
	}
	buf_free(&raw);
	buf_free(&crlf);
	return rc;
}

void topic_dmarc_reports(const char *file, struct json_object *one, struct verdict *v)
{
	struct str path = vectors_str(one, "path");
	struct buf other = BUF_INIT(4096), json = BUF_INIT(4096), xml = BUF_INIT(REPORT_XML_MAX);
	struct arena *a = arena_new(REPORT_MEMORY_MAX);
	struct json_object *want = NULL;
	struct report r;
	const char *why = NULL, *no = why_refused(file);
	if (str_iends(path, STR(".json")) && (beside(path, "xml", &other) || beside(path, "eml", &other)))
		path = buf_str(&other);
	if (beside(path, "json", &json))
		want = json_object_from_file(buf_z(&json));
	if (extract(path, &xml, &why) || report_read(buf_str(&xml), a, &r, &why)) {
		v->ok = no != NULL;
		v->note = no;
		buf_addz(&v->expected, "a report");
		buf_addf(&v->got, "none: %s", why);
	} else if (no) {
		buf_addz(&v->expected, no);
		buf_addz(&v->got, "a report");
	} else {
		if (want) {
			compare(v, &r, want);
		} else {
			compare_name(v, &r, file);
			compare_text(v, &r, buf_str(&xml));
		}
		write_again(v, &r);
		v->ok = !v->expected.n;
	}
	json_object_put(want);
	buf_free(&other);
	buf_free(&json);
	buf_free(&xml);
	arena_free(a);
}
