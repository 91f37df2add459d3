/* Charsets of mail; see charset.h. */
#include "proto/mail/charset.h"

#include <unistr.h>

int mail_charset_put(struct buf *out, uint32_t c)
{
	uint8_t u[6];
	int n = u8_uctomb(u, c, sizeof u);
	return n > 0 ? buf_add(out, u, (size_t)n) : buf_addz(out, "\xef\xbf\xbd");
}

int mail_charset_clean(struct str text, struct buf *out)
{
	const uint8_t *p = (const uint8_t *)text.p;
	for (size_t i = 0; i < text.n;) {
		ucs4_t c;
		int n = u8_mbtoucr(&c, p + i, text.n - i), r;
		if (n <= 0) {
			r = mail_charset_put(out, 0xfffd);
			n = 1;
		} else if (c < 0x20 || (c >= 0x7f && c < 0xa0))
			r = buf_addc(out, ' ');
		else
			r = buf_add(out, p + i, (size_t)n);
		if (r)
			return -1;
		i += (size_t)n;
	}
	return 0;
}

static const struct {
	struct str alias;
	const char *name;
} aliases[] = {
	/* as browsers and mail programs read it: iso-8859-1 has only controls where windows-1252 has characters */
	{ STR_INIT("iso-8859-1"), "windows-1252" },
	{ STR_INIT("iso8859-1"), "windows-1252" },
	{ STR_INIT("iso_8859-1"), "windows-1252" },
	{ STR_INIT("latin1"), "windows-1252" },
	{ STR_INIT("l1"), "windows-1252" },
	{ STR_INIT("latin2"), "iso-8859-2" },
	{ STR_INIT("latin-9"), "iso-8859-15" },
	{ STR_INIT("iso8859-15"), "iso-8859-15" },
	{ STR_INIT("iso-8859-8-i"), "iso-8859-8" },
	{ STR_INIT("iso-8859-8-e"), "iso-8859-8" },
	{ STR_INIT("iso-8859-6-i"), "iso-8859-6" },
	{ STR_INIT("iso-8859-6-e"), "iso-8859-6" },
	{ STR_INIT("iso-8859-11"), "windows-874" },
	{ STR_INIT("tis-620"), "windows-874" },
	{ STR_INIT("koi8"), "koi8-r" },
};

static const struct mail_charset *find(struct str name)
{
	for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
		if (str_ieq(name, aliases[i].alias))
			name = str_from(aliases[i].name);
	if (str_istarts(name, STR("cp125")) && name.n == 6) { /* cp1252 is windows-1252 */
		for (size_t i = 0; i < mail_charsets_n; i++)
			if (str_iends(str_from(mail_charsets[i].name), str_skip(name, 2)))
				return &mail_charsets[i];
	}
	for (size_t i = 0; i < mail_charsets_n; i++)
		if (str_ieq(name, str_from(mail_charsets[i].name)))
			return &mail_charsets[i];
	return NULL;
}

int mail_charset_to_utf8(struct str charset, struct str octets, struct buf *out)
{
	bool ascii = str_ieq(charset, STR("us-ascii")) || str_ieq(charset, STR("ascii")) ||
	    str_ieq(charset, STR("ansi_x3.4-1968"));
	if (str_ieq(charset, STR("utf-8")) || str_ieq(charset, STR("utf8")))
		return mail_charset_clean(octets, out);
	const struct mail_charset *set = ascii ? NULL : find(charset);
	if (!set && !ascii)
		return mail_charset_wide_to_utf8(charset, octets, out);
	for (size_t i = 0; i < octets.n; i++) {
		unsigned char c = (unsigned char)octets.p[i];
		unsigned u = c < 128 ? c : set ? set->high[c - 128] : 0xfffd;
		if (u < 0x20 || (u >= 0x7f && u < 0xa0))
			u = (u || c == 0) ? ' ' : 0xfffd; /* a control, or an octet that is none */
		if (mail_charset_put(out, u))
			return -1;
	}
	return 0;
}
