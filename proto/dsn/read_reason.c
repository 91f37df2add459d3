/* What the words of a bounce mean: a table of phrases that mail systems use, in order of how much they say, and the meaning of status codes
 * (RFC 3463, RFC 5248) for texts that say nothing. Phrases, not systems: none is of one file or product only. */
#include "read_internal.h"

#include <unicase.h>
#include <uninorm.h>
#include <unistr.h>

struct phrases {
	const char *language; /* for those who read the table; what a text is written in is not known */
	enum dsn_read_reason reason;
	const char *const *phrase; /* ends with NULL; phrase is NULL: from here on a status says more */
};
#define W(language, reason, ...) { language, DSN_REASON_##reason, (const char *const[]){ __VA_ARGS__, NULL } },
#define END_OF_STRONG { "", DSN_REASON_OTHER, NULL },
static const struct phrases words[] = {
#include "read_words.inc"
};
#undef W
#undef END_OF_STRONG

enum {
	WORDS = sizeof words / sizeof *words,
	GAP_MAX = 96,
	FINDS_MAX = 200, /* of the first half of a phrase with a gap */
};

/* Which pairs of octets a text has: most phrases are none of it at a glance. */
struct pairs {
	uint64_t bits[65536 / 64];
};

static unsigned pair(const char *p)
{
	return (unsigned)(unsigned char)p[0] << 8 | (unsigned char)p[1];
}

static void look(struct pairs *pairs, struct str text)
{
	for (size_t i = 0; i + 1 < text.n; i++)
		pairs->bits[pair(text.p + i) / 64] |= (uint64_t)1 << pair(text.p + i) % 64;
}

/* Does the text hold the phrase? Linear: what stands behind each find is looked at for GAP_MAX octets. */
static bool says(struct str text, const struct pairs *pairs, const char *phrase)
{
	const char *star = strchr(phrase, '*');
	size_t first = star ? (size_t)(star - phrase) : strlen(phrase);
	for (size_t i = 0; i + 1 < first; i++)
		if (!(pairs->bits[pair(phrase + i) / 64] >> pair(phrase + i) % 64 & 1))
			return false;
	if (!star)
		return memmem(text.p, text.n, phrase, first);
	const char *at;
	star++;
	for (unsigned k = 0; k < FINDS_MAX && (at = memmem(text.p, text.n, phrase, first)); k++) {
		text = str_skip(text, (size_t)(at - text.p) + first);
		if (memmem(text.p, text.n < GAP_MAX ? text.n : GAP_MAX, star, strlen(star)))
			return true;
	}
	return false;
}

/* A character as phrases have it: in lower case, without an accent. 0: it is left out. */
static ucs4_t plain(ucs4_t c)
{
	ucs4_t parts[UC_DECOMPOSITION_MAX_LENGTH];
	if (c == 0xad || c == 0xfeff || (c >= 0x200b && c <= 0x200f) || (c >= 0x300 && c < 0x370)) /* invisible, or an accent by itself */
		return 0;
	if (c == 0xa0 || c == 0x3000 || (c >= 0x2000 && c <= 0x200a) || c == 0x202f)
		return ' ';
	if (c == 0x2018 || c == 0x2019 || c == 0x2bc)
		return '\'';
	if (c == 0x201c || c == 0x201d || c == 0xab || c == 0xbb)
		return '"';
	c = uc_tolower(c);
	if (c == 0x451) /* most write the Russian letter without its dots */
		return 0x435;
	/* Latin letters only: elsewhere what is left would be another letter */
	while (c > 127 && (c < 0x250 || (c >= 0x1e00 && c < 0x1f00)) && uc_canonical_decomposition(c, parts) > 0)
		c = parts[0];
	return c;
}

/* Chinese and Japanese put no blanks between words: where there is one a line was broken. */
static bool is_wide(ucs4_t c)
{
	return c >= 0x2e80 && c != 0xfffd && !(c >= 0xac00 && c <= 0xd7a3);
}

void dsn_read_fold(struct str text, struct buf *out)
{
	bool blank = false;
	ucs4_t last = ' ';
	for (size_t i = 0, n; i < text.n && out->n < DSN_READ_TEXT_MAX; i += n) {
		ucs4_t c = (unsigned char)text.p[i], read;
		int used = c < 128 ? 1 : u8_mbtoucr(&read, (const uint8_t *)text.p + i, text.n - i);
		uint8_t octets[6];
		n = used > 0 ? (size_t)used : 1;
		c = used <= 0 ? 0xfffd : plain(c < 128 ? c : read);
		if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || (!c && n == 1)) {
			blank = true;
			continue;
		}
		if (!c)
			continue;
		if (blank && last != ' ' && !(is_wide(last) && is_wide(c)))
			buf_addc(out, ' ');
		blank = false;
		last = c;
		int made = u8_uctomb(octets, c, sizeof octets);
		if (made > 0)
			buf_add(out, octets, (size_t)made);
	}
	if (blank && last != ' ')
		buf_addc(out, ' ');
}

