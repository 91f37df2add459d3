/* Fields as ASCII (ascii.h): which kind a field is of, and the kinds without a grammar of their own here: text, addresses, parameters. */
#include "proto/mail/ascii.h"

#include "proto/mail/addrlist.h"
#include "proto/mail/encoded.h"
#include "proto/mail/param.h"
#include "proto/address/address.h"

enum {
	WORD_MOST = 900,      /* a longer word of text is encoded: it would fit no line */
	BLANKS_MOST = 80,     /* … and more blanks are fewer */
	PIECE = 60,           /* octets of a parameter's section (RFC 2231 §3) */
	PIECE_LONG = 900,
	SECTIONS_MAX = 90,    /* readers, ours too, have their limits (MAIL_PARAMS_MAX) */
	VALUE_MAX = 1 << 20,
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool listed(const char *const *names, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_ieq(name, str_from(names[i])))
			return true;
	return false;
}
#define LISTED(table, name) listed(table, sizeof(table) / sizeof *(table), name)

bool mail_field_is_trace(struct str name)
{
	static const char *const names[] = { "Received", "Return-Path", "Delivered-To", "X-Original-To", "Envelope-To", "X-Envelope-To", "X-Envelope-From",
		"Authentication-Results", "Received-SPF", "DKIM-Signature", "DomainKey-Signature", "ARC-Seal", "ARC-Message-Signature",
		"ARC-Authentication-Results" };
	return LISTED(names, name);
}

static bool has_addresses(struct str name)
{
	static const char *const names[] = { "From", "Sender", "Reply-To", "To", "Cc", "Bcc", "Resent-From", "Resent-Sender", "Resent-Reply-To", "Resent-To",
		"Resent-Cc", "Resent-Bcc", "Disposition-Notification-To", "Return-Receipt-To", "Mail-Followup-To", "Mail-Reply-To", "Errors-To", "Apparently-To",
		"Return-Path", "Delivered-To", "X-Original-To", "Envelope-To", "X-Envelope-To", "X-Envelope-From" };
	return LISTED(names, name);
}

static bool has_grammar(struct str name)
{
	static const char *const names[] = { "Received", "Date", "Resent-Date", "MIME-Version", "Content-Transfer-Encoding", "Content-ID", "Message-ID",
		"Resent-Message-ID", "In-Reply-To", "References", "Keywords", "Auto-Submitted", "Content-Language", "Content-Location", "Content-Base", "Content-MD5",
		"Autocrypt", "Require-Recipient-Valid-Since", "TLS-Required", "Authentication-Results", "Received-SPF", "DKIM-Signature", "DomainKey-Signature", "ARC-Seal",
		"ARC-Message-Signature", "ARC-Authentication-Results" };
	return LISTED(names, name) || str_istarts(name, STR("List-"));
}

bool mail_field_needs_ascii(struct str all)
{
	size_t begin = 0;
	for (size_t i = 0; i < all.n; i++) {
		unsigned char c = (unsigned char)all.p[i];
		if (c > 127 || !c || (c == '\n' && (!i || all.p[i - 1] != '\r')) || (c == '\r' && (i + 1 == all.n || all.p[i + 1] != '\n')))
			return true;
		if (c == '\n')
			begin = i + 1;
		else if (i - begin >= MAIL_LINE_MAX + (c == '\r'))
			return true;
	}
	return false;
}

/* -- lines */

void mail_ascii_begin(struct mail_ascii_line *l, struct buf *out, struct str name)
{
	buf_adds(out, name);
	buf_addc(out, ':');
	*l = (struct mail_ascii_line){ .out = out, .column = name.n + 1, .least = name.n + 1 };
}

void mail_ascii_word(struct mail_ascii_line *l, struct str blanks, struct str word)
{
	if (blanks.n > BLANKS_MOST)
		blanks.n = BLANKS_MOST;
	if (blanks.n && l->column > l->least && l->column + blanks.n + word.n > MAIL_LINE_WANT) {
		buf_add(l->out, "\r\n", 2);
		l->column = l->least = 0;
	}
	buf_adds(l->out, blanks);
	buf_adds(l->out, word);
	l->column += blanks.n + word.n;
	l->bad |= l->column > MAIL_LINE_MAX;
}

void mail_ascii_encoded(struct mail_ascii_line *l, struct str blanks, struct str text, const char *before, const char *after)
{
	const char *charset = str_is_utf8(text) ? "utf-8" : "unknown-8bit";
	struct buf b = BUF_INIT(1024);
	buf_addz(&b, before);
	while (mail_encoded_next_in(charset, &text, &b)) {
		if (!text.n)
			buf_addz(&b, after);
		mail_ascii_word(l, blanks, buf_str(&b));
		blanks = STR(" ");
		l->bad |= b.failed;
		buf_reset(&b);
	}
	buf_free(&b);
}

/* -- text */

struct words {
	struct str rest;
	struct str blanks, word; /* the next one, and what stands before it */
};

