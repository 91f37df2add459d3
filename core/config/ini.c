/* The INI syntax: octets of one file in, sections and options out, findings with their line. Opens no files: directives
 * go to the reader's callback (include.c). One pass, no recursion, no state beyond the current section. */
#include "config_internal.h"

#include <stdio.h>

void config_reader_fault(struct config_reader *r, bool warning, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	config_fault_add(r->faults, r->file, r->line, warning, "%s", text);
}

const char *config_text_wrong(struct str s, size_t *ret_at)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		*ret_at = i;
		if (c == 0)
			return "a NUL octet";
		if ((c < 32 && c != '\t') || c == 127)
			return "a control octet";
	}
	if (str_is_utf8(s))
		return NULL;
	/* the first octet up to which it is valid */
	size_t good = 0;
	for (size_t i = 0; i <= s.n; i++)
		if (i == s.n || ((unsigned char)s.p[i] & 0xc0) != 0x80) {
			if (!str_is_utf8(str_n(s.p + good, i - good)))
				break;
			good = i;
		}
	*ret_at = good;
	return "invalid UTF-8";
}

const char *config_section_name_wrong(struct str name)
{
	if (!name.n)
		return "a section needs a name";
	if (name.n > CONFIG_NAME_MAX)
		return "the section's name is too long";
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		if (!(ascii_is_alnum(c) || c == '-' || c == '_' || c == '.'))
			return "a section's name is made of letters, digits, '-', '_' and '.'";
	}
	return NULL;
}

const char *config_option_name_wrong(struct str name)
{
	size_t at;
	if (!name.n)
		return "the option's name is missing before '='";
	if (name.n > CONFIG_NAME_MAX * 2)
		return "the option's name is too long";
	if (config_text_wrong(name, &at))
		return "the option's name holds an octet that is no text";
	for (size_t i = 0; i < name.n; i++) {
		if (name.p[i] == ' ' || name.p[i] == '\t')
			return "an option's name has no blanks in it";
		if (strchr("=#[]\"", name.p[i]))
			return "an option's name has none of = # [ ] \" in it";
	}
	return name.p[0] == '@' ? "an option's name does not begin with '@'" : NULL;
}

/* A '#' that begins a comment: at the start, or behind a blank. */
static size_t comment_at(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '#' && (i == 0 || s.p[i - 1] == ' ' || s.p[i - 1] == '\t'))
			return i;
	return s.n;
}

int config_value_unquote(struct str raw, struct buf *out, const char **ret_why)
{
	size_t i = 1;
	buf_reset(out);
	*ret_why = "memory is out";
	if (!raw.n || raw.p[0] != '"') {
		size_t end = comment_at(raw), quotes = 0;
		for (size_t j = 0; j < end; j++)
			quotes += raw.p[j] == '"';
		/* X = header "a # b": cutting there would leave half a value behind and nobody would notice */
		if (end < raw.n && quotes % 2) {
			*ret_why = "a comment begins inside a quoted part; write the whole value in quotes, with \\\" for quotes in it";
			return -1;
		}
		return buf_adds(out, str_trim(str_n(raw.p, end)));
	}
	for (; i < raw.n && raw.p[i] != '"'; i++) {
		if (raw.p[i] == '\\') {
			if (i + 1 == raw.n || (raw.p[i + 1] != '"' && raw.p[i + 1] != '\\')) {
				*ret_why = "in a quoted value a backslash stands only before '\"' or another backslash";
				return -1;
			}
			i++;
		}
		if (buf_addc(out, raw.p[i]))
			return -1;
	}
	if (i == raw.n) {
		*ret_why = "the quote at the beginning of the value is not closed";
		return -1;
	}
	struct str rest = str_skip(raw, i + 1);
	if (str_trim(rest).n && str_trim(rest).p != rest.p + comment_at(rest)) {
		*ret_why = "text follows the closing quote; write the whole value in quotes, with \\\" for quotes in it";
		return -1;
	}
	return 0;
}

int config_value_quote(struct str value, struct buf *out)
{
	struct str t = str_trim(value);
	size_t quotes = 0;
	for (size_t i = 0; i < value.n; i++)
		quotes += value.p[i] == '"';
	/* an odd quote would take a comment behind it for its inside */
	bool plain = t.n == value.n && (!value.n || value.p[0] != '"') && comment_at(value) == value.n && quotes % 2 == 0;
	if (plain)
		return buf_adds(out, value);
	buf_addc(out, '"');
	for (size_t i = 0; i < value.n; i++) {
		if (value.p[i] == '"' || value.p[i] == '\\')
			buf_addc(out, '\\');
		buf_addc(out, value.p[i]);
	}
	return buf_addc(out, '"');
}

