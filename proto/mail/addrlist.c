/* Reading address lists: the elements between the commas, groups, what belongs to which. What a run of tokens is as an address or a
 * name is addrspec.c. */
#include "proto/mail/addrlist_internal.h"

#include <stdlib.h>

static int fail(struct addr_reader *r, int why)
{
	if (!r->error)
		r->error = why;
	return -1;
}

/* Room for one more in an array that doubles. */
static void *grow(void *p, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return p;
	size_t more = *cap ? *cap * 2 : 16;
	void *q = reallocarray(p, more, size);
	if (q)
		*cap = more;
	return q;
}

static struct mail_address *add_item(struct addr_reader *r, enum mail_addr_kind kind)
{
	struct mail_address *p = grow(r->list->item, r->list->n, &r->items_cap, sizeof *p);
	if (!p) {
		fail(r, MAIL_ADDRLIST_MEMORY);
		return NULL;
	}
	r->list->item = p;
	p += r->list->n++;
	*p = (struct mail_address){ .kind = kind, .group = kind == MAIL_ADDR_GROUP ? 0 : r->group };
	return p;
}

static void push(struct addr_reader *r, struct mail_token t)
{
	struct mail_token *p = grow(r->token, r->tokens, &r->tokens_cap, sizeof *p);
	if (!p) {
		fail(r, MAIL_ADDRLIST_MEMORY);
		return;
	}
	r->token = p;
	r->token[r->tokens++] = t;
}

static void keep(struct addr_reader *r, struct str *to)
{
	*to = arena_str(r->list->mem, buf_str(&r->scratch));
	if (r->scratch.failed || !to->p)
		fail(r, MAIL_ADDRLIST_MEMORY);
	buf_reset(&r->scratch);
}

/* The element's comments, joined. */
static void take_comment(struct addr_reader *r, struct mail_address *a)
{
	if (r->comment.n) {
		a->comment = arena_str(r->list->mem, buf_str(&r->comment));
		if (r->comment.failed || !a->comment.p)
			fail(r, MAIL_ADDRLIST_MEMORY);
	}
	buf_reset(&r->comment);
	r->comment_decoder = (struct mail_decoder){ .out = &r->comment };
}

static void add_comment(struct addr_reader *r, struct str text)
{
	struct buf plain = BUF_INIT(text.n + 1);
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] == '\\' && i + 1 < text.n)
			i++;
		buf_addc(&plain, text.p[i]);
	}
	struct str words = str_trim(buf_str(&plain));
	if (words.n) {
		r->comment_decoder.blank = r->comment.n > 0;
		r->comment_decoder.last = false; /* two comments are two texts */
		if (mail_decoder_add(&r->comment_decoder, words, true))
			fail(r, MAIL_ADDRLIST_MEMORY);
	}
	if (plain.failed)
		fail(r, MAIL_ADDRLIST_MEMORY);
	buf_free(&plain);
}

static void take_name(struct addr_reader *r, struct mail_address *a, size_t n)
{
	if (!n)
		return;
	if (addr_name(r, r->token, n))
		fail(r, MAIL_ADDRLIST_MEMORY);
	keep(r, &a->name);
}

static void take_address(struct addr_reader *r, struct mail_address *a, size_t from)
{
	struct addr_spec spec = { 0 };
	addr_spec(r, r->tokens ? r->token + from : NULL, r->tokens - from, r->angle != ADDR_NO_ANGLE, &spec);
	keep(r, &a->address);
	a->valid = spec.valid;
	if (!spec.valid)
		return;
	a->quoted = spec.quoted;
	a->literal = spec.literal;
	a->domain = str_skip(a->address, a->address.n - spec.domain_n);
	a->utf8 = !str_is_ascii(a->address);
	if (spec.quoted) {
		addr_local(r, r->token + from + spec.local_at, spec.local_n);
		keep(r, &a->local);
	} else
		a->local = str_n(a->address.p, a->address.n - spec.domain_n - 1);
}

/* Ends the element that was read: a mailbox, comments, or nothing. */
static void finish(struct addr_reader *r)
{
	struct mail_address *a;
	if (r->angle != ADDR_NO_ANGLE || r->tokens) {
		size_t from = r->names;
		if (r->angle == ADDR_NO_ANGLE) {
			/* no <>: all of it is the address; or a name before it that lacks them, which is wrong and happens */
			from = addr_tail(r->token, r->tokens);
			r->list->bad |= from > 0;
		}
		if (!(a = add_item(r, MAIL_ADDR_MAILBOX)))
			return;
		a->angle = r->angle != ADDR_NO_ANGLE;
		take_name(r, a, from);
		take_address(r, a, from);
		take_comment(r, a);
	} else if (r->comment.n) {
		if ((a = add_item(r, MAIL_ADDR_COMMENT)))
			take_comment(r, a);
		r->list->obsolete |= !r->group && !r->after_group; /* §4.4; at the end of a group it is CFWS */
	} else
		r->list->obsolete |= !r->after_group;
	r->tokens = r->names = 0;
	r->angle = ADDR_NO_ANGLE;
	r->after_group = false;
}

