/* The spawner: parent of everything. It forks the reactor, the workers the reactor asks for, and the private cluster's
 * server; hands signals on; starts again what dies. It opens no network socket and no database connection, and parses
 * nothing, so that what it forks inherits nothing secret. */
#include "daemon_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "config/locate.h"
#include "worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	WORKERS_MAX = 4096,
	STOP_GRACE_US = 40 * 1000 * 1000,
	CLUSTER_STOP_US = 20 * 1000 * 1000,
	REACTOR_DEAF_MS = 10 * 1000,
	REACTOR_DEATHS = 40,          /* within REACTOR_WINDOW_US: give up, the service manager decides */
	REACTOR_AT_ONCE = 3,          /* deaths in ten seconds that are answered at once; then one start a second */
	REACTOR_WINDOW_US = 60 * 1000 * 1000,
	EXIT_CONFIG_REFUSED = 78,     /* the reactor cannot take its configuration (a port in use): no use trying again */
};

struct spawner {
	const struct boot *boot;
	struct buf *blob;
	struct table *t;
	struct cluster_paths paths;
	int signals, channel, lock;    /* channel: our end, -1 */
	pid_t reactor, postgres, prepare, schema;
	pid_t workers[WORKERS_MAX];
	size_t n_workers;
	bool stopping, cluster_stopping, prepared, fatal, reload_asked, ready;
	int64_t stop_deadline, cluster_deadline;
	int64_t reactor_at, postgres_at, schema_at; /* when to start; 0: not wanted now */
	int64_t deaths[REACTOR_DEATHS];
	unsigned n_deaths, postgres_tries;
	struct child signin, service[SERVICES];
	struct pickup pickup;
	struct boot_configuring configuring; /* a reload; pid 0: none, or it has been waited for */
	bool configured;       /* … with this status */
	int configured_status;
	int status;
};

static void notify_manager(const char *text)
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
static void tell_reactor(struct spawner *s, const struct channel_msg *m, int fd)
{
	if (s->channel < 0 || channel_send(s->channel, m, fd, REACTOR_DEAF_MS) == 0 || errno != ETIMEDOUT)
		return; /* gone: its exit comes as a signal */
	log_error(NULL, "event=reactor-deaf pid=%d hint=\"killing it\"", (int)s->reactor);
	kill(s->reactor, SIGKILL);
}

static void own_name(const char *name)
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

/* ---- the admin child */

static int begin_plain(int keep)
{
	return child_begin(keep, NULL);
}

static void start_signin(struct spawner *s)
{
	struct channel_msg m = { .op = CH_SIGNIN };
	int fd = signin_spawn(&s->signin, s->boot, buf_str(s->blob), s->t, begin_plain);
	if (fd < 0)
		return;
	tell_reactor(s, &m, fd);
	close(fd);
}

/* Another one follows when this one has been waited for: with the reactor, or a new configuration. */
static void end_signin(struct spawner *s)
{
	s->signin.at = 0;
	child_end(&s->signin); /* what was under way fails for now */
}

/* ---- the reactor */

static void start_reactor(struct spawner *s)
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
		own_name("pepsi-reactor");
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
	own_name("pepsi-worker");
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

static void start_worker(struct spawner *s, const struct channel_msg *m)
{
	struct channel_msg answer = { .op = CH_FAILED, .token = m->token };
	const struct table_stage *st = table_stage(s->t, m->stage);
	pid_t parent = getpid(), pid = -1;
	int sv[2];
	if (!st || s->n_workers == WORKERS_MAX || s->stopping || make_pair(sv)) {
		tell_reactor(s, &answer, -1);
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
		tell_reactor(s, &answer, -1);
		return;
	}
	s->workers[s->n_workers++] = pid;
	answer.op = CH_STARTED;
	answer.pid = pid;
	tell_reactor(s, &answer, sv[0]);
	close(sv[0]);
}

static bool is_worker(const struct spawner *s, pid_t pid)
{
	for (size_t i = 0; i < s->n_workers; i++)
		if (s->workers[i] == pid)
			return true;
	return false;
}

