/* Children beside the reactor that are started again when they die: the fork, what each does first, and the pauses between two lives. Knows
 * nothing of what they do. */
#include "daemon_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	PAUSE_MIN_US = 100 * 1000,
	PAUSE_MAX_US = 30 * 1000 * 1000,
	STEADY_US = 60 * 1000 * 1000, /* lived so long: its end was no part of a series */
};

pid_t child_fork(struct child *c, const struct boot *b, const char *process, const char *part, int keep, int (*begin)(int keep), int *ret_fd)
{
	pid_t parent = getpid(), pid = fork();
	c->at = 0;
	if (pid == 0) {
		int fd = begin(keep);
		prctl(PR_SET_NAME, process, 0, 0, 0);
		log_setup((enum log_level)b->log_level, part);
		/* until it is its account, which sets this anew */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent || (keep >= 0 && fd < 0))
			_exit(1);
		*ret_fd = fd;
		return 0;
	}
	if (pid < 0) {
		c->at = clock_mono_us() + PAUSE_MAX_US;
		return -1;
	}
	c->pid = pid;
	c->born = clock_mono_us();
	return pid;
}

void child_failed(struct child *c)
{
	c->at = clock_mono_us() + PAUSE_MAX_US;
}

int child_become(const struct account *a, pid_t parent, const char *part)
{
	char err[200];
	if (account_become(a, SIGKILL, parent, err, sizeof err) == 0)
		return 0;
	log_error(NULL, "event=%s-account reason=%s", part, log_qz(err));
	return -1;
}

void child_limits(unsigned descriptors)
{
	struct rlimit l, none = { 0, 0 };
	setrlimit(RLIMIT_CORE, &none);
	if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur >= descriptors)
		return;
	l.rlim_cur = l.rlim_max < descriptors ? l.rlim_max : descriptors;
	setrlimit(RLIMIT_NOFILE, &l);
}

void child_end(struct child *c)
{
	if (!c->pid)
		return;
	c->ended = true;
	kill(c->pid, SIGKILL); /* nothing in it is worth a farewell, and it may be one that hangs */
}

void child_died(struct child *c, const char *part, int status, bool wanted, const char *hint)
{
	int64_t now = clock_mono_us();
	c->pid = 0;
	wanted |= c->ended;
	c->ended = false;
	if (wanted) {
		c->pause_us = 0;
		return;
	}
	if (now - c->born > STEADY_US)
		c->pause_us = 0;
	c->pause_us = c->pause_us ? c->pause_us * 2 : PAUSE_MIN_US;
	if (c->pause_us > PAUSE_MAX_US)
		c->pause_us = PAUSE_MAX_US;
	c->at = now + c->pause_us;
	log_warn(NULL, "event=%s-died status=0x%x retry_ms=%lld hint=\"%s\"", part, status, (long long)(c->pause_us / 1000), hint);
}
