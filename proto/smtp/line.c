/* The line reader of line.h. */
#include "line.h"

#include "scan.h"

static size_t longest(const struct smtp_line *l)
{
	return l->max ? l->max : SMTP_LINE_MAX;
}

/* The line has i octets at p, with no end yet: drop them when they are more than a line may have. */
static enum smtp_line_result pending(struct smtp_line *l, size_t i, size_t *ret_used)
{
	l->scanned = i;
	if (l->skipped || i > longest(l)) {
		l->skipped += i;
		l->scanned = 0;
		*ret_used = i;
	}
	return SMTP_LINE_MORE;
}

enum smtp_line_result smtp_line_next(struct smtp_line *l, const char *p, size_t n, size_t *ret_used, struct str *ret_line)
{
	size_t i = l->scanned > n ? n : l->scanned;
	*ret_used = 0;
	i += smtp_scan_special(p + i, n - i);
	if (l->skipped + i > SMTP_LINE_SKIP_MAX)
		return SMTP_LINE_FLOOD;
	if (i == n)
		return pending(l, i, ret_used);
	if (p[i] == '\n')
		return SMTP_LINE_BARE_LF;
	if (!p[i])
		return SMTP_LINE_NUL;
	if (i + 1 == n) /* a CR, and nothing behind it yet */
		return pending(l, i, ret_used);
	if (p[i + 1] != '\n')
		return SMTP_LINE_BARE_CR;
	bool too_long = l->skipped || i > longest(l);
	*ret_used = i + 2;
	*ret_line = str_n(p, i);
	*l = (struct smtp_line){ .max = l->max };
	return too_long ? SMTP_LINE_TOO_LONG : SMTP_LINE_OK;
}
