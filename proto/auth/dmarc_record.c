/* The DMARC record: tags as RFC 9989 §4.7 and §4.8 have them, and what is left of RFC 7489's. */
#include "proto/auth/dmarc.h"

const char *dmarc_policy_name(enum dmarc_policy p)
{
	static const char *const names[] = { "none", "quarantine", "reject" };
	return (unsigned)p < 3 ? names[p] : "none";
}

static bool is_wsp(char c)
{
	return c == ' ' || c == '\t';
}

static struct str trim(struct str s)
{
	while (s.n && is_wsp(s.p[0]))
		s = str_skip(s, 1);
	while (s.n && is_wsp(s.p[s.n - 1]))
		s.n--;
	return s;
}

/* Takes the text up to the separator off *rest. False: nothing left. */
static bool part(struct str *rest, char sep, struct str *ret)
{
	if (!rest->p)
		return false;
	ptrdiff_t at = str_chr(*rest, sep);
	*ret = str_n(rest->p, at < 0 ? rest->n : (size_t)at);
	*rest = at < 0 ? STR_NULL : str_skip(*rest, (size_t)at + 1);
	return true;
}

bool dmarc_record_is(struct str txt)
{
	struct str first;
	if (!part(&txt, ';', &first))
		return false;
	ptrdiff_t eq = str_chr(first, '=');
	/* §4.8: no blanks before it; the name in any case, the value exactly */
	return eq > 0 && !is_wsp(first.p[0]) && str_ieq(trim(str_n(first.p, (size_t)eq)), STR("v")) &&
	    str_eq(trim(str_skip(first, (size_t)eq + 1)), STR("DMARC1"));
}

static int read_policy(struct str v, enum dmarc_policy *ret)
{
	for (int p = DMARC_NONE; p <= DMARC_REJECT; p++)
		if (str_ieq(v, str_from(dmarc_policy_name((enum dmarc_policy)p)))) {
			*ret = (enum dmarc_policy)p;
			return 0;
		}
	return -1;
}

/* One of the letters in `of`, any case; -1: none of them. */
static int read_letter(struct str v, const char *of)
{
	char c = v.n == 1 ? (char)(v.p[0] | 0x20) : 0;
	return c && strchr(of, c) ? c : -1;
}

static int read_flag(struct str v, const char *of, char yes, bool *ret)
{
	int c = read_letter(v, of);
	if (c >= 0)
		*ret = c == yes;
	return c < 0 ? -1 : 0;
}

static int read_fo(struct str v, unsigned *ret)
{
	static const char letters[] = "01ds";
	unsigned fo = 0;
	struct str one;
	while (part(&v, ':', &one)) {
		one = trim(one);
		const char *at = one.n == 1 ? strchr(letters, one.p[0] >= 'A' ? one.p[0] | 0x20 : one.p[0]) : NULL;
		if (!at || !*at)
			return -1;
		fo |= 1u << (at - letters);
	}
	*ret = fo;
	return 0;
}

/* The size behind "!" (RFC 7489 §6.2): digits and perhaps a unit. */
static int read_size(struct str s, uint64_t *ret)
{
	unsigned shift = 0;
	if (s.n && s.p[s.n - 1] > '9') {
		const char *at = strchr("kmgt", s.p[s.n - 1] | 0x20);
		if (!at || !*at)
			return -1;
		shift = 10 * (unsigned)(at - "kmgt" + 1);
		s.n--;
	}
	if (!s.n || str_u64(s, UINT64_MAX >> shift, ret))
		return -1;
	*ret <<= shift;
	return 0;
}

/* RFC 3986 §3 as far as it matters: a scheme, and something of printable characters behind it. */
static bool uri_ok(struct str s)
{
	ptrdiff_t colon = str_chr(s, ':');
	if (colon < 1 || (size_t)colon + 1 >= s.n || !ascii_is_alpha(s.p[0]))
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (i < (size_t)colon ? !(ascii_is_alpha(c) || ascii_is_digit(c) || c == '+' || c == '-' || c == '.') :
					(c <= ' ' || c > '~' || strchr("<>\"\\^`{|}!", c)))
			return false;
	}
	return true;
}

static int read_uris(struct str v, struct dmarc_uri *to, size_t *n)
{
	struct str one;
	int bad = 0;
	while (part(&v, ',', &one)) {
		struct dmarc_uri u = { .uri = trim(one) };
		ptrdiff_t bang = str_chr(u.uri, '!');
		if (bang >= 0) {
			bad |= read_size(str_skip(u.uri, (size_t)bang + 1), &u.max);
			u.uri.n = bad ? 0 : (size_t)bang;
		}
		if (!uri_ok(u.uri)) {
			bad = -1;
			continue;
		}
		if (*n < DMARC_URIS_MAX)
			to[(*n)++] = u;
	}
	return bad;
}

static int read_u32(struct str v, uint32_t max, uint32_t *ret)
{
	uint64_t n;
	if (str_u64(v, max, &n))
		return -1;
	*ret = (uint32_t)n;
	return 0;
}

/* rf (RFC 7489 §6.3): of the keywords only afrf was ever defined. */
static int read_rf(struct str v)
{
	struct str one;
	while (part(&v, ':', &one))
		if (!str_ieq(trim(one), STR("afrf")))
			return -1;
	return 0;
}

