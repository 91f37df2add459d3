/* See reply.h. Over json-c, with the checks it does not make itself. */
#include "reply.h"

#include <json-c/json.h>

enum {
	DEPTH = 4,
	NAME_MAX_OCTETS = 76,
	VALUE_MAX_OCTETS = 8192,
	WORD_MAX_OCTETS = 900, /* a line has 998 at most, RFC 5322 §2.1.1 */
	STAGE_MAX = 100,
};

struct ctx {
	struct arena *a;
	struct reply *r;
	struct buf *why;
};

static int bad(struct ctx *c, const char *member, const char *what)
{
	if (!c->why->n)
		buf_addf(c->why, "\"%.60s\" %s", member, what);
	return -1;
}

/* One line of text without controls. */
static const char *line_of(struct ctx *c, const char *member, struct json_object *o, size_t max, bool ascii)
{
	struct str s;
	if (!json_object_is_type(o, json_type_string)) {
		bad(c, member, "is no text");
		return NULL;
	}
	s = str_n(json_object_get_string(o), (size_t)json_object_get_string_len(o));
	if (s.n > max) {
		bad(c, member, "is too long");
		return NULL;
	}
	for (size_t i = 0; i < s.n; i++) {
		unsigned char ch = (unsigned char)s.p[i];
		if ((ch < 0x20 && ch != '\t') || ch == 0x7f) {
			bad(c, member, "holds a control character");
			return NULL;
		}
		if (ascii && ch > 0x7e) {
			bad(c, member, "is not ASCII; encode it (RFC 2047)");
			return NULL;
		}
	}
	if (!str_is_utf8(s)) { /* json-c lets F5 to F7 through */
		bad(c, member, "is no valid UTF-8");
		return NULL;
	}
	const char *copy = arena_strz(c->a, s);
	if (!copy)
		bad(c, member, "does not fit into memory");
	return copy;
}

/* RFC 5322 §3.6.8: printable ASCII without colon. The trace is how loops are found and stays out of reach (RFC 5321 §4.4). */
static int check_name(struct ctx *c, const char *member, struct str name, bool removes)
{
	if (!name.n)
		return bad(c, member, "names no header field");
	for (size_t i = 0; i < name.n; i++)
		if (name.p[i] < 0x21 || name.p[i] > 0x7e || name.p[i] == ':')
			return bad(c, member, "holds a name that no header field can have");
	if (removes && (str_ieq(name, STR("Received")) || str_ieq(name, STR("Return-Path"))))
		return bad(c, member, "touches Received or Return-Path, which are not the command's");
	return 0;
}

/* Lines are folded at blanks only. */
static int check_words(struct ctx *c, const char *member, const char *value)
{
	for (size_t n = 0; *value; value++) {
		n = *value == ' ' || *value == '\t' ? 0 : n + 1;
		if (n > WORD_MAX_OCTETS)
			return bad(c, member, "holds a value that cannot be folded into lines");
	}
	return 0;
}

static int header(struct ctx *c, const char *member, struct json_object *o, bool add)
{
	struct json_object *name = NULL, *value = NULL;
	const char *n, *v = NULL;
	bool removes = json_object_is_type(o, json_type_string);
	if (removes) {
		name = o;
	} else if (!json_object_is_type(o, json_type_object) || json_object_object_length(o) != 2 ||
	    !json_object_object_get_ex(o, "name", &name) || !json_object_object_get_ex(o, "value", &value)) {
		return bad(c, member, "holds something that is not {\"name\":…,\"value\":…}");
	}
	if (c->r->n_headers == REPLY_HEADERS_MAX)
		return bad(c, member, "has too many entries");
	if (!(n = line_of(c, member, name, NAME_MAX_OCTETS, true)) || check_name(c, member, str_from(n), !add) ||
	    (!removes && (!(v = line_of(c, member, value, VALUE_MAX_OCTETS, true)) || check_words(c, member, v))))
		return -1;
	for (size_t i = 0; i < c->r->n_headers && !add; i++)
		if (str_ieq(c->r->headers[i].name, str_from(n)))
			return bad(c, member, "names a field that was named before");
	c->r->headers[c->r->n_headers++] = (struct reply_header){ str_from(n), removes ? STR_NULL : str_from(v), add };
	return 0;
}

static int header_list(struct ctx *c, const char *member, struct json_object *l, bool names, bool add)
{
	if (!json_object_is_type(l, json_type_array))
		return bad(c, member, "is no list");
	for (size_t i = 0; i < json_object_array_length(l); i++) {
		struct json_object *o = json_object_array_get_idx(l, i);
		if (json_object_is_type(o, json_type_string) != names)
			return bad(c, member, names ? "holds something that is no name" :
						      "holds something that is not {\"name\":…,\"value\":…}");
		if (header(c, member, o, add))
			return -1;
	}
	return 0;
}

