/* See fields.h. */
#include "proto/dns/fields.h"

bool fields_alnum(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_alnum(s.p[i]))
			return false;
	return s.n > 0;
}

bool fields_name_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_alnum(s.p[i]) && (!i || (s.p[i] != '_' && s.p[i] != '-' && s.p[i] != '.')))
			return false;
	return s.n > 0 && s.n <= 32;
}

bool fields_value_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] >= 0x7f || s.p[i] == ';' || s.p[i] == '=')
			return false;
	return s.n > 0;
}

static struct str skip_blanks(struct str s)
{
	while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
		s = str_skip(s, 1);
	return s;
}

bool fields_begin(struct str *txt, struct str version)
{
	struct str rest;
	if (!str_starts(*txt, version))
		return false;
	rest = skip_blanks(str_skip(*txt, version.n));
	if (!rest.n || rest.p[0] != ';')
		return false;
	*txt = rest;
	return true;
}

int fields_next(struct str *txt, struct str *ret_name, struct str *ret_value)
{
	struct str rest = *txt;
	if (!rest.n)
		return 0;
	if (rest.p[0] != ';')
		return -1;
	rest = skip_blanks(str_skip(rest, 1));
	if (!rest.n) {
		*txt = rest;
		return 0;
	}
	ptrdiff_t semicolon = str_chr(rest, ';');
	struct str one = str_n(rest.p, semicolon < 0 ? rest.n : (size_t)semicolon);
	*txt = str_skip(rest, one.n);
	/* blanks belong to the semicolon behind them (field-delim): there are none at the very end */
	while (semicolon >= 0 && one.n && (one.p[one.n - 1] == ' ' || one.p[one.n - 1] == '\t'))
		one.n--;
	ptrdiff_t equals = str_chr(one, '=');
	if (equals < 0)
		return -1;
	*ret_name = str_n(one.p, (size_t)equals);
	*ret_value = str_skip(one, (size_t)equals + 1);
	return fields_name_ok(*ret_name) ? 1 : -1;
}
