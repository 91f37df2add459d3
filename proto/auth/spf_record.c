/* SPF records: terms and their syntax (RFC 7208 §12). Nothing is expanded or looked up here. */
#include "proto/auth/spf.h"
#include "proto/auth/spf_internal.h"

#include <arpa/inet.h>
#include <stdio.h>

/* toplabel: letters, digits and inner hyphens, not digits alone. */
static bool is_toplabel(struct str s)
{
	bool other = false;
	for (size_t i = 0; i < s.n; i++) {
		if (!ascii_is_alnum(s.p[i]) && s.p[i] != '-')
			return false;
		other |= !ascii_is_digit(s.p[i]);
	}
	return s.n && other && s.p[0] != '-' && s.p[s.n - 1] != '-';
}

/* domain-spec: a macro-string that ends in a macro or in ".toplabel". */
static bool is_domain_spec(struct str s)
{
	size_t literal = 0; /* where the octets behind the last macro begin */
	for (size_t at = 0; at < s.n;) {
		struct spf_macro m;
		if (s.p[at] != '%') {
			if (s.p[at] <= 0x20 || s.p[at] >= 0x7f)
				return false;
			at++;
			continue;
		}
		if (spf_macro_read(str_skip(s, at), false, &m))
			return false;
		at += m.n;
		literal = at;
	}
	struct str end = str_skip(s, literal);
	if (!end.n)
		return s.n > 0;
	if (end.p[end.n - 1] == '.')
		end.n--;
	size_t dot = end.n;
	while (dot > 0 && end.p[dot - 1] != '.')
		dot--;
	return dot > 0 && is_toplabel(str_skip(end, dot));
}

/* Takes "/DIGITS" off the end of *s. 0: there is none; 1: *ret; -1: leading zero or above max. */
static int take_cidr(struct str *s, unsigned max, unsigned *ret)
{
	size_t at = s->n;
	uint64_t n;
	while (at > 0 && ascii_is_digit(s->p[at - 1]))
		at--;
	if (at == s->n || at == 0 || s->p[at - 1] != '/')
		return 0;
	struct str digits = str_skip(*s, at);
	if ((digits.n > 1 && digits.p[0] == '0') || str_u64(digits, max, &n))
		return -1;
	*ret = (unsigned)n;
	s->n = at - 1;
	return 1;
}

/* [ "/" n4 ] [ "//" n6 ] off the end of *s. */
static bool take_dual_cidr(struct str *s, struct spf_term *t)
{
	struct str before = *s;
	unsigned n;
	int r = take_cidr(s, 128, &n);
	if (r < 0)
		return false;
	if (r > 0 && s->n && s->p[s->n - 1] == '/') {
		s->n--;
		t->cidr6 = n;
	} else {
		*s = before;
	}
	return take_cidr(s, 32, &t->cidr4) >= 0;
}

static const char *read_ip(struct spf_term *t, struct str arg, int family)
{
	char z[INET6_ADDRSTRLEN + 1];
	bool six = family == AF_INET6;
	if (take_cidr(&arg, six ? 128 : 32, six ? &t->cidr6 : &t->cidr4) < 0)
		return "a wrong prefix length";
	if (!arg.n || arg.n >= sizeof z || memchr(arg.p, 0, arg.n))
		return six ? "no IPv6 address" : "no IPv4 address";
	snprintf(z, sizeof z, "%.*s", STR_ARG(arg));
	return inet_pton(family, z, t->ip) == 1 ? NULL : six ? "no IPv6 address" : "no IPv4 address";
}

static const struct mechanism {
	struct str name;
	enum spf_kind kind;
	char domain; /* 'n': takes none; 'm': must be there; 'o': optional */
	bool cidr;
} mechanisms[] = {
	{ STR_INIT("all"), SPF_ALL, 'n', false },
	{ STR_INIT("include"), SPF_INCLUDE, 'm', false },
	{ STR_INIT("a"), SPF_A, 'o', true },
	{ STR_INIT("mx"), SPF_MX, 'o', true },
	{ STR_INIT("ptr"), SPF_PTR, 'o', false },
	{ STR_INIT("exists"), SPF_EXISTS, 'm', false },
	{ STR_INIT("ip4"), SPF_IP4, 'i', false },
	{ STR_INIT("ip6"), SPF_IP6, 'i', false },
};

