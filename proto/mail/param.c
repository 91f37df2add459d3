/* Values with parameters; see param.h. Each octet is looked at a bounded number of times; nothing recurses. */
#include "proto/mail/param.h"

#include "proto/mail/charset.h"
#include "proto/mail/header.h"

/* One "name=value" as it was written. */
struct piece {
	struct str base, value;
	unsigned section; /* of a continuation (RFC 2231 §3) */
	bool numbered, extended, used;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Appends what stands before a ';' (or '=', where that ends it), without blanks and comments, in lower case. A type ends at a blank, too:
 * some forget the ';' behind it. */
static size_t word(struct str s, size_t i, bool name, struct buf *out)
{
	bool slash = false;
	for (;;) {
		size_t from = i;
		i = mail_skip_cfws(s, i);
		if (i == s.n || s.p[i] == ';' || (name && s.p[i] == '='))
			return i;
		if (!name && i > from && slash && s.p[i] != '/' && out->p[out->n - 1] != '/')
			return i;
		slash |= s.p[i] == '/';
		buf_addc(out, ascii_lower(s.p[i++]));
	}
}

/* Appends a quoted string that begins at i; gives the place behind it. */
static size_t quoted(struct str s, size_t i, struct buf *out, bool *bad)
{
	for (i++; i < s.n; i++) {
		char c = s.p[i];
		if (c == '"')
			return i + 1;
		if (c == '\\' && i + 1 < s.n)
			c = s.p[++i];
		else if (c == '\r' || c == '\n')
			continue;
		buf_addc(out, c);
	}
	*bad = true;
	return s.n;
}

/* A value that is not quoted: up to a ';' or a blank. Between two encoded words, which should not be here (RFC 2047 §5), a blank is none. */
static size_t bare(struct str s, size_t i, struct buf *out, bool *bad)
{
	while (i < s.n && s.p[i] != ';') {
		if (s.p[i] == '(' || is_blank(s.p[i])) {
			size_t next = mail_skip_cfws(s, i);
			bool words = out->n > 2 && str_iends(buf_str(out), STR("?=")) && str_starts(str_skip(s, next), STR("=?"));
			if (next < s.n && s.p[next] != ';' && !words) {
				*bad = true; /* up to the next ';' is lost, as with most readers */
				break;
			}
			i = next;
			continue;
		}
		buf_addc(out, s.p[i++]);
	}
	while (i < s.n && s.p[i] != ';')
		i++;
	return i;
}

/* Name, name*, name*3 and name*3*. */
static void take_name(struct str name, struct piece *p)
{
	ptrdiff_t star;
	uint64_t number;
	if (name.n > 1 && name.p[name.n - 1] == '*') {
		p->extended = true;
		name.n--;
	}
	p->base = name;
	if ((star = str_chr(name, '*')) > 0 && str_u64(str_skip(name, (size_t)star + 1), MAIL_PARAMS_MAX, &number) == 0) {
		struct str digits = str_skip(name, (size_t)star + 1);
		if (digits.n > 1 && digits.p[0] == '0')
			return; /* RFC 2231 §7: no leading zeroes */
		p->base.n = (size_t)star;
		p->numbered = true;
		p->section = (unsigned)number;
	}
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

static void percent(struct str s, struct buf *out)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '%' && i + 2 < s.n && hex(s.p[i + 1]) >= 0 && hex(s.p[i + 2]) >= 0) {
			buf_addc(out, (char)(hex(s.p[i + 1]) << 4 | hex(s.p[i + 2])));
			i += 2;
		} else {
			buf_addc(out, s.p[i]);
		}
	}
}

/* Takes charset'language' off the front. */
static bool take_charset(struct str *value, struct str *charset, struct str *language)
{
	ptrdiff_t a = str_chr(*value, '\''), b = a < 0 ? -1 : str_chr(str_skip(*value, (size_t)a + 1), '\'');
	if (b < 0)
		return false;
	*charset = str_n(value->p, (size_t)a);
	*language = str_n(value->p + a + 1, (size_t)b);
	*value = str_skip(*value, (size_t)(a + b) + 2);
	return true;
}

