/* The forms of SRS addresses and the rules of going there and back. Strict on both sides: what is no address of RFC 5321 is neither
 * made nor read. Knows no rates, no clock, and not which mail is forwarded. */
#include "srs_internal.h"

#include "proto/smtp/address.h"

enum { ROOM = 1024 }; /* octets of any address at work here */

static int check(const struct srs *s)
{
	size_t least = s->weak ? 1 : SRS_KEY_MIN; /* the keys of a program that is taken over are what they are */
	if (s->keys[0].n < least || (s->keys[1].n && s->keys[1].n < least) || s->max_age > SRS_MAX_AGE_MAX)
		return SRS_KEY;
	if (s->separator && !strchr("=+-", s->separator))
		return SRS_KEY;
	return smtp_domain_check(s->domain, false) ? SRS_KEY : 0;
}

static bool has_case(struct str s, char from, char to)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] >= from && s.p[i] <= to)
			return true;
	return false;
}

static bool has_upper(struct str s)
{
	return has_case(s, 'A', 'Z');
}

static bool has_lower(struct str s)
{
	return has_case(s, 'a', 'z');
}

static bool is_separator(char c)
{
	return c == '=' || c == '+' || c == '-';
}

/* Is a local part (unquoted) SRS by its beginning? Its digit, or 0. */
static char kind(struct str local)
{
	return local.n > 4 && str_istarts(local, STR("SRS")) && (local.p[3] == '0' || local.p[3] == '1') && is_separator(local.p[4]) ?
	    local.p[3] : 0;
}

/* Takes what stands before the next '=' off the front. */
static bool field(struct str *rest, struct str *ret)
{
	ptrdiff_t at = str_chr(*rest, '=');
	if (at < 0)
		return false;
	*ret = str_n(rest->p, (size_t)at);
	*rest = str_skip(*rest, (size_t)at + 1);
	return true;
}

/* local@domain, the local part quoted where it has to be. */
static int join(struct str local, struct str domain, struct buf *out)
{
	struct buf b = BUF_INIT(ROOM);
	struct smtp_address a;
	size_t before = out->n;
	if (local.n > SMTP_LOCAL_MAX)
		return SRS_TOO_LONG;
	buf_adds(&b, local);
	buf_addc(&b, '@');
	buf_adds(&b, domain);
	int fault = smtp_address_parse(buf_str(&b), true, &a), r = SRS_BAD_ADDRESS;
	/* what has quotes in it would read as a quoted string */
	if (fault || a.quoted) {
		buf_reset(&b);
		buf_addc(&b, '"');
		for (size_t i = 0; i < local.n; i++) {
			if (local.p[i] == '"' || local.p[i] == '\\')
				buf_addc(&b, '\\');
			buf_addc(&b, local.p[i]);
		}
		buf_addc(&b, '"');
		buf_addc(&b, '@');
		buf_adds(&b, domain);
		fault = smtp_address_parse(buf_str(&b), true, &a);
	}
	if (b.failed)
		r = SRS_MEMORY;
	else if (!fault)
		r = SRS_OK;
	else if (fault == -SMTP_ADDRESS_LOCAL_LONG || fault == -SMTP_ADDRESS_LONG)
		r = SRS_TOO_LONG;
	if (!r && smtp_address_canonical(&a, out)) {
		out->n = before;
		r = SRS_MEMORY;
	}
	buf_free(&b);
	return r;
}

/* An address taken apart: local unquoted, domain as A-labels in lower case. 0, or a result. */
static int take(struct str address, struct buf *local, struct buf *domain)
{
	struct smtp_address a;
	int r = smtp_address_parse(address, true, &a);
	if (r || !a.domain.n)
		return SRS_BAD_ADDRESS;
	if (smtp_local_unquote(a.local, local))
		return SRS_MEMORY;
	if (!local->n) /* "" is allowed by the letter, and nobody's */
		return SRS_BAD_ADDRESS;
	if (!a.literal)
		return smtp_domain_to_ascii(a.domain, domain) ? SRS_BAD_ADDRESS : 0;
	for (size_t i = 0; i < a.domain.n; i++)
		buf_addc(domain, ascii_lower(a.domain.p[i]));
	return domain->failed ? SRS_MEMORY : 0;
}