static void begin_group(struct addr_reader *r)
{
	struct mail_address *a = add_item(r, MAIL_ADDR_GROUP);
	if (!a)
		return;
	r->list->bad |= !r->tokens || r->after_group;
	take_name(r, a, r->tokens);
	take_comment(r, a);
	r->tokens = r->names = 0;
	r->group = r->list->n;
	r->after_group = false;
	r->group_empty = true;
}

/* A token that is a word or mark of an element. */
static void add_token(struct addr_reader *r, const struct mail_token *t)
{
	r->list->bad |= r->after_group || r->angle == ADDR_CLOSED;
	if (r->angle == ADDR_CLOSED) /* text behind <…>: a comma is missing */
		finish(r);
	push(r, *t);
}

static void angle_special(struct addr_reader *r, const struct mail_token *t, char c)
{
	if (c == '>') {
		r->angle = ADDR_CLOSED;
	} else if (c == '<') { /* "<<a@b>": the last one opens */
		r->list->bad = true;
		r->tokens = r->names;
	} else
		push(r, *t);
}

static void special(struct addr_reader *r, const struct mail_token *t)
{
	char c = t->text.p[0];
	if (r->angle == ADDR_OPEN) {
		angle_special(r, t, c);
		return;
	}
	switch (c) {
	case ',':
		/* an empty group may be nothing, a list member may not */
		finish(r);
		r->ended = true;
		return;
	case ';':
		r->list->bad |= !r->group;
		if (r->tokens || r->angle != ADDR_NO_ANGLE || r->comment.n || !r->group_empty)
			finish(r);
		r->after_group = r->group > 0;
		r->group = 0;
		return;
	case ':':
		if (!r->group && r->angle == ADDR_NO_ANGLE) {
			begin_group(r);
			return;
		}
		break;
	case '<':
		if (r->angle == ADDR_CLOSED || r->after_group) {
			r->list->bad = true;
			finish(r);
		}
		r->names = r->tokens;
		r->angle = ADDR_OPEN;
		return;
	case '>':
		r->list->bad = true; /* a stray one says nothing */
		return;
	case '.':
	case '@':
		break;
	default: /* a closer without its opener, a backslash, a control */
		r->list->bad = true;
	}
	add_token(r, t);
}

static void read_all(struct addr_reader *r, struct str value)
{
	struct mail_scanner s;
	struct mail_token t;
	size_t count = 0;
	mail_scanner_init(&s, value);
	for (mail_scanner_next(&s, &t); t.kind != MAIL_TOKEN_END && !r->error; mail_scanner_next(&s, &t)) {
		if (++count > MAIL_ADDRLIST_TOKENS_MAX || s.deep) {
			fail(r, MAIL_ADDRLIST_LIMIT);
			return;
		}
		if (t.kind != MAIL_TOKEN_COMMENT)
			t.blank |= r->commented;
		r->commented = t.kind == MAIL_TOKEN_COMMENT;
		r->ended = false;
		if (t.kind == MAIL_TOKEN_COMMENT)
			add_comment(r, t.text);
		else if (t.kind == MAIL_TOKEN_SPECIAL)
			special(r, &t);
		else
			add_token(r, &t);
		r->group_empty &= t.kind == MAIL_TOKEN_COMMENT || (t.kind == MAIL_TOKEN_SPECIAL && t.text.p[0] == ':');
	}
	r->list->bad |= s.bad || r->group || r->angle == ADDR_OPEN;
	if (r->tokens || r->angle != ADDR_NO_ANGLE || r->comment.n)
		finish(r);
	r->list->obsolete |= r->ended;
	r->list->bad |= !mail_addrlist_mailboxes(r->list) && !r->list->n;
}

int mail_addrlist_parse(struct mail_addrlist *ret, struct str value)
{
	struct addr_reader r = { .list = ret };
	*ret = (struct mail_addrlist){ 0 };
	if (value.n > SIZE_MAX / 32)
		return MAIL_ADDRLIST_LIMIT;
	ret->mem = arena_new(value.n * 16 + 4096);
	if (!ret->mem)
		return MAIL_ADDRLIST_MEMORY;
	r.scratch = r.comment = BUF_INIT(value.n * 4 + 1024);
	r.comment_decoder.out = &r.comment;
	read_all(&r, value);
	for (size_t i = 0; i < ret->n; i++)
		ret->bad |= ret->item[i].kind == MAIL_ADDR_MAILBOX && !ret->item[i].valid;
	free(r.token);
	buf_free(&r.scratch);
	buf_free(&r.comment);
	if (r.error)
		mail_addrlist_free(ret);
	return r.error;
}

void mail_addrlist_free(struct mail_addrlist *l)
{
	arena_free(l->mem);
	free(l->item);
	*l = (struct mail_addrlist){ 0 };
}

size_t mail_addrlist_mailboxes(const struct mail_addrlist *l)
{
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++)
		n += l->item[i].kind == MAIL_ADDR_MAILBOX;
	return n;
}
