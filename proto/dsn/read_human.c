/* Bounces without a formal part: which addresses the text for people is about, where it ends and the message that came back begins, and what is said of
 * each address. Rules of form only:
 *
 * - An address is about a failure where a line begins with it, perhaps after a label ("To:") or marks, or where a line says in the same breath
 *   that it failed.
 * - What is said of it stands in the lines that follow, up to the next such address, and in the text before where nothing follows.
 * - The message that came back begins at its header fields, or at a line that announces it. */
#include "read_internal.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
	return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (unsigned char)c > 127;
}

static bool is_local(char c)
{
	return is_alnum(c) || (c && strchr("!#$%&'*+/=?^_{|}~.-", c));
}

static bool contains(struct str s, const char *phrase)
{
	size_t n = strlen(phrase);
	for (size_t i = 0; n <= s.n && i <= s.n - n; i++)
		if (str_ieq(str_n(s.p + i, n), str_n(phrase, n)))
			return true;
	return false;
}

static bool contains_any(struct str s, const char *const *phrases)
{
	for (; *phrases; phrases++)
		if (contains(s, *phrases))
			return true;
	return false;
}

bool dsn_read_address(struct str text, size_t *at, struct str *ret)
{
	for (size_t i = *at; i < text.n; i++) {
		if (text.p[i] != '@')
			continue;
		size_t from = i, to = i + 1, dots = 0;
		while (from > *at && i - from < 256 && is_local(text.p[from - 1]))
			from--;
		while (from < i && !is_alnum(text.p[from]) && text.p[from] != '_' && text.p[from] != '+')
			from++; /* marks in front */
		while (to < text.n && to - i < 256 && (is_alnum(text.p[to]) || text.p[to] == '-' || (text.p[to] == '.' && to + 1 < text.n && is_alnum(text.p[to + 1])))) {
			dots += text.p[to] == '.';
			to++;
		}
		for (size_t k = from; k + 5 < i; k++) /* as X.400 gateways write it */
			if (str_istarts(str_skip(text, k), STR("smtp=")))
				from = k + 5;
		if (from == i || to == i + 1 || !dots)
			continue;
		*ret = str_n(text.p + from, to - from);
		*at = to;
		return true;
	}
	*at = text.n;
	return false;
}

struct str dsn_read_find_status(struct str t)
{
	for (size_t i = 0; i + 4 < t.n; i++) {
		if ((t.p[i] != '2' && t.p[i] != '4' && t.p[i] != '5') || t.p[i + 1] != '.' || !is_digit(t.p[i + 2]) || (i && (is_digit(t.p[i - 1]) || t.p[i - 1] == '.')))
			continue;
		size_t k = i + 2, a, b;
		while (k < t.n && is_digit(t.p[k]))
			k++;
		a = k - i - 2;
		if (a > 3 || k + 1 >= t.n || t.p[k] != '.' || !is_digit(t.p[k + 1]))
			continue;
		for (b = ++k; k < t.n && is_digit(t.p[k]); k++)
			;
		if (k - b > 3 || (k < t.n && (t.p[k] == '.' && k + 1 < t.n && is_digit(t.p[k + 1]))))
			continue;
		return str_n(t.p + i, k - i);
	}
	return STR_NULL;
}

unsigned dsn_read_find_code(struct str t)
{
	for (size_t i = 0; i + 3 <= t.n; i++)
		if ((t.p[i] == '4' || t.p[i] == '5') && t.p[i + 1] >= '0' && t.p[i + 1] <= '7' && is_digit(t.p[i + 2]) &&
		    (i == 0 || strchr(" \n\t:;'\"(<", t.p[i - 1])) && (i + 3 == t.n || strchr(" -\r\n:;", t.p[i + 3])))
			return (unsigned)(t.p[i] - '0') * 100 + (unsigned)(t.p[i + 1] - '0') * 10 + (unsigned)(t.p[i + 2] - '0');
	return 0;
}

enum {
	LINE_MAX_READ = 400,    /* longer lines are taken in pieces: what is said of an address stands near it, and cost stays linear */
	LINE_ADDRESSES_MAX = 16,
};

/* Takes a line off the front, without its line end. */
static struct str line_of(struct str *rest)
{
	size_t most = rest->n < LINE_MAX_READ ? rest->n : LINE_MAX_READ;
	const char *nl = rest->n ? memchr(rest->p, '\n', most) : NULL;
	struct str line = str_n(rest->p, nl ? (size_t)(nl - rest->p) : most);
	*rest = str_skip(*rest, line.n + (nl != NULL));
	if (line.n && line.p[line.n - 1] == '\r')
		line.n--;
	return line;
}

