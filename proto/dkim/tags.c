/* Reads tag lists and the forms of their values. Looks at octets only; keeps nothing, allocates nothing. */
#include "tags.h"

static bool wsp(char c)
{
	return c == ' ' || c == '\t';
}

/* Behind the white space at i: blanks, and CRLFs that a blank follows (RFC 6376 §2.8). */
static size_t skip_fws(struct str s, size_t i)
{
	for (;;) {
		if (i < s.n && wsp(s.p[i]))
			i++;
		else if (i + 2 < s.n && s.p[i] == '\r' && s.p[i + 1] == '\n' && wsp(s.p[i + 2]))
			i += 3;
		else
			return i;
	}
}

/* One "name = value" from *i up to its ";" or the end. */
static int parse_tag(struct str s, size_t *i, struct dkim_tag *t, const char **why)
{
	size_t at = *i, from = at;
	if (at == s.n || !ascii_is_alpha(s.p[at]))
		return *why = "a tag without a name", -1;
	while (at < s.n && (ascii_is_alpha(s.p[at]) || ascii_is_digit(s.p[at]) || s.p[at] == '_'))
		at++;
	t->name = str_n(s.p + from, at - from);
	at = skip_fws(s, at);
	if (at == s.n || s.p[at] != '=')
		return *why = "a tag without \"=\"", -1;
	t->begin = ++at;
	from = at = skip_fws(s, at);
	size_t last = at; /* behind the last octet that is no white space */
	while (at < s.n && s.p[at] != ';') {
		size_t next = skip_fws(s, at);
		if (next > at) {
			at = next;
			continue;
		}
		/* VALCHAR, and UTF-8 (RFC 8616 §4) */
		if ((unsigned char)s.p[at] < 0x21 || s.p[at] == 0x7f)
			return *why = "a control in a tag", -1;
		last = ++at;
	}
	t->value = str_n(s.p + from, last - from);
	t->end = at;
	*i = at;
	return 0;
}

int dkim_tags_parse(struct str s, struct dkim_tags *ret, const char **why)
{
	size_t i = skip_fws(s, 0);
	ret->n = 0;
	if (!str_is_utf8(s))
		return *why = "not UTF-8", -1;
	if (i == s.n)
		return *why = "no tags", -1;
	while (i < s.n) {
		if (ret->n == DKIM_TAGS_MAX)
			return *why = "too many tags", -1;
		struct dkim_tag *t = &ret->tag[ret->n];
		if (parse_tag(s, &i, t, why))
			return -1;
		for (size_t k = 0; k < ret->n; k++)
			if (str_eq(ret->tag[k].name, t->name))
				return *why = "a tag twice", -1;
		ret->n++;
		if (i < s.n) /* at a ";" */
			i = skip_fws(s, i + 1);
	}
	return 0;
}

const struct dkim_tag *dkim_tags_get(const struct dkim_tags *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (str_eq(t->tag[i].name, str_from(name)))
			return &t->tag[i];
	return NULL;
}

bool dkim_tags_item(struct str *rest, bool *more, struct str *ret)
{
	if (!*more)
		return false;
	ptrdiff_t colon = str_chr(*rest, ':');
	*more = colon >= 0;
	*ret = str_trim(*more ? str_n(rest->p, (size_t)colon) : *rest);
	if (*more)
		*rest = str_skip(*rest, (size_t)colon + 1);
	return true;
}

bool dkim_tags_lists(struct str list, struct str word)
{
	struct str item;
	bool more = true;
	while (dkim_tags_item(&list, &more, &item))
		if (str_eq(item, word))
			return true;
	return false;
}

static int sextet(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : ascii_is_digit(c) ? c - '0' + 52 :
	       c == '+' ? 62 : c == '/' ? 63 : -1;
}

long dkim_base64(struct str s, unsigned char *out, size_t max)
{
	uint32_t bits = 0;
	unsigned n_bits = 0, digits = 0, pads = 0;
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (wsp(c) || c == '\r' || c == '\n')
			continue;
		if (c == '=') {
			if (++pads > 2)
				return -1;
			continue;
		}
		int v = sextet(c);
		if (v < 0 || pads)
			return -1;
		bits = bits << 6 | (uint32_t)v;
		n_bits += 6;
		digits = (digits + 1) % 4;
		if (n_bits < 8)
			continue;
		n_bits -= 8;
		if (n == max)
			return -1;
		out[n++] = (unsigned char)(bits >> n_bits);
		bits &= (1u << n_bits) - 1;
	}
	/* a single digit encodes nothing; padding, where there is some, must fit */
	if (digits == 1 || (pads && (digits + pads) % 4))
		return -1;
	return (long)n;
}

long dkim_unquote(struct str s, char *out)
{
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (wsp(c) || c == '\r' || c == '\n')
			continue;
		if (c == '=') {
			int high = i + 2 < s.n ? ascii_hex(s.p[i + 1]) : -1, low = i + 2 < s.n ? ascii_hex(s.p[i + 2]) : -1;
			if (high < 0 || low < 0)
				return -1;
			c = (char)(high << 4 | low);
			i += 2;
		}
		out[n++] = c;
	}
	return (long)n;
}

int dkim_number(struct str s, uint64_t *ret)
{
	uint64_t v = 0;
	if (!s.n || s.n > 76)
		return -1;
	for (size_t i = 0; i < s.n; i++) {
		if (!ascii_is_digit(s.p[i]))
			return -1;
		v = v > 999999999999 ? v : v * 10 + (uint64_t)(s.p[i] - '0');
	}
	*ret = v > 999999999999 ? UINT64_MAX : v;
	return 0;
}