static const char *const tag_names[DMARC_TAG_N] = { "p", "sp", "np", "t", "psd", "adkim", "aspf", "fo", "rua", "ruf", "pct", "rf",
	"ri", "v" };

static int read_value(struct dmarc_record *r, enum dmarc_tag tag, struct str v)
{
	int c;
	switch (tag) {
	case DMARC_TAG_P:
		return read_policy(v, &r->p);
	case DMARC_TAG_SP:
		return read_policy(v, &r->sp);
	case DMARC_TAG_NP:
		return read_policy(v, &r->np);
	case DMARC_TAG_T:
		return read_flag(v, "yn", 'y', &r->t);
	case DMARC_TAG_ADKIM:
		return read_flag(v, "rs", 's', &r->adkim_strict);
	case DMARC_TAG_ASPF:
		return read_flag(v, "rs", 's', &r->aspf_strict);
	case DMARC_TAG_PSD:
		if ((c = read_letter(v, "ynu")) < 0)
			return -1;
		r->psd = (char)c;
		return 0;
	case DMARC_TAG_FO:
		return read_fo(v, &r->fo);
	case DMARC_TAG_RUA:
		return read_uris(v, r->rua, &r->n_rua);
	case DMARC_TAG_RUF:
		return read_uris(v, r->ruf, &r->n_ruf);
	case DMARC_TAG_PCT:
		return read_u32(v, 100, &r->pct);
	case DMARC_TAG_RI:
		return read_u32(v, UINT32_MAX, &r->ri);
	case DMARC_TAG_RF:
		return read_rf(v);
	default:
		return 0;
	}
}

/* Printing characters (§4.8: dmarc-value); tabs are blanks around it. */
static bool value_ok(struct str v)
{
	for (size_t i = 0; i < v.n; i++)
		if ((v.p[i] < ' ' || v.p[i] > '~') && v.p[i] != '\t')
			return false;
	return v.n > 0;
}

static void read_tag(struct dmarc_record *r, struct str text, size_t index)
{
	ptrdiff_t eq = str_chr(text, '=');
	struct str name = eq < 0 ? STR_NULL : trim(str_n(text.p, (size_t)eq)), value;
	size_t tag = 0;
	if (!name.n) {
		r->faults |= DMARC_FAULT_SYNTAX;
		return;
	}
	for (size_t i = 0; i < name.n; i++)
		if (!ascii_is_alpha(name.p[i]))
			r->faults |= DMARC_FAULT_SYNTAX;
	while (tag < DMARC_TAG_N && !str_ieq(name, str_from(tag_names[tag])))
		tag++;
	if (tag == DMARC_TAG_N)
		return; /* §4.7: unknown ones are ignored */
	value = trim(str_skip(text, (size_t)eq + 1));
	if (tag == DMARC_TAG_P && index > 0)
		r->faults |= DMARC_FAULT_P_FIRST;
	if ((r->seen & DMARC_FAULT(tag)) || tag == DMARC_TAG_V)
		r->faults |= DMARC_FAULT(tag); /* RFC 6376 §3.2: none may come twice */
	else if (!value_ok(value) || read_value(r, (enum dmarc_tag)tag, value))
		r->faults |= DMARC_FAULT(tag);
	r->seen |= DMARC_FAULT(tag);
}

/* Defaults, and what a wrong policy means (§4.10.1). */
static void complete(struct dmarc_record *r)
{
	const unsigned policies = DMARC_FAULT(DMARC_TAG_P) | DMARC_FAULT(DMARC_TAG_SP) | DMARC_FAULT(DMARC_TAG_NP);
	bool wrong = (r->faults & policies) || !(r->seen & DMARC_FAULT(DMARC_TAG_P));
	if (r->faults & DMARC_FAULT(DMARC_TAG_PSD))
		r->psd = 'u';
	if (r->faults & DMARC_FAULT(DMARC_TAG_ADKIM))
		r->adkim_strict = false;
	if (r->faults & DMARC_FAULT(DMARC_TAG_ASPF))
		r->aspf_strict = false;
	if (r->faults & DMARC_FAULT(DMARC_TAG_T))
		r->t = false;
	if (r->faults & DMARC_FAULT(DMARC_TAG_FO))
		r->fo = DMARC_FO_0;
	r->usable = !wrong || r->n_rua > 0;
	if (wrong)
		r->p = r->sp = r->np = DMARC_NONE;
	else {
		if (!(r->seen & DMARC_FAULT(DMARC_TAG_SP)))
			r->sp = r->p;
		if (!(r->seen & DMARC_FAULT(DMARC_TAG_NP)))
			r->np = r->sp;
	}
}

int dmarc_record_parse(struct str txt, struct dmarc_record *ret)
{
	struct dmarc_record r = { .text = txt, .psd = 'u', .fo = DMARC_FO_0, .pct = 100, .ri = 86400 };
	struct str one;
	if (txt.n > DMARC_RECORD_MAX || !dmarc_record_is(txt))
		return -1;
	part(&txt, ';', &one);
	for (size_t i = 0; part(&txt, ';', &one);) {
		if (trim(one).n)
			read_tag(&r, one, i++);
		else if (txt.p) /* one may end the record */
			r.faults |= DMARC_FAULT_SYNTAX;
	}
	complete(&r);
	*ret = r;
	return 0;
}
