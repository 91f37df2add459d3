/* Topic arc: the chain status of the ARC suite. Its signing half is for whoever seals. */
#include "auth.h"

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

void topic_arc(const char *file, struct json_object *one, struct verdict *v)
{
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