void dsn_read_cut(struct str text, struct str *human, struct str *returned)
{
	static const char *const announced[] = { "original message follows", "copy of the message", "copy of your message", "copy of the original", "returned mail follows",
		"message header follows", "message headers follow", "unsent message follows", "message text follows", "returned message", "undelivered message follows",
		"message follows", "headers follow", "header follows", "headers follows", "-original message", "original message -", "included is a copy", "original mail as follows",
		"original message header", "-----original", "original message/", "message contents follow", "original message headers",
		"rsprüngliche nachricht", "riginalnachricht", "message d'origine", "message original", "mensaje original", "mensagem original", "messaggio originale", "oorspronkelijk bericht",
		"сходное сообщение", "元のメッセージ", "原始邮件", "原始郵件", NULL };
	static const char *const fields[] = { "Received:", "Return-Path:", "Message-ID:", "DKIM-Signature:", NULL };
	struct str rest = text;
	while (rest.n) {
		struct str at = rest, line = line_of(&rest), bare = line;
		while (bare.n && strchr("> \t|", bare.p[0]))
			bare = str_skip(bare, 1);
		for (size_t i = 0; fields[i]; i++)
			if (str_istarts(bare, str_from(fields[i]))) {
				*human = str_n(text.p, (size_t)(at.p - text.p));
				*returned = at;
				return;
			}
		struct str text_of = str_trim(line);
		bool marked = text_of.n && strchr("-=_|*#", text_of.p[0]);
		if (line.n < 120 && contains_any(line, announced) && (marked || contains(line, "follows") || contains(line, "below this line"))) {
			*human = str_n(text.p, (size_t)(at.p - text.p));
			*returned = rest;
			return;
		}
	}
	*human = text;
	*returned = STR_NULL;
}

/* Those who write bounces, not those they are about. */
static bool is_role(struct str a)
{
	static const char *const names[] = { "postmaster@", "mailer-daemon@", "mail-daemon@", "mailmaster@", "abuse@", "support@", "helpdesk@", "noreply@", "no-reply@", NULL };
	for (size_t i = 0; names[i]; i++)
		if (str_istarts(a, str_from(names[i])))
			return true;
	return false;
}

static size_t words_in(struct str s)
{
	struct str word;
	size_t n = 0;
	while (n < 9 && str_word(&s, " \t", &word))
		n++;
	return n;
}

static struct str strip_marks(struct str s)
{
	static const char marks[] = "<([\"'`*->|:=.";
	s = str_trim(s);
	while (s.n && strchr(marks, s.p[s.n - 1]))
		s = str_trim(str_n(s.p, s.n - 1));
	while (s.n && strchr(marks, s.p[0]))
		s = str_trim(str_skip(s, 1));
	/* a reply code in front */
	if (s.n >= 3 && (s.p[0] == '4' || s.p[0] == '5') && is_digit(s.p[1]) && is_digit(s.p[2]) && (s.n == 3 || s.p[3] == ' '))
		s = str_trim(str_skip(s, 3));
	return s;
}

/* The one of ASCII, or the wide one of Chinese and Japanese. */
static bool ends_in_colon(struct str s)
{
	return str_iends(s, STR(":")) || str_iends(s, STR("："));
}

/* The rank of an address in its line: 2: it begins it, or is what a label names; 1: the line says that it failed; 0: neither. next: the line
 * that follows; least: what is asked for. */
static unsigned rank(struct str line, struct str next, struct str address, unsigned least)
{
	static const char *const failed[] = { "unknown", "fail", "reject", "undeliver", "could not", "couldn't", "cannot", "unable", "not found", "does not", "doesn't", "not exist",
		"no such", "invalid", "recipient", "not deliver", "full", "quota", "disabled", "rcpt to", "not accept", "user ", "refused", "wasn't", "delivery to", "was not", "returned",
		"addressed to", NULL };
	static const char *const labels[] = { "to", "recipient", "recipients", "failed recipient", "intended recipient", "user", "rcpt to", "address", "for", "user address",
		"delivery to", "original-recipient", "final-recipient", "mailbox", "your message to", "the user", "message to", NULL };
	static const char *const others[] = { "from", "mail from", "sender", "cc", "bcc", "reply-to", "reply to", "return-path", "message-id", "subject", "contact", "e-mail", "email", "references",
		"in-reply-to", "envelope-from", "x-", "please", "id", "list-", "errors-to", "date", "report", "support", NULL };
	struct str raw = str_trim(str_n(line.p, (size_t)(address.p - line.p))), before = strip_marks(raw);
	if (!before.n)
		return 2;
	for (size_t i = 0; others[i]; i++)
		if (str_istarts(before, str_from(others[i])))
			return 0;
	/* how it was addressed, told before what became of it */
	struct str after = str_trim(next);
	if (str_ieq(before, STR("to")) && least > 1 && (str_istarts(after, STR("subject")) || str_istarts(after, STR("cc:")) || str_istarts(after, STR("sent:"))))
		return 0;
	for (size_t i = 0; labels[i]; i++)
		if (str_ieq(before, str_from(labels[i])))
			return 2;
	while (raw.n && strchr("<([\"'", raw.p[raw.n - 1]))
		raw = str_trim(str_n(raw.p, raw.n - 1));
	if (ends_in_colon(raw) && words_in(before) <= 4)
		return 2;
	return contains_any(line, failed) ? 1 : 0;
}

