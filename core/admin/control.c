/* The control socket: binding it beside what a killed daemon may have left, finding out who is at the other end, and
 * lines in and out. The kernel says who asks (SO_PEERCRED, SO_PEERGROUPS); no name service is consulted, since it could
 * block. */
#include "base/log.h"
#include "control_internal.h"
#include "json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	IDLE_MS = 60 * 1000,  /* between requests */
	LINE_MS = 10 * 1000,  /* a whole request, from its first octet */
	WRITE_MS = 30 * 1000, /* until the peer has taken an answer */
	IN_MAX = 3 * CONTROL_LINE_MAX,
	BACKLOG = 64,
	NOGROUP = 65534, /* shared by whatever has no group of its own, and by groups of other user namespaces */
};

/* --- who asks --- */

static bool has_group(int fd, gid_t primary, gid_t wanted)
{
	gid_t few[64], *groups = few;
	socklen_t n = sizeof few;
	bool found = primary == wanted;
	if (found)
		return true;
	int rc = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &n);
	if (rc && errno == ERANGE && n <= NGROUPS_MAX * sizeof(gid_t)) {
		if (!(groups = malloc(n)))
			return false;
		rc = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &n);
	}
	for (size_t i = 0; !rc && !found && i < n / sizeof(gid_t); i++)
		found = groups[i] == wanted;
	if (groups != few)
		free(groups);
	return found;
}

static bool is_trusted(const struct admin *a, int fd, const struct ucred *who)
{
	return who->uid == 0 || who->uid == geteuid() || who->uid == a->owner_uid ||
	       (a->owner_gid != NOGROUP && has_group(fd, who->gid, a->owner_gid));
}

/* --- lines --- */

/* No whole line is there. */
static void wait_for_line(struct control_peer *c)
{
	if (c->p.eof) {
		admin_peer_finish(&c->p);
		return;
	}
	/* total, not from octet to octet: the deadline of a line is set when it begins */
	if (c->p.in.n && !c->in_line)
		admin_peer_deadline(&c->p, LINE_MS);
	else if (!c->p.in.n)
		admin_peer_deadline(&c->p, IDLE_MS);
	c->in_line = c->p.in.n > 0;
	admin_peer_read(&c->p, true);
}

static void run_line(struct control_peer *c, size_t n)
{
	char err[512], hint[128];
	int rc = control_request_parse(str_n(c->p.in.p, n), &c->req, err, sizeof err, hint, sizeof hint);
	buf_consume(&c->p.in, n + 1);
	if (rc) {
		control_answer_error(c, err, hint);
	} else if (!c->trusted && !(c->req.flags & CONTROL_OPEN)) {
		log_warn(NULL, "event=control-denied cmd=%s uid=%u pid=%d", c->req.name, (unsigned)c->uid, (int)c->pid);
		control_answer_error(c, "not permitted",
		    "ask as root, as the account of pepsid, or as a member of the socket's group");
	} else {
		control_cmd_run(c);
	}
}

void control_go(struct control_peer *c)
{
	if (c->looping)
		return; /* an answer given at once: the loop below goes on by itself */
	c->looping = true;
	/* one command at a time; the next line waits until the answer before it is out */
	while (!c->p.dead && !c->p.lingering && !c->busy && !c->p.out.n) {
		ptrdiff_t end = str_chr(buf_str(&c->p.in), '\n');
		if (end < 0 && c->p.in.n < CONTROL_LINE_MAX) {
			wait_for_line(c);
			break;
		}
		c->busy = true;
		c->in_line = false;
		c->p.a->control_requests++;
		admin_peer_deadline(&c->p, 0);
		admin_peer_read(&c->p, false);
		if (end >= 0) {
			run_line(c, (size_t)end);
			continue;
		}
		c->p.eof = true; /* where the next request begins is unknown */
		buf_reset(&c->p.in);
		control_answer_error(c, "the request is too long", "64 KiB at most");
	}
	c->looping = false;
}

void control_answered(struct control_peer *c)
{
	control_request_done(&c->req);
	c->busy = false;
	c->p.waits++; /* what still comes for this command comes too late */
	if (!admin_peer_send(&c->p))
		admin_peer_deadline(&c->p, WRITE_MS);
}

void control_answer(struct control_peer *c, const char *json)
{
	size_t before = c->p.out.n;
	buf_addz(&c->p.out, "{\"ok\":true,\"data\":");
	admin_json_one_line(&c->p.out, json);
	buf_addz(&c->p.out, "}\n");
	if (c->p.out.failed) {
		c->p.out.failed = false;
		c->p.out.n = before;
		control_answer_error(c, "the answer is too large", "ask for fewer rows with --limit");
		return;
	}
	control_answered(c);
}

void control_answer_error(struct control_peer *c, const char *error, const char *hint)
{
	buf_addz(&c->p.out, "{\"ok\":false,\"error\":");
	admin_json_stringz(&c->p.out, error);
	buf_addz(&c->p.out, ",\"hint\":");
	admin_json_stringz(&c->p.out, hint);
	buf_addz(&c->p.out, "}\n");
	if (c->p.out.failed)
		admin_peer_close(&c->p);
	control_answered(c);
}

static void on_input(struct admin_peer *p)
{
	struct control_peer *c = (struct control_peer *)p;
	if (!c->busy)
		control_go(c);
}

static void on_eof(struct admin_peer *p)
{
	struct control_peer *c = (struct control_peer *)p;
	if (!c->busy)
		control_go(c);
}

