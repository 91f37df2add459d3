/* pepsi-sendmail -bs and -bv: a dialogue with pepsid over its local socket, for a program or about addresses. */
#include "cli_internal.h"
#include "submit/submit.h"
#include "tool_sendmail.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

enum { CHUNK = 64 * 1024, SILENCE_MS = 15 * 60 * 1000 };

static int reach(const struct sendmail_site *site)
{
	int fd = submit_connect(site->socket);
	if (fd < 0)
		sendmail_fail(site, EX_TEMPFAIL, "cannot reach pepsid at %s: %s", site->socket, strerror(errno));
	return fd;
}

/* Commands on their way to pepsid. Who writes a whole dialogue into -bs waits for no reply, and sendmail never minded; so it is we who
 * wait: a command goes when the one before it was answered, and what follows DATA when pepsid wants it. Nor is pepsid ever waited for
 * while it waits for us to read. */
struct upward {
	char b[CHUNK];
	size_t n, at;
	bool end;             /* nothing more comes from the caller, or nothing more is wanted */
	bool waits;           /* for a reply; at first for the banner */
	size_t line;          /* octets left of a command that goes */
	bool data;            /* that is DATA; behind it: its reply will tell */
	bool content;         /* between 354 and the final dot */
	unsigned dot;         /* octets of CR LF . CR LF that were sent last */
	uint64_t chunk;       /* octets left of a chunk */
	char reply[4];        /* the front of a reply's line */
	unsigned reply_n;
};

/* Steps over one octet; true: that was the end of the content. */
static bool dot_step(unsigned *at, char c)
{
	static const char end[] = "\r\n.\r\n";
	*at = c == end[*at] ? *at + 1 : c == '\r' ? 1 : 0;
	return *at == 5;
}

static void begin_command(struct upward *u, struct str line)
{
	struct str word, size;
	uint64_t n;
	u->line = line.n;
	u->data = str_word(&line, " \r\n", &word) && str_ieq(word, STR("DATA"));
	if (word.n && str_ieq(word, STR("BDAT")) && str_word(&line, " \r\n", &size) && str_u64(size, INT64_MAX, &n) == 0)
		u->chunk = n;
}

/* How much may go now. */
static size_t sendable(struct upward *u)
{
	struct str all = str_n(u->b + u->at, u->n - u->at);
	unsigned dot = u->dot;
	ptrdiff_t lf;
	if (u->waits || !all.n)
		return 0;
	if (u->line)
		return u->line < all.n ? u->line : all.n;
	if (u->chunk)
		return u->chunk < all.n ? (size_t)u->chunk : all.n;
	if (u->content) {
		for (size_t i = 0; i < all.n; i++)
			if (dot_step(&dot, all.p[i]))
				return i + 1;
		return all.n;
	}
	lf = str_chr(all, '\n');
	if (lf < 0 && all.n < sizeof u->b && !u->end)
		return 0;
	begin_command(u, str_n(all.p, lf < 0 ? all.n : (size_t)lf + 1));
	return u->line;
}

static void sent(struct upward *u, size_t n)
{
	const char *p = u->b + u->at;
	u->at += n;
	if (u->line) {
		u->line -= n;
		u->waits = !u->line && !u->chunk && p[n - 1] == '\n'; /* of a line that is too long the rest is still to come */
	} else if (u->chunk) {
		u->chunk -= n;
		u->waits = !u->chunk;
	} else {
		for (size_t i = 0; i < n; i++)
			if (dot_step(&u->dot, p[i])) {
				u->content = false;
				u->waits = true;
			}
	}
}

static void pass_up(struct upward *u, int fd)
{
	size_t n;
	while ((n = sendable(u)) > 0) {
		ssize_t w = send(fd, u->b + u->at, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN)
			return;
		if (w < 0) { /* pepsid has said why, and that is still to be read */
			u->n = u->at = 0;
			u->end = true;
			return;
		}
		sent(u, (size_t)w);
	}
	if (u->end && u->at == u->n)
		shutdown(fd, SHUT_WR);
}

static void take_up(struct upward *u)
{
	memmove(u->b, u->b + u->at, u->n - u->at);
	u->n -= u->at;
	u->at = 0;
	ssize_t n = read(STDIN_FILENO, u->b + u->n, sizeof u->b - u->n);
	if (n > 0)
		u->n += (size_t)n;
	else if (n == 0 || errno != EINTR)
		u->end = true;
}

