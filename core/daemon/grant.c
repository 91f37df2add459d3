/* What a reload needs more rights for than the reactor has kept: binding port 25, reading a private key. A short-lived child of
 * the spawner, which still has them, opens exactly what the configuration names, passes it to the reactor, and ends. So no key
 * is ever in the spawner, and the reactor cannot ask for anything: the list comes from the configuration file, not from it. */
#include "daemon_internal.h"

#include "base/fds.h"
#include "base/log.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	KEY_MAX = 4096,
	GRANTS_MAX = 1024,
	SOCKETS_PER_WORD = 32,
	CHILD_S = 20,       /* then it ends, whatever it waits for */
	PATIENCE_S = 15,    /* then the reload goes on with what has come */
};

enum grant_kind { GRANT_SOCKET = 1, GRANT_FILE, GRANT_NO, GRANT_END };

/* Fixed size, one descriptor with SOCKET and FILE. */
struct grant_msg {
	uint32_t kind;
	char key[KEY_MAX]; /* the word of BIND, the path of the file */
	char text[256];    /* NO: why */
};

/* ---- the child */

struct giver {
	int sock;
	struct ingress_supply supply;
	char **files;      /* given already: several sections may name the same */
	size_t n_files;
};

static void give(const struct giver *g, enum grant_kind kind, struct str key, int fd, const char *text)
{
	union fds_room ctl;
	static struct grant_msg m;
	struct iovec v = { &m, sizeof m };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1 };
	memset(&m, 0, sizeof m);
	m.kind = kind;
	snprintf(m.key, sizeof m.key, "%.*s", STR_ARG(key));
	snprintf(m.text, sizeof m.text, "%s", text);
	fds_attach_one(&h, &ctl, fd);
	while (sendmsg(g->sock, &h, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			_exit(1); /* the reactor is gone */
}

static void give_sockets(void *arg, const struct ingress_bind *b)
{
	struct giver *g = arg;
	int fd[SOCKETS_PER_WORD];
	char err[256] = "";
	int n = g->supply.sockets(g->supply.arg, b, fd, SOCKETS_PER_WORD, err, sizeof err);
	for (int i = 0; i < n; i++) {
		give(g, GRANT_SOCKET, b->word, fd[i], "");
		close(fd[i]);
	}
	if (n <= 0) /* in use by the reactor itself, most of the time: it knows which it has */
		give(g, GRANT_NO, b->word, -1, err);
}

static void give_file(void *arg, const char *path)
{
	struct giver *g = arg;
	struct buf text = BUF_INIT(INGRESS_PEM_MAX + 16384);
	char err[256] = "";
	for (size_t i = 0; i < g->n_files; i++)
		if (strcmp(g->files[i], path) == 0)
			return;
	char **more = realloc(g->files, (g->n_files + 1) * sizeof *more), *copy = strdup(path);
	if (!more || !copy)
		_exit(1);
	g->files = more;
	g->files[g->n_files++] = copy;
	int fd = g->supply.file(g->supply.arg, path, &text, err, sizeof err) ? -1 : channel_memfd("pepsi-pem", buf_str(&text));
	if (fd >= 0)
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	give(g, fd >= 0 ? GRANT_FILE : GRANT_NO, str_from(path), fd, err);
	if (fd >= 0)
		close(fd);
	buf_free_secret(&text);
}

static void child(const struct boot *b, struct str blob, int sock)
{
	struct rlimit none = { 0, 0 };
	struct giver g = { .sock = sock, .supply = ingress_supply_direct(&b->inherited) };
	struct config_faults *faults = config_faults_new();
	const char *section;
	prctl(PR_SET_NAME, "pepsi-grant", 0, 0, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	setrlimit(RLIMIT_CORE, &none); /* it holds keys */
	alarm(CHILD_S);
	log_setup((enum log_level)b->log_level, "grant");
	struct config *c = config_thaw(blob);
	if (!c || !faults)
		_exit(1);
	for (size_t i = 0; (section = config_section(c, i)); i++) {
		if (!ingress_is_listener(section))
			continue;
		ingress_files(c, section, give_file, &g);
		ingress_binds(c, section, give_sockets, &g, faults);
	}
	give(&g, GRANT_END, STR_NULL, -1, "");
	_exit(0);
}

int grant_start(const struct boot *b, struct str blob)
{
	int sv[2];
	pid_t parent = getpid();
	sigset_t none;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		sigemptyset(&none);
		signal(SIGINT, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		signal(SIGPIPE, SIG_IGN);
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || dup2(sv[1], 3) < 0)
			_exit(1);
		close_range(INHERITED_FIRST + (unsigned)b->inherited.n, ~0u, 0);
		sigprocmask(SIG_SETMASK, &none, NULL);
		child(b, blob, 3);
	}
	close(sv[1]);
	if (pid > 0)
		return sv[0];
	close(sv[0]);
	return -1;
}

/* ---- the reactor's side */

struct grant {
	enum grant_kind kind;
	int fd;
	char *key, *text;
};

struct grants {
	int sock;
	struct event *ev, *late;
	void (*done)(void *arg);
	void *arg;
	size_t n;
	struct grant of[GRANTS_MAX];
};

static void finish(struct grants *g)
{
	event_del(g->ev);
	event_del(g->late);
	g->done(g->arg);
}

/* 1: one came; 0: nothing now; -1: the end. */
static int take(struct grants *g)
{
	static struct grant_msg m;
	union fds_room ctl;
	struct iovec v = { &m, sizeof m };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1 };
	fds_expect(&h, &ctl);
	ssize_t n = recvmsg(g->sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	int fd = n > 0 ? fds_take_one(&h) : -1;
	m.key[sizeof m.key - 1] = m.text[sizeof m.text - 1] = 0;
	char *key = n == (ssize_t)sizeof m && m.kind != GRANT_END && g->n < GRANTS_MAX ? strdup(m.key) : NULL;
	char *text = key ? strdup(m.text) : NULL;
	if (!text || (fd < 0 && m.kind != GRANT_NO)) {
		if (fd >= 0)
			close(fd);
		free(key);
		free(text);
		return -1;
	}
	g->of[g->n++] = (struct grant){ (enum grant_kind)m.kind, fd, key, text };
	return 1;
}

static void on_grant(evutil_socket_t fd, short what, void *arg)
{
	struct grants *g = arg;
	int r = 0;
	(void)fd;
	(void)what;
	for (unsigned i = 0; i < 64 && (r = take(g)) > 0; i++)
		;
	if (r < 0)
		finish(g);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	log_error(NULL, "event=grants-late hint=\"the reload goes on with what has come\"");
	finish(arg);
}

struct grants *grants_new(struct event_base *base, int sock, void (*done)(void *arg), void *arg)
{
	struct timeval patience = { PATIENCE_S, 0 };
	struct grants *g = calloc(1, sizeof *g);
	if (!g) {
		close(sock);
		return NULL;
	}
	g->sock = sock;
	g->done = done;
	g->arg = arg;
	g->ev = event_new(base, sock, EV_READ | EV_PERSIST, on_grant, g);
	g->late = evtimer_new(base, on_late, g);
	if (!g->ev || !g->late || event_add(g->ev, NULL) || evtimer_add(g->late, &patience)) {
		grants_free(g);
		return NULL;
	}
	return g;
}

void grants_release(struct grants *g)
{
	for (size_t i = 0; i < g->n; i++) {
		if (g->of[i].fd >= 0)
			close(g->of[i].fd);
		g->of[i].fd = -1;
	}
}

void grants_free(struct grants *g)
{
	if (!g)
		return;
	grants_release(g);
	for (size_t i = 0; i < g->n; i++) {
		free(g->of[i].key);
		free(g->of[i].text);
	}
	if (g->ev)
		event_free(g->ev);
	if (g->late)
		event_free(g->late);
	close(g->sock);
	free(g);
}

static int granted_sockets(void *arg, const struct ingress_bind *b, int *ret_fd, size_t max, char *err, size_t err_size)
{
	struct grants *g = arg;
	size_t n = 0;
	snprintf(err, err_size, "the process that opens sockets for a reload did not");
	for (size_t i = 0; i < g->n; i++) {
		struct grant *one = &g->of[i];
		if (one->kind == GRANT_FILE || !str_eq(str_from(one->key), b->word))
			continue;
		if (one->kind == GRANT_NO) {
			snprintf(err, err_size, "%s", one->text);
		} else if (one->fd >= 0 && n < max) {
			ret_fd[n++] = one->fd;
			one->fd = -1;
		}
	}
	return n ? (int)n : -1;
}

static int granted_file(void *arg, const char *path, struct buf *out, char *err, size_t err_size)
{
	struct grants *g = arg;
	for (size_t i = 0; i < g->n; i++) {
		const struct grant *one = &g->of[i];
		if (one->kind == GRANT_SOCKET || strcmp(one->key, path) != 0)
			continue;
		if (one->kind == GRANT_FILE && channel_slurp(one->fd, out) == 0)
			return 0;
		snprintf(err, err_size, "%s", one->kind == GRANT_NO ? one->text : "the file did not arrive whole");
		return -1;
	}
	snprintf(err, err_size, "%s: the process that reads files for a reload did not", path);
	return -1;
}

struct ingress_supply grants_supply(struct grants *g)
{
	return (struct ingress_supply){ g, granted_sockets, granted_file };
}
