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

/* What can be read from one goes to the other. 1; 0 at the end; -1. */
static int pass(int from, int to)
{
	char b[CHUNK];
	ssize_t n = read(from, b, sizeof b), at = 0;
	if (n < 0 && errno == EINTR)
		return 1;
	while (at < n) {
		ssize_t w = write(to, b + at, (size_t)(n - at));
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -1;
		at += w;
	}
	return n > 0 ? 1 : (int)n;
}

int sendmail_smtp(const struct sendmail_site *site)
{
	int fd = reach(site), r = 1;
	bool open = true;
	if (fd < 0) {
		printf("421 4.3.2 %s is not available\r\n", site->host);
		return EX_TEMPFAIL;
	}
	while (r > 0) {
		struct pollfd p[2] = { { .fd = fd, .events = POLLIN }, { .fd = open ? STDIN_FILENO : -1, .events = POLLIN } };
		int n = poll(p, 2, SILENCE_MS);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (p[0].revents)
			r = pass(fd, STDOUT_FILENO);
		if (r > 0 && p[1].revents && pass(STDIN_FILENO, fd) <= 0) {
			open = false;
			shutdown(fd, SHUT_WR);
		}
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
