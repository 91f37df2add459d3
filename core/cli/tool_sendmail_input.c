/* Reading the message that a program writes to pepsi-sendmail. */
#include "cli_internal.h"
#include "tool_sendmail.h"

#include <errno.h>
#include <sysexits.h>
#include <unistd.h>

enum { CHUNK = 64 * 1024 };

/* A line of a dot alone among the lines that are whole since *line; *line moves on. True: cut there, that was the end. */
static bool dot_ends(struct buf *b, size_t *line)
{
	for (;;) {
		struct str rest = str_skip(buf_str(b), *line);
		ptrdiff_t lf = str_chr(rest, '\n');
		if (lf < 0)
			return false;
		struct str text = str_n(rest.p, (size_t)lf);
		if (text.n && text.p[text.n - 1] == '\r')
			text.n--;
		if (str_eq(text, STR("."))) {
			b->n = *line;
			return true;
		}
		*line += (size_t)lf + 1;
	}
}

int sendmail_read(const struct sendmail_site *site, const struct sendmail_args *a, struct buf *out)
{
	size_t line = 0;
	*out = BUF_INIT((size_t)site->size_limit + CHUNK);
	for (;;) {
		if (out->n > site->size_limit)
			return sendmail_fail(site, EX_DATAERR, "the message is larger than MESSAGE_SIZE_LIMIT, %llu octets",
			    (unsigned long long)site->size_limit);
		char *room = buf_room(out, CHUNK);
		ssize_t n = room ? read(STDIN_FILENO, room, CHUNK) : -1;
		if (n < 0 && room && errno == EINTR)
			continue;
		if (n < 0)
			return sendmail_fail(site, room ? EX_IOERR : EX_OSERR, "cannot read the message: %s", room ? strerror(errno) : "out of memory");
		out->n += (size_t)n;
		if (n == 0 || (!a->ignore_dots && dot_ends(out, &line)))
			break;
	}
	/* at the end of input a dot needs no line end */
	if (!a->ignore_dots && str_eq(str_skip(buf_str(out), line), STR(".")))
		out->n = line;
	return 0;
}
