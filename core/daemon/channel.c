/* Messages between the spawner and the reactor: fixed size, at most one descriptor each, nothing to parse. */
#include "daemon_internal.h"

#include "base/fds.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STEP_MS = 100 };

int channel_send(int sock, const struct channel_msg *m, int fd, int patience_ms)
{
	union fds_room ctl;
	struct iovec v = { (void *)(uintptr_t)m, sizeof *m };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1 };
	fds_attach_one(&h, &ctl, fd);
	for (;;) {
		ssize_t n = sendmsg(sock, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n == (ssize_t)sizeof *m)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
			/* for ever by default; the other side may be waiting for us, so one of the two must not */
			struct pollfd p = { .fd = sock, .events = POLLOUT };
			if (patience_ms >= 0 && (patience_ms -= STEP_MS) < 0) {
				errno = ETIMEDOUT;
				return -1;
			}
			poll(&p, 1, STEP_MS);
			continue;
		}
		return -1;
	}
}

int channel_recv(int sock, struct channel_msg *ret, int *ret_fd)
{
	union fds_room ctl;
	struct iovec v = { ret, sizeof *ret };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1 };
	*ret_fd = -1;
	for (;;) {
		fds_expect(&h, &ctl);
		ssize_t n = recvmsg(sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n != (ssize_t)sizeof *ret)
			return -1;
		break;
	}
	*ret_fd = fds_take_one(&h);
	ret->stage[sizeof ret->stage - 1] = 0;
	return 1;
}

int channel_memfd(const char *name, struct str s)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	for (size_t at = 0; at < s.n;) {
		ssize_t n = write(fd, s.p + at, s.n - at);
		if (n <= 0) {
			close(fd);
			return -1;
		}
		at += (size_t)n;
	}
	return fd;
}

int channel_slurp(int fd, struct buf *out)
{
	off_t at = 0;
	for (;;) {
		char beyond;
		size_t left = out->max - out->n, want = left < 65536 ? left : 65536;
		char *room = want ? buf_room(out, want) : &beyond;
		if (!room)
			return -1;
		ssize_t n = pread(fd, room, want ? want : 1, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return (int)n;
		if (!want)
			return -1; /* more than the limit */
		out->n += (size_t)n;
		out->p[out->n] = 0; /* buf_room() leaves room for it: what was read may be used as text */
		at += n;
	}
}
