/* Looking at a module without trusting it: a child loads it and tells what it found over a pipe; the parent believes
 * nothing about lengths, waits ten seconds at most and kills the whole process group. Code of a module never runs in
 * the caller. */
#include "describe.h"

#include "base/clock.h"
#include "conf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEADLINE_S = 10, TOLD_MAX = 1024 * 1024, MEMORY = 1 << 30, PIPE_FD = 3, TEXT_MAX = 65536 };

/* --- the child. Records: tag, u32 length (host order: same machine), octets. */

static void tell(struct buf *b, char tag, const char *z)
{
	uint32_t n = z ? (uint32_t)(strlen(z) < TEXT_MAX ? strlen(z) : TEXT_MAX) : 0;
	if (!z)
		return;
	buf_addc(b, tag);
	buf_add(b, &n, sizeof n);
	buf_add(b, z, n);
}

static void tell_n(struct buf *b, char tag, long long n)
{
	char z[32];
	snprintf(z, sizeof z, "%lld", n);
	tell(b, tag, z);
}

static void tell_module(struct buf *b, const struct worker_module *m)
{
	tell(b, TELL_NAME, m->stage.name);
	tell(b, TELL_VERSION, m->stage.version);
	tell(b, TELL_LICENSE, m->stage.license);
	tell(b, TELL_SUMMARY, m->stage.summary);
	tell_n(b, TELL_MAJOR, m->stage.abi.major);
	tell_n(b, TELL_MINOR, m->stage.abi.minor);
	tell_n(b, TELL_LOAD, m->stage.load_class);
	tell_n(b, TELL_CAPS, (long long)m->stage.caps);
	for (size_t i = 0; i < m->n_options; i++) {
		const struct pepsi_option *o = &m->options[i];
		tell(b, TELL_OPTION, o->name);
		tell_n(b, TELL_O_TYPE, o->type);
		tell_n(b, TELL_O_FLAGS, o->flags);
		tell(b, TELL_O_DEFAULT, o->def);
		tell_n(b, TELL_O_MIN, o->min);
		tell_n(b, TELL_O_MAX, o->max);
		tell(b, TELL_O_CHOICES, o->choices);
		tell(b, TELL_O_HELP, o->help);
	}
}

static void tell_finding(void *arg, const char *option, const char *text)
{
	struct buf *b = arg;
	tell(b, TELL_FINDING, option ? option : "");
	tell(b, TELL_TEXT, text);
}

static void ignore_finding(void *arg, const char *option, const char *text)
{
	(void)arg;
	(void)option;
	(void)text; /* values that do not parse are the schema check's to report; validate() sees the defaults */
}

static void inspect(const char *path, const struct config *c, const char *stage, struct buf *out)
{
	struct worker_module m = { .dl = NULL };
	struct pepsi_conf conf;
	struct buf why = BUF_INIT(4096);
	if (module_load(&m, path, &why)) {
		tell(out, TELL_ERROR, buf_z(&why));
		return;
	}
	if (!stage) {
		tell_module(out, &m);
	} else if (m.stage.validate) {
		struct pepsi_report report = { tell_finding, out };
		if (conf_init(&conf, c, stage, &m, ignore_finding, NULL) < 0)
			tell(out, TELL_ERROR, "out of memory");
		else if (m.stage.validate(&worker_host, &conf, &report) != PEPSI_OK)
			tell(out, TELL_ERROR, "validate() of the module failed");
	}
}

static void child(const char *path, const struct config *c, const char *stage, void (*drop)(void *arg), void *arg)
{
	struct buf out = BUF_INIT(TOLD_MAX);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null >= 0)
		dup2(null, STDIN_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	close_range(PIPE_FD + 1, ~0u, 0);
	if (drop)
		drop(arg);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	setrlimit(RLIMIT_CPU, &(struct rlimit){ DEADLINE_S, DEADLINE_S });
#ifndef PEPSI_SANITIZED
	setrlimit(RLIMIT_AS, &(struct rlimit){ MEMORY, MEMORY });
#endif
	inspect(path, c, stage, &out);
	if (out.failed) {
		buf_reset(&out);
		tell(&out, TELL_ERROR, "the module describes itself at more length than is allowed");
	}
	tell(&out, TELL_END, "");
	for (size_t at = 0; at < out.n;) {
		ssize_t k = write(PIPE_FD, out.p + at, out.n - at);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			_exit(1);
		at += (size_t)k;
	}
	_exit(0);
}

/* --- the parent */

static pid_t start(const char *path, const struct config *c, const char *stage, void (*drop)(void *arg), void *arg, int *ret_fd)
{
	int p[2];
	if (pipe2(p, O_CLOEXEC | O_NONBLOCK))
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		sigset_t none;
		for (int sig = 1; sig < NSIG; sig++) /* the caller's handlers must not run here, least of all for a crash */
			signal(sig, SIG_DFL);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		setpgid(0, 0);
		int fd = p[1]; /* to descriptor 3, where it is the only one that survives; blocking */
		if (fd != PIPE_FD && dup2(fd, PIPE_FD) < 0)
			_exit(1);
		fcntl(PIPE_FD, F_SETFL, 0);
		fcntl(PIPE_FD, F_SETFD, FD_CLOEXEC);
		child(path, c, stage, drop, arg);
	}
	close(p[1]);
	if (pid < 0) {
		close(p[0]);
		return -1;
	}
	setpgid(pid, pid); /* whoever comes first */
	*ret_fd = p[0];
	return pid;
}

