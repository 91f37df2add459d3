/* Runs of tokens as addresses and display names (RFC 5322 §3.4, §3.4.1, §4.4). */
#include "proto/mail/addrlist_internal.h"

#include "proto/mail/charset.h"

static bool is_special(const struct mail_token *t, char c)
{
	return t->kind == MAIL_TOKEN_SPECIAL && t->text.p[0] == c;
}

static bool is_word(const struct mail_token *t)
{
	return t->kind == MAIL_TOKEN_ATOM || t->kind == MAIL_TOKEN_QUOTED;
}

/* The text of a quoted string: escapes taken off, folds left for the reader. */
static void unquote(struct str s, struct buf *out)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\\' && i + 1 < s.n)
			i++;
		buf_addc(out, s.p[i]);
	}
}

int addr_name(struct addr_reader *r, const struct mail_token *t, size_t n)
{
	struct mail_decoder d = { .out = &r->scratch };
	for (size_t i = 0; i < n; i++) {
		bool word = is_word(&t[i]);
		d.blank |= i && (t[i].blank || (word && is_word(&t[i - 1])));
		if (is_special(&t[i], '.'))
			r->list->obsolete = true; /* obs-phrase: "Joe Q. Public" */
		else if (!word)
			r->list->loose = true;
		if (t[i].kind == MAIL_TOKEN_QUOTED) {
			struct buf plain = BUF_INIT(t[i].text.n + 1);
			unquote(t[i].text, &plain);
			if (mail_decoder_add(&d, buf_str(&plain), false) || plain.failed)
				r->scratch.failed = true;
			buf_free(&plain);
		} else if (t[i].kind == MAIL_TOKEN_LITERAL) {
			if (mail_decoder_add(&d, STR("["), false) || mail_decoder_add(&d, t[i].text, true) ||
			    mail_decoder_add(&d, STR("]"), false))
				r->scratch.failed = true;
		} else if (mail_decoder_add(&d, t[i].text, false))
			r->scratch.failed = true;
	}
	mail_decoder_end(&d); /* "John " in quotes */
	return r->scratch.failed ? -1 : 0;
}

/* Tokens of word *("." word) at the start. */
static size_t dotted(const struct mail_token *t, size_t n, bool words)
{
	size_t i = 0;
	while (i < n && (words ? is_word(&t[i]) : t[i].kind == MAIL_TOKEN_ATOM)) {
		i++;
		if (i + 1 >= n || !is_special(&t[i], '.'))
			return i;
		i++;
	}
	return i ? i - 1 : 0;
}

static bool atext_only(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!mail_is_atext(s.p[i]))
			return false;
	return s.n > 0 && str_is_utf8(s);
}

static bool dot_atom(struct str s)
{
	bool dot = true;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '.' ? dot : !mail_is_atext(s.p[i]))
			return false;
		dot = s.p[i] == '.';
	}
	return !dot;
}

void addr_local(struct addr_reader *r, const struct mail_token *t, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (t[i].kind != MAIL_TOKEN_QUOTED) {
			buf_adds(&r->scratch, t[i].text);
			continue;
		}
		for (size_t k = 0; k < t[i].text.n; k++) { /* §2.2.3: the line ends of folds are not there */
			char c = t[i].text.p[k];
			if (c == '\r' || c == '\n')
				continue;
			if (c == '\\' && k + 1 < t[i].text.n)
				c = t[i].text.p[++k];
			buf_addc(&r->scratch, c);
		}
	}
}

/* Writes the local part in its shortest form. False: it cannot be one. */
static bool write_local(struct addr_reader *r, const struct mail_token *t, size_t n, bool *ret_quoted)
{
	addr_local(r, t, n);
	struct str local = buf_str(&r->scratch);
	for (size_t i = 0; i < n; i++) {
		r->list->obsolete |= (i && t[i].blank) || (n > 1 && t[i].kind == MAIL_TOKEN_QUOTED);
		if (t[i].bad || (t[i].kind == MAIL_TOKEN_ATOM && !atext_only(t[i].text)))
			return false;
	}
	for (size_t i = 0; i < local.n; i++)
		if (((unsigned char)local.p[i] < 32 && local.p[i] != '\t') || local.p[i] == 127)
			return false; /* obs-qtext and obs-qp allow controls; nobody has them for good reasons */
	if (local.n && !str_is_utf8(local))
		return false;
	*ret_quoted = !dot_atom(local);
	if (!*ret_quoted)
		return true;
	struct buf quoted = BUF_INIT(local.n * 2 + 3);
	buf_addc(&quoted, '"');
	for (size_t i = 0; i < local.n; i++) {
		if (local.p[i] == '"' || local.p[i] == '\\')
			buf_addc(&quoted, '\\');
		buf_addc(&quoted, local.p[i]);
	}
	buf_addc(&quoted, '"');
	buf_reset(&r->scratch);
	buf_adds(&r->scratch, buf_str(&quoted));
	buf_free(&quoted);
	return true;
}

