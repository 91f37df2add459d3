/* Topic mime: message files. Each must be put together again octet by octet from the pieces the parser names; where the suite says what the parts
 * are (NAME.json of mail-parser: offsets; NAME.xml of mime4j: the tree), the parts must be those. */
#include "vectors.h"

#include "../unit/proto/mail/mime_pieces.h"

#include <stdio.h>

static bool read_file(const char *path, struct buf *out)
{
	FILE *f = fopen(path, "rbe");
	char block[8192];
	size_t n;
	if (!f)
		return false;
	while ((n = fread(block, 1, sizeof block, f)))
		buf_add(out, block, n);
	fclose(f);
	return !out->failed;
}

/* Files where we read other parts than the suite says, and why that is right. */
static const struct {
	const char *file, *why;
} exceptions[] = {
	{ "malformed/000.eml", "parts may have no body (RFC 2046 5.1.1, body-part)" },
	{ "malformed/001.eml", "an outer delimiter ends inner parts (RFC 2046 5.1.2); a text that has begun is text" },
	{ "malformed/002.eml", "a multipart in which no delimiter occurs is one without parts, and said to be odd (RFC 2046 5.1.1)" },
	{ "malformed/004.eml", "the head of a part begins behind the line of its delimiter (RFC 2046 5.1.1, dash-boundary transport-padding CRLF)" },
	{ "malformed/008.eml", "the longer boundary is the outer one's delimiter (RFC 2046 5.1.2)" },
	{ "malformed/009.eml", "an outer delimiter ends inner parts (RFC 2046 5.1.2)" },
	{ "malformed/011.eml", "an outer delimiter ends inner parts (RFC 2046 5.1.2)" },
	{ "malformed/013.eml", "a last delimiter has an empty part behind it (RFC 2046 5.1.1)" },
	{ "malformed/014.eml", "a last delimiter has an empty part behind it (RFC 2046 5.1.1)" },
	{ "malformed/016.eml", "the longer boundary is the outer one's delimiter (RFC 2046 5.1.2)" },
	{ "malformed/020.eml", "a delimiter that is not closing has a part behind it, if an empty one (RFC 2046 5.1.1)" },
	{ "malformed/021.eml", "a delimiter that is not closing has a part behind it, if an empty one (RFC 2046 5.1.1)" },
	{ "thirdparty/005.eml", "delimiters stand at the beginning of a line (RFC 2046 5.1.1)" },
	{ "base64encoded-rfc822message-nested.msg", "no encoding is allowed on message/rfc822 (RFC 2046 5.2.1): what is in it is not parts of this message" },
	{ "multi-2gifs-base64.msg", "no encoding is allowed on message/rfc822 (RFC 2046 5.2.1): what is in it is not parts of this message" },
	{ NULL, NULL },
};

static const char *exception(struct str path)
{
	for (size_t i = 0; exceptions[i].file; i++)
		if (str_iends(path, str_from(exceptions[i].file)))
			return exceptions[i].why;
	return NULL;
}

/* -- mail-parser: {"parts": [{"offset_header", "offset_body", "offset_end", "body": {"Multipart": […]} or {"Message": {"parts": …}} or text}]} */

static long number(struct json_object *o, const char *key)
{
	struct json_object *v;
	return json_object_object_get_ex(o, key, &v) ? (long)json_object_get_int64(v) : -1;
}

/* Our parts have no more than one child of a message, which is part 0 of their nested list. */
static void flatten(struct json_object *root, struct buf *out)
{
	struct json_object *parts, *body, *inner;
	json_object_object_get_ex(root, "parts", &parts);
	for (size_t i = 0; i < json_object_array_length(parts); i++) {
		struct json_object *one = json_object_array_get_idx(parts, i);
		bool has = json_object_object_get_ex(one, "body", &body) && json_object_is_type(body, json_type_object);
		if (has && json_object_object_get_ex(body, "Multipart", &inner))
			buf_addf(out, "m%ld,%ld ", number(one, "offset_header"), number(one, "offset_body"));
		else
			buf_addf(out, "%ld,%ld,%ld ", number(one, "offset_header"), number(one, "offset_body"), number(one, "offset_end"));
		if (has && json_object_object_get_ex(body, "Message", &inner) && json_object_is_type(inner, json_type_object))
			flatten(inner, out);
	}
}