static bool next_word(struct words *w)
{
	size_t i = 0, k;
	while (i < w->rest.n && is_blank(w->rest.p[i]))
		i++;
	for (k = i; k < w->rest.n && !is_blank(w->rest.p[k]); k++)
		;
	w->blanks = str_n(w->rest.p, i);
	w->word = str_n(str_skip(w->rest, i).p, k - i);
	w->rest = str_skip(w->rest, k);
	return k > i;
}

static bool to_encode(struct str word)
{
	return !str_is_ascii(word) || word.n > WORD_MOST;
}

/* A word that a reader takes for an encoded one swallows the blanks between it and ours. */
static bool looks_encoded(struct str word)
{
	return word.n && mail_encoded_span(word) > 0;
}

/* Words that need it, side by side, become one encoded text, the blanks between them within; all else stays as it is. */
static void text(struct mail_ascii_line *l, struct str value)
{
	struct words w = { .rest = value };
	bool before = false, more = next_word(&w);
	if (more && !w.blanks.n)
		w.blanks = STR(" ");
	while (more) {
		if (!to_encode(w.word)) {
			mail_ascii_word(l, w.blanks, w.word);
			before = looks_encoded(w.word);
			more = next_word(&w);
			continue;
		}
		/* from..to: the blanks before it belong to it where they would be lost */
		struct str blanks = w.blanks;
		const char *from = before && blanks.n > 0 ? blanks.p : w.word.p, *to = w.word.p + w.word.n; /* none is empty */
		while ((more = next_word(&w)) && to_encode(w.word))
			to = w.word.p + w.word.n;
		before = more && looks_encoded(w.word);
		if (before)
			to = w.word.p;
		mail_ascii_encoded(l, blanks, str_n(from, (size_t)(to - from)), "", "");
		if (before)
			w.blanks = STR(" ");
		before = false;
	}
}

static enum mail_ascii unstructured(const struct mail_field *f, struct buf *out)
{
	struct buf value = BUF_INIT(f->value.n + 1);
	struct mail_ascii_line l;
	mail_field_unfold(&value, f->value);
	mail_ascii_begin(&l, out, f->name);
	text(&l, buf_str(&value));
	buf_add(out, "\r\n", 2);
	bool memory = value.failed || out->failed;
	buf_free(&value);
	return memory ? MAIL_ASCII_MEMORY : l.bad ? MAIL_ASCII_FIELD : MAIL_ASCII_DONE;
}

/* -- addresses */

/* The address with its domain in A-labels. */
static enum mail_ascii address(struct mail_addrlist *l, struct mail_address *a)
{
	struct buf b = BUF_INIT(1024);
	struct str front = str_n(a->address.p, a->address.n - a->domain.n);
	if (!str_is_ascii(front))
		return MAIL_ASCII_ADDRESS;
	buf_adds(&b, front);
	int r = a->literal ? -1 : smtp_domain_to_ascii(a->domain, &b);
	struct str whole = r ? STR_NULL : arena_str(l->mem, buf_str(&b));
	buf_free(&b);
	if (r)
		return MAIL_ASCII_FIELD;
	if (!whole.p)
		return MAIL_ASCII_MEMORY;
	a->address = whole;
	a->domain = str_skip(whole, front.n);
	a->utf8 = false;
	return MAIL_ASCII_DONE;
}

static enum mail_ascii addresses(const struct mail_field *f, struct buf *out, struct str *culprit)
{
	struct mail_addrlist l;
	enum mail_ascii r = MAIL_ASCII_DONE;
	size_t named = 0;
	int rc = mail_addrlist_parse(&l, f->value);
	if (rc)
		return rc == MAIL_ADDRLIST_MEMORY ? MAIL_ASCII_MEMORY : MAIL_ASCII_FIELD;
	if (l.bad)
		r = MAIL_ASCII_FIELD;
	for (size_t i = 0; i < l.n && r == MAIL_ASCII_DONE; i++) {
		struct mail_address *a = &l.item[i];
		named += a->kind != MAIL_ADDR_COMMENT;
		if (a->kind != MAIL_ADDR_MAILBOX)
			continue;
		if (!a->valid)
			r = MAIL_ASCII_FIELD; /* it would be left out */
		else if (a->utf8)
			r = address(&l, a);
		if (r == MAIL_ASCII_ADDRESS || r == MAIL_ASCII_FIELD) {
			/* where it stands in the field, for whoever is told */
			const char *at = a->address.n ? memmem(f->value.p, f->value.n, a->address.p, a->address.n) : NULL;
			*culprit = at ? str_n(at, a->address.n) : STR_NULL;
		}
	}
	if (r == MAIL_ASCII_DONE && !named) {
		r = mail_ascii_structured(f, out, culprit);
	} else if (r == MAIL_ASCII_DONE && mail_addrlist_write(out, f->name, &l, false)) {
		r = out->failed ? MAIL_ASCII_MEMORY : MAIL_ASCII_FIELD;
	}
	mail_addrlist_free(&l);
	return r;
}

/* -- parameters */

/* attribute-char (RFC 2231 §7): a token without what that syntax needs itself */
static bool plain(unsigned char c)
{
	return c > 32 && c < 127 && !memchr("()<>@,;:\\\"/[]?=*'%", c, 18);
}