static const char *read_mechanism(struct spf_term *t)
{
	static const char qualifiers[] = "+-~?";
	static const enum spf_result verdicts[] = { SPF_PASS, SPF_FAIL, SPF_SOFTFAIL, SPF_NEUTRAL };
	struct str s = t->text;
	const struct mechanism *m = NULL;
	const char *q = memchr(qualifiers, s.p[0], 4);
	t->verdict = q ? verdicts[q - qualifiers] : SPF_PASS;
	s = str_skip(s, q != NULL);
	size_t n = 0;
	while (n < s.n && ascii_is_alnum(s.p[n]))
		n++;
	for (size_t i = 0; i < sizeof mechanisms / sizeof *mechanisms; i++)
		if (str_ieq(mechanisms[i].name, str_n(s.p, n)))
			m = &mechanisms[i];
	if (!m)
		return "an unknown mechanism";
	t->kind = m->kind;
	s = str_skip(s, n);
	bool colon = s.n && s.p[0] == ':';
	if (m->domain == 'i')
		return colon ? read_ip(t, str_skip(s, 1), m->kind == SPF_IP4 ? AF_INET : AF_INET6) : "no address";
	if (m->cidr && !take_dual_cidr(&s, t))
		return "a wrong prefix length";
	if (!s.n)
		return m->domain == 'm' ? "no domain" : NULL;
	if (!colon || m->domain == 'n')
		return "octets behind the mechanism";
	t->spec = str_skip(s, 1);
	return is_domain_spec(t->spec) ? NULL : "no domain-spec";
}

/* The length of a modifier's name, or 0: it is none. */
static size_t modifier_name(struct str s)
{
	size_t n = 0;
	while (n < s.n && (ascii_is_alpha(s.p[n]) || (n && (ascii_is_digit(s.p[n]) || memchr("-_.", s.p[n], 3)))))
		n++;
	return n && n < s.n && s.p[n] == '=' ? n : 0;
}

static const char *read_modifier(struct spf_term *t, size_t n)
{
	struct str name = str_n(t->text.p, n);
	t->spec = str_skip(t->text, n + 1);
	t->kind = str_ieq(name, STR("redirect")) ? SPF_REDIRECT : str_ieq(name, STR("exp")) ? SPF_EXP : SPF_MODIFIER;
	if (t->kind == SPF_MODIFIER)
		return spf_macro_string_ok(t->spec, false) ? NULL : "a value that is no macro-string";
	return is_domain_spec(t->spec) ? NULL : "no domain-spec";
}

int spf_term_next(struct str *rest, struct spf_term *ret, const char **ret_why)
{
	while (rest->n && rest->p[0] == ' ')
		*rest = str_skip(*rest, 1);
	*ret = (struct spf_term){ .cidr4 = 32, .cidr6 = 128 };
	*ret_why = NULL;
	if (!rest->n)
		return 0;
	ptrdiff_t end = str_chr(*rest, ' ');
	ret->text = str_n(rest->p, end < 0 ? rest->n : (size_t)end);
	*rest = str_skip(*rest, ret->text.n);
	size_t name = modifier_name(ret->text);
	*ret_why = name ? read_modifier(ret, name) : read_mechanism(ret);
	return *ret_why ? -1 : 1;
}

bool spf_record_is(struct str txt)
{
	return str_istarts(txt, STR("v=spf1")) && (txt.n == 6 || txt.p[6] == ' ');
}

int spf_record_parse(struct str txt, struct spf_record *ret)
{
	struct spf_term t;
	int r;
	*ret = (struct spf_record){ 0 };
	if (!spf_record_is(txt) || txt.n > SPF_RECORD_MAX) {
		ret->why = txt.n > SPF_RECORD_MAX ? "the record is too long" : "no SPF record";
		return -1;
	}
	ret->terms = str_skip(txt, 6);
	struct str rest = ret->terms;
	while ((r = spf_term_next(&rest, &t, &ret->why)) > 0) {
		struct spf_term *only = t.kind == SPF_REDIRECT ? &ret->redirect : t.kind == SPF_EXP ? &ret->exp : NULL;
		if (only && only->spec.p) { /* §6: at most once */
			ret->why = "a modifier that comes twice";
			r = -1;
			break;
		}
		if (only)
			*only = t;
	}
	if (r == 0)
		return 0;
	ret->bad = t.text;
	return -1;
}
