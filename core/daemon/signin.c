/* The spawner's part in the admin child (core/signin): forks it beside the reactor, gives the reactor its end of the channel, starts
 * it again with growing pauses. It parses nothing and keeps nothing secret. */
#include "daemon_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "signin/signin.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	PAUSE_MIN_US = 100 * 1000,
	PAUSE_MAX_US = 30 * 1000 * 1000,
	STEADY_US = 60 * 1000 * 1000, /* lived so long: its end was no part of a series */
};

struct accounts_of {
	const struct table *t;
	pid_t parent;
};

static int become(const struct account *a, pid_t parent)
{
	char err[200];
	if (account_become(a, SIGKILL, parent, err, sizeof err) == 0)
		return 0;
	log_error(NULL, "event=signin-account reason=%s", log_qz(err));
	return -1;
}

/* Keepers are children of the admin child: called in them, the parent is whoever forked. */
static int become_pam(void *arg)
{
	const struct accounts_of *of = arg;
	return become(&of->t->pam_account, getppid());
}

static int become_signin(void *arg)
{
	const struct accounts_of *of = arg;
	return become(&of->t->signin, getppid());
}

static void child(const struct boot *b, struct str blob, const struct table *t, int channel, pid_t parent) __attribute__((noreturn));
static void child(const struct boot *b, struct str blob, const struct table *t, int channel, pid_t parent)
{
	char conninfo[1024];
	struct accounts_of of = { t, parent };
	struct signin_params p = { .blob = blob, .state_dir = t->state_dir, .conninfo = conninfo, .embedded = t->embedded, .channel = channel,
		.log_level = b->log_level, .pam = t->pam, .become_pam = become_pam, .become = become_signin, .arg = &of };
	log_setup((enum log_level)b->log_level, "signin");
	/* until it is its account, which sets this anew */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct config *c = getppid() == parent ? config_thaw(blob) : NULL;
	if (!c || boot_conninfo(c, t, conninfo, sizeof conninfo))
		_exit(1);
	config_free(c);
	_exit(signin_main(&p));
}

int signin_spawn(struct signin_child *s, const struct boot *b, struct str blob, const struct table *t, int (*begin)(int keep))
{
	int sv[2];
	pid_t parent = getpid();
	s->at = 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv)) {
		s->at = clock_mono_us() + PAUSE_MAX_US;
		return -1;
	}
	pid_t pid = fork();
	if (pid == 0) {
		int fd = begin(sv[1]);
		prctl(PR_SET_NAME, "pepsi-signin", 0, 0, 0);
		if (fd < 0)
			_exit(1);
		child(b, blob, t, fd, parent);
	}
	close(sv[1]);
	if (pid < 0) {
		close(sv[0]);
		s->at = clock_mono_us() + PAUSE_MAX_US;
		return -1;
	}
	s->pid = pid;
	s->born = clock_mono_us();
	return sv[0];
}

void signin_died(struct signin_child *s, int status, bool wanted)
{
	int64_t now = clock_mono_us();
	s->pid = 0;
	if (wanted) {
		s->pause_us = 0;
		return;
	}
	if (now - s->born > STEADY_US)
		s->pause_us = 0;
	s->pause_us = s->pause_us ? s->pause_us * 2 : PAUSE_MIN_US;
	if (s->pause_us > PAUSE_MAX_US)
		s->pause_us = PAUSE_MAX_US;
	s->at = now + s->pause_us;
	log_warn(NULL, "event=signin-died status=0x%x retry_ms=%lld hint=\"nobody can sign in meanwhile\"", status,
	    (long long)(s->pause_us / 1000));
}
