/* Topic arc: the ARC suite. Its validation half: the chain status. Its signing half (cases with "private_key"): the set that is added, octet for octet but
 * for white space and the order of tags, and that it holds. */
#include "auth.h"

#include "proto/auth/authres.h"
#include "proto/dkim/arc_seal.h"
#include "proto/mail/header.h"
#include "proto/mail/split.h"

#include <stdio.h>

struct zone {
	struct json_object *txt;
};

static struct dns_answer *from_zone(void *arg, struct str name)
{
	struct zone *z = arg;
	json_object_object_foreach(z->txt, key, value)
	{
		if (str_ieq(str_from(key), name))
			return auth_txt(name, str_n(json_object_get_string(value), (size_t)json_object_get_string_len(value)));
	}
	return NULL;
}

/* -- the signing half */

enum { TAGS_MAX = 40, NAMES_MAX = 20 };

struct tag_set {
	char tag[TAGS_MAX][1200];
	size_t n;
};

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* What stands between semicolons, without white space, sorted. */
static void cut(struct str text, struct tag_set *ret)
{
	size_t n = 0;
	ret->n = 0;
	for (size_t i = 0; i <= text.n && ret->n < TAGS_MAX; i++) {
		bool end = i == text.n || text.p[i] == ';';
		if (!end && !strchr(" \t\r\n", text.p[i]) && n < sizeof ret->tag[0] - 1)
			ret->tag[ret->n][n++] = text.p[i];
		if (end && n) {
			ret->tag[ret->n++][n] = 0;
			n = 0;
		}
	}
	qsort(ret->tag, ret->n, sizeof ret->tag[0], by_text);
}

static bool same_tags(struct str a, struct str b)
{
	static struct tag_set x, y;
	cut(a, &x);
	cut(b, &y);
	for (size_t i = 0; i < x.n && i < y.n; i++)
		if (strcmp(x.tag[i], y.tag[i]) != 0)
			return false;
	return x.n == y.n && x.n;
}

static bool set_is(struct str set, struct json_object *one)
{
	static const struct {
		const char *key, *name;
	} kinds[] = { { "AS", "ARC-Seal" }, { "AMS", "ARC-Message-Signature" }, { "AAR", "ARC-Authentication-Results" } };
	struct mail_field f;
	for (size_t i = 0; i < 3; i++)
		if (mail_field_next(&set, &f) != 1 || !str_ieq(f.name, str_from(kinds[i].name)) || !same_tags(f.value, vectors_str(one, kinds[i].key)))
			return false;
	return !set.n;
}

/* The suite says that the chain's status stands in the newest Authentication-Results. */
static enum dkim_result status_of(struct str headers)
{
	struct mail_field f;
	struct authres a;
	enum dkim_result cv = DKIM_NONE;
	if (mail_field_find(headers, STR("Authentication-Results"), 0, &f) || authres_parse(&a, f.value))
		return cv;
	for (size_t i = 0; i < a.n; i++)
		if (str_ieq(a.result[i].method, STR("arc")))
			cv = str_ieq(a.result[i].result, STR("pass")) ? DKIM_PASS : str_ieq(a.result[i].result, STR("fail")) ? DKIM_FAIL : DKIM_NONE;
	authres_free(&a);
	return cv;
}

static void sealing(struct json_object *one, struct verdict *v)
{
	static const char *const nothing[] = { NULL };
	struct buf text = BUF_INIT(16 << 20), aar = BUF_INIT(64 << 10), set = BUF_INIT(ARC_SEAL_SET_MAX), record = BUF_INIT(4096);
	struct json_object *t = NULL;
	struct dkim_private *key = NULL;
	const char *why = "no key", *names[NAMES_MAX + 1] = { NULL };
	char list[500];
	size_t n = 0, at;
	struct mail_split m;
	json_object_object_get_ex(one, "timestamp", &t);
	auth_crlf(vectors_str(one, "message"), &text);
	mail_split(buf_str(&text), &m);
	snprintf(list, sizeof list, "%.*s", STR_ARG(vectors_str(one, "sig_headers")));
	for (char *save = NULL, *w = strtok_r(list, ": ", &save); w && n < NAMES_MAX; w = strtok_r(NULL, ": ", &save))
		names[n++] = w;
	struct arc_place place = arc_place(m.headers);
	struct arc_seal how = { .domain = vectors_str(one, "domain"), .selector = vectors_str(one, "selector"), .now = t ? json_object_get_int64(t) : 0,
		.instance = place.instance, .cv = status_of(m.headers), .names = names, .oversign = nothing, .whole = true };
	if (!vectors_str(one, "AS").n) {
		v->ok = !place.instance;
		buf_addf(&v->got, "instance %u", place.instance);
	} else if (!dkim_private_read_old(vectors_str(one, "private_key"), &key, &why) && !dkim_private_record(key, &record) &&
	    !authres_arc(&aar, place.instance, vectors_str(one, "authserv_id"), m.headers, &at)) {
		how.key = key;
		how.results = buf_str(&aar);
		if (arc_seal(&how, m.headers, m.body, &set, &why))
			buf_addf(&v->got, "not sealed: %s", why);
		else if (!(v->ok = set_is(buf_str(&set), one) && arc_seal_holds(&how, buf_str(&record), buf_str(&set), m.headers, m.body)))
			vectors_escape(buf_str(&set), &v->got);
	} else {
		buf_addz(&v->got, why);
	}
	vectors_escape(vectors_str(one, "AS"), &v->expected);
	dkim_private_free(key);
	buf_free(&text);
	buf_free(&aar);
	buf_free(&set);
	buf_free(&record);
}

void topic_arc(const char *file, struct json_object *one, struct verdict *v)
{
	if (vectors_str(one, "private_key").n) {
		sealing(one, v);
		return;
	}
	struct dkim_policy policy = { .arc = true };
	struct str message = vectors_str(one, "message"), cv = vectors_str(one, "cv");
	struct zone z = { NULL };
	struct buf text = BUF_INIT(16 << 20);
	(void)file;
	json_object_object_get_ex(one, "txt", &z.txt);
	if (!cv.p || !z.txt) {
		buf_addz(&v->expected, "a case with message, txt and cv");
		buf_addz(&v->got, "none");
		return;
	}
	if (!cv.n)
		cv = STR("none");
	auth_crlf(message, &text);
	for (size_t piece = 0; piece < 2; piece++) {
		struct dkim *d = auth_verify(buf_str(&text), &policy, piece, from_zone, &z);
		const struct arc_result *r = d ? dkim_arc(d) : NULL;
		v->ok = r && str_ieq(str_from(dkim_result_name(r->result)), cv);
		buf_reset(&v->got);
		buf_addf(&v->got, "%s (%s)", r ? dkim_result_name(r->result) : "nothing", r ? r->reason : "");
		dkim_release(d);
		if (!v->ok)
			break;
	}
	vectors_escape(cv, &v->expected);
	buf_free(&text);
}