static void kill_workers(struct spawner *s)
{
	for (size_t i = 0; i < s->n_workers; i++)
		kill(s->workers[i], SIGKILL);
}

static void begin_stop(struct spawner *s, int status)
{
	struct channel_msg m = { .op = CH_STOP };
	if (s->stopping)
		return;
	s->stopping = true;
	s->status = status;
	s->stop_deadline = clock_mono_us() + STOP_GRACE_US;
	notify_manager("STOPPING=1");
	s->reactor_at = s->schema_at = s->postgres_at = 0;
	if (s->reactor)
		tell_reactor(s, &m, -1);
}

/* Modules are asked for their options, and may take their time: workers die and are started meanwhile. */
static void begin_reload(struct spawner *s)
{
	notify_manager("RELOADING=1");
	if (boot_configure_begin(s->boot, &s->configuring)) {
		log_error(NULL, "event=reload-refused reason=%s hint=\"the old configuration stays in force\"", log_qz(strerror(errno)));
		struct channel_msg m = { .op = CH_FAULTS };
		int fd = s->reactor ? channel_memfd("pepsi-config", STR("no process could be made to read the configuration\n")) : -1;
		if (s->reactor)
			tell_reactor(s, &m, fd);
		if (fd >= 0)
			close(fd);
		notify_manager("READY=1");
		return;
	}
	fcntl(s->configuring.fd, F_SETFL, O_NONBLOCK);
}

/* Its child has said all, and has been waited for. */
static void end_reload(struct spawner *s)
{
	struct buf faults = BUF_INIT(1 << 20), blob = BUF_INIT(s->blob->max);
	static struct table t;
	struct channel_msg m = { .op = CH_CONFIG };
	int r = boot_configure_end(&s->configuring, s->configured_status, &blob, &t, &faults);
	s->configured = false;
	if (faults.n)
		fwrite(faults.p, 1, faults.n, stderr);
	if (r == 0 && (t.embedded != s->t->embedded || strcmp(t.state_dir, s->t->state_dir))) {
		buf_addz(&faults, "STATE_DIR and the choice of database change with a restart only\n");
		r = -1;
	}
	if (r == 0) {
		t.reactor = s->t->reactor; /* running already */
		t.cluster = s->t->cluster;
		buf_free_secret(s->blob);
		*s->blob = blob;
		*s->t = t;
		log_info(NULL, "event=reloaded");
	} else {
		m.op = CH_FAULTS;
		log_error(NULL, "event=reload-refused hint=\"the old configuration stays in force\"");
	}
	if (s->reactor) {
		int fd = channel_memfd("pepsi-config", buf_str(r == 0 ? s->blob : &faults));
		tell_reactor(s, &m, fd);
		if (fd >= 0)
			close(fd);
	}
	if (s->reactor && r == 0) {
		/* what it may not open itself any more, from a child that may */
		int fd = grant_start(s->boot, buf_str(s->blob));
		m.op = CH_GRANT;
		tell_reactor(s, &m, fd);
		if (fd >= 0)
			close(fd);
		end_signin(s); /* and one with the new configuration */
		services_reload(s->service, s->t, s->stopping);
	}
	if (r)
		buf_free_secret(&blob);
	buf_free(&faults);
	notify_manager("READY=1");
}

static void reactor_message(struct spawner *s, const struct channel_msg *m)
{
	switch (m->op) {
	case CH_START:
		start_worker(s, m);
		break;
	case CH_KILL:
		if (is_worker(s, m->pid)) /* and nobody else */
			kill(m->pid, m->status);
		break;
	case CH_READY:
		if (!s->ready)
			log_info(NULL, "event=ready");
		pickup_event(&s->pickup); /* what was left while nobody was here */
		s->ready = true;
		notify_manager("READY=1");
		break;
	case CH_RELOAD:
		s->reload_asked = true;
		break;
	case CH_STOP_ASKED:
		begin_stop(s, 0);
		break;
	default:
		log_error(NULL, "event=channel-garbage op=%u", m->op);
	}
}

