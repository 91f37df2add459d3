/* Header fields of topic address: {"header": field body, "expected": {"List": mailboxes} or {"Group": groups}}. Where the suite keeps
 * what RFC 5322 says is no part of an address, its address is read by that RFC before the two are compared. */
#include "vectors.h"

#include "proto/mail/addrlist.h"

static const char route_note[] = "RFC 5322 §4.4: a route, comments and blanks around dots are no part of an address";
static const char fold_note[] = "RFC 5322 §4.1: a backslash quotes the line end behind it, so the parenthesis on the next line closes the comment; "
				"the addresses are compared";

/* An address of the suite as RFC 5322 reads it. */
static void put_address(struct str s, struct buf *out, const char **note)
{
	struct buf angle = BUF_INIT(1 << 16);
	struct mail_addrlist l;
	buf_addc(&angle, '<');
	buf_adds(&angle, s);
	buf_addc(&angle, '>');
	if (mail_addrlist_parse(&l, buf_str(&angle)) == 0 && l.n == 1) {
		if (!str_eq(l.item[0].address, s))
			*note = route_note;
		vectors_escape(l.item[0].address, out);
	} else
		buf_addz(out, "(unreadable)");
	mail_addrlist_free(&l);
	buf_free(&angle);
}

static void put_text(struct str s, struct buf *out)
{
	if (!s.p) {
		buf_addz(out, "- ");
		return;
	}
	buf_addc(out, '"');
	vectors_escape(s, out);
	buf_addz(out, "\" ");
}

static void expect_mailboxes(struct json_object *list, bool names, struct buf *out, const char **note)
{
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *one = json_object_array_get_idx(list, i);
		struct str address = vectors_str(one, "address");
		if (names)
			put_text(vectors_str(one, "name"), out);
		if (address.p) {
			buf_addc(out, '<');
			put_address(address, out, note);
			buf_addz(out, "> ");
		} else
			buf_addz(out, "- ");
	}
}

static void expect(struct json_object *one, bool names, struct buf *out, const char **note)
{
	struct json_object *expected, *list, *members;
	if (!json_object_object_get_ex(one, "expected", &expected))
		return;
	if (json_object_object_get_ex(expected, "List", &list))
		expect_mailboxes(list, names, out, note);
	else if (json_object_object_get_ex(expected, "Group", &list))
		for (size_t i = 0; i < json_object_array_length(list); i++) {
			struct json_object *group = json_object_array_get_idx(list, i);
			buf_addz(out, "group ");
			if (names)
				put_text(vectors_str(group, "name"), out);
			if (json_object_object_get_ex(group, "addresses", &members))
				expect_mailboxes(members, names, out, note);
		}
}

/* The suite has one name for both: "name (comments)", or what there is of them. */
static void put_name(const struct mail_address *a, struct buf *out)
{
	struct buf both = BUF_INIT(1 << 16);
	if (a->name.p && a->comment.p) {
		buf_adds(&both, a->name);
		buf_addz(&both, " (");
		buf_adds(&both, a->comment);
		buf_addc(&both, ')');
		put_text(buf_str(&both), out);
	} else
		put_text(a->name.p ? a->name : a->comment, out);
	buf_free(&both);
}

static void got(const struct mail_addrlist *l, bool names, struct buf *out)
{
	bool groups = false, open = false;
	size_t group = 0;
	for (size_t i = 0; i < l->n; i++)
		groups |= l->item[i].kind == MAIL_ADDR_GROUP;
	for (size_t i = 0; i < l->n; i++) {
		const struct mail_address *a = &l->item[i];
		if (a->kind == MAIL_ADDR_GROUP) {
			buf_addz(out, "group ");
			if (names)
				put_name(a, out);
			group = i + 1;
			open = true;
			continue;
		}
		if (groups && (!open || a->group != group)) { /* the suite bundles those outside of groups */
			buf_addz(out, names ? "group - " : "group ");
			group = 0;
			open = true;
		}
		if (names)
			put_name(a, out);
		if (a->kind == MAIL_ADDR_COMMENT)
			buf_addz(out, "- ");
		else {
			buf_addc(out, '<');
			vectors_escape(a->address, out);
			buf_addz(out, "> ");
		}
	}
}

static bool quotes_line_end(struct str s)
{
	for (size_t i = 0; i + 1 < s.n; i++)
		if (s.p[i] == '\\' && (s.p[i + 1] == '\n' || s.p[i + 1] == '\r'))
			return true;
	return false;
}

void topic_address_list(struct json_object *one, struct verdict *v)
{
	struct str header = vectors_str(one, "header");
	struct mail_addrlist l;
	bool names = !quotes_line_end(header);
	int r = mail_addrlist_parse(&l, header);
	expect(one, names, &v->expected, &v->note);
	if (!names)
		v->note = fold_note;
	if (r)
		buf_addf(&v->got, "refused (%d)", r);
	else
		got(&l, names, &v->got);
	v->ok = str_eq(buf_str(&v->expected), buf_str(&v->got));
	mail_addrlist_free(&l);
}
