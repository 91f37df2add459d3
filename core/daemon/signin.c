/* The spawner's part in the admin child (core/signin): forks it beside the reactor, gives the reactor its end of the channel, starts
 * it again with growing pauses. It parses nothing and keeps nothing secret. */
#include "daemon_internal.h"

#include "signin/signin.h"

#include <sys/socket.h>
#include <unistd.h>

struct accounts_of {
	const struct table *t;
	pid_t parent;
};

/* Keepers are children of the admin child: called in them, the parent is whoever forked. */
static int become_pam(void *arg)
{
	const struct accounts_of *of = arg;
	return child_become(&of->t->pam_account, getppid(), "signin");
}

static int become_signin(void *arg)
{
	const struct accounts_of *of = arg;
	return child_become(&of->t->signin, getppid(), "signin");
}

static int run(const struct boot *b, struct str blob, const struct table *t, int channel, pid_t parent)
{
	char conninfo[1024];
	struct accounts_of of = { t, parent };
	struct signin_params p = { .blob = blob, .state_dir = t->state_dir, .conninfo = conninfo, .embedded = t->embedded, .channel = channel,
		.log_level = b->log_level, .pam = t->pam, .become_pam = become_pam, .become = become_signin, .arg = &of };
	struct config *c = config_thaw(blob);
	if (!c || boot_conninfo(c, t, conninfo, sizeof conninfo))
		return 1;
	config_free(c);
	return signin_main(&p);
}

int signin_spawn(struct child *s, const struct boot *b, struct str blob, const struct table *t, int (*begin)(int keep))
{
	int sv[2], fd;
	pid_t parent = getpid();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv)) {
		child_failed(s);
		return -1;
	}
	pid_t pid = child_fork(s, b, "pepsi-signin", "signin", sv[1], begin, &fd);
	if (pid == 0)
		_exit(run(b, blob, t, fd, parent));
	close(sv[1]);
	if (pid < 0) {
		close(sv[0]);
		return -1;
	}
	return sv[0];
}

void signin_died(struct child *s, int status, bool wanted)
{
	child_died(s, "signin", status, wanted, "nobody can sign in meanwhile");
}