static void reactor_died(struct spawner *s, int status)
{
	int64_t now = clock_mono_us();
	struct channel_msg m;
	int fd;
	/* what it asked for before it went is void */
	while (s->channel >= 0 && channel_recv(s->channel, &m, &fd) > 0) {
		if (fd >= 0)
			close(fd);
		if (m.op == CH_STOP_ASKED)
			begin_stop(s, 0);
	}
	s->reactor = 0;
	if (s->channel >= 0)
		close(s->channel);
	s->channel = -1;
	kill_workers(s);
	end_signin(s);
	if (s->stopping)
		return;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_CONFIG_REFUSED) {
		begin_stop(s, 1);
		return;
	}
	log_error(NULL, "event=reactor-died status=0x%x hint=\"starting another\"", status);
	s->deaths[s->n_deaths++ % REACTOR_DEATHS] = now;
	unsigned minute = 0, lately = 0;
	for (unsigned i = 0; i < REACTOR_DEATHS && i < s->n_deaths; i++) {
		minute += now - s->deaths[i] < REACTOR_WINDOW_US;
		lately += now - s->deaths[i] < 10 * US_PER_S;
	}
	if (minute == REACTOR_DEATHS) {
		log_error(NULL, "event=giving-up reason=\"the reactor died %d times within a minute\"", REACTOR_DEATHS);
		begin_stop(s, 1);
		return;
	}
	s->reactor_at = now + (lately > REACTOR_AT_ONCE ? US_PER_S : 50 * 1000);
}

static void postgres_died(struct spawner *s, int status)
{
	static const int64_t wait_us[] = { 100000, 200000, 500000, 1000000, 2000000 };
	s->postgres = 0;
	if (s->cluster_stopping)
		return;
	/* after a crash its old backends may take a moment to leave; postmaster.pid is never ours to delete */
	unsigned i = s->postgres_tries < 4 ? s->postgres_tries : 4;
	s->postgres_tries++;
	s->postgres_at = clock_mono_us() + wait_us[i];
	log_error(NULL, "event=cluster-died status=0x%x retry_ms=%lld log=%s", status, (long long)(wait_us[i] / 1000),
	    log_qz(s->paths.log));
}

static void child_exited(struct spawner *s, pid_t pid, int status)
{
	if (pid == s->reactor) {
		reactor_died(s, status);
	} else if (pid == s->postgres) {
		postgres_died(s, status);
	} else if (pid == s->prepare) {
		s->prepare = 0;
		if (status && !s->stopping) {
			log_error(NULL, "event=giving-up reason=\"the private database cluster cannot be made\"");
			begin_stop(s, 1);
			return;
		}
		s->prepared = true;
		s->postgres_at = s->schema_at = 1;
	} else if (pid == s->schema) {
		int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
		s->schema = 0;
		if (s->stopping)
			return;
		if (code == 1) {
			log_error(NULL, "event=giving-up reason=\"the database schema cannot be used\"");
			begin_stop(s, 1);
			return;
		}
		if (code == 0)
			s->postgres_tries = 0;
		else
			s->schema_at = clock_mono_us() + 2 * US_PER_S;
		/* with the database away mail is answered 451, which is better than nobody there */
		if (!s->reactor && !s->reactor_at)
			s->reactor_at = 1;
	} else if (pid == s->signin.pid) {
		bool ended = s->signin.ended;
		signin_died(&s->signin, status, s->stopping || !s->reactor);
		if (ended && s->reactor)
			s->signin.at = 1;
	} else if (pid == s->configuring.pid) {
		s->configuring.pid = 0;
		s->configured = true;
		s->configured_status = status;
	} else if (services_died(s->service, s->t, pid, status, s->stopping)) {
		/* it is started again by start_due() */
	} else if (pid == s->pickup.pid) {
		pickup_ended(&s->pickup, status);
	} else {
		for (size_t i = 0; i < s->n_workers; i++)
			if (s->workers[i] == pid) {
				struct channel_msg m = { .op = CH_EXITED, .pid = pid, .status = status };
				s->workers[i] = s->workers[--s->n_workers];
				if (s->channel >= 0)
					tell_reactor(s, &m, -1);
				break;
			}
	}
}

