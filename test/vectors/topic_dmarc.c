/* Topic dmarc: records, alignment, the author's domain, and whole evaluations over small zones, as RFC 9989 has them. A case's
 * expectations are a list of {path, op, value} over an object of results, which is built here out of ours. */
#include "vectors.h"

#include "proto/auth/dmarc.h"
#include "proto/mail/addrlist.h"

#include <arpa/inet.h>
#include <stdio.h>

/* -- zones */

static enum dns_status error_status(struct str code)
{
	if (str_eq(code, STR("ENODATA")))
		return DNS_NODATA;
	return str_eq(code, STR("ENOTFOUND")) || str_eq(code, STR("NXDOMAIN")) ? DNS_NXDOMAIN : DNS_TEMPFAIL;
}

static struct dns_answer *answer_txt(struct str name, struct json_object *list)
{
	struct dns_rr rr[16] = { 0 };
	struct buf joined[16];
	size_t n = json_object_array_length(list);
	n = n > 16 ? 16 : n;
	for (size_t i = 0; i < n; i++) {
		struct json_object *strings = json_object_array_get_idx(list, i);
		joined[i] = BUF_INIT(1 << 16);
		for (size_t k = 0; k < json_object_array_length(strings); k++)
			buf_addz(&joined[i], json_object_get_string(json_object_array_get_idx(strings, k)));
		rr[i].data = buf_str(&joined[i]);
	}
	struct dns_answer *a = dns_answer_new(name, DNS_TXT, n ? DNS_OK : DNS_NODATA, rr, n, 60, false);
	for (size_t i = 0; i < n; i++)
		buf_free(&joined[i]);
	return a;
}

static struct dns_answer *answer(struct json_object *zone, struct str name, enum dns_type type)
{
	json_object_object_foreach(zone, key, node) {
		struct json_object *error, *list;
		unsigned char ip[16];
		if (!str_ieq(str_from(key), name))
			continue;
		if (json_object_object_get_ex(node, "error", &error))
			return dns_answer_new(name, type, error_status(str_from(json_object_get_string(error))), NULL, 0, 60, false);
		if (!json_object_object_get_ex(node, dns_type_name(type), &list) || !json_object_array_length(list))
			return dns_answer_new(name, type, DNS_NODATA, NULL, 0, 60, false);
		if (type == DNS_TXT)
			return answer_txt(name, list);
		if (inet_pton(type == DNS_A ? AF_INET : AF_INET6, json_object_get_string(json_object_array_get_idx(list, 0)), ip) == 1) {
			struct dns_rr rr = { .data = str_n((const char *)ip, type == DNS_A ? 4 : 16) };
			return dns_answer_new(name, type, DNS_OK, &rr, 1, 60, false);
		}
	}
	return dns_answer_new(name, type, DNS_NXDOMAIN, NULL, 0, 60, false);
}

/* Runs it to its end. False: it asked for nothing new. */
static bool run(dns_evaluate_fn fn, void *arg, struct json_object *zone, struct dns_answers *set)
{
	struct str name;
	enum dns_type type;
	while (fn(arg, set) == DNS_MORE) {
		if (!dns_answers_n_missing(set))
			return false;
		while (dns_answers_missing(set, 0, &name, &type))
			if (dns_answers_put(set, answer(zone, name, type)))
				return false;
	}
	return true;
}

/* -- results as the suites' objects */

static void add_str(struct json_object *o, const char *key, struct str s)
{
	json_object_object_add(o, key, json_object_new_string_len(s.p, (int)s.n));
}

static void add_z(struct json_object *o, const char *key, const char *z)
{
	add_str(o, key, str_from(z));
}

/* The tags as they were written, blanks around them taken off. */
static void add_tags(struct json_object *o, const struct dmarc_record *r, bool historic)
{
	struct str rest = r->text, tag;
	while (str_word(&rest, ";", &tag)) {
		ptrdiff_t eq = str_chr(tag, '=');
		char name[16];
		struct str n = str_trim(str_n(tag.p, eq < 0 ? 0 : (size_t)eq)), value = str_trim(str_skip(tag, (size_t)(eq + 1)));
		if (!n.n || n.n >= sizeof name)
			continue;
		for (size_t i = 0; i <= n.n; i++)
			name[i] = i == n.n ? 0 : (char)(n.p[i] | 0x20);
		if (!strcmp(name, "pct") || !strcmp(name, "ri"))
			continue;
		add_str(o, name, value);
	}
	if (historic && (r->seen & DMARC_FAULT(DMARC_TAG_PCT)))
		json_object_object_add(o, "pct", json_object_new_int((int)r->pct));
	if (historic && (r->seen & DMARC_FAULT(DMARC_TAG_RI)))
		json_object_object_add(o, "ri", json_object_new_int64(r->ri));
	add_str(o, "rr", r->text);
}