/* Signs and puts together. */
static int make(const struct srs *s, struct srs_covered *c, int64_t now, struct buf *out)
{
	struct buf b = BUF_INIT(ROOM);
	char tag[SRS_TAG_MAX], stamp[SRS_STAMP];
	int r;
	if (now < 0)
		return SRS_KEY;
	c->day = (uint64_t)now / SRS_DAY;
	c->separator = s->separator ? s->separator : '=';
	srs_stamp(c->day, stamp);
	if (srs_tag(s, s->keys[0], c, tag))
		return SRS_MEMORY;
	buf_addf(&b, "SRS%c%c", c->type, c->separator);
	buf_add(&b, tag, srs_tag_size(s));
	if (c->type == '0')
		buf_addc(&b, '=');
	if (c->type == '0' || !s->weak)
		buf_add(&b, stamp, sizeof stamp);
	buf_addc(&b, '=');
	buf_adds(&b, c->host);
	buf_addc(&b, '=');
	buf_adds(&b, c->user);
	r = b.failed ? SRS_MEMORY : join(buf_str(&b), s->domain, out);
	buf_free(&b);
	return r;
}

/* What to sign for a sender that is SRS already; anything without the parts that would take it is an ordinary address. */
static bool chain(struct str local, struct str domain, struct srs_covered *c)
{
	char k = kind(local);
	struct str rest = str_skip(local, 5), tag, host;
	c->type = '1';
	if (k == '0' && rest.n) {
		c->host = domain;
		c->user = str_skip(local, 4); /* with its separator */
		return true;
	}
	if (k != '1' || !field(&rest, &tag) || !field(&rest, &host) || rest.n < 2 || !is_separator(rest.p[0]) || has_upper(host))
		return false;
	if (smtp_domain_check(host, false) && smtp_literal_check(host))
		return false;
	c->host = host;
	c->user = rest;
	return true;
}

int srs_forward(const struct srs *s, struct str sender, int64_t now, struct buf *out)
{
	struct buf local = BUF_INIT(ROOM), domain = BUF_INIT(ROOM);
	struct srs_covered c = { 0 };
	int r = check(s);
	if (r)
		return r;
	if (!sender.n)
		return SRS_UNCHANGED;
	if (!(r = take(sender, &local, &domain))) {
		if (smtp_domain_equal(buf_str(&domain), s->domain)) {
			size_t before = out->n;
			r = buf_adds(out, sender) ? SRS_MEMORY : SRS_UNCHANGED;
			if (r < 0)
				out->n = before;
		} else {
			if (!chain(buf_str(&local), buf_str(&domain), &c))
				c = (struct srs_covered){ .type = '0', .host = buf_str(&domain), .user = buf_str(&local) };
			c.upper = has_upper(c.user);
			r = make(s, &c, now, out);
		}
	}
	buf_free(&local);
	buf_free(&domain);
	return r;
}

