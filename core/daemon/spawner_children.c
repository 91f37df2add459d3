/* What the spawner starts, and how it speaks of it: the reactor, workers, the sign-in child, the service manager. Each child begins with nothing of its
 * parent's but what it is meant to have. When something is started, or started again, is decided in spawner.c. */
#include "spawner_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { REACTOR_DEAF_MS = 10 * 1000 };

void spawner_notify(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof a.sun_path)
		return;
	memcpy(a.sun_path, path, strlen(path));
	if (path[0] == '@')
		a.sun_path[0] = 0;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&a,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
	close(fd);
}

/* A reactor that does not listen for ten seconds is none; and it may be waiting for us, which would be for ever. */
void spawner_tell(struct spawner *s, const struct channel_msg *m, int fd)
{
	if (s->channel < 0 || channel_send(s->channel, m, fd, REACTOR_DEAF_MS) == 0 || errno != ETIMEDOUT)
		return; /* gone: its exit comes as a signal */
	log_error(NULL, "event=reactor-deaf pid=%d hint=\"killing it\"", (int)s->reactor);
	kill(s->reactor, SIGKILL);
}

void spawner_name(const char *name)
{
	prctl(PR_SET_NAME, name, 0, 0, 0);
}

/* What every child does first: no signal mask, no descriptor but its channel, 0..2 and (the reactor) the sockets that systemd
 * passed. */
static int child_begin(int keep, const struct ingress_inherited *inherited)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_IGN); /* typed at a terminal it is for the spawner alone */
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (keep < 0) { /* it has no channel */
		close_range(3, ~0u, 0);
		return -1;
	}
	if (keep != 3) {
		if (dup2(keep, 3) < 0)
			return -1;
		keep = 3;
	}
	fcntl(keep, F_SETFD, FD_CLOEXEC);
	close_range(INHERITED_FIRST + (inherited ? (unsigned)inherited->n : 0), ~0u, 0);
	return keep;
}

static int make_pair(int sv[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv);
}

/* ---- the sign-in child */

int spawner_begin_plain(int keep)
{
	return child_begin(keep, NULL);
}

void spawner_start_signin(struct spawner *s)
{
	struct channel_msg m = { .op = CH_SIGNIN };
	int fd = signin_spawn(&s->signin, s->boot, buf_str(s->blob), s->t, spawner_begin_plain);
	if (fd < 0)
		return;
	spawner_tell(s, &m, fd);
	close(fd);
}

void spawner_end_signin(struct spawner *s)
{
	s->signin.at = 0;
	child_end(&s->signin); /* what was under way fails for now */
}

/* ---- the reactor */

void spawner_start_reactor(struct spawner *s)
{
	int sv[2];
	pid_t parent = getpid();
	s->reactor_at = 0;
	if (make_pair(sv)) {
		log_error(NULL, "event=reactor-start reason=%s", log_qz(strerror(errno)));
		s->reactor_at = clock_mono_us() + US_PER_S;
		return;
	}
	pid_t pid = fork();
	if (pid == 0) {
		int fd = child_begin(sv[1], &s->boot->inherited);
		spawner_name("pepsi-reactor");
		if (fd < 0 || getppid() != parent)
			_exit(1);
		_exit(reactor_main(s->boot, buf_str(s->blob), s->t, fd));
	}
	close(sv[1]);
	if (pid < 0) {
		close(sv[0]);
		s->reactor_at = clock_mono_us() + US_PER_S;
		return;
	}
	s->reactor = pid;
	s->channel = sv[0];
	if (!s->signin.pid)
		s->signin.at = 1;
}

static void worker_child(struct spawner *s, const struct table_stage *st, int fd, pid_t parent, bool before)
{
	char err[200], part[80];
	snprintf(part, sizeof part, "%s %s", before ? "before" : "worker", st->name);
	log_setup((enum log_level)s->boot->log_level, part);
	spawner_name("pepsi-worker");
	setpgid(0, 0); /* what its module may leave behind is found by this group */
	if (account_become(&st->account, SIGKILL, parent, err, sizeof err)) {
		log_error(NULL, "event=worker-account reason=%s", log_qz(err));
		_exit(1);
	}
	struct config *c = config_thaw(buf_str(s->blob));
	if (!c)
		_exit(1);
	config_load_secrets(c, NULL);
	_exit(before ? worker_before_main(c, st->name, fd) : worker_main(c, st->name, fd));
}

void spawner_start_worker(struct spawner *s, const struct channel_msg *m)
{
	struct channel_msg answer = { .op = CH_FAILED, .token = m->token };
	const struct table_stage *st = table_stage(s->t, m->stage);
	pid_t parent = getpid(), pid = -1;
	int sv[2];
	if (!st || s->n_workers == SPAWNER_WORKERS_MAX || s->stopping || make_pair(sv)) {
		spawner_tell(s, &answer, -1);
		return;
	}
	pid = fork();
	if (pid == 0) {
		int fd = child_begin(sv[1], NULL);
		if (fd < 0)
			_exit(1);
		worker_child(s, st, fd, parent, m->status == CH_START_BEFORE);
	}
	close(sv[1]);
	if (pid < 0) {
		close(sv[0]);
		spawner_tell(s, &answer, -1);
		return;
	}
	s->workers[s->n_workers++] = pid;
	answer.op = CH_STARTED;
	answer.pid = pid;
	spawner_tell(s, &answer, sv[0]);
	close(sv[0]);
}

bool spawner_has_worker(const struct spawner *s, pid_t pid)
{
	for (size_t i = 0; i < s->n_workers; i++)
		if (s->workers[i] == pid)
			return true;
	return false;
}

void spawner_kill_workers(struct spawner *s)
{
	for (size_t i = 0; i < s->n_workers; i++)
		kill(s->workers[i], SIGKILL);
}