static bool is_token(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!plain((unsigned char)s.p[i]) && !memchr("*'%", s.p[i], 3))
			return false;
	return s.n > 0;
}

static bool is_printable(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 32 || (unsigned char)s.p[i] > 126)
			return false;
	return true;
}

static void quoted(struct str s, struct buf *b)
{
	buf_addc(b, '"');
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '"' || s.p[i] == '\\')
			buf_addc(b, '\\');
		buf_addc(b, s.p[i]);
	}
	buf_addc(b, '"');
}

/* name*=utf-8'en'…, or name*0*=…; name*1*=… */
static void extended(struct mail_ascii_line *l, const struct mail_param *p, bool last)
{
	static const char xdigits[] = "0123456789ABCDEF";
	struct buf b = BUF_INIT(PIECE_LONG + 2048);
	size_t n = 0, section = 0, most;
	for (size_t i = 0; i < p->value.n; i++)
		n += plain((unsigned char)p->value.p[i]) ? 1 : 3;
	most = n / PIECE < SECTIONS_MAX ? PIECE : PIECE_LONG;
	l->bad |= n / most >= SECTIONS_MAX || p->language.n > 64 || !is_printable(p->language) || !is_token(p->name);
	bool parted = n > most;
	for (size_t i = 0; (i < p->value.n || !section) && !l->bad; section++) {
		buf_reset(&b);
		buf_adds(&b, p->name);
		if (parted)
			buf_addf(&b, "*%zu", section);
		buf_addz(&b, "*=");
		if (!section)
			buf_addf(&b, "%s'%.*s'", str_is_utf8(p->value) ? "utf-8" : "unknown-8bit", STR_ARG(p->language));
		for (size_t from = b.n; i < p->value.n && (!parted || b.n - from < most); i++) {
			unsigned char c = (unsigned char)p->value.p[i];
			char escape[3] = { '%', xdigits[c >> 4], xdigits[c & 15] };
			buf_add(&b, plain(c) ? &p->value.p[i] : escape, plain(c) ? 1 : 3);
		}
		if (!last || i < p->value.n)
			buf_addc(&b, ';');
		l->bad |= b.failed;
		mail_ascii_word(l, STR(" "), buf_str(&b));
	}
	buf_free(&b);
}

static enum mail_ascii parameters(const struct mail_field *f, struct buf *out)
{
	struct mail_params p;
	struct mail_ascii_line l;
	struct buf b = BUF_INIT(VALUE_MAX);
	int rc = mail_params_parse(&p, f->value);
	if (rc)
		return rc == MAIL_PARAMS_MEMORY ? MAIL_ASCII_MEMORY : MAIL_ASCII_FIELD;
	mail_ascii_begin(&l, out, f->name);
	buf_adds(&b, p.value);
	if (p.n)
		buf_addc(&b, ';');
	l.bad = !p.value.n || !is_printable(p.value);
	mail_ascii_word(&l, STR(" "), buf_str(&b));
	for (size_t i = 0; i < p.n && !l.bad; i++) {
		const struct mail_param *one = &p.item[i];
		bool boundary = str_eq(one->name, STR("boundary"));
		if (boundary && !is_printable(one->value)) {
			l.bad = true; /* the delimiters could not be sent, either */
		} else if ((!is_printable(one->value) || one->language.n || one->value.n > WORD_MOST) && !boundary) {
			extended(&l, one, i + 1 == p.n);
		} else {
			buf_reset(&b);
			l.bad |= !is_token(one->name);
			buf_adds(&b, one->name);
			buf_addc(&b, '=');
			if (is_token(one->value))
				buf_adds(&b, one->value);
			else
				quoted(one->value, &b);
			if (i + 1 < p.n)
				buf_addc(&b, ';');
			mail_ascii_word(&l, STR(" "), buf_str(&b));
		}
	}
	buf_add(out, "\r\n", 2);
	bool memory = b.failed || out->failed;
	buf_free(&b);
	mail_params_free(&p);
	return memory ? MAIL_ASCII_MEMORY : l.bad ? MAIL_ASCII_FIELD : MAIL_ASCII_DONE;
}

enum mail_ascii mail_field_to_ascii(const struct mail_field *f, struct buf *out, struct str *ret_culprit)
{
	size_t before = out->n;
	enum mail_ascii r;
	struct str culprit = STR_NULL;
	if (has_addresses(f->name))
		r = addresses(f, out, &culprit);
	else if (has_grammar(f->name))
		r = mail_ascii_structured(f, out, &culprit);
	else if (str_ieq(f->name, STR("Content-Type")) || str_ieq(f->name, STR("Content-Disposition")))
		r = parameters(f, out);
	else
		r = unstructured(f, out);
	if (r == MAIL_ASCII_DONE)
		return r;
	if (!out->failed)
		out->n = before;
	if (r != MAIL_ASCII_MEMORY && mail_field_is_trace(f->name) && !str_ieq(f->name, STR("Received")))
		return MAIL_ASCII_LEFT_OUT;
	*ret_culprit = culprit;
	return r;
}
