/* SPF macros (RFC 7208 §7): reading and expanding. Work is linear in text and values, whatever they hold. */
#include "proto/auth/spf_internal.h"

#include <stdio.h>

static bool is_delimiter(char c)
{
	return c && strchr(".-+,/_=", c);
}

int spf_macro_read(struct str s, bool text, struct spf_macro *ret)
{
	*ret = (struct spf_macro){ .n = 2 };
	if (s.n < 2 || s.p[0] != '%')
		return -1;
	if (s.p[1] != '{') {
		ret->literal = s.p[1] == '%' ? "%" : s.p[1] == '_' ? " " : s.p[1] == '-' ? "%20" : NULL;
		return ret->literal ? 0 : -1;
	}
	size_t at = 3;
	if (s.n < 4)
		return -1;
	ret->letter = ascii_lower(s.p[2]);
	ret->escape = s.p[2] >= 'A' && s.p[2] <= 'Z';
	if (s.p[2] < 'A' || !strchr(text ? "slodiphvcrt" : "slodiphv", ret->letter))
		return -1;
	bool digits = false;
	for (; at < s.n && s.p[at] >= '0' && s.p[at] <= '9'; at++, digits = true)
		ret->keep = ret->keep > SPF_VALUE_MAX ? ret->keep : ret->keep * 10 + (unsigned)(s.p[at] - '0');
	if (digits && !ret->keep) /* §7.1: DIGIT must be nonzero */
		return -1;
	if (at < s.n && (s.p[at] | 0x20) == 'r') {
		ret->reverse = true;
		at++;
	}
	ret->delimiters = str_n(s.p + at, 0);
	while (at < s.n && is_delimiter(s.p[at])) {
		at++;
		ret->delimiters.n++;
	}
	if (at == s.n || s.p[at] != '}')
		return -1;
	ret->n = at + 1;
	return 0;
}

bool spf_macro_string_ok(struct str s, bool text)
{
	struct spf_macro m;
	for (size_t at = 0; at < s.n;) {
		if (s.p[at] == '%') {
			if (spf_macro_read(str_skip(s, at), text, &m))
				return false;
			at += m.n;
		} else {
			if (s.p[at] < (text ? 0x20 : 0x21) || s.p[at] > 0x7e)
				return false;
			at++;
		}
	}
	return true;
}

bool spf_macro_occurs(struct str text, char letter)
{
	struct spf_macro m;
	for (size_t at = 0; at < text.n;) {
		bool is = text.p[at] == '%' && spf_macro_read(str_skip(text, at), true, &m) == 0;
		if (is && m.letter == letter)
			return true;
		at += is ? m.n : 1;
	}
	return false;
}

/* Where expanded octets go: the last ones are kept (names), or the first (texts). */
struct sink {
	char *p;
	size_t size, n;
	bool last;
};

static void put(struct sink *k, char c)
{
	if (k->n == k->size) {
		if (!k->last)
			return;
		memmove(k->p, k->p + k->size / 2, k->size - k->size / 2);
		k->n = k->size - k->size / 2;
	}
	k->p[k->n++] = c;
}

static void put_escaped(struct sink *k, struct str s, bool escape)
{
	static const char hex[] = "0123456789ABCDEF";
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		bool plain = ascii_is_alnum(s.p[i]) || (c && strchr("-._~", c));
		if (!escape || plain) {
			put(k, s.p[i]);
			continue;
		}
		put(k, '%');
		put(k, hex[c >> 4]);
		put(k, hex[c & 15]);
	}
}

/* The value in parts, perhaps reversed, its right-most ones, joined with dots (§7.3). */
static void put_value(struct sink *k, const struct spf_macro *m, struct str value)
{
	uint16_t start[SPF_VALUE_MAX + 2];
	size_t n = 0;
	value.n = value.n > sizeof start / sizeof *start - 2 ? sizeof start / sizeof *start - 2 : value.n;
	start[n++] = 0;
	for (size_t i = 0; i < value.n; i++)
		if (m->delimiters.n ? memchr(m->delimiters.p, value.p[i], m->delimiters.n) != NULL : value.p[i] == '.')
			start[n++] = (uint16_t)(i + 1);
	start[n] = (uint16_t)(value.n + 1);
	size_t keep = m->keep && m->keep < n ? m->keep : n;
	for (size_t i = n - keep; i < n; i++) {
		size_t part = m->reverse ? n - 1 - i : i;
		if (i > n - keep)
			put(k, '.');
		put_escaped(k, str_n(value.p + start[part], (size_t)(start[part + 1] - 1 - start[part])), m->escape);
	}
}

static struct str value_of(const struct spf_values *v, char letter)
{
	static const char letters[] = "slodipvhcrt";
	const struct str *const all[] = { &v->s, &v->l, &v->o, &v->d, &v->i, &v->p, &v->v, &v->h, &v->c, &v->r, &v->t };
	const char *at = strchr(letters, letter);
	return at && letter ? *all[at - letters] : STR_NULL;
}

static int expand(struct str s, const struct spf_values *v, bool text, struct sink *k)
{
	struct spf_macro m;
	for (size_t at = 0; at < s.n; at += m.n) {
		m.n = 1;
		if (s.p[at] != '%') {
			put(k, s.p[at]);
			continue;
		}
		if (spf_macro_read(str_skip(s, at), text, &m))
			return -1;
		struct str value = m.literal ? str_from(m.literal) : value_of(v, m.letter);
		if (m.literal)
			put_escaped(k, value, false);
		else if (value.n)
			put_value(k, &m, value);
	}
	return 0;
}

int spf_expand_domain(struct str spec, const struct spf_values *v, char *out)
{
	char octets[4 * (DNS_NAME_MAX + 1)];
	struct sink k = { octets, sizeof octets, 0, true };
	out[0] = 0;
	if (expand(spec, v, false, &k))
		return -1;
	struct str name = str_n(octets, k.n);
	if (name.n && name.p[name.n - 1] == '.')
		name.n--;
	while (name.n > DNS_NAME_MAX) {
		ptrdiff_t dot = str_chr(name, '.');
		if (dot < 0)
			return -1;
		name = str_skip(name, (size_t)dot + 1);
	}
	if (name.n)
		memcpy(out, name.p, name.n);
	out[name.n] = 0;
	return (int)name.n;
}

int spf_expand_text(struct str text, const struct spf_values *v, char *out, size_t size)
{
	struct sink k = { out, size - 1, 0, false };
	out[0] = 0;
	int bad = !spf_macro_string_ok(text, true) || expand(text, v, true, &k);
	for (size_t i = 0; i < k.n; i++)
		bad |= out[i] < 0x20 || out[i] > 0x7e;
	out[bad ? 0 : k.n] = 0;
	return bad ? -1 : 0;
}