static void on_signals(struct spawner *s)
{
	struct signalfd_siginfo si;
	while (read(s->signals, &si, sizeof si) == (ssize_t)sizeof si) {
		if (si.ssi_signo == SIGTERM || si.ssi_signo == SIGINT) {
			if (!s->stopping)
				log_info(NULL, "event=stopping signal=%u", si.ssi_signo);
			begin_stop(s, 0);
		} else if (si.ssi_signo == SIGHUP) {
			s->reload_asked = true;
		}
	}
	int status;
	siginfo_t gone = { .si_pid = 0 };
	while (waitid(P_ALL, 0, &gone, WEXITED | WNOHANG | WNOWAIT) == 0 && gone.si_pid > 0) {
		pid_t pid = gone.si_pid;
		if (is_worker(s, pid)) /* before its number is free for others: whatever it forked goes with it */
			kill(-pid, SIGKILL);
		if (waitpid(pid, &status, 0) == pid)
			child_exited(s, pid, status);
		gone.si_pid = 0;
	}
}

static bool due(int64_t *at, int64_t now)
{
	if (!*at || *at > now)
		return false;
	*at = 0;
	return true;
}

static void start_due(struct spawner *s, int64_t now)
{
	if (s->stopping)
		return;
	if (!s->postgres && due(&s->postgres_at, now))
		s->postgres = boot_start_cluster(s->t, &s->paths);
	if (!s->schema && due(&s->schema_at, now))
		s->schema = boot_schema(s->t, &s->paths, buf_str(s->blob));
	services_start_due(s->service, s->boot, buf_str(s->blob), s->t, begin_plain, now); /* before the reactor, which may ask at once */
	if (!s->reactor && s->reactor_at && s->reactor_at <= now)
		start_reactor(s);
	if (s->reactor && s->ready && !s->pickup.pid && due(&s->pickup.at, now))
		s->pickup.pid = pickup_spawn(s->boot, buf_str(s->blob), s->t);
	if (s->reactor && !s->signin.pid && due(&s->signin.at, now))
		start_signin(s);
}

/* Returns true when all is down. */
static bool stop_step(struct spawner *s, int64_t now)
{
	if (s->reactor) {
		if (now > s->stop_deadline)
			kill(s->reactor, SIGKILL);
		return false;
	}
	if (s->prepare)
		kill(s->prepare, SIGKILL);
	if (s->schema)
		kill(s->schema, SIGKILL);
	if (s->pickup.pid > 0)
		kill(s->pickup.pid, SIGKILL); /* what it was about is taken up again, once */
	if (s->configuring.pid)
		kill(s->configuring.pid, SIGKILL);
	kill_workers(s);
	end_signin(s);
	services_reload(s->service, s->t, true);
	if (s->configuring.pid || s->n_workers || services_left(s->service) || s->schema || s->prepare || s->signin.pid || s->pickup.pid > 0)
		return false;
	if (s->postgres) {
		if (!s->cluster_stopping) {
			s->cluster_stopping = true;
			s->cluster_deadline = now + CLUSTER_STOP_US;
			kill(s->postgres, SIGINT); /* fast shutdown */
		} else if (now > s->cluster_deadline) {
			s->cluster_deadline = now + CLUSTER_STOP_US;
			kill(s->postgres, SIGQUIT); /* immediate: recovers at the next start */
		}
		return false;
	}
	return true;
}

/* One pepsid for one state folder. */
static int take_lock(struct spawner *s)
{
	char path[PATH_MAX + 32];
	struct stat st;
	snprintf(path, sizeof path, "%s/run/pepsid.lock", s->t->state_dir);
	s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
	/* the folder is another account's: what lies there under this name may be a link to something of ours */
	if (s->lock >= 0 && (fstat(s->lock, &st) || !S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid())) {
		log_error(NULL, "event=lock path=%s reason=\"not a file that pepsid made\"", log_qz(path));
		return -1;
	}
	for (int i = 0; s->lock >= 0 && i < 50; i++) { /* one that is just dying may need a moment */
		if (flock(s->lock, LOCK_EX | LOCK_NB) == 0) {
			char pid[32];
			int n = snprintf(pid, sizeof pid, "%d\n", (int)getpid());
			return ftruncate(s->lock, 0) || pwrite(s->lock, pid, (size_t)n, 0) != n ? -1 : 0;
		}
		if (errno != EWOULDBLOCK)
			break;
		poll(NULL, 0, 100);
	}
	log_error(NULL, "event=lock path=%s reason=%s", log_qz(path),
	    errno == EWOULDBLOCK ? "\"another pepsid runs with this state folder\"" : log_qz(strerror(errno)));
	return -1;
}

