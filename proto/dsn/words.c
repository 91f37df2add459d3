/* The texts for people: names, placeholders, the parser of their files, filling in; see words.h. */
#include "words.h"
#include "words_builtin.h"

#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>

enum { LINE = 1, MUST = 2 }; /* one line only; may not be empty */
enum { EVERYWHERE = 1 << DSN_V_HOST | 1 << DSN_V_POSTMASTER | 1 << DSN_V_SENDER | 1 << DSN_V_ID };

static const struct {
	const char *name;
	unsigned values; /* besides EVERYWHERE, bits of enum dsn_value */
	unsigned flags;
} texts[] = {
	{ "from", 0, LINE | MUST },
	{ "subject.failed", 0, LINE | MUST },
	{ "subject.delayed", 0, LINE | MUST },
	{ "subject.success", 0, LINE | MUST },
	{ "part.text", 0, LINE | MUST },
	{ "part.status", 0, LINE | MUST },
	{ "part.message", 0, LINE | MUST },
	{ "part.headers", 0, LINE | MUST },
	{ "hello", 0, 0 },
	{ "failed.one", 0, MUST },
	{ "failed.many", 0, MUST },
	{ "delayed", 0, MUST },
	{ "success", 0, MUST },
	{ "attached.message", 0, 0 },
	{ "attached.headers", 0, 0 },
	{ "stage", 1 << DSN_V_STAGE, 0 },
	{ "maybe", 1 << DSN_V_DATE | 1 << DSN_V_HOP, 0 },
	{ "maybe.unknown", 0, 0 },
	{ "original", 1 << DSN_V_ORIGINAL | 1 << DSN_V_RECIPIENT, 0 },
	{ "reply", 1 << DSN_V_MTA | 1 << DSN_V_CODE | 1 << DSN_V_TEXT, 0 },
	{ "reply.unnamed", 1 << DSN_V_CODE | 1 << DSN_V_TEXT, 0 },
	{ "reason", 1 << DSN_V_TEXT, 0 },
	{ "reason.none", 0, 0 },
	{ "reason.hidden", 0, 0 },
	{ "until", 1 << DSN_V_DATE, 0 },
	{ "cause.operator", 0, 0 },
	{ "cause.stage", 1 << DSN_V_STAGE, 0 },
	{ "cause.unknown", 0, 0 },
	{ "cause.slow", 0, 0 },
	{ "cause.crash", 0, 0 },
	{ "phase.banner", 0, 0 },
	{ "phase.ehlo", 0, 0 },
	{ "phase.starttls", 0, 0 },
	{ "phase.auth", 0, 0 },
	{ "phase.mail", 0, 0 },
	{ "phase.rcpt", 0, 0 },
	{ "phase.data", 0, 0 },
	{ "phase.dot", 0, 0 },
	{ "advice.1.1", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.1.2", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.1.3", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.1.6", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.1.10", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.2.1", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.2.2", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.2.3", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.3.4", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.4.1", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.4.6", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.4.7", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.6.0", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.6.3", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.6.7", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.7.10", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.address", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.policy", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.temporary", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.other", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.returned", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.here", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.delayed", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.delivered", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.relayed", 1 << DSN_V_RECIPIENT, 0 },
	{ "advice.expanded", 1 << DSN_V_RECIPIENT, 0 },
	{ "footer", 0, 0 },
};
enum { TEXTS = sizeof texts / sizeof *texts, NONE = TEXTS };

static const struct str value_names[DSN_VALUES] = { STR_INIT("host"), STR_INIT("postmaster"), STR_INIT("sender"), STR_INIT("id"), STR_INIT("stage"),
	STR_INIT("date"), STR_INIT("hop"), STR_INIT("original"), STR_INIT("recipient"), STR_INIT("mta"), STR_INIT("code"), STR_INIT("text") };

struct dsn_words {
	struct arena *a;
	const struct dsn_words *base;
	struct str text[TEXTS]; /* .p NULL: base's */
};

struct parser {
	struct dsn_words *w;
	dsn_words_fault_fn *fn;
	void *arg;
	size_t at;         /* the text being read; NONE: there is none, or it is to be skipped */
	unsigned began;    /* the line of its name */
	bool faulty, said; /* said: that text stands in front of the first name */
	size_t n_lines;
	struct buf text;
	bool seen[TEXTS];
};