/* A line of the reply that is not "250-…" ends it. */
static void see_reply(struct upward *u, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] != '\n') {
			if (u->reply_n < sizeof u->reply)
				u->reply[u->reply_n++] = p[i];
			continue;
		}
		if (u->reply_n < sizeof u->reply || u->reply[3] != '-') {
			u->content = u->data && !memcmp(u->reply, "354", 3);
			u->dot = 2; /* a dot in the first line is one, too */
			u->data = u->waits = false;
		}
		u->reply_n = 0;
	}
}

/* Replies, to our caller, who is waited for. 1; 0 at the end; -1. */
static int pass_down(struct upward *u, int fd)
{
	char b[CHUNK];
	ssize_t n = read(fd, b, sizeof b), at = 0;
	if (n < 0 && errno == EINTR)
		return 1;
	while (at < n) {
		ssize_t w = write(STDOUT_FILENO, b + at, (size_t)(n - at));
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -1;
		at += w;
	}
	if (n > 0)
		see_reply(u, b, (size_t)n);
	return n > 0 ? 1 : (int)n;
}

int sendmail_smtp(const struct sendmail_site *site)
{
	static struct upward u = { .waits = true };
	int fd = reach(site), r = 1;
	if (fd < 0) {
		printf("421 4.3.2 %s is not available\r\n", site->host);
		return EX_TEMPFAIL;
	}
	while (r > 0) {
		bool room = !u.end && u.n - u.at < sizeof u.b;
		struct pollfd p[2] = { { .fd = fd, .events = (short)(sendable(&u) ? POLLIN | POLLOUT : POLLIN) },
			{ .fd = room ? STDIN_FILENO : -1, .events = POLLIN } };
		int n = poll(p, 2, SILENCE_MS);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (p[0].revents & ~POLLOUT)
			r = pass_down(&u, fd);
		if (p[1].revents)
			take_up(&u);
		pass_up(&u, fd);
	}
	close(fd);
	return r < 0 ? EX_IOERR : EX_OK;
}

/* Asks by a transaction that is given up before DATA. One reply line into reply. 0: a reply that begins with 2. */
static int ask(FILE *f, const char *line, char *reply, size_t size)
{
	if (*line && (fprintf(f, "%s\r\n", line) < 0 || fflush(f)))
		return -1;
	do {
		if (!fgets(reply, (int)size, f))
			return -1;
	} while (strlen(reply) > 3 && reply[3] == '-');
	reply[strcspn(reply, "\r\n")] = 0;
	return reply[0] == '2' ? 0 : 1;
}

int sendmail_verify(const struct sendmail_site *site, const struct sendmail_args *a)
{
	struct submit_addresses list;
	char reply[1024] = "", line[1100];
	int code = EX_OK, fd;
	submit_addresses_init(&list);
	for (size_t i = 0; i < a->n_rcpts; i++)
		submit_addresses_add(&list, str_from(a->rcpts[i]), site->host);
	struct str rest = buf_str(&list.bad), bad;
	while (str_word(&rest, "\n", &bad))
		code = sendmail_fail(site, EX_DATAERR, "%.*s: no address", STR_ARG(bad));
	if (!list.n && !list.n_bad)
		code = sendmail_fail(site, EX_USAGE, "-bv: no address");
	FILE *f = list.n && (fd = reach(site)) >= 0 ? fdopen(fd, "r+") : NULL;
	if (list.n && (!f || ask(f, "", reply, sizeof reply) || ask(f, "EHLO localhost", reply, sizeof reply) ||
	    ask(f, list.utf8 ? "MAIL FROM:<> SMTPUTF8" : "MAIL FROM:<>", reply, sizeof reply))) {
		code = f ? sendmail_fail(site, EX_TEMPFAIL, "pepsid says: %s", reply[0] ? reply : "nothing") : EX_TEMPFAIL;
		list.n = 0;
	}
	const char *p = list.text.p;
	for (size_t i = 0; i < list.n; i++, p += strlen(p) + 1) {
		snprintf(line, sizeof line, "RCPT TO:<%s>", p);
		int r = ask(f, line, reply, sizeof reply);
		if (r < 0) {
			code = sendmail_fail(site, EX_TEMPFAIL, "pepsid ended the dialogue");
			break;
		}
		cli_text_print(stdout, str_from(p));
		fputs(r ? "... " : "... deliverable: ", stdout);
		cli_text_print(stdout, str_from(reply));
		putchar('\n');
		if (r)
			code = reply[0] == '4' ? EX_TEMPFAIL : EX_NOUSER;
	}
	if (f) {
		ask(f, "QUIT", reply, sizeof reply);
		fclose(f);
	}
	submit_addresses_done(&list);
	return code;
}
