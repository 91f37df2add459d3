/* Address patterns: parsed once, matched without allocation. */
#include "pattern.h"

#include "proto/smtp/address.h"

static int copy(struct str s, char *out, size_t size)
{
	if (s.n >= size || (s.n && memchr(s.p, 0, s.n)))
		return -1;
	if (s.n)
		memcpy(out, s.p, s.n);
	out[s.n] = 0;
	return 0;
}

static int set_domain(struct str d, char *out, size_t size)
{
	int r;
	if (d.n && d.p[0] == '[') {
		r = smtp_literal_check(d) ? -1 : copy(d, out, size);
	} else {
		struct buf b = BUF_INIT(size - 1);
		r = smtp_domain_to_ascii(d, &b) ? -1 : copy(buf_str(&b), out, size);
		buf_free(&b);
	}
	if (!r)
		ascii_lower_z(out);
	return r;
}

static int set_local(struct str l, char *out, size_t size)
{
	struct buf b = BUF_INIT(size - 1);
	int r = l.n && l.p[0] == '"' ? (smtp_local_unquote(l, &b) ? -1 : copy(buf_str(&b), out, size)) : copy(l, out, size);
	buf_free(&b);
	if (!r)
		ascii_lower_z(out);
	return r;
}

/* The last @ divides: a domain has none. */
static ptrdiff_t at_sign(struct str s)
{
	const char *p = s.n ? memrchr(s.p, '@', s.n) : NULL;
	return p ? p - s.p : -1;
}

int pattern_address(struct str s, struct pattern_address *ret)
{
	struct pattern_address a = { .local = "" };
	ptrdiff_t at = at_sign(s);
	if (set_local(at < 0 ? s : str_n(s.p, (size_t)at), a.local, sizeof a.local) ||
	    (at >= 0 && set_domain(str_skip(s, (size_t)at + 1), a.domain, sizeof a.domain)))
		return -1;
	*ret = a;
	return 0;
}

int pattern_parse(struct str s, struct pattern *ret)
{
	struct pattern p = { .kind = PATTERN_ANY };
	ptrdiff_t at = at_sign(s);
	if (str_eq(s, STR("*"))) {
		*ret = p;
		return 0;
	}
	if (at == 0)
		return -1;
	if (at > 0 && str_eq(str_skip(s, (size_t)at + 1), STR("*"))) {
		p.kind = PATTERN_LOCAL;
		if (set_local(str_n(s.p, (size_t)at), p.a.local, sizeof p.a.local))
			return -1;
	} else if (at > 0) {
		p.kind = PATTERN_ADDRESS;
		if (pattern_address(s, &p.a))
			return -1;
	} else {
		bool below = str_starts(s, STR("*."));
		p.kind = below ? PATTERN_BELOW : PATTERN_DOMAIN;
		if (set_domain(below ? str_skip(s, 2) : s, p.a.domain, sizeof p.a.domain))
			return -1;
	}
	*ret = p;
	return 0;
}

bool pattern_match(const struct pattern *p, const struct pattern_address *a)
{
	switch (p->kind) {
	case PATTERN_ANY:
		return true;
	case PATTERN_ADDRESS:
		return !strcmp(p->a.local, a->local) && !strcmp(p->a.domain, a->domain);
	case PATTERN_LOCAL:
		return !strcmp(p->a.local, a->local);
	case PATTERN_DOMAIN:
		return a->domain[0] && !strcmp(p->a.domain, a->domain);
	case PATTERN_BELOW: {
		size_t n = strlen(p->a.domain), m = strlen(a->domain);
		return m > n + 1 && a->domain[m - n - 1] == '.' && !strcmp(a->domain + m - n, p->a.domain);
	}
	}
	return false;
}

bool pattern_match_any(const struct pattern *p, size_t n, const struct pattern_address *a)
{
	for (size_t i = 0; i < n; i++)
		if (pattern_match(&p[i], a))
			return true;
	return false;
}