/* 5.d{1,3}.d{1,3}, RFC 3463 §2 */
static bool is_status(const char *z)
{
	unsigned part = 0, digits = 0;
	if (z[0] != '5' || z[1] != '.')
		return false;
	for (z += 2; *z; z++) {
		if (*z == '.') {
			if (!digits || ++part > 1)
				return false;
			digits = 0;
		} else if (*z < '0' || *z > '9' || ++digits > 3) {
			return false;
		}
	}
	return part == 1 && digits;
}

static int action(struct ctx *c, struct json_object *root)
{
	static const char *const names[] = { "accept", "reject", "defer", "reroute" };
	struct json_object *o = NULL;
	if (!json_object_object_get_ex(root, "action", &o) || !json_object_is_type(o, json_type_string))
		return bad(c, "action", "is missing");
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (str_eq(str_from(names[i]), str_n(json_object_get_string(o), (size_t)json_object_get_string_len(o)))) {
			c->r->action = (enum reply_action)i;
			return 0;
		}
	return bad(c, "action", "is none of accept, reject, defer, reroute");
}

/* Members besides "action", and the actions that may have them. */
enum { A = 1 << REPLY_ACCEPT, J = 1 << REPLY_REJECT, D = 1 << REPLY_DEFER, R = 1 << REPLY_REROUTE };
static const struct {
	const char *name;
	unsigned actions;
} members[] = { { "remove_headers", A | R }, { "set_headers", A | R }, { "add_headers", A | R }, { "text", J | D }, { "status", J },
	{ "seconds", D }, { "stage", R } };

static int known_members(struct ctx *c, struct json_object *root)
{
	json_object_object_foreach(root, key, value)
	{
		unsigned may = 0;
		(void)value;
		for (size_t i = 0; i < sizeof members / sizeof *members; i++)
			if (!strcmp(key, members[i].name))
				may = members[i].actions;
		if (strcmp(key, "action") != 0 && !(may & 1u << c->r->action))
			return bad(c, key, may ? "does not go with this action" : "is no member of a reply");
	}
	return 0;
}

static int members_of(struct ctx *c, struct json_object *root)
{
	struct json_object *o;
	struct reply *r = c->r;
	if (json_object_object_get_ex(root, "remove_headers", &o) && header_list(c, "remove_headers", o, true, false))
		return -1;
	if (json_object_object_get_ex(root, "set_headers", &o) && header_list(c, "set_headers", o, false, false))
		return -1;
	if (json_object_object_get_ex(root, "add_headers", &o) && header_list(c, "add_headers", o, false, true))
		return -1;
	if (json_object_object_get_ex(root, "text", &o) && !(r->text = line_of(c, "text", o, REPLY_TEXT_MAX, false)))
		return -1;
	if (json_object_object_get_ex(root, "stage", &o) && !(r->stage = line_of(c, "stage", o, STAGE_MAX, false)))
		return -1;
	if (r->action == REPLY_REROUTE && !r->stage)
		return bad(c, "stage", "is missing");
	r->status = "5.7.1";
	if (json_object_object_get_ex(root, "status", &o)) {
		if (!(r->status = line_of(c, "status", o, 16, true)))
			return -1;
		if (!is_status(r->status))
			return bad(c, "status", "is no enhanced status of class 5 such as 5.7.1");
	}
	if (json_object_object_get_ex(root, "seconds", &o)) {
		int64_t s = json_object_is_type(o, json_type_int) ? json_object_get_int64(o) : -1;
		if (s < 1 || s > REPLY_DEFER_MAX_S)
			return bad(c, "seconds", "is no whole number from 1 to 604800");
		r->seconds = (uint32_t)s;
	}
	return 0;
}

int reply_parse(struct arena *a, struct str text, struct reply *ret, struct buf *why)
{
	struct ctx c = { a, ret, why };
	struct json_object *root = NULL;
	struct json_tokener *tok = json_tokener_new_ex(DEPTH);
	*ret = (struct reply){ .action = REPLY_ACCEPT };
	text = str_trim(text);
	int rc = -1;
	if (!tok) {
		buf_addz(why, "out of memory");
		return -1;
	}
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	if (text.n)
		root = json_tokener_parse_ex(tok, text.p, (int)text.n);
	if (!text.n)
		buf_addz(why, "it wrote nothing");
	else if (!root || json_tokener_get_error(tok) != json_tokener_success)
		buf_addf(why, "it wrote no JSON: %s", json_tokener_get_error(tok) == json_tokener_continue ? "the end is missing" :
				     json_tokener_error_desc(json_tokener_get_error(tok)));
	else if (json_tokener_get_parse_end(tok) != text.n)
		buf_addz(why, "something follows the JSON object");
	else if (!json_object_is_type(root, json_type_object))
		buf_addz(why, "it wrote JSON that is no object");
	else
		rc = action(&c, root) || known_members(&c, root) || members_of(&c, root) ? -1 : 0;
	json_object_put(root);
	json_tokener_free(tok);
	return rc;
}