static struct json_object *queries_of(const struct dmarc_walk *w)
{
	struct json_object *list = json_object_new_array();
	char name[DNS_NAME_MAX + 16];
	for (size_t i = 0; i < w->n_queries; i++) {
		snprintf(name, sizeof name, "_dmarc.%s", w->queries[i]);
		json_object_array_add(list, json_object_new_string(name));
	}
	return list;
}

static void add_alignment(struct json_object *o, const char *key, const struct dmarc_check *c, bool spf, bool strict)
{
	struct json_object *one = json_object_new_object();
	json_object_object_add(one, "strict", json_object_new_boolean(strict));
	for (size_t i = 0; i < c->n_ids; i++)
		if (c->id[i].spf == spf && c->id[i].aligned) {
			add_str(one, "result", c->id[i].domain);
			break;
		}
	json_object_object_add(o, key, one);
}

static struct json_object *object_of(const struct dmarc_check *c)
{
	struct json_object *o = json_object_new_object(), *status = json_object_new_object(), *header = json_object_new_object(),
			   *alignment = json_object_new_object();
	const struct dmarc_walk *w = &c->walk;
	add_z(status, "result", dmarc_result_name(c->result));
	add_z(header, "from", w->start);
	add_z(header, "d", w->org);
	json_object_object_add(status, "header", header);
	json_object_object_add(o, "status", status);
	add_z(o, "domain", w->org);
	json_object_object_add(o, "dmarc_queries", queries_of(w));
	if (w->policy_domain[0]) {
		add_tags(o, &w->record, false);
		if (w->record.usable) /* the policy applied: none where the owner is testing (RFC 9989 §4.7) */
			add_z(o, "policy", dmarc_policy_name(w->record.t ? DMARC_NONE : c->policy));
	}
	add_alignment(alignment, "dkim", c, false, w->record.adkim_strict);
	add_alignment(alignment, "spf", c, true, w->record.aspf_strict);
	json_object_object_add(o, "alignment", alignment);
	return o;
}

/* -- expectations */

/* Paths that are the upstream library's own, not DMARC's. */
static bool foreign(struct str path)
{
	static const char *const paths[] = { "error", "status.comment", "alignment.dkim.underSized", "alignment.spf.underSized", "false" };
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		if (str_eq(path, str_from(paths[i])))
			return true;
	return false;
}

static struct json_object *at_path(struct json_object *o, struct str path)
{
	struct str key;
	char z[64];
	while (o && str_word(&path, ".", &key)) {
		snprintf(z, sizeof z, "%.*s", STR_ARG(key));
		if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, z, &o))
			return NULL;
	}
	return o;
}

static bool truthy(struct json_object *o)
{
	return o && (!json_object_is_type(o, json_type_string) || json_object_get_string_len(o)) &&
	    (!json_object_is_type(o, json_type_boolean) || json_object_get_boolean(o));
}

static bool holds(struct json_object *o, struct str op, struct json_object *value)
{
	if (str_istarts(op, STR("not ")))
		return !holds(o, str_skip(op, 4), value);
	if (str_eq(op, STR("equal")))
		return o ? json_object_equal(o, value) : !value;
	if (str_eq(op, STR("contain")) || str_eq(op, STR("include")))
		return o && value && strstr(json_object_get_string(o), json_object_get_string(value));
	if (str_eq(op, STR("true")) || str_eq(op, STR("ok")) || str_eq(op, STR("exist")))
		return truthy(o);
	if (str_eq(op, STR("false")))
		return !truthy(o);
	if (str_eq(op, STR("undefined")) || str_eq(op, STR("null")))
		return !o;
	if (str_eq(op, STR("property")))
		return o && json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, json_object_get_string(value), NULL);
	if (str_eq(op, STR("type")))
		return str_eq(str_from(json_object_get_string(value)), str_from(o ? json_type_to_name(json_object_get_type(o)) : "undefined"));
	return false;
}

