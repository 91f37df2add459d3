/* See command.h. Looks at text only. */
#include "command.h"

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

/* The next word; false: none is left, or *why says what is wrong. */
static bool next(const char **p, struct str *ret, const char **why)
{
	const char *s = *p;
	while (blank(*s))
		s++;
	if (!*s)
		return false;
	bool quoted = *s == '"';
	const char *from = quoted ? ++s : s;
	while (*s && (quoted ? *s != '"' : !blank(*s) && *s != '"'))
		s++;
	if (quoted ? !*s : *s == '"') {
		*why = quoted ? "a double quote is not closed" : "a double quote stands inside a word; quote the whole word";
		return false;
	}
	*ret = str_n(from, (size_t)(s - from));
	s += quoted;
	if (*s && !blank(*s)) {
		*why = "a closing quote is followed by text; quote the whole word";
		return false;
	}
	*p = s;
	return true;
}

char **command_parse(struct arena *a, const char *text, const char **why)
{
	char **argv = arena_calloc(a, COMMAND_WORDS_MAX + 1, sizeof *argv);
	struct str word;
	size_t n = 0;
	*why = argv ? NULL : "out of memory";
	while (!*why && next(&text, &word, why)) {
		if (n == COMMAND_WORDS_MAX)
			*why = "it has too many words";
		else if (!(argv[n++] = arena_strz(a, word)))
			*why = "out of memory";
	}
	if (!*why && !n)
		*why = "it is empty";
	if (!*why && argv[0][0] != '/')
		*why = "it must begin with an absolute path";
	return *why ? NULL : argv;
}
