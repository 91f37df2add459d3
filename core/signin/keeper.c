/* Both sides of a keeper; see keeper.h. The keeper's own loop knows nothing but its socket and its children. */
#include "keeper.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEEPER_MAX = 64 };

/* ---- in the keeper's process */

static void job_child(int sock, struct str datagram) __attribute__((noreturn));
static void job_child(int sock, struct str datagram)
{
	struct job_msg in, out = { .id = 0 };
	struct buf text = BUF_INIT(JOB_FIELD_MAX), answer = BUF_INIT(JOB_DATAGRAM_MAX);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (job_get(datagram, &in))
		_exit(1);
	alarm(job_seconds(in.what)); /* its default action ends us */
	out.id = in.id;
	job_run(&in, &out, &text);
	if (job_put(&answer, &out) || send(sock, answer.p, answer.n, MSG_NOSIGNAL) != (ssize_t)answer.n)
		_exit(1);
	_exit(0); /* and with it goes all memory that held a password */
}

struct running {
	pid_t pid;
	uint64_t id;
};

static bool is_job(const struct running *of, unsigned n, pid_t pid)
{
	for (unsigned i = 0; i < n; i++)
		if (of[i].pid == pid)
			return true;
	return false;
}

/* What a PAM module started and left behind is our child now (we are its subreaper), and nobody's any more. In whatever session
 * or group it may be: the kernel has the list. */
static void kill_strangers(const struct running *of, unsigned n)
{
	char path[64], list[4096];
	struct str rest, word;
	uint64_t pid;
	snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? read(fd, list, sizeof list) : -1;
	if (fd >= 0)
		close(fd);
	/* a list that is cut off: those behind it come next time; a number cut in two is no child of ours, or a job's */
	rest = str_n(list, got > 0 && (size_t)got < sizeof list ? (size_t)got : 0);
	while (str_word(&rest, " \n", &word))
		if (str_u64(word, INT32_MAX, &pid) == 0 && pid > 1 && !is_job(of, n, (pid_t)pid))
			kill((pid_t)pid, SIGKILL);
}

static void tell_died(int sock, uint64_t id)
{
	struct job_msg m = { .id = id, .what = JOB_DIED };
	struct buf b = BUF_INIT(256);
	if (job_put(&b, &m) == 0)
		send(sock, b.p, b.n, MSG_NOSIGNAL);
	buf_free(&b);
}

static void reap(int sock, struct running *of, unsigned *n)
{
	int status;
	pid_t pid;
	bool any = false;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (unsigned i = 0; i < *n; i++)
			if (of[i].pid == pid) {
				any = true;
				if (status) {
					log_warn(NULL, "event=signin-job-died status=0x%x", status);
					tell_died(sock, of[i].id);
				}
				of[i] = of[--*n];
				break;
			}
	if (any)
		kill_strangers(of, *n);
}

static void keeper_loop(int sock, unsigned max) __attribute__((noreturn));
static void keeper_loop(int sock, unsigned max)
{
	static char datagram[JOB_DATAGRAM_MAX];
	struct running of[KEEPER_MAX];
	unsigned n = 0;
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	int sig = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (sig < 0)
		_exit(1);
	for (;;) {
		/* full: what is asked for waits in the socket, but its end is told at any time */
		struct pollfd p[2] = { { .fd = sock, .events = n < max ? POLLIN : 0 }, { .fd = sig, .events = POLLIN } };
		struct signalfd_siginfo si;
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			_exit(1);
		while (read(sig, &si, sizeof si) == (ssize_t)sizeof si)
			;
		reap(sock, of, &n);
		if (p[0].revents & (POLLHUP | POLLERR))
			break;
		if (!p[0].revents || n >= max)
			continue;
		ssize_t got = recv(sock, datagram, sizeof datagram, MSG_DONTWAIT);
		if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
			break;
		if (got < 0)
			continue;
		struct job_msg m;
		if (job_get(str_n(datagram, (size_t)got), &m))
			break;
		pid_t parent = getpid(), pid = fork();
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(1);
			job_child(sock, str_n(datagram, (size_t)got));
		}
		if (pid < 0)
			tell_died(sock, m.id);
		else
			of[n++] = (struct running){ pid, m.id };
		explicit_bzero(datagram, (size_t)got);
	}
	/* jobs, and what they leave to us when they die, until there is nobody */
	do
		kill_strangers(of, 0);
	while (waitpid(-1, NULL, 0) > 0);
	_exit(0);
}

/* ---- in the admin child */

struct job {
	STAILQ_ENTRY(job) link; /* while it waits */
	bool waits;
	uint64_t id;
	struct buf datagram;    /* while it waits */
	keeper_fn fn;           /* NULL: dropped */
	void *arg;
	int64_t since;          /* running since */
};

struct keeper {
	char name[32];
	int sock;
	pid_t pid;
	unsigned max;
	struct event *ev;
	void (*gone)(void *arg);
	void *arg;
	struct map jobs;        /* those that run and those that wait */
	STAILQ_HEAD(, job) queue;
	uint64_t next_id;
	struct keeper_counts counts;
};