static void judge(struct json_object *one, struct json_object *result, const struct dmarc_record *r, struct verdict *v)
{
	struct json_object *list, *value;
	v->ok = json_object_object_get_ex(one, "expect", &list);
	for (size_t i = 0; v->ok && i < json_object_array_length(list); i++) {
		struct json_object *e = json_object_array_get_idx(list, i);
		struct str path = vectors_str(e, "path"), op = vectors_str(e, "op");
		struct json_object *got = at_path(result, path);
		if (foreign(path))
			continue;
		json_object_object_get_ex(e, "value", &value) ? (void)0 : (void)(value = NULL);
		if (holds(got, op, value))
			continue;
		if (r && str_eq(path, STR("pct")) && (r->faults & DMARC_FAULT(DMARC_TAG_PCT))) {
			v->note = "RFC 7489 §6.3: a wrong value counts as the default; RFC 9989 has no pct";
			continue;
		}
		buf_addf(&v->expected, "%.*s %.*s %s", STR_ARG(path), STR_ARG(op), value ? json_object_get_string(value) : "");
		buf_addz(&v->got, result ? json_object_to_json_string_ext(result, JSON_C_TO_STRING_PLAIN) : "nothing");
		v->ok = false;
	}
}

/* -- kinds of cases */

static size_t add_ids(struct json_object *one, const char *key, bool spf, struct dmarc_id *id, size_t n)
{
	struct json_object *list;
	if (!json_object_object_get_ex(one, key, &list))
		return n;
	for (size_t i = 0; i < json_object_array_length(list) && n < DMARC_IDS_MAX; i++) {
		struct json_object *e = json_object_array_get_idx(list, i);
		struct str domain = json_object_is_type(e, json_type_string) ? str_from(json_object_get_string(e)) : vectors_str(e, "domain");
		id[n++] = (struct dmarc_id){ .domain = domain, .spf = spf, .pass = true };
	}
	return n;
}

static void verify(struct json_object *one, struct verdict *v)
{
	struct json_object *from, *zone;
	struct buf headers = BUF_INIT(1 << 16);
	struct dmarc_author author;
	struct dmarc_id id[DMARC_IDS_MAX];
	struct dmarc_check c = { .author = &author, .id = id };
	struct dns_answers *set = dns_answers_new();
	if (!json_object_object_get_ex(one, "headerFrom", &from) || !json_object_object_get_ex(one, "zone", &zone))
		from = zone = json_object_new_object();
	bool list = json_object_is_type(from, json_type_array);
	buf_addz(&headers, "From: ");
	for (size_t i = 0; list && i < json_object_array_length(from); i++)
		buf_addf(&headers, "%s%s", i ? ", " : "", json_object_get_string(json_object_array_get_idx(from, i)));
	if (!list)
		buf_addz(&headers, json_object_get_string(from));
	buf_addz(&headers, "\r\n");
	dmarc_author(buf_str(&headers), &author);
	c.n_ids = add_ids(one, "spfDomains", true, id, add_ids(one, "dkimDomains", false, id, 0));
	struct json_object *result = run(dmarc_evaluate, &c, zone, set) ? object_of(&c) : NULL;
	if (author.mailboxes > 1) { /* the library does not look at such mail */
		v->ok = result && (author.n > 1 ? c.result == DMARC_RESULT_FAIL : c.result != DMARC_RESULT_NONE);
		v->note = author.n > 1 ? "several From domains are never let through: the check fails" :
					 "RFC 9989 §5.3.1: several addresses of one domain are evaluated";
		buf_addf(&v->got, "%s", dmarc_result_name(c.result));
	} else if (author.state == DMARC_AUTHOR_NONE || author.state == DMARC_AUTHOR_BAD)
		judge(one, NULL, NULL, v);
	else
		judge(one, result, &c.walk.record, v);
	json_object_put(result);
	dns_answers_free(set);
	buf_free(&headers);
}

struct get_record {
	struct str domain;
	struct dmarc_walk walk;
};

static int get_walk(void *arg, struct dns_answers *set)
{
	struct get_record *g = arg;
	return dmarc_walk(g->domain, set, &g->walk);
}

static void get_record(struct json_object *one, struct verdict *v)
{
	struct get_record g = { .domain = vectors_str(one, "domain") };
	struct dns_answers *set = dns_answers_new();
	struct json_object *zone, *result = NULL;
	if (!json_object_object_get_ex(one, "zone", &zone) || !run(get_walk, &g, zone, set))
		buf_addz(&v->got, "no answer");
	else {
		if (g.walk.policy_domain[0]) {
			result = json_object_new_object();
			add_tags(result, &g.walk.record, true);
			json_object_object_add(result, "isOrgRecord", json_object_new_boolean(strcmp(g.walk.policy_domain, g.walk.start) != 0));
		}
		judge(one, result, &g.walk.record, v);
	}
	json_object_put(result);
	dns_answers_free(set);
}

