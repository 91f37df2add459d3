/* The drop folder of local submission, STATE/submit/drop: everybody may put files into it, and everything in it may be hostile. A
 * short-lived child of the spawner goes through it. As root it looks at each name without following it, opens what is a plain file
 * with one name, and hands the descriptor to a child of its own that has become the file's owner for good; that one reads it and
 * submits it over the local socket as the owner's own program would have. So no octet of it is read by root, and who sent it is
 * what the kernel says. The file is removed when pepsid has the message; a message that comes twice, because somebody was killed in
 * between, is made once (its key, core/submit). What is no message is moved aside. Nothing here waits for what a user does. */
#include "pickup_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	ROUNDS_MAX = 1000,
	ENVELOPE_MAX = 8 << 20,  /* what a file may be larger than its message */
	FILE_S = 15 * 60,        /* for one message */
	LATER_MAX = 10,          /* so many in a row that have to wait: all have */
	PAUSE_MIN_US = 2 * 1000 * 1000,
	PAUSE_MAX_US = 60 * 1000 * 1000,
	LOOK_US = 3600 * 1000 * 1000LL, /* without any event */
};

/* What became of one file; exit status of the child that had it. */
enum fate { FATE_DONE = 0, FATE_BROKEN = 65, FATE_LATER = 75 };

/* ---- folders and the watch */

static int open_folder(const char *path, mode_t mode, const struct account *owner)
{
	struct stat st;
	if (mkdir(path, 0700) && errno != EEXIST)
		return -1;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	int r = fstat(fd, &st);
	if (!r && geteuid() == 0 && (st.st_uid != owner->uid || st.st_gid != owner->gid))
		r = fchown(fd, owner->uid, owner->gid);
	if (!r && (st.st_mode & 07777) != mode)
		r = fchmod(fd, mode);
	int e = errno;
	close(fd);
	errno = e;
	return r;
}

int pickup_folders(const struct table *t, const struct account *owner)
{
	/* an ordinary user could not read what others leave: then it is not open to them */
	mode_t drop = t->drop && geteuid() == 0 ? S_ISVTX | 0733 : 0700;
	const struct {
		const char *name;
		mode_t mode;
	} folders[] = { { SUBMIT_FOLDER, 0755 }, { SUBMIT_DROP, drop }, { SUBMIT_BAD, 0700 } };
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		char path[PATH_MAX + 32];
		snprintf(path, sizeof path, "%s/%s", t->state_dir, folders[i].name);
		if (open_folder(path, folders[i].mode, owner)) {
			log_error(NULL, "event=state-folder path=%s reason=%s", log_qz(path), log_qz(strerror(errno)));
			return -1;
		}
	}
	return 0;
}

int pickup_watch(const struct table *t)
{
	char path[PATH_MAX + 32];
	snprintf(path, sizeof path, "%s/" SUBMIT_DROP, t->state_dir);
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd >= 0 && inotify_add_watch(fd, path, IN_MOVED_TO | IN_ONLYDIR | IN_DONT_FOLLOW) >= 0)
		return fd;
	log_warn(NULL, "event=drop-watch path=%s reason=%s hint=\"it is looked at once in an hour\"", log_qz(path), log_qz(strerror(errno)));
	if (fd >= 0)
		close(fd);
	return -1;
}

void pickup_begin(struct pickup *p, const struct table *t)
{
	*p = (struct pickup){ .watch = t->drop ? pickup_watch(t) : -1 };
}

void pickup_event(struct pickup *p)
{
	char events[4096];
	while (p->watch >= 0 && read(p->watch, events, sizeof events) > 0)
		;
	p->again = p->pid > 0;
	p->at = clock_mono_us();
}

void pickup_ended(struct pickup *p, int status)
{
	int64_t now = clock_mono_us();
	p->pid = 0;
	if (p->again) {
		p->at = now;
	} else if (status == 0) {
		p->pause_us = 0;
		p->at = now + LOOK_US;
	} else {
		p->pause_us = p->pause_us ? p->pause_us * 2 : PAUSE_MIN_US;
		if (p->pause_us > PAUSE_MAX_US)
			p->pause_us = PAUSE_MAX_US;
		p->at = now + p->pause_us;
	}
	p->again = false;
}

int pickup_wait(const struct pickup *p, int64_t now)
{
	int64_t ms = (p->at - now) / 1000;
	if (!p->at || p->pid)
		return -1;
	/* due already: it waits for something else, the reactor for example */
	return ms < 1000 ? 1000 : ms < 3600 * 1000 ? (int)ms : 3600 * 1000;
}

/* ---- one file, as its owner */

