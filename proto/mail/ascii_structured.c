/* Fields with a grammar as ASCII (ascii.h): the words of the field stay where they are; a comment or, where the grammar has phrases, a word becomes
 * encoded words, a domain A-labels, a URI percent-encoded. What is neither is a fault, for these fields are read by programs. */
#include "proto/mail/ascii.h"

#include "proto/mail/charset.h"
#include "proto/mail/encoded.h"
#include "proto/address/address.h"

enum {
	PHRASES = 1 << 0, /* words outside <> may be encoded */
	URIS = 1 << 1,    /* within <> are URIs */
	IDS = 1 << 2,     /* message ids: those that are not ASCII are left out (they tell of other mail only) */
	TRACE_FOR = 1 << 3, /* Received: "for <address>" is left out where it cannot be told */
	COMMENTS_MAX = 50,
};

struct reader {
	struct str rest;
	struct str blanks, word;
	char kind; /* 0: the end; '(' comment, '"' quoted string, '<' or '>', 'w' word */
	bool bad;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static size_t comment_end(struct str s)
{
	size_t depth = 0, i = 0;
	for (; i < s.n; i++) {
		if (s.p[i] == '\\')
			i++;
		else if (s.p[i] == '(')
			depth++;
		else if (s.p[i] == ')' && !--depth)
			return i + 1;
	}
	return 0;
}

static size_t quote_end(struct str s)
{
	for (size_t i = 1; i < s.n; i++) {
		if (s.p[i] == '\\')
			i++;
		else if (s.p[i] == '"')
			return i + 1;
	}
	return 0;
}

static bool next(struct reader *r)
{
	size_t i = 0, n = 0;
	while (i < r->rest.n && is_blank(r->rest.p[i]))
		i++;
	r->blanks = str_n(r->rest.p, i);
	struct str s = str_skip(r->rest, i);
	r->kind = 0;
	if (!s.n)
		return false;
	r->kind = s.p[0];
	if (s.p[0] == '(') {
		n = comment_end(s);
	} else if (s.p[0] == '"') {
		n = quote_end(s);
	} else if (s.p[0] == '<' || s.p[0] == '>') {
		n = 1;
	} else {
		r->kind = 'w';
		while (n < s.n && !is_blank(s.p[n]) && !(s.p[n] && memchr("()<>\"", s.p[n], 5)))
			n++;
		n += !n; /* a stray ')' */
	}
	if (!n) { /* not closed */
		r->bad = true;
		n = s.n;
	}
	r->word = str_n(s.p, n);
	r->rest = str_skip(s, n);
	return true;
}

/* What is within quotes or parentheses, without the backslashes. */
static void inner(struct str word, struct buf *out)
{
	struct str s = word.n > 1 ? str_n(word.p + 1, word.n - 2) : STR_NULL;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\\' && i + 1 < s.n)
			i++;
		buf_addc(out, s.p[i]);
	}
}

static enum mail_ascii comment(struct mail_ascii_line *l, struct str blanks, struct str word)
{
	struct buf raw = BUF_INIT(word.n + 1), text = BUF_INIT(word.n * 4 + 16);
	inner(word, &raw);
	mail_encoded_decode(buf_str(&raw), &text);
	mail_ascii_encoded(l, blanks.n ? blanks : STR(" "), buf_str(&text), "(", ")");
	bool memory = raw.failed || text.failed;
	buf_free(&raw);
	buf_free(&text);
	return memory ? MAIL_ASCII_MEMORY : MAIL_ASCII_DONE;
}

/* "example.test", "joe@…", "smtp.mailfrom=joe@…", with ',' or ';' behind it: its domain as A-labels. */
static enum mail_ascii domain(struct mail_ascii_line *l, struct str blanks, struct str word)
{
	struct buf b = BUF_INIT(4096);
	struct str d = word, tail;
	while (d.n && memchr(",;:", d.p[d.n - 1], 3))
		d.n--;
	tail = str_skip(word, d.n);
	bool at = str_chr(d, '@') >= 0;
	if (at)
		d = str_behind(d, '@');
	else if (str_chr(d, '=') >= 0)
		d = str_behind(d, '=');
	struct str front = str_n(word.p, (size_t)(d.p - word.p));
	enum mail_ascii r = MAIL_ASCII_DONE;
	if (!str_is_ascii(front))
		r = MAIL_ASCII_ADDRESS;
	else if (!at && str_chr(d, '.') < 0)
		r = MAIL_ASCII_FIELD;
	else if (buf_adds(&b, front) || smtp_domain_to_ascii(d, &b) || buf_adds(&b, tail))
		r = MAIL_ASCII_FIELD;
	else
		mail_ascii_word(l, blanks, buf_str(&b));
	buf_free(&b);
	return r;
}