/* Reads until the end record, end of file, the limit or the deadline. */
static void gather(int fd, struct buf *in, int64_t deadline)
{
	struct str rest, text;
	char tag;
	for (;;) {
		rest = buf_str(in);
		while (describe_next(&rest, &tag, &text))
			if (tag == TELL_END)
				return;
		int64_t left = (deadline - clock_mono_us()) / 1000;
		struct pollfd p = { .fd = fd, .events = POLLIN };
		if (left <= 0)
			return;
		int k = poll(&p, 1, (int)left);
		if (k < 0 && errno != EINTR)
			return;
		if (k <= 0)
			continue;
		char *room = buf_room(in, 4096);
		ssize_t n = room ? read(fd, room, 4096) : 0;
		if (n > 0)
			in->n += (size_t)n;
		else if (n == 0 || (errno != EAGAIN && errno != EINTR))
			return;
	}
}

/* 0 and the records in *in; or -1 with why. */
static int ask(const char *path, const struct config *c, const char *stage, void (*drop)(void *arg), void *arg, struct buf *in,
    char *why, size_t why_size)
{
	int fd, st = 0;
	int64_t deadline = clock_mono_us() + DEADLINE_S * US_PER_S;
	struct str rest, text;
	char tag = 0;
	bool ended = false;
	pid_t pid = start(path, c, stage, drop, arg, &fd);
	if (pid < 0) {
		snprintf(why, why_size, "no process to look at it in: %m");
		return -1;
	}
	gather(fd, in, deadline);
	close(fd);
	rest = buf_str(in);
	while (describe_next(&rest, &tag, &text))
		ended = ended || tag == TELL_END;
	bool late = !ended && clock_mono_us() >= deadline;
	if (!ended && !late) { /* it is dying: let it, so that we see of what */
		for (int i = 0; i < 100 && waitpid(pid, &st, WNOHANG) == 0; i++)
			poll(NULL, 0, 10);
	}
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
		;
	if (ended)
		return 0;
	if (late)
		snprintf(why, why_size, "the module did not answer within %d s", DEADLINE_S);
	else if (WIFSIGNALED(st))
		snprintf(why, why_size, "the module crashed while it was looked at (signal %d)", WTERMSIG(st));
	else
		snprintf(why, why_size, "the module ended the process that looked at it (status %d)", WIFEXITED(st) ? WEXITSTATUS(st) : -1);
	return -1;
}

void worker_describe(const char *program, const char *path, void (*drop)(void *arg), void *arg, struct module_info *ret)
{
	struct buf in = BUF_INIT(TOLD_MAX + 4096);
	char why[256] = "";
	*ret = (struct module_info){ .path = strdup(path ? path : "") };
	if (!path)
		snprintf(why, sizeof why, "no %s.so along [pepsi] MODULE_PATH", program);
	if (!path || ask(path, NULL, NULL, drop, arg, &in, why, sizeof why))
		ret->error = strdup(why);
	else
		describe_read(buf_str(&in), ret);
	if (!ret->name)
		ret->name = strdup(program);
	buf_free(&in);
}

void worker_validate(const struct config *c, const char *stage, const char *path, void (*drop)(void *arg), void *arg,
    struct config_faults *faults)
{
	struct buf in = BUF_INIT(TOLD_MAX + 4096);
	char why[256] = "", section[160], option[128] = "";
	struct str rest, text;
	char tag;
	snprintf(section, sizeof section, "stage-%.100s", stage);
	const struct config_value *at = config_get(c, section, "PROGRAM");
	if (ask(path, c, stage, drop, arg, &in, why, sizeof why)) {
		config_fault_add(faults, at ? at->file : "", at ? at->line : 0, false, "[%s]: %s", section, why);
		buf_free(&in);
		return;
	}
	rest = buf_str(&in);
	while (describe_next(&rest, &tag, &text)) {
		if (tag == TELL_ERROR)
			config_fault_add(faults, at ? at->file : "", at ? at->line : 0, false, "[%s]: %.*s", section, STR_ARG(text));
		else if (tag == TELL_FINDING)
			snprintf(option, sizeof option, "%.*s", (int)(text.n < 120 ? text.n : 120), text.p);
		else if (tag == TELL_TEXT) {
			const struct config_value *v = option[0] ? config_get(c, section, option) : NULL;
			v = v ? v : at;
			config_fault_add(faults, v ? v->file : "", v ? v->line : 0, false, "[%s]%s%s: %.*s", section,
			    option[0] ? " " : "", option, STR_ARG(text));
			option[0] = 0;
		}
	}
	buf_free(&in);
}
