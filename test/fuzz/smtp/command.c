/* Any octets as command lines, cut in two ways that must give the same lines; each line then goes through verb, path and
 * name checks. */
#include "fuzz.h"

#include "proto/smtp/command.h"
#include "proto/smtp/line.h"
#include "proto/smtp/status.h"

static void look_at(struct str line)
{
	struct str verb, args, params;
	struct smtp_address a;
	struct smtp_status st;
	must(line.n <= SMTP_LINE_MAX && str_chr(line, '\n') < 0 && str_chr(line, '\r') < 0 && str_chr(line, 0) < 0);
	smtp_command_split(line, &verb, &args);
	must(str_chr(verb, ' ') < 0 && verb.n + args.n <= line.n);
	must(!args.n || (args.p[0] != ' ' && args.p[args.n - 1] != ' ' && args.p[args.n - 1] != '\t'));
	for (unsigned flags = 0; flags < 8; flags++)
		if (!smtp_command_path(args, STR("FROM:"), flags, &a, &params))
			must(!params.n || params.p[0] == ' ');
	smtp_helo_check(args);
	smtp_status_parse(args, &st, NULL);
}

/* The results as a hash; step: octets per feed */
static uint64_t read_lines(struct str in, size_t step, bool look)
{
	struct smtp_line l = { 0 };
	size_t at = 0, have = 0;
	uint64_t hash = 14695981039346656037u;
	for (;;) {
		size_t used;
		struct str line = STR_NULL;
		enum smtp_line_result r = smtp_line_next(&l, in.p + at, have - at, &used, &line);
		at += used;
		if (r == SMTP_LINE_MORE) {
			must(have - at <= SMTP_LINE_MAX + 1); /* nothing is kept of a line too long */
			if (have == in.n)
				return hash;
			have += step < in.n - have ? step : in.n - have;
			continue;
		}
		hash = (hash ^ r) * 1099511628211u;
		for (size_t i = 0; r == SMTP_LINE_OK && i < line.n; i++)
			hash = (hash ^ (unsigned char)line.p[i]) * 1099511628211u;
		if (r == SMTP_LINE_OK && look)
			look_at(line);
		if (r != SMTP_LINE_OK && r != SMTP_LINE_TOO_LONG)
			return hash;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = fuzz_str(data, size);
	if (!size)
		return 0;
	uint64_t whole = read_lines(str_skip(in, 1), size, true);
	must(read_lines(str_skip(in, 1), 1 + data[0], false) == whole);
	return 0;
}
