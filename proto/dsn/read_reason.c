/* What the words of a bounce mean: a table of phrases that mail systems use, in order of how much they say, and the meaning of status codes
 * (RFC 3463, RFC 5248) for texts that say nothing. Phrases, not systems: none is of one file or product only. */
#include "read_internal.h"

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static const struct {
	const char *phrase; /* lower case, single blanks; "*": anything, as long as a name is at most (GAP_MAX) */
	enum dsn_read_reason reason;
} words[] = {
#include "read_words.inc"
};

enum {
	GAP_MAX = 96,
	FINDS_MAX = 200, /* of the first half of a phrase with a gap */
};

/* Does the text hold the phrase? Linear: what stands behind each find is looked at for GAP_MAX octets. */
static bool says(struct str text, const char *phrase)
{
	const char *star = strchr(phrase, '*');
	size_t first = star ? (size_t)(star - phrase) : strlen(phrase);
	if (!star)
		return memmem(text.p, text.n, phrase, first);
	const char *at;
	for (unsigned k = 0; k < FINDS_MAX && (at = memmem(text.p, text.n, phrase, first)); k++) {
		text = str_skip(text, (size_t)(at - text.p) + first);
		if (memmem(text.p, text.n < GAP_MAX ? text.n : GAP_MAX, star + 1, strlen(star + 1)))
			return true;
	}
	return false;
}

/* Text with single blanks, in lower case, at most DSN_READ_TEXT_MAX. */
static void flatten(struct str text, struct buf *out)
{
	bool blank = true;
	for (size_t i = 0; i < text.n && out->n < DSN_READ_TEXT_MAX; i++) {
		char c = text.p[i];
		bool is = c == ' ' || c == '\t' || c == '\r' || c == '\n' || !c;
		if (!is || !blank)
			buf_addc(out, is ? ' ' : lower(c));
		blank = is;
	}
}

enum dsn_read_reason dsn_reason_words(struct str text, bool weak)
{
	struct buf flat = BUF_INIT(DSN_READ_TEXT_MAX + 1);
	enum dsn_read_reason r = DSN_REASON_OTHER;
	size_t i = 0;
	flatten(text, &flat);
	while (weak && words[i].phrase)
		i++;
	for (i += weak; flat.n && r == DSN_REASON_OTHER && i < sizeof words / sizeof *words && words[i].phrase; i++)
		if (says(buf_str(&flat), words[i].phrase))
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
