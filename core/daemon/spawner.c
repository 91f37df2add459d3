/* The spawner: parent of everything. It forks the reactor, the workers the reactor asks for, and the private cluster's
 * server; hands signals on; starts again what dies. It opens no network socket and no database connection, and parses
 * nothing, so that what it forks inherits nothing secret. */
#include "spawner_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "config/locate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	STOP_GRACE_US = 40 * 1000 * 1000,
	CLUSTER_STOP_US = 20 * 1000 * 1000,
	TIMED_MS = 50,                /* between looks at the clock, while something is due at a time */
	REACTOR_AT_ONCE = 3,          /* deaths in ten seconds that are answered at once; then one start a second */
	REACTOR_WINDOW_US = 60 * 1000 * 1000,
};

static void begin_stop(struct spawner *s, int status)
{
	struct channel_msg m = { .op = CH_STOP };
	if (s->stopping)
		return;
	s->stopping = true;
	s->status = status;
	s->stop_deadline = clock_mono_us() + STOP_GRACE_US;
	spawner_notify("STOPPING=1");
	s->reactor_at = s->schema_at = s->postgres_at = 0;
	if (s->reactor)
		spawner_tell(s, &m, -1);
}

/* Modules are asked for their options, and may take their time: workers die and are started meanwhile. */
static void begin_reload(struct spawner *s)
{
	spawner_notify("RELOADING=1");
	if (boot_configure_begin(s->boot, &s->configuring)) {
		log_error(NULL, "event=reload-refused reason=%s hint=\"the old configuration stays in force\"", log_qz(strerror(errno)));
		struct channel_msg m = { .op = CH_FAULTS };
		int fd = s->reactor ? channel_memfd("pepsi-config", STR("no process could be made to read the configuration\n")) : -1;
		if (s->reactor)
			spawner_tell(s, &m, fd);
		if (fd >= 0)
			close(fd);
		spawner_notify("READY=1");
		return;
	}
	fcntl(s->configuring.fd, F_SETFL, O_NONBLOCK);
}

/* Its child has said all, and has been waited for. */
static void end_reload(struct spawner *s)
{
	struct buf faults = BUF_INIT(CONFIG_FAULTS_MAX), blob = BUF_INIT(s->blob->max);
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
		spawner_tell(s, &m, fd);
		if (fd >= 0)
			close(fd);
	}
	if (s->reactor && r == 0) {
		/* what it may not open itself any more, from a child that may */
		int fd = grant_start(s->boot, buf_str(s->blob));
		m.op = CH_GRANT;
		spawner_tell(s, &m, fd);
		if (fd >= 0)
			close(fd);
		spawner_end_signin(s); /* and one with the new configuration */
		services_reload(s->service, s->t, s->stopping);
	}
	if (r)
		buf_free_secret(&blob);
	buf_free(&faults);
	spawner_notify("READY=1");
}

