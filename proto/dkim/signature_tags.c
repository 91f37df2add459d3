/* Reads a signature field (RFC 6376 §3.5, RFC 8617 §4.1.2 and §4.1.3) into what verifying needs, and says in our own words what
 * is wrong with it. No arithmetic here. */
#include "dkim_internal.h"

#include <stdarg.h>
#include <stdio.h>

void dkim_sig_settle(struct dkim_sig *s, enum dkim_result r, const char *fmt, ...)
{
	va_list ap;
	s->settled = true;
	s->pub.result = r;
	va_start(ap, fmt);
	vsnprintf(s->pub.reason, sizeof s->pub.reason, fmt, ap);
	va_end(ap);
}

/* A name of letters, digits, "-", "_" and dots once it is folded; with a dot in it, if it is a domain. */
static int fold_name(struct str name, bool domain, struct arena *a, struct str *ret)
{
	char out[DNS_NAME_MAX + 1];
	int n = dns_name_fold(name, out);
	bool dot = false;
	for (int i = 0; i < n; i++) {
		char c = out[i];
		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'))
			return -1;
		dot |= c == '.';
	}
	if (n < 1 || (domain && !dot))
		return -1;
	*ret = arena_str(a, str_n(out, (size_t)n));
	return ret->p ? 0 : -1;
}

static bool clean_text(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 32 || s.p[i] == 127)
			return false;
	return str_is_utf8(s);
}

static void parse_algorithm(struct dkim_sig *s, struct str a, const struct dkim_policy *p)
{
	static const struct str names[] = { STR_INIT("rsa-sha1"), STR_INIT("rsa-sha256"), STR_INIT("ed25519-sha256") };
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (str_eq(a, names[i])) {
			s->alg = (enum dkim_method)i;
			s->pub.algorithm = names[i];
		}
	if (!s->pub.algorithm.n)
		dkim_sig_settle(s, DKIM_NEUTRAL, "a= names no algorithm we know");
	else if (s->alg == DKIM_RSA_SHA1 && (!p->sha1 || s->kind != DKIM_SIGNATURE))
		dkim_sig_settle(s, DKIM_POLICY, "rsa-sha1 is no longer valid (RFC 8301)");
}

static int canon_named(struct str s, enum dkim_canon *ret)
{
	if (!str_eq(s, STR("simple")) && !str_eq(s, STR("relaxed")))
		return -1;
	*ret = str_eq(s, STR("simple")) ? DKIM_SIMPLE : DKIM_RELAXED;
	return 0;
}

static void name_canon(struct dkim_sig *s)
{
	static const char *const names[] = { [DKIM_SIMPLE] = "simple", [DKIM_RELAXED] = "relaxed" };
	snprintf(s->pub.canon, sizeof s->pub.canon, "%s/%s", names[s->header_canon], names[s->body_canon]);
}

static void parse_canon(struct dkim_sig *s, const struct dkim_tag *t)
{
	/* Without c= a DKIM-Signature is simple. Of ARC-Message-Signature, RFC 8617 §4.1.2 does not say otherwise, but its suite
	 * (ams_fields_c_na) and the sealers in use take relaxed. */
	s->header_canon = s->body_canon = t || s->kind == DKIM_SIGNATURE ? DKIM_SIMPLE : DKIM_RELAXED;
	if (!t) {
		name_canon(s);
		return;
	}
	ptrdiff_t slash = str_chr(t->value, '/');
	if (slash < 0 ? canon_named(t->value, &s->header_canon) :
			canon_named(str_n(t->value.p, (size_t)slash), &s->header_canon) ||
			    canon_named(str_skip(t->value, (size_t)slash + 1), &s->body_canon))
		dkim_sig_settle(s, DKIM_NEUTRAL, "c= names no canonicalisation we know");
	else
		name_canon(s);
}

static bool query_known(struct str q, bool historic)
{
	struct str item;
	bool more = true;
	while (dkim_tags_item(&q, &more, &item))
		if (str_eq(item, STR("dns/txt")) || (historic && str_eq(item, STR("dns"))))
			return true;
	return false;
}

