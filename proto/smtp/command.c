/* Splits command lines; see command.h. */
#include "command.h"

void smtp_command_split(struct str line, struct str *ret_verb, struct str *ret_args)
{
	ptrdiff_t sp;
	while (line.n && (line.p[line.n - 1] == ' ' || line.p[line.n - 1] == '\t'))
		line.n--;
	sp = str_chr(line, ' ');
	*ret_verb = sp < 0 ? line : str_n(line.p, (size_t)sp);
	*ret_args = sp < 0 ? str_n(line.p + line.n, 0) : str_skip(line, (size_t)sp);
	while (ret_args->n && ret_args->p[0] == ' ')
		*ret_args = str_skip(*ret_args, 1);
}

int smtp_command_path(struct str args, struct str keyword, unsigned flags, struct smtp_address *ret,
    struct str *ret_params)
{
	struct smtp_address a;
	size_t used;
	if (!str_istarts(args, keyword))
		return -SMTP_COMMAND_SYNTAX;
	args = str_skip(args, keyword.n);
	if (args.n && args.p[0] == ' ') /* not in the grammar (RFC 5321 §3.3), but what several mail programs send */
		args = str_skip(args, 1);
	int r = smtp_path_parse(args, flags, &a, &used);
	if (r)
		return r;
	if (used < args.n && args.p[used] != ' ')
		return -SMTP_COMMAND_SYNTAX;
	*ret = a;
	*ret_params = str_skip(args, used);
	return 0;
}

bool smtp_helo_check(struct str name)
{
	char plain[SMTP_DOMAIN_MAX];
	if (!name.n || name.n > sizeof plain)
		return false;
	if (name.p[0] == '[')
		return !smtp_literal_check(name);
	for (size_t i = 0; i < name.n; i++)
		plain[i] = name.p[i] == '_' ? 'x' : name.p[i];
	return !smtp_domain_check(str_n(plain, name.n), false);
}