enum dsn_read_reason dsn_reason_words(struct str text, bool weak)
{
	struct buf flat = BUF_INIT(DSN_READ_TEXT_MAX + 16);
	struct pairs pairs = { 0 };
	enum dsn_read_reason r = DSN_REASON_OTHER;
	size_t i = 0;
	dsn_read_fold(text, &flat);
	look(&pairs, buf_str(&flat));
	while (weak && words[i].phrase)
		i++;
	for (i += weak; flat.n && r == DSN_REASON_OTHER && i < WORDS && words[i].phrase; i++)
		for (const char *const *p = words[i].phrase; *p && r == DSN_REASON_OTHER; p++)
			if (says(buf_str(&flat), &pairs, *p))
				r = words[i].reason;
	buf_free(&flat);
	return r;
}

/* RFC 3463 §3, RFC 5248's registry. detail as "1.1". */
static const struct {
	const char *detail;
	enum dsn_read_reason reason;
} codes[] = {
	{ "1.1", DSN_REASON_UNKNOWN_USER }, { "1.2", DSN_REASON_UNKNOWN_HOST }, { "1.3", DSN_REASON_UNKNOWN_USER },
	{ "1.4", DSN_REASON_UNKNOWN_USER }, { "1.6", DSN_REASON_MOVED }, { "1.7", DSN_REASON_SENDER }, { "1.8", DSN_REASON_SENDER },
	{ "1.10", DSN_REASON_NO_MAIL }, { "2.1", DSN_REASON_DISABLED }, { "2.2", DSN_REASON_FULL }, { "2.3", DSN_REASON_TOO_BIG },
	{ "3.1", DSN_REASON_FULL }, { "3.2", DSN_REASON_NO_MAIL }, { "3.4", DSN_REASON_TOO_BIG }, { "3.5", DSN_REASON_SYSTEM },
	{ "4.1", DSN_REASON_EXPIRED }, { "4.2", DSN_REASON_NETWORK }, { "4.3", DSN_REASON_SYSTEM }, { "4.4", DSN_REASON_UNKNOWN_HOST },
	{ "4.6", DSN_REASON_NETWORK }, { "4.7", DSN_REASON_EXPIRED }, { "5.3", DSN_REASON_POLICY }, { "5.1", DSN_REASON_PROTOCOL },
	{ "5.2", DSN_REASON_PROTOCOL }, { "5.4", DSN_REASON_PROTOCOL }, { "7.1", DSN_REASON_POLICY }, { "7.25", DSN_REASON_BLOCKED },
};

enum dsn_read_reason dsn_reason_of(struct str text, struct str status, unsigned code)
{
	enum dsn_read_reason r = dsn_reason_words(text, false);
	if (r != DSN_REASON_OTHER)
		return r;
	struct str detail = status.n > 2 ? str_skip(status, 2) : STR_NULL;
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		if (str_eq(detail, str_from(codes[i].detail))) {
			bool later = status.p[0] == '4' && dsn_reason_hard(codes[i].reason);
			return later ? DSN_REASON_SYSTEM : codes[i].reason; /* what may be different tomorrow is not hard */
		}
	if ((r = dsn_reason_words(text, true)) != DSN_REASON_OTHER)
		return r;
	if (str_starts(detail, STR("7.")))
		return DSN_REASON_POLICY;
	switch (code) { /* RFC 5321 §4.2.3 */
	case 551: return DSN_REASON_MOVED;
	case 521: case 556: return DSN_REASON_NO_MAIL; /* RFC 7504, RFC 7505 */
	case 552: return DSN_REASON_FULL;
	case 553: return DSN_REASON_UNKNOWN_USER;
	default: return DSN_REASON_OTHER;
	}
}

bool dsn_reason_hard(enum dsn_read_reason reason)
{
	return reason >= DSN_REASON_UNKNOWN_USER && reason <= DSN_REASON_NO_MAIL;
}

const char *dsn_reason_text(enum dsn_read_reason reason)
{
	static const char *const names[DSN_REASONS] = { "other", "unknown-user", "unknown-host", "moved", "no-mail", "full", "disabled", "too-big",
		"expired", "network", "rate", "blocked", "spam", "virus", "policy", "sender", "relaying", "protocol", "system" };
	return reason < DSN_REASONS ? names[reason] : "other";
}
