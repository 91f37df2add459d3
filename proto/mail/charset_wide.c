/* Charsets with several octets a character: those of Japanese and Chinese mail; see charset.h. A first octet that no second one fits is one U+FFFD, and
 * the octet behind it is read anew: no sign of ASCII is swallowed, which might end a word or an address. */
#include "proto/mail/charset.h"

/* Rows of characters; "." (which is in none of them) and what a row leaves out: no character. */
static const uint16_t jis[94][95] = {
#include "charset_jis.inc"
};
static const uint16_t gbk[126][191] = {
#include "charset_gbk.inc"
};
static const uint16_t big5[89][158] = {
#include "charset_big5.inc"
};

enum { NONE = 0xfffd, HALF_WIDTH = 0xff61 /* katakana of JIS X 0201 begin here */ };

static unsigned known(uint16_t c)
{
	return c && c != '.' ? c : NONE;
}

static bool within(unsigned c, unsigned from, unsigned to)
{
	return c >= from && c <= to;
}

/* Reads one character, at least one octet. *mode: what an escape sequence set (ISO-2022-JP); 0 at the start. Returns NOTHING for such a sequence. */
typedef unsigned read_fn(const unsigned char *p, size_t n, unsigned *mode, size_t *ret_used);
enum { NOTHING = 0x110000 };

static unsigned jis_at(unsigned row, unsigned column)
{
	return within(row, 0, 93) && within(column, 0, 93) ? known(jis[row][column]) : NONE;
}

/* RFC 1468; katakana of half width as many send them. A line begins in ASCII. */
static unsigned iso_2022_jp(const unsigned char *p, size_t n, unsigned *mode, size_t *used)
{
	enum { ASCII, KATAKANA, JIS, OTHER_JIS };
	static const struct {
		struct str escape;
		unsigned mode;
	} escapes[] = { { STR_INIT("\x1b(B"), ASCII }, { STR_INIT("\x1b(J"), ASCII }, { STR_INIT("\x1b$B"), JIS }, { STR_INIT("\x1b$@"), JIS }, { STR_INIT("\x1b(I"), KATAKANA },
		{ STR_INIT("\x1b$(D"), OTHER_JIS } };
	for (size_t i = 0; *p == 0x1b && i < sizeof escapes / sizeof *escapes; i++)
		if (str_starts(str_n((const char *)p, n), escapes[i].escape)) {
			*mode = escapes[i].mode;
			*used = escapes[i].escape.n;
			return NOTHING;
		}
	*used = 1;
	if (*p == '\n')
		*mode = ASCII;
	if (*p > 127)
		return NONE;
	if (*mode == ASCII || *p <= 0x20 || *p == 127)
		return *p;
	if (*mode == KATAKANA)
		return *p < 0x60 ? HALF_WIDTH + *p - 0x21u : NONE;
	if (n < 2 || !within(p[1], 0x21, 0x7e))
		return NONE;
	*used = 2;
	return *mode == JIS ? jis_at(p[0] - 0x21u, p[1] - 0x21u) : NONE;
}

static unsigned euc_jp(const unsigned char *p, size_t n, unsigned *mode, size_t *used)
{
	(void)mode;
	*used = 1;
	if (*p < 128)
		return *p;
	if (*p == 0x8e && n > 1 && within(p[1], 0xa1, 0xdf)) {
		*used = 2;
		return HALF_WIDTH + p[1] - 0xa1u;
	}
	if (*p == 0x8f && n > 2 && within(p[1], 0xa1, 0xfe) && within(p[2], 0xa1, 0xfe)) { /* JIS X 0212 */
		*used = 3;
		return NONE;
	}
	if (!within(*p, 0xa1, 0xfe) || n < 2 || !within(p[1], 0xa1, 0xfe))
		return NONE;
	*used = 2;
	return jis_at(*p - 0xa1u, p[1] - 0xa1u);
}

static unsigned shift_jis(const unsigned char *p, size_t n, unsigned *mode, size_t *used)
{
	(void)mode;
	*used = 1;
	if (*p < 128)
		return *p;
	if (within(*p, 0xa1, 0xdf))
		return HALF_WIDTH + *p - 0xa1u;
	if (n < 2 || !(within(*p, 0x81, 0x9f) || within(*p, 0xe0, 0xfc)) || !(within(p[1], 0x40, 0x7e) || within(p[1], 0x80, 0xfc)))
		return NONE;
	/* two rows share a first octet */
	unsigned row = (*p - (*p < 0xa0 ? 0x81u : 0xc1u)) * 2, column = p[1] - (p[1] > 0x7f ? 0x41u : 0x40u);
	*used = 2;
	return column < 94 ? jis_at(row, column) : jis_at(row + 1, column - 94);
}

