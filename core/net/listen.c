/* Binding: sockets that listen, made while the process may still do so, or taken over from another. Accepts nothing. */
#include "listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int to_sockaddr(const char *host, uint16_t port, struct sockaddr_storage *ss, socklen_t *n)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	memset(ss, 0, sizeof *ss);
	if (inet_pton(AF_INET, host, &in.sin_addr) == 1) {
		memcpy(ss, &in, sizeof in);
		*n = sizeof in;
		return 0;
	}
	if (inet_pton(AF_INET6, host, &in6.sin6_addr) == 1) {
		memcpy(ss, &in6, sizeof in6);
		*n = sizeof in6;
		return 0;
	}
	return -1;
}

int net_listen(const char *host, uint16_t port, char *err, size_t err_size)
{
	struct sockaddr_storage ss;
	socklen_t n;
	const int one = 1;
	const char *what;
	if (to_sockaddr(host, port, &ss, &n)) {
		snprintf(err, err_size, "\"%s\" is no numeric IPv4 or IPv6 address", host);
		return -1;
	}
	int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		snprintf(err, err_size, "socket: %s", strerror(errno));
		return -1;
	}
	if (what = "SO_REUSEADDR", setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one))
		goto fail;
	if (what = "TCP_NODELAY", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
		goto fail;
	if (what = "IPV6_V6ONLY",
	    ss.ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one))
		goto fail;
	if (what = "bind", bind(fd, (struct sockaddr *)&ss, n))
		goto fail;
	if (what = "listen", listen(fd, NET_BACKLOG))
		goto fail;
	return fd;
fail:
	snprintf(err, err_size, "%s: %s", what, strerror(errno));
	close(fd);
	return -1;
}

/* Could somebody but root and us put another socket in the place of ours? */
static int check_folder(const char *path, char *err, size_t err_size)
{
	struct stat st;
	char dir[sizeof((struct sockaddr_un *)0)->sun_path];
	const char *slash = strrchr(path, '/');
	snprintf(dir, sizeof dir, "%.*s", (int)(slash == path ? 1 : slash - path), path);
	if (stat(dir, &st)) {
		snprintf(err, err_size, "folder %s: %s", dir, strerror(errno));
		return -1;
	}
	if (!S_ISDIR(st.st_mode) || (st.st_uid != 0 && st.st_uid != geteuid())) {
		snprintf(err, err_size, "folder %s belongs to uid %u, who could put another socket there", dir, (unsigned)st.st_uid);
		return -1;
	}
	if (st.st_mode & (S_IWGRP | S_IWOTH) && !(st.st_mode & S_ISVTX)) {
		snprintf(err, err_size, "folder %s may be written to by others, who could put another socket there", dir);
		return -1;
	}
	return 0;
}

/* Removes a socket that nobody listens on. 0: the way is free. */
static int clear_stale(const struct sockaddr_un *un, socklen_t n, char *err, size_t err_size)
{
	struct stat st;
	if (lstat(un->sun_path, &st)) {
		if (errno == ENOENT)
			return 0;
		snprintf(err, err_size, "%s", strerror(errno));
		return -1;
	}
	if (!S_ISSOCK(st.st_mode)) {
		snprintf(err, err_size, "something that is no socket lies there");
		return -1;
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int r = fd < 0 ? -1 : connect(fd, (const struct sockaddr *)un, n), why = errno;
	if (fd >= 0)
		close(fd);
	if (r == 0 || why != ECONNREFUSED) {
		snprintf(err, err_size, r == 0 || why == EAGAIN ? "another process listens there" : "the socket that lies there: %s",
		    strerror(why));
		return -1;
	}
	if (unlink(un->sun_path)) {
		snprintf(err, err_size, "the stale socket cannot be removed: %s", strerror(errno));
		return -1;
	}
	return 0;
}

int net_listen_unix(const char *path, mode_t mode, gid_t gid, char *err, size_t err_size)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const char *what;
	if (path[0] != '/' || strlen(path) >= sizeof un.sun_path) {
		snprintf(err, err_size, path[0] != '/' ? "the path of a socket begins with /" : "the path is too long for a socket");
		return -1;
	}
	memcpy(un.sun_path, path, strlen(path) + 1);
	if (check_folder(path, err, err_size) || clear_stale(&un, sizeof un, err, err_size))
		return -1;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (what = "socket", fd < 0)
		goto fail;
	/* the descriptor's mode is what the file is made with: no moment at which it is open to more */
	if (what = "mode", fchmod(fd, mode & 0777))
		goto fail;
	mode_t mask = umask(0);
	int r = bind(fd, (struct sockaddr *)&un, sizeof un);
	umask(mask);
	if (what = "bind", r)
		goto fail;
	if (what = "group", gid != (gid_t)-1 && lchown(path, (uid_t)-1, gid))
		goto fail;
	if (what = "listen", listen(fd, NET_BACKLOG))
		goto fail;
	return fd;
fail:
	snprintf(err, err_size, "%s: %s", what, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

int net_listen_adopt(int fd, char *err, size_t err_size)
{
	int type = 0, listens = 0, flags;
	socklen_t n = sizeof type;
	const char *why = NULL;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n))
		why = "it is no socket";
	else if (type != SOCK_STREAM)
		why = "it is no stream socket";
	else if (n = sizeof listens, getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) || !listens)
		why = "it does not listen (Accept=yes?)";
	else if ((flags = fcntl(fd, F_GETFL)) < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC))
		why = strerror(errno);
	if (!why)
		return 0;
	snprintf(err, err_size, "%s", why);
	return -1;
}

void net_local_addr(int fd, struct net_addr *ret)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t n = sizeof ss;
	if (getsockname(fd, (struct sockaddr *)&ss, &n))
		n = 0;
	net_addr_from(ret, (struct sockaddr *)&ss, n);
}

uint16_t net_listen_port(int fd)
{
	struct net_addr a;
	net_local_addr(fd, &a);
	return a.port;
}
