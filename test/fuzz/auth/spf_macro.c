/* Fuzz: SPF macro expansion against a slow and plain one. The first line of the input is the macro-string, the lines behind it are the
 * values of s, l, o, d, p and h. */
#include "proto/auth/spf.h"

#include "base/check.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str line(struct str *rest)
{
	ptrdiff_t end = str_chr(*rest, '\n');
	struct str s = str_n(rest->p, end < 0 ? rest->n : (size_t)end);
	*rest = str_skip(*rest, s.n + 1);
	s.n = s.n > SPF_VALUE_MAX ? SPF_VALUE_MAX : s.n;
	return s;
}

/* One value: each part is searched for anew. */
static void slow_value(struct buf *out, struct str value, const char *spec, size_t n, bool escape)
{
	static const char unreserved[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._~"; /* RFC 3986 */
	char delimiters[64] = ".";
	size_t digits = 0, keep = 0, parts = 1, d = 0;
	for (; digits < n && spec[digits] >= '0' && spec[digits] <= '9'; digits++)
		keep = keep > 100000 ? keep : keep * 10 + (size_t)(spec[digits] - '0');
	bool reverse = digits < n && (spec[digits] | 0x20) == 'r';
	for (size_t i = digits + reverse; i < n && d < sizeof delimiters - 1; i++)
		if (!strchr(delimiters, spec[i]) || (d == 0 && (delimiters[0] = spec[i])))
			delimiters[d++] = spec[i];
	delimiters[d ? d : 1] = 0;
	for (size_t i = 0; i < value.n; i++)
		parts += value.p[i] && strchr(delimiters, value.p[i]) != NULL;
	if (!keep || keep > parts)
		keep = parts;
	for (size_t k = parts - keep; k < parts && value.n; k++) {
		size_t want = reverse ? parts - 1 - k : k, part = 0;
		if (k > parts - keep)
			buf_addc(out, '.');
		for (size_t i = 0; i < value.n; i++) {
			unsigned char c = (unsigned char)value.p[i];
			if (c && strchr(delimiters, c))
				part++;
			else if (part == want && escape && !(c && strchr(unreserved, c)))
				buf_addf(out, "%%%02X", c);
			else if (part == want)
				buf_addc(out, (char)c);
		}
	}
}

static void slow(struct buf *out, struct str spec, const struct spf_values *v)
{
	for (size_t i = 0; i < spec.n; i++) {
		if (spec.p[i] != '%') {
			buf_addc(out, spec.p[i]);
			continue;
		}
		char c = spec.p[++i];
		if (c != '{') {
			buf_addz(out, c == '%' ? "%" : c == '_' ? " " : "%20");
			continue;
		}
		char letter = (char)(spec.p[++i] | 0x20);
		struct str value = letter == 's' ? v->s : letter == 'l' ? v->l : letter == 'o' ? v->o : letter == 'd' ? v->d : v->v;
		value = letter == 'p' ? v->p : letter == 'h' ? v->h : letter == 'i' ? v->i : value;
		size_t end = i;
		while (spec.p[end] != '}')
			end++;
		slow_value(out, value, spec.p + i + 1, end - i - 1, spec.p[i] < 'a');
		i = end;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = str_n((const char *)data, size), spec;
	char name[DNS_NAME_MAX + 1], text[SPF_EXPLANATION_MAX + 1];
	if (size > 16384)
		return 0;
	ptrdiff_t end = str_chr(rest, '\n');
	spec = str_n(rest.p, end < 0 ? rest.n : (size_t)end);
	rest = str_skip(rest, spec.n + 1);
	struct spf_values v = { .i = STR("192.0.2.1"), .v = STR("in-addr"), .c = STR("192.0.2.1"), .r = STR("us.example"), .t = STR("1") };
	v.s = line(&rest);
	v.l = line(&rest);
	v.o = line(&rest);
	v.d = line(&rest);
	v.p = line(&rest);
	v.h = line(&rest);
	int n = spf_expand_domain(spec, &v, name), bad = spf_expand_text(spec, &v, text, sizeof text);
	must(n >= -1 && n <= DNS_NAME_MAX);
	must(!bad || !text[0]);
	for (const char *p = text; *p; p++)
		must(*p >= 0x20 && *p < 0x7f);
	if (n >= 0) {
		struct buf b = BUF_INIT(1 << 24);
		slow(&b, spec, &v);
		must(!b.failed);
		struct str want = buf_str(&b);
		if (want.n && want.p[want.n - 1] == '.')
			want.n--;
		while (want.n > DNS_NAME_MAX) {
			ptrdiff_t dot = str_chr(want, '.');
			must(dot >= 0);
			want = str_skip(want, (size_t)dot + 1);
		}
		must(str_eq(want, str_n(name, (size_t)n)));
		buf_free(&b);
	}
	return 0;
}