struct keeper *keeper_start(const char *name, unsigned max, unsigned queue_max, int (*become)(void *arg), void *arg)
{
	struct keeper *k = calloc(1, sizeof *k);
	int sv[2];
	if (!k)
		return NULL;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv)) {
		free(k);
		return NULL;
	}
	k->pid = fork();
	if (k->pid == 0) {
		if (dup2(sv[1], 4) != 4)
			_exit(1);
		close_range(5, ~0u, 0);
		close(3); /* the reactor's channel, by the spawner's rule */
		prctl(PR_SET_NAME, name, 0, 0, 0);
		log_setup(log_max(), name);
		if (become(arg))
			_exit(1);
		/* the end of the socket says that we are no longer wanted, and then there is something to clear up: no sudden death */
		prctl(PR_SET_PDEATHSIG, 0);
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		keeper_loop(4, max < KEEPER_MAX ? max : KEEPER_MAX);
	}
	close(sv[1]);
	if (k->pid < 0) {
		close(sv[0]);
		free(k);
		return NULL;
	}
	k->sock = sv[0];
	snprintf(k->name, sizeof k->name, "%s", name);
	k->max = max < KEEPER_MAX ? max : KEEPER_MAX;
	k->counts.max = k->max;
	k->counts.queue_max = queue_max;
	STAILQ_INIT(&k->queue);
	return k;
}

static void job_free(struct job *j)
{
	buf_free_secret(&j->datagram);
	free(j);
}

static void pump(struct keeper *k)
{
	struct job *j;
	while (k->counts.running < k->max && (j = STAILQ_FIRST(&k->queue))) {
		ssize_t n = send(k->sock, j->datagram.p, j->datagram.n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0) /* at most max datagrams are under way, which the buffer holds: the keeper is gone, and that is told */
			return;
		STAILQ_REMOVE_HEAD(&k->queue, link);
		k->counts.queued--;
		j->waits = false;
		buf_free_secret(&j->datagram);
		j->since = clock_mono_us();
		if (++k->counts.running > k->counts.most)
			k->counts.most = k->counts.running;
	}
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	static char datagram[JOB_DATAGRAM_MAX];
	struct keeper *k = arg;
	(void)what;
	for (;;) {
		struct job_msg m;
		ssize_t n = recv(fd, datagram, sizeof datagram, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0 || job_get(str_n(datagram, (size_t)n), &m)) {
			log_error(NULL, "event=signin-keeper-gone name=%s", k->name);
			event_del(k->ev);
			k->gone(k->arg);
			return;
		}
		struct job *j = map_get(&k->jobs, m.id);
		if (j && !j->waits) {
			map_del(&k->jobs, m.id);
			k->counts.running--;
			k->counts.done++;
			k->counts.us += (uint64_t)(clock_mono_us() - j->since);
			keeper_fn fn = j->fn;
			void *who = j->arg;
			job_free(j);
			if (fn)
				fn(who, &m);
		}
		explicit_bzero(datagram, (size_t)n);
		pump(k);
	}
}

int keeper_attach(struct keeper *k, struct event_base *base, void (*gone)(void *arg), void *arg)
{
	k->gone = gone;
	k->arg = arg;
	k->ev = event_new(base, k->sock, EV_READ | EV_PERSIST, on_answer, k);
	return k->ev && event_add(k->ev, NULL) == 0 ? 0 : -1;
}

void keeper_free(struct keeper *k)
{
	struct job *j;
	size_t pos = 0;
	uint64_t id;
	if (!k)
		return;
	if (k->ev)
		event_free(k->ev);
	close(k->sock);
	while ((j = map_next(&k->jobs, &pos, &id))) {
		map_del(&k->jobs, id);
		job_free(j);
	}
	map_done(&k->jobs);
	free(k);
}

uint64_t keeper_run(struct keeper *k, struct job_msg *m, keeper_fn fn, void *arg)
{
	struct job *j = k->counts.queued < k->counts.queue_max || k->counts.running < k->max ? calloc(1, sizeof *j) : NULL;
	if (!j) {
		k->counts.refused++;
		return 0;
	}
	j->id = m->id = ++k->next_id;
	j->datagram = BUF_INIT(JOB_DATAGRAM_MAX);
	j->fn = fn;
	j->arg = arg;
	j->waits = true;
	if (job_put(&j->datagram, m) || map_put(&k->jobs, j->id, j)) {
		job_free(j);
		k->counts.refused++;
		return 0;
	}
	STAILQ_INSERT_TAIL(&k->queue, j, link);
	k->counts.queued++;
	uint64_t id = j->id;
	pump(k);
	return id;
}

void keeper_drop(struct keeper *k, uint64_t ticket)
{
	struct job *j = ticket ? map_get(&k->jobs, ticket) : NULL;
	if (!j)
		return;
	j->fn = NULL;
	if (!j->waits)
		return;
	STAILQ_REMOVE(&k->queue, j, job, link);
	k->counts.queued--;
	map_del(&k->jobs, ticket);
	job_free(j);
}

struct keeper_counts keeper_counts(const struct keeper *k)
{
	return k ? k->counts : (struct keeper_counts){ .running = 0 };
}