/* GB18030 holds GBK, and that GB2312. Of its characters of four octets those beyond U+FFFF are known. */
static unsigned gb18030(const unsigned char *p, size_t n, unsigned *mode, size_t *used)
{
	(void)mode;
	*used = 1;
	if (*p < 128)
		return *p;
	if (*p == 0x80)
		return 0x20ac; /* as code page 936 has it */
	if (n < 2 || *p == 0xff)
		return NONE;
	if (within(p[1], '0', '9') && n > 3 && within(p[2], 0x81, 0xfe) && within(p[3], '0', '9')) {
		unsigned c = (((*p - 0x81u) * 10 + p[1] - '0') * 126 + p[2] - 0x81u) * 10 + p[3] - '0';
		unsigned first = (0x90 - 0x81u) * 12600; /* of U+10000 */
		*used = 4;
		return c >= first && c - first < 0x100000 ? c - first + 0x10000 : NONE;
	}
	if (!within(p[1], 0x40, 0x7e) && !within(p[1], 0x80, 0xfe))
		return NONE;
	*used = 2;
	return known(gbk[*p - 0x81u][p[1] - (p[1] > 0x7f ? 0x41u : 0x40u)]);
}

static unsigned big_five(const unsigned char *p, size_t n, unsigned *mode, size_t *used)
{
	(void)mode;
	*used = 1;
	if (*p < 128)
		return *p;
	if (n < 2 || !within(*p, 0x81, 0xfe) || !(within(p[1], 0x40, 0x7e) || within(p[1], 0xa1, 0xfe)))
		return NONE;
	*used = 2;
	return within(*p, 0xa1, 0xf9) ? known(big5[*p - 0xa1u][p[1] - (p[1] > 0x7f ? 0x62u : 0x40u)]) : NONE;
}

static const struct {
	const char *name;
	read_fn *read;
} charsets[] = {
	{ "iso-2022-jp", iso_2022_jp }, { "iso-2022-jp-1", iso_2022_jp }, { "iso-2022-jp-2", iso_2022_jp }, { "iso-2022-jp-ms", iso_2022_jp }, { "csiso2022jp", iso_2022_jp },
	{ "cp50220", iso_2022_jp }, { "cp50221", iso_2022_jp }, { "euc-jp", euc_jp }, { "eucjp", euc_jp }, { "x-euc-jp", euc_jp }, { "cseucpkdfmtjapanese", euc_jp },
	{ "shift_jis", shift_jis }, { "shift-jis", shift_jis }, { "sjis", shift_jis }, { "x-sjis", shift_jis }, { "windows-31j", shift_jis }, { "cp932", shift_jis },
	{ "ms_kanji", shift_jis }, { "csshiftjis", shift_jis }, { "gb2312", gb18030 }, { "gbk", gb18030 }, { "gb18030", gb18030 }, { "cp936", gb18030 }, { "gb_2312-80", gb18030 },
	{ "x-gbk", gb18030 }, { "euc-cn", gb18030 }, { "csgb2312", gb18030 }, { "windows-936", gb18030 }, { "big5", big_five }, { "big-5", big_five }, { "cp950", big_five },
	{ "csbig5", big_five }, { "x-x-big5", big_five }, { "windows-950", big_five },
};

int mail_charset_wide_to_utf8(struct str charset, struct str octets, struct buf *out)
{
	read_fn *read = NULL;
	unsigned mode = 0;
	for (size_t i = 0; i < sizeof charsets / sizeof *charsets; i++)
		if (str_ieq(charset, str_from(charsets[i].name)))
			read = charsets[i].read;
	if (!read)
		return 1;
	for (size_t i = 0, used = 0; i < octets.n; i += used) {
		unsigned c = read((const unsigned char *)octets.p + i, octets.n - i, &mode, &used);
		if (c == NOTHING)
			continue;
		if (c < 0x20 || within(c, 0x7f, 0x9f))
			c = ' '; /* a control */
		if (mail_charset_put(out, c))
			return -1;
	}
	return 0;
}
