/* Topic authres: bodies of Authentication-Results fields, as RFC 8601 §2.2 reads them. "lenient": outside of that grammar, either verdict
 * is right. */
#include "vectors.h"

#include "proto/auth/authres.h"

#include <stdio.h>

static bool has_prop(const struct authres_result *r, struct str key, struct str value)
{
	for (size_t i = 0; i < r->n_props; i++) {
		char name[256];
		snprintf(name, sizeof name, "%.*s.%.*s", STR_ARG(r->prop[i].ptype), STR_ARG(r->prop[i].name));
		if (str_ieq(str_from(name), key) && str_eq(r->prop[i].value, value))
			return true;
	}
	return false;
}

static bool is_result(const struct authres_result *r, struct json_object *want)
{
	struct json_object *props;
	struct str reason = vectors_str(want, "reason");
	if (!str_ieq(r->method, vectors_str(want, "method")) || !str_ieq(r->result, vectors_str(want, "result")) ||
	    (reason.p && !str_eq(r->reason, reason)))
		return false;
	if (json_object_object_get_ex(want, "properties", &props)) {
		json_object_object_foreach(props, key, value) if (!has_prop(r, str_from(key), str_from(json_object_get_string(value)))) return false;
	}
	return true;
}

/* The results listed are there, in that order; of those with a "count", as many. */
static bool has_results(const struct authres *a, struct json_object *list)
{
	size_t from = 0;
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *want = json_object_array_get_idx(list, i), *count;
		size_t n = 0;
		for (size_t k = 0; k < a->n; k++)
			n += is_result(&a->result[k], want);
		if (json_object_object_get_ex(want, "count", &count) && n != (size_t)json_object_get_int(count))
			return false;
		while (from < a->n && !is_result(&a->result[from], want))
			from++;
		if (from++ >= a->n)
			return false;
	}
	return true;
}

static void show(const struct authres *a, struct buf *out)
{
	buf_addf(out, "%s: ", a->bad ? "invalid" : "valid");
	vectors_escape(a->id, out);
	for (size_t i = 0; i < a->n; i++) {
		buf_addz(out, "; ");
		vectors_escape(a->result[i].method, out);
		buf_addc(out, '=');
		vectors_escape(a->result[i].result, out);
		for (size_t k = 0; k < a->result[i].n_props; k++) {
			buf_addc(out, ' ');
			vectors_escape(a->result[i].prop[k].ptype, out);
			buf_addc(out, '.');
			vectors_escape(a->result[i].prop[k].name, out);
			buf_addc(out, '=');
			vectors_escape(a->result[i].prop[k].value, out);
		}
	}
}

void topic_authres(const char *file, struct json_object *one, struct verdict *v)
{
	static const char name[] = "Authentication-Results:";
	struct str field = vectors_str(one, "field");
	struct json_object *contains, *results;
	struct authres a;
	bool valid = false, lenient = false;
	(void)file;
	vectors_bool(one, "valid", &valid);
	vectors_bool(one, "lenient", &lenient);
	if (str_istarts(field, str_from(name)))
		field = str_skip(field, sizeof name - 1);
	if (!field.p || authres_parse(&a, field)) {
		buf_addz(&v->got, "could not be read");
		return;
	}
	v->ok = lenient || valid == !a.bad;
	if (lenient && a.bad)
		v->note = "RFC 8601 §2.2 does not allow it; what can be read was compared";
	if (valid && json_object_object_get_ex(one, "contains", &contains)) {
		v->ok &= str_ieq(a.id, vectors_str(contains, "authserv_id"));
		if (json_object_object_get_ex(contains, "results", &results))
			v->ok &= has_results(&a, results);
		buf_addz(&v->expected, json_object_to_json_string_ext(contains, JSON_C_TO_STRING_PLAIN));
	} else
		buf_addz(&v->expected, valid ? "valid" : "invalid");
	show(&a, &v->got);
	authres_free(&a);
}