/* Dots around a name are no part of it for the suite. */
static struct str no_dots(struct str s)
{
	while (s.n && s.p[0] == '.')
		s = str_skip(s, 1);
	while (s.n && s.p[s.n - 1] == '.')
		s.n--;
	return s;
}

static void alignment(struct json_object *one, struct verdict *v)
{
	struct str a = no_dots(vectors_str(one, "a")), b = no_dots(vectors_str(one, "b"));
	bool strict = str_eq(vectors_str(one, "mode"), STR("strict")), want = false;
	struct dmarc_author author = { .state = DMARC_AUTHOR_OK, .n = 1 };
	struct dmarc_id id = { .domain = b, .pass = true };
	struct dmarc_check c = { .author = &author, .id = &id, .n_ids = 1 };
	struct json_object *zone = json_object_new_object();
	struct buf record = BUF_INIT(4096);
	vectors_bool(one, "aligned", &want);
	bool name = dns_name_fold(a, author.domain[0]) > 0;
	/* the suite has organizational domains without a zone: both names publish at their last two labels */
	for (int i = 0; i < 2; i++) {
		struct str s = i ? b : a;
		size_t at = s.n, dots = 0;
		while (at > 0 && (dots += s.p[at - 1] == '.') < 2)
			at--;
		buf_reset(&record);
		buf_addf(&record, "{\"TXT\": [[\"v=DMARC1; p=none; adkim=%c\"]]}", strict ? 's' : 'r');
		struct json_object *node = json_tokener_parse(buf_z(&record));
		buf_reset(&record);
		buf_addf(&record, "_dmarc.%.*s", STR_ARG(str_skip(s, at)));
		json_object_object_add(zone, buf_z(&record), node);
	}
	struct dns_answers *set = dns_answers_new();
	bool got = name && run(dmarc_evaluate, &c, zone, set) && c.dkim_aligned;
	v->ok = got == want;
	buf_addz(&v->expected, want ? "aligned" : "not aligned");
	buf_addz(&v->got, got ? "aligned" : "not aligned");
	dns_answers_free(set);
	json_object_put(zone);
	buf_free(&record);
}

static void from_domain(struct json_object *one, struct verdict *v)
{
	struct mail_addrlist l;
	struct str got = STR_NULL, want = vectors_str(one, "domain");
	if (mail_addrlist_parse(&l, vectors_str(one, "from")) == 0)
		for (size_t i = 0; i < l.n && !got.n; i++)
			if (l.item[i].kind == MAIL_ADDR_MAILBOX && l.item[i].valid)
				got = l.item[i].domain;
	v->ok = str_ieq(got, want);
	vectors_escape(want, &v->expected);
	vectors_escape(got, &v->got);
	mail_addrlist_free(&l);
}

/* valid: RFC 9989 acts on it. Where the suite says no and RFC 9989 acts on it all the same, we must have seen what the suite
 * does not like. */
static void record_syntax(struct json_object *one, struct verdict *v)
{
	struct dmarc_record r = { 0 };
	bool want = false, usable = dmarc_record_parse(vectors_str(one, "record"), &r) == 0 && r.usable;
	vectors_bool(one, "valid", &want);
	v->ok = want ? usable : !usable || r.faults;
	if (!want && usable)
		v->note = r.faults == DMARC_FAULT_P_FIRST ? "RFC 9989 §4.7: only v has a place of its own" :
							    "RFC 9989 §4.7: a wrong value counts as the default, pct, rf and ri as unknown tags";
	buf_addf(&v->expected, "%s (%.*s)", want ? "valid" : "invalid", STR_ARG(vectors_str(one, "comment")));
	buf_addf(&v->got, "%s, faults %x", usable ? "valid" : "invalid", r.faults);
}

void topic_dmarc(const char *file, struct json_object *one, struct verdict *v)
{
	struct str kind = vectors_str(one, "kind");
	(void)file;
	if (str_eq(kind, STR("verify")))
		verify(one, v);
	else if (str_eq(kind, STR("get-record")))
		get_record(one, v);
	else if (str_eq(kind, STR("alignment")))
		alignment(one, v);
	else if (str_eq(kind, STR("from-domain")))
		from_domain(one, v);
	else if (vectors_str(one, "record").p)
		record_syntax(one, v);
	else {
		buf_addz(&v->expected, "a kind of case that is known");
		vectors_escape(kind, &v->got);
	}
}
