/* The socket between `pepsi account`, `pepsi recipient` and the admin child; see account_client.h. */
#include "account_client.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_S = 60, RESTART_MS = 5000 };

static int find(struct account_client *a)
{
	size_t n;
	if (!a->c->socket[0] && cli_client_find(a->c))
		return CLI_FAILED;
	n = strlen(a->c->socket); /* …/run/control.sock, of the same length */
	snprintf(a->path, sizeof a->path, "%.*saccount.sock", (int)(n - strlen("control.sock")), a->c->socket);
	return CLI_DONE;
}

static int cannot_reach(const struct account_client *a, int e)
{
	const char *file = cli_config_file(a->c);
	if (e == EACCES || e == EPERM)
		return cli_fail("may not change accounts or recipients at %s: %s (run this as root, or as the account that runs pepsid)", a->path, strerror(e));
	return cli_fail("cannot reach pepsid at %s: %s. Accounts and recipients are kept by a running pepsid: start it with pepsid -c %s, or systemctl start "
			"pepsid%s", a->path, strerror(e), file,
	    a->c->args.set & (CLI_BIT(CLI_CONFIG) | CLI_BIT(CLI_STATE)) || getenv("PEPSI_CONFIG") ? "" : "; another one is named by -c FILE");
}

/* Is pepsid there, and only the part with the accounts being started (again)? */
static bool daemon_lives(const struct account_client *a)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	snprintf(sun.sun_path, sizeof sun.sun_path, "%s", a->c->socket);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool lives = fd >= 0 && !connect(fd, (struct sockaddr *)&sun, sizeof sun);
	if (fd >= 0)
		close(fd);
	return lives;
}

int cli_account_connect(struct account_client *a)
{
	int64_t until = clock_mono_us() + RESTART_MS * 1000;
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct ucred who;
	socklen_t size = sizeof who;
	struct timeval patience = { .tv_sec = ANSWER_S };
	if (find(a))
		return CLI_FAILED;
	memcpy(sun.sun_path, a->path, sizeof sun.sun_path);
	a->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (a->fd < 0 || setsockopt(a->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) ||
	    setsockopt(a->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience))
		return cli_fail("%s", strerror(errno));
	while (connect(a->fd, (struct sockaddr *)&sun, sizeof sun)) {
		int e = errno;
		if ((e != ECONNREFUSED && e != ENOENT) || clock_mono_us() > until || !daemon_lives(a))
			return cannot_reach(a, e);
		poll(NULL, 0, 50);
	}
	/* the folder belongs to an account with less rights than ours: what listens there must not be its doing */
	if (getsockopt(a->fd, SOL_SOCKET, SO_PEERCRED, &who, &size) || (who.uid != 0 && who.uid != geteuid()))
		return cli_fail("what listens at %s belongs to uid %u, neither root nor you: no password is sent there", a->path, (unsigned)who.uid);
	return CLI_DONE;
}

const char *cli_account_try(struct account_client *a)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct ucred who;
	socklen_t size = sizeof who;
	struct timeval patience = { .tv_sec = ANSWER_S };
	if (!a->c->socket[0] && cli_client_find(a->c))
		return "STATE_DIR is not known";
	size_t n = strlen(a->c->socket);
	snprintf(a->path, sizeof a->path, "%.*saccount.sock", (int)(n - strlen("control.sock")), a->c->socket);
	memcpy(sun.sun_path, a->path, sizeof sun.sun_path);
	a->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (a->fd < 0 || setsockopt(a->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience))
		return "no socket";
	if (connect(a->fd, (struct sockaddr *)&sun, sizeof sun))
		return errno == EACCES || errno == EPERM ? "only root, or the account that runs pepsid, may ask for it" : "pepsid is not running";
	if (getsockopt(a->fd, SOL_SOCKET, SO_PEERCRED, &who, &size) || (who.uid != 0 && who.uid != geteuid()))
		return "what listens there is not pepsid";
	return NULL;
}

/* One question, one answer; its strings live until the next. */
int cli_account_ask(struct account_client *a, const struct wire_account_request *r, struct wire_account_answer *ret)
{
	struct buf b = BUF_INIT(WIRE_ACCOUNT_DATAGRAM_MAX);
	if (wire_account_request_put(&b, r)) {
		buf_free_secret(&b);
		return cli_fail("that is more than one account can hold: at most %d senders of %d octets, %d certificates, a password of %d octets",
		    WIRE_SIGNIN_SENDERS_MAX, WIRE_ACCOUNT_SENDER_MAX, WIRE_ACCOUNT_CERTIFICATES_MAX, WIRE_SIGNIN_PASSWORD_MAX);
	}
	ssize_t n = send(a->fd, b.p, b.n, MSG_NOSIGNAL);
	buf_free_secret(&b);
	if (n >= 0)
		n = recv(a->fd, a->datagram, sizeof a->datagram, 0);
	if (n < 0 && errno == EAGAIN)
		return cli_fail("pepsid at %s did not answer within %d seconds", a->path, ANSWER_S);
	if (n < 0)
		return cli_fail("pepsid at %s: %s", a->path, strerror(errno));
	if (n == 0)
		return cli_fail("pepsid at %s went away before it answered; look whether it was done", a->path);
	if (wire_account_answer_get(str_n(a->datagram, (size_t)n), ret))
		return cli_fail("pepsid at %s gave an answer that cannot be read (another version?)", a->path);
	if (!ret->ok)
		return cli_fail("%.*s", STR_ARG(ret->error));
	return CLI_DONE;
}

struct account_client *cli_account_client(struct cli *c)
{
	struct account_client *a = calloc(1, sizeof *a);
	if (!a) {
		cli_fail("out of memory");
		return NULL;
	}
	a->c = c;
	a->fd = -1;
	return a;
}

int cli_account_done(struct account_client *a, int rc)
{
	if (a->fd >= 0)
		close(a->fd);
	free(a);
	return rc;
}

int cli_account_list(struct cli *c, enum wire_account_op op, struct json_object *(*json)(const struct wire_account_row *),
    void (*print)(const struct wire_account_row *))
{
	struct wire_account_answer an = { .more = true };
	struct json_object *all = c->json ? json_object_new_array() : NULL;
	char last[WIRE_SIGNIN_NAME_MAX + 1] = "";
	struct account_client *a = cli_account_client(c);
	int rc = a ? cli_account_connect(a) : CLI_FAILED;
	while (!rc && an.more) {
		struct wire_account_request r = { .op = op, .name = str_from(last) };
		struct wire_account_row row;
		size_t n = 0;
		int got;
		if ((rc = cli_account_ask(a, &r, &an)))
			break;
		for (; (got = wire_account_row_get(&an.rows, &row)) == 1; n++) {
			snprintf(last, sizeof last, "%.*s", STR_ARG(row.name));
			if (all)
				json_object_array_add(all, json(&row));
			else
				print(&row);
		}
		if (got < 0 || (an.more && !n)) /* or it would be asked for ever */
			rc = cli_fail("pepsid at %s gave an answer that cannot be read", a->path);
	}
	if (all && !rc)
		cli_json_print(all);
	json_object_put(all);
	return a ? cli_account_done(a, rc) : rc;
}