int spawner_run(const struct boot *b, struct buf *blob, struct table *t)
{
	static struct spawner s;
	char err[300];
	sigset_t mask;

	s = (struct spawner){ .boot = b, .blob = blob, .t = t, .channel = -1, .lock = -1, .configuring = { .fd = -1 } };
	services_begin(s.service, t);
	own_name("pepsid");
	if (geteuid() != 0)
		log_warn(NULL, "event=one-account account=%s hint=\"not started as root: all parts run as one account, without "
			       "separation from each other\"", t->reactor.name);
	else if (strcmp(t->reactor.name, "pepsi-reactor"))
		log_warn(NULL, "event=few-accounts reactor=%s cluster=%s hint=\"the accounts pepsi-reactor and pepsi do not both exist; "
			       "contrib/accounts makes them\"", t->reactor.name, t->cluster.name);
	if (boot_state_dir(t) || take_lock(&s))
		return 1;
	pickup_begin(&s.pickup, t);
	if (config_locate_note(b->config_path, t->state_dir))
		log_warn(NULL, "event=no-note reason=%s hint=\"the tools find this pepsid with --state only\"", log_qz(strerror(errno)));

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signal(SIGPIPE, SIG_IGN);
	s.signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s.signals < 0)
		return 1;

	if (t->embedded) {
		if (cluster_paths_set(&s.paths, t->state_dir, err, sizeof err)) {
			log_error(NULL, "event=cluster-paths reason=%s", log_qz(err));
			return 1;
		}
		s.prepare = boot_prepare_cluster(t, &s.paths);
		if (s.prepare < 0)
			return 1;
	} else {
		s.schema_at = 1;
	}

	for (;;) {
		int64_t now = clock_mono_us();
		struct pollfd p[4] = { { .fd = s.signals, .events = POLLIN }, { .fd = s.channel, .events = POLLIN },
			{ .fd = s.pickup.watch, .events = POLLIN }, { .fd = s.configuring.fd, .events = POLLIN } };
		start_due(&s, now);
		if (s.stopping && stop_step(&s, now))
			break;
		bool timed = s.stopping || s.reactor_at || s.postgres_at || s.schema_at || s.signin.at || services_timed(s.service);
		p[1].fd = s.channel;
		if (poll(p, 4, timed ? 50 : pickup_wait(&s.pickup, now)) < 0 && errno != EINTR)
			break;
		if (p[2].revents)
			pickup_event(&s.pickup);
		if (p[0].revents)
			on_signals(&s);
		struct channel_msg m;
		int fd, r = 0;
		while (s.channel >= 0 && (r = channel_recv(s.channel, &m, &fd)) > 0) {
			if (fd >= 0)
				close(fd);
			reactor_message(&s, &m);
		}
		if (r < 0 && s.reactor) { /* it let go of us: whatever it still does, it is no reactor any more */
			kill(s.reactor, SIGKILL);
			close(s.channel);
			s.channel = -1;
		}
		if (p[3].revents)
			boot_configure_read(&s.configuring);
		if (s.configured && s.configuring.fd < 0 && !s.stopping)
			end_reload(&s);
		if (s.reload_asked && !s.stopping && !s.configured && !s.configuring.pid && s.configuring.fd < 0) {
			s.reload_asked = false;
			begin_reload(&s);
		}
	}
	config_locate_forget(b->config_path, t->state_dir);
	log_info(NULL, "event=stopped status=%d", s.status);
	return s.status;
}