size_t dsn_words_names(void)
{
	return TEXTS;
}

const char *dsn_words_name(size_t i)
{
	return i < TEXTS ? texts[i].name : NULL;
}

static size_t text_named(struct str name)
{
	size_t i = 0;
	while (i < TEXTS && !str_eq(name, str_from(texts[i].name)))
		i++;
	return i;
}

static void fault(struct parser *p, unsigned line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void fault(struct parser *p, unsigned line, const char *fmt, ...)
{
	char text[200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	p->faulty = true;
	if (p->fn)
		p->fn(p->arg, line, text);
}

/* The placeholder at the start of s, which begins with '{': its octets, and which. 0: none that is known. */
static size_t placeholder(struct str s, enum dsn_value *ret)
{
	ptrdiff_t end = str_chr(s, '}');
	if (end < 0)
		return 0;
	struct str name = str_n(s.p + 1, (size_t)end - 1);
	for (size_t i = 0; i < DSN_VALUES; i++)
		if (str_eq(name, value_names[i])) {
			*ret = (enum dsn_value)i;
			return (size_t)end + 1;
		}
	return 0;
}

static void check_line(struct parser *p, struct str line, unsigned at)
{
	struct str rest = line, word;
	enum dsn_value v;
	size_t k;
	while (str_word(&rest, " \t", &word))
		if (word.n > DSN_WORDS_WORD_MAX)
			fault(p, at, "a word of more than %d octets", DSN_WORDS_WORD_MAX);
	for (size_t i = 0; i < line.n; i += k) {
		struct str here = str_skip(line, i);
		k = 1;
		if (here.p[0] == '}') {
			if (here.n > 1 && here.p[1] == '}')
				k = 2;
			else
				fault(p, at, "a } without its {; write }} for the character");
		} else if (here.p[0] == '{' && here.n > 1 && here.p[1] == '{') {
			k = 2;
		} else if (here.p[0] == '{') {
			ptrdiff_t end = str_chr(here, '}');
			int n = (int)(end < 0 ? 0 : end > 40 ? 40 : end - 1);
			if (end < 0)
				fault(p, at, "a { without its }; write {{ for the character");
			else if (!(k = placeholder(here, &v)))
				fault(p, at, "unknown placeholder {%.*s}", n, here.p + 1);
			else if (!((texts[p->at].values | EVERYWHERE) & 1u << v))
				fault(p, at, "{%.*s} has no meaning in [%s]", n, here.p + 1, texts[p->at].name);
			if (!k || end < 0)
				k = end < 0 ? here.n : (size_t)end + 1;
		}
	}
}

/* The text that was being read is complete. 0, -1: memory. */
static int finish(struct parser *p)
{
	size_t at = p->at;
	struct str s = buf_str(&p->text);
	if (at == NONE)
		return 0;
	while (s.n && s.p[s.n - 1] == '\n')
		s.n--;
	if (!p->faulty && texts[at].flags & MUST && !s.n)
		fault(p, p->began, "[%s] must not be empty", texts[at].name);
	if (!p->faulty && texts[at].flags & LINE && p->n_lines > 1)
		fault(p, p->began, "[%s] must be one line", texts[at].name);
	if (!p->faulty && p->text.failed)
		fault(p, p->began, "[%s] is longer than %d octets", texts[at].name, DSN_WORDS_TEXT_MAX);
	if (p->faulty)
		return 0;
	char *z = arena_strz(p->w->a, s);
	p->w->text[at] = str_n(z, s.n);
	return z ? 0 : -1;
}

static int take_name(struct parser *p, struct str name, unsigned at)
{
	if (finish(p))
		return -1;
	p->text.failed = false;
	buf_reset(&p->text);
	p->faulty = false;
	p->n_lines = 0;
	p->began = at;
	p->at = text_named(name);
	if (p->at == NONE) {
		fault(p, at, "no text is called [%.*s]", (int)(name.n > 60 ? 60 : name.n), name.p);
		p->said = true;
	} else if (p->seen[p->at]) {
		fault(p, at, "[%s] stood before; the first one counts", texts[p->at].name);
		p->at = NONE;
	} else {
		p->seen[p->at] = true;
	}
	return 0;
}

static int take(struct parser *p, struct str line, unsigned at)
{
	struct str t = str_trim(line);
	if (line.n && line.p[0] == '#')
		return 0;
	bool bad = !str_is_utf8(line);
	for (size_t i = 0; i < line.n; i++)
		bad |= ((unsigned char)line.p[i] < 32 && line.p[i] != '\t') || line.p[i] == 127;
	if (bad) {
		fault(p, at, "a line with control characters, or that is no UTF-8");
		return 0;
	}
	if (t.n > 2 && t.p[0] == '[' && t.p[t.n - 1] == ']')
		return take_name(p, str_n(t.p + 1, t.n - 2), at);
	if (p->at == NONE) {
		if (t.n && !p->said && !p->faulty)
			fault(p, at, "text in front of the first [NAME]");
		return 0;
	}
	check_line(p, t, at);
	/* lines flow into paragraphs; an empty one ends a paragraph */
	if (t.n) {
		p->n_lines++;
		if (p->text.n && p->text.p[p->text.n - 1] != '\n')
			buf_addc(&p->text, ' ');
		buf_adds(&p->text, t);
	} else if (p->text.n && p->text.p[p->text.n - 1] != '\n') {
		buf_add(&p->text, "\n\n", 2);
	}
	return 0;
}

struct dsn_words *dsn_words_parse(struct str file, const struct dsn_words *base, dsn_words_fault_fn *fn, void *arg)
{
	struct parser p = { .fn = fn, .arg = arg, .at = NONE, .text = BUF_INIT(DSN_WORDS_TEXT_MAX) };
	if (file.n > DSN_WORDS_FILE_MAX) {
		fault(&p, 1, "larger than %d KiB", DSN_WORDS_FILE_MAX / 1024);
		return NULL;
	}
	struct dsn_words *w = p.w = calloc(1, sizeof *w);
	bool bad = !w || !(w->a = arena_new(2 * DSN_WORDS_FILE_MAX));
	unsigned at = 1;
	if (!bad)
		w->base = base;
	if (str_starts(file, STR("\xef\xbb\xbf")))
		file = str_skip(file, 3);
	for (; !bad && file.n; at++) {
		ptrdiff_t end = str_chr(file, '\n');
		struct str line = str_n(file.p, end < 0 ? file.n : (size_t)end);
		file = str_skip(file, line.n + (end >= 0));
		if (line.n && line.p[line.n - 1] == '\r')
			line.n--;
		bad = take(&p, line, at);
	}
	bad = bad || finish(&p);
	buf_free(&p.text);
	if (bad) {
		dsn_words_free(w);
		return NULL;
	}
	return w;
}

void dsn_words_free(struct dsn_words *w)
{
	if (!w)
		return;
	arena_free(w->a);
	free(w);
}

bool dsn_words_builtin(size_t i, struct str *ret_language, struct str *ret_file)
{
	if (i >= sizeof builtin / sizeof *builtin)
		return false;
	*ret_language = str_from(builtin[i].language);
	*ret_file = str_from(builtin[i].file);
	return true;
}

bool dsn_words_fill(struct buf *out, const struct dsn_words *w, const char *name, const struct str values[DSN_VALUES])
{
	size_t at = text_named(str_from(name));
	if (at == NONE)
		return false;
	while (w && !w->text[at].p)
		w = w->base;
	if (!w || !w->text[at].n)
		return false;
	struct str s = w->text[at];
	for (size_t i = 0, k; i < s.n; i += k) {
		enum dsn_value v;
		k = 1;
		if (i + 1 < s.n && (s.p[i] == '{' || s.p[i] == '}') && s.p[i + 1] == s.p[i]) {
			buf_addc(out, s.p[i]);
			k = 2;
		} else if (s.p[i] == '{' && (k = placeholder(str_skip(s, i), &v))) {
			if (values)
				buf_adds(out, values[v]);
		} else {
			k = 1;
			buf_addc(out, s.p[i]);
		}
	}
	return true;
}

bool dsn_language_ok(struct str tag)
{
	if (!tag.n || tag.n > DSN_LANGUAGE_MAX || tag.p[0] == '-' || tag.p[tag.n - 1] == '-')
		return false;
	for (size_t i = 0; i < tag.n; i++)
		if (!(ascii_is_alnum(tag.p[i]) || tag.p[i] == '-'))
			return false;
	return true;
}