static void reactor_message(struct spawner *s, const struct channel_msg *m)
{
	switch (m->op) {
	case CH_START:
		spawner_start_worker(s, m);
		break;
	case CH_KILL:
		if (spawner_has_worker(s, m->pid)) /* and nobody else */
			kill(m->pid, m->status);
		break;
	case CH_READY:
		if (!s->ready)
			log_info(NULL, "event=ready");
		pickup_event(&s->pickup); /* what was left while nobody was here */
		s->ready = true;
		spawner_notify("READY=1");
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
	spawner_kill_workers(s);
	spawner_end_signin(s);
	if (s->stopping)
		return;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_CONFIG_REFUSED) {
		begin_stop(s, 1);
		return;
	}
	log_error(NULL, "event=reactor-died status=0x%x hint=\"starting another\"", status);
	s->deaths[s->n_deaths++ % SPAWNER_REACTOR_DEATHS] = now;
	unsigned minute = 0, lately = 0;
	for (unsigned i = 0; i < SPAWNER_REACTOR_DEATHS && i < s->n_deaths; i++) {
		minute += now - s->deaths[i] < REACTOR_WINDOW_US;
		lately += now - s->deaths[i] < 10 * US_PER_S;
	}
	if (minute == SPAWNER_REACTOR_DEATHS) {
		log_error(NULL, "event=giving-up reason=\"the reactor died %d times within a minute\"", SPAWNER_REACTOR_DEATHS);
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
					spawner_tell(s, &m, -1);
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
		if (spawner_has_worker(s, pid)) /* before its number is free for others: whatever it forked goes with it */
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
	services_start_due(s->service, s->boot, buf_str(s->blob), s->t, spawner_begin_plain, now); /* before the reactor, which may ask at once */
	if (!s->reactor && s->reactor_at && s->reactor_at <= now)
		spawner_start_reactor(s);
	if (s->reactor && s->ready && !s->pickup.pid && due(&s->pickup.at, now))
		s->pickup.pid = pickup_spawn(s->boot, buf_str(s->blob), s->t);
	if (s->reactor && !s->signin.pid && due(&s->signin.at, now))
		spawner_start_signin(s);
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
	spawner_kill_workers(s);
	spawner_end_signin(s);
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

static void say_accounts(const struct table *t)
{
	if (geteuid() != 0)
		log_warn(NULL, "event=one-account account=%s hint=\"not started as root: all parts run as one account, without "
			       "separation from each other\"", t->reactor.name);
	else if (strcmp(t->reactor.name, "pepsi-reactor"))
		log_warn(NULL, "event=few-accounts reactor=%s cluster=%s hint=\"the accounts pepsi-reactor and pepsi do not both exist; "
			       "contrib/accounts makes them\"", t->reactor.name, t->cluster.name);
}

/* The signals of this process come by a descriptor. It, or -1. */
static int take_signals(void)
{
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The cluster is begun, or, where the database is another's, the schema is due. 0 or -1 (logged). */
static int begin_database(struct spawner *s)
{
	char err[300];
	if (!s->t->embedded) {
		s->schema_at = 1;
		return 0;
	}
	if (cluster_paths_set(&s->paths, s->t->state_dir, err, sizeof err)) {
		log_error(NULL, "event=cluster-paths reason=%s", log_qz(err));
		return -1;
	}
	s->prepare = boot_prepare_cluster(s->t, &s->paths);
	return s->prepare < 0 ? -1 : 0;
}

static void on_channel(struct spawner *s)
{
	struct channel_msg m;
	int fd, r = 0;
	while (s->channel >= 0 && (r = channel_recv(s->channel, &m, &fd)) > 0) {
		if (fd >= 0)
			close(fd);
		reactor_message(s, &m);
	}
	if (r < 0 && s->reactor) { /* it let go of us: whatever it still does, it is no reactor any more */
		kill(s->reactor, SIGKILL);
		close(s->channel);
		s->channel = -1;
	}
}

/* Does what is due, waits for the next thing, sees to it. False: it is over. */
static bool turn(struct spawner *s)
{
	enum { SIGNALS, CHANNEL, PICKUP, CONFIGURING, N };
	int64_t now = clock_mono_us();
	start_due(s, now);
	if (s->stopping && stop_step(s, now))
		return false;
	struct pollfd p[N] = { [SIGNALS] = { .fd = s->signals, .events = POLLIN }, [CHANNEL] = { .fd = s->channel, .events = POLLIN },
		[PICKUP] = { .fd = s->pickup.watch, .events = POLLIN }, [CONFIGURING] = { .fd = s->configuring.fd, .events = POLLIN } };
	bool timed = s->stopping || s->reactor_at || s->postgres_at || s->schema_at || s->signin.at || services_timed(s->service);
	if (poll(p, N, timed ? TIMED_MS : pickup_wait(&s->pickup, now)) < 0 && errno != EINTR)
		return false;
	if (p[PICKUP].revents)
		pickup_event(&s->pickup);
	if (p[SIGNALS].revents)
		on_signals(s);
	on_channel(s);
	if (p[CONFIGURING].revents)
		boot_configure_read(&s->configuring);
	if (s->configured && s->configuring.fd < 0 && !s->stopping)
		end_reload(s);
	if (s->reload_asked && !s->stopping && !s->configured && !s->configuring.pid && s->configuring.fd < 0) {
		s->reload_asked = false;
		begin_reload(s);
	}
	return true;
}

int spawner_run(const struct boot *b, struct buf *blob, struct table *t)
{
	static struct spawner s;
	s = (struct spawner){ .boot = b, .blob = blob, .t = t, .channel = -1, .lock = -1, .configuring = { .fd = -1 } };
	services_begin(s.service, t);
	spawner_name("pepsid");
	say_accounts(t);
	if (boot_state_dir(t) || take_lock(&s))
		return 1;
	pickup_begin(&s.pickup, t);
	if (config_locate_note(b->config_path, t->state_dir))
		log_warn(NULL, "event=no-note reason=%s hint=\"the tools find this pepsid with --state only\"", log_qz(strerror(errno)));
	s.signals = take_signals();
	if (s.signals < 0 || begin_database(&s))
		return 1;
	while (turn(&s))
		;
	config_locate_forget(b->config_path, t->state_dir);
	log_info(NULL, "event=stopped status=%d", s.status);
	return s.status;
}