static int slurp(int fd, struct buf *out, off_t size)
{
	while (out->n < (size_t)size) {
		size_t want = (size_t)size - out->n < 65536 ? (size_t)size - out->n : 65536;
		char *room = buf_room(out, want);
		ssize_t n = room ? read(fd, room, want) : -1;
		if (n < 0 && room && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		out->n += (size_t)n;
	}
	return 0;
}

static void send_one(const struct run *r, struct smtp_client_msg *msg)
{
	char reply[SUBMIT_REPLY];
	int fd = submit_connect(r->socket);
	if (fd >= 0)
		submit_send(fd, "localhost", msg, reply);
	else
		for (size_t i = 0; i < msg->n_rcpts; i++)
			msg->rcpts[i].result.outcome = SMTP_OUT_LOST;
}

/* Tells the sender which recipients were refused. True: done. */
static bool send_report(const struct run *r, const struct smtp_client_msg *msg, struct str problems)
{
	struct submit_message m = { .headers = BUF_INIT(64 * 1024), .body = BUF_INIT(4 << 20) };
	struct smtp_client_rcpt to = { .address = msg->mail_from };
	char key[SUBMIT_KEY];
	if (submit_key(key) || submit_report(&m, msg, problems, r->host, msg->mail_from, clock_wall_us(), 0, key))
		return false;
	struct smtp_client_msg report = { .headers = buf_str(&m.headers), .body = buf_str(&m.body), .body_8bit = m.eight, .rcpts = &to,
		.n_rcpts = 1, .whole = true, .smtputf8 = !str_is_ascii(msg->mail_from) };
	send_one(r, &report);
	/* a sender that nobody can reach is told nothing */
	return to.result.outcome == SMTP_OUT_OK || to.result.outcome == SMTP_OUT_PERMANENT;
}

static enum fate submit_file(const struct run *r, int fd, const struct stat *st, const char *name)
{
	struct buf text = BUF_INIT((size_t)st->st_size + 16), problems = BUF_INIT(1 << 20);
	struct smtp_client_msg msg;
	char err[200];
	size_t refused = 0;
	if (slurp(fd, &text, st->st_size)) {
		log_warn(NULL, "event=drop-unreadable uid=%u file=%s reason=%s", (unsigned)st->st_uid, name, log_qz(strerror(errno)));
		return FATE_LATER;
	}
	if (submit_drop_parse(buf_str(&text), &msg, err, sizeof err)) {
		log_warn(NULL, "event=drop-broken uid=%u file=%s reason=%s", (unsigned)st->st_uid, name, log_qz(err));
		return FATE_BROKEN;
	}
	msg.whole = true; /* a key stands for all recipients or for none */
	send_one(r, &msg);
	for (size_t i = 0; i < msg.n_rcpts; i++)
		if (msg.rcpts[i].result.outcome != SMTP_OUT_OK && msg.rcpts[i].result.outcome != SMTP_OUT_PERMANENT)
			return FATE_LATER;
	submit_problems(&problems, &msg, &refused);
	if (refused && !msg.mail_from.n) {
		log_warn(NULL, "event=drop-refused uid=%u file=%s from=<> reason=%s", (unsigned)st->st_uid, name, log_q(buf_str(&problems)));
		return refused == msg.n_rcpts ? FATE_BROKEN : FATE_DONE;
	}
	if (refused && !send_report(r, &msg, buf_str(&problems)))
		return FATE_LATER;
	log_info(NULL, "event=picked-up uid=%u file=%s from=%s rcpts=%zu refused=%zu size=%lld", (unsigned)st->st_uid, name, log_q(msg.mail_from),
	    msg.n_rcpts, refused, (long long)st->st_size);
	return FATE_DONE;
}

static enum fate fork_for(const struct run *r, int fd, const struct stat *st, const char *name)
{
	struct account owner = { .uid = st->st_uid, .gid = st->st_gid };
	pid_t parent = getpid(), pid = fork();
	int status;
	char err[160];
	snprintf(owner.name, sizeof owner.name, "%u", (unsigned)st->st_uid);
	if (pid == 0) {
		struct rlimit none = { 0, 0 };
		setrlimit(RLIMIT_CORE, &none);
		alarm(FILE_S);
		close(r->drop);
		close(r->bad);
		if (account_become(&owner, SIGKILL, parent, err, sizeof err))
			_exit(FATE_LATER);
		_exit(submit_file(r, fd, st, name));
	}
	if (pid < 0)
		return FATE_LATER;
	for (;;) {
		if (waitpid(pid, &status, WUNTRACED) < 0) {
			if (errno != EINTR)
				return FATE_LATER;
		} else if (WIFSTOPPED(status)) { /* it is its user's, who may stop it: not even its alarm would end it then */
			log_warn(NULL, "event=drop-child-stopped uid=%u file=%s hint=\"killing it\"", (unsigned)st->st_uid, name);
			kill(pid, SIGKILL);
		} else {
			break;
		}
	}
	if (WIFEXITED(status) && (WEXITSTATUS(status) == FATE_DONE || WEXITSTATUS(status) == FATE_BROKEN))
		return (enum fate)WEXITSTATUS(status);
	if (!WIFEXITED(status))
		log_error(NULL, "event=drop-child-died file=%s status=0x%x", name, status);
	return FATE_LATER;
}

/* ---- the folder */

static void take(struct run *r, const char *name)
{
	struct stat st;
	char why[128] = "";
	int fd = openat(r->drop, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		if (errno != ENOENT) {
			log_warn(NULL, "event=drop-open file=%s reason=%s", name, log_qz(strerror(errno)));
			r->left = true;
		}
	} else {
		if (!S_ISREG(st.st_mode))
			snprintf(why, sizeof why, "no plain file");
		else if (st.st_nlink != 1)
			snprintf(why, sizeof why, "it has %lu names", (unsigned long)st.st_nlink);
		else if ((uint64_t)st.st_size > r->size_max)
			snprintf(why, sizeof why, "larger than MESSAGE_SIZE_LIMIT");
		enum fate fate = *why ? FATE_BROKEN : fork_for(r, fd, &st, name);
		if (fate == FATE_DONE && unlinkat(r->drop, name, 0) && errno != ENOENT)
			log_error(NULL, "event=drop-remove file=%s reason=%s", name, log_qz(strerror(errno)));
		else if (fate == FATE_BROKEN)
			pickup_aside(r, name, &st, *why ? why : "no message that can be sent");
		r->taken += fate != FATE_LATER;
		r->later = fate == FATE_LATER ? r->later + 1 : 0;
		r->left = r->left || fate == FATE_LATER;
	}
	if (fd >= 0)
		close(fd);
}

static int run_all(struct run *r)
{
	struct entry *e = calloc(SCAN_MAX, sizeof *e);
	size_t n;
	if (!e)
		return PICKUP_LEFT;
	for (unsigned round = 0; round < ROUNDS_MAX && r->later < LATER_MAX; round++) {
		unsigned before = r->taken;
		n = pickup_scan(r, e);
		for (size_t i = 0; i < n && r->later < LATER_MAX; i++)
			take(r, e[i].name);
		if (!n || r->taken == before)
			break;
	}
	free(e);
	r->left = r->left || r->cut;
	pickup_quota(r);
	if (r->taken)
		log_info(NULL, "event=drop-emptied taken=%u left=%s", r->taken, r->left ? "yes" : "no");
	return r->left ? PICKUP_LEFT : PICKUP_NONE;
}

static int pickup_main(const struct table *t, struct str blob)
{
	static struct run r;
	char path[PATH_MAX + 32];
	struct config *c = config_thaw(blob);
	if (!c)
		return PICKUP_LEFT;
	const char *host = config_str(c, "pepsi", "HOSTNAME");
	r = (struct run){ .t = t, .c = c };
	if (host)
		snprintf(r.host, sizeof r.host, "%s", host);
	else if (gethostname(r.host, sizeof r.host - 1))
		snprintf(r.host, sizeof r.host, "localhost");
	snprintf(r.socket, sizeof r.socket, "%s/" SUBMIT_SOCKET, t->state_dir);
	snprintf(path, sizeof path, "%s/" SUBMIT_BAD, t->state_dir);
	r.bad = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	snprintf(r.drop_path, sizeof r.drop_path, "%s/" SUBMIT_DROP, t->state_dir);
	r.drop = open(r.drop_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r.bad < 0 || r.drop < 0)
		return PICKUP_LEFT;
	r.size_max = (uint64_t)config_int(c, "listener-sendmail", "MESSAGE_SIZE_LIMIT") + ENVELOPE_MAX;
	r.round = (unsigned)config_int(c, "pepsi-sendmail", "DROP_ROUND");
	r.user_files = (uint64_t)config_int(c, "pepsi-sendmail", "DROP_USER_FILES");
	r.user_octets = (uint64_t)config_int(c, "pepsi-sendmail", "DROP_USER_SIZE");
	r.keep_bad = (unsigned)config_int(c, "pepsi-sendmail", "DROP_KEEP_BAD");
	r.n_bad = pickup_count(r.bad);
	return run_all(&r);
}

pid_t pickup_spawn(const struct boot *b, struct str blob, const struct table *t)
{
	sigset_t none;
	pid_t parent = getpid(), pid = fork();
	if (pid > 0)
		return pid;
	if (pid < 0)
		return 0;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	close_range(3, ~0u, 0);
	prctl(PR_SET_NAME, "pepsi-pickup", 0, 0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	log_setup((enum log_level)b->log_level, "pickup");
	if (getppid() != parent)
		_exit(PICKUP_LEFT);
	_exit(pickup_main(t, blob));
}