static void on_drained(struct admin_peer *p)
{
	struct control_peer *c = (struct control_peer *)p;
	if (c->busy)
		control_cmd_drained(c);
	else
		control_go(c);
}

static void on_expired(struct admin_peer *p)
{
	struct control_peer *c = (struct control_peer *)p;
	if (c->busy) {
		control_cmd_expired(c);
		control_go(c);
	} else {
		admin_peer_close(p);
	}
}

static void on_release(struct admin_peer *p)
{
	struct control_peer *c = (struct control_peer *)p;
	control_request_done(&c->req);
	free(c);
}

static void on_accept(void *arg, int fd, const struct net_addr *unused)
{
	static const struct admin_peer_calls calls = {
		.input = on_input,
		.eof = on_eof,
		.drained = on_drained,
		.expired = on_expired,
		.release = on_release,
	};
	struct admin *a = arg;
	struct ucred who;
	socklen_t n = sizeof who;
	(void)unused;
	if (a->control_peers >= ADMIN_CONTROL_MAX || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n)) {
		close(fd);
		return;
	}
	struct control_peer *c = calloc(1, sizeof *c);
	bool trusted = is_trusted(a, fd, &who);
	if (!c || admin_peer_init(&c->p, a, fd, &calls, IN_MAX, CONTROL_ANSWER_MAX, &a->control_peers)) {
		if (!c)
			close(fd);
		free(c);
		return;
	}
	c->uid = who.uid;
	c->pid = who.pid;
	c->trusted = trusted;
	admin_peer_deadline(&c->p, IDLE_MS);
}

/* --- the socket --- */

/* Removes what a killed daemon left. 0: the path is free. -1: a fault was added. */
static int remove_stale(const struct sockaddr_un *sun, struct config_faults *faults)
{
	struct stat st;
	if (lstat(sun->sun_path, &st)) {
		if (errno == ENOENT)
			return 0;
		config_fault_add(faults, "", 0, false, "control socket %s: %s", sun->sun_path, strerror(errno));
		return -1;
	}
	if (!S_ISSOCK(st.st_mode)) {
		config_fault_add(faults, "", 0, false, "control socket %s: something else is in its place", sun->sun_path);
		return -1;
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		config_fault_add(faults, "", 0, false, "control socket: %s", strerror(errno));
		return -1;
	}
	int rc = connect(fd, (const struct sockaddr *)sun, sizeof *sun), e = errno;
	close(fd);
	/* only "refused" says that nobody listens; a full backlog (EAGAIN) is somebody busy */
	if (rc && e == ECONNREFUSED) {
		if (!unlink(sun->sun_path) || errno == ENOENT)
			return 0;
		e = errno;
	} else if (!rc || e == EAGAIN) {
		config_fault_add(faults, "", 0, false, "another pepsid runs on this state folder: it answers at %s",
		    sun->sun_path);
		return -1;
	}
	config_fault_add(faults, "", 0, false, "control socket %s: %s", sun->sun_path, strerror(e));
	return -1;
}

/* Bound with the mode it keeps (Linux takes that of the socket's own inode), then given away: at no moment may a wrong
 * account connect. The folder may be another account's, who could put something else under the name: what is given away is
 * looked at first, through the descriptor that is used for it. */
static int bind_socket(struct admin *a, const struct sockaddr_un *sun)
{
	struct stat st;
	if (fchmod(a->control_fd, a->owner_gid == NOGROUP ? 0600 : 0660))
		return -1;
	mode_t before = umask(0);
	int rc = bind(a->control_fd, (const struct sockaddr *)sun, sizeof *sun), e = errno;
	umask(before);
	errno = e;
	int fd = rc ? -1 : open(sun->sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		rc = -1;
	} else if (!S_ISSOCK(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid()) {
		errno = EEXIST;
		rc = -1;
	} else if (st.st_uid != a->owner_uid || st.st_gid != a->owner_gid) {
		rc = fchownat(fd, "", a->owner_uid, a->owner_gid, AT_EMPTY_PATH);
	}
	e = errno;
	if (fd >= 0)
		close(fd);
	errno = e;
	if (rc)
		return -1;
	a->control_dev = st.st_dev;
	a->control_ino = st.st_ino;
	return listen(a->control_fd, BACKLOG);
}

int admin_control_bind(struct admin *a, const char *state_dir, struct config_faults *faults)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int n = snprintf(sun.sun_path, sizeof sun.sun_path, "%s/run/control.sock", state_dir);
	if (n < 0 || (size_t)n >= sizeof sun.sun_path) {
		config_fault_add(faults, "", 0, false, "STATE_DIR %s: too long for a control socket (%zu octets at most)",
		    state_dir, sizeof sun.sun_path - sizeof "/run/control.sock");
		return -1;
	}
	if (remove_stale(&sun, faults))
		return -1;
	a->control_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (a->control_fd < 0 || bind_socket(a, &sun)) {
		config_fault_add(faults, "", 0, false, "control socket %s: %s", sun.sun_path, strerror(errno));
		return -1;
	}
	snprintf(a->control_path, sizeof a->control_path, "%s", sun.sun_path);
	return 0;
}

int admin_control_start(struct admin *a)
{
	a->control = net_listener_new(a->base, a->control_fd, on_accept, a);
	return a->control ? 0 : -1;
}

void admin_control_unlink(struct admin *a)
{
	struct stat st;
	/* only our own: a successor may have made its socket already */
	if (a->control_path[0] && !lstat(a->control_path, &st) && st.st_dev == a->control_dev &&
	    st.st_ino == a->control_ino)
		unlink(a->control_path);
}