/* One parameter out of all pieces with its name: an extended value before a plain one before continuations in plain. */
static int put_together(struct mail_params *ret, struct piece *all, size_t n, size_t first)
{
	struct str base = all[first].base, charset = STR_NULL, language = STR_NULL, value;
	struct buf octets = BUF_INIT(MAIL_PARAMS_OCTETS_MAX), text = BUF_INIT(MAIL_PARAMS_OCTETS_MAX * 4);
	struct piece *single = NULL, *section[MAIL_PARAMS_MAX + 1] = { NULL };
	size_t numbered = 0, last = 0;
	for (size_t i = first; i < n; i++) {
		if (all[i].used || !str_eq(all[i].base, base))
			continue;
		all[i].used = true;
		if (all[i].numbered) {
			ret->bad |= section[all[i].section] != NULL;
			if (!section[all[i].section])
				section[all[i].section] = &all[i];
			numbered++;
			last = all[i].section > last ? all[i].section : last;
		} else {
			ret->bad |= single && single->extended == all[i].extended;
			if (!single || (!single->extended && all[i].extended))
				single = &all[i];
		}
	}
	ret->bad |= numbered && numbered != last + 1;
	if (section[0] && !(single && single->extended))
		single = NULL;
	if (!single && !section[0])
		return 0; /* continuations of nothing */
	for (size_t i = 0; single || (i <= MAIL_PARAMS_MAX && section[i]); i++) {
		struct piece *p = single ? single : section[i];
		value = p->value;
		if (i == 0 && p->extended)
			ret->bad |= !take_charset(&value, &charset, &language);
		if (p->extended)
			percent(value, &octets);
		else
			buf_adds(&octets, value);
		if (single)
			break;
	}
	struct str whole = buf_str(&octets);
	if (charset.n && mail_charset_to_utf8(charset, whole, &text) == 0)
		whole = buf_str(&text);
	struct mail_param *out = &ret->item[ret->n];
	out->name = arena_str(ret->mem, base);
	out->value = arena_str(ret->mem, whole);
	out->language = arena_str(ret->mem, language);
	bool failed = octets.failed || text.failed || !out->name.p || !out->value.p || !out->language.p;
	ret->n++;
	buf_free(&octets);
	buf_free(&text);
	return failed ? MAIL_PARAMS_MEMORY : 0;
}

static int read_all(struct mail_params *ret, struct str s, struct piece *pieces)
{
	struct buf b = BUF_INIT(MAIL_PARAMS_OCTETS_MAX + 1);
	size_t n = 0;
	int r = 0;
	size_t i = word(s, 0, false, &b);
	ret->value = arena_str(ret->mem, buf_str(&b));
	ptrdiff_t slash = str_chr(ret->value, '/');
	ret->type = slash < 0 ? ret->value : str_n(ret->value.p, (size_t)slash);
	ret->subtype = slash < 0 ? STR_NULL : str_skip(ret->value, (size_t)slash + 1);
	ret->bad |= !ret->type.n || (slash >= 0 && !ret->subtype.n);
	while (i < s.n && !r) {
		struct piece p = { 0 };
		ret->bad |= s.p[i] != ';';
		i += s.p[i] == ';';
		buf_reset(&b);
		i = word(s, i, true, &b);
		if (i == s.n || s.p[i] == ';') {
			ret->bad |= b.n > 0;
			continue;
		}
		struct str name = arena_str(ret->mem, buf_str(&b));
		take_name(name, &p);
		i = mail_skip_cfws(s, i + 1);
		buf_reset(&b);
		bool in_quotes = i < s.n && s.p[i] == '"';
		if (in_quotes) {
			i = mail_skip_cfws(s, quoted(s, i, &b, &ret->bad));
			ret->bad |= i < s.n && s.p[i] != ';';
			while (i < s.n && s.p[i] != ';')
				i++;
		} else {
			i = bare(s, i, &b, &ret->bad);
		}
		p.value = arena_str(ret->mem, buf_str(&b));
		if (!name.n || (!b.n && !in_quotes)) {
			ret->bad = true;
			continue;
		}
		if (b.failed || !name.p || !p.value.p)
			r = MAIL_PARAMS_MEMORY;
		else if (n == MAIL_PARAMS_MAX)
			r = MAIL_PARAMS_LIMIT;
		else
			pieces[n++] = p;
	}
	if (b.failed)
		r = MAIL_PARAMS_MEMORY;
	buf_free(&b);
	ret->item = arena_calloc(ret->mem, n + 1, sizeof *ret->item);
	if (!ret->item)
		r = MAIL_PARAMS_MEMORY;
	for (size_t k = 0; k < n && !r; k++)
		if (!pieces[k].used)
			r = put_together(ret, pieces, n, k);
	return r;
}

int mail_params_parse(struct mail_params *ret, struct str value)
{
	struct piece *pieces;
	int r = MAIL_PARAMS_MEMORY;
	*ret = (struct mail_params){ 0 };
	if (value.n > MAIL_PARAMS_OCTETS_MAX)
		return MAIL_PARAMS_LIMIT;
	ret->mem = arena_new(MAIL_PARAMS_OCTETS_MAX * 16);
	pieces = ret->mem ? arena_calloc(ret->mem, MAIL_PARAMS_MAX, sizeof *pieces) : NULL;
	if (pieces)
		r = read_all(ret, value, pieces);
	if (r)
		mail_params_free(ret);
	return r;
}

void mail_params_free(struct mail_params *p)
{
	arena_free(p->mem);
	*p = (struct mail_params){ 0 };
}

struct str mail_params_get(const struct mail_params *p, struct str name)
{
	for (size_t i = 0; i < p->n; i++)
		if (str_eq(p->item[i].name, name))
			return p->item[i].value;
	return STR_NULL;
}
