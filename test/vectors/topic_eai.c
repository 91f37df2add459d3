/* Topic eai: addresses that are not ASCII (RFC 6531), and domains between U-labels and A-labels (RFC 5891). The engine never
 * repairs: no mapping (RFC 5895, UTS #46) and no normalisation is done to what a client sends; that is the user agent's. */
#include "vectors.h"

#include "proto/address/address.h"

static struct str lower(struct buf *b)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->p[i] >= 'A' && b->p[i] <= 'Z')
			b->p[i] |= 0x20;
	return buf_str(b);
}

/* --- addresses.json --- */

/* Why a case of python-email-validator that is called invalid is an address all the same, by what it says of it. */
static const struct {
	struct str test, error; /* parts of the test's name and of the error's text; empty: any */
	const char *reason;
} stricter[] = {
	{ STR_INIT("only_if_quoted"), STR_INIT(""), "a quoted local part (RFC 5321 §4.1.2)" },
	{ STR_INIT(""), STR_INIT("Quoting the part before the @-sign"), "a quoted local part (RFC 5321 §4.1.2)" },
	{ STR_INIT("reserved_domain"), STR_INIT(""), "special-use names are names (RFC 6761)" },
	{ STR_INIT(""), STR_INIT("special-use"), "special-use names are names (RFC 6761)" },
	{ STR_INIT(""), STR_INIT("should have a period"), "a domain may have one label (RFC 5321 §2.3.5)" },
	{ STR_INIT(""), STR_INIT("valid top-level domain"), "any label may be the last one (RFC 5321 §4.1.2)" },
	{ STR_INIT(""), STR_INIT("two letters followed by two dashes"), "letters, digits and hyphens (RFC 5321 §4.1.2)" },
	{ STR_INIT(""), STR_INIT("Invalid A-label"), "an A-label is letters, digits and hyphens to SMTP (RFC 5321 §4.1.2)" },
	{ STR_INIT(""), STR_INIT("bracketed IP address after the @-sign is not allowed"), "an address literal (RFC 5321 §4.1.3)" },
	{ STR_INIT(""), STR_INIT("After Unicode normalization: The email address contains"), "no normalisation here (RFC 6532 §3.1 leaves it to the author)" },
	{ STR_INIT("smtputf8_off"), STR_INIT(""), "valid where SMTPUTF8 is declared" },
};

static bool within(struct str s, struct str part)
{
	return !part.n || (s.n && memmem(s.p, s.n, part.p, part.n));
}

static const char *valid_all_the_same(struct json_object *one)
{
	for (size_t i = 0; i < sizeof stricter / sizeof *stricter; i++)
		if (within(vectors_str(one, "test"), stricter[i].test) && within(vectors_str(one, "error"), stricter[i].error))
			return stricter[i].reason;
	return NULL;
}

static void judge_valid(struct json_object *one, struct str address, struct verdict *v)
{
	struct smtp_address a;
	struct buf ascii = BUF_INIT(4096), canonical = BUF_INIT(4096);
	struct str domain = vectors_str(one, "ascii_domain"), local = vectors_str(one, "ascii_local_part");
	bool needs = false;
	vectors_bool(one, "smtputf8", &needs);
	int wide = smtp_address_parse(address, true, &a), r = wide;
	v->ok = !wide;
	if (v->ok && a.literal) /* the suite compresses the address within; we keep what was sent */
		v->ok = !smtp_literal_check(domain);
	else if (v->ok)
		v->ok = !smtp_domain_to_ascii(a.domain, &ascii) && str_ieq(buf_str(&ascii), domain);
	if (v->ok) {
		struct smtp_address plain;
		/* a local part that is not ASCII has no other form: without SMTPUTF8 it cannot be, with it it can */
		v->ok = needs == !str_is_ascii(a.local) && a.utf8 == !str_is_ascii(address) &&
		    (r = smtp_address_parse(address, false, &plain), a.utf8 ? r == -SMTP_ADDRESS_NOT_ASCII : !r);
	}
	if (v->ok && local.p && !a.literal)
		v->ok = !smtp_address_canonical(&a, &canonical) && str_istarts(buf_str(&canonical), local) &&
		    canonical.n == local.n + 1 + a.domain.n;
	buf_addf(&v->expected, "valid%s, domain %.*s", needs ? " with SMTPUTF8" : "", STR_ARG(domain));
	buf_addf(&v->got, "%s, domain ", smtp_address_fault_text(wide ? wide : r));
	vectors_escape(buf_str(&ascii), &v->got);
	buf_free(&ascii);
	buf_free(&canonical);
}

static void judge_address(struct json_object *one, struct verdict *v)
{
	struct str input = vectors_str(one, "input");
	struct smtp_address a;
	bool valid = false;
	vectors_bool(one, "valid", &valid);
	if (valid && vectors_str(one, "display_name").p) { /* a mailbox of a header field, no address of SMTP */
		struct buf within = BUF_INIT(1 << 16);
		v->ok = smtp_address_parse(input, true, &a) && vectors_mailbox(input, &within);
		if (v->ok)
			judge_valid(one, buf_str(&within), v);
		buf_free(&within);
		return;
	}
	if (valid) {
		judge_valid(one, input, v);
		return;
	}
	int plain = smtp_address_parse(input, false, &a), wide = smtp_address_parse(input, true, &a);
	v->ok = plain && wide;
	if (!v->ok && (v->note = valid_all_the_same(one)))
		v->ok = true;
	buf_addz(&v->expected, "invalid");
	buf_addf(&v->got, "%s / %s", smtp_address_fault_text(plain), smtp_address_fault_text(wide));
}

/* --- IdnaTestV2 --- */

