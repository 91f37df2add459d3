/* The parser of address.h: a cursor over the octets, one function per grammar rule, each named as in RFC 5321 §4.1.2.
 * No allocation except inside libidn2 for domains that are not ASCII; no recursion. */
#include "address.h"

#include <idn2.h>

struct cursor {
	const unsigned char *p, *end;
	bool utf8;     /* octets above 127 allowed */
	bool any_utf8; /* some were seen */
	size_t ascii_n; /* octets of the domain as A-labels, where it has U-labels */
};

static bool at(const struct cursor *c, unsigned char octet)
{
	return c->p < c->end && *c->p == octet;
}

static bool is_alpha(unsigned char c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(unsigned char c)
{
	return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static bool is_atext(unsigned char c)
{
	return is_alpha(c) || is_digit(c) || (c > 32 && c < 127 && strchr("!#$%&'*+-/=?^_`{|}~", c));
}

/* Takes one character above U+007F. Control characters (C1) are none of a mailbox name's. */
static int take_utf8(struct cursor *c)
{
	size_t n = *c->p >= 0xf0 ? 4 : *c->p >= 0xe0 ? 3 : 2;
	c->any_utf8 = true;
	if (!c->utf8)
		return -SMTP_ADDRESS_NOT_ASCII;
	if ((size_t)(c->end - c->p) < n || !str_is_utf8(str_n((const char *)c->p, n)))
		return -SMTP_ADDRESS_UTF8;
	if (c->p[0] == 0xc2 && c->p[1] < 0xa0)
		return -SMTP_ADDRESS_UTF8;
	c->p += n;
	return 0;
}

/* Dot-string = Atom *("." Atom) */
static int dot_string(struct cursor *c)
{
	bool atom = false; /* something since the start or the last dot */
	while (c->p < c->end) {
		if (*c->p > 127) {
			int r = take_utf8(c);
			if (r)
				return r;
			atom = true;
		} else if (is_atext(*c->p)) {
			c->p++;
			atom = true;
		} else if (*c->p == '.' && atom) {
			c->p++;
			atom = false;
		} else {
			break;
		}
	}
	return atom ? 0 : -SMTP_ADDRESS_LOCAL;
}

/* Quoted-string = DQUOTE *QcontentSMTP DQUOTE: no control characters at all, not even quoted. */
static int quoted_string(struct cursor *c)
{
	c->p++;
	while (c->p < c->end) {
		unsigned char o = *c->p;
		if (o == '"') {
			c->p++;
			return 0;
		}
		if (o > 127) {
			int r = take_utf8(c);
			if (r)
				return r;
			continue;
		}
		if (o == '\\') {
			c->p++;
			if (c->p == c->end)
				break;
			o = *c->p;
		}
		if (o < 32 || o > 126)
			return -SMTP_ADDRESS_QUOTE;
		c->p++;
	}
	return -SMTP_ADDRESS_QUOTE;
}

static int idna(struct str s, char **ret_ascii);

/* Domain = sub-domain *("." sub-domain), up to the first octet that cannot be part of one. */
static int domain(struct cursor *c)
{
	const unsigned char *start = c->p, *label = c->p;
	bool wide = false;
	for (;; c->p++) {
		while (c->p < c->end && *c->p > 127) {
			int r = take_utf8(c);
			if (r)
				return r;
			wide = true;
		}
		if (c->p < c->end && (is_alpha(*c->p) || is_digit(*c->p) || (*c->p == '-' && c->p > label)))
			continue;
		if (c->p == label || c->p[-1] == '-')
			return -SMTP_ADDRESS_DOMAIN;
		/* a U-label may be longer in UTF-8 than its A-label: libidn2 checks the latter */
		if (!wide && c->p - label > (ptrdiff_t)SMTP_LABEL_MAX)
			return -SMTP_ADDRESS_LABEL_LONG;
		if (!at(c, '.'))
			break;
		label = c->p + 1;
	}
	if (c->p - start > (ptrdiff_t)SMTP_DOMAIN_MAX)
		return -SMTP_ADDRESS_DOMAIN_LONG;
	if (wide) {
		char *ascii = NULL;
		if (idna(str_n((const char *)start, (size_t)(c->p - start)), &ascii))
			return -SMTP_ADDRESS_IDNA;
		c->ascii_n = strlen(ascii);
		idn2_free(ascii);
	}
	return 0;
}

/* The code point at s.p[*at], which is valid UTF-8; *at moves behind it. */
static uint32_t code_point(struct str s, size_t *at)
{
	unsigned char c = (unsigned char)s.p[(*at)++];
	uint32_t v = c >= 0xf0 ? c & 7u : c >= 0xe0 ? c & 15u : c >= 0xc0 ? c & 31u : c;
	while (*at < s.n && ((unsigned char)s.p[*at] & 0xc0) == 0x80)
		v = v << 6 | ((unsigned char)s.p[(*at)++] & 63u);
	return v;
}

static bool in(uint32_t c, uint32_t first, uint32_t last)
{
	return c >= first && c <= last;
}

/* What libidn2 leaves of RFC 5893 §2, which speaks of a whole name with right-to-left labels: none of its labels begins with a
 * digit (rule 1), and European and Arabic-Indic digits never stand in one label (rules 4 and 5). */
static bool bidi_fits(struct str s)
{
	bool rtl = false, digit_first = false, european = false, arabic = false, first = true;
	for (size_t i = 0; i < s.n;) {
		uint32_t c = code_point(s, &i);
		if (c == '.') {
			first = true;
			european = arabic = false;
			continue;
		}
		bool en = in(c, '0', '9') || in(c, 0x6f0, 0x6f9), an = in(c, 0x660, 0x669);
		european |= en;
		arabic |= an;
		digit_first |= first && (en || an);
		first = false;
		if (european && arabic)
			return false;
		/* Hebrew to Arabic Extended-A, presentation forms, the right-to-left scripts of plane 1 */
		rtl |= in(c, 0x590, 0x8ff) || in(c, 0xfb1d, 0xfdff) || in(c, 0xfe70, 0xfeff) || in(c, 0x10800, 0x10fff) ||
		    in(c, 0x1e800, 0x1efff);
	}
	return !rtl || !digit_first;
}

/* The A-label form, for idn2_free(). Strict IDNA2008 on the lower case of ASCII letters: the mapping of UTS 46, which
 * libidn2 would do by default, repairs (it makes a space of U+00A0 and drops soft hyphens). What comes out is looked
 * at again all the same. libidn2 works on NUL-terminated text; a domain has at most 255 octets. */
static int idna(struct str s, char **ret_ascii)
{
	uint8_t z[SMTP_DOMAIN_MAX + 1];
	char *ascii = NULL;
	if (s.n > SMTP_DOMAIN_MAX || !bidi_fits(s))
		return -1;
	for (size_t i = 0; i < s.n; i++)
		z[i] = ascii_lower(s.p[i]);
	z[s.n] = 0;
	if (idn2_lookup_u8(z, (uint8_t **)&ascii, IDN2_NO_TR46) != IDN2_OK)
		return -1;
	if (smtp_domain_check(str_from(ascii), false)) {
		idn2_free(ascii);
		return -1;
	}
	*ret_ascii = ascii;
	return 0;
}

/* IPv4-address-literal = Snum 3("." Snum); Snum = 1*3DIGIT, 0 to 255. */
static bool ipv4(struct str s)
{
	struct str rest = s;
	for (unsigned i = 0; i < 4; i++) {
		ptrdiff_t dot = i < 3 ? str_chr(rest, '.') : (ptrdiff_t)rest.n;
		uint64_t v;
		if (dot < 1 || dot > 3 || str_u64(str_n(rest.p, (size_t)dot), 255, &v))
			return false;
		rest = str_skip(rest, (size_t)dot + 1);
	}
	return true;
}

/* IPv6-full / IPv6-comp / IPv6v4-full / IPv6v4-comp: "::" once at most, and for at least two groups. */
static bool ipv6(struct str s)
{
	unsigned groups = 0;
	bool compressed = false;
	size_t i = 0;
	if (str_starts(s, STR("::"))) {
		compressed = true;
		i = 2;
	}
	while (i < s.n) {
		size_t n = 0;
		while (i + n < s.n && n < 5 && is_hex((unsigned char)s.p[i + n]))
			n++;
		if (i + n < s.n && s.p[i + n] == '.') { /* IPv4 in the last two groups */
			if (!ipv4(str_skip(s, i)))
				return false;
			groups += 2;
			i = s.n;
			break;
		}
		if (n < 1 || n > 4)
			return false;
		groups++;
		i += n;
		if (i == s.n)
			break;
		if (s.p[i++] != ':' || i == s.n)
			return false;
		if (s.p[i] == ':') {
			if (compressed)
				return false;
			compressed = true;
			i++;
		}
	}
	return compressed ? groups <= 6 : groups == 8;
}

int smtp_literal_check(struct str s)
{
	static const struct str tag = STR_INIT("IPv6:");
	if (s.n < 3 || s.p[0] != '[' || s.p[s.n - 1] != ']')
		return -SMTP_ADDRESS_LITERAL;
	struct str inner = str_n(s.p + 1, s.n - 2);
	if (str_istarts(inner, tag) ? ipv6(str_skip(inner, tag.n)) : ipv4(inner))
		return 0;
	return -SMTP_ADDRESS_LITERAL;
}

static int address_literal(struct cursor *c)
{
	const unsigned char *close = memchr(c->p, ']', (size_t)(c->end - c->p));
	if (!close)
		return -SMTP_ADDRESS_LITERAL;
	int r = smtp_literal_check(str_n((const char *)c->p, (size_t)(close + 1 - c->p)));
	c->p = close + 1;
	return r;
}

static struct str from_to(const unsigned char *a, const unsigned char *b)
{
	return str_n((const char *)a, (size_t)(b - a));
}

/* Mailbox = Local-part "@" ( Domain / address-literal ), leaving the cursor behind it. */
static int mailbox(struct cursor *c, bool postmaster, struct smtp_address *ret)
{
	struct smtp_address a = { 0 };
	const unsigned char *start = c->p;
	c->ascii_n = 0; /* of a source route */
	a.quoted = at(c, '"');
	int r = a.quoted ? quoted_string(c) : dot_string(c);
	if (r)
		return r;
	a.local = from_to(start, c->p);
	if (a.local.n > SMTP_LOCAL_MAX)
		return -SMTP_ADDRESS_LOCAL_LONG;
	if (at(c, '@')) {
		const unsigned char *dom = ++c->p;
		a.literal = at(c, '[');
		r = a.literal ? address_literal(c) : domain(c);
		if (r)
			return r;
		a.domain = from_to(dom, c->p);
	} else if (c->p < c->end && *c->p != '>') {
		return a.quoted ? -SMTP_ADDRESS_QUOTE : -SMTP_ADDRESS_LOCAL;
	} else if (!postmaster || !str_ieq(a.local, STR("postmaster"))) {
		return -SMTP_ADDRESS_NO_AT;
	}
	a.address = from_to(start, c->p);
	/* with A-labels, too: a hop without SMTPUTF8 takes no other form of the domain */
	if (a.address.n > SMTP_MAILBOX_MAX || a.local.n + 1 + c->ascii_n > SMTP_MAILBOX_MAX)
		return -SMTP_ADDRESS_LONG;
	a.utf8 = c->any_utf8;
	*ret = a;
	return 0;
}

int smtp_address_parse(struct str s, bool utf8, struct smtp_address *ret)
{
	struct cursor c = { (const unsigned char *)s.p, (const unsigned char *)s.p + s.n, utf8, false, 0 };
	struct smtp_address a;
	if (!s.n)
		return -SMTP_ADDRESS_EMPTY;
	int r = mailbox(&c, false, &a);
	if (r)
		return r;
	if (c.p < c.end)
		return a.literal ? -SMTP_ADDRESS_LITERAL : -SMTP_ADDRESS_DOMAIN;
	*ret = a;
	return 0;
}

/* A-d-l ":" = "@" Domain *( "," "@" Domain ) ":" */
static int source_route(struct cursor *c)
{
	do {
		if (at(c, ','))
			c->p++;
		if (!at(c, '@'))
			return -SMTP_ADDRESS_ROUTE;
		c->p++;
		if (domain(c))
			return -SMTP_ADDRESS_ROUTE;
	} while (at(c, ','));
	if (!at(c, ':'))
		return -SMTP_ADDRESS_ROUTE;
	c->p++;
	return 0;
}

int smtp_path_parse(struct str s, unsigned flags, struct smtp_address *ret, size_t *ret_used)
{
	struct cursor c = { (const unsigned char *)s.p, (const unsigned char *)s.p + s.n, flags & SMTP_PATH_UTF8, false, 0 };
	struct smtp_address a = { 0 };
	if (!at(&c, '<'))
		return -SMTP_ADDRESS_BRACKET;
	c.p++;
	if (at(&c, '>')) {
		if (!(flags & SMTP_PATH_NULL))
			return -SMTP_ADDRESS_EMPTY;
		a.address = a.local = a.domain = from_to(c.p, c.p);
	} else {
		int r = at(&c, '@') ? source_route(&c) : 0;
		if (!r)
			r = mailbox(&c, flags & SMTP_PATH_POSTMASTER, &a);
		if (r)
			return r;
		if (!at(&c, '>'))
			return c.p == c.end ? -SMTP_ADDRESS_BRACKET :
			    a.literal   ? -SMTP_ADDRESS_LITERAL :
					  -SMTP_ADDRESS_DOMAIN;
	}
	c.p++;
	size_t used = (size_t)((const char *)c.p - s.p);
	if (used > SMTP_PATH_MAX)
		return -SMTP_ADDRESS_LONG;
	*ret = a;
	*ret_used = used;
	return 0;
}

const char *smtp_address_fault_text(int fault)
{
	switch (fault < 0 ? -fault : fault) {
	case SMTP_ADDRESS_OK:
		return "valid";
	case SMTP_ADDRESS_EMPTY:
		return "empty address";
	case SMTP_ADDRESS_BRACKET:
		return "address not enclosed in <>";
	case SMTP_ADDRESS_ROUTE:
		return "bad source route";
	case SMTP_ADDRESS_LOCAL:
		return "bad local part";
	case SMTP_ADDRESS_LOCAL_LONG:
		return "local part longer than 64 octets";
	case SMTP_ADDRESS_QUOTE:
		return "bad quoted local part";
	case SMTP_ADDRESS_NO_AT:
		return "no domain";
	case SMTP_ADDRESS_DOMAIN:
		return "bad domain";
	case SMTP_ADDRESS_LABEL_LONG:
		return "domain label longer than 63 octets";
	case SMTP_ADDRESS_DOMAIN_LONG:
		return "domain longer than 255 octets";
	case SMTP_ADDRESS_LITERAL:
		return "bad address literal";
	case SMTP_ADDRESS_LONG:
		return "address longer than 254 octets";
	case SMTP_ADDRESS_UTF8:
		return "not valid UTF-8";
	case SMTP_ADDRESS_NOT_ASCII:
		return "not ASCII";
	case SMTP_ADDRESS_IDNA:
		return "domain not valid under IDNA";
	}
	return "bad address";
}

int smtp_domain_check(struct str s, bool utf8)
{
	struct cursor c = { (const unsigned char *)s.p, (const unsigned char *)s.p + s.n, utf8, false, 0 };
	if (!s.n)
		return -SMTP_ADDRESS_EMPTY;
	int r = domain(&c);
	return r ? r : c.p < c.end ? -SMTP_ADDRESS_DOMAIN : 0;
}

int smtp_domain_to_ascii(struct str s, struct buf *out)
{
	size_t before = out->n;
	if (!s.n)
		return -1;
	if (str_is_ascii(s)) {
		if (smtp_domain_check(s, false) || buf_adds(out, s))
			return -1;
	} else {
		char *ascii = NULL;
		if (smtp_domain_check(s, true) || idna(s, &ascii))
			return -1;
		int r = buf_addz(out, ascii);
		idn2_free(ascii);
		if (r)
			return -1;
	}
	for (char *p = out->p + before; p < out->p + out->n; p++)
		*p = ascii_lower(*p);
	return 0;
}

bool smtp_domain_equal(struct str a, struct str b)
{
	if (str_ieq(a, b))
		return true;
	if (str_is_ascii(a) && str_is_ascii(b))
		return false;
	struct buf x = BUF_INIT(SMTP_DOMAIN_MAX), y = BUF_INIT(SMTP_DOMAIN_MAX);
	bool same = !smtp_domain_to_ascii(a, &x) && !smtp_domain_to_ascii(b, &y) && str_eq(buf_str(&x), buf_str(&y));
	buf_free(&x);
	buf_free(&y);
	return same;
}

bool smtp_domain_within(struct str d, struct str parent)
{
	if (!parent.n || d.n < parent.n || !str_iends(d, parent))
		return false;
	return d.n == parent.n || d.p[d.n - parent.n - 1] == '.';
}

int smtp_local_unquote(struct str local, struct buf *out)
{
	if (local.n < 2 || local.p[0] != '"')
		return buf_adds(out, local);
	for (size_t i = 1; i + 1 < local.n; i++) {
		if (local.p[i] == '\\' && i + 2 < local.n)
			i++;
		if (buf_addc(out, local.p[i]))
			return -1;
	}
	return 0;
}

int smtp_address_canonical(const struct smtp_address *a, struct buf *out)
{
	if (!a->quoted)
		return buf_adds(out, a->address);
	struct buf plain = BUF_INIT(SMTP_LOCAL_MAX);
	int r = smtp_local_unquote(a->local, &plain);
	const unsigned char *start = (const unsigned char *)buf_z(&plain);
	struct cursor c = { start, start + plain.n, true, false, 0 };
	if (!r && !dot_string(&c) && c.p == c.end) {
		r = buf_adds(out, buf_str(&plain));
	} else if (!r) {
		r = buf_addc(out, '"');
		for (size_t i = 0; !r && i < plain.n; i++) {
			if (plain.p[i] == '"' || plain.p[i] == '\\')
				r = buf_addc(out, '\\');
			r = r ? r : buf_addc(out, plain.p[i]);
		}
		r = r ? r : buf_addc(out, '"');
	}
	buf_free(&plain);
	if (!r && a->domain.n)
		r = buf_addc(out, '@') || buf_adds(out, a->domain) ? -1 : 0;
	return r;
}