/* i= of DKIM: its domain is d= or below it. */
static int parse_identity(struct dkim_sig *s, const struct dkim_tag *t, struct arena *a)
{
	char out[DNS_NAME_MAX + 1];
	struct str d = s->pub.domain;
	s->identity_domain = d;
	if (!t) {
		char *z = arena_printf(a, "@%.*s", STR_ARG(d));
		s->pub.identity = str_from(z);
		return z ? 0 : -1;
	}
	char *text = arena_alloc(a, t->value.n + 1);
	if (!text)
		return -1;
	long n = dkim_unquote(t->value, text);
	struct str id = str_n(text, n < 0 ? 0 : (size_t)n);
	const char *at = id.n ? memrchr(id.p, '@', id.n) : NULL;
	int folded = at ? dns_name_fold(str_skip(id, (size_t)(at - id.p) + 1), out) : -1;
	if (folded < 1 || !clean_text(id)) {
		dkim_sig_settle(s, DKIM_NEUTRAL, "i= is no identity");
		return 0;
	}
	struct str domain = str_n(out, (size_t)folded);
	if (!str_eq(domain, d) && (domain.n <= d.n || domain.p[domain.n - d.n - 1] != '.' || !str_eq(str_skip(domain, domain.n - d.n), d))) {
		dkim_sig_settle(s, DKIM_PERMERROR, "i= is not within d=");
		return 0;
	}
	s->identity_domain = arena_str(a, domain);
	s->identity_local = str_n(id.p, (size_t)(at - id.p));
	struct str whole = str_n(id.p, s->identity_local.n + 1 + domain.n);
	char *z = arena_alloc(a, whole.n + 1);
	if (!s->identity_domain.p || !z)
		return -1;
	memcpy(z, id.p, s->identity_local.n + 1);
	memcpy(z + s->identity_local.n + 1, domain.p, domain.n);
	s->pub.identity = str_n(z, whole.n);
	return 0;
}

static void parse_times(struct dkim_sig *s, const struct dkim_tags *tags, const struct dkim_policy *p)
{
	const struct dkim_tag *t = dkim_tags_get(tags, "t"), *x = dkim_tags_get(tags, "x");
	uint64_t now = p->now > 0 ? (uint64_t)p->now : 0;
	if (t && dkim_number(t->value, &s->pub.t))
		dkim_sig_settle(s, DKIM_NEUTRAL, "t= is no number");
	else if (x && dkim_number(x->value, &s->pub.x))
		dkim_sig_settle(s, DKIM_NEUTRAL, "x= is no number");
	else if (t && x && s->pub.x <= s->pub.t)
		dkim_sig_settle(s, DKIM_NEUTRAL, "x= is not later than t=");
	else if (now && t && s->pub.t > now + DKIM_FUTURE_T)
		dkim_sig_settle(s, DKIM_NEUTRAL, "t= is in the future");
	else if (now && x && now > DKIM_EARLY_X && s->pub.x < now - DKIM_EARLY_X)
		dkim_sig_settle(s, DKIM_PERMERROR, "the signature has expired");
}

/* h=: names of printable ASCII; of DKIM never empty, never an empty one. ARC suites want both (RFC 8617 leaves it open). */
static void parse_names(struct dkim_sig *s, struct str h)
{
	struct str rest = h, name;
	bool more = true, from = false;
	s->names = h;
	while (dkim_tags_item(&rest, &more, &name)) {
		for (size_t i = 0; i < name.n; i++)
			if (name.p[i] <= 32 || name.p[i] >= 127) {
				dkim_sig_settle(s, DKIM_NEUTRAL, "h= is no list of header fields");
				return;
			}
		if (!name.n && s->kind == DKIM_SIGNATURE) {
			dkim_sig_settle(s, DKIM_NEUTRAL, "h= names an empty header field");
			return;
		}
		from = from || str_ieq(name, STR("From"));
		if (s->kind == DKIM_ARC_MESSAGE && str_ieq(name, STR("ARC-Seal"))) {
			dkim_sig_settle(s, DKIM_PERMERROR, "h= names ARC-Seal");
			return;
		}
	}
	if (!from && s->kind == DKIM_SIGNATURE)
		dkim_sig_settle(s, DKIM_PERMERROR, "From is not signed");
}

static int parse_octets(struct dkim_sig *s, const struct dkim_tag *t, struct arena *a, struct str *ret)
{
	unsigned char *out = arena_alloc(a, t->value.n + 1);
	if (!out)
		return -1;
	long n = dkim_base64(t->value, out, t->value.n);
	if (n <= 0)
		dkim_sig_settle(s, DKIM_NEUTRAL, "%.*s= is no Base64", STR_ARG(t->name));
	else
		*ret = str_n((const char *)out, (size_t)n);
	return 0;
}

/* header.b: b= without its white space; cut short later, when all are known. */
static int keep_b(struct dkim_sig *s, struct str b, struct arena *a)
{
	char *out = arena_alloc(a, b.n + 1);
	size_t n = 0;
	if (!out)
		return -1;
	for (size_t i = 0; i < b.n; i++)
		if (b.p[i] > 32 && b.p[i] < 127)
			out[n++] = b.p[i];
	s->pub.b = str_n(out, n);
	return 0;
}

static void parse_instance(struct dkim_sig *s, const struct dkim_tags *tags)
{
	const struct dkim_tag *i = dkim_tags_get(tags, "i"), *cv = dkim_tags_get(tags, "cv");
	uint64_t n;
	if (!i || i->value.n > 2 || dkim_number(i->value, &n) || n < 1 || n > ARC_SETS_MAX) {
		dkim_sig_settle(s, DKIM_PERMERROR, "i= is no instance");
		return;
	}
	s->instance = (unsigned)n;
	if (s->kind != DKIM_ARC_SEAL)
		return;
	if (!cv || (!str_ieq(cv->value, STR("none")) && !str_ieq(cv->value, STR("pass")) && !str_ieq(cv->value, STR("fail"))))
		dkim_sig_settle(s, DKIM_PERMERROR, "cv= is missing or unknown");
	else
		s->cv = str_ieq(cv->value, STR("none")) ? DKIM_NONE : str_ieq(cv->value, STR("pass")) ? DKIM_PASS : DKIM_FAIL;
	if (dkim_tags_get(tags, "h"))
		dkim_sig_settle(s, DKIM_PERMERROR, "an ARC-Seal with h=");
}

