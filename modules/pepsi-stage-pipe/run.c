/* See run.h. Between fork and exec only what is async-signal-safe. */
#include "run.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	REPORT_FD = 3,      /* where the child says that exec failed; closed by exec */
	FILES_MAX = 256,    /* descriptors of the command */
	LOOK_MS = 50,       /* how often to look whether it is gone though somebody holds its output open */
	DYING_MS = 2000,    /* how long a killed one is waited for */
	READS_MAX = 64,     /* at a time, so that one who writes without end does not keep us from the clock */
};

struct pipes {
	int out[2], err[2], report[2];
};

struct task {
	const struct run_job *job;
	struct run_result *r;
	pid_t pid;
	bool reaped;
	int status;
};

static void limit(int what, rlim_t n)
{
	struct rlimit r;
	if (getrlimit((__rlimit_resource_t)what, &r))
		return;
	if (r.rlim_max != RLIM_INFINITY && r.rlim_max < n)
		n = r.rlim_max;
	setrlimit((__rlimit_resource_t)what, &(struct rlimit){ n, n });
}

static _Noreturn void child(const struct run_job *j, const struct pipes *p)
{
	sigset_t none;
	int err;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(j->in, STDIN_FILENO) < 0 || dup2(p->out[1], STDOUT_FILENO) < 0 || dup2(p->err[1], STDERR_FILENO) < 0 ||
	    (p->report[1] != REPORT_FD && dup3(p->report[1], REPORT_FD, O_CLOEXEC) < 0))
		_exit(126);
	close_range(REPORT_FD + 1, ~0u, 0);
	umask(077);
	if (chdir("/"))
		_exit(126);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_NOFILE, FILES_MAX);
	limit(RLIMIT_CPU, j->cpu_s);
	if (j->memory)
		limit(RLIMIT_AS, j->memory);
	execve(j->argv[0], j->argv, j->envp);
	err = errno;
	if (write(REPORT_FD, &err, sizeof err) < 0)
		_exit(126);
	_exit(127);
}

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Reads what is there. false: nothing will come any more, or *too_long. */
static bool take(int fd, struct buf *b, bool *too_long)
{
	char text[16384];
	for (int i = 0; i < READS_MAX; i++) {
		ssize_t n = read(fd, text, sizeof text);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n <= 0)
			return false;
		size_t room = b->max - b->n, want = (size_t)n;
		if (want > room && too_long) {
			*too_long = true;
			return false;
		}
		if (buf_add(b, text, want < room ? want : room) && too_long) {
			*too_long = true;
			return false;
		}
	}
	return true;
}

static bool gone(struct task *t)
{
	if (!t->reaped && waitpid(t->pid, &t->status, WNOHANG) == t->pid)
		t->reaped = true;
	return t->reaped;
}

/* Until the command has ended, the time is up, or it wrote too much. A child it left behind may keep its pipes open: that
 * the command is gone is what counts. */
static void attend(struct task *t, struct pipes *p)
{
	int64_t until = clock_mono_us() + t->job->timeout_ms * 1000;
	bool too_long = false;
	for (;;) {
		bool over = gone(t);
		if (p->out[0] >= 0 && !take(p->out[0], &t->r->out, &too_long))
			shut(&p->out[0]);
		if (p->err[0] >= 0 && !take(p->err[0], &t->r->err, NULL))
			shut(&p->err[0]);
		int64_t left = (until - clock_mono_us()) / 1000;
		if (over || too_long || left <= 0) {
			t->r->end = too_long ? RUN_TOO_LONG : over ? RUN_EXIT : RUN_LATE;
			return;
		}
		struct pollfd fds[2] = { { .fd = p->out[0], .events = POLLIN }, { .fd = p->err[0], .events = POLLIN } };
		int ms = p->out[0] < 0 && p->err[0] < 0 ? 2 : LOOK_MS; /* both closed: it is about to end */
		poll(fds, 2, left < ms ? (int)left : ms);
	}
}

/* The thread: when it ends, the command does. */
static void *thread(void *arg)
{
	struct task *t = arg;
	struct pipes p = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
	int err = 0;
	t->r->end = RUN_FAILED;
	if (pipe2(p.out, O_CLOEXEC | O_NONBLOCK) || pipe2(p.err, O_CLOEXEC | O_NONBLOCK) || pipe2(p.report, O_CLOEXEC)) {
		t->r->code = errno;
	} else {
		fcntl(p.out[1], F_SETFL, 0); /* the command's ends are ordinary ones */
		fcntl(p.err[1], F_SETFL, 0);
		t->pid = fork();
		if (t->pid == 0)
			child(t->job, &p);
		err = t->pid < 0 ? errno : 0;
		shut(&p.out[1]);
		shut(&p.err[1]);
		shut(&p.report[1]);
		if (!err && read(p.report[0], &err, sizeof err) != sizeof err)
			err = 0; /* end of file: exec closed it */
		t->r->code = err;
		if (!err)
			attend(t, &p);
		if (t->pid > 0 && !gone(t))
			kill(t->pid, SIGKILL); /* refused in a confined worker; the end of this thread does it there */
	}
	for (int i = 0; i < 2; i++) {
		shut(&p.out[i]);
		shut(&p.err[i]);
		shut(&p.report[i]);
	}
	return NULL;
}

void run_command(const struct run_job *job, struct run_result *ret)
{
	struct task t = { .job = job, .r = ret, .pid = -1 };
	pthread_t id;
	*ret = (struct run_result){ .end = RUN_FAILED, .out = BUF_INIT(RUN_OUT_MAX), .err = BUF_INIT(RUN_ERR_MAX) };
	ret->code = pthread_create(&id, NULL, thread, &t);
	if (ret->code)
		return;
	pthread_join(id, NULL);
	if (t.pid <= 0)
		return;
	for (int64_t until = clock_mono_us() + DYING_MS * 1000; !gone(&t) && clock_mono_us() < until;)
		poll(NULL, 0, 2);
	if (!t.reaped)
		ret->stray = t.pid;
	if (ret->end == RUN_EXIT && WIFSIGNALED(t.status)) {
		ret->end = RUN_SIGNAL;
		ret->code = WTERMSIG(t.status);
	} else if (ret->end == RUN_EXIT) {
		ret->code = WEXITSTATUS(t.status);
	}
}

void run_done(struct run_result *r)
{
	buf_free(&r->out);
	buf_free(&r->err);
}