static void read_section(struct config_reader *r, struct str line)
{
	ptrdiff_t end = str_chr(line, ']');
	r->section = 0;
	r->skip = true;
	if (end < 0) {
		config_reader_fault(r, false, "']' is missing at the end of the section's name");
		return;
	}
	struct str rest = str_trim(str_skip(line, (size_t)end + 1)), name = str_trim(str_n(line.p + 1, (size_t)end - 1));
	const char *wrong = config_section_name_wrong(name);
	if (rest.n && rest.p[0] != '#')
		wrong = "only a comment may follow a section's name on its line";
	if (wrong) {
		config_reader_fault(r, false, "%s", wrong);
		return;
	}
	if (r->only && !str_ieq(name, str_from(r->only))) {
		config_reader_fault(r, false, "[%.*s] in a file that was included for the secrets of [%s] only", STR_ARG(name),
		    r->only);
		return;
	}
	struct config_section *s = config_section_add(r->c, name, r->file, r->line);
	if (!s) {
		config_reader_fault(r, false, "no room for another section (at most %d)", CONFIG_SECTIONS_MAX);
		return;
	}
	r->section = (size_t)(s - r->c->s) + 1;
	r->skip = false;
}

static void read_option(struct config_reader *r, struct str line)
{
	ptrdiff_t eq = str_chr(line, '=');
	if (eq < 0) {
		/* not shown from a file of secrets: the line may be one */
		size_t n = str_utf8_cut(line, 60);
		if (r->only)
			config_reader_fault(r, false, "expected OPTION = value, [section] or a # comment");
		else
			config_reader_fault(r, false, "expected OPTION = value, [section], @inline@ FILE or a # comment, found \"%.*s%s\"",
			    (int)n, line.p, n < line.n ? "…" : "");
		return;
	}
	struct str name = str_trim(str_n(line.p, (size_t)eq)), raw = str_trim(str_skip(line, (size_t)eq + 1));
	const char *wrong = config_option_name_wrong(name), *why;
	if (wrong) {
		config_reader_fault(r, false, "%s", wrong);
		return;
	}
	if (!r->section) {
		if (!r->skip)
			config_reader_fault(r, false, "%.*s stands before the first [section]", STR_ARG(name));
		return;
	}
	struct buf value = BUF_INIT(CONFIG_LINE_MAX);
	if (config_value_unquote(raw, &value, &why))
		config_reader_fault(r, false, "%.*s: %s", STR_ARG(name), why);
	else if (config_entry_add(r->c, &r->c->s[r->section - 1], name, buf_str(&value), r->file, r->line, r->only != NULL))
		config_reader_fault(r, false, "no room for another option (at most %d)", CONFIG_OPTIONS_MAX);
	buf_free_secret(&value);
}

static void read_directive(struct config_reader *r, struct str line)
{
	static const char *const known[] = { "@inline@", "@inline-secret@" };
	struct str rest = line, word;
	str_word(&rest, " \t", &word);
	if (!str_eq(word, str_from(known[0])) && !str_eq(word, str_from(known[1]))) {
		const char *near = str_nearest(word, known, 2);
		config_reader_fault(r, false, "unknown directive %.*s%s%s%s", STR_ARG(word), near ? "; did you mean " : "",
		    near ? near : "", near ? "?" : "");
	} else if (r->only) {
		config_reader_fault(r, false, "%.*s is not allowed in a file of secrets", STR_ARG(word));
	} else {
		r->directive(r, word, str_trim(rest));
	}
}

static void read_line(struct config_reader *r, struct str line)
{
	size_t at;
	if (line.n > CONFIG_LINE_MAX) {
		config_reader_fault(r, false, "the line is longer than %d octets", CONFIG_LINE_MAX);
		return;
	}
	if (line.n && line.p[line.n - 1] == '\r')
		line.n--; /* files edited elsewhere */
	const char *wrong = config_text_wrong(line, &at);
	if (wrong) {
		config_reader_fault(r, false, "%s (0x%02x) in column %zu", wrong, (unsigned char)line.p[at], at + 1);
		return;
	}
	line = str_trim(line);
	if (!line.n || line.p[0] == '#')
		return;
	if (line.p[0] == ';')
		config_reader_fault(r, false, "comments begin with '#' here, not with ';'");
	else if (line.p[0] == '[')
		read_section(r, line);
	else if (line.p[0] == '@')
		read_directive(r, line);
	else
		read_option(r, line);
}

void config_read_text(struct config_reader *r, struct str text)
{
	if (str_starts(text, STR("\xef\xbb\xbf")))
		text = str_skip(text, 3); /* a byte order mark says nothing in UTF-8 */
	for (r->line = 1; text.n; r->line++) {
		ptrdiff_t end = str_chr(text, '\n');
		size_t n = end < 0 ? text.n : (size_t)end;
		read_line(r, str_n(text.p, n));
		text = str_skip(text, n + 1);
	}
}