/* RFC 3987 §3.1 */
static enum mail_ascii uri(struct mail_ascii_line *l, struct str blanks, struct str word)
{
	struct buf b = BUF_INIT(word.n * 3 + 1);
	for (size_t i = 0; i < word.n; i++) {
		unsigned char c = (unsigned char)word.p[i];
		if (c > 127)
			buf_addf(&b, "%%%02X", c);
		else
			buf_addc(&b, word.p[i]);
	}
	bool failed = b.failed;
	mail_ascii_word(l, blanks, buf_str(&b));
	buf_free(&b);
	return failed ? MAIL_ASCII_MEMORY : MAIL_ASCII_DONE;
}

static enum mail_ascii phrase(struct mail_ascii_line *l, const struct reader *r)
{
	struct buf b = BUF_INIT(r->word.n + 1);
	struct str t = r->word;
	if (r->kind == '"') {
		inner(r->word, &b);
		t = buf_str(&b);
	}
	mail_ascii_encoded(l, r->blanks.n ? r->blanks : STR(" "), t, "", "");
	bool failed = b.failed;
	buf_free(&b);
	return failed ? MAIL_ASCII_MEMORY : MAIL_ASCII_DONE;
}

static unsigned traits(struct str name)
{
	if (str_ieq(name, STR("List-Id")) || str_ieq(name, STR("Keywords")))
		return PHRASES;
	if (str_istarts(name, STR("List-")))
		return URIS;
	if (str_ieq(name, STR("In-Reply-To")) || str_ieq(name, STR("References")))
		return IDS;
	return str_ieq(name, STR("Received")) ? TRACE_FOR : 0;
}

/* One word that is not ASCII. angle: within <>. */
static enum mail_ascii word(struct mail_ascii_line *l, const struct reader *r, unsigned t, bool angle)
{
	if (r->kind == '(')
		return comment(l, r->blanks, r->word);
	if (t & PHRASES && !angle)
		return phrase(l, r);
	if (t & URIS)
		return angle ? uri(l, r->blanks, r->word) : MAIL_ASCII_FIELD;
	return r->kind == 'w' ? domain(l, r->blanks, r->word) : MAIL_ASCII_FIELD;
}

/* The words of References: an id that is not ASCII goes with its brackets. */
static void ids(struct mail_ascii_line *l, struct str value)
{
	struct str w;
	while (str_word(&value, " \t", &w))
		if (str_is_ascii(w))
			mail_ascii_word(l, STR(" "), w);
}

/* Looks whether the words behind "for" can be told; steps over them where not. */
static bool skip_for(struct reader *r)
{
	struct reader look = *r;
	bool ascii = true;
	if (!next(&look) || !look.blanks.n)
		return false;
	if (look.kind == '<') {
		while (next(&look) && look.kind != '>')
			ascii &= str_is_ascii(look.word);
	} else {
		ascii = str_is_ascii(look.word);
	}
	struct str local = look.kind == '>' ? str_n(r->rest.p, (size_t)(look.word.p - r->rest.p)) : look.word;
	ptrdiff_t at = str_chr(local, '@');
	if (ascii || (at > 0 && str_is_ascii(str_n(local.p, (size_t)at))))
		return false; /* its domain alone is not: that has another form */
	struct str tail = look.rest;
	if (look.kind == 'w' && look.word.p[look.word.n - 1] == ';')
		tail = str_n(look.word.p + look.word.n - 1, look.rest.n + 1);
	r->rest = tail;
	return true;
}

enum mail_ascii mail_ascii_structured(const struct mail_field *f, struct buf *out, struct str *ret_culprit)
{
	struct buf value = BUF_INIT(f->value.n + 1);
	struct mail_ascii_line l;
	enum mail_ascii rc = MAIL_ASCII_DONE;
	unsigned t = traits(f->name);
	bool angle = false;
	mail_field_unfold(&value, f->value);
	mail_ascii_begin(&l, out, f->name);
	struct reader r = { .rest = buf_str(&value) };
	if (t & IDS) {
		ids(&l, r.rest);
		r.rest = STR_NULL;
	}
	for (size_t n = 0; rc == MAIL_ASCII_DONE && next(&r); n++) {
		struct str blanks = n ? r.blanks : STR(" ");
		if (n == MAIL_ASCII_WORDS_MAX)
			rc = MAIL_ASCII_FIELD;
		else if (t & TRACE_FOR && r.kind == 'w' && str_ieq(r.word, STR("for")) && skip_for(&r))
			continue;
		else if (str_is_ascii(r.word))
			mail_ascii_word(&l, blanks, r.word);
		else if (r.bad)
			rc = MAIL_ASCII_FIELD;
		else
			rc = word(&l, &r, t, angle);
		if (rc == MAIL_ASCII_ADDRESS || rc == MAIL_ASCII_FIELD) {
			const char *at = memmem(f->value.p, f->value.n, r.word.p, r.word.n);
			*ret_culprit = at ? str_n(at, r.word.n) : STR_NULL;
		}
		angle = r.kind == '<' || (angle && r.kind != '>');
	}
	buf_add(out, "\r\n", 2);
	if (rc == MAIL_ASCII_DONE && (value.failed || out->failed))
		rc = MAIL_ASCII_MEMORY;
	if (rc == MAIL_ASCII_DONE && l.bad)
		rc = MAIL_ASCII_FIELD;
	buf_free(&value);
	return rc;
}