/* A column: blanks off, \uXXXX and \x{XXXX} undone, "" empty. */
static void column(struct str *rest, struct buf *out)
{
	ptrdiff_t semicolon = str_chr(*rest, ';');
	struct str s = str_trim(semicolon < 0 ? *rest : str_n(rest->p, (size_t)semicolon));
	*rest = semicolon < 0 ? STR_NULL : str_skip(*rest, (size_t)semicolon + 1);
	if (str_eq(s, STR("\"\"")))
		return;
	for (size_t i = 0; i < s.n; i++) {
		unsigned long c = 0;
		size_t digits = 0;
		if (s.p[i] == '\\' && i + 1 < s.n && (s.p[i + 1] == 'u' || s.p[i + 1] == 'x')) {
			size_t at = i + 2 + (s.p[i + 1] == 'x');
			for (; at + digits < s.n && digits < 6 && (s.p[i + 1] == 'x' || digits < 4); digits++) {
				char h = s.p[at + digits];
				int value = h >= '0' && h <= '9' ? h - '0' : (h | 0x20) >= 'a' && (h | 0x20) <= 'f' ? (h | 0x20) - 'a' + 10 : -1;
				if (value < 0)
					break;
				c = c * 16 + (unsigned long)value;
			}
			i = at + digits - (s.p[i + 1] == 'x' ? 0 : 1);
		}
		if (!digits) {
			buf_addc(out, s.p[i]);
		} else if (c < 0x80) {
			buf_addc(out, (char)c);
		} else if (c < 0x800) {
			buf_addc(out, (char)(0xc0 | c >> 6));
			buf_addc(out, (char)(0x80 | (c & 0x3f)));
		} else if (c < 0x10000) {
			buf_addc(out, (char)(0xe0 | c >> 12));
			buf_addc(out, (char)(0x80 | (c >> 6 & 0x3f)));
			buf_addc(out, (char)(0x80 | (c & 0x3f)));
		} else {
			buf_addc(out, (char)(0xf0 | c >> 18));
			buf_addc(out, (char)(0x80 | (c >> 12 & 0x3f)));
			buf_addc(out, (char)(0x80 | (c >> 6 & 0x3f)));
			buf_addc(out, (char)(0x80 | (c & 0x3f)));
		}
	}
}

/* Source against toASCII, non-transitional. */
static void judge_idna(struct json_object *one, struct verdict *v)
{
	struct str rest = vectors_str(one, "line");
	struct buf col[5], ascii = BUF_INIT(4096);
	ptrdiff_t comment = str_chr(rest, '#');
	if (comment >= 0)
		rest = str_n(rest.p, (size_t)comment);
	for (unsigned i = 0; i < 5; i++) {
		col[i] = BUF_INIT(1 << 16);
		column(&rest, &col[i]);
	}
	/* a blank column means the one it is derived from */
	struct str source = buf_str(&col[0]), unicode = col[1].n ? buf_str(&col[1]) : source;
	struct str want = col[3].n ? buf_str(&col[3]) : unicode, status = col[4].n ? buf_str(&col[4]) : buf_str(&col[2]);
	bool must_fail = status.n && !str_eq(status, STR("[]"));
	bool taken = source.n <= 4096 && !smtp_domain_check(source, true) && !smtp_domain_to_ascii(source, &ascii);
	bool same = taken && str_eq(lower(&ascii), want);
	if (str_is_ascii(source)) {
		/* RFC 5321 §4.1.2 decides of a domain in ASCII: the rules of UTS #46 about what its A-labels decode to are not asked */
		v->ok = taken ? must_fail || same : must_fail;
		if (taken && must_fail)
			v->note = "an A-label is letters, digits and hyphens to SMTP (RFC 5321 §4.1.2)";
	} else if (must_fail) {
		v->ok = !taken;
	} else {
		v->ok = same || !taken;
		if (!taken)
			v->note = str_eq(source, unicode) ? "not of IDNA2008 (RFC 5892), though of UTS #46" : "needs a mapping, which is the user agent's (RFC 5895)";
	}
	buf_addf(&v->expected, "%s ", must_fail ? "refusal" : "");
	vectors_escape(want, &v->expected);
	vectors_escape(source, &v->got);
	buf_addf(&v->got, " is %s ", taken ? "taken as" : "refused");
	vectors_escape(buf_str(&ascii), &v->got);
	for (unsigned i = 0; i < 5; i++)
		buf_free(&col[i]);
	buf_free(&ascii);
}

/* --- punycode --- */

/* As labels: what decodes to one that we take must come out as its A-label; without "encoded" it cannot be one at all. */
static void judge_punycode(struct json_object *one, struct verdict *v)
{
	struct str decoded = vectors_str(one, "decoded"), encoded = vectors_str(one, "encoded");
	struct buf label = BUF_INIT(1 << 16), ascii = BUF_INIT(4096);
	bool taken = decoded.n && decoded.n <= 4096 && !str_is_ascii(decoded) && !smtp_domain_check(decoded, true);
	buf_addz(&label, "xn--");
	buf_adds(&label, encoded);
	v->ok = !taken || (encoded.p && !smtp_domain_to_ascii(decoded, &ascii) && str_eq(buf_str(&ascii), lower(&label)));
	if (!taken && encoded.p)
		v->note = "no label of a domain: capitals, symbols, blanks, ASCII alone, or too long (RFC 5891 §4.2)";
	vectors_escape(buf_str(&label), &v->expected);
	vectors_escape(buf_str(&ascii), &v->got);
	buf_free(&label);
	buf_free(&ascii);
}

void topic_eai(const char *file, struct json_object *one, struct verdict *v)
{
	(void)file;
	if (vectors_str(one, "line").p)
		judge_idna(one, v);
	else if (vectors_str(one, "input").p)
		judge_address(one, v);
	else
		judge_punycode(one, v);
}