/* dtext (RFC 5322 §3.4.1): its blanks are folding. Escapes are obsolete, and mean nothing in any address there is. */
static bool write_literal(struct addr_reader *r, const struct mail_token *t)
{
	buf_addc(&r->scratch, '[');
	for (size_t i = 0; i < t->text.n; i++) {
		char c = t->text.p[i];
		if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
			continue;
		if ((unsigned char)c <= 32 || c == 127 || c == '[' || c == '\\')
			return false;
		buf_addc(&r->scratch, c);
	}
	buf_addc(&r->scratch, ']');
	return !t->bad && (!t->text.n || str_is_utf8(t->text));
}

static bool write_domain(struct addr_reader *r, const struct mail_token *t, size_t n, bool *ret_literal)
{
	*ret_literal = n == 1 && t[0].kind == MAIL_TOKEN_LITERAL;
	if (*ret_literal)
		return write_literal(r, t);
	if (!n || dotted(t, n, false) != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		r->list->obsolete |= i && t[i].blank;
		if (t[i].kind == MAIL_TOKEN_ATOM && !atext_only(t[i].text))
			return false;
		buf_adds(&r->scratch, t[i].text);
	}
	return true;
}

/* obs-route (§4.4): *(CFWS / ",") "@" domain *("," [CFWS] ["@" domain]) ":". Tokens it takes; 0: there is none. */
static size_t route(const struct mail_token *t, size_t n)
{
	bool at = false;
	if (!n || !(is_special(t, '@') || is_special(t, ',')))
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (is_special(&t[i], ':'))
			return at ? i + 1 : 0;
		if (is_special(&t[i], '@')) {
			size_t d = i + 1 < n && t[i + 1].kind == MAIL_TOKEN_LITERAL ? 1 : dotted(t + i + 1, n - i - 1, false);
			if (!d)
				return 0;
			at = true;
			i += d;
		} else if (!is_special(&t[i], ','))
			return 0;
	}
	return 0;
}

/* What stands there, for people. */
static void write_raw(struct addr_reader *r, const struct mail_token *t, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool quoted = t[i].kind == MAIL_TOKEN_QUOTED, literal = t[i].kind == MAIL_TOKEN_LITERAL;
		if (i && t[i].blank)
			buf_addc(&r->scratch, ' ');
		if (quoted || literal)
			buf_addc(&r->scratch, quoted ? '"' : '[');
		mail_charset_clean(t[i].text, &r->scratch);
		if (quoted || literal)
			buf_addc(&r->scratch, quoted ? '"' : ']');
	}
}

void addr_spec(struct addr_reader *r, const struct mail_token *t, size_t n, bool may_route, struct addr_spec *ret)
{
	struct addr_spec spec = { 0 };
	size_t skip = may_route ? route(t, n) : 0, local = n > skip ? dotted(t + skip, n - skip, true) : 0, at = skip + local;
	r->list->obsolete |= skip > 0;
	if (local && at < n && is_special(&t[at], '@')) {
		spec.local_at = skip;
		spec.local_n = local;
		bool ok = write_local(r, t + skip, local, &spec.quoted);
		buf_addc(&r->scratch, '@');
		size_t before = r->scratch.n;
		spec.valid = ok && write_domain(r, t + at + 1, n - at - 1, &spec.literal) &&
		    r->scratch.n <= MAIL_ADDRLIST_PIECE_MAX;
		spec.domain_n = r->scratch.n - before;
	}
	if (!spec.valid) {
		buf_reset(&r->scratch);
		write_raw(r, t, n);
	}
	*ret = spec;
}

size_t addr_tail(const struct mail_token *t, size_t n)
{
	size_t at = n;
	while (at > 0 && !is_special(&t[at - 1], '@'))
		at--;
	if (at < 2)
		return 0; /* no "@", or nothing before it */
	size_t from = at - 1; /* of the "@" */
	while (from > 0 && is_word(&t[from - 1])) {
		from--;
		if (from < 2 || !is_special(&t[from - 1], '.') || !is_word(&t[from - 2]))
			break;
		from--;
	}
	bool domain = at < n && ((at + 1 == n && t[at].kind == MAIL_TOKEN_LITERAL) || dotted(t + at, n - at, false) == n - at);
	/* only where words stand before it: "a@b@c" is no name and an address */
	for (size_t i = 0; i < from; i++)
		if (!is_word(&t[i]) && !is_special(&t[i], '.'))
			return 0;
	return domain && from && from < at - 1 && t[from].blank && is_word(&t[0]) ? from : 0;
}