static void parse_version(struct dkim_sig *s, const struct dkim_tag *v, bool historic)
{
	if (s->kind != DKIM_SIGNATURE || (v && str_eq(v->value, STR("1"))))
		return;
	if (historic && (!v || str_starts(v->value, STR("0."))))
		return;
	if (!v)
		dkim_sig_settle(s, DKIM_PERMERROR, "v= is missing");
	else
		dkim_sig_settle(s, DKIM_NEUTRAL, "v= is a version we do not know");
}

/* Steps that need memory; all tags they read are there. */
static int parse_parts(struct dkim_sig *s, const struct dkim_tags *tags, struct arena *a)
{
	const struct dkim_tag *d = dkim_tags_get(tags, "d"), *sel = dkim_tags_get(tags, "s");
	if (fold_name(d->value, true, a, &s->pub.domain)) {
		dkim_sig_settle(s, DKIM_NEUTRAL, "d= is no domain");
		return 0;
	}
	if (fold_name(sel->value, false, a, &s->pub.selector)) {
		dkim_sig_settle(s, DKIM_NEUTRAL, "s= is no selector");
		return 0;
	}
	char *z = arena_printf(a, "%.*s._domainkey.%.*s", STR_ARG(s->pub.selector), STR_ARG(s->pub.domain));
	if (!z || (s->kind == DKIM_SIGNATURE && parse_identity(s, dkim_tags_get(tags, "i"), a)))
		return -1;
	s->key_name = str_from(z);
	if (!s->settled && parse_octets(s, dkim_tags_get(tags, "b"), a, &s->signature))
		return -1;
	if (!s->settled && s->kind != DKIM_ARC_SEAL && parse_octets(s, dkim_tags_get(tags, "bh"), a, &s->body_hash))
		return -1;
	return 0;
}

int dkim_sig_parse(struct dkim_sig *s, enum dkim_kind kind, struct str value, const struct dkim_policy *p, struct arena *a)
{
	static const char *const wanted[][8] = {
		[DKIM_SIGNATURE] = { "a", "b", "bh", "d", "h", "s" },
		[DKIM_ARC_MESSAGE] = { "a", "b", "bh", "d", "h", "s" },
		[DKIM_ARC_SEAL] = { "a", "b", "d", "s" },
	};
	struct dkim_tags tags;
	const char *why;
	*s = (struct dkim_sig){ .kind = kind, .hash = -1 };
	if (value.n > DKIM_FIELD_MAX) {
		dkim_sig_settle(s, DKIM_POLICY, "the field is too long");
		return 0;
	}
	if (dkim_tags_parse(value, &tags, &why)) {
		dkim_sig_settle(s, DKIM_NEUTRAL, "no tag list: %s", why);
		return 0;
	}
	if (kind == DKIM_SIGNATURE)
		parse_version(s, dkim_tags_get(&tags, "v"), p->historic);
	else
		parse_instance(s, &tags);
	for (unsigned i = 0; wanted[kind][i] && !s->settled; i++)
		if (!dkim_tags_get(&tags, wanted[kind][i]))
			dkim_sig_settle(s, DKIM_PERMERROR, "%s= is missing", wanted[kind][i]);
	const struct dkim_tag *t = dkim_tags_get(&tags, "b");
	if (t) {
		s->cut = t->begin;
		s->cut_end = t->end;
		if (keep_b(s, t->value, a))
			return -1;
	}
	if (s->settled)
		return 0;
	if (parse_parts(s, &tags, a))
		return -1;
	if (!s->settled)
		parse_algorithm(s, dkim_tags_get(&tags, "a")->value, p);
	if (!s->settled && kind != DKIM_ARC_SEAL)
		parse_canon(s, dkim_tags_get(&tags, "c"));
	if (!s->settled && (t = dkim_tags_get(&tags, "q")) && !query_known(t->value, p->historic))
		dkim_sig_settle(s, DKIM_NEUTRAL, "q= names no way to the key we know");
	if (!s->settled && kind != DKIM_ARC_SEAL && (t = dkim_tags_get(&tags, "l"))) {
		s->pub.has_length = true;
		if (dkim_number(t->value, &s->length))
			dkim_sig_settle(s, DKIM_NEUTRAL, "l= is no number");
	}
	if (!s->settled)
		parse_times(s, &tags, p);
	if (!s->settled && kind != DKIM_ARC_SEAL)
		parse_names(s, dkim_tags_get(&tags, "h")->value);
	return 0;
}
