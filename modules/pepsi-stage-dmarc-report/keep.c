/* The statements of keep.h. The report travels as one JSON object. */
#include "keep.h"

#include <json-c/json.h>

static void text(struct json_object *o, const char *key, struct str s)
{
	if (s.n)
		json_object_object_add(o, key, json_object_new_string_len(s.p, (int)s.n));
}

static void need(struct json_object *o, const char *key, struct str s)
{
	json_object_object_add(o, key, json_object_new_string_len(s.n ? s.p : "", (int)s.n));
}

static struct json_object *row(const struct report_row *w)
{
	struct json_object *o = json_object_new_object(), *d = json_object_new_object(), *list;
	need(o, "ip", w->source_ip);
	json_object_object_add(o, "messages", json_object_new_int64((int64_t)w->count));
	need(o, "disposition", w->disposition);
	json_object_object_add(o, "dkim", json_object_new_boolean(w->dkim_pass));
	json_object_object_add(o, "spf", json_object_new_boolean(w->spf_pass));
	need(o, "header_from", w->header_from);
	text(d, "envelope_from", w->envelope_from);
	text(d, "envelope_to", w->envelope_to);
	list = json_object_new_array();
	for (size_t i = 0; i < w->n_reasons; i++) {
		struct json_object *x = json_object_new_object();
		text(x, "type", w->reason[i].type);
		text(x, "comment", w->reason[i].comment);
		json_object_array_add(list, x);
	}
	json_object_object_add(d, "reasons", list);
	list = json_object_new_array();
	for (size_t i = 0; i < w->n_dkim; i++) {
		struct json_object *x = json_object_new_object();
		text(x, "domain", w->dkim[i].domain);
		text(x, "selector", w->dkim[i].selector);
		text(x, "result", w->dkim[i].result);
		text(x, "human", w->dkim[i].human);
		json_object_array_add(list, x);
	}
	json_object_object_add(d, "dkim", list);
	if (w->has_spf) {
		struct json_object *x = json_object_new_object();
		text(x, "domain", w->spf_domain);
		text(x, "result", w->spf_result);
		text(x, "human", w->spf_human);
		json_object_object_add(d, "spf", x);
	}
	json_object_object_add(o, "detail", d);
	return o;
}

static struct json_object *whole(const struct report *r, const struct keep_terms *t)
{
	struct json_object *o = json_object_new_object(), *p = json_object_new_object(), *info = json_object_new_object(), *rows = json_object_new_array();
	need(o, "domain", r->policy.domain);
	need(o, "org", r->org);
	need(o, "report_id", r->id);
	json_object_object_add(o, "begin", json_object_new_int64(r->begin));
	json_object_object_add(o, "end", json_object_new_int64(r->end));
	need(o, "mail_domain", str_from(t->mail_domain));
	json_object_object_add(o, "verified", json_object_new_boolean(t->verified));
	json_object_object_add(o, "keep", json_object_new_int64(t->keep_s));
	json_object_object_add(o, "most", json_object_new_int64(t->most));
	text(p, "p", r->policy.p);
	text(p, "sp", r->policy.sp);
	text(p, "np", r->policy.np);
	text(p, "adkim", r->policy.adkim);
	text(p, "aspf", r->policy.aspf);
	text(p, "fo", r->policy.fo);
	text(p, "testing", r->policy.testing);
	text(p, "discovery", r->policy.discovery);
	json_object_object_add(o, "policy", p);
	text(info, "email", r->email);
	text(info, "contact", r->contact);
	text(info, "error", r->error);
	text(info, "generator", r->generator);
	json_object_object_add(info, "rfc9990", json_object_new_boolean(r->rfc9990));
	if (r->rows_cut)
		json_object_object_add(info, "rows_cut", json_object_new_int64((int64_t)r->rows_cut));
	if (r->rows_bad)
		json_object_object_add(info, "rows_bad", json_object_new_int64((int64_t)r->rows_bad));
	json_object_object_add(o, "info", info);
	for (size_t i = 0; i < r->n_rows; i++)
		json_object_array_add(rows, row(&r->row[i]));
	json_object_object_add(o, "rows", rows);
	return o;
}

enum keep keep_report(PGconn *db, const struct report *r, const struct keep_terms *t, char *word, size_t word_size, struct buf *why)
{
	struct json_object *o = whole(r, t);
	const char *value = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	enum keep k = reports_ask(db, "SELECT pepsi.dmarc_received_add($1::jsonb)", 1, &value, word, word_size, why);
	json_object_put(o);
	return k;
}

static void short_text(struct json_object *o, const char *key, struct str s)
{
	if (s.n <= 400)
		text(o, key, s);
}

enum keep keep_failure(PGconn *db, const struct arf *r, struct str domain, const struct keep_terms *t, char *word, size_t word_size, struct buf *why)
{
	struct json_object *o = json_object_new_object(), *d = json_object_new_object();
	need(o, "domain", domain);
	if (r->has_arrival && r->arrival > -INT64_C(2000000000) && r->arrival < INT64_C(253402300800)) /* years that a database knows */
		json_object_object_add(o, "arrival", json_object_new_int64(r->arrival));
	need(o, "mail_domain", str_from(t->mail_domain));
	json_object_object_add(o, "verified", json_object_new_boolean(t->verified));
	text(o, "source_ip", r->source_ip);
	need(o, "failure", r->auth_failure.n ? r->auth_failure : STR("other"));
	need(o, "result", r->delivery_result);
	json_object_object_add(o, "incidents", json_object_new_int64(r->incidents ? (int64_t)r->incidents : 1));
	json_object_object_add(o, "keep", json_object_new_int64(t->keep_s));
	json_object_object_add(o, "most", json_object_new_int64(t->most));
	short_text(d, "alignment", r->alignment);
	short_text(d, "reporting_mta", r->reporting_mta);
	short_text(d, "user_agent", r->user_agent);
	short_text(d, "header_from", r->original.from);
	short_text(d, "mail_from", str_behind(r->mail_from, '@'));
	short_text(d, "message_id", r->original.message_id);
	short_text(d, "dkim_domain", r->dkim_domain);
	short_text(d, "dkim_selector", r->dkim_selector);
	json_object_object_add(o, "detail", d);
	const char *value = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	enum keep k = reports_ask(db, "SELECT pepsi.dmarc_failure_received_add($1::jsonb)", 1, &value, word, word_size, why);
	json_object_put(o);
	return k;
}