int srs_forward_kept(const struct srs *s, struct str reference, int64_t now, struct buf *out)
{
	struct srs_covered c = { .type = '0', .host = STR(""), .user = reference };
	int r = check(s);
	if (r)
		return r;
	if (s->weak) /* others would not understand them, and 20 bits are not enough for what a database is asked for */
		return SRS_KEY;
	if (!reference.n || reference.n > SRS_REFERENCE_MAX)
		return SRS_BAD_ADDRESS;
	for (size_t i = 0; i < reference.n; i++) {
		char ch = reference.p[i];
		if (!((ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') || ch == '-'))
			return SRS_BAD_ADDRESS;
	}
	return make(s, &c, now, out);
}

struct parts {
	struct srs_covered covered;
	struct str tag, stamp;
	bool folded; /* all letters of the local part have one case */
};

static int take_apart(const struct srs *s, struct str local, struct parts *p)
{
	struct str rest = str_skip(local, 5);
	p->covered.type = kind(local);
	p->covered.separator = local.p[4];
	if (!field(&rest, &p->tag))
		return SRS_MALFORMED;
	if (p->covered.type == '1' && !s->weak) {
		if (p->tag.n != SRS_TAG_MAX + SRS_STAMP)
			return SRS_MALFORMED;
		p->stamp = str_skip(p->tag, SRS_TAG_MAX);
		p->tag.n = SRS_TAG_MAX;
	} else if (p->covered.type == '0' && !field(&rest, &p->stamp)) {
		return SRS_MALFORMED;
	}
	if (p->tag.n != srs_tag_size(s) || !field(&rest, &p->covered.host) || !rest.n)
		return SRS_MALFORMED;
	if (p->covered.type == '1' && (!p->covered.host.n || !is_separator(rest.p[0]) || rest.n < 2))
		return SRS_MALFORMED;
	if (!p->covered.host.n && s->weak)
		return SRS_MALFORMED;
	p->covered.user = rest;
	p->folded = !has_upper(local) || !has_lower(local);
	return 0;
}

/* Did one of the keys make it, letter case and all? 1, 0, -1. */
static int genuine(const struct srs *s, struct parts *p, struct str local)
{
	int a, b = 0;
	size_t head = (size_t)(p->covered.host.p - local.p);
	if (s->weak)
		return srs_tag_check(s, &p->covered, p->tag);
	if (!p->folded && (has_lower(str_n(local.p, head)) || has_upper(p->covered.host)))
		return 0;
	p->covered.upper = has_upper(p->covered.user);
	a = srs_tag_check(s, &p->covered, p->tag);
	if (p->folded && a >= 0) { /* what the user looked like is not to be seen any more */
		p->covered.upper = !p->covered.upper;
		b = srs_tag_check(s, &p->covered, p->tag);
	}
	return a < 0 || b < 0 ? -1 : a | b;
}

/* The address that it was made of. */
static int original(const struct parts *p, struct buf *out)
{
	struct buf local = BUF_INIT(ROOM);
	size_t before = out->n;
	int r;
	if (!p->covered.host.n) {
		for (size_t i = 0; i < p->covered.user.n; i++) {
			char c = p->covered.user.p[i];
			buf_addc(out, ascii_lower(c));
		}
		if (!out->failed)
			return SRS_KEPT;
		out->n = before;
		return SRS_MEMORY;
	}
	if (p->covered.type == '1')
		buf_addz(&local, "SRS0");
	buf_adds(&local, p->covered.user);
	r = local.failed ? SRS_MEMORY : join(buf_str(&local), p->covered.host, out);
	buf_free(&local);
	return r == SRS_BAD_ADDRESS || r == SRS_TOO_LONG ? SRS_MALFORMED : r;
}

static int reverse(const struct srs *s, struct str local, int64_t now, struct buf *out)
{
	struct parts p = { 0 };
	uint64_t today = (uint64_t)now / SRS_DAY;
	int r = take_apart(s, local, &p);
	if (r)
		return r;
	if (p.stamp.n && srs_stamp_day(p.stamp, today, &p.covered.day))
		return SRS_FORGED;
	if ((r = genuine(s, &p, local)) <= 0)
		return r ? SRS_MEMORY : SRS_FORGED;
	/* a weak SRS1 has no stamp: whoever made the SRS0 within looks at that */
	if (p.stamp.n && p.covered.day < today && today - p.covered.day > (s->max_age ? s->max_age : SRS_MAX_AGE))
		return SRS_EXPIRED;
	return original(&p, out);
}

int srs_reverse(const struct srs *s, struct str address, int64_t now, struct buf *out)
{
	struct buf local = BUF_INIT(ROOM), domain = BUF_INIT(ROOM);
	int r = check(s);
	if (r)
		return r;
	if (now < 0)
		return SRS_KEY;
	r = take(address, &local, &domain);
	if (r == SRS_BAD_ADDRESS || (!r && (!kind(buf_str(&local)) || !smtp_domain_equal(buf_str(&domain), s->domain))))
		r = SRS_NOT_SRS;
	if (!r)
		r = reverse(s, buf_str(&local), now, out);
	buf_free(&local);
	buf_free(&domain);
	return r;
}

bool srs_is(struct str address, struct str domain)
{
	struct smtp_address a;
	if (smtp_address_parse(address, true, &a) || !smtp_domain_equal(a.domain, domain))
		return false;
	return kind(a.quoted ? str_skip(a.local, 1) : a.local) != 0; /* we write no backslash before a letter */
}

const char *srs_result_text(int result)
{
	switch (result) {
	case SRS_OK: return "rewritten";
	case SRS_UNCHANGED: return "needs no rewriting";
	case SRS_KEPT: return "a sender that is kept here";
	case SRS_NOT_SRS: return "not an SRS address of this domain";
	case SRS_BAD_ADDRESS: return "not an address";
	case SRS_TOO_LONG: return "longer than a local part may be";
	case SRS_MALFORMED: return "parts of the SRS address are missing";
	case SRS_FORGED: return "the SRS address was not made here";
	case SRS_EXPIRED: return "the SRS address has expired";
	case SRS_KEY: return "no usable SRS key or option";
	default: return "out of memory";
	}
}
