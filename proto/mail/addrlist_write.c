/* Writing address lists: what addrlist.c reads back to the same names, comments and addresses. */
#include "proto/mail/addrlist.h"

#include "proto/mail/addrtoken.h"
#include "proto/mail/charset.h"
#include "proto/mail/encoded.h"
#include "proto/mail/header.h"
#include "proto/address/address.h"

enum {
	TEXT_PIECE_MAX = 200, /* longer names and comments become encoded words, which fold */
	PIECE_ROOM = 2048,
};

/* Can the text stand without being encoded? What looks like an encoded word would be read as one. */
static bool stands(struct str s, bool utf8)
{
	return s.n <= TEXT_PIECE_MAX && (utf8 || str_is_ascii(s)) && !(s.n > 1 && memmem(s.p, s.n, "=?", 2));
}

/* Words of atoms with single blanks between: needs no quotes. */
static bool is_phrase(struct str s)
{
	bool blank = true;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == ' ' ? blank : !mail_is_atext(s.p[i]))
			return false;
		blank = s.p[i] == ' ';
	}
	return !blank;
}

/* The blanks of a comment are squeezed by who reads it. */
static bool single_blanks(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == ' ' && (i == 0 || i + 1 == s.n || s.p[i - 1] == ' '))
			return false;
	return true;
}

static void put_encoded(struct mail_fold *f, struct str s, const char *before, const char *after)
{
	struct buf b = BUF_INIT(PIECE_ROOM);
	buf_addz(&b, before);
	while (mail_encoded_next(&s, &b)) {
		if (!s.n)
			buf_addz(&b, after);
		mail_fold_piece(f, buf_str(&b));
		f->bad |= b.failed;
		buf_reset(&b);
	}
	buf_free(&b);
}

static void put_escaped(struct mail_fold *f, struct str s, char open, char close)
{
	struct buf b = BUF_INIT(PIECE_ROOM);
	buf_addc(&b, open);
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\\' || s.p[i] == open || s.p[i] == close)
			buf_addc(&b, '\\');
		buf_addc(&b, s.p[i]);
	}
	buf_addc(&b, close);
	f->bad |= b.failed;
	mail_fold_piece(f, buf_str(&b));
	buf_free(&b);
}

static void put_name(struct mail_fold *f, struct str name, bool utf8)
{
	struct str word;
	if (!stands(name, utf8))
		put_encoded(f, name, "", "");
	else if (!is_phrase(name))
		put_escaped(f, name, '"', '"');
	else
		while (str_word(&name, " ", &word))
			mail_fold_piece(f, word);
}

static void put_comment(struct mail_fold *f, struct str comment, bool utf8)
{
	if (!comment.n)
		return;
	if (stands(comment, utf8) && single_blanks(comment))
		put_escaped(f, comment, '(', ')');
	else
		put_encoded(f, comment, "(", ")");
}

static void put_mailbox(struct mail_fold *f, const struct mail_address *a, bool utf8)
{
	struct buf b = BUF_INIT(PIECE_ROOM);
	f->bad |= a->utf8 && !utf8;
	if (a->name.p) {
		put_name(f, a->name, utf8);
		buf_addc(&b, '<');
		buf_adds(&b, a->address);
		buf_addc(&b, '>');
		f->bad |= b.failed;
		mail_fold_piece(f, buf_str(&b));
	} else
		mail_fold_piece(f, a->address);
	buf_free(&b);
	put_comment(f, a->comment, utf8);
}

int mail_addrlist_write(struct buf *out, struct str field, const struct mail_addrlist *l, bool utf8)
{
	struct mail_fold f;
	size_t before = out->n, group = 0;
	bool any = false, comma = false;
	mail_fold_begin(&f, out, field);
	for (size_t i = 0; i < l->n; i++) {
		const struct mail_address *a = &l->item[i];
		bool is_group = a->kind == MAIL_ADDR_GROUP && a->name.p;
		bool is_comment = a->kind == MAIL_ADDR_COMMENT && a->comment.n, closed = false;
		if (!is_group && !is_comment && (a->kind != MAIL_ADDR_MAILBOX || !a->valid))
			continue;
		if (group && a->group != group) {
			mail_fold_glue(&f, STR(";"));
			group = 0;
			comma = closed = true;
		}
		if (comma && !(closed && is_comment)) /* a comment may stand behind a group (RFC 5322 §3.4) */
			mail_fold_glue(&f, STR(","));
		if (is_group) {
			put_name(&f, a->name, utf8);
			put_comment(&f, a->comment, utf8);
			mail_fold_glue(&f, STR(":"));
			group = i + 1;
		} else if (is_comment)
			put_comment(&f, a->comment, utf8);
		else
			put_mailbox(&f, a, utf8);
		comma = !is_group;
		any |= !is_comment;
	}
	if (group)
		mail_fold_glue(&f, STR(";"));
	if (mail_fold_end(&f) == 0 && any)
		return 0;
	if (out->n > before) {
		out->n = before;
		out->p[before] = 0;
	}
	return -1;
}

int mail_addrlist_write_one(struct buf *out, struct str field, struct str name, struct str address, bool utf8)
{
	struct smtp_address a;
	if (smtp_address_parse(address, true, &a) || (a.utf8 && !utf8))
		return -1;
	struct mail_address one = { .kind = MAIL_ADDR_MAILBOX, .address = address, .local = a.local, .domain = a.domain, .valid = true, .quoted = a.quoted, .literal = a.literal, .utf8 = a.utf8 };
	struct buf clean = BUF_INIT(4096);
	if (name.n && mail_charset_clean(name, &clean) == 0)
		one.name = str_trim(buf_str(&clean));
	struct mail_addrlist l = { .item = &one, .n = 1 };
	int r = clean.failed ? -1 : mail_addrlist_write(out, field, &l, utf8);
	buf_free(&clean);
	return r;
}