static void offsets(const struct mail_mime *m, struct buf *out)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct mail_mime_part *p = &m->part[i];
		size_t head = (size_t)(p->head.p - m->raw.p), body = (size_t)(p->body.p - m->raw.p);
		if (p->kind == MAIL_MIME_MULTIPART)
			buf_addf(out, "m%zu,%zu ", head, body);
		else
			buf_addf(out, "%zu,%zu,%zu ", head, body, body + p->body.n);
	}
}

/* -- mime4j: tags of an XML file whose text is escaped */

static void xml_tree(struct str xml, struct buf *out)
{
	static const struct {
		const char *tag, *shown;
	} tags[] = {
		{ "<message>", "M(" }, { "</message>", ")" }, { "<multipart>", "P(" }, { "</multipart>", ")" }, { "<body-part>", "p(" },
		{ "</body-part>", ")" }, { "<body>", "b" },
	};
	const char *at;
	while ((at = memchr(xml.p, '<', xml.n))) {
		xml = str_skip(xml, (size_t)(at - xml.p));
		for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
			if (str_starts(xml, str_from(tags[i].tag)))
				buf_addz(out, tags[i].shown);
		xml = str_skip(xml, 1);
	}
}

static void our_tree(const struct mail_mime *m, size_t i, bool message, struct buf *out)
{
	const struct mail_mime_part *p = &m->part[i];
	buf_addz(out, message ? "M(" : "p(");
	if (p->kind == MAIL_MIME_LEAF)
		buf_addc(out, 'b');
	else if (p->kind == MAIL_MIME_MULTIPART)
		buf_addz(out, "P(");
	for (size_t k = p->child; k != MAIL_MIME_NONE; k = m->part[k].next)
		our_tree(m, k, p->kind == MAIL_MIME_MESSAGE, out);
	buf_addz(out, p->kind == MAIL_MIME_MULTIPART ? "))" : ")");
}

void topic_mime(const char *file, struct json_object *one, struct verdict *v)
{
	(void)file;
	struct str path = vectors_str(one, "path"), stem = path;
	struct buf raw = BUF_INIT(64 << 20), other = BUF_INIT(64 << 20), name = BUF_INIT(4096);
	struct mail_mime m = { 0 };
	while (stem.n && stem.p[stem.n - 1] != '.')
		stem.n--;
	bool whole = read_file(path.p, &raw) && mail_mime_parse(&m, buf_str(&raw), true) == 0 && mime_whole(&m);
	buf_addf(&name, "%.*sjson", STR_ARG(stem));
	struct json_object *root = json_object_from_file(buf_z(&name));
	buf_reset(&name);
	buf_addf(&name, "%.*sxml", STR_ARG(stem));
	if (whole && root) {
		flatten(root, &v->expected);
		offsets(&m, &v->got);
		if (!str_eq(buf_str(&v->expected), buf_str(&v->got))) { /* some expectations count line ends as one octet */
			for (size_t i = 0; i < raw.n; i++)
				if (raw.p[i] != '\r' || i + 1 == raw.n || raw.p[i + 1] != '\n')
					buf_addc(&other, raw.p[i]);
			mail_mime_free(&m);
			buf_reset(&v->got);
			if (mail_mime_parse(&m, buf_str(&other), true) == 0)
				offsets(&m, &v->got);
		}
	} else if (whole && read_file(buf_z(&name), &other)) {
		xml_tree(buf_str(&other), &v->expected);
		our_tree(&m, 0, true, &v->got);
	}
	json_object_put(root);
	v->ok = whole && str_eq(buf_str(&v->expected), buf_str(&v->got));
	if (!whole)
		buf_addz(&v->got, "not put together again");
	else if (!v->ok)
		v->ok = (v->note = exception(path)) != NULL;
	mail_mime_free(&m);
	/* and with CR LF only, as the queue has it, whatever that makes of the parts */
	if (mail_mime_parse(&m, buf_str(&raw), false) || !mime_whole(&m))
		v->ok = false;
	mail_mime_free(&m);
	buf_free(&raw);
	buf_free(&other);
	buf_free(&name);
}