static struct str copy(struct dsn_gather *g, struct str s)
{
	struct str r = arena_str(g->r->mem, s);
	g->memory |= !r.p;
	return r;
}

/* What is said of a recipient: one line of it. */
static void say(struct dsn_gather *g, struct dsn_read_rcpt *r, struct str text)
{
	r->diagnostic = dsn_read_line(g, text);
	r->status = copy(g, dsn_read_find_status(r->diagnostic));
	r->code = dsn_read_find_code(r->diagnostic);
	/* "554 <address>... what is wrong": in a transcript the lines that follow such a one may be about the next recipient */
	struct str first = line_of(&text);
	if (dsn_read_find_code(str_n(first.p, first.n < 4 ? first.n : 4)))
		r->reason = dsn_reason_words(first, false);
}

/* Is it the list or alias that led to the recipient, told behind him? The line may be broken there. */
static bool is_origin(struct str line, struct str before, struct str address)
{
	struct str raw = strip_marks(str_n(line.p, (size_t)(address.p - line.p)));
	return str_iends(raw.n ? raw : strip_marks(before), STR("expanded from"));
}

/* One reading of the text. known: only of those that are there already. */
static void pass(struct dsn_gather *g, unsigned least, bool known)
{
	static const char *const lists[] = { "recipient", "addresses", "mpfänger", "mpfaenger", "destinat", "ontvanger", "получател", "受信者", "宛先", "收件", NULL };
	struct str rest = buf_str(&g->human);
	struct dsn_read_rcpt *last = NULL;
	const char *said = NULL;
	struct str before = STR_NULL; /* the line before */
	bool list = false; /* … said that now they come */
	while (rest.n) {
		struct str line = line_of(&rest), ahead = rest, next = STR_NULL, a;
		size_t at = 0, seen = 0;
		for (unsigned i = 0; i < 3 && !next.n; i++) /* HTML leaves empty lines between */
			next = str_trim(line_of(&ahead));
		while (seen++ < LINE_ADDRESSES_MAX && dsn_read_address(line, &at, &a)) {
			if (last && is_origin(line, before, a)) {
				if (!last->original.n && str_is_utf8(a))
					last->original = copy(g, a);
				continue;
			}
			if (is_role(a) || (!known && (str_ieq(a, g->to) || str_ieq(a, g->from))) || (rank(line, next, a, least) < least && !list))
				continue;
			struct dsn_read_rcpt *r = known ? dsn_read_known(g, a) : dsn_read_add(g, a);
			if (!r || r == last)
				continue;
			if (last && !last->diagnostic.n)
				say(g, last, str_n(said, (size_t)(line.p - said)));
			last = r;
			said = line.p;
		}
		struct str text = str_trim(line);
		before = line;
		if (text.n)
			list = ends_in_colon(text) && contains_any(text, lists);
	}
	if (last && !last->diagnostic.n)
		say(g, last, str_n(said, (size_t)(g->human.p + g->human.n - said)));
}

void dsn_read_human(struct dsn_gather *g)
{
	dsn_read_signs(g);
	if (!g->r->n && g->failed.n) {
		struct str a;
		size_t at = 0;
		while (dsn_read_address(g->failed, &at, &a))
			dsn_read_add(g, a);
		pass(g, 2, true);
		if (g->r->n == 1 && !g->r->rcpt[0].diagnostic.n)
			say(g, &g->r->rcpt[0], buf_str(&g->human));
	}
	for (unsigned least = 2; !g->r->n && least; least--)
		pass(g, least, false);
}
